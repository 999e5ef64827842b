//! Payments, refunds and tries as the API shows them.

use serde_json::{Map, Value, json};

use crate::payment::card::Card;
use crate::payment::dispute::Dispute;
use crate::payment::refund::{Refund, RefundState};
use crate::payment::tries::Try;
use crate::payment::{InFlight, Payment, PaymentState};
use crate::timestamp;

impl Payment {
    /// As the API shows it.
    pub fn to_json(&self, refunds: &[Refund], tries: &[Try]) -> Value {
        let tries: Vec<Value> = tries.iter().map(Try::to_json).collect();
        let next_action = match &self.state {
            PaymentState::RequiresAction { url } if !url.is_empty() => {
                json!({ "type": "redirect_to_url", "redirect_to_url": { "url": url } })
            }
            _ => Value::Null,
        };
        let failure = match &self.state {
            PaymentState::Failed(failure) => json!({
                "code": failure.code, "decline_code": failure.decline_code, "message": failure.message,
            }),
            _ => Value::Null,
        };
        let is_capturable = matches!(self.state, PaymentState::Authorized) && self.pending.is_none();
        let capturable = if is_capturable { self.amount.get() } else { 0 };
        let pending = self.pending.map(|pending| {
            let amount = match pending {
                InFlight::Capture { amount_minor, .. } => Some(amount_minor),
                InFlight::Void { .. } => None,
            };
            json!({ "type": pending.operation(), "amount": amount })
        });
        let failed = self.failed_operation.as_ref();
        let failed = failed.map(|failed| json!({ "type": failed.operation, "code": failed.code }));
        let is_reserved = matches!(self.state, PaymentState::Authorized);
        let capture_before = self.capture_before_ms.filter(|_| is_reserved).map(timestamp);
        let metadata: Map<String, Value> =
            self.metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({
            "id": self.id.to_string(),
            "object": "payment",
            "status": self.status(),
            "amount": self.amount.get(),
            "amount_capturable": capturable,
            "capture_before": capture_before,
            "amount_captured": self.captured_minor(),
            "amount_refunded": self.refunded_minor(refunds),
            "currency": self.currency.as_str(),
            "capture": self.capture,
            "order_id": self.order_id,
            "revision": self.link_revision,
            "description": self.description,
            "customer": self.customer,
            "receipt_email": self.receipt_email,
            "metadata": metadata,
            "provider": self.provider.as_str(),
            "provider_payment": self.provider_payment,
            "payment_method_details": self.card.map(Card::to_json),
            "next_action": next_action,
            "failure": failure,
            "pending_operation": pending,
            "failed_operation": failed,
            "dispute": self.dispute.as_ref().map(Dispute::to_json),
            "attempt": self.attempt,
            "tries": tries,
            "created_at": timestamp(self.created_at_ms),
        })
    }
}

impl Card {
    fn to_json(self) -> Value {
        json!({ "brand": self.brand.as_str(), "last4": self.last4.as_str() })
    }
}

impl Refund {
    /// As the API shows it.
    pub fn to_json(&self, payment: &Payment) -> Value {
        let failure = match (&self.state, &self.undone) {
            (RefundState::Failed { code, message }, _) => json!({ "code": code, "message": message }),
            (RefundState::Pending, Some(undone)) => {
                let message = "It failed afterwards, and the provider may repeat it by itself.";
                json!({ "code": undone.code, "message": message })
            }
            _ => Value::Null,
        };
        json!({
            "id": self.id.to_string(),
            "object": "refund",
            "payment": payment.id.to_string(),
            "status": self.status(),
            "amount": self.amount.get(),
            "currency": payment.currency.as_str(),
            "reason": self.reason.as_str(),
            "provider_refund": self.provider_refund,
            "failure": failure,
            "created_at": timestamp(self.created_at_ms),
        })
    }
}

impl Try {
    /// As the API shows it.
    pub fn to_json(&self) -> Value {
        let outcome = self.definitive.map(|definitive| if definitive { "definitive" } else { "inferred" });
        let late = self.late.as_ref().map(|late| {
            json!({ "amount": late.amount_minor, "captured": late.captured, "status": late.stage().as_str() })
        });
        json!({
            "attempt": self.attempt,
            "provider": self.provider.as_str(),
            "provider_payment": self.provider_payment,
            "status": self.status,
            "outcome": outcome,
            "late_money": late,
            "dispute": self.dispute.as_ref().map(Dispute::to_json),
        })
    }
}
