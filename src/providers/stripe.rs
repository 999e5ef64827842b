//! Stripe: a charge as bytes, and the meaning of its answers.
//!
//! Sources: [create a PaymentIntent](https://docs.stripe.com/api/payment_intents/create),
//! [idempotent requests](https://docs.stripe.com/api/idempotent_requests),
//! [advanced error handling](https://docs.stripe.com/error-low-level).

use serde::Deserialize;

use super::HttpAnswer;
use crate::machine::call::{ForeignCall, FrozenRequest, LookUp, Outcome, ProviderReply, ProviderResult};
use crate::machine::context::QUIET_MAX_MS;

/// The version of the API that requests are written for and answers are read by.
pub const API_VERSION: &str = "2026-10-28.endive";

/// Entries on a page of the list.
const PAGE_SIZE: u32 = 100;
/// Clocks differ: a look-up begins this many seconds before the first send …
const CLOCK_SKEW_S: u64 = 300;
/// … and ends this many after the last: a late send is executed long after it began, but before "it is not there" is
/// believed ([`QUIET_MAX_MS`]).
const LATE_S: u64 = QUIET_MAX_MS / 1000 + CLOCK_SKEW_S;

/// What to charge.
pub struct Charge<'a> {
    /// In minor units of the currency.
    pub amount_minor: u32,
    /// ISO 4217, lower case.
    pub currency: &'a str,
    /// The token of what pays.
    pub payment_method: &'a str,
    /// The customer to whom it belongs.
    pub customer: Option<&'a str>,
    /// Shown in Stripe's dashboard.
    pub description: &'a str,
    /// Our id of what is paid, by which a look-up finds the payment.
    pub resource: &'a str,
    /// The idempotency key, for the same purpose.
    pub derived_key: &'a str,
}

/// One call that creates and confirms. A card that needs the bank's page is declined: nobody is there to go to it.
pub fn charge(charge: &Charge<'_>) -> FrozenRequest {
    let amount = charge.amount_minor.to_string();
    let mut fields = vec![
        ("amount", amount.as_str()),
        ("currency", charge.currency),
        ("payment_method", charge.payment_method),
        ("payment_method_types[0]", "card"),
        ("confirm", "true"),
        ("error_on_requires_action", "true"),
        ("description", charge.description),
        ("metadata[resource]", charge.resource),
        ("metadata[idempotency_key]", charge.derived_key),
    ];
    fields.extend(charge.customer.map(|customer| ("customer", customer)));
    FrozenRequest { path: "/v1/payment_intents".to_owned(), body: encode(&fields) }
}

/// Pairs of plain strings always have a form encoding.
fn encode(fields: &[(&str, &str)]) -> String {
    serde_urlencoded::to_string(fields).unwrap_or_default()
}

/// What a charge's body asks for.
#[derive(Deserialize)]
struct Asked {
    amount: u64,
    currency: String,
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
    currency: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    last_payment_error: Option<ErrorBody>,
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

/// What an answer to a charge means.
///
/// Stripe's rule: `Stripe-Should-Retry` decides where it is present; else 409 and 5xx may be tried again, and nothing
/// else. A 500 is *indeterminate*, and once it is stored under the key it is all that the key will ever say.
pub fn classify(call: &ForeignCall, answer: &HttpAnswer) -> Outcome {
    match answer.status {
        200..=299 => match serde_json::from_str::<PaymentIntent>(&answer.body) {
            Ok(intent) => match read_intent(call, intent) {
                Ok(result) => definitive(answer, result),
                // Stored under the key like any answer: the key goes on to say so long after it has been decided.
                Err(reason) => unknown(answer, true, reason),
            },
            Err(_) => unknown(answer, answer.replayed, "a success that cannot be read"),
        },
        // Not executed, and not stored under the key.
        401 | 403 => not_executed(answer, "the provider refused our credentials"),
        429 => not_executed(answer, "rate limited"),
        // An earlier send under this key is at work, or was executed with other parameters: either way money may move.
        409 => unknown(answer, false, "the provider is still working on it"),
        400..=499 if answer.should_retry == Some(true) && !answer.replayed => {
            unknown(answer, false, "refused for the moment")
        }
        400..=499 => classify_refusal(answer),
        _ if answer.should_retry == Some(true) && !answer.replayed => {
            unknown(answer, false, "status 5xx, may be retried")
        }
        _ => unknown(answer, answer.replayed, "status 5xx"),
    }
}

fn classify_refusal(answer: &HttpAnswer) -> Outcome {
    let Ok(ErrorEnvelope { error }) = serde_json::from_str::<ErrorEnvelope>(&answer.body) else {
        return unknown(answer, answer.replayed, "a refusal that cannot be read");
    };
    match error.kind.as_str() {
        "idempotency_error" => unknown(answer, true, "the key was used with other parameters"),
        "card_error" => definitive(answer, declined(error)),
        "invalid_request_error" => definitive(
            answer,
            ProviderResult::Rejected {
                payment: error.payment_intent.map(|intent| intent.id),
                code: error.code.unwrap_or_else(|| "provider_rejected".to_owned()),
                message: error.message.unwrap_or_default(),
            },
        ),
        _ => unknown(answer, answer.replayed, "a refusal of an unknown kind"),
    }
}

/// The meaning of a PaymentIntent; an error says why it has none yet, or none that a program should believe.
fn read_intent(call: &ForeignCall, intent: PaymentIntent) -> Result<ProviderResult, &'static str> {
    match intent.status.as_str() {
        // Nothing but the whole of what was asked for is the charge that was asked for. A person must look at it.
        "succeeded" if !is_as_asked(call, &intent) => Err("the provider charged another amount"),
        "succeeded" => Ok(ProviderResult::Charged { payment: intent.id }),
        "requires_payment_method" | "requires_action" | "requires_confirmation" | "canceled" => {
            let error = intent.last_payment_error;
            let code = error.as_ref().and_then(|e| e.code.clone());
            Ok(ProviderResult::Declined {
                payment: Some(intent.id),
                code: code.unwrap_or_else(|| "payment_not_completed".to_owned()),
                decline_code: error.as_ref().and_then(|e| e.decline_code.clone()),
                message: error
                    .and_then(|e| e.message)
                    .unwrap_or_else(|| "The payment was not completed.".to_owned()),
            })
        }
        _ => Err("the payment is still processing"),
    }
}

fn is_as_asked(call: &ForeignCall, intent: &PaymentIntent) -> bool {
    let Ok(asked) = serde_urlencoded::from_str::<Asked>(&call.request.body) else {
        return false;
    };
    intent.amount == Some(asked.amount)
        && intent.amount_received == Some(asked.amount)
        && intent.currency.as_ref() == Some(&asked.currency)
}

fn declined(error: ErrorBody) -> ProviderResult {
    ProviderResult::Declined {
        payment: error.payment_intent.map(|intent| intent.id),
        code: error.code.unwrap_or_else(|| "card_declined".to_owned()),
        decline_code: error.decline_code,
        message: error.message.unwrap_or_else(|| "The card was declined.".to_owned()),
    }
}

fn definitive(answer: &HttpAnswer, result: ProviderResult) -> Outcome {
    Outcome::Definitive(ProviderReply {
        status: answer.status,
        result,
        request_id: answer.request_id.clone(),
    })
}

fn not_executed(answer: &HttpAnswer, reason: &str) -> Outcome {
    Outcome::NotExecuted {
        retry_after_ms: answer.retry_after_ms,
        reason: format!("{reason} ({})", answer.status),
    }
}

fn unknown(answer: &HttpAnswer, answer_is_stored: bool, reason: &str) -> Outcome {
    // An explicit "do not retry" on an unclear answer leaves only the look-up.
    let answer_is_stored = answer_is_stored || answer.should_retry == Some(false);
    Outcome::Unknown { answer_is_stored, reason: format!("{reason} ({})", answer.status) }
}

/// The next page of the list in which the call's payment must stand, if it exists.
///
/// The list, not the search: search results appear up to a minute late, in outages an hour.
pub fn look_up(call: &ForeignCall) -> FrozenRequest {
    let from_s = (call.first_sent_at_ms.unwrap_or(0) / 1000).saturating_sub(CLOCK_SKEW_S);
    let to_s = (call.last_sent_at_ms.unwrap_or(0) / 1000).saturating_add(LATE_S);
    let (from, to, limit) = (from_s.to_string(), to_s.to_string(), PAGE_SIZE.to_string());
    let mut fields = vec![("created[gte]", from.as_str()), ("created[lte]", &to), ("limit", &limit)];
    fields.extend(call.look_up.as_ref().map(|read| ("starting_after", read.after.as_str())));
    FrozenRequest { path: format!("/v1/payment_intents?{}", encode(&fields)), body: String::new() }
}

#[derive(Deserialize)]
struct List {
    data: Vec<PaymentIntent>,
    has_more: bool,
}

/// What a page of the list says about the call.
pub fn read_page(call: &ForeignCall, answer: &HttpAnswer) -> LookUp {
    let inconclusive = |from_the_start: bool, reason: &str| LookUp::Inconclusive {
        from_the_start,
        reason: format!("{reason} ({})", answer.status),
    };
    match answer.status {
        200 => {}
        // It does not know the entry that the page was to begin after.
        400 | 404 => return inconclusive(true, "the page was refused"),
        _ => return inconclusive(false, "the list was refused"),
    }
    let Ok(page) = serde_json::from_str::<List>(&answer.body) else {
        return inconclusive(false, "a list that cannot be read");
    };
    let last = page.data.last().map(|intent| intent.id.clone());
    let ours = |intent: &PaymentIntent| intent.metadata.idempotency_key.as_deref() == Some(&call.derived_key);
    match page.data.into_iter().find(ours).map(|intent| read_intent(call, intent)) {
        Some(Ok(result)) => LookUp::Found(ProviderReply {
            status: answer.status,
            result,
            request_id: answer.request_id.clone(),
        }),
        Some(Err(reason)) => inconclusive(false, reason),
        None if !page.has_more => LookUp::Absent,
        None => match last.filter(|last| call.look_up.as_ref().is_none_or(|read| read.after != *last)) {
            Some(after) => LookUp::More { after },
            None => inconclusive(true, "a list that does not go on"),
        },
    }
}
