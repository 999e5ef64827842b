//! Answers that every Worker gives: pages, problems, and what every answer carries.

use askama::Template;

use crate::http::{Answer, Request};
use crate::pages::{ProblemPage, Site};
use crate::problem::{Kind, Problem};

/// The header that says what a page may load.
pub const CSP: &str = "content-security-policy";
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

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

/// The answer to whoever asks whether the Worker is set up: it has found all settings.
pub fn healthy() -> Answer {
    Answer::new(200, "application/json", r#"{"status":"ok"}"#, "healthy")
}

/// A page.
pub fn html(status: u16, page: &impl Template, outcome: &'static str) -> Answer {
    match page.render() {
        Ok(body) => Answer::new(status, "text/html; charset=utf-8", body, outcome),
        Err(_) => Answer::new(500, "text/plain", "The page could not be made.", "render_failed"),
    }
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
