//! The log: one JSON object a line. Never a key, a token, a card, a secret or a body; keys appear by their hash.

use serde_json::{Map, Value};

/// A line. `level` is `info`, `warn` or `error`.
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
pub fn line(level: &str, fields: &[(&str, Value)]) -> String {
    let mut object = Map::new();
    object.insert("level".to_owned(), level.into());
    object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(object).to_string()
}

/// Writes a line to the Worker's log.
#[cfg(target_arch = "wasm32")]
pub fn log(level: &str, fields: &[(&str, Value)]) {
    let line = line(level, fields);
    match level {
        "error" => worker::console_error!("{line}"),
        "warn" => worker::console_warn!("{line}"),
        _ => worker::console_log!("{line}"),
    }
}
