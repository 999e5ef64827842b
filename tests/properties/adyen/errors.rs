//! What Adyen's errors and refusals mean: which prove that nothing moved, and which are worth another try.

use super::{KINDS, Meaning, PSP, Sent, classify, meaning, paid};
use crate::support::answer;
use once::call::RefusalScope;
use payments::engine::Outcome;
use payments::payment::result::ProviderResult;
use payments::providers::HttpAnswer;
use serde_json::{Value, json};

pub(super) fn error(code: &str, message: &str) -> Value {
    json!({ "status": 422, "errorCode": code, "message": message, "errorType": "validation", "pspReference": PSP })
}

/// The other form of Adyen's errors.
pub(super) fn rfc_7807(code: &str, detail: &str) -> Value {
    json!({ "type": "https://docs.adyen.com/errors/validation", "title": "An error", "status": 422, "detail": detail,
        "requestId": PSP, "errorCode": code })
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
    for (code, kind) in [("905", "validation"), ("905_1", "internal"), ("000", "configuration")] {
        let mut body = error(code, "Payment details are not supported");
        body["errorType"] = json!(kind);
        let Outcome::Unknown { answer_is_stored: true, reason } = classify(Sent::Charge, &answer(500, body))
        else {
            panic!("it may have reached the issuer")
        };
        assert!(reason.contains(kind), "{reason}");
    }
}

/// No acquirer was chosen, so nothing was sent to one. Where Adyen says that the key is unused, or that it is busy, that counts.
#[test]
fn a_payment_for_which_there_is_no_acquirer_is_refused() {
    let message = "Could not find an acquirer account for the provided txvariant, currency, and action";
    for (code, message, transient, expected) in [
        ("905", "Payment details are not supported", None, Meaning::Rejected),
        ("905_1", message, Some(false), Meaning::Rejected),
        ("905_1", message, Some(true), Meaning::NotExecuted),
        ("905", "Too many requests", None, Meaning::NotExecuted),
    ] {
        let mut body = error(code, message);
        body["errorType"] = json!("configuration");
        let answer = HttpAnswer { should_retry: transient, ..answer(500, body) };
        assert_eq!(meaning(Sent::Charge, &answer), expected, "{code} {message} {transient:?}");
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
