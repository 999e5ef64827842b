//! What others capture at Stripe in parts, and what is told of before it is known that anything was captured.

use super::tries::{late_at, listed, tried_twice};
use super::*;
use once::call::FrozenRequest;
use payments::payment::Failure;
use payments::payment::result::{CallKind, RemoteState};
use payments::payment::status_query::Beside;
use payments::payment::tries::Stage;
use payments::transitions::polling::Asker;
use serde_json::{Value, json};

use crate::support::{a_call, answer};

fn intent(status: &str, received: u64, capture_key: Option<&str>) -> Value {
    json!({ "id": "pi_1", "object": "payment_intent", "status": status, "amount": 2500, "amount_received": received,
            "currency": "usd", "metadata": { "capture_key": capture_key } })
}

fn result(kind: CallKind, request: FrozenRequest, intent: &Value) -> Option<ProviderResult> {
    let call = a_call(Provider::Stripe, kind, request);
    match Provider::Stripe.classify(&call, &answer(200, intent)) {
        Outcome::Definitive(reply) => Some(reply.result),
        _ => None,
    }
}

#[test]
fn a_capture_of_ours_beside_one_of_others_is_what_was_taken_by_both() {
    let path = "/v1/payment_intents/pi_1/capture".to_owned();
    let captured = |received: u64, key: Option<&str>| {
        let request = FrozenRequest::new(path.clone(), "amount_to_capture=1500".into());
        match result(CallKind::Capture, request, &intent("succeeded", received, key))? {
            ProviderResult::Captured { amount_minor } => Some(amount_minor),
            other => panic!("{other:?}"),
        }
    };
    let key = a_call(Provider::Stripe, CallKind::Capture, FrozenRequest::new(path.clone(), String::new()))
        .provider_key;
    let ours = Some(key.as_str());
    assert_eq!(captured(1500, ours), Some(1500));
    assert_eq!(captured(2000, ours), Some(2000));
    assert_eq!(captured(2500, ours), Some(2500));
    assert_eq!(captured(2000, None), None, "it does not say that it was ours");
    assert_eq!(captured(2000, Some("another")), None);
    assert_eq!((captured(1400, ours), captured(2501, ours)), (None, None), "less, and more than there was");
}

#[test]
fn a_void_after_a_part_was_captured_is_no_void() {
    let path = "/v1/payment_intents/pi_1/cancel".to_owned();
    let voided = |status: &str, received: u64| {
        result(
            CallKind::Void,
            FrozenRequest::new(path.clone(), String::new()),
            &intent(status, received, None),
        )
    };
    for status in ["succeeded", "canceled"] {
        let Some(ProviderResult::Rejected { found, .. }) = voided(status, 700) else { panic!("{status}") };
        assert_eq!(found, Some(RemoteState::Captured { amount_minor: 700 }));
    }
    assert_eq!(voided("canceled", 0), Some(ProviderResult::Voided));
}

#[test]
fn what_others_capture_after_it_was_given_back_holds_the_order_until_that_is_back_too() {
    let mut harness = late_at(Provider::Stripe, Stage::GivenBack);
    harness.object_state.resource.tries[0].late.as_mut().unwrap().amount_minor = PART;
    let ours = listed("re_1", PART, RefundState::Succeeded);
    harness.asks_of((PART, 0), std::slice::from_ref(&ours), None);
    assert_eq!(harness.late(), "given_back", "control: nothing more was taken");
    harness.asks_of((AMOUNT, 0), std::slice::from_ref(&ours), None);
    assert_eq!(harness.late(), "refused", "a person must");
    let rest = listed("re_2", AMOUNT - PART, RefundState::Succeeded);
    harness.asks_of((AMOUNT, 0), &[rest, ours], None);
    assert_eq!(harness.late(), "given_back");
}

#[test]
fn what_is_still_held_beside_what_others_have_captured_holds_the_order() {
    let (mut harness, _) = tried_twice(Provider::Stripe, false);
    harness.asks_of((PART, AMOUNT - PART), &[], None);
    assert_eq!(harness.late(), "refused");
    let back = listed("re_1", PART, RefundState::Succeeded);
    harness.asks_of((PART, AMOUNT - PART), std::slice::from_ref(&back), None);
    assert_eq!(harness.late(), "refused", "the rest can still be captured");
    harness.asks_of((PART, 0), std::slice::from_ref(&back), None);
    assert_eq!(harness.late(), "given_back");
}

/// Stripe tells in no order of what was taken and given back, and says nothing while it fails.
#[test]
fn a_refund_that_is_told_of_before_the_payment_is_known_to_be_paid_is_asked_for() {
    let mut harness = Harness::of(Provider::Stripe);
    let url = "https://bank.example/".to_owned();
    let at_the_bank = ProviderResult::RequiresAction { payment: "psp_pay".into(), url };
    harness.run("pay", pay(Provider::Stripe), Some(at_the_bank));
    let news =
        EventKind::Ask { refund: Some("re_1".into()), payment: Some("psp_pay".into()), provider_key: None };
    let event = Event { provider: Provider::Stripe, news, ..ask("evt_1", None) };
    assert_eq!(ingest::take(&mut harness.object_state, &event, &at(NOW_MS)).unwrap(), Ingested::Applied);
    let questions = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
    let [question @ StatusQuery::Payment { doubt: Some(_), .. }] = &questions[..] else {
        panic!("{questions:?}")
    };
    let paid = StatusReply::Payment(RemoteState::Captured { amount_minor: AMOUNT }, Beside::default());
    let next = answers::take(&mut harness.object_state, question, paid, &at(NOW_MS + 1)).unwrap();
    let Some(refunds @ StatusQuery::Refunds { .. }) = next else { panic!("{next:?}") };
    let listed = vec![listed("re_1", PART, RefundState::Succeeded)];
    let listed = StatusReply::Refunds { refunds: listed, has_more: false };
    answers::take(&mut harness.object_state, &refunds, listed, &at(NOW_MS + 1)).unwrap();
    assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().refunded_elsewhere_minor, PART);
    assert_eq!(polling::questions(&harness.object_state), []);
}

/// The bank of a reservation may refuse its capture: nothing is held any more.
#[test]
fn a_reservation_whose_capture_by_others_has_failed_holds_nothing() {
    let mut harness = Harness::of(Provider::Stripe);
    let Operation::Payment(request) = pay(Provider::Stripe) else { panic!("it is a payment") };
    let reserves = Operation::Payment(Box::new(PaymentRequest { capture: false, ..*request }));
    let reserved =
        ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card: None };
    harness.run("pay", reserves, Some(reserved));
    let event = Event {
        provider: Provider::Stripe,
        news: EventKind::Ask { refund: None, payment: Some("psp_pay".into()), provider_key: None },
        ..ask("evt_1", None)
    };
    ingest::take(&mut harness.object_state, &event, &at(NOW_MS)).unwrap();
    let questions = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
    let failed = RemoteState::Failed(Failure {
        declined: true,
        code: "card_declined".into(),
        decline_code: None,
        message: "No.".into(),
    });
    let reply = StatusReply::Payment(failed, Beside::default());
    answers::take(&mut harness.object_state, &questions[0], reply, &at(NOW_MS + 1)).unwrap();
    assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().status(), "declined");
}
