//! One history: an object with its incarnations and its alarm, the clients, the provider, and time, which passes only from event to
//! event. This is the shell's part: each function of the engine runs in one transaction, what an action says is done at once, and
//! the alarm is set in the same commit.

use std::collections::{BTreeMap, BTreeSet};

use once::alarm::{KnownAlarm, alarm_to_set, wake};
use once::begin::{Begin, begin};
use once::call::{LookUp, ProviderCall};
use once::context::{Bug, Context};
use once::domain::Domain;
use once::id::InstanceId;
use once::object_state::ObjectState;
use once::outbox::Handed;
use once::record::{FencingToken, Lifecycle, StoredResponse};
use once::run::{Action, Event as Input, Run, RunEnd};
use once::state;
use once::step::StepError;
use once::times::Times;

use crate::plan::{Fault, Plan, Site};
use crate::provider::{Provider, not_sent};
use crate::saboteur::Saboteur;
use crate::scenario::{End, Scenario, Violation};

/// No history has more events than this.
const EVENTS_MAX: u32 = 20_000;
/// The time at which a history begins, in ms since the epoch.
const BEGIN_MS: u64 = 1_760_000_000_000;
/// How long a message is on its way, in ms.
pub(crate) const WAY_MS: u64 = 50;
/// How often a client asks before it gives up.
const TRIES_MAX: u32 = 4;
/// How long after the retention a client asks once more, in ms.
const LONG_AFTER_MS: u64 = 2 * 3_600_000;
/// How soon the platform repeats an alarm whose handler died, in ms.
const ALARM_AGAIN_MS: u64 = 2_000;

pub(crate) type Flow<S> = <S as Scenario>::Flow;
type Answer<S> = <Flow<S> as Domain>::Answer;

/// A history without a violation.
pub(crate) struct History {
    pub(crate) sites: Vec<Site>,
    pub(crate) faults: u64,
}

/// Plays one.
pub(crate) fn play<S: Scenario>(
    scenario: &S,
    saboteur: Option<Saboteur>,
    plan: Plan,
) -> Result<History, Box<Violation>> {
    let mut world = World::new(scenario, saboteur, plan);
    match world.play() {
        Ok(()) => Ok(History { sites: world.sites, faults: world.faults }),
        Err(what) => Err(Box::new(Violation { what, plan: world.plan, history: world.history })),
    }
}

/// What happens at a time.
pub(crate) enum Event<S: Scenario> {
    Ask { client: usize },
    Step { instance: u32, run: u32, input: Input<Answer<S>> },
    Arrive { key: String, call: Box<ProviderCall<Flow<S>>>, asked_by: Option<(u32, u32)> },
    Page { instance: u32, run: u32, call: Box<ProviderCall<Flow<S>>> },
    Alarm { set: u64 },
    Confirm { job_id: String },
}

struct Client {
    tries: u32,
    is_gone: bool,
    asks_late: bool,
}

struct Running<S: Scenario> {
    run: Run<Flow<S>>,
    clients: Vec<usize>,
}

/// What came of a transaction: nothing, where the incarnation died.
pub(crate) struct Committed<T> {
    value: Option<T>,
    stalls: bool,
}

pub(crate) struct World<'a, S: Scenario> {
    pub(crate) scenario: &'a S,
    pub(crate) saboteur: Option<Saboteur>,
    plan: Plan,
    pub(crate) times: Times,
    pub(crate) now_ms: u64,
    events: BTreeMap<(u64, u64), Event<S>>,
    pub(crate) events_made: u64,
    pub(crate) object_state: ObjectState<Flow<S>>,
    /// Only the newest setting of the alarm counts.
    alarms_set: u64,
    /// The incarnation that lives, and what it knows about the alarm.
    pub(crate) instance: u32,
    known: KnownAlarm,
    pub(crate) handed: Handed,
    runs: BTreeMap<u32, Running<S>>,
    runs_made: u32,
    clients: Vec<Client>,
    requests: Vec<once::begin::Command<Flow<S>>>,
    pub(crate) provider: Provider<Flow<S>>,
    responses: BTreeMap<String, StoredResponse>,
    staged: BTreeSet<String>,
    pub(crate) jobs: Vec<String>,
    sites: Vec<Site>,
    faults: u64,
    history: Vec<String>,
}

impl<'a, S: Scenario> World<'a, S> {
    fn new(scenario: &'a S, saboteur: Option<Saboteur>, plan: Plan) -> Self {
        let mut world = Self {
            scenario,
            saboteur,
            plan,
            times: scenario.times(),
            now_ms: BEGIN_MS,
            events: BTreeMap::new(),
            events_made: 0,
            object_state: ObjectState::empty(scenario.object()),
            alarms_set: 0,
            instance: 0,
            known: KnownAlarm::Unknown,
            handed: Handed::default(),
            runs: BTreeMap::new(),
            runs_made: 0,
            clients: Vec::new(),
            requests: Vec::new(),
            provider: Provider::new(),
            responses: BTreeMap::new(),
            staged: BTreeSet::new(),
            jobs: Vec::new(),
            sites: Vec::new(),
            faults: 0,
            history: Vec::new(),
        };
        for (client, (at_ms, request)) in scenario.requests().into_iter().enumerate() {
            world.requests.push(request);
            world.clients.push(Client { tries: 0, is_gone: false, asks_late: true });
            world.after(at_ms, Event::Ask { client });
        }
        world
    }

    fn play(&mut self) -> Result<(), String> {
        for _ in 0..EVENTS_MAX {
            let Some(((at_ms, _), event)) = self.events.pop_first() else {
                return self.judge();
            };
            self.now_ms = at_ms;
            self.happens(event)?;
        }
        Err("it never comes to rest".to_owned())
    }

    fn happens(&mut self, event: Event<S>) -> Result<(), String> {
        match event {
            Event::Ask { client } => self.ask(client),
            Event::Step { instance, run, input } if instance == self.instance => self.step(run, input),
            Event::Page { instance, run, call } if instance == self.instance => {
                let look_up = self.provider.look_up(&call);
                self.tell(&format!("look-up: {}", look_up.name()));
                self.after(
                    WAY_MS,
                    Event::Step { instance, run, input: Input::LookedUp(call.call_id, look_up) },
                );
                Ok(())
            }
            Event::Step { .. } | Event::Page { .. } => Ok(()),
            Event::Arrive { key, call, asked_by } => self.arrive(&key, &call, asked_by),
            Event::Alarm { set } if set == self.alarms_set => self.ring(),
            Event::Alarm { .. } => Ok(()),
            Event::Confirm { job_id } => self.confirm(&job_id),
        }
    }

    /// A client sends its request.
    fn ask(&mut self, client: usize) -> Result<(), String> {
        let is_gone = self.site(Site::Client) == Some(Fault::ClientGone);
        let request = self.requests[client].clone();
        self.clients[client].tries += 1;
        self.clients[client].is_gone |= is_gone;
        let me = self.me();
        let forgets = self.saboteur == Some(Saboteur::Tombstone);
        let patience_until_ms = self.now_ms + self.times.wait_ms;
        let (in_turns, before) = (self.plan.is_in_turns(), self.object_state.clone());
        let begun = self.transaction(|object_state, ctx| {
            if forgets {
                let is_expired =
                    |key: &once::record::KeyRecord<_>| matches!(key.lifecycle, Lifecycle::Expired(_));
                let gone: Vec<u32> =
                    object_state.keys.iter().filter(|key| is_expired(key)).map(|key| key.key_id).collect();
                object_state.calls.retain(|call| !gone.contains(&call.key_id));
                object_state.keys.retain(|key| !gone.contains(&key.key_id));
            }
            let begun = begin(object_state, &request, &me, ctx)?;
            let first_turn = match &begun {
                Begin::Run(token) if in_turns => {
                    let mut run = Run::new(token.clone(), patience_until_ms, &[]);
                    let action = run.first_turn(object_state, ctx);
                    Some((run, action))
                }
                _ => None,
            };
            Ok((begun, first_turn))
        })?;
        let Some(Committed { value, stalls }) = begun else { return Err("a request is fenced".to_owned()) };
        let (begun, first_turn) = value.unzip();
        if let Some((run, action)) = first_turn.flatten() {
            self.runs_made += 1;
            let running = Running { run, clients: vec![client] };
            return self.act(self.runs_made, running, (action, stalls), before);
        }
        match begun {
            None => self.asks_again(client),
            Some(Begin::Run(token)) => self.start(token, patience_until_ms, vec![client]),
            Some(Begin::Replay { response, .. }) => self.answer(client, &response)?,
            Some(Begin::InProgress { key_id, .. }) => {
                match self.runs.values_mut().rfind(|running| running.run.token.key_id == key_id) {
                    Some(running) => running.clients.push(client),
                    None => self.asks_again(client),
                }
            }
            Some(Begin::Pending { .. }) => self.asks_again(client),
            // Final, and nothing was begun.
            Some(Begin::Refused(_) | Begin::Expired) => {}
            Some(other) => return Err(format!("client {client} was told {other:?}")),
        }
        Ok(())
    }

    fn asks_again(&mut self, client: usize) {
        let known = &self.clients[client];
        if !known.is_gone && known.tries < TRIES_MAX {
            self.after(1_000 << known.tries, Event::Ask { client });
        } else {
            self.asks_late(client);
        }
    }

    /// Whoever comes back when the response is long gone.
    fn asks_late(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if !known.is_gone && std::mem::take(&mut known.asks_late) {
            self.after(self.times.retention_ms + LONG_AFTER_MS, Event::Ask { client });
        }
    }

    /// A client gets its response: the same as everybody before under the same key.
    fn answer(&mut self, client: usize, response: &StoredResponse) -> Result<(), String> {
        let key = self.requests[client].key_hash.0.clone();
        let first = self.responses.entry(key).or_insert_with(|| response.clone());
        if first != response {
            return Err(format!("client {client} got another response than the first one under its key"));
        }
        self.tell(&format!("client {client} is answered {}", response.status));
        self.asks_late(client);
        Ok(())
    }

    fn start(&mut self, token: FencingToken, patience_until_ms: u64, clients: Vec<usize>) {
        self.runs_made += 1;
        let run = self.runs_made;
        self.runs.insert(run, Running { run: Run::new(token, patience_until_ms, &[]), clients });
        self.after(0, Event::Step { instance: self.instance, run, input: Input::Go });
    }

    /// One transaction of a run, and what it says.
    fn step(&mut self, id: u32, input: Input<Answer<S>>) -> Result<(), String> {
        let Some(mut running) = self.runs.remove(&id) else { return Ok(()) };
        self.forge(&mut running.run.token);
        let before = self.object_state.clone();
        let in_turns = self.plan.is_in_turns();
        let stepped = self.transaction(|object_state, ctx| match in_turns {
            true => running.run.turn(object_state, input, ctx),
            false => running.run.step(object_state, input, ctx),
        })?;
        // Another run took over, or the incarnation died.
        let Some(Committed { value: Some(action), stalls }) = stepped else {
            running.clients.iter().for_each(|client| self.asks_again(*client));
            return Ok(());
        };
        self.act(id, running, (action, stalls), before)
    }

    /// What a run says is done. `before` are the rows before its transaction.
    fn act(
        &mut self,
        id: u32,
        running: Running<S>,
        (action, stalls): (Action<Flow<S>>, bool),
        before: ObjectState<Flow<S>>,
    ) -> Result<(), String> {
        let stall_ms = if stalls { self.times.lease_ms + 1_000 } else { 0 };
        let instance = self.instance;
        let go = |input| Event::Step { instance, run: id, input };
        match action {
            Action::Again => self.after(stall_ms, go(Input::Go)),
            Action::SleepUntil(at_ms) => self.after(at_ms.saturating_sub(self.now_ms), go(Input::Go)),
            Action::Send(call) => {
                if self.saboteur == Some(Saboteur::WriteAhead) {
                    self.object_state = before;
                }
                self.must_be_written(&call)?;
                let lacks_client = self.lacks_client(&running);
                self.runs.insert(id, running);
                match lacks_client {
                    true => self.after(stall_ms, go(Input::Outcome(call.call_id, not_sent()))),
                    false => self.send(id, call, stall_ms),
                }
                return Ok(());
            }
            Action::LookUp(call) => {
                let fails = self.site(Site::LookUp) == Some(Fault::LookUpFails);
                let reason = "no answer".to_owned();
                let silence = match self.lacks_client(&running) {
                    true => Some(LookUp::NoClient { reason }),
                    false => fails.then_some(LookUp::Inconclusive { from_the_start: false, reason }),
                };
                let event = match silence {
                    Some(silence) => go(Input::LookedUp(call.call_id, silence)),
                    None => Event::Page { instance, run: id, call: Box::new(call) },
                };
                self.after(stall_ms + WAY_MS, event);
            }
            Action::End(end) => {
                for client in running.clients {
                    match &end {
                        RunEnd::Finished(response) => self.answer(client, response)?,
                        RunEnd::Pending { .. } | RunEnd::Interrupted { .. } => self.asks_again(client),
                    }
                }
                return self.drain();
            }
        }
        self.runs.insert(id, running);
        Ok(())
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

    /// The alarm.
    fn ring(&mut self) -> Result<(), String> {
        self.known = KnownAlarm::Gone;
        let me = self.me();
        let woken = self.transaction(|object_state, ctx| Ok(wake(object_state, &me, ctx)))?;
        let Some(tokens) = woken.and_then(|committed| committed.value) else {
            // The platform repeats an alarm whose handler has failed.
            self.set_alarm(self.now_ms + ALARM_AGAIN_MS);
            return Ok(());
        };
        tokens.into_iter().for_each(|token| self.start(token, 0, Vec::new()));
        self.drain()
    }

    /// One transaction. `None` where the run has lost its lease; an error is a bug.
    pub(crate) fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut ObjectState<Flow<S>>, &Context<()>) -> Result<T, StepError>,
    ) -> Result<Option<Committed<T>>, String> {
        let ctx = self.context();
        let mut object_state = self.object_state.clone();
        let value = match body(&mut object_state, &ctx) {
            Ok(value) => value,
            Err(StepError::Fenced) => return Ok(None),
            Err(StepError::Bug(Bug(bug))) => return Err(format!("a bug: {bug}")),
        };
        let fault = self.site(Site::Commit);
        if fault == Some(Fault::CrashBeforeCommit) {
            self.crash();
            return Ok(Some(Committed { value: None, stalls: false }));
        }
        let alarm_ms = alarm_to_set(&self.object_state, &object_state, self.known, &ctx);
        let appended = std::mem::take(&mut object_state.appended);
        self.staged.extend(appended.jobs.iter().map(|job| job.job_id.clone()));
        object_state.jobs.extend(appended.jobs);
        for line in appended.timeline {
            self.tell(&format!("key {}: {} {}", line.key_id, line.event, line.detail));
        }
        <Flow<S> as once::flow::Flow>::verify(&object_state).map_err(|Bug(bug)| format!("a bug: {bug}"))?;
        self.object_state = object_state;
        if let Some(at_ms) = alarm_ms.filter(|_| self.saboteur != Some(Saboteur::Alarm)) {
            self.set_alarm(at_ms);
            self.known = KnownAlarm::At(at_ms);
        }
        if fault == Some(Fault::CrashAfterCommit) {
            self.crash();
            return Ok(Some(Committed { value: None, stalls: false }));
        }
        Ok(Some(Committed { value: Some(value), stalls: fault == Some(Fault::Stall) }))
    }

    fn set_alarm(&mut self, at_ms: u64) {
        self.alarms_set += 1;
        let set = self.alarms_set;
        self.after(at_ms.saturating_sub(self.now_ms), Event::Alarm { set });
    }

    /// The incarnation dies, with all that was in its memory.
    pub(crate) fn crash(&mut self) {
        self.tell("the incarnation dies");
        self.instance += 1;
        self.known = KnownAlarm::Unknown;
        self.handed = Handed::default();
        // The next one reads what is stored: what the text does not hold is lost.
        let object = self.object_state.object;
        let stored = state::to_text(&self.object_state, 0).and_then(|text| state::from_text(object, &text));
        self.object_state = stored.map_or_else(|_| ObjectState::empty(object), |(read, _)| read);
        for running in std::mem::take(&mut self.runs).into_values() {
            running.clients.iter().for_each(|client| self.asks_again(*client));
        }
    }

    /// An opportunity for a fault.
    pub(crate) fn site(&mut self, site: Site) -> Option<Fault> {
        let place = self.sites.len();
        self.sites.push(site);
        let fault = self.plan.fault_at(place, site)?;
        self.faults += 1;
        self.tell(&format!("fault at place {place}: {fault:?}"));
        Some(fault)
    }

    fn me(&self) -> InstanceId {
        InstanceId(format!("incarnation {}", self.instance))
    }

    pub(crate) const fn context(&self) -> Context<()> {
        Context {
            now_ms: self.now_ms,
            jitter_permille: 500,
            times: self.times,
            keys_max: u32::MAX,
            settings: (),
        }
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event<S>) {
        self.events_made += 1;
        self.events.insert((self.now_ms + delay_ms, self.events_made), event);
    }

    pub(crate) fn tell(&mut self, what: &str) {
        let at_ms = self.now_ms - BEGIN_MS;
        self.history.push(format!("{at_ms:>9} ms  {what}"));
    }

    /// What must be true at the end of every history.
    fn judge(&self) -> Result<(), String> {
        if let Some(key) =
            self.object_state.keys.iter().find(|key| matches!(key.lifecycle, Lifecycle::Open(_)))
        {
            return Err(format!("key {} was never finished", key.key_id));
        }
        if let Some(lost) = self.staged.iter().find(|job_id| !self.jobs.contains(job_id)) {
            return Err(format!("the job {lost} was lost"));
        }
        if let Some(left) = self.object_state.jobs.first() {
            return Err(format!("the job {} never left", left.job_id));
        }
        let end =
            End { object_state: &self.object_state, executions: &self.provider.executions, jobs: &self.jobs };
        self.scenario.judge(&end)
    }
}
