//! Addresses, split at their separators.

/// The parts of an absolute URL. The runtime has parsed and normalized it: there is nothing left to parse but its
/// separators, and a URL library would make the Worker a fifth larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// `https` or `http`.
    pub scheme: &'a str,
    /// With the port, if it is not the scheme's own.
    pub host: &'a str,
    /// From its first slash.
    pub path: &'a str,
    /// Without the question mark.
    pub query: &'a str,
}

impl<'a> Url<'a> {
    /// Splits a URL at its separators.
    pub fn split(url: &'a str) -> Self {
        let url = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self { scheme, host, path, query }
    }
}

/// Where a reference leads, such as a `Location`, from the address at which it stands
/// ([RFC 3986, 5.2](https://www.rfc-editor.org/rfc/rfc3986#section-5.2)). A backslash is a slash, as to browsers.
///
/// ```
/// use web::url::join;
///
/// let from = |reference| join("https://shop.example/a/b?c=d", reference);
/// assert_eq!(from("login.php?next=/x"), "https://shop.example/a/login.php?next=/x");
/// assert_eq!(from("//Other.example/../x/./%6Cogin"), "https://other.example/x/login");
/// ```
pub fn join(base: &str, reference: &str) -> String {
    let Url { scheme, host, path: at, query } = Url::split(base);
    let reference = reference.trim();
    let (path, tail) = reference.split_at(reference.find(['?', '#']).unwrap_or(reference.len()));
    let path = path.replace('\\', "/");
    let is_absolute = path.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    let whole = match path.as_str() {
        _ if is_absolute => path,
        "" if tail.starts_with('?') || query.is_empty() => format!("{scheme}://{host}{at}"),
        "" => return format!("{scheme}://{host}{at}?{query}{tail}"),
        path if path.starts_with("//") => format!("{scheme}:{path}"),
        path if path.starts_with('/') => format!("{scheme}://{host}{path}"),
        path => {
            let folder = at.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{host}{folder}/{path}")
        }
    };
    if !whole.contains("://") {
        return reference.to_owned();
    }
    let Url { scheme, host, path, .. } = Url::split(&whole);
    let path = without_dots(&decode_unreserved(path));
    format!("{}://{}{path}{tail}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase())
}

/// A path without the segments `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

/// An address with more in its query: `more` is encoded already.
pub fn with_query(address: &str, more: &str) -> String {
    let (address, fragment) = match address.split_once('#') {
        Some((address, fragment)) => (address, format!("#{fragment}")),
        None => (address, String::new()),
    };
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}{more}{fragment}")
}

/// Decodes `%xx`; `None` if what comes out is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    String::from_utf8(percent_decode_bytes(text.as_bytes())).ok()
}

/// Decodes `%xx`. What is no such escape stays.
pub fn percent_decode_bytes(mut rest: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, after @ ..] => digit(*high).zip(digit(*low)).map(|digits| (digits, after)),
            _ => None,
        };
        match escaped {
            Some(((high, low), after)) => {
                bytes.push(high << 4 | low);
                rest = after;
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Decodes the escapes of letters, digits and `-._~`, which need none: with them and without them it is the same address
/// ([RFC 3986, 6.2.2.2](https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2.2)).
///
/// ```
/// use web::url::decode_unreserved;
///
/// assert_eq!(decode_unreserved("/payments/pay%5F1%2e/a%2Fb%"), "/payments/pay_1./a%2Fb%");
/// ```
pub fn decode_unreserved(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        decoded.push_str(before);
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let plain = byte.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte));
        match plain.zip(after.get(2..)) {
            Some((byte, behind)) => {
                decoded.push(char::from(byte));
                rest = behind;
            }
            None => {
                decoded.push('%');
                rest = after;
            }
        }
    }
    decoded.push_str(rest);
    decoded
}
