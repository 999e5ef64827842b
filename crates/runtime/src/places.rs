//! All places of the read model: D1, and the shards that its directory names, where the binding `SHARDS` is. Without the binding there is
//! D1 alone, and nothing of this asks for anything.
//!
//! - A shard is written down in D1 before anything is written into it: none that has rows is unknown.
//! - D1 must answer. A shard that does not is told of, and what the others have is shown.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::{Env, Error, Result};

use crate::db::{Db, RawRows, Value};
use crate::lists;
use crate::log::log;
use crate::now_ms;
use crate::settings;
use crate::shard::BINDING;
use messages::job::JobPayment;
use messages::placement::{self, Layout, Period, ShardName};

/// How many places are asked at once: a Worker has six connections that wait for an answer.
const AT_ONCE: usize = 6;
/// How many places one reader asks at most.
pub const PLACES_MAX: usize = 200;

/// How many of those that did not answer are named.
const NAMED_MAX: usize = 3;

/// After how many shards no list asks those of another period, where it is not set: a Worker asks six at once.
const LIST_SHARDS_MAX: usize = 500;
/// Later than all payments, in ms since the epoch: the end of the year 9998.
const LATEST_MS: u64 = 253_370_764_800_000;
/// How many shards of the directory one reader reads at most: a list asks a whole period at once, and a day may have had two layouts.
pub(crate) const READ_MAX: usize = 1_000;

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
        names.sort_by_key(|(until_ms, _)| Reverse(*until_ms));
        Self { names, others_ms }
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
    /// The shards of which this isolate knows that they are written down.
    static WRITTEN_DOWN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
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
fn cache_ms(env: &Env) -> Result<u64> {
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
    let names: Vec<String> = serde_json::from_str(row.shards.as_deref().unwrap_or("[]"))?;
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
/// The same of these periods.
const OF_PERIODS: &str = "SELECT name FROM shards INDEXED BY shards_awake WHERE rests_since_ms IS NULL
        AND ends IN (SELECT value || '~' FROM json_each(?1)) ORDER BY ends DESC, name DESC LIMIT ?2";
/// All, also those at rest, whose periods begin as `?1` does, or are the month `?2`.
const OF_HISTORY: &str =
    "SELECT name FROM shards INDEXED BY shards_by_time WHERE period >= ?2 AND period < ?1 || '~'
        AND (period >= ?1 OR period = ?2) ORDER BY period DESC, name DESC LIMIT ?3";
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
        Ok(serde_json::from_str(self.layouts.as_deref().unwrap_or("[]"))?)
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

/// Where the rows of one payment stand.
#[derive(Clone)]
pub struct Home {
    /// Where they are written.
    pub db: Db,
    /// Where they were made, while they are moved from there: what is not in `db` may be here.
    pub before: Option<Db>,
}

impl Home {
    /// One place.
    pub const fn of(db: Db) -> Self {
        Self { db, before: None }
    }

    /// Both, the newer one first.
    pub fn each(&self) -> impl Iterator<Item = &Db> {
        std::iter::once(&self.db).chain(&self.before)
    }

    /// The first row that is found.
    pub async fn first<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Option<T>> {
        for db in self.each() {
            if let Some(row) = db.first(sql, values.clone()).await? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

/// Of a payment by what is told of it, and its object; for what has no payment, D1.
pub async fn home(env: &Env, about: Option<&JobPayment>, object: &str) -> Result<Home> {
    let d1 = Db::of(env)?;
    let Some(JobPayment { owner, made_at_ms }) = about.filter(|_| is_bound(env)) else {
        return Ok(Home::of(d1));
    };
    let home = placed(env, owner, *made_at_ms, object).await?;
    let Some(shard) = home.shard else { return Ok(Home::of(d1)) };
    let db = shard_to_write(env, &d1, &shard).await?;
    Ok(Home { db, before: home.was_in_d1.then_some(d1) })
}

/// By layouts that were read some seconds ago. While D1 does not answer, by those that are known, where no newer one can say otherwise.
async fn placed(env: &Env, owner: &str, made_at_ms: u64, object: &str) -> Result<placement::Home> {
    let known = KNOWN.with_borrow(Clone::clone);
    if let Some((read_at_ms, layouts)) = &known
        && now_ms().saturating_sub(*read_at_ms) < cache_ms(env)?
    {
        return Ok(placement::home(layouts, owner, made_at_ms, object, now_ms()));
    }
    let error = match layouts(env).await {
        Ok(layouts) => return Ok(placement::home(&layouts, owner, made_at_ms, object, now_ms())),
        Err(error) => error,
    };
    log("error", &[("event", "shards_unreadable".into()), ("error", error.to_string().into())]);
    let sure = known.and_then(|(read_at_ms, layouts)| {
        placement::home_by(&layouts, read_at_ms, owner, made_at_ms, object, now_ms())
    });
    sure.ok_or(error)
}

/// A shard that is written down.
pub async fn shard_to_write(env: &Env, d1: &Db, shard: &ShardName) -> Result<Db> {
    let name = shard.to_string();
    if !WRITTEN_DOWN.with_borrow(|names| names.contains(&name)) {
        let names = KNOWN.with_borrow(|known| match known {
            Some((_, layouts)) => placement::written_down_with(layouts, shard, now_ms()),
            None => vec![name.clone()],
        });
        let sql = "INSERT INTO shards (name, made_at_ms) SELECT value, ?2 FROM json_each(?1)
             WHERE NOT EXISTS (SELECT 1 FROM shards WHERE name = ?3) ON CONFLICT (name) DO NOTHING";
        let values = vec![serde_json::to_string(&names)?.into(), now_ms().into(), name.as_str().into()];
        d1.run(sql, values).await?;
        WRITTEN_DOWN.with_borrow_mut(|known| known.extend(names));
    }
    Ok(Db::shard(env, &name))
}

/// A shard of which D1 has said that there is one.
pub fn shard(env: &Env, shard: &ShardName) -> Db {
    Db::shard(env, &shard.to_string())
}

/// The whole read model, for one reader: a request or the run of a task.
pub struct ReadModel {
    pub(crate) env: Env,
    directory: OnceCell<Rc<Directory>>,
    layouts: OnceCell<Rc<[Layout]>>,
    /// The shards that were asked.
    asked: RefCell<BTreeSet<String>>,
    /// Those that did not answer.
    silent: RefCell<BTreeSet<String>>,
    /// Whether there are more than are asked, or more rows than are looked through.
    is_cut: Cell<bool>,
    /// Before when what a list shows was made, in ms since the epoch.
    pub(crate) until_ms: Cell<u64>,
    /// All that was made then or later was looked through for it, and what was made before was not, in ms since the epoch.
    pub(crate) looked_to_ms: Cell<Option<u64>>,
}

impl ReadModel {
    /// Reads nothing yet.
    pub fn of(env: &Env) -> Self {
        let (directory, asked, silent) = (OnceCell::new(), RefCell::default(), RefCell::default());
        let (is_cut, until_ms, looked_to_ms) = (Cell::default(), Cell::new(u64::MAX), Cell::default());
        Self {
            env: env.clone(),
            directory,
            layouts: OnceCell::new(),
            asked,
            silent,
            is_cut,
            until_ms,
            looked_to_ms,
        }
    }

    /// `LIST_SHARDS_MAX`: after so many shards no list asks those of another period.
    pub(crate) fn list_shards_max(&self) -> Result<usize> {
        let Ok(text) = self.env.var("LIST_SHARDS_MAX") else { return Ok(LIST_SHARDS_MAX) };
        let most = text.to_string().parse().ok().filter(|most| (1..=READ_MAX).contains(most));
        most.ok_or_else(|| {
            Error::RustError(format!("LIST_SHARDS_MAX must be a whole number from 1 to {READ_MAX}."))
        })
    }

    /// Its lists go on behind what they [looked through](Self::looked_to_ms).
    pub fn look_on(&self, until_ms: u64) {
        self.until_ms.set(until_ms);
    }

    /// Before when a list looks for payments, in ms since the epoch.
    pub fn until_ms(&self) -> u64 {
        self.until_ms.get()
    }

    /// Notes how far a list has looked.
    pub fn looked_to(&self, at_ms: Option<u64>) {
        self.looked_to_ms.set(at_ms);
    }

    /// If the newest list is not full, and has not looked for all: what was made before then is not in it, in ms since the epoch.
    pub fn looked_to_ms(&self) -> Option<u64> {
        self.looked_to_ms.get()
    }

    /// D1.
    pub fn d1(&self) -> Result<Db> {
        Db::of(&self.env)
    }

    /// What the directory says.
    pub async fn directory(&self) -> Result<Rc<Directory>> {
        if let Some(known) = self.directory.get() {
            return Ok(Rc::clone(known));
        }
        let read = fresh(&self.env).await?;
        Ok(Rc::clone(self.directory.get_or_init(|| read)))
    }

    /// Whether there is more than D1.
    pub async fn is_many(&self) -> Result<bool> {
        Ok(!self.directory().await?.shards.names.is_empty())
    }

    /// Whether there may be more than D1: there is a layout with shards, or was.
    pub async fn may_be_many(&self) -> Result<bool> {
        Ok(self.layouts().await?.iter().any(|layout| layout.slots > 0))
    }

    async fn layouts(&self) -> Result<Rc<[Layout]>> {
        match self.layouts.get() {
            Some(known) => Ok(Rc::clone(known)),
            None => {
                let read = layouts(&self.env).await?;
                Ok(Rc::clone(self.layouts.get_or_init(|| read)))
            }
        }
    }

    /// Whether what is in D1 may be in a shard, too, and newer there.
    pub async fn is_moving(&self) -> Result<bool> {
        Ok(self.directory().await?.layouts.iter().any(|layout| layout.moved_at_ms.is_some()))
    }

    /// The newest places that have rows: D1 first, then the shards, those of the newest period first. If not all of them, it is told of.
    pub async fn places(&self) -> Result<Vec<Db>> {
        let directory = self.directory().await?;
        let shards = self.bounded(directory.shards.names.iter().map(|(_, name)| name.clone()));
        Ok(std::iter::once(self.d1()?).chain(shards).collect())
    }

    /// The newest shards that may have such payments, and the layouts.
    pub(crate) async fn shards_of(&self, wanted: &Wanted<'_>) -> Result<(Shards, Rc<[Layout]>)> {
        if wanted.owner.is_none() && (wanted.from_ms, wanted.until_ms) == (0, u64::MAX) {
            let directory = self.directory().await?;
            return Ok((directory.shards.clone(), directory.layouts.clone().into()));
        }
        let layouts = self.layouts().await?;
        if layouts.iter().all(|layout| layout.slots == 0) || wanted.until_ms <= wanted.from_ms {
            return Ok((Shards::default(), layouts));
        }
        // Of all times there is one that is later than all that are written.
        let until_ms = wanted.until_ms.min(LATEST_MS).saturating_sub(1);
        let [month, hour, from] =
            [(Period::Month, until_ms), (Period::Hour, until_ms), (Period::Hour, wanted.from_ms)]
                .map(|(period, at_ms)| Value::from(period.of(at_ms)));
        let mut values = vec![month, hour, from, number(READ_MAX + 1)];
        let sql = match wanted.owner {
            None => OF_TIME,
            Some(owner) => {
                let slots = layouts.iter().flat_map(|layout| layout.named_slots_of(owner));
                values.push(serde_json::to_string(&slots.collect::<Vec<_>>())?.into());
                OF_SLOTS
            }
        };
        let names = names(&self.d1()?, sql, values).await?;
        Ok((Shards::of(&names, READ_MAX, &layouts, wanted), layouts))
    }

    /// The shards of these periods, as many as may be asked.
    pub(crate) async fn of_periods(&self, periods: &BTreeSet<String>) -> Result<Vec<Db>> {
        let values = vec![serde_json::to_string(periods)?.into(), number(PLACES_MAX)];
        Ok(self.bounded(parsed(&names(&self.d1()?, OF_PERIODS, values).await?)))
    }

    /// These shards, as many as may be asked beside D1: where there are more, something may be missing.
    pub(crate) fn bounded(&self, names: impl Iterator<Item = ShardName>) -> Vec<Db> {
        let mut shards: Vec<Db> = names.take(PLACES_MAX).map(|name| shard(&self.env, &name)).collect();
        self.note_cut(shards.len() >= PLACES_MAX);
        shards.truncate(PLACES_MAX - 1);
        shards
    }

    /// Remembers that something may be missing, if so.
    pub(crate) fn note_cut(&self, is_cut: bool) {
        self.is_cut.set(self.is_cut.get() || is_cut);
    }

    /// The shards of which all payments may have been made before a moment, or some, with their layouts: at most so many. Where there are more it
    /// begins with another period each time, which `chance` says.
    pub async fn made_before(&self, before_ms: u64, chance: u64, most: usize) -> Result<Vec<(Layout, Db)>> {
        let (layouts, d1) = (layouts(&self.env).await?, self.d1()?);
        if layouts.is_empty() {
            return Ok(Vec::new());
        }
        let until = Period::Hour.of(before_ms);
        let from = |first: String| {
            vec![Period::Month.of(before_ms).into(), until.as_str().into(), first.into(), number(most + 1)]
        };
        let mut found = names(&d1, OLDEST, from(String::new())).await?;
        if found.len() > most {
            let range = d1.first(OLDEST_AWAKE, vec![until.as_str().into()]).await?;
            let later = names(&d1, OLDEST, from(between(range, chance))).await?;
            // Those that come after it, and then, where these are few, the first ones.
            let first: Vec<String> = found.into_iter().filter(|name| !later.contains(name)).collect();
            found = later.into_iter().chain(first).collect();
        }
        let named = parsed(found.get(..most).unwrap_or(&found));
        let layout =
            |name: &ShardName| layouts.iter().find(|layout| layout.layout_id == name.layout_id).cloned();
        Ok(named.filter_map(|name| Some((layout(&name)?, shard(&self.env, &name)))).collect())
    }

    /// All places from which payments may have left, also those at rest; of a month or of a day, those in which its payments were made.
    pub async fn history(&self, time: Option<&str>) -> Result<Vec<Db>> {
        let d1 = self.d1()?;
        if !is_bound(&self.env) {
            return Ok(vec![d1]);
        }
        let time = time.unwrap_or_default();
        let month = time.get(..7).unwrap_or(time);
        let shards = names(&d1, OF_HISTORY, vec![time.into(), month.into(), number(PLACES_MAX)]).await?;
        let shards = self.bounded(parsed(&shards));
        Ok(std::iter::once(d1).chain(shards).collect())
    }

    /// Some of the shards at rest, which `chance` says: of a period any, and any of these.
    pub async fn at_rest(&self, chance: u64, most: usize) -> Result<Vec<Db>> {
        if !is_bound(&self.env) {
            return Ok(Vec::new());
        }
        let d1 = self.d1()?;
        let range = d1.first(RANGE_AT_REST, Vec::new()).await?;
        let resting = names(&d1, AT_REST, vec![between(range, chance).into(), number(READ_MAX)]).await?;
        // What was taken away from the first choice is left for the second one.
        let second = chance / 7;
        let first = second.checked_rem(u64::try_from(resting.len()).unwrap_or(u64::MAX)).unwrap_or(0);
        let some =
            resting.iter().cycle().skip(usize::try_from(first).unwrap_or(0)).take(most.min(resting.len()));
        Ok(some.map(|name| Db::shard(&self.env, name)).collect())
    }

    /// The shard of this name, where there is one.
    pub async fn shard(&self, name: &str) -> Result<Option<Db>> {
        if !is_bound(&self.env) {
            return Ok(None);
        }
        let sql = "SELECT name FROM shards WHERE name = ?1";
        let known = names(&self.d1()?, sql, vec![name.into()]).await?;
        Ok(known
            .first()
            .filter(|name| ShardName::parse(name).is_some())
            .map(|name| Db::shard(&self.env, name)))
    }

    /// The shard after the one of this name, or the first one: all of them, in the order of their names.
    pub async fn shard_after(&self, name: &str) -> Result<Option<String>> {
        if !is_bound(&self.env) {
            return Ok(None);
        }
        let sql = "SELECT name FROM shards WHERE name > ?1 ORDER BY name LIMIT 1";
        Ok(names(&self.d1()?, sql, vec![name.into()]).await?.into_iter().next())
    }

    /// Asks places, some at once. The answers are in their order; a shard that gives none is told of. D1 must answer.
    pub async fn each<T>(&self, places: Vec<Db>, ask: impl AsyncFn(Db) -> Result<T>) -> Result<Vec<(Db, T)>> {
        let ask = &ask;
        self.asked.borrow_mut().extend(places.iter().filter_map(Db::name).map(str::to_owned));
        let asked = places.into_iter().map(|db| async move { (db.clone(), ask(db).await) });
        let answers: Vec<(Db, Result<T>)> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut found = Vec::new();
        for (db, answer) in answers {
            match (answer, db.name()) {
                (Ok(answer), _) => found.push((db, answer)),
                (Err(error), None) => return Err(error),
                (Err(error), Some(name)) => {
                    let error = error.to_string().into();
                    log(
                        "error",
                        &[("event", "shard_silent".into()), ("shard", name.into()), ("error", error)],
                    );
                    self.silent.borrow_mut().insert(name.to_owned());
                }
            }
        }
        Ok(found)
    }

    /// The rows that a statement has in all places.
    pub async fn rows<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        self.rows_in(self.places().await?, sql, &values).await
    }

    pub(crate) async fn rows_in<T: DeserializeOwned>(
        &self,
        places: Vec<Db>,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for rows in self.ask(places, sql, values).await? {
            all.extend(rows.read()?);
        }
        Ok(all)
    }

    /// Before the rows are read: see [`Db::ask`].
    async fn ask(&self, places: Vec<Db>, sql: &str, values: &[Value]) -> Result<Vec<RawRows>> {
        let found = self.each(places, async |db: Db| db.ask(sql, values.to_vec()).await).await?;
        Ok(found.into_iter().map(|(_, rows)| rows).collect())
    }

    /// The first row that a statement has in any place, where there is one.
    pub async fn first<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Option<T>> {
        self.first_of(&Wanted::ALL, sql, values).await
    }

    /// The same in D1 and in the shards that may have such payments, the newest first, until it is found. An error if it may be where nobody has looked.
    pub async fn first_of<T: DeserializeOwned>(
        &self,
        wanted: &Wanted<'_>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Option<T>> {
        if let Some(row) = self.d1()?.first(sql, values.clone()).await? {
            return Ok(Some(row));
        }
        let (shards, _) = self.shards_of(wanted).await?;
        let (mut asked, most) = (0, self.list_shards_max()?);
        while let (Some(chunk), true) = (lists::chunk(&shards.names, asked), asked < most) {
            let places = chunk.iter().map(|(_, name)| shard(&self.env, name)).collect();
            if let Some(row) = self.rows_in(places, sql, &values).await?.into_iter().next() {
                return Ok(Some(row));
            }
            asked += chunk.len();
        }
        self.note_cut(asked < shards.names.len() || shards.others_ms.is_some());
        match self.missing() {
            Some(missing) => Err(Error::RustError(missing)),
            None => Ok(None),
        }
    }

    /// Runs a statement in all places: it changes only rows that it names. Gives how many it has changed; an error if it has changed none
    /// and a shard did not answer.
    pub async fn run(&self, sql: &str, values: Vec<Value>) -> Result<usize> {
        let found = self.each(self.places().await?, async |db: Db| db.run(sql, values.clone()).await).await?;
        let changed = found.into_iter().map(|(_, changed)| changed).sum();
        match (changed, self.missing()) {
            (0, Some(missing)) => Err(Error::RustError(missing)),
            _ => Ok(changed),
        }
    }

    /// What a person is told of what is missing here.
    pub fn missing(&self) -> Option<String> {
        let asked = self.asked.borrow().len();
        let silent = self.silent.borrow();
        let named: Vec<&str> = silent.iter().take(NAMED_MAX).map(String::as_str).collect();
        let named = named.join(", ");
        let shards = if asked == 1 { "shard" } else { "shards" };
        match (silent.len(), self.is_cut.get()) {
            (0, false) => None,
            (0, true) => Some(format!(
                "There is more than was looked through, which was D1 and the newest of the shards, {asked} of them: search for a day, or for less."
            )),
            (1, _) => {
                Some(format!("1 of {asked} {shards} did not answer ({named}): what it has is missing here."))
            }
            (many, _) => {
                let more = if many > NAMED_MAX { " and others" } else { "" };
                let what = "what they have is missing here.";
                Some(format!("{many} of {asked} {shards} did not answer ({named}{more}): {what}"))
            }
        }
    }
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
