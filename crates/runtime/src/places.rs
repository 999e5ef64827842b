//! All places of the read model: D1, and the shards that its directory names, where the binding `SHARDS` is. Without the binding there is
//! D1 alone, and nothing of this asks for anything.
//!
//! - A shard is written down in D1 before anything is written into it: none that has rows is unknown.
//! - D1 must answer. A shard that does not is told of, and what the others have is shown.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt as _};
use serde::de::DeserializeOwned;
use worker::{Env, Error, Result};

use crate::db::{Db, Value};
use crate::directory::{self, READ_MAX, Shards};
pub use crate::directory::{Directory, Wanted, fresh, is_bound, layouts};
use crate::http_client::CONNECTIONS_MAX;
use crate::log::log;
use crate::now_ms;
use crate::shard::Outcome;
use crate::written_down::WrittenDown;
use messages::job::JobPayment;
use messages::placement::{self, Layout, ShardName};
use once::sorted;

/// How many places are asked at once.
const AT_ONCE: usize = CONNECTIONS_MAX;
/// How many places one reader asks at most.
pub const PLACES_MAX: usize = 200;

/// How many of those that did not answer are named.
const NAMED_MAX: usize = 3;

/// After how many shards no list asks those of another period, where it is not set: a Worker asks six at once.
const LIST_SHARDS_MAX: usize = 500;
thread_local! {
    static WRITTEN_DOWN: RefCell<WrittenDown> = const { RefCell::new(WrittenDown::new()) };
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
    let known = directory::known();
    if let Some((read_at_ms, layouts)) = &known
        && now_ms().saturating_sub(*read_at_ms) < directory::cache_ms(env)?
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
    if !WRITTEN_DOWN.with_borrow(|known| known.has(&name, now_ms())) {
        let names = match directory::known() {
            Some((_, layouts)) => placement::written_down_with(&layouts, shard, now_ms()),
            None => vec![name.clone()],
        };
        let sql = "INSERT INTO shards (name, made_at_ms) SELECT value, ?2 FROM json_each(?1)
             WHERE NOT EXISTS (SELECT 1 FROM shards WHERE name = ?3) ON CONFLICT (name) DO NOTHING";
        let values = vec![serde_json::to_string(&names)?.into(), now_ms().into(), name.as_str().into()];
        let is_first = d1.run(sql, values).await? > 0;
        // Where this one was there already the others need not be: whoever wrote it may have gone by other layouts, or by another clock.
        let sure = if is_first { names } else { vec![name.clone()] };
        WRITTEN_DOWN.with_borrow_mut(|known| known.add(sure, now_ms()));
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

    /// Whether there are more places than one reader asks.
    pub async fn are_too_many(&self) -> Result<bool> {
        Ok(self.directory().await?.shards.names.len() >= PLACES_MAX)
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
        let shards = directory::of_time(&self.d1()?, &layouts, wanted).await?;
        Ok((shards, layouts))
    }

    /// The shards of these periods, as many as may be asked.
    pub(crate) async fn of_periods(&self, periods: &BTreeSet<String>) -> Result<Vec<Db>> {
        Ok(self.bounded(directory::of_periods(&self.d1()?, periods, PLACES_MAX).await?.into_iter()))
    }

    /// These shards, as many as may be asked beside D1: where there are more, something may be missing.
    pub(crate) fn bounded(&self, names: impl Iterator<Item = ShardName>) -> Vec<Db> {
        self.at_most(PLACES_MAX, names)
    }

    /// D1 and these shards: so many places at most.
    pub(crate) fn at_most(&self, places: usize, names: impl Iterator<Item = ShardName>) -> Vec<Db> {
        let mut shards: Vec<Db> = names.take(places).map(|name| shard(&self.env, &name)).collect();
        self.note_cut(shards.len() >= places);
        shards.truncate(places.saturating_sub(1));
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
        let named = directory::oldest(&d1, before_ms, chance, most).await?.into_iter();
        let layout =
            |name: &ShardName| layouts.iter().find(|layout| layout.layout_id == name.layout_id).cloned();
        Ok(named.filter_map(|name| Some((layout(&name)?, shard(&self.env, &name)))).collect())
    }

    /// The shards behind this one, or all, those of the newest periods first: at most so many.
    pub async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
        if !is_bound(&self.env) {
            return Ok(Vec::new());
        }
        directory::behind(&self.d1()?, after, most).await
    }

    /// The same of those shards that may have payments of these owners.
    pub async fn shards_of_behind(
        &self,
        owners: &BTreeSet<String>,
        after: Option<&ShardName>,
        most: usize,
    ) -> Result<Vec<ShardName>> {
        let layouts = self.layouts().await?;
        if layouts.iter().all(|layout| layout.slots == 0) {
            return Ok(Vec::new());
        }
        directory::of_owners_behind(&self.d1()?, (&layouts, owners), after, most).await
    }

    /// The shards of these periods: the newest, at most so many.
    pub async fn shards_of_periods(&self, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>> {
        if !is_bound(&self.env) {
            return Ok(Vec::new());
        }
        directory::of_periods(&self.d1()?, periods, most).await
    }

    /// Those of these shards that there are, and that are not at rest.
    pub async fn shards_named(&self, names: &BTreeSet<ShardName>) -> Result<Vec<ShardName>> {
        if !is_bound(&self.env) || names.is_empty() {
            return Ok(Vec::new());
        }
        directory::named(&self.d1()?, names).await
    }

    /// The places from which payments of some time may have left, also those at rest: those of the newest periods, as many as a list asks together, and
    /// before when the payments of all others were made, in ms since the epoch. Who [looks on](Self::look_on) has seen what D1 has.
    pub async fn history(&self, from_ms: u64, until_ms: u64) -> Result<(Vec<Db>, Option<u64>)> {
        let is_first = self.until_ms.get() == u64::MAX;
        let mut places = is_first.then(|| self.d1()).transpose()?.into_iter().collect::<Vec<_>>();
        let wanted = Wanted { owner: None, from_ms, until_ms: until_ms.min(self.until_ms.get()) };
        let layouts = self.layouts().await?;
        if layouts.iter().all(|layout| layout.slots == 0) || wanted.until_ms <= wanted.from_ms {
            return Ok((places, None));
        }
        let shards = directory::of_history(&self.d1()?, &layouts, &wanted).await?;
        let (names, looked_to_ms) = shards.whole_periods(self.list_shards_max()?);
        places.extend(names.iter().map(|(_, name)| shard(&self.env, name)));
        Ok((places, looked_to_ms))
    }

    /// Some of the shards at rest, which `chance` says: of a period any, and any of these.
    pub async fn at_rest(&self, chance: u64, most: usize) -> Result<Vec<Db>> {
        if !is_bound(&self.env) {
            return Ok(Vec::new());
        }
        let some = directory::at_rest(&self.d1()?, chance, most).await?;
        Ok(some.iter().map(|name| shard(&self.env, name)).collect())
    }

    /// The shard of this name, where there is one.
    pub async fn shard(&self, name: &str) -> Result<Option<Db>> {
        if !is_bound(&self.env) {
            return Ok(None);
        }
        let known = directory::called(&self.d1()?, name).await?;
        Ok(known.map(|name| shard(&self.env, &name)))
    }

    /// The shard after the one of this name, or the first one: all of them, in the order of their names.
    pub async fn shard_after(&self, name: &str) -> Result<Option<String>> {
        if !is_bound(&self.env) {
            return Ok(None);
        }
        directory::after(&self.d1()?, name).await
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
        let found = self.rows_in(self.places().await?, sql, &values).await?;
        Ok(found.into_iter().map(|(_, row)| row).collect())
    }

    /// The rows that a statement has in these places, each with its place.
    pub async fn rows_in<T: DeserializeOwned>(
        &self,
        places: Vec<Db>,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<(Db, T)>> {
        let mut all = Vec::new();
        for (db, rows) in self.ask(places, sql, values).await? {
            all.extend(rows.rows()?.into_iter().map(|row| (db.clone(), row)));
        }
        Ok(all)
    }

    /// Before the rows are read: see [`Db::ask`].
    async fn ask(&self, places: Vec<Db>, sql: &str, values: &[Value]) -> Result<Vec<(Db, Outcome)>> {
        self.each(places, async |db: Db| db.ask(sql, values.to_vec()).await).await
    }

    /// The first row that a statement has in D1 or in the shards that may have such payments, the newest first, until it is found; with its place. An
    /// error if it may be where nobody has looked.
    pub async fn first_of<T: DeserializeOwned>(
        &self,
        wanted: &Wanted<'_>,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<Option<(Db, T)>> {
        let d1 = self.d1()?;
        if let Some(row) = d1.first(sql, values.clone()).await? {
            return Ok(Some((d1, row)));
        }
        let (shards, _) = self.shards_of(wanted).await?;
        let (mut asked, most) = (0, self.list_shards_max()?);
        while let (Some(chunk), true) = (shards.next(asked), asked < most) {
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

    /// D1, and those of these shards that there are. One at rest has no rows.
    pub async fn d1_and(&self, names: impl Iterator<Item = &str>) -> Result<Vec<Db>> {
        let shards = self.shards_named(&sorted::set(names.filter_map(ShardName::parse))).await?;
        Ok(std::iter::once(self.d1()?).chain(shards.iter().map(|name| shard(&self.env, name))).collect())
    }

    /// Runs a statement in these places: it changes only rows that it names. Gives how many it has changed; an error if it has changed none
    /// and a shard did not answer.
    pub async fn run_in(&self, places: Vec<Db>, sql: &str, values: Vec<Value>) -> Result<usize> {
        let found = self.each(places, async |db: Db| db.run(sql, values.clone()).await).await?;
        let changed = found.into_iter().map(|(_, changed)| changed).sum();
        match (changed, self.missing()) {
            (0, Some(missing)) => Err(Error::RustError(missing)),
            _ => Ok(changed),
        }
    }

    /// Whether a shard did not answer.
    pub fn is_silent(&self) -> bool {
        !self.silent.borrow().is_empty()
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
