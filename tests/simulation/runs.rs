//! Runs, step by step, and the alarm that begins them without any client.

use once::alarm::wake;
use once::record::FencingToken;
use once::step::StepError;
use payments::flows::Point;
use payments::flows::engine::{Action, Event as Input, LookUp, RecoveryPoint, Run};

use crate::faults::{Boundary, Fault, SECOND};
use crate::history::{Active, Answer, Request, crashes, look_up_counter};
use crate::invariants::Writer;
use crate::store::has_open_key;
use crate::world::{Event, World};

impl World {
    pub(crate) fn start(
        &mut self,
        ticket: FencingToken,
        instance: usize,
        patience_until_ms: u64,
        fail_at: Option<RecoveryPoint>,
        waiting: Vec<Request>,
    ) {
        let in_turns = self.in_turns && fail_at.is_none();
        let fail_at: &[RecoveryPoint] = match fail_at {
            Some(RecoveryPoint::At(Point::RideCreated)) => &[RecoveryPoint::At(Point::RideCreated)],
            Some(RecoveryPoint::At(Point::ChargeCreated)) => &[RecoveryPoint::At(Point::ChargeCreated)],
            Some(RecoveryPoint::Started) => &[RecoveryPoint::Started],
            _ => &[],
        };
        // What is to strike between two steps needs each of them by itself.
        let run = Run::new(ticket, patience_until_ms, fail_at);
        let number = self.begin_run(Active::new(run, instance, in_turns, waiting));
        self.after(0, Event::Step { run: number, input: Input::Go });
    }

    /// A run is in its incarnation's memory. Gives its number.
    pub(crate) fn begin_run(&mut self, active: Active) -> u32 {
        if active.ticket.attempt > 1 {
            self.counters.count("takeovers");
        }
        self.runs.begin(active)
    }

    /// One transaction of a run, and what it says to do.
    pub(crate) fn step(&mut self, number: u32, input: Input) {
        let Some(mut active) = self.runs.remove(number) else {
            return;
        };
        let instance = active.instance;
        let asleep_ms = self.instances[instance].asleep_until_ms.saturating_sub(self.now_ms);
        let again = Event::Step { run: number, input: input.clone() };
        if asleep_ms > 0 {
            self.runs.insert(number, active);
            return self.after(asleep_ms, again);
        }
        let fault = self.fault(Boundary::Transaction);
        if fault == Some(Fault::RunDropped) {
            self.counters.count("runs dropped");
            return;
        }
        if !self.enter(instance, fault, again) {
            self.runs.insert(number, active);
            return;
        }
        let ctx = self.context(instance);
        let writer = Writer::Run {
            key: active.ticket.key_id,
            attempt: active.ticket.attempt,
            holder: active.ticket.holder.0.clone(),
        };
        self.tell(|| format!("  attempt {} in {}: {input:?}", active.ticket.attempt, active.ticket.holder.0));
        let saboteur = self.saboteur;
        let mut result =
            self.store.transaction(&ctx, instance, |rows| active.advance(saboteur, rows, input, &ctx));
        if let Err(StepError::Bug(bug)) = &result {
            self.auditor.bug(&bug.to_string());
            result = self
                .store
                .transaction(&ctx, instance, |rows| saboteur.abandon(&active.run, rows, "a bug", &ctx));
        }
        if let Some(dark_ms) = crashes(fault, false) {
            self.runs.insert(number, active);
            return self.crash(instance, dark_ms);
        }
        let Ok((action, staged)) = result else {
            self.counters.count("stale runs fenced off");
            return self.end(active, &Answer::plain("pending"));
        };
        self.commit(staged, writer, &ctx, instance);
        if let Some(dark_ms) = crashes(fault, true) {
            self.runs.insert(number, active);
            return self.crash(instance, dark_ms);
        }
        self.runs.insert(number, active);
        self.act(number, action, ctx.now_ms);
    }

    /// What a run says is done.
    pub(crate) fn act(&mut self, run: u32, action: Action, object_now_ms: u64) {
        let delay_ms = match action {
            Action::Again => self.dice.between(0, 2),
            Action::SleepUntil(until_ms) => until_ms.saturating_sub(object_now_ms),
            Action::Send(call) => return self.send(run, &call),
            Action::LookUp(call) => return self.look_up(run, call),
            Action::End(end) => {
                let Some(active) = self.runs.remove(run) else { return };
                return self.end(active, &Answer::ending(&end));
            }
        };
        self.after(delay_ms, Event::Step { run, input: Input::Go });
    }

    fn end(&mut self, active: Active, answer: &Answer) {
        if answer.label == "interrupted" {
            self.counters.count("runs interrupted by an error");
        }
        for request in active.waiting {
            self.reply(request, answer.clone());
        }
    }

    pub(crate) fn looked_up(&mut self, run: u32, call_id: u32, look_up: LookUp) {
        self.counters.count(look_up_counter(&look_up));
        self.after(0, Event::Step { run, input: Input::LookedUp(call_id, look_up) });
    }

    /// The alarm is about to ring.
    pub(crate) fn alarm(&mut self, set: u64) {
        if set != self.alarm_set {
            return;
        }
        if self.now_ms < self.dark_until_ms {
            return self.after(self.dark_until_ms - self.now_ms, Event::Alarm { set });
        }
        let over = !has_open_key(&self.store.rows, self.now_ms, &|_| false);
        let lead_ms = self.alarm_lead_ms;
        match self.fault(Boundary::Alarm) {
            Some(Fault::AlarmEarly) => {
                self.counters.count("alarms early");
                if over && lead_ms > 0 {
                    self.counters.count("alarms early, for a finished key");
                }
                self.ring(set);
            }
            Some(Fault::AlarmLate { ms }) => {
                self.counters.count("alarms late");
                self.after(lead_ms + ms, Event::Ring { set });
            }
            // Nobody hears of it: the object goes on to believe that it is set.
            Some(Fault::AlarmLost { sweep_ms }) => {
                self.counters.count("alarms lost, swept");
                self.alarm_set += 1;
                self.after(lead_ms + sweep_ms, Event::Wake { instance: None });
            }
            Some(Fault::AlarmTwice) => {
                self.counters.count("alarms twice");
                if over {
                    self.counters.count("alarms twice, for a finished key");
                }
                self.after(lead_ms + 5, Event::Wake { instance: None });
                self.after(lead_ms, Event::Ring { set });
            }
            _ => self.after(lead_ms, Event::Ring { set }),
        }
    }

    pub(crate) fn ring(&mut self, set: u64) {
        if set == self.alarm_set {
            self.wake(None);
        }
    }

    pub(crate) fn wake(&mut self, instance: Option<usize>) {
        if self.now_ms < self.dark_until_ms {
            return self.after(self.dark_until_ms - self.now_ms, Event::Wake { instance });
        }
        let instance = instance.unwrap_or_else(|| self.current());
        if !self.instances[instance].alive {
            return self.after(2 * SECOND, Event::Wake { instance: None });
        }
        let asleep_ms = self.instances[instance].asleep_until_ms.saturating_sub(self.now_ms);
        if asleep_ms > 0 {
            return self.after(asleep_ms, Event::Wake { instance: Some(instance) });
        }
        self.counters.count("wakes");
        let fault = self.fault(Boundary::Transaction);
        if !self.enter(instance, fault, Event::Wake { instance: Some(instance) }) {
            // The platform rings again where an alarm's handler has not ended.
            return self.after(30 * SECOND, Event::Wake { instance: None });
        }
        self.store.alarm_fired(instance);
        let ctx = self.context(instance);
        let me = self.instances[instance].id.clone();
        let result: Result<_, StepError> =
            self.store.transaction(&ctx, instance, |rows| Ok(wake(rows, &me, &ctx)));
        if let Some(dark_ms) = crashes(fault, false) {
            self.after(2 * SECOND, Event::Wake { instance: None });
            return self.crash(instance, dark_ms);
        }
        let Ok((tickets, staged)) = result else { return };
        self.tell(|| format!("  alarm in {}: {tickets:?}", me.0));
        self.commit(staged, Writer::Taker, &ctx, instance);
        if let Some(dark_ms) = crashes(fault, true) {
            return self.crash(instance, dark_ms);
        }
        if fault == Some(Fault::RunDropped) {
            return;
        }
        for ticket in tickets {
            self.start(ticket, instance, 0, None, Vec::new());
        }
    }
}
