//! The only place where a verdict becomes an HTTP status; but for an expired form, which `form` shows anew.

use serde_json::{Value, json};

use messages::message::{ExecuteResult, KeyStatus, KeyView, View};
use once::fingerprint::FieldError;
use once::id::RequestId;
use once::record::{Channel, StoredResponse};
use payments::flows::Refusal;
use payments::payment::tries::Try;
use payments::payment::{Payment, Refund};
use payments::timestamp;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// What the one page may load that mounts Stripe's Payment Element: <https://docs.stripe.com/security/guide>.
pub const CARD_PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; \
     script-src 'self' https://js.stripe.com https://*.js.stripe.com; img-src 'self' data:; \
     connect-src 'self' https://api.stripe.com; \
     frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The period of the rate limiter in wrangler.toml, in seconds.
pub const RATE_PERIOD_S: u64 = 60;

/// How operations are answered where the settings differ from the standard.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseOptions {
    /// What stands in the place of the draft's 422 for a key that was used for something else.
    pub mismatch_status: Option<u16>,
    /// A JSON answer says in `cached` whether it is a replay. The rest of the body stays as it is.
    pub marks_body: bool,
}

/// The answer to an operation.
pub fn verdict(
    verdict: ExecuteResult,
    channel: Channel,
    request: &Request,
    resource: &str,
    options: ResponseOptions,
) -> Answer {
    let seconds = |ms: u64| Some(ms.div_ceil(1000).max(1));
    let (mut problem, outcome) = match verdict {
        ExecuteResult::Finished { response, original_request, replayed } => {
            let mut answer = finished(response, original_request, replayed);
            if options.marks_body {
                mark(&mut answer.body, replayed);
            }
            return answer;
        }
        ExecuteResult::NotOwner => (Problem::new(Kind::NotFound), "stranger"),
        ExecuteResult::InProgress { retry_after_ms } => {
            let mut problem = Problem::new(Kind::InProgress);
            problem.retry_after_s = seconds(retry_after_ms);
            (problem, "in_progress")
        }
        ExecuteResult::Pending { retry_after_ms, in_doubt } => {
            let mut problem = Problem::new(if in_doubt { Kind::OutcomeUnknown } else { Kind::Unavailable });
            problem.retry_after_s = seconds(retry_after_ms);
            (problem, if in_doubt { "unknown" } else { "unavailable" })
        }
        // The client's retry goes on at once; only without one the alarm waits longer.
        ExecuteResult::Interrupted { .. } => {
            let mut problem = Problem::new(Kind::Interrupted);
            problem.retry_after_s = Some(1);
            (problem, "interrupted")
        }
        ExecuteResult::Mismatch { fields } => {
            let mut problem = Problem::new(Kind::KeyReused);
            problem.fields = fields;
            problem.status = options.mismatch_status;
            (problem, "mismatch")
        }
        ExecuteResult::Refused(refusal) => refused(refusal, request.now_ms),
        ExecuteResult::RateLimited => (rate_limited(), "rate_limited"),
        ExecuteResult::Expired => (Problem::new(Kind::KeyExpired), "expired"),
        ExecuteResult::NotStarted => (Problem::new(Kind::NotFound), "not_started"),
    };
    let shows_resource = !matches!(outcome, "stranger" | "not_started" | "no_payment" | "rate_limited");
    if channel == Channel::Form && shows_resource {
        // A person is shown what there is, whatever the reason.
        let edited = if outcome == "mismatch" { "?edited" } else { "" };
        return Answer::see_other(&format!("{resource}{edited}"), outcome);
    }
    if shows_resource && !resource.is_empty() {
        problem.resource = Some(resource.to_owned());
    }
    Answer { outcome, ..web::reply::problem(&problem, request) }
}

/// Adds `cached` to a JSON object.
fn mark(body: &mut Vec<u8>, replayed: bool) {
    if let Ok(Value::Object(mut members)) = serde_json::from_slice(body) {
        members.insert("cached".to_owned(), replayed.into());
        *body = Value::Object(members).to_string().into_bytes();
    }
}

/// What the payment's state forbids.
fn refused(refusal: Refusal, now_ms: u64) -> (Problem, &'static str) {
    match refusal {
        Refusal::NoPayment => (Problem::new(Kind::NotFound), "no_payment"),
        Refusal::State { state, detail } => {
            let mut problem = Problem::because(Kind::PaymentState, detail);
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
        Refusal::LimitReached { detail } => (Problem::because(Kind::LimitReached, detail), "limit_reached"),
    }
}

/// The order was tried too often in a row.
pub fn too_soon(retry_at_ms: u64, now_ms: u64) -> Problem {
    let mut problem = Problem::new(Kind::TryTooSoon);
    problem.retry_after_s = Some(retry_at_ms.saturating_sub(now_ms).div_ceil(1000).max(1));
    problem
}

/// The account has begun too much in its minute.
pub fn rate_limited() -> Problem {
    let mut problem = Problem::new(Kind::RateLimited);
    problem.retry_after_s = Some(RATE_PERIOD_S);
    problem
}

fn finished(response: StoredResponse, original_request: RequestId, replayed: bool) -> Answer {
    let outcome = match response.status {
        _ if replayed => "replayed",
        402 => "declined",
        200 => "moved",
        _ => "created",
    };
    let StoredResponse { status, headers, body } = response;
    let answer =
        Answer { status, headers, body, outcome, key: None }.with("original-request", original_request.0);
    if replayed { answer.with("idempotent-replayed", "true") } else { answer }
}

/// A ride as JSON. Before it is created there is only its id.
pub fn ride(view: &View, id: &str) -> Answer {
    let mut body = match &view.ride {
        Some(ride) => ride.to_json(),
        None => json!({ "id": id, "object": "ride", "status": "pending" }),
    };
    if view.key.status == KeyStatus::Unknown
        && let Some(status) = body.get_mut("status")
    {
        *status = "unknown".into();
    }
    Answer::new(200, "application/json", body.to_string(), "shown")
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
