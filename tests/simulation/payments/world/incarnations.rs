//! Which incarnation of an object gets what comes in, what strikes it there, and its transactions.

use super::*;

/// Whether something reaches an incarnation.
pub(crate) enum Reached {
    /// Nothing reaches the object.
    Dark,
    /// This incarnation is gone.
    Dead,
    /// It comes again when the incarnation wakes.
    Asleep,
    /// It falls asleep right here; the same.
    Paused,
    /// Now, and with this fault.
    Awake(usize, Option<Fault>),
}

/// What became of a transaction.
pub(crate) enum Transacted<T> {
    /// Committed: its value, and the object's time.
    Done(T, u64),
    /// The incarnation died, before or after the commit.
    Crashed,
    /// An error dropped it.
    Failed(StepError),
}

impl World {
    /// The number of an object.
    pub(crate) fn object(&mut self, id: ObjectId) -> usize {
        if let Some(known) = self.objects.iter().position(|object| object.id == id) {
            return known;
        }
        let mut store = Store::with_outbox(ObjectState::empty(id), self.saboteur);
        if let Some(disks) = &self.disks {
            store.on(disks);
        }
        self.objects.push(Object {
            id,
            store,
            current: None,
            dark_until_ms: 0,
            alarm_set: 0,
            alarm_lead_ms: 0,
            told_at_ms: 0,
        });
        self.objects.len() - 1
    }

    /// The object in which a payment lives.
    pub(crate) fn object_of(&self, resource: &str) -> Option<usize> {
        self.objects.iter().position(|object| PaymentId::in_object(object.id).to_string() == resource)
    }

    /// The fault that strikes here, if one does.
    pub(crate) fn fault(&mut self, boundary: Boundary) -> Option<Fault> {
        let number = self.faults.passed.len();
        let fault = self.faults.at(boundary, self.now_ms - EPOCH_MS, &mut self.rng)?;
        self.tell(|| format!("      boundary {number}: {boundary:?} meets {fault:?}"));
        self.counters.count("faults");
        self.calm_from_ms = self.calm_from_ms.max(self.now_ms + fault.lasts_ms());
        self.busy_until_ms = self.busy_until_ms.max(self.calm_from_ms);
        if let Fault::Odd(Oddity::RateLimited { .. }) = fault {
            self.owed_ms = self.owed_ms.max(fault.lasts_ms());
        }
        if fault.quarantines() {
            self.owed_ms = self.owed_ms.max(quarantine_ms(&self.times));
        }
        Some(fault)
    }

    /// The incarnation of an object that gets what comes in now.
    pub(crate) fn current(&mut self, object: usize) -> usize {
        if let Some(current) = self.objects[object].current {
            return current;
        }
        let number = self.instances.len();
        let told = self.clocks.get(number).copied();
        let ahead_ms = match told {
            Some(ahead_ms) => ahead_ms,
            None if self.clocks_differ => skew(&mut self.rng),
            None => 0,
        };
        let id = InstanceId(format!("incarnation-{number}"));
        self.tell(|| format!("{} of object {object} is born, its clock {ahead_ms} ms ahead", id.0));
        self.instances.push(Instance {
            object,
            id,
            ahead_ms,
            alive: true,
            asleep_until_ms: 0,
            handed: Handed::default(),
            secret: self.accounts.secret,
        });
        self.objects[object].current = Some(number);
        number
    }

    /// The incarnation that something reaches: `None` if it must come again, as it then will, or never.
    pub(crate) fn reach(
        &mut self,
        object: usize,
        to: Option<usize>,
        again: impl FnOnce(usize) -> Event,
    ) -> Reached {
        if to.is_none() && self.now_ms < self.objects[object].dark_until_ms {
            return Reached::Dark;
        }
        let instance = to.unwrap_or_else(|| self.current(object));
        if !self.instances[instance].alive {
            return Reached::Dead;
        }
        let asleep_ms = self.instances[instance].asleep_until_ms.saturating_sub(self.now_ms);
        if asleep_ms > 0 {
            self.after(asleep_ms, again(instance));
            return Reached::Asleep;
        }
        let fault = self.fault(Boundary::Transaction);
        if self.enter(instance, fault, || again(instance)) {
            Reached::Awake(instance, fault)
        } else {
            Reached::Paused
        }
    }

    pub(crate) fn object_now_ms(&self, instance: usize) -> u64 {
        self.now_ms.saturating_add_signed(self.instances[instance].ahead_ms)
    }

    pub(crate) fn context(&mut self, instance: usize) -> Context {
        let jitter = u16::try_from(self.rng.between(0, 1000)).unwrap_or(0);
        let mut ctx = context(self.object_now_ms(instance), jitter, self.times, Limits::default());
        if self.accounts.is_on {
            let secret = match self.saboteur.plays(Mutant::AccountNotFrozen) {
                true => Secret::FIRST,
                false => self.instances[instance].secret,
            };
            ctx = with_credentials(ctx, secret.credentials());
        }
        self.saboteur.context(ctx)
    }

    pub(crate) fn crash(&mut self, instance: usize, dark_ms: u64) {
        self.counters.count("crashes");
        self.instances[instance].alive = false;
        let object = &mut self.objects[self.instances[instance].object];
        if object.current == Some(instance) {
            object.current = None;
        }
        object.dark_until_ms = object.dark_until_ms.max(self.now_ms + dark_ms);
        for request in self.runs.die(instance) {
            self.reply(request, Answer::plain("reset"));
        }
    }

    /// What a fault at a transaction does before it. `false`: the transaction does not run now; `again` is tried when the
    /// incarnation wakes.
    pub(crate) fn enter(
        &mut self,
        instance: usize,
        fault: Option<Fault>,
        again: impl FnOnce() -> Event,
    ) -> bool {
        match fault {
            Some(Fault::Pause { replaced, ms }) => {
                self.counters.count(if replaced { "pauses, replaced meanwhile" } else { "pauses" });
                self.instances[instance].asleep_until_ms = self.now_ms + ms;
                let object = &mut self.objects[self.instances[instance].object];
                if replaced && object.current == Some(instance) {
                    object.current = None;
                }
                self.after(ms, again());
                false
            }
            Some(Fault::Clock { ahead_ms }) => {
                self.counters.count("clocks set");
                self.instances[instance].ahead_ms = ahead_ms;
                true
            }
            _ => true,
        }
    }

    /// One transaction in an incarnation; `told` tells the auditor about it, just before its commit.
    pub(crate) fn transact<T>(
        &mut self,
        instance: usize,
        fault: Option<Fault>,
        writer: Writer,
        body: impl FnOnce(&mut ObjectState, &Context, &InstanceId) -> Result<T, StepError>,
        told: impl FnOnce(&mut Auditor, &T, &Commit),
    ) -> Transacted<T> {
        let ctx = self.context(instance);
        let (number, me) = (self.instances[instance].object, self.instances[instance].id.clone());
        let object = &self.objects[number];
        let result = object.store.transaction(&ctx, instance, |state| body(state, &ctx, &me));
        if let Some(dark_ms) = crashes(fault, false) {
            self.crash(instance, dark_ms);
            return Transacted::Crashed;
        }
        let (value, staged) = match result {
            Ok(done) => done,
            Err(error) => return Transacted::Failed(error),
        };
        let commit = self.keep(staged, instance, writer, &ctx);
        told(&mut self.auditor, &value, &commit);
        self.auditor.committed(&commit);
        self.operators_hear(number, &commit.audit);
        if let Some(dark_ms) = crashes(fault, true) {
            self.crash(instance, dark_ms);
            return Transacted::Crashed;
        }
        Transacted::Done(value, ctx.now_ms)
    }

    fn keep(&mut self, staged: Staged, instance: usize, writer: Writer, ctx: &Context) -> Commit {
        let number = self.instances[instance].object;
        let store = &mut self.objects[number].store;
        let mut kept = store.keep(staged, instance);
        if let Some(seen) = store.kept_otherwise.take() {
            self.auditor.kept_otherwise(&seen);
        }
        if self.disabled == Some(Disabled::AuditRows) {
            kept.appended.facts.audit.clear();
        }
        let auditor = &self.auditor;
        let commit = view::commit(
            number,
            &kept,
            &store.object_state,
            store.alarm_at_ms,
            writer,
            (ctx.now_ms, self.now_ms),
            &|call, sends| auditor.is_refused_for_certain(call, sends),
        );
        if kept.appended.jobs.iter().any(|job| job.kind == JobKind::Project) {
            self.objects[number].told_at_ms = self.now_ms;
        }
        self.counters.count("transactions committed");
        for action in &commit.audit {
            self.counters.count(action);
        }
        if commit.changed {
            self.tell(|| {
                let payment = commit.payment.as_ref();
                let stands = payment.map(|p| (p.state, p.captured, p.attempt, p.provider, p.pending));
                format!("  commit in {number}: {:?} {stands:?} {:?}", commit.keys, commit.refunds)
            });
        }
        if let Some(at_ms) = commit.alarm_at_ms.filter(|_| kept.set_alarm) {
            let in_ms = at_ms.saturating_sub(ctx.now_ms).max(1);
            let lead_ms = ALARM_LEAD_MS.min(in_ms - 1);
            let object = &mut self.objects[number];
            object.alarm_set += 1;
            object.alarm_lead_ms = lead_ms;
            let set = object.alarm_set;
            self.after(in_ms - lead_ms, Event::Alarm { object: number, set });
        }
        commit
    }
}
