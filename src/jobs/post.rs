//! A POST of JSON to a service of others, with a deadline.

use std::time::Duration;

use worker::Env;

use crate::exchange::{Sent, exchange};

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
    let mut headers = vec![
        ("authorization", format!("Bearer {}", service.secret)),
        ("content-type", "application/json".to_owned()),
        ("user-agent", "paid-once".to_owned()),
    ];
    headers.extend(idempotency_key.map(|key| ("idempotency-key", key.to_owned())));
    let sent = Sent { method: "POST", url: format!("{}{path}", service.base), headers, body: Some(body) };
    let (response, body) = exchange(env, Some(service.binding), &sent, TIMEOUT).await?;
    Ok(Posted { status: response.status_code(), body })
}
