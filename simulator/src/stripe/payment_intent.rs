//! The PaymentIntent itself: what is kept of it, and how it is loaded and saved.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::Display;

use crate::metadata::Metadata;
use crate::provider::Call;
use crate::stripe::charge::Charge;
use crate::stripe::errors::{ApiError, Failure, Outcome};
use crate::stripe::kinds::Kind;
use crate::stripe::objects::{Objects, shown};

/// `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    /// No method yet, or the last one failed.
    RequiresPaymentMethod,
    /// Ready to be confirmed.
    RequiresConfirmation,
    /// The customer has to do something.
    RequiresAction,
    /// Not known yet: the bank decides later. At Stripe no card gets here, only bank debits do.
    Processing,
    /// Reserved, not taken.
    RequiresCapture,
    /// Paid.
    Succeeded,
    /// Given up.
    Canceled,
}

/// A PaymentIntent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PaymentIntent {
    /// `pi_…`
    pub id: String,
    pub(super) object: String,
    pub(super) allowed_payment_method_types: Option<Vec<String>>,
    /// In the smallest unit; a partial capture does not change it.
    pub amount: i64,
    /// What can still be captured.
    pub amount_capturable: i64,
    pub(super) amount_details: Value,
    /// What was taken.
    pub amount_received: i64,
    pub(super) application: Option<String>,
    pub(super) application_fee_amount: Option<i64>,
    /// `null` where `payment_method_types` was given.
    pub automatic_payment_methods: Option<Value>,
    /// When it was cancelled.
    pub canceled_at: Option<i64>,
    /// Why.
    pub cancellation_reason: Option<String>,
    /// `automatic`, `automatic_async` or `manual`.
    pub capture_method: String,
    /// What a browser proves itself with.
    pub client_secret: String,
    pub(super) confirmation_method: String,
    pub(super) created: i64,
    /// Three letters, lower case.
    pub currency: String,
    /// `cus_…`
    pub customer: Option<String>,
    pub(super) customer_account: Option<String>,
    /// Free text.
    pub description: Option<String>,
    pub(super) excluded_payment_method_types: Option<Vec<String>>,
    /// The decline, until another attempt succeeds.
    pub last_payment_error: Option<Value>,
    /// The charge of the last attempt.
    pub latest_charge: Option<String>,
    pub(super) livemode: bool,
    pub(super) managed_payments: Option<Value>,
    /// The caller's own data.
    pub metadata: Metadata,
    /// What the customer has to do.
    pub next_action: Option<Value>,
    pub(super) on_behalf_of: Option<String>,
    /// `pm_…`
    pub payment_method: Option<String>,
    pub(super) payment_method_configuration_details: Option<Value>,
    pub(super) payment_method_options: Value,
    pub(super) payment_method_types: Vec<String>,
    pub(super) payment_record: Option<String>,
    /// Set while the status is `processing`.
    pub processing: Option<Value>,
    /// Where Stripe would send a receipt.
    pub receipt_email: Option<String>,
    pub(super) review: Option<String>,
    pub(super) setup_future_usage: Option<String>,
    pub(super) shipping: Option<Value>,
    pub(super) source: Option<Value>,
    /// On the card statement.
    pub statement_descriptor: Option<String>,
    /// On the card statement.
    pub statement_descriptor_suffix: Option<String>,
    /// Where it stands.
    pub status: Status,
    pub(super) transfer_data: Option<Value>,
    /// A free label.
    pub transfer_group: Option<String>,
}

impl PaymentIntent {
    /// Whether its money is only reserved at first. What is said of cards alone counts before what is said of all methods.
    pub fn reserves(&self) -> bool {
        self.capture_method == "manual" || self.card_option("capture_method") == Some("manual")
    }

    /// Whether it is known that a card pays.
    pub fn is_by_card(&self) -> bool {
        let named = self.automatic_payment_methods.is_none()
            && self.payment_method_types.iter().any(|name| name == "card");
        named || self.payment_method.is_some()
    }

    /// What is said of how a card is charged.
    pub fn card_option(&self, name: &str) -> Option<&str> {
        self.payment_method_options.get("card")?.get(name)?.as_str()
    }
}

/// A PaymentIntent by the id in the path.
pub fn load(call: &Call, id: &str) -> Outcome<PaymentIntent> {
    call.of_path(Kind::PaymentIntent, id, "intent")
}

/// Writes one back. A reserved amount is due when its charge says so, a bank's decision a minute after the confirmation. What changes
/// nothing of that keeps the time.
pub fn save(call: &mut Call, intent: &PaymentIntent) -> Outcome<()> {
    let due_ms = match intent.status {
        Status::RequiresCapture => captured_before_ms(call, intent)?,
        Status::Processing => {
            let row = call.find(Kind::PaymentIntent, &intent.id)?;
            let before: Option<PaymentIntent> =
                row.as_ref().map(|row| serde_json::from_str(&row.body)).transpose()?;
            let was_so = before.is_some_and(|before| before.status == Status::Processing);
            let due_ms = row.and_then(|row| row.due_ms).filter(|_| was_so);
            due_ms.or(Some(call.now_ms + DECIDED_AFTER_MS))
        }
        _ => None,
    };
    Ok(call.save(Kind::PaymentIntent, &intent.id, intent, due_ms)?)
}

fn captured_before_ms(call: &Call, intent: &PaymentIntent) -> Outcome<Option<i64>> {
    let Some(id) = &intent.latest_charge else { return Ok(None) };
    let charge: Charge = call.of_param(Kind::Charge, id, "charge")?;
    Ok(charge.capture_before_s().map(|at_s| at_s * 1000))
}

/// How long a PaymentIntent is `processing`.
pub const DECIDED_AFTER_MS: i64 = 60_000;

/// `payment_intent_unexpected_state`, with the PaymentIntent as it is.
pub fn unexpected(intent: &PaymentIntent, message: String) -> Outcome<Failure> {
    Ok(ApiError::invalid(message)
        .code("payment_intent_unexpected_state")
        .payment_intent(shown(intent)?)
        .outcome())
}
