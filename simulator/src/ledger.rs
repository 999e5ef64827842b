//! The ledger: every charge and every refund at either provider, whatever callers believe. Tests count here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::adyen::modifications::{Modification, ModificationKind};
use crate::adyen::payments::{Payment, Standing};
use crate::charges::Charge;
use crate::currencies;
use crate::disputes;
use crate::errors::Outcome;
use crate::metadata::Metadata;
use crate::payment_intents::{PaymentIntent, Status};
use crate::provider::Provider;
use crate::refunds::Refund;
use crate::store::{Kind, Query, Row, Store};

/// The ledger while it is put together. Lines carry the number of their row, so that those of both providers end in one order.
#[derive(Default)]
struct Ledger {
    charges: Vec<(i64, Value)>,
    captures: Vec<(i64, Value)>,
    cancels: Vec<(i64, Value)>,
    refunds: Vec<(i64, Value)>,
    succeeded: u64,
    captured: i64,
    refunded: i64,
}

/// What is asked for.
struct Wanted {
    account: Option<String>,
    provider: Option<String>,
    metadata: Vec<(String, String)>,
}

/// `GET /_sim/ledger`, with `provider=`, `account=` and any number of `metadata[k]=v` conditions. They hold for the charges, and for what was done to
/// those charges.
pub fn show(store: &dyn Store, query: &str) -> Outcome<Value> {
    let wanted = Wanted::of(query);
    let mut ledger = Ledger::default();
    if wanted.provider(Provider::Stripe) {
        ledger.add_stripe(store, &wanted)?;
    }
    if wanted.provider(Provider::Adyen) {
        ledger.add_adyen(store, &wanted)?;
    }
    Ok(json!({
        "charges": in_order(ledger.charges),
        "captures": in_order(ledger.captures),
        "cancels": in_order(ledger.cancels),
        "refunds": in_order(ledger.refunds),
        "totals": {
            "succeeded_charges": ledger.succeeded, "amount_captured": ledger.captured, "amount_refunded": ledger.refunded,
        },
    }))
}

impl Ledger {
    fn add_stripe(&mut self, store: &dyn Store, wanted: &Wanted) -> Outcome<()> {
        let mut shown_ids = BTreeSet::new();
        for row in store.list(&oldest_first(Kind::Charge))? {
            let charge: Charge = serde_json::from_str(&row.body)?;
            if !wanted.account(&row) || !wanted.metadata(&charge.metadata) {
                continue;
            }
            self.succeeded += u64::from(charge.paid);
            self.captured += charge.amount_captured;
            let own = json!({
                "id": charge.id, "provider": "stripe", "payment_intent": charge.payment_intent, "reference": null,
                "amount": charge.amount, "currency": charge.currency, "status": charge.status, "paid": charge.paid,
                "captured": charge.captured, "amount_captured": charge.amount_captured, "amount_refunded": charge.amount_refunded,
                "amount_charged_back": charged_back_minor(store, &charge)?, "voided": is_voided(store, &charge)?, "metadata": charge.metadata,
                "major": majors([charge.amount, charge.amount_captured, charge.amount_refunded], |minor| {
                    currencies::major(minor, currencies::decimals(&charge.currency))
                }),
            });
            self.charges.push(line(&row, own));
            shown_ids.insert(charge.id);
        }
        for row in store.list(&oldest_first(Kind::Refund))? {
            let refund: Refund = serde_json::from_str(&row.body)?;
            if refund.is_release() || !shown_ids.contains(&refund.charge) {
                continue;
            }
            // Failed refunds gave nothing back.
            self.refunded += if refund.status == "failed" { 0 } else { refund.amount };
            let own = json!({
                "id": refund.id, "provider": "stripe", "charge": refund.charge, "payment_intent": refund.payment_intent,
                "reference": null, "amount": refund.amount, "currency": refund.currency, "status": refund.status,
                "failure": refund.failure_reason, "metadata": refund.metadata,
            });
            self.refunds.push(line(&row, own));
        }
        Ok(())
    }

    fn add_adyen(&mut self, store: &dyn Store, wanted: &Wanted) -> Outcome<()> {
        let mut shown_ids = BTreeSet::new();
        for row in store.list(&oldest_first(Kind::AdyenPayment))? {
            let payment: Payment = serde_json::from_str(&row.body)?;
            // What 3-D Secure has not let through is no charge, here as at Stripe.
            if !payment.asked_issuer || !wanted.account(&row) || !wanted.metadata(&payment.metadata) {
                continue;
            }
            self.succeeded += u64::from(payment.authorised);
            self.captured += payment.amount_captured;
            let own = json!({
                "id": payment.psp_reference, "provider": "adyen", "payment_intent": null, "reference": payment.reference,
                "amount": payment.amount.value, "currency": payment.amount.currency, "status": charge_status(&payment),
                "paid": payment.authorised, "captured": payment.amount_captured > 0, "amount_captured": payment.amount_captured,
                "amount_refunded": payment.amount_refunded, "amount_charged_back": payment.amount_charged_back,
                "voided": matches!(payment.standing, Standing::Cancelled | Standing::Expired), "metadata": payment.metadata,
                "major": majors([payment.amount.value, payment.amount_captured, payment.amount_refunded], |minor| {
                    payment.amount.major(minor)
                }),
            });
            self.charges.push(line(&row, own));
            shown_ids.insert(payment.psp_reference);
        }
        for row in store.list(&oldest_first(Kind::AdyenModification))? {
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
                ModificationKind::Capture => self.captures.push(line(&row, own)),
                ModificationKind::Cancel => self.cancels.push(line(&row, own)),
                ModificationKind::Refund => {
                    self.refunded += if status == "failed" { 0 } else { modification.amount.value };
                    self.refunds.push(line(&row, own));
                }
            }
        }
        Ok(())
    }
}

/// What of a charge its card holder's bank has taken back.
fn charged_back_minor(store: &dyn Store, charge: &Charge) -> Outcome<i64> {
    if charge.disputed { disputes::withdrawn_minor(store, &charge.id) } else { Ok(0) }
}

/// Whether what a charge had reserved was given free, and nothing of it taken.
fn is_voided(store: &dyn Store, charge: &Charge) -> Outcome<bool> {
    if !charge.paid || charge.captured {
        return Ok(false);
    }
    let Some(id) = &charge.payment_intent else { return Ok(false) };
    let Some(row) = store.find(Kind::PaymentIntent, id)? else { return Ok(false) };
    let intent: PaymentIntent = serde_json::from_str(&row.body)?;
    Ok(intent.status == Status::Canceled)
}

/// What people would call the amounts of a charge: providers count some currencies in different units.
fn majors(minor: [i64; 3], major: impl Fn(i64) -> String) -> Value {
    let [amount, captured, refunded] = minor.map(major);
    json!({ "amount": amount, "captured": captured, "refunded": refunded })
}

/// In Stripe's words, which tests know.
fn charge_status(payment: &Payment) -> &'static str {
    match payment.standing {
        _ if payment.authorised => "succeeded",
        Standing::Pending => "pending",
        _ => "failed",
    }
}

fn oldest_first(kind: Kind) -> Query {
    Query { oldest_first: true, ..Query::all(kind) }
}

/// A line, with what is known of the request that made it.
fn line(row: &Row, mut own: Value) -> (i64, Value) {
    if let Some(fields) = own.as_object_mut() {
        fields.insert("account".into(), json!(Some(&row.account).filter(|account| !account.is_empty())));
        fields.insert("created".into(), json!(row.created_ms.div_euclid(1000)));
        fields.insert("created_ms".into(), json!(row.created_ms));
        fields.insert("idempotency_key".into(), json!(row.idempotency_key));
        fields.insert("request_id".into(), json!(row.request_id));
    }
    (row.seq, own)
}

fn in_order(mut lines: Vec<(i64, Value)>) -> Vec<Value> {
    lines.sort_by_key(|(seq, _)| *seq);
    lines.into_iter().map(|(_, line)| line).collect()
}

impl Wanted {
    fn of(query: &str) -> Self {
        let mut wanted = Wanted { account: None, provider: None, metadata: Vec::new() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == "provider" {
                wanted.provider = Some(value.into_owned());
            } else if name == "account" {
                wanted.account = Some(value.into_owned());
            } else if let Some(key) = name.strip_prefix("metadata[").and_then(|name| name.strip_suffix(']')) {
                wanted.metadata.push((key.to_owned(), value.into_owned()));
            }
        }
        wanted
    }

    fn provider(&self, provider: Provider) -> bool {
        self.provider.as_ref().is_none_or(|wanted| wanted == provider.as_str())
    }

    fn account(&self, row: &Row) -> bool {
        self.account.as_ref().is_none_or(|wanted| *wanted == row.account)
    }

    fn metadata(&self, metadata: &Metadata) -> bool {
        self.metadata.iter().all(|(key, value)| metadata.get(key) == Some(value))
    }
}
