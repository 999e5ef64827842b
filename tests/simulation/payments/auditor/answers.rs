//! Who runs, who is refused, and what is answered.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Asked, Auditor, Commit, Entry, REFUSED, Returned, thousandths};
use crate::invariants::{
    Bytes, MISMATCH, NO_CONCURRENCY, SAME_BYTES, STRANGER, TOMBSTONE, TRUE_VERDICT, Violation, WINDOW,
};

impl Auditor {
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
            let invariant = if view.life == "expired" { TOMBSTONE } else { NO_CONCURRENCY };
            self.violated(invariant, format!("a request runs although its key is {}", view.life));
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

    /// What a key answers for good, held against the ledger as it is now.
    pub(super) fn judge_verdict(&mut self, commit: &Commit, key: u32, what: &'static str, bytes: &Bytes) {
        let object = commit.object;
        let mine: BTreeSet<&String> = self
            .derived
            .iter()
            .filter(|(_, derived)| (derived.object, derived.key) == (object, key))
            .map(|(name, _)| name)
            .collect();
        let mut sent = self.derived.values().filter(|d| (d.object, d.key) == (object, key));
        // A void that comes after the money was taken does nothing, whenever it comes.
        let is_taken = |resource: &String| {
            self.ledger.values().any(|entry| entry.resource == *resource && entry.status == "captured")
        };
        let may_still =
            sent.any(|d| d.sends.may_still_be_executed() && !(what == "void" && is_taken(&d.resource)));
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
        let said = |name: &str| {
            body[name].as_u64().map_or(0, |minor| thousandths(minor, text("currency"), "clients"))
        };
        let amount = said("amount");
        let status_reply = match (what, bytes.0) {
            ("payment", 201) => {
                let living = made.iter().filter(|entry| entry.lives()).count();
                let stands = |entry: &Entry| match text("status") {
                    "succeeded" => {
                        let whole = if entry.moved_elsewhere { said("amount_captured") } else { amount };
                        matches!(entry.status, "captured" | "capture_failed") && entry.taken == whole
                    }
                    // The answer can be as old as the call, and the reservation have lapsed or been moved without us.
                    "requires_capture" => {
                        let is_held = matches!(entry.status, "reserved" | "expired") || entry.moved_elsewhere;
                        is_held && entry.amount == amount
                    }
                    // What only the bank decides may have been decided in the meantime.
                    "requires_action" | "processing" => true,
                    _ => false,
                };
                // An earlier try that was paid after all is the answer of the one that found it.
                let is_its =
                    |entry: &Entry| mine.contains(&entry.by) || (entry.is_revived && made.is_empty());
                living <= 1 && ours.is_some_and(|entry| is_its(entry) && stands(entry))
            }
            ("payment", 402) => made.iter().all(|entry| !entry.lives()),
            ("capture", 200) => {
                let said = said("amount_captured");
                said > 0 && ours.is_some_and(|entry| entry.taken == said)
            }
            ("capture" | "void", 202) => ours.is_some() && body["pending_operation"]["type"] == what,
            ("give_back", 200) => true,
            // What has lapsed by itself meanwhile is shown as that.
            ("void", 200) => ours.is_some_and(|entry| {
                entry.status == "canceled" || (entry.status == "expired" && text("status") == "expired")
            }),
            ("capture" | "void", 402) => moved.is_empty(),
            ("refund", 201) => {
                let is_one = returned.len() == 1 && returned[0].amount == amount;
                let was_done = returned.first().is_some_and(|it| it.status == "succeeded" || it.came_back);
                is_one && (text("status") == "pending" || was_done)
            }
            ("customer", status) => self.is_true_of_customer((status, &body), |by| mine.contains(by)),
            ("refund", 402) => returned.iter().all(|returned| returned.status == "failed"),
            _ => false,
        };
        let seen = || format!("{what} answers {}: {made:?} {moved:?} {returned:?}", bytes.0);
        let lie = (!status_reply).then(seen);
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
            // Nothing was begun, and nothing is there: both are the same 404.
            if !matches!(label, "stranger" | "not_started" | "reset" | "refused" | "mismatch") {
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
}
