//! Paid Once: a payments edge on Cloudflare Workers that never charges twice.
//!
//! A request visits the modules in this order: [`edge`] reads it, [`object`] keeps it and drives it, the engine ([`once`]) decides what it
//! may do, [`payments::flows`] say what is to be done, [`payments::providers`] take the money. [`metrics`] counts what happens.
//!
//! Only what needs the Workers runtime is compiled for wasm32 alone; all the rest is pure and tested on the host.

pub mod config;
pub mod edge;
#[cfg(target_arch = "wasm32")]
mod http_client;
pub mod jobs;
pub mod log;
pub mod metrics;
pub mod object;
#[cfg(target_arch = "wasm32")]
mod random;
pub mod readmodel;
pub mod tasks;
#[cfg(target_arch = "wasm32")]
mod transport;
pub mod webhooks;

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
