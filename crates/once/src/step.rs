//! The steps of a run. Each function changes the state once; [`Run`](super::run::Run) puts them in order, and what needs no wait between them is
//! one transaction.
//!
//! Every one of them begins by checking the token. [`Fenced`](StepError::Fenced) means that another run took over:
//! stop, write nothing, send nothing.

use std::fmt;

use super::account::Identity;
use super::call::{CallState, LookUp, Outcome, Plan, ProviderCall, Settlement, Unconfirmed};
use super::context::{Bug, Context};
use super::domain::Provider;
use super::flow::{End, Flow, Phase};
use super::object_state::ObjectState;
use super::record::{BODY_MAX_BYTES, FencingToken, Finished, Lease, Lifecycle, Open, StoredResponse};

/// What a run does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A phase was committed; come again.
    Again,
    /// Send this call: [`mark_sending`] it first.
    Send(u32),
    /// Ask the provider whether this call was executed: one page.
    LookUp(u32),
    /// Nothing can be done before this time, in ms since the epoch.
    Sleep {
        /// Until when.
        until_ms: u64,
        /// Whether it may have been executed.
        in_doubt: bool,
    },
    /// The end.
    Finished(StoredResponse),
}

/// Why a step did not happen. Nothing was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// Another run took over.
    Fenced,
    /// What cannot be.
    Bug(Bug),
}

impl From<Bug> for StepError {
    fn from(bug: Bug) -> Self {
        Self::Bug(bug)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced => f.write_str("another run took over"),
            Self::Bug(bug) => bug.fmt(f),
        }
    }
}

/// The next step: settles what needs no call, runs the next phase of the flow, or says what to call.
pub fn advance<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    ctx: &Context<F::Settings>,
) -> Result<Next, StepError> {
    if let Some(Lifecycle::Finished(finished)) = object_state.key(token.key_id).map(|key| &key.lifecycle) {
        return Ok(Next::Finished(finished.response.clone()));
    }
    held(object_state, token, ctx)?;
    if let Some(call) = object_state.unsettled_call(token.key_id) {
        let (call_id, in_doubt) = (call.call_id, call.in_doubt());
        return Ok(match call.plan(ctx) {
            Plan::Send if is_overtaken(call, object_state) => {
                object_state.append_timeline(
                    token.key_id,
                    ctx.now_ms,
                    "call_settled",
                    "not sent: what it moves has changed since",
                );
                call_mut(object_state, call_id)?.state = CallState::Settled(Settlement::NotExecuted);
                Next::Again
            }
            Plan::Send => Next::Send(call_id),
            Plan::LookUp => {
                call_mut(object_state, call_id)?.ask_identity(false);
                Next::LookUp(call_id)
            }
            Plan::Identify => {
                let call = call_mut(object_state, call_id)?;
                call.ask_identity(true);
                if call.provider.answers_questions() {
                    Next::LookUp(call_id)
                } else {
                    call.take_identity(Identity::NotAsked, ctx);
                    Next::Again
                }
            }
            Plan::WaitUntil(until_ms) => Next::Sleep { until_ms, in_doubt },
            Plan::Settle(settlement) => {
                let (event, detail) = match settlement {
                    Settlement::NotExecuted => {
                        ("call_settled", "not executed: the provider refused every send")
                    }
                    Settlement::NeedsReview | Settlement::Answered(_) => {
                        ("call_needs_review", "the outcome is unknown, and it is sent once at most")
                    }
                };
                object_state.append_timeline(token.key_id, ctx.now_ms, event, detail);
                call_mut(object_state, call_id)?.state = CallState::Settled(settlement);
                Next::Again
            }
        });
    }
    run_phase(object_state, token, ctx)
}

/// Whether a call has lost its point before its first send. One that was sent may have been executed, whatever has changed since.
fn is_overtaken<F: Flow>(call: &ProviderCall<F>, object_state: &ObjectState<F>) -> bool {
    call.sends == 0 && F::is_overtaken(call, object_state)
}

fn run_phase<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    ctx: &Context<F::Settings>,
) -> Result<Next, StepError> {
    let key_id = token.key_id;
    let operation = open(object_state, key_id)?.operation.clone();
    let end = F::run(&operation, &mut Phase { object_state, key_id, ctx, by: None })?;
    match end {
        End::Call(spec) => {
            object_state.append_timeline(key_id, ctx.now_ms, "call_frozen", spec.provider_key.clone());
            object_state.freeze(key_id, spec);
            Ok(Next::Again)
        }
        End::At(point) => {
            object_state.reach(key_id, point, ctx.now_ms)?;
            Ok(Next::Again)
        }
        End::Response(response) => {
            if response.body.len() > BODY_MAX_BYTES {
                return Err(Bug(format!("a response of {} bytes", response.body.len())).into());
            }
            let key = object_state.key_mut(key_id).ok_or_else(|| Bug(format!("no key {key_id}")))?;
            key.lifecycle = Lifecycle::Finished(Finished {
                response: response.clone(),
                finished_at_ms: ctx.now_ms,
                expires_at_ms: ctx.now_ms.saturating_add(ctx.times.retention_ms),
            });
            object_state.append_timeline(key_id, ctx.now_ms, "finished", response.status.to_string());
            Ok(Next::Finished(response))
        }
    }
}

/// Right before a send: checks the lease and the plan once more, and writes that a send has begun. Gives what to send;
/// `None` if the time that passed since the plan has changed it, for example past the provider's window.
pub fn mark_sending<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    call_id: u32,
    ctx: &Context<F::Settings>,
) -> Result<Option<ProviderCall<F>>, StepError> {
    held(object_state, token, ctx)?;
    if object_state.calls.iter().any(|call| call.call_id == call_id && is_overtaken(call, object_state)) {
        return Ok(None);
    }
    let call = call_mut(object_state, call_id)?;
    // What the provider has told by itself meanwhile is the answer, and no send may overwrite it.
    if call.is_settled() || call.plan(ctx) != Plan::Send {
        return Ok(None);
    }
    call.begin_send(ctx);
    let call = call.clone();
    object_state.append_timeline(
        token.key_id,
        ctx.now_ms,
        "call_sent",
        format!("{} send {}", call.name, call.sends),
    );
    Ok(Some(call))
}

/// Commits what came of a send, under the attempt that made it.
pub fn record<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    call_id: u32,
    outcome: Outcome<F::Answer>,
    ctx: &Context<F::Settings>,
) -> Result<(), StepError> {
    held(object_state, token, ctx)?;
    let detail = match &outcome {
        Outcome::Definitive(reply) => format!("answered {}", reply.status),
        Outcome::Stored(reply) => format!("answered {}, as before", reply.status),
        Outcome::NotExecuted { reason, .. } => format!("not executed: {reason}"),
        Outcome::Unknown { reason, .. } => format!("unknown: {reason}"),
        Outcome::Indeterminate { reason, .. } => format!("indeterminate: {reason}"),
        Outcome::Unconfirmed(Unconfirmed { reason, .. }) => format!("unconfirmed: {reason}"),
        Outcome::LeftOpen(reply) => format!("answered {}, and left open: it is canceled", reply.status),
    };
    let call = call_mut(object_state, call_id)?;
    let detail = match call.state {
        // The provider has told by itself meanwhile.
        CallState::Settled(_) if call.evidence.is_told => format!("{detail}; it was settled before"),
        CallState::InFlight => {
            call.take(outcome, ctx);
            detail
        }
        CallState::Settled(_) | CallState::Frozen | CallState::Unknown => {
            let state = call.state.name();
            return Err(Bug(format!("an outcome for call {call_id}, which is {state}")).into());
        }
    };
    object_state.append_timeline(token.key_id, ctx.now_ms, "call_outcome", detail);
    Ok(())
}

/// Commits what came of a look-up's page that was asked for at `asked_at_ms`.
pub fn record_look_up<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    call_id: u32,
    look_up: LookUp<F::Answer>,
    asked_at_ms: u64,
    ctx: &Context<F::Settings>,
) -> Result<(), StepError> {
    held(object_state, token, ctx)?;
    let call = call_mut(object_state, call_id)?;
    // The provider has told by itself meanwhile, or a person has.
    if call.is_settled() {
        return Ok(());
    }
    let detail = match &look_up {
        LookUp::Found(_) if call.asks_identity() => Some(told(&Identity::SeesNothing)),
        LookUp::Found(_) => Some("found".to_owned()),
        LookUp::Tentative(_) => Some("found, not final".to_owned()),
        LookUp::Unconfirmed(Unconfirmed { reason, .. }) => Some(format!("found, unconfirmed: {reason}")),
        LookUp::LeftOpen(_) => Some("found, left open".to_owned()),
        LookUp::Absent => Some("absent".to_owned()),
        LookUp::Identity(identity) => Some(told(identity)),
        LookUp::NoClient { reason } => Some(format!("not asked: {reason}")),
        LookUp::Inconclusive { reason, .. } => Some(format!("inconclusive: {reason}")),
        // One line for the whole list, not one for each of its pages.
        LookUp::More { .. } if call.look_up.is_some() => None,
        LookUp::More { .. } => Some("not on the first page".to_owned()),
    };
    call.take_look_up(look_up, asked_at_ms, ctx);
    if let Some(detail) = detail {
        object_state.append_timeline(token.key_id, ctx.now_ms, "look_up", detail);
    }
    Ok(())
}

/// What was said about the account of the configured credential, for the timeline.
fn told(identity: &Identity) -> String {
    match identity {
        Identity::Account(id) => format!("the configured key is of {id}"),
        Identity::SeesIt => "what it is about is in the account of the configured key".to_owned(),
        Identity::SeesNothing => "what it is about is not in the account of the configured key".to_owned(),
        Identity::Refused { status } => {
            format!("the configured key may not say of which account it is ({status})")
        }
        Identity::NotAsked | Identity::Silent => {
            "no answer about the account of the configured key".to_owned()
        }
    }
}

/// Ends a run without a result: the key stays at its recovery point, free for whoever comes next. `resume_at_ms` is
/// when the alarm takes it up if nobody comes.
pub fn release<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    resume_at_ms: u64,
    reason: &str,
    ctx: &Context<F::Settings>,
) -> Result<(), StepError> {
    held(object_state, token, ctx)?;
    open(object_state, token.key_id)?.release(resume_at_ms);
    object_state.append_timeline(token.key_id, ctx.now_ms, "released", reason);
    Ok(())
}

/// Checks the token and renews the lease.
fn held<F: Flow>(
    object_state: &mut ObjectState<F>,
    token: &FencingToken,
    ctx: &Context<F::Settings>,
) -> Result<(), StepError> {
    let key = object_state.key_mut(token.key_id).ok_or(StepError::Fenced)?;
    let attempt = key.attempt;
    let Lifecycle::Open(open) = &mut key.lifecycle else {
        return Err(StepError::Fenced);
    };
    let held = attempt == token.attempt && open.lease.as_ref().is_some_and(|l| l.holder == token.holder);
    if !held {
        return Err(StepError::Fenced);
    }
    open.lease = Some(Lease::new(&token.holder, ctx));
    open.last_run_at_ms = ctx.now_ms;
    Ok(())
}

fn open<F: Flow>(object_state: &mut ObjectState<F>, key_id: u32) -> Result<&mut Open<F>, Bug> {
    match object_state.key_mut(key_id).map(|key| &mut key.lifecycle) {
        Some(Lifecycle::Open(open)) => Ok(open),
        Some(other) => Err(Bug(format!("key {key_id} should be open and is {}", other.name()))),
        None => Err(Bug(format!("no key {key_id}"))),
    }
}

fn call_mut<F: Flow>(object_state: &mut ObjectState<F>, call_id: u32) -> Result<&mut ProviderCall<F>, Bug> {
    object_state.call_mut(call_id).ok_or_else(|| Bug(format!("no call {call_id}")))
}
