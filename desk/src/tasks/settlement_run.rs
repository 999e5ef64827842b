//! One run of the settlement: what it works with, and what it has used.

use data_encoding::HEXLOWER;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use worker::{Bucket, Env, Error, Object, Result};

use super::bucket::{listed, only_new};
use super::settlement_file::FOLDER;
use super::settlement_limits::Used;
use messages::placement::ShardName;
use runtime::db::{Db, Statement, Value};
use runtime::places;

/// The name of D1 among the places.
pub(super) const D1: &str = "";

/// The places of the read model and the bucket, as the settlement needs them.
pub(super) trait Stores {
    /// In ms since the epoch.
    fn now_ms(&self) -> u64;
    /// What a statement gives in a place.
    async fn rows<T: DeserializeOwned>(&self, place: &str, statement: Statement) -> Result<Vec<T>>;
    /// Runs all of these, or none. Gives how many rows each has changed.
    async fn batch(&self, place: &str, statements: Vec<Statement>) -> Result<Vec<usize>>;
    /// Writes an object. Gives the SHA-256 of its bytes, in hexadecimal; `None` if there is another one already.
    async fn put_new(&self, name: &str, text: String) -> Result<Option<String>>;
    /// What the objects of the bucket are called by which a day is complete.
    async fn names(&self) -> Result<Vec<String>>;
}

/// As they are bound.
pub(super) struct Bound<'a> {
    pub(super) env: &'a Env,
    pub(super) d1: Db,
    pub(super) bucket: Bucket,
}

impl Bound<'_> {
    fn at(&self, place: &str) -> Result<Db> {
        match ShardName::parse(place) {
            Some(shard) => Ok(places::shard(self.env, &shard)),
            None if place == D1 => Ok(self.d1.clone()),
            None => Err(Error::RustError(format!("{place} is not the name of a shard"))),
        }
    }

    async fn stored_sha256(&self, name: &str) -> Result<Option<sha2::digest::Output<Sha256>>> {
        match self.bucket.get(name).execute().await?.as_ref().and_then(Object::body) {
            Some(body) => Ok(Some(Sha256::digest(body.bytes().await?))),
            None => Ok(None),
        }
    }
}

impl Stores for Bound<'_> {
    fn now_ms(&self) -> u64 {
        runtime::now_ms()
    }

    async fn rows<T: DeserializeOwned>(&self, place: &str, statement: Statement) -> Result<Vec<T>> {
        self.at(place)?.rows(&statement.sql, statement.values).await
    }

    async fn batch(&self, place: &str, statements: Vec<Statement>) -> Result<Vec<usize>> {
        self.at(place)?.batch_changes(statements).await
    }

    async fn put_new(&self, name: &str, text: String) -> Result<Option<String>> {
        let own = Sha256::digest(text.as_bytes());
        let made = self.bucket.put(name, text).only_if(only_new()).execute().await?;
        let is_there = made.is_some() || self.stored_sha256(name).await? == Some(own);
        Ok(is_there.then(|| HEXLOWER.encode(&own)))
    }

    async fn names(&self) -> Result<Vec<String>> {
        // The parts of a day lie in a folder of their own.
        Ok(listed(&self.bucket, FOLDER).await?.iter().map(Object::key).collect())
    }
}

/// A run, as far as it has come.
pub(super) struct Run<'a, S> {
    stores: &'a S,
    /// Where it works now.
    place: String,
    /// How many lines a part of a file has at most.
    pub(super) part_lines: u64,
    pub(super) began_at_ms: u64,
    /// When it goes on to the next place.
    turn_ends_ms: u64,
    used: Used,
}

impl<'a, S: Stores> Run<'a, S> {
    pub(super) fn begin(stores: &'a S, part_lines: u64) -> Self {
        let began_at_ms = stores.now_ms();
        let (place, used) = (D1.to_owned(), Used::default());
        Self { stores, place, part_lines, began_at_ms, turn_ends_ms: u64::MAX, used }
    }

    /// Goes on in another place, until then.
    pub(super) fn enter(&mut self, place: &str, turn_ends_ms: u64) {
        place.clone_into(&mut self.place);
        self.turn_ends_ms = turn_ends_ms;
    }

    /// Where it works now.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn is_in_d1(&self) -> bool {
        self.place == D1
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.stores.now_ms()
    }

    /// Whether another slice or part may follow.
    pub(super) const fn may_go_on(&self) -> bool {
        self.used.may_go_on() && self.began_at_ms.saturating_add(self.used.ran_ms) < self.turn_ends_ms
    }

    /// So many more lines are in files.
    pub(super) fn wrote(&mut self, lines: u64) {
        self.used.lines = self.used.lines.saturating_add(lines);
    }

    /// How many it has written.
    pub(super) const fn lines(&self) -> u64 {
        self.used.lines
    }

    pub(super) async fn rows<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Vec<T>> {
        self.uses(1);
        self.stores.rows(&self.place, statement).await
    }

    pub(super) async fn first<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Option<T>> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    /// All of them, or none. Gives whether the last one has changed a row.
    pub(super) async fn batch<const N: usize>(&mut self, statements: [Statement; N]) -> Result<bool> {
        self.uses(u32::try_from(N).unwrap_or(u32::MAX));
        let changed = self.stores.batch(&self.place, statements.into()).await?;
        Ok(changed.last().is_some_and(|rows| *rows > 0))
    }

    pub(super) async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<()> {
        self.batch([Statement::new(sql, values)]).await.map(drop)
    }

    /// In D1, wherever the run works now.
    pub(super) async fn run_in_d1(&mut self, sql: &str, values: Vec<Value>) -> Result<()> {
        let place = std::mem::take(&mut self.place);
        let done = self.run(sql, values).await;
        self.place = place;
        done
    }

    /// Writes an object; `None` if there is another one already.
    pub(super) async fn put_new(&mut self, name: &str, text: String) -> Result<Option<String>> {
        self.used.requests = self.used.requests.saturating_add(2);
        self.stores.put_new(name, text).await
    }

    /// The same; another one is an error.
    pub(super) async fn put_once(&mut self, name: &str, text: String) -> Result<String> {
        let is_another = || Error::RustError(format!("{name} is there already, and is another one"));
        self.put_new(name, text).await?.ok_or_else(is_another)
    }

    /// What the objects of the bucket are called by which a day is complete.
    pub(super) async fn names(&mut self) -> Result<Vec<String>> {
        self.used.requests = self.used.requests.saturating_add(1);
        self.stores.names().await
    }

    fn uses(&mut self, queries: u32) {
        if self.is_in_d1() {
            self.used.queries = self.used.queries.saturating_add(queries);
        } else {
            self.used.requests = self.used.requests.saturating_add(1);
        }
        self.used.ran_ms = self.now_ms().saturating_sub(self.began_at_ms);
    }
}
