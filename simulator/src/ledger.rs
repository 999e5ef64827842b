//! The ledger: every charge and every refund at each provider, whatever callers believe. Tests count here.

use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::store::{Kind, Query, Row};

/// The ledger while it is put together. Lines carry the number of their row, so that those of all providers end in one order.
#[derive(Default)]
pub struct Ledger {
    charges: Vec<(i64, Value)>,
    captures: Vec<(i64, Value)>,
    cancels: Vec<(i64, Value)>,
    refunds: Vec<(i64, Value)>,
    succeeded: u64,
    captured_minor: i64,
    refunded_minor: i64,
}

/// What is asked for: `provider=`, `account=` and any number of `metadata[k]=v`. They hold for the charges, and for what was done to those
/// charges.
#[derive(Default)]
pub struct Filter {
    account: Option<String>,
    provider: Option<String>,
    metadata: Vec<(String, String)>,
}

impl Ledger {
    /// Adds a charge, with what counts in the totals.
    pub fn charge(&mut self, row: &Row, line: Value, succeeded: bool, captured_minor: i64) {
        self.succeeded += u64::from(succeeded);
        self.captured_minor += captured_minor;
        self.charges.push(of_row(row, line));
    }

    /// Adds a capture that is an object of its own.
    pub fn capture(&mut self, row: &Row, line: Value) {
        self.captures.push(of_row(row, line));
    }

    /// Adds a cancellation that is an object of its own.
    pub fn cancel(&mut self, row: &Row, line: Value) {
        self.cancels.push(of_row(row, line));
    }

    /// Adds a refund; of one that failed, nothing was given back.
    pub fn refund(&mut self, row: &Row, line: Value, refunded_minor: i64) {
        self.refunded_minor += refunded_minor;
        self.refunds.push(of_row(row, line));
    }

    /// As it is shown.
    pub fn into_json(self) -> Value {
        json!({
            "charges": in_order(self.charges),
            "captures": in_order(self.captures),
            "cancels": in_order(self.cancels),
            "refunds": in_order(self.refunds),
            "totals": {
                "succeeded_charges": self.succeeded, "amount_captured": self.captured_minor, "amount_refunded": self.refunded_minor,
            },
        })
    }
}

/// The amounts of a charge (asked for, captured, refunded) in major units: providers count some currencies in different units.
pub fn majors(minor: [i64; 3], major: impl Fn(i64) -> String) -> Value {
    let [amount, captured, refunded] = minor.map(major);
    json!({ "amount": amount, "captured": captured, "refunded": refunded })
}

/// All rows of a kind, in the order of the ledger.
pub fn oldest_first(kind: impl Into<Kind>) -> Query {
    Query { oldest_first: true, ..Query::all(kind) }
}

/// A line, with what is known of the request that made it.
fn of_row(row: &Row, mut own: Value) -> (i64, Value) {
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

impl Filter {
    /// Reads a query.
    pub fn of(query: &str) -> Self {
        let mut filter = Filter::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == "provider" {
                filter.provider = Some(value.into_owned());
            } else if name == "account" {
                filter.account = Some(value.into_owned());
            } else if let Some(key) = name.strip_prefix("metadata[").and_then(|name| name.strip_suffix(']')) {
                filter.metadata.push((key.to_owned(), value.into_owned()));
            }
        }
        filter
    }

    /// Whether a provider is asked for.
    pub fn provider(&self, name: &str) -> bool {
        self.provider.as_ref().is_none_or(|wanted| wanted == name)
    }

    /// Whether the account of a row is asked for.
    pub fn account(&self, row: &Row) -> bool {
        self.account.as_ref().is_none_or(|wanted| *wanted == row.account)
    }

    /// Whether metadata are asked for.
    pub fn metadata(&self, metadata: &Metadata) -> bool {
        self.metadata.iter().all(|(key, value)| metadata.get(key) == Some(value))
    }
}
