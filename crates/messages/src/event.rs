//! What a shop is told at its own endpoint: which audit records are events, and what is said of each. Pure.
//!
//! An event follows from an audit record, and has its number: told again it is the same event, under the same id. What is said beside it is the
//! payment as it was when the snapshot was taken: it may be newer than the event, and is never older.

use serde_json::{Value, json};

use crate::job::{Apart, Job, JobPayment, MESSAGE_MAX_BYTES, VERSION};
use crate::snapshot::{AuditRow, PaymentRow, RefundRow, Snapshot};
use payments::payment::records::JobKind;
use payments::timestamp;

/// How old an event may be that a snapshot tells, and for how long its delivery is tried, in ms. The read model can be rebuilt of snapshots with all audit
/// records: of older ones nobody is told again.
pub const TOLD_FOR_MS: u64 = 3 * 86_400_000;

/// Makes [`EventType`]: its name in a message, and what it means.
macro_rules! event_types {
    ($($variant:ident($name:literal, $about:literal);)*) => {
        /// What has happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventType {
            $(#[doc = $about] $variant,)*
        }

        impl EventType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As a message names it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it means, in a sentence.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)*
                }
            }
        }
    };
}

event_types! {
    RequiresAction("payment.requires_action", "The customer has to confirm the payment at the bank's page.");
    Processing("payment.processing", "The provider decides later.");
    RequiresCapture("payment.requires_capture", "The money is reserved.");
    Succeeded("payment.succeeded", "The money is taken, all of it or a part: see `amount_captured`.");
    CaptureFailed("payment.capture_failed", "A capture has failed after it was accepted.");
    Canceled("payment.canceled", "The payment was voided or given up.");
    Expired("payment.expired", "The reservation has lapsed.");
    Declined("payment.declined", "The card was declined. Another try of the order can still succeed.");
    Failed("payment.failed", "The payment has failed otherwise. Another try of the order can still succeed.");
    Disputed("payment.disputed", "A bank wants money back.");
    DisputeWon("payment.dispute_won", "A dispute was decided for the shop.");
    DisputeLost("payment.dispute_lost", "A dispute was decided for the card holder.");
    Updated("payment.updated", "Something else has changed: the payment goes on with its `fallback` provider, a capture or a void has ended later otherwise than by a status of its own, somebody has captured or refunded at the provider's dashboard, or there is money or a dispute of an earlier try.");
    RefundPending("refund.pending", "The provider decides later about a refund, or may repeat one that was returned.");
    RefundSucceeded("refund.succeeded", "A refund is done.");
    RefundFailed("refund.failed", "A refund has failed, perhaps after it was done.");
}

impl EventType {
    /// Of an audit record of this payment; `None` if it is not for shops.
    fn of(record: &AuditRow, payment: &PaymentRow, audit: &[AuditRow]) -> Option<Self> {
        Some(match record.action.as_str() {
            "payment.requires_action" => Self::RequiresAction,
            "payment.processing" => Self::Processing,
            "payment.authorized" => Self::RequiresCapture,
            "payment.captured" => Self::Succeeded,
            "payment.capture_failed" => Self::CaptureFailed,
            "payment.canceled" => Self::Canceled,
            "payment.expired" => Self::Expired,
            "payment.failed" if is_rerouted(record, audit) => Self::Updated,
            "payment.failed" => Self::of_failure(record, payment),
            "payment.disputed" => Self::of_dispute(record),
            "refund.pending" | "refund.undone" => Self::RefundPending,
            "refund.succeeded" | "refund.repeated" => Self::RefundSucceeded,
            "refund.failed" => Self::RefundFailed,
            "capture.elsewhere"
            | "capture.failed"
            | "operation.ended"
            | "refund.elsewhere"
            | "void.failed"
            | "try.disputed"
            | "try.given_back"
            | "try.give_back_refused"
            | "try.give_back_undone"
            | "try.late_money" => Self::Updated,
            _ => return None,
        })
    }

    /// As the dispute stands that has moved. Older records have only how all disputes of the payment stand as one.
    fn of_dispute(record: &AuditRow) -> Self {
        let moved = member(&record.data, "moved");
        let all = member(&record.data, "status");
        match moved.get("status").unwrap_or(&all).as_str() {
            Some("won") => Self::DisputeWon,
            Some("lost") => Self::DisputeLost,
            _ => Self::Disputed,
        }
    }

    /// A decline is a failure that the bank has decided. The payment's try says which one it was, also after another one was begun.
    fn of_failure(record: &AuditRow, payment: &PaymentRow) -> Self {
        let tries = member(&payment.shown, "tries");
        let attempt = member(&record.data, "attempt");
        let mut tries = tries.as_array().into_iter().flatten();
        let status = tries.find(|row| row.get("attempt") == Some(&attempt)).and_then(|row| row.get("status"));
        match status.and_then(Value::as_str).unwrap_or(&payment.status) {
            "declined" => Self::Declined,
            _ => Self::Failed,
        }
    }
}

/// Whether the payment goes on with its other provider, and was never shown as failed. Older records do not say so themselves: the next one does.
fn is_rerouted(record: &AuditRow, audit: &[AuditRow]) -> bool {
    let is_next = |other: &AuditRow| other.audit_id == record.audit_id.saturating_add(1);
    member(&record.data, "rerouted") == true
        || audit.iter().any(|other| is_next(other) && other.action == "payment.rerouted")
}

/// A member of an object that is written as text; `null` if there is none.
fn member(text: &str, name: &str) -> Value {
    let mut value: Value = json_text::from_str(text).unwrap_or_default();
    value.get_mut(name).map(Value::take).unwrap_or_default()
}

/// An event that an account is to be told of.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What has happened.
    pub event_type: EventType,
    record: &'a AuditRow,
    payment: &'a PaymentRow,
    snapshot: &'a Snapshot,
}

/// The events in a snapshot that were young enough to be told when it was staged, in ms since the epoch, in order. However late it comes, as a dead letter
/// that somebody puts back does, it may be the only one that has them.
pub fn events(snapshot: &Snapshot, staged_at_ms: u64) -> Vec<Event<'_>> {
    let Some(payment) = &snapshot.payment else { return Vec::new() };
    let young =
        snapshot.audit.iter().filter(|record| record.at_ms.saturating_add(TOLD_FOR_MS) > staged_at_ms);
    let event = |record| {
        EventType::of(record, payment, &snapshot.audit).map(|event_type| Event {
            event_type,
            record,
            payment,
            snapshot,
        })
    };
    young.filter_map(event).collect()
}

/// Whose endpoint is told, in what a delivery carries.
pub const ACCOUNT: &str = "account";
/// What is sent, in what a delivery carries.
pub const BODY: &str = "body";

impl Event<'_> {
    /// When it happened, in ms since the epoch.
    pub const fn at_ms(&self) -> u64 {
        self.record.at_ms
    }

    /// The job that tells an account's endpoint, as the queue takes it. Where the payment does not fit into a message, only its id and status are told.
    pub fn delivery(&self, account: &str) -> serde_json::Result<String> {
        let text = self.job(account, &self.payment.shown)?;
        if text.len() <= MESSAGE_MAX_BYTES {
            return Ok(text);
        }
        let PaymentRow { payment_id, status, .. } = self.payment;
        self.job(account, &json!({ "id": payment_id, "object": "payment", "status": status }).to_string())
    }

    fn job(&self, account: &str, data: &str) -> serde_json::Result<String> {
        let Self { record, payment, snapshot, .. } = self;
        serde_json::to_string(&Job {
            version: VERSION,
            job_id: format!("{}_event_{}", payment.payment_id, record.audit_id),
            kind: JobKind::DeliverWebhook,
            object: snapshot.object.clone(),
            // Once a later version was erased it is not sent.
            payload: json!({ ACCOUNT: account, "version": snapshot.version, BODY: self.body(data) }),
            staged_at_ms: record.at_ms,
            trace: None,
            apart: Some(Apart::default()),
            payment: JobPayment::of_snapshot(snapshot),
        })
    }

    /// What the endpoint is sent. `data` is JSON already.
    fn body(&self, data: &str) -> String {
        let Self { event_type, record, snapshot, .. } = self;
        let refund = snapshot.refunds.iter().find(|refund| refund.refund_id == record.subject);
        let refund = refund.map(|refund| format!(r#","refund":{}"#, refund_json(refund)));
        let dispute = Some(member(&record.data, "moved")).filter(Value::is_object);
        let dispute = dispute.map(|dispute| format!(r#","dispute":{dispute}"#));
        format!(
            r#"{{"type":"{}","timestamp":"{}","sequence":{}{}{},"data":{data}}}"#,
            event_type.as_str(),
            timestamp(record.at_ms),
            record.audit_id,
            refund.unwrap_or_default(),
            dispute.unwrap_or_default(),
        )
    }
}

/// A refund as the API shows it, without why it has failed.
fn refund_json(refund: &RefundRow) -> Value {
    json!({
        "id": refund.refund_id,
        "object": "refund",
        "payment": refund.payment_id,
        "status": refund.status,
        "amount": refund.amount_minor,
        "currency": refund.currency,
        "reason": refund.reason,
        "provider_refund": refund.provider_refund,
        "created_at": timestamp(refund.created_at_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use payments::payment::statuses::STATUSES;

    const NOW_MS: u64 = 1_790_000_000_000;

    fn record(audit_id: u64, action: &str, data: Value) -> AuditRow {
        AuditRow {
            audit_id,
            at_ms: NOW_MS - 1_000,
            actor: "account:ada".to_owned(),
            action: action.to_owned(),
            subject: "pay_1".to_owned(),
            data: data.to_string(),
        }
    }

    fn snapshot(audit: Vec<AuditRow>) -> Snapshot {
        let shown = json!({ "id": "pay_1", "object": "payment", "status": "succeeded", "tries": [
            { "attempt": 1, "status": "declined" }, { "attempt": 2, "status": "failed" }, { "attempt": 3, "status": "succeeded" },
        ] });
        Snapshot {
            object: "0a".to_owned(),
            version: 7,
            owner: "account:ada".to_owned(),
            payment: Some(PaymentRow {
                payment_id: "pay_1".to_owned(),
                status: "succeeded".to_owned(),
                amount_minor: 2500,
                captured_minor: 2500,
                refunded_minor: 0,
                refunded_elsewhere_minor: 0,
                currency: "usd".to_owned(),
                provider: "stripe".to_owned(),
                provider_payment: None,
                stripe_account: None,
                merchant_account: None,
                order_id: None,
                failure_code: None,
                attempt: 3,
                pending_operation: None,
                wake_at_ms: None,
                shown: shown.to_string(),
                created_at_ms: NOW_MS - 60_000,
            }),
            refunds: vec![RefundRow {
                refund_id: "re_1".to_owned(),
                payment_id: "pay_1".to_owned(),
                status: "succeeded".to_owned(),
                amount_minor: 700,
                currency: "usd".to_owned(),
                reason: "duplicate".to_owned(),
                provider: "stripe".to_owned(),
                provider_refund: Some("re_3".to_owned()),
                created_at_ms: NOW_MS - 2_000,
            }],
            audit,
            ..Snapshot::default()
        }
    }

    fn types(snapshot: &Snapshot) -> Vec<&'static str> {
        events(snapshot, NOW_MS).iter().map(|event| event.event_type.as_str()).collect()
    }

    #[test]
    fn each_change_of_a_status_is_the_event_of_that_status_and_the_rest_is_not_told() {
        let of = |action: &str, data: Value| types(&snapshot(vec![record(1, action, data)]));
        for (action, data, expected) in [
            ("payment.requires_action", json!({}), "payment.requires_action"),
            ("payment.processing", json!({}), "payment.processing"),
            ("payment.authorized", json!({}), "payment.requires_capture"),
            ("payment.captured", json!({}), "payment.succeeded"),
            ("payment.capture_failed", json!({}), "payment.capture_failed"),
            ("payment.canceled", json!({}), "payment.canceled"),
            ("payment.expired", json!({}), "payment.expired"),
            ("payment.failed", json!({ "attempt": 1 }), "payment.declined"),
            ("payment.failed", json!({ "attempt": 2 }), "payment.failed"),
            ("payment.failed", json!({ "attempt": 1, "rerouted": true }), "payment.updated"),
            ("payment.disputed", json!({ "status": "open" }), "payment.disputed"),
            ("payment.disputed", json!({ "status": "won" }), "payment.dispute_won"),
            ("payment.disputed", json!({ "status": "lost" }), "payment.dispute_lost"),
            (
                "payment.disputed",
                json!({ "status": "open", "moved": { "id": "du_2", "status": "won" } }),
                "payment.dispute_won",
            ),
            ("payment.disputed", json!({ "status": "lost", "moved": null }), "payment.dispute_lost"),
            ("refund.pending", json!({}), "refund.pending"),
            ("refund.undone", json!({}), "refund.pending"),
            ("refund.succeeded", json!({}), "refund.succeeded"),
            ("refund.repeated", json!({}), "refund.succeeded"),
            ("refund.failed", json!({}), "refund.failed"),
            ("capture.elsewhere", json!({}), "payment.updated"),
            ("capture.failed", json!({}), "payment.updated"),
            ("void.failed", json!({}), "payment.updated"),
            ("operation.ended", json!({}), "payment.updated"),
            ("try.given_back", json!({}), "payment.updated"),
            ("try.give_back_refused", json!({}), "payment.updated"),
            ("try.give_back_undone", json!({}), "payment.updated"),
            ("refund.elsewhere", json!({}), "payment.updated"),
            ("try.late_money", json!({}), "payment.updated"),
            ("try.disputed", json!({}), "payment.updated"),
        ] {
            assert_eq!(of(action, data), [expected], "{action}");
        }
        for action in [
            "payment.created",
            "payment.rerouted",
            "refund.requested",
            "capture.pending",
            "operation.refused",
            "webhook.alert",
            "later.one",
        ] {
            assert!(of(action, json!({})).is_empty(), "{action}");
        }
        let named: Vec<&str> = EventType::ALL.iter().map(|one| one.as_str()).collect();
        for status in STATUSES {
            assert!(named.contains(&format!("payment.{status}").as_str()), "{status}");
        }
    }

    #[test]
    fn an_older_record_of_what_goes_on_elsewhere_is_known_by_the_next_one() {
        let failed = |audit_id| record(audit_id, "payment.failed", json!({ "attempt": 1 }));
        let rerouted = |audit_id| record(audit_id, "payment.rerouted", json!({ "attempt": 2 }));
        assert_eq!(types(&snapshot(vec![failed(1), rerouted(2)])), ["payment.updated"]);
        assert_eq!(types(&snapshot(vec![failed(1), rerouted(3)])), ["payment.declined"], "of another try");
    }

    #[test]
    fn old_events_are_not_told_again_and_without_a_payment_there_are_none() {
        let mut young = record(1, "payment.captured", json!({}));
        young.at_ms = NOW_MS - TOLD_FOR_MS + 1;
        let old = AuditRow { at_ms: NOW_MS - TOLD_FOR_MS, audit_id: 2, ..young.clone() };
        let mut told = snapshot(vec![young, old]);
        let ids: Vec<u64> = events(&told, NOW_MS).iter().map(|event| event.record.audit_id).collect();
        assert_eq!(ids, [1]);
        told.payment = None;
        assert!(events(&told, NOW_MS).is_empty());
    }

    #[test]
    fn a_delivery_has_an_id_of_its_own_and_the_payment_as_the_api_shows_it() {
        let refunded = AuditRow { subject: "re_1".to_owned(), ..record(4, "refund.succeeded", json!({})) };
        let told = snapshot(vec![record(2, "payment.captured", json!({})), refunded]);
        let jobs: Vec<Job> = events(&told, NOW_MS)
            .iter()
            .flat_map(|event| Job::read(&event.delivery("ada").unwrap()).unwrap())
            .collect();
        let [captured, refunded] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((captured.job_id.as_str(), refunded.job_id.as_str()), ("pay_1_event_2", "pay_1_event_4"));
        let read = |job: &Job| {
            let (payload, text) = (&job.payload, job.payload[BODY].as_str().unwrap());
            assert_eq!((&payload[ACCOUNT], &payload["version"]), (&json!("ada"), &json!(7)));
            let body: Value = serde_json::from_str(text).unwrap();
            let shown = &told.payment.as_ref().unwrap().shown;
            assert!(text.ends_with(&format!(r#","data":{shown}}}"#)));
            body
        };
        let body = read(captured);
        assert_eq!(body["type"], "payment.succeeded");
        assert_eq!(body["timestamp"], timestamp(NOW_MS - 1_000));
        assert_eq!((&body["sequence"], body.get("refund")), (&json!(2), None));
        let body = read(refunded);
        assert_eq!((&body["type"], &body["sequence"]), (&json!("refund.succeeded"), &json!(4)));
        assert_eq!((&body["refund"]["id"], &body["refund"]["amount"]), (&json!("re_1"), &json!(700)));
    }

    #[test]
    fn a_dispute_that_moved_is_named_whatever_becomes_of_the_others() {
        let moved = json!({ "id": "du_2", "status": "won", "amount": 700, "funds_withdrawn": false });
        let data = json!({ "dispute": "du_1", "status": "open", "moved": moved });
        let told = snapshot(vec![record(2, "payment.disputed", data)]);
        let body = events(&told, NOW_MS)[0].body("{}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["type"], &body["dispute"]), (&json!("payment.dispute_won"), &moved));
    }

    #[test]
    fn what_does_not_fit_into_a_message_is_told_by_its_id() {
        let mut told = snapshot(vec![record(2, "payment.captured", json!({}))]);
        if let Some(payment) = &mut told.payment {
            payment.shown = json!({ "id": "pay_1", "metadata": { "a": "\"".repeat(40_000) } }).to_string();
        }
        let text = events(&told, NOW_MS)[0].delivery("ada").unwrap();
        assert!(text.len() < MESSAGE_MAX_BYTES);
        let job = Job::read(&text).unwrap().remove(0);
        let body: Value = serde_json::from_str(job.payload["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["data"], json!({ "id": "pay_1", "object": "payment", "status": "succeeded" }));
    }
}
