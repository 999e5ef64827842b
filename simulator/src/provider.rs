//! The providers that are simulated, and what about them is not common.

use serde::{Deserialize, Serialize};

/// Whose API a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Under `/v1/`.
    Stripe,
    /// Under `/adyen/`.
    Adyen,
    /// Under `/resend/`.
    Resend,
    /// Under `/sms/`: text messages.
    Sms,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl Provider {
    /// Those that know idempotency keys: all but the text messages.
    pub const WITH_KEYS: [Provider; 3] = [Provider::Stripe, Provider::Adyen, Provider::Resend];

    /// The provider whose API a path belongs to; `None` for the control surface.
    pub fn of_path(path: &str) -> Option<Self> {
        if path.starts_with("/v1/") {
            Some(Provider::Stripe)
        } else if path.starts_with("/adyen/") {
            Some(Provider::Adyen)
        } else if path.starts_with("/resend/") {
            Some(Provider::Resend)
        } else if path.starts_with("/sms/") {
            Some(Provider::Sms)
        } else {
            None
        }
    }

    /// As it stands in the ledger and in the request log.
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Stripe => "stripe",
            Provider::Adyen => "adyen",
            Provider::Resend => "resend",
            Provider::Sms => "sms",
        }
    }

    /// How long a key is kept at least, and here exactly; 0 where none is.
    pub fn keeps_keys_for_ms(self) -> i64 {
        match self {
            Provider::Stripe | Provider::Resend => DAY_MS,
            Provider::Adyen => 7 * DAY_MS,
            Provider::Sms => 0,
        }
    }

    /// The longest key, in characters.
    pub fn max_key_chars(self) -> usize {
        match self {
            Provider::Stripe => 255,
            Provider::Adyen => 64,
            Provider::Resend => 256,
            Provider::Sms => 0,
        }
    }
}
