//! Payments, refunds and what else stands in several examples. An answer is what the example of its request asks for.

use serde_json::{Value, json};

use payments::payment::RefundReason;

/// A time, for examples.
pub(super) const AT: &str = "2026-11-21T09:30:00.000Z";
/// An order, for examples.
pub(super) const ORDER: &str = "order-1042";
/// The id of a payment in the examples, after its prefix.
pub(super) const ID: &str = "Qm9va2luZ3MtbmV2ZXItY2hhcmdlLXR3aWNlLW9rLTE";
/// A payment's id, for examples.
pub(super) fn payment_id() -> String {
    format!("pay_{ID}")
}

/// A payment, as the answer to the example of a request has it.
pub(super) fn payment_example() -> Value {
    json!({
        "id": payment_id(), "object": "payment", "status": "succeeded", "amount": 2500, "amount_capturable": 0,
        "capture_before": null, "amount_captured": 2500, "amount_refunded": 0, "currency": "usd", "capture": true,
        "order_id": null, "revision": null, "description": "Two tickets", "customer": null,
        "receipt_email": null, "metadata": {}, "provider": "stripe", "provider_payment": "pi_3QK1",
        "payment_method_details": { "brand": "visa", "last4": "4242" }, "next_action": null, "failure": null,
        "pending_operation": null, "failed_operation": null, "dispute": null, "attempt": 1,
        "tries": [try_example("succeeded")], "created_at": AT,
    })
}

pub(super) fn try_example(status: &str) -> Value {
    json!({
        "attempt": 1, "provider": "stripe", "provider_payment": "pi_3QK1", "status": status,
        "outcome": "definitive", "late_money": null, "dispute": null,
    })
}

/// The payment in another status, with other members.
fn payment_in(status: &str, others: Value) -> Value {
    let mut payment = payment_example();
    let of_status = json!({ "status": status, "amount_captured": 0, "tries": [try_example(status)] });
    if let (Value::Object(payment), Value::Object(of_status), Value::Object(others)) =
        (&mut payment, of_status, others)
    {
        payment.extend(of_status.into_iter().chain(others));
    }
    payment
}

/// The payment that was declined.
pub(super) fn declined_example() -> Value {
    payment_in("declined", json!({ "failure": declined_failure() }))
}

pub(super) fn declined_failure() -> Value {
    json!({
        "code": "card_declined", "decline_code": "insufficient_funds", "message": "Your card has insufficient funds.",
    })
}

/// How much of the payment is captured in the examples.
const PART: u64 = 1500;

/// The request for a part of what is reserved.
pub(super) fn capture_example() -> Value {
    json!({ "amount": PART })
}

/// The payment of which this part was captured.
pub(super) fn captured_example() -> Value {
    payment_in("succeeded", json!({ "amount_captured": PART, "capture": false }))
}

/// The payment that was voided.
pub(super) fn voided_example() -> Value {
    payment_in("canceled", json!({ "capture": false }))
}

/// The payment while its capture is under way.
pub(super) fn capturing_example() -> Value {
    moving("capture", Some(PART))
}

/// The payment while its void is under way.
pub(super) fn voiding_example() -> Value {
    moving("void", None)
}

fn moving(operation: &str, amount: Option<u64>) -> Value {
    let pending = json!({ "type": operation, "amount": amount });
    payment_in("requires_capture", json!({ "capture": false, "pending_operation": pending }))
}

/// A refund, as an answer has it.
pub(super) fn refund_example() -> Value {
    json!({
        "id": "re_c2V0dGxlZC1vbmNl", "object": "refund", "payment": payment_id(), "status": "succeeded", "amount": 500,
        "currency": "usd", "reason": RefundReason::RequestedByCustomer.as_str(), "provider_refund": "re_3QK1",
        "failure": null, "created_at": AT,
    })
}

/// What is bought at the checkout.
pub(super) fn line_example() -> Value {
    json!({ "name": "Ticket", "unit_amount": 1250, "quantity": 2 })
}
