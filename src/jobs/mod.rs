//! The queue's consumer: does each job once, by its id.
//!
//! A message may come more than once and in any order. What became of a job stands in D1 under its id, so that a second
//! message finds it done; the object that staged it is told last, and only then forgets it. A job that fails waits longer
//! each time, without holding up others, and at the end lies in the dead letters with its history.

#[cfg(target_arch = "wasm32")]
mod consumer;
#[cfg(target_arch = "wasm32")]
mod ledger;
pub mod levels;
pub mod message;
#[cfg(target_arch = "wasm32")]
mod outcome;
#[cfg(target_arch = "wasm32")]
mod post;
pub mod receipt;
#[cfg(target_arch = "wasm32")]
mod send_message;
#[cfg(target_arch = "wasm32")]
mod send_receipt;

#[cfg(target_arch = "wasm32")]
pub use consumer::consume;
#[cfg(target_arch = "wasm32")]
pub(crate) use ledger::purge;
