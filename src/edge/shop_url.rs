//! Addresses of a shop's: where a browser goes on.

/// The longest address, in characters.
pub const URL_MAX: usize = 2048;

/// An address of the merchant's to which a browser is sent. Only the demo sends it to plain http.
///
/// Whom it names as its user is not taken: a browser would show that, and go to what stands behind the `@`.
pub fn address(text: &str, demo: bool) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://").filter(|_| demo));
    let is_good = rest.is_some_and(|rest| is_authority(rest.split(['/', '?', '#']).next().unwrap_or(rest)))
        && text.len() <= URL_MAX
        && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\'));
    if is_good { Ok(text.to_owned()) } else { Err("must be an absolute https address".to_owned()) }
}

/// Whether a host, and a port if there is one, can stand in an address ([RFC 3986](https://www.rfc-editor.org/rfc/rfc3986#section-3.2)).
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, rest))) if host.parse::<std::net::Ipv6Addr>().is_ok() => {
            match rest.strip_prefix(':') {
                None if !rest.is_empty() => return false,
                port => (host, port),
            }
        }
        Some(_) => return false,
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    !host.is_empty()
        && !host.contains(['@', '[', ']'])
        && port.is_none_or(|port| {
            port.bytes().all(|b| b.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok())
        })
}
