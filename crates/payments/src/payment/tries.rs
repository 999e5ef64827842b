//! The tries of a payment, one row each: where it was made, under which key, and how it ended.

use serde::{Deserialize, Serialize};

use crate::payment::dispute::Dispute;
use crate::payment::money::{AmountMinor, Currency};
use crate::payment::provider::Provider;
use crate::payment::{Payment, RefundElsewhere};
use once::skip::is_false;

/// A try to pay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Try {
    /// Its number, from 1.
    pub attempt: u32,
    /// Where it was made.
    pub provider: Provider,
    /// The merchant's account there: Adyen's merchant account, or a connected account at Stripe.
    pub merchant_account: Option<String>,
    /// The provider's id of it, once it has said one.
    pub provider_payment: Option<String>,
    /// The idempotency key of the call that made it.
    #[serde(rename = "derived_key")]
    pub provider_key: String,
    /// What was to be paid.
    pub amount: AmountMinor,
    /// In which currency.
    pub currency: Currency,
    /// Whether the money was to be taken at once.
    pub capture: bool,
    /// The status that it had last.
    pub status: String,
    /// Whether the provider has said how it ended; else that is inferred. `None` while it has not.
    pub definitive: Option<bool>,
    /// It was once reserved or taken, as we know.
    pub was_authorized: bool,
    /// When it ended, by the provider's clock, in ms since the epoch.
    pub ended_at_ms: Option<u64>,
    /// The event that has told of it since it was over: the provider is asked until it answers.
    pub asked_for: Option<String>,
    /// The money that was found on it after it was over.
    pub late: Option<LateMoney>,
    /// What a bank wants back of it.
    #[serde(default)]
    pub dispute: Option<Dispute>,
}

/// Money on a try that was over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LateMoney {
    /// How much, in minor units.
    pub amount_minor: u64,
    /// It was taken; else it was only held.
    pub captured: bool,
    /// How giving it back stands here, whatever others have given back: see [`stage`](Self::stage).
    #[serde(rename = "stage")]
    pub own: Stage,
    /// When the provider had taken over giving it back, in ms since the epoch. What was taken over before that was noted has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_at_ms: Option<u64>,
    /// A person was told that it is not given back. What was refused before that was noted is told of once more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_told: bool,
    /// The provider's id of the capture that was told of, where it tells of captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// The refunds of it that the provider has told of and that were not made here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<RefundElsewhere>,
}

impl LateMoney {
    /// Money of which nobody was told that it is not given back.
    pub const fn new(amount_minor: u64, captured: bool, own: Stage) -> Self {
        let elsewhere = Vec::new();
        Self { amount_minor, captured, own, received_at_ms: None, is_told: false, capture: None, elsewhere }
    }

    /// How giving it back stands, by whomever.
    pub fn stage(&self) -> Stage {
        if self.is_back_elsewhere() { Stage::GivenBack } else { self.own }
    }

    /// Whether others have given back all of it.
    pub(crate) fn is_back_elsewhere(&self) -> bool {
        RefundElsewhere::sum_minor(&self.elsewhere) >= self.amount_minor
    }
}

/// How giving money back stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It was begun.
    Begun,
    /// The provider has taken it over, and tells later how it ended.
    Received,
    /// Nothing is held or taken any more.
    GivenBack,
    /// The provider has refused it, or does not tell how it ended: a person must look.
    Refused,
}

impl Stage {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun | Self::Received => "pending",
            Self::GivenBack => "given_back",
            Self::Refused => "refused",
        }
    }
}

/// The state of an order, as a problem names it, while money of a try that was over is being given back.
pub const GIVING_BACK: &str = "giving_back";
/// The same where the provider has refused that, or does not tell how it ended.
pub const NOT_GIVEN_BACK: &str = "not_given_back";

/// How giving back stands that is not done, of all tries the worst. While there is such money the order is not charged again.
pub fn not_given_back(tries: &[Try]) -> Option<Stage> {
    let stages = tries.iter().filter_map(|row| Some(row.late.as_ref()?.stage()));
    stages.filter(|stage| *stage != Stage::GivenBack).max()
}

impl Try {
    /// What gives its money back is sent as for this payment.
    pub fn stand_in(&self, payment: &Payment) -> Payment {
        Payment {
            provider: self.provider,
            merchant_account: self.merchant_account.clone(),
            provider_payment: self.provider_payment.clone(),
            amount: self.amount,
            currency: self.currency,
            ..payment.clone()
        }
    }
}
