//! The meaning of Stripe's answers: facts from its documentation and official clients, and what must hold for any.

use std::collections::BTreeMap;

use once::call::{FrozenRequest, LookUpProgress};
use payments::engine::{LookUp, Outcome, ProviderCall};
use payments::payment::result::{CallKind, ProviderResult, RemoteState};
use payments::providers::stripe::{close, look_up, read_page};
use payments::providers::{HttpAnswer, Provider};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support;

pub(crate) fn answer(status: u16, body: Value) -> HttpAnswer {
    HttpAnswer { request_id: Some("req_1".into()), ..support::answer(status, body) }
}

pub const STATUSES: [&str; 8] = [
    "succeeded",
    "processing",
    "requires_capture",
    "requires_action",
    "requires_confirmation",
    "requires_payment_method",
    "canceled",
    "something_new",
];

fn plausible_body() -> impl Strategy<Value = String> {
    let intent = (prop::sample::select(&STATUSES[..]), prop::sample::select(vec![0u32, 1999, 2000, 2001]), "usd|eur")
        .prop_map(|(status, amount, currency)| {
            json!({ "id": "pi_1", "status": status, "amount": 2000, "amount_received": amount, "currency": currency })
        });
    let kinds =
        ["card_error", "idempotency_error", "invalid_request_error", "api_error", "rate_limit_error", ""];
    let error = (prop::sample::select(kinds.to_vec()), intent.clone())
        .prop_map(|(kind, intent)| json!({ "error": { "type": kind, "payment_intent": intent } }));
    prop_oneof![
        intent.prop_map(|intent| intent.to_string()),
        error.prop_map(|error| error.to_string()),
        Just("<html>502 Bad Gateway</html>".to_owned()),
        ".{0,20}",
    ]
}

fn any_answer() -> impl Strategy<Value = HttpAnswer> {
    let statuses =
        prop_oneof![any::<u16>(), 100..600u16, prop::sample::select(vec![200u16, 400, 402, 409, 429, 500])];
    (statuses, any::<Option<bool>>(), any::<Option<u64>>(), any::<bool>(), plausible_body()).prop_map(
        |(status, should_retry, retry_after_ms, replayed, body)| HttpAnswer {
            status,
            should_retry,
            retry_after_ms,
            replayed,
            request_id: None,
            body,
        },
    )
}

proptest! {
    #[test]
    fn an_answer_is_never_taken_for_more_than_it_says(answer in any_answer()) {
        let status_in_body = serde_json::from_str::<Value>(&answer.body).ok().map(|body| body["status"].clone());
        match classify(&answer) {
            outcome @ (Outcome::Definitive(_) | Outcome::Stored(_)) => {
                let is_stored = matches!(outcome, Outcome::Stored(_));
                prop_assert_eq!(is_stored, answer.replayed && answer.status >= 400, "only refusals need to be");
                let (Outcome::Definitive(reply) | Outcome::Stored(reply)) = outcome else { unreachable!() };
                prop_assert!(answer.status < 300 || answer.replayed || answer.should_retry != Some(true));
                prop_assert!((200..500).contains(&answer.status));
                prop_assert!(![401, 403, 409, 429].contains(&answer.status));
                prop_assert_eq!(reply.status, answer.status);
                if let ProviderResult::Charged { .. } = reply.result {
                    prop_assert!((200..300).contains(&answer.status));
                    prop_assert_eq!(status_in_body, Some(json!("succeeded")));
                    prop_assert!(answer.body.contains(r#""amount_received":2000,"currency":"usd""#), "all of it");
                }
            }
            Outcome::NotExecuted { retry_after_ms, .. } => {
                prop_assert!([401, 403, 429].contains(&answer.status), "only what Stripe never keeps");
                prop_assert_eq!(retry_after_ms, answer.retry_after_ms);
            }
            Outcome::Unknown { answer_is_stored, .. } => {
                prop_assert!(answer_is_stored || answer.should_retry != Some(false), "told not to retry");
            }
            Outcome::Indeterminate { answer_is_stored, .. } => {
                prop_assert!(answer.status == 424 || (500..600).contains(&answer.status));
                prop_assert_eq!(answer_is_stored, answer.replayed || answer.should_retry == Some(false));
            }
            Outcome::LeftOpen(_) => prop_assert!((200..300).contains(&answer.status)),
            Outcome::Unconfirmed(_) if (400..500).contains(&answer.status) => {
                let body: Value = serde_json::from_str(&answer.body).unwrap();
                let status = body["error"]["payment_intent"]["status"].as_str().unwrap();
                prop_assert!(["succeeded", "requires_capture", "processing"].contains(&status));
            }
            Outcome::Unconfirmed(_) => prop_assert!((200..300).contains(&answer.status)),
        }
    }

    #[test]
    fn a_success_is_never_a_failure(body in plausible_body(), status in 200..300u16) {
        let mut success = answer(status, Value::Null);
        success.body = body;
        if success.body.contains(r#""status":"succeeded"#) && !success.body.contains("error") {
            let expected = match success.body.contains(r#""amount_received":2000,"currency":"usd""#) {
                true => Meaning::Charged,
                false => Meaning::Unconfirmed,
            };
            prop_assert_eq!(meaning(&success), expected);
        }
    }

    #[test]
    fn a_look_up_reads_every_page(count in 0..450usize, at in prop::option::of(0..450usize), paid: bool) {
        let at = at.filter(|at| *at < count);
        let call = a_call();
        let provider_key = call.provider_key.clone();
        let intents: Vec<Value> = (0..count)
            .map(|i| {
                let ours = at == Some(i);
                let key = if ours { provider_key.clone() } else { format!("other_{i}") };
                let status = if ours && !paid { "requires_payment_method" } else { "succeeded" };
                let mut intent = intent(status);
                intent["id"] = json!(format!("pi_{i}"));
                intent["metadata"] = json!({ "idempotency_key": key });
                if !(ours && paid) {
                    intent["last_payment_error"] = json!({ "type": "card_error", "code": "card_declined" });
                }
                intent
            })
            .collect();
        let (result, pages) = read_all(call, &intents);
        prop_assert!(pages <= count / 100 + 1);
        match (result, at) {
            (LookUp::Absent, None) => {}
            (LookUp::Found(reply), Some(i)) => {
                let payment = format!("pi_{i}");
                match reply.result {
                    ProviderResult::Charged { payment: found, .. } => prop_assert!(paid && found == payment),
                    ProviderResult::Declined { payment: found, .. } => prop_assert!(!paid && found == Some(payment)),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            (other, _) => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn absence_is_only_read_from_a_complete_list(answer in any_answer()) {
        let is_a_list = answer.status == 200
            && serde_json::from_str::<Value>(&answer.body).is_ok_and(|body| body["data"].is_array());
        if !is_a_list {
            let inconclusive = matches!(read_page(&a_call(), &answer), LookUp::Inconclusive { .. });
            prop_assert!(inconclusive);
        }
    }

    #[test]
    fn the_list_covers_every_send_and_a_clock_that_is_off(first_ms in 1_000_000..u64::MAX / 2, later_ms in 0..86_400_000u64) {
        let mut call = a_call();
        call.first_sent_at_ms = Some(first_ms);
        call.last_sent_at_ms = Some(first_ms + later_ms);
        let request = look_up(&call);
        let query = parameters(&request);
        prop_assert!(query["created[gte]"].parse::<u64>().unwrap() <= (first_ms / 1000).saturating_sub(300));
        // What Stripe completes hours later it may create only then.
        prop_assert!(!query.contains_key("created[lte]"));
        prop_assert_eq!(request.body, "");
    }
}

pub(crate) fn a_call() -> ProviderCall {
    let request = FrozenRequest::new(String::new(), "amount=2000&currency=usd".into());
    ProviderCall {
        provider_key: "pay_1_auth".into(),
        ..support::a_call(Provider::Stripe, CallKind::Authorize, request)
    }
}

pub(crate) fn classify(answer: &HttpAnswer) -> Outcome {
    Provider::Stripe.classify(&a_call(), answer)
}

/// The provider has put it aside until a person approves of it there, and carries it out by itself then: neither "nothing was charged" nor a
/// reason to send it again is true. <https://docs.stripe.com/account/approvals>
#[test]
fn what_waits_for_an_approval_is_for_a_person_and_what_is_blocked_was_refused() {
    let refused = |status: u16, code: &str| {
        answer(status, json!({ "error": { "type": "invalid_request_error", "code": code, "message": "…" } }))
    };
    for status in [400, 401, 402, 403] {
        let Outcome::Unconfirmed(unconfirmed) = classify(&refused(status, "approval_required")) else {
            panic!("{status} is no end")
        };
        assert!(unconfirmed.needs_review);
    }
    assert_eq!(meaning(&refused(400, "action_blocked")), Meaning::Rejected);
}

/// A PaymentIntent over what [`a_call`] asks for.
fn intent(status: &str) -> Value {
    let received = if status == "succeeded" { 2000 } else { 0 };
    json!({ "id": "pi_1", "object": "payment_intent", "status": status, "amount": 2000, "amount_received": received, "currency": "usd" })
}

fn parameters(request: &FrozenRequest) -> BTreeMap<String, String> {
    let (_, query) = request.path.split_once('?').unwrap();
    serde_urlencoded::from_str(query).unwrap()
}

/// Asks a list for page after page, as Stripe serves them.
fn read_all(mut call: ProviderCall, intents: &[Value]) -> (LookUp, usize) {
    for pages in 1.. {
        let query = parameters(&look_up(&call));
        let after = query.get("starting_after");
        let from = after.map_or(0, |id| 1 + intents.iter().position(|i| i["id"] == json!(id)).unwrap());
        let to = intents.len().min(from + query["limit"].parse::<usize>().unwrap());
        let page = json!({ "object": "list", "data": &intents[from..to], "has_more": to < intents.len() });
        match read_page(&call, &answer(200, page)) {
            LookUp::More { after } => call.look_up = Some(LookUpProgress { after, asked_at_ms: 0 }),
            result => return (result, pages),
        }
    }
    unreachable!()
}

/// What an outcome comes to.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning {
    Charged,
    Processing,
    Declined,
    Rejected,
    NotExecuted,
    Unknown,
    Sticky,
    /// The provider has failed; whether the key goes on to say so.
    Indeterminate(bool),
    Unconfirmed,
    LeftOpen,
}

pub(crate) fn meaning(answer: &HttpAnswer) -> Meaning {
    match classify(answer) {
        Outcome::Definitive(reply) | Outcome::Stored(reply) => match reply.result {
            ProviderResult::Charged { .. } => Meaning::Charged,
            ProviderResult::Processing { .. } => Meaning::Processing,
            ProviderResult::Declined { .. } => Meaning::Declined,
            ProviderResult::Rejected { .. } => Meaning::Rejected,
            other => panic!("a charge is not answered by {other:?}"),
        },
        Outcome::NotExecuted { .. } => Meaning::NotExecuted,
        Outcome::Unknown { answer_is_stored: false, .. } => Meaning::Unknown,
        Outcome::Unknown { answer_is_stored: true, .. } => Meaning::Sticky,
        Outcome::Indeterminate { answer_is_stored, .. } => Meaning::Indeterminate(answer_is_stored),
        Outcome::Unconfirmed(_) => Meaning::Unconfirmed,
        Outcome::LeftOpen(_) => Meaning::LeftOpen,
    }
}

/// A PaymentIntent whose card was declined.
fn declined_intent() -> Value {
    let mut intent = intent("requires_payment_method");
    intent["last_payment_error"] = json!({ "type": "card_error", "code": "card_declined" });
    intent
}

#[test]
fn the_answers_of_stripe_mean_what_its_documentation_says() {
    let error =
        |kind: &str, code: Option<&str>| json!({ "error": { "type": kind, "code": code, "message": "m" } });
    for (status, body, expected) in [
        (200, intent("succeeded"), Meaning::Charged),
        (200, intent("processing"), Meaning::Processing),
        (200, declined_intent(), Meaning::Declined),
        (200, intent("canceled"), Meaning::Declined),
        // Nobody has said no: it can be paid until it is canceled.
        (200, intent("requires_payment_method"), Meaning::LeftOpen),
        (200, intent("requires_confirmation"), Meaning::LeftOpen),
        // Stripe has ignored `error_on_requires_action`.
        (200, intent("requires_action"), Meaning::LeftOpen),
        (200, json!({ "id": "pi_1" }), Meaning::Unconfirmed),
        (200, json!({}), Meaning::Unknown),
        (402, error("card_error", Some("card_declined")), Meaning::Declined),
        (400, error("invalid_request_error", Some("amount_too_small")), Meaning::Rejected),
        (404, error("invalid_request_error", Some("resource_missing")), Meaning::Rejected),
        (400, error("invalid_request_error", Some("card_decline_rate_limit_exceeded")), Meaning::Declined),
        (400, error("idempotency_error", None), Meaning::Sticky),
        (400, json!("not an error"), Meaning::Unknown),
        (401, error("invalid_request_error", None), Meaning::NotExecuted),
        (403, error("invalid_request_error", None), Meaning::NotExecuted),
        (409, error("invalid_request_error", Some("idempotency_key_in_use")), Meaning::Unknown),
        (429, error("invalid_request_error", Some("rate_limit")), Meaning::NotExecuted),
        (429, error("invalid_request_error", Some("lock_timeout")), Meaning::NotExecuted),
        (424, error("api_error", None), Meaning::Indeterminate(false)),
        (400, error("something_new", None), Meaning::Unknown),
        (500, error("api_error", None), Meaning::Indeterminate(false)),
        (500, intent("succeeded"), Meaning::Unknown),
        (502, json!("<html>"), Meaning::Unknown),
        (503, json!(null), Meaning::Unknown),
        (302, json!(null), Meaning::Unknown),
    ] {
        assert_eq!(meaning(&answer(status, body.clone())), expected, "{status} {body}");
    }
}

#[test]
fn a_refusal_that_may_be_retried_is_no_verdict() {
    let error = |kind: &str| json!({ "error": { "type": kind, "code": "c", "message": "m" } });
    for (status, should_retry, replayed, kind, expected) in [
        (402, Some(true), false, "card_error", Meaning::Unknown),
        (400, Some(true), false, "invalid_request_error", Meaning::Unknown),
        (404, Some(true), false, "invalid_request_error", Meaning::Unknown),
        (424, Some(true), false, "api_error", Meaning::Indeterminate(false)),
        (429, Some(true), false, "rate_limit_error", Meaning::NotExecuted),
        // A stored answer is all that the key will ever say.
        (402, Some(true), true, "card_error", Meaning::Declined),
        (402, Some(false), false, "card_error", Meaning::Declined),
        (400, Some(false), false, "invalid_request_error", Meaning::Rejected),
        (402, None, false, "card_error", Meaning::Declined),
        (424, Some(false), false, "api_error", Meaning::Indeterminate(true)),
    ] {
        let answer = HttpAnswer { should_retry, replayed, ..answer(status, error(kind)) };
        assert_eq!(meaning(&answer), expected, "{status} {kind} {should_retry:?} replayed {replayed}");
    }
}

#[test]
fn another_amount_than_was_asked_for_is_never_a_charge() {
    let good = intent("succeeded");
    assert_eq!(meaning(&answer(200, good.clone())), Meaning::Charged);
    for (field, value) in [
        ("amount", json!(1999)),
        ("amount", Value::Null),
        ("amount_received", json!(0)),
        ("amount_received", json!(2001)),
        ("currency", json!("eur")),
        ("currency", Value::Null),
    ] {
        let mut other = good.clone();
        other[field] = value.clone();
        let Outcome::Unconfirmed(unconfirmed) = classify(&answer(200, other.clone())) else {
            panic!("{field} {value}")
        };
        assert!(unconfirmed.needs_review && unconfirmed.provider_id.as_deref() == Some("pi_1"));
        assert_eq!(unconfirmed.reason, "the provider charged another amount");
        other["metadata"] = json!({ "idempotency_key": "pay_1_auth" });
        let page = answer(200, json!({ "data": [other], "has_more": false }));
        let found = read_page(&a_call(), &page);
        assert!(
            matches!(&found, LookUp::Unconfirmed(found) if *found == unconfirmed),
            "{field} {value}: {found:?}"
        );
    }
    // Stripe always says what was taken, in small letters; what stands in for it may not.
    for (field, value) in [("amount_received", Value::Null), ("currency", json!("USD"))] {
        let mut said = good.clone();
        said[field] = value;
        assert_eq!(meaning(&answer(200, said)), Meaning::Charged, "{field}");
    }
    let mut dropped = a_call();
    dropped.request.body.clear();
    let unreadable = Provider::Stripe.classify(&dropped, &answer(200, good));
    assert!(matches!(unreadable, Outcome::Unconfirmed(_)), "nothing to compare with");
}

#[test]
fn a_list_that_does_not_go_on_is_read_from_the_start() {
    let mut call = a_call();
    call.look_up = Some(LookUpProgress { after: "pi_7".into(), asked_at_ms: 0 });
    let page = |data: Value| answer(200, json!({ "data": data, "has_more": true }));
    for stuck in
        [page(json!([])), page(json!([{ "id": "pi_7", "status": "succeeded" }])), answer(400, json!({}))]
    {
        let read = read_page(&call, &stuck);
        assert!(matches!(read, LookUp::Inconclusive { from_the_start: true, .. }), "{read:?}");
    }
    let failed = read_page(&call, &answer(500, json!({})));
    assert!(matches!(failed, LookUp::Inconclusive { from_the_start: false, .. }), "{failed:?}");
}

#[test]
fn a_rejection_keeps_the_payment_if_there_is_one() {
    let body = json!({ "error": {
        "type": "invalid_request_error", "code": "payment_intent_unexpected_state", "message": "m",
        "payment_intent": { "id": "pi_7", "status": "canceled" },
    }});
    let Outcome::Definitive(reply) = classify(&answer(400, body)) else { panic!() };
    let code = "payment_intent_unexpected_state".into();
    assert_eq!(
        reply.result,
        ProviderResult::Rejected {
            payment: Some("pi_7".into()),
            code,
            message: "m".into(),
            found: Some(RemoteState::Voided)
        }
    );
}

#[test]
fn a_stored_500_is_all_that_its_key_will_ever_say() {
    let mut stored = answer(500, json!({ "error": { "type": "api_error" } }));
    stored.replayed = true;
    for should_retry in [None, Some(true), Some(false)] {
        stored.should_retry = should_retry;
        assert_eq!(meaning(&stored), Meaning::Indeterminate(true), "{should_retry:?}");
    }
    stored.replayed = false;
    stored.should_retry = Some(true);
    assert_eq!(meaning(&stored), Meaning::Indeterminate(false));
    stored.should_retry = Some(false);
    assert_eq!(meaning(&stored), Meaning::Indeterminate(true));
}

/// A call that knows what it has made.
fn known_call() -> ProviderCall {
    let mut call = a_call();
    call.evidence.provider_id = Some("pi_1".into());
    call.evidence.is_executed = true;
    call
}

#[test]
fn what_has_an_id_is_asked_for_by_it() {
    let call = known_call();
    assert_eq!(look_up(&call).path, "/v1/payment_intents/pi_1");
    assert!(matches!(read_page(&call, &answer(200, intent("succeeded"))), LookUp::Found(_)));
    assert!(matches!(read_page(&call, &answer(200, intent("unheard_of"))), LookUp::Unconfirmed(_)));
    assert!(
        matches!(read_page(&call, &answer(404, json!({}))), LookUp::Absent),
        "and not believed: it was executed"
    );
    assert!(matches!(read_page(&call, &answer(500, json!({}))), LookUp::Inconclusive { .. }));
}

#[test]
fn what_was_left_open_is_over_when_it_is_canceled() {
    let mut call = known_call();
    let Outcome::LeftOpen(reply) = classify(&answer(200, intent("requires_action"))) else { panic!() };
    assert_eq!(close(&call), None);
    call.evidence.closing = Some(reply.clone());
    assert_eq!(close(&call).unwrap().path, "/v1/payment_intents/pi_1/cancel");
    let refusal = |status: &str| {
        let error = json!({ "type": "invalid_request_error", "code": "payment_intent_unexpected_state",
            "message": "m", "payment_intent": intent(status) });
        answer(400, json!({ "error": error }))
    };
    for canceled in [answer(200, intent("canceled")), refusal("canceled")] {
        assert_eq!(read_page(&call, &canceled), LookUp::Found(reply.clone()));
    }
    let mut others = intent("canceled");
    others["id"] = json!("pi_9");
    assert!(matches!(read_page(&call, &answer(200, others)), LookUp::Inconclusive { .. }), "another one");
    // Somebody was faster: it is paid.
    let LookUp::Found(paid) = read_page(&call, &refusal("succeeded")) else { panic!() };
    assert_eq!(paid.result, ProviderResult::Charged { payment: "pi_1".into(), card: None });
    for open in [answer(500, json!({})), answer(200, intent("requires_action"))] {
        let read = read_page(&call, &open);
        assert!(matches!(read, LookUp::Unconfirmed(_) | LookUp::Inconclusive { .. }), "{read:?}");
    }
}

#[test]
fn a_decline_keeps_the_payment_and_both_codes() {
    let body = json!({ "error": {
        "type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds",
        "message": "Your card has insufficient funds.",
        "payment_intent": { "id": "pi_7", "status": "requires_payment_method" },
    }});
    let Outcome::Definitive(reply) = classify(&answer(402, body)) else { panic!() };
    assert_eq!(
        reply.result,
        ProviderResult::Declined {
            payment: Some("pi_7".into()),
            code: "card_declined".into(),
            decline_code: Some("insufficient_funds".into()),
            message: "Your card has insufficient funds.".into(),
        }
    );
}
