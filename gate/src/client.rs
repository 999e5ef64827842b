//! Requests to the origin, and to the object of a key.

use std::time::Duration;

use web::http::Request;
use worker::js_sys::Uint8Array;
use worker::wasm_bindgen::JsValue;
use worker::worker_sys::web_sys;
use worker::{Delay, Headers, Response, Result};

use crate::app::Gate;
use crate::ask::{ASK, Form, ObjectReply, ObjectRequest, REPLY_HEADER, from_header, to_header};
use crate::body::{Cut, Encoding, cut};
use crate::config::Route;
use crate::headers::to_origin;
use crate::passed_on;
use crate::secret::Secret;
use crate::stream::joined;

/// How often an object is asked when its stub fails.
const TRIES: u32 = 3;
/// The pause before it is asked again; longer each time.
const PAUSE: Duration = Duration::from_millis(50);

/// The address at the origin.
pub(crate) fn at_origin(request: &Request, route: &Route) -> String {
    format!("{}{}", route.origin, request.path_and_query())
}

pub(crate) fn headers_to(request: &Request, route: &Route) -> Result<Headers> {
    // What is kept of an answer must be readable, too.
    let is_document = request.method != "GET" || request.wants_html();
    let headers = Headers::new();
    for (name, value) in to_origin(request, &route.origin, is_document) {
        headers.append(&name, &value)?;
    }
    Ok(headers)
}

/// A request whose redirects are not followed.
pub(crate) fn request_to(
    url: &str,
    method: &str,
    headers: &Headers,
    body: Option<JsValue>,
) -> Result<worker::Request> {
    let init = web_sys::RequestInit::new();
    init.set_method(method);
    init.set_redirect(web_sys::RequestRedirect::Manual);
    init.set_headers(&headers.0.clone().into());
    if let Some(body) = body {
        init.set_body(&body);
    }
    Ok(web_sys::Request::new_with_str_and_init(url, &init)?.into())
}

/// A body as it came, without our key.
pub(crate) struct Body {
    /// All of it, or its beginning.
    pub(crate) read: Vec<u8>,
    /// Whence the rest comes.
    pub(crate) rest: Option<JsValue>,
    /// How long it is in all, in bytes, where it has said so.
    pub(crate) length: Option<u64>,
}

impl Body {
    /// Cuts our keys out of it.
    pub(crate) fn cut(&mut self, encoding: &Encoding) -> Vec<String> {
        let read = std::mem::take(&mut self.read);
        let length = read.len();
        let Cut { rest, keys } = cut(encoding, read, self.rest.is_some());
        let cut = u64::try_from(length.saturating_sub(rest.len())).unwrap_or(0);
        self.length = self.length.map(|length| length.saturating_sub(cut));
        self.read = rest;
        keys
    }

    /// As it is sent; nothing at all where it is empty. What is not held can be sent once.
    pub(crate) fn to_send(&self) -> Result<Option<JsValue>> {
        Ok(match &self.rest {
            Some(rest) => Some(joined(&self.read, rest, self.length)?),
            None if self.read.is_empty() => None,
            None => Some(Uint8Array::from(&self.read[..]).into()),
        })
    }

    /// How long it is, of one that is not held.
    pub(crate) fn large(&self) -> Option<Option<u64>> {
        self.rest.is_some().then_some(self.length)
    }
}

/// Asks the object of a key. An exception from a stub says nothing about what was done: the key makes it safe to ask again.
pub(crate) async fn ask(
    gate: &Gate,
    request: &Request,
    route: &Route,
    secret: &Secret,
    form: Form,
    body: &Body,
) -> Result<(ObjectReply, Response)> {
    let ask = ObjectRequest::new(secret, route, request).to_pass_on(form);
    let headers = headers_to(request, route)?;
    headers.set(ASK, &to_header(&ask)?)?;
    if let Some(mark) = passed_on::mark(gate, request, route) {
        headers.set(passed_on::MARK, &mark)?;
    }
    let url = at_origin(request, route);
    let question = Question { secret, method: &request.method, url: &url, headers, body: Some(body) };
    ask_object(gate, &question).await
}

/// Asks what the newest operation of a key was answered.
pub(crate) async fn ask_answer(
    gate: &Gate,
    request: &Request,
    route: &Route,
    secret: &Secret,
) -> Result<(ObjectReply, Response)> {
    let ask = ObjectRequest::new(secret, route, request);
    let headers = Headers::new();
    headers.set(ASK, &to_header(&ask)?)?;
    headers.set("cookie", request.header("cookie").unwrap_or_default())?;
    let question = Question { secret, method: "POST", url: &route.origin, headers, body: None };
    ask_object(gate, &question).await
}

/// What the object of a key is asked.
struct Question<'a> {
    secret: &'a Secret,
    method: &'a str,
    url: &'a str,
    headers: Headers,
    body: Option<&'a Body>,
}

async fn ask_object(gate: &Gate, question: &Question<'_>) -> Result<(ObjectReply, Response)> {
    let mut tried = 1;
    loop {
        let error = match ask_once(gate, question).await {
            Ok(asked) => return Ok(asked),
            Err(error) => error,
        };
        // What is not held is gone.
        let is_gone = question.body.is_some_and(|body| body.rest.is_some());
        if is_gone || tried == TRIES || error.to_string().contains("overloaded") {
            return Err(error);
        }
        Delay::from(PAUSE * tried).await;
        tried += 1;
    }
}

async fn ask_once(gate: &Gate, question: &Question<'_>) -> Result<(ObjectReply, Response)> {
    let Question { secret, method, url, headers, body } = question;
    let stub = gate.env.durable_object("GATE_OBJECTS")?.id_from_name(&secret.name())?.get_stub()?;
    let body = body.map(Body::to_send).transpose()?.flatten();
    let response = stub.fetch_with_request(request_to(url, method, headers, body)?).await?;
    let reply = response.headers().get(REPLY_HEADER)?.and_then(|text| from_header(&text));
    let reply = reply
        .ok_or_else(|| worker::Error::RustError(format!("the object answered {}", response.status_code())))?;
    Ok((reply, response))
}
