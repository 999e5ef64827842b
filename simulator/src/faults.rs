//! Faults on demand: what the network and a provider do to a caller on a bad day.
//!
//! A fault is armed for the next N matching requests, in the order in which it was armed. [`Fault::plan`] is the whole truth about each: what
//! happens before, whether the operation runs, what happens after, and whether an answer comes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::{self, Metadata};

use crate::http::{Reply, Request};
use crate::store::{Store, Stored};

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
}

/// How a provider refuses without having begun; each says it in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its server failed.
    ServerError,
    /// Too many requests.
    RateLimited,
    /// Something else holds what is needed.
    LockTimeout,
    /// It did not get as far as the provider.
    Gateway,
    /// Adyen's own.
    Adyen(AdyensOwn),
}

/// Refusals that only Adyen knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdyensOwn {
    /// 503 `703`.
    KeyStoreDown,
    /// 500, too many requests.
    RateLimitedAs500,
    /// 500 `905`, of the type `configuration`.
    Configuration,
    /// 422 `14_030` by RFC 7807.
    ProblemJson,
}

impl Refusal {
    /// What a provider says that has no words of its own for it.
    pub fn common(self) -> Common {
        match self {
            Refusal::RateLimited | Refusal::Adyen(AdyensOwn::RateLimitedAs500) => Common::RateLimited,
            Refusal::LockTimeout => Common::LockTimeout,
            Refusal::ServerError | Refusal::Gateway | Refusal::Adyen(_) => Common::ServerError,
        }
    }
}

/// The refusals that every provider knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Common {
    /// See [`Refusal::ServerError`].
    ServerError,
    /// See [`Refusal::RateLimited`].
    RateLimited,
    /// See [`Refusal::LockTimeout`].
    LockTimeout,
}

/// What the operation itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
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

/// A fault, played step by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Waited first.
    pub before_ms: u64,
    /// Then done.
    pub does: Does,
    /// Waited then.
    pub after_ms: u64,
    /// Whether an answer is given at last, or the connection is cut.
    pub answers: bool,
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
const MAX_DELAY_MS: u64 = 600_000;
/// No fault is armed for more requests than this.
const MAX_COUNT: u32 = 100_000;

impl Fault {
    /// What happens to a request that it is played on.
    pub fn plan(self, delay_ms: Option<u64>) -> Plan {
        let plan = |before_ms, does, after_ms, answers| Plan { before_ms, does, after_ms, answers };
        let never = delay_ms.unwrap_or(NEVER_MS);
        let slow = delay_ms.unwrap_or(SLOW_MS);
        match self {
            Fault::RequestLost => plan(0, Does::Nothing, never, false),
            Fault::ResponseLost => plan(0, Does::Execute, never, false),
            Fault::Slow => plan(slow, Does::Execute, 0, true),
            Fault::SlowResponse => plan(0, Does::Execute, slow, true),
            Fault::ErrorBefore => plan(0, Does::Refuse(Refusal::ServerError), 0, true),
            Fault::ErrorAfter => plan(0, Does::ExecuteThenFail, 0, true),
            Fault::ErrorStored => plan(0, Does::FailMidway, 0, true),
            Fault::RateLimited => plan(0, Does::Refuse(Refusal::RateLimited), 0, true),
            Fault::LockTimeout => plan(0, Does::Refuse(Refusal::LockTimeout), 0, true),
            Fault::GatewayError => plan(0, Does::Refuse(Refusal::Gateway), 0, true),
            Fault::KeyStoreDown => plan(0, Does::Refuse(Refusal::Adyen(AdyensOwn::KeyStoreDown)), 0, true),
            Fault::RateLimitedAs500 => {
                plan(0, Does::Refuse(Refusal::Adyen(AdyensOwn::RateLimitedAs500)), 0, true)
            }
            Fault::ConfigurationError => {
                plan(0, Does::Refuse(Refusal::Adyen(AdyensOwn::Configuration)), 0, true)
            }
            Fault::ProblemJson => plan(0, Does::Refuse(Refusal::Adyen(AdyensOwn::ProblemJson)), 0, true),
            Fault::ConnectionReset => plan(0, Does::Nothing, 0, false),
            Fault::ConnectionResetAfter => plan(0, Does::Execute, 0, false),
        }
    }
}

impl Plan {
    /// An ordinary request, and how long its answer takes.
    pub fn undisturbed(latency_ms: u64) -> Self {
        Plan { before_ms: 0, does: Does::Execute, after_ms: latency_ms.min(MAX_DELAY_MS), answers: true }
    }
}

/// The fault to play on a request, if one is armed for it.
pub fn take(store: &mut dyn Store, request: &Request) -> Stored<Option<PendingFault>> {
    let own = metadata::of_request(request);
    let matches = |fault: &PendingFault| {
        fault.path.as_ref().is_none_or(|prefix| request.path.starts_with(prefix.as_str()))
            && fault.method.as_ref().is_none_or(|method| *method == request.method)
            && fault.metadata.iter().all(|(name, value)| own.get(name) == Some(value))
    };
    let Some(fault) = store.faults()?.into_iter().find(matches) else {
        return Ok(None);
    };
    store.set_fault_remaining(fault.seq, fault.remaining.saturating_sub(1))?;
    Ok(Some(fault))
}

/// What `POST /_sim/faults` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    fault: Fault,
    #[serde(default = "once")]
    count: u32,
    delay_ms: Option<u64>,
    path: Option<String>,
    method: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

fn once() -> u32 {
    1
}

/// `POST /_sim/faults`
pub fn arm(store: &mut dyn Store, body: &Value) -> Stored<Reply> {
    let order: Order = match serde_json::from_value(body.clone()) {
        Ok(order) => order,
        Err(error) => return Ok(refuse(&error.to_string())),
    };
    if order.count == 0 || order.count > MAX_COUNT {
        return Ok(refuse("count must be 1 to 100000"));
    }
    if order.delay_ms.is_some_and(|delay| delay > MAX_DELAY_MS) {
        return Ok(refuse("delay_ms must be at most 600000"));
    }
    store.push_fault(PendingFault {
        seq: 0,
        fault: order.fault,
        remaining: order.count,
        delay_ms: order.delay_ms,
        path: order.path,
        method: order.method.map(|method| method.to_ascii_uppercase()),
        metadata: order.metadata,
    })?;
    show(store)
}

/// `GET /_sim/faults`
pub fn show(store: &dyn Store) -> Stored<Reply> {
    let pending: Vec<Value> = store
        .faults()?
        .into_iter()
        .map(|fault| {
            json!({
                "fault": fault.fault, "remaining": fault.remaining, "delay_ms": fault.delay_ms, "path": fault.path, "method": fault.method,
                "metadata": fault.metadata,
            })
        })
        .collect();
    Ok(Reply::json(200, &json!({ "faults": pending })))
}

/// `DELETE /_sim/faults`
pub fn clear(store: &mut dyn Store) -> Stored<Reply> {
    store.clear_faults()?;
    show(store)
}

fn refuse(message: &str) -> Reply {
    Reply::json(400, &json!({ "error": message }))
}
