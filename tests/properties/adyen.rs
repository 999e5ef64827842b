//! The meaning of Adyen's answers, and the bytes that it gets: facts from its documentation, and what must hold for any.

use once::call::{FrozenRequest, RefusalScope, Unconfirmed};
use once::id::ObjectId;
use payments::engine::{CallState, LookUp, Outcome, ProviderCall, ProviderReply};
use payments::payment::id::{PaymentId, RefundId};
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::result::{CallKind, ProviderResult};
use payments::payment::{Payment, PaymentState, Refund, RefundReason, RefundState};
use payments::providers::adyen::{WINDOW_MS, authorize, capture, derived_key, no_look_up, refund, void};
use payments::providers::{Authorization, HttpAnswer, Provider};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{self, answer};

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

fn error(code: &str, message: &str) -> Value {
    json!({ "status": 422, "errorCode": code, "message": message, "errorType": "validation", "pspReference": PSP })
}

/// The other form of Adyen's errors.
fn rfc_7807(code: &str, detail: &str) -> Value {
    json!({ "type": "https://docs.adyen.com/errors/validation", "title": "An error", "status": 422, "detail": detail,
        "requestId": PSP, "errorCode": code })
}

fn paid(result: &str) -> Value {
    json!({ "pspReference": PSP, "resultCode": result, "merchantReference": "r" })
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
        derived_key: "po_1",
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
        dispute: None,
        receipted: false,
        check: None,
        doubts: Vec::new(),
        watch: None,
        refunded_elsewhere_minor: 0,
        in_provider_units: true,
        capture_before_ms: None,
        held_elsewhere_minor: 0,
        refunds_elsewhere: Vec::new(),
        created_at_ms: 0,
    }
}

/// A payment of so much, reserved.
pub(crate) fn a_payment_in(currency: Currency, amount_minor: u32) -> Payment {
    Payment { currency, amount: AmountMinor::new(amount_minor).unwrap(), ..a_payment() }
}

fn a_refund(amount_minor: u32, reason: RefundReason) -> Refund {
    Refund {
        id: RefundId("re_1".into()),
        key_id: 1,
        amount: AmountMinor::new(amount_minor).unwrap(),
        reason,
        state: RefundState::Requested,
        provider_refund: None,
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
        derived_key: "po_1".into(),
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
    Meaning::Done(ProviderResult::Charged { payment: PSP.into() })
}

fn plausible_body() -> impl Strategy<Value = String> {
    let amount = prop::option::of((prop::sample::select(vec![0u32, 1999, 2000, 2001]), "USD|EUR"));
    let with_amount = |mut body: Value, amount: Option<(u32, String)>| {
        if let Some((value, currency)) = amount {
            body["amount"] = json!({ "currency": currency, "value": value });
        }
        body.to_string()
    };
    let payment = (prop::sample::select(&RESULTS[..]), amount.clone())
        .prop_map(move |(result, amount)| with_amount(paid(result), amount));
    let modification = amount.prop_map(move |amount| with_amount(received(), amount));
    let codes = ["704", "703", "702", "130", "905", ""];
    let messages = ["m", "Too many requests"];
    let error =
        (prop::sample::select(codes.to_vec()), prop::sample::select(messages.to_vec()), any::<bool>())
            .prop_map(|(code, message, by_rfc_7807)| match by_rfc_7807 {
                true => rfc_7807(code, message).to_string(),
                false => error(code, message).to_string(),
            });
    prop_oneof![payment, modification, error, Just("<html>502 Bad Gateway</html>".to_owned()), ".{0,20}",]
}

fn any_answer() -> impl Strategy<Value = HttpAnswer> {
    let statuses = prop_oneof![
        any::<u16>(),
        100..600u16,
        prop::sample::select(vec![200u16, 201, 400, 401, 409, 422, 429, 500])
    ];
    (statuses, any::<Option<bool>>(), any::<Option<u64>>(), plausible_body()).prop_map(
        |(status, should_retry, retry_after_ms, body)| HttpAnswer {
            status,
            should_retry,
            retry_after_ms,
            replayed: false,
            request_id: None,
            body,
        },
    )
}

proptest! {
    #[test]
    fn an_answer_is_never_taken_for_more_than_it_says(kind in prop::sample::select(&KINDS[..]), answer in any_answer()) {
        let body = serde_json::from_str::<Value>(&answer.body).unwrap_or_default();
        let success = (200..300).contains(&answer.status);
        let all_of_it = body["amount"].is_null() || body["amount"] == json!({ "currency": "USD", "value": 2000 });
        let is_payment = kind.kind() == CallKind::Authorize;
        match classify(kind, &answer) {
            Outcome::Definitive(reply) => {
                prop_assert_eq!(reply.status, answer.status);
                prop_assert_eq!(reply.request_id.as_deref(), body["pspReference"].as_str().or(body["requestId"].as_str()));
                if let ProviderResult::Rejected { .. } = reply.result {
                    prop_assert!([400, 404, 422].contains(&answer.status) && answer.should_retry != Some(true));
                    prop_assert!(body["errorCode"].is_string() && body["errorCode"] != "704" && body["errorCode"] != "703");
                    return Ok(());
                }
                prop_assert!(success);
                let (result, status) = (body["resultCode"].as_str(), body["status"].as_str());
                match reply.result {
                    ProviderResult::Charged { .. } => {
                        prop_assert!(kind == Sent::Charge && result == Some("Authorised") && all_of_it);
                    }
                    ProviderResult::Authorized { .. } => {
                        prop_assert!(kind == Sent::Authorize && result == Some("Authorised") && all_of_it);
                    }
                    ProviderResult::Processing { .. } => {
                        prop_assert!(is_payment && matches!(result, Some("Pending" | "Received")));
                    }
                    ProviderResult::Received { .. } => {
                        prop_assert!(matches!(kind, Sent::Capture | Sent::Void));
                        prop_assert!(status == Some("received") && (kind == Sent::Void || all_of_it));
                    }
                    ProviderResult::Refunded { settled, .. } => {
                        prop_assert!(kind == Sent::Refund && status == Some("received") && all_of_it);
                        prop_assert!(!settled, "only the webhook says that it is done");
                    }
                    ProviderResult::Declined { .. } => {
                        let is_no = result.is_some_and(|result| result != "Error" && RESULTS[1..8].contains(&result));
                        prop_assert!(is_payment && is_no);
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            Outcome::NotExecuted { retry_after_ms, .. } => {
                let is_transient = answer.should_retry == Some(true) && body["errorCode"] != "704";
                let is_at_the_door = [401, 403].contains(&answer.status) && body["errorCode"].is_string();
                let is_busy = answer.status == 429 || answer.status >= 500 && answer.body.contains("Too many requests");
                let has_no_keys = body["errorCode"] == "703";
                prop_assert!(!success && (is_transient || is_at_the_door || is_busy || has_no_keys), "it may be executed");
                prop_assert_eq!(retry_after_ms, answer.retry_after_ms);
            }
            Outcome::Unknown { answer_is_stored, reason } => {
                prop_assert!(answer_is_stored || answer.should_retry != Some(false), "told not to retry");
                prop_assert!(success || !answer_is_stored || answer.should_retry != Some(true), "told to retry");
                let status = format!("({})", answer.status);
                prop_assert!(reason.ends_with(&status), "{}", reason);
            }
            Outcome::Unconfirmed(Unconfirmed { provider_id, needs_review, reason }) => {
                prop_assert!(success && needs_review);
                prop_assert_eq!(provider_id.as_deref(), body["pspReference"].as_str());
                let status = format!("({})", answer.status);
                prop_assert!(reason.ends_with(&status), "{}", reason);
            }
            // A part is held: it is given up, and that ends in a refusal.
            Outcome::LeftOpen(reply) => {
                prop_assert!(success && is_payment && body["resultCode"] == "PartiallyAuthorised");
                prop_assert!(!reply.result.took_money() && reply.result.payment() == body["pspReference"].as_str());
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn a_success_is_never_a_failure(body in plausible_body(), status in 200..300u16) {
        let mut success = answer(status, Value::Null);
        success.body = body;
        let whole = serde_json::from_str::<Value>(&success.body).unwrap_or_default();
        let other = !whole["amount"].is_null() && whole["amount"] != json!({ "currency": "USD", "value": 2000 });
        if whole["resultCode"] == "Authorised" {
            prop_assert_eq!(meaning(Sent::Charge, &success), if other { unconfirmed() } else { charged() });
        }
        if whole["status"] == "received" {
            let done = matches!(meaning(Sent::Refund, &success), Meaning::Done(_));
            prop_assert_eq!(done, !other);
        }
    }

    #[test]
    fn a_success_that_breaks_off_is_asked_for_again(kind in prop::sample::select(&KINDS[..]), at in 0..60usize) {
        let body = match kind {
            Sent::Charge | Sent::Authorize => paid("Authorised"),
            Sent::Capture | Sent::Void | Sent::Refund => received(),
        };
        let mut broken = answer(200, body);
        broken.body.truncate(at);
        prop_assert_eq!(meaning(kind, &broken), Meaning::Unknown);
    }

    #[test]
    fn equal_payments_are_equal_bytes_and_everything_is_in_them(
        amount_minor: u32, manual: bool, payment_method in ".{0,12}", customer in prop::option::of(".{0,12}"),
        return_url in prop::option::of(".{0,12}"), resource in "[ -~]{0,12}", key in "[ -~]{0,12}",
    ) {
        let make = || authorize(&Authorization {
            amount_minor,
            capture: !manual,
            payment_method: &payment_method,
            customer: customer.as_deref(),
            return_url: return_url.as_deref(),
            resource: &resource,
            derived_key: &key,
            ..authorization(false)
        }).unwrap();
        let request = make();
        prop_assert_eq!(&request, &make());
        prop_assert_eq!(&request.path, "/payments");
        let body: Value = serde_json::from_str(&request.body).unwrap();
        prop_assert_eq!(&body.to_string(), &request.body, "compact, and every member once");
        prop_assert_eq!(&body["amount"], &json!({ "value": amount_minor, "currency": "USD" }));
        prop_assert_eq!(&body["paymentMethod"], &json!({ "type": "scheme", "storedPaymentMethodId": payment_method }));
        prop_assert_eq!(body["shopperReference"].as_str(), customer.as_deref());
        // The schema wants an address, also where nobody is there; and the model says whether somebody is.
        let page = authorization(false).payment_url;
        prop_assert_eq!(body["returnUrl"].as_str(), Some(return_url.as_deref().unwrap_or(page)));
        let model = if return_url.is_some() { "CardOnFile" } else { "UnscheduledCardOnFile" };
        prop_assert_eq!(&body["recurringProcessingModel"], model);
        prop_assert_eq!(&body["shopperInteraction"], "ContAuth");
        let reference = format!("{resource}.{key}");
        prop_assert_eq!(body["reference"].as_str(), Some(reference.as_str()));
        // One of the two is always said: the default of the merchant's account must not decide.
        prop_assert_eq!(body["captureDelayHours"].as_u64(), (!manual).then_some(0));
        prop_assert_eq!(body["additionalData"]["manualCapture"].as_str(), manual.then_some("true"));
    }

    #[test]
    fn modifications_are_stable_and_name_the_payment_and_the_call(amount_minor in 1..=99_999_999u32, key in "[a-z]{1,20}") {
        let payment = a_payment();
        let refund_row = a_refund(amount_minor, RefundReason::Fraudulent);
        let make = || [
            capture(PSP, &payment, amount_minor, &key).unwrap(),
            void(PSP, &payment, &key),
            refund(PSP, &payment, &refund_row, &key).unwrap(),
        ];
        let requests = make();
        prop_assert_eq!(&requests, &make());
        for (request, (path, has_amount)) in requests.iter().zip([("captures", true), ("cancels", false), ("refunds", true)]) {
            prop_assert_eq!(&request.path, &format!("/payments/{PSP}/{path}"));
            let body: Value = serde_json::from_str(&request.body).unwrap();
            prop_assert_eq!(&body.to_string(), &request.body);
            prop_assert_eq!(&body["merchantAccount"], "Shop");
            let amount = if has_amount { json!({ "value": amount_minor, "currency": "USD" }) } else { Value::Null };
            prop_assert_eq!(&body["amount"], &amount);
            let reference = format!("{}.{key}", payment.id);
            prop_assert_eq!(body["reference"].as_str(), Some(reference.as_str()));
        }
    }

    #[test]
    fn a_key_is_short_stable_and_of_one_call(one in ".{0,200}", other in ".{0,200}", object: [u8; 32]) {
        let key = derived_key(&one);
        prop_assert!(key.len() <= 64 && key.starts_with("po_"));
        prop_assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
        prop_assert_eq!(&key, &derived_key(&one));
        prop_assert_eq!(key == derived_key(&other), one == other);
        // The longest resource there is leaves room for the key in the 80 characters of a reference.
        let payment = Payment { id: PaymentId::in_object(ObjectId::from_bytes(object)), ..a_payment() };
        let body: Value = serde_json::from_str(&void(PSP, &payment, &key).body).unwrap();
        let reference = body["reference"].as_str().unwrap();
        prop_assert!(reference.len() <= 80 && reference.ends_with(&key) && reference.starts_with(&payment.id.to_string()));
    }
}

#[test]
fn the_tries_and_moves_of_a_payment_have_keys_of_their_own() {
    let names = ["_auth", "_auth_2", "_capture_1", "_capture_2", "_void_1", "_refund_re_1", "_refund_re_2"];
    let mut keys: Vec<String> = names.map(|name| derived_key(&format!("pay_1{name}"))).into();
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
    assert_eq!(derived_key("pay_1_auth"), "po_LhvWtVMy4B_1zGr8xgTqn_ez");
}

#[test]
fn the_answers_to_payments_mean_what_the_documentation_says() {
    let authorized =
        Meaning::Done(ProviderResult::Authorized { payment: PSP.into(), capture_before_ms: None });
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
        let Outcome::Definitive(reply) = classify(Sent::Authorize, &answer(200, paid(result))) else {
            panic!("{result}")
        };
        let ProviderResult::Declined { payment, code, .. } = reply.result else { panic!("{result}") };
        assert_eq!((payment.as_deref(), code.as_str()), (Some(PSP), "authentication_required"));
    }
}

#[test]
fn a_refusal_says_why_in_the_words_of_both_providers() {
    for (result, code, reason, expected) in [
        ("Refused", "2", "Refused", ("card_declined", Some("generic_decline"))),
        ("Refused", "12", "Not enough balance", ("card_declined", Some("insufficient_funds"))),
        ("Refused", "6", "Expired Card", ("card_declined", Some("expired_card"))),
        ("Refused", "24", "CVC Declined", ("card_declined", Some("incorrect_cvc"))),
        ("Refused", "20", "FRAUD", ("card_declined", Some("fraudulent"))),
        (
            "Refused",
            "38",
            "Authentication required",
            ("authentication_required", Some("authentication_required")),
        ),
        ("Refused", "99", "Some (new) Reason!", ("card_declined", Some("some_new_reason"))),
        ("Refused", "99", "…", ("card_declined", None)),
        ("Cancelled", "16", "Shopper Cancelled", ("payment_canceled", Some("shopper_cancelled"))),
    ] {
        let mut body = paid(result);
        body["refusalReason"] = json!(reason);
        body["refusalReasonCode"] = json!(code);
        let Outcome::Definitive(reply) = classify(Sent::Charge, &answer(200, body)) else {
            panic!("{reason}")
        };
        let ProviderResult::Declined { payment, code, decline_code, message } = reply.result else {
            panic!("{reason}")
        };
        assert_eq!((code.as_str(), decline_code.as_deref()), expected, "{reason}");
        assert_eq!(payment.as_deref(), Some(PSP), "a payment that was refused persists");
        assert!(
            message.ends_with('.') && !message.to_lowercase().contains("fraud"),
            "for a person: {message}"
        );
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
fn a_request_in_progress_is_704_with_422_or_409() {
    for status in [409, 422] {
        let in_progress = answer(status, error("704", "request already processed or in progress"));
        for kind in KINDS {
            assert_eq!(meaning(kind, &in_progress), Meaning::Unknown, "{kind:?} {status}");
        }
    }
    assert_eq!(meaning(Sent::Charge, &answer(409, error("000", "conflict"))), Meaning::Unknown);
    assert_eq!(meaning(Sent::Charge, &answer(422, error("130", "reference"))), Meaning::Rejected);
}

#[test]
fn a_gateway_says_nothing_for_adyen() {
    for status in [500, 502, 503, 504] {
        let mut gateway = answer(status, Value::Null);
        gateway.body = "<html>Bad Gateway</html>".to_owned();
        for kind in KINDS {
            assert_eq!(meaning(kind, &gateway), Meaning::Unknown, "{kind:?} {status}");
        }
    }
}

#[test]
fn only_a_transient_error_is_worth_another_try() {
    let body = error("905", "Payment details are not supported");
    for (status, transient, expected) in [
        (500, Some(true), Meaning::NotExecuted),
        (500, Some(false), Meaning::Sticky),
        (500, None, Meaning::Sticky),
        (503, Some(true), Meaning::NotExecuted),
        (503, None, Meaning::Sticky),
        (422, Some(true), Meaning::NotExecuted),
        (422, Some(false), Meaning::Rejected),
        (422, None, Meaning::Rejected),
        (400, None, Meaning::Rejected),
        (404, None, Meaning::Rejected),
        // Refused at the door, whatever else is said.
        (401, None, Meaning::NotExecuted),
        (403, Some(false), Meaning::NotExecuted),
        (429, Some(true), Meaning::NotExecuted),
        // Not a word of Adyen's that settles anything.
        (302, None, Meaning::Unknown),
        (402, None, Meaning::Unknown),
        (408, None, Meaning::Unknown),
        (413, Some(false), Meaning::Sticky),
    ] {
        let answer = HttpAnswer { should_retry: transient, ..answer(status, body.clone()) };
        for kind in KINDS {
            assert_eq!(meaning(kind, &answer), expected, "{kind:?} {status} {transient:?}");
        }
    }
    assert_eq!(meaning(Sent::Charge, &answer(404, json!("<html>"))), Meaning::Unknown, "not Adyen's");
}

#[test]
fn a_refusal_proves_no_more_than_it_says() {
    for (status, code, message, transient, expected) in [
        // The account is refused before any key is looked at, whatever copy of the send it is.
        (401, "000", "Unauthorized", None, RefusalScope::Send),
        (403, "901", "Invalid Merchant Account", Some(true), RefusalScope::Send),
        // Another copy may have come through.
        (429, "000", "Too many requests", Some(true), RefusalScope::Copy),
        (500, "905", "Too many requests", None, RefusalScope::Copy),
        (503, "703", "Idempotency key store unavailable", Some(true), RefusalScope::Copy),
        // The key is unused.
        (500, "905", "Payment details are not supported", Some(true), RefusalScope::Key),
        (422, "905_1", "Could not find an acquirer account", Some(true), RefusalScope::Key),
    ] {
        for body in [error(code, message), rfc_7807(code, message)] {
            let answer = HttpAnswer { should_retry: transient, ..answer(status, body) };
            for kind in KINDS {
                let Outcome::NotExecuted { scope, .. } = classify(kind, &answer) else {
                    panic!("{kind:?} {status} {code} may have been executed");
                };
                assert_eq!(scope, expected, "{kind:?} {status} {code}");
            }
        }
    }
}

/// The table of Adyen's answers, row by row, in both forms of its errors.
#[test]
fn each_answer_means_what_the_documentation_says_of_it() {
    for (status, code, message, transient, expected) in [
        // The first send of this key is at work, or done: also where the answer calls itself transient.
        (409, "704", "request already processed or in progress", None, Meaning::Unknown),
        (422, "704", "request already processed or in progress", Some(true), Meaning::Unknown),
        // The key store is down.
        (503, "703", "Idempotency key store unavailable", None, Meaning::NotExecuted),
        (400, "702", "Unexpected input", None, Meaning::Rejected),
        (401, "000", "Unauthorized", None, Meaning::NotExecuted),
        (403, "901", "Invalid Merchant Account", None, Meaning::NotExecuted),
        (404, "000", "Not found", None, Meaning::Rejected),
        (422, "14_030", "Return URL is missing.", None, Meaning::Rejected),
        // A rate limit in the clothes of an error.
        (500, "905", "Too many requests", None, Meaning::NotExecuted),
        (500, "905", "Payment details are not supported", None, Meaning::Sticky),
        (503, "000", "Internal error", None, Meaning::Sticky),
        (500, "904", "Invalid", Some(true), Meaning::NotExecuted),
    ] {
        for body in [error(code, message), rfc_7807(code, message)] {
            let answer = HttpAnswer { should_retry: transient, ..answer(status, body) };
            for kind in KINDS {
                assert_eq!(meaning(kind, &answer), expected, "{kind:?} {status} {code}: {}", answer.body);
            }
        }
    }
    // Something in between refuses without Adyen's words: what Adyen has to say is still to be heard.
    for status in [400, 401, 403, 404, 422, 500, 502] {
        assert_eq!(meaning(Sent::Refund, &answer(status, "<html>No</html>")), Meaning::Unknown, "{status}");
    }
}

#[test]
fn the_kind_of_a_servers_error_is_shown_to_a_person() {
    for kind in ["configuration", "validation", "internal"] {
        let mut body = error("905", "Payment details are not supported");
        body["errorType"] = json!(kind);
        let Outcome::Unknown { answer_is_stored: true, reason } = classify(Sent::Charge, &answer(500, body))
        else {
            panic!("it may have reached the issuer")
        };
        assert!(reason.contains(kind), "{reason}");
    }
}

#[test]
fn a_rejection_by_rfc_7807_is_read_alike() {
    let Outcome::Definitive(reply) =
        classify(Sent::Charge, &answer(422, rfc_7807("14_030", "Return URL is missing.")))
    else {
        panic!("a refusal is definitive")
    };
    assert_eq!(reply.request_id.as_deref(), Some(PSP));
    let ProviderResult::Rejected { code, message, .. } = reply.result else { panic!("a refusal") };
    assert_eq!((code.as_str(), message.as_str()), ("adyen_14_030", "Return URL is missing."));
}

#[test]
fn a_key_that_was_used_with_other_parameters_says_nothing_about_the_money() {
    for status in [400, 409, 422] {
        let reused = answer(status, error("702", "Idempotency key was used with a different request"));
        assert_eq!(meaning(Sent::Charge, &reused), Meaning::Sticky, "{status}");
    }
}

#[test]
fn a_rejection_names_the_error_and_the_request() {
    let Outcome::Definitive(reply) = classify(Sent::Refund, &answer(422, error("14_006", "too late"))) else {
        panic!("a refusal is definitive")
    };
    assert_eq!(reply.request_id.as_deref(), Some(PSP));
    let ProviderResult::Rejected { payment, code, message, found } = reply.result else {
        panic!("a refusal")
    };
    assert_eq!((payment, code.as_str(), message.as_str(), found), (None, "adyen_14_006", "too late", None));
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
