//! The refund itself: what is kept of it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::provider::{Call, Links};
use crate::stripe::charge::Charge;
use crate::stripe::errors::Outcome;
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::objects::Objects;

/// A refund.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refund {
    /// `re_…`
    pub id: String,
    pub(super) object: String,
    /// In the smallest unit.
    pub amount: i64,
    pub(super) balance_transaction: Option<String>,
    /// The charge that it gives back.
    pub charge: String,
    pub(super) created: i64,
    /// Three letters, lower case.
    pub currency: String,
    pub(super) customer: Option<String>,
    pub(super) customer_account: Option<String>,
    pub(super) destination_details: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure_balance_transaction: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The caller's own data.
    pub metadata: Metadata,
    /// What the customer must do to get the money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_action: Option<Value>,
    /// The charge's PaymentIntent.
    pub payment_intent: Option<String>,
    pub(super) payment_method: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) receipt_number: Option<String>,
    pub(super) source_transfer_reversal: Option<String>,
    /// `pending`, `requires_action`, `succeeded`, `failed` or `canceled`.
    pub status: String,
    pub(super) transfer_reversal: Option<String>,
}

/// How a refund says that it took back what the card's bank had only reserved.
const REVERSAL: &str = "reversal";

impl Refund {
    /// A refund that has succeeded, not inserted yet.
    pub fn new(call: &mut Call, charge: &Charge, amount: i64, how: &str) -> Self {
        Self {
            id: call.new_id(Kind::Refund),
            object: "refund".to_owned(),
            amount,
            balance_transaction: None,
            charge: charge.id.clone(),
            created: call.now_s(),
            currency: charge.currency.clone(),
            customer: charge.customer.clone(),
            customer_account: None,
            destination_details: json!({
                "card": { "reference_status": "pending", "reference_type": "acquirer_reference_number", "type": how },
                "type": "card",
            }),
            failure_balance_transaction: None,
            failure_reason: None,
            metadata: Metadata::new(),
            next_action: None,
            payment_intent: charge.payment_intent.clone(),
            payment_method: Some(charge.payment_method.clone()),
            reason: None,
            receipt_number: None,
            source_transfer_reversal: None,
            status: "succeeded".to_owned(),
            transfer_reversal: None,
        }
    }

    /// Adds it, and tells of it.
    pub fn insert(&self, call: &mut Call, due_ms: Option<i64>) -> Outcome<()> {
        let links = Links {
            customer: None,
            parent: self.payment_intent.clone(),
            label: Some(self.charge.clone()),
            due_ms,
        };
        call.insert(Kind::Refund, &self.id, self, links)?;
        events::record(call, "refund.created", self)
    }

    /// Whether it gives nothing back, because nothing of it had been taken.
    pub fn is_release(&self) -> bool {
        self.destination_details.pointer("/card/type").and_then(Value::as_str) == Some(REVERSAL)
    }
}

/// The refund that gives free what was reserved and is not captured, as requests of old versions make it. The caller writes the charge back.
pub fn of_release(call: &mut Call, charge: &Charge, amount: i64) -> Outcome<()> {
    Refund::new(call, charge, amount, REVERSAL).insert(call, None)
}
