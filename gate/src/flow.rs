//! Passing a request on: one call, of which nothing is kept but what came of it.
//!
//! ```text
//! sent ──► done · shown again · refused · never sent        by the answer (meaning.rs)
//!      └─► no answer, or the gate died ──► unknown          by `on_unknown`
//! ```
//!
//! What was sent is nowhere in the rows: it may hold passwords. So only somebody who brings it again can have it sent again.

use once::call::{CallSpec, CallState, FrozenRequest, RetryPolicy, Settlement};
use once::context::{Bug, Context};
use once::flow::{Admission, End, Flow, ObjectLimit, Phase};
use once::object_state::ObjectState;
use once::record::{Lifecycle, StoredResponse};

use crate::by_hand;
use crate::domain::{Again, Intent, PassOn, SEND, Submission, without_answer, word};
use crate::meaning::Ended;
use crate::read_model;

impl Flow for PassOn {
    fn name(_: &Submission) -> &'static str {
        "pass_on"
    }

    fn admit(submission: &Submission, phase: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        // Only the newest one is answered any more: a hundred refusals must fit into a row.
        for key in phase.object_state.keys.iter_mut().filter(|key| key.key_id != phase.key_id) {
            if let Lifecycle::Finished(finished) = &mut key.lifecycle {
                finished.response.body = Vec::new();
            }
        }
        let (key_id, intent) = (phase.key_id, &mut phase.object_state.resource);
        intent.waits = Some(submission.waits);
        if submission.is_told {
            intent.places.insert(key_id, submission.place.clone());
        }
        Ok(Ok(None))
    }

    fn run(submission: &Submission, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        let (status, reply) = match phase.settlement(SEND)? {
            None => return Ok(send(submission)),
            Some(Settlement::Answered(reply)) => (reply.status, reply.result),
            Some(Settlement::NotExecuted) => (502, without_answer(Ended::NeverSent)),
            Some(Settlement::NeedsReview) => (502, without_answer(Ended::Unknown)),
        };
        let key_id = phase.key_id;
        phase.object_state.resource.ended.insert(key_id, reply.ended);
        if reply.in_bucket {
            phase.object_state.resource.in_bucket.insert(key_id);
        }
        phase.object_state.append_timeline(key_id, phase.ctx.now_ms, "ended", word(reply.ended));
        // It is stored once, as the response.
        for call in phase.object_state.calls.iter_mut().filter(|call| call.key_id == key_id) {
            if let CallState::Settled(Settlement::Answered(kept)) = &mut call.state {
                kept.result.sealed = Vec::new();
            }
        }
        Ok(End::Response(StoredResponse { status, headers: Vec::new(), body: reply.sealed }))
    }

    fn limit_reached(_: ObjectLimit) {}

    fn due_at_ms(state: &ObjectState<Self>, ctx: &Context<()>) -> Option<u64> {
        let bucket = Intent::over_in_bucket(state).next().map(|_| ctx.now_ms.saturating_add(CLEAN_UP_MS));
        bucket.into_iter().chain(by_hand::over_at_ms(state)).min()
    }

    fn on_alarm(state: &mut ObjectState<Self>, ctx: &Context<()>) {
        by_hand::forget(state, ctx.now_ms);
    }

    fn on_commit(before: &ObjectState<Self>, after: &mut ObjectState<Self>, ctx: &Context<()>) {
        read_model::stage(before, after, ctx);
    }
}

/// How long after it is over an answer is deleted from the bucket at the latest, in ms; if that fails it is tried again as long after.
const CLEAN_UP_MS: u64 = 60_000;

fn send(submission: &Submission) -> End<PassOn> {
    let retry_policy = match submission.again {
        Again::Never => RetryPolicy::AtMostOnce,
        Again::Send | Again::Ask => RetryPolicy::IdempotentByKey,
    };
    End::Call(CallSpec {
        name: SEND.to_owned(),
        kind: (),
        provider: submission.again,
        retry_policy,
        provider_key: submission.origin_key.clone(),
        request: FrozenRequest::new(submission.place.route.clone(), String::new()),
    })
}
