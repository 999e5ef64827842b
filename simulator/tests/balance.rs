//! What moves the account's balance, without a Worker.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use serde_json::Value;
use world::World;

const HOUR_MS: i64 = 3_600_000;

impl World {
    fn pay(&mut self, fields: &str) -> Value {
        let body = format!("payment_method_types[]=card&confirm=true&{fields}");
        let (reply, intent) = self.post("/v1/payment_intents", &body, None);
        assert_eq!(reply.status, 200, "{intent}");
        intent
    }

    fn movements(&mut self, query: &str) -> Vec<Value> {
        let page = self.get("/v1/balance_transactions", query);
        page["data"].as_array().expect("a list").clone()
    }
}

#[test]
fn money_that_is_taken_is_in_the_balance_with_its_fee() {
    let mut world = World::default();
    let intent = world.pay("amount=1000&currency=usd&payment_method=pm_card_visa&capture_method=automatic");
    let charge = intent["latest_charge"].as_str().unwrap().to_owned();
    let movements = world.movements("expand[]=data.source");
    assert_eq!(movements.len(), 1);
    let one = &movements[0];
    assert_eq!(
        (one["amount"].as_i64(), one["fee"].as_i64(), one["net"].as_i64()),
        (Some(1000), Some(59), Some(941))
    );
    assert_eq!((one["type"].as_str(), one["exchange_rate"].as_f64()), (Some("charge"), None));
    assert_eq!(one["source"]["payment_intent"], intent["id"], "expanded");
    assert_eq!(one["status"], "pending");
    let shown = world.get(&format!("/v1/charges/{charge}"), "");
    assert_eq!(shown["balance_transaction"], one["id"]);
    assert_eq!(world.movements(&format!("source={charge}")).len(), 1);
    assert_eq!(world.movements("type=refund").len(), 0);
    assert_eq!(world.get("/v1/balance", "")["pending"][0]["amount"], 941);
    world.now_ms += 49 * HOUR_MS;
    assert_eq!(world.movements("")[0]["status"], "available");
    assert_eq!(world.get("/v1/balance", "")["available"][0]["amount"], 941);
}

#[test]
fn an_asynchronous_capture_moves_it_a_moment_later() {
    let mut world = World::default();
    let intent = world.pay("amount=1000&currency=usd&payment_method=pm_card_visa");
    let charge = format!("/v1/charges/{}", intent["latest_charge"].as_str().unwrap());
    assert_eq!(world.get(&charge, "")["balance_transaction"], Value::Null);
    // Whatever else happens to the charge meanwhile.
    let refund = format!("payment_intent={}&amount=100", intent["id"].as_str().unwrap());
    assert_eq!(world.post("/v1/refunds", &refund, None).0.status, 200);
    assert_eq!(world.movements("type=charge").len(), 0);
    world.now_ms += 2_000;
    let movements = world.movements("type=charge");
    assert_eq!(world.get(&charge, "")["balance_transaction"], movements[0]["id"]);
    assert_eq!(world.get(&charge, "")["amount_refunded"], 100);
    assert_eq!(world.get("/v1/events", "type=charge.updated")["data"][0]["data"]["object"]["captured"], true);
}

#[test]
fn another_currency_is_exchanged_and_what_comes_back_is_a_movement() {
    let mut world = World::default();
    let intent =
        world.pay("amount=1000&currency=eur&payment_method=pm_card_refundFail&capture_method=automatic");
    let refund = format!("payment_intent={}&amount=500", intent["id"].as_str().unwrap());
    let (_, refund) = world.post("/v1/refunds", &refund, None);
    world.now_ms += HOUR_MS;
    let movements = world.movements("");
    let shown: Vec<_> = movements
        .iter()
        .map(|one| {
            (
                one["type"].as_str().unwrap(),
                one["amount"].as_i64().unwrap(),
                one["currency"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(shown, [("refund_failure", 540, "usd"), ("refund", -540, "usd"), ("charge", 1080, "usd")]);
    assert_eq!(movements[2]["exchange_rate"].as_f64(), Some(1.08));
    let refund = world.get(&format!("/v1/refunds/{}", refund["id"].as_str().unwrap()), "");
    assert_eq!(refund["failure_balance_transaction"], movements[0]["id"]);
    assert_eq!(refund["balance_transaction"], movements[1]["id"]);
}

#[test]
fn what_is_only_reserved_moves_nothing_until_it_is_captured() {
    let mut world = World::default();
    let intent = world.pay("amount=1000&currency=usd&payment_method=pm_card_visa&capture_method=manual");
    assert_eq!(world.movements("").len(), 0);
    let path = format!("/v1/payment_intents/{}/capture", intent["id"].as_str().unwrap());
    assert_eq!(world.post(&path, "amount_to_capture=400", None).0.status, 200);
    assert_eq!(world.movements("")[0]["amount"], 400);
}

#[test]
fn a_list_is_read_page_by_page() {
    let mut world = World::default();
    for _ in 0..5 {
        world.pay("amount=1000&currency=usd&payment_method=pm_card_visa&capture_method=automatic");
        world.now_ms += 1_000;
    }
    let first = world.get("/v1/balance_transactions", "limit=2");
    assert_eq!(first["has_more"], true);
    let last = first["data"][1]["id"].as_str().unwrap().to_owned();
    let rest = world.movements(&format!("limit=100&starting_after={last}"));
    assert_eq!(rest.len(), 3);
    assert_eq!(world.movements("created[gte]=2&created[lte]=3").len(), 2);
    assert_eq!(world.get("/v1/balance_transactions", "payout=po_1")["error"]["code"], "resource_missing");
    assert_eq!(world.movements("currency=eur").len(), 0);
}
