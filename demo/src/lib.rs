//! The demo: its home page, Rocket Rides, and the lab, in which a visitor breaks a payment and sees what becomes of it.
//!
//! It is a Worker of its own, and a client of the payments Worker like any other: it pays by the API, over a service binding. The
//! simulator it knows as its bank, whose ledger says what was charged. Where there is one address for all, the payments Worker passes
//! what is the demo's on to it. It is never deployed to production.

pub mod config;
pub mod lab;
pub mod rides;
pub mod routes;

mod app;
mod bank_pages;
mod handle;
mod pages;

/// Every HTTP request enters here.
#[worker::event(fetch)]
async fn fetch(
    request: worker::worker_sys::web_sys::Request,
    env: worker::Env,
    ctx: worker::Context,
) -> worker::Result<worker::worker_sys::web_sys::Response> {
    handle::handle(request, env, ctx).await
}
