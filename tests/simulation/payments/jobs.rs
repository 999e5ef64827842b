//! The way of the jobs: out of the objects through a queue to a consumer, which does each once and keeps the read model, in which the
//! objects look what is over; and the sweep, which knows what the read model knows.
//!
//! The queue loses, doubles and reorders; the consumer dies before or after what it does, or fails with one job of several; an email is left
//! in the midst of its send, or the read model says nothing of it; an incarnation dies between the send and its mark, or is evicted and
//! knows nothing of it; a look fails. The random numbers of all this are their own.

use std::collections::{BTreeMap, BTreeSet};

use messages::snapshot::{AuditRow, Snapshot, snapshot};
use once::outbox::{self, Due, Handed};
use payments::engine::{Context, Lifecycle, ObjectState, StagedJob};
use payments::payment::records::JobKind;
use payments::transitions::projection::{self, Heard};

use super::world::{Disabled, Event, Transacted, World};
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::invariants::Writer;
use crate::rng::Rng;

/// Up to how many runs and failures of an open key the read model follows.
const TOLD_MAX: u32 = 32;

/// How many audit records go with one snapshot: few, so that many a one leaves some behind.
const AUDIT_MAX: usize = 2;

/// How long the consumer waits before it tries again.
const AGAIN_MS: u64 = MINUTE;
/// How late an alarm may be before the sweep takes it for lost.
const GRACE_MS: u64 = 2 * MINUTE;
/// When the read model has learnt of all that happened: after a job that died in the queue has left again, twice.
const AT_REST_MS: u64 = 14 * HOUR;

/// What an object gives to the queue at once.
#[derive(Clone)]
pub(crate) struct Message {
    object: usize,
    jobs: Vec<Work>,
    /// It goes on by itself, and whether it is sent and only to be written down.
    apart: Option<bool>,
}

#[derive(Clone)]
enum Work {
    /// A projection, with what it carries.
    Project(Box<Snapshot>),
    /// A job by its id.
    Once(String),
}

/// What stands beside the objects.
pub(crate) struct Jobs {
    rng: Rng,
    /// How likely each of these faults is, and until when there are any.
    permille: u64,
    until_ms: u64,
    /// The newest snapshot of each object.
    model: BTreeMap<usize, Snapshot>,
    /// The audit records of each object that the read model has.
    audit: BTreeMap<usize, BTreeSet<u64>>,
    /// The jobs that the consumer knows to be done.
    done: BTreeSet<String>,
    /// The keys that the service for emails knows: under one of these it sends nothing more.
    keys: BTreeSet<String>,
}

impl Jobs {
    pub(crate) const fn new(seed: u64, permille: u64, until_ms: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            permille,
            until_ms,
            model: BTreeMap::new(),
            audit: BTreeMap::new(),
            done: BTreeSet::new(),
            keys: BTreeSet::new(),
        }
    }

    pub(crate) const fn strike(&mut self, permille: u64, until_ms: u64) {
        (self.permille, self.until_ms) = (permille, until_ms);
    }
}

impl World {
    /// Whether a fault of the queue or the consumer strikes here.
    fn jobs_fault(&mut self, what: &'static str) -> bool {
        let strikes = self.now_ms < self.jobs.until_ms && self.jobs.rng.permille(self.jobs.permille);
        if strikes {
            self.counters.count(what);
        }
        strikes
    }

    /// An incarnation gives the queue what is due.
    pub(crate) fn drain(&mut self, instance: usize) {
        let it = &self.instances[instance];
        if !it.alive {
            return;
        }
        if it.asleep_until_ms > self.now_ms {
            return self.after(it.asleep_until_ms - self.now_ms, Event::Drain { instance });
        }
        let object = it.object;
        let ctx = self.context(instance);
        if !outbox::late(&self.objects[object].store.object_state, &ctx).is_empty() {
            self.look(instance, &ctx);
        }
        let state = &self.objects[object].store.object_state;
        let it = &mut self.instances[instance];
        it.handed.keep_staged(state);
        let due = outbox::due(state, &it.handed, &ctx);
        if !it.alive || due.is_empty() {
            return;
        }
        let Due { leaving, waiting } = due;
        let taken = !leaving.is_empty() && !self.jobs_fault("jobs: not taken by the queue");
        if taken {
            let message = self.message(object, &leaving);
            self.enqueue(message);
            if self.jobs_fault("jobs: crash between send and mark") {
                self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
                return self.crash(instance, 0);
            }
        }
        let forgets = taken && self.disabled == Some(Disabled::Confirmation);
        let forgotten: Vec<String> =
            leaving.iter().filter(|_| forgets).map(|job| job.job_id.clone()).collect();
        let mut handed = std::mem::take(&mut self.instances[instance].handed);
        let written = if taken { outbox::handed(&mut handed, leaving, &ctx) } else { leaving };
        if written.is_empty() && waiting.is_empty() && forgotten.is_empty() {
            self.instances[instance].handed = handed;
            return self.counters.count("jobs: handed over, not written down");
        }
        if !waiting.is_empty() {
            self.counters.count("jobs: given more time");
        }
        let body = |state: &mut ObjectState, ctx: &_, _: &_| {
            outbox::sent(state, &written, taken, ctx);
            outbox::put_off(state, &mut handed, &waiting, ctx);
            forgotten.iter().for_each(|job_id| projection::confirm(state, job_id, None, ctx));
            Ok(())
        };
        self.transact(instance, None, Writer::Outbox, body, |_, _, _| {});
        self.instances[instance].handed = handed;
    }

    /// An incarnation asks the read model which of its jobs are over.
    fn look(&mut self, instance: usize, ctx: &Context) {
        if self.jobs_fault("jobs: evicted before the look") {
            self.instances[instance].handed = Handed::default();
        }
        if self.jobs_fault("jobs: looks that fail") {
            return;
        }
        let object = self.instances[instance].object;
        let state = &self.objects[object].store.object_state;
        let late = outbox::late(state, ctx).into_iter().map(|job| job.job_id);
        let believes = self.disabled == Some(Disabled::Look);
        let over: Vec<String> = late.filter(|job_id| believes || self.jobs.done.contains(job_id)).collect();
        let audit = self.jobs.audit.get(&object);
        let is_told = |audit_id: &u64| audit.is_some_and(|told| told.contains(audit_id));
        let from = state.resource.audit_through;
        let audit_through = (from + 1..).take_while(is_told).last().unwrap_or(from);
        let version = self.jobs.model.get(&object).map_or(0, |known| known.version);
        let heard = Heard { over, version, audit_through };
        let staged = state.jobs.len();
        let forgets_rest = self.disabled == Some(Disabled::AuditRest);
        let body = |state: &mut ObjectState, ctx: &_, _: &_| {
            let audit_newest = state.resource.audit_newest;
            if forgets_rest {
                state.resource.audit_newest = 0;
            }
            projection::hear(state, &heard, ctx);
            state.resource.audit_newest = audit_newest;
            Ok(staged > state.jobs.len())
        };
        if let Transacted::Done(true, _) = self.transact(instance, None, Writer::Outbox, body, |_, _, _| {}) {
            self.counters.count("jobs: over, forgotten");
        }
    }

    fn message(&self, object: usize, jobs: &[StagedJob]) -> Message {
        let store = &self.objects[object].store;
        let snapshot = || {
            let from = store.object_state.resource.audit_through + 1;
            let audit = (from..=store.audit_records).take(AUDIT_MAX).map(record);
            snapshot(&store.object_state, audit.collect(), self.now_ms)
        };
        let jobs = jobs.iter().map(|job| match job.kind {
            JobKind::Project => Work::Project(Box::new(snapshot())),
            _ => Work::Once(job.job_id.clone()),
        });
        Message { object, jobs: jobs.collect(), apart: None }
    }

    fn enqueue(&mut self, message: Message) {
        if self.jobs_fault("jobs: lost by the queue") {
            return;
        }
        let copies = if self.jobs_fault("jobs: doubled by the queue") { 2 } else { 1 };
        for _ in 0..copies {
            let late = self.jobs_fault("jobs: reordered by the queue");
            let delay_ms = self.jobs.rng.between(5, if late { 5 * HOUR } else { 2 * SECOND });
            self.after(delay_ms, Event::Job(Box::new(message.clone())));
        }
    }

    /// The consumer has a message.
    pub(crate) fn job(&mut self, message: Message) {
        if self.jobs_fault("jobs: consumer dies before") {
            return self.after(AGAIN_MS, Event::Job(Box::new(message)));
        }
        let is_alone = message.jobs.len() == 1;
        for work in &message.jobs {
            if !is_alone && self.jobs_fault("jobs: one fails beside others, and goes on alone") {
                let alone = Message { jobs: vec![work.clone()], ..message };
                self.after(AGAIN_MS, Event::Job(Box::new(alone)));
                continue;
            }
            match work {
                Work::Project(snapshot) => self.project(message.object, snapshot),
                Work::Once(job_id) => self.email(&message, job_id),
            }
        }
        if self.jobs_fault("jobs: consumer dies after") {
            self.after(AGAIN_MS, Event::Job(Box::new(message)));
        }
    }

    fn project(&mut self, object: usize, snapshot: &Snapshot) {
        let known = self.jobs.model.get(&object).map_or(0, |known| known.version);
        if snapshot.version > known || self.disabled == Some(Disabled::Versions) {
            self.auditor.projected(object, snapshot.version);
            self.jobs.model.insert(object, snapshot.clone());
        } else {
            self.counters.count("jobs: old snapshots left aside");
        }
        let records = snapshot.audit.iter().map(|record| record.audit_id);
        self.jobs.audit.entry(object).or_default().extend(records);
    }

    /// Beside a projection an email is not waited for long. While the read model is silent its object says whether it may be sent.
    fn email(&mut self, message: &Message, job_id: &str) {
        let object = message.object;
        let apart = |is_sent| {
            let jobs = vec![Work::Once(job_id.to_owned())];
            Event::Job(Box::new(Message { object, jobs, apart: Some(is_sent) }))
        };
        if message.apart.is_none() && self.jobs_fault("jobs: an email is left, and goes on alone") {
            if self.jobs.rng.permille(500) {
                self.send_email(job_id);
            }
            return self.after(AGAIN_MS, apart(false));
        }
        if message.apart == Some(false) && self.jobs_fault("jobs: the read model is silent about an email") {
            let staged = &self.objects[object].store.object_state.jobs;
            let is_staged = staged.iter().any(|job| job.job_id == job_id);
            if is_staged {
                self.send_email(job_id);
            }
            return self.after(AGAIN_MS, apart(is_staged));
        }
        if self.jobs.done.contains(job_id) && self.disabled != Some(Disabled::JobIds) {
            return self.counters.count("jobs: done before");
        }
        if message.apart != Some(true) {
            self.send_email(job_id);
        }
        self.jobs.done.insert(job_id.to_owned());
    }

    /// The job's id is the key under which its service knows it.
    fn send_email(&mut self, job_id: &str) {
        if self.jobs.keys.insert(job_id.to_owned()) || self.disabled == Some(Disabled::JobIds) {
            self.auditor.job_done(job_id);
        } else {
            self.counters.count("jobs: sent before");
        }
    }

    /// An alarm was lost: the sweep wakes its object if the read model shows that it should have been awake. Where the read
    /// model has not heard of it, somebody calls.
    pub(crate) fn sweep(&mut self, object: usize) {
        let late_ms = self.now_ms.saturating_sub(GRACE_MS);
        let state = &self.objects[object].store.object_state;
        let is_late = state.keys.iter().any(|key| match &key.lifecycle {
            Lifecycle::Open(open) => {
                open.lease.as_ref().map_or(open.resume_at_ms, |lease| lease.until_ms) < late_ms
            }
            _ => false,
        });
        let model = self.jobs.model.get(&object);
        let is_told = model.is_some_and(|known| known.version == state.resource.version);
        let finds = model.is_some_and(|known| {
            let late = |wake_at_ms: Option<u64>| wake_at_ms.is_some_and(|at_ms| at_ms < late_ms);
            known.keys.iter().any(|key| key.status == "open" && late(key.wake_at_ms))
        });
        if finds {
            self.counters.count("alarms lost, found by the read model");
        } else if is_late && is_told {
            self.auditor.not_swept(object);
        } else if is_late {
            self.counters.count("alarms lost, not told to the read model");
        }
        self.wake(object, None);
    }

    /// Nothing more will happen: what the read model says, and what is left.
    pub(crate) fn judge_jobs(&mut self) {
        for (number, object) in self.objects.iter().enumerate() {
            let state = &object.store.object_state;
            let rest_ms = self.now_ms.saturating_sub(AT_REST_MS);
            if object.dark_until_ms > rest_ms || object.told_at_ms > rest_ms || state.resource.version == 0 {
                continue;
            }
            self.counters.count("jobs: objects at rest");
            let left: Vec<&str> = state.jobs.iter().map(|job| job.job_id.as_str()).collect();
            let expected = plain(snapshot(state, Vec::new(), 0));
            let shown = self.jobs.model.get(&number).cloned().map(plain);
            let has_audit = self.jobs.audit.get(&number).map_or(0, BTreeSet::len) as u64;
            if shown.as_ref() != Some(&expected) {
                self.auditor.shows_otherwise(format!("{shown:?}, but the object is {expected:?}"));
            }
            if has_audit != object.store.audit_records {
                let seen = format!("{has_audit} of {} audit records", object.store.audit_records);
                self.auditor.shows_otherwise(seen);
            }
            self.auditor.at_rest(number, &left);
        }
    }
}

fn record(audit_id: u64) -> AuditRow {
    let text = String::new;
    AuditRow { audit_id, at_ms: 0, actor: text(), action: text(), subject: text(), data: text() }
}

/// Without what changes at every step of a run: when an open key is taken up next, and how far it is; and without whether a response
/// has expired, which its time tells.
fn plain(snapshot: Snapshot) -> Snapshot {
    let keys = snapshot.keys.into_iter().map(|mut key| {
        if key.status == "open" {
            key.wake_at_ms = None;
            key.recovery_point = String::new();
            key.in_doubt = 0;
            // One that fails for ever, because it waits for a person, is told of only so often.
            key.attempts = key.attempts.min(TOLD_MAX);
            key.failures = key.failures.min(TOLD_MAX);
        } else {
            key.status = String::new();
        }
        key
    });
    let mut keys: Vec<_> = keys.collect();
    // What changed last comes first, and that may be a step of a run.
    keys.sort_by_key(|key| key.key_id);
    Snapshot { at_ms: 0, audit: Vec::new(), keys, ..snapshot }
}
