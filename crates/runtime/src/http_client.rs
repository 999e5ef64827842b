//! Requests to other services, and timeouts. A service binding, such as the demo's simulator, replaces the service's address.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use web::trace::Span;
use worker::js_sys::Uint8Array;
use worker::wasm_bindgen_futures::JsFuture;
use worker::worker_sys::web_sys;
use worker::{AbortController, Delay, Env, Fetch, Headers, Request, Response, ResponseBody};

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
    exchanged(env, binding, sent, timeout, async |response: Response| {
        let body = text(&response).await.map_err(|_| BROKE_OFF)?;
        Ok((response, body))
    })
    .await
}

/// The body. The runtime gathers it: as a stream each chunk of it, and its end, would be a turn of ours.
async fn text(response: &Response) -> worker::Result<String> {
    let ResponseBody::Stream(stream) = response.body() else { return Ok(String::new()) };
    let whole = web_sys::Response::new_with_opt_readable_stream(Some(stream))?.array_buffer()?;
    let bytes = Uint8Array::new(&JsFuture::from(whole).await?).to_vec();
    String::from_utf8(bytes).map_err(|error| worker::Error::RustError(error.to_string()))
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
    exchanged(env, binding, sent, timeout, async |mut response: Response| {
        let mut stream = response.stream().map_err(|_| BROKE_OFF)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next().await {
            bytes.extend(chunk.map_err(|_| BROKE_OFF)?);
            if bytes.len() > max_bytes {
                return Err(format!("the answer has more than {max_bytes} bytes"));
            }
        }
        Ok((response.status_code(), bytes))
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
    read: impl AsyncFnOnce(Response) -> Result<T, String>,
) -> Result<T, String> {
    let abort = AbortController::default();
    let signal = abort.signal();
    let exchange = Box::pin(async {
        let request = sent.request(&signal).map_err(|_| "no request could be made")?;
        // The original error may quote an address: leave it out.
        let response = match binding.map(|binding| env.service(binding)) {
            Some(Ok(service)) => service.fetch_request(request).await,
            Some(Err(_)) | None => Fetch::Request(request).send().await,
        }
        .map_err(|_| "no answer")?;
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

impl OutboundRequest<'_> {
    fn request(&self, signal: &web_sys::AbortSignal) -> worker::Result<Request> {
        let headers = Headers::new();
        for (name, value) in &self.headers {
            headers.set(name, value)?;
        }
        let init = web_sys::RequestInit::new();
        init.set_method(self.method);
        init.set_signal(Some(signal));
        // Never send a secret to another host.
        init.set_redirect(web_sys::RequestRedirect::Manual);
        if let Some(body) = self.body {
            init.set_body(&body.into());
        }
        init.set_headers(&headers.0.into());
        Ok(web_sys::Request::new_with_str_and_init(&self.url, &init)?.into())
    }
}
