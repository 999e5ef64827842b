//! The card that paid: what the providers say of it, where it is kept, and that it goes with the other personal data.

use once::alarm::wake;
use once::begin::begin;
use once::call::FrozenRequest;
use once::context::Times;
use once::id::ObjectId;
use once::run::RunEnd;
use payments::engine::{
    Action, Begin, CallState, Event, LookUp, ObjectState, Outcome, ProviderCall, ProviderReply, Run,
    Settlement,
};
use payments::payment::card::Card;
use payments::payment::money::Currency;
use payments::payment::provider_event::EventKind;
use payments::payment::result::{CallKind, ProviderResult, RemoteState};
use payments::payment::status_query::{Beside, StatusQuery, StatusReply};
use payments::providers::adyen::webhook;
use payments::providers::stripe::{question, read_page, read_status_reply};
use payments::providers::{HttpAnswer, Provider};
use payments::transitions::answers::take;
use payments::transitions::pii::{Erased, erase};
use serde_json::{Value, json};

use crate::payment::pay;
use crate::support::{self, NOW_MS, answer, at, command, me};

fn visa() -> Option<Card> {
    Card::of_stripe("visa", "4242")
}

/// A charge as `expand[]=latest_charge` gives it.
fn charge(card: &Value) -> Value {
    json!({ "id": "ch_1", "disputed": true, "payment_method_details": { "type": "card", "card": card } })
}

fn intent(status: &str, charge: &Value) -> HttpAnswer {
    let received = if status == "succeeded" { 2000 } else { 0 };
    answer(
        200,
        json!({
            "id": "pi_1", "object": "payment_intent", "status": status, "amount": 2000, "amount_received": received,
            "amount_capturable": 2000 - received, "currency": "usd", "latest_charge": charge,
            "metadata": { "idempotency_key": "key" },
        }),
    )
}

/// A call that asks for this, sent once.
fn call(provider: Provider, body: &str) -> ProviderCall {
    let request = FrozenRequest::new("/payments".into(), body.into());
    ProviderCall { state: CallState::InFlight, ..support::a_call(provider, CallKind::Authorize, request) }
}

fn card_of(outcome: Outcome) -> Option<Card> {
    match outcome {
        Outcome::Definitive(ProviderReply { mut result, .. }) => {
            assert!(result.is_done(), "{result:?}");
            result.take_card()
        }
        other => panic!("{other:?}"),
    }
}

fn of_stripe(body: &str, status: &str, charge: &Value) -> Option<Card> {
    card_of(Provider::Stripe.classify(&call(Provider::Stripe, body), &intent(status, charge)))
}

const CHARGE: &str = "amount=2000&currency=usd";
const RESERVE: &str = "amount=2000&currency=usd&capture_method=manual";

#[test]
fn stripes_answer_to_a_payment_has_the_card_where_the_charge_is_expanded() {
    let expanded = charge(&json!({ "brand": "visa", "last4": "4242" }));
    assert_eq!(of_stripe(CHARGE, "succeeded", &expanded), visa());
    assert_eq!(of_stripe(RESERVE, "requires_capture", &expanded), visa());
    let of_no_card = json!({ "id": "ch_1", "payment_method_details": { "type": "link", "link": {} } });
    let odd = charge(&json!({ "brand": 7, "last4": 4242 }));
    for absent in [json!("ch_1"), Value::Null, of_no_card, odd, charge(&Value::Null)] {
        assert_eq!(of_stripe(CHARGE, "succeeded", &absent), None, "{absent}");
    }
}

#[test]
fn stripe_says_it_to_a_look_up_and_to_a_question_too_and_nothing_else_is_lost_by_it() {
    let ask =
        StatusQuery::Payment { provider: Provider::Stripe, account: None, id: "pi_1".into(), doubt: None };
    assert_eq!(question(&ask).path, "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge");
    let said = |card: Value| match read_status_reply(&ask, &intent("succeeded", &charge(&card))) {
        StatusReply::Payment(RemoteState::Captured { amount_minor: 2000 }, beside) => beside,
        other => panic!("{other:?}"),
    };
    let beside = said(json!({ "brand": "visa", "last4": "4242", "capture_before": 1_800_000_000 }));
    let expected = Beside {
        card: visa(),
        is_disputed: true,
        capture_before_ms: Some(1_800_000_000_000),
        amount_minor: Some(2000),
        currency: Currency::parse("usd"),
        ..Beside::default()
    };
    assert_eq!(beside, expected);
    let odd = said(json!({ "brand": [], "last4": {}, "capture_before": 1_800_000_000 }));
    assert_eq!(odd, Beside { card: None, ..expected });

    let list = |charge: Value| {
        let found: Value = serde_json::from_str(&intent("succeeded", &charge).body).unwrap();
        answer(200, json!({ "object": "list", "data": [found], "has_more": false }))
    };
    for (charge, card) in
        [(json!("ch_1"), None), (charge(&json!({ "brand": "visa", "last4": "4242" })), visa())]
    {
        let LookUp::Found(mut reply) = read_page(&call(Provider::Stripe, CHARGE), &list(charge)) else {
            panic!()
        };
        assert_eq!(reply.result.take_card(), card);
    }
}

const ADYENS: &str = r#"{"amount":{"currency":"USD","value":2000}}"#;

#[test]
fn adyen_says_it_where_the_merchant_has_switched_on_the_cards_summary() {
    let paid = |method: Value, additional: Value| {
        let body = json!({
            "pspReference": "NC6HT9CRT65ZGN82", "resultCode": "Authorised", "merchantReference": "r",
            "paymentMethod": method, "additionalData": additional,
        });
        card_of(Provider::Adyen.classify(&call(Provider::Adyen, ADYENS), &answer(200, body)))
    };
    let brand = || json!({ "brand": "visa", "type": "scheme" });
    assert_eq!(paid(brand(), json!({ "cardSummary": "4242" })), visa());
    assert_eq!(paid(Value::Null, json!({ "cardSummary": "4242", "paymentMethod": "visa" })), visa());
    for absent in
        [Value::Null, json!({}), json!({ "cardSummary": 4242 }), json!({ "cardSummary": "**42" }), json!("x")]
    {
        assert_eq!(paid(brand(), absent.clone()), None, "{absent}");
    }
}

fn notice(event: &str, method: Value, additional: Value) -> Option<Card> {
    let body = json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": {
        "eventCode": event, "pspReference": "NC6HT9CRT65ZGN82", "merchantReference": "r", "success": "true",
        "amount": { "currency": "USD", "value": 2000 }, "paymentMethod": method, "additionalData": additional,
    } }] });
    let item = webhook::items(body.to_string().as_bytes()).unwrap().remove(0);
    let (event, _) = item.read();
    // As the inbox keeps it until it is taken in.
    let kept = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<payments::payment::provider_event::Event>(&kept).unwrap(), event);
    event.news.told().unwrap().card
}

#[test]
fn adyens_notification_of_a_payment_says_it_too() {
    let summary = || json!({ "cardSummary": "4242" });
    assert_eq!(notice("AUTHORISATION", json!("visa"), summary()), visa());
    assert_eq!(notice("AUTHORISATION", json!("visa"), Value::Null), None);
    assert_eq!(notice("AUTHORISATION", json!(null), json!({ "cardSummary": null })), None);
    assert_eq!(notice("CAPTURE", json!("visa"), summary()), None, "what nobody reads is not kept");
    let old = json!({ "news": "authorisation", "derived_key": null, "payment": "p", "id": "p", "amount_minor": 1,
        "currency": "usd", "success": true, "reason": "" });
    let EventKind::Authorisation(told) = serde_json::from_value(old).unwrap() else { panic!() };
    assert_eq!(told.card, None, "an event that an older release wrote down");
}

/// A payment of which the provider has answered this.
pub(crate) fn answered(result: ProviderResult) -> ObjectState {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let Ok(Begin::Run(token)) = begin(&mut state, &command("k", pay(true)), &me(), &at(NOW_MS)) else {
        panic!()
    };
    let (mut run, mut event) = (Run::new(token, 0, &[]), Event::Go);
    for _ in 0..20 {
        let reply = ProviderReply { status: 200, result: result.clone(), request_id: None };
        event = match run.step(&mut state, event, &at(NOW_MS)).unwrap() {
            Action::Again => Event::Go,
            Action::Send(call) => Event::Outcome(call.call_id, Outcome::Definitive(reply)),
            Action::End(RunEnd::Finished(_)) => return state,
            other => panic!("{other:?}"),
        };
    }
    panic!("it goes round in circles")
}

fn card(state: &ObjectState) -> Option<Card> {
    state.resource.payment.as_ref().unwrap().card
}

/// The provider is asked, and says that it was paid with this.
fn paid_at_last(state: &mut ObjectState) {
    let ask =
        StatusQuery::Payment { provider: Provider::Stripe, account: None, id: "pi_1".into(), doubt: None };
    let beside = Beside { card: visa(), ..Beside::default() };
    let amount_minor = state.resource.payment.as_ref().unwrap().amount.get();
    let status_reply = StatusReply::Payment(RemoteState::Captured { amount_minor }, beside);
    take(state, &ask, status_reply, &at(NOW_MS)).unwrap();
}

#[test]
fn a_payment_alone_has_the_card_and_the_api_shows_it() {
    let state = answered(ProviderResult::Charged { payment: "pi_1".into(), card: visa() });
    let payment = state.resource.payment.clone().unwrap();
    let shown = payment.to_json(&[], &[]);
    assert_eq!(shown["payment_method_details"], json!({ "brand": "visa", "last4": "4242" }));
    let CallState::Settled(Settlement::Answered(reply)) = &state.calls[0].state else { panic!() };
    assert_eq!(reply.result, ProviderResult::Charged { payment: "pi_1".into(), card: None });

    let mut old = serde_json::to_value(&payment).unwrap();
    assert!(old.as_object_mut().unwrap().remove("card").is_some());
    let read: payments::payment::Payment = serde_json::from_value(old).unwrap();
    assert_eq!(read.to_json(&[], &[])["payment_method_details"], Value::Null, "of an older release");
}

#[test]
fn what_is_paid_after_the_banks_page_has_its_card_and_what_is_not_paid_has_none() {
    let url = "https://bank.example".to_owned();
    let mut state = answered(ProviderResult::RequiresAction { payment: "pi_1".into(), url });
    assert_eq!(card(&state), None);
    paid_at_last(&mut state);
    assert_eq!(card(&state), visa());

    let mut failed = answered(ProviderResult::Processing { payment: "pi_1".into() });
    let ask =
        StatusQuery::Payment { provider: Provider::Stripe, account: None, id: "pi_1".into(), doubt: None };
    let beside = Beside { card: visa(), ..Beside::default() };
    take(&mut failed, &ask, StatusReply::Payment(RemoteState::Voided, beside), &at(NOW_MS)).unwrap();
    assert_eq!(card(&failed), None);
}

#[test]
fn an_erased_card_is_gone_and_does_not_come_back() {
    let mut state = answered(ProviderResult::Charged { payment: "pi_1".into(), card: visa() });
    let written = |state: &ObjectState| serde_json::to_string(&state.resource).unwrap();
    assert!(written(&state).contains("4242"), "control");
    state.appended = Default::default();
    assert_eq!(erase(&mut state, &at(NOW_MS)), Erased::Gone);
    assert_eq!(card(&state), None);
    assert!(!written(&state).contains("4242"), "{}", written(&state));
    assert!(!format!("{:?}{:?}", state.calls, state.keys).contains("4242"));

    let url = "https://bank.example".to_owned();
    let mut state = answered(ProviderResult::RequiresAction { payment: "pi_1".into(), url });
    // Nothing of it is personal yet.
    state.resource.payment.as_mut().unwrap().return_url = None;
    state.appended = Default::default();
    let due_at_ms = NOW_MS + Times::default().personal_retention_ms;
    wake(&mut state, &me(), &at(due_at_ms));
    paid_at_last(&mut state);
    assert_eq!((state.resource.payment.as_ref().unwrap().status(), card(&state)), ("succeeded", None));
}
