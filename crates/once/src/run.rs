//! A run: one attempt to bring an operation to its end. The only loop there is, without its I/O.
//!
//! Whoever drives it (a request, the alarm, the simulation) does the same: call [`Run::turn`] in a transaction, do what
//! the [`Action`] says, and come back with the [`Event`]. A run ends in [`RunEnd::Finished`], or releases its lease and
//! leaves the rest to the alarm.
//!
//! A turn is all the [steps](Run::step) up to the next thing that has to be waited for. Each of them could as well be a transaction of its own,
//! as it is where a crash between two of them is to be shown; a commit costs the same however much happens in it.

use super::account::Identity;
use super::call::{LookUp, Outcome, ProviderCall};
use super::context::Context;
use super::domain::Domain;
use super::flow::Flow;
use super::object_state::ObjectState;
use super::record::{FencingToken, Lifecycle, RecoveryPoint, StoredResponse};
use super::step::{self, Next, StepError};

/// Pages of the provider's list that one run reads at most; then the alarm goes on where it stopped. The platform limits
/// the calls that one invocation may make: 50 on the smallest plan.
const PAGES_MAX: u32 = 40;

/// Steps of one turn; more of them go on in the next one. No flow has as many phases between two calls.
const STEPS_MAX: u32 = 16;

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<F: Domain> {
    /// Come again at once.
    Again,
    /// Send it now, without doing anything else first, and come back with [`Event::Outcome`].
    Send(ProviderCall<F>),
    /// Ask the provider for one page of its look-up and come back with [`Event::LookedUp`].
    LookUp(ProviderCall<F>),
    /// Come again at this time, in ms since the epoch.
    SleepUntil(u64),
    /// The run is over.
    End(RunEnd),
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// With the operation's response.
    Finished(StoredResponse),
    /// Not known yet; the alarm goes on at `retry_at_ms` (ms since the epoch).
    Pending {
        /// When it is tried again.
        retry_at_ms: u64,
        /// Whether the call that waits may have been executed. What earlier calls of the operation have done is not asked.
        in_doubt: bool,
    },
    /// An error between two phases. What was committed stands, a retry resumes.
    Interrupted {
        /// When the alarm resumes it, in ms since the epoch.
        retry_at_ms: u64,
    },
}

/// What happened since the last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<A> {
    /// Nothing, or the time of [`Action::SleepUntil`] has come.
    Go,
    /// A send ended.
    Outcome(u32, Outcome<A>),
    /// A page of a look-up was read, or not.
    LookedUp(u32, LookUp<A>),
}

/// A run in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run<F: Domain> {
    /// Its claim.
    pub token: FencingToken,
    /// Somebody waits for it until then, in ms since the epoch: it sleeps over short pauses instead of ending.
    patience_until_ms: u64,
    /// Injected failures, for tests and demonstrations: the run fails when it reaches one of these points.
    fail_at: &'static [RecoveryPoint<F::Point>],
    /// The call to send next, decided in the transaction before.
    to_send: Option<u32>,
    /// When the page was asked for that is under way, in ms since the epoch.
    asked_at_ms: Option<u64>,
    /// How many pages it may still ask for.
    pages_left: u32,
    /// The provider has left it without an answer.
    is_unanswered: bool,
}

impl<F: Flow> Run<F> {
    /// A run for a token. Until `patience_until_ms` it may sleep between two sends, and after that it sends nothing more to a provider that does not
    /// answer; 0 is a run that nobody waits for.
    pub const fn new(
        token: FencingToken,
        patience_until_ms: u64,
        fail_at: &'static [RecoveryPoint<F::Point>],
    ) -> Self {
        Self {
            token,
            patience_until_ms,
            fail_at,
            to_send: None,
            asked_at_ms: None,
            pages_left: PAGES_MAX,
            is_unanswered: false,
        }
    }

    /// The first turn, in the transaction that has given the token. What fails is left to the next one.
    pub fn first_turn(&mut self, state: &mut ObjectState<F>, ctx: &Context<F::Settings>) -> Action<F> {
        self.steps_on(Action::Again, state, |run, state| run.step(state, Event::Go, ctx))
    }

    /// One transaction: all steps up to the next thing that has to be waited for. On an error nothing may be committed: the driver
    /// rolls back, and for a bug calls [`abandon`](Self::abandon).
    pub fn turn(
        &mut self,
        state: &mut ObjectState<F>,
        event: Event<F::Answer>,
        ctx: &Context<F::Settings>,
    ) -> Result<Action<F>, StepError> {
        let action = self.step(state, event, ctx)?;
        Ok(self.steps_on(action, state, |run, state| run.step(state, Event::Go, ctx)))
    }

    /// Goes on by `step` while there is nothing to wait for: the rest of a turn. A step that fails leaves the rows and the run as they
    /// were before it: what the steps before it have done is kept, and it fails again as the first one of the next turn.
    pub fn steps_on(
        &mut self,
        mut action: Action<F>,
        state: &mut ObjectState<F>,
        mut step: impl FnMut(&mut Self, &mut ObjectState<F>) -> Result<Action<F>, StepError>,
    ) -> Action<F> {
        for _ in 0..STEPS_MAX {
            if action != Action::Again {
                break;
            }
            let before = (self.clone(), state.clone());
            match step(self, state) {
                Ok(next) => action = next,
                Err(_) => {
                    (*self, *state) = before;
                    break;
                }
            }
        }
        action
    }

    /// One step: one phase, or what goes before a call and after it. On an error nothing of it may be kept.
    pub fn step(
        &mut self,
        state: &mut ObjectState<F>,
        event: Event<F::Answer>,
        ctx: &Context<F::Settings>,
    ) -> Result<Action<F>, StepError> {
        match event {
            Event::Outcome(call_id, outcome) => {
                self.is_unanswered |= matches!(outcome, Outcome::Unknown { .. });
                step::record(state, &self.token, call_id, outcome, ctx)?;
                return Ok(Action::Again);
            }
            Event::LookedUp(call_id, look_up) => {
                // Without a time, a look-up that was never asked for proves nothing.
                let asked_at_ms = self.asked_at_ms.take().unwrap_or(0);
                self.is_unanswered |=
                    matches!(look_up, LookUp::Inconclusive { .. } | LookUp::Identity(Identity::Silent));
                step::record_look_up(state, &self.token, call_id, look_up, asked_at_ms, ctx)?;
                return Ok(Action::Again);
            }
            Event::Go => {}
        }
        if let Some(call_id) = self.to_send.take() {
            let marked = step::mark_sending(state, &self.token, call_id, ctx)?;
            return Ok(marked.map_or(Action::Again, Action::Send));
        }
        if self.fail_at.iter().any(|point| reached(state, &self.token, *point)) {
            return self.abandon(state, "an error was asked for", ctx);
        }
        match step::advance(state, &self.token, ctx)? {
            Next::Again => Ok(Action::Again),
            // Each try at a provider that does not answer takes as long as a call may: who waits for it is told that it is not known yet.
            Next::Send(call_id) if self.is_unanswered && self.has_waited(ctx.now_ms) => {
                let in_doubt = state.calls.iter().any(|call| call.call_id == call_id && call.in_doubt());
                self.leave_to_alarm(state, in_doubt, "the provider does not answer", ctx)
            }
            Next::Send(call_id) => {
                self.to_send = Some(call_id);
                Ok(Action::Again)
            }
            Next::LookUp(_) if self.pages_left == 0 => {
                self.leave_to_alarm(state, true, "has more pages to read", ctx)
            }
            Next::LookUp(call_id) => {
                self.pages_left -= 1;
                self.asked_at_ms = Some(ctx.now_ms);
                let call = state.call(call_id).cloned();
                Ok(call.map_or(Action::Again, Action::LookUp))
            }
            // Never longer than its lease, which it has just renewed.
            Next::Sleep { until_ms, .. }
                if until_ms <= self.patience_until_ms.min(ctx.now_ms.saturating_add(ctx.times.lease_ms)) =>
            {
                Ok(Action::SleepUntil(until_ms))
            }
            Next::Sleep { until_ms, in_doubt } => {
                step::release(state, &self.token, until_ms, "waits for the provider", ctx)?;
                Ok(Action::End(RunEnd::Pending { retry_at_ms: until_ms, in_doubt }))
            }
            Next::Finished(response) => Ok(Action::End(RunEnd::Finished(response))),
        }
    }

    /// Whether somebody waits for it who has waited as long as they were to. For the alarm's runs nobody does.
    const fn has_waited(&self, now_ms: u64) -> bool {
        self.patience_until_ms > 0 && now_ms > self.patience_until_ms
    }

    /// Ends the run; the alarm goes on at once.
    fn leave_to_alarm(
        &self,
        state: &mut ObjectState<F>,
        in_doubt: bool,
        reason: &str,
        ctx: &Context<F::Settings>,
    ) -> Result<Action<F>, StepError> {
        let retry_at_ms = ctx.now_ms.saturating_add(1);
        step::release(state, &self.token, retry_at_ms, reason, ctx)?;
        Ok(Action::End(RunEnd::Pending { retry_at_ms, in_doubt }))
    }

    /// Ends the run after an error: the lease is released at once, the record stays at its recovery point.
    pub fn abandon(
        &self,
        state: &mut ObjectState<F>,
        reason: &str,
        ctx: &Context<F::Settings>,
    ) -> Result<Action<F>, StepError> {
        let failures = match state.key(self.token.key_id).map(|key| &key.lifecycle) {
            Some(Lifecycle::Open(open)) => open.failures,
            _ => 0,
        };
        // Young keys are left alone for their client; what keeps failing waits longer each time.
        let retry_at_ms =
            ctx.now_ms.saturating_add(ctx.times.completer_ms).saturating_add(ctx.backoff_ms(failures));
        step::release(state, &self.token, retry_at_ms, reason, ctx)?;
        Ok(Action::End(RunEnd::Interrupted { retry_at_ms }))
    }
}

fn reached<F: Domain>(state: &ObjectState<F>, token: &FencingToken, point: RecoveryPoint<F::Point>) -> bool {
    state.key(token.key_id).is_some_and(|key| key.recovery_point() == point)
}
