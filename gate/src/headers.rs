//! Headers on their way to the origin and back.

use web::http::Request;
use web::url::{Url, join};

/// Headers of a connection ([RFC 9110, 7.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1)), and those that the runtime sets.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Where proxies say for whom and from where they ask, beside what begins with `x-forwarded-`.
const OF_ADDRESS: &[&str] = &[
    "client-ip",
    "forwarded",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-host",
    "x-real-ip",
];

/// What says of which bytes a page is made, or how long it may be kept: not true of a page into which a key was written.
pub const OF_BYTES: &[&str] = &[
    "accept-ranges",
    "age",
    "content-digest",
    "content-length",
    "content-md5",
    "digest",
    "etag",
    "expires",
    "last-modified",
    "repr-digest",
];

/// What tells caches in between how long a page may be kept, before `Cache-Control`.
pub const OF_CACHES: &[&str] = &["cdn-cache-control", "cloudflare-cdn-cache-control", "surrogate-control"];

/// Whether a header belongs to an answer that is kept. Its body is kept as the runtime gives it: that decodes what is packed by one of two names, written
/// exactly so, and nothing else.
pub fn is_answers(name: &str, value: &str) -> bool {
    let is_decoded = || name == "content-encoding" && matches!(value, "gzip" | "br");
    !OF_CONNECTION.contains(&name) && !matches!(name, "date" | "alt-svc") && !is_decoded()
}

/// The request's headers as the origin gets them: it is told for which host it answers, and a form comes from a page of its own.
pub fn to_origin(request: &Request, origin: &str, is_document: bool) -> Vec<(String, String)> {
    let ours = request.origin();
    let connection = request.header("connection").unwrap_or_default();
    let is_of_connection =
        |name: &str| connection.split(',').any(|one| one.trim().eq_ignore_ascii_case(name));
    let is_dropped = |name: &str| {
        OF_CONNECTION.contains(&name)
            || is_of_connection(name)
            // To whoever reads headers as variables of an environment it is the same as with a dash: one of ours could be written so.
            || name.contains('_')
            || name.starts_with("cf-")
            || name.starts_with("paid-once-")
            || name.starts_with("x-forwarded-")
            || OF_ADDRESS.contains(&name)
            || (is_document && name == "accept-encoding")
    };
    let mut headers: Vec<(String, String)> = request
        .headers
        .iter()
        .filter(|(name, _)| !is_dropped(name))
        .map(|(name, value)| match name.as_str() {
            "origin" if *value == ours => (name.clone(), origin.to_owned()),
            "referer" => (name.clone(), moved(value, &ours, origin)),
            _ => (name.clone(), value.clone()),
        })
        .collect();
    let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
    if let Some(address) = request.header("cf-connecting-ip") {
        add("x-forwarded-for", address);
        add("x-real-ip", address);
    }
    add("x-forwarded-host", &request.host);
    add("x-forwarded-proto", &request.scheme);
    if is_document {
        add("accept-encoding", readable(request.header("accept-encoding").unwrap_or_default()));
    }
    headers
}

/// What a browser takes of what the rewriter can read.
fn readable(accepted: &str) -> &'static str {
    let takes = |encoding: &str| {
        accepted.split(',').any(|entry| {
            let (name, quality) = entry.split_once(';').unwrap_or((entry, ""));
            name.trim().eq_ignore_ascii_case(encoding) && quality.replace(' ', "") != "q=0"
        })
    };
    match (takes("gzip"), takes("br")) {
        (true, true) => "gzip, br",
        (true, false) => "gzip",
        (false, true) => "br",
        (false, false) => "identity",
    }
}

/// An address at one origin, at another one. Any other address stays.
pub fn moved(address: &str, from: &str, to: &str) -> String {
    match address.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with(['/', '?', '#']) => format!("{to}{rest}"),
        _ => address.to_owned(),
    }
}

/// A `Location` of the origin as it stands for our host. Who has come by http to a host whose origin is its own https one is led there by it: as
/// ours it would lead them back to where they are.
pub fn led_to(location: &str, origin: &str, ours: &str) -> String {
    let host = ours.strip_prefix("http://");
    let is_upgrade = host.is_some() && origin.strip_prefix("https://") == host;
    if is_upgrade { location.to_owned() } else { moved(location, origin, ours) }
}

/// Where a request goes on.
#[derive(Debug, PartialEq, Eq)]
pub struct GoesOn {
    /// Its address at the origin.
    pub to: String,
    /// The origin leads there by https.
    pub is_https: bool,
}

/// Where a request goes on with its method and body, by an answer of this address that has not done it
/// ([RFC 9110, 15.4.8](https://www.rfc-editor.org/rfc/rfc9110#section-15.4.8)). Only at the same host, which may call itself `ours`: what another one
/// gets is not the gate's. By which scheme the origin is reached says its setting: behind what ends TLS a shop may not know its own one.
pub fn goes_on(status: u16, address: &str, location: &str, ours: &str) -> Option<GoesOn> {
    let at = Url::split(address);
    let origin = format!("{}://{}", at.scheme, at.host);
    let led = join(&moved(address, &origin, ours), location);
    let led = Url::split(&led);
    let is_here = [at, Url::split(ours)].iter().any(|url| without_port(url) == without_port(&led));
    let follows = matches!(status, 307 | 308)
        && !location.is_empty()
        && matches!(led.scheme, "http" | "https")
        && is_here;
    let query = if led.query.is_empty() { String::new() } else { format!("?{}", led.query) };
    follows.then(|| GoesOn { to: format!("{origin}{}{query}", led.path), is_https: led.scheme == "https" })
}

/// The host of an address without the port that is its scheme's own.
fn without_port<'a>(url: &Url<'a>) -> &'a str {
    let own = if url.scheme == "https" { ":443" } else { ":80" };
    url.host.strip_suffix(own).unwrap_or(url.host)
}

/// How a page with a key may be kept: by nobody but the browser, and never shown again unasked.
pub fn cache_control(origins: Option<&str>) -> &'static str {
    if origins.is_some_and(|value| value.to_ascii_lowercase().contains("no-store")) {
        "private, no-store"
    } else {
        "private, no-cache"
    }
}

/// The nonce that a page's policy wants of scripts.
pub fn script_nonce(policy: &str) -> Option<&str> {
    let directives = || policy.split([';', ',']).map(str::trim);
    let of = |name: &str| directives().find(|directive| directive.split(' ').next() == Some(name));
    let scripts = of("script-src-elem").or_else(|| of("script-src")).or_else(|| of("default-src"))?;
    scripts.split(' ').find_map(|source| source.strip_prefix("'nonce-")?.strip_suffix('\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_moves_with_its_origin_alone() {
        let moved = |address| moved(address, "https://shop.example", "http://10.0.0.1:8000");
        assert_eq!(moved("https://shop.example/a?b#c"), "http://10.0.0.1:8000/a?b#c");
        assert_eq!(moved("https://shop.example"), "http://10.0.0.1:8000");
        assert_eq!(moved("https://shop.example.evil/a"), "https://shop.example.evil/a");
        assert_eq!(moved("/a"), "/a");
    }

    #[test]
    fn who_is_led_to_https_is_not_led_back() {
        let (http, https) = ("http://shop.example", "https://shop.example");
        let led_to = |origin, ours| led_to("https://shop.example/a", origin, ours);
        assert_eq!(led_to(https, http), "https://shop.example/a");
        assert_eq!(led_to(https, https), "https://shop.example/a");
        assert_eq!(led_to(https, "http://gate.example"), "http://gate.example/a");
        assert_eq!(super::led_to("http://shop.example/a", http, https), "https://shop.example/a");
    }

    #[test]
    fn a_request_goes_on_at_its_origin_alone() {
        let ours = "https://shop.example";
        let to = |status, location| {
            goes_on(status, "http://10.0.0.1:8000/checkout", location, ours).map(|goes_on| goes_on.to)
        };
        for location in [
            "/checkout/?a",
            "checkout/?a#x",
            "https://shop.example/checkout/?a",
            "https://shop.example:443/checkout/?a",
            "http://shop.example/checkout/?a",
            "http://10.0.0.1:8000/checkout/?a",
        ] {
            let to = [307, 308].map(|status| to(status, location));
            assert_eq!(
                to,
                [(); 2].map(|()| Some("http://10.0.0.1:8000/checkout/?a".to_owned())),
                "{location}"
            );
        }
        for location in [
            "https://www.shop.example/checkout",
            "https://shop.example:8443/checkout",
            "http://shop.example:443/checkout",
            "ftp://shop.example/checkout",
            "//evil.example/",
            "http://10.0.0.1:80001/",
            "",
        ] {
            assert_eq!(to(308, location), None, "{location}");
        }
        assert_eq!([301, 302, 303, 200].map(|status| to(status, "/checkout/")), [const { None }; 4]);
    }

    #[test]
    fn a_request_goes_on_by_the_scheme_of_its_origin() {
        let to = |location, ours| goes_on(308, "https://shop.example/checkout", location, ours);
        let on = |is_https| Some(GoesOn { to: "https://shop.example/checkout/".to_owned(), is_https });
        let https = "https://shop.example/checkout/";
        assert_eq!(to("http://shop.example/checkout/", "https://shop.example"), on(false));
        assert_eq!(to(https, "http://shop.example"), on(true));
        assert_eq!(to("/checkout/", "http://shop.example"), on(false), "nobody says that it is https");
        assert_eq!(to("/checkout/", "https://shop.example"), on(true));
    }

    #[test]
    fn an_encoding_that_is_not_decoded_stays_with_its_answer() {
        let stays = |value| is_answers("content-encoding", value);
        assert_eq!(["gzip", "br"].map(stays), [false; 2]);
        assert_eq!(["deflate", "zstd", "x-gzip", "GZIP", "gzip, br", "identity"].map(stays), [true; 6]);
        assert!(is_answers("x-order", "gzip") && !is_answers("date", ""));
    }

    #[test]
    fn the_origin_packs_as_both_can_read_it() {
        assert_eq!(readable("gzip, deflate, br;q=0.5, zstd"), "gzip, br");
        assert_eq!(readable("GZIP; q=0, br"), "br");
        assert_eq!(readable("zstd"), "identity");
        assert_eq!(readable(""), "identity");
    }

    #[test]
    fn a_policy_names_its_nonce() {
        assert_eq!(script_nonce("default-src 'self'; script-src 'nonce-abc' 'strict-dynamic'"), Some("abc"));
        assert_eq!(script_nonce("default-src 'nonce-abc'"), Some("abc"));
        assert_eq!(script_nonce("script-src 'self'; style-src 'nonce-abc'"), None);
    }

    #[test]
    fn what_must_not_be_kept_at_all_stays_so() {
        assert_eq!(cache_control(Some("no-store, max-age=0")), "private, no-store");
        assert_eq!(cache_control(Some("public, max-age=600")), "private, no-cache");
        assert_eq!(cache_control(None), "private, no-cache");
    }
}
