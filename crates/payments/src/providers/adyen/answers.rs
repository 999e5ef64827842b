//! What Adyen's answers mean.

use super::amount::AmountBody;
use super::requests::AdditionalData;
use crate::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use crate::payment::card::Card;
use crate::payment::result::{CallKind, ProviderResult};
use crate::providers::codec::{HttpAnswer, is_plain, not_executed, unknown};
use once::call::{RefusalScope, Unconfirmed};
use serde::Deserialize;
use serde_json::Value;

/// The longest word that is made from Adyen's text, in characters.
const WORD_MAX_LEN: usize = 40;

/// What a person reads where nothing better is known, or where the reason is none of their business (fraud).
pub(super) const DECLINED: &str = "The card was declined.";
/// Why a call about a customer has no answer there: customers are made at Stripe only.
pub(super) const NO_CUSTOMERS: &str = "a customer where a payment should be";

/// What a frozen body asks for, as far as an answer is compared with it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    pub(super) amount: AmountBody,
    #[serde(default)]
    pub(super) additional_data: Option<AdditionalData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PaymentAnswer {
    result_code: String,
    /// What asks for an action has none yet.
    #[serde(default)]
    psp_reference: Option<String>,
    #[serde(default)]
    amount: Option<AmountBody>,
    /// Our `reference`.
    #[serde(default)]
    merchant_reference: Option<String>,
    #[serde(default)]
    refusal_reason: Option<String>,
    #[serde(default)]
    refusal_reason_code: Option<String>,
    /// Nothing but the card is read of these two, so nothing in them makes an answer unreadable.
    #[serde(default)]
    payment_method: Value,
    #[serde(default)]
    additional_data: Value,
}

impl PaymentAnswer {
    /// Whether it wants something of a shopper: then no issuer was asked.
    fn asks_for_action(&self) -> bool {
        let actions = ["RedirectShopper", "ChallengeShopper", "IdentifyShopper", "PresentToShopper"];
        actions.contains(&self.result_code.as_str())
    }

    /// The card that paid: the digits where the merchant has switched on "Card summary", the brand always.
    fn card(&self) -> Option<Card> {
        let brand = self.payment_method.get("brand").or_else(|| self.additional_data.get("paymentMethod"));
        let digits = self.additional_data.get("cardSummary")?.as_str()?;
        Card::of_adyen(brand.and_then(Value::as_str).unwrap_or_default(), digits)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModificationAnswer {
    status: String,
    psp_reference: String,
    #[serde(default)]
    amount: Option<AmountBody>,
    /// Our `reference`.
    #[serde(default)]
    reference: Option<String>,
    /// The payment that it modifies.
    #[serde(default)]
    payment_psp_reference: Option<String>,
}

impl ModificationAnswer {
    /// Whether it is another request's, or of another payment.
    fn is_anothers(&self, call: &ProviderCall) -> bool {
        // Its address is `/payments/{id}/…`.
        let modified = call.request.path.split('/').nth(2);
        let said = self.payment_psp_reference.as_deref();
        is_anothers(call, self.reference.as_ref()) || said.zip(modified).is_some_and(|(said, id)| said != id)
    }
}

/// Why an answer is not believed. The id in it is nothing that this call has made.
const ANOTHERS: &str = "of another payment or request than the one that was asked for";

/// What a frozen body calls itself.
#[derive(Deserialize)]
struct Referred {
    reference: String,
}

/// Whether an answer that says this reference is another request's.
fn is_anothers(call: &ProviderCall, said: Option<&String>) -> bool {
    let sent = json_text::from_str::<Referred>(&call.request.body).ok();
    said.zip(sent).is_some_and(|(said, sent)| *said != sent.reference)
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
/// to say. That makes a refusal (4xx) definitive, and a 5xx an outcome that no retry clears up: it may have reached the issuer, unless
/// it says that there was no acquirer to send it to.
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
        // "Could not find an acquirer account": none was chosen, so nothing was sent to one.
        (500..=599, "905" | "905_1") if error.error_type.as_deref() == Some("configuration") => {
            rejected(answer, error)
        }
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
        CallKind::Authorize => {
            parse::<PaymentAnswer>(answer).and_then(|payment| match payment.psp_reference.clone() {
                _ if is_anothers(call, payment.merchant_reference.as_ref()) => Some((None, Err(ANOTHERS))),
                id if payment.asks_for_action() => Some((id.clone(), Ok(nobody_is_there(id)))),
                id => id.map(|id| (Some(id.clone()), read_payment(call, id, payment))),
            })
        }
        _ => parse::<ModificationAnswer>(answer).map(|received| match received.is_anothers(call) {
            true => (None, Err(ANOTHERS)),
            false => (Some(received.psp_reference.clone()), read_modification(call, received)),
        }),
    };
    match read {
        // The id becomes a part of later addresses.
        Some((id, Ok(result))) if id.as_ref().is_none_or(|id| is_plain(id)) => {
            if is_partial(&result) {
                let request_id = answer.request_id.clone().or(id);
                return Outcome::LeftOpen(ProviderReply { status: answer.status, result, request_id });
            }
            definitive(answer, id, result)
        }
        // Stored under the key like any answer: the key goes on to say so.
        Some((id, Err(reason))) => unconfirmed(answer, id, reason),
        // Broken on its way: the key gives it again.
        Some((_, Ok(_))) | None => unknown(answer, false, "a success that cannot be read"),
    }
}

/// Adyen has executed it and says nothing that settles it: a notification tells, and until then a person sees why.
fn unconfirmed(answer: &HttpAnswer, id: Option<String>, reason: &str) -> Outcome {
    Outcome::Unconfirmed(Unconfirmed {
        provider_id: id.filter(|id| is_plain(id)),
        needs_review: true,
        reason: format!("{reason} ({})", answer.status),
    })
}

pub(super) fn parse<'a, T: Deserialize<'a>>(answer: &'a HttpAnswer) -> Option<T> {
    json_text::from_str(&answer.body).ok()
}

/// The meaning of a payment's result code; an error says why it has none that a program should believe.
fn read_payment(
    call: &ProviderCall,
    payment: String,
    answer: PaymentAnswer,
) -> Result<ProviderResult, &'static str> {
    match answer.result_code.as_str() {
        "Authorised" => {
            let asked = asked(call, answer.amount.as_ref())?;
            let manual = asked.additional_data.is_some_and(|data| data.manual_capture == "true");
            let card = answer.card();
            Ok(if manual {
                ProviderResult::Authorized { payment, capture_before_ms: None, card }
            } else {
                ProviderResult::Charged { payment, card }
            })
        }
        "Refused" | "Cancelled" => Ok(declined(answer)),
        // Of the communication: the issuer may hold the money all the same, and only a notification tells.
        "Error" => Err("an error on the way to the issuer, which may hold the money"),
        "PartiallyAuthorised" => Ok(partially_authorized(payment)),
        "Pending" | "Received" => Ok(ProviderResult::Processing { payment }),
        _ => Err("a result that is not known"),
    }
}

/// Nobody gets to see the page, so nobody can pay there.
fn nobody_is_there(payment: Option<String>) -> ProviderResult {
    ProviderResult::Declined {
        payment,
        code: "authentication_required".to_owned(),
        decline_code: None,
        message: "The bank wants to authenticate the payment, which is not possible here.".to_owned(),
    }
}

/// The answer of such a payment, once what is held is given up: all or nothing is asked for.
pub(super) fn partially_authorized(payment: String) -> ProviderResult {
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
pub(super) fn asked(call: &ProviderCall, answered: Option<&AmountBody>) -> Result<Asked, &'static str> {
    let asked: Asked =
        json_text::from_str(&call.request.body).map_err(|_| "nothing is left to compare the answer with")?;
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
        CallKind::CreateCustomer | CallKind::UpdateCustomer => Err(NO_CUSTOMERS),
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
        payment: answer.psp_reference.filter(|id| is_plain(id)),
        code: code.to_owned(),
        decline_code: known.map(str::to_owned).or_else(said),
        message: message.to_owned(),
    }
}

/// A `refusalReasonCode` in Stripe's words, where it has one: a merchant reads the same word from both providers. And what
/// to tell the person who pays.
pub fn refusal(reason_code: &str) -> (Option<&'static str>, &'static str) {
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

/// What a look-up says: nothing, ever.
pub fn no_look_up() -> LookUp {
    LookUp::Inconclusive {
        from_the_start: true,
        reason: "the provider has nothing to ask: only a webhook tells".to_owned(),
    }
}
