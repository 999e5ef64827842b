//! The charge itself: what is kept of it, and what the bank's answer makes of it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::provider::Call;
use crate::stripe::balance::{self, Movement};
use crate::stripe::cards::Decline;
use crate::stripe::errors::Outcome;
use crate::stripe::kinds::Kind;
use crate::stripe::objects::Objects;

/// How long a bank holds what is reserved: where the card holder was not there, Visa's do it for 4 days and 18 hours.
const HELD_S: i64 = 7 * DAY_S;
const VISA_OFF_SESSION_S: i64 = 4 * DAY_S + 18 * 60 * 60;
const DAY_S: i64 = 24 * 60 * 60;

/// A charge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Charge {
    /// `ch_…`
    pub id: String,
    pub(super) object: String,
    /// What was asked for, in the smallest unit.
    pub amount: i64,
    /// What was taken.
    pub amount_captured: i64,
    /// What was given back.
    pub amount_refunded: i64,
    pub(super) application: Option<String>,
    pub(super) application_fee: Option<String>,
    pub(super) application_fee_amount: Option<i64>,
    pub(super) balance_transaction: Option<String>,
    pub(super) billing_details: Value,
    pub(super) calculated_statement_descriptor: Option<String>,
    /// Whether the money was taken, and not only reserved.
    pub captured: bool,
    pub(super) created: i64,
    /// Three letters, lower case.
    pub currency: String,
    /// `cus_…`
    pub customer: Option<String>,
    pub(super) description: Option<String>,
    /// Whether a bank has ever disputed it.
    pub disputed: bool,
    pub(super) failure_balance_transaction: Option<String>,
    pub(super) failure_code: Option<String>,
    pub(super) failure_message: Option<String>,
    pub(super) fraud_details: Value,
    pub(super) livemode: bool,
    /// The PaymentIntent's, at the moment of the attempt.
    pub metadata: Metadata,
    pub(super) on_behalf_of: Option<String>,
    pub(super) outcome: Value,
    /// Whether the issuer said yes.
    pub paid: bool,
    /// The PaymentIntent that made it.
    pub payment_intent: Option<String>,
    /// The PaymentMethod that was charged.
    pub payment_method: String,
    pub(super) payment_method_details: Value,
    pub(super) receipt_email: Option<String>,
    pub(super) receipt_number: Option<String>,
    pub(super) receipt_url: Option<String>,
    /// Whether nothing of it is left.
    pub refunded: bool,
    pub(super) review: Option<String>,
    pub(super) shipping: Option<Value>,
    pub(super) source: Option<Value>,
    pub(super) source_transfer: Option<String>,
    pub(super) statement_descriptor: Option<String>,
    pub(super) statement_descriptor_suffix: Option<String>,
    /// `succeeded`, `failed`, or `pending` while the bank has not decided.
    pub status: String,
    pub(super) transfer_data: Option<Value>,
    pub(super) transfer_group: Option<String>,
}

/// What the bank says to a charge.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// Yes: the money is taken, or only reserved.
    Yes {
        /// Whether it is taken.
        captured: bool,
        /// Whether Radar sees an elevated risk.
        at_risk: bool,
        /// Whether the card holder was not there.
        off_session: bool,
    },
    /// No.
    No(&'a Decline),
    /// Not known yet; its bank tells later.
    Later,
}

impl Answer<'_> {
    fn status(self) -> &'static str {
        match self {
            Answer::Yes { .. } => "succeeded",
            Answer::No(_) => "failed",
            Answer::Later => "pending",
        }
    }

    /// The event that tells of it.
    pub fn event(self) -> &'static str {
        match self {
            Answer::Yes { .. } => "charge.succeeded",
            Answer::No(_) => "charge.failed",
            Answer::Later => "charge.pending",
        }
    }
}

impl Charge {
    /// Until when what is reserved can be captured, in s since 1970.
    pub fn capture_before_s(&self) -> Option<i64> {
        self.payment_method_details.pointer("/card/capture_before").and_then(Value::as_i64)
    }

    /// Whether what is reserved can be taken in several parts.
    pub fn takes_several_captures(&self) -> bool {
        let status = self.payment_method_details.pointer("/card/multicapture/status");
        status.and_then(Value::as_str) == Some("available")
    }

    /// What a dispute says of the card.
    pub fn disputed_card(&self, case_type: &Value, code: Option<&str>) -> Value {
        let of = |name: &str| self.payment_method_details.pointer(&format!("/card/{name}")).cloned();
        json!({ "brand": of("brand"), "case_type": case_type, "network": of("network"), "network_reason_code": code })
    }

    /// The code of the card's network for a dispute because of fraud. <https://docs.stripe.com/disputes/categories#network-code-map>
    pub fn fraud_reason_code(&self, reason: &str) -> Option<String> {
        let brand = self.payment_method_details.pointer("/card/brand").and_then(Value::as_str);
        match (reason, brand) {
            ("fraudulent", Some("visa")) => Some("10.4".to_owned()),
            ("fraudulent", Some("mastercard")) => Some("4837".to_owned()),
            _ => None,
        }
    }

    /// The bank holds the amount for so long. <https://docs.stripe.com/payments/place-a-hold-on-a-payment-method>
    fn hold(&mut self, off_session: bool, now_s: i64) {
        let Some(card) = self.payment_method_details.pointer_mut("/card").and_then(Value::as_object_mut)
        else {
            return;
        };
        let is_visa = card.get("brand").and_then(Value::as_str) == Some("visa");
        let lasts_s = if is_visa && off_session { VISA_OFF_SESSION_S } else { HELD_S };
        card.insert("capture_before".to_owned(), json!(now_s + lasts_s));
    }

    /// What was taken is in the merchant's balance.
    pub fn record_movement(&mut self, call: &mut Call, amount_minor: i64) -> Outcome<()> {
        let row = balance::record(call, Movement::Charge, &self.id, amount_minor, &self.currency)?;
        self.balance_transaction = Some(row);
        Ok(())
    }

    /// The one place where simulated money moves.
    pub fn apply_answer(&mut self, answer: Answer, now_s: i64) {
        if let Answer::Yes { captured: false, off_session, .. } = answer {
            self.hold(off_session, now_s);
        }
        self.paid = matches!(answer, Answer::Yes { .. });
        self.captured = matches!(answer, Answer::Yes { captured: true, .. });
        self.amount_captured = if self.captured { self.amount } else { 0 };
        self.status = answer.status().to_owned();
        self.outcome = match answer {
            Answer::Yes { at_risk: true, .. } => json!({
                "network_status": "approved_by_network", "reason": null, "risk_level": "elevated", "risk_score": 70,
                "seller_message": "Payment complete.", "type": "authorized", "advice_code": null, "network_advice_code": null,
                "network_decline_code": null,
            }),
            Answer::Yes { .. } | Answer::Later => json!({
                "network_status": "approved_by_network", "reason": null, "risk_level": "normal", "risk_score": 10,
                "seller_message": "Payment complete.", "type": "authorized", "advice_code": null, "network_advice_code": null,
                "network_decline_code": null,
            }),
            // By default Radar blocks the highest risk, and the issuer is never asked.
            Answer::No(decline) if decline.blocked => json!({
                "network_status": "not_sent_to_network", "reason": "highest_risk_level", "risk_level": "highest", "risk_score": 85,
                "seller_message": "Stripe blocked this payment as too risky.", "type": "blocked", "advice_code": null,
                "network_advice_code": null, "network_decline_code": null,
            }),
            Answer::No(decline) => json!({
                "network_status": "declined_by_network", "reason": decline.decline_code.unwrap_or(decline.code),
                "risk_level": "normal", "risk_score": 10,
                "seller_message": "The bank did not return any further details with this decline.", "type": "issuer_declined", "advice_code": null,
                "network_advice_code": null, "network_decline_code": null,
            }),
        };
        if let Answer::No(decline) = answer {
            self.failure_code = Some(decline.code.to_owned());
            self.failure_message = Some(decline.message.to_owned());
        }
    }
}

/// Writes a charge back.
pub fn save(call: &mut Call, charge: &Charge) -> Outcome<()> {
    let due_ms = call.find(Kind::Charge, &charge.id)?.and_then(|row| row.due_ms);
    Ok(call.save(Kind::Charge, &charge.id, charge, due_ms)?)
}
