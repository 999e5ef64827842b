//! What the Workers share of the Workers runtime. Only [`log`], [`settings`] and the counts of [`metrics`] also build on the host.

pub mod log;
pub mod metrics;
pub mod settings;

#[cfg(target_arch = "wasm32")]
pub mod client;
#[cfg(target_arch = "wasm32")]
pub mod counts;
#[cfg(target_arch = "wasm32")]
pub mod db;
#[cfg(target_arch = "wasm32")]
pub mod http_client;
#[cfg(target_arch = "wasm32")]
pub mod lag;
#[cfg(target_arch = "wasm32")]
pub mod limiter;
#[cfg(target_arch = "wasm32")]
pub mod objects;
#[cfg(target_arch = "wasm32")]
pub mod random;
#[cfg(target_arch = "wasm32")]
pub mod serve;

/// The time, in ms since the epoch.
#[cfg(target_arch = "wasm32")]
pub fn now_ms() -> u64 {
    worker::js_sys::Date::now() as u64
}

/// A setting of the Worker: a variable or a secret.
#[cfg(target_arch = "wasm32")]
pub fn setting(env: &worker::Env, name: &str) -> Option<String> {
    env.var(name).ok().map(|value| value.to_string())
}
