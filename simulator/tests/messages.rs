//! Emails and text messages without a Worker: the first have idempotency keys, the second have none.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod world;

use paid_once_simulator::faults;
use paid_once_simulator::resend::email::EMAIL;
use paid_once_simulator::sms::message::MESSAGE;
use serde_json::{Value, json};
use world::World;

const DAY_MS: i64 = 24 * 3_600_000;

fn receipt() -> Value {
    json!({ "from": "Paid Once <receipts@paid-once.test>", "to": "ada@shop.test", "subject": "Receipt", "text": "Paid." })
}

fn arm(world: &mut World, fault: &str) {
    faults::arm(&mut world.store, &json!({ "fault": fault })).unwrap();
}

#[test]
fn one_key_sends_one_email_for_a_day_and_another_after_it() {
    let mut world = World::default();
    let (_, first) = world.json("/resend/emails", &receipt(), Some("k"));
    world.now_ms += DAY_MS;
    let (replay, again) = world.json("/resend/emails", &receipt(), Some("k"));
    assert_eq!((&again, replay.replayed, world.count(EMAIL)), (&first, true, 1));
    world.now_ms += 1;
    let (anew, other) = world.json("/resend/emails", &receipt(), Some("k"));
    assert_eq!((anew.replayed, world.count(EMAIL)), (false, 2));
    assert_ne!(other["id"], first["id"]);
}

#[test]
fn without_a_key_each_call_sends() {
    let mut world = World::default();
    for sent in 1..=2 {
        assert_eq!(world.json("/resend/emails", &receipt(), None).0.status, 200);
        assert_eq!(world.count(EMAIL), sent);
    }
}

#[test]
fn the_order_of_fields_is_no_other_payload_and_another_text_is() {
    let mut world = World::default();
    let first = world.json("/resend/emails", &receipt(), Some("k")).1;
    let reordered: Value = receipt().as_object().unwrap().clone().into_iter().rev().collect();
    assert_eq!(world.json("/resend/emails", &reordered, Some("k")).1, first);
    let mut other = receipt();
    other["text"] = json!("Paid twice.");
    let (reply, body) = world.json("/resend/emails", &other, Some("k"));
    assert_eq!((reply.status, body["name"].as_str()), (409, Some("invalid_idempotent_request")));
    assert_eq!(world.count(EMAIL), 1);
}

#[test]
fn what_resend_refused_keeps_its_key_free() {
    let mut world = World::default();
    let mut broken = receipt();
    broken["to"] = json!("nobody");
    assert_eq!(world.json("/resend/emails", &broken, Some("k")).0.status, 422);
    assert_eq!(world.json("/resend/emails", &receipt(), Some("k")).0.status, 200);
}

#[test]
fn an_email_that_was_sent_before_its_500_is_not_sent_again() {
    let mut world = World::default();
    arm(&mut world, "error_after");
    assert_eq!(world.json("/resend/emails", &receipt(), Some("k")).0.status, 500);
    assert_eq!(world.json("/resend/emails", &receipt(), Some("k")).0.status, 200);
    assert_eq!(world.count(EMAIL), 1);
}

#[test]
fn every_text_message_is_sent_whatever_its_key_and_reference() {
    let mut world = World::default();
    let message = json!({ "to": "+14155550100", "body": "A ride.", "reference": "ride_1" });
    for sent in 1..=2 {
        let (reply, body) = world.json("/sms/messages", &message, Some("k"));
        assert_eq!((reply.status, body["status"].as_str()), (201, Some("queued")));
        assert_eq!(world.count(MESSAGE), sent);
    }
}

#[test]
fn the_provider_of_text_messages_says_whether_nothing_was_sent() {
    let mut world = World::default();
    let message = json!({ "to": "+14155550100", "body": "A ride." });
    arm(&mut world, "error_after");
    let (reply, body) = world.json("/sms/messages", &message, None);
    assert_eq!((reply.status, &body["safe_to_retry"], world.count(MESSAGE)), (503, &json!(false), 1));
    let (reply, body) = world.json("/sms/messages", &json!({ "to": "nobody", "body": "A ride." }), None);
    assert_eq!((reply.status, &body["safe_to_retry"], world.count(MESSAGE)), (422, &json!(true), 1));
}
