//! Captures in several parts, as Stripe has them.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use serde_json::{Value, json};
use world::World;

const HOLD: &str = "amount=1000&currency=usd&payment_method_types[]=card&confirm=true&capture_method=manual";
const SEVERAL: &str = "&payment_method_options[card][request_multicapture]=if_available";
const DAY_MS: i64 = 24 * 3_600_000;

impl World {
    fn hold(&mut self, card: &str, more: &str) -> String {
        let body = format!("{HOLD}&payment_method={card}{more}");
        let (reply, intent) = self.post("/v1/payment_intents", &body, None);
        assert_eq!((reply.status, &intent["status"]), (200, &json!("requires_capture")), "{intent}");
        format!("/v1/payment_intents/{}", intent["id"].as_str().unwrap())
    }

    fn capture(&mut self, path: &str, body: &str) -> (u16, Value) {
        let (reply, answer) = self.post(&format!("{path}/capture"), body, None);
        (reply.status, answer)
    }

    fn refund(&mut self, path: &str, amount: i64) -> u16 {
        let id = path.strip_prefix("/v1/payment_intents/").unwrap();
        self.post("/v1/refunds", &format!("payment_intent={id}&amount={amount}"), None).0.status
    }

    fn charge(&mut self, path: &str) -> Value {
        self.get(path, "expand[]=latest_charge")["latest_charge"].clone()
    }

    fn types_after(&mut self, count: usize) -> Vec<String> {
        self.events().split_off(count).into_iter().map(|(name, _)| name).collect()
    }
}

fn stands(intent: &Value) -> (&str, i64, i64) {
    let number = |name: &str| intent[name].as_i64().unwrap();
    (intent["status"].as_str().unwrap(), number("amount_received"), number("amount_capturable"))
}

fn taken(charge: &Value) -> (i64, bool, i64, bool) {
    let number = |name: &str| charge[name].as_i64().unwrap();
    let is = |name: &str| charge[name].as_bool().unwrap();
    (number("amount_captured"), is("captured"), number("amount_refunded"), is("refunded"))
}

#[test]
fn a_charge_is_captured_only_with_the_last_part() {
    let mut world = World::default();
    let path = world.hold("pm_card_visa", SEVERAL);
    let held = world.charge(&path);
    assert_eq!(held["payment_method_details"]["card"]["multicapture"]["status"], "available");
    let before = world.events().len();
    let (_, part) = world.capture(&path, "amount_to_capture=700&final_capture=false");
    assert_eq!(stands(&part), ("requires_capture", 700, 300));
    let first = world.charge(&path);
    assert_eq!(taken(&first), (700, false, 0, false));
    assert_eq!(world.types_after(before), ["charge.updated", "payment_intent.amount_capturable_updated"]);
    assert_eq!(
        world.previous("charge.updated"),
        json!({ "amount_captured": 0, "balance_transaction": null })
    );
    assert_eq!(
        world.previous("payment_intent.amount_capturable_updated"),
        json!({ "amount_capturable": 1000, "amount_received": 0 })
    );
    let before = world.events().len();
    let (_, whole) = world.capture(&path, "amount_to_capture=200");
    assert_eq!(stands(&whole), ("succeeded", 900, 0));
    let last = world.charge(&path);
    assert_eq!(taken(&last), (900, true, 0, false));
    assert_ne!(last["balance_transaction"], first["balance_transaction"]);
    assert_eq!(world.previous("charge.captured"), json!({ "captured": false }));
    assert_eq!(
        world.types_after(before),
        [
            "charge.updated",
            "charge.captured",
            "payment_intent.amount_capturable_updated",
            "payment_intent.succeeded"
        ]
    );
    let moved = world.get("/v1/balance_transactions", "type=charge");
    let amounts: Vec<_> =
        moved["data"].as_array().unwrap().iter().map(|row| row["amount"].as_i64()).collect();
    assert_eq!(amounts, [Some(200), Some(700)]);
}

#[test]
fn what_is_left_is_given_free_by_a_last_capture_of_nothing_a_cancellation_or_time() {
    for end in ["nothing", "cancel", "time"] {
        let mut world = World::default();
        let path = world.hold("pm_card_visa", SEVERAL);
        let (status, refused) = world.capture(&path, "amount_to_capture=0");
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("parameter_invalid_integer")));
        world.capture(&path, "amount_to_capture=700&final_capture=false");
        let (status, _) = world.capture(&path, "amount_to_capture=0&final_capture=false");
        assert_eq!(status, 400);
        let before = world.events().len();
        match end {
            "nothing" => drop(world.capture(&path, "amount_to_capture=0&final_capture=true")),
            "cancel" => drop(world.post(&format!("{path}/cancel"), "", None)),
            _ => world.now_ms += 7 * DAY_MS,
        }
        let intent = world.get(&path, "");
        assert_eq!(stands(&intent), ("succeeded", 700, 0), "{end}");
        assert_eq!(taken(&world.charge(&path)), (700, true, 0, false), "{end}");
        let told = world.types_after(before);
        assert_eq!(
            told,
            ["charge.captured", "payment_intent.amount_capturable_updated", "payment_intent.succeeded"],
            "{end}"
        );
        assert_eq!(world.totals(), (1, 700, 0));
    }
}

#[test]
fn several_captures_must_be_asked_for_with_a_card_that_has_them() {
    let mut world = World::default();
    for (card, more) in [("pm_card_visa", ""), ("pm_card_credit_disableEnterpriseCardFeatures", SEVERAL)] {
        let path = world.hold(card, more);
        let status = world.charge(&path)["payment_method_details"]["card"]["multicapture"]["status"].clone();
        assert_eq!(status, "unavailable", "{card}");
        let (status, refused) = world.capture(&path, "amount_to_capture=700&final_capture=false");
        assert_eq!((status, &refused["error"]["param"]), (400, &json!("final_capture")), "{card}");
        assert_eq!(stands(&world.get(&path, "")), ("requires_capture", 0, 1000));
        let (_, once) = world.capture(&path, "amount_to_capture=700");
        assert_eq!(stands(&once), ("succeeded", 700, 0));
    }
}

#[test]
fn the_fiftieth_capture_must_be_the_last() {
    let mut world = World::default();
    let path = world.hold("pm_card_visa", SEVERAL);
    for _ in 0..49 {
        assert_eq!(world.capture(&path, "amount_to_capture=10&final_capture=false").0, 200);
    }
    assert_eq!(world.capture(&path, "amount_to_capture=10&final_capture=false").0, 400);
    assert_eq!(stands(&world.capture(&path, "amount_to_capture=10").1), ("succeeded", 500, 0));
}

#[test]
fn what_was_taken_so_far_can_be_refunded_and_is_all_only_with_the_last_capture() {
    let mut world = World::default();
    let path = world.hold("pm_card_visa", SEVERAL);
    assert_eq!(world.refund(&path, 1), 400);
    world.capture(&path, "amount_to_capture=700&final_capture=false");
    assert_eq!(world.refund(&path, 701), 400);
    assert_eq!(world.refund(&path, 700), 200);
    assert_eq!(taken(&world.charge(&path)), (700, false, 700, false));
    assert_eq!(stands(&world.get(&path, "")), ("requires_capture", 700, 300));
    world.capture(&path, "amount_to_capture=200&final_capture=false");
    assert_eq!(world.refund(&path, 200), 200);
    world.capture(&path, "amount_to_capture=0&final_capture=true");
    assert_eq!(taken(&world.charge(&path)), (900, true, 900, true));
}

#[test]
fn a_hold_of_cards_alone_is_a_hold() {
    let mut world = World::default();
    let body = HOLD.replace("capture_method=manual", "payment_method_options[card][capture_method]=manual");
    let (_, intent) = world.post("/v1/payment_intents", &format!("{body}&payment_method=pm_card_visa"), None);
    assert_eq!(
        (&intent["capture_method"], stands(&intent)),
        (&json!("automatic_async"), ("requires_capture", 0, 1000))
    );
    world.now_ms += 8 * DAY_MS;
    let path = format!("/v1/payment_intents/{}", intent["id"].as_str().unwrap());
    assert_eq!(world.get(&path, "")["status"], "canceled");
}

#[test]
fn a_capture_can_be_decided_later() {
    let mut world = World::default();
    let path = world.hold("pm_card_captureProcessing", "");
    let before = world.events().len();
    let (status, intent) = world.capture(&path, "amount_to_capture=700");
    assert_eq!((status, stands(&intent)), (200, ("processing", 0, 0)));
    let charge = world.charge(&path);
    assert_eq!((&charge["status"], taken(&charge)), (&json!("pending"), (0, false, 0, false)));
    assert_eq!(
        world.types_after(before),
        ["charge.updated", "payment_intent.amount_capturable_updated", "payment_intent.processing"]
    );
    // No card's network gives back what it has taken over.
    let (reply, refused) = world.post(&format!("{path}/cancel"), "", None);
    assert_eq!((reply.status, &refused["error"]["code"]), (400, &json!("payment_intent_unexpected_state")));
    assert_eq!(world.capture(&path, "").0, 400);
    assert_eq!(world.refund(&path, 1), 400);
    let before = world.events().len();
    world.now_ms += 60_000;
    assert_eq!(stands(&world.get(&path, "")), ("succeeded", 700, 0));
    assert_eq!(taken(&world.charge(&path)), (700, true, 0, false));
    assert_eq!(world.types_after(before), ["charge.updated", "charge.captured", "payment_intent.succeeded"]);
    assert_eq!(world.refund(&path, 700), 200);
    assert_eq!(world.totals(), (1, 700, 700));
}

#[test]
fn a_capture_that_is_refused_later_has_nothing_left_to_capture() {
    let mut world = World::default();
    let path = world.hold("pm_card_captureProcessingDeclined", "");
    assert_eq!(stands(&world.capture(&path, "").1), ("processing", 0, 0));
    let before = world.events().len();
    world.now_ms += 60_000;
    let intent = world.get(&path, "");
    assert_eq!(stands(&intent), ("requires_payment_method", 0, 0));
    assert_eq!(
        (&intent["payment_method"], &intent["last_payment_error"]["decline_code"]),
        (&Value::Null, &json!("insufficient_funds"))
    );
    let charge = world.charge(&path);
    assert_eq!((&charge["status"], taken(&charge)), (&json!("failed"), (0, false, 0, false)));
    assert_eq!(world.types_after(before), ["charge.failed", "payment_intent.payment_failed"]);
    assert_eq!(world.capture(&path, "").0, 400);
    assert_eq!(world.totals(), (0, 0, 0));
    // A bank debit can still be stopped.
    let body = HOLD.replace("&capture_method=manual", "");
    let debit =
        world.post("/v1/payment_intents", &format!("{body}&payment_method=pm_card_processing"), None).1;
    let path = format!("/v1/payment_intents/{}/cancel", debit["id"].as_str().unwrap());
    assert_eq!(world.post(&path, "", None).1["status"], "canceled");
}
