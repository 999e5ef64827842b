//! Answers that every Worker gives: pages, problems, and what every answer carries.

use askama::Template;
use once::execute::ExecuteResult;
use once::id::RequestId;
use once::record::{Channel, StoredResponse};
use serde_json::Value;

use crate::credentials;
use crate::http::{Answer, Request};
use crate::locale::Messages;
use crate::pages::{ProblemPage, Site};
use crate::problem::{Kind, Problem, Takes};

/// The header that says what a page may load.
pub const CSP: &str = "content-security-policy";
/// What a page may load.
pub const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The policy, for a page with pictures from these origins, too.
pub fn with_images<'a>(policy: &str, origins: impl IntoIterator<Item = &'a str>) -> String {
    let origins: String = origins.into_iter().flat_map(|origin| [" ", origin]).collect();
    policy.replace("img-src 'self' data:", &format!("img-src 'self' data:{origins}"))
}

/// Another address for the same, for good.
pub fn moved(location: &str) -> Answer {
    Answer::empty(308, "redirected").with("location", location)
}

const PROBLEM_TYPE: &str = "application/problem+json";

/// A problem as the API answers it.
pub fn problem(problem: &Problem, request: &Request) -> Answer {
    let body = problem.to_json(&request.id.0);
    let mut answer = Answer::new(problem.status(), PROBLEM_TYPE, body, problem.kind.slug());
    if let Some(seconds) = problem.retry_after_s {
        answer = answer.with("retry-after", seconds.to_string());
    }
    if let Some(resource) = &problem.resource {
        answer = answer.with("location", resource.clone());
    }
    if let Some(allow) = &problem.allow {
        answer = answer.with("allow", allow.clone());
    }
    // RFC 9110, 15.5.16: what would be taken, so that a client can tell whether it is the coding or the type.
    if problem.kind == Kind::UnsupportedMediaType {
        let name = match (problem.takes, request.method.as_str()) {
            (Takes::NotCompressed, _) => "accept-encoding",
            (_, "POST") => "accept-post",
            (_, _) => "accept",
        };
        answer = answer.with(name, problem.takes.as_str());
    }
    if problem.kind == Kind::Unauthorized {
        answer = answer.with("www-authenticate", problem.challenge.unwrap_or(credentials::BEARER));
    }
    answer
}

/// A problem as an operator or a developer sees it: it says what programs are told.
pub fn problem_page(problem: &Problem, request: &Request, site: Site, link: (&str, &str)) -> Answer {
    worded_page((problem.kind.title(), &problem.detail), problem, request, site, link)
}

/// The same with another title and text: those of its kind are for programs.
pub fn worded_page(
    (title, detail): (&str, &str),
    problem: &Problem,
    request: &Request,
    site: Site,
    link: (&str, &str),
) -> Answer {
    let page = ProblemPage {
        site,
        status: problem.status(),
        title: title.to_owned(),
        detail: detail.to_owned(),
        request_id: request.id.0.clone(),
        link_href: link.0.to_owned(),
        link_text: link.1.to_owned(),
    };
    let api = self::problem(problem, request);
    let mut answer = html(problem.status(), &page, problem.kind.slug());
    answer.headers.extend(api.headers.into_iter().filter(|(name, _)| name != "content-type"));
    answer
}

/// The answer to whoever asks whether the Worker is set up: it has found all settings without which nothing works. With these of what can be done
/// without something is missing; what, the log says.
pub fn healthy(incomplete: &[String]) -> Answer {
    match incomplete {
        [] => Answer::new(200, "application/json", r#"{"status":"ok"}"#, "healthy"),
        _ => Answer::new(200, "application/json", r#"{"status":"incomplete"}"#, "incomplete"),
    }
}

/// A page.
pub fn html(status: u16, page: &impl Template, outcome: &'static str) -> Answer {
    match page.render() {
        Ok(body) => Answer::new(status, "text/html; charset=utf-8", body, outcome),
        Err(_) => Answer::new(
            500,
            "text/plain",
            "This page could not be shown. Reload it; if that does not help, report the Request-Id.",
            "render_failed",
        ),
    }
}

/// Says in which language a page is, and that another one may be had at the same address.
pub fn in_language(answer: Answer, t: &Messages) -> Answer {
    answer.with("content-language", t.locale.tag()).with("vary", "Accept-Language")
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

/// The period of the rate limiters in each wrangler.toml, in seconds.
pub const RATE_PERIOD_S: u64 = 60;

/// How operations are answered where the settings differ from the standard.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseOptions {
    /// What stands in the place of the draft's 422 for a key that was used for something else.
    pub mismatch_status: Option<u16>,
    /// A JSON answer says in `cached` whether it is a replay. The rest of the body stays as it is.
    pub marks_body: bool,
    /// What stands in the place of 201.
    pub created_status: Option<u16>,
}

/// What a refusal shows of the resource: a program is told its address, a person is sent to its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Nothing: there is none, it is another's, or nothing was run.
    Nothing,
    /// Its page, to a person: there may be nothing at its address yet.
    Page,
    /// The resource.
    Resource,
    /// The resource, and to a person that this was not what was sent first.
    Edited,
}

/// Why an operation has no response, as the client is told.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What is answered.
    pub problem: Problem,
    /// One word for the log.
    pub outcome: &'static str,
    /// What of the resource is shown.
    pub shows: Shows,
}

impl Refused {
    /// What shows the resource.
    pub const fn new(problem: Problem, outcome: &'static str) -> Self {
        Self { problem, outcome, shows: Shows::Resource }
    }

    /// The same, with no more of the resource than that.
    #[must_use]
    pub fn showing(self, shows: Shows) -> Self {
        Self { shows, ..self }
    }
}

/// The answer to an operation. The checkout and `PUT /customers/{email}` word some results in their own way, before they come here.
/// `refused` says what the answer is where the state of things does not admit it.
pub fn execute_result<R>(
    result: ExecuteResult<R>,
    channel: Channel,
    request: &Request,
    resource: &str,
    options: ResponseOptions,
    refused: impl FnOnce(R) -> Refused,
) -> Answer {
    let Refused { mut problem, outcome, shows } = match result {
        ExecuteResult::Finished { response, original_request, replayed } => {
            let mut answer = finished(response, original_request, replayed);
            if let (201, Some(status)) = (answer.status, options.created_status) {
                answer.status = status;
            }
            if options.marks_body {
                add(&mut answer.body, "cached", replayed);
            }
            return answer;
        }
        ExecuteResult::NotOwner => {
            Refused::new(Problem::new(Kind::NotFound), "stranger").showing(Shows::Nothing)
        }
        ExecuteResult::InProgress { retry_after_ms } => {
            Refused::new(Problem::new(Kind::InProgress).retry_after_ms(retry_after_ms), "in_progress")
        }
        ExecuteResult::Pending { retry_after_ms, in_doubt } => {
            let (kind, outcome) = match in_doubt {
                true => (Kind::OutcomeUnknown, "unknown"),
                false => (Kind::Unavailable, "unavailable"),
            };
            Refused::new(Problem::new(kind).retry_after_ms(retry_after_ms), outcome)
        }
        // The client's retry goes on at once; only without one the alarm waits longer.
        ExecuteResult::Interrupted { .. } => {
            Refused::new(Problem::new(Kind::Interrupted).retry_after_s(1), "interrupted")
        }
        ExecuteResult::Mismatch { fields } => {
            Refused::new(mismatch(fields, options), "mismatch").showing(Shows::Edited)
        }
        ExecuteResult::Refused(refusal) => refused(refusal),
        ExecuteResult::RateLimited => Refused::new(rate_limited(), "rate_limited").showing(Shows::Nothing),
        ExecuteResult::Expired => Refused::new(Problem::new(Kind::KeyExpired), "expired"),
        ExecuteResult::NotStarted => {
            Refused::new(Problem::new(Kind::NotFound), "not_started").showing(Shows::Nothing)
        }
    };
    match (channel, shows) {
        (_, Shows::Nothing) | (Channel::Api, Shows::Page) => {}
        // A person is shown what there is, whatever the reason.
        (Channel::Form, Shows::Edited) => return Answer::see_other(&format!("{resource}?edited"), outcome),
        (Channel::Form, Shows::Page | Shows::Resource) => return Answer::see_other(resource, outcome),
        (Channel::Api, Shows::Resource | Shows::Edited) => {
            problem.resource = Some(resource.to_owned()).filter(|resource| !resource.is_empty());
        }
    }
    Answer { outcome, ..self::problem(&problem, request) }
}

/// The key stands for another request, which differs in these fields.
pub fn mismatch(fields: Vec<String>, options: ResponseOptions) -> Problem {
    Problem { fields, status: options.mismatch_status, ..Problem::new(Kind::KeyReused) }
}

/// The answer, with the client's key in it and in the header.
pub fn echoing(mut answer: Answer, key: &str) -> Answer {
    add(&mut answer.body, "idempotency_key", key);
    answer.with("idempotency-key", key)
}

/// A problem, with its title in `error`; any other answer as it is.
pub fn with_error(mut answer: Answer) -> Answer {
    let is_problem = |(name, value): &(String, String)| name == "content-type" && value == PROBLEM_TYPE;
    if answer.headers.iter().any(is_problem)
        && let Ok(Value::Object(problem)) = json_text::from_slice(&answer.body)
        && let Some(title) = problem.get("title")
    {
        add(&mut answer.body, "error", title.clone());
    }
    answer
}

/// Adds a member to a JSON object.
fn add(body: &mut Vec<u8>, name: &str, value: impl Into<Value>) {
    if let Ok(Value::Object(mut members)) = json_text::from_slice(body) {
        members.insert(name.to_owned(), value.into());
        *body = Value::Object(members).to_string().into_bytes();
    }
}

/// The account has begun too much in its minute.
pub fn rate_limited() -> Problem {
    Problem::new(Kind::RateLimited).retry_after_s(RATE_PERIOD_S)
}

fn finished(response: StoredResponse, original_request: RequestId, replayed: bool) -> Answer {
    let outcome = match response.status {
        _ if replayed => "replayed",
        402 => "declined",
        200 => "done",
        202 => "received",
        _ => "created",
    };
    let StoredResponse { status, headers, body } = response;
    let answer = Answer { status, headers, body, outcome, key: None, operator: None }
        .with("original-request", original_request.0);
    if replayed { answer.with("idempotent-replayed", "true") } else { answer }
}
