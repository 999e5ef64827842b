//! The ledger: every charge and every refund, whatever callers believe. Tests count here.

use serde_json::{Value, json};

use crate::charges::Charge;
use crate::errors::Outcome;
use crate::refunds::Refund;
use crate::store::{Kind, Query, Row, Store};

/// `GET /_sim/ledger`, with any number of `metadata[k]=v` conditions, which hold for the charges and for the refunds of those charges.
pub fn show(store: &dyn Store, query: &str) -> Outcome<Value> {
    let wanted = conditions(query);
    let mut charges = Vec::new();
    let mut refunds = Vec::new();
    let (mut succeeded, mut captured, mut refunded) = (0_u64, 0_i64, 0_i64);
    let mut shown_ids = std::collections::BTreeSet::new();
    for row in store.list(&Query { oldest_first: true, ..Query::all(Kind::Charge) })? {
        let charge: Charge = serde_json::from_str(&row.body)?;
        if !wanted.iter().all(|(key, value)| charge.metadata.get(key) == Some(value)) {
            continue;
        }
        succeeded += u64::from(charge.paid);
        captured += charge.amount_captured;
        shown_ids.insert(charge.id.clone());
        charges.push(json!({
            "id": charge.id, "payment_intent": charge.payment_intent, "amount": charge.amount, "currency": charge.currency,
            "status": charge.status, "paid": charge.paid, "captured": charge.captured, "amount_captured": charge.amount_captured,
            "amount_refunded": charge.amount_refunded, "created": row.created_ms.div_euclid(1000), "created_ms": row.created_ms,
            "idempotency_key": row.idempotency_key, "metadata": charge.metadata, "request_id": row.request_id,
        }));
    }
    for row in store.list(&Query { oldest_first: true, ..Query::all(Kind::Refund) })? {
        let refund: Refund = serde_json::from_str(&row.body)?;
        if !shown_ids.contains(&refund.charge) {
            continue;
        }
        // Failed refunds gave nothing back.
        refunded += if refund.status == "failed" { 0 } else { refund.amount };
        refunds.push(refund_line(&refund, &row));
    }
    Ok(json!({
        "charges": charges,
        "refunds": refunds,
        "totals": { "succeeded_charges": succeeded, "amount_captured": captured, "amount_refunded": refunded },
    }))
}

fn refund_line(refund: &Refund, row: &Row) -> Value {
    json!({
        "id": refund.id, "charge": refund.charge, "payment_intent": refund.payment_intent, "amount": refund.amount,
        "currency": refund.currency, "status": refund.status, "created": row.created_ms.div_euclid(1000), "created_ms": row.created_ms,
        "idempotency_key": row.idempotency_key, "metadata": refund.metadata, "request_id": row.request_id,
    })
}

fn conditions(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes())
        .filter_map(|(name, value)| {
            let key = name.strip_prefix("metadata[")?.strip_suffix(']')?.to_owned();
            Some((key, value.into_owned()))
        })
        .collect()
}
