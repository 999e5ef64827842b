//! What a ride asks of the payments API, and what its answers mean.
//!
//! The API executes each key once and says at every later request what came of it: so whatever is not a final answer is asked for again
//! under the same key.

use crate::rides::id::RideId;
use once::call::{LookUp, Outcome, ProviderReply, RefusalScope};
use once::domain::{Answer, Provider};
use once::request::FrozenRequest;
use once::times::Times;
use serde::{Deserialize, Serialize};

use super::ride::{FARE_CURRENCY, FARE_MINOR, RideRequest, Unpaid};

/// Where a ride is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaymentsApi;

impl Provider for PaymentsApi {
    type Kind = ();

    fn window_ms(self, times: &Times) -> u64 {
        times.provider_window_ms
    }

    fn answers_questions(self) -> bool {
        true
    }
}

/// What a final answer means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Charge {
    /// It is paid.
    Paid {
        /// The provider's id of the payment, or ours where it has none.
        charge: String,
    },
    /// It was not charged: an answer for good.
    Failed(Unpaid),
    /// The API takes no such payment.
    Refused,
}

impl Answer for Charge {
    fn name(&self) -> &'static str {
        match self {
            Self::Paid { .. } => "paid",
            Self::Failed(_) => "failed",
            Self::Refused => "refused",
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused)
    }
}

/// The body of `POST /payments`. The operator finds the payment by the ride's id, as an order; the bank's ledger has it, too.
pub fn payment(id: RideId, request: &RideRequest) -> FrozenRequest {
    let (amount, id) = (FARE_MINOR.to_string(), id.to_string());
    let mut fields = vec![
        ("amount", amount.as_str()),
        ("currency", FARE_CURRENCY),
        ("order_id", &id),
        ("description", "Rocket ride"),
        ("provider", "stripe"),
        ("payment_method", &request.payment_method),
        ("metadata[ride]", &id),
    ];
    fields.extend(request.receipt_email.as_deref().map(|email| ("receipt_email", email)));
    FrozenRequest::new("/payments".to_owned(), serde_urlencoded::to_string(fields).unwrap_or_default())
}

/// A payment, as the API shows it.
#[derive(Deserialize)]
struct Payment {
    id: String,
    status: String,
    provider_payment: Option<String>,
    failure: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    decline_code: Option<String>,
    message: String,
}

impl Payment {
    /// How it ended; `None` while that is open.
    fn charge(self) -> Option<Charge> {
        let charge = self.provider_payment.unwrap_or(self.id);
        match (self.status.as_str(), self.failure) {
            ("succeeded" | "disputed", _) => Some(Charge::Paid { charge }),
            ("declined" | "failed", Some(Failure { code, decline_code, message })) => {
                Some(Charge::Failed(Unpaid { charge: Some(charge), code, decline_code, message }))
            }
            _ => None,
        }
    }
}

/// A problem: what the API answers where it does not answer with a payment.
#[derive(Deserialize)]
struct Problem {
    r#type: String,
    detail: String,
    code: Option<String>,
    decline_code: Option<String>,
    payment: Option<Payment>,
}

/// What an answer to `POST /payments` means. `retry_after` is its header, in seconds.
pub fn outcome(status: u16, retry_after: Option<&str>, body: &str) -> Outcome<Charge> {
    let definitive = |result| Outcome::Definitive(ProviderReply { status, result, request_id: None });
    let unknown =
        |answer_is_stored, reason: &str| Outcome::Unknown { answer_is_stored, reason: reason.to_owned() };
    let payment = serde_json::from_str::<Payment>(body).ok();
    // In the lab what is made is a 200.
    if status == 201 || (status == 200 && payment.is_some()) {
        // One whose outcome is open was answered for good: the payment itself says how it goes on.
        return match payment.and_then(Payment::charge) {
            Some(charge) => definitive(charge),
            None => unknown(true, &format!("{status} and not paid yet")),
        };
    }
    let Ok(problem) = serde_json::from_str::<Problem>(body) else {
        return unknown(false, &format!("{status} and no problem"));
    };
    let kind = problem.r#type.trim_start_matches("/problems/");
    match (kind, problem.code) {
        ("payment-failed", Some(code)) => {
            let charge = problem.payment.map(|payment| payment.provider_payment.unwrap_or(payment.id));
            let (decline_code, message) = (problem.decline_code, problem.detail);
            definitive(Charge::Failed(Unpaid { charge, code, decline_code, message }))
        }
        ("invalid-parameters", _) => definitive(Charge::Refused),
        ("idempotency-key-expired", _) => unknown(true, kind),
        ("rate-limited" | "unauthorized" | "temporarily-unavailable", _) => Outcome::NotExecuted {
            retry_after_ms: retry_after
                .and_then(|text| text.parse::<u64>().ok())
                .map(|s| s.saturating_mul(1000)),
            scope: RefusalScope::Copy,
            reason: kind.to_owned(),
        },
        _ => unknown(false, kind),
    }
}

/// The path of what a key has made, by the answer to `GET /idempotency-keys/{key}`.
pub fn resource(body: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Key {
        resource: String,
    }
    serde_json::from_str::<Key>(body).ok().map(|key| key.resource)
}

/// What an answer to `GET /payments/{id}` says of the call.
pub fn found(status: u16, body: &str) -> LookUp<Charge> {
    let payment = serde_json::from_str::<Payment>(body).ok();
    match payment.and_then(Payment::charge) {
        Some(result) => LookUp::Found(ProviderReply { status, result, request_id: None }),
        None => LookUp::Inconclusive { from_the_start: false, reason: format!("{status} and not decided") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(status: &str, provider_payment: Option<&str>) -> Value {
        let failure = (status == "declined")
            .then(|| json!({ "code": "card_declined", "decline_code": "lost_card", "message": "No." }));
        json!({ "id": "pay_1", "status": status, "provider_payment": provider_payment, "failure": failure })
    }

    fn problem(kind: &str) -> String {
        json!({ "type": format!("/problems/{kind}"), "title": "", "status": 0, "detail": "D" }).to_string()
    }

    fn declined(charge: &str, message: &str) -> Charge {
        Charge::Failed(Unpaid {
            charge: Some(charge.to_owned()),
            code: "card_declined".to_owned(),
            decline_code: Some("lost_card".to_owned()),
            message: message.to_owned(),
        })
    }

    fn result(outcome: Outcome<Charge>) -> Option<Charge> {
        match outcome {
            Outcome::Definitive(reply) => Some(reply.result),
            _ => None,
        }
    }

    #[test]
    fn a_payment_that_succeeded_is_the_charge() {
        let paid = |charge: &str| Some(Charge::Paid { charge: charge.to_owned() });
        assert_eq!(result(outcome(201, None, &shown("succeeded", Some("pi_1")).to_string())), paid("pi_1"));
        assert_eq!(result(outcome(201, None, &shown("succeeded", None).to_string())), paid("pay_1"));
        assert_eq!(result(outcome(200, None, &shown("succeeded", Some("pi_1")).to_string())), paid("pi_1"));
    }

    #[test]
    fn a_payment_that_failed_says_why() {
        let body = json!({
            "type": "/problems/payment-failed", "title": "", "status": 402, "detail": "No.", "instance": "/payments/pay_1",
            "code": "card_declined", "decline_code": "lost_card", "payment": shown("declined", Some("pi_1")),
        });
        assert_eq!(result(outcome(402, None, &body.to_string())), Some(declined("pi_1", "No.")));
    }

    #[test]
    fn what_is_no_final_answer_is_asked_for_again() {
        for kind in [
            "request-in-progress",
            "outcome-unknown",
            "interrupted",
            "misconfigured",
            "idempotency-key-reused",
            "payment-state",
        ] {
            let outcome = outcome(503, Some("1"), &problem(kind));
            assert!(
                matches!(outcome, Outcome::Unknown { answer_is_stored: false, .. }),
                "{kind}: {outcome:?}"
            );
        }
        for (status, body) in [(502, "<html>"), (200, "{}"), (500, "")] {
            let outcome = outcome(status, None, body);
            assert!(
                matches!(outcome, Outcome::Unknown { answer_is_stored: false, .. }),
                "{status}: {outcome:?}"
            );
        }
    }

    #[test]
    fn an_answer_that_stays_open_is_looked_up() {
        for (status, body) in [
            (201, shown("processing", Some("pi_1")).to_string()),
            (201, "{}".to_owned()),
            (409, problem("idempotency-key-expired")),
        ] {
            let outcome = outcome(status, None, &body);
            assert!(
                matches!(outcome, Outcome::Unknown { answer_is_stored: true, .. }),
                "{body}: {outcome:?}"
            );
        }
    }

    #[test]
    fn a_request_that_was_not_let_in_has_done_nothing() {
        for (kind, after, expected_ms) in [
            ("rate-limited", Some("60"), Some(60_000)),
            ("temporarily-unavailable", Some("1"), Some(1_000)),
            ("unauthorized", None, None),
        ] {
            match outcome(429, after, &problem(kind)) {
                Outcome::NotExecuted { retry_after_ms, .. } => assert_eq!(retry_after_ms, expected_ms),
                other => panic!("{kind}: {other:?}"),
            }
        }
        assert_eq!(result(outcome(422, None, &problem("invalid-parameters"))), Some(Charge::Refused));
    }

    #[test]
    fn a_payment_is_found_once_it_is_decided() {
        let charge = |body: Value| match found(200, &body.to_string()) {
            LookUp::Found(reply) => Some(reply.result),
            _ => None,
        };
        assert_eq!(charge(shown("disputed", Some("pi_1"))), Some(Charge::Paid { charge: "pi_1".to_owned() }));
        assert_eq!(charge(shown("declined", None)), Some(declined("pay_1", "No.")));
        assert_eq!(charge(shown("processing", None)), None);
        assert_eq!(charge(json!({})), None);
        assert_eq!(resource(r#"{"resource":"/payments/pay_1"}"#).as_deref(), Some("/payments/pay_1"));
        assert_eq!(resource("{}"), None);
    }
}
