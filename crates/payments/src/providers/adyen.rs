//! Adyen: payments with stored cards and their modifications as bytes, and the meaning of the answers.
//!
//! What is different from Stripe, and what follows from it:
//!
//! - Nothing can be asked: there is no list of payments and no `GET` of one. An unknown outcome is resolved by sending
//!   again inside [`WINDOW_MS`], else by a webhook or a person. Therefore `reference` names the call, not the payment alone.
//! - Modifications are only *received*; how they end is told by webhooks. Until then a capture, a void or a refund is pending.
//! - No bank's page: `/payments/details` is not part of the flow, so that an answer that asks for the person is a "no".
//!
//! Sources: [Checkout API v71](https://docs.adyen.com/api-explorer/Checkout/71/overview),
//! [API idempotency](https://docs.adyen.com/development-resources/api-idempotency),
//! [refusal reasons](https://docs.adyen.com/development-resources/refusal-reasons),
//! [payment modifications](https://docs.adyen.com/online-payments/capture).

pub mod by_hand;
pub mod minor_units;
pub mod report;
pub mod webhook;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use crate::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use crate::payment::money::Currency;
use crate::payment::provider_event::OperationNotice;
use crate::payment::result::{CallKind, ProviderResult};
use crate::payment::{Payment, Refund, RefundReason};
use crate::providers::codec::{Authorization, HttpAnswer, UnsupportedMoney, is_plain, not_executed, unknown};
use once::call::{FrozenRequest, RefusalScope, Unconfirmed};
use once::id::digest;

/// How long after the first send, in ms, the same key may be sent again. Adyen keeps keys for at least seven days and may
/// execute anew after that: six leave a day for late copies and clocks that differ.
pub const WINDOW_MS: u64 = 6 * 24 * 3_600_000;

/// The longest `reference`, in characters.
const REFERENCE_MAX_LEN: usize = 80;
/// The longest word that is made from Adyen's text, in characters.
const WORD_MAX_LEN: usize = 40;
/// What a person reads where nothing better is known, or where the reason is none of their business (fraud).
const DECLINED: &str = "The card was declined.";

/// The idempotency key for Adyen, which takes 64 characters: `po_` and 144 bits of the digest of our readable key, so short
/// that it fits into the `reference` too.
pub fn derived_key(text: &str) -> String {
    let hash = digest(&[b"adyen", text.as_bytes()]);
    format!("po_{}", BASE64URL_NOPAD.encode(hash.get(..18).unwrap_or_default()))
}

/// The order of the members is the order of the bytes: a frozen request is the same at every try.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentBody<'a> {
    amount: AmountBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_account: Option<&'a str>,
    reference: String,
    payment_method: StoredCard<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shopper_reference: Option<&'a str>,
    shopper_interaction: &'static str,
    recurring_processing_model: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture_delay_hours: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_data: Option<AdditionalData>,
    authentication_data: AuthenticationData,
    return_url: &'a str,
    metadata: Metadata<'a>,
}

/// In Adyen's minor units.
#[derive(Deserialize, PartialEq, Serialize)]
struct AmountBody {
    value: i64,
    currency: String,
}

impl AmountBody {
    fn new(amount_minor: u32, currency: Currency) -> Result<Self, UnsupportedMoney> {
        let value = minor_units::to_adyen(amount_minor, currency)?;
        Ok(Self { value, currency: currency.as_str().to_ascii_uppercase() })
    }

    /// In our minor units; `None` if no amount of ours is that.
    fn minor(&self) -> Option<u32> {
        minor_units::from_adyen(self.value, &self.currency)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredCard<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    stored_payment_method_id: &'a str,
}

/// Adyen's values here are strings, whatever they mean.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct AdditionalData {
    manual_capture: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationData {
    attempt_authentication: &'static str,
}

/// Ours alone. Adyen takes 20 pairs of 20 and 80 characters, fewer and shorter than the merchant may give us: a part of the
/// merchant's would be worse than none, so all of it stays with us, where the id leads.
#[derive(Serialize)]
struct Metadata<'a> {
    resource: &'a str,
}

/// A payment with a stored card, captured at once or later. The description is not sent: the only text that Adyen takes is
/// the one on the bank's statement.
pub fn authorize(authorization: &Authorization<'_>) -> Result<FrozenRequest, UnsupportedMoney> {
    let manual = || AdditionalData { manual_capture: "true".to_owned() };
    let body = PaymentBody {
        amount: AmountBody::new(authorization.amount_minor, authorization.currency)?,
        merchant_account: authorization.merchant_account,
        reference: reference(authorization.resource, authorization.derived_key),
        payment_method: StoredCard { kind: "scheme", stored_payment_method_id: authorization.payment_method },
        shopper_reference: authorization.customer,
        shopper_interaction: "ContAuth",
        // With a card on file the person may be there and asked to authenticate; else only the merchant is.
        recurring_processing_model: match authorization.return_url {
            Some(_) => "CardOnFile",
            None => "UnscheduledCardOnFile",
        },
        // Both are said: what the merchant's account has as its default must not decide.
        capture_delay_hours: authorization.capture.then_some(0),
        additional_data: (!authorization.capture).then(manual),
        authentication_data: AuthenticationData { attempt_authentication: "never" },
        // The schema wants one, also where nobody is there to come back.
        return_url: authorization.return_url.unwrap_or(authorization.payment_url),
        metadata: Metadata { resource: authorization.resource },
    };
    Ok(FrozenRequest::new("/payments".to_owned(), encode(&body)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModificationBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_account: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<AmountBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_refund_reason: Option<&'static str>,
    reference: String,
}

/// Takes what was reserved, or a part of it. `id` is Adyen's `pspReference` of the payment.
pub fn capture(
    id: &str,
    payment: &Payment,
    amount_minor: u32,
    derived_key: &str,
) -> Result<FrozenRequest, UnsupportedMoney> {
    let amount = AmountBody::new(amount_minor, payment.currency)?;
    Ok(modification(id, "captures", payment, Some(amount), None, derived_key))
}

/// Gives up what was reserved.
pub fn void(id: &str, payment: &Payment, derived_key: &str) -> FrozenRequest {
    modification(id, "cancels", payment, None, None, derived_key)
}

/// Gives money back.
pub fn refund(
    id: &str,
    payment: &Payment,
    refund: &Refund,
    derived_key: &str,
) -> Result<FrozenRequest, UnsupportedMoney> {
    let amount = AmountBody::new(refund.amount.get(), payment.currency)?;
    let reason = match refund.reason {
        RefundReason::RequestedByCustomer => "CUSTOMER REQUEST",
        RefundReason::Duplicate => "DUPLICATE",
        RefundReason::Fraudulent => "FRAUD",
    };
    Ok(modification(id, "refunds", payment, Some(amount), Some(reason), derived_key))
}

fn modification(
    id: &str,
    kind: &str,
    payment: &Payment,
    amount: Option<AmountBody>,
    merchant_refund_reason: Option<&'static str>,
    derived_key: &str,
) -> FrozenRequest {
    let body = ModificationBody {
        merchant_account: payment.merchant_account.as_deref(),
        amount,
        merchant_refund_reason,
        reference: reference(&payment.id.to_string(), derived_key),
    };
    FrozenRequest::new(format!("/payments/{id}/{kind}"), encode(&body))
}

/// By which a person finds our resource, and a webhook the call: `{resource}.{derived key}`, 76 characters at most.
fn reference(resource: &str, derived_key: &str) -> String {
    let both = format!("{resource}.{derived_key}");
    if both.len() <= REFERENCE_MAX_LEN { both } else { resource.to_owned() }
}

/// Structs of strings and numbers always have a JSON form.
fn encode(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// What a frozen body asks for, as far as an answer is compared with it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    amount: AmountBody,
    #[serde(default)]
    additional_data: Option<AdditionalData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PaymentAnswer {
    result_code: String,
    psp_reference: String,
    #[serde(default)]
    amount: Option<AmountBody>,
    #[serde(default)]
    refusal_reason: Option<String>,
    #[serde(default)]
    refusal_reason_code: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModificationAnswer {
    status: String,
    psp_reference: String,
    #[serde(default)]
    amount: Option<AmountBody>,
}

/// Adyen's error, of which there are two forms: its own, and RFC 7807.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorAnswer {
    error_code: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    error_type: Option<String>,
    #[serde(default)]
    psp_reference: Option<String>,
    #[serde(default)]
    request_id: Option<String>,
}

impl ErrorAnswer {
    fn says(&self, words: &str) -> bool {
        [&self.message, &self.detail]
            .into_iter()
            .flatten()
            .any(|text| text.to_ascii_lowercase().contains(words))
    }
}

/// What an answer means.
///
/// An error that says `transient-error: true` has reached no issuer and left its key unused; any other one is what the key goes on
/// to say. That makes a refusal (4xx) definitive, and a 5xx an outcome that no retry clears up: it may have reached the issuer.
pub fn classify(call: &ProviderCall, answer: &HttpAnswer) -> Outcome {
    match answer.status {
        200..=299 => classify_success(call, answer),
        429 => not_executed(answer, RefusalScope::Copy, "rate limited"),
        400..=599 => match parse::<ErrorAnswer>(answer) {
            Some(error) => classify_error(answer, error),
            None if answer.should_retry == Some(true) => {
                not_executed(answer, RefusalScope::Copy, "refused for the moment")
            }
            // By something in between: what Adyen itself has to say is still to be heard.
            None => unknown(answer, false, "an error that is not the provider's"),
        },
        _ => unknown(answer, false, "neither a success nor an error"),
    }
}

fn classify_error(answer: &HttpAnswer, error: ErrorAnswer) -> Outcome {
    match (answer.status, error.error_code.as_str()) {
        // An earlier send of this key is at work, or done: whatever else is said, not this one is what counts.
        (_, "704") => unknown(answer, false, "the provider is still working on it"),
        // Before any key is looked at.
        (401 | 403, _) => not_executed(answer, RefusalScope::Send, "the provider refused our credentials"),
        // Without its key store Adyen would execute only what has no key.
        (_, "703") => not_executed(answer, RefusalScope::Copy, "the provider cannot check keys"),
        _ if answer.should_retry == Some(true) => {
            not_executed(answer, RefusalScope::Key, "refused for the moment")
        }
        (500..=599, _) if error.says("too many requests") => {
            not_executed(answer, RefusalScope::Copy, "rate limited")
        }
        // There is no code for a key that was used with other parameters.
        (400..=499, _) if error.says("idempoten") => {
            unknown(answer, true, "the key was used with other parameters")
        }
        (400 | 404 | 422, _) => rejected(answer, error),
        (409, _) => unknown(answer, false, "the provider is still working on it"),
        (500..=599, _) => {
            // A faulty request gets a 500 too: the kind of error is what a person goes by.
            let kind = error.error_type.as_deref().and_then(word).unwrap_or_else(|| "unknown".to_owned());
            unknown(answer, true, &format!("an error of the type {kind}, a retry brings nothing"))
        }
        _ => unknown(answer, false, "a refusal of an unknown kind"),
    }
}

fn classify_success(call: &ProviderCall, answer: &HttpAnswer) -> Outcome {
    let read = match call.kind {
        CallKind::Authorize => parse::<PaymentAnswer>(answer)
            .map(|payment| (payment.psp_reference.clone(), read_payment(call, payment))),
        CallKind::Capture | CallKind::Void | CallKind::Refund => parse::<ModificationAnswer>(answer)
            .map(|received| (received.psp_reference.clone(), read_modification(call, received))),
    };
    match read {
        Some((id, Ok(result))) if is_plain(&id) && is_partial(&result) => Outcome::LeftOpen(ProviderReply {
            status: answer.status,
            result,
            request_id: answer.request_id.clone().or(Some(id)),
        }),
        // The id becomes a part of later addresses.
        Some((id, Ok(result))) if is_plain(&id) => definitive(answer, Some(id), result),
        // Stored under the key like any answer: the key goes on to say so.
        Some((id, Err(reason))) => unconfirmed(answer, id, reason),
        // Broken on its way: the key gives it again.
        Some((_, Ok(_))) | None => unknown(answer, false, "a success that cannot be read"),
    }
}

/// Adyen has executed it and says nothing that settles it: a notification tells, and until then a person sees why.
fn unconfirmed(answer: &HttpAnswer, id: String, reason: &str) -> Outcome {
    Outcome::Unconfirmed(Unconfirmed {
        provider_id: Some(id).filter(|id| is_plain(id)),
        needs_review: true,
        reason: format!("{reason} ({})", answer.status),
    })
}

fn parse<'a, T: Deserialize<'a>>(answer: &'a HttpAnswer) -> Option<T> {
    serde_json::from_str(&answer.body).ok()
}

/// The meaning of a payment's result code; an error says why it has none that a program should believe.
fn read_payment(call: &ProviderCall, answer: PaymentAnswer) -> Result<ProviderResult, &'static str> {
    let payment = answer.psp_reference.clone();
    match answer.result_code.as_str() {
        "Authorised" => {
            let asked = asked(call, answer.amount.as_ref())?;
            let manual = asked.additional_data.is_some_and(|data| data.manual_capture == "true");
            Ok(if manual {
                ProviderResult::Authorized { payment, capture_before_ms: None }
            } else {
                ProviderResult::Charged { payment }
            })
        }
        "Refused" | "Cancelled" => Ok(declined(answer)),
        // Of the communication: the issuer may hold the money all the same, and only a notification tells.
        "Error" => Err("an error on the way to the issuer, which may hold the money"),
        "PartiallyAuthorised" => Ok(partially_authorized(payment)),
        // Nobody gets to see the page, so nobody can pay there.
        "RedirectShopper" | "ChallengeShopper" | "IdentifyShopper" | "PresentToShopper" => {
            Ok(ProviderResult::Declined {
                payment: Some(payment),
                code: "authentication_required".to_owned(),
                decline_code: None,
                message: "The bank wants to authenticate the payment, which is not possible here.".to_owned(),
            })
        }
        "Pending" | "Received" => Ok(ProviderResult::Processing { payment }),
        _ => Err("a result that is not known"),
    }
}

/// The answer of such a payment, once what is held is given up: all or nothing is asked for.
fn partially_authorized(payment: String) -> ProviderResult {
    ProviderResult::Declined {
        payment: Some(payment),
        code: "partially_authorized".to_owned(),
        decline_code: None,
        message: "The card has too little money for the whole amount. Nothing was charged.".to_owned(),
    }
}

fn is_partial(result: &ProviderResult) -> bool {
    matches!(result, ProviderResult::Declined { code, .. } if code == "partially_authorized")
}

/// What the call asked for, if the answered amount is no other one. Nothing but the whole of what was asked for is what was
/// asked for: a person must look at anything else.
fn asked(call: &ProviderCall, answered: Option<&AmountBody>) -> Result<Asked, &'static str> {
    let asked: Asked =
        serde_json::from_str(&call.request.body).map_err(|_| "nothing is left to compare the answer with")?;
    if answered.is_some_and(|amount| *amount != asked.amount) {
        return Err("the provider took another amount");
    }
    Ok(asked)
}

fn read_modification(
    call: &ProviderCall,
    answer: ModificationAnswer,
) -> Result<ProviderResult, &'static str> {
    if answer.status != "received" {
        return Err("a status that is not known");
    }
    match call.kind {
        CallKind::Capture => {
            let asked = asked(call, answer.amount.as_ref())?;
            asked.amount.minor().ok_or("an amount that is none of ours")?;
            Ok(ProviderResult::Received { modification: answer.psp_reference })
        }
        CallKind::Refund => {
            asked(call, answer.amount.as_ref())?;
            // A bank can still refuse it: only the webhook REFUND says that it is done.
            Ok(ProviderResult::Refunded { refund: answer.psp_reference, settled: false })
        }
        CallKind::Void => Ok(ProviderResult::Received { modification: answer.psp_reference }),
        CallKind::Authorize => Err("a payment that was answered as a modification"),
    }
}

fn declined(answer: PaymentAnswer) -> ProviderResult {
    let reason_code = answer.refusal_reason_code.as_deref().unwrap_or_default();
    let (known, message) = refusal(reason_code);
    let code = match answer.result_code.as_str() {
        "Refused" if known == Some("authentication_required") => "authentication_required",
        "Refused" => "card_declined",
        _ => "payment_canceled",
    };
    let said = || answer.refusal_reason.as_deref().and_then(word);
    ProviderResult::Declined {
        payment: Some(answer.psp_reference).filter(|id| is_plain(id)),
        code: code.to_owned(),
        decline_code: known.map(str::to_owned).or_else(said),
        message: message.to_owned(),
    }
}

/// A `refusalReasonCode` in Stripe's words, where it has one: a merchant reads the same word from both providers. And what
/// to tell the person who pays.
fn refusal(reason_code: &str) -> (Option<&'static str>, &'static str) {
    match reason_code {
        "2" => (Some("generic_decline"), DECLINED),
        "5" | "25" => (Some("restricted_card"), DECLINED),
        "6" => (Some("expired_card"), "The card has expired."),
        "8" => (Some("incorrect_number"), "The card number is incorrect."),
        "9" => (Some("issuer_not_available"), "The card's bank could not be reached. Try again later."),
        "11" | "38" | "42" => {
            (Some("authentication_required"), "The bank wants to authenticate the payment.")
        }
        "12" => (Some("insufficient_funds"), "The card has insufficient funds."),
        "14" | "20" | "22" | "31" => (Some("fraudulent"), DECLINED),
        "23" => (Some("transaction_not_allowed"), "The card does not allow this payment."),
        "24" => (Some("incorrect_cvc"), "The card's security code is incorrect."),
        "28" | "29" => (Some("withdrawal_count_limit_exceeded"), "The card is over its limit."),
        _ => (None, DECLINED),
    }
}

/// Adyen's words as one of ours: `Not enough balance` is `not_enough_balance`.
pub(crate) fn word(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let word: String = words.join("_").to_ascii_lowercase().chars().take(WORD_MAX_LEN).collect();
    (!word.is_empty()).then_some(word)
}

/// A refusal of the request itself, which moved nothing.
fn rejected(answer: &HttpAnswer, error: ErrorAnswer) -> Outcome {
    let code = word(&error.error_code).map(|code| format!("adyen_{code}"));
    let result = ProviderResult::Rejected {
        payment: None,
        code: code.unwrap_or_else(|| "provider_rejected".to_owned()),
        message: error.message.or(error.detail).unwrap_or_default(),
        found: None,
    };
    definitive(answer, error.psp_reference.or(error.request_id), result)
}

/// `id` is the `pspReference` of the body: Adyen's id of the request, which not every answer has as a header too.
fn definitive(answer: &HttpAnswer, id: Option<String>, result: ProviderResult) -> Outcome {
    Outcome::Definitive(ProviderReply {
        status: answer.status,
        result,
        request_id: answer.request_id.clone().or(id),
    })
}

/// The answer that a call would have had, from what a webhook tells of it. An error says why that cannot be its answer.
pub fn told(call: &ProviderCall, told: &OperationNotice) -> Result<ProviderResult, String> {
    let payment = told.payment.clone();
    if !told.success {
        let reason = Some(told.reason.clone()).filter(|reason| !reason.is_empty());
        return Ok(match call.kind {
            CallKind::Authorize => ProviderResult::Declined {
                payment: Some(payment),
                code: "card_declined".to_owned(),
                decline_code: reason,
                message: DECLINED.to_owned(),
            },
            CallKind::Capture | CallKind::Void | CallKind::Refund => ProviderResult::Rejected {
                payment: None,
                code: reason.unwrap_or_else(|| "provider_rejected".to_owned()),
                message: String::new(),
                found: None,
            },
        });
    }
    if call.kind == CallKind::Void {
        return Ok(ProviderResult::Voided);
    }
    let asked = asked(call, None)?;
    let is_asked = asked.amount.minor() == Some(told.amount_minor)
        && asked.amount.currency.eq_ignore_ascii_case(&told.currency);
    if !is_asked {
        return Err("the provider took another amount".to_owned());
    }
    let manual = asked.additional_data.is_some_and(|data| data.manual_capture == "true");
    Ok(match call.kind {
        CallKind::Authorize if manual => ProviderResult::Authorized { payment, capture_before_ms: None },
        CallKind::Authorize => ProviderResult::Charged { payment },
        CallKind::Capture => ProviderResult::Captured { amount_minor: told.amount_minor },
        CallKind::Refund => ProviderResult::Refunded { refund: told.id.clone(), settled: true },
        CallKind::Void => ProviderResult::Voided,
    })
}

/// The answer of a payment of which a notification tells that a part only is held.
pub fn told_of_a_part(call: &ProviderCall, told: &OperationNotice) -> Option<ProviderReply> {
    let asked = asked(call, None).ok()?.amount;
    let is_part = call.kind == CallKind::Authorize
        && told.success
        && asked.currency.eq_ignore_ascii_case(&told.currency)
        && (1..asked.minor()?).contains(&told.amount_minor);
    let result = partially_authorized(told.payment.clone());
    is_part.then(|| ProviderReply { status: 200, result, request_id: Some(told.id.clone()) })
}

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
    let named: Named = serde_json::from_str(&call.request.body).ok()?;
    match &call.evidence.provider_id {
        Some(id) if call.evidence.closing.is_some() => {
            Some(FrozenRequest::new(format!("/payments/{id}/cancels"), encode(&named)))
        }
        None if call.evidence.is_given_up && is_manual(call) => {
            let payment_reference = named.reference.clone();
            let body = encode(&TechnicalCancel { named, payment_reference });
            Some(FrozenRequest::new("/cancels".to_owned(), body))
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
    derived_key(&format!("{} {}", call.derived_key, request.path))
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

/// What a look-up says: nothing, ever.
pub fn no_look_up() -> LookUp {
    LookUp::Inconclusive {
        from_the_start: true,
        reason: "the provider has nothing to ask: only a webhook tells".to_owned(),
    }
}
