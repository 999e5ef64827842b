//! The runs: what each says is done, and what came of it is brought back.

use once::context::Bug;
use once::object_state::ObjectState;
use once::record::{FencingToken, Lifecycle};
use once::run::{Action, Event as Input, Run, RunEnd};
use once::step::StepError;

use crate::commit::Committed;
use crate::provider::not_executed;
use crate::saboteur::Saboteur;
use crate::scenario::Scenario;
use crate::world::{Answer, BEGIN_MS, Event, Flow, Running, WAY_MS, World};

impl<S: Scenario> World<'_, S> {
    pub(crate) fn start(&mut self, token: FencingToken, patience_until_ms: u64, clients: Vec<usize>) {
        self.runs_made += 1;
        let run = self.runs_made;
        self.runs.insert(run, Running { run: Run::new(token, patience_until_ms, &[]), clients });
        self.after(0, Event::Step { instance: self.instance, run, input: Input::Go });
    }

    /// One transaction of a run, and what it says.
    pub(crate) fn step(&mut self, id: u32, input: Input<Answer<S>>) -> Result<(), String> {
        let Some(mut running) = self.runs.remove(&id) else { return Ok(()) };
        self.forge(&mut running.run.token);
        let is_stale = self.is_taken_over(&running.run.token);
        let before = self.rows_to_lose();
        let in_turns = self.plan.is_in_turns();
        let run = &mut running.run;
        let mut stepped = self.turn(|object_state, ctx, fails| match (in_turns, fails) {
            (true, false) => run.turn(object_state, input, ctx),
            (false, false) => run.step(object_state, input, ctx),
            (true, true) => {
                let action = run.step(object_state, input, ctx)?;
                Ok(run.steps_on(action, object_state, |run, object_state| {
                    let _ = run.step(object_state, Input::Go, ctx)?;
                    // Whatever it has done to them.
                    *object_state = ObjectState::empty(object_state.object);
                    Err(StepError::Bug(Bug("a step fails".to_owned())))
                }))
            }
            (false, true) => {
                let _ = run.step(object_state, input, ctx)?;
                Err(StepError::Bug(Bug("a step fails".to_owned())))
            }
        })?;
        if matches!(stepped, Committed::Failed) {
            let run = &running.run;
            stepped = self.transaction(|object_state, ctx| run.abandon(object_state, "a step fails", ctx))?;
        }
        // Another run took over, or the incarnation died.
        let Committed::Done { value: action, stalls } = stepped else {
            running.clients.iter().for_each(|client| self.asks_again(*client));
            return Ok(());
        };
        if is_stale {
            return Err(format!("a run of key {} that was taken over goes on", running.run.token.key_id));
        }
        self.act(id, running, (action, stalls), before)
    }

    /// Whether another run works on the key, or nobody does.
    fn is_taken_over(&self, token: &FencingToken) -> bool {
        let Some(key) = self.object_state.key(token.key_id) else { return false };
        let Lifecycle::Open(open) = &key.lifecycle else { return false };
        key.attempt != token.attempt || open.lease.as_ref().is_none_or(|lease| lease.holder != token.holder)
    }

    /// What a run says is done. `before` are the rows before its transaction, where they are to be lost.
    pub(crate) fn act(
        &mut self,
        id: u32,
        running: Running<S>,
        (action, stalls): (Action<Flow<S>>, bool),
        before: Option<ObjectState<Flow<S>>>,
    ) -> Result<(), String> {
        let stall_ms = if stalls { self.times.lease_ms + 1_000 } else { 0 };
        let instance = self.instance;
        let go = |input| Event::Step { instance, run: id, input };
        match action {
            Action::Again => self.after(stall_ms, go(Input::Go)),
            Action::SleepUntil(at_ms) => self.after(self.until(at_ms), go(Input::Go)),
            Action::Send(call) => {
                if let Some(before) = before {
                    self.object_state = before;
                }
                self.must_be_written(&call)?;
                let lacks_client = self.lacks_client(&running);
                self.runs.insert(id, running);
                match lacks_client {
                    true => {
                        let not_sent = not_executed(once::call::RefusalScope::NoClient);
                        self.after(stall_ms, go(Input::Outcome(call.call_id, not_sent)));
                    }
                    false => self.send(id, call, stall_ms)?,
                }
                return Ok(());
            }
            Action::LookUp(call) => {
                let lacks_client = self.lacks_client(&running);
                let event = match self.fault_of_look_up(lacks_client) {
                    Ok(fault) => Event::Page { instance, run: id, call: Box::new(call), fault },
                    Err(silence) => go(Input::LookedUp(call.call_id, silence)),
                };
                self.after(stall_ms + WAY_MS, event);
            }
            Action::End(end) => {
                self.is_released(&running.run.token)?;
                for client in running.clients {
                    match &end {
                        RunEnd::Finished(response) => self.answer(client, response)?,
                        RunEnd::Pending { in_doubt, .. } => self.is_pending(client, *in_doubt)?,
                        RunEnd::Interrupted { .. } => self.asks_again(client),
                    }
                }
                return self.drain();
            }
        }
        self.runs.insert(id, running);
        Ok(())
    }

    /// The rows as they are, where a send is to go out before it is written down.
    pub(crate) fn rows_to_lose(&self) -> Option<ObjectState<Flow<S>>> {
        (self.saboteur == Some(Saboteur::WriteAhead)).then(|| self.object_state.clone())
    }

    /// Whether a run comes to nothing because no client is there.
    fn lacks_client(&self, running: &Running<S>) -> bool {
        let is_kept = self.now_ms <= BEGIN_MS + self.times.retention_ms;
        self.scenario.needs_client() && running.clients.is_empty() && is_kept
    }

    /// With fencing off a run that is stale goes on as the one that took over.
    fn forge(&self, token: &mut FencingToken) {
        let key = self.object_state.key(token.key_id).filter(|_| self.saboteur == Some(Saboteur::Fencing));
        if let Some((key, Lifecycle::Open(open))) = key.map(|key| (key, &key.lifecycle)) {
            token.attempt = key.attempt;
            token.holder = open.lease.as_ref().map_or_else(|| self.me(), |lease| lease.holder.clone());
        }
    }
}
