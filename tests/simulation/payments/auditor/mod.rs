//! The judge of payments. It shares no code with the core: it is told what could be observed from outside, as plain strings
//! and numbers, and holds that against the invariants. It has a table of its own for the moves of a payment, books of its own,
//! and reads the answers as a client would.
//!
//! What it is told: each committed transaction, each answer to a client with its bytes, each send, and each movement of the
//! providers' ledgers (listed.rs). It judges answers, the moves of rows, sends and the books, jobs, and here the end.

mod answers;
mod customers;
mod jobs;
mod ledger;
mod listed;
mod major_units;
mod moves;
mod provider_event;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use customers::{BookedCustomer, CustomerView, ONE_CUSTOMER};
pub(crate) use listed::{Asked, Commit, Entry, PaymentView, RefundView, Returned, Send};
pub(crate) use major_units::{currencies, thousandths};
pub(crate) use provider_event::{GIVEN_BACK, HEARD, TAKEN_ONCE};

use crate::invariants::{
    Bytes, DROPPED, KEPT, KeyView, LIVENESS, NO_BUG, ONE_CHARGE, PERSONAL, RECEIPT, Sends, TOMBSTONE, Terms,
    Violation, judge_keys,
};

pub(crate) const SUMS: &str = "2: authorised ≥ captured ≥ refunded ≥ 0";
pub(crate) const ONE_TRY: &str = "1: another try begins only after the last one has failed for good";
pub(crate) const MOVES: &str = "7: a payment moves only along its table";
const REFUSED: &str = "2: what does not run leaves no row";
pub(crate) const ONCE: &str = "19: every job is done once";
pub(crate) const FORWARD: &str = "20: the read model never goes back";
pub(crate) const SHOWS: &str = "20: at rest the read model shows what the object is";
const SWEPT: &str = "16: an alarm that is lost is swept";
pub(crate) const UNCHANGED: &str = "21: a replay changes nothing";
pub(crate) const DISPUTED: &str = "2: what a bank may take back is not refunded as well";
pub(crate) const AGREES: &str = "4: rows and ledger agree";

struct Derived {
    object: usize,
    key: u32,
    begins: bool,
    resource: String,
    sends: Sends,
}

#[derive(Default)]
struct Seen {
    keys: Vec<KeyView>,
    payment: Option<PaymentView>,
    customer: Option<CustomerView>,
    refunds: Vec<RefundView>,
    /// By key and attempt: the object's time at its last sign of life.
    alive_at_ms: BTreeMap<(u32, u32), u64>,
    /// What clients call the keys.
    names: BTreeMap<u32, String>,
    jobs: Vec<String>,
    captures: u32,
    /// When its newest key came, by the object's clock.
    newest_key_ms: u64,
}

#[derive(Default)]
struct KeyFacts {
    /// The object and the payload with which it first ran.
    first: Option<(usize, String)>,
    answer: Option<Bytes>,
}

/// The auditor of one history.
#[derive(Default)]
pub(crate) struct Auditor {
    terms: Terms,
    pub(crate) violations: Vec<Violation>,
    objects: BTreeMap<usize, Seen>,
    /// Which objects pay for which order.
    orders: BTreeMap<usize, String>,
    keys: BTreeMap<String, KeyFacts>,
    derived: BTreeMap<String, Derived>,
    ledger: BTreeMap<String, Entry>,
    returned: BTreeMap<String, Returned>,
    /// Keys whose stored answer says that they moved nothing.
    moved_nothing: BTreeSet<(usize, u32)>,
    /// How often each job was done.
    jobs_done: BTreeMap<String, u32>,
    /// The version of each object that the read model shows.
    shown: BTreeMap<usize, u64>,
    /// The events that each object has taken in.
    events: BTreeSet<(usize, String)>,
    /// The objects that have heard all that the providers have to tell.
    heard_all: BTreeSet<usize>,
    /// The objects in which an operator has settled a call.
    settled_by_hand: BTreeSet<usize>,
    /// The objects in which a person is told that money could not be given back.
    left_to_a_person: BTreeSet<usize>,
    customers: customers::Customers,
    /// Whether what tells of a refund says which one it is. Else one whose answer was an error may be another one that is told of.
    pub(crate) refunds_are_named: bool,
    /// The transaction to come answers by a stored response.
    replays: bool,
}

fn newest_key_ms(before: &Seen, commit: &Commit) -> u64 {
    if commit.keys.len() > before.keys.len() { commit.now_ms } else { before.newest_key_ms }
}

fn sum(refunds: &[RefundView]) -> u64 {
    refunds.iter().filter(|refund| refund.state != "failed").map(|refund| refund.amount).sum()
}

impl Auditor {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms, refunds_are_named: true, ..Self::default() }
    }

    fn violated(&mut self, invariant: &'static str, seen: impl Into<String>) {
        self.violations.push(Violation { invariant, seen: seen.into() });
    }

    /// In this object a try to pay an order runs.
    pub(crate) fn pays(&mut self, object: usize, order: String) {
        self.orders.insert(object, order);
    }

    /// The core said that what cannot be is.
    pub(crate) fn bug(&mut self, text: &str) {
        self.violated(NO_BUG, text);
    }

    /// The object's tables say otherwise than what was committed.
    pub(crate) fn kept_otherwise(&mut self, text: &str) {
        self.violated(KEPT, text);
    }

    /// A request is given the response of another one, by the transaction that [`committed`](Self::committed) is told of next.
    pub(crate) const fn replayed(&mut self) {
        self.replays = true;
    }

    /// A transaction was committed.
    pub(crate) fn committed(&mut self, commit: &Commit) {
        let before = self.objects.remove(&commit.object).unwrap_or_default();
        if std::mem::take(&mut self.replays) && commit.changed {
            self.violated(UNCHANGED, format!("object {} changed", commit.object));
        }
        // Of a customer the tombstones go but for the newest: no client can send such a key again.
        let is_kept = |known: &&KeyView| {
            let is_there = commit.keys.iter().any(|key| key.key == known.key);
            let is_over =
                known.life == "expired" || known.expires_at_ms.is_some_and(|at_ms| at_ms <= commit.now_ms);
            is_there || !is_over || commit.customer.is_none()
        };
        let keys: Vec<KeyView> = before.keys.iter().filter(is_kept).cloned().collect();
        self.violations.extend(judge_keys(&keys, &commit.keys, &commit.writer, commit.changed));
        self.judge_rows(commit);
        self.judge_effects(&before, commit);
        self.judge_retention(&before, commit);
        self.judge_alarm(commit);
        self.judge_events(commit);
        if commit.audit.contains(&"try.give_back_refused") {
            self.left_to_a_person.insert(commit.object);
        }
        let newest_key_ms = newest_key_ms(&before, commit);
        let Seen { mut alive_at_ms, names, mut jobs, mut captures, .. } = before;
        for job in &commit.jobs {
            if jobs.contains(job) {
                self.violated(RECEIPT, format!("{job} was staged twice"));
            }
            jobs.push(job.clone());
        }
        for key in &commit.keys {
            if commit.writer.is_run_of(key) || !alive_at_ms.contains_key(&(key.key, key.attempt)) {
                alive_at_ms.insert((key.key, key.attempt), commit.now_ms);
            }
        }
        captures += u32::from(commit.audit.contains(&"payment.captured"));
        let seen = Seen {
            keys: commit.keys.clone(),
            payment: commit.payment.clone(),
            customer: commit.customer.clone(),
            refunds: commit.refunds.clone(),
            alive_at_ms,
            names,
            jobs,
            captures,
            newest_key_ms,
        };
        self.objects.insert(commit.object, seen);
        for (key, what, bytes) in &commit.finished {
            self.judge_verdict(commit, *key, what, bytes);
        }
    }

    /// A response is kept for its time; personal data goes at its own, and never from under an open key.
    fn judge_retention(&mut self, before: &Seen, commit: &Commit) {
        for (key, ..) in &commit.finished {
            let expires_at_ms =
                commit.keys.iter().find(|view| view.key == *key).and_then(|view| view.expires_at_ms);
            let due_at_ms = commit.now_ms + self.terms.retention_ms;
            if expires_at_ms != Some(due_at_ms) {
                self.violated(
                    TOMBSTONE,
                    format!("key {key} expires at {expires_at_ms:?}, not at {due_at_ms}"),
                );
            }
        }
        if !commit.audit.contains(&"personal_data.erased") {
            return;
        }
        let due_at_ms = newest_key_ms(before, commit).saturating_add(self.terms.personal_retention_ms);
        if commit.now_ms < due_at_ms {
            self.violated(PERSONAL, format!("erased {} ms before its time", due_at_ms - commit.now_ms));
        }
        if commit.keys.iter().any(|key| key.life == "open") {
            self.violated(PERSONAL, format!("erased under {:?}", commit.keys));
        }
    }

    /// Personal data goes after this time.
    pub(crate) const fn personal_data_goes_after(&mut self, ms: u64) {
        self.terms.personal_retention_ms = ms;
    }

    /// A key is open although it should have ended by now.
    pub(crate) fn overdue(&mut self, what: &str, by_ms: u64) {
        self.violated(LIVENESS, format!("{what} is open {by_ms} ms after the last fault"));
    }

    /// A response is still kept although it should have been dropped by now.
    pub(crate) fn kept(&mut self, by_ms: u64) {
        self.violated(DROPPED, format!("a response is kept {by_ms} ms after its time"));
    }

    /// Nothing more will happen that matters.
    pub(crate) fn close(&mut self) {
        let objects = std::mem::take(&mut self.objects);
        for (object, seen) in &objects {
            self.close_object(*object, seen);
        }
        self.objects = objects;
    }

    fn close_object(&mut self, object: usize, seen: &Seen) {
        let hears = self.heard_all.contains(&object);
        if hears {
            self.judge_heard(object, seen);
        }
        self.judge_given_back(object, seen, hears);
        let needs_person = seen.keys.iter().any(|key| key.needs_person);
        if seen.keys.iter().any(|key| key.life == "open" && !key.needs_person) {
            self.violated(LIVENESS, format!("open at the end: {:?}", seen.keys));
        }
        if !needs_person {
            self.close_customer(seen);
        }
        let Some(payment) = &seen.payment else { return };
        if needs_person {
            return;
        }
        let is_asked = payment.provider == "stripe";
        // Adyen tells by webhooks alone.
        let knows = is_asked || hears;
        let is_left = payment.pending.is_some() && (knows || !payment.is_received);
        if is_left || seen.refunds.iter().any(|refund| refund.state == "requested") {
            self.violated(LIVENESS, format!("a move is left: {payment:?} {:?}", seen.refunds));
        }
        let entry = payment.provider_payment.as_ref().and_then(|id| self.ledger.get(id)).cloned();
        let ledger = entry.as_ref().map_or("refused", |entry| entry.status);
        let is_revived = entry.as_ref().is_some_and(|entry| entry.is_revived);
        let agrees = match payment.state {
            "succeeded" => ledger == "captured" || (!knows && ledger == "capture_failed"),
            "capture_failed" => ledger == "capture_failed" || (!knows && ledger == "captured"),
            "requires_capture" => ledger == "reserved" || !knows,
            "canceled" => ledger == "canceled",
            // What was captured afterwards is given back: `judge_given_back`.
            "expired" => ledger == "expired" || is_revived,
            // A void can still reach what had failed: nothing is held either way.
            "failed" => matches!(ledger, "refused" | "canceled" | "expired") || is_revived,
            "requires_action" => ledger == "action",
            "processing" => ledger == "processing" || !knows,
            _ => false,
        };
        if !agrees {
            self.violated(AGREES, format!("at the end: {payment:?}, {entry:?}"));
        }
        let others = self.ledger.values().filter(|other| {
            other.resource == payment.id
                && other.lives()
                && Some(&other.id) != payment.provider_payment.as_ref()
        });
        let left: Vec<String> = others.map(|other| other.id.clone()).collect();
        if !left.is_empty() {
            self.violated(ONE_CHARGE, format!("{left:?} live beside {payment:?}"));
        }
        let (rows, given) = (sum(&seen.refunds), entry.as_ref().map_or(0, |entry| entry.refunded));
        if knows && rows != given && !is_revived {
            self.violated(AGREES, format!("at the end {rows} refunded in the rows, {given} in the ledger"));
        }
        let elsewhere = self.ledger.get(payment.provider_payment.as_deref().unwrap_or_default());
        let elsewhere = elsewhere.map_or(0, |entry| entry.refunded_elsewhere);
        // What somebody gives back of a try that was over is nothing of the payment's.
        let is_over_revived = is_revived && matches!(payment.state, "failed" | "expired");
        if knows && payment.refunded_elsewhere != elsewhere && !is_over_revived {
            self.violated(AGREES, format!("at the end {elsewhere} refunded by others: {payment:?}"));
        }
        let is_disputable = payment.provider == "stripe" && payment.state == "succeeded";
        if let Some(entry) = entry.as_ref().filter(|_| is_disputable)
            && (payment.dispute, payment.is_withdrawn) != (entry.dispute, entry.is_withdrawn)
        {
            self.violated(AGREES, format!("at the end another dispute: {payment:?}, {entry:?}"));
        }
        let was_captured = seen.captures > 0;
        let fits = match payment.state {
            "succeeded" => was_captured,
            // Its capture may be told of by its failure alone.
            "capture_failed" => true,
            _ => !was_captured,
        };
        // Nobody is told of what is captured once the address is gone.
        let has_receipt =
            seen.jobs.len() == usize::from(was_captured) || (!payment.is_personal && seen.jobs.is_empty());
        if !fits || !has_receipt {
            let seen = format!("{} receipts for {} captures: {payment:?}", seen.jobs.len(), seen.captures);
            self.violated(RECEIPT, seen);
        }
    }
}
