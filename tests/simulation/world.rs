//! One history: an object with its incarnations and its alarm, the clients around it, and time, which passes only
//! from event to event.
//!
//! This is the shell's part, played with faults: each core function runs in one transaction, what an action says is
//! done at once, and the alarm is set in the same commit. [`wire`](crate::wire) carries what goes to the provider.

use std::collections::BTreeMap;

use once::context::Times;
use once::id::InstanceId;
use once::record::Channel;
use payments::flows::engine::{Context, Event as Input, Limits, Rows, context};
use payments::providers::HttpAnswer;

use crate::auditor::Auditor;
use crate::clients::{Client, Place};
use crate::disk::Disks;
use crate::faults::{ALARM_LEAD_MS, Boundary, Fault, Faults, HOUR, MINUTE, Oddity, Plan, SKEW_MAX_MS, skew};
use crate::history::{
    Answer, Asking, Exchange, Outcome, Request, Runs, ends_within_ms, quarantine_ms, terms,
};
use crate::invariants::Writer;
use crate::provider::Provider;
use crate::report::Counters;
use crate::rng::Dice;
use crate::saboteur::Saboteur;
use crate::schedule::{EPOCH_MS, Schedule, tell};
use crate::store::{Staged, Store, first_expiry_ms, has_open_key};
use crate::wire::Delivery;

/// No history has more events than this.
const EVENTS_MAX: u32 = 30_000;
/// What must never be counted: the provider has forgotten a key, and it comes again.
pub(crate) const PRUNED: &str = "provider: keys pruned after 24 h and used again";

/// What is played: the place, the clients, and the provider's habits.
pub(crate) struct Scenario {
    pub(crate) place: Place,
    pub(crate) clients: Vec<Client>,
    pub(crate) clocks: Clocks,
    pub(crate) key_kept_longer_ms: u64,
    pub(crate) other_payments: u64,
}

/// How far ahead of the provider's the clocks of the incarnations are.
pub(crate) enum Clocks {
    Right,
    Random,
    /// One after the other; later ones are right.
    Listed(Vec<i64>),
}

/// What happens at a time.
pub(crate) enum Event {
    Knock(usize),
    Request { from: Request, to: Option<usize> },
    Answer { to: Request, answer: Answer },
    ClientGivesUp(Request),
    WaitOver(Request),
    Step { run: u32, input: Input },
    Arrive(Box<Delivery>),
    Executed(Box<Delivery>),
    Decided { payment: u64, charged: bool },
    Response { exchange: u64, answer: Box<HttpAnswer> },
    TimedOut { exchange: u64 },
    Page(Box<Asking>),
    PageAnswer(Box<Asking>, Box<HttpAnswer>),
    Alarm { set: u64 },
    Ring { set: u64 },
    Wake { instance: Option<usize> },
}

/// An incarnation of the object in memory.
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    pub(crate) ahead_ms: i64,
    pub(crate) alive: bool,
    pub(crate) asleep_until_ms: u64,
}

/// The world of one history.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    due: Schedule<Event>,
    pub(crate) dice: Dice,
    pub(crate) faults: Faults,
    /// When the effect of the last fault ends.
    pub(crate) calm_from_ms: u64,
    /// How long the provider asked to be left alone.
    pub(crate) owed_ms: u64,
    pub(crate) times: Times,
    pub(crate) saboteur: Saboteur,
    pub(crate) store: Store,
    pub(crate) instances: Vec<Instance>,
    pub(crate) current: Option<usize>,
    pub(crate) clocks: Clocks,
    /// Nothing reaches the object before.
    pub(crate) dark_until_ms: u64,
    pub(crate) alarm_set: u64,
    /// How long before its time [`Event::Alarm`] comes for the alarm that is set.
    pub(crate) alarm_lead_ms: u64,
    /// The run that last asked for a page of a look-up.
    pub(crate) pages_asked_by: Option<u32>,
    pub(crate) runs: Runs,
    /// Whether runs are in [turns](Active::in_turns).
    pub(crate) in_turns: bool,
    pub(crate) clients: Vec<Client>,
    pub(crate) provider: Provider,
    pub(crate) exchanges: BTreeMap<u64, Exchange>,
    pub(crate) auditor: Auditor,
    pub(crate) counters: Counters,
    pub(crate) trace: bool,
    /// Whether it goes on after a broken promise.
    pub(crate) to_the_end: bool,
}

impl World {
    pub(crate) fn new(story: Scenario, plan: Plan, dice: Dice, saboteur: Saboteur, trace: bool) -> Self {
        let times = Times::default();
        let mut world = Self {
            now_ms: EPOCH_MS,
            due: Schedule::new(),
            dice,
            faults: Faults::new(plan),
            calm_from_ms: EPOCH_MS,
            owed_ms: 0,
            times,
            saboteur,
            store: Store::new(Rows::empty(story.place.object), saboteur),
            instances: Vec::new(),
            current: None,
            clocks: story.clocks,
            dark_until_ms: 0,
            alarm_set: 0,
            alarm_lead_ms: 0,
            pages_asked_by: None,
            runs: Runs::default(),
            in_turns: false,
            clients: story.clients,
            provider: Provider::new(story.key_kept_longer_ms, story.other_payments),
            exchanges: BTreeMap::new(),
            auditor: Auditor::new(terms(&times)),
            counters: Counters::default(),
            trace,
            to_the_end: false,
        };
        for client in 0..world.clients.len() {
            let starts_ms = world.clients[client].starts_ms;
            world.after(starts_ms, Event::Knock(client));
        }
        world
    }

    /// Every commit goes to a disk, too.
    pub(crate) fn on(mut self, disks: &Disks) -> Self {
        self.store.on(disks);
        self
    }

    /// Commits what a run does up to the next thing to wait for at once, as the Worker does.
    pub(crate) const fn in_turns(mut self, in_turns: bool) -> Self {
        self.in_turns = in_turns;
        self
    }

    /// Does not stop at the first broken promise.
    pub(crate) fn played_on(mut self) -> Self {
        self.to_the_end = true;
        self
    }

    /// Plays the history to its end, or to the first broken promise.
    pub(crate) fn play(mut self) -> Outcome {
        let mut events = 0;
        while let Some((at_ms, event)) = self.due.next() {
            self.now_ms = at_ms;
            self.happen(event);
            self.check_liveness();
            events += 1;
            if events > EVENTS_MAX {
                self.auditor.overdue(self.now_ms - self.calm_from_ms.min(self.now_ms));
            }
            let broken = !self.auditor.violations.is_empty();
            if broken && (!self.to_the_end || events > EVENTS_MAX) {
                break;
            }
        }
        if self.auditor.violations.is_empty() {
            self.auditor.close();
        }
        let tally = std::mem::take(&mut self.provider.tally);
        self.counters.count("histories");
        self.counters.add("provider: stored answers replayed", tally.replayed);
        self.counters.add("provider: 409, key in use", tally.in_use);
        self.counters.add(PRUNED, tally.pruned);
        Outcome { violations: self.auditor.violations, counters: self.counters, passed: self.faults.passed }
    }

    /// Once faults stop, a key ends.
    fn check_liveness(&mut self) {
        let calm_from_ms = self.calm_from_ms.max(self.dark_until_ms) + self.owed_ms;
        if self.now_ms > calm_from_ms + ends_within_ms(&self.times)
            && has_open_key(&self.store.rows, self.now_ms, &|_| false)
        {
            self.auditor.overdue(self.now_ms - calm_from_ms);
        }
        // A finished key is dropped at its time, by the clocks of who finished it and of who drops it.
        let expires_at_ms = first_expiry_ms(&self.store.rows).unwrap_or(u64::MAX / 2).max(calm_from_ms);
        if self.now_ms > expires_at_ms + 4 * SKEW_MAX_MS + 2 * MINUTE {
            self.auditor.kept(self.now_ms - expires_at_ms);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Knock(client) => self.knock(client),
            Event::Request { from, to } => self.request(from, to),
            Event::Answer { to, answer } => self.answered(to, answer),
            Event::ClientGivesUp(request) => self.client_gives_up(request),
            Event::WaitOver(request) => self.wait_over(request),
            Event::Step { run, input } => self.step(run, input),
            Event::Arrive(delivery) => self.arrive(*delivery),
            Event::Executed(delivery) => self.executed(*delivery),
            Event::Decided { payment, charged } => self.decided(payment, charged),
            Event::Response { exchange, answer } => self.response(exchange, &answer),
            Event::TimedOut { exchange } => self.timed_out(exchange),
            Event::Page(asking) => self.page(*asking),
            Event::PageAnswer(asking, answer) => self.page_answer(*asking, &answer),
            Event::Alarm { set } => self.alarm(set),
            Event::Ring { set } => self.ring(set),
            Event::Wake { instance } => self.wake(instance),
        }
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event) {
        self.due.at(self.now_ms + delay_ms, event);
    }

    pub(crate) fn tell(&self, line: impl FnOnce() -> String) {
        if self.trace {
            tell(self.now_ms, &line());
        }
    }

    /// The fault that strikes here, if one does.
    pub(crate) fn fault(&mut self, boundary: Boundary) -> Option<Fault> {
        let number = self.faults.passed.len();
        let fault = self.faults.at(boundary, self.now_ms - EPOCH_MS, &mut self.dice)?;
        self.tell(|| format!("      boundary {number}: {boundary:?} meets {fault:?}"));
        self.counters.count("faults");
        self.struck(fault);
        Some(fault)
    }

    fn struck(&mut self, fault: Fault) {
        self.calm_from_ms = self.calm_from_ms.max(self.now_ms + fault.lasts_ms());
        if let Fault::Odd(Oddity::RateLimited { .. }) = fault {
            self.owed_ms = self.owed_ms.max(fault.lasts_ms());
        }
        if fault.quarantines() {
            self.owed_ms = self.owed_ms.max(quarantine_ms(&self.times));
        }
    }

    /// The incarnation that gets what comes in now.
    pub(crate) fn current(&mut self) -> usize {
        if let Some(current) = self.current {
            return current;
        }
        let number = self.instances.len();
        let ahead_ms = match &self.clocks {
            Clocks::Right => 0,
            Clocks::Random => skew(&mut self.dice),
            Clocks::Listed(clocks) => clocks.get(number).copied().unwrap_or(0),
        };
        let id = InstanceId(format!("incarnation-{number}"));
        self.tell(|| format!("{} is born, its clock {ahead_ms} ms ahead", id.0));
        self.instances.push(Instance { id, ahead_ms, alive: true, asleep_until_ms: 0 });
        self.current = Some(number);
        number
    }

    pub(crate) fn object_now_ms(&self, instance: usize) -> u64 {
        self.now_ms.saturating_add_signed(self.instances[instance].ahead_ms)
    }

    pub(crate) fn context(&mut self, instance: usize) -> Context {
        let jitter = u16::try_from(self.dice.between(0, 1000)).unwrap_or(0);
        let ctx = context(self.object_now_ms(instance), jitter, self.times, Limits::default());
        self.saboteur.context(ctx)
    }

    pub(crate) fn crash(&mut self, instance: usize, dark_ms: u64) {
        self.counters.count("crashes");
        self.instances[instance].alive = false;
        if self.current == Some(instance) {
            self.current = None;
        }
        self.dark_until_ms = self.dark_until_ms.max(self.now_ms + dark_ms);
        for request in self.runs.die(instance) {
            self.reply(request, Answer::plain("reset"));
        }
    }

    /// What a fault at a transaction does before it. `false`: the transaction does not run now; `again` is tried when
    /// the incarnation wakes.
    pub(crate) fn enter(&mut self, instance: usize, fault: Option<Fault>, again: Event) -> bool {
        match fault {
            Some(Fault::Pause { replaced, ms }) => {
                self.counters.count(if replaced { "pauses, replaced meanwhile" } else { "pauses" });
                self.instances[instance].asleep_until_ms = self.now_ms + ms;
                if replaced && self.current == Some(instance) {
                    self.current = None;
                }
                self.after(ms, again);
                false
            }
            Some(Fault::Clock { ahead_ms }) => {
                self.counters.count("clocks set");
                self.instances[instance].ahead_ms = ahead_ms;
                true
            }
            _ => true,
        }
    }

    pub(crate) fn commit(&mut self, staged: Staged, writer: Writer, ctx: &Context, instance: usize) {
        let commit = self.store.commit(staged, writer, ctx, instance);
        if let Some(seen) = self.store.kept_otherwise.take() {
            self.auditor.kept_otherwise(&seen);
        }
        self.counters.count("transactions committed");
        self.tell(|| format!("  commit {:?} ride {:?} jobs {:?}", commit.keys, commit.ride, commit.jobs));
        self.auditor.committed(&commit);
        if let Some(at_ms) = commit.alarm_at_ms.filter(|_| commit.set_alarm) {
            self.alarm_set += 1;
            let in_ms = at_ms.saturating_sub(self.object_now_ms(instance)).max(1);
            let lead_ms = ALARM_LEAD_MS.min(in_ms - 1);
            self.alarm_lead_ms = lead_ms;
            self.after(in_ms - lead_ms, Event::Alarm { set: self.alarm_set });
        }
    }
}

impl Scenario {
    /// The story of a seed.
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let mut object = [0; 32];
        object[..8].copy_from_slice(&dice.roll().to_be_bytes());
        let object = once::id::ObjectId::from_bytes(object);
        let place = Place { object, channel: dice.pick(&[Channel::Api, Channel::Form]) };
        let others = dice.between(0, 4);
        let mut clients = vec![Client::random(&place, true, dice)];
        clients.extend((0..others).map(|_| Client::random(&place, false, dice)));
        Self {
            place,
            clients,
            clocks: if dice.permille(600) { Clocks::Random } else { Clocks::Right },
            key_kept_longer_ms: dice.pick(&[0, 0, HOUR, 24 * HOUR]),
            other_payments: dice.pick(&[0, 0, 0, 2, 4, 204]),
        }
    }
}
