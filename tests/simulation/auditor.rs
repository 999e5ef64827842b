//! The judge. It shares no code with the core: it is told what could be observed from outside, as plain strings and
//! numbers, and checks that against the invariants of docs/protocol.md.
//!
//! What it is told: each committed transaction, each answer to a client with its bytes, each send, and each movement
//! of the provider's ledger.

use std::collections::BTreeMap;

use crate::invariants::{
    ALARM, AUDIT, Bytes, DROPPED, FROZEN, KEPT, KeyView, LIVENESS, MISMATCH, NO_BUG, NO_CONCURRENCY,
    ONE_CHARGE, ONLY_FORWARD, PERSONAL, RECEIPT, SAME_BYTES, STRANGER, Sends, TOMBSTONE, TRUE_VERDICT, Terms,
    Violation, WINDOW, Writer, judge_keys,
};

/// A committed transaction.
pub(crate) struct Commit {
    pub(crate) object_now_ms: u64,
    pub(crate) writer: Writer,
    /// Whether any row changed or was added.
    pub(crate) changed: bool,
    pub(crate) keys: Vec<KeyView>,
    /// `pending`, `paid`, `unpaid`
    pub(crate) ride: Option<&'static str>,
    /// Whether the ride's places are gone.
    pub(crate) erased: bool,
    /// The actions of the audit rows that it added.
    pub(crate) audit: Vec<&'static str>,
    /// The ids of the jobs that it staged.
    pub(crate) jobs: Vec<String>,
    /// Whether it set the alarm.
    pub(crate) set_alarm: bool,
    /// For when the alarm is set now.
    pub(crate) alarm_at_ms: Option<u64>,
}

/// What became of one request.
pub(crate) struct Answered<'a> {
    pub(crate) stranger: bool,
    pub(crate) payload: u32,
    /// `stored`, `pending`, `in_progress`, `mismatch`, `expired`, `stranger`, `not_started`, …
    pub(crate) label: &'static str,
    pub(crate) bytes: Option<&'a Bytes>,
}

/// The auditor of one history.
#[derive(Default)]
pub(crate) struct Auditor {
    terms: Terms,
    pub(crate) violations: Vec<Violation>,
    keys: Vec<KeyView>,
    ride: Option<&'static str>,
    /// When the key was made, by the object's clock.
    made_at_ms: Option<u64>,
    erased: bool,
    /// By attempt: the object's time at its last sign of life.
    alive_at_ms: BTreeMap<u32, u64>,
    /// The payload that the key was first used for.
    first_payload: Option<u32>,
    first_answer: Option<Bytes>,
    /// By the object's clock.
    finished_at_ms: Option<u64>,
    derived: BTreeMap<String, Sends>,
    charges: u32,
    jobs: Vec<String>,
    audit: BTreeMap<&'static str, u32>,
}

impl Auditor {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms, ..Self::default() }
    }

    fn violated(&mut self, invariant: &'static str, seen: impl Into<String>) {
        self.violations.push(Violation { invariant, seen: seen.into() });
    }

    /// The core said that what cannot be is.
    pub(crate) fn bug(&mut self, text: &str) {
        self.violated(NO_BUG, text);
    }

    /// The object's tables say otherwise than what was committed.
    pub(crate) fn kept_otherwise(&mut self, text: &str) {
        self.violated(KEPT, text);
    }

    /// A request was decided on, in the transaction that [`committed`](Self::committed) is told of next.
    pub(crate) fn began(&mut self, asked: &Answered<'_>, holder: &str, object_now_ms: u64) {
        if asked.label == "expired" && !self.has_expired(object_now_ms) {
            self.violated(TOMBSTONE, "refused as expired although it has not");
        }
        if asked.label != "run" {
            return;
        }
        if asked.stranger {
            self.violated(STRANGER, "a stranger's request runs");
        }
        if *self.first_payload.get_or_insert(asked.payload) != asked.payload {
            self.violated(MISMATCH, "a request with another payload runs");
        }
        for key in self.keys.clone() {
            if key.life != "open" {
                let promise = if key.life == "expired" { TOMBSTONE } else { NO_CONCURRENCY };
                self.violated(promise, format!("a request runs although the key is {}", key.life));
            }
            let alive_at_ms = self.alive_at_ms.get(&key.attempt).copied().unwrap_or(0);
            if key.holder.as_deref() == Some(holder) && object_now_ms < alive_at_ms + self.terms.lease_ms {
                self.violated(NO_CONCURRENCY, format!("attempt {} was still alive", key.attempt));
            }
        }
    }

    /// A response may be dropped once its retention is over, by the clock that looks; then it stays dropped.
    fn has_expired(&self, object_now_ms: u64) -> bool {
        let over = |at_ms| object_now_ms >= at_ms + self.terms.retention_ms;
        self.finished_at_ms.is_some_and(over) || self.keys.iter().any(|key| key.life == "expired")
    }

    /// A transaction was committed.
    pub(crate) fn committed(&mut self, commit: &Commit) {
        self.violations.extend(judge_keys(&self.keys, &commit.keys, &commit.writer, commit.changed));
        if commit.keys.len() > 1 {
            self.violated(ONE_CHARGE, "two keys in one object");
        }
        self.judge_effects(commit);
        self.judge_alarm(commit);
        for key in &commit.keys {
            if commit.writer.is_run_of(key) || !self.alive_at_ms.contains_key(&key.attempt) {
                self.alive_at_ms.insert(key.attempt, commit.object_now_ms);
            }
        }
        if commit.keys.iter().any(|key| key.life == "finished") {
            self.finished_at_ms.get_or_insert(commit.object_now_ms);
        }
        self.keys.clone_from(&commit.keys);
        self.ride = commit.ride;
    }

    fn judge_effects(&mut self, commit: &Commit) {
        let mut expected: Vec<&'static str> = match (self.ride, commit.ride) {
            (before, after) if before == after => vec![],
            (None, Some("pending")) => vec!["ride.created"],
            (Some("pending"), Some("paid")) => vec!["ride.charged"],
            (Some("pending"), Some("unpaid")) => vec!["ride.not_charged"],
            (before, after) => {
                self.violated(ONLY_FORWARD, format!("the ride went from {before:?} to {after:?}"));
                vec![]
            }
        };
        expected.extend(commit.jobs.iter().map(|job| match job.strip_suffix("_dispatch") {
            Some(_) => "dispatch.staged",
            None => "receipt.staged",
        }));
        if commit.erased && !self.erased {
            expected.push("personal_data.erased");
            self.judge_erasure(commit);
        }
        self.erased = commit.erased;
        if !commit.keys.is_empty() {
            self.made_at_ms.get_or_insert(commit.object_now_ms);
        }
        if expected != commit.audit {
            self.violated(AUDIT, format!("effects {expected:?}, audit rows {:?}", commit.audit));
        }
        for action in &commit.audit {
            *self.audit.entry(action).or_default() += 1;
        }
        for job in &commit.jobs {
            if self.jobs.contains(job) {
                self.violated(RECEIPT, format!("{job} was staged twice"));
            }
            self.jobs.push(job.clone());
        }
        if self.ride == Some("pending") && commit.ride == Some("unpaid") {
            self.judge_verdict();
        }
    }

    /// "Not charged" may be said when the provider has decided, or when nothing is left that could still decide.
    fn judge_verdict(&mut self) {
        let under_way: u32 = self.derived.values().map(|key| key.under_way).sum();
        let executed = self.derived.values().any(|key| key.executed_at_ms.is_some());
        if under_way > 0 && !executed {
            self.violated(WINDOW, format!("a verdict while {under_way} sends are under way"));
        }
        if self.charges > 0 {
            self.violated(TRUE_VERDICT, "unpaid, but charged");
        }
    }

    fn judge_erasure(&mut self, commit: &Commit) {
        let due_at_ms = self.made_at_ms.unwrap_or(u64::MAX).saturating_add(self.terms.personal_retention_ms);
        if commit.object_now_ms < due_at_ms {
            self.violated(
                PERSONAL,
                format!("erased {} ms before its time", due_at_ms - commit.object_now_ms),
            );
        }
        if commit.keys.iter().any(|key| key.life == "open") {
            self.violated(PERSONAL, format!("erased under {:?}", commit.keys));
        }
    }

    fn judge_alarm(&mut self, commit: &Commit) {
        if commit.keys.iter().all(|key| key.life != "open") {
            return;
        }
        match commit.alarm_at_ms {
            None => self.violated(ALARM, "an open key and no alarm"),
            Some(at_ms) if at_ms > commit.object_now_ms + self.terms.alarm_ahead_ms => {
                let ahead_ms = at_ms - commit.object_now_ms;
                self.violated(ALARM, format!("an open key sleeps for {ahead_ms} ms"));
            }
            Some(_) => {}
        }
    }

    /// A client got an answer.
    pub(crate) fn answered(&mut self, answer: &Answered<'_>) {
        if answer.stranger {
            if !matches!(answer.label, "stranger" | "reset") {
                self.violated(STRANGER, format!("a stranger was answered {}", answer.label));
            }
            return;
        }
        let same = self.first_payload.is_none_or(|first| first == answer.payload);
        match (answer.label, answer.bytes) {
            ("mismatch", _) if same => self.violated(MISMATCH, "the same payload was refused"),
            ("stored" | "pending" | "in_progress" | "interrupted" | "expired", _) if !same => {
                self.violated(MISMATCH, format!("another payload was answered {}", answer.label));
            }
            ("stored", Some(bytes)) => self.judge_bytes(bytes),
            _ => {}
        }
    }

    fn judge_bytes(&mut self, bytes: &Bytes) {
        if self.first_answer.get_or_insert_with(|| bytes.clone()) != bytes {
            self.violated(SAME_BYTES, format!("{bytes:?} after {:?}", self.first_answer));
        }
        let charged = self.charges == 1;
        let told = match (bytes.0, self.ride) {
            (201, _) | (303, Some("paid")) => true,
            (402, _) | (303, Some("unpaid")) => false,
            other => return self.violated(TRUE_VERDICT, format!("an answer that is no verdict: {other:?}")),
        };
        if told != charged {
            self.violated(TRUE_VERDICT, format!("answered {}, {} charges", bytes.0, self.charges));
        }
    }

    /// A send begins. `copies` of it will reach the provider.
    pub(crate) fn sent(&mut self, now_ms: u64, derived_key: &str, bytes: &str, number: u64, copies: u32) {
        let sends =
            self.derived.entry(derived_key.to_owned()).or_insert_with(|| Sends::new(derived_key, bytes));
        self.violations.extend(sends.sent(now_ms, bytes, (number, copies), self.terms.window_ms));
        if self.derived.len() > 1 {
            self.violated(FROZEN, "one operation, two derived keys");
        }
        if self.keys.iter().any(|key| key.life != "open") {
            self.violated(TOMBSTONE, "a send for a key that has ended");
        }
    }

    /// A copy of a send reached the provider.
    pub(crate) fn arrived(&mut self, derived_key: &str) {
        if let Some(key) = self.derived.get_mut(derived_key) {
            key.dealt_with();
        }
    }

    /// The sender was told by the provider that it did not execute a send.
    pub(crate) fn refused(&mut self, number: u64) {
        self.derived.values_mut().for_each(|key| key.refused(number));
    }

    /// The provider executed what a key asks for.
    pub(crate) fn executed(&mut self, now_ms: u64, derived_key: &str) {
        if let Some(key) = self.derived.get_mut(derived_key) {
            key.executed(now_ms);
        }
    }

    /// The provider's ledger shows another charge.
    pub(crate) fn charged(&mut self) {
        self.charges += 1;
        if self.charges > 1 {
            self.violated(ONE_CHARGE, format!("{} charges", self.charges));
        }
        if self.ride == Some("unpaid") {
            self.violated(TRUE_VERDICT, "charged after the verdict unpaid");
        }
    }

    /// A key is open although it should have ended by now.
    pub(crate) fn overdue(&mut self, by_ms: u64) {
        self.violated(LIVENESS, format!("{:?} is open {by_ms} ms after the last fault", self.keys));
    }

    /// A response is still kept although it should have been dropped by now.
    pub(crate) fn kept(&mut self, by_ms: u64) {
        self.violated(DROPPED, format!("{:?} is kept {by_ms} ms after its time", self.keys));
    }

    /// Nothing more will happen.
    pub(crate) fn close(&mut self) {
        if self.keys.iter().any(|key| key.life == "finished") {
            self.violated(DROPPED, format!("{:?} is kept at the end of time", self.keys));
        }
        if self.keys.iter().any(|key| key.life == "open") {
            self.violated(LIVENESS, format!("{:?} is open at the end of time", self.keys));
        }
        if self.ride.is_some() && !self.erased {
            self.violated(PERSONAL, "it is kept at the end of time");
        }
        let charges = self.charges;
        let paid = self.ride == Some("paid");
        if u32::from(paid) != charges {
            self.violated(TRUE_VERDICT, format!("the ride is {:?}, {charges} charges", self.ride));
        }
        // A receipt, and a message to whoever drives.
        if self.jobs.len() != 2 * usize::from(paid) {
            self.violated(RECEIPT, format!("the ride is {:?}, receipts {:?}", self.ride, self.jobs));
        }
        if let Some((action, times)) = self.audit.iter().find(|(_, times)| **times > 1) {
            self.violated(AUDIT, format!("{action} {times} times"));
        }
    }
}
