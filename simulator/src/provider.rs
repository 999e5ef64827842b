//! The two providers that are simulated, and what about them is not common.

use serde::{Deserialize, Serialize};

/// Whose API a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Under `/v1/`.
    Stripe,
    /// Under `/adyen/`.
    Adyen,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl Provider {
    /// Both.
    pub const ALL: [Provider; 2] = [Provider::Stripe, Provider::Adyen];

    /// The provider whose API a path belongs to; `None` for the control surface.
    pub fn of_path(path: &str) -> Option<Self> {
        if path.starts_with("/v1/") {
            Some(Provider::Stripe)
        } else if path.starts_with("/adyen/") {
            Some(Provider::Adyen)
        } else {
            None
        }
    }

    /// As it stands in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Stripe => "stripe",
            Provider::Adyen => "adyen",
        }
    }

    /// How long a key is kept at least, and here exactly.
    pub fn keeps_keys_for_ms(self) -> i64 {
        match self {
            Provider::Stripe => DAY_MS,
            Provider::Adyen => 7 * DAY_MS,
        }
    }

    /// The longest key, in characters.
    pub fn max_key_chars(self) -> usize {
        match self {
            Provider::Stripe => 255,
            Provider::Adyen => 64,
        }
    }
}
