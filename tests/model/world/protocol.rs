//! What can happen next in the world, and what comes of it: each transaction here is one call of the real core.

use super::*;

/// The model: the bounds, and the defect to show, if any.
pub struct Protocol {
    pub budget: Budget,
    pub saboteur: Saboteur,
    pub coverage: Arc<Coverage>,
    /// What is known about [`settles`](Self::settles), by hash of what it depends on.
    settles: [Mutex<HashMap<u64, bool>>; 256],
}

impl Protocol {
    pub fn new(budget: Budget, mutant: Option<Mutant>, coverage: Arc<Coverage>) -> Self {
        Self {
            budget,
            saboteur: Saboteur(mutant),
            coverage,
            settles: std::array::from_fn(|_| Mutex::default()),
        }
    }

    pub fn start(&self) -> World {
        World::start(self.budget)
    }

    fn context(&self, now: u8) -> Context {
        self.saboteur.context(context(ms(now), 0, TIMES, Limits::default()))
    }

    /// Everything that can happen next, as far as the budget goes.
    pub fn happenings(&self, w: &World, out: &mut Vec<ModelAction>) {
        use ModelAction as H;
        let room = w.live.len() < RUNS_MAX;
        if w.left.calls > 0 && room {
            out.push(H::Call);
            if w.left.upsets > 0 && !w.object_state.keys.is_empty() {
                out.push(H::CallForOther);
            }
        }
        for (n, live) in (0u8..).zip(&w.live) {
            match &live.doing {
                Doing::AwaitingAnswer => {
                    let on_the_wire = w.wire.iter().any(|flight| flight.run == Some(n));
                    // To give up on a request that can still arrive is a fault of its own.
                    if !on_the_wire || w.left.drops > 0 {
                        out.push(H::GiveUp(n));
                    }
                }
                Doing::SleepingUntil(then) if *then > w.now => {}
                doing => {
                    out.push(H::Step(n));
                    if w.left.crashes > 0 && *doing == Doing::Ready && !live.stale {
                        out.push(H::ArmAndDie(n));
                    }
                    if w.left.upsets > 0 {
                        out.push(H::Fail(n));
                    }
                }
            }
        }
        for (i, flight) in (0u8..).zip(&w.wire) {
            let remembered = w.provider.remembers(&flight.key, w.now);
            for verdict in Decision::ALL {
                if remembered && verdict != Decision::Charge || verdict.is_upset() && w.left.upsets == 0 {
                    continue;
                }
                out.push(H::Deliver(i, verdict));
                if w.left.drops > 0 && flight.run.is_some() && verdict != Decision::TurnAway {
                    out.push(H::DeliverAndLoseAnswer(i, verdict));
                }
            }
            if w.left.drops > 0 {
                out.push(H::Drop(i));
            }
            if w.left.duplicates > 0 {
                out.push(H::Duplicate(i));
            }
        }
        if w.left.crashes > 0 && w.live.iter().any(|live| !live.stale) {
            out.push(H::Crash);
            out.push(H::Split);
        }
        if w.alarm.is_some_and(|at| at <= w.now) && room {
            out.push(H::Alarm);
        }
        let completes_before = w.provider.completes_before();
        if completes_before.is_some() {
            out.push(H::Complete);
        }
        if w.left.ticks > 0
            && completes_before.is_none_or(|tick| w.now + 1 < tick)
            && !w.object_state.keys.is_empty()
            && (!w.is_busy() || w.left.crashes > 0)
            && !w.is_overdue()
        {
            out.push(H::Tick);
        }
    }

    /// The world after it.
    pub fn after(&self, before: &World, happening: ModelAction) -> Option<World> {
        use ModelAction as H;
        let mut w = before.clone();
        match happening {
            H::Call => {
                w.left.calls -= 1;
                self.call(&mut w, &command("{}"));
            }
            H::CallForOther => {
                w.left.calls -= 1;
                w.left.upsets -= 1;
                self.call_for_other(&mut w);
            }
            H::Step(n) => {
                let flight = self.step(&mut w, n);
                self.put_on_wire(&mut w, n, flight)?;
            }
            H::ArmAndDie(n) => {
                self.step(&mut w, n)?; // only a step that sends
                self.coverage.note(Seen::DiedBeforeSend);
                w.left.crashes -= 1;
                w.crash(false);
            }
            H::GiveUp(n) => {
                if let Some(flight) = w.wire.iter_mut().find(|flight| flight.run == Some(n)) {
                    flight.run = None;
                    w.left.drops -= 1;
                    w.wire.sort();
                    self.coverage.note(Seen::LateSuccessPossible);
                }
                w.live[usize::from(n)].doing =
                    Doing::Answered(Outcome::Unknown { answer_is_stored: false, reason: "timed out".into() });
            }
            H::Fail(n) => {
                w.left.upsets -= 1;
                self.fail(&mut w, n);
            }
            H::Crash => {
                w.left.crashes -= 1;
                w.crash(false);
            }
            H::Split => {
                w.left.crashes -= 1;
                w.crash(true);
            }
            H::Deliver(i, verdict) => self.deliver(&mut w, i, verdict, true),
            H::DeliverAndLoseAnswer(i, verdict) => {
                w.left.drops -= 1;
                self.deliver(&mut w, i, verdict, false);
            }
            H::Complete => {
                self.coverage.note(Seen::Completed);
                w.provider.complete();
            }
            H::Drop(i) => {
                w.left.drops -= 1;
                w.wire.remove(usize::from(i));
            }
            H::Duplicate(i) => {
                w.left.duplicates -= 1;
                let mut copy = w.wire[usize::from(i)].clone();
                copy.run = None;
                w.wire.push(copy);
                w.wire.sort();
            }
            H::Alarm => self.fire_alarm(&mut w),
            H::Tick => {
                w.left.ticks -= 1;
                if w.is_busy() {
                    w.left.crashes -= 1;
                }
                w.now += 1;
            }
        }
        Some(w.canonical(before))
    }

    fn call(&self, w: &mut World, command: &Command) {
        let mut state = (*w.object_state).clone();
        let Ok(decision) = self.saboteur.begin(&mut state, command, &me(), &self.context(w.now)) else {
            return w.break_rule(Broken::Bug);
        };
        self.commit(w, state);
        match decision {
            Begin::Run(token) => {
                if token.attempt > 1 {
                    self.coverage.note(Seen::TakenOverByRetry);
                }
                w.start_run(token, true);
            }
            Begin::Replay { response, .. } => {
                self.coverage.note(Seen::Replayed);
                w.tell(&response);
            }
            Begin::InProgress { .. } => self.coverage.note(Seen::Conflict),
            Begin::Pending { .. } => self.coverage.note(Seen::LeftPending),
            Begin::Expired => self.coverage.note(Seen::RefusedByTombstone),
            Begin::Mismatch { .. } | Begin::NotStarted | Begin::NotOwner | Begin::Refused(_) => {
                w.break_rule(Broken::Bug)
            }
        }
    }

    fn call_for_other(&self, w: &mut World) {
        let mut state = (*w.object_state).clone();
        match self.saboteur.begin(&mut state, &command(r#"{"other":1}"#), &me(), &self.context(w.now)) {
            Ok(Begin::Mismatch { .. }) if state == *w.object_state => {
                self.coverage.note(Seen::MismatchRefused)
            }
            _ => w.break_rule(Broken::OtherPayloadAnswered),
        }
    }

    /// One transaction of a run and what follows from it; a send is handed back, not sent.
    fn step(&self, w: &mut World, number: u8) -> Option<ProviderCall> {
        let i = usize::from(number);
        let mut live = w.live[i].clone();
        let event = match live.doing {
            Doing::Answered(outcome) => Event::Outcome(live.call_id, outcome),
            Doing::LookedUp(look_up) => Event::LookedUp(live.call_id, look_up),
            Doing::Ready | Doing::SleepingUntil(_) => Event::Go,
            Doing::AwaitingAnswer => return None,
        };
        live.doing = Doing::Ready;
        let stale = w.object_state.keys.first().is_none_or(|key| {
            key.attempt != live.run.token.attempt || !matches!(key.lifecycle, Lifecycle::Open(_))
        });
        let mut state = (*w.object_state).clone();
        let action = match self.saboteur.step(&mut live.run, &mut state, event, &self.context(w.now)) {
            Ok(action) => action,
            Err(StepError::Fenced) => {
                self.coverage.note(Seen::Fenced);
                w.end_run(number);
                return None;
            }
            Err(StepError::Bug(_)) => {
                w.break_rule(Broken::Bug);
                w.end_run(number);
                return None;
            }
        };
        if stale && state != *w.object_state {
            w.break_rule(Broken::StaleRunWrote);
        }
        self.commit(w, state);
        match action {
            Action::Again => {}
            Action::SleepUntil(until_ms) => live.doing = Doing::SleepingUntil(tick(until_ms)),
            Action::LookUp(call) => {
                // Read now, taken in whenever the run gets to it.
                live.call_id = call.call_id;
                let page = w.provider.list(&call.provider.look_up_request(&call).unwrap().path);
                let look_up = call.provider.read_look_up(&call, &page);
                let quarantined = call.quarantined_until_ms(&self.context(w.now));
                if call.evidence.failed_at_ms.is_some()
                    && quarantined.is_some_and(|until_ms| ms(w.now) < until_ms)
                {
                    self.coverage.note(Seen::Quarantined);
                }
                self.coverage.note(match look_up {
                    LookUp::Found(_) => Seen::LookUpFound,
                    LookUp::More { .. } => Seen::LookUpReadOn,
                    _ => Seen::LookUpAbsent,
                });
                live.doing = Doing::LookedUp(look_up);
            }
            Action::Send(call) => {
                live.call_id = call.call_id;
                live.doing = Doing::AwaitingAnswer;
                w.live[i] = live;
                return Some(call);
            }
            Action::End(end) => {
                w.end_run(number);
                match end {
                    RunEnd::Finished(response) if live.client => w.tell(&response),
                    RunEnd::Finished(_) => self.coverage.note(Seen::FinishedByAlarm),
                    RunEnd::Pending { .. } => self.coverage.note(Seen::LeftPending),
                    RunEnd::Interrupted { .. } => {}
                }
                return None;
            }
        }
        w.live[i] = live;
        None
    }

    fn put_on_wire(&self, w: &mut World, run: u8, call: Option<ProviderCall>) -> Option<()> {
        let Some(call) = call else { return Some(()) };
        w.left.sends = w.left.sends.checked_sub(1)?;
        self.coverage.note(Seen::Sent);
        let key = self.saboteur.wire_key(&call, u64::from(w.left.sends));
        let first = w.provider.first_executed_at(&key);
        if first.is_some_and(|first| w.now >= first + WINDOW_TICKS) {
            w.break_rule(Broken::SentPastWindow);
        }
        let same_key = w.wire.iter().find(|flight| *flight.key == *key);
        if same_key.is_some_and(|flight| *flight.body != *call.request.body) {
            w.break_rule(Broken::BytesChanged);
        }
        w.wire.push(Flight {
            sent_at: w.now,
            key: key.into(),
            body: call.request.body.into(),
            run: Some(run),
        });
        w.wire.sort();
        Some(())
    }

    fn deliver(&self, w: &mut World, i: u8, verdict: Decision, answered: bool) {
        let flight = w.wire.remove(usize::from(i));
        if w.provider.remembers(&flight.key, w.now) {
            self.coverage.note(Seen::ProviderReplayed);
        } else if verdict.is_upset() {
            w.left.upsets -= 1;
        }
        let answer = w.provider.take(&flight.key, &flight.body, w.now, verdict);
        if answer.body.contains("idempotency_error") {
            w.break_rule(Broken::BytesChanged);
        }
        if verdict == Decision::Reject {
            // The provider finds the same fault in every copy of the request. An earlier one is another matter.
            w.wire.retain(|other| other.sent_at != flight.sent_at || other.run.is_some());
        }
        if let Some(number) = flight.run.filter(|_| answered) {
            let live = &mut w.live[usize::from(number)];
            live.doing = Doing::Answered(read(&w.object_state, live.call_id, &answer));
        }
    }

    fn fail(&self, w: &mut World, number: u8) {
        let live = w.end_run(number);
        let mut state = (*w.object_state).clone();
        if self.saboteur.abandon(&live.run, &mut state, "an error", &self.context(w.now)).is_ok() {
            self.coverage.note(Seen::Interrupted);
            self.commit(w, state);
        }
    }

    fn fire_alarm(&self, w: &mut World) {
        let mut state = (*w.object_state).clone();
        let tokens = wake(&mut state, &me(), &self.context(w.now));
        self.commit(w, state);
        for token in tokens {
            self.coverage.note(Seen::TakenOverByAlarm);
            w.start_run(token, false);
        }
    }

    /// Commits the rows and the alarm, as the shell does, and keeps count of what was appended.
    fn commit(&self, w: &mut World, mut state: ObjectState) {
        let appended = std::mem::take(&mut state.appended);
        round_times(&mut state);
        // What it asks its provider days later is past the end of this world.
        if let Some(payment) = &mut state.resource.payment {
            payment.watch = None;
        }
        for (count, action) in w.effects.iter_mut().zip(EFFECTS) {
            let new = appended.facts.audit.iter().filter(|record| record.action == action).count();
            *count += u8::try_from(new).unwrap_or(u8::MAX);
        }
        let receipts = appended.jobs.iter().filter(|job| job.kind == JobKind::SendReceipt).count();
        w.effects[RECEIPTS] += u8::try_from(receipts).unwrap_or(u8::MAX);
        if went_back(&w.object_state, &state) {
            w.break_rule(Broken::WentBack);
        }
        w.alarm = wake_at(&self.saboteur.due(&state), &self.context(w.now)).map(tick);
        w.object_state = HashedState::new(state);
    }

    /// Whether the alarm alone brings every key to its end, if everything in memory and on the wire is lost now and no
    /// fault comes after.
    pub fn settles(&self, from: &World) -> bool {
        let hash = hash_of(&(from.now, &from.object_state, from.alarm, &from.provider));
        let known = &self.settles[usize::from(hash as u8)];
        if let Some(settles) = known.lock().unwrap().get(&hash) {
            return *settles;
        }
        let settles = self.drive_to_end(from);
        known.lock().unwrap().insert(hash, settles);
        settles
    }

    fn drive_to_end(&self, from: &World) -> bool {
        let mut w = from.clone();
        w.crash(true);
        w.live.clear();
        w.wire.clear();
        w.left.sends = u8::MAX;
        for _ in 0..256 {
            if !w.is_open() {
                return true;
            }
            let busy = (!w.live.is_empty()).then_some(0);
            match busy {
                Some(n) => {
                    let flight = self.step(&mut w, n);
                    let sent = flight.is_some();
                    if self.put_on_wire(&mut w, n, flight).is_none() {
                        return false;
                    }
                    if sent {
                        self.deliver(&mut w, 0, Decision::Charge, true);
                    }
                }
                None => match w.alarm {
                    None => return false,
                    Some(at) if at <= w.now => self.fire_alarm(&mut w),
                    Some(at) => w.now = at,
                },
            }
        }
        false
    }
}

fn command(parameters: &str) -> Command {
    let parameters = Canonical(parameters.into());
    Command {
        owner: Owner::Account("a".into()),
        key_hash: KeyHash("k".into()),
        fingerprint: Fingerprint::of("POST", "/payments", &parameters),
        parameters,
        operation: Operation::Payment(Box::new(PaymentRequest {
            amount: AmountMinor::new(AMOUNT_MINOR).unwrap(),
            currency: Currency::USD,
            capture: true,
            order_id: None,
            description: None,
            metadata: Vec::new(),
            route: Route {
                provider: Name::Stripe,
                payment_method: "pm".into(),
                customer: None,
                merchant_account: None,
            },
            fallback: None,
            return_url: None,
            receipt_email: Some("ada@example.com".into()),
            receipt_content: Default::default(),
            origin: "https://pay.example".into(),
            return_key: None,
            page: None,
            link_revision: None,
        })),
        channel: Channel::Api,
        request_id: RequestId("req".into()),
        may_start: true,
        by: None,
        trace: None,
    }
}
