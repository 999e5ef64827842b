//! The kinds of Adyen's objects.

use strum::{EnumString, IntoStaticStr};

use crate::store;

/// What kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
pub enum Kind {
    /// By its `pspReference`.
    #[strum(serialize = "adyen_payment")]
    Payment,
    /// A capture, cancel or refund, by its own `pspReference`.
    #[strum(serialize = "adyen_modification")]
    Modification,
    /// What is sent as a webhook.
    #[strum(serialize = "adyen_notification")]
    Notification,
}

impl From<Kind> for store::Kind {
    fn from(kind: Kind) -> Self {
        store::Kind(kind.into())
    }
}
