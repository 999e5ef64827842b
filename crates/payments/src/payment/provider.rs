//! Which providers there are, and what is different between them as far as a payment is concerned.

use serde::{Deserialize, Serialize};

/// Where a call goes. Written down with the call: a retry never moves to another provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// [Stripe](https://docs.stripe.com/api).
    Stripe,
    /// [Adyen](https://docs.adyen.com/api-explorer/Checkout/latest/overview).
    Adyen,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Stripe, Self::Adyen];

    /// The name as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stripe => "stripe",
            Self::Adyen => "adyen",
        }
    }

    /// From the stored name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text)
    }

    /// Whether a payment that was declined can still be paid there until it is canceled.
    pub(crate) const fn declined_stays_open(self) -> bool {
        matches!(self, Self::Stripe)
    }

    /// Whether the provider can be asked how a payment or a refund stands. Adyen says so by webhooks only.
    pub const fn answers_questions(self) -> bool {
        matches!(self, Self::Stripe)
    }
}
