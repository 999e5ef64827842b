//! Paid Once: a payments edge on Cloudflare Workers that never charges twice.
//!
//! A request visits the modules in this order: [`edge`] reads it, [`object`] keeps it and drives it, the engine ([`once`]) decides what it
//! may do, [`payments::flows`] say what is to be done, [`payments::providers`] take the money. [`runtime::metrics`] counts what happens.

mod accounts;
pub mod config;
pub mod deliveries;
pub mod edge;
pub mod jobs;
mod key_entry;
mod metrics;
pub mod object;
mod operations;
mod own_keys;
pub mod readmodel;
pub mod replay_cache;
mod transport;
pub mod webhooks;

/// Every HTTP request enters here. `id` is the Request-Id that the fast path (`verbatim.mjs`) has given it when it asked the object, or `None`: no client can set it.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn fetch(
    request: worker::worker_sys::web_sys::Request,
    env: worker::Env,
    ctx: worker::worker_sys::Context,
    id: Option<String>,
) -> js_sys::Promise {
    worker::wasm_bindgen_futures::future_to_promise(async move {
        let answer = edge::handle(request, id, env, worker::Context::new(ctx)).await;
        answer.map(wasm_bindgen::JsValue::from).map_err(wasm_bindgen::JsValue::from)
    })
}

/// What the desk asks enters here.
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn operations(request: worker::worker_sys::web_sys::Request, env: worker::Env) -> js_sys::Promise {
    worker::wasm_bindgen_futures::future_to_promise(async move {
        let answer = operations::answer(request.into(), env).await;
        let response: worker::worker_sys::web_sys::Response =
            answer.map_err(wasm_bindgen::JsValue::from)?.into();
        Ok(response.into())
    })
}

/// Every batch of jobs enters here. It never fails: each message is acknowledged or sent back by itself.
#[worker::event(queue)]
async fn queue(
    batch: worker::MessageBatch<String>,
    env: worker::Env,
    ctx: worker::Context,
) -> worker::Result<()> {
    jobs::consume(&batch, &env).await;
    if let Some(flush) = runtime::metrics::flush(&env) {
        ctx.wait_until(flush);
    }
    if let Some(flush) = runtime::trace::flush(&env) {
        ctx.wait_until(flush);
    }
    Ok(())
}
