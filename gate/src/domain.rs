//! What the gate's operations are about: what is kept of a request that is passed on, and of its answer.

use std::collections::{BTreeMap, BTreeSet};

use once::call::ProviderCall;
use once::domain::{Answer, Domain, NoPoint, Provider};
use once::object_state::ObjectState;
use once::record::Lifecycle;
use once::times::Times;
use serde::{Deserialize, Serialize};

use crate::meaning::Ended;
use crate::waits::Waits;

/// What the gate does: see [`flow`](crate::flow).
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

/// Where something goes, as far as that is kept: an address may hold what is nobody's business.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The host at which it came.
    pub host: String,
    /// The route, as the operator has written it.
    pub route: String,
}

/// What is passed on, as far as it is kept: not its body, its headers or its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Submission {
    /// Where it goes.
    pub place: Place,
    /// How long is waited for what.
    pub waits: Waits,
    /// The read model is told of it.
    pub is_told: bool,
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
    /// Its body lies in the bucket.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_bucket: bool,
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
        matches!(self.ended, Ended::Refused | Ended::NeverSent | Ended::NotDone)
    }
}

/// Whether an answer ends its call. Where an earlier send of it may have been executed only an answer to that one does: that it is done, or what the
/// origin says (`is_kept`) it has given under the key before. A log-in, a token that was used, a lock, a limit or a form shown again is a word about
/// this copy alone.
pub fn ends(call: &ProviderCall<PassOn>, ended: Ended, is_kept: bool) -> bool {
    let in_doubt = call.maybe_executed || call.evidence.doubted_at_ms.is_some();
    !in_doubt || ended == Ended::Done || is_kept
}

/// What there is where the origin has given no answer.
pub const fn without_answer(ended: Ended) -> Reply {
    Reply { ended, in_bucket: false, sealed: Vec::new() }
}

/// One word for it, as it stands in logs and in the stored response.
pub const fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Done => "done",
        Ended::ShownAgain => "shown_again",
        Ended::Refused => "refused",
        Ended::NeverSent => "never_sent",
        Ended::Unknown => "unknown",
        Ended::NotDone => "not_done",
    }
}

/// What a visitor's key has done here. A key that is free again has another operation under it, numbered on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Intent {
    /// How each operation ended that has, by its number.
    pub ended: BTreeMap<u32, Ended>,
    /// Where each one goes of which the read model is told.
    #[serde(default)]
    pub places: BTreeMap<u32, Place>,
    /// Those whose answers lie in the bucket.
    #[serde(default)]
    pub in_bucket: BTreeSet<u32>,
    /// Grows with each change of which it is told.
    #[serde(default)]
    pub version: u64,
    /// How long the newest one waits for what.
    #[serde(default)]
    pub waits: Option<Waits>,
}

impl Intent {
    /// Those of which nobody can be given the answer any more that lies in the bucket.
    pub fn over_in_bucket(state: &ObjectState<PassOn>) -> impl Iterator<Item = u32> {
        let newest = state.keys.iter().map(|key| key.key_id).max();
        let is_over = move |number: &u32| {
            Some(*number) != newest
                || state.key(*number).is_none_or(|key| matches!(key.lifecycle, Lifecycle::Expired(_)))
        };
        state.resource.in_bucket.iter().copied().filter(is_over)
    }
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

/// The name of the one call.
pub const SEND: &str = "request";
