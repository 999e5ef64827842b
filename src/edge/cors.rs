//! Scripts of other sites: only those of the configured origins may call the API and read its answers.
//!
//! The API takes a bearer token and no cookie, so credentials are never allowed. Source: the
//! [Fetch standard](https://fetch.spec.whatwg.org/#http-cors-protocol).

use super::route::{Route, is_api};
use web::http::{Answer, Request};

/// What a script may send.
const REQUEST_HEADERS: &str =
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Prefer, Traceparent, Tracestate";
/// What it may read beside the body.
const ANSWER_HEADERS: &str = "Accept, Accept-Encoding, Accept-Post, Allow, ETag, Idempotent-Replayed, Location, Original-Request, \
     RateLimit-Policy, Request-Id, Retry-After, Server-Timing, WWW-Authenticate";
/// For how long a browser keeps the permission, in seconds.
const MAX_AGE_S: u32 = 7200;

/// The answer to `OPTIONS`: what the address allows, and whether a script of another site may ask for it.
pub fn options(request: &Request, route: &Route, origins: &[String]) -> Answer {
    let answer = Answer::empty(204, "options").with("allow", route.allow());
    let is_preflight = request.header("access-control-request-method").is_some();
    if !is_preflight || allowed_origin(request, Some(route), origins).is_none() {
        return answer;
    }
    answer
        .with("access-control-allow-methods", route.allow())
        .with("access-control-allow-headers", REQUEST_HEADERS)
        .with("access-control-max-age", MAX_AGE_S.to_string())
}

/// Adds to an answer that the script which asked may read it.
pub fn allow(answer: Answer, request: &Request, route: Option<&Route>, origins: &[String]) -> Answer {
    if origins.is_empty() {
        return answer;
    }
    // Also where it is not allowed: a cache must not hand one origin's answer to another.
    let answer = answer.with("vary", "Origin");
    match allowed_origin(request, route, origins) {
        Some(origin) => answer
            .with("access-control-allow-origin", origin)
            .with("access-control-expose-headers", ANSWER_HEADERS),
        None => answer,
    }
}

fn allowed_origin<'a>(request: &'a Request, route: Option<&Route>, origins: &[String]) -> Option<&'a str> {
    let origin = request.header("origin")?;
    let is_api = route.is_some_and(is_api);
    (is_api && origins.iter().any(|allowed| allowed == origin)).then_some(origin)
}
