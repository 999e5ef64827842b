//! A request and an answer as plain data: what the edge works on, and what tests can make.

use serde_json::Value;

use super::problem::{Kind, Problem};
use crate::machine::fingerprint::Parameters;
use crate::machine::id::{Owner, RequestId};
use crate::machine::key::KeyHash;

/// The largest request body, in bytes.
pub const REQUEST_MAX_BYTES: usize = 65_536;

/// The largest body of a webhook, in bytes: its events are as large as what they are about.
pub const WEBHOOK_MAX_BYTES: usize = 1_048_576;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its own id.
    pub id: RequestId,
    /// When it came, in ms since the epoch.
    pub now_ms: u64,
    /// The method, in capitals.
    pub method: String,
    /// `https` or `http`.
    pub scheme: String,
    /// Host and port, as in the `Origin` header.
    pub host: String,
    /// The path, percent-encoded as it came.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// At most as many bytes as the route reads, such as [`REQUEST_MAX_BYTES`], else one byte more.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether cookies may be `Secure`: on https.
    pub fn secure(&self) -> bool {
        self.scheme == "https"
    }

    /// Where this site is, as an `Origin` header says it.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// Whether it never left this machine: only there is plain http good enough.
    pub fn is_local(&self) -> bool {
        let name = match self.host.strip_prefix('[') {
            Some(v6) => v6.split(']').next(),
            None => self.host.split(':').next(),
        };
        matches!(name, Some("localhost" | "127.0.0.1" | "::1"))
    }

    /// The same address with https.
    pub fn https_url(&self) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        format!("https://{}{}{query}", self.host, self.path)
    }

    /// Whether a person's browser asks: it prefers HTML to JSON.
    pub fn wants_html(&self) -> bool {
        prefers_html(self.header("accept").unwrap_or_default())
    }

    /// Whether the query has this parameter.
    pub fn has_query(&self, name: &str) -> bool {
        self.query.split('&').any(|pair| pair.split('=').next() == Some(name))
    }

    /// The first value of this parameter in the query, as it was sent.
    pub fn query_value(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// The body's parameters, by its `Content-Type`.
    pub fn parameters(&self) -> Result<Parameters, Problem> {
        parse_parameters(self.header("content-type").unwrap_or_default(), &self.body)
    }
}

/// Reads an `Accept` header: HTML must be named, and not come after JSON.
fn prefers_html(accept: &str) -> bool {
    let quality = |media_type: &str| {
        accept.split(',').find_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            (parts.next()? == media_type)
                .then(|| parts.find_map(|p| p.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0))
        })
    };
    match (quality("text/html"), quality("application/json")) {
        (Some(html), json) => html > 0.0 && html >= json.unwrap_or(0.0),
        (None, _) => false,
    }
}

/// Parses a body: JSON object or form.
pub fn parse_parameters(content_type: &str, body: &[u8]) -> Result<Parameters, Problem> {
    if body.len() > REQUEST_MAX_BYTES {
        return Err(Problem::new(Kind::TooLarge));
    }
    let bad = |detail: String| Problem::because(Kind::BadRequest, detail);
    match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => match serde_json::from_slice(body) {
            Ok(Value::Object(members)) if members.values().any(has_inexact_integer) => Err(bad(
                "The body has an integer beyond 2^53, which JSON readers round differently: send it as a string.".to_owned(),
            )),
            Ok(Value::Object(members)) => Ok(Parameters::Json(members)),
            Ok(_) => Err(bad("The body must be a JSON object.".to_owned())),
            Err(error) => Err(bad(format!("The body is not valid JSON: {error}."))),
        },
        "application/x-www-form-urlencoded" => serde_urlencoded::from_bytes(body)
            .map(Parameters::Form)
            .map_err(|_| bad("The body is not a valid form.".to_owned())),
        // A POST without any body has no parameters, whatever it is called.
        _ if body.is_empty() => Ok(Parameters::Form(Vec::new())),
        _ => Err(Problem::new(Kind::UnsupportedMediaType)),
    }
}

/// Whether a number stands anywhere that canonical JSON (RFC 8785, whose numbers are doubles) would round: two different
/// requests could then have one fingerprint.
fn has_inexact_integer(value: &Value) -> bool {
    const EXACT: u64 = 1 << 53;
    match value {
        Value::Number(number) => {
            number.as_u64().is_some_and(|n| n > EXACT)
                || number.as_i64().is_some_and(|n| n.unsigned_abs() > EXACT)
        }
        Value::Array(items) => items.iter().any(has_inexact_integer),
        Value::Object(members) => members.values().any(has_inexact_integer),
        _ => false,
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// One word for the log: `created`, `replayed`, `mismatch`, …
    pub outcome: &'static str,
    /// For the log: whose key it was, and the beginning of its hash.
    pub key: Option<(String, String)>,
}

impl Answer {
    /// An answer with a body.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>, outcome: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), outcome, key: None }
            .with("content-type", content_type)
    }

    /// A redirect that turns a POST into a GET.
    pub fn see_other(location: &str, outcome: &'static str) -> Self {
        Self::empty(303, outcome).with("location", location)
    }

    /// An answer without a body.
    pub fn empty(status: u16, outcome: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), outcome, key: None }
    }

    /// Notes for the log whose key was used.
    #[must_use]
    pub fn under(mut self, owner: &Owner, key: &KeyHash) -> Self {
        self.key = Some((owner.to_text(), key.short().to_owned()));
        self
    }

    /// One more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

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

/// Decodes `%xx`; `None` if what comes out is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped =
            (*first == b'%').then(|| tail.split_at_checked(2)).flatten().and_then(|(hex, after)| {
                let byte = u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
                Some((byte, after))
            });
        match escaped {
            Some((byte, after)) => {
                bytes.push(byte);
                rest = after;
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}
