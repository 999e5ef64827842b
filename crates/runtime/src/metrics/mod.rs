//! Metrics, for Prometheus (`GET /metrics`) and for people (`GET /admin/stats`).
//!
//! Isolates share no memory, and no request may wait for a shared counter. So each isolate counts for itself ([`recorder`],
//! [`counters`]). After an answer, at most about once a second ([`flush_throttle`]), it sends its counters in one message to one of a few
//! objects, which add them up. A message whose outcome is unknown is not sent again, and an isolate that ends loses
//! what it has not sent: the numbers may be too small, never too large. Nothing is decided by them.
//!
//! Where Workers Analytics Engine is bound, an isolate writes its counters there instead, at the end of each invocation ([`points`]), and whoever
//! reads adds them to the objects' sums ([`reading`]): so any number of isolates can count.

mod analytics;
pub mod catalog;
pub mod counters;
mod flush;
pub mod flush_throttle;
pub mod points;
pub mod reading;
pub mod recorder;
pub mod shards;
pub mod stats;
pub mod text;

pub use analytics::is_bound as writes_to_analytics;
pub use catalog::Entity;
pub use flush::{flush, fold, looking_up, read, send_all, sending};
pub use recorder::*;
