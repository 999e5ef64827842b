//! The world around one object: its committed rows, its alarm, the runs in memory, the wire, the provider and the
//! clients; and everything that can happen next in it.
//!
//! The protocol itself is not modelled: each transaction here is one call of the real core. Only time is coarse. A
//! tick is longer than any backoff, so that "a little later" is the next tick; the lease, the window and the rest are a
//! few ticks each, in the order of size that the defaults have.

mod hashed_state;
mod protocol;

use hashed_state::{HashedState, hash_of};
pub use protocol::Protocol;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use once::alarm::{wake, wake_at};
use once::context::Times;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{InstanceId, ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::record::{Channel, FencingToken, StoredResponse};
use once::run::RunEnd;
use once::step::StepError;
use payments::engine::{
    Action, Begin, CallState, Command, Context, Event, Evidence, KeyRecord, Lifecycle, Limits, LookUp,
    ObjectState, Outcome, ProviderCall, Run, context,
};
use payments::payment::PaymentState;
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::operation::{Operation, PaymentRequest, Route};
use payments::payment::records::JobKind;
use payments::providers::{HttpAnswer, Provider as Name};

use crate::coverage::{Coverage, Seen};
use crate::provider::{AMOUNT_MINOR, Decision, Provider};
use crate::saboteur::{Mutant, Saboteur};

/// One tick in ms: longer than the longest backoff.
const TICK_MS: u64 = 1_000_000;
/// A send is still under way at most this many ticks after it was marked as sending.
const FLIGHT_TICKS: u8 = 1;
/// How many ticks after the first send the same key may be sent again. The last such send arrives a tick later, and
/// that is still before the provider forgets the key.
pub const WINDOW_TICKS: u8 = 2;
/// For how many ticks nobody believes that nothing was executed after the provider has failed. It completes what it has
/// begun before that, or never.
pub const QUARANTINE_TICKS: u8 = 3;

const TIMES: Times = Times {
    lease_ms: TICK_MS,
    wait_ms: 0,
    completer_ms: TICK_MS,
    retention_ms: 3 * TICK_MS,
    provider_window_ms: WINDOW_TICKS as u64 * TICK_MS,
    provider_timeout_ms: TICK_MS / 2,
    quiet_ms: 2 * TICK_MS,
    quarantine_ms: QUARANTINE_TICKS as u64 * TICK_MS,
    // No queue is modelled: what is staged stays.
    outbox_ms: 10_000,
    confirm_ms: 1_000 * TICK_MS,
    // It is kept for good.
    personal_retention_ms: u64::MAX,
};

/// Runs in memory at once.
const RUNS_MAX: usize = 2;

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Requests of the client, the first one included.
    pub calls: u8,
    /// Times that an incarnation ends, seems to, or stalls.
    pub crashes: u8,
    /// Requests and answers that the wire loses or holds up.
    pub drops: u8,
    /// Requests that the wire delivers twice.
    pub duplicates: u8,
    /// Answers other than a charge or a decline, errors between two phases, and requests with another payload.
    pub upsets: u8,
    /// Sends in all.
    pub sends: u8,
    /// Ticks in all.
    pub ticks: u8,
}

/// A rule that a step broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    SentPastWindow,
    BytesChanged,
    StaleRunWrote,
    WentBack,
    ReplayDiffers,
    OtherPayloadAnswered,
    Bug,
}

/// What a run in memory is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    Ready,
    AwaitingAnswer,
    Answered(Outcome),
    LookedUp(LookUp),
    SleepingUntil(u8),
}

/// A run in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Live {
    pub run: Run,
    pub doing: Doing,
    /// The call that it last sent or looked up.
    pub call_id: u32,
    /// Whether a client waits for it. Else the alarm started it.
    pub client: bool,
    /// Its incarnation ended as far as anybody knows, and yet it goes on.
    pub stale: bool,
}

/// A request on its way to the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    pub sent_at: u8,
    pub key: Arc<str>,
    pub body: Arc<str>,
    /// The run that waits for the answer, by its place in `live`; none for a duplicate.
    pub run: Option<u8>,
}

/// The state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: u8,
    pub object_state: HashedState,
    pub alarm: Option<u8>,
    pub live: Vec<Live>,
    pub wire: Vec<Flight>,
    pub provider: Provider,
    /// The first final answer that a client got.
    pub answer: Option<Arc<StoredResponse>>,
    /// Audit records so far, by action, and staged receipts.
    pub effects: [u8; 4],
    pub broken: Option<Broken>,
    pub left: Budget,
}

/// The effects that are counted.
const EFFECTS: [&str; 3] = ["payment.created", "payment.captured", "payment.failed"];
const CAPTURED: usize = 1;
const RECEIPTS: usize = 3;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelAction {
    /// The client asks, or asks again.
    Call,
    /// Somebody asks for another thing under the same key.
    CallForOther,
    /// A run does its next transaction, and what follows from it.
    Step(u8),
    /// A run arms a send and commits, and its incarnation dies before the send leaves.
    ArmAndDie(u8),
    /// A run stops waiting for an answer.
    GiveUp(u8),
    /// A run meets an error between two phases.
    Fail(u8),
    /// The incarnation dies, and its runs with it.
    Crash,
    /// A new incarnation begins while the runs of the old one go on.
    Split,
    /// A request arrives, and so does the answer.
    Deliver(u8, Decision),
    /// A request arrives, and its answer is lost.
    DeliverAndLoseAnswer(u8, Decision),
    /// The provider completes what it has failed in.
    Complete,
    /// A request is lost.
    Drop(u8),
    /// A request is on the wire twice.
    Duplicate(u8),
    /// The alarm fires.
    Alarm,
    /// Time passes.
    Tick,
}

impl World {
    fn start(budget: Budget) -> Self {
        Self {
            now: 0,
            object_state: HashedState::new(ObjectState::empty(ObjectId::from_bytes([7; 32]))),
            alarm: None,
            live: Vec::new(),
            wire: Vec::new(),
            provider: Provider::default(),
            answer: None,
            effects: [0; 4],
            broken: None,
            left: budget,
        }
    }

    /// What the clients were told for good.
    pub fn told(&self) -> Option<u16> {
        self.answer.as_ref().map(|answer| answer.status)
    }

    /// Whether some key is not finished.
    pub fn is_open(&self) -> bool {
        self.object_state.keys.iter().any(is_open)
    }

    /// Whether a run of this incarnation is about to do a transaction: it does not wait long for that, unless the whole
    /// incarnation stalls.
    fn is_busy(&self) -> bool {
        self.live.iter().any(|live| !live.stale && live.doing == Doing::Ready)
    }

    /// Whether a request has been under way for as long as one can be.
    fn is_overdue(&self) -> bool {
        self.wire.iter().any(|flight| self.now >= flight.sent_at + FLIGHT_TICKS)
    }

    /// How the payment stands in the rows.
    pub fn payment(&self) -> Option<&PaymentState> {
        self.object_state.resource.payment.as_ref().map(|payment| &payment.state)
    }

    /// Whether every effect happened at most once, and a payment that was charged has its receipt.
    pub fn effects_are_single(&self) -> bool {
        let paid = self.answer.as_ref().is_some_and(|answer| answer.status == 201);
        self.effects.iter().all(|count| *count <= 1)
            && self.effects[RECEIPTS] == self.effects[CAPTURED]
            && (!paid || self.effects == [1, 1, 0, 1])
    }

    fn break_rule(&mut self, rule: Broken) {
        self.broken = self.broken.or(Some(rule));
    }

    fn tell(&mut self, response: &StoredResponse) {
        match &self.answer {
            None => self.answer = Some(Arc::new(response.clone())),
            Some(first) if **first != *response => self.break_rule(Broken::ReplayDiffers),
            Some(_) => {}
        }
    }

    fn start_run(&mut self, token: FencingToken, client: bool) {
        // A client waits a little between two sends; the alarm lets go.
        let patience_until_ms = if client { ms(self.now + 1) } else { 0 };
        self.live.push(Live {
            run: Run::new(token, patience_until_ms, &[]),
            doing: Doing::Ready,
            call_id: 0,
            client,
            stale: false,
        });
    }

    /// Forgets a run. Nobody waits any more for what it sent.
    fn end_run(&mut self, number: u8) -> Live {
        for flight in &mut self.wire {
            flight.run = match flight.run {
                Some(n) if n == number => None,
                Some(n) if n > number => Some(n - 1),
                other => other,
            };
        }
        self.live.remove(usize::from(number))
    }

    /// The incarnation is gone, with its runs or, as far as they can tell, without them.
    fn crash(&mut self, runs_go_on: bool) {
        for number in (0..self.live.len()).rev() {
            let live = &mut self.live[number];
            if runs_go_on {
                live.stale = true;
                live.run.token.holder = gone();
            } else if !live.stale {
                self.end_run(number as u8);
            }
        }
        for key in &mut self.object_state.make_mut().keys {
            if let Lifecycle::Open(open) = &mut key.lifecycle
                && let Some(lease) = &mut open.lease
            {
                lease.holder = gone();
            }
        }
    }

    /// Makes states alike that nothing can tell apart: forgets times that lie in the past and are only compared with
    /// now, and counts that only lengthen a backoff, which is below a tick.
    fn canonical(mut self, before: &Self) -> Self {
        if self.now != before.now || !self.object_state.is_same_as(&before.object_state) {
            self.canonical_rows();
        }
        self.alarm = self.alarm.map(|at| at.max(self.now));
        let over = !self.object_state.keys.is_empty() && !self.is_open();
        if over && self.live.is_empty() && self.wire.is_empty() {
            // What could these still befall?
            self.left.crashes = 0;
            self.left.drops = 0;
            self.left.duplicates = 0;
        }
        for live in &mut self.live {
            if matches!(live.doing, Doing::SleepingUntil(at) if at <= self.now) {
                live.doing = Doing::Ready;
            }
        }
        self
    }

    fn canonical_rows(&mut self) {
        let now_ms = ms(self.now);
        let past = |at_ms: u64| if at_ms <= now_ms { 0 } else { at_ms };
        let object_state = self.object_state.make_mut();
        for key in &mut object_state.keys {
            key.created_at_ms = 0;
            // Attempts are only compared for being the newest one.
            for live in &mut self.live {
                live.run.token.attempt = if live.run.token.attempt == key.attempt { 2 } else { 1 };
            }
            key.attempt = 2;
            match &mut key.lifecycle {
                Lifecycle::Open(open) => {
                    open.failures = 0;
                    match &mut open.lease {
                        Some(lease) => {
                            open.resume_at_ms = 0;
                            lease.until_ms = past(lease.until_ms);
                            open.last_run_at_ms = past(open.last_run_at_ms + TIMES.completer_ms)
                                .saturating_sub(TIMES.completer_ms);
                        }
                        None => {
                            open.last_run_at_ms = 0;
                            open.resume_at_ms = past(open.resume_at_ms);
                        }
                    }
                }
                Lifecycle::Finished(finished) => {
                    finished.finished_at_ms = 0;
                    finished.expires_at_ms = past(finished.expires_at_ms);
                }
                Lifecycle::Expired(tombstone) => {
                    tombstone.finished_at_ms = 0;
                    tombstone.expires_at_ms = 0;
                }
            }
        }
        if let Some(payment) = &mut object_state.resource.payment {
            payment.created_at_ms = 0;
            payment.ended_at_ms = payment.ended_at_ms.map(|_| 0);
        }
        for row in &mut object_state.resource.tries {
            row.ended_at_ms = row.ended_at_ms.map(|_| 0);
        }
        let outside = |since_ms: u64| {
            if since_ms + TIMES.provider_window_ms <= now_ms { ms(0) } else { since_ms }
        };
        let quiet = |sent_at_ms: u64| {
            if sent_at_ms + TIMES.quiet_ms <= now_ms { ms(0) } else { sent_at_ms }
        };
        let quarantine = |at_ms: u64| {
            if at_ms + TIMES.quarantine_ms <= now_ms { ms(0) } else { at_ms }
        };
        // The second look counts a tick after the first.
        let absence = |at_ms: u64| {
            if at_ms < now_ms { ms(0) } else { at_ms }
        };
        // A look-up is judged by the time at which it began.
        let looking_up = self.live.iter().any(|live| matches!(live.doing, Doing::LookedUp(_)))
            || object_state.calls.iter().any(|call| call.look_up.is_some());
        for call in &mut object_state.calls {
            call.sends = 0;
            call.next_try_at_ms = past(call.next_try_at_ms);
            call.first_sent_at_ms = call.first_sent_at_ms.map(outside);
            if !looking_up {
                call.last_sent_at_ms = call.last_sent_at_ms.map(quiet);
                call.evidence.unheard_at_ms = call.evidence.unheard_at_ms.map(quarantine);
                call.evidence.failed_at_ms = call.evidence.failed_at_ms.map(quarantine);
                call.evidence.absent_at_ms = call.evidence.absent_at_ms.map(absence);
            }
            if matches!(call.state, CallState::Settled(_)) {
                // That it was sent at all decides what a payment that came to nothing is told.
                call.first_sent_at_ms = call.first_sent_at_ms.map(|_| 0);
                call.last_sent_at_ms = None;
                call.evidence = Evidence::default();
            }
        }
    }
}

/// The incarnation that lives now. All that were before it have one other name: nothing depends on which it was.
fn me() -> InstanceId {
    InstanceId("now".into())
}

fn gone() -> InstanceId {
    InstanceId("gone".into())
}

/// What an answer means for a call. A mutant may have lost it.
fn read(object_state: &ObjectState, call_id: u32, answer: &HttpAnswer) -> Outcome {
    match object_state.calls.iter().find(|call| call.call_id == call_id) {
        Some(call) => call.provider.classify(call, answer),
        None => Outcome::Unknown { answer_is_stored: false, reason: "the call is gone".into() },
    }
}

fn is_open(key: &KeyRecord) -> bool {
    matches!(key.lifecycle, Lifecycle::Open(_))
}

const fn ms(tick: u8) -> u64 {
    (tick as u64 + 1) * TICK_MS
}

/// The first tick that is not before a time.
fn tick(at_ms: u64) -> u8 {
    u8::try_from(at_ms.div_ceil(TICK_MS).saturating_sub(1)).unwrap_or(u8::MAX)
}

/// A time between two ticks and the tick after it are the same to a clock that knows only ticks.
fn round_times(object_state: &mut ObjectState) {
    for key in &mut object_state.keys {
        if let Lifecycle::Open(open) = &mut key.lifecycle {
            open.resume_at_ms = open.resume_at_ms.next_multiple_of(TICK_MS);
        }
    }
    for call in &mut object_state.calls {
        call.next_try_at_ms = call.next_try_at_ms.next_multiple_of(TICK_MS);
    }
}

/// How far every key has come: its phase of life and its recovery point.
fn went_back(before: &ObjectState, after: &ObjectState) -> bool {
    let age = |lifecycle: &Lifecycle| match lifecycle {
        Lifecycle::Open(open) => (0, Some(open.recovery_point)),
        Lifecycle::Finished(_) => (1, None),
        Lifecycle::Expired(_) => (2, None),
    };
    before.keys.iter().any(|key| {
        after
            .key(key.key_id)
            .is_none_or(|now| age(&now.lifecycle) < age(&key.lifecycle) || now.attempt < key.attempt)
    })
}
