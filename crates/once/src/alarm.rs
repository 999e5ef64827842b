//! When an object must wake although nobody calls, and what it does then.
//!
//! Every key that is not ended for good has such a time: an unfinished one is taken up again, a finished one expires, and an expired one is
//! forgotten where the flow [says when](Flow::forgets_after_ms).

use serde::{Deserialize, Serialize};

use super::begin::{forget_old, take_over};
use super::call::ProviderCall;
use super::context::Context;
use super::fingerprint::Fingerprint;
use super::flow::Flow;
use super::id::{InstanceId, Owner};
use super::key::KeyHash;
use super::object_state::ObjectState;
use super::outbox;
use super::record::{Binding, FencingToken, KeyRecord, Lifecycle, Tombstone};

/// The time for the alarm, in ms since the epoch: the earliest of all that is due. `None` if nothing ever is.
pub fn wake_at<F: Flow>(state: &ObjectState<F>, ctx: &Context<F::Settings>) -> Option<u64> {
    let forgotten = state.keys.iter().skip(1).filter_map(|key| forgotten_at_ms(key, ctx)).min();
    let keys = state.keys.iter().filter_map(|key| key_wakes_at(key, ctx)).chain(forgotten);
    let bindings = state.bindings.iter().filter_map(|binding| binding_wakes_at(binding, ctx));
    keys.chain(bindings).chain(outbox::wakes_at(state)).chain(F::due_at_ms(state, ctx)).min()
}

/// When the parameters are dropped that an older release has kept of a key that runs elsewhere.
fn binding_wakes_at<S>(binding: &Binding, ctx: &Context<S>) -> Option<u64> {
    binding.parameters.is_some().then(|| binding.bound_at_ms.saturating_add(ctx.times.retention_ms))
}

fn key_wakes_at<F: Flow>(key: &KeyRecord<F>, ctx: &Context<F::Settings>) -> Option<u64> {
    match &key.lifecycle {
        Lifecycle::Open(open) if F::is_retired(&open.operation) => None,
        Lifecycle::Open(open) => match &open.lease {
            None => Some(open.resume_at_ms),
            Some(lease) => {
                // First to see whether the holder is gone, then, if it lives, when its lease has run out.
                let silent_at_ms = open.last_run_at_ms.saturating_add(ctx.times.completer_ms);
                let both = [silent_at_ms.min(lease.until_ms), lease.until_ms];
                Some(both.into_iter().find(|at_ms| *at_ms > ctx.now_ms).unwrap_or(ctx.now_ms))
            }
        },
        Lifecycle::Finished(finished) => Some(finished.expires_at_ms),
        Lifecycle::Expired(_) => None,
    }
}

/// When a key is forgotten. Not the first one: it says whose the object is.
fn forgotten_at_ms<F: Flow>(key: &KeyRecord<F>, ctx: &Context<F::Settings>) -> Option<u64> {
    match &key.lifecycle {
        Lifecycle::Expired(tombstone) => {
            F::forgets_after_ms(ctx).map(|after_ms| tombstone.expires_at_ms.saturating_add(after_ms))
        }
        Lifecycle::Open(_) | Lifecycle::Finished(_) => None,
    }
}

/// What the shell knows about the alarm that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KnownAlarm {
    /// Nothing: this incarnation is new.
    Unknown,
    /// It has just fired, or could not be set: none is.
    Gone,
    /// It is set for this time, in ms since the epoch.
    At(u64),
}

/// When to set the alarm, in ms since the epoch, in the transaction that makes `after` from `before`. `None` leaves it.
///
/// It stands at or before the time at which something is due, or at the next millisecond where that is over: the runtime ignores an alarm that is set for
/// the very time of the one that is firing. While a run renews its lease at every step an alarm that comes too early is cheaper than moving it each time: it finds nothing
/// due and is set anew.
pub fn alarm_to_set<F: Flow>(
    before: &ObjectState<F>,
    after: &ObjectState<F>,
    known: KnownAlarm,
    ctx: &Context<F::Settings>,
) -> Option<u64> {
    let due_at_ms = wake_at(after, ctx)?;
    let set_at_ms = due_at_ms.max(ctx.now_ms.saturating_add(1));
    let lives = |key: &KeyRecord<F>| matches!(key.lifecycle, Lifecycle::Open(_));
    let runs = |key: &KeyRecord<F>| matches!(&key.lifecycle, Lifecycle::Open(open) if open.lease.is_some());
    match known {
        KnownAlarm::At(at_ms) if (due_at_ms..=set_at_ms).contains(&at_ms) => None,
        KnownAlarm::At(at_ms) if at_ms < due_at_ms && after.keys.iter().any(runs) => None,
        // Nothing is due that was not before: whoever finished the key set the alarm with it.
        KnownAlarm::Unknown if after == before && !after.keys.iter().any(lives) && !is_awaited(after) => None,
        _ => Some(set_at_ms),
    }
}

fn is_awaited<F: Flow>(state: &ObjectState<F>) -> bool {
    !state.jobs.is_empty() || F::is_awaiting(state)
}

/// The alarm: turns expired responses into tombstones (with them go the parameters and the bodies that were sent), forgets those whose time is over,
/// drops personal data whose time is over, and takes the lease of every unfinished key that is due and that no living run works on.
/// Gives the runs to drive.
///
/// A run that has left its lease was broken off: by an eviction, a deploy, a limit or a trap. The first time its key is taken over at once. One whose runs
/// broke off one after the other may be what traps, each time with all runs beside it: so it waits, longer each time, and no two such keys begin again together.
pub fn wake<F: Flow>(
    state: &mut ObjectState<F>,
    me: &InstanceId,
    ctx: &Context<F::Settings>,
) -> Vec<FencingToken> {
    let due: Vec<u32> = state.keys.iter().filter(|key| is_due(key, me, ctx)).map(|key| key.key_id).collect();
    for binding in &mut state.bindings {
        if binding_wakes_at(binding, ctx).is_some_and(|at_ms| at_ms <= ctx.now_ms) {
            binding.parameters = None;
        }
    }
    let (mut tokens, mut suspects) = (Vec::new(), Suspects::default());
    for key_id in due {
        expire(state, key_id, ctx);
        if !suspects.wait(state, key_id, ctx) {
            tokens.extend(take_over(state, key_id, me, ctx));
        }
    }
    forget_old(state, ctx);
    F::on_alarm(state, ctx);
    tokens
}

/// The due keys of which one may trap at each run.
#[derive(Default)]
struct Suspects {
    has_begun: bool,
    waiting: u64,
}

impl Suspects {
    /// Whether a key is one, and waits: after a run that was broken off again, or beside another one that begins now.
    fn wait<F: Flow>(&mut self, state: &mut ObjectState<F>, key_id: u32, ctx: &Context<F::Settings>) -> bool {
        let Some(Lifecycle::Open(open)) = state.key_mut(key_id).map(|key| &mut key.lifecycle) else {
            return false;
        };
        if open.broken_off == 0 || F::is_retired(&open.operation) {
            return false;
        }
        // How long a run has to itself.
        let call_ms = ctx.times.provider_timeout_ms;
        let is_broken_off = open.lease.take().is_some();
        let pause_ms = match (is_broken_off, self.has_begun) {
            (false, false) => {
                self.has_begun = true;
                return false;
            }
            (false, true) => call_ms,
            (true, _) => {
                open.note_broken_off();
                ctx.backoff_ms(open.broken_off)
            }
        };
        open.resume_at_ms =
            ctx.now_ms.saturating_add(pause_ms).saturating_add(call_ms.saturating_mul(self.waiting));
        self.waiting = self.waiting.saturating_add(1);
        if is_broken_off {
            state.append_timeline(key_id, ctx.now_ms, "released", "its run was broken off again");
        }
        true
    }
}

/// Takes the leases of runs that are gone, so that their keys go on as soon as the alarm is asked, however often they broke off.
pub fn let_go<F: Flow>(state: &mut ObjectState<F>, me: &InstanceId, ctx: &Context<F::Settings>) {
    for key in &mut state.keys {
        let is_worked_on = key.is_worked_on(me, ctx.now_ms);
        if let Lifecycle::Open(open) = &mut key.lifecycle
            && open.lease.is_some()
            && !is_worked_on
        {
            (open.lease, open.resume_at_ms) = (None, ctx.now_ms);
            open.note_broken_off();
        }
    }
}

/// Whether the alarm has rung for jobs alone: nothing is to be taken up, to expire, or to be dropped.
pub fn is_for_jobs<F: Flow>(state: &ObjectState<F>, me: &InstanceId, ctx: &Context<F::Settings>) -> bool {
    let mut after = state.clone();
    wake(&mut after, me, ctx).is_empty() && after == *state
}

fn is_due<F: Flow>(key: &KeyRecord<F>, me: &InstanceId, ctx: &Context<F::Settings>) -> bool {
    match &key.lifecycle {
        Lifecycle::Open(open) => match &open.lease {
            None => open.resume_at_ms <= ctx.now_ms,
            Some(lease) => lease.holder != *me || lease.until_ms <= ctx.now_ms,
        },
        Lifecycle::Finished(finished) => finished.expires_at_ms <= ctx.now_ms,
        Lifecycle::Expired(_) => false,
    }
}

/// Drops a finished key's response; what is left refuses a late retry. Nothing happens to any other key.
pub fn expire<F: Flow>(state: &mut ObjectState<F>, key_id: u32, ctx: &Context<F::Settings>) {
    let Some(key) = state.key_mut(key_id) else { return };
    let Lifecycle::Finished(finished) = &key.lifecycle else {
        return;
    };
    key.lifecycle = Lifecycle::Expired(Tombstone {
        status: finished.response.status,
        finished_at_ms: finished.finished_at_ms,
        expires_at_ms: finished.expires_at_ms.min(ctx.now_ms),
    });
    key.parameters = None;
    key.trace = None;
    state.calls.iter_mut().filter(|call| call.key_id == key_id).for_each(ProviderCall::forget_content);
    state.append_timeline(key_id, ctx.now_ms, "expired", "");
}

/// Drops all that is kept of what was asked under a finished key, beside its response: also what tells it from another request. The key stays refused.
pub fn erase<F: Flow>(state: &mut ObjectState<F>, key_id: u32, ctx: &Context<F::Settings>) {
    expire(state, key_id, ctx);
    if let Some(key) = state.key_mut(key_id)
        && matches!(key.lifecycle, Lifecycle::Expired(_))
    {
        key.fingerprint = Fingerprint::erased();
    }
}

/// What came of dropping a response before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgotten {
    /// The response is gone; the tombstone stays.
    Gone,
    /// It is not finished: it cannot be forgotten.
    Unfinished,
    /// There is no such key, or it is somebody else's.
    Unknown,
}

/// Drops the response of a finished key, if it is the owner's.
pub fn forget<F: Flow>(
    state: &mut ObjectState<F>,
    owner: &Owner,
    key_hash: &KeyHash,
    ctx: &Context<F::Settings>,
) -> Forgotten {
    let key = state.keys.iter().find(|key| key.key_hash == *key_hash && key.owner == *owner);
    let Some((key_id, lifecycle)) = key.map(|key| (key.key_id, &key.lifecycle)) else {
        return Forgotten::Unknown;
    };
    if matches!(lifecycle, Lifecycle::Open(_)) {
        return Forgotten::Unfinished;
    }
    expire(state, key_id, ctx);
    Forgotten::Gone
}
