//! A request and an answer as plain data: what the edge works on, and what tests can make.

use std::collections::BTreeSet;

use crate::json;
use crate::locale::Messages;
use crate::locale::negotiate::negotiate;
use crate::problem::{Kind, Problem, Takes};
use crate::trace::RequestTrace;
use crate::url::percent_decode_bytes;
pub use crate::url::{Url, percent_decode, with_query};
use once::fingerprint::{FieldError, NoCanonicalForm, Parameters};
use once::id::{Owner, RequestId};
use once::key::KeyHash;

/// The largest request body, in bytes.
pub const REQUEST_MAX_BYTES: usize = 65_536;

/// How much of a field's name an answer repeats, in characters.
pub const FIELD_SHOWN_MAX: usize = 64;

/// The largest body of a webhook, in bytes: its events are as large as what they are about, and that is some 10 KB.
pub const WEBHOOK_MAX_BYTES: usize = 262_144;

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
    /// The path, percent-encoded as it came, but for what needs no escape.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// At most as many bytes as the route reads, such as [`REQUEST_MAX_BYTES`]. Empty until the request is admitted.
    pub body: Vec<u8>,
    /// The trace that it is part of.
    pub trace: Option<RequestTrace>,
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

    /// The path, and the query where there is one.
    pub fn path_and_query(&self) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        format!("{}{query}", self.path)
    }

    /// The same address with https.
    pub fn https_url(&self) -> String {
        format!("https://{}{}", self.host, self.path_and_query())
    }

    /// Whether a person's browser asks: it prefers HTML to JSON.
    pub fn wants_html(&self) -> bool {
        prefers_html(self.header("accept").unwrap_or_default(), false)
    }

    /// Whether a problem is to be a page. What sends credentials is a program, and gets one where it takes nothing else: the client in Java's
    /// library says by itself that it likes HTML best.
    pub fn wants_problem_page(&self) -> bool {
        prefers_html(self.header("accept").unwrap_or_default(), self.header("authorization").is_some())
    }

    /// What is said in the language that a person's browser asks for.
    pub fn messages(&self) -> &'static Messages {
        Messages::of(negotiate(self.header("accept-language")))
    }

    /// Whether it is a browser's form and not an API client: no credentials, and the body of a form.
    pub fn is_form(&self) -> bool {
        let content_type = self.header("content-type").unwrap_or_default();
        let is_form_body = content_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
        let is_browser = self.wants_html() || self.header("cookie").is_some();
        self.header("authorization").is_none() && is_form_body && is_browser
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
        let coding = self.header("content-encoding").map(str::trim).unwrap_or_default();
        if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") {
            let detail = "The body is compressed (Content-Encoding). Send it as it is. Nothing was executed.";
            let problem = Problem::because(Kind::UnsupportedMediaType, detail);
            return Err(Problem { takes: Takes::NotCompressed, ..problem });
        }
        parse_parameters(self.header("content-type").unwrap_or_default(), &self.body)
    }
}

/// Reads an `Accept` header (RFC 9110, 12.5.1): HTML must be named, and not come after JSON, which is what `*/*` gets. Where JSON will do, a
/// program gets that.
fn prefers_html(accept: &str, is_program: bool) -> bool {
    let quality = |media_type: &str| {
        accept.split(',').find_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let weight = |part: &str| {
                let (name, value) = part.split_once('=')?;
                name.eq_ignore_ascii_case("q").then(|| value.parse::<f32>().ok())?
            };
            parts.next()?.eq_ignore_ascii_case(media_type).then(|| parts.find_map(weight).unwrap_or(1.0))
        })
    };
    let json =
        ["application/problem+json", "application/json"].into_iter().filter_map(quality).reduce(f32::max);
    let json = json.or_else(|| quality("application/*")).or_else(|| quality("*/*")).unwrap_or(0.0);
    quality("text/html").is_some_and(|html| html > 0.0 && html >= json) && (json == 0.0 || !is_program)
}

/// Parses a body: JSON object or form. A name that stands there twice is refused, in both.
pub fn parse_parameters(content_type: &str, body: &[u8]) -> Result<Parameters, Problem> {
    if body.len() > REQUEST_MAX_BYTES {
        return Err(Problem::too_large(REQUEST_MAX_BYTES));
    }
    // A request without any body has no parameters, whatever it is called: many clients call each one JSON.
    if body.is_empty() {
        return Ok(Parameters::Form(Vec::new()));
    }
    match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        // What .NET and PowerShell begin a text with: RFC 8259 (8.1) lets a reader pass over it.
        "application/json" => json::parse_object(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body))
            .map(Parameters::Json)
            .map_err(|json::JsonError { path, message }| unreadable(&path, &message)),
        // What curl and others call each body that they are told nothing of. No form of ours has such a name.
        "application/x-www-form-urlencoded" if matches!(body, [b'{' | b'[', ..]) => Err(Problem::because(
            Kind::UnsupportedMediaType,
            "The body is JSON, and its Content-Type says that it is a form. Send Content-Type: application/json. Nothing was executed.",
        )),
        "application/x-www-form-urlencoded" => parse_form(body).map(Parameters::Form),
        _ => Err(Problem::new(Kind::UnsupportedMediaType)),
    }
}

/// Reads a form, as the [URL standard](https://url.spec.whatwg.org/#urlencoded-parsing) does, but for what is not UTF-8: the
/// standard puts a replacement character there, and then different requests would be one.
fn parse_form(body: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut names = BTreeSet::new();
    for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(at);
        let name = decode_form(name).ok_or_else(|| unreadable("", "has a field whose name is not UTF-8"))?;
        let value = decode_form(value.strip_prefix(b"=").unwrap_or_default())
            .ok_or_else(|| unreadable(&name, "is not UTF-8"))?;
        if !names.insert(name.clone()) {
            return Err(unreadable(&name, "is given twice: send it once"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn decode_form(text: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    String::from_utf8(percent_decode_bytes(&spaced)).ok()
}

/// A body that cannot be read, because of one of its fields or as a whole.
fn unreadable(field: &str, message: &str) -> Problem {
    if field.is_empty() {
        return Problem::because(Kind::BadRequest, format!("The body {message}."));
    }
    let field: String = field.chars().take(FIELD_SHOWN_MAX).collect();
    let mut problem =
        Problem::because(Kind::BadRequest, format!("The field `{field}` {message}. Nothing was executed."));
    problem.errors = vec![FieldError { field, message: message.to_owned() }];
    problem
}

impl From<NoCanonicalForm> for Problem {
    fn from(NoCanonicalForm { field }: NoCanonicalForm) -> Self {
        unreadable(&field, NoCanonicalForm::MESSAGE)
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
    /// For the log: the operator who was let in, and what they were shown or did something to, as the address names it.
    pub operator: Option<(String, String)>,
}

impl Answer {
    /// An answer with a body.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>, outcome: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), outcome, key: None, operator: None }
            .with("content-type", content_type)
    }

    /// A redirect that turns a POST into a GET.
    pub fn see_other(location: &str, outcome: &'static str) -> Self {
        Self::empty(303, outcome).with("location", location)
    }

    /// An answer without a body.
    pub fn empty(status: u16, outcome: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), outcome, key: None, operator: None }
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
