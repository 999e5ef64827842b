//! Whether what an operator names is what a call has made: Stripe is asked for it by its id, and it must agree.

use serde::Deserialize;

use super::answers::{Meaning, asked, read_success, reply};
use super::customers::read_changed;
use super::look_up::{from_s, read_moved};
use super::objects::{Metadata, RefundedIntent, id, or_none};
use crate::engine::{LookUp, ProviderCall, ProviderReply};
use crate::payment::result::CallKind;
use crate::providers::codec::{HttpAnswer, is_plain};
use once::call::FrozenRequest;

/// The longest id, in characters.
const ID_MAX_LEN: usize = 80;

#[derive(Deserialize)]
struct Named {
    id: String,
    #[serde(default)]
    created: Option<u64>,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default, deserialize_with = "id")]
    payment_intent: Option<String>,
    #[serde(default, deserialize_with = "or_none")]
    metadata: Metadata,
}

/// Whether this can be the id of what the call has made.
pub fn check_id(call: &ProviderCall, id: &str) -> Result<(), String> {
    let (prefix, what) = match call.kind {
        CallKind::Refund => ("re_", "a refund"),
        // With a prefix of the account's the id is ours.
        CallKind::CreateCustomer | CallKind::UpdateCustomer => ("", "a customer"),
        CallKind::Authorize | CallKind::Capture | CallKind::Void => ("pi_", "a PaymentIntent"),
    };
    let is_form = id.len() > prefix.len() && id.len() <= ID_MAX_LEN && id.starts_with(prefix) && is_plain(id);
    if !is_form {
        let begins = if prefix.is_empty() { String::new() } else { format!("begins with {prefix} and ") };
        return Err(format!("Stripe’s id of {what} {begins}has letters and digits"));
    }
    match call.kind {
        CallKind::Capture | CallKind::Void | CallKind::UpdateCustomer if intent_of(call) != id => {
            Err(format!("this moves {}, not {id}", intent_of(call)))
        }
        _ => Ok(()),
    }
}

/// The payment that a capture or a void moves, or the customer that is changed.
fn intent_of(call: &ProviderCall) -> &str {
    call.request.path.split('/').nth(3).unwrap_or_default()
}

/// What to ask (with `GET`).
pub fn request(call: &ProviderCall, id: &str) -> FrozenRequest {
    let list = match call.kind {
        CallKind::Refund => "refunds",
        CallKind::CreateCustomer | CallKind::UpdateCustomer => "customers",
        CallKind::Authorize | CallKind::Capture | CallKind::Void => "payment_intents",
    };
    FrozenRequest {
        path: format!("/v1/{list}/{id}"),
        body: String::new(),
        account: call.request.account.clone(),
    }
}

/// The answer that the call would have had. An error says what Stripe shows instead.
pub fn read(call: &ProviderCall, id: &str, answer: &HttpAnswer) -> Result<ProviderReply, String> {
    match answer.status {
        200 => {}
        404 => return Err(format!("Stripe has no {id} in this account")),
        status => return Err(format!("Stripe could not be asked for {id}: it answered {status}")),
    }
    let named: Named = json_text::from_str(&answer.body)
        .map_err(|_| format!("Stripe’s answer about {id} cannot be read"))?;
    is_its(call, id, &named)?;
    match call.kind {
        CallKind::Capture | CallKind::Void => match read_moved(call, answer) {
            LookUp::Found(reply) if reply.result.is_done() => Ok(reply),
            LookUp::Found(_) => Err(format!("Stripe shows that {id} was moved otherwise")),
            LookUp::Unconfirmed(unconfirmed) => Err(unconfirmed.reason),
            _ => Err(format!("Stripe shows {id} as it was before")),
        },
        CallKind::UpdateCustomer => match read_changed(call, answer) {
            Some(LookUp::Found(reply)) if reply.result.is_done() => Ok(reply),
            _ => Err(format!("Stripe shows that {id} was not changed by this")),
        },
        CallKind::Authorize | CallKind::Refund | CallKind::CreateCustomer => {
            match read_success(call, &answer.body) {
                Ok(Meaning::Is(result)) => Ok(reply(answer, result)),
                Ok(Meaning::LeftOpen(_)) => {
                    Err(format!("{id} is open: cancel it at Stripe first, or wait until it is decided"))
                }
                Ok(Meaning::Unconfirmed(unconfirmed)) => Err(unconfirmed.reason),
                Err(_) => Err(format!("Stripe’s answer about {id} cannot be read")),
            }
        }
    }
}

/// Whether it was made by this call, as far as it says.
fn is_its(call: &ProviderCall, id: &str, named: &Named) -> Result<(), String> {
    if named.id != id {
        return Err(format!("Stripe answered with {}", named.id));
    }
    let is_new = matches!(call.kind, CallKind::Authorize | CallKind::Refund | CallKind::CreateCustomer);
    if !is_new {
        return Ok(());
    }
    if let Some(key) = named.metadata.idempotency_key.as_ref().filter(|key| **key != call.provider_key) {
        return Err(format!("{id} was made by another call, with the key {key}"));
    }
    if named.created.is_some_and(|created_s| created_s < from_s(call)) {
        return Err(format!("{id} is older than this call"));
    }
    let body: RefundedIntent = serde_urlencoded::from_str(&call.request.body).unwrap_or_default();
    if call.kind == CallKind::Refund && named.payment_intent.as_ref() != Some(&body.payment_intent) {
        return Err(format!("{id} is not a refund of {}", body.payment_intent));
    }
    let currency = asked(call).currency;
    if currency.is_some() && named.currency != currency {
        return Err(format!("{id} is in another currency"));
    }
    Ok(())
}
