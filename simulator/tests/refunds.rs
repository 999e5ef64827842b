//! What becomes of a refund after it was made, and which events tell of it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use serde_json::{Value, json};
use world::World;

const MINUTE_MS: i64 = 60_000;

impl World {
    /// A refund of a payment by this card, with the events that its making told.
    fn refunded(&mut self, card: &str) -> (Value, Vec<String>) {
        let pay = format!(
            "amount=1000&currency=usd&payment_method={card}&payment_method_types[]=card&confirm=true"
        );
        let intent = self.post("/v1/payment_intents", &format!("{pay}&capture_method=automatic"), None).1;
        let before = self.events().len();
        let body = format!("payment_intent={}", intent["id"].as_str().unwrap());
        let (reply, refund) = self.post("/v1/refunds", &body, None);
        assert_eq!(reply.status, 200, "{refund}");
        (refund, self.types_after(before))
    }

    fn types_after(&mut self, count: usize) -> Vec<String> {
        self.events().split_off(count).into_iter().map(|(name, _)| name).collect()
    }

    fn refund(&mut self, refund: &Value) -> Value {
        self.get(&format!("/v1/refunds/{}", refund["id"].as_str().unwrap()), "")
    }

    fn befalls(&mut self, refund: &Value, action: &str, body: &Value) -> Value {
        let path = format!("/_sim/refunds/{}/{action}", refund["id"].as_str().unwrap());
        self.control(&path, body)
    }

    fn movements(&mut self, refund: &Value) -> Vec<(i64, String, String)> {
        let page =
            self.get("/v1/balance_transactions", &format!("source={}", refund["id"].as_str().unwrap()));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = page["data"].as_array().unwrap().iter().rev();
        rows.map(|row| {
            (row["amount"].as_i64().unwrap(), text(&row["type"]), text(&row["reporting_category"]))
        })
        .collect()
    }
}

#[test]
fn a_refund_that_has_succeeded_is_updated_when_its_reference_is_there() {
    let mut world = World::default();
    let (refund, told) = world.refunded("pm_card_visa");
    assert_eq!(told, ["refund.created", "charge.refunded"]);
    assert_eq!(refund["status"], "succeeded");
    assert_eq!(
        refund["destination_details"]["card"],
        json!({ "reference_status": "pending", "reference_type": "acquirer_reference_number", "type": "refund" })
    );
    let before = world.events().len();
    world.now_ms += MINUTE_MS;
    let later = world.refund(&refund);
    assert_eq!(world.types_after(before), ["refund.updated", "charge.refund.updated"]);
    assert_eq!(later["destination_details"]["card"]["reference_status"], "available");
    assert_eq!(later["destination_details"]["card"]["reference"].as_str().unwrap().len(), 23);
    assert_eq!(
        world.previous("refund.updated"),
        json!({ "destination_details": { "card": { "reference": null, "reference_status": "pending" } } })
    );
    world.now_ms += 60 * MINUTE_MS;
    assert_eq!(world.refund(&refund), later);
}

#[test]
fn a_pending_refund_says_why_and_succeeds_fails_or_is_canceled() {
    let mut world = World::default();
    let (refund, _) = world.refunded("pm_card_pendingRefund");
    assert_eq!((&refund["status"], &refund["pending_reason"]), (&json!("pending"), &json!("processing")));
    assert_eq!(refund["destination_details"]["card"], json!({ "type": "pending" }));
    world.now_ms += MINUTE_MS;
    let sent = world.refund(&refund);
    assert_eq!((&sent["status"], &sent["pending_reason"]), (&json!("succeeded"), &Value::Null));
    assert_eq!(sent["destination_details"]["card"]["type"], "refund");

    let (declined, _) = world.refunded("pm_card_pendingRefund");
    let before = world.events().len();
    let failed = world.befalls(&declined, "fail", &json!({ "reason": "declined" }));
    assert_eq!((&failed["status"], &failed["failure_reason"]), (&json!("failed"), &json!("declined")));
    assert_eq!(world.types_after(before), ["refund.failed", "refund.updated", "charge.refund.updated"]);
    world.now_ms += MINUTE_MS;
    assert_eq!(world.refund(&declined)["status"], "failed");

    let (unwanted, _) = world.refunded("pm_card_pendingRefund");
    let canceled = world.befalls(&unwanted, "cancel", &json!({}));
    assert_eq!(
        (&canceled["status"], &canceled["failure_reason"]),
        (&json!("canceled"), &json!("merchant_request"))
    );
    assert_eq!(world.totals().2, 1000, "only the first one gave money back");
}

#[test]
fn a_refund_that_the_balance_does_not_cover_moves_nothing_until_it_does() {
    let mut world = World::default();
    let (refund, _) = world.refunded("pm_card_unfundedRefund");
    assert_eq!(
        (&refund["status"], &refund["pending_reason"]),
        (&json!("pending"), &json!("insufficient_funds"))
    );
    assert_eq!(refund["balance_transaction"], Value::Null);
    world.now_ms += 60 * 24 * 60 * MINUTE_MS;
    assert_eq!(world.refund(&refund)["status"], "pending");
    assert_eq!(world.befalls(&refund, "succeed", &json!({}))["status"], "succeeded");
    assert_eq!(world.movements(&refund), [(-1000, "refund".to_owned(), "refund".to_owned())]);

    let (other, _) = world.refunded("pm_card_unfundedRefund");
    let failed = world.befalls(&other, "fail", &json!({ "reason": "insufficient_funds" }));
    assert_eq!((&failed["status"], failed.get("failure_balance_transaction")), (&json!("failed"), None));
    assert!(world.movements(&other).is_empty());
}

#[test]
fn money_that_is_back_is_a_movement_of_either_type() {
    let mut world = World::default();
    for movement in ["refund_failure", "adjustment"] {
        let (refund, _) = world.refunded("pm_card_visa");
        world.befalls(
            &refund,
            "fail",
            &json!({ "reason": "expired_or_canceled_card", "movement": movement }),
        );
        let expected = [
            (-1000, "refund".to_owned(), "refund".to_owned()),
            (1000, movement.to_owned(), "refund_failure".to_owned()),
        ];
        assert_eq!(world.movements(&refund), expected);
        let charge = format!("/v1/charges/{}", refund["charge"].as_str().unwrap());
        let charge = world.get(&charge, "");
        assert_eq!((&charge["amount_refunded"], &charge["refunded"]), (&json!(0), &json!(false)));
    }
}

#[test]
fn a_dispute_fails_what_is_pending_of_its_charge() {
    let mut world = World::default();
    let (refund, _) = world.refunded("pm_card_unfundedRefund");
    let path = format!("/_sim/payments/{}/disputes", refund["payment_intent"].as_str().unwrap());
    world.control(&path, &json!({}));
    let failed = world.refund(&refund);
    assert_eq!(
        (&failed["status"], &failed["failure_reason"]),
        (&json!("failed"), &json!("charge_for_pending_refund_disputed"))
    );
}
