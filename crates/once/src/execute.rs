//! What becomes of a request, as its caller is told: it can be sent from the object to whoever asked it.

use serde::{Deserialize, Serialize};

use super::id::RequestId;
use super::record::StoredResponse;

/// What a request is told. `R` is why the state of things does not admit an operation, see [`Domain::Refusal`](super::domain::Domain::Refusal).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecuteResult<R> {
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
        /// Whether the call that waits may have been executed. What earlier calls of the operation have done is not asked.
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
    #[serde(rename = "stranger")]
    NotOwner,
    /// The state of things forbids it; the key is still free.
    Refused(R),
    /// Too many new operations; the key is still free.
    RateLimited,
}

impl<R> ExecuteResult<R> {
    /// A stored response, or that of another one's run, as it is told to `request`. The request that has made it may come again: its answer was lost
    /// between the object and who asked it, and no client has seen it. To that it is no replay.
    pub fn stored(response: StoredResponse, original_request: RequestId, request: &RequestId) -> Self {
        let replayed = original_request != *request;
        Self::Finished { response, original_request, replayed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_again_gets_its_own_answer_and_no_replay() {
        let response = StoredResponse { status: 201, headers: Vec::new(), body: Vec::new() };
        for (request, is_replay) in [("req_first", false), ("req_later", true)] {
            let told = ExecuteResult::<()>::stored(
                response.clone(),
                RequestId("req_first".to_owned()),
                &RequestId(request.to_owned()),
            );
            let ExecuteResult::Finished { replayed, .. } = told else { unreachable!() };
            assert_eq!(replayed, is_replay, "{request}");
        }
    }
}
