//! The object's spans: its runs, their calls of providers, and the jobs that it hands on.
//!
//! A run is part of the trace of the request that first used its key, also if the alarm, or a request of another trace, takes it up again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use messages::message::ExecuteResult;
use once::context::Bug;
use once::key::KeyHash;
use once::record::{FencingToken, Lifecycle};
use once::run::RunEnd;
use once_object::execute::Executed;
use payments::engine::{KeyRecord, ObjectState, Payments, ProviderCall, StagedJob};
use payments::payment::status_query::StatusQuery;
use runtime::trace;
use web::trace::{Kind, Span};

/// The runs that go on in this incarnation, by the numbers of their keys.
#[derive(Default)]
pub(super) struct Runs(RefCell<BTreeMap<u32, (u32, Span)>>);

impl Runs {
    pub(super) fn began(&self, key: &KeyRecord, run: &FencingToken) {
        let operation = match &key.lifecycle {
            Lifecycle::Open(open) => open.operation.name(),
            Lifecycle::Finished(_) | Lifecycle::Expired(_) => "operation",
        };
        let Some(mut span) = trace::begin(key.trace, format!("run {operation}"), Kind::Internal) else {
            return;
        };
        span.set("paid_once.attempt", run.attempt);
        span.set("paid_once.resumed", run.attempt > 1);
        span.set("paid_once.recovery_point", key.recovery_point().as_str());
        span.set("paid_once.key_hash", key.key_hash.0.as_str());
        self.0.borrow_mut().insert(run.key_id, (run.attempt, span));
    }

    pub(super) fn ended(&self, run: &FencingToken, end: &Result<RunEnd, Bug>) {
        let mut runs = self.0.borrow_mut();
        if runs.get(&run.key_id).is_none_or(|(attempt, _)| *attempt != run.attempt) {
            return;
        }
        let Some((_, mut span)) = runs.remove(&run.key_id) else { return };
        let outcome = match end {
            Ok(RunEnd::Finished(_)) => "finished",
            Ok(RunEnd::Pending { in_doubt: true, .. }) => "unknown",
            Ok(RunEnd::Pending { in_doubt: false, .. }) => "pending",
            Ok(RunEnd::Interrupted { .. }) => "interrupted",
            Err(_) => "failed",
        };
        span.set("paid_once.outcome", outcome);
        if matches!(outcome, "interrupted" | "failed") {
            span.fail(outcome);
        }
        trace::end(Some(span));
    }

    /// A call of a provider, as part of its run. `name` is its name within the operation.
    pub(super) fn call(&self, call: &ProviderCall, name: &str) -> Option<Span> {
        let run = self.0.borrow().get(&call.key_id).map(|(_, span)| span.context);
        let name = format!("{} {name}", call.provider.as_str());
        let mut span = trace::begin(run, name, Kind::Client)?;
        span.set("paid_once.sends", call.sends);
        Some(span)
    }
}

/// A call of a provider has ended.
pub(super) fn ended(mut span: Option<Span>, outcome: &'static str) {
    if let Some(span) = &mut span {
        span.set("paid_once.outcome", outcome);
    }
    trace::end(span);
}

/// The newest trace in which something was begun here.
fn newest(state: &ObjectState) -> Option<once::trace::TraceContext> {
    state.keys.iter().rev().find_map(|key| key.trace)
}

/// A provider is asked how something stands there.
pub(super) fn asks(state: Option<&ObjectState>, question: &StatusQuery) -> Option<Span> {
    let name = format!("{} status", question.provider().as_str());
    trace::begin(newest(state?), name, Kind::Client)
}

/// Jobs leave.
pub(super) fn hands_on(state: &ObjectState, queue: &str, jobs: &[StagedJob]) -> Option<Span> {
    let mut span = trace::begin(newest(state), format!("send {queue}"), Kind::Producer)?;
    span.set("messaging.system", "cloudflare_queues");
    span.set("messaging.operation.type", "send");
    span.set("messaging.destination.name", queue);
    span.set("paid_once.jobs", jobs.len());
    Some(span)
}

/// What came of a request: its span says so, and names the trace of the request that it got the response of.
pub(super) fn executed(
    span: &mut Span,
    executed: &Executed<Payments>,
    state: Option<&ObjectState>,
    key: &KeyHash,
) {
    let outcome = match &executed.result {
        ExecuteResult::InProgress { .. } => "in_progress",
        _ if executed.joined => "joined",
        ExecuteResult::Finished { replayed: false, .. } => "first",
        ExecuteResult::Finished { replayed: true, .. } => "replay",
        ExecuteResult::Pending { .. } => "pending",
        ExecuteResult::Interrupted { .. } => "interrupted",
        ExecuteResult::Mismatch { .. } => "mismatch",
        ExecuteResult::Expired => "expired",
        ExecuteResult::NotStarted => "not_started",
        ExecuteResult::NotOwner => "not_owner",
        ExecuteResult::Refused(_) => "refused",
        ExecuteResult::RateLimited => "rate_limited",
    };
    span.set("paid_once.outcome", outcome);
    span.set("paid_once.key_hash", key.0.as_str());
    // A stranger learns nothing, not even of a trace.
    if !matches!(executed.result, ExecuteResult::NotOwner) {
        span.link(state.and_then(|state| state.key_of(key)?.trace));
    }
}
