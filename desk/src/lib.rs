//! The operator's desk: pages that show what happens and what is stuck, and buttons that repair it. They need no script.
//!
//! Lists and charts come from the read model, which is moments behind. The page of a key or a payment asks the object itself. Each button
//! carries a one-time key, which is the idempotency key of its action: pressed twice, it acts once. Every action is in the audit log, with
//! who did it and when.
//!
//! The scheduled [`tasks`] run here, too: sweep, reconciliation, settlement, retention.
//!
//! It is a Worker of its own: it speaks with the payments Worker and its objects by bindings alone, and a trap here interrupts no payment. It
//! has no key of a provider: what reconciliation reads there the payments Worker reads for it.

pub mod access;
pub mod action_outcome;
pub mod analytics;
pub mod break_kinds;
pub mod chart;
pub mod config;
pub mod format;
mod gate;
pub mod health;
pub mod multipart;
pub mod payment_summary;
pub mod route;
pub mod routes;
pub mod status;
pub mod tasks;
pub mod time_window;
pub mod timeline;
pub mod timeline_svg;
pub mod view_models;

mod accounts;
mod action_rows;
mod actions;
mod admin;
mod app;
mod audit_log;
mod break_queries;
mod breaks;
mod button;
mod buttons;
mod by_hand;
mod confirm;
mod context;
mod dead_letters;
mod detail;
mod detail_tables;
mod handle;
mod history;
mod kept_counts;
mod kept_sums;
mod key_search;
mod lists;
mod login;
mod operations;
mod operator;
mod operator_log;
mod outcome;
mod overview;
mod pages;
mod payment_search;
mod payments_csv;
mod plot_queries;
mod queries;
mod reports;
mod requeue;
mod retention;
mod settlement;
mod settlement_queries;
mod shards;
mod sign_in;

/// Every HTTP request enters here.
#[worker::event(fetch)]
async fn fetch(
    request: worker::worker_sys::web_sys::Request,
    env: worker::Env,
    ctx: worker::Context,
) -> worker::Result<worker::worker_sys::web_sys::Response> {
    handle::handle(request, env, ctx).await
}

/// The clock enters here, every few minutes.
#[worker::event(scheduled)]
async fn scheduled(_event: worker::ScheduledEvent, env: worker::Env, ctx: worker::ScheduleContext) {
    tasks::run(&env, false).await;
    if let Some(flush) = runtime::metrics::flush(&env) {
        ctx.wait_until(flush);
    }
}
