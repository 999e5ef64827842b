//! A payment as a place of the read model has it, with its refunds: how a place is asked, and what two places have of one payment that is being moved.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use worker::Result;

use super::adyen_compare::LocalRefund;
use super::breaks;
use super::compare::LocalRecord;
use messages::placement::ShardName;
use runtime::db::{Statement, Value};

/// A refund, as a place has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlacedRefund {
    refund_id: String,
    version: u64,
    pub(super) provider: String,
    /// It is not marked as one whose money has moved.
    pub(super) is_unmoved: u32,
    #[serde(flatten)]
    pub(super) refund: LocalRefund,
}

/// A payment, as a place has it.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// `None`: D1.
    pub(super) shard: Option<ShardName>,
    pub(super) record: LocalRecord,
    /// Whose it is, as stored.
    pub(super) owner: String,
    version: u64,
    /// It is not marked as one that the provider has listed.
    pub(super) is_unlisted: bool,
    /// It is not marked as one whose money has moved.
    pub(super) is_unmoved: bool,
    pub(super) refunds: Vec<PlacedRefund>,
}

/// As a statement gives it.
#[derive(Deserialize)]
pub(super) struct Row {
    record: String,
    owner: String,
    version: u64,
    is_unlisted: u32,
    is_unmoved: u32,
    refunds: String,
}

impl Row {
    fn placed(self, shard: Option<&ShardName>) -> serde_json::Result<Placed> {
        Ok(Placed {
            shard: shard.cloned(),
            record: serde_json::from_str(&self.record)?,
            owner: self.owner,
            version: self.version,
            is_unlisted: self.is_unlisted != 0,
            is_unmoved: self.is_unmoved != 0,
            refunds: serde_json::from_str(&self.refunds)?,
        })
    }
}

/// The payments with the provider's ids `?1`, or ours `?2`, of which this is true; it may have values of its own.
pub(super) fn ask(
    payments: &[&str],
    resources: &[&str],
    condition: &str,
    values: &[Value],
) -> serde_json::Result<Statement> {
    let records = breaks::local_records_sql(&format!(
        "(provider_payment IN (SELECT value FROM json_each(?1)) OR payment_id IN (SELECT value FROM json_each(?2))){condition}"
    ));
    let sql = format!(
        "SELECT json_object('resource', resource, 'object', ours.object, 'provider', ours.provider, 'status', ours.status,
            'amount_minor', ours.amount_minor, 'captured_minor', ours.captured_minor, 'refunded_minor', ours.refunded_minor,
            'refunding_minor', refunding_minor, 'own_captures', own_captures, 'currency', ours.currency,
            'provider_payment', ours.provider_payment, 'merchant_account', merchant_account, 'dispute', dispute, 'disputes', disputes, 'dispute_status', dispute_status,
            'dispute_minor', dispute_minor, 'dispute_withdrawn', dispute_withdrawn, 'created_at_ms', ours.created_at_ms, 'updated_at_ms', ours.updated_at_ms) AS record,
            owner, version, listed_payment IS NOT payments.provider_payment AS is_unlisted,
            moved_payment IS NOT payments.provider_payment AS is_unmoved,
            (SELECT json_group_array(json_object('refund_id', refund_id, 'version', refunds.version, 'provider', refunds.provider,
                'payment_id', payment_id, 'provider_refund', provider_refund, 'status', refunds.status,
                'amount_minor', refunds.amount_minor, 'currency', refunds.currency,
                'is_unmoved', moved_refund IS NOT provider_refund))
             FROM refunds WHERE payment_id = resource) AS refunds
         FROM ({records}) AS ours CROSS JOIN payments ON payments.payment_id = resource"
    );
    let own = [json(payments)?.into(), json(resources)?.into()];
    Ok(Statement::new(sql, own.into_iter().chain(values.iter().cloned()).collect()))
}

pub(super) fn json<T: Serialize + ?Sized>(of: &T) -> serde_json::Result<String> {
    serde_json::to_string(of)
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) placed: Vec<Placed>,
    payments: BTreeSet<String>,
    resources: BTreeSet<String>,
    /// Those (the provider's ids) that are nowhere where they were looked for, and may be in other shards.
    pub(super) left: BTreeSet<String>,
    /// How many shards were asked, each time.
    pub(super) requests: usize,
}

impl Found {
    pub(super) fn add(&mut self, shard: Option<&ShardName>, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let placed = row.placed(shard)?;
            self.payments.extend(placed.record.provider_payment.clone());
            self.resources.insert(placed.record.resource.clone());
            self.placed.push(placed);
        }
        Ok(())
    }

    /// Whether it stands in a place that was asked, by the provider's id or by ours: the provider's may be one of its tries.
    pub(super) fn has(&self, payment: &str, resource: Option<&str>) -> bool {
        self.payments.contains(payment) || resource.is_some_and(|resource| self.resources.contains(resource))
    }

    /// Of each payment the newest record, and all refunds with this provider.
    pub(super) fn records(&self, provider: &str) -> (Vec<LocalRecord>, Vec<LocalRefund>) {
        let mut each: BTreeMap<&str, Vec<&Placed>> = BTreeMap::new();
        for placed in &self.placed {
            each.entry(&placed.record.resource).or_default().push(placed);
        }
        let (mut records, mut refunds) = (Vec::new(), Vec::new());
        for placed in each.into_values() {
            let (record, own) = merged(&placed);
            records.extend(record);
            let of_provider = own.into_iter().filter(|own| own.provider == provider);
            refunds.extend(of_provider.map(|own| own.refund.clone()));
        }
        (records, refunds)
    }
}

/// What two places have of one payment while it is moved: refunds may be in either.
fn merged<'a>(placed: &[&'a Placed]) -> (Option<LocalRecord>, Vec<&'a PlacedRefund>) {
    let Some(newest) = placed.iter().max_by_key(|placed| placed.version) else { return (None, Vec::new()) };
    let mut refunds: BTreeMap<&str, &PlacedRefund> = BTreeMap::new();
    for one in placed.iter().flat_map(|placed| &placed.refunds) {
        let known = refunds.entry(&one.refund_id).or_insert(one);
        if one.version > known.version {
            *known = one;
        }
    }
    let sum = |all: &mut dyn Iterator<Item = &PlacedRefund>, status: &str| -> u64 {
        all.filter(|one| one.refund.status == status).map(|one| one.refund.amount_minor).sum()
    };
    let all = || refunds.values().copied();
    let elsewhere = newest.record.refunded_minor.saturating_sub(sum(&mut newest.refunds.iter(), "succeeded"));
    let record = LocalRecord {
        refunded_minor: elsewhere.saturating_add(sum(&mut all(), "succeeded")),
        refunding_minor: sum(&mut all(), "pending"),
        ..newest.record.clone()
    };
    (Some(record), all().collect())
}
