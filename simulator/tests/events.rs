//! What Stripe's events say besides their object: what was otherwise before, and who asked for it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use paid_once_simulator::stripe::kinds::Kind;
use serde_json::{Value, json};
use world::World;

const PAY: &str =
    "amount=1000&currency=usd&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true";
const HOUR_MS: i64 = 3_600_000;

impl World {
    fn pay(&mut self, more: &str) -> Value {
        let (reply, intent) = self.post("/v1/payment_intents", &format!("{PAY}{more}"), Some(more));
        assert_eq!(reply.status, 200, "{intent}");
        intent
    }

    fn path_of(&mut self, more: &str) -> String {
        format!("/v1/payment_intents/{}", self.pay(more)["id"].as_str().unwrap())
    }
}

#[test]
fn a_change_tells_what_was_otherwise_before_and_a_beginning_does_not() {
    let mut world = World::default();
    let reserved = world.path_of("&capture_method=manual");
    assert_eq!(world.previous("payment_intent.created"), Value::Null);
    assert_eq!(world.previous("payment_intent.amount_capturable_updated")["amount_capturable"], 0);
    world.post(&format!("{reserved}/capture"), "amount_to_capture=700", None);
    assert_eq!(world.previous("charge.captured"), json!({ "captured": false }));
    assert_eq!(
        world.previous("charge.updated"),
        json!({ "amount_captured": 0, "balance_transaction": null })
    );
    let id = reserved.strip_prefix("/v1/payment_intents/").unwrap();
    world.post("/v1/refunds", &format!("payment_intent={id}&amount=200&metadata[a]=1"), None);
    assert_eq!(world.previous("charge.refunded"), json!({ "amount_refunded": 0 }));
    assert_eq!(world.previous("refund.created"), Value::Null);
    let refund = world.get("/v1/refunds", "")["data"][0]["id"].as_str().unwrap().to_owned();
    world.post(&format!("/v1/refunds/{refund}"), "metadata[a]=2&metadata[b]=3", None);
    assert_eq!(world.previous("refund.updated"), json!({ "metadata": { "a": "1", "b": null } }));
    assert_eq!(world.previous("charge.refund.updated"), world.previous("refund.updated"));
}

#[test]
fn what_time_brings_about_names_no_request_though_one_found_it_due() {
    let mut world = World::default();
    world.pay("&payment_method=pm_card_processing");
    world.pay("&capture_method=manual");
    let asked = world.events().len();
    assert!(world.events().iter().all(|(_, event)| event["request"]["idempotency_key"].is_string()));
    world.now_ms += 8 * 24 * HOUR_MS;
    // Another's request, of another version, finds them.
    let headers = [("authorization", "Bearer sk_test_1"), ("stripe-version", "2025-02-24.acacia")];
    let body = "amount=1000&currency=usd".to_owned();
    assert_eq!(world.answer("/v1/payment_intents", body, &headers, Some("other")).0.status, 200);
    let mut later = world.events().split_off(asked);
    let (created, own) = later.pop().unwrap();
    assert_eq!(
        (created.as_str(), &own["request"]["idempotency_key"]),
        ("payment_intent.created", &json!("other"))
    );
    assert!(own["request"]["id"].is_string());
    let types: Vec<&str> = later.iter().map(|(name, _)| name.as_str()).collect();
    assert!(types.contains(&"payment_intent.succeeded") && types.contains(&"charge.expired"), "{types:?}");
    for (name, event) in &later {
        assert_eq!(event["request"], json!({ "id": null, "idempotency_key": null }), "{name}");
    }
    // The endpoint's version, whatever a request spoke.
    for (name, event) in world.events() {
        assert_eq!(event["api_version"], "2026-08-26.dahlia", "{name}");
    }
    // What lapsed is given free by the account's version, too: an old one would have made a refund of it.
    assert_eq!(world.count(Kind::Refund), 0);
}

#[test]
fn a_version_that_there_is_not_is_refused_before_anything_begins() {
    let mut world = World::default();
    for (version, status) in [
        ("2026-10-28.endive", 200),
        ("2024-06-20", 200),
        ("2026-08-26", 400),
        ("2026-08-27.dahlia", 400),
        ("latest", 400),
    ] {
        let headers = [("authorization", "Bearer sk_test_1"), ("stripe-version", version)];
        let body = "amount=1000&currency=usd".to_owned();
        let (reply, answer) = world.answer("/v1/payment_intents", body, &headers, Some(version));
        assert_eq!(reply.status, status, "{version}");
        if status == 400 {
            assert_eq!(answer["error"]["message"], format!("Invalid Stripe API version: {version}"));
            assert_eq!(answer["error"]["type"], "invalid_request_error");
        }
    }
    assert_eq!(world.count(Kind::PaymentIntent), 2);
}
