//! The refund itself: what is kept of it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::sha256_hex;
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
    /// Why it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending_reason: Option<String>,
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

/// How a refund gives back, as its destination says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By a credit to the card.
    Credit,
    /// By taking back what the card's bank had only reserved.
    Reversal,
    /// Not known yet.
    Pending,
}

impl How {
    fn destination(self) -> Value {
        let card = match self {
            Self::Pending => json!({ "type": "pending" }),
            Self::Credit => reference("refund"),
            Self::Reversal => reference(REVERSAL),
        };
        json!({ "card": card, "type": "card" })
    }
}

/// By what the customer's bank finds it; the number comes later.
fn reference(how: &str) -> Value {
    json!({ "reference_status": "pending", "reference_type": "acquirer_reference_number", "type": how })
}

const REVERSAL: &str = "reversal";

impl Refund {
    /// A refund that has succeeded, not inserted yet.
    pub fn new(call: &mut Call, charge: &Charge, amount: i64, how: How) -> Self {
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
            destination_details: how.destination(),
            failure_balance_transaction: None,
            failure_reason: None,
            metadata: Metadata::new(),
            next_action: None,
            pending_reason: None,
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

    /// A pending one is on its way.
    pub fn succeed(&mut self) {
        self.status = "succeeded".to_owned();
        self.pending_reason = None;
        self.destination_details = How::Credit.destination();
    }

    /// The number is there by which the customer's bank finds it.
    pub fn referenced(&mut self) {
        let digits = sha256_hex(self.id.as_bytes()).into_bytes();
        let number: String = digits.iter().take(18).map(|letter| char::from(b'0' + letter % 10)).collect();
        if let Some(card) = self.destination_details.pointer_mut("/card").and_then(Value::as_object_mut) {
            card.insert("reference".to_owned(), json!(format!("74208{number}")));
            card.insert("reference_status".to_owned(), json!("available"));
        }
    }

    /// Whether it gives nothing back, because nothing of it had been taken.
    pub fn is_release(&self) -> bool {
        self.destination_details.pointer("/card/type").and_then(Value::as_str) == Some(REVERSAL)
    }
}

/// The refund that gives free what was reserved and is not captured, as requests of old versions make it. The caller writes the charge back.
pub fn of_release(call: &mut Call, charge: &Charge, amount: i64) -> Outcome<()> {
    Refund::new(call, charge, amount, How::Reversal).insert(call, None)
}
