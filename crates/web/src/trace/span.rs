//! One span.

use serde_json::Value;

use crate::url::Url;
use once::trace::TraceContext;

/// What a span is of: the numbers of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work within.
    Internal = 1,
    /// A request that came in.
    Server = 2,
    /// A request that went out.
    Client = 3,
    /// A message that was sent.
    Producer = 4,
    /// A message that was worked on.
    Consumer = 5,
}

/// A span, from its begin on.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its trace and its id.
    pub context: TraceContext,
    /// The span that it is part of.
    pub parent: Option<[u8; 8]>,
    /// The caller's `tracestate`.
    pub state: Option<String>,
    /// What was done: one of few words, no value.
    pub name: String,
    /// What it is of.
    pub kind: Kind,
    /// When it began, in ms since the epoch.
    pub began_at_ms: u64,
    /// When it ended, in ms since the epoch.
    pub ended_at_ms: u64,
    /// Words, numbers and flags.
    pub attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that it has to do with.
    pub links: Vec<TraceContext>,
    /// It failed.
    pub is_error: bool,
}

impl Span {
    /// A span that begins now, as part of another one. `None` for an id that is all zero.
    pub fn child(
        parent: TraceContext,
        id: [u8; 8],
        name: impl Into<String>,
        kind: Kind,
        now_ms: u64,
    ) -> Option<Self> {
        Some(Self {
            context: parent.span(id)?,
            parent: Some(*parent.span_id()),
            state: None,
            name: name.into(),
            kind,
            began_at_ms: now_ms,
            ended_at_ms: now_ms,
            attributes: Vec::new(),
            links: Vec::new(),
            is_error: false,
        })
    }

    /// Tells more of it.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.attributes.push((name, value.into()));
    }

    /// It failed; `kind` is one of few words for how.
    pub fn fail(&mut self, kind: impl Into<Value>) {
        self.is_error = true;
        self.set("error.type", kind);
    }

    /// Who is asked. Not what: an address names what it is about.
    pub fn asks(&mut self, url: &str) {
        let url = Url::split(url);
        let (host, port) = url.host.rsplit_once(':').unwrap_or((url.host, ""));
        let default = if url.scheme == "http" { 80 } else { 443 };
        self.set("server.address", host);
        self.set("server.port", port.parse::<u16>().unwrap_or(default));
    }

    /// What an answer's status means for whoever has asked: from 400 on it failed.
    pub fn answered(&mut self, status: u16) {
        self.set("http.response.status_code", status);
        if status >= 400 {
            self.fail(status.to_string());
        }
    }

    /// A span that has to do with it, if it is of another trace.
    pub fn link(&mut self, other: Option<TraceContext>) {
        self.links.extend(other.filter(|other| other.trace_id() != self.context.trace_id()));
    }
}
