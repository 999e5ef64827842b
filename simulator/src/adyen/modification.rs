//! The modification itself: what is asked, read and checked, and what is kept of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::Display;

use crate::adyen::body::{self, Amount};
use crate::adyen::errors::{Fallible, Problem};

/// What is asked of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ModificationKind {
    /// Take what is reserved.
    Capture,
    /// Give free what is reserved.
    Cancel,
    /// Give back what was taken.
    Refund,
    /// Give free what is reserved, or back all that was taken: whichever it is.
    Reversal,
}

impl ModificationKind {
    /// The event that tells of it.
    pub fn event_code(self) -> &'static str {
        match self {
            ModificationKind::Capture => "CAPTURE",
            ModificationKind::Cancel => "CANCELLATION",
            ModificationKind::Refund => "REFUND",
            ModificationKind::Reversal => "CANCEL_OR_REFUND",
        }
    }

    /// The name of the structure, the fields that are read, and those that have no effect here.
    fn structure(self) -> (&'static str, [&'static [&'static str]; 2]) {
        match self {
            ModificationKind::Capture => (
                "PaymentCaptureRequest",
                [
                    &["amount", "merchantAccount", "reference"],
                    &[
                        "applicationInfo",
                        "enhancedSchemeData",
                        "lineItems",
                        "platformChargebackLogic",
                        "splits",
                        "subMerchants",
                    ],
                ],
            ),
            ModificationKind::Cancel => (
                "PaymentCancelRequest",
                [&["merchantAccount", "reference"], &["applicationInfo", "enhancedSchemeData"]],
            ),
            ModificationKind::Reversal => (
                "PaymentReversalRequest",
                [&["merchantAccount", "reference"], &["applicationInfo", "enhancedSchemeData"]],
            ),
            ModificationKind::Refund => (
                "PaymentRefundRequest",
                [
                    &["amount", "merchantAccount", "merchantRefundReason", "reference"],
                    &[
                        "applicationInfo",
                        "capturePspReference",
                        "enhancedSchemeData",
                        "lineItems",
                        "splits",
                        "store",
                    ],
                ],
            ),
        }
    }
}

/// A modification as it is kept: what was asked, and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Modification {
    /// Its own `pspReference`.
    pub psp_reference: String,
    /// The payment's.
    pub payment: String,
    /// Which.
    pub kind: ModificationKind,
    /// What it is about; a cancel is about all.
    pub amount: Amount,
    /// The caller's own name for it.
    pub reference: Option<String>,
    /// Why money is given back.
    pub merchant_refund_reason: Option<String>,
    /// Why it failed; none where it succeeded.
    pub failure: Option<String>,
}

/// A body, checked.
#[derive(Debug, Clone)]
pub struct ModificationRequest {
    pub(super) amount: Option<Amount>,
    pub(super) merchant_account: String,
    pub(super) reference: Option<String>,
    pub(super) merchant_refund_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    amount: Option<Amount>,
    merchant_account: Option<String>,
    merchant_refund_reason: Option<String>,
    reference: Option<String>,
}

impl ModificationRequest {
    /// Reads and checks a body.
    pub fn parse(kind: ModificationKind, body: &Value) -> Fallible<Self> {
        let (structure, known) = kind.structure();
        let raw: Raw = body::read(body, structure, &known)?;
        let merchant_account = body::merchant_account(raw.merchant_account)?;
        let amount = match kind {
            ModificationKind::Cancel | ModificationKind::Reversal => None,
            ModificationKind::Capture | ModificationKind::Refund => Some(body::amount(raw.amount)?),
        };
        let reasons = ["CUSTOMER REQUEST", "DUPLICATE", "FRAUD", "OTHER", "RETURN"];
        body::choice("merchantRefundReason", raw.merchant_refund_reason.as_deref(), &reasons)?;
        Ok(ModificationRequest {
            amount,
            merchant_account,
            reference: raw.reference,
            merchant_refund_reason: raw.merchant_refund_reason,
        })
    }
}

/// The body of `POST /cancels`, checked.
#[derive(Debug, Clone)]
pub struct TechnicalCancelRequest {
    pub(super) payment_reference: String,
    pub(super) request: ModificationRequest,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTechnicalCancel {
    merchant_account: Option<String>,
    payment_reference: Option<String>,
    reference: Option<String>,
}

impl TechnicalCancelRequest {
    /// Reads and checks a body.
    pub fn parse(body: &Value) -> Fallible<Self> {
        let known: [&[&str]; 2] = [
            &["merchantAccount", "paymentReference", "reference"],
            &["applicationInfo", "enhancedSchemeData"],
        ];
        let raw: RawTechnicalCancel = body::read(body, "StandalonePaymentCancelRequest", &known)?;
        let payment_reference = raw.payment_reference.filter(|reference| !reference.is_empty());
        Ok(TechnicalCancelRequest {
            payment_reference: payment_reference
                .ok_or_else(|| Problem::validation("130", "Reference Missing"))?,
            request: ModificationRequest {
                amount: None,
                merchant_account: body::merchant_account(raw.merchant_account)?,
                reference: raw.reference,
                merchant_refund_reason: None,
            },
        })
    }
}
