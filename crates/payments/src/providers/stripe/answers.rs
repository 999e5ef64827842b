//! What Stripe's answers to a send mean.

use super::objects::{
    CustomerObject, ErrorBody, ErrorEnvelope, PaymentIntent, RefundObject, RefundedIntent, is_anothers,
    is_key,
};
use crate::engine::{Outcome, ProviderCall, ProviderReply};
use crate::payment::money::AMOUNT_MAX_MINOR;
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::{Failure, RefundState};
use crate::providers::codec::{HttpAnswer, indeterminate, is_plain, not_executed, unknown};
use once::call::{FrozenRequest, RefusalScope, Unconfirmed};
use serde::Deserialize;

/// The code of a card that was declined too often: <https://docs.stripe.com/error-codes#card-decline-rate-limit-exceeded>.
const DECLINED_TOO_OFTEN: &str = "card_decline_rate_limit_exceeded";

/// What a body asks for, as far as an answer is compared with it.
#[derive(Default, Deserialize)]
pub(super) struct Asked {
    pub(super) amount: Option<u64>,
    pub(super) amount_to_capture: Option<u64>,
    pub(super) currency: Option<String>,
    pub(super) capture_method: Option<String>,
    pub(super) payment_method: Option<String>,
    pub(super) return_url: Option<String>,
    #[serde(rename = "metadata[resource]")]
    pub(super) resource: Option<String>,
}

impl Asked {
    /// Whether it is of this currency, however that is written.
    pub(super) fn is_of(&self, currency: Option<&str>) -> bool {
        let asked = self.currency.as_deref();
        asked.zip(currency).map_or(asked == currency, |(asked, said)| asked.eq_ignore_ascii_case(said))
    }
}

pub(super) fn asked(call: &ProviderCall) -> Asked {
    serde_urlencoded::from_str(&call.request.body).unwrap_or_default()
}

/// What an answer to a call means.
///
/// Stripe's rule: `Stripe-Should-Retry` decides where it is present; else 409 and 5xx may be tried again, and nothing
/// else. A 5xx of Stripe's own is *indeterminate*: once it is stored under the key it is all that the key will ever say, and
/// the work may be completed hours later.
pub fn classify(call: &ProviderCall, answer: &HttpAnswer) -> Outcome {
    let envelope = (answer.status >= 400).then(|| json_text::from_str::<ErrorEnvelope>(&answer.body));
    let error = envelope.and_then(Result::ok).map(|envelope| envelope.error);
    let code = error.as_ref().and_then(|error| error.code.as_deref());
    let is_stripes = answer.replayed || error.is_some();
    match answer.status {
        200..=299 => match read_success(call, &answer.body) {
            Ok(Meaning::Is(result)) => Outcome::Definitive(reply(answer, result)),
            Ok(Meaning::LeftOpen(result)) => Outcome::LeftOpen(reply(answer, result)),
            Ok(Meaning::Unconfirmed(unconfirmed)) => Outcome::Unconfirmed(unconfirmed),
            // Mangled on its way: the key gives it again.
            Err(_) => unknown(answer, answer.replayed, "a success that cannot be read"),
        },
        // Not executed, and not stored under the key. In the words of somebody in between it says nothing of other copies.
        // <https://docs.stripe.com/account/approvals>
        400..=403 if code == Some("approval_required") => Outcome::Unconfirmed(Unconfirmed {
            provider_id: None,
            needs_review: true,
            reason: "it waits for an approval at the provider, and is carried out once it has that"
                .to_owned(),
        }),
        // One that is stored says how the first send ended, after it had begun: https://docs.stripe.com/error-low-level
        401 | 403 if answer.replayed => unknown(answer, true, "a stored refusal of our credentials"),
        401 | 403 if is_stripes => {
            not_executed(answer, RefusalScope::Send, "the provider refused our credentials")
        }
        429 => not_executed(answer, RefusalScope::Copy, "rate limited"),
        // An earlier send under this key is at work, or was executed with other parameters: either way money may move.
        409 => unknown(answer, false, "the provider is still working on it"),
        400..=499 if code.is_some_and(is_at_work) => {
            unknown(answer, false, "the provider is still working on it")
        }
        424 if is_stripes => indeterminate(answer, "something that the provider needs has failed"),
        400..=499 if answer.should_retry == Some(true) && !answer.replayed => {
            unknown(answer, false, "refused for the moment")
        }
        400..=499 => classify_refusal(call, answer, error),
        500..=599 if is_stripes => indeterminate(answer, "the provider failed"),
        _ => unknown(answer, false, "not an answer of the provider"),
    }
}

/// Whether an earlier send under the key is at work, whatever the status says.
/// <https://docs.stripe.com/error-codes#idempotency-key-in-use>
fn is_at_work(code: &str) -> bool {
    matches!(code, "idempotency_key_in_use" | "lock_timeout")
}

/// What the object in an answer means for the call that it answers.
pub(super) enum Meaning {
    /// The call has ended so.
    Is(ProviderResult),
    /// It was made and left open. Once it is canceled the call has ended so.
    LeftOpen(ProviderResult),
    /// It has no meaning yet, or none that a program should believe.
    Unconfirmed(Unconfirmed),
}

/// Why an answer is not believed whose id cannot stand in an address.
const NO_ID: &str = "an id that is none of Stripe's";

/// Not what was asked for: a person must look at it.
fn disbelieved(id: &str, reason: &str) -> Meaning {
    Meaning::Unconfirmed(Unconfirmed {
        provider_id: plain_id(id),
        needs_review: true,
        reason: reason.to_owned(),
    })
}

/// The object of another call: its id is nothing that this one has made.
fn anothers(reason: &str) -> Meaning {
    Meaning::Unconfirmed(Unconfirmed { provider_id: None, needs_review: true, reason: reason.to_owned() })
}

/// The id becomes a part of later addresses.
pub(super) fn plain_id(id: &str) -> Option<String> {
    Some(id.to_owned()).filter(|id| is_plain(id))
}

#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) id: String,
}

/// The error is of a body that is nothing of Stripe's.
pub(super) fn read_success(call: &ProviderCall, body: &str) -> Result<Meaning, serde_json::Error> {
    let read = match call.kind {
        CallKind::Refund => json_text::from_str(body).map(|refund| read_refund(call, refund)),
        CallKind::CreateCustomer | CallKind::UpdateCustomer => {
            json_text::from_str(body).map(|customer| read_customer(call, customer))
        }
        _ => json_text::from_str(body).map(|intent| read_intent(call, intent)),
    };
    read.or_else(|_| {
        Ok(disbelieved(&json_text::from_str::<Named>(body)?.id, "the answer lacks what it should say"))
    })
}

fn classify_refusal(call: &ProviderCall, answer: &HttpAnswer, error: Option<ErrorBody>) -> Outcome {
    let Some(error) = error else {
        return unknown(answer, answer.replayed, "a refusal that cannot be read");
    };
    let (is_new, intent) = (call.kind == CallKind::Authorize, error.payment_intent.as_deref());
    if let Some(intent) = intent.filter(|intent| is_new && is_made(intent)) {
        return Outcome::Unconfirmed(Unconfirmed {
            provider_id: plain_id(&intent.id),
            needs_review: false,
            reason: format!("refused, beside a payment that is {} ({})", intent.status, answer.status),
        });
    }
    match error.kind.as_str() {
        "idempotency_error" => unknown(answer, true, "the key was used with other parameters"),
        // The card was declined too often, which Stripe says as if the request were wrong.
        "invalid_request_error" if is_new && error.code.as_deref() == Some(DECLINED_TOO_OFTEN) => {
            refused(answer, declined(error))
        }
        // A card's refusal is the one reason for this status.
        "" if is_new && answer.status == 402 => refused(answer, declined(error)),
        "card_error" if is_new || intent.is_none() => refused(answer, declined(error)),
        "card_error" | "invalid_request_error" => {
            let result = ProviderResult::Rejected {
                code: error.code.unwrap_or_else(|| "provider_rejected".to_owned()),
                message: error.message.unwrap_or_default(),
                found: error.payment_intent.as_deref().and_then(found),
                payment: error.payment_intent.and_then(|intent| plain_id(&intent.id)),
            };
            refused(answer, result)
        }
        _ => unknown(answer, answer.replayed, "a refusal of an unknown kind"),
    }
}

/// A refusal. One that comes from under the key says how the first send ended, and no other can end otherwise.
/// <https://docs.stripe.com/api/idempotent_requests>
fn refused(answer: &HttpAnswer, result: ProviderResult) -> Outcome {
    let reply = reply(answer, result);
    if answer.replayed { Outcome::Stored(reply) } else { Outcome::Definitive(reply) }
}

/// Money was taken or is held, or may be: no refusal says otherwise.
fn is_made(intent: &PaymentIntent) -> bool {
    matches!(intent.status.as_str(), "succeeded" | "requires_capture" | "processing")
}

/// The meaning of a PaymentIntent for the call that it answers.
pub(super) fn read_intent(call: &ProviderCall, intent: PaymentIntent) -> Meaning {
    let is_its = match call.kind {
        CallKind::Capture | CallKind::Void => {
            payment_of(call.kind, &call.request).is_none_or(|id| id == intent.id)
        }
        _ => !is_anothers(&intent.metadata, call),
    };
    if !is_its {
        return anothers("another payment than the one that was asked for");
    }
    if !is_plain(&intent.id) {
        return disbelieved(&intent.id, NO_ID);
    }
    match call.kind {
        CallKind::Authorize => read_new_intent(call, intent),
        CallKind::Capture => match intent.status.as_str() {
            "succeeded" if is_whole(intent.amount_received, asked(call).amount_to_capture) => {
                Meaning::Is(ProviderResult::Captured { amount_minor: minor(asked(call).amount_to_capture) })
            }
            // Others have captured a part before it, and what is taken now is both.
            "succeeded" if is_with_others(call, &intent) => {
                Meaning::Is(ProviderResult::Captured { amount_minor: minor(intent.amount_received) })
            }
            "succeeded" => disbelieved(&intent.id, "the provider captured another amount"),
            // Some methods take their time, and can fail yet. <https://docs.stripe.com/payments/paymentintents/lifecycle>
            "processing" => Meaning::Unconfirmed(Unconfirmed {
                provider_id: plain_id(&intent.id),
                needs_review: false,
                reason: "the provider is still capturing it".to_owned(),
            }),
            _ => disbelieved(&intent.id, "a capture after which the payment is not captured"),
        },
        // Others have captured a part: what was canceled is the rest.
        CallKind::Void if is_ended_in_part(&intent) => Meaning::Is(ProviderResult::Rejected {
            payment: None,
            code: "payment_intent_unexpected_state".to_owned(),
            message: "A part had been captured. The rest is released.".to_owned(),
            found: found(&intent),
        }),
        CallKind::Void if intent.has_lapsed() => Meaning::Is(ProviderResult::Rejected {
            payment: None,
            code: "payment_intent_unexpected_state".to_owned(),
            message: "What was reserved had lapsed.".to_owned(),
            found: Some(RemoteState::Expired),
        }),
        CallKind::Void if intent.status == "canceled" => Meaning::Is(ProviderResult::Voided),
        CallKind::Void => disbelieved(&intent.id, "a cancellation after which the payment is not canceled"),
        CallKind::Refund | CallKind::CreateCustomer | CallKind::UpdateCustomer => {
            disbelieved(&intent.id, "a payment where something else should be")
        }
    }
}

/// Whether this capture was made, by its key, beside a part that others have captured.
fn is_with_others(call: &ProviderCall, intent: &PaymentIntent) -> bool {
    let received = minor(intent.amount_received);
    intent.metadata.capture_key.as_ref() == Some(&call.provider_key)
        && (minor(asked(call).amount_to_capture)..=minor(intent.amount)).contains(&received)
}

/// Whether a part was captured, and nothing is held any more. With whichever status: a payment of several captures can be canceled in between.
/// <https://docs.stripe.com/payments/multicapture>
fn is_ended_in_part(intent: &PaymentIntent) -> bool {
    matches!(intent.status.as_str(), "succeeded" | "canceled")
        && (1..minor(intent.amount)).contains(&minor(intent.amount_received))
}

fn read_new_intent(call: &ProviderCall, intent: PaymentIntent) -> Meaning {
    let asked = asked(call);
    let manual = asked.capture_method.as_deref() == Some("manual");
    if let Some(found) = moved_since(&asked, &intent).filter(|_| manual) {
        return Meaning::Is(ProviderResult::Moved { payment: intent.id, found });
    }
    let is_as_asked = |amount: Option<u64>| {
        is_whole(amount, asked.amount)
            && intent.amount == asked.amount
            && asked.is_of(intent.currency.as_deref())
    };
    match intent.status.as_str() {
        // Nothing but the whole of what was asked for is what was asked for.
        "succeeded" if manual || !is_as_asked(intent.amount_received) => {
            disbelieved(&intent.id, "the provider charged another amount")
        }
        "succeeded" => {
            let card = intent.card();
            Meaning::Is(ProviderResult::Charged { payment: intent.id, card })
        }
        "requires_capture" if !manual || !is_as_asked(intent.amount_capturable) => {
            disbelieved(&intent.id, "the provider reserved something else")
        }
        "requires_capture" => {
            let (capture_before_ms, card) = (intent.capture_before_ms(), intent.card());
            Meaning::Is(ProviderResult::Authorized { payment: intent.id, capture_before_ms, card })
        }
        "processing" => Meaning::Is(ProviderResult::Processing { payment: intent.id }),
        // Where nobody can be led there, it was asked to be declined.
        "requires_action" if bank_page(&intent).is_some() && asked.return_url.is_some() => {
            let url = bank_page(&intent).unwrap_or_default();
            Meaning::Is(ProviderResult::RequiresAction { payment: intent.id, url })
        }
        // The bank has said no; or it can't be paid any more.
        "requires_payment_method" if intent.last_payment_error.is_some() => {
            Meaning::Is(not_completed(intent))
        }
        "canceled" => Meaning::Is(not_completed(intent)),
        // Nobody has said no: what was asked for can still be done, by whoever has its client secret.
        "requires_payment_method" | "requires_action" | "requires_confirmation" => {
            Meaning::LeftOpen(not_completed(intent))
        }
        _ => disbelieved(&intent.id, "a payment in a state that is not known"),
    }
}

/// Whether what was taken or reserved is what was asked for. Stripe always says how much; who stands in for it may not.
fn is_whole(said: Option<u64>, asked: Option<u64>) -> bool {
    said.is_none() || said == asked
}

/// What has become of a reservation that was made as asked, and that others have captured, in whole or in part, or given up.
fn moved_since(asked: &Asked, intent: &PaymentIntent) -> Option<RemoteState> {
    if intent.amount != asked.amount || !asked.is_of(intent.currency.as_deref()) {
        return None;
    }
    let (amount, captured) = (intent.amount?, intent.amount_received.unwrap_or(0));
    match intent.status.as_str() {
        "succeeded" if (1..=amount).contains(&captured) => found(intent),
        // Several captures are permitted, and the rest is still held.
        "requires_capture" if captured > 0 && captured + intent.amount_capturable? <= amount => found(intent),
        "canceled" if intent.was_held() => found(intent),
        _ => None,
    }
}

fn bank_page(intent: &PaymentIntent) -> Option<String> {
    intent.next_action.as_ref()?.redirect_to_url.as_ref()?.url.clone()
}

fn not_completed(intent: PaymentIntent) -> ProviderResult {
    let Failure { code, decline_code, message, .. } = failure(intent.last_payment_error);
    ProviderResult::Declined { payment: Some(intent.id), code, decline_code, message }
}

fn failure(error: Option<ErrorBody>) -> Failure {
    let (code, decline_code, message) =
        error.map(|error| (error.code, error.decline_code, error.message)).unwrap_or_default();
    Failure {
        declined: true,
        code: code.unwrap_or_else(|| "payment_not_completed".to_owned()),
        decline_code,
        message: message.unwrap_or_else(|| "The payment was not completed.".to_owned()),
    }
}

/// What a PaymentIntent says about the payment, whatever it answers. `None` if it says nothing that lasts.
pub(super) fn found(intent: &PaymentIntent) -> Option<RemoteState> {
    Some(match intent.status.as_str() {
        // Without an amount of ours nobody knows how much.
        "succeeded" => RemoteState::Captured { amount_minor: sayable(intent.received())? },
        // One of several captures; the rest is for whoever made it.
        "requires_capture" if minor(intent.amount_received) > 0 => {
            RemoteState::Captured { amount_minor: minor(intent.amount_received) }
        }
        "requires_capture" => RemoteState::Authorized,
        "canceled" if is_ended_in_part(intent) => {
            RemoteState::Captured { amount_minor: minor(intent.amount_received) }
        }
        "canceled" if intent.has_lapsed() => RemoteState::Expired,
        "canceled" => RemoteState::Voided,
        "processing" => RemoteState::Processing,
        "requires_action" => RemoteState::RequiresAction { url: bank_page(intent)? },
        "requires_payment_method" => {
            let error = intent.last_payment_error.as_ref();
            let part = |part: fn(&ErrorBody) -> &Option<String>| error.and_then(|e| part(e).clone());
            let (code, decline_code, message) =
                (part(|e| &e.code), part(|e| &e.decline_code), part(|e| &e.message));
            let (kind, payment_intent) = (String::new(), None);
            RemoteState::Failed(failure(Some(ErrorBody {
                kind,
                code,
                decline_code,
                message,
                payment_intent,
            })))
        }
        _ => return None,
    })
}

pub(super) fn minor(amount: Option<u64>) -> u64 {
    sayable(amount).unwrap_or(0)
}

/// An amount, if it can be one of ours.
fn sayable(amount: Option<u64>) -> Option<u64> {
    amount.filter(|amount| *amount <= AMOUNT_MAX_MINOR)
}

pub(super) fn read_refund(call: &ProviderCall, refund: RefundObject) -> Meaning {
    if !is_plain(&refund.id) {
        return disbelieved(&refund.id, NO_ID);
    }
    if is_anothers(&refund.metadata, call) {
        return anothers("another refund than the one that was asked for");
    }
    let of = payment_of(call.kind, &call.request);
    if refund.payment_intent.as_ref().zip(of.as_ref()).is_some_and(|(said, asked)| said != asked) {
        return anothers("a refund of another payment than the one that was asked for");
    }
    if refund.amount != asked(call).amount {
        return disbelieved(&refund.id, "the provider refunded another amount");
    }
    match refund_state(&refund) {
        Some(RefundState::Failed { code, message }) => {
            Meaning::Is(ProviderResult::Rejected { payment: None, code, message, found: None })
        }
        Some(state) => Meaning::Is(ProviderResult::Refunded {
            refund: refund.id,
            settled: state == RefundState::Succeeded,
        }),
        None => disbelieved(&refund.id, "a refund in a state that is not known"),
    }
}

pub(super) fn refund_state(refund: &RefundObject) -> Option<RefundState> {
    Some(match refund.status.as_deref()? {
        "succeeded" => RefundState::Succeeded,
        "pending" | "requires_action" => RefundState::Pending,
        "failed" | "canceled" => RefundState::Failed {
            code: refund.failure_reason.clone().unwrap_or_else(|| "refund_failed".to_owned()),
            message: "The money could not be given back to the card.".to_owned(),
        },
        _ => return None,
    })
}

fn declined(error: ErrorBody) -> ProviderResult {
    let code = error.code.unwrap_or_else(|| "card_declined".to_owned());
    let message = match code.as_str() {
        // Stripe speaks of a parameter of ours, that nobody is to be led to the bank's page.
        AUTHENTICATION_REQUIRED => "The card needs 3-D Secure, and nobody was there to do it. A payment with a `return_url` leads to the bank's page."
            .to_owned(),
        _ => error.message.unwrap_or_else(|| "The card was declined.".to_owned()),
    };
    ProviderResult::Declined {
        payment: error.payment_intent.and_then(|intent| plain_id(&intent.id)),
        code,
        decline_code: error.decline_code,
        message,
    }
}

/// <https://docs.stripe.com/error-codes#authentication-required>
const AUTHENTICATION_REQUIRED: &str = "authentication_required";

pub(super) fn reply(answer: &HttpAnswer, result: ProviderResult) -> ProviderReply {
    ProviderReply { status: answer.status, result, request_id: answer.request_id.clone() }
}

/// The customer that a call changes.
pub(super) fn customer_of(request: &FrozenRequest) -> Option<String> {
    request.path.strip_prefix("/v1/customers/").filter(|id| is_plain(id)).map(str::to_owned)
}

/// The PaymentIntent that a capture, a void or a refund moves; or the customer that is changed.
pub fn payment_of(kind: CallKind, request: &FrozenRequest) -> Option<String> {
    let id = match kind {
        CallKind::Authorize | CallKind::CreateCustomer => return None,
        CallKind::UpdateCustomer => customer_of(request),
        CallKind::Capture | CallKind::Void => request.path.split('/').nth(3).map(str::to_owned),
        CallKind::Refund => {
            serde_urlencoded::from_str::<RefundedIntent>(&request.body).ok().map(|asked| asked.payment_intent)
        }
    };
    id.filter(|id| is_plain(id))
}

/// The meaning of a customer for the call that it answers.
pub(super) fn read_customer(call: &ProviderCall, customer: CustomerObject) -> Meaning {
    if !is_plain(&customer.id) {
        return disbelieved(&customer.id, "an id that cannot be one");
    }
    let is_its = match call.kind {
        // One that is asked for by its id was made by this call, also if somebody has deleted it since.
        CallKind::CreateCustomer if customer.deleted => {
            call.evidence.provider_id.as_deref() == Some(&customer.id)
        }
        CallKind::CreateCustomer => is_key(&customer.metadata, call),
        _ => is_key(&customer.metadata, call) && customer_of(&call.request).as_ref() == Some(&customer.id),
    };
    match is_its {
        true => Meaning::Is(ProviderResult::Customer { customer: customer.id }),
        false => disbelieved(&customer.id, "a customer that the request has not written"),
    }
}
