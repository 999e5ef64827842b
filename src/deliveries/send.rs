//! Sends a message to a shop's endpoint, signed as Standard Webhooks has it.

use std::time::Duration;

use worker::Env;

use super::endpoint::Endpoint;
use crate::config::Config;
use runtime::http_client::{OutboundRequest, status_of};
use web::standard_webhooks::signatures;

/// How long an endpoint may take to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A message to an endpoint.
pub(crate) struct Message<'a> {
    pub(crate) account: &'a str,
    /// The same one for each attempt.
    pub(crate) id: &'a str,
    pub(crate) body: &'a str,
}

/// Sends it. Gives the status of the answer; an error means that there was none.
pub(crate) async fn send(
    env: &Env,
    config: &Config,
    endpoint: &Endpoint,
    Message { account, id, body }: Message<'_>,
) -> Result<u16, String> {
    let now_ms = runtime::now_ms();
    let (timestamp_s, secrets) = (now_ms / 1000, endpoint.secrets(&config.signing_keys, account, now_ms));
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", "paid-once".to_owned()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp_s.to_string()),
        ("webhook-signature", signatures(&secrets, id, timestamp_s, body)),
    ];
    let sent = OutboundRequest { method: "POST", url: endpoint.url.clone(), headers, body: Some(body) };
    status_of(env, &sent, TIMEOUT).await
}

/// The host of an address, for the log: without the rest, which may hold a secret.
pub(crate) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    name_of(rest.split(['/', '?', '#']).next().unwrap_or(rest))
}

/// Of a host and a port the host.
pub(crate) fn name_of(authority: &str) -> &str {
    match authority.split_once(']') {
        Some((v6, _)) => v6.trim_start_matches('['),
        None => authority.split(':').next().unwrap_or(authority),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_address_the_log_has_the_host() {
        assert_eq!(host("https://shop.example:8443/hook?token=secret"), "shop.example");
        assert_eq!(host("http://[::1]:3000/x"), "::1");
        assert_eq!(host("https://shop.example?token=secret"), "shop.example");
    }
}
