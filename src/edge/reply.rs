//! What the API answers: how operations end, by [`web::reply::execute_result`], and what is shown.

use serde_json::{Value, json};

use messages::message::{ExecuteResult, KeyView};
use once::fingerprint::FieldError;
use once::record::Channel;
use payments::payment::operation::Refusal;
use payments::payment::tries::{GIVING_BACK, Try};
use payments::payment::{Payment, Refund};
use payments::timestamp;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem, invalid_parameters};
use web::reply::{Refused, ResponseOptions, Shows};

/// What the one page may load that mounts Stripe's Payment Element: <https://docs.stripe.com/security/guide>.
pub const CARD_PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; \
     script-src 'self' https://js.stripe.com https://*.js.stripe.com; img-src 'self' data:; \
     connect-src 'self' https://api.stripe.com; \
     frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The answer to an operation.
pub fn execute_result(
    result: ExecuteResult,
    channel: Channel,
    request: &Request,
    resource: &str,
    options: ResponseOptions,
) -> Answer {
    web::reply::execute_result(result, channel, request, resource, options, |refusal| {
        refused(refusal, request.now_ms)
    })
}

/// What the payment's state forbids.
fn refused(refusal: Refusal, now_ms: u64) -> Refused {
    let wrong = |field: String, message| invalid_parameters(vec![FieldError { field, message }]);
    match refusal {
        Refusal::NoPayment => {
            Refused::new(Problem::new(Kind::NotFound), "no_payment").showing(Shows::Nothing)
        }
        Refusal::State { state, detail } => {
            let problem = Problem::because(Kind::PaymentState, detail)
                .retry_after_s((state == GIVING_BACK).then_some(GIVING_BACK_AGAIN_S));
            Refused::new(Problem { state: Some(state), ..problem }, "payment_state")
        }
        Refusal::TooMuch { available_minor, detail } => {
            let problem = Problem::because(Kind::AmountTooLarge, detail);
            Refused::new(Problem { available: Some(available_minor), ..problem }, "too_much")
        }
        Refusal::Amount { message } => Refused::new(wrong("amount".to_owned(), message), "invalid_amount"),
        Refusal::LinkReplaced => Refused::new(Problem::new(Kind::LinkReplaced), "link_replaced"),
        Refusal::LinkEnded => Refused::new(Problem::new(Kind::LinkEnded), "link_ended"),
        Refusal::TooSoon { retry_at_ms } => Refused::new(too_soon(retry_at_ms, now_ms), "too_soon"),
        Refusal::Revision { revision } => {
            let problem = Problem::new(Kind::RevisionMismatch);
            Refused::new(Problem { revision: Some(revision), ..problem }, "revision_mismatch")
        }
        Refusal::Field { field, message } => Refused::new(wrong(field, message), "invalid_parameter"),
        Refusal::KeysUnusable => Refused::new(keys_unusable(), "keys_unusable").showing(Shows::Page),
        Refusal::Overtaken => Refused::new(Problem::new(Kind::InProgress), "overtaken"),
        Refusal::LimitReached { detail } => {
            Refused::new(Problem::because(Kind::LimitReached, detail), "limit_reached")
        }
    }
}

/// When to ask again, in seconds, while money of an earlier try is being given back.
pub const GIVING_BACK_AGAIN_S: u64 = 60;

/// When to ask again, in seconds, where an operator has to set a key first.
const KEYS_AGAIN_S: u64 = 60;

/// The account has keys of its own, and they cannot be used.
pub fn keys_unusable() -> Problem {
    let detail = "This account has keys of its own at the provider, and they cannot be used now. Nothing was executed, and nothing is charged with \
                  another key. Whoever runs this service sees at the desk what is wrong with it.";
    Problem::because(Kind::Unavailable, detail).retry_after_s(KEYS_AGAIN_S)
}

/// The order was tried too often in a row.
pub fn too_soon(retry_at_ms: u64, now_ms: u64) -> Problem {
    Problem::new(Kind::TryTooSoon).retry_after_ms(retry_at_ms.saturating_sub(now_ms))
}

/// A payment as JSON.
pub fn payment(payment: &Payment, refunds: &[Refund], tries: &[Try]) -> Answer {
    Answer::new(200, "application/json", payment.to_json(refunds, tries).to_string(), "shown")
}

/// A payment's refunds as JSON, newest first. They are all there: a payment has few.
pub fn refunds(payment: &Payment, refunds: &[Refund]) -> Answer {
    let data: Vec<_> = refunds.iter().rev().map(|refund| refund.to_json(payment)).collect();
    list(&payment.id.refunds_path(), &data, false)
}

/// A page of a list.
pub fn list(url: &str, data: &[Value], has_more: bool) -> Answer {
    let body = json!({ "object": "list", "url": url, "has_more": has_more, "data": data });
    Answer::new(200, "application/json", body.to_string(), "shown")
}

/// A key as JSON.
pub fn key(view: &KeyView, resource: &str) -> Answer {
    let timeline: Vec<_> = view
        .timeline
        .iter()
        .map(|entry| {
            json!({
                "at": timestamp(entry.at_ms),
                "attempt": entry.attempt,
                "event": entry.event,
                "detail": entry.detail,
            })
        })
        .collect();
    let body = json!({
        "object": "idempotency_key",
        "status": view.status,
        "recovery_point": view.recovery_point,
        // None any more once the personal data is erased.
        "request_hash": (!view.request_hash.is_empty()).then_some(&view.request_hash),
        "attempts": view.attempts,
        "created_at": timestamp(view.created_at_ms),
        "expires_at": view.expires_at_ms.map(timestamp),
        "response_code": view.response_code,
        "resource": resource,
        "timeline": timeline,
    });
    Answer::new(200, "application/json", body.to_string(), "shown")
}
