//! Stripe: calls as bytes, and the meaning of its answers.
//!
//! Sources: [PaymentIntents](https://docs.stripe.com/api/payment_intents),
//! [refunds](https://docs.stripe.com/api/refunds),
//! [idempotent requests](https://docs.stripe.com/api/idempotent_requests),
//! [advanced error handling](https://docs.stripe.com/error-low-level).

pub mod by_hand;
pub mod webhook;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use crate::payment::result::{CallKind, Found, ProviderResult};
use crate::payment::status_query::{Beside, RemoteRefund, StatusQuery, StatusReply};
use crate::payment::{Dispute, DisputeStatus, Failure, Refund, RefundState};
use crate::providers::codec::{Authorization, HttpAnswer, indeterminate, is_plain, not_executed, unknown};
use once::account::Identity;
use once::call::{FrozenRequest, RefusalScope, Unconfirmed};
use once::context::QUIET_MAX_MS;

/// The version of the API that requests are written for and answers are read by.
pub const API_VERSION: &str = "2026-10-28.endive";

/// Entries on a page of the list.
const PAGE_SIZE: u32 = 100;
/// Clocks differ: a look-up begins this many seconds before the first send …
const CLOCK_SKEW_S: u64 = 300;
/// … and ends this many after the last: a late send is executed long after it began, but before "it is not there" is
/// believed ([`QUIET_MAX_MS`]).
const LATE_S: u64 = QUIET_MAX_MS / 1000 + CLOCK_SKEW_S;

/// One call that creates and confirms a payment. With an address to come back to, a card that needs the bank's page says so;
/// without one it is declined.
pub fn authorize(authorization: &Authorization<'_>) -> FrozenRequest {
    let amount = authorization.amount_minor.to_string();
    let capture_method = if authorization.capture { "automatic" } else { "manual" };
    let mut fields = vec![
        ("amount", amount.as_str()),
        ("currency", authorization.currency.as_str()),
        ("capture_method", capture_method),
        ("payment_method", authorization.payment_method),
        ("payment_method_types[0]", "card"),
        ("confirm", "true"),
    ];
    fields.push(match authorization.return_url {
        Some(url) => ("return_url", url),
        None => ("error_on_requires_action", "true"),
    });
    fields.extend(authorization.customer.map(|customer| ("customer", customer)));
    fields.extend(authorization.description.map(|description| ("description", description)));
    let names: Vec<String> =
        authorization.metadata.iter().map(|(name, _)| format!("metadata[{name}]")).collect();
    let values = authorization.metadata.iter().map(|(_, value)| value.as_str());
    fields.extend(names.iter().map(String::as_str).zip(values));
    fields.push(("metadata[resource]", authorization.resource));
    fields.push(("metadata[idempotency_key]", authorization.derived_key));
    // The charge says until when it can be captured.
    fields.extend((!authorization.capture).then_some(("expand[0]", "latest_charge")));
    FrozenRequest::new("/v1/payment_intents".to_owned(), encode(&fields))
        .for_account(authorization.merchant_account)
}

/// Captures a PaymentIntent, in whole or in part: the rest is given up.
pub fn capture(intent: &str, amount_minor: u32, derived_key: &str) -> FrozenRequest {
    let amount = amount_minor.to_string();
    FrozenRequest::new(
        format!("/v1/payment_intents/{intent}/capture"),
        encode(&[("amount_to_capture", &amount), ("metadata[capture_key]", derived_key)]),
    )
}

/// Cancels a PaymentIntent.
pub fn void(intent: &str) -> FrozenRequest {
    FrozenRequest::new(format!("/v1/payment_intents/{intent}/cancel"), String::new())
}

/// Refunds a PaymentIntent, in whole or in part. `resource` is our payment: by it an event about the refund finds it.
pub fn refund(intent: &str, resource: &str, refund: &Refund, derived_key: &str) -> FrozenRequest {
    let amount = refund.amount.get().to_string();
    FrozenRequest::new(
        "/v1/refunds".to_owned(),
        encode(&[
            ("payment_intent", intent),
            ("amount", &amount),
            ("reason", refund.reason.as_str()),
            ("metadata[resource]", &refund.id.0),
            ("metadata[payment]", resource),
            ("metadata[idempotency_key]", derived_key),
        ]),
    )
}

/// Pairs of plain strings always have a form encoding.
fn encode(fields: &[(&str, &str)]) -> String {
    serde_urlencoded::to_string(fields).unwrap_or_default()
}

/// What a body asks for, as far as an answer is compared with it.
#[derive(Default, Deserialize)]
struct Asked {
    amount: Option<u64>,
    amount_to_capture: Option<u64>,
    currency: Option<String>,
    capture_method: Option<String>,
}

fn asked(call: &ProviderCall) -> Asked {
    serde_urlencoded::from_str(&call.request.body).unwrap_or_default()
}

#[derive(Deserialize)]
struct PaymentIntent {
    id: String,
    status: String,
    #[serde(default)]
    amount: Option<u64>,
    #[serde(default)]
    amount_received: Option<u64>,
    #[serde(default)]
    amount_capturable: Option<u64>,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    latest_charge: Option<Value>,
    #[serde(default)]
    cancellation_reason: Option<String>,
    #[serde(default)]
    last_payment_error: Option<ErrorBody>,
    #[serde(default)]
    next_action: Option<NextAction>,
}

impl PaymentIntent {
    /// The charge, where it is not only named.
    fn charge(&self) -> ChargeObject {
        let charge = self.latest_charge.as_ref().filter(|charge| charge.is_object());
        charge.and_then(|charge| ChargeObject::deserialize(charge).ok()).unwrap_or_default()
    }

    fn capture_before_ms(&self) -> Option<u64> {
        Some(self.charge().payment_method_details?.card?.capture_before?.saturating_mul(1000))
    }

    /// It was reserved: what never was has no charge, or an error.
    const fn was_held(&self) -> bool {
        self.latest_charge.is_some() && self.last_payment_error.is_none()
    }

    /// What was reserved has lapsed.
    fn has_lapsed(&self) -> bool {
        let by_stripe = matches!(self.cancellation_reason.as_deref(), Some("automatic" | "expired"));
        self.status == "canceled" && by_stripe && self.was_held()
    }
}

#[derive(Default, Deserialize)]
struct ChargeObject {
    #[serde(default)]
    disputed: bool,
    #[serde(default)]
    payment_method_details: Option<MethodDetails>,
}

#[derive(Deserialize)]
struct MethodDetails {
    #[serde(default)]
    card: Option<CardDetails>,
}

#[derive(Deserialize)]
struct CardDetails {
    /// In s since the epoch.
    #[serde(default)]
    capture_before: Option<u64>,
}

/// <https://docs.stripe.com/api/disputes/object>
#[derive(Deserialize)]
struct DisputeObject {
    id: String,
    amount: u64,
    status: String,
    #[serde(default)]
    is_charge_refundable: bool,
    #[serde(default)]
    balance_transactions: Vec<BalanceMovement>,
}

#[derive(Deserialize)]
struct BalanceMovement {
    /// In minor units of the settlement currency; below 0 where it was withdrawn.
    amount: i64,
}

#[derive(Deserialize)]
struct NextAction {
    #[serde(default)]
    redirect_to_url: Option<Redirect>,
}

#[derive(Deserialize)]
struct Redirect {
    url: String,
}

#[derive(Deserialize)]
struct RefundObject {
    id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    amount: Option<u64>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    failure_reason: Option<String>,
    #[serde(default)]
    destination_details: Option<Destination>,
}

#[derive(Deserialize)]
struct Destination {
    #[serde(default)]
    card: Option<DestinationCard>,
}

#[derive(Deserialize)]
struct DestinationCard {
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
struct ErrorEnvelope {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    decline_code: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    payment_intent: Option<Box<PaymentIntent>>,
}

/// What an answer to a call means.
///
/// Stripe's rule: `Stripe-Should-Retry` decides where it is present; else 409 and 5xx may be tried again, and nothing
/// else. A 5xx of Stripe's own is *indeterminate*: once it is stored under the key it is all that the key will ever say, and
/// the work may be completed hours later.
pub fn classify(call: &ProviderCall, answer: &HttpAnswer) -> Outcome {
    let is_stripes = answer.replayed || serde_json::from_str::<ErrorEnvelope>(&answer.body).is_ok();
    match answer.status {
        200..=299 => match read_success(call, &answer.body) {
            Ok(Meaning::Is(result)) => Outcome::Definitive(reply(answer, result)),
            Ok(Meaning::LeftOpen(result)) => Outcome::LeftOpen(reply(answer, result)),
            Ok(Meaning::Unconfirmed(unconfirmed)) => Outcome::Unconfirmed(unconfirmed),
            // Mangled on its way: the key gives it again.
            Err(_) => unknown(answer, answer.replayed, "a success that cannot be read"),
        },
        // Not executed, and not stored under the key.
        401 | 403 => not_executed(answer, RefusalScope::Send, "the provider refused our credentials"),
        429 => not_executed(answer, RefusalScope::Copy, "rate limited"),
        // An earlier send under this key is at work, or was executed with other parameters: either way money may move.
        409 => unknown(answer, false, "the provider is still working on it"),
        424 if is_stripes => indeterminate(answer, "something that the provider needs has failed"),
        400..=499 if answer.should_retry == Some(true) && !answer.replayed => {
            unknown(answer, false, "refused for the moment")
        }
        400..=499 => classify_refusal(answer),
        500..=599 if is_stripes => indeterminate(answer, "the provider failed"),
        _ => unknown(answer, false, "not an answer of the provider"),
    }
}

/// What the object in an answer means for the call that it answers.
enum Meaning {
    /// The call has ended so.
    Is(ProviderResult),
    /// It was made and left open. Once it is canceled the call has ended so.
    LeftOpen(ProviderResult),
    /// It has no meaning yet, or none that a program should believe.
    Unconfirmed(Unconfirmed),
}

/// Not what was asked for: a person must look at it.
fn disbelieved(id: &str, reason: &str) -> Meaning {
    Meaning::Unconfirmed(Unconfirmed {
        provider_id: plain_id(id),
        needs_review: true,
        reason: reason.to_owned(),
    })
}

/// The id becomes a part of later addresses.
fn plain_id(id: &str) -> Option<String> {
    Some(id.to_owned()).filter(|id| is_plain(id))
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// The error is of a body that is nothing of Stripe's.
fn read_success(call: &ProviderCall, body: &str) -> Result<Meaning, serde_json::Error> {
    let read = match call.kind {
        CallKind::Refund => serde_json::from_str(body).map(|refund| read_refund(call, refund)),
        _ => serde_json::from_str(body).map(|intent| read_intent(call, intent)),
    };
    read.or_else(|_| {
        Ok(disbelieved(&serde_json::from_str::<Named>(body)?.id, "the answer lacks what it should say"))
    })
}

fn classify_refusal(answer: &HttpAnswer) -> Outcome {
    let Ok(ErrorEnvelope { error }) = serde_json::from_str::<ErrorEnvelope>(&answer.body) else {
        return unknown(answer, answer.replayed, "a refusal that cannot be read");
    };
    match error.kind.as_str() {
        "idempotency_error" => unknown(answer, true, "the key was used with other parameters"),
        "card_error" => Outcome::Definitive(reply(answer, declined(error))),
        "invalid_request_error" => {
            let result = ProviderResult::Rejected {
                code: error.code.unwrap_or_else(|| "provider_rejected".to_owned()),
                message: error.message.unwrap_or_default(),
                found: error.payment_intent.as_deref().and_then(found),
                payment: error.payment_intent.map(|intent| intent.id),
            };
            Outcome::Definitive(reply(answer, result))
        }
        _ => unknown(answer, answer.replayed, "a refusal of an unknown kind"),
    }
}

/// The meaning of a PaymentIntent for the call that it answers.
fn read_intent(call: &ProviderCall, intent: PaymentIntent) -> Meaning {
    match call.kind {
        CallKind::Authorize => read_new_intent(call, intent),
        CallKind::Capture => match intent.status.as_str() {
            "succeeded" if intent.amount_received == asked(call).amount_to_capture => {
                Meaning::Is(ProviderResult::Captured { amount_minor: minor(intent.amount_received) })
            }
            "succeeded" => disbelieved(&intent.id, "the provider captured another amount"),
            _ => disbelieved(&intent.id, "a capture after which the payment is not captured"),
        },
        CallKind::Void if intent.has_lapsed() => Meaning::Is(ProviderResult::Rejected {
            payment: None,
            code: "payment_intent_unexpected_state".to_owned(),
            message: "What was reserved had lapsed.".to_owned(),
            found: Some(Found::Expired),
        }),
        CallKind::Void if intent.status == "canceled" => Meaning::Is(ProviderResult::Voided),
        CallKind::Void => disbelieved(&intent.id, "a cancellation after which the payment is not canceled"),
        CallKind::Refund => disbelieved(&intent.id, "a payment where a refund should be"),
    }
}

fn read_new_intent(call: &ProviderCall, intent: PaymentIntent) -> Meaning {
    let asked = asked(call);
    let manual = asked.capture_method.as_deref() == Some("manual");
    if let Some(found) = moved_since(&asked, &intent).filter(|_| manual) {
        return Meaning::Is(ProviderResult::Moved { payment: intent.id, found });
    }
    let is_as_asked = |amount: Option<u64>| {
        intent.amount == asked.amount && amount == asked.amount && intent.currency == asked.currency
    };
    match intent.status.as_str() {
        // Nothing but the whole of what was asked for is what was asked for.
        "succeeded" if manual || !is_as_asked(intent.amount_received) => {
            disbelieved(&intent.id, "the provider charged another amount")
        }
        "succeeded" => Meaning::Is(ProviderResult::Charged { payment: intent.id }),
        "requires_capture" if !manual || !is_as_asked(intent.amount_capturable) => {
            disbelieved(&intent.id, "the provider reserved something else")
        }
        "requires_capture" => {
            let capture_before_ms = intent.capture_before_ms();
            Meaning::Is(ProviderResult::Authorized { payment: intent.id, capture_before_ms })
        }
        "processing" => Meaning::Is(ProviderResult::Processing { payment: intent.id }),
        "requires_action" if bank_page(&intent).is_some() => {
            let url = bank_page(&intent).unwrap_or_default();
            Meaning::Is(ProviderResult::RequiresAction { payment: intent.id, url })
        }
        // The bank has said no; or it can't be paid any more.
        "requires_payment_method" if intent.last_payment_error.is_some() => {
            Meaning::Is(not_completed(intent))
        }
        "canceled" => Meaning::Is(not_completed(intent)),
        // Nobody has said no: what was asked for can still be done, by whoever has its client secret.
        "requires_payment_method" | "requires_action" | "requires_confirmation" if is_plain(&intent.id) => {
            Meaning::LeftOpen(not_completed(intent))
        }
        _ => disbelieved(&intent.id, "a payment in a state that is not known"),
    }
}

/// What has become of a reservation that was made as asked, and that others have captured, in whole or in part, or given up.
fn moved_since(asked: &Asked, intent: &PaymentIntent) -> Option<Found> {
    if intent.amount != asked.amount || intent.currency != asked.currency || !is_plain(&intent.id) {
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
    Some(intent.next_action.as_ref()?.redirect_to_url.as_ref()?.url.clone())
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
fn found(intent: &PaymentIntent) -> Option<Found> {
    Some(match intent.status.as_str() {
        "succeeded" => Found::Captured { amount_minor: minor(intent.amount_received) },
        // One of several captures; the rest is for whoever made it.
        "requires_capture" if minor(intent.amount_received) > 0 => {
            Found::Captured { amount_minor: minor(intent.amount_received) }
        }
        "requires_capture" => Found::Authorized,
        "canceled" if intent.has_lapsed() => Found::Expired,
        "canceled" => Found::Voided,
        "processing" => Found::Processing,
        "requires_action" => Found::RequiresAction { url: bank_page(intent)? },
        "requires_payment_method" => {
            let error = intent.last_payment_error.as_ref();
            let part = |part: fn(&ErrorBody) -> &Option<String>| error.and_then(|e| part(e).clone());
            let (code, decline_code, message) =
                (part(|e| &e.code), part(|e| &e.decline_code), part(|e| &e.message));
            let (kind, payment_intent) = (String::new(), None);
            Found::Failed(failure(Some(ErrorBody { kind, code, decline_code, message, payment_intent })))
        }
        _ => return None,
    })
}

fn minor(amount: Option<u64>) -> u32 {
    amount.and_then(|amount| u32::try_from(amount).ok()).unwrap_or(0)
}

fn read_refund(call: &ProviderCall, refund: RefundObject) -> Meaning {
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

fn refund_state(refund: &RefundObject) -> Option<RefundState> {
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
    ProviderResult::Declined {
        payment: error.payment_intent.map(|intent| intent.id),
        code: error.code.unwrap_or_else(|| "card_declined".to_owned()),
        decline_code: error.decline_code,
        message: error.message.unwrap_or_else(|| "The card was declined.".to_owned()),
    }
}

fn reply(answer: &HttpAnswer, result: ProviderResult) -> ProviderReply {
    ProviderReply { status: answer.status, result, request_id: answer.request_id.clone() }
}

/// What to ask about a call: the next page of the list in which its payment or its refund must stand, if it exists; for a
/// capture or a void, the payment itself.
///
/// The list, not the search: search results appear up to a minute late, in outages an hour.
pub fn look_up(call: &ProviderCall) -> FrozenRequest {
    if let Some(path) = own_path(call) {
        return FrozenRequest::new(path, String::new()).for_account(call.request.account.as_deref());
    }
    let limit = PAGE_SIZE.to_string();
    let after = call.look_up.as_ref().map(|read| ("starting_after", read.after.as_str()));
    let path = match call.kind {
        CallKind::Authorize => {
            let from_s = (call.first_sent_at_ms.unwrap_or(0) / 1000).saturating_sub(CLOCK_SKEW_S);
            let to_s = (call.last_sent_at_ms.unwrap_or(0) / 1000).saturating_add(LATE_S);
            let (from, to) = (from_s.to_string(), to_s.to_string());
            let mut fields = vec![("created[gte]", from.as_str()), ("created[lte]", &to), ("limit", &limit)];
            fields.extend(after);
            format!("/v1/payment_intents?{}", encode(&fields))
        }
        CallKind::Capture | CallKind::Void => {
            call.request.path.rsplit_once('/').map_or("", |(intent, _)| intent).to_owned()
        }
        CallKind::Refund => {
            let asked: RefundedIntent = serde_urlencoded::from_str(&call.request.body).unwrap_or_default();
            let mut fields = vec![("payment_intent", asked.payment_intent.as_str()), ("limit", &limit)];
            fields.extend(after);
            format!("/v1/refunds?{}", encode(&fields))
        }
    };
    FrozenRequest::new(path, String::new()).for_account(call.request.account.as_deref())
}

/// The address of what the call has made, where its id is known.
fn own_path(call: &ProviderCall) -> Option<String> {
    let id = call.evidence.provider_id.as_deref()?;
    match call.kind {
        CallKind::Authorize => Some(format!("/v1/payment_intents/{id}")),
        CallKind::Refund => Some(format!("/v1/refunds/{id}")),
        CallKind::Capture | CallKind::Void => None,
    }
}

/// The PaymentIntent that a capture, a void or a refund moves.
pub fn payment_of(kind: CallKind, request: &FrozenRequest) -> Option<String> {
    let id = match kind {
        CallKind::Authorize => return None,
        CallKind::Capture | CallKind::Void => request.path.split('/').nth(3).map(str::to_owned),
        CallKind::Refund => {
            serde_urlencoded::from_str::<RefundedIntent>(&request.body).ok().map(|asked| asked.payment_intent)
        }
    };
    id.filter(|id| is_plain(id))
}

/// The PaymentIntent that a call is about, where it is known. Only with a key of its account and mode it is seen.
pub fn known_payment(kind: CallKind, request: &FrozenRequest, made: Option<&str>) -> Option<String> {
    match kind {
        CallKind::Authorize => made.map(str::to_owned),
        CallKind::Capture | CallKind::Void | CallKind::Refund => payment_of(kind, request),
    }
}

fn known_payment_of(call: &ProviderCall) -> Option<String> {
    known_payment(call.kind, &call.request, call.evidence.provider_id.as_deref())
}

/// What to ask to find out of which account the configured key is.
/// <https://docs.stripe.com/api/accounts/retrieve>
pub fn identity(call: &ProviderCall) -> FrozenRequest {
    match known_payment_of(call) {
        Some(id) => FrozenRequest::new(format!("/v1/payment_intents/{id}"), String::new())
            .for_account(call.request.account.as_deref()),
        // Of the key's own: the connected account is part of the call, and several platforms can be connected to it.
        None => FrozenRequest::new("/v1/account".to_owned(), String::new()),
    }
}

/// What the answer to that says.
pub fn read_identity(call: &ProviderCall, answer: &HttpAnswer) -> Identity {
    read_proof(known_payment_of(call).as_deref(), answer)
}

/// Whether this payment was seen; without one, of which account the key is.
fn read_proof(known: Option<&str>, answer: &HttpAnswer) -> Identity {
    let named = serde_json::from_str::<Named>(&answer.body).ok().and_then(|named| plain_id(&named.id));
    match (answer.status, known, named) {
        (200, None, Some(id)) => Identity::Account(id),
        (200, Some(known), Some(id)) if known == id => Identity::SeesIt,
        (404, Some(_), _) if is_missing(answer) => Identity::SeesNothing,
        (401 | 403, _, _) => Identity::Refused { status: answer.status },
        _ => Identity::Silent,
    }
}

fn is_missing(answer: &HttpAnswer) -> bool {
    let error = serde_json::from_str::<ErrorEnvelope>(&answer.body).ok().map(|envelope| envelope.error);
    error.and_then(|error| error.code).as_deref() == Some("resource_missing")
}

/// What cancels the payment that a call has left open.
pub fn close(call: &ProviderCall) -> Option<FrozenRequest> {
    call.evidence.closing.as_ref()?;
    let id = call.evidence.provider_id.as_deref()?;
    Some(void(id).for_account(call.request.account.as_deref()))
}

#[derive(Default, Deserialize)]
struct RefundedIntent {
    payment_intent: String,
}

#[derive(Deserialize)]
struct List<T> {
    data: Vec<T>,
    has_more: bool,
}

/// What an answer to that says.
pub fn read_page(call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
    if let Some(closing) = &call.evidence.closing {
        return read_closed(call, closing, answer);
    }
    match answer.status {
        200 => {}
        // It does not know the entry that the page was to begin after.
        400 | 404 if own_path(call).is_none() => return inconclusive(answer, true, "the page was refused"),
        404 => return LookUp::Absent,
        _ => return inconclusive(answer, false, "the list was refused"),
    }
    match call.kind {
        CallKind::Capture | CallKind::Void => read_moved(call, answer),
        _ if own_path(call).is_some() => match read_success(call, &answer.body) {
            Ok(meaning) => seen(answer, meaning),
            Err(_) => inconclusive(answer, false, "an answer that cannot be read"),
        },
        CallKind::Authorize => {
            let is_ours = |intent: &PaymentIntent| is_key(&intent.metadata, call);
            read_list(call, answer, |intent| &intent.id, is_ours, |intent| read_intent(call, intent))
        }
        CallKind::Refund => {
            let is_ours = |refund: &RefundObject| is_key(&refund.metadata, call);
            read_list(call, answer, |refund| &refund.id, is_ours, |refund| read_refund(call, refund))
        }
    }
}

/// What a look-up has found.
fn seen(answer: &HttpAnswer, meaning: Meaning) -> LookUp {
    match meaning {
        Meaning::Is(result) => LookUp::Found(reply(answer, result)),
        Meaning::LeftOpen(result) => LookUp::LeftOpen(reply(answer, result)),
        Meaning::Unconfirmed(unconfirmed) => LookUp::Unconfirmed(unconfirmed),
    }
}

/// Whether what was left open is canceled: the answer shows the payment, also where it can't be canceled any more.
fn read_closed(call: &ProviderCall, closing: &ProviderReply, answer: &HttpAnswer) -> LookUp {
    let intent = match answer.status {
        200 => serde_json::from_str::<PaymentIntent>(&answer.body).ok(),
        400..=499 => serde_json::from_str::<ErrorEnvelope>(&answer.body)
            .ok()
            .and_then(|envelope| envelope.error.payment_intent.map(|intent| *intent)),
        _ => None,
    };
    match intent {
        Some(intent) if intent.status == "canceled" => LookUp::Found(closing.clone()),
        Some(intent) => match read_intent(call, intent) {
            Meaning::Is(result) if result.is_done() => LookUp::Found(reply(answer, result)),
            Meaning::Unconfirmed(unconfirmed) => LookUp::Unconfirmed(unconfirmed),
            Meaning::Is(_) | Meaning::LeftOpen(_) => inconclusive(answer, false, "it is not canceled yet"),
        },
        None => inconclusive(answer, false, "the cancellation was refused"),
    }
}

fn is_key(metadata: &Metadata, call: &ProviderCall) -> bool {
    metadata.idempotency_key.as_deref() == Some(&call.derived_key)
}

fn inconclusive(answer: &HttpAnswer, from_the_start: bool, reason: &str) -> LookUp {
    LookUp::Inconclusive { from_the_start, reason: format!("{reason} ({})", answer.status) }
}

fn read_list<T: DeserializeOwned>(
    call: &ProviderCall,
    answer: &HttpAnswer,
    id: impl Fn(&T) -> &String,
    is_ours: impl Fn(&T) -> bool,
    read: impl FnOnce(T) -> Meaning,
) -> LookUp {
    let Ok(page) = serde_json::from_str::<List<T>>(&answer.body) else {
        return inconclusive(answer, false, "a list that cannot be read");
    };
    let last = page.data.last().map(|entry| id(entry).clone());
    match page.data.into_iter().find(is_ours).map(read) {
        Some(meaning) => seen(answer, meaning),
        None if !page.has_more => LookUp::Absent,
        None => match last.filter(|last| call.look_up.as_ref().is_none_or(|read| read.after != *last)) {
            Some(after) => LookUp::More { after },
            None => inconclusive(answer, true, "a list that does not go on"),
        },
    }
}

/// Whether a capture or a void was executed, from the payment as it is now. A payment is captured once, so one that was
/// captured or canceled otherwise was not by this call, and never will be.
fn read_moved(call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
    let Ok(intent) = serde_json::from_str::<PaymentIntent>(&answer.body) else {
        return inconclusive(answer, false, "a payment that cannot be read");
    };
    let now = found(&intent);
    let is_held = intent.status == "requires_capture";
    match read_intent(call, intent) {
        Meaning::Is(result) => LookUp::Found(reply(answer, result)),
        // Stripe has said that it executed this call: it was not "moved otherwise".
        Meaning::Unconfirmed(unconfirmed) if call.evidence.is_executed => LookUp::Unconfirmed(unconfirmed),
        Meaning::LeftOpen(_) | Meaning::Unconfirmed(_) => match now {
            None => inconclusive(answer, false, "a payment in a state that is not known"),
            Some(Found::Authorized | Found::RequiresAction { .. } | Found::Processing) => LookUp::Absent,
            Some(now) => {
                // What failed can still be canceled, and what is held captured, by a send that is on its way.
                let is_final = !is_held && !matches!(now, Found::Failed(_));
                let (code, message) = (
                    "payment_intent_unexpected_state".to_owned(),
                    "The payment was moved otherwise.".to_owned(),
                );
                let found = Some(now);
                let refused = reply(answer, ProviderResult::Rejected { payment: None, code, message, found });
                if is_final { LookUp::Found(refused) } else { LookUp::Tentative(refused) }
            }
        },
    }
}

/// What to ask about a payment or a refund that is not decided.
pub fn question(question: &StatusQuery) -> FrozenRequest {
    let path = match question {
        StatusQuery::Payment { id, .. } => {
            format!("/v1/payment_intents/{id}?{}", encode(&[("expand[]", "latest_charge")]))
        }
        StatusQuery::Disputes { id, .. } => {
            let limit = PAGE_SIZE.to_string();
            format!("/v1/disputes?{}", encode(&[("payment_intent", id.as_str()), ("limit", &limit)]))
        }
        StatusQuery::Refund { id, .. } => format!("/v1/refunds/{id}"),
        StatusQuery::Home { payment, .. } => format!("/v1/payment_intents/{payment}"),
        StatusQuery::Refunds { id, read, .. } => {
            let limit = PAGE_SIZE.to_string();
            let mut fields = vec![("payment_intent", id.as_str()), ("limit", &limit)];
            fields.extend(read.last().map(|last| ("starting_after", last.id.as_str())));
            format!("/v1/refunds?{}", encode(&fields))
        }
    };
    FrozenRequest::new(path, String::new()).for_account(question.account())
}

/// What the answer to a question says.
pub fn read_truth(question: &StatusQuery, answer: &HttpAnswer) -> StatusReply {
    if let StatusQuery::Home { payment, .. } = question {
        return StatusReply::Home(read_proof(Some(payment), answer));
    }
    if answer.status != 200 {
        return StatusReply::NoAnswer;
    }
    let truth = match question {
        StatusQuery::Home { .. } => None,
        StatusQuery::Payment { .. } => serde_json::from_str::<PaymentIntent>(&answer.body)
            .ok()
            .and_then(|intent| Some(StatusReply::Payment(found(&intent)?, beside(&intent)))),
        StatusQuery::Disputes { .. } => {
            serde_json::from_str::<List<DisputeObject>>(&answer.body).ok().and_then(disputes)
        }
        StatusQuery::Refund { .. } => serde_json::from_str::<RefundObject>(&answer.body)
            .ok()
            .and_then(|refund| refund_state(&refund))
            .map(StatusReply::Refund),
        StatusQuery::Refunds { .. } => {
            serde_json::from_str::<List<RefundObject>>(&answer.body).ok().and_then(remote_refunds)
        }
    };
    truth.unwrap_or(StatusReply::NoAnswer)
}

fn beside(intent: &PaymentIntent) -> Beside {
    let is_in_parts = intent.status == "requires_capture" && minor(intent.amount_received) > 0;
    Beside {
        capture_before_ms: intent.capture_before_ms(),
        held_minor: if is_in_parts { minor(intent.amount_capturable) } else { 0 },
        is_disputed: intent.charge().disputed,
    }
}

/// Disputes of a payment. `None` if one of them cannot be understood: then nothing follows from the others.
fn disputes(list: List<DisputeObject>) -> Option<StatusReply> {
    let disputes: Option<Vec<Dispute>> = list.data.into_iter().map(dispute).collect();
    Some(StatusReply::Disputes(disputes?))
}

/// An inquiry that ends without a withdrawal is won.
pub fn dispute_status(status: &str) -> DisputeStatus {
    match status {
        "won" | "warning_closed" | "prevented" => DisputeStatus::Won,
        "lost" => DisputeStatus::Lost,
        _ => DisputeStatus::Open,
    }
}

fn dispute(object: DisputeObject) -> Option<Dispute> {
    let moved = object.balance_transactions.iter().fold(0_i64, |sum, moved| sum.saturating_add(moved.amount));
    Some(Dispute {
        id: object.id,
        amount_minor: u32::try_from(object.amount).ok()?,
        status: dispute_status(&object.status),
        withdrawn: moved < 0,
        refundable: object.is_charge_refundable,
        at_ms: None,
    })
}

/// Refunds of a payment, by whomever. `None` if one of them cannot be understood: then nothing follows from the others.
fn remote_refunds(list: List<RefundObject>) -> Option<StatusReply> {
    let refunds: Option<Vec<RemoteRefund>> = list.data.into_iter().map(remote_refund).collect();
    Some(StatusReply::Refunds { refunds: refunds?, has_more: list.has_more })
}

fn remote_refund(refund: RefundObject) -> Option<RemoteRefund> {
    let state = refund_state(&refund)?;
    let card = refund.destination_details.and_then(|details| details.card);
    Some(RemoteRefund {
        state,
        amount_minor: u32::try_from(refund.amount?).ok()?,
        derived_key: refund.metadata.idempotency_key,
        // Stripe calls it so when the bank had only reserved the money, or had not booked it yet.
        may_be_release: card.and_then(|card| card.kind).as_deref() == Some("reversal"),
        id: refund.id,
    })
}
