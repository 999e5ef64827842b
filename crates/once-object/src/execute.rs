//! A request for the object, and what comes of it.

use once::begin::Command;
use once::domain::Domain;
use once::flow::Flow;
use once::id::RequestId;
use once::record::{FencingToken, RecoveryPoint, StoredResponse};
use once::rows::Rows;
use once::run::Event;

/// A request.
pub struct Execute<F: Flow> {
    /// What is asked for, by whom, under which key.
    pub command: Command<F>,
    /// How long it waits for the run of another request, and over short pauses of its own, in ms.
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
    pub before_step: fn(&Rows<F>, &FencingToken, &Event<F::Answer>),
}

/// What came of it.
#[derive(Debug)]
pub struct Executed<F: Domain> {
    /// What the request is told.
    pub result: ExecuteResult<F>,
    /// It has waited for the run of another request.
    pub joined: bool,
    /// How long that run was in calls of the provider, in ms.
    pub provider_ms: u64,
}

/// What a request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecuteResult<F: Domain> {
    /// The operation is over.
    Finished {
        /// Its stored response.
        response: StoredResponse,
        /// The request that first used the key.
        original_request: RequestId,
        /// Whether it was there before this request, or made by another one's run.
        replayed: bool,
    },
    /// Another request's run goes on.
    InProgress {
        /// When to come again, in ms.
        retry_after_ms: u64,
    },
    /// The outcome is not known yet.
    Pending {
        /// When to come again, in ms.
        retry_after_ms: u64,
        /// Whether it may have been executed.
        in_doubt: bool,
    },
    /// An error between two phases.
    Interrupted {
        /// When it is resumed at the latest, in ms.
        retry_after_ms: u64,
    },
    /// The key stands for another request.
    Mismatch {
        /// The fields that differ.
        fields: Vec<String>,
    },
    /// The stored response is gone.
    Expired,
    /// There is nothing yet, and the request may not start anything.
    NotStarted,
    /// The key is somebody else's.
    NotOwner,
    /// The state of things forbids it; the key is still free.
    Refused(F::Refusal),
    /// Too many new operations; the key is still free.
    RateLimited,
}
