//! A POST of JSON to an external service, with a timeout.

use std::time::Duration;

use worker::Env;

use runtime::http_client::{OutboundRequest, traced};
use web::trace::Span;

/// How long a service may take, in seconds.
pub(super) const TIMEOUT_S: u32 = 20;
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_S as u64);

/// The service's address and secret.
pub(super) struct Service<'a> {
    /// The service binding that replaces the address, if it exists.
    pub(super) binding: &'a str,
    /// The base address.
    pub(super) base: &'a str,
    /// The bearer token.
    pub(super) secret: &'a str,
}

/// The service's answer.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Sends. An error means that it is unknown whether the request arrived.
pub(super) async fn post(
    env: &Env,
    service: &Service<'_>,
    path: &str,
    body: &str,
    idempotency_key: &str,
    span: &mut Option<Span>,
) -> Result<Response, String> {
    let headers = vec![
        ("authorization", format!("Bearer {}", service.secret)),
        ("content-type", "application/json".to_owned()),
        ("user-agent", "paid-once".to_owned()),
        ("idempotency-key", idempotency_key.to_owned()),
    ];
    let sent =
        OutboundRequest { method: "POST", url: format!("{}{path}", service.base), headers, body: Some(body) };
    let (response, body) = traced(env, Some(service.binding), sent, TIMEOUT, span).await?;
    Ok(Response { status: response.status_code(), body })
}
