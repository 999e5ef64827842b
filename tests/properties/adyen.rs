//! The meaning of Adyen's answers, and the bytes that it gets: facts from its documentation, and what must hold for any.

mod any_answer;
mod errors;

use crate::support::{self, answer};
use once::call::{FrozenRequest, Unconfirmed};
use once::id::ObjectId;
use payments::engine::{CallState, LookUp, Outcome, ProviderCall, ProviderReply};
use payments::payment::id::{PaymentId, RefundId};
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::result::{CallKind, ProviderResult};
use payments::payment::{Payment, PaymentState, Refund, RefundReason, RefundState};
use payments::providers::adyen::{WINDOW_MS, authorize, capture, no_look_up, provider_key, refund, void};
use payments::providers::{Authorization, HttpAnswer, Provider};
use serde_json::{Value, json};

/// What a call sends: a payment that is captured at once or later, or what moves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Charge,
    Authorize,
    Capture,
    Void,
    Refund,
}

impl Sent {
    const fn kind(self) -> CallKind {
        match self {
            Self::Charge | Self::Authorize => CallKind::Authorize,
            Self::Capture => CallKind::Capture,
            Self::Void => CallKind::Void,
            Self::Refund => CallKind::Refund,
        }
    }
}

const KINDS: [Sent; 5] = [Sent::Charge, Sent::Authorize, Sent::Capture, Sent::Void, Sent::Refund];
const RESULTS: [&str; 12] = [
    "Authorised",
    "Refused",
    "Cancelled",
    "Error",
    "RedirectShopper",
    "ChallengeShopper",
    "IdentifyShopper",
    "PresentToShopper",
    "Pending",
    "Received",
    "PartiallyAuthorised",
    "SomethingNew",
];
const PSP: &str = "NC6HT9CRT65ZGN82";

/// What a call of this kind says by `reference`.
fn reference(kind: Sent) -> Value {
    serde_json::from_str::<Value>(&request(kind).body).unwrap()["reference"].clone()
}

fn paid(result: &str) -> Value {
    json!({ "pspReference": PSP, "resultCode": result, "merchantReference": reference(Sent::Charge) })
}

fn received() -> Value {
    json!({ "merchantAccount": "Shop", "paymentPspReference": PSP, "pspReference": "ZGN82NC6HT9CRT65", "status": "received" })
}

fn authorization(capture: bool) -> Authorization<'static> {
    Authorization {
        amount_minor: 2000,
        currency: Currency::USD,
        capture,
        payment_method: "8415718415172204",
        customer: Some("cus_1"),
        merchant_account: Some("Shop"),
        description: Some("an order"),
        metadata: &[],
        return_url: None,
        payment_url: "https://pay.example/payments/pay_1",
        resource: "pay_1",
        provider_key: "po_1",
    }
}

fn a_payment() -> Payment {
    Payment {
        id: PaymentId::in_object(ObjectId::from_bytes([7; 32])),
        amount: AmountMinor::new(2000).unwrap(),
        currency: Currency::USD,
        capture: false,
        order_id: None,
        description: None,
        customer: None,
        metadata: Vec::new(),
        return_url: None,
        receipt_email: None,
        receipt_content: Default::default(),
        provider: Provider::Adyen,
        merchant_account: Some("Shop".into()),
        provider_payment: Some(PSP.into()),
        link_revision: None,
        attempt: 1,
        moves: 1,
        state: PaymentState::Authorized,
        pending: None,
        failed_operation: None,
        ended_at_ms: None,
        captured_by: None,
        dispute: None,
        disputes: Vec::new(),
        receipted: false,
        check: None,
        doubts: Vec::new(),
        watch: None,
        refunded_elsewhere_minor: 0,
        in_provider_units: true,
        capture_before_ms: None,
        held_elsewhere_minor: 0,
        disbelieved: None,
        refunds_elsewhere: Vec::new(),
        card: None,
        is_erased: false,
        paid_at_ms: None,
        created_at_ms: 0,
    }
}

/// A payment of so much, reserved.
pub(crate) fn a_payment_in(currency: Currency, amount_minor: u64) -> Payment {
    Payment { currency, amount: AmountMinor::new(amount_minor).unwrap(), ..a_payment() }
}

fn a_refund(amount_minor: u64, reason: RefundReason) -> Refund {
    Refund {
        id: RefundId("re_1".into()),
        key_id: 1,
        amount: AmountMinor::new(amount_minor).unwrap(),
        reason,
        state: RefundState::Requested,
        provider_refund: None,
        told_at_ms: None,
        undone: None,
        created_at_ms: 0,
        version: 0,
    }
}

/// What a call of each kind sends; all of them are over 20.00 US dollars.
fn request(kind: Sent) -> FrozenRequest {
    let payment = a_payment();
    match kind {
        Sent::Charge => authorize(&authorization(true)).unwrap(),
        Sent::Authorize => authorize(&authorization(false)).unwrap(),
        Sent::Capture => capture(PSP, &payment, 2000, "po_1").unwrap(),
        Sent::Void => void(PSP, &payment, "po_1"),
        Sent::Refund => refund(PSP, &payment, &a_refund(2000, RefundReason::Duplicate), "po_1").unwrap(),
    }
}

fn a_call(kind: Sent) -> ProviderCall {
    ProviderCall {
        provider_key: "po_1".into(),
        state: CallState::InFlight,
        maybe_executed: false,
        ..support::a_call(Provider::Adyen, kind.kind(), request(kind))
    }
}

fn classify(kind: Sent, answer: &HttpAnswer) -> Outcome {
    Provider::Adyen.classify(&a_call(kind), answer)
}

/// What an outcome comes to.
#[derive(Debug, PartialEq)]
enum Meaning {
    Done(ProviderResult),
    Declined,
    Rejected,
    NotExecuted,
    Unknown,
    Sticky,
    /// Executed, under this id, and for a person to see.
    Unconfirmed(String),
}

fn meaning(kind: Sent, answer: &HttpAnswer) -> Meaning {
    match classify(kind, answer) {
        Outcome::Definitive(reply) => match reply.result {
            ProviderResult::Declined { .. } => Meaning::Declined,
            ProviderResult::Rejected { .. } => Meaning::Rejected,
            done => Meaning::Done(done),
        },
        Outcome::NotExecuted { .. } => Meaning::NotExecuted,
        Outcome::Unknown { answer_is_stored: false, .. } => Meaning::Unknown,
        Outcome::Unknown { answer_is_stored: true, .. } => Meaning::Sticky,
        Outcome::Unconfirmed(Unconfirmed { provider_id: Some(id), needs_review: true, .. }) => {
            Meaning::Unconfirmed(id)
        }
        other => panic!("Adyen does not answer by {other:?}"),
    }
}

fn unconfirmed() -> Meaning {
    Meaning::Unconfirmed(PSP.into())
}

fn charged() -> Meaning {
    Meaning::Done(ProviderResult::Charged { payment: PSP.into(), card: None })
}

#[test]
fn the_tries_and_moves_of_a_payment_have_keys_of_their_own() {
    let names = ["_auth", "_auth_2", "_capture_1", "_capture_2", "_void_1", "_refund_re_1", "_refund_re_2"];
    let mut keys: Vec<String> = names.map(|name| provider_key(&format!("pay_1{name}"))).into();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), names.len());
}

#[test]
fn the_bytes_are_these() {
    assert_eq!(
        request(Sent::Charge).body,
        concat!(
            r#"{"amount":{"value":2000,"currency":"USD"},"merchantAccount":"Shop","reference":"pay_1.po_1","#,
            r#""paymentMethod":{"type":"scheme","storedPaymentMethodId":"8415718415172204"},"shopperReference":"cus_1","#,
            r#""shopperInteraction":"ContAuth","recurringProcessingModel":"UnscheduledCardOnFile","captureDelayHours":0,"#,
            r#""authenticationData":{"attemptAuthentication":"never"},"#,
            r#""returnUrl":"https://pay.example/payments/pay_1","metadata":{"resource":"pay_1"}}"#,
        )
    );
    let reference = format!("{}.po_1", a_payment().id);
    let amount = r#""amount":{"value":2000,"currency":"USD"}"#;
    assert_eq!(
        [Sent::Capture, Sent::Void, Sent::Refund].map(|kind| request(kind).body),
        [
            format!(r#"{{"merchantAccount":"Shop",{amount},"reference":"{reference}"}}"#),
            format!(r#"{{"merchantAccount":"Shop","reference":"{reference}"}}"#),
            format!(
                r#"{{"merchantAccount":"Shop",{amount},"merchantRefundReason":"DUPLICATE","reference":"{reference}"}}"#
            ),
        ]
    );
    assert_eq!(provider_key("pay_1_auth"), "po_LhvWtVMy4B_1zGr8xgTqn_ez");
}

#[test]
fn the_answers_to_payments_mean_what_the_documentation_says() {
    let authorized = Meaning::Done(ProviderResult::Authorized {
        payment: PSP.into(),
        capture_before_ms: None,
        card: None,
    });
    assert_eq!(meaning(Sent::Charge, &answer(200, paid("Authorised"))), charged());
    assert_eq!(meaning(Sent::Authorize, &answer(200, paid("Authorised"))), authorized);
    for refused in ["Refused", "Cancelled"] {
        assert_eq!(meaning(Sent::Charge, &answer(200, paid(refused))), Meaning::Declined, "{refused}");
    }
    for undecided in ["Pending", "Received"] {
        for kind in [Sent::Charge, Sent::Authorize] {
            let processing = Meaning::Done(ProviderResult::Processing { payment: PSP.into() });
            assert_eq!(meaning(kind, &answer(200, paid(undecided))), processing, "{undecided}");
        }
    }
    // `Error` is one of the communication: the issuer may hold the money.
    for strange in ["Error", "AuthenticationFinished", "AuthenticationNotRequired", "Success", ""] {
        for kind in [Sent::Charge, Sent::Authorize] {
            assert_eq!(meaning(kind, &answer(200, paid(strange))), unconfirmed(), "{strange}");
        }
    }
    // All or nothing is asked for: what is held is given up, and only then it is declined.
    for kind in [Sent::Charge, Sent::Authorize] {
        let outcome = classify(kind, &answer(200, paid("PartiallyAuthorised")));
        let Outcome::LeftOpen(ProviderReply {
            result: ProviderResult::Declined { payment, code, .. }, ..
        }) = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!((payment.as_deref(), code.as_str()), (Some(PSP), "partially_authorized"));
    }
    for unreadable in
        [json!({}), json!({ "resultCode": "Authorised" }), json!({ "pspReference": PSP }), received()]
    {
        assert_eq!(meaning(Sent::Charge, &answer(200, unreadable.clone())), Meaning::Unknown, "{unreadable}");
    }
}

#[test]
fn the_answers_to_modifications_mean_received_and_no_more() {
    let id = "ZGN82NC6HT9CRT65".to_owned();
    for (kind, done) in [
        (Sent::Capture, ProviderResult::Received { modification: id.clone() }),
        (Sent::Void, ProviderResult::Received { modification: id.clone() }),
        (Sent::Refund, ProviderResult::Refunded { refund: id, settled: false }),
    ] {
        assert_eq!(meaning(kind, &answer(201, received())), Meaning::Done(done));
        let mut other = received();
        other["status"] = json!("rejected");
        let is_kept = Meaning::Unconfirmed("ZGN82NC6HT9CRT65".into());
        assert_eq!(meaning(kind, &answer(201, other)), is_kept, "{kind:?}");
        assert_eq!(meaning(kind, &answer(201, paid("Authorised"))), Meaning::Unknown, "{kind:?}");
    }
}

#[test]
fn an_answer_that_wants_the_person_is_a_no() {
    for result in ["RedirectShopper", "ChallengeShopper", "IdentifyShopper", "PresentToShopper"] {
        for id in [Some(PSP), None] {
            let mut body = paid(result);
            body["pspReference"] = json!(id);
            let Outcome::Definitive(reply) = classify(Sent::Authorize, &answer(200, body)) else {
                panic!("{result}")
            };
            let ProviderResult::Declined { payment, code, .. } = reply.result else { panic!("{result}") };
            assert_eq!((payment.as_deref(), code.as_str()), (id, "authentication_required"));
        }
    }
}

#[test]
fn an_answer_without_an_id_is_nothing_that_has_one() {
    for result in RESULTS.into_iter().filter(|result| !result.ends_with("Shopper")) {
        let mut nameless = paid(result);
        nameless.as_object_mut().unwrap().remove("pspReference");
        assert_eq!(meaning(Sent::Charge, &answer(200, nameless)), Meaning::Unknown, "{result}");
    }
}

#[test]
fn another_amount_than_was_asked_for_is_never_a_success() {
    for kind in [Sent::Charge, Sent::Authorize, Sent::Capture, Sent::Refund] {
        let good =
            if matches!(kind, Sent::Charge | Sent::Authorize) { paid("Authorised") } else { received() };
        for (currency, value) in [("USD", 1999), ("USD", 2001), ("USD", 0), ("EUR", 2000), ("usd", 2000)] {
            let mut other = good.clone();
            let is_kept = Meaning::Unconfirmed(good["pspReference"].as_str().unwrap().to_owned());
            other["amount"] = json!({ "currency": currency, "value": value });
            assert_eq!(meaning(kind, &answer(200, other)), is_kept, "{kind:?} {value} {currency}");
        }
        let mut dropped = a_call(kind);
        dropped.request.body.clear();
        let outcome = Provider::Adyen.classify(&dropped, &answer(200, good));
        assert!(
            matches!(outcome, Outcome::Unconfirmed(Unconfirmed { needs_review: true, .. })),
            "nothing to compare with"
        );
    }
}

#[test]
fn what_names_another_payment_or_request_is_not_believed() {
    for kind in KINDS {
        let is_payment = matches!(kind, Sent::Charge | Sent::Authorize);
        let good = if is_payment { paid("Authorised") } else { received() };
        let names: &[&str] =
            if is_payment { &["merchantReference"] } else { &["reference", "paymentPspReference"] };
        for name in names {
            let mut said = good.clone();
            said[name] = if *name == "paymentPspReference" { json!(PSP) } else { reference(kind) };
            assert!(matches!(meaning(kind, &answer(200, said.clone())), Meaning::Done(_)), "{kind:?} {name}");
            said[name] = json!(null);
            assert!(matches!(meaning(kind, &answer(200, said.clone())), Meaning::Done(_)), "{kind:?} {name}");
            said[name] = json!("another");
            is_not_believed(kind, said);
        }
    }
    for result in ["Refused", "RedirectShopper"] {
        let mut refused = paid(result);
        refused["merchantReference"] = json!("another");
        is_not_believed(Sent::Charge, refused);
    }
}

/// Nor is its id kept: by that, what is told of the call itself would be taken for another payment's.
fn is_not_believed(kind: Sent, said: Value) {
    let Outcome::Unconfirmed(made) = classify(kind, &answer(200, said.clone())) else { panic!("{said}") };
    assert_eq!((made.provider_id, made.needs_review), (None, true), "{said}");
}

#[test]
fn an_id_that_could_lead_elsewhere_is_not_believed() {
    for id in ["", "a/../b", "a?b", "a b", "é"] {
        let mut body = paid("Authorised");
        body["pspReference"] = json!(id);
        assert_eq!(meaning(Sent::Charge, &answer(200, body)), Meaning::Unknown, "{id}");
    }
}

#[test]
fn a_key_is_sent_again_for_less_than_the_seven_days_that_it_is_kept() {
    const DAY_MS: u64 = 24 * 3_600_000;
    const { assert!(WINDOW_MS <= 6 * DAY_MS && WINDOW_MS > 0) };
}

#[test]
fn there_is_nothing_to_ask() {
    assert!(matches!(no_look_up(), LookUp::Inconclusive { from_the_start: true, .. }));
    assert_eq!(Provider::Adyen.look_up_request(&a_call(Sent::Charge)), None);
    assert!(!Provider::Adyen.answers_questions());
}
