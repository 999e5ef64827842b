//! The account that a request acts for: <https://docs.stripe.com/api/accounts>. Which one that is, `auth` says.

use serde_json::{Value, json};

use crate::provider::Call;
use crate::stripe::errors::{Outcome, no_access};
use crate::stripe::params::Params;

/// `GET /v1/account` and `GET /v1/accounts/{id}`
pub fn retrieve(call: &mut Call, id: Option<&str>, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    if id.is_some_and(|id| id != call.account) {
        return Err(no_access());
    }
    Ok(json!({
        "id": call.account,
        "object": "account",
        "business_profile": null,
        "business_type": null,
        "capabilities": { "card_payments": "active", "transfers": "active" },
        "charges_enabled": true,
        "country": "US",
        "default_currency": "usd",
        "details_submitted": true,
        "email": null,
        "metadata": {},
        "payouts_enabled": true,
        "settings": null,
        "type": "standard",
    }))
}
