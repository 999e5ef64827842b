//! What we wait for, and no longer than we said; and one request to another service with its answer. Where a service binding takes
//! the place of the address (the demo's simulator) it goes there.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use worker::worker_sys::web_sys;
use worker::{AbortController, Delay, Env, Fetch, Headers, Request, Response};

/// In the error of what is late.
pub(crate) const TOO_LONG: &str = "took longer than";

/// The end of some work, or an error if it takes longer. Nothing can be called back: what was asked for may still happen.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = worker::Result<T>>,
) -> worker::Result<T> {
    match select(pin!(work), Delay::from(limit)).await {
        Either::Left((end, _)) => end,
        Either::Right(_) => Err(worker::Error::RustError(format!("{what} {TOO_LONG} {} s", limit.as_secs()))),
    }
}

/// What is sent.
pub(crate) struct Sent<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<&'a str>,
}

/// Sends, and reads the whole answer. An error means that nobody knows whether it arrived; it holds nothing of what was sent.
pub(crate) async fn exchange(
    env: &Env,
    binding: Option<&str>,
    sent: &Sent<'_>,
    timeout: Duration,
) -> Result<(Response, String), String> {
    exchanged(env, binding, sent, timeout, async |mut response: Response| {
        let body = response.text().await.map_err(|_| BROKE_OFF)?;
        Ok((response, body))
    })
    .await
}

/// Fetches a file of at most so many bytes: its status, and what it holds.
pub(crate) async fn download(
    env: &Env,
    binding: Option<&str>,
    sent: &Sent<'_>,
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

/// Sends, and reads the answer with `read`.
async fn exchanged<T>(
    env: &Env,
    binding: Option<&str>,
    sent: &Sent<'_>,
    timeout: Duration,
    read: impl AsyncFnOnce(Response) -> Result<T, String>,
) -> Result<T, String> {
    let abort = AbortController::default();
    let signal = abort.signal();
    let exchange = Box::pin(async {
        let request = sent.request(&signal).map_err(|_| "no request could be made")?;
        // The text of the error may hold an address, never more: but nothing of it is needed.
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

impl Sent<'_> {
    fn request(&self, signal: &web_sys::AbortSignal) -> worker::Result<Request> {
        let headers = Headers::new();
        for (name, value) in &self.headers {
            headers.set(name, value)?;
        }
        let init = web_sys::RequestInit::new();
        init.set_method(self.method);
        init.set_signal(Some(signal));
        // Never carry a secret to another host.
        init.set_redirect(web_sys::RequestRedirect::Manual);
        if let Some(body) = self.body {
            init.set_body(&body.into());
        }
        init.set_headers(&headers.0.into());
        Ok(web_sys::Request::new_with_str_and_init(&self.url, &init)?.into())
    }
}
