//! Captures, cancels and refunds: <https://docs.adyen.com/online-payments/modify-payments>
//!
//! Each is answered `received`, whatever comes of it; what comes of it is decided at once, kept in the ledger, and recorded as a
//! notification. So a capture above the authorised amount, a capture after a cancel, or a refund above what was captured is *received* and
//! *fails*. Only a payment that does not exist is refused.

use serde_json::{Value, json};

use crate::adyen::body::Amount;
use crate::adyen::cards::{self, Behaviour};
use crate::adyen::errors::{self, Fallible};
use crate::adyen::kinds::Kind;
use crate::adyen::modification::{
    Modification, ModificationKind, ModificationRequest, TechnicalCancelRequest,
};
use crate::adyen::notifications::{self, Event};
use crate::adyen::payment::{self, Payment, PaymentStatus};
use crate::provider::{Call, Links};
use crate::store::Query;

/// Adyen's own words for an amount above what is left.
const INSUFFICIENT: &str = "Insufficient balance on payment";

/// `POST /payments/{pspReference}/captures`, `/cancels`, `/refunds`, `/reversals`
pub fn create(
    call: &mut Call,
    payment: &str,
    kind: ModificationKind,
    request: &ModificationRequest,
) -> Fallible<Value> {
    let payment = payment::find(call, payment)?
        .filter(|payment| payment.merchant_account == request.merchant_account)
        .ok_or_else(errors::no_such_payment)?;
    let modification = modify(call, payment, kind, request, kind.event_code())?;
    Ok(received(&modification, request))
}

/// `POST /cancels`: cancels the newest payment of this reference, whose `pspReference` its caller never got. Where there is none it is
/// received all the same, and nothing is told.
pub fn cancel_by_reference(call: &mut Call, technical: &TechnicalCancelRequest) -> Fallible<Value> {
    let TechnicalCancelRequest { payment_reference, request } = technical;
    let mut found = None;
    for row in call.store.list(&Query::all(Kind::Payment))? {
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
    let is_reversal = kind == ModificationKind::Reversal;
    // What a reversal is depends on whether anything was taken; it is all of that.
    let (kind, amount) = match kind {
        ModificationKind::Reversal if payment.amount_captured > 0 => {
            let taken = payment.amount.of(payment.amount_captured);
            (ModificationKind::Refund, taken)
        }
        ModificationKind::Reversal => (ModificationKind::Cancel, payment.amount.clone()),
        kind => (kind, request.amount.clone().unwrap_or_else(|| payment.amount.clone())),
    };
    let failure = apply(&mut payment, kind, &amount).err();
    payment::save(call, &payment)?;
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
        label: Some(kind.to_string()),
        ..Links::default()
    };
    call.insert(Kind::Modification, &modification.psp_reference, &modification, links)?;
    let event = Event {
        code,
        modification: Some(&modification.psp_reference),
        reference: modification.reference.as_deref(),
        amount: Some(&modification.amount),
        failure,
        reason: None,
        action: is_reversal.then_some(if kind == ModificationKind::Refund { "refund" } else { "cancel" }),
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
            if payment.status != PaymentStatus::Authorised {
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
                payment.status,
                PaymentStatus::Authorised | PaymentStatus::Pending | PaymentStatus::AwaitingShopper
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
            payment.status = PaymentStatus::Cancelled;
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
        ModificationKind::Reversal => return Err("A reversal is a cancel or a refund"),
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
