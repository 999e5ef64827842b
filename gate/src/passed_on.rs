//! How the gate knows a request that it passes on itself. An object asks the shop at the zone's own host: should Cloudflare lead that request to the
//! gate's route once more, and not to the shop, it would be gated once more, for ever. It is passed on as it is then: what a Worker on a route asks of its own
//! host [reaches the origin](https://developers.cloudflare.com/workers/runtime-apis/fetch/).
//!
//! The mark is a signed time for one host. A shop that shows its headers to somebody shows the mark, too, and for an hour they can send what is theirs past the
//! gate, which then stops no second click of their own.

use data_encoding::BASE64URL_NOPAD;
use web::http::Request;
use web::signing::{Purpose, SigningKeys};
use worker::{Headers, Result};

use crate::app::Gate;
use crate::config::Route;

/// The header of the mark.
pub(crate) const MARK: &str = "paid-once-passed-on";
/// How long a mark is good, in ms: a body that is too large to be held may take as long.
const GOOD_FOR_MS: u64 = 3_600_000;
const TIME_LEN: usize = 8;

/// The mark of a request to the origin, where that is a host of this gate's.
pub(crate) fn mark(gate: &Gate, request: &Request, route: &Route) -> Option<String> {
    let host = route.origin_host();
    let is_ours = host == request.host || gate.config.names(host);
    is_ours.then(|| make(host, request.now_ms, &gate.config.signing_keys))
}

fn make(host: &str, now_ms: u64, keys: &SigningKeys) -> String {
    let time = now_ms.to_be_bytes();
    let signature = keys.sign(Purpose::GatePassedOn, &[&time, host.as_bytes()]);
    BASE64URL_NOPAD.encode(&[&time[..], &signature].concat())
}

/// Whether a request bears a mark for its host that is good now.
pub(crate) fn is_marked(request: &Request, keys: &SigningKeys) -> bool {
    request.header(MARK).is_some_and(|mark| is_good(mark, &request.host, request.now_ms, keys))
}

fn is_good(mark: &str, host: &str, now_ms: u64, keys: &SigningKeys) -> bool {
    let Ok(bytes) = BASE64URL_NOPAD.decode(mark.as_bytes()) else { return false };
    let Some((time, signature)) = bytes.split_first_chunk::<TIME_LEN>() else { return false };
    // Clocks of two machines differ by less than it is good.
    let is_of_now = u64::from_be_bytes(*time).abs_diff(now_ms) <= GOOD_FOR_MS;
    is_of_now && keys.verify(Purpose::GatePassedOn, &[time, host.as_bytes()], signature).is_some()
}

/// Its headers as they go on: without the mark, and without what Cloudflare sets itself.
pub(crate) fn headers(request: &Request) -> Result<Headers> {
    let headers = Headers::new();
    let goes_on = |name: &str| name != MARK && name != "host" && !name.starts_with("cf-");
    for (name, value) in request.headers.iter().filter(|(name, _)| goes_on(name)) {
        headers.append(name, value)?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;

    #[test]
    fn a_mark_is_good_for_its_host_and_for_an_hour() {
        let keys = |secret: &str| SigningKeys::parse(&secret.repeat(32)).unwrap();
        let mark = make("shop.example", NOW_MS, &keys("a"));
        let is_good = |host, now_ms, secret| is_good(&mark, host, now_ms, &keys(secret));
        assert!(is_good("shop.example", NOW_MS + GOOD_FOR_MS, "a"));
        assert!(is_good("shop.example", NOW_MS - 5, "a"), "by a clock that is behind");
        assert!(!is_good("shop.example", NOW_MS + GOOD_FOR_MS + 1, "a"));
        assert!(!is_good("other.example", NOW_MS, "a"));
        assert!(!is_good("shop.example", NOW_MS, "b"));
        for at in 0..mark.len() - 1 {
            let mut text = mark.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            let text = String::from_utf8(text).unwrap();
            assert!(!super::is_good(&text, "shop.example", NOW_MS, &keys("a")), "{at}");
        }
        for text in ["", "AAAA", "no mark"] {
            assert!(!super::is_good(text, "shop.example", NOW_MS, &keys("a")), "{text}");
        }
    }
}
