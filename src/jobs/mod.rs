//! The queue's consumer: does each job once, by its id.
//!
//! A message may arrive more than once and in any order. A job's state is in D1 under its id, so that a second message finds it done. The
//! object that staged the job is told last, and only then deletes it. A failing job backs off, without delaying others, and finally
//! becomes a dead letter with its history.

pub mod backoff;
#[cfg(target_arch = "wasm32")]
mod consumer;
#[cfg(target_arch = "wasm32")]
mod ledger;
#[cfg(target_arch = "wasm32")]
mod outcome;
pub mod receipt;
#[cfg(target_arch = "wasm32")]
mod send_receipt;
#[cfg(target_arch = "wasm32")]
mod service;

#[cfg(target_arch = "wasm32")]
pub use consumer::consume;
#[cfg(target_arch = "wasm32")]
pub(crate) use ledger::purge;
