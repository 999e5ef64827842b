//! Settings that more than one Worker has: each is read alike, and what is wrong with it is said in the same words.

use std::cell::Cell;

use web::signing::{SECRET_MIN_LEN, SigningKeys};

use crate::log::{Level, log};

/// How long a body may take to come, in ms, where it is not set: 64 KiB come in it over any line that still works.
const BODY_TIMEOUT_MS: u64 = 10_000;

/// A secret without which the Worker does nothing.
pub fn secret(setting: impl Fn(&str) -> Option<String>, name: &str) -> Result<String, String> {
    setting(name).ok_or_else(|| format!("The secret {name} is not set: `npx wrangler secret put {name}`."))
}

/// Settings of what a Worker can do without that are there without those they need. They count as not set until these are, so that nothing else
/// stops meanwhile: a secret and a variable are deployed one after the other.
#[derive(Debug, Default)]
pub struct Incomplete(Vec<(&'static str, Vec<&'static str>)>);

impl Incomplete {
    /// Looks at these settings, each with what it needs.
    pub fn among(
        setting: impl Fn(&str) -> Option<String>,
        needs: &[(&'static str, &[&'static str])],
    ) -> Self {
        let is_missing = |name: &&&'static str| setting(name).is_none();
        let of = |(name, needed): &(&'static str, &[&'static str])| {
            let missing: Vec<_> = needed.iter().filter(is_missing).copied().collect();
            (setting(name).is_some() && !missing.is_empty()).then_some((*name, missing))
        };
        Self(needs.iter().filter_map(of).collect())
    }

    /// Whether this setting counts as not set.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// What to set, a sentence each.
    pub fn into_sentences(self) -> Vec<String> {
        let sentence = |(name, missing): (&str, Vec<&str>)| {
            format!("{name} is set without {}: it counts as not set until then.", missing.join(" and "))
        };
        self.0.into_iter().map(sentence).collect()
    }
}

/// Writes down what is not set as a whole, once in each isolate.
pub fn log_incomplete(sentences: &[String]) {
    thread_local! {
        static IS_LOGGED: Cell<bool> = const { Cell::new(false) };
    }
    if sentences.is_empty() || IS_LOGGED.replace(true) {
        return;
    }
    for sentence in sentences {
        log("error", &[("event", "setting_incomplete".into()), ("error", sentence.as_str().into())]);
    }
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
