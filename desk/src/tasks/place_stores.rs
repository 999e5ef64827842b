//! The places of the read model, as tasks that look for payments need them: D1, which has what is not of one payment alone, and the shards.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::de::DeserializeOwned;
use worker::{Env, Error, Result};

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

/// What each shard is asked.
pub(super) type Asks<T> = [(ShardName, Rc<T>)];

/// The places of the read model.
pub(super) trait Places {
    /// In ms since the epoch.
    fn now_ms(&self) -> u64;
    /// The layouts as they are now.
    async fn layouts(&self) -> Result<Rc<[Layout]>>;
    /// The shards behind this one, or all, those of the newest periods first: at most so many.
    async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>>;
    /// The shards of these periods, at most so many.
    async fn shards_of_periods(&self, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>>;
    /// Those of these shards that there are, and that are not at rest.
    async fn shards_named(&self, names: &BTreeSet<ShardName>) -> Result<Vec<ShardName>>;
    /// What a statement gives in D1.
    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>>;
    /// Runs all of these in D1, or none. Gives how many rows each has changed.
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>>;
    /// What a statement gives in shards.
    async fn shard_rows<T: DeserializeOwned>(&self, asks: &Asks<Statement>) -> Result<Answers<Vec<T>>>;
    /// Runs statements in shards, in each all of them or none. Gives how many rows each has changed.
    async fn shard_batch(&self, asks: &Asks<[Statement]>) -> Result<Answers<Vec<usize>>>;
}

/// As they are bound.
pub(super) struct BoundPlaces {
    env: Env,
    d1: Db,
    /// The read model by the newest layouts.
    model: RefCell<Rc<ReadModel>>,
}

impl BoundPlaces {
    pub(super) fn of(env: &Env) -> Result<Self> {
        let model = RefCell::new(Rc::new(ReadModel::of(env)));
        Ok(Self { env: env.clone(), d1: Db::of(env)?, model })
    }

    pub(super) fn model(&self) -> Rc<ReadModel> {
        Rc::clone(&self.model.borrow())
    }

    /// What is not answered is told of by each question anew.
    async fn each<A: ?Sized, T>(
        &self,
        asks: &Asks<A>,
        ask: impl AsyncFn(Db, Rc<A>) -> Result<T>,
    ) -> Result<Answers<T>> {
        let model = ReadModel::of(&self.env);
        let places = asks.iter().map(|(shard, _)| places::shard(&self.env, shard)).collect();
        let asks: BTreeMap<String, &(ShardName, Rc<A>)> =
            asks.iter().map(|asked| (asked.0.to_string(), asked)).collect();
        let answers = model
            .each(places, async |db: Db| match db.name().and_then(|name| asks.get(name)) {
                Some((name, question)) => Ok((name.clone(), ask(db, Rc::clone(question)).await?)),
                None => Err(Error::RustError("a shard answers that was not asked".to_owned())),
            })
            .await?;
        Ok(Answers {
            each: answers.into_iter().map(|(_, answer)| answer).collect(),
            missing: model.missing(),
        })
    }
}

impl Places for BoundPlaces {
    fn now_ms(&self) -> u64 {
        runtime::now_ms()
    }

    async fn layouts(&self) -> Result<Rc<[Layout]>> {
        self.model.replace(Rc::new(ReadModel::of(&self.env)));
        places::layouts(&self.env).await
    }

    async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
        self.model().shards_behind(after, most).await
    }

    async fn shards_of_periods(&self, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>> {
        self.model().shards_of_periods(periods, most).await
    }

    async fn shards_named(&self, names: &BTreeSet<ShardName>) -> Result<Vec<ShardName>> {
        self.model().shards_named(names).await
    }

    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>> {
        self.d1.rows(&statement.sql, statement.values).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>> {
        self.d1.batch_changes(statements).await
    }

    async fn shard_rows<T: DeserializeOwned>(&self, asks: &Asks<Statement>) -> Result<Answers<Vec<T>>> {
        self.each(asks, async |db: Db, ask: Rc<Statement>| db.rows(&ask.sql, ask.values.clone()).await).await
    }

    async fn shard_batch(&self, asks: &Asks<[Statement]>) -> Result<Answers<Vec<usize>>> {
        self.each(asks, async |db: Db, ask: Rc<[Statement]>| db.batch_changes(ask.to_vec()).await).await
    }
}
