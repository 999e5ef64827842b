//! Adyen's part of the ledger.

use std::collections::BTreeSet;

use serde_json::json;

use crate::adyen::kinds::Kind;
use crate::adyen::modification::{Modification, ModificationKind};
use crate::adyen::payment::{Payment, PaymentStatus};
use crate::failure::Outcome;
use crate::ledger::{Filter, Ledger, majors, oldest_first};
use crate::store::Store;

/// Adds the payments and their modifications.
pub fn add(store: &dyn Store, filter: &Filter, ledger: &mut Ledger) -> Outcome<()> {
    let mut shown_ids = BTreeSet::new();
    for row in store.list(&oldest_first(Kind::Payment))? {
        let payment: Payment = serde_json::from_str(&row.body)?;
        // What 3-D Secure has not let through is no charge, here as at Stripe.
        if !payment.asked_issuer || !filter.account(&row) || !filter.metadata(&payment.metadata) {
            continue;
        }
        let own = json!({
            "id": payment.psp_reference, "provider": "adyen", "merchant_account": payment.merchant_account, "payment_intent": null, "reference": payment.reference,
            "amount": payment.amount.value, "currency": payment.amount.currency, "status": charge_status(&payment),
            "paid": payment.authorised, "captured": payment.amount_captured > 0, "amount_captured": payment.amount_captured,
            "amount_refunded": payment.amount_refunded, "amount_charged_back": payment.amount_charged_back,
            "voided": matches!(payment.status, PaymentStatus::Cancelled | PaymentStatus::Expired), "metadata": payment.metadata,
            "major": majors([payment.amount.value, payment.amount_captured, payment.amount_refunded], |minor| {
                payment.amount.major(minor)
            }),
        });
        ledger.charge(&row, own, payment.authorised, payment.amount_captured);
        shown_ids.insert(payment.psp_reference);
    }
    for row in store.list(&oldest_first(Kind::Modification))? {
        let modification: Modification = serde_json::from_str(&row.body)?;
        if !shown_ids.contains(&modification.payment) {
            continue;
        }
        let status = if modification.failure.is_none() { "succeeded" } else { "failed" };
        let own = json!({
            "id": modification.psp_reference, "provider": "adyen", "charge": modification.payment, "payment_intent": null,
            "reference": modification.reference, "amount": modification.amount.value, "currency": modification.amount.currency,
            "status": status, "failure": modification.failure, "metadata": {},
        });
        match modification.kind {
            ModificationKind::Capture => ledger.capture(&row, own),
            // A reversal is kept as what it was, a cancel or a refund.
            ModificationKind::Cancel | ModificationKind::Reversal => ledger.cancel(&row, own),
            ModificationKind::Refund => {
                let refunded_minor = if status == "failed" { 0 } else { modification.amount.value };
                ledger.refund(&row, own, refunded_minor);
            }
        }
    }
    Ok(())
}

/// In Stripe's words, which tests know.
fn charge_status(payment: &Payment) -> &'static str {
    match payment.status {
        _ if payment.authorised => "succeeded",
        PaymentStatus::Pending => "pending",
        _ => "failed",
    }
}
