//! Where a piece of work stands in a distributed trace, as [W3C Trace Context](https://www.w3.org/TR/trace-context/) writes it.
//!
//! Nothing is decided by it: it only tells whoever looks which work belongs together. So whatever cannot be read is as if it were not there.

use std::fmt;

/// A trace, a span in it, and whether the trace is recorded. Both ids are random, and never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// The flags that are passed on: that one, and that the trace's id is random.
const KNOWN: u8 = SAMPLED | 2;
/// How long a `traceparent` is.
const LEN: usize = 55;

impl TraceContext {
    /// The first span of a new trace. `None` for ids that are all zero.
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], is_sampled: bool) -> Option<Self> {
        let flags = if is_sampled { SAMPLED } else { 0 };
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Self { trace_id, span_id, flags })
    }

    /// Reads a `traceparent`. One of a version to come is read as far as version 00 goes.
    pub fn parse(text: &str) -> Option<Self> {
        let (known, more) = text.split_at_checked(LEN)?;
        let mut fields = known.split('-');
        let [version] = hex(fields.next()?)?;
        let (trace_id, span_id, [flags]) = (hex(fields.next()?)?, hex(fields.next()?)?, hex(fields.next()?)?);
        let is_version = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more.starts_with('-'),
        };
        let context = Self { flags: flags & KNOWN, ..Self::new(trace_id, span_id, false)? };
        (is_version && fields.next().is_none()).then_some(context)
    }

    /// Another span of the same trace. `None` for an id that is all zero.
    pub fn span(self, span_id: [u8; 8]) -> Option<Self> {
        (span_id != [0; 8]).then_some(Self { span_id, ..self })
    }

    /// The trace's id.
    pub const fn trace_id(&self) -> &[u8; 16] {
        &self.trace_id
    }

    /// The trace's id, as it is written.
    pub fn trace_id_hex(&self) -> String {
        base16ct::lower::encode_string(&self.trace_id)
    }

    /// The span's id, as it is written.
    pub fn span_id_hex(&self) -> String {
        base16ct::lower::encode_string(&self.span_id)
    }

    /// The span's id.
    pub const fn span_id(&self) -> &[u8; 8] {
        &self.span_id
    }

    /// Whether the trace is recorded.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    base16ct::lower::decode_vec(text).ok()?.try_into().ok()
}

/// A `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id_hex(), self.span_id_hex(), self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A context as it is stored and sent: what cannot be read is none.
pub mod optional {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::TraceContext;

    /// As a `traceparent`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        context: &Option<TraceContext>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match context {
            Some(context) => serializer.collect_str(context),
            None => serializer.serialize_none(),
        }
    }

    /// From a `traceparent`, or nothing.
    ///
    /// # Errors
    /// For what is neither a text nor nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TraceContext>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.and_then(|text| TraceContext::parse(&text)))
    }
}
