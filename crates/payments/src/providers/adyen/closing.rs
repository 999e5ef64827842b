//! Closing a call of which Adyen has told nothing: a cancel by our own reference, and what the answer to it says.

use serde::{Deserialize, Serialize};

use super::answers::{asked, no_look_up, parse};
use super::requests::{encode, frozen, provider_key};
use crate::engine::{LookUp, ProviderCall};
use crate::payment::result::CallKind;
use crate::providers::codec::HttpAnswer;
use once::call::{FrozenRequest, Unconfirmed};

/// What a frozen body calls itself, and for whom.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merchant_account: Option<String>,
    reference: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TechnicalCancel {
    #[serde(flatten)]
    named: Named,
    payment_reference: String,
}

/// Calls off a payment: one of which a part only is held, or one whose `pspReference` never came (a *technical cancel*). Either is
/// only received; a notification with the payment's own reference tells how it ended.
/// <https://docs.adyen.com/online-payments/cancel>
pub fn close(call: &ProviderCall) -> Option<FrozenRequest> {
    let named: Named = json_text::from_str(&call.request.body).ok()?;
    let account = call.request.account.as_deref();
    match &call.evidence.provider_id {
        Some(id) if call.evidence.closing.is_some() => {
            Some(frozen(format!("/payments/{id}/cancels"), encode(&named), account))
        }
        None if call.evidence.is_given_up && is_manual(call) => {
            let payment_reference = named.reference.clone();
            let body = encode(&TechnicalCancel { named, payment_reference });
            Some(frozen("/cancels".to_owned(), body, account))
        }
        _ => None,
    }
}

/// Whether a call authorises what is captured later: what was captured cannot be canceled.
fn is_manual(call: &ProviderCall) -> bool {
    let asked = asked(call, None).ok().filter(|_| call.kind == CallKind::Authorize);
    asked.and_then(|asked| asked.additional_data).is_some_and(|data| data.manual_capture == "true")
}

/// The idempotency key of a request that calls a payment off: however often it is sent, it is one.
pub fn close_key(call: &ProviderCall, request: &FrozenRequest) -> String {
    provider_key(&format!("{} {}", call.provider_key, request.path))
}

/// What the answer to calling a payment off says: at most that it was received.
pub fn read_close(call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
    let is_received = answer.status == 201
        && parse::<Received>(answer).is_some_and(|received| received.status == "received");
    if call.evidence.closing.is_some() {
        let state = if is_received { "was asked for" } else { "could not be asked for" };
        return LookUp::Unconfirmed(Unconfirmed {
            provider_id: call.evidence.provider_id.clone(),
            needs_review: true,
            reason: format!("only a part is held, its cancel {state} ({})", answer.status),
        });
    }
    match close(call) {
        Some(_) if is_received => LookUp::Inconclusive {
            from_the_start: true,
            reason: "a technical cancel was asked for: only a webhook tells".to_owned(),
        },
        _ => no_look_up(),
    }
}

#[derive(Deserialize)]
struct Received {
    status: String,
}
