//! Payments as flows of the engine [`once`]. Pure: no I/O, no clock, no randomness.

pub mod engine;
pub mod flows;
pub mod payment;
pub mod providers;
pub mod transitions;

/// A time in ms since the epoch as a date. `None` if there is none so late.
pub fn utc(ms: u64) -> Option<chrono::DateTime<chrono::Utc>> {
    chrono::DateTime::from_timestamp_millis(i64::try_from(ms).ok()?)
}

/// A time in ms since the epoch as RFC 3339 in UTC, with milliseconds.
pub fn timestamp(ms: u64) -> String {
    utc(ms).map(|at| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)).unwrap_or_default()
}
