//! What Stripe's answers do not mean: odd entries of others, refusals that are none, objects of other calls.

use once::call::{FrozenRequest, RefusalScope};
use once::id::ObjectId;
use payments::engine::{LookUp, Outcome, ProviderCall};
use payments::payment::id::RefundId;
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

/// A refund of the Dashboard has no metadata, which Stripe says as `null`, and its payment may be shown as a whole.
#[test]
fn a_refund_that_an_operator_names_is_read_without_metadata_too() {
    let request = FrozenRequest::new("/v1/refunds".into(), "payment_intent=pi_1&amount=500".into());
    let refund = support::a_call(Provider::Stripe, CallKind::Refund, request);
    for payment in [json!("pi_1"), json!({ "id": "pi_1", "object": "payment_intent" })] {
        let shown = json!({ "id": "re_1", "object": "refund", "status": "succeeded", "amount": 500, "payment_intent": payment,
                            "metadata": null });
        let named = Provider::Stripe.read_named(&refund, "re_1", Some(&answer(200, shown)), true).unwrap();
        assert_eq!(named.result, ProviderResult::Refunded { refund: "re_1".into(), settled: true });
    }
    let other = json!({ "id": "re_1", "status": "succeeded", "amount": 500, "payment_intent": "pi_2", "metadata": null });
    assert!(Provider::Stripe.read_named(&refund, "re_1", Some(&answer(200, other)), true).is_err());
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

/// What is asked about one payment is not answered by another one's object, whoever mixes them up.
#[test]
fn another_ones_object_answers_no_question() {
    let provider = Provider::Stripe;
    let id = || "pi_1".to_owned();
    let asked = StatusQuery::Payment { provider, account: None, id: id(), doubt: None };
    let intent = |id: &str| {
        let intent = json!({ "id": id, "status": "canceled", "amount": 2000, "currency": "usd" });
        provider.read_status_reply(&asked, &answer(200, intent))
    };
    assert_eq!(intent("pi_9"), StatusReply::NoAnswer);
    let tokens = json!({ "id": "pi_1", "status": "succeeded", "amount": 2000, "amount_received": 2000, "currency": "xyz" });
    assert_eq!(provider.read_status_reply(&asked, &answer(200, tokens)), StatusReply::NoAnswer);
    assert!(matches!(intent("pi_1"), StatusReply::Payment(..)));

    let refund = RefundId::of(ObjectId::from_bytes([1; 32]), "key");
    let asked = StatusQuery::Refund { provider, account: None, refund, id: "re_1".into(), doubt: None };
    let refund = |id: &str| {
        provider.read_status_reply(
            &asked,
            &answer(200, json!({ "id": id, "status": "succeeded", "amount": 2000 })),
        )
    };
    assert_eq!(refund("re_9"), StatusReply::NoAnswer);
    assert_eq!(refund("re_1"), StatusReply::Refund(RefundState::Succeeded));

    let refunds = |of: &[serde_json::Value], has_more: bool| {
        let refund = |(at, of): (usize, &serde_json::Value)| json!({ "id": format!("re_{at}"), "status": "succeeded", "amount": 100, "payment_intent": of });
        let data: Vec<_> = of.iter().enumerate().map(refund).collect();
        let asked = StatusQuery::Refunds { provider, account: None, id: id(), doubt: None, read: Vec::new() };
        match provider.read_status_reply(&asked, &answer(200, json!({ "data": data, "has_more": has_more })))
        {
            StatusReply::Refunds { refunds, .. } => Some(refunds.len()),
            _ => None,
        }
    };
    let ours = [json!("pi_1"), json!({ "id": "pi_1", "object": "payment_intent" }), json!(null)];
    assert_eq!(refunds(&ours, true), Some(3));
    assert_eq!(refunds(&[ours.as_slice(), &[json!("pi_9")]].concat(), false), Some(3));
    assert_eq!(refunds(&[ours.as_slice(), &[json!("pi_9")]].concat(), true), None, "where would it go on?");

    let asked = StatusQuery::Disputes { provider, account: None, id: id(), doubt: None };
    let disputes = |of: &str| {
        let dispute = json!({ "id": "du_1", "amount": 2000, "status": "lost", "payment_intent": of });
        provider.read_status_reply(&asked, &answer(200, json!({ "data": [dispute], "has_more": false })))
    };
    assert_eq!(disputes("pi_9"), StatusReply::Disputes(Vec::new()));
    assert!(matches!(disputes("pi_1"), StatusReply::Disputes(found) if found.len() == 1));
}

/// Metadata can be changed by whoever has a key of the account: what has lost its key, and is what was asked for, is not absent.
#[test]
fn what_is_like_ours_and_has_no_key_is_for_a_person() {
    let body = "amount=2000&currency=usd&payment_method=pm_1&metadata%5Bresource%5D=pay_1";
    let call = ProviderCall {
        request: FrozenRequest::new("/v1/payment_intents".into(), body.into()),
        first_sent_at_ms: Some(1_000_000_000),
        ..a_call()
    };
    let listed = |more: serde_json::Value| {
        let mut intent = json!({ "id": "pi_1", "status": "succeeded", "amount": 2000, "amount_received": 2000,
            "currency": "usd", "payment_method": "pm_1", "metadata": {} });
        for (name, value) in more.as_object().unwrap() {
            intent[name] = value.clone();
        }
        read_page(&call, &answer(200, json!({ "data": [intent], "has_more": false })))
    };
    let is_for_a_person = |look_up: LookUp| {
        matches!(look_up, LookUp::Unconfirmed(made) if made.needs_review && made.provider_id.is_none()
            && made.reason.contains("pi_1"))
    };
    assert!(is_for_a_person(listed(json!({}))), "cleared");
    assert!(is_for_a_person(listed(
        json!({ "payment_method": "pm_2", "metadata": { "resource": "pay_1" } })
    )));
    for others in [
        json!({ "payment_method": "pm_2" }),
        json!({ "payment_method": null }),
        json!({ "amount": 1999 }),
        json!({ "currency": "eur" }),
        json!({ "metadata": { "resource": "pay_2" } }),
        json!({ "metadata": { "resource": "pay_1", "idempotency_key": "pay_1_auth_2" } }),
    ] {
        assert_eq!(listed(others.clone()), LookUp::Absent, "{others}");
    }
    assert!(matches!(listed(json!({ "metadata": { "idempotency_key": "pay_1_auth" } })), LookUp::Found(_)));

    let asked = FrozenRequest::new("/v1/refunds".into(), "payment_intent=pi_1&amount=700".into());
    let refund = ProviderCall {
        first_sent_at_ms: Some(1_000_000_000),
        ..support::a_call(Provider::Stripe, CallKind::Refund, asked)
    };
    let refunds = |amount: u64, created: u64| {
        let refund_object =
            json!({ "id": "re_1", "status": "succeeded", "amount": amount, "created": created });
        read_page(&refund, &answer(200, json!({ "data": [refund_object], "has_more": false })))
    };
    assert!(matches!(refunds(700, 1_000_001), LookUp::Unconfirmed(made) if made.needs_review));
    assert_eq!(refunds(700, 900_000), LookUp::Absent, "of before");
    assert_eq!(refunds(701, 1_000_001), LookUp::Absent);
}

/// An earlier send is at work: whatever the status, nothing is decided by that.
#[test]
fn a_key_in_use_decides_nothing() {
    for status in [400, 402, 409, 422, 429] {
        for code in ["idempotency_key_in_use", "lock_timeout"] {
            let refused =
                json!({ "error": { "type": "invalid_request_error", "code": code, "message": "…" } });
            let outcome = classify(&answer(status, refused));
            assert!(!matches!(outcome, Outcome::Definitive(_)), "{status} {code}: {outcome:?}");
        }
    }
}

/// Without an address to come back to nobody can be led to the bank's page: such a payment is given up.
#[test]
fn a_bank_page_that_nobody_can_be_led_to_is_left_open() {
    let waiting = answer(
        200,
        json!({ "id": "pi_1", "status": "requires_action", "amount": 2000, "currency": "usd",
            "next_action": { "type": "redirect_to_url", "redirect_to_url": { "url": "https://bank.example" } } }),
    );
    assert!(matches!(classify(&waiting), Outcome::LeftOpen(_)));
    let body = "amount=2000&currency=usd&return_url=https%3A%2F%2Fpay.example%2Freturn".into();
    let call = ProviderCall { request: FrozenRequest::new(String::new(), body), ..a_call() };
    let Outcome::Definitive(reply) = Provider::Stripe.classify(&call, &waiting) else { panic!() };
    assert!(matches!(reply.result, ProviderResult::RequiresAction { .. }));
}

/// Who stands in for Stripe may leave out what Stripe always says.
#[test]
fn a_refusal_is_read_where_parts_of_it_are_missing() {
    let declined = |error: serde_json::Value| match classify(&answer(402, json!({ "error": error }))) {
        Outcome::Definitive(reply) => match reply.result {
            ProviderResult::Declined { code, .. } => Some(code),
            _ => None,
        },
        _ => None,
    };
    assert_eq!(declined(json!({ "code": "card_declined" })), Some("card_declined".into()));
    let named = json!({ "type": "card_error", "code": "expired_card", "payment_intent": "pi_1" });
    assert_eq!(declined(named), Some("expired_card".into()));
    // Of a payment that is shown, and cannot be read, nobody knows whether money moved.
    let garbled = json!({ "type": "card_error", "code": "expired_card", "payment_intent": { "id": "pi_1" } });
    assert_eq!(declined(garbled), None);
}
