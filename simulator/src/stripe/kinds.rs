//! The kinds of Stripe's objects.

use strum::{EnumIter, EnumString, IntoStaticStr};

use crate::store;

/// What kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// `pi_…`
    PaymentIntent,
    /// `ch_…`
    Charge,
    /// `re_…`
    Refund,
    /// `cus_…`
    Customer,
    /// `pm_…`
    PaymentMethod,
    /// `evt_…`
    Event,
    /// `txn_…`
    BalanceTransaction,
    /// `du_…`
    Dispute,
    /// What an object does not show: no API gives it.
    Unshown,
}

impl Kind {
    /// The name in "No such …" messages.
    pub fn noun(self) -> &'static str {
        match self {
            Kind::PaymentMethod => "PaymentMethod",
            other => other.into(),
        }
    }

    /// What ids begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::PaymentIntent => "pi_",
            Kind::Charge => "ch_",
            Kind::Refund => "re_",
            Kind::Customer => "cus_",
            Kind::PaymentMethod => "pm_",
            Kind::Event => "evt_",
            Kind::BalanceTransaction => "txn_",
            Kind::Dispute => "du_",
            Kind::Unshown => "unshown_",
        }
    }
}

impl From<Kind> for store::Kind {
    fn from(kind: Kind) -> Self {
        store::Kind(kind.into())
    }
}
