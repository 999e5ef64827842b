//! Distributed traces, as far as they need no runtime: what a request says of its trace, spans, and how they are written for a collector.
//!
//! A span tells what was done, when, and how it ended; never a key, a token, a card, an address or a body. The names are OpenTelemetry's
//! [semantic conventions](https://opentelemetry.io/docs/specs/semconv/http/http-spans/); what these have no name for is `paid_once.…`.

mod otlp;
mod pending;
mod request;
mod settings;
mod span;

pub use otlp::encode;
pub use pending::{PENDING_MAX, Pending};
pub use request::{FreshIds, RequestTrace};
pub use settings::Collector;
pub use span::{Kind, Span};
