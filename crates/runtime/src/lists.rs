//! Lists whose rows are in many places: in their order, each row once, a part at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::{Error, Result};

use crate::db::{Db, Value};
use crate::directory::{Shards, Wanted};
use crate::places::{ReadModel, shard};
use messages::placement::{self, Layout, ShardName};
use once::sorted;

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
    /// Notes in which shard it was found; `None` is D1.
    fn found_in(self, _shard: Option<&str>) -> Self
    where
        Self: Sized,
    {
        self
    }
}

/// With what each notes of where it was found.
fn placed<T: Listed>(found: impl IntoIterator<Item = (Db, T)>) -> impl Iterator<Item = T> {
    found.into_iter().map(|(db, row)| row.found_in(db.name()))
}

impl ReadModel {
    /// The newest of the rows that a statement has in these places, or the first that it has in any. An error if it may be where nobody has looked, or
    /// in one of these that does not answer.
    pub async fn found<T: DeserializeOwned + Listed>(
        &self,
        places: Vec<Db>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Option<T>> {
        let newest = placed(self.rows_in(places, sql, &values).await?).max_by_key(T::version);
        match (newest, self.missing()) {
            (None, Some(missing)) if self.is_silent() => Err(Error::RustError(missing)),
            (None, _) => Ok(placed(self.first_of(&Wanted::ALL, sql, values).await?).next()),
            (newest, _) => Ok(newest),
        }
    }

    /// A part of a list. `sql` gives the statement for so many rows after so many: where there is D1 alone it is asked as it is.
    pub async fn page<T: DeserializeOwned + Listed>(
        &self,
        sql: impl Fn(usize, usize) -> String,
        values: Vec<Value>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<T>> {
        let until_ms = self.until_ms.get();
        let (shards, _) = self.shards_of(&Wanted { until_ms, ..Wanted::ALL }).await?;
        let (names, looked_to_ms) = shards.whole_periods(self.list_shards_max()?);
        // Those who look on behind some shards have seen what D1 has.
        let d1 = (until_ms == u64::MAX).then(|| self.d1()).transpose()?;
        let places: Vec<Db> =
            d1.into_iter().chain(names.iter().map(|(_, name)| shard(&self.env, name))).collect();
        let rows = self.page_in(places, sql, values, (limit, offset)).await?;
        self.looked_to_ms.set(looked_to_ms.filter(|_| rows.len() < limit));
        Ok(rows)
    }

    /// The same of these places.
    pub async fn page_in<T: DeserializeOwned + Listed>(
        &self,
        places: Vec<Db>,
        sql: impl Fn(usize, usize) -> String,
        values: Vec<Value>,
        (limit, offset): (usize, usize),
    ) -> Result<Vec<T>> {
        if let [place] = places.as_slice() {
            let rows: Vec<T> = place.rows(&sql(limit, offset), values).await?;
            return Ok(rows.into_iter().map(|row| row.found_in(place.name())).collect());
        }
        let rows = self.rows_in(places, &sql(limit.saturating_add(offset), 0), &values).await?;
        Ok(merged(placed(rows).collect()).into_iter().skip(offset).take(limit).collect())
    }

    /// The newest payments that are wanted. `sql` gives the statement for so many. Where many shards are asked for one page each is asked for no more
    /// than may be its part of it, if `is_sliced`: a statement must give all that there are, if it gives fewer than it is asked for.
    pub async fn newest<T: DeserializeOwned + Listed>(
        &self,
        wanted: &Wanted<'_>,
        sql: impl Fn(usize) -> String,
        values: Vec<Value>,
        most: usize,
        is_sliced: bool,
        made_at_ms: impl Fn(&T) -> u64,
    ) -> Result<Part<T>> {
        let (shards, layouts) = self.shards_of(wanted).await?;
        if shards.names.is_empty() {
            return Ok(Part { rows: self.d1()?.rows(&sql(most), values).await?, looked_to_ms: None });
        }
        let d1 = self.newest_of_d1(&layouts, &sql, &values, most, &made_at_ms).await?;
        let ask = async |names: Vec<&ShardName>, most: usize| {
            let sql = sql(most);
            let places = names.into_iter().map(|name| shard(&self.env, name)).collect();
            let found = self.each(places, async |db: Db| db.ask(&sql, values.clone()).await).await?;
            let read = found
                .into_iter()
                .map(|(db, rows)| Ok((db.name().unwrap_or_default().to_owned(), rows.rows()?)));
            read.collect::<Result<Vec<(String, Vec<T>)>>>()
        };
        newest_first(
            &Plan { shards: &shards, shards_max: self.list_shards_max()?, most, is_sliced },
            d1,
            ask,
            made_at_ms,
        )
        .await
    }

    /// The newest payments that D1 has, without those that were changed in their shard since a move has begun: they may be in the list by what
    /// they were.
    async fn newest_of_d1<T: DeserializeOwned + Listed>(
        &self,
        layouts: &[Layout],
        sql: impl Fn(usize) -> String,
        values: &[Value],
        most: usize,
        made_at_ms: impl Fn(&T) -> u64,
    ) -> Result<OfD1<T>> {
        let d1 = self.d1()?;
        let ask = async |most| d1.rows(&sql(most), values.to_vec()).await;
        let is_moved = |row: &T| placement::is_moved(layouts, made_at_ms(row));
        let versions = async |moved: Vec<&T>| {
            let moved = moved.iter().map(|row| (row.id(), placement::moved_to(layouts, made_at_ms(row))));
            self.versions(sorted::map(moved)).await
        };
        without_older(most, ask, is_moved, versions, &made_at_ms).await
    }

    /// At which versions payments are in shards, by their ids; each was made in one of some periods.
    async fn versions(&self, payments: BTreeMap<String, Vec<String>>) -> Result<BTreeMap<String, u64>> {
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
        let ids: Vec<&String> = payments.keys().collect();
        let values = [serde_json::to_string(&ids)?.into()];
        let places = self.of_periods(&sorted::set(payments.into_values().flatten())).await?;
        let rows = self.rows_in::<Version>(places, sql, &values).await?.into_iter();
        Ok(sorted::map(rows.map(|(_, row)| (row.payment_id, row.version))))
    }
}

/// A part of a list, the newest first.
#[derive(Debug)]
pub struct Part<T> {
    /// These.
    pub rows: Vec<T>,
    /// All that was made then or later is here; there are not enough of these, and nobody has looked for those that were made before, in ms since the
    /// epoch.
    pub looked_to_ms: Option<u64>,
}

/// Where a part of a list is looked for.
struct Plan<'a> {
    shards: &'a Shards,
    /// After so many no shards of another period are asked.
    shards_max: usize,
    /// How many rows are enough.
    most: usize,
    is_sliced: bool,
}

/// The newest rows of D1 and of shards, one period after the other until there are enough.
async fn newest_first<T: Listed>(
    plan: &Plan<'_>,
    d1: OfD1<T>,
    ask: impl AsyncFn(Vec<&ShardName>, usize) -> Result<Vec<(String, Vec<T>)>>,
    made_at_ms: impl Fn(&T) -> u64,
) -> Result<Part<T>> {
    let Plan { shards, shards_max, most, is_sliced } = *plan;
    let mut rows = d1.rows;
    // Whatever is as old as what was looked through in D1 may be missing.
    let d1_since_ms = d1.looked_through.map_or(0, |at_ms| at_ms.saturating_add(1));
    let (mut asked, mut since_ms) = (0, d1_since_ms);
    let certain = |rows: &[T], since_ms| rows.iter().filter(|row| made_at_ms(row) >= since_ms).count();
    while let (Some(chunk), true) = (shards.next(asked), asked < shards_max) {
        asked += chunk.len();
        since_ms = shards.left_until_ms(asked).unwrap_or(0).max(d1_since_ms);
        let mut of_each = match is_sliced {
            true => (most.div_ceil(chunk.len()) * 2 + 8).min(most),
            false => most,
        };
        let mut asks: Vec<&ShardName> = chunk.iter().map(|(_, name)| name).collect();
        while !asks.is_empty() {
            let mut full = BTreeMap::new();
            for (name, found) in ask(asks, of_each).await? {
                if let Some(last) = found.last().filter(|_| (of_each..most).contains(&found.len())) {
                    full.insert(name, made_at_ms(last));
                }
                rows.extend(found);
            }
            rows = merged(rows);
            // One that has given as many as it was asked for may have more that belong here.
            let enough_ms = (certain(&rows, since_ms) >= most)
                .then(|| most.checked_sub(1).and_then(|last| rows.get(last)).map_or(0, &made_at_ms));
            full.retain(|_, last_ms| enough_ms.is_none_or(|enough_ms| *last_ms >= enough_ms));
            asks = chunk
                .iter()
                .map(|(_, name)| name)
                .filter(|name| full.contains_key(&name.to_string()))
                .collect();
            of_each = of_each.saturating_mul(4).min(most);
        }
        if certain(&rows, since_ms) >= most {
            break;
        }
    }
    rows = merged(rows);
    let number = certain(&rows, since_ms);
    let is_cut = number < most && since_ms > 0;
    rows.truncate(if is_cut { number } else { most });
    Ok(Part { rows, looked_to_ms: is_cut.then_some(since_ms) })
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

/// In their order, each once: while a payment is moved it may stand in two places.
pub fn merged<T: Listed>(mut rows: Vec<T>) -> Vec<T> {
    sorted::by_key(&mut rows, |row| (row.id(), Reverse(row.version())));
    rows.dedup_by(|later, first| later.id() == first.id());
    sorted::by_key(&mut rows, T::order);
    rows
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use crate::directory::READ_MAX;
    use futures_util::FutureExt as _;
    use messages::placement::Period;

    use super::*;

    const NOV: u64 = 1_793_491_200_000;
    const HOUR: u64 = 3_600_000;
    /// After all payments.
    const END_MS: u64 = NOV + 10_000 * HOUR;

    /// Payments of some weeks, in D1 and in the shards of ten layouts of all periods, some of which end within a period of theirs.
    struct World {
        layouts: Vec<Layout>,
        shards: BTreeMap<ShardName, Vec<Row>>,
        d1: Vec<Row>,
        asked: Cell<usize>,
    }

    impl World {
        fn new(seed: u64) -> Self {
            let mut random = seed;
            let mut below = |most: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % most
            };
            let periods = [Period::Month, Period::Day, Period::Hour];
            let mut from_ms = NOV + 10 * HOUR;
            let layouts: Vec<Layout> = (1..=10)
                .map(|layout_id| {
                    from_ms += 1 + below(90 * HOUR);
                    let period = periods[below(3) as usize];
                    let slots = below(7) as u32;
                    let spread = BTreeMap::from([("all".to_owned(), 1 + below(3) as u32)]);
                    Layout {
                        layout_id,
                        from_ms,
                        slots,
                        period,
                        spread,
                        moved_since_ms: None,
                        moved_at_ms: None,
                    }
                })
                .collect();
            let (mut shards, mut d1) = (BTreeMap::<ShardName, Vec<Row>>::new(), Vec::new());
            for number in 0..400 {
                // Some at the same moment.
                let made_at_ms = NOV + below(1_100) * HOUR / 2;
                let (owner, object) = (format!("account:{}", number % 5), number.to_string());
                let row = row(&object, made_at_ms, 1);
                match placement::home(&layouts, &owner, made_at_ms, &object, u64::MAX).shard {
                    Some(name) => shards.entry(name).or_default().push(row),
                    None => d1.push(row),
                }
            }
            shards.values_mut().chain([&mut d1]).for_each(|rows| *rows = merged(rows.clone()));
            Self { layouts, shards, d1, asked: Cell::default() }
        }

        fn all(&self) -> Vec<Row> {
            merged(self.shards.values().chain([&self.d1]).flatten().cloned().collect())
        }

        /// A part of the list of those that were made before a moment, of no more than so many shards.
        fn part(&self, until_ms: u64, most: usize, read: usize, layouts: &[Layout]) -> Part<Row> {
            let before =
                |rows: &[Row]| -> Vec<Row> { rows.iter().filter(|row| row.1 < until_ms).cloned().collect() };
            let mut names: Vec<&ShardName> = self.shards.keys().collect();
            names.sort_by_key(|name| Reverse((format!("{}~", name.period), name.to_string())));
            // As the directory gives them.
            names.retain(|name| name.period <= Period::Hour.of(until_ms - 1));
            let names: Vec<String> = names.into_iter().take(READ_MAX + 1).map(ShardName::to_string).collect();
            let wanted = Wanted { until_ms, ..Wanted::ALL };
            let mut shards = Shards::of(&names, READ_MAX, layouts, &wanted);
            // Whole periods, but no more of them.
            let mut read = read.min(shards.names.len());
            while read > 0 && read < shards.names.len() && shards.names[read].0 == shards.names[read - 1].0 {
                read += 1;
            }
            shards.others_ms = shards.left_until_ms(read);
            shards.names.truncate(read);
            let mut d1 = before(&self.d1);
            d1.truncate(most);
            let ask = async |names: Vec<&ShardName>, most: usize| {
                self.asked.set(self.asked.get() + names.len());
                let rows = |name: &ShardName| before(&self.shards[name]).into_iter().take(most).collect();
                Ok(names.into_iter().map(|name| (name.to_string(), rows(name))).collect())
            };
            let plan = Plan { shards: &shards, shards_max: 500, most, is_sliced: true };
            let d1 = OfD1 { rows: d1, looked_through: None };
            newest_first(&plan, d1, ask, |row| row.1).now_or_never().unwrap().unwrap()
        }

        /// All parts, one after the other, by those who look on where one ends.
        fn pages(&self, most: usize, read: usize, layouts: &[Layout]) -> Vec<Row> {
            let (mut found, mut until_ms) = (Vec::new(), END_MS);
            loop {
                let Part { rows, looked_to_ms } = self.part(until_ms, most, read, layouts);
                let last = rows.last().map(|row| row.1);
                let is_full = rows.len() >= most;
                found.extend(rows);
                let next_ms = match (looked_to_ms, last) {
                    (Some(looked_to_ms), _) => looked_to_ms,
                    // As a cursor by time alone does, which may come upon those of the last moment again.
                    (None, Some(last)) if is_full => last,
                    (None, _) => return found,
                };
                assert!(next_ms < until_ms, "it goes on");
                until_ms = next_ms;
            }
        }
    }

    #[test]
    fn ten_layouts_of_mixed_periods_are_listed_as_one_place_is_and_a_part_goes_on_where_one_ends() {
        let mut asked = 0;
        for seed in 0..25 {
            let world = World::new(seed);
            let all = world.all();
            for (most, read) in [(1, 1_000), (7, 1_000), (50, 1_000), (1_000, 1_000)] {
                let part = world.part(END_MS, most, read, &world.layouts);
                assert_eq!(part.rows, all[..most.min(all.len())], "{seed}: {most}");
                assert_eq!(part.looked_to_ms, None);
            }
            // Larger than the list, so that only the shards cut it.
            for read in [1, 2, 5, 30] {
                assert_eq!(world.pages(1_000, read, &world.layouts), all, "{seed}: {read}");
            }
            world.asked.set(0);
            world.part(END_MS, 5, 1_000, &world.layouts);
            asked += world.asked.get();
        }
        assert!(asked < 25 * 60, "{asked}: a short part asks few of them");
    }

    /// The control: one who believes that there is nothing between two periods loses payments.
    #[test]
    fn one_who_stops_at_the_first_full_part_without_the_layouts_leaves_payments_out() {
        let is_wrong = |seed| {
            let world = World::new(seed);
            // As if each layout had ended before the next one begins.
            let mut careless = world.layouts.clone();
            careless.iter_mut().for_each(|layout| layout.from_ms -= 5 * HOUR);
            world.pages(1_000, 2, &careless) != world.all()
        };
        assert!((0..25).any(is_wrong));
    }

    #[test]
    fn many_shards_are_asked_for_a_part_of_a_page_each_and_one_that_has_more_again() {
        let name = |slot| ShardName { period: "2026-11-01".to_owned(), layout_id: 1, slot };
        let shards = Shards { names: (0..100).map(|slot| (u64::MAX, name(slot))).collect(), others_ms: None };
        // The first has the newest hundred, and the others have older ones.
        let rows = |name: &str| -> Vec<Row> {
            let age = if name.ends_with("-000") { 0 } else { 1_000 };
            (age..age + 100).map(|age| row(&format!("{name}/{age}"), 10_000 - age, 1)).collect()
        };
        let given = Cell::new(0);
        let ask = async |names: Vec<&ShardName>, most: usize| {
            let rows = |name: &ShardName| rows(&name.to_string()).into_iter().take(most).collect::<Vec<_>>();
            let found: Vec<_> = names.into_iter().map(|name| (name.to_string(), rows(name))).collect();
            given.set(given.get() + found.iter().map(|(_, rows)| rows.len()).sum::<usize>());
            Ok(found)
        };
        let plan = Plan { shards: &shards, shards_max: 500, most: 51, is_sliced: true };
        let part = newest_first(&plan, OfD1 { rows: Vec::new(), looked_through: None }, ask, |row| row.1);
        let part = part.now_or_never().unwrap().unwrap();
        assert_eq!(part.rows, rows("g1-2026-11-01-000")[..51]);
        assert!(given.get() < 1_200, "{} rows for a page of 51", given.get());
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
