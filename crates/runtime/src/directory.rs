//! The directory of the shards, in D1: the layouts, and which shards there are. It is read as far as it is asked about, by its indexes: there may be
//! tens of thousands.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use serde::Deserialize;
use worker::{Env, Error, Result};

use crate::db::{Db, Value};
use crate::now_ms;
use crate::settings;
use crate::shard::BINDING;
use messages::placement::{self, Layout, Period, ShardName};
use once::sorted;

/// Later than all payments, in ms since the epoch: the end of the year 9998.
const LATEST_MS: u64 = 253_370_764_800_000;
/// How many shards of the directory one reader reads at most: a list asks a whole period at once, and a day may have had two layouts.
pub(crate) const READ_MAX: usize = 1_000;

/// How many shards are asked at most before it is looked whether there are enough rows, but for those of one period.
const CHUNK_MAX: usize = 64;

/// What the directory says.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// The layouts, the oldest first.
    pub layouts: Vec<Layout>,
    /// The newest shards that have rows, or are about to, and are not [at rest](crate::rest).
    pub shards: Shards,
}

/// Some shards, those whose payments may be the newest first.
#[derive(Clone, Debug, Default)]
pub struct Shards {
    /// Each with the moment before which all of its payments were made, in ms since the epoch.
    pub names: Vec<(u64, ShardName)>,
    /// Before when the payments of all others were made, where there are more.
    pub(crate) others_ms: Option<u64>,
}

impl Shards {
    /// Those of these names that may have what is wanted. There are no more than `most` names and one, in the order of the ends of their periods.
    pub(crate) fn of(names: &[String], most: usize, layouts: &[Layout], wanted: &Wanted<'_>) -> Self {
        let (names, others) = names.split_at_checked(most).unwrap_or((names, &[]));
        let others_ms = parsed(others).next().map(|next| next.ends_ms());
        let with_times = parsed(names).map(|name| (placement::made_between(layouts, &name), name));
        let may_have = |((since_ms, until_ms), _): &((u64, u64), ShardName)| {
            *since_ms < wanted.until_ms && *until_ms > wanted.from_ms
        };
        let mut names: Vec<(u64, ShardName)> =
            with_times.filter(may_have).map(|((_, until_ms), name)| (until_ms, name)).collect();
        sorted::by_key(&mut names, |(until_ms, _)| Reverse(*until_ms));
        Self { names, others_ms }
    }

    /// Those that are asked next after so many: whole periods, and twice as many as before.
    pub(crate) fn next(&self, asked: usize) -> Option<&[(u64, ShardName)]> {
        let left = self.names.get(asked..).filter(|left| !left.is_empty())?;
        let mut end = 0;
        for period in left.chunk_by(|one, other| one.0 == other.0) {
            end += period.len();
            if end >= (asked + 1).min(CHUNK_MAX) {
                break;
            }
        }
        left.get(..end)
    }

    /// Those of the newest periods that are asked together, and before when the payments of all others were made.
    pub(crate) fn whole_periods(&self, most: usize) -> (&[(u64, ShardName)], Option<u64>) {
        let mut end = 0;
        for period in self.names.chunk_by(|one, other| one.0 == other.0) {
            if end > 0 && end + period.len() > most {
                break;
            }
            end += period.len();
        }
        (self.names.get(..end).unwrap_or_default(), self.left_until_ms(end))
    }

    /// Before when the payments of the shards were made that are not among the first so many; `None` where all are.
    pub(crate) fn left_until_ms(&self, asked: usize) -> Option<u64> {
        self.names.get(asked).map(|(until_ms, _)| *until_ms).max(self.others_ms)
    }
}

/// Which payments are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose.
    pub owner: Option<&'a str>,
    /// Made then or later, in ms since the epoch.
    pub from_ms: u64,
    /// Made before then, in ms since the epoch.
    pub until_ms: u64,
}

impl Wanted<'_> {
    /// All of them.
    pub const ALL: Self = Self { owner: None, from_ms: 0, until_ms: u64::MAX };
}

thread_local! {
    /// Whether the shards are bound. It does not change while an isolate lives.
    static IS_BOUND: Cell<Option<bool>> = const { Cell::new(None) };
    /// `SHARDS_CACHE_MS`, once it was read.
    static CACHE_MS: Cell<Option<u64>> = const { Cell::new(None) };
    static KNOWN: RefCell<Option<(u64, Rc<[Layout]>)>> = const { RefCell::new(None) };
}

/// The layouts that this isolate has read last, and when, in ms since the epoch.
pub(crate) fn known() -> Option<(u64, Rc<[Layout]>)> {
    KNOWN.with_borrow(Clone::clone)
}

/// Whether there may be shards.
pub fn is_bound(env: &Env) -> bool {
    IS_BOUND.get().unwrap_or_else(|| {
        let is_bound = env.durable_object(BINDING).is_ok();
        IS_BOUND.set(Some(is_bound));
        is_bound
    })
}

/// For how long an isolate goes by the layouts that it has read, in ms: a layout begins later than that.
pub(crate) fn cache_ms(env: &Env) -> Result<u64> {
    let setting = |name: &str| crate::setting(env, name).filter(|value| !value.trim().is_empty());
    if CACHE_MS.get().is_none() {
        CACHE_MS.set(Some(settings::shards_cache_ms(setting).map_err(Error::RustError)?));
    }
    Ok(CACHE_MS.get().unwrap_or_default())
}

/// The layouts as they are now, the oldest first.
pub async fn layouts(env: &Env) -> Result<Rc<[Layout]>> {
    if !is_bound(env) {
        return Ok(Rc::default());
    }
    let read_at_ms = now_ms();
    let row: Option<Read> = Db::of(env)?.first(&format!("SELECT {LAYOUTS}"), Vec::new()).await?;
    let layouts: Rc<[Layout]> = row.unwrap_or_default().layouts()?.into();
    KNOWN.set(Some((read_at_ms, Rc::clone(&layouts))));
    Ok(layouts)
}

/// The directory as it is now. Whoever lists must not leave out shards without a word: while D1 does not answer, this is an error.
pub async fn fresh(env: &Env) -> Result<Rc<Directory>> {
    if !is_bound(env) {
        return Ok(Rc::default());
    }
    let sql = format!("SELECT {LAYOUTS}, (SELECT json_group_array(name) FROM ({NEWEST} LIMIT ?1)) AS shards");
    let row: Option<Read> = Db::of(env)?.first(&sql, vec![number(READ_MAX + 1)]).await?;
    let row = row.unwrap_or_default();
    let names: Vec<String> = json_text::from_str(row.shards.as_deref().unwrap_or("[]"))?;
    let layouts = row.layouts()?;
    let shards = Shards::of(&names, READ_MAX, &layouts, &Wanted::ALL);
    Ok(Rc::new(Directory { layouts, shards }))
}

/// The oldest layout first. The columns of a layout have the names of its fields.
const LAYOUTS: &str =
    "(SELECT json_group_array(json_object('layout_id', layout_id, 'from_ms', from_ms, 'slots', slots, 'period', period, 'spread', json(spread),
        'moved_since_ms', moved_since_ms, 'moved_at_ms', moved_at_ms)) FROM (SELECT * FROM shard_layouts ORDER BY layout_id)) AS layouts";
/// The shards that are not at rest, those whose period ends last first.
const NEWEST: &str = "SELECT name FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL ORDER BY ends DESC, name DESC";
/// Those whose periods have begun by the hour `?2`, of the month `?1`, and have ended by no hour before `?3`. Of this month the ends of all are looked at.
const OF_TIME: &str =
    "SELECT name FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL AND ends <= ?1 || '~' AND ends >= ?3 || '~' AND period <= ?2
     ORDER BY ends DESC, name DESC LIMIT ?4";
/// The same of some slots.
const OF_SLOTS: &str =
    "SELECT name FROM shards INDEXED BY shards_awake_by_slot WHERE rests_since_ms IS NULL AND slot IN (SELECT value FROM json_each(?5))
        AND ends <= ?1 || '~' AND ends >= ?3 || '~' AND period <= ?2
     ORDER BY ends DESC, name DESC LIMIT ?4";
/// The next ones in the order of when their periods end, the last of them first.
const BEHIND: &str = "SELECT name FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL AND (ends, name) < (?1 || '~', ?2)
     ORDER BY ends DESC, name DESC LIMIT ?3";
/// The same of some slots.
const OF_SLOTS_BEHIND: &str =
    "SELECT name FROM shards INDEXED BY shards_awake_by_slot WHERE rests_since_ms IS NULL AND slot IN (SELECT value FROM json_each(?4))
        AND ends <= ?1 || '~' AND (ends, name) < (?1 || '~', ?2)
     ORDER BY ends DESC, name DESC LIMIT ?3";
/// The next ones, of these periods.
const OF_PERIODS: &str = "SELECT name FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL
        AND ends IN (SELECT value || '~' FROM json_each(?1)) ORDER BY ends DESC, name DESC LIMIT ?2";
/// As [`OF_TIME`], also those at rest.
const OF_HISTORY: &str = "SELECT name FROM shards INDEXED BY shards_by_end WHERE ends <= ?1 || '~' AND ends >= ?3 || '~' AND period <= ?2
     ORDER BY ends DESC, name DESC LIMIT ?4";
/// Those whose periods have begun by the hour `?2`, of the month `?1`, and end with the hour `?3` or later, the oldest first.
const OLDEST: &str =
    "SELECT name FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL AND ends <= ?1 || '~' AND ends >= ?3 AND period <= ?2
     ORDER BY ends, name LIMIT ?4";
/// Those at rest whose period is the first one from `?1` on.
const AT_REST: &str = "SELECT name FROM shards INDEXED BY shards_at_rest WHERE rests_since_ms IS NOT NULL AND period =
        (SELECT period FROM shards INDEXED BY shards_at_rest WHERE rests_since_ms IS NOT NULL AND period >= ?1 ORDER BY period LIMIT 1)
     ORDER BY name LIMIT ?2";
/// The periods of the oldest, and of the newest.
const RANGE_AT_REST: &str = "SELECT (SELECT period FROM shards INDEXED BY shards_at_rest WHERE rests_since_ms IS NOT NULL ORDER BY period LIMIT 1) AS first,
        (SELECT period FROM shards INDEXED BY shards_at_rest WHERE rests_since_ms IS NOT NULL ORDER BY period DESC LIMIT 1) AS last";
const OLDEST_AWAKE: &str = "SELECT period AS first, ?1 AS last FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL ORDER BY ends LIMIT 1";

/// A row of the directory.
#[derive(Default, Deserialize)]
struct Read {
    layouts: Option<String>,
    shards: Option<String>,
}

impl Read {
    fn layouts(&self) -> Result<Vec<Layout>> {
        Ok(json_text::from_str(self.layouts.as_deref().unwrap_or("[]"))?)
    }
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

fn number(most: usize) -> Value {
    u64::try_from(most).unwrap_or(u64::MAX).into()
}

fn parsed(names: &[String]) -> impl Iterator<Item = ShardName> {
    names.iter().filter_map(|name| ShardName::parse(name))
}

async fn names(d1: &Db, sql: &str, values: Vec<Value>) -> Result<Vec<String>> {
    let rows: Vec<Named> = d1.rows(sql, values).await?;
    Ok(rows.into_iter().map(|row| row.name).collect())
}

/// What a statement about the shards of a time takes.
fn of_times(wanted: &Wanted<'_>) -> Vec<Value> {
    // Of all times there is one that is later than all that are written.
    let until_ms = wanted.until_ms.min(LATEST_MS).saturating_sub(1);
    let [month, hour, from] =
        [(Period::Month, until_ms), (Period::Hour, until_ms), (Period::Hour, wanted.from_ms)]
            .map(|(period, at_ms)| Value::from(period.of(at_ms)));
    vec![month, hour, from, number(READ_MAX + 1)]
}

/// The newest shards that may have such payments.
pub(crate) async fn of_time(d1: &Db, layouts: &[Layout], wanted: &Wanted<'_>) -> Result<Shards> {
    let mut values = of_times(wanted);
    let sql = match wanted.owner {
        None => OF_TIME,
        Some(owner) => {
            let slots = layouts.iter().flat_map(|layout| layout.named_slots_of(owner));
            values.push(serde_json::to_string(&slots.collect::<Vec<_>>())?.into());
            OF_SLOTS
        }
    };
    let names = names(d1, sql, values).await?;
    Ok(Shards::of(&names, READ_MAX, layouts, wanted))
}

/// The shards behind this one, or all, those of the newest periods first: at most so many. `after` need not be the name of one that there is.
pub(crate) async fn behind(d1: &Db, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
    let (period, name) =
        after.map_or_else(Default::default, |after| (after.period.clone(), after.to_string()));
    Ok(parsed(&names(d1, BEHIND, vec![period.into(), name.into(), number(most)]).await?).collect())
}

/// The same of the shards that may have payments of these owners.
pub(crate) async fn of_owners_behind(
    d1: &Db,
    (layouts, owners): (&[Layout], &BTreeSet<String>),
    after: Option<&ShardName>,
    most: usize,
) -> Result<Vec<ShardName>> {
    let slots = sorted::set(
        layouts.iter().flat_map(|layout| owners.iter().flat_map(|owner| layout.named_slots_of(owner))),
    );
    let (period, name) =
        after.map_or_else(Default::default, |after| (after.period.clone(), after.to_string()));
    let values = vec![period.into(), name.into(), number(most), serde_json::to_string(&slots)?.into()];
    Ok(parsed(&names(d1, OF_SLOTS_BEHIND, values).await?).collect())
}

/// The shards of these periods: the newest, at most so many.
pub(crate) async fn of_periods(d1: &Db, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>> {
    let values = vec![serde_json::to_string(periods)?.into(), number(most)];
    Ok(parsed(&names(d1, OF_PERIODS, values).await?).collect())
}

/// Those that have payments which were made before a moment: the oldest, at most so many. Where there are more it begins with another period each
/// time, which `chance` says.
pub(crate) async fn oldest(d1: &Db, before_ms: u64, chance: u64, most: usize) -> Result<Vec<ShardName>> {
    let until = Period::Hour.of(before_ms);
    let from = |first: String| {
        vec![Period::Month.of(before_ms).into(), until.as_str().into(), first.into(), number(most + 1)]
    };
    let mut found = names(d1, OLDEST, from(String::new())).await?;
    if found.len() > most {
        let range = d1.first(OLDEST_AWAKE, vec![until.as_str().into()]).await?;
        let later = names(d1, OLDEST, from(between(range, chance))).await?;
        // Those that come after it, and then, where these are few, the first ones.
        let first: Vec<String> = found.into_iter().filter(|name| !later.contains(name)).collect();
        found = later.into_iter().chain(first).collect();
    }
    Ok(parsed(found.get(..most).unwrap_or(&found)).collect())
}

/// The newest shards, also at rest, that have or had such payments, of any owner.
pub(crate) async fn of_history(d1: &Db, layouts: &[Layout], wanted: &Wanted<'_>) -> Result<Shards> {
    let names = names(d1, OF_HISTORY, of_times(wanted)).await?;
    Ok(Shards::of(&names, READ_MAX, layouts, wanted))
}

/// Some at rest, which `chance` says: of a period any, and any of these.
pub(crate) async fn at_rest(d1: &Db, chance: u64, most: usize) -> Result<Vec<ShardName>> {
    let range = d1.first(RANGE_AT_REST, Vec::new()).await?;
    let resting = names(d1, AT_REST, vec![between(range, chance).into(), number(READ_MAX)]).await?;
    // Another choice than that of the period.
    let first = (chance / 7).checked_rem(u64::try_from(resting.len()).unwrap_or(u64::MAX)).unwrap_or(0);
    let some = parsed(&resting).collect::<Vec<_>>().into_iter().cycle();
    Ok(some.skip(usize::try_from(first).unwrap_or(0)).take(most.min(resting.len())).collect())
}

/// Those of these names that there are and that are not at rest.
pub(crate) async fn named(d1: &Db, wanted: &BTreeSet<ShardName>) -> Result<Vec<ShardName>> {
    let sql = "SELECT name FROM shards INDEXED BY shards_awake_by_name
         WHERE rests_since_ms IS NULL AND name IN (SELECT value FROM json_each(?1))";
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    Ok(parsed(&names(d1, sql, vec![serde_json::to_string(&wanted)?.into()]).await?).collect())
}

/// The one of this name, where there is one.
pub(crate) async fn called(d1: &Db, name: &str) -> Result<Option<ShardName>> {
    let known = names(d1, "SELECT name FROM shards WHERE name = ?1", vec![name.into()]).await?;
    Ok(parsed(&known).next())
}

/// The one after this name, in the order of their names.
pub(crate) async fn after(d1: &Db, name: &str) -> Result<Option<String>> {
    let sql = "SELECT name FROM shards WHERE name > ?1 ORDER BY name LIMIT 1";
    Ok(names(d1, sql, vec![name.into()]).await?.into_iter().next())
}

/// The first and the last period of something.
#[derive(Deserialize)]
struct Range {
    first: Option<String>,
    last: Option<String>,
}

/// A period between these, which `chance` says.
fn between(range: Option<Range>, chance: u64) -> String {
    let ends = |range: Range| placement::hour_between(&range.first?, &range.last?, chance);
    range.and_then(ends).unwrap_or_default()
}
