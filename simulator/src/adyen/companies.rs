//! Whose API key may do what: <https://docs.adyen.com/development-resources/api-credentials>
//!
//! A merchant account such as `Acme_Berlin` is one of the company account `Acme`; one without an underscore is the demo's company's. A key such as
//! `AQE.Acme_Berlin+Acme_Paris.1` has roles for these merchant accounts alone, and is refused (403 `901`) for any other; any other key is of the
//! demo's company, and refused for the merchant accounts of others. A key that says `revoked` is known to nobody (401). Idempotency keys are a
//! company's.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adyen::errors::{self, Fallible};
use crate::failure::{Failure, Outcome};
use crate::http::Request;
use crate::provider::{Call, Endpoint};
use crate::store::Store;

/// The company of a merchant account; empty for the demo's.
pub fn company(merchant_account: &str) -> &str {
    merchant_account.split_once('_').map_or("", |(company, _)| company)
}

/// Whether a request is signed with a key that anybody has. The header is looked at and forgotten.
pub fn check_api_key(request: &Request) -> Fallible<()> {
    match api_key(request) {
        key if key.trim().is_empty() || key.contains("revoked") => Err(errors::unauthorised().into()),
        _ => Ok(()),
    }
}

/// Whether that key has roles for the merchant account that the body names.
pub fn check_merchant_account(request: &Request, body: &Value) -> Fallible<()> {
    match body.get("merchantAccount").and_then(Value::as_str) {
        Some(named) => check_roles(request, named),
        None => Ok(()),
    }
}

/// Whether that key has roles for a merchant account.
pub fn check_roles(request: &Request, named: &str) -> Fallible<()> {
    let is_let_in = match api_key(request).strip_prefix("AQE.").and_then(|rest| rest.split('.').next()) {
        Some(own) => own.split('+').any(|own| own == named),
        None => company(named).is_empty(),
    };
    if is_let_in { Ok(()) } else { Err(errors::invalid_merchant_account().into()) }
}

fn api_key(request: &Request) -> &str {
    request.header("x-api-key").unwrap_or_default()
}

/// `POST /_sim/adyen/webhook`: where what happens in a merchant account is told, as its Customer Area has it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Webhook {
    merchant_account: String,
    /// Below the merchant's origin.
    path: String,
    /// In hexadecimal.
    hmac_key: String,
    /// `user:password`, in base64.
    #[serde(default)]
    basic: Option<String>,
}

fn setting(merchant_account: &str) -> String {
    format!("adyen_webhook:{merchant_account}")
}

/// Sets it up.
pub fn set_webhook(call: &mut Call, body: &Value) -> Outcome<Value> {
    let webhook: Webhook = serde_json::from_value(body.clone())
        .map_err(|error| Failure { status: 400, message: format!("the body is not understood: {error}") })?;
    call.store.set_setting(&setting(&webhook.merchant_account), serde_json::to_string(&webhook)?)?;
    Ok(json!({ "merchant_account": webhook.merchant_account, "path": webhook.path }))
}

/// Where an item is sent; `None` where nothing was set up for its merchant account.
pub fn endpoint(store: &dyn Store, item: &Value) -> Outcome<Option<Endpoint>> {
    let merchant_account = item.get("merchantAccountCode").and_then(Value::as_str).unwrap_or_default();
    let Some(known) = store.setting(&setting(merchant_account))? else { return Ok(None) };
    let webhook: Webhook = serde_json::from_str(&known)?;
    let authorization = webhook.basic.map(|basic| ("Authorization", format!("Basic {basic}")));
    Ok(Some(Endpoint { path: webhook.path, secret: webhook.hmac_key, authorization }))
}
