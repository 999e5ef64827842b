//! What an object is asked by the edge, beside the request itself, and what it says beside its answer.

use data_encoding::BASE64;
use once::times::Times;
use serde::{Deserialize, Serialize};
use web::http::Request;
use web::origin::network;

use crate::config::Route;
use crate::domain::{OnUnknown, Place};
use crate::meaning::Rules;
use crate::secret::Secret;
use crate::waits::Waits;

/// The header in which it comes: JSON in base64. It never leaves the Worker.
pub const ASK: &str = "paid-once-ask";
/// The header in which the object answers, likewise.
pub const REPLY_HEADER: &str = "paid-once-verdict";

/// How many times longer a request may take whose body is too large to be held.
const LARGE_TAKES: u64 = 10;

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectRequest {
    /// Of the key and its owner.
    secret: [u8; 32],
    /// What the request says; none to see what the last one was answered.
    pub fingerprint: Option<String>,
    /// It may begin something: the form is not too old.
    pub may_start: bool,
    /// Its body is too large to be held: how long it is, where that is known.
    pub large: Option<Option<u64>>,
    /// When its form was made, in ms since the epoch, where that decides: what was done since is the same.
    pub made_at_ms: Option<u64>,
    /// What is done where nobody knows.
    pub on_unknown: OnUnknown,
    /// What an answer means.
    pub rules: Rules,
    /// More names of cookies that are a session.
    pub session: Vec<String>,
    /// A header has said who the client is.
    #[serde(default)]
    pub is_named: bool,
    /// The largest answer that is kept, in bytes.
    pub max_answer: usize,
    /// How long the route waits for what.
    waits: Waits,
    /// Where it goes.
    pub place: Option<Place>,
    /// The id of the request.
    pub request_id: String,
    /// The network that it comes from.
    pub network: String,
}

impl ObjectRequest {
    /// Of a key, by the settings of its route.
    pub fn new(secret: &Secret, route: &Route, request: &Request) -> Self {
        Self {
            secret: *secret.as_bytes(),
            fingerprint: None,
            may_start: true,
            large: None,
            made_at_ms: None,
            on_unknown: route.on_unknown.clone(),
            rules: route.rules.clone(),
            session: route.session.clone(),
            is_named: false,
            max_answer: route.max_answer,
            waits: route.waits,
            place: None,
            request_id: request.id.0.clone(),
            network: network(request.header("cf-connecting-ip").unwrap_or_default()),
        }
    }

    /// A request that is to be passed on once.
    #[must_use]
    pub fn to_pass_on(self, form: Form) -> Self {
        let Form { fingerprint, may_start, is_named, large, made_at_ms, place } = form;
        let (fingerprint, place) = (Some(fingerprint), Some(place));
        Self { fingerprint, may_start, is_named, large, made_at_ms, place, ..self }
    }

    /// The secret of the key.
    pub const fn secret(&self) -> Secret {
        Secret::from_bytes(self.secret)
    }

    /// How long the route waits for what. A large body takes long to come.
    pub const fn waits(&self) -> Waits {
        self.waits.times_longer(if self.large.is_some() { LARGE_TAKES } else { 1 })
    }

    /// The same, as the engine takes it.
    pub fn times(&self) -> Times {
        self.waits().times()
    }
}

/// What is passed on, as far as that decides.
pub struct Form {
    /// What it says.
    pub fingerprint: String,
    /// See [`ObjectRequest::may_start`].
    pub may_start: bool,
    /// See [`ObjectRequest::is_named`].
    pub is_named: bool,
    /// See [`ObjectRequest::large`].
    pub large: Option<Option<u64>>,
    /// See [`ObjectRequest::made_at_ms`].
    pub made_at_ms: Option<u64>,
    /// See [`ObjectRequest::place`].
    pub place: Place,
}

/// What the object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectReply {
    /// The answer is the origin's.
    Answered {
        /// It was there before, or another request has brought it.
        replayed: bool,
    },
    /// It is done, and the answer is for another session, or was too large to be kept.
    AlreadyDone,
    /// The key is of something else that is done.
    Differs,
    /// The key is of the same that was sent to another host.
    SentElsewhere,
    /// It is under way.
    UnderWay {
        /// When to come again, in ms.
        retry_after_ms: u64,
    },
    /// Nobody knows what became of what was sent under the key, whatever is sent now.
    Unknown {
        /// How long the origin may still be at work on it, in ms.
        quiet_ms: u64,
    },
    /// The origin was not reached.
    NeverSent,
    /// An operator has found that it was not done.
    NotDone,
    /// The key is too old to begin anything, or what was answered is not kept any more.
    Old,
    /// There were too many tries with one key.
    TooMany,
    /// Too much that is new has come from one network.
    RateLimited,
    /// There is nothing.
    Nothing,
}

/// As the value of a header.
pub fn to_header(what: &impl Serialize) -> serde_json::Result<String> {
    Ok(BASE64.encode(&serde_json::to_vec(what)?))
}

/// From the value of a header.
pub fn from_header<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    serde_json::from_slice(&BASE64.decode(text.as_bytes()).ok()?).ok()
}
