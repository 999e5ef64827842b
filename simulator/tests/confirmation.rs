//! What a confirmation does besides asking the bank: 3-D Secure on request, and `confirmation_method=manual`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use serde_json::{Value, json};
use world::World;

const PAY: &str =
    "amount=1000&currency=usd&payment_method_types[]=card&confirm=true&return_url=https://shop.test/back";

impl World {
    fn pay(&mut self, card: &str, more: &str) -> (u16, Value) {
        let body = format!("{PAY}&payment_method={card}{more}");
        let (reply, answer) = self.post("/v1/payment_intents", &body, None);
        (reply.status, answer)
    }

    fn page(&mut self, intent: &Value, button: &str) {
        let path = format!("/_sim/3ds/{}/{button}", intent["id"].as_str().unwrap());
        assert_eq!(self.controlled(&path, &json!({})).0, 303);
    }

    fn shown(&mut self, intent: &Value) -> Value {
        self.get(&format!("/v1/payment_intents/{}", intent["id"].as_str().unwrap()), "expand[]=latest_charge")
    }

    fn confirm(&mut self, intent: &Value) -> (u16, Value) {
        let path = format!("/v1/payment_intents/{}/confirm", intent["id"].as_str().unwrap());
        let (reply, answer) = self.post(&path, "return_url=https://shop.test/back", None);
        (reply.status, answer)
    }
}

#[test]
fn with_manual_confirmation_nothing_is_charged_until_the_server_confirms_again() {
    let mut world = World::default();
    let (_, intent) = world.pay("pm_card_threeDSecure2Required", "&confirmation_method=manual");
    assert_eq!(intent["status"], "requires_action");
    world.page(&intent, "accept");
    let back = world.shown(&intent);
    assert_eq!(
        (&back["status"], &back["next_action"], &back["latest_charge"]),
        (&json!("requires_confirmation"), &Value::Null, &Value::Null)
    );
    assert_eq!(world.totals().0, 0);
    let (status, paid) = world.confirm(&intent);
    assert_eq!((status, &paid["status"]), (200, &json!("succeeded")));
    let charge = &world.shown(&intent)["latest_charge"];
    assert_eq!(charge["payment_method_details"]["card"]["three_d_secure"]["result"], "authenticated");
    assert_eq!(world.totals().0, 1);
    // Who fails there must name a card again.
    let (_, other) = world.pay("pm_card_threeDSecure2Required", "&confirmation_method=manual");
    world.page(&other, "fail");
    assert_eq!(world.shown(&other)["status"], "requires_payment_method");
}

#[test]
fn after_an_automatic_confirmation_the_page_charges() {
    let mut world = World::default();
    let (_, intent) = world.pay("pm_card_threeDSecure2Required", "");
    world.page(&intent, "accept");
    let paid = world.shown(&intent);
    assert_eq!(paid["status"], "succeeded");
    let details = &paid["latest_charge"]["payment_method_details"]["card"];
    assert_eq!(details["three_d_secure"]["result"], "authenticated");
    let (_, plain) = world.pay("pm_card_visa", "");
    let details = world.shown(&plain)["latest_charge"]["payment_method_details"]["card"].clone();
    assert_eq!(details["three_d_secure"], Value::Null);
}

#[test]
fn authentication_is_asked_for_where_the_merchant_wants_it_and_the_card_has_it() {
    for (card, wish, expected) in [
        ("pm_card_threeDSecureOptional", "any", (200, "requires_action")),
        ("pm_card_threeDSecureOptional", "challenge", (200, "requires_action")),
        ("pm_card_threeDSecureOptional", "automatic", (200, "succeeded")),
        ("pm_card_threeDSecureOptional&off_session=true", "any", (200, "succeeded")),
        ("pm_card_threeDSecureOptionalProcessingError", "any", (402, "requires_payment_method")),
        ("pm_card_threeDSecureOptionalProcessingError", "automatic", (200, "succeeded")),
        // It has none, or its holder is not enrolled.
        ("pm_card_amex_threeDSecureNotSupported", "any", (200, "succeeded")),
        ("pm_card_visa", "any", (200, "succeeded")),
    ] {
        let mut world = World::default();
        let more = format!("&payment_method_options[card][request_three_d_secure]={wish}");
        let (status, answer) = world.pay(card, &more);
        let intent = answer.get("error").map_or(&answer, |error| &error["payment_intent"]);
        assert_eq!((status, intent["status"].as_str().unwrap()), expected, "{card} {wish}");
        if expected == (200, "requires_action") {
            world.page(intent, "accept");
            assert_eq!(world.shown(intent)["status"], "succeeded");
        }
    }
}

#[test]
fn a_card_has_no_descriptor_of_its_own_but_a_suffix() {
    let mut world = World::default();
    let refused =
        |(status, answer): (u16, Value)| (status, answer["error"]["param"].as_str().map(str::to_owned));
    let whole = (400, Some("statement_descriptor".to_owned()));
    assert_eq!(refused(world.pay("pm_card_visa", "&statement_descriptor=SHOP")), whole);
    assert_eq!(world.totals().0, 0);
    let (status, held) =
        world.pay("pm_card_visa", "&statement_descriptor_suffix=ORDER&capture_method=manual");
    assert_eq!((status, &held["statement_descriptor_suffix"]), (200, &json!("ORDER")));
    let path = format!("/v1/payment_intents/{}", held["id"].as_str().unwrap());
    for path in [path.clone(), format!("{path}/capture")] {
        let (reply, answer) = world.post(&path, "statement_descriptor=SHOP", None);
        assert_eq!(refused((reply.status, answer)), whole, "{path}");
    }
    // Whoever may still pay by something else may say one, and then not pay by a card.
    let (_, open) =
        world.post("/v1/payment_intents", "amount=1000&currency=usd&statement_descriptor=SHOP", None);
    assert_eq!(open["statement_descriptor"], "SHOP");
    let path = format!("/v1/payment_intents/{}/confirm", open["id"].as_str().unwrap());
    let (reply, answer) =
        world.post(&path, "payment_method=pm_card_visa&return_url=https://shop.test/back", None);
    assert_eq!(refused((reply.status, answer)), whole);
    assert_eq!(world.totals().0, 1, "only what is held");
}
