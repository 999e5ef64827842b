//! The operator's desk: what happens, what is stuck, and the buttons that set it right. For people, in a browser, without any
//! script.
//!
//! Lists and plots come from the read model, which follows within moments; the page of a key or a payment asks the object
//! itself. A button carries a one-time key, which is the idempotency key of what it does: pressed twice, it is done once.
//! Whatever is done stands in the audit log with who and when.

#[cfg(target_arch = "wasm32")]
mod actions;
#[cfg(target_arch = "wasm32")]
pub(super) mod buttons;
#[cfg(target_arch = "wasm32")]
pub(super) mod by_hand;
#[cfg(target_arch = "wasm32")]
mod context;
#[cfg(target_arch = "wasm32")]
mod data;
#[cfg(target_arch = "wasm32")]
pub(super) mod lists;
#[cfg(target_arch = "wasm32")]
pub(super) mod overview;
pub mod picture;
pub mod plot;
pub mod range;
#[cfg(target_arch = "wasm32")]
pub(super) mod reports;
pub mod route;
#[cfg(target_arch = "wasm32")]
pub(super) mod serve;
pub mod sheets;
#[cfg(target_arch = "wasm32")]
pub(super) mod sight;
pub mod story;
pub mod words;

#[cfg(target_arch = "wasm32")]
pub(super) use serve::enter;
