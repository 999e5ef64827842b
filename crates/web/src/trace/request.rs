//! What a request says of the trace that it is part of.

use super::settings::Collector;
use super::span::{Kind, Span};
use once::trace::TraceContext;

/// The longest `tracestate` that is kept, in characters, and the most members of it: [what everybody must take](https://www.w3.org/TR/trace-context/#tracestate-limits).
const STATE_MAX_LEN: usize = 512;
const STATE_MAX_MEMBERS: usize = 32;

/// The trace of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTrace {
    /// Our own span.
    pub context: TraceContext,
    /// The caller's.
    parent: Option<[u8; 8]>,
    /// The caller's `tracestate`.
    state: Option<String>,
}

/// Random bytes for a new trace and its first span.
#[derive(Clone, Copy, Debug)]
pub struct FreshIds {
    /// The trace's.
    pub trace: [u8; 16],
    /// The span's.
    pub span: [u8; 8],
}

impl RequestTrace {
    /// Goes on with the trace that the headers name. Without one a new trace begins, where there is a collector for it. A `traceparent` that
    /// is none is as if it were not there, and then the `tracestate` is not read.
    pub fn of(
        traceparent: Option<&str>,
        tracestate: Option<&str>,
        fresh: FreshIds,
        collector: Option<&Collector>,
    ) -> Option<Self> {
        if let Some(caller) = traceparent.and_then(|text| TraceContext::parse(text.trim())) {
            let state = tracestate.and_then(state);
            return Some(Self { context: caller.span(fresh.span)?, parent: Some(*caller.span_id()), state });
        }
        let is_sampled = collector?.samples(&fresh.trace);
        let context = TraceContext::new(fresh.trace, fresh.span, is_sampled)?;
        Some(Self { context, parent: None, state: None })
    }

    /// The span of the request, which has ended now.
    pub fn span(&self, method: &str, route: &str, began_at_ms: u64, now_ms: u64) -> Span {
        Span {
            context: self.context,
            parent: self.parent,
            state: self.state.clone(),
            name: format!("{method} {route}"),
            kind: Kind::Server,
            began_at_ms,
            ended_at_ms: now_ms,
            attributes: vec![("http.request.method", method.into()), ("http.route", route.into())],
            links: Vec::new(),
            is_error: false,
        }
    }
}

/// A `tracestate` that is one: it is handed on as it is, or not at all.
fn state(text: &str) -> Option<String> {
    let text = text.trim();
    let members = || text.split(',').map(str::trim).filter(|member| !member.is_empty());
    let is_one = |member: &str| {
        let Some((key, value)) = member.split_once('=') else { return false };
        let is_key = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/@".contains(&b);
        let is_value = |b: u8| (0x20..=0x7e).contains(&b) && b != b'=';
        let fits = (1..=256).contains(&key.len()) && (1..=256).contains(&value.len());
        fits && key.bytes().all(is_key) && value.bytes().all(is_value)
    };
    let fits = text.len() <= STATE_MAX_LEN && (1..=STATE_MAX_MEMBERS).contains(&members().count());
    (fits && members().all(is_one)).then(|| text.to_owned())
}
