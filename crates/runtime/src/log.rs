//! The log: one JSON object a line. Never a key, a token, a card, a secret or a body; keys appear by their hash.

use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Map, Value};

/// How grave a line must be to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All: also each request and each job.
    #[default]
    Info,
    /// What may need a look.
    Warn,
    /// What went wrong.
    Error,
}

impl Level {
    /// From its word: `info`, `warn` or `error`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "info" => Some(Self::Info),
            "warn" => Some(Self::Warn),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}

/// What this isolate writes, as a [`Level`].
static LEAST: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// From here on only lines of this level, and of graver ones, are written.
pub fn set_least(level: Level) {
    LEAST.store(level as u8, Ordering::Relaxed);
}

/// Whether lines of a level are written. A word that is no level is.
pub fn is_written(level: &str) -> bool {
    Level::parse(level).is_none_or(|level| level as u8 >= LEAST.load(Ordering::Relaxed))
}

/// A line. `level` is `info`, `warn` or `error`.
pub fn line(level: &str, fields: &[(&str, Value)]) -> String {
    let mut object = Map::new();
    object.insert("level".to_owned(), level.into());
    object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(object).to_string()
}

/// Writes a line to the Worker's log.
pub fn log(level: &str, fields: &[(&str, Value)]) {
    if !is_written(level) {
        return;
    }
    let line = line(level, fields);
    match level {
        "error" => worker::console_error!("{line}"),
        "warn" => worker::console_warn!("{line}"),
        _ => worker::console_log!("{line}"),
    }
}
