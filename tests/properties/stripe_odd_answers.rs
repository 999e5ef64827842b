//! What Stripe's answers do not mean: odd entries of others, refusals that are none, objects of other calls.

use once::call::{FrozenRequest, RefusalScope};
use payments::engine::{LookUp, Outcome, ProviderCall};
use payments::payment::result::{CallKind, ProviderResult};
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::payment::{DisputeStatus, RefundState};
use payments::providers::stripe::read_page;
use payments::providers::{HttpAnswer, Provider};
use serde_json::json;

use crate::stripe::{Meaning, a_call, answer, classify, meaning};
use crate::support;

/// What somebody in between says about credentials says nothing of what Stripe has done.
#[test]
fn only_stripe_itself_refuses_credentials() {
    for status in [401, 403] {
        let refused =
            answer(status, json!({ "error": { "type": "invalid_request_error", "message": "no" } }));
        assert!(matches!(classify(&refused), Outcome::NotExecuted { scope: RefusalScope::Send, .. }));
        let blocked = HttpAnswer { body: "<html>blocked</html>".into(), ..refused };
        assert!(matches!(classify(&blocked), Outcome::Unknown { answer_is_stored: false, .. }));
    }
}

/// A refusal beside money that was taken is none.
#[test]
fn a_refusal_that_shows_a_payment_is_looked_up() {
    for status in ["succeeded", "requires_capture", "processing"] {
        for (code, kind) in [(400, "invalid_request_error"), (402, "card_error")] {
            let intent = json!({ "id": "pi_1", "status": status, "amount": 2000, "currency": "usd" });
            let refused = answer(code, json!({ "error": { "type": kind, "payment_intent": intent } }));
            let Outcome::Unconfirmed(made) = classify(&refused) else { panic!("{status}: {code}") };
            assert_eq!((made.provider_id.as_deref(), made.needs_review), (Some("pi_1"), false));
        }
    }
}

/// What answers one call with the object of another one is not believed. Who says nothing of the key is.
#[test]
fn another_ones_object_answers_nothing() {
    let intent = |id: &str, key: Option<&str>| {
        json!({ "id": id, "status": "succeeded", "amount": 2000, "amount_received": 2000, "currency": "usd",
                "metadata": key.map(|key| json!({ "idempotency_key": key })) })
    };
    assert_eq!(meaning(&answer(200, intent("pi_1", None))), Meaning::Charged);
    assert_eq!(meaning(&answer(200, intent("pi_1", Some("pay_1_auth")))), Meaning::Charged);
    let is_not_believed = |outcome: Outcome| match outcome {
        Outcome::Unconfirmed(made) => assert_eq!((made.provider_id, made.needs_review), (None, true)),
        other => panic!("{other:?}"),
    };
    is_not_believed(classify(&answer(200, intent("pi_1", Some("pay_2_auth")))));
    let request =
        FrozenRequest::new("/v1/payment_intents/pi_1/capture".into(), "amount_to_capture=2000".into());
    let capture = support::a_call(Provider::Stripe, CallKind::Capture, request);
    let captured = |id| Provider::Stripe.classify(&capture, &answer(200, intent(id, None)));
    assert!(matches!(captured("pi_1"), Outcome::Definitive(_)));
    is_not_believed(captured("pi_9"));
    let request = FrozenRequest::new("/v1/refunds".into(), "payment_intent=pi_1&amount=2000".into());
    let refund = support::a_call(Provider::Stripe, CallKind::Refund, request);
    let refunded = |of: Option<&str>| {
        let body = json!({ "id": "re_1", "status": "succeeded", "amount": 2000, "payment_intent": of });
        Provider::Stripe.classify(&refund, &answer(200, body))
    };
    assert!(matches!(refunded(Some("pi_1")), Outcome::Definitive(_)));
    assert!(matches!(refunded(None), Outcome::Definitive(_)), "in Stripe's types it can be null");
    is_not_believed(refunded(Some("pi_9")));
}

/// An id becomes a part of later addresses: what cannot stand there is never kept as one.
#[test]
fn an_id_that_leads_elsewhere_is_not_believed() {
    for id in ["", "pi_1/../../refunds", "pi_1?expand=x", "pi 1", "pi_1#", "pi_é"] {
        for status in ["succeeded", "processing", "canceled", "requires_payment_method"] {
            let intent = json!({ "id": id, "status": status, "amount": 2000, "amount_received": 2000, "currency": "usd" });
            let Outcome::Unconfirmed(made) = classify(&answer(200, intent)) else { panic!("{id}: {status}") };
            assert_eq!((made.provider_id, made.needs_review), (None, true), "{id}: {status}");
        }
        let intent = json!({ "id": id, "status": "requires_payment_method" });
        let declined = answer(402, json!({ "error": { "type": "card_error", "payment_intent": intent } }));
        let Outcome::Definitive(reply) = classify(&declined) else { panic!("{id}") };
        assert!(matches!(reply.result, ProviderResult::Declined { payment: None, .. }), "{id}");
        let request = FrozenRequest::new("/v1/refunds".into(), "amount=2000&payment_intent=pi_1".into());
        let refund = support::a_call(Provider::Stripe, CallKind::Refund, request);
        let body = json!({ "id": id, "status": "succeeded", "amount": 2000 });
        assert!(
            matches!(Provider::Stripe.classify(&refund, &answer(200, body)), Outcome::Unconfirmed(_)),
            "{id}"
        );
    }
}

/// In Stripe's types metadata, a refund's status and the address of a page can be `null`: of somebody else's entry in a list, too.
#[test]
fn odd_entries_of_others_hide_nothing() {
    let odd = json!({ "id": "pi_0", "status": "requires_action", "metadata": null,
        "next_action": { "type": "redirect_to_url", "redirect_to_url": { "url": null } } });
    let ours = json!({ "id": "pi_1", "status": "succeeded", "amount": 2000, "amount_received": 2000, "currency": "usd",
        "metadata": { "idempotency_key": "pay_1_auth" } });
    let page = answer(200, json!({ "data": [odd, ours], "has_more": false }));
    assert!(matches!(read_page(&a_call(), &page), LookUp::Found(_)));

    let refunds = json!([{ "id": "re_0", "status": null, "amount": 5, "metadata": null },
        { "id": "re_1", "status": "succeeded", "amount": 100, "metadata": { "idempotency_key": "key" } }]);
    let page = answer(200, json!({ "data": refunds, "has_more": false }));
    let asked = FrozenRequest::new("/v1/refunds".into(), "payment_intent=pi_1&amount=100".into());
    let refund = ProviderCall {
        provider_key: "key".into(),
        ..support::a_call(Provider::Stripe, CallKind::Refund, asked)
    };
    assert!(matches!(read_page(&refund, &page), LookUp::Found(_)));
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let question = StatusQuery::Refunds { provider, account: None, id, doubt: None, read: Vec::new() };
    let StatusReply::Refunds { refunds, .. } = provider.read_status_reply(&question, &page) else { panic!() };
    assert_eq!(
        refunds.iter().map(|refund| &refund.state).collect::<Vec<_>>(),
        [&RefundState::Pending, &RefundState::Succeeded]
    );
}

/// Without an amount that is one nobody knows how much was taken.
#[test]
fn a_payment_without_its_amount_says_nothing() {
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let question = StatusQuery::Payment { provider, account: None, id, doubt: None };
    for amount in [json!(null), json!(4_999_999_999_999_u64)] {
        let told = answer(200, json!({ "id": "pi_1", "status": "succeeded", "amount_received": amount }));
        assert_eq!(provider.read_status_reply(&question, &told), StatusReply::NoAnswer);
    }
}

/// A refund beside a chargeback gives the money back twice, whatever Stripe says of the charge.
#[test]
fn only_an_inquiry_leaves_a_payment_refundable() {
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let question = StatusQuery::Disputes { provider, account: None, id, doubt: None };
    for (status, moved, refundable) in [
        ("warning_needs_response", json!([]), true),
        ("warning_needs_response", json!([{ "amount": -2000 }]), false),
        ("needs_response", json!([{ "amount": -2000 }]), false),
        ("under_review", json!([]), false),
        ("lost", json!([{ "amount": -2000 }]), false),
    ] {
        let dispute = json!({ "id": "du_1", "amount": 2000, "status": status, "is_charge_refundable": true, "balance_transactions": moved });
        let told = answer(200, json!({ "data": [dispute], "has_more": false }));
        let StatusReply::Disputes(disputes) = provider.read_status_reply(&question, &told) else { panic!() };
        assert_eq!(disputes[0].refundable, refundable, "{status}");
    }
}

/// What Stripe keeps under a key says how the first send ended: it may have begun, and is looked for.
#[test]
fn a_stored_refusal_of_the_credentials_is_looked_up() {
    let refusal =
        json!({ "error": { "type": "invalid_request_error", "message": "This key may not read charges." } });
    for status in [401, 403] {
        let fresh = answer(status, refusal.clone());
        assert!(matches!(classify(&fresh), Outcome::NotExecuted { .. }), "{status}");
        let stored = HttpAnswer { replayed: true, ..fresh };
        assert!(matches!(classify(&stored), Outcome::Unknown { answer_is_stored: true, .. }), "{status}");
    }
}

/// It is taken, or not, later: a capture that fails after all leaves nothing that is held.
#[test]
fn a_capture_that_is_being_processed_is_waited_for() {
    let request =
        FrozenRequest::new("/v1/payment_intents/pi_1/capture".into(), "amount_to_capture=2000".into());
    let mut capture = support::a_call(Provider::Stripe, CallKind::Capture, request);
    let now = |status: &str| {
        let error = json!({ "code": "card_declined", "message": "Your card was declined." });
        answer(
            200,
            json!({ "id": "pi_1", "status": status, "amount": 2000, "amount_received": if status == "succeeded" { 2000 } else { 0 },
            "currency": "usd", "last_payment_error": error }),
        )
    };
    let Outcome::Unconfirmed(made) = Provider::Stripe.classify(&capture, &now("processing")) else {
        panic!()
    };
    assert!(!made.needs_review, "nobody has to look at it");
    for is_executed in [false, true] {
        capture.evidence.is_executed = is_executed;
        let looked = read_page(&capture, &now("processing"));
        let waits = match is_executed {
            true => matches!(looked, LookUp::Unconfirmed(_)),
            // Somebody else may be capturing it: that is no answer to this call.
            false => matches!(looked, LookUp::Inconclusive { from_the_start: false, .. }),
        };
        assert!(waits, "{is_executed}");
        assert!(matches!(read_page(&capture, &now("succeeded")), LookUp::Found(_)), "{is_executed}");
    }
    for status in ["requires_payment_method", "canceled"] {
        let LookUp::Found(reply) = read_page(&capture, &now(status)) else { panic!("{status}") };
        assert!(matches!(reply.result, ProviderResult::Rejected { found: Some(_), .. }), "{status}");
    }
    capture.evidence.is_executed = false;
    assert!(matches!(read_page(&capture, &now("requires_payment_method")), LookUp::Tentative(_)));
}

/// A dispute that was prevented by giving the money back is money that is gone.
#[test]
fn a_prevented_dispute_is_lost_where_the_money_went() {
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let question = StatusQuery::Disputes { provider, account: None, id, doubt: None };
    for (moved, status) in [(-2000, DisputeStatus::Lost), (0, DisputeStatus::Won)] {
        let dispute = json!({ "id": "du_1", "amount": 2000, "status": "prevented", "balance_transactions": [{ "amount": moved }] });
        let told = answer(200, json!({ "data": [dispute], "has_more": false }));
        let StatusReply::Disputes(disputes) = provider.read_status_reply(&question, &told) else { panic!() };
        assert_eq!((disputes[0].status, disputes[0].withdrawn), (status, moved < 0));
    }
}

/// Stripe's support calls what came back in part "partially won", and its status is `lost`. What moves is in the currency of settlement.
#[test]
fn of_a_dispute_is_withdrawn_what_did_not_come_back() {
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let question = StatusQuery::Disputes { provider, account: None, id, doubt: None };
    let stands = |status: &str, moved: &[i64]| {
        let moved: Vec<_> = moved.iter().map(|amount| json!({ "amount": amount })).collect();
        let dispute =
            json!({ "id": "du_1", "amount": 10_000, "status": status, "balance_transactions": moved });
        let told = answer(200, json!({ "data": [dispute], "has_more": false }));
        let StatusReply::Disputes(disputes) = provider.read_status_reply(&question, &told) else { panic!() };
        (disputes[0].withdrawn, disputes[0].amount_minor)
    };
    assert_eq!(stands("needs_response", &[-10_000]), (true, 10_000));
    assert_eq!(stands("lost", &[-10_000, 4_000]), (true, 6_000));
    assert_eq!(stands("lost", &[4_320, -10_800]), (true, 6_000), "exchanged at 1.08");
    assert_eq!(stands("lost", &[-3, 1]), (true, 6_667));
    assert_eq!(stands("won", &[-10_800, 10_500]), (false, 10_000), "at a lower rate");
    assert_eq!(stands("won", &[-10_500, 10_800]), (false, 10_000));
    assert_eq!(stands("warning_needs_response", &[]), (false, 10_000));
}
