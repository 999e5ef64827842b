//! What the API answers: how operations end, by [`web::reply::verdict`], and what is shown.

use serde_json::json;

use messages::message::{ExecuteResult, KeyView};
use once::fingerprint::FieldError;
use once::record::Channel;
use payments::payment::operation::Refusal;
use payments::payment::tries::{GIVING_BACK, Try};
use payments::payment::{Payment, Refund};
use payments::timestamp;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::reply::ResponseOptions;

/// What the one page may load that mounts Stripe's Payment Element: <https://docs.stripe.com/security/guide>.
pub const CARD_PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; \
     script-src 'self' https://js.stripe.com https://*.js.stripe.com; img-src 'self' data:; \
     connect-src 'self' https://api.stripe.com; \
     frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The answer to an operation.
pub fn verdict(
    verdict: ExecuteResult,
    channel: Channel,
    request: &Request,
    resource: &str,
    options: ResponseOptions,
) -> Answer {
    web::reply::verdict(verdict, channel, request, resource, options, |refusal| {
        refused(refusal, request.now_ms)
    })
}

/// What the payment's state forbids.
fn refused(refusal: Refusal, now_ms: u64) -> (Problem, &'static str) {
    match refusal {
        Refusal::NoPayment => (Problem::new(Kind::NotFound), "no_payment"),
        Refusal::State { state, detail } => {
            let mut problem = Problem::because(Kind::PaymentState, detail);
            problem.retry_after_s = (state == GIVING_BACK).then_some(GIVING_BACK_AGAIN_S);
            problem.state = Some(state);
            (problem, "payment_state")
        }
        Refusal::TooMuch { available_minor, detail } => {
            let mut problem = Problem::because(Kind::AmountTooLarge, detail);
            problem.available = Some(available_minor);
            (problem, "too_much")
        }
        Refusal::Amount { message } => {
            let mut problem = Problem::new(Kind::InvalidParameters);
            problem.errors = vec![FieldError { field: "amount".to_owned(), message }];
            (problem, "invalid_amount")
        }
        Refusal::LinkReplaced => (Problem::new(Kind::LinkReplaced), "link_replaced"),
        Refusal::LinkEnded => (Problem::new(Kind::LinkEnded), "link_ended"),
        Refusal::TooSoon { retry_at_ms } => (too_soon(retry_at_ms, now_ms), "too_soon"),
        Refusal::Revision { revision } => {
            let mut problem = Problem::new(Kind::RevisionMismatch);
            problem.revision = Some(revision);
            (problem, "revision_mismatch")
        }
        Refusal::Field { field, message } => {
            let mut problem = Problem::new(Kind::InvalidParameters);
            problem.errors = vec![FieldError { field, message }];
            (problem, "invalid_parameter")
        }
        Refusal::KeysUnusable => (keys_unusable(), "keys_unusable"),
        Refusal::Overtaken => (Problem::new(Kind::InProgress), "overtaken"),
        Refusal::LimitReached { detail } => (Problem::because(Kind::LimitReached, detail), "limit_reached"),
    }
}

/// When to ask again, in seconds, while money of an earlier try is being given back.
pub const GIVING_BACK_AGAIN_S: u64 = 60;

/// When to ask again, in seconds, where an operator has to set a key first.
const KEYS_AGAIN_S: u64 = 60;

/// The account has keys of its own, and they cannot be used.
pub fn keys_unusable() -> Problem {
    let mut problem = Problem::because(
        Kind::Unavailable,
        "This account has keys of its own at the provider, and they cannot be used now. Nothing was run, and nothing is charged with another \
         key. Whoever runs this service sees at the desk what is wrong with it.",
    );
    problem.retry_after_s = Some(KEYS_AGAIN_S);
    problem
}

/// The order was tried too often in a row.
pub fn too_soon(retry_at_ms: u64, now_ms: u64) -> Problem {
    let mut problem = Problem::new(Kind::TryTooSoon);
    problem.retry_after_s = Some(retry_at_ms.saturating_sub(now_ms).div_ceil(1000).max(1));
    problem
}

/// A payment as JSON.
pub fn payment(payment: &Payment, refunds: &[Refund], tries: &[Try]) -> Answer {
    Answer::new(200, "application/json", payment.to_json(refunds, tries).to_string(), "shown")
}

/// A payment's refunds as JSON, newest first. They are all there: a payment has few.
pub fn refunds(payment: &Payment, refunds: &[Refund]) -> Answer {
    let data: Vec<_> = refunds.iter().rev().map(|refund| refund.to_json(payment)).collect();
    let body = json!({ "object": "list", "data": data, "has_more": false });
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
        "request_hash": view.request_hash,
        "attempts": view.attempts,
        "created_at": timestamp(view.created_at_ms),
        "expires_at": view.expires_at_ms.map(timestamp),
        "response_code": view.response_code,
        "resource": resource,
        "timeline": timeline,
    });
    Answer::new(200, "application/json", body.to_string(), "shown")
}
