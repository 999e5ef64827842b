//! All places of the read model: D1, and the shards that its directory names, where the binding `SHARDS` is. Without the binding there is
//! D1 alone, and nothing of this asks for anything.
//!
//! - A shard is written down in D1 before anything is written into it: none that has rows is unknown.
//! - D1 must answer. A shard that does not is told of, and what the others have is shown.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::{Env, Error, Result};

use crate::db::{Db, RawRows, Value};
use crate::log::log;
use crate::now_ms;
use crate::settings;
use crate::shard::BINDING;
use messages::job::JobPayment;
use messages::placement::{self, Layout, ShardName};

/// How many places are asked at once: a Worker has six connections that wait for an answer.
const AT_ONCE: usize = 6;
/// How many places one reader asks at most.
pub const PLACES_MAX: usize = 200;

/// How many of those that did not answer are named.
const NAMED_MAX: usize = 3;

/// What the directory says.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// The layouts, the oldest first.
    pub layouts: Vec<Layout>,
    /// The shards that have rows, or are about to: those of the newest month first.
    pub shards: Vec<ShardName>,
    /// These, and those [at rest](crate::rest), from which all payments have left.
    pub all: Vec<ShardName>,
}

thread_local! {
    /// Whether the shards are bound. It does not change while an isolate lives.
    static IS_BOUND: Cell<Option<bool>> = const { Cell::new(None) };
    /// `SHARDS_CACHE_MS`, once it was read.
    static CACHE_MS: Cell<Option<u64>> = const { Cell::new(None) };
    static KNOWN: RefCell<Option<(u64, Rc<Directory>)>> = const { RefCell::new(None) };
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

/// The directory as it is now. Whoever lists must not leave out shards without a word: while D1 does not answer, this is an error.
pub async fn fresh(env: &Env) -> Result<Rc<Directory>> {
    if !is_bound(env) {
        return Ok(Rc::default());
    }
    let read_at_ms = now_ms();
    let directory = Rc::new(read(env).await?);
    KNOWN.set(Some((read_at_ms, Rc::clone(&directory))));
    Ok(directory)
}

/// All of it in one statement: the oldest layout first, and the shards of the newest month. The columns of a layout have the names of its fields.
const READ: &str = "SELECT
        (SELECT json_group_array(json_object('layout_id', layout_id, 'from_ms', from_ms, 'slots', slots, 'spread', json(spread),
            'moved_since_ms', moved_since_ms, 'moved_at_ms', moved_at_ms)) FROM (SELECT * FROM shard_layouts ORDER BY layout_id)) AS layouts,
        (SELECT json_group_array(json_array(name, rests_since_ms IS NOT NULL)) FROM (SELECT name, rests_since_ms FROM shards
            ORDER BY substr(name, instr(name, '-')) DESC, name DESC)) AS shards";

async fn read(env: &Env) -> Result<Directory> {
    #[derive(Deserialize)]
    struct Row {
        layouts: String,
        shards: String,
    }
    let Some(row) = Db::of(env)?.first::<Row>(READ, Vec::new()).await? else {
        return Ok(Directory::default());
    };
    let layouts: Vec<Layout> = serde_json::from_str(&row.layouts)?;
    let named: Vec<(String, u8)> = serde_json::from_str(&row.shards)?;
    let named = || named.iter().filter_map(|(name, rests)| Some((ShardName::parse(name)?, *rests == 1)));
    let shards = named().filter(|(_, rests)| !rests).map(|(name, _)| name).collect();
    Ok(Directory { layouts, shards, all: named().map(|(name, _)| name).collect() })
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

/// By a directory that is some seconds old. While D1 does not answer, by the one that is known, where no newer one can say otherwise.
async fn placed(env: &Env, owner: &str, made_at_ms: u64, object: &str) -> Result<placement::Home> {
    let known = KNOWN.with_borrow(Clone::clone);
    if let Some((read_at_ms, directory)) = &known
        && now_ms().saturating_sub(*read_at_ms) < cache_ms(env)?
    {
        return Ok(placement::home(&directory.layouts, owner, made_at_ms, object, now_ms()));
    }
    let error = match fresh(env).await {
        Ok(directory) => return Ok(placement::home(&directory.layouts, owner, made_at_ms, object, now_ms())),
        Err(error) => error,
    };
    log("error", &[("event", "shards_unreadable".into()), ("error", error.to_string().into())]);
    let sure = known.and_then(|(read_at_ms, directory)| {
        placement::home_by(&directory.layouts, read_at_ms, owner, made_at_ms, object, now_ms())
    });
    sure.ok_or(error)
}

/// A shard that is written down.
pub async fn shard_to_write(env: &Env, d1: &Db, shard: &ShardName) -> Result<Db> {
    let name = shard.to_string();
    if !WRITTEN_DOWN.with_borrow(|names| names.contains(&name)) {
        let sql = "INSERT INTO shards (name, made_at_ms) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
        d1.run(sql, vec![name.as_str().into(), now_ms().into()]).await?;
        WRITTEN_DOWN.with_borrow_mut(|names| names.insert(name.clone()));
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
    /// The shards that did not answer.
    silent: RefCell<BTreeSet<String>>,
    /// Whether there are more than are asked, or more rows than are looked through.
    is_cut: Cell<bool>,
    /// Whether those at rest are asked, too.
    is_of_all: Cell<bool>,
}

impl ReadModel {
    /// Reads nothing yet.
    pub fn of(env: &Env) -> Self {
        let (directory, silent) = (OnceCell::new(), RefCell::default());
        Self { env: env.clone(), directory, silent, is_cut: Cell::default(), is_of_all: Cell::default() }
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
        Ok(!self.directory().await?.shards.is_empty())
    }

    /// All places that have rows: D1 first, then the shards, those of the newest month first.
    pub async fn places(&self) -> Result<Vec<Db>> {
        let directory = self.directory().await?;
        let shards = self.bounded(directory.shards.iter().collect());
        Ok(std::iter::once(self.d1()?).chain(shards).collect())
    }

    /// These shards, as many as may be asked beside D1: where there are more, something may be missing.
    pub(crate) fn bounded(&self, names: Vec<&ShardName>) -> Vec<Db> {
        self.note_cut(names.len() >= PLACES_MAX);
        let names = names.into_iter().take(PLACES_MAX - 1);
        names.map(|name| Db::shard(&self.env, &name.to_string())).collect()
    }

    /// Remembers that something may be missing, if so.
    pub(crate) fn note_cut(&self, is_cut: bool) {
        self.is_cut.set(self.is_cut.get() || is_cut);
    }

    /// The shards of which all payments may have been made before a moment, or some, with their layouts: those of the newest month first.
    pub async fn made_before(&self, before_ms: u64) -> Result<Vec<(Layout, Db)>> {
        let directory = self.directory().await?;
        let month = placement::month(before_ms);
        let layout = |name: &ShardName| {
            directory.layouts.iter().find(|layout| layout.layout_id == name.layout_id).cloned()
        };
        let shards = directory.shards.iter().filter(|name| name.month <= month);
        Ok(shards.filter_map(|name| Some((layout(name)?, Db::shard(&self.env, &name.to_string())))).collect())
    }

    /// All places from which payments may have left, also those at rest; of a month, those in which its payments were made.
    pub async fn history(&self, month: Option<&str>) -> Result<Vec<Db>> {
        let directory = self.directory().await?;
        let is_asked = |name: &&ShardName| month.is_none_or(|month| name.month == month);
        self.is_of_all.set(true);
        let shards = self.bounded(directory.all.iter().filter(is_asked).collect());
        Ok(std::iter::once(self.d1()?).chain(shards).collect())
    }

    /// Some of the shards at rest, each as probable as the others: those after one that `chance` says.
    pub async fn at_rest(&self, chance: u64, most: usize) -> Result<Vec<Db>> {
        let directory = self.directory().await?;
        let awake: BTreeSet<&ShardName> = directory.shards.iter().collect();
        let resting: Vec<&ShardName> = directory.all.iter().filter(|name| !awake.contains(name)).collect();
        let first = chance.checked_rem(u64::try_from(resting.len()).unwrap_or(u64::MAX)).unwrap_or(0);
        let some =
            resting.iter().cycle().skip(usize::try_from(first).unwrap_or(0)).take(most.min(resting.len()));
        Ok(some.map(|name| shard(&self.env, name)).collect())
    }

    /// The shard of this name, where there is one.
    pub async fn shard(&self, name: &str) -> Result<Option<Db>> {
        let directory = self.directory().await?;
        let known = ShardName::parse(name).filter(|name| directory.all.contains(name));
        Ok(known.map(|name| Db::shard(&self.env, &name.to_string())))
    }

    /// Asks places, some at once. The answers are in their order; a shard that gives none is told of. D1 must answer.
    pub async fn each<T>(&self, places: Vec<Db>, ask: impl AsyncFn(Db) -> Result<T>) -> Result<Vec<(Db, T)>> {
        let ask = &ask;
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
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// The same in D1 and in these shards, one month after the other until it is found.
    pub async fn first_of<T: DeserializeOwned>(
        &self,
        shards: &[ShardName],
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Option<T>> {
        if let Some(row) = self.d1()?.first(sql, values.clone()).await? {
            return Ok(Some(row));
        }
        for month in shards.chunk_by(|one, other| one.month == other.month) {
            let places = month.iter().map(|name| Db::shard(&self.env, &name.to_string())).collect();
            if let Some(row) = self.rows_in(places, sql, &values).await?.into_iter().next() {
                return Ok(Some(row));
            }
        }
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
        let all = self.directory.get().map_or(0, |directory| match self.is_of_all.get() {
            true => directory.all.len(),
            false => directory.shards.len(),
        });
        let silent = self.silent.borrow();
        let named: Vec<&str> = silent.iter().take(NAMED_MAX).map(String::as_str).collect();
        let named = named.join(", ");
        let shards = if all == 1 { "shard" } else { "shards" };
        match (silent.len(), self.is_cut.get()) {
            (0, false) => None,
            (0, true) => {
                Some(format!("D1 and {all} {shards} have more than was looked through: search for less."))
            }
            (1, _) => {
                Some(format!("1 of {all} {shards} did not answer ({named}): what it has is missing here."))
            }
            (many, _) => {
                let more = if many > NAMED_MAX { " and others" } else { "" };
                let what = "what they have is missing here.";
                Some(format!("{many} of {all} {shards} did not answer ({named}{more}): {what}"))
            }
        }
    }
}
