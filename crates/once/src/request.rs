//! What is sent to a provider, as bytes.

use serde::{Deserialize, Serialize};

/// The bytes that are sent. They never change under one derived key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrozenRequest {
    /// The path below the provider's base address.
    pub path: String,
    /// The body, as the provider encodes it. Holds tokens of the provider only, never card data.
    pub body: String,
    /// The account for which it is sent: one that is connected to the secret's (`Stripe-Account`), or one that has a secret of its own. Where
    /// there is none it is that of the configured secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl FrozenRequest {
    /// For the secret's own account.
    pub const fn new(path: String, body: String) -> Self {
        Self { path, body, account: None }
    }

    /// For this account.
    #[must_use]
    pub fn for_account(self, account: Option<&str>) -> Self {
        Self { account: account.map(str::to_owned), ..self }
    }
}
