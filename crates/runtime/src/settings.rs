//! Settings that more than one Worker has: each is read alike, and what is wrong with it is said in the same words.

use web::signing::{SECRET_MIN_LEN, SigningKeys};

use crate::log::Level;

/// How long a body may take to come, in ms, where it is not set: 64 KiB come in it over any line that still works.
const BODY_TIMEOUT_MS: u64 = 10_000;

/// A secret without which the Worker does nothing.
pub fn secret(setting: impl Fn(&str) -> Option<String>, name: &str) -> Result<String, String> {
    setting(name).ok_or_else(|| format!("The secret {name} is not set: `npx wrangler secret put {name}`."))
}

/// `SIGNING_KEY`.
pub fn signing_keys(setting: impl Fn(&str) -> Option<String>) -> Result<SigningKeys, String> {
    SigningKeys::parse(&secret(setting, "SIGNING_KEY")?).map_err(|wrong| {
        format!(
            "SIGNING_KEY {wrong}: each of its keys (white space separates them) needs at least {SECRET_MIN_LEN} random \
             characters, such as `openssl rand -base64 32`; those after the first may have an end date, as \
             KEY@2027-01-31."
        )
    })
}

/// A time in ms; `default` where it is not set.
pub fn ms(setting: impl Fn(&str) -> Option<String>, name: &str, default: u64) -> Result<u64, String> {
    match setting(name) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("{name} must be a whole number of milliseconds.")),
    }
}

/// `BODY_TIMEOUT_MS`: how long a request's body may take to come, in ms.
pub fn body_timeout_ms(setting: impl Fn(&str) -> Option<String>) -> Result<u64, String> {
    match ms(setting, "BODY_TIMEOUT_MS", BODY_TIMEOUT_MS)? {
        0 => Err("BODY_TIMEOUT_MS must be at least 1: with 0 no body could come.".to_owned()),
        timeout_ms => Ok(timeout_ms),
    }
}

/// How long an isolate goes by the layouts of shards that it has read, in ms; no longer either: a layout begins only some time after it is set.
const SHARDS_CACHE_MS: u64 = 10_000;
/// The shortest of it, in ms: what is written asks D1 for them so often, in each isolate.
const SHARDS_CACHE_MIN_MS: u64 = 1_000;

/// `SHARDS_CACHE_MS`: how long an isolate goes by the layouts of shards that it has read, in ms. In the demo it may be as short as a test wants.
pub fn shards_cache_ms(setting: impl Fn(&str) -> Option<String>) -> Result<u64, String> {
    let is_demo = setting("DEMO").as_deref() == Some("true");
    let least_ms = if is_demo { 0 } else { SHARDS_CACHE_MIN_MS };
    match ms(setting, "SHARDS_CACHE_MS", SHARDS_CACHE_MS)? {
        cache_ms if (least_ms..=SHARDS_CACHE_MS).contains(&cache_ms) => Ok(cache_ms),
        _ => Err(format!(
            "SHARDS_CACHE_MS must be from {SHARDS_CACHE_MIN_MS} to {SHARDS_CACHE_MS}: with less D1 is asked too often, and with more a new \
             layout may be missed."
        )),
    }
}

/// `LOG_LEVEL`: the least grave lines that are written.
pub fn log_level(setting: impl Fn(&str) -> Option<String>) -> Result<Level, String> {
    match setting("LOG_LEVEL") {
        None => Ok(Level::default()),
        Some(word) => Level::parse(&word).ok_or_else(|| "LOG_LEVEL must be info, warn or error.".to_owned()),
    }
}
