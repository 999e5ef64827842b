//! Runs, step by step; the alarm, which begins them without any client; and the questions about what is open at the provider.

use once::alarm::wake;
use once::record::FencingToken;
use once::step::StepError;
use payments::engine::{Action, Event as Input, LookUp, RecoveryPoint, Run};
use payments::payment::operation::Point;
use payments::payment::result::ProviderResult;
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::providers::HttpAnswer;
use payments::transitions::answers::Ended;
use payments::transitions::polling::{self, Asker};

use super::world::{Event, Reached, Transacted, World};
use crate::faults::{Boundary, Fault, SECOND};
use crate::history::{Active, Answer, Request, broken_page, look_up_counter};
use crate::invariants::Writer;
use crate::store::has_open_key;

impl World {
    pub(crate) fn start(
        &mut self,
        token: FencingToken,
        instance: usize,
        patience_until_ms: u64,
        fails: bool,
        waiting: Vec<Request>,
    ) {
        let fail_at: &[RecoveryPoint] = if fails { &[RecoveryPoint::At(Point::Reserved)] } else { &[] };
        let run = Run::new(token, patience_until_ms, fail_at);
        // What is to strike between two steps needs each of them by itself.
        let active = Active::new(run, instance, self.in_turns && !fails, waiting);
        let number = self.begin_run(active);
        self.after(0, Event::Step { run: number, input: Input::Go });
    }

    /// A run is in its incarnation's memory. Gives its number.
    pub(crate) fn begin_run(&mut self, active: Active) -> u32 {
        if active.token.attempt > 1 {
            self.counters.count("takeovers");
        }
        self.after(SECOND, Event::Drain { instance: active.instance });
        self.runs.begin(active)
    }

    /// One transaction of a run, and what it says to do.
    pub(crate) fn step(&mut self, number: u32, input: Input) {
        let Some(mut active) = self.runs.remove(number) else {
            return;
        };
        let instance = active.instance;
        let object = self.instances[instance].object;
        if has_open_key(&self.objects[object].store.object_state, self.now_ms, &|call, sends| {
            self.auditor.is_refused_for_certain(call, sends)
        }) {
            self.is_busy();
        }
        let again = |_| Event::Step { run: number, input: input.clone() };
        let fault = match self.reach(object, Some(instance), again) {
            Reached::Awake(_, fault) => fault,
            _ => {
                self.runs.insert(number, active);
                return;
            }
        };
        if fault == Some(Fault::RunDropped) {
            self.counters.count("runs dropped");
            return;
        }
        let FencingToken { key_id, attempt, holder } = active.token.clone();
        let writer = Writer::Run { key: key_id, attempt, holder: holder.0.clone() };
        self.tell(|| format!("  key {key_id}, attempt {attempt} in {}: {input:?}", holder.0));
        let saboteur = self.saboteur;
        let body = |state: &mut _, ctx: &_, _: &_| active.advance(saboteur, state, input.clone(), ctx);
        let mut result = self.transact(instance, fault, writer.clone(), body, |_, _, _| {});
        if let Transacted::Failed(StepError::Bug(bug)) = &result {
            self.auditor.bug(&bug.to_string());
            let body = |state: &mut _, ctx: &_, _: &_| saboteur.abandon(&active.run, state, "a bug", ctx);
            result = self.transact(instance, None, writer, body, |_, _, _| {});
        }
        match result {
            Transacted::Crashed => self.end(active, &Answer::plain("reset")),
            Transacted::Failed(_) => {
                self.counters.count("stale runs fenced off");
                self.end(active, &Answer::plain("pending"));
            }
            Transacted::Done(action, object_now_ms) => {
                self.runs.insert(number, active);
                if matches!(input, Input::Outcome(..))
                    && let Some((exchange, arrives_within_ms)) = self.refusals.remove(&number)
                {
                    self.auditor.refused_for_certain(exchange, arrives_within_ms);
                }
                self.act(number, action, object_now_ms);
            }
        }
    }

    /// What a run says is done.
    pub(crate) fn act(&mut self, run: u32, action: Action, object_now_ms: u64) {
        let delay_ms = match action {
            Action::Again => self.rng.between(0, 2),
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
        self.after(0, Event::Drain { instance: active.instance });
        for request in active.waiting {
            self.reply(request, answer.clone());
        }
    }

    pub(crate) fn looked_up(&mut self, run: u32, call_id: u32, look_up: LookUp) {
        self.counters.count(look_up_counter(&look_up));
        if matches!(&look_up, LookUp::Found(reply) if matches!(reply.result, ProviderResult::Moved { .. })) {
            self.counters.count("look-ups: found, moved by others");
        }
        self.after(0, Event::Step { run, input: Input::LookedUp(call_id, look_up) });
    }

    /// The alarm is about to ring.
    pub(crate) fn alarm(&mut self, object: usize, set: u64) {
        let it = &self.objects[object];
        if set != it.alarm_set {
            return;
        }
        if self.now_ms < it.dark_until_ms {
            return self.after(it.dark_until_ms - self.now_ms, Event::Alarm { object, set });
        }
        let lead_ms = it.alarm_lead_ms;
        let is_over = !has_open_key(&it.store.object_state, self.now_ms, &|_, _| false);
        match self.fault(Boundary::Alarm) {
            Some(Fault::AlarmEarly) => {
                self.counters.count("alarms early");
                if is_over && lead_ms > 0 {
                    self.counters.count("alarms early, for a finished key");
                }
                self.ring(object, set);
            }
            Some(Fault::AlarmLate { ms }) => {
                self.counters.count("alarms late");
                self.after(lead_ms + ms, Event::Ring { object, set });
            }
            // Nobody hears of it: the object goes on to believe that it is set.
            Some(Fault::AlarmLost { sweep_ms }) => {
                self.counters.count("alarms lost, swept");
                self.objects[object].alarm_set += 1;
                self.after(lead_ms + sweep_ms, Event::Sweep { object });
            }
            Some(Fault::AlarmTwice) => {
                self.counters.count("alarms twice");
                if is_over {
                    self.counters.count("alarms twice, for a finished key");
                }
                self.after(lead_ms + 5, Event::Wake { object, to: None });
                self.after(lead_ms, Event::Ring { object, set });
            }
            _ => self.after(lead_ms, Event::Ring { object, set }),
        }
    }

    pub(crate) fn ring(&mut self, object: usize, set: u64) {
        if set == self.objects[object].alarm_set {
            self.wake(object, None);
        }
    }

    pub(crate) fn wake(&mut self, object: usize, to: Option<usize>) {
        let again = Event::Wake { object, to: None };
        let (instance, fault) = match self.reach(object, to, |to| Event::Wake { object, to: Some(to) }) {
            Reached::Dark => return self.after(self.objects[object].dark_until_ms - self.now_ms, again),
            Reached::Dead => return self.after(2 * SECOND, again),
            // The platform rings again where an alarm's handler has not ended.
            Reached::Paused => return self.after(30 * SECOND, again),
            Reached::Asleep => return,
            Reached::Awake(instance, fault) => (instance, fault),
        };
        self.objects[object].store.alarm_fired(instance);
        if !self.take_up(object, instance, fault) {
            self.after(2 * SECOND, again);
        }
    }

    /// The same, while the alarm stays set: what breaks off here is the alarm's.
    pub(crate) fn stir(&mut self, instance: usize) {
        let object = self.instances[instance].object;
        let again = |instance| Event::Stir { instance };
        if let Reached::Awake(_, fault) = self.reach(object, Some(instance), again) {
            self.take_up(object, instance, fault);
        }
    }

    /// Takes up what is due. `false`: the incarnation has died of it.
    fn take_up(&mut self, object: usize, instance: usize, fault: Option<Fault>) -> bool {
        self.counters.count("wakes");
        let body = |state: &mut _, ctx: &_, me: &_| Ok(wake(state, me, ctx));
        let tokens = match self.transact(instance, fault, Writer::Taker, body, |_, _, _| {}) {
            Transacted::Done(tokens, _) => tokens,
            Transacted::Crashed => return false,
            Transacted::Failed(error) => {
                self.auditor.bug(&error.to_string());
                return true;
            }
        };
        self.tell(|| format!("  alarm in object {object}: {tokens:?}"));
        self.after(0, Event::Drain { instance });
        if fault == Some(Fault::RunDropped) {
            return true;
        }
        for token in tokens {
            self.start(token, instance, 0, false, Vec::new());
        }
        if self.objects[object]
            .store
            .object_state
            .resource
            .payment
            .as_ref()
            .and_then(polling::due_at_ms)
            .is_some()
        {
            self.after(0, Event::Check { object, to: Some(instance), asker: Asker::Background });
        }
        true
    }

    /// Somebody looks, or the alarm does: what is open at the provider is asked for.
    pub(crate) fn check(&mut self, object: usize, to: Option<usize>, asker: Asker) {
        let again = |to| Event::Check { object, to: Some(to), asker };
        let Reached::Awake(instance, fault) = self.reach(object, to, again) else {
            return;
        };
        let body = |state: &mut _, ctx: &_, _: &_| Ok(polling::begin(state, asker, ctx));
        let begun = self.transact(instance, fault, Writer::Check, body, |_, _, _| {});
        if let Transacted::Done(questions, _) = begun {
            self.counters.count(match asker {
                Asker::Waiting => "looks",
                Asker::Background => "looks by the alarm",
            });
            self.after(0, Event::Ask { instance, questions });
        }
    }

    pub(crate) fn ask(&mut self, instance: usize, questions: Vec<StatusQuery>) {
        let Some(question) = questions.first().filter(|_| self.instances[instance].alive) else {
            return self.after(0, Event::Drain { instance });
        };
        self.counters.count("questions");
        let path = question.provider().question_request(question).map(|ask| ask.path);
        let answer = match self.fault(Boundary::Page) {
            Some(Fault::PageLost) => None,
            fault => {
                let secret = self.instances[instance].secret;
                broken_page(fault).or_else(|| path.map(|path| self.get_with(secret, &path)))
            }
        };
        let before = Ended::of(&self.objects[self.instances[instance].object].store.object_state);
        let transit_ms = self.rng.between(10, 300);
        let answer = answer.map(Box::new);
        self.after(transit_ms, Event::StatusReply { instance, questions, before, answer });
    }

    pub(crate) fn told(
        &mut self,
        instance: usize,
        mut questions: Vec<StatusQuery>,
        before: Ended,
        answer: Option<Box<HttpAnswer>>,
    ) {
        let object = self.instances[instance].object;
        let again = |_| {
            let (questions, answer) = (questions.clone(), answer.clone());
            Event::StatusReply { instance, questions, before, answer }
        };
        let Reached::Awake(_, fault) = self.reach(object, Some(instance), again) else {
            return;
        };
        let question = questions.remove(0);
        let status_reply = answer.map_or(StatusReply::NoAnswer, |answer| {
            question.provider().read_status_reply(&question, &answer)
        });
        self.tell(|| format!("  told about {question:?}: {status_reply:?}"));
        let saboteur = self.saboteur;
        let body = |state: &mut _, ctx: &_, _: &_| {
            Ok(saboteur.take(state, &question, before, status_reply.clone(), ctx)?)
        };
        let keys = self.objects[object].store.object_state.keys.len();
        let transacted = self.transact(instance, fault, Writer::Check, body, |_, _, _| {});
        // What was found is given back from now on.
        if self.objects[object].store.object_state.keys.len() > keys {
            self.is_busy();
            self.calm_from_ms = self.calm_from_ms.max(self.now_ms);
        }
        match transacted {
            Transacted::Done(next, _) => {
                let questions = next.into_iter().chain(questions).collect();
                self.after(0, Event::Ask { instance, questions });
            }
            Transacted::Failed(error) => self.auditor.bug(&error.to_string()),
            Transacted::Crashed => {}
        }
    }
}
