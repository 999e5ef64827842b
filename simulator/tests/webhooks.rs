//! Webhooks without a Worker: what is queued, when it is due, and what becomes of it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use paid_once_simulator::registry::PROVIDERS;
use paid_once_simulator::store::{Query, Store};
use paid_once_simulator::stripe::kinds::Kind;
use paid_once_simulator::webhooks::{self, DELIVERY, DeliveryStatus, Webhooks};
use serde_json::{Value, json};
use world::World;

const PAY: &str =
    "amount=1000&currency=usd&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true";
const DAY_MS: i64 = 24 * 3_600_000;

fn webhooks() -> Webhooks {
    Webhooks {
        providers: PROVIDERS,
        destination: Some("http://shop.test".to_owned()),
        on: true,
        secrets: [("STRIPE_WEBHOOK_SECRET", "whsec_1".to_owned()), ("ADYEN_HMAC_KEY", "00ff".to_owned())]
            .into(),
    }
}

impl World {
    fn pay(&mut self) {
        assert_eq!(self.post("/v1/payment_intents", PAY, None).0.status, 200);
    }

    fn due(&mut self) -> Vec<String> {
        webhooks().enqueue(&mut self.store, &mut self.ids).unwrap();
        webhooks().due(&self.store, self.now_ms).unwrap()
    }

    /// Sends all that is due, and gives the types in order.
    fn deliver(&mut self, answer: &Result<u16, String>) -> Vec<String> {
        let ids = self.due();
        let mut types = Vec::new();
        for id in ids {
            let outgoing = webhooks().prepare(&self.store, &id, 0).unwrap().unwrap().unwrap();
            let body: Value = serde_json::from_str(&outgoing.body).unwrap();
            types.push(body["type"].as_str().unwrap().to_owned());
            webhooks::record_attempt(&mut self.store, &id, self.now_ms, answer.clone()).unwrap();
        }
        types
    }

    fn newest_event(&self) -> String {
        self.store.list(&Query { limit: 1, ..Query::all(Kind::Event) }).unwrap()[0].id.clone()
    }

    fn mode(&mut self, mode: &Value) -> u16 {
        webhooks().set(&mut self.store, mode).unwrap().status
    }
}

#[test]
fn an_origin_gets_our_paths_and_an_address_of_ones_own_gets_its_own() {
    for (url, path, expected) in [
        ("http://shop.test", "/webhooks/stripe", "http://shop.test/webhooks/stripe"),
        ("http://shop.test:4242/", "/webhooks/adyen", "http://shop.test:4242/webhooks/adyen"),
        ("http://shop.test:4242/hook", "/webhooks/stripe", "http://shop.test:4242/hook"),
        ("http://shop.test/hook/?a=b", "/webhooks/stripe", "http://shop.test/hook/?a=b"),
        ("https://shop.test/{provider}/hook", "/webhooks/adyen", "https://shop.test/adyen/hook"),
    ] {
        assert_eq!(webhooks::address(url, path), expected);
    }
}

#[test]
fn each_event_is_sent_once_in_order() {
    let mut world = World::default();
    world.pay();
    let sent = world.deliver(&Ok(200));
    assert_eq!(sent, ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]);
    world.now_ms += DAY_MS;
    assert!(world.due().is_empty());
    world.pay();
    // And what has become of the first payment meanwhile.
    assert_eq!(
        world.deliver(&Ok(200)),
        [&["charge.updated"], &sent.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat()
    );
}

#[test]
fn what_is_not_taken_is_tried_for_three_days_ever_less_often() {
    let mut world = World::default();
    world.pay();
    let mut tries = Vec::new();
    while world.now_ms <= 4 * DAY_MS {
        if !world.deliver(&Err("refused".to_owned())).is_empty() {
            tries.push(world.now_ms);
        }
        world.now_ms += 5_000;
    }
    let waits: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    assert!(tries.len() > 8 && *tries.last().unwrap() <= 3 * DAY_MS, "{tries:?}");
    let shown = webhooks().show(&world.store, None).unwrap().body;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown["deliveries"].as_array().unwrap().iter().all(|line| line["standing"] == "given_up"));
}

#[test]
fn only_what_happens_while_they_are_on_is_sent() {
    let mut world = World::default();
    assert_eq!(world.mode(&json!({ "mode": "off" })), 200);
    world.pay();
    assert!(world.due().is_empty());
    assert_eq!(world.mode(&json!({ "mode": "doubled" })), 200);
    assert!(world.due().is_empty());
    world.pay();
    assert_eq!(world.due().len(), 6);
    let event = world.newest_event();
    let id = webhooks().resend(&mut world.store, &mut world.ids, &event, 0).unwrap().unwrap();
    let noted = webhooks::record_attempt(&mut world.store, &id, 0, Ok(500)).unwrap().unwrap();
    assert_eq!((noted.status, noted.event_id), (DeliveryStatus::GivenUp, event));
}

#[test]
fn a_delay_is_counted_from_the_event() {
    let mut world = World::default();
    assert_eq!(world.mode(&json!({ "mode": "late", "delay_ms": 1_000 })), 200);
    world.pay();
    world.now_ms += 999;
    assert!(world.due().is_empty());
    world.now_ms += 1;
    assert_eq!(world.due().len(), 3);
}

#[test]
fn without_a_destination_there_is_nothing_to_turn_on() {
    let mut world = World::default();
    let nowhere = Webhooks { destination: None, ..webhooks() };
    world.pay();
    nowhere.enqueue(&mut world.store, &mut world.ids).unwrap();
    assert_eq!(world.count(DELIVERY), 0);
    assert_eq!(nowhere.set(&mut world.store, &json!({ "mode": "on" })).unwrap().status, 400);
}
