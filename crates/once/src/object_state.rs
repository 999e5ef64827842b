//! The state of one object, in memory: a phase reads and changes it, the shell loads and stores it, as one row.
//!
//! It is small: a few keys, their resource, a few calls and the jobs that are not over. What is only ever added (the
//! timeline and the flow's facts) is not loaded: a phase appends to [`NewRows`], and the shell inserts that in the same
//! transaction.

use serde::{Deserialize, Serialize};

use super::account::SentTo;
use super::call::{CallSpec, CallState, Evidence, ProviderCall, Settlement};
use super::context::Bug;
use super::domain::{Answer, Domain, Provider};
use super::id::ObjectId;
use super::key::KeyHash;
use super::record::{BODY_MAX_BYTES, Binding, KeyRecord, Lifecycle, RecoveryPoint};

/// Work to do after the commit, once, by its id. It stays until it is known that it is done, or lies in the dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StagedJob<K> {
    /// Unique for ever: `{resource}_{what}`.
    pub job_id: String,
    /// Which job.
    pub kind: K,
    /// A JSON object: what the job needs, frozen. Empty for a projection, which carries what is there when it leaves.
    pub payload: serde_json::Value,
    /// When it was staged, in ms since the epoch.
    pub staged_at_ms: u64,
    /// How often it was given to the queue, or was to be. The first time is written down only if it was not over when it was looked at.
    pub sends: u32,
    /// When it is looked whether it is over, in ms since the epoch.
    pub next_at_ms: u64,
}

/// One line of a key's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimelineEntry {
    /// The key.
    pub key_id: u32,
    /// When, in ms since the epoch.
    pub at_ms: u64,
    /// The run that did it.
    pub attempt: u32,
    /// What happened, such as `resumed`, `recovery_point`, `call_sent`.
    pub event: String,
    /// More about it; never a value from a request.
    pub detail: String,
}

/// What a phase adds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewRows<F: Domain> {
    /// Jobs that are staged.
    pub jobs: Vec<StagedJob<F::JobKind>>,
    /// Lines of the timeline.
    pub timeline: Vec<TimelineEntry>,
    /// What the flow writes down.
    pub facts: F::Facts,
}

impl<F: Domain> Default for NewRows<F> {
    fn default() -> Self {
        Self { jobs: Vec::new(), timeline: Vec::new(), facts: F::Facts::default() }
    }
}

/// The rows of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ObjectState<F: Domain> {
    /// The object they belong to.
    #[serde(skip, default = "ObjectId::nil")]
    pub object: ObjectId,
    /// The keys, by number. None is taken out but by [`forget_expired`](Self::forget_expired), or by a flow that keeps the newest one: the next one
    /// would be given its number, with which the keys at a provider are made.
    pub keys: Vec<KeyRecord<F>>,
    /// The keys that run elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<Binding>,
    /// What the flows keep here.
    pub resource: F::Resource,
    /// The foreign calls, by number.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ProviderCall<F>>,
    /// The jobs that are staged and not known to be over.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<StagedJob<F::JobKind>>,
    /// The largest numbers of what was forgotten.
    #[serde(default, skip_serializing_if = "ForgottenNumbers::is_none")]
    pub forgotten: ForgottenNumbers,
    /// What this transaction adds.
    #[serde(skip)]
    pub appended: NewRows<F>,
}

/// The largest numbers of the keys and calls that were forgotten, 0 where none was: no other one is given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForgottenNumbers {
    /// Of a key.
    pub key_id: u32,
    /// Of a call.
    pub call_id: u32,
}

impl ForgottenNumbers {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl<F: Domain> ObjectState<F> {
    /// That of an object in which nothing has happened.
    pub fn empty(object: ObjectId) -> Self {
        Self {
            object,
            keys: Vec::new(),
            bindings: Vec::new(),
            resource: F::Resource::default(),
            calls: Vec::new(),
            jobs: Vec::new(),
            forgotten: ForgottenNumbers::default(),
            appended: NewRows::default(),
        }
    }

    /// Forgets the keys whose responses had expired by `before_ms` (since the epoch), with their calls, and makes room for as many others. Gives how many.
    /// The first key stays: it says whose the object is. A flow says after how long that is done by [`Flow::forgets_after_ms`](super::flow::Flow::forgets_after_ms).
    ///
    /// A retry under a key that is forgotten runs its operation anew. So this is for what no client repeats any more: months after the response expired, not
    /// hours.
    pub fn forget_expired(&mut self, before_ms: u64) -> usize {
        self.forget_expired_but(before_ms, |_| false)
    }

    /// The same, but for those that the flow still needs.
    pub fn forget_expired_but(&mut self, before_ms: u64, stays: impl Fn(&KeyRecord<F>) -> bool) -> usize {
        let is_old = |key: &KeyRecord<F>| match &key.lifecycle {
            Lifecycle::Expired(tombstone) => tombstone.expires_at_ms <= before_ms && !stays(key),
            Lifecycle::Open(_) | Lifecycle::Finished(_) => false,
        };
        let old: Vec<u32> =
            self.keys.iter().skip(1).filter(|key| is_old(key)).map(|key| key.key_id).collect();
        if old.is_empty() {
            return 0;
        }
        let (key_id, call_id) = (self.next_key_id(), self.next_call_id());
        self.keys.retain(|key| !old.contains(&key.key_id));
        self.calls.retain(|call| !old.contains(&call.key_id));
        self.forgotten =
            ForgottenNumbers { key_id: key_id.saturating_sub(1), call_id: call_id.saturating_sub(1) };
        old.len()
    }

    /// The number of the next key.
    pub(crate) fn next_key_id(&self) -> u32 {
        let newest = self.keys.iter().map(|key| key.key_id).max().unwrap_or(0);
        newest.max(self.forgotten.key_id).saturating_add(1)
    }

    fn next_call_id(&self) -> u32 {
        let newest = self.calls.iter().map(|call| call.call_id).max().unwrap_or(0);
        newest.max(self.forgotten.call_id).saturating_add(1)
    }

    /// Refuses what cannot be: the state would be wrong, and is neither written nor read.
    pub fn verify(&self) -> Result<(), Bug> {
        let bug = |what: &str| Err(Bug(format!("a state that cannot be: {what}")));
        for (at, key) in self.keys.iter().enumerate() {
            let others = self.keys.iter().skip(at.saturating_add(1));
            if others.clone().any(|other| other.key_id == key.key_id || other.key_hash == key.key_hash) {
                return bug("two records of one key");
            }
            if key.attempt == 0 {
                return bug("a key without a run");
            }
            if matches!(&key.lifecycle, Lifecycle::Finished(it) if it.response.body.len() > BODY_MAX_BYTES) {
                return bug("a response that is too long");
            }
        }
        for (at, call) in self.calls.iter().enumerate() {
            let others = self.calls.iter().skip(at.saturating_add(1));
            let is_same = |other: &ProviderCall<F>| {
                other.call_id == call.call_id
                    || other.provider_key == call.provider_key
                    || (other.key_id, &other.name) == (call.key_id, &call.name)
            };
            if others.clone().any(is_same) {
                return bug("two calls under one key");
            }
            if self.key(call.key_id).is_none() {
                return bug("a call of no key");
            }
        }
        Ok(())
    }

    /// Takes in the jobs that a transaction has staged, and gives what else it adds. Whoever commits it calls this once. A job whose id is staged
    /// already is that one: a commit must not fail for it, and whoever does them would do one.
    pub fn take_appended(&mut self) -> NewRows<F> {
        let mut appended = std::mem::take(&mut self.appended);
        for job in std::mem::take(&mut appended.jobs) {
            if self.jobs.iter().all(|staged| staged.job_id != job.job_id) {
                self.jobs.push(job);
            }
        }
        appended
    }

    /// The record of a key.
    pub fn key(&self, key_id: u32) -> Option<&KeyRecord<F>> {
        self.keys.iter().find(|key| key.key_id == key_id)
    }

    /// The record of a key, by what stands for it.
    pub fn key_of(&self, key_hash: &KeyHash) -> Option<&KeyRecord<F>> {
        self.keys.iter().find(|key| key.key_hash == *key_hash)
    }

    /// The record of a key, to be changed.
    pub fn key_mut(&mut self, key_id: u32) -> Option<&mut KeyRecord<F>> {
        self.keys.iter_mut().find(|key| key.key_id == key_id)
    }

    /// A call, by its number.
    pub fn call(&self, call_id: u32) -> Option<&ProviderCall<F>> {
        self.calls.iter().find(|call| call.call_id == call_id)
    }

    /// A call of a key's operation, by its name.
    pub fn call_named(&self, key_id: u32, name: &str) -> Option<&ProviderCall<F>> {
        self.calls.iter().find(|call| call.key_id == key_id && call.name == name)
    }

    /// A call, by the key that the provider knows it by.
    pub fn call_of_provider_key(&self, provider_key: &str) -> Option<&ProviderCall<F>> {
        self.calls.iter().find(|call| call.provider_key == provider_key)
    }

    /// A call, to be changed.
    pub fn call_mut(&mut self, call_id: u32) -> Option<&mut ProviderCall<F>> {
        self.calls.iter_mut().find(|call| call.call_id == call_id)
    }

    /// The call that a key's operation waits for: there is one at most.
    pub fn unsettled_call(&self, key_id: u32) -> Option<&ProviderCall<F>> {
        self.calls.iter().find(|call| call.key_id == key_id && !call.is_settled())
    }

    /// The same, to be changed.
    pub(crate) fn unsettled_call_mut(&mut self, key_id: u32) -> Option<&mut ProviderCall<F>> {
        self.calls.iter_mut().find(|call| call.key_id == key_id && !call.is_settled())
    }

    /// At which account something was made, by the provider's id of it: as the newest call about it has found.
    pub fn account_of(&self, provider: F::Provider, made: &str) -> Option<&SentTo> {
        let call = self.calls.iter().rev().find(|call| knows_account(call, provider, made))?;
        call.evidence.sent_to.as_ref()
    }

    /// The same, to be changed.
    pub fn account_of_mut(&mut self, provider: F::Provider, made: &str) -> Option<&mut SentTo> {
        let call = self.calls.iter_mut().rev().find(|call| knows_account(call, provider, made))?;
        call.evidence.sent_to.as_mut()
    }

    pub(crate) fn freeze(&mut self, key_id: u32, spec: CallSpec<F>) {
        let moved = spec.provider.moves(spec.kind, &spec.request);
        let sent_to = moved.and_then(|moved| self.account_of(spec.provider, &moved)).map(SentTo::again);
        let call_id = self.next_call_id();
        self.calls.push(ProviderCall {
            call_id,
            key_id,
            name: spec.name,
            kind: spec.kind,
            provider: spec.provider,
            retry_policy: spec.retry_policy,
            provider_key: spec.provider_key,
            request: spec.request,
            state: CallState::Frozen,
            sends: 0,
            failures: 0,
            first_sent_at_ms: None,
            last_sent_at_ms: None,
            next_try_at_ms: 0,
            maybe_executed: false,
            answer_is_stored: false,
            look_up: None,
            evidence: Evidence { sent_to, ..Evidence::default() },
        });
    }

    /// Notes how far a key's operation has come.
    pub(crate) fn reach(&mut self, key_id: u32, point: F::Point, now_ms: u64) -> Result<(), Bug> {
        let point = RecoveryPoint::At(point);
        let Some(Lifecycle::Open(open)) = self.key_mut(key_id).map(|key| &mut key.lifecycle) else {
            return Err(Bug(format!("key {key_id} is not open")));
        };
        if point <= open.recovery_point {
            return Err(Bug(format!("a phase at {:?} ended at {point:?}", open.recovery_point)));
        }
        open.recovery_point = point;
        self.append_timeline(key_id, now_ms, "recovery_point", point.as_str());
        Ok(())
    }

    /// Adds a line to a key's timeline.
    pub fn append_timeline(&mut self, key_id: u32, at_ms: u64, event: &str, detail: impl Into<String>) {
        let attempt = self.key(key_id).map_or(0, |key| key.attempt);
        let entry = TimelineEntry { key_id, at_ms, attempt, event: event.to_owned(), detail: detail.into() };
        self.appended.timeline.push(entry);
    }
}

/// Whether a call has found at which account this was made.
fn knows_account<F: Domain>(call: &ProviderCall<F>, provider: F::Provider, made: &str) -> bool {
    let known = match &call.state {
        CallState::Settled(Settlement::Answered(reply)) => reply.result.made(),
        _ => call.evidence.provider_id.as_deref(),
    };
    let is_about =
        || known == Some(made) || provider.moves(call.kind, &call.request).as_deref() == Some(made);
    call.provider == provider && call.evidence.sent_to.is_some() && is_about()
}
