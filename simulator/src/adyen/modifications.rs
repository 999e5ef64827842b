//! Captures, cancels and refunds: <https://docs.adyen.com/online-payments/modify-payments>
//!
//! Each is answered `received`, whatever comes of it; what comes of it is decided at once, kept in the ledger, and recorded as a
//! notification. So a capture above the authorised amount, a capture after a cancel, or a refund above what was captured is *received* and
//! *fails*. Only a payment that does not exist is refused.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adyen::body::{self, Amount};
use crate::adyen::cards::{self, Behaviour};
use crate::adyen::errors::{self, Fallible, Problem};
use crate::adyen::notifications::{self, Event};
use crate::adyen::payments::{self, Payment, Standing};
use crate::call::{Call, Links};
use crate::store::{Kind, Query};

/// Adyen's own words for an amount above what is left.
const INSUFFICIENT: &str = "Insufficient balance on payment";

/// What is asked of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModificationKind {
    /// Take what is reserved.
    Capture,
    /// Give free what is reserved.
    Cancel,
    /// Give back what was taken.
    Refund,
}

impl ModificationKind {
    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            ModificationKind::Capture => "capture",
            ModificationKind::Cancel => "cancel",
            ModificationKind::Refund => "refund",
        }
    }

    fn event_code(self) -> &'static str {
        match self {
            ModificationKind::Capture => "CAPTURE",
            ModificationKind::Cancel => "CANCELLATION",
            ModificationKind::Refund => "REFUND",
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
    amount: Option<Amount>,
    merchant_account: String,
    reference: Option<String>,
    merchant_refund_reason: Option<String>,
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
            ModificationKind::Cancel => None,
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

/// `POST /payments/{pspReference}/captures`, `/cancels`, `/refunds`
pub fn create(
    call: &mut Call,
    payment: &str,
    kind: ModificationKind,
    request: &ModificationRequest,
) -> Fallible<Value> {
    let payment = payments::find(call, payment)?
        .filter(|payment| payment.merchant_account == request.merchant_account)
        .ok_or_else(errors::no_such_payment)?;
    let modification = modify(call, payment, kind, request, kind.event_code())?;
    Ok(received(&modification, request))
}

/// The body of `POST /cancels`, checked.
#[derive(Debug, Clone)]
pub struct TechnicalCancelRequest {
    payment_reference: String,
    request: ModificationRequest,
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

/// `POST /cancels`: cancels the newest payment of this reference, whose `pspReference` its caller never got. Where there is none it is
/// received all the same, and nothing is told.
pub fn cancel_by_reference(call: &mut Call, technical: &TechnicalCancelRequest) -> Fallible<Value> {
    let TechnicalCancelRequest { payment_reference, request } = technical;
    let mut found = None;
    for row in call.store.list(&Query::all(Kind::AdyenPayment))? {
        let payment: Payment = serde_json::from_str(&row.body)?;
        if payment.reference == *payment_reference && payment.merchant_account == request.merchant_account {
            found = Some(payment);
            break;
        }
    }
    if let Some(payment) = found {
        modify(call, payment, ModificationKind::Cancel, request, "TECHNICAL_CANCEL")?;
    }
    Ok(json!({
        "merchantAccount": request.merchant_account,
        "paymentReference": payment_reference,
        "pspReference": call.request_id,
        "reference": request.reference,
        "status": "received",
    }))
}

/// What becomes of a modification, in the books and by webhook.
fn modify(
    call: &mut Call,
    mut payment: Payment,
    kind: ModificationKind,
    request: &ModificationRequest,
    code: &'static str,
) -> Fallible<Modification> {
    let amount = request.amount.clone().unwrap_or_else(|| payment.amount.clone());
    let failure = apply(&mut payment, kind, &amount).err();
    payments::save(call, &payment)?;
    let modification = Modification {
        psp_reference: call.request_id.to_owned(),
        payment: payment.psp_reference.clone(),
        kind,
        amount,
        reference: request.reference.clone(),
        merchant_refund_reason: request.merchant_refund_reason.clone(),
        failure: failure.map(str::to_owned),
    };
    let links = Links {
        parent: Some(payment.psp_reference.clone()),
        label: Some(kind.as_str().to_owned()),
        ..Links::default()
    };
    call.insert(Kind::AdyenModification, &modification.psp_reference, &modification, links)?;
    let event = Event {
        code,
        modification: Some(&modification.psp_reference),
        reference: modification.reference.as_deref(),
        amount: Some(&modification.amount),
        failure,
        reason: None,
    };
    notifications::record(call, &payment, &event)?;
    Ok(modification)
}

/// What becomes of a modification; `Err` says why it fails, and changes nothing.
fn apply(payment: &mut Payment, kind: ModificationKind, amount: &Amount) -> Result<(), &'static str> {
    if amount.currency != payment.amount.currency {
        return Err("The currency is not the payment's");
    }
    let behaviour = cards::find(&payment.stored_payment_method).map(|card| card.behaviour);
    match kind {
        ModificationKind::Capture => {
            if payment.standing != Standing::Authorised {
                return Err("The payment is not authorised");
            }
            if behaviour == Some(Behaviour::FailingCapture) {
                return Err("Capture Failed");
            }
            // One capture there is, and what it leaves is given free: captures in several parts are a setting of the account.
            if payment.amount_captured > 0 || amount.value > payment.amount.value {
                return Err(INSUFFICIENT);
            }
            payment.amount_captured = amount.value;
            payment.due_ms = None;
        }
        ModificationKind::Cancel => {
            let open = matches!(
                payment.standing,
                Standing::Authorised | Standing::Pending | Standing::AwaitingShopper
            );
            if !open {
                return Err("The payment is not open");
            }
            if payment.amount_captured > 0 {
                return Err("The payment has been captured");
            }
            if behaviour == Some(Behaviour::FailingCancel) {
                return Err("Transaction could not be cancelled");
            }
            payment.standing = Standing::Cancelled;
            payment.due_ms = None;
        }
        ModificationKind::Refund => {
            if behaviour == Some(Behaviour::FailingRefund) {
                return Err("Refund Failed");
            }
            if amount.value > payment.amount_captured - payment.amount_refunded {
                return Err(INSUFFICIENT);
            }
            payment.amount_refunded += amount.value;
        }
    }
    Ok(())
}

fn received(modification: &Modification, request: &ModificationRequest) -> Value {
    let mut answer = json!({
        "merchantAccount": request.merchant_account,
        "paymentPspReference": modification.payment,
        "pspReference": modification.psp_reference,
        "status": "received",
    });
    if let Some(fields) = answer.as_object_mut() {
        if let Some(reference) = &modification.reference {
            fields.insert("reference".into(), json!(reference));
        }
        if let Some(amount) = &request.amount {
            fields.insert("amount".into(), json!(amount));
        }
        if let Some(reason) = &modification.merchant_refund_reason {
            fields.insert("merchantRefundReason".into(), json!(reason));
        }
    }
    answer
}
