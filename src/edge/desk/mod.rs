//! The operator's desk: pages that show what happens and what is stuck, and buttons that repair it. They need no script.
//!
//! Lists and charts come from the read model, which is moments behind. The page of a key or a payment asks the object itself. Each button
//! carries a one-time key, which is the idempotency key of its action: pressed twice, it acts once. Every action is in the audit log, with
//! who did it and when.

#[cfg(target_arch = "wasm32")]
mod actions;
#[cfg(target_arch = "wasm32")]
pub(super) mod audit_log;
#[cfg(target_arch = "wasm32")]
pub(super) mod buttons;
#[cfg(target_arch = "wasm32")]
pub(super) mod by_hand;
pub mod chart;
#[cfg(target_arch = "wasm32")]
mod context;
#[cfg(target_arch = "wasm32")]
pub(super) mod detail;
#[cfg(target_arch = "wasm32")]
mod detail_tables;
pub mod format;
#[cfg(target_arch = "wasm32")]
pub(super) mod lists;
#[cfg(target_arch = "wasm32")]
pub(super) mod overview;
#[cfg(target_arch = "wasm32")]
mod queries;
#[cfg(target_arch = "wasm32")]
pub(super) mod reports;
pub mod route;
#[cfg(target_arch = "wasm32")]
pub(super) mod sign_in;
pub mod time_window;
pub mod timeline;
pub mod timeline_svg;
pub mod view_models;

#[cfg(target_arch = "wasm32")]
pub(super) use sign_in::enter;
