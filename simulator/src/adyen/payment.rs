//! The payment itself: what is kept of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::adyen::body::Amount;
use crate::adyen::errors::Fallible;
use crate::adyen::kinds::Kind;
use crate::provider::Call;

/// When the money of an authorised payment is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// At once.
    Immediate,
    /// After this many hours.
    AfterHours(i64),
    /// By `/captures`.
    Manual,
}

/// What has become of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// The shopper has to visit the 3-D Secure page, and then the caller `/payments/details`.
    AwaitingShopper,
    /// The issuer has not decided.
    Pending,
    /// The issuer said yes.
    Authorised,
    /// The issuer, or 3-D Secure, said no.
    Refused,
    /// Given up before anything was taken.
    Cancelled,
    /// Authorised once, and not captured in time.
    Expired,
}

/// A refusal as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// `resultCode`: `Refused` or `Error`.
    pub result_code: String,
    /// `refusalReasonCode`.
    pub code: String,
    /// `refusalReason`.
    pub reason: String,
}

/// A payment. It is the simulator's own record: Adyen has no such object to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payment {
    /// Sixteen letters and digits.
    pub psp_reference: String,
    /// Whose it is.
    pub merchant_account: String,
    /// The caller's own name for it.
    pub reference: String,
    /// What was asked for.
    pub amount: Amount,
    /// What was taken, in the smallest unit.
    pub amount_captured: i64,
    /// What was given back.
    pub amount_refunded: i64,
    /// What a bank has taken back.
    #[serde(default)]
    pub amount_charged_back: i64,
    /// The `pspReference` of its dispute, and what that is about.
    #[serde(default)]
    pub dispute: Option<(String, i64)>,
    /// The stored payment method.
    pub stored_payment_method: String,
    /// Its brand.
    pub brand: String,
    /// The last four digits of its number.
    #[serde(default)]
    pub last4: String,
    /// The caller's own data.
    pub metadata: BTreeMap<String, String>,
    /// When the money is taken.
    pub capture: CaptureMode,
    /// What has become of it.
    #[serde(rename = "standing")]
    pub status: PaymentStatus,
    /// Whether the issuer said yes, whatever became of it.
    pub authorised: bool,
    /// Whether the issuer was asked at all.
    pub asked_issuer: bool,
    /// Why not.
    pub refusal: Option<Refused>,
    /// The result code of the answer, where it is another one than follows from its status.
    #[serde(default)]
    pub(super) answered: Option<String>,
    pub(super) return_url: Option<String>,
    /// What the shopper brings back from the 3-D Secure page, and whether it was passed.
    pub(super) redirect: Option<(String, bool)>,
    /// When time alone changes it.
    pub due_ms: Option<i64>,
}

impl Payment {
    /// What stands of the card in `additionalData` where the merchant has switched on "Card summary", as here.
    pub fn card_summary(&self) -> Option<&str> {
        Some(self.last4.as_str()).filter(|digits| !digits.is_empty() && self.asked_issuer)
    }
}

/// A payment by its `pspReference`.
pub fn find(call: &Call, psp_reference: &str) -> Fallible<Option<Payment>> {
    match call.store.find(Kind::Payment.into(), psp_reference)? {
        Some(row) => Ok(Some(serde_json::from_str(&row.body)?)),
        None => Ok(None),
    }
}

/// Writes one back.
pub fn save(call: &mut Call, payment: &Payment) -> Fallible<()> {
    Ok(call.save(Kind::Payment, &payment.psp_reference, payment, payment.due_ms)?)
}
