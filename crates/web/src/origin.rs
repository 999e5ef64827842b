//! Where a request comes from: which page, and which network.

use std::net::IpAddr;

use crate::http::Request;
use crate::problem::{Kind, Problem};

/// Refuses a form of another site's page.
pub fn from_here(request: &Request) -> Result<(), Problem> {
    if from_our_pages(request) { Ok(()) } else { Err(Problem::new(Kind::Forbidden)) }
}

/// Whether a form comes from our own pages. Browsers say so in `Origin`, or at least in `Sec-Fetch-Site`; what is no
/// browser sends neither, and is held by the cookie and the signed token alone. Where nobody is to be named as who leads elsewhere, `Origin` is
/// `null` on a page's own site, too: there `Sec-Fetch-Site` says it, which no page can set.
/// Source: <https://fetch.spec.whatwg.org/#append-a-request-origin-header>
pub fn from_our_pages(request: &Request) -> bool {
    match (request.header("origin"), request.header("sec-fetch-site")) {
        (Some("null"), Some("same-origin")) => true,
        (Some(origin), _) => origin == request.origin(),
        (None, Some(site)) => matches!(site, "same-origin" | "none"),
        (None, None) => true,
    }
}

/// Whether browsers write it so in `Origin`: scheme and host, in small letters, without the port of its scheme.
/// Source: <https://html.spec.whatwg.org/#ascii-serialisation-of-an-origin>
pub fn is_origin(text: &str) -> bool {
    let parts = text
        .strip_prefix("https://")
        .map(|host| (host, ":443"))
        .or_else(|| Some((text.strip_prefix("http://")?, ":80")));
    parts.is_some_and(|(host, port)| {
        let is_foreign = |c: char| c.is_ascii_uppercase() || matches!(c, '/' | '?' | '#' | '@' | '*' | ' ');
        !host.is_empty() && !host.ends_with(port) && !host.contains(is_foreign)
    })
}

/// What one client can take its address from: a whole /64 network of IPv6.
pub fn network(address: &str) -> String {
    match address.parse() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = v6.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(IpAddr::V6(v6)) => v6.to_ipv4_mapped().map(|v4| v4.to_string()).unwrap_or_default(),
        Ok(IpAddr::V4(v4)) => v4.to_string(),
        Err(_) => "unknown".to_owned(),
    }
}
