//! One history: the objects of the payments and of the keys, each with its incarnations and its alarm; the clients around
//! them; and time, which passes only from event to event.
//!
//! This is the shell's part, played with faults: each core function runs in one transaction of one object, what an action
//! says is done at once, and the alarm is set in the same commit.

mod events;
mod incarnations;

pub(crate) use events::Event;
pub(crate) use incarnations::{Reached, Transacted};

use std::collections::{BTreeMap, BTreeSet};

use once::context::Times;
use once::id::{InstanceId, ObjectId};
use once::outbox::Handed;
use once::step::StepError;
use payments::engine::{Context, Event as Input, Lifecycle, Limits, ObjectState, context, with_credentials};
use payments::payment::id::PaymentId;
use payments::payment::records::JobKind;
use payments::payment::status_query::StatusQuery;
use payments::providers::HttpAnswer;
use payments::transitions::answers::Ended;
use payments::transitions::polling::Asker;

use super::accounts::{Accounts, Secret, calls_away, is_away};
use super::adyen::Adyen;
use super::auditor::{Auditor, BookedCustomer, Commit, Entry, Returned, thousandths};
use super::bank::{Dispute, Keys, Later, Ledger};
use super::elsewhere::{DASHBOARD, Dashboard};
use super::inbox::Inbox;
use super::jobs::{Jobs, Message};
use super::operators::Operators;
use super::scenario::{Client, Payer, Scenario};
use super::stripe::Stripe;
use super::view;
use super::webhooks::Webhooks;
use super::wire::Delivery;
use crate::disk::Disks;
use crate::faults::{ALARM_LEAD_MS, Boundary, Fault, Faults, HOUR, MINUTE, Oddity, Plan, SKEW_MAX_MS, skew};
use crate::history::{
    Answer, Asking, Exchange, Outcome, Request, Runs, crashes, ends_within_ms, quarantine_ms, terms,
};
use crate::invariants::Writer;
use crate::report::Counters;
use crate::rng::Rng;
use crate::saboteur::{Mutant, Saboteur};
use crate::schedule::{EPOCH_MS, Schedule, tell};
use crate::store::{Staged, Store, first_expiry_ms, has_open_key};

/// No history has more events than this, and as many again for each call that waits for the other account's key: that is taken up every few minutes,
/// and given up only after [days](Accounts::is_settled); and for each client where Adyen refuses everything for days.
const EVENTS_MAX: usize = 60_000;
/// For how long the provider is still asked once nothing else happens: longer than its longest pause, a day.
const AFTERMATH_MS: u64 = 3 * 24 * HOUR;
/// The same where something can still happen elsewhere: longer than anything is watched.
const LONG_AFTERMATH_MS: u64 = 45 * 24 * HOUR;
/// What must never be counted: a provider has forgotten a key, and it comes again.
pub(crate) const PRUNED: &str = "providers: keys pruned and used again";

/// A protection that is switched off, to show that the auditor notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disabled {
    /// One in the core: the saboteur plays that it is missing.
    Core(Mutant),
    /// A key is not bound before it is sent to the object in which it runs.
    Binding,
    /// Each try to pay an order runs in the object of its key, not in the order's.
    OrderObject,
    /// The bytes of a call are made anew for every send.
    FrozenBytes,
    /// What a transaction adds to the audit records is lost.
    AuditRows,
    /// A replay says when it was made.
    StoredBytes,
    /// A replay is written down at once.
    Replays,
    /// Whose a request is, is not looked at.
    Owners,
    /// A job is forgotten as soon as the queue has it.
    Confirmation,
    /// A job counts as over when it is looked at.
    Look,
    /// What of the audit did not fit into a snapshot is not sent after it.
    AuditRest,
    /// The read model takes whatever snapshot comes.
    Versions,
    /// The consumer does not look whether a job was done before.
    JobIds,
    /// An object does not look whether it knows an event.
    EventIds,
    /// What a provider tells last is believed, whatever was decided.
    Forward,
    /// An event about a call that is under way is acknowledged.
    ComeAgain,
    /// The inbox is worked on in order: one that cannot be placed holds up all others.
    OwnPlaces,
    /// What comes again under the same reference is dropped, also if it is later.
    Recaptures,
    /// Requests about one customer go to different objects.
    CustomerObject,
}

/// An object on its disk.
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) store: Store,
    /// The incarnation that gets what comes in now.
    pub(crate) current: Option<usize>,
    /// Nothing reaches the object before.
    pub(crate) dark_until_ms: u64,
    pub(crate) alarm_set: u64,
    /// How long before its time [`Event::Alarm`] comes for the alarm that is set.
    pub(crate) alarm_lead_ms: u64,
    /// When it last staged something for the read model.
    pub(crate) told_at_ms: u64,
}

/// An incarnation of an object in memory.
pub(crate) struct Instance {
    pub(crate) object: usize,
    pub(crate) id: InstanceId,
    pub(crate) ahead_ms: i64,
    pub(crate) alive: bool,
    pub(crate) asleep_until_ms: u64,
    /// What it has given to the queue and not written down.
    pub(crate) handed: Handed,
    /// What was configured when it was born.
    pub(crate) secret: Secret,
}

/// The world of one history.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    due: Schedule<Event>,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    /// When the effect of the last fault ends.
    pub(crate) calm_from_ms: u64,
    /// How long the provider asked to be left alone.
    pub(crate) owed_ms: u64,
    /// When something happened last that is more than asking the provider in vain.
    pub(crate) busy_until_ms: u64,
    pub(crate) times: Times,
    pub(crate) disabled: Option<Disabled>,
    pub(crate) saboteur: Saboteur,
    pub(crate) objects: Vec<Object>,
    pub(crate) instances: Vec<Instance>,
    clocks_differ: bool,
    /// The clocks of the first incarnations, if they are told.
    pub(crate) clocks: Vec<i64>,
    pub(crate) runs: Runs,
    /// Whether runs are in [turns](Active::in_turns).
    pub(crate) in_turns: bool,
    /// By derived key: the run that last asked for a page of a look-up.
    pub(crate) pages_asked_by: BTreeMap<String, u32>,
    pub(crate) clients: Vec<Client>,
    /// The number of each client's object.
    pub(crate) places: Vec<usize>,
    pub(crate) payers: Vec<Payer>,
    pub(crate) stripe: Stripe,
    pub(crate) adyen: Adyen,
    pub(crate) accounts: Accounts,
    pub(crate) exchanges: BTreeMap<u64, Exchange>,
    /// By run that has yet to commit it: the send that was refused with all copies, and when all before it has arrived.
    pub(crate) refusals: BTreeMap<u32, (u64, Option<u64>)>,
    pub(crate) sends: u64,
    pub(crate) jobs: Jobs,
    pub(crate) webhooks: Webhooks,
    pub(crate) inbox: Inbox,
    pub(crate) elsewhere: Dashboard,
    /// From when until when Adyen refuses our credentials.
    pub(crate) locked_out_ms: Option<(u64, u64)>,
    pub(crate) operators: Operators,
    pub(crate) auditor: Auditor,
    pub(crate) counters: Counters,
    pub(crate) trace: bool,
    /// Where each object's rows are kept as well.
    disks: Option<Disks>,
    /// Whether it goes on after a broken invariant.
    pub(crate) to_the_end: bool,
}

impl World {
    pub(crate) fn new(
        mut scenario: Scenario,
        plan: Plan,
        rng: Rng,
        disabled: Option<Disabled>,
        trace: bool,
    ) -> Self {
        let times = Times::default();
        match disabled {
            Some(Disabled::OrderObject) => scenario.without_orders_objects(),
            Some(Disabled::CustomerObject) => scenario.without_customers_objects(),
            _ => {}
        }
        let jobs_seed = rng.clone().roll();
        let kept_ms = |days: u64| days * 24 * HOUR + scenario.key_kept_longer_ms;
        let stripe = |account, prefix| Stripe {
            account,
            ledger: Ledger::new(prefix).with_lists_that_lag(scenario.lists_lag_ms),
            keys: Keys::new(kept_ms(1)),
            stores_refusals: scenario.stores_refusals,
            page_max: scenario.page_max,
            unfinished: BTreeMap::new(),
        };
        let mut world = Self {
            now_ms: EPOCH_MS,
            due: Schedule::new(),
            rng,
            faults: Faults::new(plan),
            calm_from_ms: EPOCH_MS,
            owed_ms: 0,
            busy_until_ms: EPOCH_MS,
            times,
            disabled,
            saboteur: Saboteur(match disabled {
                Some(Disabled::Core(mutant)) => Some(mutant),
                _ => None,
            }),
            objects: Vec::new(),
            instances: Vec::new(),
            clocks_differ: scenario.clocks_differ,
            clocks: Vec::new(),
            runs: Runs::default(),
            in_turns: false,
            pages_asked_by: BTreeMap::new(),
            clients: scenario.clients,
            places: Vec::new(),
            payers: scenario.payers,
            stripe: stripe("acct_first", "pi_"),
            accounts: Accounts::new(stripe("acct_other", "pb_")),
            adyen: Adyen {
                ledger: Ledger::new("PSP"),
                keys: Keys::new(kept_ms(7)),
                references: BTreeMap::new(),
                names_payments: false,
                items: Vec::new(),
                reversals: BTreeSet::new(),
                called_off: BTreeSet::new(),
                now_ms: EPOCH_MS,
            },
            exchanges: BTreeMap::new(),
            refusals: BTreeMap::new(),
            sends: 0,
            jobs: Jobs::new(jobs_seed, 0, 0),
            webhooks: Webhooks::new(!jobs_seed),
            inbox: Inbox::new(),
            elsewhere: Dashboard::new(jobs_seed.rotate_left(17)),
            locked_out_ms: None,
            operators: Operators::new(jobs_seed.rotate_left(29)),
            auditor: Auditor::new(terms(&times)),
            counters: Counters::default(),
            trace,
            disks: None,
            to_the_end: false,
        };
        for client in 0..world.clients.len() {
            let Client { object, order, starts_ms, .. } = world.clients[client].clone();
            let object = world.object(object);
            world.places.push(object);
            if let Some(order) = order {
                world.auditor.pays(object, order);
            }
            world.after(starts_ms, Event::Knock(client));
        }
        if let Some(at_ms) = scenario.confirms_ms {
            let later = Later::Confirm { intent: "pi_1".to_owned() };
            world.after(at_ms, Event::Decided { provider: "stripe", later });
        }
        for (place, at_ms) in scenario.looks_ms {
            let object = world.object(scenario.places[place].object);
            world.after(at_ms, Event::Check { object, to: None, asker: Asker::Waiting });
        }
        world
    }

    /// Strikes the jobs on their way as well, so often, until so long after the beginning.
    pub(crate) fn with_jobs_struck(mut self, permille: u64, until_ms: u64) -> Self {
        self.jobs.strike(permille, EPOCH_MS + until_ms);
        self
    }

    /// The providers tell what happens, with so much trouble on the way.
    pub(crate) const fn with_webhooks(mut self, permille: u64) -> Self {
        self.webhooks.turn_on(permille);
        self
    }

    /// Adyen tells of a move under the payment's reference.
    pub(crate) const fn naming_payments(mut self, names_payments: bool) -> Self {
        self.adyen.names_payments = names_payments;
        self.auditor.refunds_are_named = !names_payments;
        self
    }

    /// Every commit goes to a disk, too.
    pub(crate) fn on(mut self, disks: &Disks) -> Self {
        self.objects.iter_mut().for_each(|object| object.store.on(disks));
        self.disks = Some(disks.clone());
        self.make_links();
        self
    }

    /// Money is moved without us as well: by time, by banks, by persons.
    pub(crate) const fn with_others(mut self) -> Self {
        self.elsewhere.turn_on();
        self
    }

    /// Adyen refuses our credentials from so long after the beginning, for so long.
    pub(crate) fn locked_out(mut self, from_ms: u64, for_ms: u64) -> Self {
        let until_ms = EPOCH_MS + from_ms + for_ms;
        self.locked_out_ms = Some((EPOCH_MS + from_ms, until_ms));
        (self.calm_from_ms, self.busy_until_ms) = (until_ms, until_ms);
        self
    }

    /// An operator settles calls by hand, by what the provider shows; or without looking.
    pub(crate) const fn with_operators(mut self, errs: bool) -> Self {
        self.operators.turn_on(errs);
        self
    }

    /// Commits what a run does up to the next thing to wait for at once, as the Worker does.
    pub(crate) const fn in_turns(mut self, in_turns: bool) -> Self {
        self.in_turns = in_turns;
        self
    }

    /// Does not stop at the first broken invariant.
    pub(crate) fn played_on(mut self) -> Self {
        self.to_the_end = true;
        self
    }

    /// Personal data goes after this time.
    pub(crate) const fn forgetting_after(mut self, ms: u64) -> Self {
        self.times.personal_retention_ms = ms;
        self.auditor.personal_data_goes_after(ms);
        self
    }

    /// Plays the history to its end, or to the first broken invariant.
    pub(crate) fn play(mut self) -> Outcome {
        let (mut events, mut left_early) = (0, false);
        while let Some((at_ms, event)) = self.due.next() {
            let rest_ms = at_ms.saturating_sub(self.busy_until_ms);
            if rest_ms > LONG_AFTERMATH_MS || (rest_ms > AFTERMATH_MS && !self.elsewhere.is_on()) {
                break;
            }
            // What must wait for the other account's key waits for ever.
            if self.accounts.is_settled(at_ms) && self.objects.iter().any(is_away) {
                break;
            }
            // A key that waits for a person is taken up every few minutes: nobody waits 45 days for that.
            if rest_ms > AFTERMATH_MS && self.objects.iter().any(waits_for_a_person) {
                self.counters.count("elsewhere: left early");
                left_early = true;
                break;
            }
            self.now_ms = at_ms;
            self.happen(event);
            self.is_calm();
            self.check_liveness();
            events += 1;
            let is_endless = events > EVENTS_MAX && events > self.events_max();
            if is_endless {
                self.auditor
                    .overdue("a history without end", self.now_ms - self.calm_from_ms.min(self.now_ms));
            }
            let broken = !self.auditor.violations.is_empty();
            if broken && (!self.to_the_end || is_endless) {
                break;
            }
        }
        if self.accounts.is_on && self.objects.iter().any(is_away) {
            self.counters.count("accounts: left waiting");
            left_early = true;
        }
        if self.auditor.violations.is_empty() && !left_early {
            for object in 0..self.objects.len() {
                if self.webhooks.is_on() && !self.webhooks.waited_for(object) && !self.inbox.waits_for(object)
                {
                    self.counters.count("webhooks: objects that heard all");
                    self.auditor.heard_all(object);
                }
            }
            self.auditor.close();
            self.judge_jobs();
        }
        self.judge_operators();
        self.counters.count("histories");
        self.counters.add(PRUNED, self.stripe.keys.pruned + self.adyen.keys.pruned);
        self.counters
            .add("providers: stored answers replayed", self.stripe.keys.replayed + self.adyen.keys.replayed);
        self.counters.add("providers: key in use", self.stripe.keys.in_use + self.adyen.keys.in_use);
        let charges = self.stripe.ledger.charges();
        self.counters.add("stripe: charges", charges);
        self.counters.add("adyen: charges", self.adyen.ledger.charges());
        self.counters.add("stripe: refunds", self.stripe.ledger.refunds.len() as u64);
        self.counters.add("adyen: refunds", self.adyen.ledger.refunds.len() as u64);
        Outcome { violations: self.auditor.violations, counters: self.counters, passed: self.faults.passed }
    }

    /// See [`EVENTS_MAX`].
    fn events_max(&self) -> usize {
        let away: usize = self.objects.iter().map(calls_away).sum();
        EVENTS_MAX * (1 + away + self.locked_out_ms.map_or(0, |_| self.clients.len()))
    }

    /// Once faults stop, a key ends; a payment makes one call with each provider at most. What waits for a person is left out.
    fn check_liveness(&mut self) {
        let bound_ms = 2 * ends_within_ms(&self.times);
        for object in self.objects.iter().filter(|object| !is_away(object)) {
            let calm_from_ms = self.calm_from_ms.max(object.dark_until_ms) + self.owed_ms;
            let state = &object.store.object_state;
            if self.now_ms > calm_from_ms + bound_ms
                && has_open_key(state, self.now_ms, &|call, sends| {
                    self.auditor.is_refused_for_certain(call, sends)
                })
            {
                self.auditor.overdue("a key", self.now_ms - calm_from_ms);
            }
            // A finished key is dropped at its time, by the clocks of who finished it and of who drops it.
            let expires_at_ms = first_expiry_ms(state).unwrap_or(u64::MAX / 2).max(calm_from_ms);
            if self.now_ms > expires_at_ms + 4 * SKEW_MAX_MS + 2 * MINUTE {
                self.auditor.kept(self.now_ms - expires_at_ms);
            }
        }
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event) {
        self.due.at(self.now_ms + delay_ms, event);
    }

    /// More than a vain question happens.
    pub(crate) fn is_busy(&mut self) {
        self.busy_until_ms = self.busy_until_ms.max(self.now_ms);
    }

    pub(crate) fn tell(&self, line: impl FnOnce() -> String) {
        if self.trace {
            tell(self.now_ms, &line());
        }
    }

    /// Tells the auditor what has changed in the books.
    pub(crate) fn book(&mut self) {
        let books = [
            ("stripe", &self.stripe.ledger),
            ("stripe", &self.accounts.other.ledger),
            ("adyen", &self.adyen.ledger),
        ];
        for (provider, ledger) in books {
            for refund in ledger.refunds.iter().filter(|refund| !refund.by.starts_with(DASHBOARD)) {
                let (id, by, came_back) = (refund.id.clone(), refund.by.clone(), refund.came_back);
                let currency = ledger.intent(&refund.intent).map_or("", |intent| &intent.currency);
                let (status, amount) = (refund.status, thousandths(refund.amount, currency, provider));
                self.auditor.returned(Returned { id, by, status, amount, came_back });
            }
            for customer in &ledger.customers {
                self.auditor.booked_customer(BookedCustomer {
                    id: customer.id.clone(),
                    email: customer.email.clone(),
                    name: customer.name.clone(),
                    writes: customer.writes.clone(),
                });
            }
            for intent in &ledger.intents {
                let amount = |minor: u64| thousandths(minor, &intent.currency, provider);
                self.auditor.booked(Entry {
                    id: intent.id.clone(),
                    provider,
                    resource: intent.resource.clone(),
                    by: intent.by.clone(),
                    status: intent.status.name(),
                    amount: amount(intent.amount),
                    captured: amount(intent.captured),
                    taken: amount(intent.taken),
                    refunded: amount(ledger.refunded(&intent.id) - ledger.refunded_elsewhere(&intent.id)),
                    refunded_elsewhere: amount(ledger.refunded_elsewhere(&intent.id)),
                    is_revived: intent.is_revived,
                    moved_by: intent.moved_by.clone(),
                    dispute: ledger.dispute_of(&intent.id).map(Dispute::stands),
                    is_withdrawn: ledger.dispute_of(&intent.id).is_some_and(Dispute::is_withdrawn),
                    moved_elsewhere: intent.moved_by.as_ref().is_some_and(|by| by.starts_with(DASHBOARD)),
                });
            }
        }
        self.tell_of_books();
        self.give_cause();
    }
}

fn waits_for_a_person(object: &Object) -> bool {
    object.store.object_state.keys.iter().any(|key| matches!(key.lifecycle, Lifecycle::Open(_)))
}
