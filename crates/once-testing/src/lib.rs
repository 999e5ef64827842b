//! Plays a flow of the engine [`once`] on the host, with everything that can go wrong around it: the object's incarnation dies
//! before or after a commit, requests to the provider get lost, come late or twice, answers get lost, the provider is away for longer
//! than its window, clocks are wrong, clients give up.
//!
//! The user of the engine gives a [`Scenario`]: which requests come when, what the provider does with a call that it executes,
//! and a judge of the end. What the engine promises whatever the flow is judged here ([`Violation`]).
//!
//! ```text
//!  every_single_fault   one run for each fault at each place where it can happen
//!  every_pair           the same, with a second fault somewhere after the first
//!  random               as many histories as asked for, with faults at random places
//! ```
//!
//! Time is simulated and randomness is a seed: a history that was found is played again by its [`Plan`].

#![allow(clippy::indexing_slicing, reason = "a harness for tests: an index out of range is a failed test")]

mod auditor;
mod clients;
mod commit;
mod fault;
mod harness;
mod jobs;
mod person;
mod plan;
mod provider;
mod runs;
mod saboteur;
mod scenario;
mod wire;
mod world;

pub use fault::Fault;
pub use harness::{Harness, Played};
pub use plan::Plan;
pub use provider::Execution;
pub use saboteur::Saboteur;
pub use scenario::{Answer, End, Job, Scenario, Settings, Violation};
