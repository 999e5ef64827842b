//! The gate: a Worker in front of somebody's own forms and APIs, which passes each request on once, without a change to their code.
//!
//! ```text
//! page ◄── html.mjs, page.rs ◄── origin        a key in each form that is named
//! form ──► body.rs ──► object.rs ──► origin    once for each key of each visitor (flow.rs, on the engine)
//!      ◄── cookies.rs, sealed.rs ◄──           the stored answer, to the same session
//! ```
//!
//! docs/gate.md says what it does, and what it cannot.
#![allow(missing_docs, reason = "what durable_object makes has none")]

pub mod ask;
pub mod body;
pub mod by_hand;
pub mod config;
pub mod cookies;
pub mod domain;
pub mod flow;
pub mod form_key;
pub mod headers;
pub mod meaning;
pub mod message;
pub mod object;
pub mod page;
pub mod pattern;
pub mod say;
pub mod sealed;
pub mod secret;
pub mod series;
pub mod texts;
pub mod visitor;
pub mod waits;

mod answer;
mod app;
mod bucket;
mod client;
mod host;
mod members;
mod own;
mod passed_on;
mod preset;
mod read_model;
mod serve;
mod stream;

/// Every HTTP request enters here.
#[worker::event(fetch)]
async fn fetch(
    request: worker::Request,
    env: worker::Env,
    _: worker::Context,
) -> worker::Result<worker::Response> {
    serve::handle(request, env).await
}
