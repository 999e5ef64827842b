//! Stripe's part of the ledger.

use std::collections::BTreeSet;

use serde_json::json;

use crate::failure::Outcome;
use crate::ledger::{Filter, Ledger, majors, oldest_first};
use crate::money::major;
use crate::store::Store;
use crate::stripe::charge::Charge;
use crate::stripe::currencies;
use crate::stripe::disputes;
use crate::stripe::kinds::Kind;
use crate::stripe::payment_intent::{PaymentIntent, Status};
use crate::stripe::refund::Refund;

/// Adds the charges and refunds.
pub fn add(store: &dyn Store, filter: &Filter, ledger: &mut Ledger) -> Outcome<()> {
    let mut shown_ids = BTreeSet::new();
    for row in store.list(&oldest_first(Kind::Charge))? {
        let charge: Charge = serde_json::from_str(&row.body)?;
        if !filter.account(&row) || !filter.metadata(&charge.metadata) {
            continue;
        }
        let own = json!({
            "id": charge.id, "provider": "stripe", "payment_intent": charge.payment_intent, "reference": null,
            "amount": charge.amount, "currency": charge.currency, "status": charge.status, "paid": charge.paid,
            "captured": charge.captured, "amount_captured": charge.amount_captured, "amount_refunded": charge.amount_refunded,
            "amount_charged_back": charged_back_minor(store, &charge)?, "voided": is_voided(store, &charge)?, "metadata": charge.metadata,
            "major": majors([charge.amount, charge.amount_captured, charge.amount_refunded], |minor| {
                major(minor, currencies::decimals(&charge.currency))
            }),
        });
        ledger.charge(&row, own, charge.paid, charge.amount_captured);
        shown_ids.insert(charge.id);
    }
    for row in store.list(&oldest_first(Kind::Refund))? {
        let refund: Refund = serde_json::from_str(&row.body)?;
        if refund.is_release() || !shown_ids.contains(&refund.charge) {
            continue;
        }
        let refunded_minor =
            if matches!(refund.status.as_str(), "failed" | "canceled") { 0 } else { refund.amount };
        let own = json!({
            "id": refund.id, "provider": "stripe", "charge": refund.charge, "payment_intent": refund.payment_intent,
            "reference": null, "amount": refund.amount, "currency": refund.currency, "status": refund.status,
            "failure": refund.failure_reason, "metadata": refund.metadata,
        });
        ledger.refund(&row, own, refunded_minor);
    }
    Ok(())
}

/// What of a charge its card holder's bank has taken back.
fn charged_back_minor(store: &dyn Store, charge: &Charge) -> Outcome<i64> {
    if charge.disputed { Ok(disputes::withdrawn_minor(store, &charge.id)?) } else { Ok(0) }
}

/// Whether what a charge had reserved was given free, and nothing of it taken.
fn is_voided(store: &dyn Store, charge: &Charge) -> Outcome<bool> {
    if !charge.paid || charge.captured {
        return Ok(false);
    }
    let Some(id) = &charge.payment_intent else { return Ok(false) };
    let Some(row) = store.find(Kind::PaymentIntent.into(), id)? else { return Ok(false) };
    let intent: PaymentIntent = serde_json::from_str(&row.body)?;
    Ok(intent.status == Status::Canceled)
}
