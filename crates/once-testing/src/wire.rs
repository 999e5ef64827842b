//! The way of a call to the provider and back.

use once::by_provider::Refusal;
use once::call::{CallState, LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope, RetryPolicy};
use once::domain::Answer as _;
use once::run::Event as Input;

use crate::commit::Committed;
use crate::fault::{Fault, Meets, Outage, Site};
use crate::provider::{accepted, failed, no_answer, not_executed, taken_in, timed_out};
use crate::saboteur::Saboteur;
use crate::scenario::Scenario;
use crate::world::{Answer, Event, Flow, WAY_MS, World};

/// How much longer than the provider keeps a key it is away, in ms.
const AWAY_MS: u64 = 600_000;
/// How soon a provider tells again what was not taken, in ms; the pause is doubled each time.
const TELLS_AGAIN_MS: u64 = 60_000;
/// How often it tells the same again.
const TELLS_MAX: u32 = 6;
/// How many faults can happen while the provider is away: what comes later is the same again and again.
const PLACES_AWAY: usize = 6;

impl<S: Scenario> World<'_, S> {
    /// What is sent was committed before, with the mark that a send begins.
    pub(crate) fn must_be_written(&self, call: &ProviderCall<Flow<S>>) -> Result<(), String> {
        let kept = self.object_state.call(call.call_id);
        let is_written = kept.is_some_and(|kept| {
            let is_same = kept.request == call.request && kept.provider_key == call.provider_key;
            is_same && kept.sends == call.sends && kept.state == CallState::InFlight
        });
        if is_written { Ok(()) } else { Err(format!("{} is sent before it is written down", call.name)) }
    }

    /// How much later one comes that is late, in ms: just as late as the quiet time allows for, with the clocks of two incarnations on
    /// its two sides and a run that has stalled before it sent.
    fn late_ms(&self) -> u64 {
        let stall_ms = self.times.lease_ms + 2_000;
        let most_ms = self.times.quiet_ms.saturating_sub(2 * self.clock_off_ms()).saturating_sub(stall_ms);
        most_ms.max(self.times.provider_timeout_ms + WAY_MS)
    }

    /// How the provider is away, if it is.
    pub(crate) fn outage(&self) -> Option<Fault> {
        self.outage.filter(|outage| self.now_ms < outage.until_ms).map(|outage| outage.how)
    }

    /// What goes wrong with a send: while the provider is away that.
    fn fault_of_send(&mut self, call: &ProviderCall<Flow<S>>) -> Option<Fault> {
        if let Some(how) = self.outage() {
            return Some(how);
        }
        let is_refusable = self.scenario.refuse(call).is_some();
        let fault = self.site(if is_refusable { Site::RefusableSend } else { Site::Send })?;
        if fault.is_outage() {
            let until_ms = self.now_ms + self.scenario.keeps_ms(call) + AWAY_MS;
            self.outage = Some(Outage { how: fault, until_ms, places_left: PLACES_AWAY });
        }
        let is_protected = call.retry_policy != RetryPolicy::AtMostOnce && self.scenario.keeps_ms(call) > 0;
        // What nothing protects from copies has none.
        (fault != Fault::RequestTwice || is_protected).then_some(fault)
    }

    pub(crate) fn send(
        &mut self,
        run: u32,
        call: ProviderCall<Flow<S>>,
        stall_ms: u64,
    ) -> Result<(), String> {
        let instance = self.instance;
        self.keys_sent.insert(call.provider_key.clone());
        let key = match self.saboteur {
            Some(Saboteur::ProviderKey) => format!("{}_{}", call.provider_key, self.events_made),
            _ => call.provider_key.clone(),
        };
        self.tell(format_args!("{} is sent: {}", call.name, call.sends));
        let outcome = |outcome| Event::Step { instance, run, input: Input::Outcome(call.call_id, outcome) };
        let times_out_ms = stall_ms + self.times.provider_timeout_ms;
        let arrives = |meets, asked_by| {
            let (key, call) = (key.clone(), Box::new(call.clone()));
            Event::Arrive { key, call, meets, asked_by }
        };
        let (heard, unheard) = (Some((instance, run)), None);
        let (soon_ms, late_ms) = (stall_ms + WAY_MS, stall_ms + self.late_ms());
        match self.fault_of_send(&call) {
            Some(Fault::RequestLost | Fault::Unreachable) => self.after(times_out_ms, outcome(timed_out())),
            Some(Fault::AnswerLost | Fault::Silent) => {
                self.after(soon_ms, arrives(Meets::Execution, unheard));
                self.after(times_out_ms, outcome(timed_out()));
            }
            Some(Fault::RequestLate) => {
                self.after(late_ms, arrives(Meets::Execution, unheard));
                self.after(times_out_ms, outcome(timed_out()));
            }
            Some(Fault::RequestTwice) => {
                self.after(soon_ms, arrives(Meets::Execution, heard));
                self.after(late_ms, arrives(Meets::Execution, unheard));
            }
            Some(Fault::Limited) => self.after(soon_ms, outcome(not_executed(RefusalScope::Copy))),
            Some(Fault::LimitedOnce) => {
                self.after(soon_ms, outcome(not_executed(RefusalScope::Copy)));
                self.after(late_ms, arrives(Meets::Execution, unheard));
            }
            Some(Fault::KeyUnused) => self.after(soon_ms, arrives(Meets::KeyUnused, heard)),
            Some(Fault::Locked) => self.after(soon_ms, outcome(not_executed(RefusalScope::Send))),
            Some(Fault::Refused) => self.after(soon_ms, arrives(Meets::Refusal, heard)),
            Some(Fault::FailsExecuting) => {
                self.after(soon_ms, arrives(Meets::Execution, unheard));
                self.after(soon_ms + WAY_MS, outcome(failed(false)));
            }
            Some(Fault::CompletesLater) => self.after(soon_ms, arrives(Meets::Failure, heard)),
            Some(Fault::CompletesLaterUnheard) => {
                self.after(soon_ms, arrives(Meets::Failure, unheard));
                self.after(times_out_ms, outcome(timed_out()));
            }
            Some(Fault::CrashWhileCalling) => {
                self.after(soon_ms, arrives(Meets::Execution, unheard));
                self.crash()?;
            }
            _ => self.after(soon_ms, arrives(Meets::Execution, heard)),
        }
        Ok(())
    }

    /// A copy of a send arrives.
    pub(crate) fn arrive(
        &mut self,
        key: &str,
        call: Box<ProviderCall<Flow<S>>>,
        meets: Meets,
        asked_by: Option<(u32, u32)>,
    ) -> Result<(), String> {
        if meets == Meets::Completion {
            self.provider.complete(key);
        }
        let name = call.name.clone();
        let outcome = match self.provider.known(key, &call, (self.now_ms, self.scenario.keeps_ms(&call)))? {
            Some(Outcome::Definitive(_)) if self.scenario.accepts_for_ms(&call).is_some() => accepted(),
            Some(Outcome::Definitive(kept)) => self.scenario.say_again(&call, kept),
            Some(known) => known,
            None => self.meet(key, &call, meets)?,
        };
        self.tell(format_args!("{name} meets {meets:?}: {}", Outcome::name(&outcome)));
        if let Some((instance, run)) = asked_by {
            self.after(WAY_MS, Event::Step { instance, run, input: Input::Outcome(call.call_id, outcome) });
        }
        Ok(())
    }

    /// The same, under a key of which the provider does not know.
    fn meet(
        &mut self,
        key: &str,
        call: &ProviderCall<Flow<S>>,
        meets: Meets,
    ) -> Result<Outcome<Answer<S>>, String> {
        // What was refused before is not failed with: that it is not there is believed sooner then.
        let was_refused = self.provider.refused.contains(&call.provider_key);
        match meets {
            Meets::KeyUnused => Ok(not_executed(RefusalScope::Key)),
            Meets::Failure if !was_refused => {
                let completes = Event::Arrive {
                    key: key.to_owned(),
                    call: Box::new(call.clone()),
                    meets: Meets::Completion,
                    asked_by: None,
                };
                self.after(self.times.quarantine_ms / 2, completes);
                Ok(self.provider.fail(key))
            }
            Meets::Refusal => match self.scenario.refuse(call) {
                Some(answer) => Ok(self.provider.refuse(call, answer)),
                None => Err(format!("{} can't be refused", call.name)),
            },
            Meets::Execution | Meets::Failure | Meets::Completion => {
                if self.provider.executed(call).is_some() {
                    return Err(format!("{} was executed twice", call.name));
                }
                self.is_no_repetition(call)?;
                let answer = self.scenario.execute(call);
                let accepts_for_ms = self.scenario.accepts_for_ms(call);
                if accepts_for_ms.is_some() || self.scenario.tells_by_itself() {
                    let (call, answer) = (Box::new(call.clone()), answer.clone());
                    self.after(accepts_for_ms.unwrap_or(WAY_MS / 2), Event::Tell { call, answer, tries: 0 });
                }
                let answered = self.provider.execute(key, call, self.now_ms, answer);
                Ok(if accepts_for_ms.is_some() { accepted() } else { answered })
            }
        }
    }

    /// A flow that gives a call another name makes it again, under a key of which the provider knows nothing.
    fn is_no_repetition(&self, call: &ProviderCall<Flow<S>>) -> Result<(), String> {
        let is_same = |first: &ProviderCall<Flow<S>>| {
            (first.key_id, first.kind, first.provider, &first.request)
                == (call.key_id, call.kind, call.provider, &call.request)
        };
        let mut done = self.provider.executions.iter().filter(|made| !made.answer.is_refusal());
        match done.find(|made| is_same(&made.call) && !self.scenario.may_repeat(&made.call, call)) {
            None => Ok(()),
            Some(made) => Err(format!(
                "{} is executed once more, as {}, with the same request (`may_repeat`)",
                made.call.name, call.name
            )),
        }
    }

    /// The object is told by the provider what that has executed. A provider repeats what is not taken, for some hours.
    pub(crate) fn told_by_provider(
        &mut self,
        call: Box<ProviderCall<Flow<S>>>,
        answer: Answer<S>,
        tries: u32,
    ) -> Result<(), String> {
        let (call_id, me) = (call.call_id, self.me());
        let reply = ProviderReply { status: 200, result: answer.clone(), request_id: None };
        let told = self.transaction(|state, ctx| Ok(state.settle_by_provider(call_id, reply, &me, ctx)))?;
        self.tell(format_args!("{} is told of by the provider", call.name));
        let comes_again = match told {
            Committed::Done { value, .. } => value.is_err_and(Refusal::comes_again),
            Committed::Died | Committed::Fenced | Committed::Failed => true,
        };
        if comes_again && tries < TELLS_MAX {
            self.after(TELLS_AGAIN_MS << tries, Event::Tell { call, answer, tries: tries + 1 });
        }
        Ok(())
    }

    /// What happens beside the runs. Whoever brings it is not answered by an incarnation that dies, and repeats it.
    pub(crate) fn happens_aside(&mut self, number: usize) -> Result<(), String> {
        let scenario = self.scenario;
        let happened = self.transaction(|state, ctx| Ok(scenario.happens(number, state, ctx)?))?;
        self.tell(format_args!("event {number}"));
        match happened {
            Committed::Done { .. } => self.drain(),
            Committed::Died | Committed::Fenced | Committed::Failed => {
                self.after(TELLS_AGAIN_MS, Event::Happens { number });
                Ok(())
            }
        }
    }

    /// The provider is asked what became of a call: when it reads, and what comes back then.
    pub(crate) fn read(
        &mut self,
        (instance, run): (u32, u32),
        call: &ProviderCall<Flow<S>>,
        fault: Option<Fault>,
    ) {
        let made_ms = self.provider.executed(call).map(|made| made.at_ms);
        let decided_ms =
            made_ms.zip(self.scenario.accepts_for_ms(call)).map(|(at_ms, for_ms)| at_ms + for_ms);
        let look_up = match self.provider.look_up(call, fault, self.now_ms) {
            LookUp::Found(_) if decided_ms.is_some_and(|at_ms| self.now_ms < at_ms) => {
                LookUp::Unconfirmed(taken_in())
            }
            look_up => look_up,
        };
        self.tell(format_args!("look-up: {}", look_up.name()));
        let way_ms = match fault {
            Some(Fault::LookUpSlow) => self.times.provider_timeout_ms.saturating_sub(2 * WAY_MS),
            _ => WAY_MS,
        };
        self.after(way_ms, Event::Step { instance, run, input: Input::LookedUp(call.call_id, look_up) });
    }

    /// What goes wrong with a page of a look-up; or what comes of it, where the provider is not asked.
    pub(crate) fn fault_of_look_up(
        &mut self,
        lacks_client: bool,
    ) -> Result<Option<Fault>, LookUp<Answer<S>>> {
        if lacks_client {
            return Err(LookUp::NoClient { reason: "no client is there".to_owned() });
        }
        if self.outage().is_some() {
            return Err(no_answer());
        }
        match self.site(Site::LookUp) {
            Some(Fault::LookUpFails) => Err(no_answer()),
            fault => Ok(fault),
        }
    }
}
