//! What has changed at Stripe, by its events: pages of them as plain data.
//! <https://docs.stripe.com/api/events/list>
//!
//! An event is kept for 30 days. It says what to look at, however old that is; what it carries may be older than what is true.

use serde::Deserialize;
use serde_json::Value;

use super::compare::{Break, Kind, LocalRecord};
use super::page::{PageEnd, entry_path};
use super::provider_ledger::{LedgerStatus, RemoteRecord, read_entry};
use once::call::FrozenRequest;
use payments::payment::{Dispute, DisputeStatus};
use payments::providers::Provider;
use payments::providers::stripe::dispute_status;

/// The events that can change a payment or its money. Stripe accepts at most 20 types.
const TYPES: [&str; 17] = [
    "payment_intent.amount_capturable_updated",
    "payment_intent.canceled",
    "payment_intent.payment_failed",
    "payment_intent.processing",
    "payment_intent.requires_action",
    "payment_intent.succeeded",
    "charge.dispute.closed",
    "charge.dispute.created",
    "charge.dispute.funds_reinstated",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.updated",
    "charge.expired",
    "charge.refund.updated",
    "charge.refunded",
    "charge.updated",
    "refund.failed",
    "refund.updated",
];

/// The list's query parameters besides the time range.
pub(super) fn query() -> Vec<(&'static str, &'static str)> {
    TYPES.iter().map(|kind| ("types[]", *kind)).collect()
}

/// Something that happened to a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The provider's id of the payment.
    pub payment: String,
    /// The payment as the event shows it, if it does.
    pub then: Option<RemoteRecord>,
    /// The dispute that it is about.
    pub dispute: Option<DisputeThen>,
    /// When it happened, in seconds since the epoch.
    pub at_s: u64,
}

/// A dispute as an event shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisputeThen {
    /// The provider's id of it.
    pub id: String,
    /// How it stood.
    pub status: DisputeStatus,
}

impl DisputeThen {
    /// The break, if our payment does not show this dispute in this status.
    pub fn unknown(&self, ours: &LocalRecord) -> Option<Break> {
        let is_known = ours.dispute.as_ref() == Some(&self.id)
            && ours.dispute_status.as_deref() == Some(self.status.as_str());
        if is_known {
            return None;
        }
        Some(Break {
            kind: Kind::Dispute,
            provider_payment: self.id.clone(),
            resource: Some(ours.resource.clone()),
            object: Some(ours.object.clone()),
            ours: Some(ours.describe()),
            theirs: Some(format!("the dispute {} is {}", self.id, self.status.as_str())),
        })
    }
}

/// Whether our payment shows these disputes, all that it has: several are shown as one.
pub fn are_shown(all: &[Dispute], ours: &LocalRecord) -> bool {
    Dispute::of_all(all).is_some_and(|shown| {
        ours.dispute.as_ref() == Some(&shown.id)
            && ours.dispute_status.as_deref() == Some(shown.status.as_str())
            && is_left_of(&shown, ours)
    })
}

/// Whether our payment shows of this dispute what is withdrawn, and nothing where it is won: then that came back.
pub(super) fn is_left_of(dispute: &Dispute, ours: &LocalRecord) -> bool {
    (ours.dispute_minor, ours.dispute_withdrawn)
        == (Some(dispute.amount_minor), Some(dispute.withdrawn.into()))
}

impl Break {
    /// The dispute's id, from the id of its break. Releases before there was a kind of its own wrote it as a status.
    pub fn dispute_of(break_id: &str) -> Option<&str> {
        let of = |kind: Kind| {
            let prefix = format!("{}:{}:", kind.as_str(), Provider::Stripe.as_str());
            break_id.strip_prefix(&prefix)
        };
        let is_dispute = |id: &&str| id.starts_with("du_") || id.starts_with("dp_");
        of(Kind::Dispute).or_else(|| of(Kind::Status).filter(is_dispute))
    }
}

/// A page of events, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The events about payments.
    pub changes: Vec<Change>,
    /// Where it ends.
    pub end: PageEnd,
}

/// Reads a page.
pub fn read_page(body: &str) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Event>,
        has_more: bool,
    }
    #[derive(Deserialize)]
    struct Event {
        id: String,
        created: Option<u64>,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        object: Value,
    }
    let list: List = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let last = list.data.last().map(|event| (event.id.as_str(), event.created));
    let end = PageEnd::new(last, list.has_more);
    let with_time =
        |event: Event| Some(Change { at_s: event.created.unwrap_or(0), ..change(event.data.object)? });
    let changes = list.data.into_iter().filter_map(with_time).collect();
    Ok(Page { changes, end })
}

/// Asks for a dispute. <https://docs.stripe.com/api/disputes/retrieve>
pub fn dispute_request(id: &str) -> FrozenRequest {
    FrozenRequest::new(entry_path("/v1/disputes", id), String::new())
}

/// Reads a dispute.
pub fn read_dispute(body: &str) -> Result<DisputeThen, String> {
    let object: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    dispute(&object).ok_or_else(|| "that is no dispute".to_owned())
}

fn change(mut object: Value) -> Option<Change> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if object.get("object").and_then(Value::as_str) != Some("payment_intent") {
        // An id, or the expanded object.
        let intent = object.get("payment_intent");
        let payment = text(intent).or_else(|| text(intent.and_then(|intent| intent.get("id"))))?;
        let then = charged(&payment, &object);
        return Some(Change { payment, then, dispute: dispute(&object), at_s: 0 });
    }
    // Events carry only its id, not the refunded amount.
    if let Some(fields) = object.as_object_mut() {
        fields.remove("latest_charge");
    }
    let then = read_entry(&object.to_string()).ok();
    Some(Change { payment: text(object.get("id"))?, then, dispute: None, at_s: 0 })
}

/// The payment as its charge shows it, once that has taken or reserved money. <https://docs.stripe.com/api/charges/object>
fn charged(payment: &str, object: &Value) -> Option<RemoteRecord> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let number = |name: &str| object.get(name).and_then(Value::as_u64);
    (text("object") == Some("charge") && text("status") == Some("succeeded")).then_some(())?;
    let is_captured = object.get("captured").and_then(Value::as_bool)?;
    // Captured in parts it is not `captured` until the last one, and each may be refunded before. What was reserved and is given up is refunded,
    // too, and nothing of it was taken. <https://docs.stripe.com/payments/multicapture>
    let has_taken = is_captured || number("amount_captured")? > 0;
    (has_taken || number("amount_refunded")? == 0).then_some(())?;
    Some(RemoteRecord {
        id: payment.to_owned(),
        status: if is_captured { LedgerStatus::Captured } else { LedgerStatus::Authorized },
        amount_minor: number("amount")?,
        taken_minor: number("amount_captured")?,
        refunded_minor: number("amount_refunded")?,
        currency: text("currency")?.to_owned(),
        created_at_ms: number("created")?.saturating_mul(1000),
        resource: object.get("metadata")?.get("resource").and_then(Value::as_str).map(str::to_owned),
    })
}

fn dispute(object: &Value) -> Option<DisputeThen> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    (text("object") == Some("dispute")).then_some(())?;
    Some(DisputeThen { id: text("id")?.to_owned(), status: dispute_status(text("status")?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_payment_and_says_how_it_stood() {
        let body = r#"{"has_more": true, "data": [
            {"id": "evt_4", "data": {"object": {"object": "refund", "id": "re_1", "payment_intent": "pi_2"}}},
            {"id": "evt_5", "data": {"object": {"object": "dispute", "id": "du_1", "status": "needs_response", "payment_intent": "pi_4"}}},
            {"id": "evt_3", "data": {"object": {"object": "charge", "id": "ch_1", "payment_intent": {"id": "pi_3"}}}},
            {"id": "evt_2", "data": {"object": {"object": "charge", "id": "ch_2", "payment_intent": null}}},
            {"id": "evt_1", "created": 9, "data": {"object": {"object": "payment_intent", "id": "pi_1", "status": "succeeded", "amount": 500,
             "amount_received": 500, "currency": "usd", "created": 7, "metadata": {}, "latest_charge": "ch_3"}}}]}"#;
        let page = read_page(body).unwrap();
        let ids: Vec<&str> = page.changes.iter().map(|change| change.payment.as_str()).collect();
        assert_eq!(ids, ["pi_2", "pi_4", "pi_3", "pi_1"]);
        assert_eq!(page.changes[2].then, None, "a charge that says too little");
        let open = DisputeThen { id: "du_1".to_owned(), status: DisputeStatus::Open };
        assert_eq!(page.changes[1].dispute, Some(open));
        assert_eq!(page.changes[3].then.as_ref().unwrap().status, LedgerStatus::Captured);
        let end = PageEnd { last: Some("evt_1".to_owned()), created_s: Some(9), has_more: true };
        assert_eq!(page.end, end);
        assert!(TYPES.len() <= 20);
    }

    #[test]
    fn several_disputes_are_shown_as_one_with_what_is_open_or_lost() {
        let dispute = |id: &str, amount_minor, status| Dispute {
            id: id.to_owned(),
            amount_minor,
            status,
            withdrawn: true,
            refundable: false,
            at_ms: None,
            began_as_inquiry: false,
            undefended_at_ms: None,
        };
        let ours = |id: &str, status: &str, minor| LocalRecord {
            dispute: Some(id.to_owned()),
            dispute_status: Some(status.to_owned()),
            dispute_minor: Some(minor),
            dispute_withdrawn: Some(1),
            ..LocalRecord::captured("stripe", "pi_1", 1_000, "usd")
        };
        let all = [dispute("du_2", 500, DisputeStatus::Open), dispute("du_1", 300, DisputeStatus::Lost)];
        assert!(are_shown(&all, &ours("du_2", "open", 800)));
        assert!(!are_shown(&all, &ours("du_2", "open", 500)), "the other one is not known");
        assert!(!are_shown(&all, &ours("du_1", "lost", 300)));
        assert!(!are_shown(&all, &ours("du_2", "won", 800)));
        assert!(!are_shown(&[], &ours("du_2", "open", 800)));
        let not_taken = LocalRecord { dispute_withdrawn: Some(0), ..ours("du_2", "open", 800) };
        assert!(!are_shown(&all, &not_taken));
    }

    #[test]
    fn the_break_of_a_dispute_is_known_also_as_earlier_releases_wrote_it() {
        assert_eq!(Break::dispute_of("dispute:stripe:du_1"), Some("du_1"));
        assert_eq!(Break::dispute_of("status:stripe:du_1"), Some("du_1"));
        assert_eq!(Break::dispute_of("status:stripe:dp_1"), Some("dp_1"));
        assert_eq!(Break::dispute_of("status:stripe:pi_1"), None);
        assert_eq!(Break::dispute_of("missing:stripe:du_1"), None);
    }

    #[test]
    fn a_charge_says_how_its_payment_stands_once_it_has_money() {
        let charge = |status: &str, captured: bool, refunded: u64| {
            let taken = if captured { 400 } else { 0 };
            let object = serde_json::json!({
                "object": "charge", "id": "ch_1", "payment_intent": "pi_1", "status": status, "captured": captured, "amount": 500,
                "amount_captured": taken, "amount_refunded": refunded, "currency": "usd", "created": 7,
                "metadata": { "resource": "pay_x" },
            });
            change(object).unwrap().then
        };
        let taken = charge("succeeded", true, 30).unwrap();
        assert_eq!(
            (taken.status, taken.taken_minor, taken.refunded_minor),
            (LedgerStatus::Captured, 400, 30)
        );
        assert_eq!((taken.id.as_str(), taken.resource.as_deref()), ("pi_1", Some("pay_x")));
        assert_eq!(charge("succeeded", false, 0).unwrap().status, LedgerStatus::Authorized);
        assert_eq!(charge("succeeded", false, 500), None);
        assert_eq!(charge("failed", false, 0), None);
    }

    #[test]
    fn a_charge_that_is_captured_in_parts_says_what_was_taken_and_refunded_before_the_last_one() {
        let object = serde_json::json!({
            "object": "charge", "id": "ch_1", "payment_intent": "pi_1", "status": "succeeded", "captured": false, "amount": 1000,
            "amount_captured": 700, "amount_refunded": 200, "currency": "usd", "created": 7, "metadata": {},
        });
        let then = change(object).unwrap().then.unwrap();
        assert_eq!(
            (then.status, then.taken_minor, then.refunded_minor),
            (LedgerStatus::Authorized, 700, 200)
        );
    }
}
