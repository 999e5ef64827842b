//! Whatever is asked and answered: what holds for every request and every answer.

use super::errors::{error, rfc_7807};
use super::{
    KINDS, Meaning, PSP, RESULTS, Sent, a_payment, a_refund, authorization, charged, classify, meaning, paid,
    received, unconfirmed,
};
use crate::support::answer;
use once::call::Unconfirmed;
use once::id::ObjectId;
use payments::engine::Outcome;
use payments::payment::id::PaymentId;
use payments::payment::money::AMOUNT_MAX_MINOR;
use payments::payment::result::{CallKind, ProviderResult};
use payments::payment::{Payment, RefundReason};
use payments::providers::adyen::{authorize, capture, provider_key, refund, void};
use payments::providers::{Authorization, HttpAnswer};
use proptest::prelude::*;
use serde_json::{Value, json};

fn plausible_body() -> impl Strategy<Value = String> {
    let amount = prop::option::of((prop::sample::select(vec![0u64, 1999, 2000, 2001]), "USD|EUR"));
    let with_amount = |mut body: Value, amount: Option<(u64, String)>| {
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
        amount_minor in 1..=AMOUNT_MAX_MINOR, manual: bool, payment_method in ".{0,12}", customer in prop::option::of(".{0,12}"),
        return_url in prop::option::of(".{0,12}"), resource in "[ -~]{0,12}", key in "[ -~]{0,12}",
    ) {
        let make = || authorize(&Authorization {
            amount_minor,
            capture: !manual,
            payment_method: &payment_method,
            customer: customer.as_deref(),
            return_url: return_url.as_deref(),
            resource: &resource,
            provider_key: &key,
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
    fn modifications_are_stable_and_name_the_payment_and_the_call(amount_minor in 1..=99_999_999u64, key in "[a-z]{1,20}") {
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
        let key = provider_key(&one);
        prop_assert!(key.len() <= 64 && key.starts_with("po_"));
        prop_assert!(key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
        prop_assert_eq!(&key, &provider_key(&one));
        prop_assert_eq!(key == provider_key(&other), one == other);
        // The longest resource there is leaves room for the key in the 80 characters of a reference.
        let payment = Payment { id: PaymentId::in_object(ObjectId::from_bytes(object)), ..a_payment() };
        let body: Value = serde_json::from_str(&void(PSP, &payment, &key).body).unwrap();
        let reference = body["reference"].as_str().unwrap();
        prop_assert!(reference.len() <= 80 && reference.ends_with(&key) && reference.starts_with(&payment.id.to_string()));
    }
}
