//! What the import of Adyen's reports works with: D1, which has the reports, their lines and the breaks; the shards, which have payments;
//! and the bucket.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use worker::{Bucket, Date, Env, Error, Object, Range, Result};

use messages::placement::{Layout, ShardName};
use runtime::db::{Db, Statement};
use runtime::places::{self, ReadModel};

/// Why something is not compared now.
#[derive(Debug)]
pub(super) enum Halt {
    /// It goes on by itself once this is over.
    Waits(String),
    /// A failure.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<serde_json::Error> for Halt {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// What shards have answered.
pub(super) struct Answers<T> {
    /// Each with its name.
    pub(super) each: Vec<(ShardName, T)>,
    /// Which have not, for a person.
    pub(super) missing: Option<String>,
}

impl<T> Answers<T> {
    /// All of them: what is in a shard that does not answer would seem to be unknown.
    pub(super) fn all(self) -> std::result::Result<Vec<(ShardName, T)>, Halt> {
        match self.missing {
            Some(missing) => Err(Halt::Waits(missing)),
            None => Ok(self.each),
        }
    }
}

/// The places of the read model and the bucket, as the import needs them.
pub(super) trait Stores {
    /// In ms since the epoch.
    fn now_ms(&self) -> u64;
    /// The layouts as they are now.
    async fn layouts(&self) -> Result<Rc<[Layout]>>;
    /// The shards behind this one, or all, those of the newest periods first: at most so many.
    async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>>;
    /// The shards of these periods, at most so many.
    async fn shards_of_periods(&self, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>>;
    /// The shards that have payments which were made before a moment, in ms since the epoch, or so many of them: others each time.
    async fn some_shards(&self, before_ms: u64, most: usize) -> Result<Vec<ShardName>>;
    /// What a statement gives in D1.
    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>>;
    /// Runs all of these in D1, or none. Gives how many rows each has changed.
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>>;
    /// What a statement gives in shards.
    async fn shard_rows<T: DeserializeOwned>(
        &self,
        shards: &[ShardName],
        statement: &Statement,
    ) -> Result<Answers<Vec<T>>>;
    /// Runs statements in shards, in each all of them or none. Gives how many rows each has changed.
    async fn shard_batch(
        &self,
        shards: &[ShardName],
        statements: &[Statement],
    ) -> Result<Answers<Vec<usize>>>;
    /// Some bytes of an object.
    async fn read(&self, key: &str, offset: u64, length: u64) -> Result<Vec<u8>>;
}

/// As they are bound.
pub(super) struct Bound {
    env: Env,
    d1: Db,
    pub(super) bucket: Bucket,
    /// The read model by the newest layouts.
    model: RefCell<Rc<ReadModel>>,
}

impl Bound {
    pub(super) fn of(env: &Env, bucket: Bucket) -> Result<Self> {
        let model = RefCell::new(Rc::new(ReadModel::of(env)));
        Ok(Self { env: env.clone(), d1: Db::of(env)?, bucket, model })
    }

    async fn each<T>(&self, shards: &[ShardName], ask: impl AsyncFn(Db) -> Result<T>) -> Result<Answers<T>> {
        let model = Rc::clone(&self.model.borrow());
        let places = shards.iter().map(|shard| places::shard(&self.env, shard)).collect();
        let answers = model.each(places, ask).await?;
        let named = |(db, answer): (Db, T)| Some((ShardName::parse(db.name()?)?, answer));
        Ok(Answers { each: answers.into_iter().filter_map(named).collect(), missing: model.missing() })
    }
}

impl Stores for Bound {
    fn now_ms(&self) -> u64 {
        Date::now().as_millis()
    }

    async fn layouts(&self) -> Result<Rc<[Layout]>> {
        self.model.replace(Rc::new(ReadModel::of(&self.env)));
        places::layouts(&self.env).await
    }

    async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
        let model = Rc::clone(&self.model.borrow());
        model.shards_behind(after, most).await
    }

    async fn shards_of_periods(&self, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>> {
        let model = Rc::clone(&self.model.borrow());
        model.shards_of_periods(periods, most).await
    }

    async fn some_shards(&self, before_ms: u64, most: usize) -> Result<Vec<ShardName>> {
        let model = Rc::clone(&self.model.borrow());
        let some = model.made_before(before_ms, self.now_ms(), most).await?;
        Ok(some.into_iter().filter_map(|(_, db)| ShardName::parse(db.name()?)).collect())
    }

    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>> {
        self.d1.rows(&statement.sql, statement.values).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>> {
        self.d1.batch_changes(statements).await
    }

    async fn shard_rows<T: DeserializeOwned>(
        &self,
        shards: &[ShardName],
        Statement { sql, values }: &Statement,
    ) -> Result<Answers<Vec<T>>> {
        self.each(shards, async |db: Db| db.rows(sql, values.clone()).await).await
    }

    async fn shard_batch(
        &self,
        shards: &[ShardName],
        statements: &[Statement],
    ) -> Result<Answers<Vec<usize>>> {
        self.each(shards, async |db: Db| db.batch_changes(statements.to_vec()).await).await
    }

    async fn read(&self, key: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let range = Range::OffsetWithLength { offset, length };
        let object = self.bucket.get(key).range(range).execute().await?;
        match object.as_ref().and_then(Object::body) {
            Some(body) => body.bytes().await,
            None => Err(Error::RustError(format!("{key} is not in the bucket"))),
        }
    }
}
