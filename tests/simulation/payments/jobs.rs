//! The way of the jobs: out of the objects through a queue to a consumer, which does each once, keeps the read model and
//! tells the object; and the sweep, which knows what the read model knows.
//!
//! The queue loses, doubles and reorders; the consumer dies before or after what it does; an incarnation dies between the
//! send and its mark; a word to the object is lost. The dice of all this are their own.

use std::collections::{BTreeMap, BTreeSet};

use messages::snapshot::{AuditRow, Snapshot, snapshot};
use once::outbox;
use payments::engine::{Lifecycle, Rows, StagedJob};
use payments::payment::records::JobKind;
use payments::transitions::projection;

use super::world::{Event, Off, Transacted, World};
use crate::faults::{HOUR, MINUTE, SECOND};
use crate::invariants::Writer;
use crate::rng::Dice;

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

/// A job in the queue.
#[derive(Clone)]
pub(crate) struct Message {
    object: usize,
    job: StagedJob,
    /// What a projection carries.
    snapshot: Option<Snapshot>,
}

/// What stands beside the objects.
pub(crate) struct Jobs {
    dice: Dice,
    /// How likely each of these faults is, and until when there are any.
    permille: u64,
    until_ms: u64,
    /// The newest snapshot of each object.
    model: BTreeMap<usize, Snapshot>,
    /// The audit records of each object that the read model has.
    audit: BTreeMap<usize, BTreeSet<u64>>,
    /// The jobs that the consumer knows to be done.
    done: BTreeSet<String>,
}

impl Jobs {
    pub(crate) const fn new(seed: u64, permille: u64, until_ms: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            permille,
            until_ms,
            model: BTreeMap::new(),
            audit: BTreeMap::new(),
            done: BTreeSet::new(),
        }
    }

    pub(crate) const fn strike(&mut self, permille: u64, until_ms: u64) {
        (self.permille, self.until_ms) = (permille, until_ms);
    }
}

impl World {
    /// Whether a fault of the queue or the consumer strikes here.
    fn jobs_fault(&mut self, what: &'static str) -> bool {
        let strikes = self.now_ms < self.jobs.until_ms && self.jobs.dice.permille(self.jobs.permille);
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
        let store = &self.objects[object].store;
        let jobs = outbox::due(&store.rows, &ctx);
        if jobs.is_empty() {
            return;
        }
        let taken = !self.jobs_fault("jobs: not taken by the queue");
        if taken {
            let messages: Vec<Message> = jobs.iter().map(|job| self.message(object, job)).collect();
            messages.into_iter().for_each(|message| self.enqueue(message));
            if self.jobs_fault("jobs: crash between send and mark") {
                self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
                return self.crash(instance, 0);
            }
        }
        let forgets = self.off == Some(Off::Confirmation);
        let body = |rows: &mut Rows, ctx: &_, _: &_| {
            outbox::sent(rows, &jobs, taken, ctx);
            for job in jobs.iter().filter(|_| forgets && taken) {
                projection::confirm(rows, &job.job_id, None, ctx);
            }
            Ok(())
        };
        self.transact(instance, None, Writer::Outbox, body, |_, _, _| {});
    }

    fn message(&self, object: usize, job: &StagedJob) -> Message {
        let store = &self.objects[object].store;
        let snapshot = (job.kind == JobKind::Project).then(|| {
            let from = store.rows.resource.audit_through + 1;
            let audit = (from..=store.audit_records).take(AUDIT_MAX).map(record);
            snapshot(&store.rows, audit.collect(), self.now_ms)
        });
        Message { object, job: job.clone(), snapshot }
    }

    fn enqueue(&mut self, message: Message) {
        if self.jobs_fault("jobs: lost by the queue") {
            return;
        }
        let copies = if self.jobs_fault("jobs: doubled by the queue") { 2 } else { 1 };
        for _ in 0..copies {
            let late = self.jobs_fault("jobs: reordered by the queue");
            let delay_ms = self.jobs.dice.between(5, if late { 5 * HOUR } else { 2 * SECOND });
            self.after(delay_ms, Event::Job(Box::new(message.clone())));
        }
    }

    /// The consumer has a message.
    pub(crate) fn job(&mut self, message: Message) {
        if self.jobs_fault("jobs: consumer dies before") {
            return self.after(AGAIN_MS, Event::Job(Box::new(message)));
        }
        match &message.snapshot {
            Some(snapshot) => self.project(message.object, snapshot),
            None => self.do_once(&message.job.job_id),
        }
        if self.jobs_fault("jobs: consumer dies after") {
            return self.after(AGAIN_MS, Event::Job(Box::new(message)));
        }
        if self.jobs_fault("jobs: word to the object lost") {
            return;
        }
        self.after(5, Event::JobDone(Box::new(message)));
    }

    fn project(&mut self, object: usize, snapshot: &Snapshot) {
        let known = self.jobs.model.get(&object).map_or(0, |known| known.version);
        if snapshot.version > known || self.off == Some(Off::Versions) {
            self.auditor.projected(object, snapshot.version);
            self.jobs.model.insert(object, snapshot.clone());
        } else {
            self.counters.count("jobs: old snapshots left aside");
        }
        let records = snapshot.audit.iter().map(|record| record.audit_id);
        self.jobs.audit.entry(object).or_default().extend(records);
    }

    fn do_once(&mut self, job_id: &str) {
        if !self.jobs.done.contains(job_id) || self.off == Some(Off::JobIds) {
            self.auditor.job_done(job_id);
            self.jobs.done.insert(job_id.to_owned());
        } else {
            self.counters.count("jobs: done before");
        }
    }

    /// The object hears that a job is over.
    pub(crate) fn job_done(&mut self, message: Message) {
        let object = message.object;
        let dark_ms = self.objects[object].dark_until_ms.saturating_sub(self.now_ms);
        if dark_ms > 0 {
            return self.after(dark_ms + AGAIN_MS, Event::Job(Box::new(message)));
        }
        let instance = self.current(object);
        let asleep_ms = self.instances[instance].asleep_until_ms.saturating_sub(self.now_ms);
        if asleep_ms > 0 {
            return self.after(asleep_ms, Event::JobDone(Box::new(message)));
        }
        let newest =
            message.snapshot.and_then(|snapshot| snapshot.audit.last().map(|record| record.audit_id));
        let forgets_rest = self.off == Some(Off::AuditRest);
        let body = |rows: &mut Rows, ctx: &_, _: &_| {
            let audit_newest = rows.resource.audit_newest;
            if forgets_rest {
                rows.resource.audit_newest = 0;
            }
            projection::confirm(rows, &message.job.job_id, newest, ctx);
            rows.resource.audit_newest = audit_newest;
            Ok(())
        };
        if let Transacted::Done(..) = self.transact(instance, None, Writer::Outbox, body, |_, _, _| {}) {
            self.counters.count("jobs: confirmed");
            self.after(0, Event::Drain { instance });
        }
    }

    /// An alarm was lost: the sweep wakes its object if the read model shows that it should have been awake. Where the read
    /// model has not heard of it, somebody calls.
    pub(crate) fn sweep(&mut self, object: usize) {
        let late_ms = self.now_ms.saturating_sub(GRACE_MS);
        let rows = &self.objects[object].store.rows;
        let is_late = rows.keys.iter().any(|key| match &key.lifecycle {
            Lifecycle::Open(open) => {
                open.lease.as_ref().map_or(open.resume_at_ms, |lease| lease.until_ms) < late_ms
            }
            _ => false,
        });
        let model = self.jobs.model.get(&object);
        let is_told = model.is_some_and(|known| known.version == rows.resource.version);
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
            let rows = &object.store.rows;
            let rest_ms = self.now_ms.saturating_sub(AT_REST_MS);
            if object.dark_until_ms > rest_ms || object.told_at_ms > rest_ms || rows.resource.version == 0 {
                continue;
            }
            self.counters.count("jobs: objects at rest");
            let left: Vec<&str> = rows.jobs.iter().map(|job| job.job_id.as_str()).collect();
            let expected = plain(snapshot(rows, Vec::new(), 0));
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

/// Without what changes at every step of a run: when an open key is taken up next, and how far it is.
fn plain(snapshot: Snapshot) -> Snapshot {
    let keys = snapshot.keys.into_iter().map(|mut key| {
        if key.status == "open" {
            key.wake_at_ms = None;
            key.recovery_point = String::new();
            key.in_doubt = 0;
            // One that fails for ever, because it waits for a person, is told of only so often.
            key.attempts = key.attempts.min(TOLD_MAX);
            key.failures = key.failures.min(TOLD_MAX);
        }
        key
    });
    let mut keys: Vec<_> = keys.collect();
    // What changed last comes first, and that may be a step of a run.
    keys.sort_by_key(|key| key.key_id);
    Snapshot { at_ms: 0, audit: Vec::new(), keys, ..snapshot }
}
