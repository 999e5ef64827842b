//! Passing a request on: one call, of which nothing is kept but what came of it.
//!
//! ```text
//! sent ──► done · shown again · refused · never sent        by the answer (meaning.rs)
//!      └─► no answer, or the gate died ──► unknown          by `on_unknown`
//! ```
//!
//! What was sent is nowhere in the rows: it may hold passwords. So only somebody who brings it again can have it sent again.

use std::collections::BTreeMap;

use once::call::{CallSpec, CallState, FrozenRequest, RetryPolicy, Settlement};
use once::context::Bug;
use once::domain::{Answer, Domain, NoPoint, Provider};
use once::flow::{Admission, End, Flow, Phase};
use once::record::{Lifecycle, StoredResponse};
use once::times::Times;
use serde::{Deserialize, Serialize};

use crate::meaning::Ended;

/// The flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PassOn;

/// What is done where nobody knows what became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It is never sent again: a person is told, with a reference.
    #[default]
    NeverAgain,
    /// It is sent again under the same key, which the origin honours, when somebody brings it again.
    Replay,
    /// The origin is asked, with the cookies of the visitor, when they come again.
    Lookup {
        /// The path to get; `{key}` stands for the key that the origin got.
        get: String,
        /// The status that says that it is done.
        done: u16,
    },
}

/// What is passed on, as far as it is kept: not its body, its headers or its query.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Submission {
    /// In capitals.
    pub method: String,
    /// As it came.
    pub path: String,
    /// How it may be asked about, or sent again.
    pub again: Again,
    /// The key that the origin gets.
    pub origin_key: String,
}

/// How an operation may go on that nobody knows the end of. The setting of the time when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// Not at all.
    Never,
    /// By sending it again.
    Send,
    /// By asking.
    Ask,
}

impl From<&OnUnknown> for Again {
    fn from(on_unknown: &OnUnknown) -> Self {
        match on_unknown {
            OnUnknown::NeverAgain => Self::Never,
            OnUnknown::Replay => Self::Send,
            OnUnknown::Lookup { .. } => Self::Ask,
        }
    }
}

impl Provider for Again {
    type Kind = ();

    fn window_ms(self, times: &Times) -> u64 {
        match self {
            Self::Send => times.provider_window_ms,
            Self::Never | Self::Ask => 0,
        }
    }

    fn answers_questions(self) -> bool {
        self == Self::Ask
    }
}

/// What the origin has answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reply {
    /// What it means.
    pub ended: Ended,
    /// Headers and body, sealed so that only whoever has the key can read them. Taken out once the response is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "base64")]
    pub sealed: Vec<u8>,
}

mod base64 {
    use data_encoding::BASE64;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(deserializer)?.as_bytes()).map_err(D::Error::custom)
    }
}

impl Answer for Reply {
    fn name(&self) -> &'static str {
        word(self.ended)
    }

    fn is_refusal(&self) -> bool {
        matches!(self.ended, Ended::Refused | Ended::NeverSent)
    }
}

/// One word for it, as it stands in logs and in the stored response.
pub const fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Done => "done",
        Ended::ShownAgain => "shown_again",
        Ended::Refused => "refused",
        Ended::NeverSent => "never_sent",
        Ended::Unknown => "unknown",
    }
}

/// What a visitor's key has done here. A key that is free again has another operation under it, numbered on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Intent {
    /// How each operation ended that has, by its number.
    pub ended: BTreeMap<u32, Ended>,
}

impl Domain for PassOn {
    type Operation = Submission;
    type Resource = Intent;
    type Point = NoPoint;
    type Provider = Again;
    type Answer = Reply;
    type Refusal = ();
    type JobKind = ();
    type Facts = ();
    type Settings = ();
}

const SEND: &str = "send";
impl Flow for PassOn {
    fn name(_: &Submission) -> &'static str {
        "pass_on"
    }

    fn admit(_: &Submission, phase: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        // Only the newest one is answered any more: a hundred refusals must fit into a row.
        for key in phase.rows.keys.iter_mut().filter(|key| key.key_id != phase.key_id) {
            if let Lifecycle::Finished(finished) = &mut key.lifecycle {
                finished.response.body = Vec::new();
            }
        }
        Ok(Ok(None))
    }

    fn run(submission: &Submission, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        let (status, reply) = match phase.settlement(SEND)? {
            None => return Ok(send(submission)),
            Some(Settlement::Answered(reply)) => (reply.status, reply.result),
            Some(Settlement::NotExecuted) => (502, Reply { ended: Ended::NeverSent, sealed: Vec::new() }),
            Some(Settlement::NeedsReview) => (502, Reply { ended: Ended::Unknown, sealed: Vec::new() }),
        };
        let key_id = phase.key_id;
        phase.rows.resource.ended.insert(key_id, reply.ended);
        phase.rows.note(key_id, phase.ctx.now_ms, "ended", word(reply.ended));
        // It is stored once, as the response.
        for call in phase.rows.calls.iter_mut().filter(|call| call.key_id == key_id) {
            if let CallState::Settled(Settlement::Answered(kept)) = &mut call.state {
                kept.result.sealed = Vec::new();
            }
        }
        Ok(End::Response(StoredResponse { status, headers: Vec::new(), body: reply.sealed }))
    }

    fn too_many_keys(_: u32) {}
}

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
        request: FrozenRequest::new(submission.path.clone(), String::new()),
    })
}
