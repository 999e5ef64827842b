//! Paid Once: a payments edge on Cloudflare Workers that never charges twice.
//!
//! A request visits the modules in this order: [`edge`] reads it, [`object`] keeps it and drives it, [`machine`] decides
//! what it may do, [`flows`] say what is to be done, [`providers`] take the money. [`metrics`] counts what happens.
//!
//! Only what needs the Workers runtime is compiled for wasm32 alone; all the rest is pure and tested on the host.

pub mod config;
pub mod edge;
#[cfg(target_arch = "wasm32")]
mod exchange;
pub mod flows;
pub mod jobs;
pub mod log;
pub mod metrics;
pub mod object;
pub mod payment;
pub mod providers;
#[cfg(target_arch = "wasm32")]
mod random;
pub mod readmodel;
pub mod tasks;
pub mod webhooks;

pub use once as machine;

/// Every HTTP request enters here.
#[cfg(target_arch = "wasm32")]
#[worker::event(fetch)]
async fn fetch(
    request: worker::Request,
    env: worker::Env,
    ctx: worker::Context,
) -> worker::Result<worker::Response> {
    edge::handle(request, env, ctx).await
}

/// Every batch of jobs enters here. It never fails: each message is acknowledged or sent back by itself.
#[cfg(target_arch = "wasm32")]
#[worker::event(queue)]
async fn queue(
    batch: worker::MessageBatch<String>,
    env: worker::Env,
    ctx: worker::Context,
) -> worker::Result<()> {
    jobs::consume(&batch, &env).await;
    if let Some(flush) = metrics::flush(&env) {
        ctx.wait_until(flush);
    }
    Ok(())
}

/// The clock enters here, every few minutes.
#[cfg(target_arch = "wasm32")]
#[worker::event(scheduled)]
async fn scheduled(_event: worker::ScheduledEvent, env: worker::Env, ctx: worker::ScheduleContext) {
    tasks::run(&env).await;
    if let Some(flush) = metrics::flush(&env) {
        ctx.wait_until(flush);
    }
}

fn utc(ms: u64) -> Option<chrono::DateTime<chrono::Utc>> {
    chrono::DateTime::from_timestamp_millis(i64::try_from(ms).ok()?)
}

/// A time in ms since the epoch as RFC 3339 in UTC, with milliseconds.
pub fn timestamp(ms: u64) -> String {
    utc(ms).map(|at| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)).unwrap_or_default()
}

/// A time in ms since the epoch as people write it: `21 November 2026, 09:30 UTC`.
pub fn date_for_people(ms: u64) -> String {
    utc(ms).map(|at| at.format("%-d %B %Y, %H:%M UTC").to_string()).unwrap_or_default()
}
