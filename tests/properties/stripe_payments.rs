//! Stripe's part of payments: the bytes of an authorisation, a capture, a void and a refund, and what an answer to each of
//! them, a look-up or a question may be taken for.

use std::collections::BTreeMap;

use once::call::FrozenRequest;
use payments::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use payments::payment::id::RefundId;
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::result::{CallKind, ProviderResult, RemoteState};
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::payment::{Refund, RefundReason, RefundState};
use payments::providers::stripe::{
    authorize, capture, look_up, question, read_page, read_status_reply, refund, void,
};
use payments::providers::{Authorization, Provider};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::stripe::STATUSES;
use crate::support::{self, answer};

const KINDS: [CallKind; 4] = [CallKind::Authorize, CallKind::Capture, CallKind::Void, CallKind::Refund];
const REFUND_STATUSES: [&str; 6] =
    ["succeeded", "pending", "requires_action", "failed", "canceled", "something_new"];

fn fields(request: &FrozenRequest) -> BTreeMap<String, String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(&request.body).unwrap();
    let count = pairs.len();
    let fields: BTreeMap<_, _> = pairs.into_iter().collect();
    assert_eq!(fields.len(), count, "a field stands there twice: {}", request.body);
    fields
}

fn authorization<'a>(
    amount_minor: u64,
    capture: bool,
    metadata: &'a [(String, String)],
) -> Authorization<'a> {
    Authorization {
        amount_minor,
        currency: Currency::USD,
        capture,
        payment_method: "pm_1",
        customer: Some("cus_1"),
        merchant_account: None,
        description: None,
        metadata,
        return_url: Some("https://pay.example/return"),
        payment_url: "https://pay.example/payments/pay_1",
        resource: "pay_1",
        provider_key: "pay_1_auth",
    }
}

fn a_refund(minor: u64) -> Refund {
    Refund {
        id: RefundId("re_1".into()),
        key_id: 1,
        amount: AmountMinor::new(minor).unwrap(),
        reason: RefundReason::Fraudulent,
        state: RefundState::Requested,
        provider_refund: None,
        told_at_ms: None,
        undone: None,
        created_at_ms: 0,
        version: 0,
    }
}

/// A call over 20.00 US dollars.
fn a_call(kind: CallKind, manual: bool) -> ProviderCall {
    let request = match kind {
        CallKind::Authorize => authorize(&authorization(2000, !manual, &[])),
        CallKind::Capture => capture("pi_1", 2000, "key"),
        CallKind::Void => void("pi_1"),
        CallKind::Refund => refund("pi_1", "pay_1", &a_refund(2000), "key"),
        CallKind::CreateCustomer | CallKind::UpdateCustomer => unreachable!("see customer.rs"),
    };
    support::a_call(Provider::Stripe, kind, request)
}

fn amount() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![0u64, 500, 1500, 1999, 2000, 2001, u64::from(u32::MAX) + 1])
}

fn an_intent() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(&STATUSES[..]);
    (status, amount(), amount(), amount(), "usd|eur", any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(status, amount, received, capturable, currency, ours, page, charged)| {
            let action = json!({ "type": "redirect_to_url", "redirect_to_url": { "url": "https://bank.example" } });
            json!({
                "id": "pi_1", "object": "payment_intent", "status": status, "amount": amount, "currency": currency,
                "amount_received": received, "amount_capturable": capturable,
                "metadata": { "idempotency_key": if ours { "key" } else { "other" } },
                "next_action": if page { action } else { Value::Null },
                "latest_charge": if charged { json!("ch_1") } else { Value::Null },
            })
        },
    )
}

fn a_refund_object() -> impl Strategy<Value = Value> {
    (prop::sample::select(&REFUND_STATUSES[..]), amount(), any::<bool>()).prop_map(
        |(status, amount, ours)| {
            json!({
                "id": "re_9", "object": "refund", "status": status, "amount": amount,
                "metadata": { "idempotency_key": if ours { "key" } else { "other" } },
            })
        },
    )
}

/// An object and a kind of call, whether they fit together or not.
fn any_object() -> impl Strategy<Value = Value> {
    prop_oneof![an_intent(), a_refund_object(), Just(json!({})), Just(json!([]))]
}

/// Whether something was captured: also a part of what is still held.
fn is_captured(object: &Value) -> bool {
    let received = object["amount_received"].as_u64().unwrap_or(0);
    object["status"] == "succeeded"
        || (object["status"] == "requires_capture" && received != 0)
        || (object["status"] == "canceled"
            && received > 0
            && received < object["amount"].as_u64().unwrap_or(0))
}

/// What an answer may at most be taken for, from the object alone.
fn is_said(object: &Value, call: &ProviderCall, manual: bool, result: &ProviderResult) -> bool {
    let is_all = |name: &str| object["amount"] == 2000 && object[name] == 2000 && object["currency"] == "usd";
    let status = object["status"].as_str().unwrap_or_default();
    match result {
        ProviderResult::Charged { .. } => {
            call.kind == CallKind::Authorize && !manual && status == "succeeded" && is_all("amount_received")
        }
        ProviderResult::Authorized { .. } => {
            call.kind == CallKind::Authorize
                && manual
                && status == "requires_capture"
                && is_all("amount_capturable")
        }
        // Reserved as asked, and moved since.
        ProviderResult::Moved { found, .. } => {
            let is_as_asked = object["amount"] == 2000 && object["currency"] == "usd";
            let is_moved = match found {
                RemoteState::Captured { amount_minor } => {
                    is_captured(object) && object["amount_received"] == *amount_minor
                }
                RemoteState::Voided => status == "canceled" && object["latest_charge"] == "ch_1",
                _ => false,
            };
            call.kind == CallKind::Authorize && manual && is_as_asked && is_moved
        }
        ProviderResult::RequiresAction { url, .. } => {
            status == "requires_action" && object["next_action"]["redirect_to_url"]["url"] == url.as_str()
        }
        ProviderResult::Processing { .. } => status == "processing",
        ProviderResult::Captured { amount_minor } => {
            call.kind == CallKind::Capture
                && status == "succeeded"
                && object["amount_received"] == *amount_minor
                && *amount_minor == 2000
        }
        ProviderResult::Voided => call.kind == CallKind::Void && status == "canceled",
        ProviderResult::Received { .. } => false,
        ProviderResult::Refunded { settled, .. } => {
            let is_settled = status == "succeeded";
            call.kind == CallKind::Refund
                && object["amount"] == 2000
                && *settled == is_settled
                && (is_settled || matches!(status, "pending" | "requires_action"))
        }
        ProviderResult::Customer { .. } => false,
        ProviderResult::Declined { .. } => call.kind == CallKind::Authorize && status != "succeeded",
        ProviderResult::Rejected { .. } => match call.kind {
            CallKind::Refund => matches!(status, "failed" | "canceled"),
            _ => status != "succeeded" || call.kind == CallKind::Void || object["amount_received"] != 2000,
        },
    }
}

/// A reservation whose answer was lost is found by its key, whatever a person has done with it at the dashboard meanwhile.
#[test]
fn a_reservation_that_others_have_moved_is_the_one_that_was_asked_for() {
    let call = a_call(CallKind::Authorize, true);
    let intent = |status: &str, received: u64, capturable: u64, charge: Value| {
        json!({
            "id": "pi_1", "status": status, "amount": 2000, "amount_received": received, "amount_capturable": capturable,
            "currency": "usd", "metadata": { "idempotency_key": "key" }, "latest_charge": charge,
        })
    };
    let captured = |amount_minor| Some(RemoteState::Captured { amount_minor });
    let lapsed = |mut intent: Value| {
        intent["cancellation_reason"] = json!("automatic");
        intent
    };
    for (object, expected) in [
        (intent("succeeded", 2000, 0, json!("ch_1")), captured(2000)),
        (intent("succeeded", 500, 0, json!("ch_1")), captured(500)),
        // One of several captures; the rest is still held.
        (intent("requires_capture", 500, 1500, json!("ch_1")), captured(500)),
        (intent("canceled", 0, 0, json!("ch_1")), Some(RemoteState::Voided)),
        (intent("canceled", 0, 0, json!({ "id": "ch_1" })), Some(RemoteState::Voided)),
        (lapsed(intent("canceled", 0, 0, json!("ch_1"))), Some(RemoteState::Expired)),
        // Taken too much, held too much, never held.
        (intent("succeeded", 2001, 0, json!("ch_1")), None),
        (intent("succeeded", 0, 0, json!("ch_1")), None),
        (intent("requires_capture", 500, 2000, json!("ch_1")), None),
        (intent("canceled", 0, 0, Value::Null), None),
    ] {
        let page = json!({ "data": [object], "has_more": false });
        let found = match read_page(&call, &answer(200, &page)) {
            LookUp::Found(ProviderReply { result: ProviderResult::Moved { payment, found }, .. }) => {
                assert_eq!(payment, "pi_1");
                Some(found)
            }
            _ => None,
        };
        assert_eq!(found, expected, "{object}");
        // One that is captured at once was never only reserved.
        let at_once = read_page(&a_call(CallKind::Authorize, false), &answer(200, &page));
        let is_moved =
            matches!(at_once, LookUp::Found(reply) if matches!(reply.result, ProviderResult::Moved { .. }));
        assert!(!is_moved, "{object}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_success_is_never_taken_for_more_than_it_says(
        object in any_object(), kind in prop::sample::select(&KINDS[..]), manual: bool, status in 200..300u16,
    ) {
        let call = a_call(kind, manual);
        match Provider::Stripe.classify(&call, &answer(status, &object)) {
            Outcome::Definitive(reply) => prop_assert!(is_said(&object, &call, manual, &reply.result), "{:?}", reply),
            Outcome::LeftOpen(reply) => {
                let open = ["requires_payment_method", "requires_action", "requires_confirmation"];
                prop_assert!(open.contains(&object["status"].as_str().unwrap()), "{}", object);
                prop_assert!(!reply.result.is_done() && reply.result.payment().is_some());
            }
            Outcome::Unconfirmed(unconfirmed) => {
                // That of another call's object leads nowhere.
                let is_anothers = unconfirmed.reason.ends_with("than the one that was asked for");
                let id = object["id"].as_str().filter(|_| !is_anothers);
                prop_assert_eq!(unconfirmed.provider_id.as_deref(), id);
            }
            Outcome::Unknown { .. } => prop_assert!(object["id"].is_null(), "{}", object),
            other => prop_assert!(false, "a success that was {:?}", other),
        }
    }

    #[test]
    fn a_refusal_moves_nothing_and_says_what_the_payment_is(
        object in an_intent(), kind in prop::sample::select(&KINDS[..]), status in prop::sample::select(vec![400u16, 402, 404]),
        card: bool,
    ) {
        let word = if card { "card_error" } else { "invalid_request_error" };
        let body = json!({ "error": { "type": word, "code": "no", "message": "m", "payment_intent": object } });
        let is_made = ["succeeded", "requires_capture", "processing"].contains(&object["status"].as_str().unwrap());
        let reply = match Provider::Stripe.classify(&a_call(kind, true), &answer(status, &body)) {
            Outcome::Definitive(reply) => reply,
            // Beside money nothing is refused.
            Outcome::Unconfirmed(_) if kind == CallKind::Authorize && is_made => return Ok(()),
            other => return Err(TestCaseError::fail(format!("a refusal is definitive: {other:?}"))),
        };
        prop_assert!(kind != CallKind::Authorize || !is_made);
        prop_assert!(!reply.result.is_done() && !reply.result.took_money());
        if let ProviderResult::Rejected { found: Some(found), .. } = reply.result {
            let expected = match found {
                RemoteState::Captured { .. } if is_captured(&object) => object["status"].as_str().unwrap(),
                RemoteState::Captured { .. } => "succeeded",
                RemoteState::Authorized => "requires_capture",
                RemoteState::Voided | RemoteState::Expired => "canceled",
                RemoteState::Processing => "processing",
                RemoteState::RequiresAction { .. } => "requires_action",
                RemoteState::Failed(_) => "requires_payment_method",
            };
            prop_assert_eq!(&object["status"], expected);
        }
    }

    #[test]
    fn a_look_up_finds_only_what_the_call_made(
        objects in prop::collection::vec(any_object(), 0..3), one in an_intent(), kind in prop::sample::select(&KINDS[..]),
        manual: bool, has_more: bool,
    ) {
        let call = a_call(kind, manual);
        let is_list = matches!(kind, CallKind::Authorize | CallKind::Refund);
        let body = if is_list { json!({ "data": objects, "has_more": has_more }) } else { one.clone() };
        match read_page(&call, &answer(200, &body)) {
            LookUp::Found(reply) if is_list => {
                let ours = objects.iter().find(|object| object["metadata"]["idempotency_key"] == "key").unwrap();
                prop_assert!(is_said(ours, &call, manual, &reply.result), "{:?} from {}", reply, ours);
            }
            LookUp::Found(reply) => prop_assert!(is_said(&one, &call, manual, &reply.result), "{:?} from {}", reply, one),
            LookUp::Absent if is_list => {
                prop_assert!(!has_more && !objects.iter().any(|object| object["metadata"]["idempotency_key"] == "key"));
            }
            // A payment that is still open was neither captured nor canceled.
            LookUp::Absent => {
                let open = ["requires_capture", "requires_action", "processing"];
                prop_assert!(open.contains(&one["status"].as_str().unwrap()), "{}", one);
            }
            LookUp::More { .. } => prop_assert!(is_list && has_more),
            LookUp::Tentative(reply) => {
                let can_change = one["status"] == "requires_payment_method" || one["status"] == "requires_capture";
                prop_assert!(!is_list && !reply.result.is_done() && can_change);
            }
            LookUp::LeftOpen(_) => prop_assert!(kind == CallKind::Authorize),
            LookUp::Unconfirmed(unconfirmed) => prop_assert!(unconfirmed.provider_id.is_some()),
            LookUp::Identity(_) => prop_assert!(false, "nobody has asked for it"),
            LookUp::NoClient { .. } => prop_assert!(false, "Stripe is asked without any client"),
            LookUp::Inconclusive { .. } => {}
        }
    }

    #[test]
    fn a_question_is_answered_by_a_200_alone(object in any_object(), status in prop::sample::select(vec![200u16, 400, 404, 429, 500])) {
        let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
        let about = StatusQuery::Payment { provider, account: None, id, doubt: None };
        match read_status_reply(&about, &answer(status, &object)) {
            StatusReply::Payment(RemoteState::Captured { .. }, _) => prop_assert!(status == 200 && is_captured(&object)),
            StatusReply::Payment(RemoteState::Voided | RemoteState::Expired, _) => prop_assert_eq!((status, &object["status"]), (200, &json!("canceled"))),
            StatusReply::Payment(..) => prop_assert_eq!(status, 200),
            StatusReply::NoAnswer => {}
            StatusReply::Home(_) | StatusReply::Refund(_) | StatusReply::Refunds { .. } | StatusReply::Disputes(_) => prop_assert!(false, "a payment was asked about"),
        }
        let about = StatusQuery::Refund { provider, account: None, refund: RefundId("re_1".into()), id: "re_9".into(), doubt: None };
        match read_status_reply(&about, &answer(status, &object)) {
            StatusReply::Refund(RefundState::Succeeded) => prop_assert_eq!((status, &object["status"]), (200, &json!("succeeded"))),
            StatusReply::Refund(RefundState::Requested) | StatusReply::Home(_) | StatusReply::Payment(..) | StatusReply::Refunds { .. } | StatusReply::Disputes(_) => prop_assert!(false, "a refund was asked about"),
            StatusReply::Refund(_) => prop_assert_eq!(status, 200),
            StatusReply::NoAnswer => {}
        }
    }

    #[test]
    fn equal_authorisations_are_equal_bytes_and_everything_is_in_them(
        amount in 1..=99_999_999u64, manual: bool, metadata in prop::collection::btree_map("[a-zä =&]{1,10}", ".{0,20}", 0..5),
    ) {
        let metadata: Vec<_> = metadata.into_iter().collect();
        let request = authorize(&authorization(amount, !manual, &metadata));
        prop_assert_eq!(&request, &authorize(&authorization(amount, !manual, &metadata)));
        let fields = fields(&request);
        prop_assert_eq!(&fields["amount"], &amount.to_string());
        prop_assert_eq!(&fields["capture_method"], if manual { "manual" } else { "automatic" });
        prop_assert_eq!(&fields["metadata[idempotency_key]"], "pay_1_auth");
        prop_assert_eq!(&fields["metadata[resource]"], "pay_1");
        for (name, value) in &metadata {
            prop_assert_eq!(&fields[&format!("metadata[{name}]")], value);
        }
    }

    #[test]
    fn moves_name_the_payment_the_amount_and_the_call(minor in 1..=99_999_999u64, key in "[a-z_]{1,40}") {
        let taken = capture("pi_1", minor, &key);
        prop_assert_eq!(taken.path.as_str(), "/v1/payment_intents/pi_1/capture");
        prop_assert_eq!(&fields(&taken)["amount_to_capture"], &minor.to_string());
        prop_assert_eq!(&fields(&taken)["metadata[capture_key]"], &key);
        let given = refund("pi_1", "pay_1", &a_refund(minor), &key);
        prop_assert_eq!(given.path.as_str(), "/v1/refunds");
        let fields = fields(&given);
        prop_assert_eq!((&fields["amount"], fields["payment_intent"].as_str()), (&minor.to_string(), "pi_1"));
        prop_assert_eq!((&fields["metadata[idempotency_key]"], fields["reason"].as_str()), (&key, "fraudulent"));
    }
}

#[test]
fn without_an_address_to_come_back_to_the_banks_page_is_a_no() {
    let there = authorization(2000, true, &[]);
    assert_eq!(fields(&authorize(&there)).get("error_on_requires_action"), None);
    assert_eq!(fields(&authorize(&there)).get("off_session"), None);
    let nobody = Authorization { return_url: None, customer: None, ..there };
    assert_eq!(fields(&authorize(&nobody))["error_on_requires_action"], "true");
    assert_eq!(fields(&authorize(&nobody)).get("off_session"), None);
    // What a customer has agreed to before is charged without them, and banks are told so.
    let saved = Authorization { customer: Some("cus_1"), ..nobody };
    assert_eq!(fields(&authorize(&saved))["off_session"], "true");
    assert_eq!(fields(&authorize(&saved)).get("error_on_requires_action"), None);
}

#[test]
fn a_move_is_looked_up_where_it_would_show() {
    assert_eq!(look_up(&a_call(CallKind::Capture, true)).path, "/v1/payment_intents/pi_1");
    assert_eq!(look_up(&a_call(CallKind::Void, true)).path, "/v1/payment_intents/pi_1");
    assert_eq!(look_up(&a_call(CallKind::Refund, true)).path, "/v1/refunds?payment_intent=pi_1&limit=100");
    let about =
        StatusQuery::Payment { provider: Provider::Stripe, account: None, id: "pi_1".into(), doubt: None };
    assert_eq!(question(&about).path, "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge");
}
