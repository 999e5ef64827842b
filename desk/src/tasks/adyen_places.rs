//! Finds our payments of which the reports tell, in whichever place they stand.
//!
//! - D1 is asked first, then it is read which shards there are, then these are asked: the mover writes a payment into its shard before it
//!   deletes it in D1, so it is seen in one of them. In both, the newer one counts, with the refunds of both.
//! - A payment was made before anything that a report says of it: the shards of that time are asked, those of the newest periods first, until it
//!   is found. What is not found in the nearest ones is [looked for](super::adyen_searches) in all the others, a part of them in each run.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::adyen_compare::Booked;
use super::adyen_merchants::{bare, within};
use super::adyen_stores::Stores;
use super::place_stores::Halt;
use super::placed::{self, Found, Placed, json};
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
    /// Adyen's id, within its merchant account.
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

/// The payments with Adyen's ids, or ours.
pub(super) fn ask<'a>(sought: impl IntoIterator<Item = &'a Sought>) -> serde_json::Result<Statement> {
    let (mut payments, mut resources) = (Vec::new(), Vec::new());
    for one in sought {
        payments.push(bare(&one.payment));
        resources.extend(one.resource.as_deref());
    }
    placed::ask(&payments, &resources, "", &[])
}

/// Those of these (Adyen's ids, within their merchant accounts) that are not marked yet, by place.
fn unmarked<'a>(found: &'a Found, settled: &BTreeSet<&str>) -> BTreeMap<Option<ShardName>, Vec<&'a str>> {
    let mut places: BTreeMap<Option<ShardName>, Vec<&str>> = BTreeMap::new();
    for Placed { shard, record, .. } in found.placed.iter().filter(|placed| placed.is_unmoved) {
        let is_adyen = record.provider == Provider::Adyen.as_str();
        let merchant = record.merchant_account.as_deref().unwrap_or_default();
        let is_settled = |id: &&str| is_adyen && settled.contains(&*within(merchant, id));
        if let Some(payment) = record.provider_payment.as_deref().filter(is_settled) {
            places.entry(shard.clone()).or_default().push(payment);
        }
    }
    places
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
            sought.iter().filter(|one| !one.is_in(&found)).partition(|one| is_near && one.may_be_in(period));
        unasked.extend(others.iter().map(|one| one.payment.as_str()));
        if !asked.is_empty() {
            ask_shards(stores, &mut found, shards, asked.iter().copied()).await?;
        }
    }
    if shards.len() == READ_MAX {
        unasked.extend(sought.iter().map(|one| one.payment.as_str()));
    }
    let left = sought.iter().filter(|one| unasked.contains(one.payment.as_str()) && !one.is_in(&found));
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
    let statement = Rc::new(ask(sought)?);
    let asks: Vec<_> = shards.iter().map(|shard| (shard.clone(), Rc::clone(&statement))).collect();
    for (shard, rows) in stores.shard_rows(&asks).await?.all()? {
        found.add(Some(&shard), rows)?;
    }
    Ok(())
}

impl Sought {
    /// Whether it stands in a place that was asked.
    pub(super) fn is_in(&self, found: &Found) -> bool {
        found.has(bare(&self.payment), self.resource.as_deref())
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        self.resource.as_deref().into_iter().chain([bare(&self.payment)])
    }

    /// Adyen's id, within its merchant account.
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

/// Marks payments that stand in a report as settled (Adyen's ids, within their merchant accounts), wherever they are. `false`: one of D1's has been moved meanwhile, and all are to be looked for again. First in D1: the
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
    for (shard, payments) in unmarked(found, settled) {
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
                stores.shard_batch(&[(shard, Rc::from([marked]))]).await?.all()?;
            }
        }
    }
    found.requests = found.requests.saturating_add(requests);
    Ok(true)
}
