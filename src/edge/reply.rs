//! The only place where a verdict becomes an HTTP status; but for an expired form, which `form` shows anew.

use askama::Template;
use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::pages::{ProblemPage, Site};
use super::problem::{Kind, Problem};
use crate::object::message::{KeyStatus, KeyView, Verdict, View};
use once::fingerprint::FieldError;
use once::id::RequestId;
use once::record::{Channel, StoredResponse};
use payments::flows::Refusal;
use payments::payment::tries::Try;
use payments::payment::{Payment, Refund};
use payments::timestamp;

/// The header that says what a page may load.
pub const CSP: &str = "content-security-policy";
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The same for the one page that mounts Stripe's Payment Element: <https://docs.stripe.com/security/guide>.
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
    verdict: Verdict,
    channel: Channel,
    request: &Request,
    resource: &str,
    options: ResponseOptions,
) -> Answer {
    let seconds = |ms: u64| Some(ms.div_ceil(1000).max(1));
    let (mut problem, outcome) = match verdict {
        Verdict::Finished { response, original_request, replayed } => {
            let mut answer = finished(response, original_request, replayed);
            if options.marks_body {
                mark(&mut answer.body, replayed);
            }
            return answer;
        }
        Verdict::Stranger => (Problem::new(Kind::NotFound), "stranger"),
        Verdict::InProgress { retry_after_ms } => {
            let mut problem = Problem::new(Kind::InProgress);
            problem.retry_after_s = seconds(retry_after_ms);
            (problem, "in_progress")
        }
        Verdict::Pending { retry_after_ms, in_doubt } => {
            let mut problem = Problem::new(if in_doubt { Kind::OutcomeUnknown } else { Kind::Unavailable });
            problem.retry_after_s = seconds(retry_after_ms);
            (problem, if in_doubt { "unknown" } else { "unavailable" })
        }
        // The client's retry goes on at once; only without one the alarm waits longer.
        Verdict::Interrupted { .. } => {
            let mut problem = Problem::new(Kind::Interrupted);
            problem.retry_after_s = Some(1);
            (problem, "interrupted")
        }
        Verdict::Mismatch { fields } => {
            let mut problem = Problem::new(Kind::KeyReused);
            problem.fields = fields;
            problem.status = options.mismatch_status;
            (problem, "mismatch")
        }
        Verdict::Refused(refusal) => refused(refusal, request.now_ms),
        Verdict::RateLimited => (rate_limited(), "rate_limited"),
        Verdict::Expired => (Problem::new(Kind::KeyExpired), "expired"),
        Verdict::NotStarted => (Problem::new(Kind::NotFound), "not_started"),
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
    self::problem(&problem, request).named(outcome)
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

/// Another address for the same, for good.
pub fn moved(location: &str) -> Answer {
    Answer::empty(308, "moved").with("location", location)
}

/// A problem as the API answers it.
pub fn problem(problem: &Problem, request: &Request) -> Answer {
    let body = problem.to_json(&request.id.0);
    let mut answer = Answer::new(problem.status(), "application/problem+json", body, problem.kind.slug());
    if let Some(seconds) = problem.retry_after_s {
        answer = answer.with("retry-after", seconds.to_string());
    }
    if let Some(resource) = &problem.resource {
        answer = answer.with("location", resource.clone());
    }
    if let Some(allow) = &problem.allow {
        answer = answer.with("allow", allow.clone());
    }
    if problem.kind == Kind::Unauthorized {
        answer = answer.with("www-authenticate", "Bearer");
    }
    answer
}

/// A problem as a person sees it.
pub fn problem_page(problem: &Problem, request: &Request, site: Site, link: (&str, &str)) -> Answer {
    titled_page(problem.kind.title(), problem, request, site, link)
}

/// The same under another title: that of its kind is for programs.
pub fn titled_page(
    title: &str,
    problem: &Problem,
    request: &Request,
    site: Site,
    link: (&str, &str),
) -> Answer {
    let page = ProblemPage {
        site,
        status: problem.status(),
        title: title.to_owned(),
        detail: problem.detail.clone(),
        request_id: request.id.0.clone(),
        link_href: link.0.to_owned(),
        link_text: link.1.to_owned(),
    };
    let api = self::problem(problem, request);
    let mut answer = html(problem.status(), &page, problem.kind.slug());
    answer.headers.extend(api.headers.into_iter().filter(|(name, _)| name != "content-type"));
    answer
}

/// A page.
pub fn html(status: u16, page: &impl Template, outcome: &'static str) -> Answer {
    match page.render() {
        Ok(body) => Answer::new(status, "text/html; charset=utf-8", body, outcome),
        Err(_) => Answer::new(500, "text/plain", "The page could not be made.", "render_failed"),
    }
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

/// What every answer carries: the request's id and the security headers.
pub fn finish(answer: Answer, request: &Request) -> Answer {
    let mut answer = answer.with("request-id", request.id.0.clone());
    let is_page =
        answer.headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("text/html"));
    let has = |answer: &Answer, name: &str| answer.headers.iter().any(|(n, _)| n == name);
    let mut fixed = vec![
        ("x-content-type-options", "nosniff"),
        // Not `no-referrer`: with it browsers send `Origin: null` with our own forms.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    if !has(&answer, CSP) {
        fixed.push((CSP, if is_page { PAGE_POLICY } else { "default-src 'none'; frame-ancestors 'none'" }));
    }
    if request.secure() {
        fixed.push(("strict-transport-security", "max-age=31536000"));
    }
    if is_page {
        fixed.push(("permissions-policy", "camera=(), geolocation=(), microphone=()"));
    }
    for (name, value) in fixed {
        // The page of the demo's bank, and that of the documentation, bring their own.
        if !has(&answer, name) {
            answer = answer.with(name, value);
        }
    }
    if !has(&answer, "cache-control") {
        // Answers are personal and change: nobody keeps them.
        answer = answer.with("cache-control", "private, no-store");
    }
    answer
}

impl Answer {
    fn named(mut self, outcome: &'static str) -> Self {
        self.outcome = outcome;
        self
    }
}
