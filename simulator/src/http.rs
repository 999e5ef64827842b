//! A request and a reply as plain values, so that everything between them is pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// No body is larger: no endpoint here takes more than a few kilobytes.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// A request as it came in.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `GET`, `POST` or `DELETE`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body as it came.
    pub body: Vec<u8>,
    /// Where a browser reaches the simulator, as `scheme://host:port`; `None` where only the caller knows.
    pub origin: Option<String>,
}

impl Request {
    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The key of `Authorization: Bearer …`.
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, key) = self.header("authorization")?.split_once(' ')?;
        Some(key.trim()).filter(|key| scheme.eq_ignore_ascii_case("bearer") && !key.is_empty())
    }

    /// The first value of a query parameter.
    pub fn query_value(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }
}

/// A reply, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers, in order.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// Whether this is a stored response.
    pub replayed: bool,
}

impl Reply {
    /// A reply with a body of a type.
    pub fn new(status: u16, content_type: &str, body: String) -> Self {
        Reply {
            status,
            headers: vec![
                ("Content-Type", content_type.to_owned()),
                ("Cache-Control", "no-cache, no-store".to_owned()),
            ],
            body,
            replayed: false,
        }
    }

    /// A JSON reply, indented as Stripe's are.
    pub fn json(status: u16, value: &Value) -> Self {
        Reply::new(status, "application/json", render(value))
    }

    /// A page for a person.
    pub fn html(status: u16, body: String) -> Self {
        let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'";
        Reply::html_under(status, body, policy)
    }

    /// A page with a content security policy of its own.
    pub fn html_under(status: u16, body: String, policy: &str) -> Self {
        Reply::new(status, "text/html; charset=utf-8", body).with("Content-Security-Policy", policy)
    }

    /// Sends a browser on with GET.
    pub fn see_other(location: String) -> Self {
        let mut reply = Reply::new(303, "text/plain; charset=utf-8", String::new());
        reply.headers.push(("Location", location));
        reply
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// JSON, indented as Stripe's is.
pub fn render(value: &Value) -> String {
    format!("{value:#}")
}
