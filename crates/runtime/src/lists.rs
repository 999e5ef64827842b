//! Lists whose rows are in many places: in their order, each row once, a part at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::Result;

use crate::db::{Db, Value};
use crate::places::{PLACES_MAX, ReadModel};
use messages::placement::{self, ShardName};

/// How many rows of D1 are looked through for one part of a list; twice as many as are asked for, where that is more.
const LOOK_MAX: usize = 3_200;

/// A row of a list that is in many places.
pub trait Listed {
    /// What the list is ordered by: the first one comes first.
    type Order: Ord;
    /// Its place in the list.
    fn order(&self) -> Self::Order;
    /// What it is: rows with the same id are one.
    fn id(&self) -> String;
    /// Of two rows that are one, the greater counts.
    fn version(&self) -> u64;
}

impl ReadModel {
    /// A part of a list. `sql` gives the statement for so many rows after so many: where there is D1 alone it is asked as it is.
    pub async fn page<T: DeserializeOwned + Listed>(
        &self,
        sql: impl Fn(usize, usize) -> String,
        values: Vec<Value>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<T>> {
        self.page_in(self.places().await?, sql, values, (limit, offset)).await
    }

    /// The same of these places, of which D1 is the first one.
    pub async fn page_in<T: DeserializeOwned + Listed>(
        &self,
        places: Vec<Db>,
        sql: impl Fn(usize, usize) -> String,
        values: Vec<Value>,
        (limit, offset): (usize, usize),
    ) -> Result<Vec<T>> {
        if places.len() == 1 {
            return self.d1()?.rows(&sql(limit, offset), values).await;
        }
        let rows = self.rows_in(places, &sql(limit.saturating_add(offset), 0), &values).await?;
        Ok(merged(rows).into_iter().skip(offset).take(limit).collect())
    }

    /// The same of a list whose newest come first by when they were made, in ms since the epoch: month by month, until there are enough.
    pub async fn page_by_month<T: DeserializeOwned + Listed>(
        &self,
        sql: impl Fn(usize, usize) -> String,
        values: Vec<Value>,
        (limit, offset): (usize, usize),
        made_at_ms: impl Fn(&T) -> u64,
    ) -> Result<Vec<T>> {
        if !self.is_many().await? {
            return self.d1()?.rows(&sql(limit, offset), values).await;
        }
        let shards = self.directory().await?.shards.clone();
        let rows =
            self.newest(&shards, |most| sql(most, 0), values, limit.saturating_add(offset), made_at_ms);
        Ok(rows.await?.into_iter().skip(offset).take(limit).collect())
    }

    /// The newest payments that D1 and these shards have, whose newest month comes first. `sql` gives the statement for so many.
    pub async fn newest<T: DeserializeOwned + Listed>(
        &self,
        shards: &[ShardName],
        sql: impl Fn(usize) -> String,
        values: Vec<Value>,
        most: usize,
        made_at_ms: impl Fn(&T) -> u64,
    ) -> Result<Vec<T>> {
        if shards.is_empty() {
            return self.d1()?.rows(&sql(most), values).await;
        }
        let OfD1 { mut rows, looked_through } =
            self.newest_of_d1(shards, &sql, &values, most, &made_at_ms).await?;
        let sql = sql(most);
        let (months, is_cut) = months(shards, PLACES_MAX - 1);
        let mut is_full = false;
        for month in months {
            let places = month.names.iter().map(|name| Db::shard(&self.env, &name.to_string())).collect();
            rows.extend(self.rows_in(places, &sql, &values).await?);
            rows = merged(rows);
            // All that are older stand in the months before, or in D1.
            let since = month.names.first().map(|name| name.month.as_str()).unwrap_or_default();
            let enough =
                rows.iter().filter(|row| placement::month(made_at_ms(row)).as_str() >= since).count();
            is_full = enough >= most && month.is_whole;
            if is_full {
                break;
            }
        }
        self.note_cut(is_cut && !is_full);
        rows = merged(rows);
        rows.truncate(most);
        // Whatever is older than what was looked through in D1 may be missing.
        let is_behind =
            |since_ms: u64| rows.len() < most || rows.last().is_some_and(|row| made_at_ms(row) <= since_ms);
        self.note_cut(looked_through.is_some_and(is_behind));
        Ok(rows)
    }

    /// The newest payments that D1 has, without those that were changed in their shard since a move has begun: they may be in the list by what
    /// they were.
    async fn newest_of_d1<T: DeserializeOwned + Listed>(
        &self,
        shards: &[ShardName],
        sql: impl Fn(usize) -> String,
        values: &[Value],
        most: usize,
        made_at_ms: impl Fn(&T) -> u64,
    ) -> Result<OfD1<T>> {
        let directory = self.directory().await?;
        let d1 = self.d1()?;
        let ask = async |most| d1.rows(&sql(most), values.to_vec()).await;
        let is_moved = |row: &T| placement::is_moved(&directory.layouts, made_at_ms(row));
        let versions = async |moved: Vec<&T>| {
            let months = moved.iter().map(|row| (row.id(), placement::month(made_at_ms(row))));
            self.versions(shards, months.collect()).await
        };
        without_older(most, ask, is_moved, versions, &made_at_ms).await
    }

    /// At which versions payments are in these shards, by their ids; each was made in a month.
    async fn versions(
        &self,
        shards: &[ShardName],
        payments: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, u64>> {
        #[derive(Deserialize)]
        struct Version {
            payment_id: String,
            version: u64,
        }
        if payments.is_empty() {
            return Ok(BTreeMap::new());
        }
        let sql =
            "SELECT payment_id, version FROM payments WHERE payment_id IN (SELECT value FROM json_each(?1))";
        let of: BTreeSet<&str> = payments.values().map(String::as_str).collect();
        let places = self.bounded(shards.iter().filter(|name| of.contains(name.month.as_str())).collect());
        let ids: Vec<&String> = payments.keys().collect();
        let rows: Vec<Version> = self.rows_in(places, sql, &[serde_json::to_string(&ids)?.into()]).await?;
        Ok(rows.into_iter().map(|row| (row.payment_id, row.version)).collect())
    }
}

/// The newest rows that D1 has.
struct OfD1<T> {
    rows: Vec<T>,
    /// There are more, and no more were looked through: those that were made before this moment, in ms since the epoch.
    looked_through: Option<u64>,
}

/// The first `most` rows of a place, which `ask` gives, that are nowhere else as a newer version: of those that are moved, `versions` says it. While
/// there are many that have changed since a move began, it looks further, but not without end.
async fn without_older<T: Listed>(
    most: usize,
    ask: impl AsyncFn(usize) -> Result<Vec<T>>,
    is_moved: impl Fn(&T) -> bool,
    versions: impl AsyncFn(Vec<&T>) -> Result<BTreeMap<String, u64>>,
    made_at_ms: impl Fn(&T) -> u64,
) -> Result<OfD1<T>> {
    let bound = most.saturating_mul(2).max(LOOK_MAX);
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut newest = BTreeMap::new();
    let mut asked = most;
    loop {
        let mut rows = ask(asked).await?;
        let is_last = rows.len() < asked;
        let unknown: Vec<&T> =
            rows.iter().filter(|row| is_moved(row) && !known.contains(&row.id())).collect();
        let ids: Vec<String> = unknown.iter().map(|row| row.id()).collect();
        newest.extend(versions(unknown).await?);
        known.extend(ids);
        let last = rows.last().map(&made_at_ms);
        rows.retain(|row| newest.get(&row.id()).is_none_or(|version| *version <= row.version()));
        let is_enough = is_last || rows.len() >= most;
        if is_enough || asked >= bound {
            rows.truncate(most);
            return Ok(OfD1 { rows, looked_through: last.filter(|_| !is_enough) });
        }
        asked = asked.saturating_mul(4).min(bound);
    }
}

/// Shards of one month.
struct Month<'a> {
    names: &'a [ShardName],
    /// Or there are more of it than are asked.
    is_whole: bool,
}

/// The first shards, at most so many, month by month; and whether there are more.
fn months(shards: &[ShardName], most: usize) -> (Vec<Month<'_>>, bool) {
    let (asked, others) = shards.split_at_checked(most).unwrap_or((shards, &[]));
    let next = others.first().map(|name| name.month.as_str());
    let chunks = asked.chunk_by(|one, other| one.month == other.month);
    let month =
        |names| Month { names, is_whole: names.first().map(|name: &ShardName| name.month.as_str()) != next };
    (chunks.map(month).collect(), !others.is_empty())
}

/// In their order, each once: while a payment is moved it may stand in two places.
pub fn merged<T: Listed>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort_by_cached_key(|row| (row.id(), Reverse(row.version())));
    rows.dedup_by(|later, first| later.id() == first.id());
    rows.sort_by_cached_key(T::order);
    rows
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn what_is_beyond_the_places_that_are_asked_is_known_to_be_missing() {
        let name = |month: &str, slot| ShardName { month: month.to_owned(), layout_id: 1, slot };
        let shards: Vec<ShardName> =
            ["2026-11", "2026-10"].iter().flat_map(|month| (0..3).map(|slot| name(month, slot))).collect();
        let told = |most| {
            let (months, is_cut) = months(&shards, most);
            (months.iter().map(|month| (month.names.len(), month.is_whole)).collect::<Vec<_>>(), is_cut)
        };
        assert_eq!(told(9), (vec![(3, true), (3, true)], false));
        assert_eq!(told(6), (vec![(3, true), (3, true)], false));
        assert_eq!(told(4), (vec![(3, true), (1, false)], true));
        assert_eq!(told(3), (vec![(3, true)], true), "those before are left out, and it says so");
        assert_eq!(told(2), (vec![(2, false)], true));
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Row(String, u64, u64);
    impl Listed for Row {
        type Order = Reverse<u64>;
        fn order(&self) -> Self::Order {
            Reverse(self.1)
        }
        fn id(&self) -> String {
            self.0.clone()
        }
        fn version(&self) -> u64 {
            self.2
        }
    }

    fn row(id: &str, order: u64, version: u64) -> Row {
        Row(id.to_owned(), order, version)
    }

    /// So many rows of D1, of which the first `stale` have changed in their shard since: what is found, how many rows each question had, and how
    /// many ids were asked for.
    fn looked(all: u64, stale: u64, most: usize) -> (OfD1<Row>, Vec<usize>, usize) {
        let rows: Vec<Row> = (0..all).map(|number| row(&number.to_string(), all - number, 1)).collect();
        let (questions, ids) = (RefCell::new(Vec::new()), Cell::new(0));
        let ask = async |most: usize| {
            questions.borrow_mut().push(most);
            Ok(rows.iter().take(most).cloned().collect())
        };
        let versions = async |moved: Vec<&Row>| {
            ids.set(ids.get() + moved.len());
            let changed = moved.into_iter().filter(|row| row.1 > all - stale);
            Ok(changed.map(|row| (row.id(), 2)).collect())
        };
        let found = without_older(most, ask, |_| true, versions, |row| row.1).now_or_never();
        (found.unwrap().unwrap(), questions.into_inner(), ids.get())
    }

    #[test]
    fn what_has_changed_in_its_shard_is_passed_over_and_each_is_asked_for_once() {
        let (found, questions, ids) = looked(5_000, 700, 20);
        assert_eq!(found.rows.first(), Some(&row("700", 4_300, 1)));
        assert_eq!((found.rows.len(), found.looked_through), (20, None));
        assert_eq!(questions, [20, 80, 320, 1_280]);
        assert_eq!(ids, 1_280, "each once");
        let (found, ..) = looked(30, 30, 20);
        assert_eq!((found.rows.len(), found.looked_through), (0, None), "there are no more");
    }

    #[test]
    fn more_than_the_bound_is_not_looked_through_and_it_is_known_from_where_on() {
        let (found, questions, ids) = looked(100_000, 90_000, 1);
        assert_eq!((found.rows.len(), found.looked_through), (0, Some(100_001 - 3_200)));
        assert_eq!((questions.last(), questions.len(), ids), (Some(&3_200), 7, 3_200));
        let (found, questions, _) = looked(100_000, 90_000, 5_000);
        assert_eq!((found.looked_through, questions), (Some(100_001 - 10_000), vec![5_000, 10_000]));
    }

    #[test]
    fn rows_of_many_places_are_in_order_and_of_two_that_are_one_the_newer_counts() {
        let rows = vec![
            row("a", 1, 1),
            row("c", 3, 1),
            row("b", 2, 1),
            row("c", 9, 2),
            row("b", 2, 1),
            row("c", 3, 1),
        ];
        assert_eq!(merged(rows), [row("c", 9, 2), row("b", 2, 1), row("a", 1, 1)]);
    }
}
