//! The object: its incarnations, each with a clock of its own, its commits, and its alarm.

use std::hash::{Hash, Hasher};

use once::alarm::{KnownAlarm, alarm_to_set, wake};
use once::context::Context;
use once::flow::Flow as _;
use once::id::InstanceId;
use once::object_state::ObjectState;
use once::outbox::Handed;
use once::record::KeyRecord;
use once::state;
use once::step::StepError;

use crate::fault::{Fault, Site};
use crate::saboteur::Saboteur;
use crate::scenario::{Scenario, Settings};
use crate::world::{Event, Facts, Flow, World};

/// How soon the platform repeats an alarm whose handler died, in ms.
const ALARM_AGAIN_MS: u64 = 2_000;
/// How much the clock of an incarnation is wrong at most, in ms.
const CLOCK_OFF_MAX_MS: u64 = 300_000;
/// The same, of clocks on which nobody should rely.
const CLOCK_BROKEN_MS: u64 = 6 * 3_600_000;

/// How many times as long a state's text may well be as what is in it: by the names of its members, and by signs that are escaped.
const TEXT_PER_CONTENT: usize = 16;

/// What came of a transaction.
pub(crate) enum Committed<T> {
    /// It was committed. Whoever made it may stall now.
    Done { value: T, stalls: bool },
    /// The incarnation died, before or after it.
    Died,
    /// The run has lost its lease.
    Fenced,
    /// A step failed, as it should.
    Failed,
}

impl<S: Scenario> World<'_, S> {
    /// One transaction. An error is a bug.
    pub(crate) fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut ObjectState<Flow<S>>, &Context<Settings<S>>) -> Result<T, StepError>,
    ) -> Result<Committed<T>, String> {
        let fault = self.site(Site::Commit);
        self.commit(fault, body)
    }

    /// The same for a request, whose run may begin with it.
    pub(crate) fn request<T>(
        &mut self,
        body: impl FnOnce(&mut ObjectState<Flow<S>>, &Context<Settings<S>>) -> Result<T, StepError>,
    ) -> Result<Committed<T>, String> {
        let fault = self.site(Site::Begin);
        self.commit(fault, body)
    }

    /// The same for a run, whose body is told whether a step is to fail.
    pub(crate) fn turn<T>(
        &mut self,
        body: impl FnOnce(&mut ObjectState<Flow<S>>, &Context<Settings<S>>, bool) -> Result<T, StepError>,
    ) -> Result<Committed<T>, String> {
        let fault = self.site(Site::Turn);
        self.commit(fault, |object_state, ctx| body(object_state, ctx, fault == Some(Fault::StepFails)))
    }

    fn commit<T>(
        &mut self,
        fault: Option<Fault>,
        body: impl FnOnce(&mut ObjectState<Flow<S>>, &Context<Settings<S>>) -> Result<T, StepError>,
    ) -> Result<Committed<T>, String> {
        let ctx = self.context();
        let mut object_state = self.object_state.clone();
        let value = match body(&mut object_state, &ctx) {
            Ok(value) => value,
            Err(StepError::Fenced) => return Ok(Committed::Fenced),
            Err(StepError::Bug(_)) if fault == Some(Fault::StepFails) => return Ok(Committed::Failed),
            Err(StepError::Bug(bug)) => return Err(bug.to_string()),
        };
        if fault == Some(Fault::CrashBeforeCommit) {
            self.crash()?;
            return Ok(Committed::Died);
        }
        Flow::<S>::on_commit(&self.object_state, &mut object_state, &ctx);
        let alarm_ms = alarm_to_set(&self.object_state, &object_state, self.known, &ctx);
        self.are_new(&object_state.appended.jobs)?;
        self.staged.extend(object_state.appended.jobs.iter().cloned());
        let appended = object_state.take_appended();
        if appended.facts != Facts::<S>::default() {
            state::lists_of(&appended.facts).map_err(|bug| bug.to_string())?;
        }
        for line in appended.timeline {
            self.tell(format_args!("key {}: {} {}", line.key_id, line.event, line.detail));
        }
        let verified = object_state.verify().and_then(|()| Flow::<S>::verify(&object_state));
        verified.map_err(|bug| bug.to_string())?;
        if may_be_too_long(&object_state) {
            written::<S>(&object_state)?;
        }
        self.audit(&object_state, ctx.now_ms)?;
        self.object_state = object_state;
        if let Some(at_ms) = alarm_ms.filter(|_| self.saboteur != Some(Saboteur::Alarm)) {
            self.set_alarm(at_ms);
            self.known = KnownAlarm::At(at_ms);
        }
        self.audit_alarm(&ctx)?;
        match fault {
            Some(Fault::CrashAfterCommit) => {
                self.crash()?;
                return Ok(Committed::Died);
            }
            Some(Fault::ClockBack) => self.clock_ahead_ms = -self.clock_off_ms().cast_signed(),
            _ => {}
        }
        Ok(Committed::Done { value, stalls: fault == Some(Fault::Stall) })
    }

    /// The alarm.
    pub(crate) fn ring(&mut self) -> Result<(), String> {
        self.ringing_ms = self.rings_at_ms.take();
        let rung = self.rings();
        self.ringing_ms = None;
        rung
    }

    fn rings(&mut self) -> Result<(), String> {
        self.known = KnownAlarm::Gone;
        let (me, now_ms) = (self.me(), self.clock_ms());
        let is_worked_on = |key: &&KeyRecord<_>| key.is_worked_on(&me, now_ms);
        let living: Vec<u32> =
            self.object_state.keys.iter().filter(is_worked_on).map(|key| key.key_id).collect();
        let woken = self.transaction(|object_state, ctx| Ok(wake(object_state, &me, ctx)))?;
        let Committed::Done { value: tokens, .. } = woken else {
            // The platform repeats an alarm whose handler has failed.
            self.set_alarm(self.clock_ms() + ALARM_AGAIN_MS);
            return Ok(());
        };
        if let Some(token) = tokens.iter().find(|token| living.contains(&token.key_id)) {
            return Err(format!("the alarm takes key {} from a run that lives", token.key_id));
        }
        tokens.into_iter().for_each(|token| self.start(token, 0, Vec::new()));
        self.drain()
    }

    /// Sets the alarm, by the clock of the incarnation. The platform takes the time that is ringing for no change, and forgets it with this alarm.
    fn set_alarm(&mut self, at_ms: u64) {
        let delay_ms = self.until(at_ms);
        let rings_at_ms = Some(self.now_ms.saturating_add(delay_ms));
        if self.ringing_ms == rings_at_ms {
            return;
        }
        self.rings_at_ms = rings_at_ms;
        self.alarms_set += 1;
        let set = self.alarms_set;
        self.after(delay_ms, Event::Alarm { set });
    }

    /// The incarnation dies, with all that was in its memory. The next one must read what was written.
    pub(crate) fn crash(&mut self) -> Result<(), String> {
        self.tell(format_args!("the incarnation dies"));
        self.instance += 1;
        self.known = KnownAlarm::Unknown;
        self.handed = Handed::default();
        self.set_clock();
        let object = self.object_state.object;
        let text = written::<S>(&self.object_state)?;
        let (read, _) = state::from_text(object, &text)
            .map_err(|bug| format!("what was committed cannot be read again: {bug}"))?;
        if read != self.object_state {
            return Err(format!(
                "what was committed is read as something else: {read:?}, it was {:?}",
                self.object_state
            ));
        }
        self.object_state = read;
        for running in std::mem::take(&mut self.runs).into_values() {
            running.clients.iter().for_each(|client| self.asks_again(*client));
        }
        Ok(())
    }

    /// An incarnation begins, with a clock of its own.
    pub(crate) fn set_clock(&mut self) {
        let off_ms = self.clock_off_ms().cast_signed();
        self.clock_ahead_ms = match self.site(Site::Start) {
            Some(Fault::ClockAhead) => off_ms,
            Some(Fault::ClockBehind) => -off_ms,
            _ => 0,
        };
    }

    /// How much a clock is wrong, in ms, if it is: two of them differ by no more than the quiet time and the window allow for.
    pub(crate) fn clock_off_ms(&self) -> u64 {
        match self.saboteur {
            Some(Saboteur::Clocks) => CLOCK_BROKEN_MS,
            _ => CLOCK_OFF_MAX_MS.min(self.times.quiet_ms / 4),
        }
    }

    /// What the clock of the incarnation shows, in ms since the epoch.
    pub(crate) const fn clock_ms(&self) -> u64 {
        self.now_ms.saturating_add_signed(self.clock_ahead_ms)
    }

    /// How long it is until that clock shows this time, in ms.
    pub(crate) const fn until(&self, at_ms: u64) -> u64 {
        at_ms.saturating_sub(self.clock_ms())
    }

    pub(crate) fn me(&self) -> InstanceId {
        InstanceId(format!("incarnation {}", self.instance))
    }

    pub(crate) fn context(&self) -> Context<Settings<S>> {
        Context {
            now_ms: self.clock_ms(),
            jitter_permille: 500,
            times: Saboteur::change(self.saboteur, self.times),
            keys_max: self.scenario.keys_max(),
            settings: self.scenario.settings(),
        }
    }
}

/// The text of a state, as a row has to hold it.
fn written<S: Scenario>(object_state: &ObjectState<Flow<S>>) -> Result<String, String> {
    let text = state::to_text(object_state, 0).map_err(|bug| bug.to_string())?;
    if text.len() > state::ROW_MAX_BYTES {
        return Err(format!("a state of {} bytes, which fits into no row", text.len()));
    }
    Ok(text)
}

/// To write the text takes longer than all else of a commit: so each commit only guesses, by what is in the state. After each crash it is written and
/// measured, whatever the guess, and there is a crash after each commit.
fn may_be_too_long(object_state: &impl Hash) -> bool {
    let mut length = Length(0);
    object_state.hash(&mut length);
    length.0 >= state::ROW_MAX_BYTES / TEXT_PER_CONTENT
}

/// How many bytes are in a value: each string's, and each number's.
struct Length(usize);

impl Hasher for Length {
    fn write(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn finish(&self) -> u64 {
        self.0 as u64
    }
}
