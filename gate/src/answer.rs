//! What a visitor gets: the origin's answer with keys in its forms, or what the gate says itself.

use std::rc::Rc;

use askama::Template;
use runtime::log::log;
use web::http::Request;
use web::locale::negotiate::negotiate;
use web::reply::RATE_PERIOD_S;
use web::url::join;
use worker::worker_sys::web_sys;
use worker::{Headers, Response, ResponseBody, Result};

use crate::app::Gate;
use crate::ask::REPLY_HEADER;
use crate::body::{self, Encoding};
use crate::config::{Kind, Route};
use crate::cookies::for_our_host;
use crate::headers::{OF_BYTES, OF_CACHES, cache_control, led_to, script_nonce};
use crate::message::{FormAgain, MessagePage};
use crate::page::{Page, Rewritten, rewrite};
use crate::say::Say;
use crate::visitor::{self, Sender};

/// To what an answer of the origin is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
    /// To a request without a key.
    Passed,
    /// To what was sent under a key.
    Sent {
        /// It was answered before.
        replayed: bool,
    },
    /// To what was sent under a key, and is looked at later, at an address of the gate's.
    Seen,
}

/// An answer of the origin: its addresses become ours, and its forms get keys. The request is that of the address that has answered.
pub(crate) async fn from_origin(
    gate: &Gate,
    request: &Request,
    route: &Route,
    mut response: Response,
    given: Given,
) -> Result<Response> {
    let status = response.status_code();
    if status == 101 {
        return Ok(response);
    }
    let headers = for_us(&response, request, route, given)?;
    let replayed = match given {
        Given::Passed => None,
        Given::Sent { replayed } => Some(replayed),
        Given::Seen => Some(true),
    };
    if let Some(replayed) = replayed {
        headers.set("idempotent-replayed", if replayed { "true" } else { "false" })?;
    }
    let content_type = headers.get("content-type")?.unwrap_or_default().to_ascii_lowercase();
    let is_page = content_type.trim_start().starts_with("text/html") && !matches!(status, 204 | 206 | 304);
    let has_body = matches!(response.body(), ResponseBody::Stream(_));
    let encoding = headers.get("content-encoding")?.unwrap_or_default();
    let is_readable = matches!(encoding.as_str(), "" | "identity" | "gzip" | "br");
    if is_page && !is_readable {
        not_read(request, &format!("content-encoding: {encoding}"));
    }
    let has_forms = gate.config.of_host(&request.host).any(Route::has_forms);
    if !is_page || !is_readable || !has_forms || request.method == "HEAD" || !has_body {
        if is_page && has_forms && request.method == "HEAD" {
            OF_BYTES.iter().try_for_each(|name| headers.delete(name))?;
        }
        return Ok(response.with_headers(headers));
    }
    let address = format!("{}{}", request.origin(), request.path_and_query());
    let has_script = gate.config.of_host(&request.host).any(|route| route.has_forms() && route.script);
    let script = script(has_script, &headers)?;
    let page = Page::new(Rc::clone(&gate.config), request.host.clone());
    let raw = web_sys::Response::from(response);
    let rewritten = rewrite(&raw, page, &address, &script, matches!(given, Given::Seen)).await;
    let Some(Rewritten { body, is_keyed }) = rewritten else {
        not_read(request, "it broke off");
        return Ok(Response::from(raw).with_headers(headers));
    };
    response = Response::from_body(ResponseBody::Stream(body))?;
    let Some(is_keyed) = is_keyed else {
        not_read(request, &format!("content-type: {content_type}"));
        return Ok(response.with_status(status).with_headers(headers));
    };
    if is_keyed {
        OF_BYTES.iter().chain(OF_CACHES).try_for_each(|name| headers.delete(name))?;
        headers.set("cache-control", cache_control(headers.get("cache-control")?.as_deref()))?;
        // Whose its keys are is decided when they are sent: with the cookie that the browser has.
        if !visitor::is_unsure(request) {
            headers.append("set-cookie", &visitor::cookie(request)?)?;
        }
    } else if !script.is_empty() {
        for name in OF_BYTES.iter().filter(|name| name.contains("digest") || name.starts_with("content-")) {
            headers.delete(name)?;
        }
        if let Some(etag) = headers.get("etag")?.filter(|etag| !etag.starts_with("W/")) {
            headers.set("etag", &format!("W/{etag}"))?;
        }
    }
    Ok(response.with_status(status).with_headers(headers))
}

/// A page passes as it is: its forms have no keys. Its address may hold what lets somebody in, such as the token of an invitation: it is not named.
fn not_read(request: &Request, why: &str) {
    let fields =
        [("event", "page_not_read".into()), ("host", request.host.as_str().into()), ("why", why.into())];
    log("warn", &fields);
}

/// The tag of the gate's script, with the nonce that the page's policy wants.
fn script(has_script: bool, headers: &Headers) -> Result<String> {
    if !has_script {
        return Ok(String::new());
    }
    let policy = headers.get("content-security-policy")?.unwrap_or_default();
    let nonce = script_nonce(&policy)
        .filter(|nonce| nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte)))
        .map(|nonce| format!(" nonce=\"{nonce}\""));
    Ok(format!("<script src=\"/.paid-once/gate.js\"{}></script>", nonce.unwrap_or_default()))
}

/// The headers of an answer as they stand for our host.
fn for_us(response: &Response, request: &Request, route: &Route, given: Given) -> Result<Headers> {
    let headers = Headers::new();
    let ours = request.origin();
    let is_theirs = |name: &str| name != "set-cookie" && name != REPLY_HEADER;
    for (name, value) in response.headers().entries().filter(|(name, _)| is_theirs(name)) {
        let value = match name.as_str() {
            "location" => match (led_to(&value, &route.origin, &ours), given) {
                // A browser would join it to the address at which it looks at it.
                (to, Given::Seen) if !to.starts_with('/') => {
                    join(&format!("{ours}{}", request.path_and_query()), &to)
                }
                (to, _) => to,
            },
            _ => value,
        };
        headers.append(&name, &value)?;
    }
    for value in response.headers().get_all("set-cookie")? {
        let is_another = route.origin_host() != request.host;
        headers.append(
            "set-cookie",
            &if is_another { for_our_host(&value, route.origin_host()) } else { value },
        )?;
    }
    Ok(headers)
}

/// What the gate says itself.
pub(crate) struct Problem {
    say: Say,
    kind: Kind,
    /// The origin whose scripts may read it, or `*`.
    allowed: Option<String>,
    reference: String,
    key: Option<String>,
    answer: String,
    retry_after_ms: u64,
    quiet_ms: u64,
    form: Option<Again>,
}

/// A form that sends the same again.
struct Again {
    action: String,
    enctype: &'static str,
    fields: Vec<(String, String)>,
    key: String,
}

impl Problem {
    pub(crate) const fn new(say: Say) -> Self {
        Self {
            say,
            kind: Kind::Form,
            allowed: None,
            reference: String::new(),
            key: None,
            answer: String::new(),
            retry_after_ms: match say {
                Say::Unavailable | Say::Unreachable => 1000,
                Say::RateLimited => RATE_PERIOD_S * 1000,
                _ => 0,
            },
            quiet_ms: 0,
            form: None,
        }
    }

    /// On an address of this route. A client of an API gets problem details, whatever its library says by itself that it accepts.
    pub(crate) fn on(self, route: &Route, kind: Kind, request: &Request) -> Self {
        let allowed = request.header("origin").and_then(|origin| route.allows(origin)).map(str::to_owned);
        Self { kind, allowed, ..self }
    }

    pub(crate) const fn slug(&self) -> &'static str {
        self.say.slug()
    }

    pub(crate) fn with_reference(self, reference: String) -> Self {
        Self { reference, ..self }
    }

    /// The form that sends it again has this key.
    pub(crate) fn with_key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// What was answered under this key can be seen, by a visitor who is known.
    pub(crate) fn with_answer(self, key: &str, request: &Request) -> Self {
        if visitor::of(request).is_none() {
            return self;
        }
        let to: String = request.path_and_query().bytes().map(encoded).collect();
        Self { answer: format!("/.paid-once/answer?key={key}&to={to}"), ..self }
    }

    pub(crate) fn retry_after(self, retry_after_ms: u64) -> Self {
        Self { retry_after_ms, ..self }
    }

    /// So long the origin may still be at work on it: until then nothing is sent as new.
    pub(crate) fn quiet_for(self, quiet_ms: u64) -> Self {
        Self { quiet_ms, ..self }
    }

    /// With a form that sends the same again, where that can be shown: not with files, and not for ever. What another site's page has sent would
    /// come from one of the shop's own then: it gets none.
    pub(crate) fn again(self, gate: &Gate, request: &Request, encoding: &Encoding, body: &[u8]) -> Self {
        if !matches!(Sender::of(request), Sender::ThisSite | Sender::Nobody) {
            let say = if self.say == Say::KeyMissing { Say::CrossSite } else { self.say };
            return Self { say, ..self };
        }
        let page = Page::new(Rc::clone(&gate.config), request.host.clone());
        let fresh =
            || page.mint(&request.method, &request.path, &request.query).map(|key| key.as_str().to_owned());
        let fields = body::fields(encoding, body).filter(|_| body.len() <= SHOWN_MAX);
        let form = fields.zip(self.key.clone().or_else(fresh)).map(|(fields, key)| Again {
            // Without its host an address could begin with two slashes, and name another one.
            action: format!("{}{}", request.origin(), request.path_and_query()),
            enctype: if matches!(encoding, Encoding::Parts(_)) { "multipart/form-data" } else { "" },
            fields,
            key,
        });
        Self { form, ..self }
    }

    pub(crate) fn answer(self, request: &Request) -> Result<Response> {
        let headers = headers(request)?;
        if self.retry_after_ms > 0 {
            headers.set("retry-after", &self.retry_after_ms.div_ceil(1000).to_string())?;
        }
        if let Some(allowed) = &self.allowed {
            headers.set("access-control-allow-origin", allowed)?;
            headers.set("access-control-expose-headers", "Request-Id, Retry-After")?;
            if allowed != "*" {
                headers.set("access-control-allow-credentials", "true")?;
                headers.append("vary", "Origin")?;
            }
        }
        let mut status = self.say.status();
        let body = if self.kind == Kind::Form && request.wants_html() {
            let locale = negotiate(request.header("accept-language"));
            headers.set("content-language", locale.tag())?;
            headers.append("vary", "Accept-Language")?;
            of_page(&headers)?;
            if request.header("hx-request").is_some() {
                // htmx shows no answer of another status, and only a part of the page by itself.
                status = 200;
                headers.set("hx-retarget", "body")?;
                headers.set("hx-reswap", "innerHTML")?;
            }
            let form = self.form.as_ref().map(|form| FormAgain {
                action: &form.action,
                enctype: form.enctype,
                fields: form.fields.clone(),
                key: &form.key,
            });
            let mut page = MessagePage::new(self.say, locale).quiet_for(self.quiet_ms);
            (page.form, page.answer, page.reference) = (form, &self.answer, &self.reference);
            rendered(&page)?
        } else {
            headers.set("content-type", "application/problem+json")?;
            self.say.problem(self.kind, &request.id.0, &self.reference)
        };
        Ok(Response::from_bytes(body)?.with_status(status).with_headers(headers))
    }
}

/// The page to which a problem's `type` leads, whatever is accepted.
pub(crate) fn explanation(say: Say, request: &Request) -> Result<Response> {
    let headers = headers(request)?;
    of_page(&headers)?;
    Ok(Response::from_bytes(rendered(&MessagePage::explanation(say))?)?.with_headers(headers))
}

/// Those of all that the gate says itself.
fn headers(request: &Request) -> Result<Headers> {
    let headers = Headers::new();
    headers.set("cache-control", "private, no-store")?;
    headers.set("request-id", &request.id.0)?;
    headers.set("x-content-type-options", "nosniff")?;
    Ok(headers)
}

fn of_page(headers: &Headers) -> Result<()> {
    headers.set("content-type", "text/html; charset=utf-8")?;
    headers.set(
        "content-security-policy",
        "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'self'; base-uri 'none'",
    )
}

fn rendered(page: &MessagePage<'_>) -> Result<Vec<u8>> {
    page.render().map(String::into_bytes).map_err(|error| worker::Error::RustError(error.to_string()))
}

/// A byte of an address as it stands in the query of another one.
fn encoded(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    }
}

/// The longest body that is shown again in a form, in bytes.
const SHOWN_MAX: usize = 64 << 10;
