//! A request for the object, and what comes of it.

use once::begin::Command;
use once::domain::Domain;
pub use once::execute::ExecuteResult;
use once::flow::Flow;
use once::object_state::ObjectState;
use once::record::{FencingToken, RecoveryPoint};
use once::run::Event;

/// A request.
pub struct Execute<F: Flow> {
    /// What is asked for, by whom, under which key.
    pub command: Command<F>,
    /// How long it waits for the run of another request, and over short pauses of its own, in ms: in the place of
    /// [`Times::wait_ms`](once::times::Times::wait_ms).
    pub wait_ms: u64,
    /// It was counted against the account's rate already.
    pub is_counted: bool,
    /// What is to go wrong: for a demonstration, or a test.
    pub faults: Option<Faults<F>>,
}

/// What is to go wrong in a run. Its steps are a transaction each then, so that something can strike between two of them.
pub struct Faults<F: Flow> {
    /// It fails when it has reached one of these points.
    pub fail_at: &'static [RecoveryPoint<F::Point>],
    /// Is called in the transaction of each step, before it.
    pub before_step: fn(&ObjectState<F>, &FencingToken, &Event<F::Answer>),
}

/// What came of it.
#[derive(Debug)]
pub struct Executed<F: Domain> {
    /// What the request is told.
    pub result: ExecuteResult<F::Refusal>,
    /// It has waited for the run of another request.
    pub joined: bool,
    /// How long that run was in calls of the provider, in ms.
    pub provider_ms: u64,
    /// It is a replay that was counted already, under its id: this request has asked before, and did not wait for the answer.
    pub is_repeated: bool,
}
