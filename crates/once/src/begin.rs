//! What a request may do under its key.
//!
//! Outcomes: [`Begin::Run`] (a new key, or an unfinished one that nobody works on), [`Begin::Replay`],
//! [`Begin::InProgress`], [`Begin::Pending`] (it waits for the provider), and the refusals.
//!
//! The checks come in this order: owner, fingerprint, state, lease; so a stranger learns nothing, and a mismatch (422) wins
//! over a conflict (409). A new key is last asked for what its flow [admits](Flow::admit): what the state of
//! things forbids leaves no record, and what is admitted is reserved in the same transaction.
//!
//! What a key that is known needs no run for is [decided] without any change: a replay writes nothing.
//!
//! A key whose operation runs in another object is first [bound](bind) in its own.

use serde::{Deserialize, Serialize};

use super::call::Plan;
use super::context::{Bug, Context};
use super::domain::Domain;
use super::fingerprint::{Canonical, Fingerprint};
use super::flow::{Flow, ObjectLimit, Phase};
use super::id::{InstanceId, ObjectId, Owner, RequestId};
use super::key::KeyHash;
use super::object_state::ObjectState;
use super::record::{
    Binding, Channel, FencingToken, Finished, KeyRecord, Lease, Lifecycle, Open, RecoveryPoint,
    StoredResponse,
};
use super::state;
use super::trace::TraceContext;

/// The most that a state may come to hold when an operation begins, in bytes of its text: beside it stands what the newest commits have added.
const STATE_MAX_BYTES: usize = state::ROW_MAX_BYTES - 200_000;

/// A request as it reaches the object: authenticated, parsed and valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Command<F: Domain> {
    /// Who asks.
    pub owner: Owner,
    /// Under which key.
    pub key_hash: KeyHash,
    /// The fingerprint of the request: of what the client has sent. Made of `operation`, as this release reads it, it would be another one as soon
    /// as a later release gives that type a member, and each retry of before would be a [mismatch](Begin::Mismatch).
    pub fingerprint: Fingerprint,
    /// Its canonical parameters, made of [what has come](super::fingerprint::Parameters), too.
    pub parameters: Canonical,
    /// What it wants.
    pub operation: F::Operation,
    /// How it is answered.
    pub channel: Channel,
    /// Its own id.
    pub request_id: RequestId,
    /// Whether it may start something new. An expired form token may only meet what it already did.
    pub may_start: bool,
    /// The operator who asks on the owner's behalf.
    #[serde(default)]
    pub by: Option<String>,
    /// The span of whoever asks. The object sets it: it comes beside the question.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin<F: Domain> {
    /// Go on: the lease is taken.
    Run(FencingToken),
    /// It ended before: this is the answer.
    Replay {
        /// The key's number.
        key_id: u32,
        /// What was answered.
        response: StoredResponse,
        /// The request that made it.
        original_request: RequestId,
    },
    /// Another run works on it.
    InProgress {
        /// The key's number.
        key_id: u32,
        /// When its lease ends, in ms from now.
        lease_left_ms: u64,
    },
    /// It waits for the provider, longer than a request would: nothing can be done before then.
    Pending {
        /// When the alarm tries again, in ms since the epoch.
        retry_at_ms: u64,
        /// Whether the call that waits may have been executed. What earlier calls of the operation have done is not asked.
        in_doubt: bool,
    },
    /// The key was used for something else.
    Mismatch {
        /// The fields that differ; empty if their values are no longer kept, or if method or path differ.
        fields: Vec<String>,
    },
    /// It ended so long ago that the response is gone.
    Expired,
    /// There is nothing yet, and it may not start anything.
    NotStarted,
    /// The key belongs to somebody else.
    NotOwner,
    /// The state of things forbids it. Nothing was written.
    Refused(F::Refusal),
}

/// Decides, and takes the lease where the decision is to run. On an error nothing may be committed. The times are those of the request: it waits for
/// their `wait_ms`.
pub fn begin<F: Flow>(
    object_state: &mut ObjectState<F>,
    command: &Command<F>,
    me: &InstanceId,
    ctx: &Context<F::Settings>,
) -> Result<Begin<F>, Bug> {
    if let Some(begun) = decided(object_state, command, me, ctx) {
        return Ok(begun);
    }
    if let Some(key) = object_state.key_of(&command.key_hash) {
        // A key that was found open can be taken over.
        let key_id = key.key_id;
        let Some(token) = take_over(object_state, key_id, me, ctx) else { return Ok(Begin::NotStarted) };
        if let Some(call) = object_state.unsettled_call_mut(key_id) {
            call.client_arrived(ctx.now_ms);
        }
        return Ok(Begin::Run(token));
    }
    // An object belongs to whoever used its first key.
    if object_state.keys.first().is_some_and(|first| first.owner != command.owner) {
        return Ok(Begin::NotOwner);
    }
    if let Some(bound) = object_state.bindings.iter().find(|binding| binding.key_hash == command.key_hash) {
        return Ok(mismatch(bound.parameters.as_ref(), command));
    }
    if !command.may_start {
        return Ok(Begin::NotStarted);
    }
    if object_state.keys.len() >= ctx.keys_max as usize {
        // The alarm for it may be late, or none was set: a release before this one did not say when.
        forget_old(object_state, ctx);
    }
    if object_state.keys.len() >= ctx.keys_max as usize {
        return Ok(Begin::Refused(F::limit_reached(ObjectLimit::Keys(ctx.keys_max))));
    }
    if !has_room(object_state, &command.parameters)? {
        return Ok(Begin::Refused(F::limit_reached(ObjectLimit::Bytes)));
    }
    start(object_state, command, me, ctx)
}

/// Forgets the keys whose time is over, if the flow forgets any.
pub(crate) fn forget_old<F: Flow>(state: &mut ObjectState<F>, ctx: &Context<F::Settings>) {
    if let Some(before_ms) = F::forgets_after_ms(ctx).and_then(|after_ms| ctx.now_ms.checked_sub(after_ms)) {
        state.forget_expired(before_ms);
    }
}

/// Whether a new operation fits into the state's row, whatever it and those that are not over come to add. An operation that has begun must find
/// room for its answer, so it is the new one that is refused.
fn has_room<F: Flow>(object_state: &ObjectState<F>, parameters: &Canonical) -> Result<bool, Bug> {
    let is_open = |key: &&KeyRecord<F>| matches!(key.lifecycle, Lifecycle::Open(_));
    let open = object_state.keys.iter().filter(is_open).filter_map(|key| key.parameters.as_ref());
    let may_come: usize = open.chain([parameters]).map(may_add_bytes::<F>).fold(0, usize::saturating_add);
    let has = state::to_text(object_state, 0)?.len();
    Ok(has.saturating_add(may_come) <= STATE_MAX_BYTES)
}

/// What an operation adds to the state at most: its answers, and its parameters. These stand there as they came, in the operation, in what the
/// flow keeps, in the response, and in the body of each of two calls, where each byte can be three.
const fn may_add_bytes<F: Domain>(parameters: &Canonical) -> usize {
    parameters.0.len().saturating_mul(10).saturating_add(F::ANSWERS_BYTES)
}

fn mismatch<F: Flow>(kept: Option<&Canonical>, command: &Command<F>) -> Begin<F> {
    let fields = kept.map(|kept| kept.differing_fields(&command.parameters)).unwrap_or_default();
    Begin::Mismatch { fields }
}

/// What a request under a key that is known is told, unless it has to run: most often the stored response.
pub fn decided<F: Flow>(
    object_state: &ObjectState<F>,
    command: &Command<F>,
    me: &InstanceId,
    ctx: &Context<F::Settings>,
) -> Option<Begin<F>> {
    let asked = (&command.owner, &command.key_hash, &command.fingerprint);
    if let Some((key, finished)) = ended(object_state, asked, ctx.now_ms) {
        return Some(Begin::Replay {
            key_id: key.key_id,
            response: finished.response.clone(),
            original_request: key.original_request.clone(),
        });
    }
    let key = object_state.key_of(&command.key_hash)?;
    if key.owner != command.owner {
        return Some(Begin::NotOwner);
    }
    // One that was erased has expired: nobody can say any more what it was used for.
    if !key.fingerprint.is_erased() && key.fingerprint != command.fingerprint {
        return Some(mismatch(key.parameters.as_ref(), command));
    }
    match &key.lifecycle {
        // The alarm that drops the response may be late.
        Lifecycle::Finished(_) | Lifecycle::Expired(_) => Some(Begin::Expired),
        Lifecycle::Open(open) => match &open.lease {
            Some(lease) if lease.holder == *me && ctx.now_ms < lease.until_ms => {
                Some(Begin::InProgress { key_id: key.key_id, lease_left_ms: lease.until_ms - ctx.now_ms })
            }
            Some(_) => None,
            None => pending(object_state, key.key_id, ctx),
        },
    }
}

/// The key of a request, and its response, where that is stored: what [`decided`] calls a replay. `None` for whatever else it is.
pub fn ended<'a, F: Flow>(
    object_state: &'a ObjectState<F>,
    (owner, key_hash, fingerprint): (&Owner, &KeyHash, &Fingerprint),
    now_ms: u64,
) -> Option<(&'a KeyRecord<F>, &'a Finished)> {
    let key = object_state.key_of(key_hash)?;
    let Lifecycle::Finished(finished) = &key.lifecycle else { return None };
    let is_good = key.owner == *owner && key.fingerprint == *fingerprint && now_ms < finished.expires_at_ms;
    is_good.then_some((key, finished))
}

/// A run that could do nothing but wait for the provider, longer than its client would, is not worth an attempt: the
/// alarm is set. What waited for the client goes on.
fn pending<F: Flow>(
    object_state: &ObjectState<F>,
    key_id: u32,
    ctx: &Context<F::Settings>,
) -> Option<Begin<F>> {
    let call = object_state.unsettled_call(key_id)?;
    if call.evidence.needs_client {
        return None;
    }
    match call.plan(ctx) {
        Plan::WaitUntil(retry_at_ms) if retry_at_ms > ctx.now_ms.saturating_add(ctx.times.wait_ms) => {
            Some(Begin::Pending { retry_at_ms, in_doubt: call.in_doubt() })
        }
        _ => None,
    }
}

/// A key that begins.
pub struct NewKey<F: Domain> {
    /// What stands for it.
    pub key_hash: KeyHash,
    /// Whose it is.
    pub owner: Owner,
    /// How it came.
    pub channel: Channel,
    /// Of its request.
    pub fingerprint: Fingerprint,
    /// The parameters of its request, to name those that differ in another one; `None` where no client sends it.
    pub parameters: Option<Canonical>,
    /// The request that began it.
    pub request_id: RequestId,
    /// What it does.
    pub operation: F::Operation,
    /// The trace of its request.
    pub trace: Option<TraceContext>,
    /// Who works on it now; `None` where the alarm takes it up.
    pub lease: Option<Lease>,
}

impl<F: Flow> ObjectState<F> {
    /// Opens a key under the next number, which it gives.
    pub fn open_key(&mut self, key: NewKey<F>, ctx: &Context<F::Settings>) -> u32 {
        let (key_id, name) = (self.next_key_id(), F::name(&key.operation));
        self.keys.push(KeyRecord {
            key_id,
            key_hash: key.key_hash,
            owner: key.owner,
            channel: key.channel,
            fingerprint: key.fingerprint,
            parameters: key.parameters,
            original_request: key.request_id,
            created_at_ms: ctx.now_ms,
            attempt: 1,
            replays: 0,
            trace: key.trace,
            lifecycle: Lifecycle::Open(Open {
                operation: key.operation,
                recovery_point: RecoveryPoint::Started,
                lease: key.lease,
                resume_at_ms: ctx.now_ms,
                last_run_at_ms: ctx.now_ms,
                failures: 0,
                broken_off: 0,
            }),
        });
        // With the number of its first run.
        self.append_timeline(key_id, ctx.now_ms, "key_created", name);
        key_id
    }
}

/// A new key: its record, and what its flow reserves. A refusal leaves neither.
fn start<F: Flow>(
    object_state: &mut ObjectState<F>,
    command: &Command<F>,
    me: &InstanceId,
    ctx: &Context<F::Settings>,
) -> Result<Begin<F>, Bug> {
    let before = object_state.clone();
    let key = NewKey {
        key_hash: command.key_hash.clone(),
        owner: command.owner.clone(),
        channel: command.channel,
        fingerprint: command.fingerprint.clone(),
        parameters: Some(command.parameters.clone()),
        request_id: command.request_id.clone(),
        operation: command.operation.clone(),
        trace: command.trace,
        lease: Some(Lease::new(me, ctx)),
    };
    let key_id = object_state.open_key(key, ctx);
    let by = command.by.as_deref();
    match F::admit(&command.operation, &mut Phase { object_state, key_id, ctx, by })? {
        Ok(point) => {
            if let Some(point) = point {
                object_state.reach(key_id, point, ctx.now_ms)?;
            }
            Ok(Begin::Run(FencingToken { key_id, attempt: 1, holder: me.clone() }))
        }
        Err(refusal) => {
            *object_state = before;
            Ok(Begin::Refused(refusal))
        }
    }
}

/// Where the operation of a key runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRoute {
    /// There, now and at every retry.
    To(ObjectId),
    /// The key was used for something else.
    Mismatch {
        /// The fields that differ; empty if their values are no longer kept, or if method or path differ.
        fields: Vec<String>,
    },
}

/// Binds a key, in the key's own object, to the object in which its operation runs. Without this the same key could stand
/// for one request in each object. The command's fingerprint is that of its address alone: a request that is refused there
/// leaves no record, and may come again under the same key with other parameters. So these are not kept here, and nothing here has a time: a key is
/// bound for good, and no alarm is set for it.
pub fn bind<F: Flow>(
    object_state: &mut ObjectState<F>,
    command: &Command<F>,
    object: ObjectId,
    ctx: &Context<F::Settings>,
) -> KeyRoute {
    let differs = |kept: Option<&Canonical>| KeyRoute::Mismatch {
        fields: kept.map(|kept| kept.differing_fields(&command.parameters)).unwrap_or_default(),
    };
    if let Some(bound) = object_state.bindings.iter().find(|binding| binding.key_hash == command.key_hash) {
        let is_same = bound.fingerprint == command.fingerprint
            && bound.owner == command.owner
            && bound.object == object;
        return if is_same { KeyRoute::To(bound.object) } else { differs(bound.parameters.as_ref()) };
    }
    // Used in this object itself: whatever it was, it was another request, which lives here.
    if let Some(key) = object_state.keys.iter().find(|key| key.key_hash == command.key_hash) {
        return differs(key.parameters.as_ref());
    }
    object_state.bindings.push(Binding {
        key_hash: command.key_hash.clone(),
        owner: command.owner.clone(),
        fingerprint: command.fingerprint.clone(),
        parameters: None,
        object,
        bound_at_ms: ctx.now_ms,
    });
    KeyRoute::To(object)
}

/// Takes the lease of an open key under a new attempt number: from now on whoever held it before is stale. `None` if
/// the key is not open, or its operation is retired.
pub fn take_over<F: Flow>(
    object_state: &mut ObjectState<F>,
    key_id: u32,
    me: &InstanceId,
    ctx: &Context<F::Settings>,
) -> Option<FencingToken> {
    let key = object_state.key_mut(key_id)?;
    let Lifecycle::Open(open) = &mut key.lifecycle else {
        return None;
    };
    if F::is_retired(&open.operation) {
        return None;
    }
    let before = open.lease.replace(Lease::new(me, ctx));
    let detail = match &before {
        None => "nobody worked on it",
        Some(before) if before.holder == *me => "the lease had run out",
        Some(_) => "its holder was gone",
    };
    if before.is_some() {
        open.note_broken_off();
    }
    open.last_run_at_ms = ctx.now_ms;
    key.attempt = key.attempt.saturating_add(1);
    let attempt = key.attempt;
    object_state.append_timeline(key_id, ctx.now_ms, "resumed", detail);
    Some(FencingToken { key_id, attempt, holder: me.clone() })
}
