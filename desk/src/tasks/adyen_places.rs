//! Finds our payments of which the reports tell, in whichever place they stand.
//!
//! - D1 is asked first, then it is read which shards there are, then these are asked: the mover writes a payment into its shard before it
//!   deletes it in D1, so it is seen in one of them. In both, the newer one counts, with the refunds of both.
//! - A payment was made before anything that a report says of it: the shards of that time are asked, those of the newest periods first, until it
//!   is found. What is not found in the nearest ones is [looked for](super::adyen_searches) in all the others, a part of them in each run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use worker::Result;

use super::adyen_compare::{Booked, LocalRefund};
use super::adyen_stores::{Halt, Stores};
use super::breaks;
use super::compare::LocalRecord;
use messages::placement::{self, Layout, ShardName};
use payments::providers::Provider;
use payments::timestamp;
use runtime::db::Statement;

/// How much later than a report says a payment may have been made, in ms: its times are in time zones with ambiguous names.
const SLACK_MS: u64 = 86_400_000;
/// How many shards of the directory are read at once: a day may have hundreds.
const READ_MAX: usize = 4_000;
/// How long the text of a month is, with which that of a day begins.
const MONTH: usize = "2026-11".len();

/// A payment of which the reports tell.
#[derive(Clone, Debug)]
pub(super) struct Sought {
    /// Adyen's id.
    payment: String,
    /// The payment of ours that the reports name.
    resource: Option<String>,
    /// The newest day on which it can have been made, such as `2026-11-20`, where a time is known.
    day: Option<String>,
}

impl Sought {
    /// Those that these lines are about.
    pub(super) fn of(lines: &[Booked]) -> Vec<Self> {
        let mut all: BTreeMap<&str, (Option<&str>, Option<u64>)> = BTreeMap::new();
        for line in lines {
            let (resource, at_ms) = all.entry(&line.payment).or_default();
            *resource = resource.or(line.resource.as_deref());
            *at_ms = [*at_ms, line.made_at_ms].into_iter().flatten().min();
        }
        let sought = |(payment, (resource, at_ms)): (&str, (Option<&str>, Option<u64>))| Self {
            payment: payment.to_owned(),
            resource: resource.map(str::to_owned),
            day: at_ms.map(|at_ms| day(at_ms.saturating_add(SLACK_MS))),
        };
        all.into_iter().map(sought).collect()
    }

    /// Whether it may have been made in this period: a month, a day, or an hour of one.
    fn may_be_in(&self, period: &str) -> bool {
        self.day.as_deref().is_none_or(|day| period.get(..day.len()).unwrap_or(period) <= day)
    }
}

/// The day of a moment (UTC).
fn day(at_ms: u64) -> String {
    timestamp(at_ms).chars().take(10).collect()
}

/// A refund, as a place has it.
#[derive(Clone, Debug, Deserialize)]
struct PlacedRefund {
    refund_id: String,
    version: u64,
    provider: String,
    #[serde(flatten)]
    refund: LocalRefund,
}

/// A payment, as a place has it.
#[derive(Clone, Debug)]
struct Placed {
    /// `None`: D1.
    shard: Option<ShardName>,
    record: LocalRecord,
    version: u64,
    /// It is not marked as one that stands in a report.
    is_unmarked: bool,
    refunds: Vec<PlacedRefund>,
}

/// As a statement gives it.
#[derive(Deserialize)]
struct Row {
    record: String,
    version: u64,
    is_unmarked: u32,
    refunds: String,
}

impl Row {
    fn placed(self, shard: Option<&ShardName>) -> serde_json::Result<Placed> {
        Ok(Placed {
            shard: shard.cloned(),
            record: serde_json::from_str(&self.record)?,
            version: self.version,
            is_unmarked: self.is_unmarked != 0,
            refunds: serde_json::from_str(&self.refunds)?,
        })
    }
}

/// The payments with Adyen's ids `?1`, or ours `?2`.
fn ask<'a>(sought: impl IntoIterator<Item = &'a Sought>) -> serde_json::Result<Statement> {
    let (mut payments, mut resources) = (Vec::new(), Vec::new());
    for one in sought {
        payments.push(one.payment.as_str());
        resources.extend(one.resource.as_deref());
    }
    let records = breaks::local_records_sql(
        "provider_payment IN (SELECT value FROM json_each(?1)) OR payment_id IN (SELECT value FROM json_each(?2))",
    );
    let sql = format!(
        "SELECT json_object('resource', resource, 'object', ours.object, 'provider', ours.provider, 'status', ours.status,
            'amount_minor', ours.amount_minor, 'captured_minor', ours.captured_minor, 'refunded_minor', ours.refunded_minor,
            'refunding_minor', refunding_minor, 'own_captures', own_captures, 'currency', ours.currency,
            'provider_payment', ours.provider_payment, 'dispute', dispute, 'dispute_status', dispute_status,
            'created_at_ms', ours.created_at_ms, 'updated_at_ms', ours.updated_at_ms) AS record, version,
            moved_payment IS NOT payments.provider_payment AS is_unmarked,
            (SELECT json_group_array(json_object('refund_id', refund_id, 'version', refunds.version, 'provider', refunds.provider,
                'payment_id', payment_id, 'provider_refund', provider_refund, 'status', refunds.status,
                'amount_minor', refunds.amount_minor, 'currency', refunds.currency))
             FROM refunds WHERE payment_id = resource) AS refunds
         FROM ({records}) AS ours CROSS JOIN payments ON payments.payment_id = resource"
    );
    Ok(Statement::new(sql, vec![json(&payments)?.into(), json(&resources)?.into()]))
}

fn json<T: Serialize + ?Sized>(of: &T) -> serde_json::Result<String> {
    serde_json::to_string(of)
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    placed: Vec<Placed>,
    payments: BTreeSet<String>,
    resources: BTreeSet<String>,
    /// Those that are nowhere where they were looked for, and may be in other shards.
    pub(super) left: BTreeSet<String>,
    /// How many shards were asked, each time.
    pub(super) requests: usize,
}

impl Found {
    fn add(&mut self, shard: Option<&ShardName>, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let placed = row.placed(shard)?;
            self.payments.extend(placed.record.provider_payment.clone());
            self.resources.insert(placed.record.resource.clone());
            self.placed.push(placed);
        }
        Ok(())
    }

    /// Whether it stands in a place that was asked. Where a report names a payment of ours, Adyen's id is one of its tries.
    pub(super) fn has(&self, sought: &Sought) -> bool {
        self.payments.contains(&sought.payment)
            || sought.resource.as_ref().is_some_and(|resource| self.resources.contains(resource))
    }

    /// Of each payment the newest record, and all refunds.
    pub(super) fn records(&self) -> (Vec<LocalRecord>, Vec<LocalRefund>) {
        let mut each: BTreeMap<&str, Vec<&Placed>> = BTreeMap::new();
        for placed in &self.placed {
            each.entry(&placed.record.resource).or_default().push(placed);
        }
        let (mut records, mut refunds) = (Vec::new(), Vec::new());
        for placed in each.into_values() {
            let (record, own) = merged(&placed);
            records.extend(record);
            let adyen = own.into_iter().filter(|own| own.provider == Provider::Adyen.as_str());
            refunds.extend(adyen.map(|own| own.refund.clone()));
        }
        (records, refunds)
    }

    /// Those of these (Adyen's ids) that are not marked yet, by place.
    fn unmarked(&self, settled: &BTreeSet<&str>) -> BTreeMap<Option<ShardName>, Vec<&str>> {
        let mut places: BTreeMap<Option<ShardName>, Vec<&str>> = BTreeMap::new();
        for Placed { shard, record, .. } in self.placed.iter().filter(|placed| placed.is_unmarked) {
            let is_adyen = record.provider == Provider::Adyen.as_str();
            if let Some(payment) =
                record.provider_payment.as_deref().filter(|id| is_adyen && settled.contains(id))
            {
                places.entry(shard.clone()).or_default().push(payment);
            }
        }
        places
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

/// Looks for payments in D1 and in the shards where they most probably are: some of them, and whole periods.
pub(super) async fn find(
    stores: &impl Stores,
    sought: &[Sought],
    near_shards: usize,
) -> std::result::Result<Found, Halt> {
    let mut found = Found::default();
    found.add(None, stores.rows(ask(sought)?).await?)?;
    // What is moved from D1 may be in its shard already.
    for (day, ids) in moved(&found, &stores.layouts().await?) {
        let shards = stores.shards_of_periods(&periods_of(&day), READ_MAX).await?;
        let of_day = sought.iter().filter(|one| one.ids().any(|id| ids.contains(id)));
        ask_shards(stores, &mut found, &shards, of_day).await?;
    }
    let shards = stores.shards_behind(newest(sought).as_ref(), READ_MAX).await?;
    let mut unasked: BTreeSet<&str> = BTreeSet::new();
    for shards in shards.chunk_by(|one, other| one.period == other.period) {
        let period = shards.first().map(|shard| shard.period.as_str()).unwrap_or_default();
        let is_near = found.requests < near_shards;
        let (asked, others): (Vec<&Sought>, Vec<&Sought>) =
            sought.iter().filter(|one| !found.has(one)).partition(|one| is_near && one.may_be_in(period));
        unasked.extend(others.iter().map(|one| one.payment.as_str()));
        if !asked.is_empty() {
            ask_shards(stores, &mut found, shards, asked.iter().copied()).await?;
        }
    }
    if shards.len() == READ_MAX {
        unasked.extend(sought.iter().map(|one| one.payment.as_str()));
    }
    let left = sought.iter().filter(|one| unasked.contains(one.payment.as_str()) && !found.has(one));
    found.left = left.map(|one| one.payment.clone()).collect();
    Ok(found)
}

/// Looks for payments in these shards, all of which must answer.
pub(super) async fn ask_shards(
    stores: &impl Stores,
    found: &mut Found,
    shards: &[ShardName],
    sought: impl IntoIterator<Item = &Sought>,
) -> std::result::Result<(), Halt> {
    found.requests = found.requests.saturating_add(shards.len());
    for (shard, rows) in stores.shard_rows(shards, &ask(sought)?).await?.all()? {
        found.add(Some(&shard), rows)?;
    }
    Ok(())
}

impl Sought {
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.resource.as_deref().into_iter().chain([self.payment.as_str()])
    }

    /// Adyen's id.
    pub(super) fn payment(&self) -> &str {
        &self.payment
    }
}

/// All periods, of whatever length, that have a day in them or are in it.
fn periods_of(day: &str) -> BTreeSet<String> {
    let hours = (0..24).map(|hour| format!("{day}T{hour:02}"));
    let longer = [day.get(..MONTH).unwrap_or(day), day].map(str::to_owned);
    hours.chain(longer).collect()
}

/// A name behind which all shards are in which these may be; `None` where they may be in any.
fn newest(sought: &[Sought]) -> Option<ShardName> {
    let days: Option<Vec<&str>> = sought.iter().map(|one| one.day.as_deref()).collect();
    let month = days?.into_iter().max()?.get(..MONTH)?;
    // Behind the end of the month, whatever the layout is called.
    Some(ShardName { period: format!("{month}~"), layout_id: 0, slot: 0 })
}

/// Those of D1's that are moved, or will be: the days on which they were made, each with all their ids.
fn moved(found: &Found, layouts: &[Layout]) -> BTreeMap<String, BTreeSet<String>> {
    let mut days: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Placed { record, .. } in &found.placed {
        if placement::is_moved(layouts, record.created_at_ms) {
            let ids = days.entry(day(record.created_at_ms)).or_default();
            ids.insert(record.resource.clone());
            ids.extend(record.provider_payment.clone());
        }
    }
    days
}

/// Marks payments that stand in a report as settled (Adyen's ids), wherever they are. `false`: one of D1's has been moved meanwhile, and all are to be looked for again. First in D1: the
/// mover takes the mark along.
pub(super) async fn mark(
    stores: &impl Stores,
    found: &mut Found,
    settled: &BTreeSet<&str>,
) -> std::result::Result<bool, Halt> {
    let sql = "UPDATE payments SET listed_payment = provider_payment, moved_payment = provider_payment
         WHERE provider = 'adyen' AND moved_payment IS NOT provider_payment
            AND provider_payment IN (SELECT value FROM json_each(?1))";
    let mut requests = 0;
    for (shard, payments) in found.unmarked(settled) {
        let marked = Statement::new(sql, vec![json(&payments)?.into()]);
        match shard {
            None => {
                let changed: usize = stores.batch(vec![marked]).await?.iter().sum();
                if changed < payments.len() {
                    return Ok(false);
                }
            }
            Some(shard) => {
                requests += 1;
                stores.shard_batch(&[shard], &[marked]).await?.all()?;
            }
        }
    }
    found.requests = found.requests.saturating_add(requests);
    Ok(true)
}
