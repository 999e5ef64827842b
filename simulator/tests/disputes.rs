//! Disputes in every order in which Stripe tells of them.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use serde_json::{Value, json};
use world::World;

struct Disputed {
    world: World,
    path: String,
}

impl Disputed {
    fn new(card: &str) -> Self {
        let mut world = World::default();
        let pay = format!(
            "amount=1000&currency=usd&payment_method={card}&payment_method_types[]=card&confirm=true&capture_method=automatic"
        );
        let intent = world.post("/v1/payment_intents", &pay, None).1;
        let path = format!("/_sim/payments/{}/disputes", intent["id"].as_str().unwrap());
        Self { world, path }
    }

    /// What is played, and what is told of it.
    fn play(&mut self, action: &Value) -> (Value, Vec<String>) {
        let before = self.world.events().len();
        let dispute = self.world.control(&self.path, action);
        let told = self.world.events().split_off(before);
        (dispute, told.iter().map(|(name, _)| name.replace("charge.dispute.", "")).collect())
    }

    fn charged_back(&mut self) -> Value {
        let shown = paid_once_simulator::control::ledger::show(
            paid_once_simulator::registry::PROVIDERS,
            &self.world.store,
            "",
        );
        shown.unwrap()["charges"][0]["amount_charged_back"].clone()
    }
}

fn amounts(dispute: &Value) -> Vec<i64> {
    let moved = dispute["balance_transactions"].as_array().unwrap().iter();
    moved.map(|row| row["amount"].as_i64().unwrap()).collect()
}

#[test]
fn the_money_can_be_withdrawn_after_the_dispute_was_told() {
    let mut disputed = Disputed::new("pm_card_visa");
    let (dispute, told) = disputed.play(&json!({ "withdrawn_after_ms": 5_000 }));
    assert_eq!((told, amounts(&dispute)), (vec!["created".to_owned()], vec![]));
    assert_eq!(disputed.charged_back(), 0);
    let before = disputed.world.events().len();
    disputed.world.now_ms += 5_000;
    let told = disputed.world.events().split_off(before);
    assert_eq!(told.len(), 1);
    let (name, event) = &told[0];
    assert_eq!(name, "charge.dispute.funds_withdrawn");
    assert_eq!(amounts(&event["data"]["object"]), [-1000]);
    assert_eq!(event["request"]["id"], Value::Null);
    assert_eq!(disputed.charged_back(), 1000);
    // Whatever comes first.
    let mut disputed = Disputed::new("pm_card_visa");
    disputed.play(&json!({ "withdrawn_after_ms": 5_000 }));
    let (won, told) = disputed.play(&json!({ "status": "won" }));
    assert_eq!(told, ["funds_withdrawn", "updated", "closed", "funds_reinstated"]);
    assert_eq!(amounts(&won), [-1000, 1000]);
    disputed.world.now_ms += 5_000;
    assert_eq!(disputed.charged_back(), 0);
}

#[test]
fn one_that_is_lost_can_be_won_late() {
    for (closed_again, expected) in
        [(false, vec!["updated", "funds_reinstated"]), (true, vec!["updated", "closed", "funds_reinstated"])]
    {
        let mut disputed = Disputed::new("pm_card_visa");
        disputed.play(&json!({}));
        disputed.play(&json!({ "status": "lost", "reinstated": 400 }));
        let (won, told) = disputed.play(&json!({ "status": "won", "closed_again": closed_again }));
        assert_eq!(told, expected);
        assert_eq!(disputed.world.previous("charge.dispute.updated")["status"], "lost");
        assert_eq!((won["status"].as_str(), amounts(&won)), (Some("won"), vec![-1000, 400, 600]));
        assert_eq!(disputed.charged_back(), 0);
        // And for good.
        assert_eq!(
            disputed.world.controlled(&disputed.path, &json!({ "status": "lost", "dispute": won["id"] })).0,
            409
        );
    }
}

#[test]
fn one_can_be_lost_or_prevented_from_the_beginning() {
    for (action, expected, moved) in [
        (json!({ "status": "lost" }), vec!["created", "funds_withdrawn", "closed"], vec![-1000]),
        (json!({ "status": "prevented" }), vec!["created"], vec![]),
        (
            json!({ "status": "prevented", "case_type": "resolution" }),
            vec!["created", "funds_withdrawn"],
            vec![-1000],
        ),
    ] {
        let mut disputed = Disputed::new("pm_card_visa");
        let (dispute, told) = disputed.play(&action);
        assert_eq!(
            (told, amounts(&dispute)),
            (expected.iter().map(|name| (*name).to_owned()).collect(), moved)
        );
        assert_eq!(disputed.charged_back(), -amounts(&dispute).iter().sum::<i64>());
    }
    let (prevented, _) = Disputed::new("pm_card_visa").play(&json!({ "status": "prevented" }));
    assert_eq!(prevented["payment_method_details"]["card"]["case_type"], "block");
}

#[test]
fn several_are_open_at_once_and_one_is_about_more_than_the_charge() {
    let mut disputed = Disputed::new("pm_card_visa");
    let (first, _) = disputed.play(&json!({ "amount": 600 }));
    let (second, told) = disputed.play(&json!({ "amount": 1100, "another": true }));
    assert_ne!(first["id"], second["id"]);
    assert_eq!((told[0].as_str(), amounts(&second)), ("created", vec![-1100]));
    assert_eq!(disputed.charged_back(), 1700);
    let (won, _) = disputed.play(&json!({ "dispute": first["id"], "status": "won" }));
    assert_eq!((&won["id"], &won["status"]), (&first["id"], &json!("won")));
    assert_eq!(disputed.charged_back(), 1100);
    let (lost, _) = disputed.play(&json!({ "status": "lost" }));
    assert_eq!(lost["id"], second["id"]);
    assert_eq!(disputed.world.controlled(&disputed.path, &json!({ "dispute": "du_nowhere" })).0, 409);
}

#[test]
fn the_reason_and_the_code_of_the_network_are_said_or_fit_the_card() {
    for (card, action, expected) in [
        ("pm_card_visa", json!({}), json!(["fraudulent", "10.4"])),
        ("pm_card_mastercard", json!({}), json!(["fraudulent", "4837"])),
        ("pm_card_visa", json!({ "reason": "duplicate" }), json!(["duplicate", null])),
        (
            "pm_card_visa",
            json!({ "reason": "product_not_received", "network_reason_code": "13.1" }),
            json!(["product_not_received", "13.1"]),
        ),
    ] {
        let (dispute, _) = Disputed::new(card).play(&action);
        assert_eq!(json!([dispute["reason"], dispute["network_reason_code"]]), expected);
        let details = &dispute["payment_method_details"]["card"];
        assert_eq!(details["network_reason_code"], dispute["network_reason_code"]);
    }
}
