//! Rows as committed: how a payment and its refunds move, what each move brings with it, and the alarm.

use super::{AGREES, Auditor, Commit, DISPUTED, MOVES, ONE_TRY, PaymentView, RefundView, SUMS, Seen, sum};
use crate::invariants::{ALARM, AUDIT, RECEIPT};

/// The moves that a payment may make within one try.
const TABLE: [(&str, &[&str]); 9] = [
    // Others may have captured or canceled what was authorized unheard.
    (
        "authorizing",
        &["requires_action", "processing", "requires_capture", "succeeded", "canceled", "failed"],
    ),
    ("requires_action", &["processing", "requires_capture", "succeeded", "canceled", "failed"]),
    // News can be overtaken by what followed it.
    (
        "processing",
        &[
            "requires_action",
            "requires_capture",
            "succeeded",
            "capture_failed",
            "canceled",
            "expired",
            "failed",
        ],
    ),
    ("requires_capture", &["succeeded", "capture_failed", "canceled", "expired", "failed"]),
    ("succeeded", &["capture_failed"]),
    ("capture_failed", &["succeeded"]),
    ("canceled", &[]),
    ("expired", &[]),
    ("failed", &[]),
];

/// What is written down where a provider tells what cannot be.
const CONTRADICTS: &str = "webhook.contradicts";

fn entered(state: &str) -> Option<&'static str> {
    Some(match state {
        "requires_action" => "payment.requires_action",
        "processing" => "payment.processing",
        "requires_capture" => "payment.authorized",
        "succeeded" => "payment.captured",
        "capture_failed" => "payment.capture_failed",
        "canceled" => "payment.canceled",
        "expired" => "payment.expired",
        "failed" => "payment.failed",
        _ => return None,
    })
}

impl Auditor {
    pub(super) fn judge_rows(&mut self, commit: &Commit) {
        let Some(payment) = &commit.payment else {
            if !commit.refunds.is_empty() {
                self.violated(SUMS, "refunds without a payment");
            }
            return;
        };
        // One that is on its way while the capture fails is refused by the provider; one that was never sent ends by itself.
        let is_idle = |refund: &&RefundView| refund.state == "requested" && payment.state == "capture_failed";
        let idle: u64 = commit.refunds.iter().filter(is_idle).map(|refund| refund.amount).sum();
        let refunded = sum(&commit.refunds) - idle;
        if payment.captured > payment.amount || refunded > payment.captured {
            let seen =
                format!("{} authorised, {} captured, {refunded} refunded", payment.amount, payment.captured);
            self.violated(SUMS, seen);
        }
        let entry = payment.provider_payment.as_ref().and_then(|id| self.ledger.get(id));
        let captured = entry.map_or(0, |entry| entry.taken);
        let is_over = matches!(payment.state, "canceled" | "expired");
        if payment.captured > 0 && payment.captured != captured {
            self.violated(AGREES, format!("rows say {} captured, the ledger {captured}", payment.captured));
        } else if let Some(entry) = entry.filter(|entry| is_over && entry.lives()) {
            let seen = format!("rows say {}, the ledger {entry:?}", payment.state);
            self.violated(AGREES, seen);
        }
    }

    pub(super) fn judge_effects(&mut self, before: &Seen, commit: &Commit) {
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
        let is_personal = |payment: &Option<PaymentView>| payment.as_ref().is_some_and(|it| it.is_personal);
        let is_kept = is_personal(&commit.payment);
        let has_words = |payment: &Option<PaymentView>| payment.as_ref().is_some_and(|it| it.has_words);
        // They also go with what has failed, as a next try begins.
        let is_erased = commit.audit.contains(&"personal_data.erased");
        let words_went = is_erased && has_words(&before.payment) && !has_words(&commit.payment);
        if (is_personal(&before.payment) || words_went) && !is_kept {
            expected.push("personal_data.erased");
        }
        self.judge_customer(before, commit.customer.as_ref(), &mut expected);
        self.judge_refunds(before, commit, &mut expected);
        for (_, what, (status, ..)) in &commit.finished {
            if *status == 402 && matches!(*what, "capture" | "void") {
                expected.push("operation.refused");
            }
            if *status == 402 && *what == "customer" {
                expected.push("customer.refused");
            }
        }
        let told = |action: &&&str| **action == CONTRADICTS;
        if commit.audit.contains(&"call.settled_by_hand") {
            self.settled_by_hand.insert(commit.object);
        }
        // News of before an operator's word may still be on its way, and say otherwise.
        let fits = !self.settled_by_hand.contains(&commit.object);
        if commit.audit.iter().any(|action| told(&action)) && fits {
            self.contradicted(format!("object {}", commit.object));
        }
        // What an operator says of a call moves nothing by itself.
        let is_said = |action: &&&str| **action == "call.settled_by_hand";
        let of_money = commit.audit.iter().filter(|action| !told(action) && !is_said(action));
        let mut audit: Vec<_> = of_money.copied().collect();
        // Money on a try that was over is told of, and given back, beside all else.
        let is_of_try = |action: &&str| action.starts_with("try.");
        if audit.iter().any(is_of_try) {
            audit.retain(|action| !is_of_try(action) && *action != "webhook.alert");
            expected.retain(|action| *action != "webhook.alert");
        }
        // Of what others have given back a person is told where it came back, or is more than was taken.
        if audit.contains(&"refund.elsewhere") && !expected.contains(&"webhook.alert") {
            audit.retain(|action| *action != "webhook.alert");
        }
        expected.sort_unstable();
        audit.sort_unstable();
        if expected != audit {
            self.violated(AUDIT, format!("effects {expected:?}, audit rows {audit:?}"));
        }
        // A capture that is made again brings no second one.
        let entered_paid = expected.contains(&"payment.captured") && before.captures == 0;
        if commit.jobs.len() != usize::from(entered_paid && is_kept) {
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
        let is_over = matches!(before.state, "failed" | "canceled" | "expired");
        if after.attempt < before.attempt && commit.writer.runs() {
            // An earlier try was paid after all, before this one was sent.
            let entry = after.provider_payment.as_ref().and_then(|id| self.ledger.get(id));
            let is_paid = entry.is_some_and(|entry| entry.is_revived && entry.resource == after.id);
            if !is_paid || before.state != "authorizing" || before.provider_payment.is_some() {
                self.violated(MOVES, format!("from {before:?} to {after:?}"));
            }
            expected.extend(entered(after.state));
            return;
        }
        if after.attempt != before.attempt {
            if after.attempt != before.attempt + 1 || after.state != "authorizing" {
                self.violated(MOVES, format!("from {before:?} to {after:?}"));
            }
            match before.state {
                _ if is_over && before.pending.is_none() => expected.push("payment.created"),
                "authorizing" if commit.writer.runs() => {
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
            if after.state == "capture_failed" {
                expected.push("webhook.alert");
            }
        } else if before.captured != after.captured {
            self.violated(MOVES, format!("from {} to {} captured", before.captured, after.captured));
        }
        if (before.dispute, before.is_withdrawn) != (after.dispute, after.is_withdrawn) {
            expected.extend(["payment.disputed", "webhook.alert"]);
        }
        if before.refunded_elsewhere != after.refunded_elsewhere {
            expected.push("refund.elsewhere");
        }
        match (before.pending, after.pending) {
            (None, Some("capture")) => expected.push("capture.requested"),
            (None, Some(_)) => expected.push("void.requested"),
            (Some(before), Some(after)) if before != after => {
                self.violated(MOVES, format!("{after} while {before} is under way"));
            }
            (Some("capture"), Some(_)) if before.is_received != after.is_received => {
                expected.push("capture.pending");
            }
            (Some(_), Some(_)) if before.is_received != after.is_received => expected.push("void.pending"),
            (Some(_), None) if commit.finished.is_empty() && !before.is_received => {
                self.violated(MOVES, "a move ended without an answer");
            }
            // Others had ended it while it was under way.
            (Some(_), None)
                if !commit.finished.is_empty()
                    && before.state == after.state
                    && matches!(before.state, "succeeded" | "canceled" | "expired") =>
            {
                expected.push("operation.ended");
            }
            // It was refused afterwards, or what it was to do had been done by others.
            (Some(_), None)
                if before.is_received
                    && before.state == after.state
                    && before.state != "requires_capture"
                    && commit.audit.contains(&"operation.ended") =>
            {
                expected.push("operation.ended");
            }
            (Some("capture"), None) if before.is_received && before.state == after.state => {
                expected.push("capture.failed");
            }
            (Some(_), None) if before.is_received && before.state == after.state => {
                expected.push("void.failed");
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
                (None, "requested") => {
                    let payment = before.payment.as_ref();
                    if payment.is_some_and(|it| it.dispute == Some("open") && it.is_withdrawn) {
                        self.violated(DISPUTED, format!("{after:?} of {payment:?}"));
                    }
                    expected.push("refund.requested");
                }
                (Some(before), after) if before == after => {}
                (Some("requested"), "pending") => expected.push("refund.pending"),
                (Some("requested" | "pending"), "succeeded") => expected.push("refund.succeeded"),
                (Some("requested" | "pending"), "failed") => expected.push("refund.failed"),
                (Some("succeeded"), "failed") if self.came_back(after) => expected.push("refund.failed"),
                (from, to) => self.violated(MOVES, format!("a refund went from {from:?} to {to}")),
            }
        }
    }

    pub(super) fn judge_alarm(&mut self, commit: &Commit) {
        let is_open = commit.keys.iter().any(|key| key.life == "open");
        let is_asked = commit.payment.as_ref().is_some_and(|payment| {
            let pending = commit.refunds.iter().any(|refund| refund.state == "pending");
            let open = matches!(payment.state, "requires_action" | "processing") || pending;
            open && payment.provider == "stripe"
        });
        if is_asked && !commit.payment.as_ref().is_some_and(|payment| payment.has_check) {
            self.violated(ALARM, format!("nobody asks about {:?}", commit.payment));
        }
        // What is due already rings at the next millisecond: the time that is ringing is none for an alarm.
        if let Some(until_ms) = commit.staged_until_ms
            && commit.alarm_at_ms.is_none_or(|at_ms| at_ms > until_ms.max(commit.now_ms + 1))
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
}
