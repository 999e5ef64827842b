//! Faults on demand: what the network and a provider do to a caller on a bad day.
//!
//! [`Fault::plan`] is the whole truth about each fault: what happens before, whether the operation runs, what happens after, and whether an
//! answer comes. Faults are armed and taken in `faults`.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::metadata::Metadata;

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// The request never arrives: nothing happens, no answer ever comes.
    RequestLost,
    /// It is executed and stored, and no answer ever comes.
    ResponseLost,
    /// It waits, then executes. Its key is in use meanwhile.
    Slow,
    /// It executes, and the answer waits.
    SlowResponse,
    /// 500 before anything happened; nothing is stored under the key.
    ErrorBefore,
    /// It executes; then 500, and that 500 is what the key replays.
    ErrorAfter,
    /// 500 in the midst of it: nothing is to be seen of it, and that 500 is what the key replays. Stripe may complete it hours later.
    ErrorStored,
    /// 429; nothing happened, nothing is stored.
    RateLimited,
    /// Something else holds the object or the key: 429 `lock_timeout` at Stripe, 422 704 at Adyen. Nothing happened, nothing is stored.
    LockTimeout,
    /// The connection breaks; nothing happened.
    ConnectionReset,
    /// It executes, and the connection breaks.
    ConnectionResetAfter,
    /// It executes, and something in between answers 200 with a page of its own.
    UnreadableAnswer,
    /// Something in between answers with a page: 502. Nothing happened, nothing is stored.
    GatewayError,
    /// At Adyen: 503 `703`, keys cannot be checked. Nothing happened, nothing is stored. Elsewhere as `error_before`.
    KeyStoreDown,
    /// At Adyen: a rate limit that is a 500. Elsewhere as `rate_limited`.
    RateLimitedAs500,
    /// At Adyen: a 500 whose `errorType` is `configuration`. Elsewhere as `error_before`.
    ConfigurationError,
    /// At Adyen: a refusal by RFC 7807 instead of Adyen's own form. Elsewhere as `error_before`.
    ProblemJson,
    /// At Stripe: 403, the key is restricted and may not do this. Nothing happened, nothing is stored. Elsewhere as `error_before`.
    Forbidden,
}

/// How a provider refuses without having begun, each in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its server failed.
    ServerError,
    /// Too many requests.
    RateLimited,
    /// Something else holds what is needed.
    LockTimeout,
    /// The request did not get as far as the provider.
    Gateway,
    /// Idempotency keys cannot be checked.
    KeyStoreDown,
    /// A rate limit that is answered as a server error.
    RateLimitedAs500,
    /// Something is set up wrongly at the provider.
    Configuration,
    /// A refusal by RFC 7807.
    ProblemJson,
    /// The key is restricted and may not do this.
    Forbidden,
}

impl Refusal {
    /// What a provider says that has no words of its own for it.
    pub fn common(self) -> CommonRefusal {
        match self {
            Refusal::RateLimited | Refusal::RateLimitedAs500 => CommonRefusal::RateLimited,
            Refusal::LockTimeout => CommonRefusal::LockTimeout,
            Refusal::ServerError
            | Refusal::Gateway
            | Refusal::KeyStoreDown
            | Refusal::Configuration
            | Refusal::ProblemJson
            | Refusal::Forbidden => CommonRefusal::ServerError,
        }
    }
}

/// The refusals that every provider knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommonRefusal {
    /// See [`Refusal::ServerError`].
    ServerError,
    /// See [`Refusal::RateLimited`].
    RateLimited,
    /// See [`Refusal::LockTimeout`].
    LockTimeout,
}

/// What the operation itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It never runs.
    Nothing,
    /// It runs.
    Execute,
    /// It runs, and its result is replaced by a stored 500.
    ExecuteThenFail,
    /// It fails in the midst of it, and leaves nothing but a stored 500.
    FailMidway,
    /// It is refused with this.
    Refuse(Refusal),
}

/// What a caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The provider's.
    Given,
    /// 200 with a page of something in between.
    Unreadable,
    /// None: the connection is cut.
    Cut,
}

/// A fault, played step by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Waited first.
    pub before_ms: u64,
    /// Then done.
    pub effect: Effect,
    /// Waited then.
    pub after_ms: u64,
    /// What is answered at last.
    pub answer: Answer,
}

/// A fault that waits for its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingFault {
    /// Its place in the order.
    pub seq: i64,
    /// Which.
    pub fault: Fault,
    /// For how many more requests.
    pub remaining: u32,
    /// How long it waits.
    pub delay_ms: Option<u64>,
    /// Only for paths that begin so.
    pub path: Option<String>,
    /// Only for this method.
    pub method: Option<String>,
    /// Only for requests whose metadata have all of these: so that two who break things do not disturb each other.
    #[serde(default)]
    pub metadata: Metadata,
}

/// How long "never" lasts: longer than any client waits.
const NEVER_MS: u64 = 120_000;
/// What `slow` waits unless told otherwise.
const SLOW_MS: u64 = 1_000;
/// No wait is longer: ten minutes.
pub const MAX_DELAY_MS: u64 = 600_000;

impl Fault {
    /// What happens to a request that it is played on.
    pub fn plan(self, delay_ms: Option<u64>) -> Plan {
        let plan = |before_ms, effect, after_ms, answer| Plan { before_ms, effect, after_ms, answer };
        let never = delay_ms.unwrap_or(NEVER_MS);
        let slow = delay_ms.unwrap_or(SLOW_MS);
        match self {
            Fault::RequestLost => plan(0, Effect::Nothing, never, Answer::Cut),
            Fault::ResponseLost => plan(0, Effect::Execute, never, Answer::Cut),
            Fault::Slow => plan(slow, Effect::Execute, 0, Answer::Given),
            Fault::SlowResponse => plan(0, Effect::Execute, slow, Answer::Given),
            Fault::UnreadableAnswer => plan(0, Effect::Execute, 0, Answer::Unreadable),
            Fault::ErrorBefore => plan(0, Effect::Refuse(Refusal::ServerError), 0, Answer::Given),
            Fault::ErrorAfter => plan(0, Effect::ExecuteThenFail, 0, Answer::Given),
            Fault::ErrorStored => plan(0, Effect::FailMidway, 0, Answer::Given),
            Fault::RateLimited => plan(0, Effect::Refuse(Refusal::RateLimited), 0, Answer::Given),
            Fault::LockTimeout => plan(0, Effect::Refuse(Refusal::LockTimeout), 0, Answer::Given),
            Fault::GatewayError => plan(0, Effect::Refuse(Refusal::Gateway), 0, Answer::Given),
            Fault::KeyStoreDown => plan(0, Effect::Refuse(Refusal::KeyStoreDown), 0, Answer::Given),
            Fault::RateLimitedAs500 => plan(0, Effect::Refuse(Refusal::RateLimitedAs500), 0, Answer::Given),
            Fault::ConfigurationError => plan(0, Effect::Refuse(Refusal::Configuration), 0, Answer::Given),
            Fault::ProblemJson => plan(0, Effect::Refuse(Refusal::ProblemJson), 0, Answer::Given),
            Fault::Forbidden => plan(0, Effect::Refuse(Refusal::Forbidden), 0, Answer::Given),
            Fault::ConnectionReset => plan(0, Effect::Nothing, 0, Answer::Cut),
            Fault::ConnectionResetAfter => plan(0, Effect::Execute, 0, Answer::Cut),
        }
    }
}

impl Plan {
    /// An ordinary request, and how long its answer takes.
    pub fn undisturbed(latency_ms: u64) -> Self {
        Plan {
            before_ms: 0,
            effect: Effect::Execute,
            after_ms: latency_ms.min(MAX_DELAY_MS),
            answer: Answer::Given,
        }
    }
}
