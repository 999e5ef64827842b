//! The queue's consumer: does each job once, by its id.
//!
//! A message may arrive more than once and in any order. A job's state is in D1 under its id, so that a second message finds it done. The
//! object that staged the job looks there, and only then deletes it. A failing job backs off, without delaying others, and finally
//! becomes a dead letter with its history.

pub mod backoff;
mod consumer;
mod ledger;
mod outcome;
pub mod receipt;
mod send_receipt;
mod service;

pub use consumer::consume;
pub(crate) use ledger::purge;
