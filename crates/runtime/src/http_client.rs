//! Requests to other services, and timeouts. A service binding, such as the demo's simulator, replaces the service's address.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};
use web::trace::Span;
use worker::js_sys::{JSON, Promise, Uint8Array};
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::worker_sys::web_sys;
use worker::{AbortController, Delay, Env, Response};

/// How many connections of an invocation wait for an answer at once: a further request waits for one, and the time for its answer runs meanwhile.
/// <https://developers.cloudflare.com/workers/platform/limits/#simultaneous-open-connections>
pub const CONNECTIONS_MAX: usize = 6;

/// A part of the error of a timeout.
pub const TOO_LONG: &str = "took longer than";

/// The result of some work, or an error if it takes longer than `limit`. The work is not undone: it may still happen.
pub async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = worker::Result<T>>,
) -> worker::Result<T> {
    match select(pin!(work), Delay::from(limit)).await {
        Either::Left((end, _)) => end,
        Either::Right(_) => Err(worker::Error::RustError(format!("{what} {TOO_LONG} {} s", limit.as_secs()))),
    }
}

/// A request to another service.
pub struct OutboundRequest<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// Where it goes.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(&'a str, String)>,
    /// Its body.
    pub body: Option<&'a str>,
}

/// Sends a request and reads the whole answer. An error means that it is unknown whether the request arrived. It quotes nothing of the
/// request.
pub async fn fetch(
    env: &Env,
    binding: Option<&str>,
    sent: &OutboundRequest<'_>,
    timeout: Duration,
) -> Result<(Response, String), String> {
    exchanged(env, binding, sent, timeout, async |response: web_sys::Response| {
        let bytes = gathered(&response, TEXT_MAX_BYTES).await?;
        Ok((response.into(), String::from_utf8(bytes).map_err(|_| BROKE_OFF)?))
    })
    .await
}

/// The longest answer that is read as text, in bytes: more could fill the isolate's memory, at each repetition. A page of a hundred payments with as
/// much metadata as Stripe takes, in the payment and in its charge, has 15 MB, and twice that where each character is escaped.
const TEXT_MAX_BYTES: usize = 32 << 20;

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, module = "/src/bounded.mjs")]
extern "C" {
    fn bounded(response: &web_sys::Response, max_bytes: usize) -> Promise;
}

/// The body, if it has at most `max_bytes`.
async fn gathered(response: &web_sys::Response, max_bytes: usize) -> Result<Vec<u8>, String> {
    let bytes = JsFuture::from(bounded(response, max_bytes)).await.map_err(|_| BROKE_OFF)?;
    if bytes.is_null() {
        return Err(format!("the answer has more than {max_bytes} bytes"));
    }
    Ok(bytes.unchecked_into::<Uint8Array>().to_vec())
}

/// The same, as a span, if there is one: the other side is told of it by `traceparent`, and nothing else of the trace.
pub async fn traced(
    env: &Env,
    binding: Option<&str>,
    mut sent: OutboundRequest<'_>,
    timeout: Duration,
    span: &mut Option<Span>,
) -> Result<(Response, String), String> {
    if let Some(span) = span {
        sent.headers.push(("traceparent", span.context.to_string()));
        span.set("http.request.method", sent.method);
        span.asks(&sent.url);
    }
    let answer = fetch(env, binding, &sent, timeout).await;
    match (span, &answer) {
        (Some(span), Ok((response, _))) => span.answered(response.status_code()),
        (Some(span), Err(_)) => span.fail("no_answer"),
        (None, _) => {}
    }
    answer
}

/// Downloads at most `max_bytes`. Returns the status and the bytes.
pub async fn download(
    env: &Env,
    binding: Option<&str>,
    sent: &OutboundRequest<'_>,
    timeout: Duration,
    max_bytes: usize,
) -> Result<(u16, Vec<u8>), String> {
    answer(env, binding, sent, timeout, Some(max_bytes)).await
}

/// Sends a request to somebody else's server. Gives the status: nothing of the body is read. An error means that it is unknown whether the request
/// arrived.
pub async fn status_of(env: &Env, sent: &OutboundRequest<'_>, timeout: Duration) -> Result<u16, String> {
    answer(env, None, sent, timeout, None).await.map(|(status, _)| status)
}

/// The status, and up to so many bytes of the body, or none.
async fn answer(
    env: &Env,
    binding: Option<&str>,
    sent: &OutboundRequest<'_>,
    timeout: Duration,
    max_bytes: Option<usize>,
) -> Result<(u16, Vec<u8>), String> {
    exchanged(env, binding, sent, timeout, async |response: web_sys::Response| {
        let bytes = match max_bytes {
            Some(max_bytes) => gathered(&response, max_bytes).await?,
            None => {
                // What is left unread would hold a connection.
                let _ = response.body().map(|body| body.cancel());
                Vec::new()
            }
        };
        Ok((response.status(), bytes))
    })
    .await
}

const BROKE_OFF: &str = "the answer broke off";

/// Sends a request and reads the answer with `read`.
async fn exchanged<T>(
    env: &Env,
    binding: Option<&str>,
    sent: &OutboundRequest<'_>,
    timeout: Duration,
    read: impl AsyncFnOnce(web_sys::Response) -> Result<T, String>,
) -> Result<T, String> {
    let abort = AbortController::default();
    let signal = abort.signal();
    let exchange = Box::pin(async {
        let init = sent.init(&signal).map_err(|_| "no request could be made")?;
        // The original error may quote an address: leave it out.
        let response = match binding.map(|binding| env.service(binding)) {
            Some(Ok(service)) => JsValue::from(service).unchecked_into::<Service>().ask(&sent.url, &init),
            Some(Err(_)) | None => ask(&sent.url, &init),
        };
        let response = JsFuture::from(response.map_err(|_| "no answer")?).await;
        let response = response.and_then(JsCast::dyn_into).map_err(|_| "no answer")?;
        read(response).await
    });
    match select(exchange, Delay::from(timeout)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), exchange)) => {
            drop(exchange);
            abort.abort();
            Err(format!("no answer within {} ms", timeout.as_millis()))
        }
    }
}

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
extern "C" {
    /// The address goes by itself, and not as a request: that would be made twice.
    #[wasm_bindgen(catch, js_name = fetch)]
    fn ask(url: &str, init: &web_sys::RequestInit) -> std::result::Result<Promise, JsValue>;

    /// A service binding.
    type Service;

    #[wasm_bindgen(method, catch, js_name = fetch)]
    fn ask(this: &Service, url: &str, init: &web_sys::RequestInit) -> std::result::Result<Promise, JsValue>;
}

impl OutboundRequest<'_> {
    /// All but the address: one text for JavaScript, and the body.
    fn init(&self, signal: &web_sys::AbortSignal) -> worker::Result<web_sys::RequestInit> {
        let headers = self.headers.iter();
        let headers: Map<String, Value> =
            headers.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str().into())).collect();
        // Never send a secret to another host.
        let init = json!({ "method": self.method, "redirect": "manual", "headers": headers }).to_string();
        let init = JSON::parse(&init)?.unchecked_into::<web_sys::RequestInit>();
        init.set_signal(Some(signal));
        if let Some(body) = self.body {
            init.set_body(&body.into());
        }
        Ok(init)
    }
}
