//! The way of a call to the provider and back.

use once::call::{CallState, Outcome, ProviderCall};
use once::run::Event as Input;

use crate::plan::{Fault, Site};
use crate::provider::{Execution, failed, limited, timed_out};
use crate::saboteur::Saboteur;
use crate::scenario::Scenario;
use crate::world::{Event, Flow, WAY_MS, World};

/// How much later one comes that is late, in ms: long after its call has timed out, well before nobody expects it any more.
const LATE_MS: u64 = 300_000;

impl<S: Scenario> World<'_, S> {
    /// What is sent was committed before, with the mark that a send begins.
    pub(crate) fn must_be_written(&self, call: &ProviderCall<Flow<S>>) -> Result<(), String> {
        let kept = self.object_state.calls.iter().find(|kept| kept.call_id == call.call_id);
        let is_written = kept.is_some_and(|kept| {
            let is_same = kept.request == call.request && kept.provider_key == call.provider_key;
            is_same && kept.sends == call.sends && kept.state == CallState::InFlight
        });
        if is_written { Ok(()) } else { Err(format!("{} is sent before it is written down", call.name)) }
    }

    pub(crate) fn send(&mut self, run: u32, call: ProviderCall<Flow<S>>, stall_ms: u64) {
        let instance = self.instance;
        let key = match self.saboteur {
            Some(Saboteur::ProviderKey) => format!("{}_{}", call.provider_key, self.events_made),
            _ => call.provider_key.clone(),
        };
        self.tell(&format!("{} is sent: {}", call.name, call.sends));
        let outcome = |outcome| Event::Step { instance, run, input: Input::Outcome(call.call_id, outcome) };
        let times_out_ms = stall_ms + self.times.provider_timeout_ms;
        let arrives = |asked_by| Event::Arrive { key: key.clone(), call: Box::new(call.clone()), asked_by };
        let (heard, unheard) = (Some((instance, run)), None);
        match self.site(Site::Send) {
            Some(Fault::RequestLost) => self.after(times_out_ms, outcome(timed_out())),
            Some(Fault::AnswerLost) => {
                self.after(stall_ms + WAY_MS, arrives(unheard));
                self.after(times_out_ms, outcome(timed_out()));
            }
            Some(Fault::RequestLate) => {
                self.after(stall_ms + LATE_MS, arrives(unheard));
                self.after(times_out_ms, outcome(timed_out()));
            }
            Some(Fault::RequestTwice) => {
                self.after(stall_ms + WAY_MS, arrives(heard));
                self.after(stall_ms + LATE_MS, arrives(unheard));
            }
            Some(Fault::Limited) => self.after(stall_ms + WAY_MS, outcome(limited())),
            Some(Fault::FailsExecuting) => {
                self.after(stall_ms + WAY_MS, arrives(unheard));
                self.after(stall_ms + 2 * WAY_MS, outcome(failed()));
            }
            Some(Fault::CrashWhileCalling) => {
                self.after(stall_ms + WAY_MS, arrives(unheard));
                self.crash();
            }
            _ => self.after(stall_ms + WAY_MS, arrives(heard)),
        }
    }

    pub(crate) fn arrive(
        &mut self,
        key: &str,
        call: &ProviderCall<Flow<S>>,
        asked_by: Option<(u32, u32)>,
    ) -> Result<(), String> {
        let executed = self.provider.executions.len();
        let scenario = self.scenario;
        let outcome = self.provider.arrive(key, call, self.now_ms, |call| scenario.execute(call))?;
        if self.provider.executions.len() > executed {
            self.tell(&format!("{} is executed: {}", call.name, Outcome::name(&outcome)));
        }
        let again = |made: &&Execution<_>| made.call.provider_key == call.provider_key;
        if self.provider.executions.iter().filter(again).count() > 1 {
            return Err(format!("{} was executed twice", call.name));
        }
        if let Some((instance, run)) = asked_by {
            self.after(WAY_MS, Event::Step { instance, run, input: Input::Outcome(call.call_id, outcome) });
        }
        Ok(())
    }
}
