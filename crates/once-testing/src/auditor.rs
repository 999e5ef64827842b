//! What is judged whatever the flow: at each commit, at each request, and at the end.

use once::alarm::{KnownAlarm, wake_at};
use once::begin::{Begin, Command, begin};
use once::call::{CallState, ProviderCall, Settlement};
use once::context::Context;
use once::domain::Answer as _;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::Owner;
use once::object_state::ObjectState;
use once::record::{FencingToken, Finished, KeyRecord, Lifecycle};

use crate::saboteur::Saboteur;
use crate::scenario::{End, Job, Scenario, Settings};
use crate::world::{Flow, World};

impl<S: Scenario> World<'_, S> {
    /// What a commit may make of the rows.
    pub(crate) fn audit(&self, after: &ObjectState<Flow<S>>, now_ms: u64) -> Result<(), String> {
        let before = &self.object_state;
        for key in &before.keys {
            match after.key(key.key_id) {
                Some(now) => {
                    goes_on(key, now)?;
                    self.is_kept(key, now, now_ms)?;
                }
                None if self.saboteur == Some(Saboteur::Tombstone) => {}
                None if self.may_be_forgotten(key, now_ms) => {}
                None => return Err(format!("key {} is forgotten", key.key_id)),
            }
        }
        for call in &before.calls {
            match after.call(call.call_id) {
                Some(now) => is_known_still(call, now)?,
                // It is not there any more at the end.
                None => self.is_true(call)?,
            }
        }
        let is_gone = |job: &&Job<S>| {
            let is_there = after.jobs.iter().any(|now| now.job_id == job.job_id);
            let newer = || after.jobs.iter().any(|now| self.scenario.stands_for(now, job));
            !is_there && !self.confirmed.contains(&job.job_id) && !newer()
        };
        match before.jobs.iter().find(is_gone) {
            Some(job) if self.saboteur != Some(Saboteur::Outbox) => {
                Err(format!("the job {} is forgotten before it is done", job.job_id))
            }
            _ => Ok(()),
        }
    }

    /// Whether no client repeats it any more.
    fn may_be_forgotten(&self, key: &KeyRecord<Flow<S>>, now_ms: u64) -> bool {
        let expires_at_ms = match &key.lifecycle {
            Lifecycle::Open(_) => return false,
            Lifecycle::Finished(finished) => finished.expires_at_ms,
            Lifecycle::Expired(tombstone) => tombstone.expires_at_ms,
        };
        let is_over = |after_ms| now_ms >= expires_at_ms.saturating_add(after_ms);
        self.scenario.forgets_after_ms().is_some_and(is_over)
    }

    /// Whoever does a job knows it by its id: another one of the same id is never done; and one that is staged again once it is done, as by a phase that
    /// runs again, is done twice where that id is forgotten.
    pub(crate) fn are_new(&self, jobs: &[Job<S>]) -> Result<(), String> {
        if let Some(job) = jobs.iter().find(|job| self.confirmed.contains(&job.job_id)) {
            return Err(format!("the job {} is staged again after it was done", job.job_id));
        }
        let is_known = |job: &&Job<S>| {
            self.staged.iter().any(|before| before.job_id == job.job_id && before.payload != job.payload)
        };
        match jobs.iter().find(is_known) {
            None => Ok(()),
            Some(job) => Err(format!("the job {} is staged again, with another payload", job.job_id)),
        }
    }

    /// A response is kept for as long as is configured.
    fn is_kept(
        &self,
        before: &KeyRecord<Flow<S>>,
        after: &KeyRecord<Flow<S>>,
        now_ms: u64,
    ) -> Result<(), String> {
        let kept_until_ms = |finished: &Finished| finished.finished_at_ms + self.times.retention_ms;
        match (&before.lifecycle, &after.lifecycle) {
            (Lifecycle::Open(_), Lifecycle::Finished(it)) if it.expires_at_ms == kept_until_ms(it) => Ok(()),
            (Lifecycle::Finished(it), Lifecycle::Expired(_)) if now_ms >= kept_until_ms(it) => Ok(()),
            (was, is) if was.name() == is.name() => Ok(()),
            (_, is) => Err(format!("key {} is {} too early", before.key_id, is.name())),
        }
    }

    /// A run that has ended holds no key.
    pub(crate) fn is_released(&self, token: &FencingToken) -> Result<(), String> {
        let key = self.object_state.key(token.key_id).filter(|key| key.attempt == token.attempt);
        match key.map(|key| &key.lifecycle) {
            Some(Lifecycle::Open(open)) if open.lease.is_some() => {
                Err(format!("a run has ended, and still holds key {}", token.key_id))
            }
            _ => Ok(()),
        }
    }

    /// The alarm rings when something is due, whatever becomes of this incarnation.
    pub(crate) fn audit_alarm(&self, ctx: &Context<Settings<S>>) -> Result<(), String> {
        let Some(due_ms) = wake_at(&self.object_state, ctx) else { return Ok(()) };
        if self.saboteur == Some(Saboteur::Alarm) {
            return Ok(());
        }
        let is_in_time = match self.known {
            KnownAlarm::At(at_ms) => at_ms <= due_ms.max(ctx.now_ms + 1) && self.rings_at_ms.is_some(),
            // By the clock of an incarnation before.
            KnownAlarm::Unknown | KnownAlarm::Gone => self
                .rings_at_ms
                .is_some_and(|at_ms| at_ms <= self.now_ms + self.until(due_ms) + 2 * self.clock_off_ms()),
        };
        if is_in_time { Ok(()) } else { Err("something is due, and the alarm is not set for it".to_owned()) }
    }

    /// A request of a stranger, and one of the owner's with other parameters, learn nothing of a key and change nothing.
    pub(crate) fn learn_nothing(&self, command: &Command<Flow<S>>) -> Result<(), String> {
        let Some(first) = self.object_state.keys.first() else { return Ok(()) };
        let owner = match self.saboteur {
            Some(Saboteur::Owner) => first.owner.clone(),
            _ => Owner::Account("a stranger".to_owned()),
        };
        self.is_told("a stranger", &Command { owner: owner.clone(), ..command.clone() }, |begun| {
            matches!(begun, Begin::NotOwner)
        })?;
        let Some(key) = self.object_state.key_of(&command.key_hash) else { return Ok(()) };
        let fingerprint = match self.saboteur {
            Some(Saboteur::Fingerprint) => key.fingerprint.clone(),
            _ => Fingerprint("another request".to_owned()),
        };
        let parameters = Canonical(r#"{"other":1}"#.to_owned());
        let other = Command { fingerprint, parameters, ..command.clone() };
        self.is_told("another request", &other, |begun| matches!(begun, Begin::Mismatch { .. }))?;
        self.is_told("a stranger's other request", &Command { owner, ..other }, |begun| {
            matches!(begun, Begin::NotOwner)
        })
    }

    fn is_told(
        &self,
        who: &str,
        command: &Command<Flow<S>>,
        is_right: impl FnOnce(&Begin<Flow<S>>) -> bool,
    ) -> Result<(), String> {
        let mut object_state = self.object_state.clone();
        let begun =
            begin(&mut object_state, command, &self.me(), &self.context()).map_err(|bug| bug.to_string())?;
        if is_right(&begun) && object_state == self.object_state {
            return Ok(());
        }
        Err(format!("{who} under the key {} is told {begun:?}", command.key_hash.0))
    }

    /// What must be true at the end of every history.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let is_open = |key: &&KeyRecord<_>| matches!(key.lifecycle, Lifecycle::Open(_));
        if let Some(key) = self.object_state.keys.iter().find(is_open) {
            return Err(format!("key {} was never finished", key.key_id));
        }
        if let Some(key) =
            self.object_state.keys.get(1).filter(|_| self.scenario.forgets_after_ms().is_some())
        {
            return Err(format!("key {} was never forgotten", key.key_id));
        }
        self.object_state.calls.iter().try_for_each(|call| self.is_true(call))?;
        let is_handed = |job: &Job<S>| self.jobs.contains(&job.job_id);
        for (at, job) in self.staged.iter().enumerate() {
            let newer = || {
                let mut later = self.staged.iter().skip(at + 1);
                later.any(|newer| is_handed(newer) && self.scenario.stands_for(newer, job))
            };
            if !is_handed(job) && !newer() {
                return Err(format!("the job {} was lost", job.job_id));
            }
        }
        if let Some(left) = self.object_state.jobs.first() {
            return Err(format!("the job {} never left", left.job_id));
        }
        let end = End {
            object_state: &self.object_state,
            executions: &self.provider.executions,
            responses: &self.responses,
            staged: &self.staged,
            jobs: &self.jobs,
        };
        self.scenario.judge(&end)
    }

    /// How a call has ended here is what the provider has done.
    fn is_true(&self, call: &ProviderCall<Flow<S>>) -> Result<(), String> {
        let CallState::Settled(settlement) = &call.state else {
            return Err(format!("{} was never settled", call.name));
        };
        let executed = self.provider.executed(call).map(|made| made.answer.name());
        // By its name: a flow may take the rest out of it.
        let is_true = match (settlement, executed) {
            (Settlement::Answered(reply), Some(made)) => reply.result.name() == made,
            (Settlement::Answered(reply), None) => {
                reply.result.is_refusal() && self.provider.refused.contains(&call.provider_key)
            }
            (Settlement::NotExecuted, made) => made.is_none(),
            (Settlement::NeedsReview, _) => true,
        };
        if is_true {
            return Ok(());
        }
        let ended = match settlement {
            Settlement::Answered(reply) => reply.result.name(),
            Settlement::NotExecuted => "not executed",
            Settlement::NeedsReview => "unknown",
        };
        Err(format!("{} is {ended} here, and {} at the provider", call.name, executed.unwrap_or("unknown")))
    }
}

/// A key goes from open to finished to expired, and its operation from point to point: never back.
fn goes_on<F: once::flow::Flow>(before: &KeyRecord<F>, after: &KeyRecord<F>) -> Result<(), String> {
    let stage = |key: &KeyRecord<F>| match key.lifecycle {
        Lifecycle::Open(_) => 0,
        Lifecycle::Finished(_) => 1,
        Lifecycle::Expired(_) => 2,
    };
    let is_back = stage(after) < stage(before)
        || after.recovery_point() < before.recovery_point()
        || after.attempt < before.attempt;
    if is_back {
        return Err(format!("key {} goes back from {:?}", before.key_id, before.recovery_point()));
    }
    Ok(())
}

/// What is known of a call stays known: that it may have been executed, and how it has ended.
fn is_known_still<F: once::flow::Flow>(
    before: &ProviderCall<F>,
    after: &ProviderCall<F>,
) -> Result<(), String> {
    let was_reset = |what: &str| Err(format!("{what} of the call {} was reset", before.name));
    let is_settled = after.is_settled();
    match (&before.state, &after.state) {
        (CallState::Settled(_), CallState::Settled(_)) => {}
        (CallState::Settled(_), _) => return was_reset("the outcome"),
        _ if before.maybe_executed && !(after.maybe_executed && after.in_doubt()) && !is_settled => {
            return was_reset("`maybe_executed`");
        }
        _ => {}
    }
    if after.sends < before.sends || after.first_sent_at_ms < before.first_sent_at_ms {
        return was_reset("the count of sends");
    }
    if after.provider_key != before.provider_key || after.request.path != before.request.path {
        return was_reset("the provider's key or the path");
    }
    Ok(())
}
