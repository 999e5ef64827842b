//! A request of the runtime as plain data, and the answer back.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use worker::js_sys::{Array, JSON, Uint8Array};
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::worker_sys::web_sys;
use worker::{Context, Delay, Env, ResponseBody};

use crate::log::{is_written, line, log};
use crate::metrics;
use crate::now_ms;
use crate::random;
use crate::trace;
use once::id::RequestId;
use web::http::{Answer, Request, Url};
use web::pages::Site;
use web::problem::{Kind, Problem};
use web::reply;
use web::session::Session;
use web::url::decode_unreserved;

/// Reads all but the body.
pub fn read(incoming: &web_sys::Request) -> worker::Result<Request> {
    let url = incoming.url();
    let url = Url::split(&url);
    let now_ms = now_ms();
    let headers = JSON::stringify(&Array::from(&incoming.headers()))?;
    Ok(Request {
        id: RequestId::new(now_ms, random::bytes()?),
        now_ms,
        method: incoming.method(),
        scheme: url.scheme.to_owned(),
        host: url.host.to_owned(),
        path: decode_unreserved(url.path),
        query: url.query.to_owned(),
        headers: json_text::from_str(&String::from(headers))?,
        body: Vec::new(),
        trace: None,
    })
}

/// What to answer to a request that came in the clear. A cookie or a token that comes like that has been seen already: it must not work. Nor is
/// a program with credentials led to https, where it would go on to send them in the clear first and never hear of it.
pub fn insecure(request: &Request) -> Option<Result<Answer, Problem>> {
    if request.secure() || request.is_local() {
        return None;
    }
    Some(match request.method.as_str() {
        "GET" | "HEAD" if request.header("authorization").is_none() => Ok(reply::moved(&request.https_url())),
        _ => Err(Problem::new(Kind::HttpsRequired)),
    })
}

/// The body. One that says that it is too large is not read, and one that does not say so is read up to the limit. A caller
/// who is known may not hold it open either: what has not come whole in time is given up.
pub async fn body(
    request: &Request,
    incoming: &web_sys::Request,
    max_bytes: usize,
    timeout_ms: u64,
) -> Result<Vec<u8>, Problem> {
    // More than 32 bits, too.
    let declared: Option<u64> =
        request.header("content-length").and_then(|length| length.trim().parse().ok());
    if declared.is_some_and(|length| length > max_bytes as u64) {
        return Err(Problem::too_large(max_bytes));
    }
    if incoming.body().is_none() {
        return Ok(Vec::new());
    }
    let broke_off = || Problem::because(Kind::BadRequest, "The body broke off. Nothing was executed.");
    let whole = async {
        // It is no longer than it says: the runtime sees to that.
        if declared.is_some() {
            let bytes = incoming.array_buffer().map_err(|_| broke_off())?;
            let bytes = JsFuture::from(bytes).await.map_err(|_| broke_off())?;
            return Ok(Uint8Array::new(&bytes).to_vec());
        }
        let mut incoming = worker::Request::from(Clone::clone(incoming));
        let mut stream = incoming.stream().map_err(|_| broke_off())?;
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            body.extend(chunk.map_err(|_| broke_off())?);
            if body.len() > max_bytes {
                return Err(Problem::too_large(max_bytes));
            }
        }
        Ok(body)
    };
    match select(pin!(whole), Delay::from(Duration::from_millis(timeout_ms))).await {
        Either::Left((body, _)) => body,
        Either::Right(_) => Err(Problem::timed_out(timeout_ms)),
    }
}

/// A problem, as a page for a person and as problem details for everyone else. What is wrong with the settings is for the log; in the
/// demo, and where it is asked for from the same machine, the answer says it, too.
pub fn refuse(problem: Problem, request: &Request, site: Site) -> Answer {
    let start = ("/", site.t.back_to_start);
    refuse_to(problem, request, site, start)
}

/// The same, whose page leads back to another address than the start, with the text of that link.
pub fn refuse_to(problem: Problem, request: &Request, site: Site, back: (&str, &str)) -> Answer {
    let problem = &told(problem, request, &site);
    if !request.wants_problem_page() {
        return reply::problem(problem, request);
    }
    let link = link_of(problem, request, &site, back);
    reply::problem_page(problem, request, site, link)
}

/// The same for a customer: its page says in their language what it means for them. What programs are told stays as it is, and so does what whoever
/// sets it up on their own machine is told of a setting.
pub fn refuse_customer(problem: Problem, request: &Request, site: Site, back: (&str, &str)) -> Answer {
    if !request.wants_problem_page() || (problem.names_setting && request.is_local()) {
        return refuse_to(problem, request, site, back);
    }
    let problem = &told(problem, request, &site);
    let (t, link) = (site.t, link_of(problem, request, &site, back));
    reply::in_language(reply::worded_page(t.problem(problem), problem, request, site, link), t)
}

/// Where its page leads.
fn link_of<'a>(
    problem: &Problem,
    request: &'a Request,
    site: &Site,
    back: (&'a str, &'a str),
) -> (&'a str, &'a str) {
    match problem.kind {
        Kind::Unreadable => (&request.path, site.t.load_again),
        _ => back,
    }
}

/// The problem with what may be said of it here: what is wrong with the settings is written to the log.
fn told(mut problem: Problem, request: &Request, site: &Site) -> Problem {
    if problem.names_setting {
        let event = if problem.status() >= 500 { "misconfigured" } else { "closed" };
        let fields = [("event", event.into()), ("error", problem.detail.as_str().into())];
        log(if problem.status() >= 500 { "error" } else { "warn" }, &fields);
        if request.is_local() {
            problem.detail.push_str(
                " Under `wrangler dev` a secret is a line NAME=\"value\" of .dev.vars instead (of .dev.vars.demo, with \
                 --env demo).",
            );
        } else if !site.demo {
            problem.kind.explanation().clone_into(&mut problem.detail);
        }
    }
    problem
}

/// Writes a request and its answer to the log. `route` is the pattern that it is of.
fn log_request(request: &Request, route: &str, answer: &Answer) {
    let mut fields = fields_alike(request, route, answer);
    fields.extend([
        ("request_id", request.id.0.as_str().into()),
        ("ms", now_ms().saturating_sub(request.now_ms).into()),
    ]);
    fields.extend(trace::fields(request.trace.as_ref().map(|trace| trace.context)));
    log(if answer.status >= 500 { "error" } else { "info" }, &fields);
}

/// The fields that are alike whenever the same request is answered alike.
fn fields_alike(request: &Request, route: &str, answer: &Answer) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("event", "request".into()),
        ("method", request.method.as_str().into()),
        ("route", route.into()),
        ("status", answer.status.into()),
        ("outcome", answer.outcome.into()),
    ];
    if let Some((owner, key_hash)) = &answer.key {
        fields.extend([("owner", owner.as_str().into()), ("key_hash", key_hash.as_str().into())]);
    }
    if let Some((operator, subject)) = &answer.operator {
        fields.extend([("operator", operator.as_str().into()), ("subject", subject.as_str().into())]);
    }
    fields
}

/// How the line in the log begins of each request that is the very same as this one and is answered like it, without being read; what is its own
/// comes behind it, and the bracket. `None` where such lines are not written. None of them failed, or is part of a trace.
pub fn line_begins(request: &Request, route: &str, answer: &Answer) -> Option<String> {
    if !is_written("info") {
        return None;
    }
    let mut fields = fields_alike(request, route, answer);
    fields.push(("verbatim", true.into()));
    let mut line = line("info", &fields);
    line.pop();
    Some(line)
}

/// The span of a request, if it is part of a trace.
fn record_request(request: &Request, route: &str, answer: &Answer) {
    let Some(trace) = &request.trace else { return };
    let mut span = trace.span(&request.method, route, request.now_ms, now_ms());
    span.set("http.response.status_code", answer.status);
    span.set("url.scheme", request.scheme.as_str());
    span.set("paid_once.request_id", request.id.0.as_str());
    span.set("paid_once.outcome", answer.outcome);
    if let Some((_, key_hash)) = &answer.key {
        span.set("paid_once.key_hash", key_hash.as_str());
    }
    // What the caller did wrong is no failure of ours.
    if answer.status >= 500 {
        span.fail(answer.status.to_string());
    }
    trace::record(span);
}

/// Ends a request: its line in the log, its counts, and what is sent. `route` is the pattern that it is of; a static file takes the place of
/// the body.
pub fn finish(
    answer: Answer,
    request: &Request,
    route: &'static str,
    env: &Env,
    ctx: &Context,
    file: Option<ResponseBody>,
) -> worker::Result<web_sys::Response> {
    let answer = reply::finish(answer, request);
    log_request(request, route, &answer);
    record_request(request, route, &answer);
    metrics::request(route, &request.method, answer.status, answer.outcome);
    if let Some(flush) = metrics::flush(env) {
        ctx.wait_until(flush);
    }
    if let Some(flush) = trace::flush(env) {
        ctx.wait_until(flush);
    }
    write(answer, file)
}

/// What is sent: the answer, with its own body or with a static file as its body. All but the body is one text for JavaScript.
fn write(answer: Answer, file: Option<ResponseBody>) -> worker::Result<web_sys::Response> {
    let init = json!({ "status": answer.status, "headers": answer.headers }).to_string();
    let init = JSON::parse(&init)?.unchecked_into::<web_sys::ResponseInit>();
    let response = match file {
        Some(ResponseBody::Stream(stream)) => {
            web_sys::Response::new_with_opt_readable_stream_and_init(Some(&stream), &init)
        }
        Some(ResponseBody::Body(bytes)) => with_bytes(&bytes, &init),
        None if !answer.body.is_empty() => with_bytes(&answer.body, &init),
        Some(ResponseBody::Empty) | None => web_sys::Response::new_with_opt_str_and_init(None, &init),
    };
    Ok(response?)
}

fn with_bytes(bytes: &[u8], init: &web_sys::ResponseInit) -> Result<web_sys::Response, JsValue> {
    web_sys::Response::new_with_opt_buffer_source_and_init(Some(&Uint8Array::from(bytes)), init)
}

/// The runtime failed before anything was run.
pub fn unavailable(error: worker::Error) -> Problem {
    log("error", &[("event", "platform".into()), ("error", error.to_string().into())]);
    Problem::because(
        Kind::Unavailable,
        "Nothing was executed. Send the same request with the same key again.",
    )
    .retry_after_s(1)
}

/// Something could not be looked up. It says nothing about what was paid.
pub fn unreadable(error: worker::Error) -> Problem {
    log("error", &[("event", "object_unreadable".into()), ("error", error.to_string().into())]);
    Problem::new(Kind::Unreadable).retry_after_s(1)
}

/// The session of a browser, or a new one.
pub fn session(request: &Request) -> worker::Result<Session> {
    let known = request.header("cookie").and_then(|cookies| Session::from_cookies(cookies, request.secure()));
    match known {
        Some(session) => Ok(session),
        None => Ok(Session::new(random::uuid()?)),
    }
}
