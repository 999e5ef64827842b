//! What the Workers share of the Workers runtime. Without one only [`settings`], the counts of [`metrics`] and a line of [`log`] can be made.

pub mod log;
pub mod metrics;
pub mod settings;

pub mod aes_gcm;
pub mod client;
pub mod counts;
pub mod db;
mod directory;
pub mod http_client;
pub mod lag;
pub mod limiter;
pub mod lists;
pub mod meter;
pub mod now_or_later;
pub mod objects;
pub mod places;
pub mod queue;
pub mod random;
pub mod rest;
pub mod row_cache;
pub mod serve;
pub mod shard;
pub mod statement;
pub mod sums;
pub mod trace;
mod written_down;

/// The time, in ms since the epoch.
pub fn now_ms() -> u64 {
    worker::js_sys::Date::now() as u64
}

/// A setting of the Worker: a variable or a secret.
pub fn setting(env: &worker::Env, name: &str) -> Option<String> {
    env.var(name).ok().map(|value| value.to_string())
}
