//! The idempotency machine: pure, without I/O, clock or randomness.
//!
//! What it promises, and who keeps it:
//!
//! - [`begin`](begin::begin) decides what a request may do under its key: start, resume, replay, wait, or be refused.
//! - [`Run::turn`](run::Run::turn) takes a run to the next thing to wait for, and says what that is: send a call,
//!   look one up, sleep, or answer.
//! - [`mark_sending`](step::mark_sending), inside it, comes right before every foreign send; it is where a stale run learns that it is
//!   stale.
//! - [`wake_at`](alarm::wake_at) says when the object must wake although nobody calls,
//!   [`alarm_to_set`](alarm::alarm_to_set) whether its alarm must be moved for that, [`wake`](alarm::wake) what it then does.
//!
//! What the shell owes the core: run each of these inside one transaction over the rows (all of the change is kept, or
//! none), send nothing but what [`Action::Send`](run::Action::Send) hands out and send it at once, and set the alarm as
//! `alarm_to_set` says in the same transaction.

pub mod account;
pub mod alarm;
pub mod begin;
pub mod by_hand;
pub mod by_provider;
pub mod call;
pub mod context;
pub mod domain;
pub mod execute;
pub mod fingerprint;
pub mod flow;
pub mod id;
pub mod key;
pub mod object_state;
pub mod outbox;
pub mod record;
pub mod replays;
pub mod request;
mod resource_id;
pub mod run;
pub mod skip;
pub mod sorted;
pub mod state;
pub mod step;
pub mod structured;
pub mod times;
pub mod trace;
