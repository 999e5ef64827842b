//! The queue's consumer: does each job once, by its id.
//!
//! A message may arrive more than once and in any order. A job's state is in D1 under its id, so that a second message finds it done. The
//! object that staged the job looks there, and only then deletes it. A failing job backs off, without delaying others, and finally
//! becomes a dead letter with its history. What is not done soon goes on by itself, in the queue of its kind.

pub mod backoff;
mod circuit;
mod consumer;
mod deliver_webhook;
mod disposition;
mod hand_on;
mod ledger;
mod outcome;
mod purge;
pub mod receipt;
mod send_receipt;
mod service;
mod slots;
mod slow;
mod unasked;

pub use consumer::consume;
pub(crate) use purge::purge;
