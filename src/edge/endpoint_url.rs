//! Which addresses an endpoint may have. In production a public host by https: whoever has a token must not have us look around in a network.

use super::shop_url::address;
use crate::deliveries::send::{host, name_of};

/// The ends of names that are no public host's ([RFC 6761](https://www.rfc-editor.org/rfc/rfc6761), [RFC 6762](https://www.rfc-editor.org/rfc/rfc6762)).
const PRIVATE_ENDS: [&str; 9] =
    ["arpa", "home", "internal", "invalid", "lan", "local", "localhost", "onion", "test"];

/// Reads the address of an endpoint. `own_host` is the one at which this is asked: we do not tell ourselves.
pub fn endpoint_url(text: &str, demo: bool, own_host: &str) -> Result<String, String> {
    let text = address(text, demo)?;
    if demo {
        return Ok(text);
    }
    let host = host(&text).to_ascii_lowercase();
    if host == name_of(own_host).to_ascii_lowercase() {
        return Err("must be an address of yours, not of this service".to_owned());
    }
    if is_public(&host) {
        Ok(text)
    } else {
        Err("must be at a public host, by its name: such as https://shop.example/webhooks".to_owned())
    }
}

/// Whether it is the name of a host that others can find. What ends with a number is an IPv4 address for a URL, however it is written
/// (<https://url.spec.whatwg.org/#ends-in-a-number-checker>), and a colon is in no name.
fn is_public(host: &str) -> bool {
    let (_, end) = host.rsplit_once('.').unwrap_or_default();
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    let is_name = end.starts_with(|c: char| c.is_ascii_alphabetic()) && !PRIVATE_ENDS.contains(&end);
    is_name && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> bool {
        endpoint_url(text, false, "pay.example:443").is_ok()
    }

    #[test]
    fn in_production_an_endpoint_is_at_a_public_host_by_https() {
        for good in [
            "https://shop.example",
            "https://hooks.shop.example:8443/paid-once?from=us",
            "https://xn--mller-kva.example/",
            "https://2130706433.shop.example/",
        ] {
            assert!(taken(good), "{good}");
        }
        for bad in [
            "http://shop.example/",
            "shop.example",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://[fd00::1]:8080/",
            "https://169.254.169.254/latest/meta-data",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://127.1/",
            "https://shop.0x7f000001/",
            "https://localhost/",
            "https://LOCALHOST:8787/",
            "https://shop.localhost/",
            "https://printer.local/",
            "https://db.internal/",
            "https://intranet/",
            "https://shop.example./",
            "https://127%2e0.0.1/",
            "https://ada:secret@shop.example/",
            "https://shop.example@127.0.0.1/",
            "https://pay.example/",
            "https://PAY.example:8443/webhooks",
        ] {
            assert!(!taken(bad), "{bad}");
        }
    }

    #[test]
    fn the_demo_tells_this_machine() {
        for good in ["http://127.0.0.1:3000/hook", "http://localhost:3000", "https://shop.example"] {
            assert!(endpoint_url(good, true, "localhost:8787").is_ok(), "{good}");
        }
        assert!(endpoint_url("ftp://shop.example", true, "localhost:8787").is_err());
    }
}
