//! One history: an object with its incarnations and its alarm, the clients, the provider, and time, which passes only from event to
//! event. This is the shell's part: each function of the engine runs in one transaction, what an action says is done at once, and
//! the alarm is set in the same commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::panic::{AssertUnwindSafe, catch_unwind};

use once::alarm::KnownAlarm;
use once::begin::Command;
use once::call::ProviderCall;
use once::domain::Domain;
use once::id::ObjectId;
use once::object_state::ObjectState;
use once::outbox::Handed;
use once::record::StoredResponse;
use once::run::{Event as Input, Run};
use once::times::Times;

use crate::fault::{Fault, Meets, Outage, Site};
use crate::plan::Plan;
use crate::provider::Provider;
use crate::saboteur::Saboteur;
pub(crate) use crate::scenario::Answer;
use crate::scenario::{Job, Scenario, Violation};

/// No history has more events than this.
const EVENTS_MAX: u32 = 20_000;
/// The time at which a history begins, in ms since the epoch.
pub(crate) const BEGIN_MS: u64 = 1_760_000_000_000;
/// How long a message is on its way, in ms.
pub(crate) const WAY_MS: u64 = 50;

pub(crate) type Flow<S> = <S as Scenario>::Flow;
pub(crate) type Facts<S> = <Flow<S> as Domain>::Facts;

/// A history without a violation.
pub(crate) struct History {
    pub(crate) sites: Vec<Site>,
    pub(crate) faults: u64,
    pub(crate) settled_by_hand: u64,
    /// The keys under which calls went out, and the ids of the jobs.
    pub(crate) names: BTreeSet<String>,
}

/// Plays one, in the scenario's object or in another one.
pub(crate) fn play<S: Scenario>(
    scenario: &S,
    saboteur: Option<Saboteur>,
    plan: Plan,
    object: ObjectId,
) -> Result<History, Box<Violation>> {
    if let Err(error) = scenario.times().validate() {
        let what = format!("the scenario's times do not fit together: {error}");
        return Err(Box::new(Violation { what, plan, history: Vec::new() }));
    }
    let mut world = World::new(scenario, saboteur, plan.clone(), object, None);
    let Err(first) = world.play_out() else {
        let jobs = world.staged.into_iter().map(|job| job.job_id);
        let names = world.keys_sent.into_iter().chain(jobs).collect();
        let World { sites, faults, settled_by_hand, .. } = world;
        return Ok(History { sites, faults, settled_by_hand, names });
    };
    // Once more, and every line of it is kept.
    let mut world = World::new(scenario, saboteur, plan, object, Some(Vec::new()));
    let what = match world.play_out() {
        Err(again) if again == first => first,
        Err(again) => format!("it is different each time. First: {first}. Then: {again}"),
        Ok(()) => format!("it is different each time. First: {first}. Then all was well"),
    };
    Err(Box::new(Violation { what, plan: world.plan, history: world.history.unwrap_or_default() }))
}

/// What happens at a time.
pub(crate) enum Event<S: Scenario> {
    Ask { client: usize },
    Step { instance: u32, run: u32, input: Input<Answer<S>> },
    Arrive { key: String, call: Box<ProviderCall<Flow<S>>>, meets: Meets, asked_by: Option<(u32, u32)> },
    Page { instance: u32, run: u32, call: Box<ProviderCall<Flow<S>>>, fault: Option<Fault> },
    Alarm { set: u64 },
    Confirm { job_id: String },
    Tell { call: Box<ProviderCall<Flow<S>>>, answer: Answer<S>, tries: u32 },
    Happens { number: usize },
    Person,
}

pub(crate) struct Client {
    pub(crate) tries: u32,
    pub(crate) is_gone: bool,
    pub(crate) asks_late: bool,
}

pub(crate) struct Running<S: Scenario> {
    pub(crate) run: Run<Flow<S>>,
    pub(crate) clients: Vec<usize>,
}

pub(crate) struct World<'a, S: Scenario> {
    pub(crate) scenario: &'a S,
    pub(crate) saboteur: Option<Saboteur>,
    pub(crate) plan: Plan,
    pub(crate) times: Times,
    /// What time it is; an incarnation has [a clock](World::clock_ms) of its own.
    pub(crate) now_ms: u64,
    /// How much the clock of the incarnation that lives is ahead, in ms.
    pub(crate) clock_ahead_ms: i64,
    events: BTreeMap<(u64, u64), Event<S>>,
    pub(crate) events_made: u64,
    pub(crate) object_state: ObjectState<Flow<S>>,
    /// Only the newest setting of the alarm counts.
    pub(crate) alarms_set: u64,
    /// When the alarm rings, if it is set.
    pub(crate) rings_at_ms: Option<u64>,
    /// The time of the one that is ringing.
    pub(crate) ringing_ms: Option<u64>,
    /// The incarnation that lives, and what it knows about the alarm.
    pub(crate) instance: u32,
    pub(crate) known: KnownAlarm,
    pub(crate) handed: Handed,
    pub(crate) runs: BTreeMap<u32, Running<S>>,
    pub(crate) runs_made: u32,
    pub(crate) clients: Vec<Client>,
    pub(crate) requests: Vec<Command<Flow<S>>>,
    pub(crate) provider: Provider<Flow<S>>,
    pub(crate) outage: Option<Outage>,
    /// The keys under which calls went out.
    pub(crate) keys_sent: BTreeSet<String>,
    pub(crate) responses: BTreeMap<String, StoredResponse>,
    /// All jobs that were ever staged, in order.
    pub(crate) staged: Vec<Job<S>>,
    /// The ids of those that were handed out, and of those of which the object was told that they are done.
    pub(crate) jobs: Vec<String>,
    pub(crate) confirmed: BTreeSet<String>,
    sites: Vec<Site>,
    faults: u64,
    /// How often a person has said how a call ended.
    pub(crate) settled_by_hand: u64,
    /// What has happened, line by line, if that is kept.
    history: Option<Vec<String>>,
}

impl<'a, S: Scenario> World<'a, S> {
    fn new(
        scenario: &'a S,
        saboteur: Option<Saboteur>,
        plan: Plan,
        object: ObjectId,
        history: Option<Vec<String>>,
    ) -> Self {
        let mut world = Self {
            scenario,
            saboteur,
            plan,
            times: scenario.times(),
            now_ms: BEGIN_MS,
            clock_ahead_ms: 0,
            events: BTreeMap::new(),
            events_made: 0,
            object_state: ObjectState::empty(object),
            alarms_set: 0,
            rings_at_ms: None,
            ringing_ms: None,
            instance: 0,
            known: KnownAlarm::Unknown,
            handed: Handed::default(),
            runs: BTreeMap::new(),
            runs_made: 0,
            clients: Vec::new(),
            requests: Vec::new(),
            provider: Provider::new(),
            outage: None,
            keys_sent: BTreeSet::new(),
            responses: BTreeMap::new(),
            staged: Vec::new(),
            jobs: Vec::new(),
            confirmed: BTreeSet::new(),
            sites: Vec::new(),
            faults: 0,
            settled_by_hand: 0,
            history,
        };
        for (client, (at_ms, request)) in scenario.requests().into_iter().enumerate() {
            world.requests.push(request);
            world.clients.push(Client { tries: 0, is_gone: false, asks_late: true });
            world.after(at_ms, Event::Ask { client });
        }
        for (number, at_ms) in scenario.events().into_iter().enumerate() {
            world.after(at_ms, Event::Happens { number });
        }
        world.person_comes();
        world.set_clock();
        world
    }

    /// Also a panic of the flow, or of the judge, is a broken promise.
    fn play_out(&mut self) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| self.play())).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Err(format!("it panicked: {text}"))
        })
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
            Event::Page { instance, run, call, fault } if instance == self.instance => {
                self.read((instance, run), &call, fault);
                Ok(())
            }
            Event::Step { .. } | Event::Page { .. } => Ok(()),
            Event::Arrive { key, call, meets, asked_by } => self.arrive(&key, call, meets, asked_by),
            Event::Alarm { set } if set == self.alarms_set => self.ring(),
            Event::Alarm { .. } => Ok(()),
            Event::Confirm { job_id } => self.confirm(&job_id),
            Event::Tell { call, answer, tries } => self.told_by_provider(call, answer, tries),
            Event::Happens { number } => self.happens_aside(number),
            Event::Person => self.look(),
        }
    }

    /// An opportunity for a fault.
    pub(crate) fn site(&mut self, site: Site) -> Option<Fault> {
        if let Some(outage) = self.outage.as_mut().filter(|outage| self.now_ms < outage.until_ms) {
            outage.places_left = outage.places_left.checked_sub(1)?;
        }
        let place = self.sites.len();
        self.sites.push(site);
        let fault = self.plan.fault_at(place, site)?;
        self.faults += 1;
        self.tell(format_args!("fault at place {place}: {fault:?}"));
        Some(fault)
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event<S>) {
        self.events_made += 1;
        self.events.insert((self.now_ms.saturating_add(delay_ms), self.events_made), event);
    }

    pub(crate) fn tell(&mut self, what: Arguments<'_>) {
        if let Some(history) = &mut self.history {
            let at_ms = self.now_ms - BEGIN_MS;
            history.push(format!("{at_ms:>9} ms  {what}"));
        }
    }
}
