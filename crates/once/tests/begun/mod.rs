//! A transfer that is begun: what the tests of a single call and of the alarm start from.

#[path = "../../examples/transfer/flow.rs"]
pub(crate) mod flow;

use flow::{Transfers, request};
use once::begin::{Begin, begin};
use once::context::Context;
use once::id::{InstanceId, ObjectId};
use once::object_state::ObjectState;
use once::record::FencingToken;
use once::times::Times;

/// When it is asked for, in ms.
pub(crate) const BEGIN_MS: u64 = 1_000_000_000;

pub(crate) fn at(now_ms: u64) -> Context<()> {
    Context { now_ms, jitter_permille: 0, times: Times::default(), keys_max: 100, settings: () }
}

/// One that the incarnation "me" has begun, and the token with which it runs.
pub(crate) fn begun() -> (ObjectState<Transfers>, FencingToken) {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let command = request("rent", r#"{"to":"DE02","cents":7000}"#).unwrap();
    let begun = begin(&mut state, &command, &InstanceId("me".into()), &at(BEGIN_MS));
    let Ok(Begin::Run(token)) = begun else { panic!("{begun:?}") };
    (state, token)
}
