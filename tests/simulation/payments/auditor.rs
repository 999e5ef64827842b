//! The judge of payments. It shares no code with the core: it is told what could be observed from outside, as plain strings
//! and numbers, and holds that against the promises. It has a table of its own for the moves of a payment, books of its own,
//! and reads the answers as a client would.
//!
//! What it is told: each committed transaction, each answer to a client with its bytes, each send, and each movement of the
//! providers' ledgers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::promises::{
    ALARM, AUDIT, Bytes, DROPPED, FROZEN, KeyView, LIVENESS, MISMATCH, NO_BUG, NO_CONCURRENCY, ONE_CHARGE,
    RECEIPT, SAME_BYTES, STRANGER, Sends, TOMBSTONE, TRUE_VERDICT, Terms, Violation, WINDOW, Writer,
    judge_keys,
};

pub(crate) const SUMS: &str = "2: authorised ≥ captured ≥ refunded ≥ 0";
const ONE_TRY: &str = "1: another try begins only after the last one has failed for good";
pub(crate) const MOVES: &str = "7: a payment moves only along its table";
const REFUSED: &str = "2: what does not run leaves no row";
pub(crate) const ONCE: &str = "19: every job is done once";
pub(crate) const FORWARD: &str = "20: the read model never goes back";
const SHOWS: &str = "20: at rest the read model shows what the object is";
const SWEPT: &str = "16: an alarm that is lost is swept";
const AGREES: &str = "4: rows and ledger agree";

/// A payment as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaymentView {
    pub(crate) id: String,
    /// `authorizing`, `requires_action`, `processing`, `requires_capture`, `succeeded`, `canceled`, `failed`
    pub(crate) state: &'static str,
    pub(crate) amount: u64,
    pub(crate) captured: u64,
    pub(crate) attempt: u32,
    pub(crate) provider: &'static str,
    pub(crate) provider_payment: Option<String>,
    /// `capture`, `void`
    pub(crate) pending: Option<&'static str>,
    pub(crate) has_check: bool,
}

/// A refund as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefundView {
    pub(crate) id: String,
    /// `requested`, `pending`, `succeeded`, `failed`
    pub(crate) state: &'static str,
    pub(crate) amount: u64,
}

/// A committed transaction of an object.
pub(crate) struct Commit {
    pub(crate) object: usize,
    pub(crate) now_ms: u64,
    pub(crate) writer: Writer,
    /// Whether any row changed or was added.
    pub(crate) changed: bool,
    pub(crate) keys: Vec<KeyView>,
    pub(crate) payment: Option<PaymentView>,
    pub(crate) refunds: Vec<RefundView>,
    /// The keys that it finished, with what they do and answer.
    pub(crate) finished: Vec<(u32, &'static str, Bytes)>,
    /// The actions of the audit rows that it added.
    pub(crate) audit: Vec<&'static str>,
    /// The ids of the jobs that it staged.
    pub(crate) jobs: Vec<String>,
    /// When the first job that is not over leaves, or leaves again.
    pub(crate) staged_until_ms: Option<u64>,
    /// For when the alarm is set now.
    pub(crate) alarm_at_ms: Option<u64>,
}

/// A request, as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) object: usize,
    /// What the client calls its key: two requests with the same name are one.
    pub(crate) key: String,
    /// Method, path and parameters.
    pub(crate) payload: String,
    pub(crate) stranger: bool,
}

/// A send, as it leaves.
pub(crate) struct Send {
    pub(crate) object: usize,
    pub(crate) key: u32,
    pub(crate) derived: String,
    pub(crate) bytes: String,
    pub(crate) number: u64,
    pub(crate) copies: u32,
    /// Whether it begins a payment.
    pub(crate) begins: bool,
    /// How long after the first send the provider may be sent to under the same key, whosever clock is right.
    pub(crate) window_ms: u64,
}

/// A payment in a provider's ledger.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) resource: String,
    pub(crate) by: String,
    /// `action`, `processing`, `reserved`, `captured`, `canceled`, `refused`
    pub(crate) status: &'static str,
    pub(crate) amount: u64,
    pub(crate) captured: u64,
    pub(crate) refunded: u64,
    pub(crate) moved_by: Option<String>,
}

impl Entry {
    /// It is a charge, or can still become one.
    fn lives(&self) -> bool {
        !matches!(self.status, "canceled" | "refused")
    }
}

/// A refund in a provider's ledger.
#[derive(Clone, Debug)]
pub(crate) struct Returned {
    pub(crate) id: String,
    pub(crate) by: String,
    pub(crate) status: &'static str,
    pub(crate) amount: u64,
}

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
    refunds: Vec<RefundView>,
    /// By key and attempt: the object's time at its last sign of life.
    alive_at_ms: BTreeMap<(u32, u32), u64>,
    /// What clients call the keys.
    names: BTreeMap<u32, String>,
    jobs: Vec<String>,
    captures: u32,
}

#[derive(Default)]
struct KeyFacts {
    /// The object and the payload with which it first ran.
    first: Option<(usize, String)>,
    answer: Option<Bytes>,
}

/// The auditor of one history.
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
}

/// The moves that a payment may make within one try.
const TABLE: [(&str, &[&str]); 7] = [
    ("authorizing", &["requires_action", "processing", "requires_capture", "succeeded", "failed"]),
    ("requires_action", &["processing", "requires_capture", "succeeded", "canceled", "failed"]),
    ("processing", &["requires_action", "requires_capture", "succeeded", "canceled", "failed"]),
    ("requires_capture", &["succeeded", "canceled"]),
    ("succeeded", &[]),
    ("canceled", &[]),
    ("failed", &[]),
];

fn entered(state: &str) -> Option<&'static str> {
    Some(match state {
        "requires_action" => "payment.requires_action",
        "processing" => "payment.processing",
        "requires_capture" => "payment.authorized",
        "succeeded" => "payment.captured",
        "canceled" => "payment.canceled",
        "failed" => "payment.failed",
        _ => return None,
    })
}

fn sum(refunds: &[RefundView]) -> u64 {
    refunds.iter().filter(|refund| refund.state != "failed").map(|refund| refund.amount).sum()
}

impl Auditor {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            terms,
            violations: Vec::new(),
            objects: BTreeMap::new(),
            orders: BTreeMap::new(),
            keys: BTreeMap::new(),
            derived: BTreeMap::new(),
            ledger: BTreeMap::new(),
            returned: BTreeMap::new(),
            moved_nothing: BTreeSet::new(),
            jobs_done: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
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

    /// A request was decided on, in the transaction that [`committed`](Self::committed) is told of next. `key` is the
    /// number of the key that runs.
    pub(crate) fn began(
        &mut self,
        asked: &Asked,
        label: &'static str,
        key: Option<u32>,
        holder: &str,
        now_ms: u64,
    ) {
        let Some(key) = key else { return };
        if label != "run" {
            self.judge_age(asked, label, key, now_ms);
            return;
        }
        let first = self.keys.entry(asked.key.clone()).or_default().first.clone();
        let (object, payload) = first.unwrap_or_else(|| (asked.object, asked.payload.clone()));
        self.keys.entry(asked.key.clone()).or_default().first = Some((object, payload.clone()));
        if object != asked.object {
            self.violated(MISMATCH, format!("{} runs in two objects", asked.key));
        } else if payload != asked.payload {
            self.violated(MISMATCH, format!("{} runs with another payload", asked.key));
        }
        if asked.stranger {
            self.violated(STRANGER, "a stranger's request runs");
        }
        let seen = self.objects.entry(asked.object).or_default();
        let known = seen.names.entry(key).or_insert_with(|| asked.key.clone()).clone();
        let before = seen.keys.iter().find(|view| view.key == key).cloned();
        let alive =
            before.as_ref().and_then(|view| seen.alive_at_ms.get(&(key, view.attempt)).copied()).unwrap_or(0);
        if known != asked.key {
            self.violated(MISMATCH, format!("{} runs as {known}", asked.key));
        }
        let Some(view) = before else { return };
        if view.life != "open" {
            let promise = if view.life == "expired" { TOMBSTONE } else { NO_CONCURRENCY };
            self.violated(promise, format!("a request runs although its key is {}", view.life));
        }
        if view.holder.as_deref() == Some(holder) && now_ms < alive + self.terms.lease_ms {
            self.violated(NO_CONCURRENCY, format!("attempt {} of key {key} was still alive", view.attempt));
        }
    }

    /// A response is there until its time, and never again after that.
    fn judge_age(&mut self, asked: &Asked, label: &'static str, key: u32, now_ms: u64) {
        let seen = self.objects.get(&asked.object);
        let Some(view) = seen.and_then(|seen| seen.keys.iter().find(|view| view.key == key)) else {
            return;
        };
        let is_over = view.life == "expired" || view.expires_at_ms.is_some_and(|at_ms| now_ms >= at_ms);
        match label {
            "stored" if is_over => {
                self.violated(TOMBSTONE, format!("{} is answered after its response was dropped", asked.key));
            }
            "expired" if !is_over => {
                self.violated(TOMBSTONE, format!("{} is refused as expired although it has not", asked.key));
            }
            _ => {}
        }
    }

    /// A request was decided on that does not run, in the transaction that [`committed`](Self::committed) is told of next.
    pub(crate) fn refused_without_row(&mut self, commit: &Commit) {
        if commit.changed {
            self.violated(REFUSED, format!("object {} changed", commit.object));
        }
    }

    /// A transaction was committed.
    pub(crate) fn committed(&mut self, commit: &Commit) {
        let before = self.objects.remove(&commit.object).unwrap_or_default();
        self.violations.extend(judge_keys(&before.keys, &commit.keys, &commit.writer, commit.changed));
        self.judge_rows(commit);
        self.judge_effects(&before, commit);
        self.judge_alarm(commit);
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
            refunds: commit.refunds.clone(),
            alive_at_ms,
            names,
            jobs,
            captures,
        };
        self.objects.insert(commit.object, seen);
        for (key, what, bytes) in &commit.finished {
            self.judge_verdict(commit, *key, what, bytes);
        }
    }

    fn judge_rows(&mut self, commit: &Commit) {
        let Some(payment) = &commit.payment else {
            if !commit.refunds.is_empty() {
                self.violated(SUMS, "refunds without a payment");
            }
            return;
        };
        let refunded = sum(&commit.refunds);
        if payment.captured > payment.amount || refunded > payment.captured {
            let seen =
                format!("{} authorised, {} captured, {refunded} refunded", payment.amount, payment.captured);
            self.violated(SUMS, seen);
        }
        let entry = payment.provider_payment.as_ref().and_then(|id| self.ledger.get(id));
        let captured = entry.map_or(0, |entry| entry.captured);
        if payment.captured > 0 && payment.captured != captured {
            self.violated(AGREES, format!("rows say {} captured, the ledger {captured}", payment.captured));
        }
    }

    fn judge_effects(&mut self, before: &Seen, commit: &Commit) {
        let mut expected: Vec<&'static str> = Vec::new();
        match (&before.payment, &commit.payment) {
            (None, None) => {}
            (Some(_), None) => self.violated(MOVES, "the payment vanished"),
            (None, Some(after)) => {
                expected.push("payment.created");
                if after.state != "authorizing" || after.attempt != 1 {
                    self.violated(MOVES, format!("a payment begins as {after:?}"));
                }
            }
            (Some(before), Some(after)) => self.judge_move(before, after, commit, &mut expected),
        }
        self.judge_refunds(before, commit, &mut expected);
        for (_, what, (status, ..)) in &commit.finished {
            if *status == 402 && matches!(*what, "capture" | "void") {
                expected.push("operation.refused");
            }
        }
        let mut audit = commit.audit.clone();
        expected.sort_unstable();
        audit.sort_unstable();
        if expected != audit {
            self.violated(AUDIT, format!("effects {expected:?}, audit rows {audit:?}"));
        }
        let entered_paid = expected.contains(&"payment.captured");
        if commit.jobs.len() != usize::from(entered_paid) {
            self.violated(RECEIPT, format!("{:?} with {expected:?}", commit.jobs));
        }
    }

    fn judge_move(
        &mut self,
        before: &PaymentView,
        after: &PaymentView,
        commit: &Commit,
        expected: &mut Vec<&'static str>,
    ) {
        let is_over = matches!(before.state, "failed" | "canceled");
        if after.attempt != before.attempt {
            if after.attempt != before.attempt + 1 || after.state != "authorizing" {
                self.violated(MOVES, format!("from {before:?} to {after:?}"));
            }
            match before.state {
                _ if is_over && before.pending.is_none() => expected.push("payment.created"),
                "authorizing" if matches!(commit.writer, Writer::Run { .. }) => {
                    expected.extend(["payment.failed", "payment.rerouted"]);
                }
                _ => self.violated(ONE_TRY, format!("from {before:?} to {after:?}")),
            }
            return;
        }
        if after.provider != before.provider || after.amount != before.amount {
            self.violated(MOVES, format!("from {before:?} to {after:?}"));
        }
        if before.provider_payment.is_some() && after.provider_payment != before.provider_payment {
            self.violated(MOVES, format!("the provider's id changed: {before:?}, {after:?}"));
        }
        if before.state != after.state {
            let known = TABLE.iter().find(|(from, _)| *from == before.state);
            if !known.is_some_and(|(_, to)| to.contains(&after.state)) {
                self.violated(MOVES, format!("from {} to {}", before.state, after.state));
            }
            expected.extend(entered(after.state));
        } else if before.captured != after.captured {
            self.violated(MOVES, format!("from {} to {} captured", before.captured, after.captured));
        }
        match (before.pending, after.pending) {
            (None, Some("capture")) => expected.push("capture.requested"),
            (None, Some(_)) => expected.push("void.requested"),
            (Some(before), Some(after)) if before != after => {
                self.violated(MOVES, format!("{after} while {before} is under way"));
            }
            (Some(_), None) if commit.finished.is_empty() => {
                self.violated(MOVES, "a move ended without an answer");
            }
            _ => {}
        }
    }

    fn judge_refunds(&mut self, before: &Seen, commit: &Commit, expected: &mut Vec<&'static str>) {
        if commit.refunds.len() < before.refunds.len() {
            self.violated(MOVES, "a refund vanished");
        }
        for after in &commit.refunds {
            let state = before.refunds.iter().find(|known| known.id == after.id).map(|known| known.state);
            match (state, after.state) {
                (None, "requested") => expected.push("refund.requested"),
                (Some(before), after) if before == after => {}
                (Some("requested"), "pending") => expected.push("refund.pending"),
                (Some("requested" | "pending"), "succeeded") => expected.push("refund.succeeded"),
                (Some("requested" | "pending"), "failed") => expected.push("refund.failed"),
                (from, to) => self.violated(MOVES, format!("a refund went from {from:?} to {to}")),
            }
        }
    }

    fn judge_alarm(&mut self, commit: &Commit) {
        let is_open = commit.keys.iter().any(|key| key.life == "open");
        let is_asked = commit.payment.as_ref().is_some_and(|payment| {
            let pending = commit.refunds.iter().any(|refund| refund.state == "pending");
            let open = matches!(payment.state, "requires_action" | "processing") || pending;
            open && payment.provider == "stripe"
        });
        if is_asked && !commit.payment.as_ref().is_some_and(|payment| payment.has_check) {
            self.violated(ALARM, format!("nobody asks about {:?}", commit.payment));
        }
        if let Some(until_ms) = commit.staged_until_ms
            && commit.alarm_at_ms.is_none_or(|at_ms| at_ms > until_ms)
        {
            let alarm_at_ms = commit.alarm_at_ms;
            self.violated(ALARM, format!("a job leaves at {until_ms}, the alarm rings at {alarm_at_ms:?}"));
        }
        if !is_open && !is_asked {
            return;
        }
        match commit.alarm_at_ms {
            None => self.violated(ALARM, "an open row and no alarm"),
            Some(at_ms) if is_open && at_ms > commit.now_ms + self.terms.alarm_ahead_ms => {
                let ahead_ms = at_ms - commit.now_ms;
                self.violated(ALARM, format!("an open key sleeps for {ahead_ms} ms"));
            }
            Some(_) => {}
        }
    }

    /// What a key answers for good, held against the ledger as it is now.
    fn judge_verdict(&mut self, commit: &Commit, key: u32, what: &'static str, bytes: &Bytes) {
        let object = commit.object;
        let mine: BTreeSet<&String> = self
            .derived
            .iter()
            .filter(|(_, derived)| (derived.object, derived.key) == (object, key))
            .map(|(name, _)| name)
            .collect();
        let may_still = self
            .derived
            .values()
            .any(|d| (d.object, d.key) == (object, key) && d.sends.may_still_be_executed());
        let body: Value = serde_json::from_slice(&bytes.2).unwrap_or_default();
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let made: Vec<&Entry> = self.ledger.values().filter(|entry| mine.contains(&entry.by)).collect();
        let moved: Vec<&Entry> = self
            .ledger
            .values()
            .filter(|entry| entry.moved_by.as_ref().is_some_and(|by| mine.contains(by)))
            .collect();
        let returned: Vec<&Returned> =
            self.returned.values().filter(|returned| mine.contains(&returned.by)).collect();
        let ours = self.ledger.get(text("provider_payment"));
        let amount = body["amount"].as_u64().unwrap_or(0);
        let truth = match (what, bytes.0) {
            ("payment", 201) => {
                let living = made.iter().filter(|entry| entry.lives()).count();
                let stands = |entry: &Entry| match text("status") {
                    "succeeded" => entry.status == "captured" && entry.captured == amount,
                    "requires_capture" => entry.status == "reserved" && entry.amount == amount,
                    // What only the bank decides may have been decided in the meantime.
                    "requires_action" | "processing" => true,
                    _ => false,
                };
                living <= 1 && ours.is_some_and(|entry| mine.contains(&entry.by) && stands(entry))
            }
            ("payment", 402) => made.iter().all(|entry| !entry.lives()),
            ("capture", 200) => {
                let said = body["amount_captured"].as_u64().unwrap_or(0);
                said > 0 && ours.is_some_and(|entry| entry.captured == said)
            }
            ("void", 200) => ours.is_some_and(|entry| entry.status == "canceled"),
            ("capture" | "void", 402) => moved.is_empty(),
            ("refund", 201) => {
                let is_one = returned.len() == 1 && returned[0].amount == amount;
                is_one && (text("status") == "pending" || returned[0].status == "succeeded")
            }
            ("refund", 402) => returned.iter().all(|returned| returned.status == "failed"),
            _ => false,
        };
        let seen = || format!("{what} answers {}: {made:?} {moved:?} {returned:?}", bytes.0);
        let lie = (!truth).then(seen);
        let early =
            (bytes.0 == 402 && may_still).then(|| format!("{what} answers 402 while a send is under way"));
        self.violations.extend(lie.map(|seen| Violation { invariant: TRUE_VERDICT, seen }));
        self.violations.extend(early.map(|seen| Violation { invariant: WINDOW, seen }));
        if bytes.0 == 402 {
            self.moved_nothing.insert((object, key));
        }
    }

    /// A client got an answer.
    pub(crate) fn answered(&mut self, asked: &Asked, label: &'static str, bytes: Option<&Bytes>) {
        if asked.stranger {
            if !matches!(label, "stranger" | "reset" | "refused" | "mismatch") {
                self.violated(STRANGER, format!("a stranger was answered {label}"));
            }
            return;
        }
        let facts = self.keys.entry(asked.key.clone()).or_default();
        let same = facts.first.as_ref().map(|first| first.0 == asked.object && first.1 == asked.payload);
        let first = facts.answer.clone();
        match (label, bytes) {
            ("mismatch", _) if same == Some(true) => {
                self.violated(MISMATCH, format!("{}: the same payload was refused", asked.key));
            }
            ("stored" | "pending" | "in_progress" | "interrupted" | "expired", _) if same == Some(false) => {
                self.violated(MISMATCH, format!("{}: another payload was answered {label}", asked.key));
            }
            ("stored", Some(bytes)) => {
                if first.as_ref().is_some_and(|first| first != bytes) {
                    self.violated(SAME_BYTES, format!("{bytes:?} after {first:?}"));
                }
                self.keys.entry(asked.key.clone()).or_default().answer = Some(bytes.clone());
            }
            _ => {}
        }
    }

    /// A send begins.
    pub(crate) fn sent(&mut self, now_ms: u64, send: &Send) {
        let resource = self
            .objects
            .get(&send.object)
            .and_then(|seen| seen.payment.as_ref())
            .map(|payment| payment.id.clone())
            .unwrap_or_default();
        let derived = self.derived.entry(send.derived.clone()).or_insert_with(|| Derived {
            object: send.object,
            key: send.key,
            begins: send.begins,
            resource: resource.clone(),
            sends: Sends::new(&send.derived, &send.bytes),
        });
        let is_first = derived.sends.is_empty();
        let is_anothers = (derived.object, derived.key) != (send.object, send.key);
        let sent = derived.sends.sent(now_ms, &send.bytes, (send.number, send.copies), send.window_ms);
        self.violations.extend(sent);
        if is_anothers {
            self.violated(FROZEN, format!("two keys send under {}", send.derived));
        }
        let seen = self.objects.get(&send.object);
        let ended = seen.is_some_and(|seen| seen.keys.iter().any(|k| k.key == send.key && k.life != "open"));
        if ended {
            self.violated(TOMBSTONE, "a send for a key that has ended");
        }
        if send.begins && is_first {
            self.judge_try(&send.derived, &resource);
        }
    }

    /// Another try: nothing of the earlier ones may still become a charge.
    fn judge_try(&mut self, derived: &str, resource: &str) {
        let living = self.ledger.values().find(|entry| entry.resource == resource && entry.lives());
        let on_way = self.derived.iter().find(|(name, other)| {
            let is_other = *name != derived && other.begins && other.resource == resource;
            is_other && other.sends.may_still_be_executed()
        });
        let seen = match (living, on_way) {
            (Some(entry), _) => format!("{derived} begins beside {entry:?}"),
            (None, Some((name, _))) => format!("{derived} begins while {name} is under way"),
            (None, None) => return,
        };
        self.violated(ONE_TRY, seen);
    }

    /// A copy of a send has been answered, or has been executed.
    pub(crate) fn dealt_with(&mut self, derived: &str) {
        if let Some(derived) = self.derived.get_mut(derived) {
            derived.sends.dealt_with();
        }
    }

    /// The sender was told by the provider that it did not execute a send.
    pub(crate) fn refused(&mut self, number: u64) {
        self.derived.values_mut().for_each(|derived| derived.sends.refused(number));
    }

    /// The provider executed what a key asks for.
    pub(crate) fn executed(&mut self, now_ms: u64, derived: &str) {
        if let Some(derived) = self.derived.get_mut(derived) {
            derived.sends.executed(now_ms);
        }
    }

    fn told_nothing(&self, by: &str) -> bool {
        let told = |derived: &Derived| self.moved_nothing.contains(&(derived.object, derived.key));
        self.derived.get(by).is_some_and(told)
    }

    /// A provider's ledger changed.
    pub(crate) fn booked(&mut self, entry: Entry) {
        if entry.captured > entry.amount || entry.refunded > entry.captured {
            self.violated(SUMS, format!("in the ledger: {entry:?}"));
        }
        let before = self.ledger.insert(entry.id.clone(), entry.clone());
        let was_moved = before.as_ref().is_some_and(|before| before.moved_by.is_some());
        if before.is_none() && entry.lives() && self.told_nothing(&entry.by) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing moved: {entry:?}"));
        }
        if !was_moved && entry.moved_by.as_ref().is_some_and(|by| self.told_nothing(by)) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing moved: {entry:?}"));
        }
        // By what is paid: the payment, or the order.
        let paid = |entry: &Entry| {
            let derived = self.derived.get(&entry.by);
            let order = derived.and_then(|derived| self.orders.get(&derived.object));
            order.cloned().unwrap_or_else(|| entry.resource.clone())
        };
        let what = paid(&entry);
        let of_it = |other: &&Entry| paid(other) == what;
        let living = self.ledger.values().filter(of_it).filter(|other| other.lives()).count();
        let charged = self.ledger.values().filter(of_it).filter(|other| other.captured > 0).count();
        if living > 1 || charged > 1 {
            self.violated(ONE_CHARGE, format!("{charged} charges and {living} that live for {what}"));
        }
        // By the client's key, across objects.
        let name = |by: &String| {
            let derived = self.derived.get(by)?;
            self.objects.get(&derived.object)?.names.get(&derived.key).cloned()
        };
        if let Some(ours) = name(&entry.by) {
            let same = self.ledger.values().filter(|other| other.captured > 0);
            let charges = same.filter(|other| name(&other.by).as_ref() == Some(&ours)).count();
            if charges > 1 {
                self.violated(ONE_CHARGE, format!("{charges} charges under the key {ours}"));
            }
        }
        self.judge_reserved(&entry);
    }

    /// What the ledger gives back is reserved in the rows before.
    fn judge_reserved(&mut self, entry: &Entry) {
        let is_its = |seen: &&Seen| seen.payment.as_ref().is_some_and(|p| p.id == entry.resource);
        let Some(seen) = self.objects.values().find(is_its) else { return };
        let rows = sum(&seen.refunds);
        if entry.refunded > rows {
            self.violated(SUMS, format!("the ledger gives back {}, the rows {rows}", entry.refunded));
        }
    }

    /// A refund of a provider's ledger changed.
    pub(crate) fn returned(&mut self, refund: Returned) {
        let is_new = self.returned.insert(refund.id.clone(), refund.clone()).is_none();
        let twice = self.returned.values().filter(|other| other.by == refund.by).count() > 1;
        if twice {
            self.violated(ONE_CHARGE, format!("two refunds under {}", refund.by));
        }
        if is_new && self.told_nothing(&refund.by) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing moved: {refund:?}"));
        }
    }

    /// A key is open although it should have ended by now.
    pub(crate) fn overdue(&mut self, what: &str, by_ms: u64) {
        self.violated(LIVENESS, format!("{what} is open {by_ms} ms after the last fault"));
    }

    /// A response is still kept although it should have been dropped by now.
    pub(crate) fn kept(&mut self, by_ms: u64) {
        self.violated(DROPPED, format!("a response is kept {by_ms} ms after its time"));
    }

    /// The read model shows an object as it was at this version.
    pub(crate) fn projected(&mut self, object: usize, version: u64) {
        let before = self.shown.insert(object, version).unwrap_or(0);
        if version < before {
            self.violated(FORWARD, format!("object {object}: version {version} after {before}"));
        }
    }

    /// A job other than a projection was done.
    pub(crate) fn job_done(&mut self, job_id: &str) {
        let times = self.jobs_done.entry(job_id.to_owned()).or_default();
        *times += 1;
        if *times > 1 {
            let seen = format!("{job_id} was done {times} times");
            self.violated(ONCE, seen);
        }
    }

    /// What an object has staged was over long ago. `left` is what it still holds.
    pub(crate) fn at_rest(&mut self, object: usize, left: &[&str]) {
        if !left.is_empty() {
            self.violated(ONCE, format!("{left:?} are not over"));
        }
        let staged = self.objects.get(&object).map(|seen| seen.jobs.clone()).unwrap_or_default();
        for job in staged.iter().filter(|job| !self.jobs_done.contains_key(*job)) {
            self.violations.push(Violation { invariant: ONCE, seen: format!("{job} was never done") });
        }
    }

    /// At rest the read model says something else than the object.
    pub(crate) fn shows_otherwise(&mut self, seen: String) {
        self.violated(SHOWS, seen);
    }

    /// The read model has heard all that an object said, and does not show that it should have been awake.
    pub(crate) fn not_swept(&mut self, object: usize) {
        self.violated(SWEPT, format!("object {object}"));
    }

    /// Nothing more will happen that matters.
    pub(crate) fn close(&mut self) {
        let objects = std::mem::take(&mut self.objects);
        for seen in objects.values() {
            self.close_object(seen);
        }
        self.objects = objects;
    }

    fn close_object(&mut self, seen: &Seen) {
        let needs_person = seen.keys.iter().any(|key| key.needs_person);
        if seen.keys.iter().any(|key| key.life == "open" && !key.needs_person) {
            self.violated(LIVENESS, format!("open at the end: {:?}", seen.keys));
        }
        let Some(payment) = &seen.payment else { return };
        if needs_person {
            return;
        }
        if payment.pending.is_some() || seen.refunds.iter().any(|refund| refund.state == "requested") {
            self.violated(LIVENESS, format!("a move is left: {payment:?} {:?}", seen.refunds));
        }
        let is_asked = payment.provider == "stripe";
        let entry = payment.provider_payment.as_ref().and_then(|id| self.ledger.get(id)).cloned();
        let ledger = entry.as_ref().map_or("refused", |entry| entry.status);
        let agrees = match payment.state {
            "succeeded" => ledger == "captured",
            "requires_capture" => ledger == "reserved",
            "canceled" => ledger == "canceled",
            // A void can still reach what had failed: nothing is held either way.
            "failed" => matches!(ledger, "refused" | "canceled"),
            "requires_action" => ledger == "action",
            // Adyen tells by webhooks alone.
            "processing" => ledger == "processing" || !is_asked,
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
        let (rows, given) = (sum(&seen.refunds), entry.map_or(0, |entry| entry.refunded));
        if is_asked && rows != given {
            self.violated(AGREES, format!("at the end {rows} refunded in the rows, {given} in the ledger"));
        }
        let paid = u32::from(payment.state == "succeeded");
        if seen.captures != paid || seen.jobs.len() as u32 != paid {
            let seen = format!("{} receipts for {} captures: {payment:?}", seen.jobs.len(), seen.captures);
            self.violated(RECEIPT, seen);
        }
    }
}
