//! What Adyen tells of a payment after it was answered.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use paid_once_simulator::registry::PROVIDERS;
use paid_once_simulator::store::{Kind, Query, Store};
use serde_json::{Value, json};
use world::World;

const HOUR_MS: i64 = 3_600_000;

impl World {
    fn pays(&mut self, card: &str, manual: bool) -> Value {
        let body = json!({
            "amount": { "value": 1000, "currency": "EUR" }, "reference": "pay_1", "merchantAccount": "Shop",
            "returnUrl": "https://shop.test/back",
            "paymentMethod": { "type": "scheme", "storedPaymentMethodId": card },
            "additionalData": { "manualCapture": manual.to_string() },
        });
        self.adyen("", &body, None).1
    }

    fn reverses(&mut self, payment: &Value) -> Value {
        let path = format!("/{}/reversals", payment["pspReference"].as_str().unwrap());
        let (reply, answer) =
            self.adyen(&path, &json!({ "merchantAccount": "Shop", "reference": "undo" }), None);
        assert_eq!((reply.status, &answer["status"]), (201, &json!("received")), "{answer}");
        answer
    }

    /// What was told, oldest first.
    fn told(&mut self) -> Vec<Value> {
        let kind: Kind = PROVIDERS.named("adyen").unwrap().events().unwrap().kind();
        let query = Query { oldest_first: true, ..Query::all(kind) };
        self.store.list(&query).unwrap().iter().map(|row| serde_json::from_str(&row.body).unwrap()).collect()
    }

    fn last(&mut self) -> Value {
        self.told().pop().unwrap()
    }
}

#[test]
fn a_reversal_is_a_cancel_or_a_refund_of_all_and_says_which() {
    for (manual, action, totals) in [(true, "cancel", (1, 0, 0)), (false, "refund", (1, 1000, 1000))] {
        let mut world = World::default();
        let payment = world.pays("adyen_card_visa", manual);
        let reversal = world.reverses(&payment);
        let item = world.last();
        assert_eq!(
            (&item["eventCode"], &item["success"], &item["additionalData"]["modification.action"]),
            (&json!("CANCEL_OR_REFUND"), &json!("true"), &json!(action))
        );
        assert_eq!(
            (&item["pspReference"], &item["originalReference"], &item["merchantReference"]),
            (&reversal["pspReference"], &payment["pspReference"], &json!("undo"))
        );
        assert_eq!(world.totals(), totals);
        // There is nothing left to reverse.
        world.reverses(&payment);
        assert_eq!(world.last()["success"], "false");
        assert_eq!(world.totals(), totals);
    }
}

#[test]
fn an_authorisation_says_its_code_the_card_and_its_expiry() {
    let mut world = World::default();
    world.pays("adyen_card_mastercard", false);
    assert_eq!(world.last()["reason"], "123456:4444:12/2034");
    world.pays("adyen_card_not_enough_balance", false);
    assert_eq!(world.last()["reason"], "Not enough balance");
}

#[test]
fn a_shopper_who_does_not_come_back_in_twelve_hours_is_offered_nothing_any_more() {
    let mut world = World::default();
    let payment = world.pays("adyen_card_3ds_named", false);
    assert_eq!(payment["resultCode"], "RedirectShopper");
    let id = payment["pspReference"].as_str().expect("this one says it").to_owned();
    assert_eq!(world.pays("adyen_card_3ds", false)["pspReference"], Value::Null);
    world.now_ms += 12 * HOUR_MS - 1;
    world.pays("adyen_card_visa", false);
    assert_eq!(world.told().len(), 1);
    world.now_ms += 1;
    world.pays("adyen_card_visa", false);
    let closed: Vec<Value> =
        world.told().into_iter().filter(|item| item["eventCode"] == "OFFER_CLOSED").collect();
    assert_eq!(closed.len(), 2);
    assert_eq!((&closed[0]["pspReference"], &closed[0]["success"]), (&json!(id), &json!("true")));
    // The page decides nothing any more.
    let (status, _) = world.controlled(&format!("/_sim/3ds/{id}/accept"), &json!({}));
    assert_eq!((status, world.totals().0), (200, 2));
}

#[test]
fn a_dispute_goes_on_to_its_end() {
    let mut world = World::default();
    let payment = world.pays("adyen_card_visa", false);
    let path = format!("/_sim/adyen/payments/{}", payment["pspReference"].as_str().unwrap());
    let mut charged_back = Vec::new();
    for (action, code) in [
        ("request-for-information", "REQUEST_FOR_INFORMATION"),
        ("notification-of-chargeback", "NOTIFICATION_OF_CHARGEBACK"),
        ("chargeback", "CHARGEBACK"),
        ("dispute-defense-period-ended", "DISPUTE_DEFENSE_PERIOD_ENDED"),
        ("chargeback-reversed", "CHARGEBACK_REVERSED"),
        ("issuer-response-timeframe-expired", "ISSUER_RESPONSE_TIMEFRAME_EXPIRED"),
        ("scheme-arbitration", "SCHEME_ARBITRATION"),
        ("scheme-arbitration-lost", "SCHEME_ARBITRATION_LOST"),
        ("scheme-arbitration-won", "SCHEME_ARBITRATION_WON"),
    ] {
        let shown = world.control(&format!("{path}/{action}"), &json!({}));
        assert_eq!(world.last()["eventCode"], code);
        charged_back.push(shown["payment"]["amount_charged_back"].as_i64().unwrap());
    }
    assert_eq!(charged_back, [0, 0, 1000, 1000, 0, 0, 0, 1000, 0]);
}
