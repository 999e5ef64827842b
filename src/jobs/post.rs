//! A POST of JSON to a service of others, with a deadline. Where a service binding is configured (the demo's simulator) it
//! goes there, else to the service's base address.

use std::time::Duration;

use futures_util::future::{Either, select};
use worker::worker_sys::web_sys;
use worker::{AbortController, Delay, Env, Fetch, Headers, Request, Response};

/// How long a service may take, in ms.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Where to.
pub(super) struct Service<'a> {
    /// The service binding that takes the place of the address.
    pub(super) binding: &'a str,
    /// The base address.
    pub(super) base: &'a str,
    /// The bearer token.
    pub(super) secret: &'a str,
}

/// What came back.
pub(super) struct Posted {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Sends. An error means that nobody knows whether it arrived.
pub(super) async fn post(
    env: &Env,
    service: &Service<'_>,
    path: &str,
    body: &str,
    idempotency_key: Option<&str>,
) -> Result<Posted, String> {
    let abort = AbortController::default();
    let signal = abort.signal();
    let exchange = Box::pin(async {
        let request =
            request(service, path, body, idempotency_key, &signal).map_err(|_| "no request could be made")?;
        let mut response: Response = match env.service(service.binding) {
            Ok(binding) => binding.fetch_request(request).await,
            Err(_) => Fetch::Request(request).send().await,
        }
        .map_err(|_| "no answer")?;
        let body = response.text().await.map_err(|_| "the answer broke off")?;
        Ok(Posted { status: response.status_code(), body })
    });
    match select(exchange, Delay::from(TIMEOUT)).await {
        Either::Left((posted, _)) => posted,
        Either::Right(((), exchange)) => {
            drop(exchange);
            abort.abort();
            Err(format!("no answer within {} s", TIMEOUT.as_secs()))
        }
    }
}

fn request(
    service: &Service<'_>,
    path: &str,
    body: &str,
    idempotency_key: Option<&str>,
    signal: &web_sys::AbortSignal,
) -> worker::Result<Request> {
    let headers = Headers::new();
    headers.set("authorization", &format!("Bearer {}", service.secret))?;
    headers.set("content-type", "application/json")?;
    headers.set("user-agent", "paid-once")?;
    if let Some(key) = idempotency_key {
        headers.set("idempotency-key", key)?;
    }
    let init = web_sys::RequestInit::new();
    init.set_method("POST");
    init.set_signal(Some(signal));
    // Never carry the secret to another host.
    init.set_redirect(web_sys::RequestRedirect::Manual);
    init.set_body(&body.into());
    init.set_headers(&headers.0.into());
    Ok(web_sys::Request::new_with_str_and_init(&format!("{}{path}", service.base), &init)?.into())
}
