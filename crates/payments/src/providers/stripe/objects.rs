//! Stripe's objects, as far as they are read.

use crate::engine::ProviderCall;
use crate::payment::card::Card;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct PaymentIntent {
    pub(super) id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) amount: Option<u64>,
    #[serde(default)]
    pub(super) amount_received: Option<u64>,
    #[serde(default)]
    pub(super) amount_capturable: Option<u64>,
    #[serde(default)]
    pub(super) currency: Option<String>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) latest_charge: Option<Value>,
    #[serde(default)]
    pub(super) cancellation_reason: Option<String>,
    #[serde(default)]
    pub(super) last_payment_error: Option<ErrorBody>,
    #[serde(default)]
    pub(super) next_action: Option<NextAction>,
    #[serde(default, deserialize_with = "id")]
    pub(super) payment_method: Option<String>,
}

impl PaymentIntent {
    /// What was taken of what succeeded, in minor units. Stripe always says it; who stands in for it may say the amount alone.
    pub(super) fn received(&self) -> Option<u64> {
        self.amount_received.or(self.amount)
    }

    /// The charge, where it is not only named.
    pub(super) fn charge(&self) -> ChargeObject {
        self.latest_charge.as_ref().and_then(whole).and_then(Result::ok).unwrap_or_default()
    }

    pub(super) fn capture_before_ms(&self) -> Option<u64> {
        Some(self.charge().payment_method_details?.card?.capture_before?.saturating_mul(1000))
    }

    /// The card that paid, where the charge is not only named.
    pub(super) fn card(&self) -> Option<Card> {
        let card = self.charge().payment_method_details?.card?;
        Card::of_stripe(card.brand.as_str().unwrap_or_default(), card.last4.as_str()?)
    }

    /// It was reserved: what never was has no charge, or an error.
    pub(super) const fn was_held(&self) -> bool {
        self.latest_charge.is_some() && self.last_payment_error.is_none()
    }

    /// What was reserved has lapsed.
    pub(super) fn has_lapsed(&self) -> bool {
        let by_stripe = matches!(self.cancellation_reason.as_deref(), Some("automatic" | "expired"));
        self.status == "canceled" && by_stripe && self.was_held()
    }
}

#[derive(Default, Deserialize)]
pub(super) struct ChargeObject {
    #[serde(default)]
    pub(super) disputed: bool,
    #[serde(default)]
    pub(super) payment_method_details: Option<MethodDetails>,
}

#[derive(Deserialize)]
pub(super) struct MethodDetails {
    #[serde(default)]
    pub(super) card: Option<CardDetails>,
}

#[derive(Deserialize)]
pub(super) struct CardDetails {
    /// Only shown, so of any type: neither may keep the rest from being read.
    #[serde(default)]
    pub(super) brand: Value,
    #[serde(default)]
    pub(super) last4: Value,
    /// In s since the epoch.
    #[serde(default)]
    pub(super) capture_before: Option<u64>,
}

/// <https://docs.stripe.com/api/disputes/object>
#[derive(Deserialize)]
pub(super) struct DisputeObject {
    pub(super) id: String,
    #[serde(default, deserialize_with = "id")]
    pub(super) payment_intent: Option<String>,
    pub(super) amount: u64,
    pub(super) status: String,
    #[serde(default)]
    pub(super) is_charge_refundable: bool,
    #[serde(default)]
    pub(super) balance_transactions: Vec<BalanceMovement>,
}

#[derive(Deserialize)]
pub(super) struct BalanceMovement {
    /// In minor units of the settlement currency; below 0 where it was withdrawn.
    pub(super) amount: i64,
}

#[derive(Deserialize)]
pub(super) struct NextAction {
    #[serde(default)]
    pub(super) redirect_to_url: Option<Redirect>,
}

#[derive(Deserialize)]
pub(super) struct Redirect {
    #[serde(default)]
    pub(super) url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RefundObject {
    pub(super) id: String,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) amount: Option<u64>,
    #[serde(default, deserialize_with = "id")]
    pub(super) payment_intent: Option<String>,
    /// In s since the epoch.
    #[serde(default)]
    pub(super) created: Option<u64>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) failure_reason: Option<String>,
    #[serde(default)]
    pub(super) destination_details: Option<Destination>,
}

#[derive(Deserialize)]
pub(super) struct Destination {
    #[serde(default)]
    pub(super) card: Option<DestinationCard>,
}

#[derive(Deserialize)]
pub(super) struct DestinationCard {
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) idempotency_key: Option<String>,
    #[serde(default)]
    pub(super) resource: Option<String>,
    /// The key of our capture.
    #[serde(default)]
    pub(super) capture_key: Option<String>,
}

/// Stripe says `null` where there are none: of somebody else's object in a list, for example.
pub(super) fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Of another object its id, whether it is only named or shown as a whole.
/// <https://docs.stripe.com/expand>
pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let named = Value::deserialize(deserializer)?;
    Ok(named.as_str().or_else(|| named.get("id")?.as_str()).map(str::to_owned))
}

/// Whether what has this metadata was written by another call.
pub(super) fn is_anothers(metadata: &Metadata, call: &ProviderCall) -> bool {
    metadata.idempotency_key.is_some() && !is_key(metadata, call)
}

/// Whether what has this metadata was written by this call.
pub(super) fn is_key(metadata: &Metadata, call: &ProviderCall) -> bool {
    metadata.idempotency_key.as_deref() == Some(&call.provider_key)
}

#[derive(Deserialize)]
pub(super) struct CustomerObject {
    pub(super) id: String,
    #[serde(default)]
    pub(super) deleted: bool,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) metadata: Metadata,
}

#[derive(Deserialize)]
pub(super) struct ErrorEnvelope {
    pub(super) error: ErrorBody,
}

#[derive(Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) decline_code: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default, deserialize_with = "if_shown")]
    pub(super) payment_intent: Option<Box<PaymentIntent>>,
}

/// The payment, where it is not only named.
fn if_shown<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<PaymentIntent>>, D::Error> {
    whole(&Value::deserialize(deserializer)?).transpose().map_err(D::Error::custom)
}

/// Another object, where it is not only named.
fn whole<T: DeserializeOwned>(object: &Value) -> Option<serde_json::Result<T>> {
    object.is_object().then(|| json_text::from_str(&object.to_string()))
}

#[derive(Default, Deserialize)]
pub(super) struct RefundedIntent {
    pub(super) payment_intent: String,
}

/// Entries on a page of a list.
pub(super) const PAGE_SIZE: u32 = 100;

#[derive(Deserialize)]
pub(super) struct List<T> {
    pub(super) data: Vec<T>,
    #[serde(default)]
    has_more: Option<bool>,
}

impl<T> List<T> {
    /// Whether there is more of it on another page. Stripe always says so; where nothing does, of a full page.
    pub(super) fn has_more(&self) -> bool {
        self.has_more.unwrap_or(self.data.len() >= PAGE_SIZE as usize)
    }
}
