//! The account without a Worker: the same three steps that the object takes, over the store in memory.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use paid_once_simulator::http::Request;
use paid_once_simulator::registry::PROVIDERS;
use paid_once_simulator::store::Store;
use paid_once_simulator::stripe::auth::DEFAULT_ACCOUNT;
use world::World;

const PAY: &str =
    "amount=1000&currency=usd&payment_method=pm_card_visa&payment_method_types[]=card&confirm=true";

#[test]
fn one_key_charges_once_for_a_day_and_again_after_it() {
    let mut world = World::default();
    let (first, _) = world.post("/v1/payment_intents", PAY, Some("k"));
    world.now_ms += 24 * 3_600_000;
    let (replay, _) = world.post("/v1/payment_intents", PAY, Some("k"));
    assert_eq!(replay.body, first.body);
    assert!(replay.replayed);
    assert_eq!(world.totals().0, 1);
    world.now_ms += 1;
    let (anew, _) = world.post("/v1/payment_intents", PAY, Some("k"));
    assert!(!anew.replayed);
    assert_eq!(world.totals().0, 2);
}

#[test]
fn a_running_key_is_in_use_until_its_claim_is_dropped() {
    let mut world = World::default();
    let request = |world: &mut World| world.post("/v1/payment_intents", PAY, Some("k"));
    let probe = Request {
        method: "POST".to_owned(),
        path: "/v1/payment_intents".to_owned(),
        body: PAY.as_bytes().to_vec(),
        headers: [("authorization", "Bearer sk_test_1"), ("idempotency-key", "k")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        ..Request::default()
    };
    let stripe = PROVIDERS.named("stripe").unwrap();
    let admitted = stripe.admit(&mut world.store, &world.in_flight, 0, &probe, "req_1").unwrap();
    let claim = world.in_flight.claim(admitted.key.as_ref().unwrap());
    let (reply, body) = request(&mut world);
    assert_eq!((reply.status, body["error"]["code"].as_str()), (409, Some("idempotency_key_in_use")));
    drop(claim);
    assert_eq!(request(&mut world).0.status, 200);
}

#[test]
fn what_is_refused_leaves_no_trace_and_what_ran_is_kept() {
    let mut world = World::default();
    let broken = format!("{PAY}&return_url=nonsense");
    assert_eq!(world.post("/v1/payment_intents", &broken, Some("k")).0.status, 400);
    assert!(world.store.stored_key("stripe", DEFAULT_ACCOUNT, "k").unwrap().is_none());
    assert_eq!(world.totals(), (0, 0, 0));
    let (declined, body) =
        world.post("/v1/payment_intents", &PAY.replace("visa", "chargeDeclined"), Some("k"));
    assert_eq!(
        (declined.status, body["error"]["payment_intent"]["status"].as_str()),
        (402, Some("requires_payment_method"))
    );
    assert_eq!(world.store.stored_key("stripe", DEFAULT_ACCOUNT, "k").unwrap().unwrap().status, 402);
}

#[test]
fn an_expansion_that_is_refused_undoes_the_charge() {
    let mut world = World::default();
    let (reply, _) = world.post("/v1/payment_intents", &format!("{PAY}&expand[]=nonsense"), Some("k"));
    assert_eq!(reply.status, 400);
    assert_eq!(world.totals().0, 0);
}

/// Many seeds, each a random story over one payment: what was given back never exceeds what was taken, and what was taken never what was asked.
#[test]
fn no_story_gives_back_more_than_was_taken() {
    for seed in 0..300_u64 {
        let mut world = World::default();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let manual = if random(2) == 0 { "&capture_method=manual" } else { "" };
        let id = world.post("/v1/payment_intents", &format!("{PAY}{manual}"), None).1["id"]
            .as_str()
            .unwrap()
            .to_owned();
        for _ in 0..12 {
            let amount = random(1200);
            match random(5) {
                0 => world.post(
                    &format!("/v1/payment_intents/{id}/capture"),
                    &format!("amount_to_capture={amount}"),
                    None,
                ),
                1 => world.post(&format!("/v1/payment_intents/{id}/cancel"), "", None),
                2 => world.post(
                    &format!("/v1/payment_intents/{id}/confirm"),
                    "payment_method=pm_card_visa",
                    None,
                ),
                _ => world.post("/v1/refunds", &format!("payment_intent={id}&amount={amount}"), None),
            };
            let (charges, captured, refunded) = world.totals();
            assert_eq!(charges, 1, "seed {seed}");
            assert!(captured <= 1000 && refunded <= captured, "seed {seed}: {captured} {refunded}");
        }
    }
}
