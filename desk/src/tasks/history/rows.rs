//! What the files hold: one table a kind, its rows as the read model has them, and its columns.
//!
//! No personal data goes into a file, so none has to be erased from one. Left out is `payments.shown`: description,
//! customer, email, metadata, card; and of `done_jobs` under which id an email was sent. Its object keeps it for as long as it may, and erases it there. What the files have is what the read model
//! keeps for good: ids, amounts, states, times, hashes of keys, and audit records, which name nobody but the operator who asked.

use serde::Deserialize;

use super::parquet::Column;

/// A payment that leaves, or has changed since it was claimed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaymentRow {
    pub(super) object: String,
    pub(super) claimed_version: u64,
    pub(super) payment_id: String,
    /// `None` if it is not there any more.
    pub(super) version: Option<u64>,
    owner: Option<String>,
    status: Option<String>,
    amount_minor: Option<u64>,
    captured_minor: Option<u64>,
    refunded_minor: Option<u64>,
    refunded_elsewhere_minor: Option<u64>,
    currency: Option<String>,
    provider: Option<String>,
    pub(super) provider_payment: Option<String>,
    stripe_account: Option<String>,
    merchant_account: Option<String>,
    pub(super) order_id: Option<String>,
    failure_code: Option<String>,
    attempt: Option<u64>,
    pub(super) created_at_ms: Option<u64>,
    updated_at_ms: Option<u64>,
    key_hash: Option<String>,
    key_attempts: Option<u64>,
    key_response_status: Option<u64>,
    key_finished_at_ms: Option<u64>,
    key_expires_at_ms: Option<u64>,
    created_data: Option<String>,
    captured_data: Option<String>,
    captured_at_ms: Option<u64>,
    pub(super) done_jobs: Option<String>,
    /// The same without what they came to: the ids of emails.
    told_jobs: Option<String>,
    /// The version that a file has already.
    pub(super) left_version: Option<u64>,
    pub(super) audit_through: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RefundRow {
    pub(super) refund_id: String,
    pub(super) payment_id: String,
    pub(super) version: u64,
    status: String,
    amount_minor: u64,
    currency: String,
    reason: String,
    provider: String,
    pub(super) provider_refund: Option<String>,
    created_at_ms: u64,
    updated_at_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct KeyRow {
    pub(super) object: String,
    pub(super) key_id: u64,
    pub(super) version: u64,
    key_hash: String,
    owner: String,
    operation: Option<String>,
    status: String,
    attempts: u64,
    failures: u64,
    response_status: Option<u64>,
    created_at_ms: u64,
    finished_at_ms: Option<u64>,
    expires_at_ms: Option<u64>,
    updated_at_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct AuditRow {
    pub(super) object: String,
    pub(super) audit_id: u64,
    at_ms: u64,
    actor: String,
    action: String,
    subject: String,
    data: String,
}

impl PaymentRow {
    /// The key that stands in the payment's own row: its first, which ended as it should.
    pub(super) fn own_key(&self) -> Option<KeyRow> {
        Some(KeyRow {
            object: self.object.clone(),
            key_id: 1,
            version: self.version?,
            key_hash: self.key_hash.clone()?,
            owner: self.owner.clone()?,
            operation: Some("payment".to_owned()),
            status: "finished".to_owned(),
            attempts: self.key_attempts.unwrap_or(1),
            failures: 0,
            response_status: self.key_response_status,
            created_at_ms: self.created_at_ms?,
            finished_at_ms: self.key_finished_at_ms,
            expires_at_ms: self.key_expires_at_ms,
            updated_at_ms: self.updated_at_ms?,
        })
    }

    /// The audit records that do: that it was made, and that its money was taken.
    pub(super) fn own_audit(&self) -> Vec<AuditRow> {
        let record = |audit_id, at_ms: Option<u64>, action: &str, data: &Option<String>| {
            Some(AuditRow {
                object: self.object.clone(),
                audit_id,
                at_ms: at_ms?,
                actor: self.owner.clone()?,
                action: action.to_owned(),
                subject: self.payment_id.clone(),
                data: data.clone()?,
            })
        };
        let created = record(1, self.created_at_ms, "payment.created", &self.created_data);
        let captured = record(2, self.captured_at_ms, "payment.captured", &self.captured_data);
        created.into_iter().chain(captured).collect()
    }
}

pub(super) const PAYMENTS: [Column<PaymentRow>; 22] = [
    Column::Text("payment_id", |row| Some(&row.payment_id)),
    Column::Number("version", |row| row.version),
    Column::Text("object", |row| Some(&row.object)),
    Column::Text("owner", |row| row.owner.as_deref()),
    Column::Text("status", |row| row.status.as_deref()),
    Column::Number("amount_minor", |row| row.amount_minor),
    Column::Number("captured_minor", |row| row.captured_minor),
    Column::Number("refunded_minor", |row| row.refunded_minor),
    Column::Number("refunded_elsewhere_minor", |row| row.refunded_elsewhere_minor),
    Column::Text("currency", |row| row.currency.as_deref()),
    Column::Text("provider", |row| row.provider.as_deref()),
    Column::Text("provider_payment", |row| row.provider_payment.as_deref()),
    Column::Text("stripe_account", |row| row.stripe_account.as_deref()),
    Column::Text("order_id", |row| row.order_id.as_deref()),
    Column::Text("failure_code", |row| row.failure_code.as_deref()),
    Column::Number("attempt", |row| row.attempt),
    Column::Time("created_at", |row| row.created_at_ms),
    Column::Time("captured_at", |row| row.captured_at_ms),
    Column::Time("updated_at", |row| row.updated_at_ms),
    Column::Text("done_jobs", |row| row.told_jobs.as_deref()),
    Column::Number("previous_version", |row| row.left_version),
    // Files of earlier releases end here.
    Column::Text("merchant_account", |row| row.merchant_account.as_deref()),
];

pub(super) const REFUNDS: [Column<RefundRow>; 11] = [
    Column::Text("refund_id", |row| Some(&row.refund_id)),
    Column::Text("payment_id", |row| Some(&row.payment_id)),
    Column::Number("version", |row| Some(row.version)),
    Column::Text("status", |row| Some(&row.status)),
    Column::Number("amount_minor", |row| Some(row.amount_minor)),
    Column::Text("currency", |row| Some(&row.currency)),
    Column::Text("reason", |row| Some(&row.reason)),
    Column::Text("provider", |row| Some(&row.provider)),
    Column::Text("provider_refund", |row| row.provider_refund.as_deref()),
    Column::Time("created_at", |row| Some(row.created_at_ms)),
    Column::Time("updated_at", |row| Some(row.updated_at_ms)),
];

pub(super) const KEYS: [Column<KeyRow>; 14] = [
    Column::Text("object", |row| Some(&row.object)),
    Column::Number("key_id", |row| Some(row.key_id)),
    Column::Number("version", |row| Some(row.version)),
    Column::Text("key_hash", |row| Some(&row.key_hash)),
    Column::Text("owner", |row| Some(&row.owner)),
    Column::Text("operation", |row| row.operation.as_deref()),
    Column::Text("status", |row| Some(&row.status)),
    Column::Number("attempts", |row| Some(row.attempts)),
    Column::Number("failures", |row| Some(row.failures)),
    Column::Number("response_status", |row| row.response_status),
    Column::Time("created_at", |row| Some(row.created_at_ms)),
    Column::Time("finished_at", |row| row.finished_at_ms),
    Column::Time("expires_at", |row| row.expires_at_ms),
    Column::Time("updated_at", |row| Some(row.updated_at_ms)),
];

pub(super) const AUDIT: [Column<AuditRow>; 7] = [
    Column::Text("object", |row| Some(&row.object)),
    Column::Number("audit_id", |row| Some(row.audit_id)),
    Column::Time("recorded_at", |row| Some(row.at_ms)),
    Column::Text("actor", |row| Some(&row.actor)),
    Column::Text("action", |row| Some(&row.action)),
    Column::Text("subject", |row| Some(&row.subject)),
    Column::Text("data", |row| Some(&row.data)),
];
