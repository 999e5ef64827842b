//! What the import of Adyen's reports works with: D1, which has the reports, their lines and the breaks; the shards, which have payments;
//! and the bucket.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use worker::{Bucket, Env, Object, Range, Result};

use super::place_stores::{Answers, Asks, BoundPlaces, Places};
use messages::placement::{Layout, ShardName};
use runtime::db::Statement;

/// The places of the read model and the bucket, as the import needs them.
pub(super) trait Stores: Places {
    /// The shards that have payments which were made before a moment, in ms since the epoch, or so many of them: others each time.
    async fn some_shards(&self, before_ms: u64, most: usize) -> Result<Vec<ShardName>>;
    /// Some bytes of an object; `None` if there is no such object.
    async fn read(&self, key: &str, offset: u64, length: u64) -> Result<Option<Vec<u8>>>;
}

/// As they are bound.
pub(super) struct Bound {
    places: BoundPlaces,
    pub(super) bucket: Bucket,
}

impl Bound {
    pub(super) fn of(env: &Env, bucket: Bucket) -> Result<Self> {
        Ok(Self { places: BoundPlaces::of(env)?, bucket })
    }
}

impl Places for Bound {
    fn now_ms(&self) -> u64 {
        self.places.now_ms()
    }

    async fn layouts(&self) -> Result<Rc<[Layout]>> {
        self.places.layouts().await
    }

    async fn shards_behind(&self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
        self.places.shards_behind(after, most).await
    }

    async fn shards_of_periods(&self, periods: &BTreeSet<String>, most: usize) -> Result<Vec<ShardName>> {
        self.places.shards_of_periods(periods, most).await
    }

    async fn shards_named(&self, names: &BTreeSet<ShardName>) -> Result<Vec<ShardName>> {
        self.places.shards_named(names).await
    }

    async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>> {
        self.places.rows(statement).await
    }

    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<usize>> {
        self.places.batch(statements).await
    }

    async fn shard_rows<T: DeserializeOwned>(&self, asks: &Asks<Statement>) -> Result<Answers<Vec<T>>> {
        self.places.shard_rows(asks).await
    }

    async fn shard_batch(&self, asks: &Asks<[Statement]>) -> Result<Answers<Vec<usize>>> {
        self.places.shard_batch(asks).await
    }
}

impl Stores for Bound {
    async fn some_shards(&self, before_ms: u64, most: usize) -> Result<Vec<ShardName>> {
        let some = self.places.model().made_before(before_ms, self.places.now_ms(), most).await?;
        Ok(some.into_iter().filter_map(|(_, db)| ShardName::parse(db.name()?)).collect())
    }

    async fn read(&self, key: &str, offset: u64, length: u64) -> Result<Option<Vec<u8>>> {
        let range = Range::OffsetWithLength { offset, length };
        let object = self.bucket.get(key).range(range).execute().await?;
        match object.as_ref().and_then(Object::body) {
            Some(body) => body.bytes().await.map(Some),
            None => Ok(None),
        }
    }
}
