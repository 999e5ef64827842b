//! Adyen without a Worker: what is answered, what is kept, and what becomes of modifications.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use paid_once_simulator::control::ledger;
use paid_once_simulator::registry::PROVIDERS;
use serde_json::{Value, json};
use world::World;

const DAY_MS: i64 = 24 * 3_600_000;

fn pay(card: &str, manual: bool) -> Value {
    json!({
        "amount": { "value": 1000, "currency": "EUR" }, "reference": "pay_1", "merchantAccount": "Shop",
        "returnUrl": "https://shop.test/back",
        "paymentMethod": { "type": "scheme", "storedPaymentMethodId": card },
        "additionalData": { "manualCapture": manual.to_string() },
    })
}

fn modify(value: i64) -> Value {
    json!({ "amount": { "value": value, "currency": "EUR" }, "merchantAccount": "Shop", "reference": "m" })
}

#[test]
fn one_key_pays_once_for_seven_days_and_again_after_them() {
    let mut world = World::default();
    let body = pay("adyen_card_visa", false);
    let (first, _) = world.adyen("", &body, Some("k"));
    world.now_ms += 7 * DAY_MS;
    let (replay, _) = world.adyen("", &body, Some("k"));
    assert_eq!((replay.body == first.body, replay.replayed), (true, true));
    assert_eq!(world.totals(), (1, 1000, 0));
    world.now_ms += 1;
    world.adyen("", &body, Some("k"));
    assert_eq!(world.totals(), (2, 2000, 0));
}

#[test]
fn an_answer_has_the_last_four_digits_once_the_issuer_was_asked() {
    let mut world = World::default();
    let summary = |body: &Value| body["additionalData"]["cardSummary"].clone();
    let (_, paid) = world.adyen("", &pay("adyen_card_mastercard", false), Some("k1"));
    assert_eq!((summary(&paid), &paid["paymentMethod"]["brand"]), (json!("4444"), &json!("mc")));
    let (_, waits) = world.adyen("", &pay("adyen_card_authentication_finished", false), Some("k2"));
    assert_eq!(summary(&waits), Value::Null);
}

#[test]
fn an_error_says_nothing_about_the_money_and_a_part_is_only_a_part() {
    let mut world = World::default();
    let (_, body) = world.adyen("", &pay("adyen_card_error_but_held", false), Some("k1"));
    assert_eq!(body["resultCode"], "Error");
    assert_eq!(world.totals(), (0, 0, 0));
    world.now_ms += 60_000;
    assert_eq!(
        world.adyen("", &pay("adyen_card_error_but_held", false), Some("k1")).1["resultCode"],
        "Error"
    );
    world.adyen("", &pay("adyen_card_refused", false), Some("k2"));
    assert_eq!(world.totals(), (1, 1000, 0), "the issuer held it, and it was taken");
    let (_, body) = world.adyen("", &pay("adyen_card_half", false), Some("k3"));
    assert_eq!((&body["resultCode"], &body["amount"]["value"]), (&json!("PartiallyAuthorised"), &json!(500)));
    assert_eq!(world.totals(), (2, 1500, 0));
    let (_, body) = world.adyen("", &pay("adyen_card_authentication_finished", false), Some("k4"));
    assert_eq!(body["resultCode"], "AuthenticationFinished");
    assert_eq!(world.totals(), (2, 1500, 0));
}

#[test]
fn the_two_providers_share_no_key() {
    let mut world = World::default();
    let stripe =
        "amount=1000&currency=usd&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true";
    assert_eq!(world.post("/v1/payment_intents", stripe, Some("k")).0.status, 200);
    assert_eq!(world.adyen("", &pay("adyen_card_visa", false), Some("k")).0.status, 200);
    assert_eq!(world.totals().0, 2);
}

#[test]
fn what_is_refused_leaves_no_trace_and_the_key_stays_free() {
    let mut world = World::default();
    let (reply, body) = world.adyen("", &pay("adyen_card_nowhere", false), Some("k"));
    assert_eq!((reply.status, body["errorCode"].as_str()), (422, Some("803")));
    let mut nowhere = pay("adyen_card_visa", false);
    nowhere.as_object_mut().unwrap().remove("returnUrl");
    let (reply, body) = world.adyen("", &nowhere, Some("k"));
    assert_eq!((reply.status, body["errorCode"].as_str()), (422, Some("14_030")), "whoever pays");
    assert_eq!(world.adyen("", &pay("adyen_card_refused", false), Some("k")).1["resultCode"], "Refused");
    assert_eq!(world.totals(), (0, 0, 0));
}

#[test]
fn an_authorisation_is_captured_when_it_was_said_or_expires() {
    let mut world = World::default();
    let mut later = pay("adyen_card_visa", false);
    later["captureDelayHours"] = json!(2);
    world.adyen("", &later, None);
    let (_, kept) = world.adyen("", &pay("adyen_card_visa", true), None);
    assert_eq!(world.totals(), (2, 0, 0));
    world.now_ms += 2 * 3_600_000;
    world.adyen("", &pay("adyen_card_refused", true), None);
    assert_eq!(world.totals(), (2, 1000, 0));
    world.now_ms += 28 * DAY_MS;
    let psp = kept["pspReference"].as_str().unwrap();
    assert_eq!(world.adyen(&format!("/{psp}/captures"), &modify(1000), None).1["status"], "received");
    assert_eq!(world.totals(), (2, 1000, 0));
    let captures = ledger::show(PROVIDERS, &world.store, "").unwrap()["captures"].clone();
    assert_eq!((&captures[0]["status"], &captures[0]["charge"]), (&json!("failed"), &json!(psp)));
}

/// Many seeds, each a random story over one payment: every modification is received, and the ledger stays right.
#[test]
fn no_story_takes_more_than_was_authorised_or_gives_back_more_than_was_taken() {
    for seed in 0..300_u64 {
        let mut world = World::default();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (_, payment) = world.adyen("", &pay("adyen_card_visa", random(2) == 0), None);
        let psp = payment["pspReference"].as_str().unwrap().to_owned();
        for _ in 0..12 {
            let amount = i64::try_from(random(1200)).unwrap() + 1;
            let (reply, answer) = match random(4) {
                0 => world.adyen(&format!("/{psp}/captures"), &modify(amount), None),
                1 => world.adyen(&format!("/{psp}/cancels"), &json!({ "merchantAccount": "Shop" }), None),
                _ => world.adyen(&format!("/{psp}/refunds"), &modify(amount), None),
            };
            assert_eq!((reply.status, answer["status"].as_str()), (201, Some("received")));
            let (charges, captured, refunded) = world.totals();
            assert_eq!(charges, 1, "seed {seed}");
            assert!(captured <= 1000 && refunded <= captured, "seed {seed}: {captured} {refunded}");
            let ledger = ledger::show(PROVIDERS, &world.store, "provider=adyen").unwrap();
            let sum = |list: &str| -> i64 {
                let lines = ledger[list].as_array().unwrap().iter();
                lines
                    .filter(|line| line["status"] == "succeeded")
                    .map(|line| line["amount"].as_i64().unwrap())
                    .sum()
            };
            assert_eq!(sum("refunds"), refunded, "seed {seed}");
            let voided = ledger["charges"][0]["voided"] == true;
            assert_eq!(sum("cancels") > 0, voided, "seed {seed}");
            assert!(!voided || captured == 0, "seed {seed}");
        }
    }
}
