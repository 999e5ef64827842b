//! Whether the books of an account have anything to compare: it is configured, or has payments in some place. One that has left has none some day, and
//! its object ends.
//!
//! D1 and the newest shards are asked in each run, all other shards in [rounds](super::rounds), a part of them in a run: a round that is broken off
//! goes on, and one in which a shard did not answer says nothing. What was on its way meanwhile is seen by a second round, a day later.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::Result;

use super::rounds::{Places, SHARDS_MAX, Seen, may_walk, walk};
use super::session::Reconciliation;
use messages::placement::ShardName;
use payments::payment::own_keys::account_of;
use runtime::db::{Db, Statement};
use runtime::places;

/// How long an account is known to have no payments before its books end, in ms: longer than any is on its way to its shard.
const UNUSED_MS: u64 = 86_400_000;
/// How long that is remembered, in ms: it may have been used meanwhile.
const REMEMBERED_MS: u64 = 7 * UNUSED_MS;

/// A payment of this account.
const PAYMENT: &str = "SELECT 1 FROM payments WHERE stripe_account = ?1 LIMIT 1";
/// When it was first seen, in a whole round, that no place has any.
const SINCE: &str = "SELECT through_ms FROM reconcile_rounds WHERE name = ?1";
const NOTE: &str = "INSERT INTO reconcile_rounds (name, through_ms, began_at_ms, after, is_left) VALUES (?1, ?2, NULL, NULL, 0)
    ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms";
const FORGET: &str = "DELETE FROM reconcile_rounds WHERE name IN (?1, ?2)";

#[derive(Deserialize)]
struct Found {}

impl Reconciliation {
    /// Those of these books that have anything to compare, where the cron compares them and not all places are asked which these are. The others end.
    /// Each has its share of the shards that one run asks.
    pub(super) async fn still_used(
        &mut self,
        books: Vec<Option<String>>,
        configured: &[String],
    ) -> Result<Vec<Option<String>>> {
        if !self.model.are_too_many().await? {
            return Ok(books);
        }
        self.share = u32::try_from(books.len()).unwrap_or(u32::MAX).max(1);
        let mut used = Vec::new();
        for account in books {
            self.account.clone_from(&account);
            match self.is_used(configured).await? {
                true => used.push(account),
                false => self.end_books().await?,
            }
        }
        Ok(used)
    }

    /// Whether there is anything to compare in the books of the current account: payments were made there, or it is configured.
    pub(super) async fn is_used(&mut self, configured: &[String]) -> Result<bool> {
        let Some(name) = self.account.clone() else { return Ok(true) };
        if configured.contains(&name) {
            return Ok(true);
        }
        let (used, are_all) = self.rows_of_newest::<Found>(PAYMENT, vec![name.as_str().into()]).await?;
        if are_all {
            return Ok(!used.is_empty());
        }
        // That of an account with keys of its own ends with its key.
        if !used.is_empty() || account_of(&name).is_some() || self.is_registered(&name).await? {
            return Ok(true);
        }
        self.is_used_elsewhere(name).await
    }

    async fn is_registered(&mut self, name: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM accounts WHERE settings ->> '$.stripe_account' = ?1 LIMIT 1";
        Ok(!self.rows::<Found>(sql, vec![name.into()]).await?.is_empty())
    }

    /// Whether it has a payment in any of the other shards, as far as it is known by now: as long as it is not it is used.
    async fn is_used_elsewhere(&mut self, name: String) -> Result<bool> {
        #[derive(Deserialize)]
        struct Since {
            through_ms: u64,
        }
        // No id has a space.
        let (round, unused) = (format!("{name} used"), format!("{name} unused"));
        let since: Vec<Since> = self.rows(SINCE, vec![unused.as_str().into()]).await?;
        let is_known = |since: &Since| self.now_ms < since.through_ms.saturating_add(REMEMBERED_MS);
        let since = since.into_iter().find(is_known);
        let begins_ms = since.as_ref().map_or(0, |since| since.through_ms.saturating_add(UNUSED_MS));
        if self.now_ms < begins_ms {
            return Ok(true);
        }
        let (most, now_ms) = (usize::try_from(self.share_of(SHARDS_MAX)).unwrap_or(usize::MAX), self.now_ms);
        let mut looked = Looked { run: self, name, is_used: false };
        let walked = walk(&mut looked, &round, most, now_ms).await?;
        let is_used = looked.is_used;
        if is_used {
            self.run("DELETE FROM reconcile_rounds WHERE name = ?1", vec![unused.into()]).await?;
            return Ok(true);
        }
        if !walked.is_whole {
            return Ok(true);
        }
        if since.is_none() {
            self.run(NOTE, vec![unused.into(), now_ms.into()]).await?;
            return Ok(true);
        }
        // A whole round that has begun since then.
        let is_over = now_ms.saturating_sub(walked.lag_ms) >= begins_ms;
        if is_over {
            self.run(FORGET, vec![round.into(), unused.into()]).await?;
        }
        Ok(!is_over)
    }
}

/// A run's part of the round.
struct Looked<'a> {
    run: &'a mut Reconciliation,
    name: String,
    is_used: bool,
}

impl Places for Looked<'_> {
    async fn shards_behind(&mut self, after: Option<&ShardName>, most: usize) -> Result<Vec<ShardName>> {
        self.run.count_queries(1);
        self.run.model.shards_behind(after, most).await
    }

    /// Where it has one the next run asks first.
    async fn look(&mut self, shards: &[ShardName]) -> Result<Seen> {
        let dbs = shards.iter().map(|name| places::shard(&self.run.env, name)).collect();
        let name = self.name.as_str();
        let ask = async |db: Db| db.rows::<Found>(PAYMENT, vec![name.into()]).await;
        let answers = self.run.model.each(dbs, ask).await?;
        self.run.used.places += u32::try_from(shards.len()).unwrap_or(u32::MAX);
        self.run.used.ran_ms = runtime::now_ms().saturating_sub(self.run.now_ms);
        if answers.iter().any(|(_, rows)| !rows.is_empty()) {
            self.is_used = true;
            return Ok(Seen::Again);
        }
        Ok(if answers.len() < shards.len() { Seen::NotAll } else { Seen::All })
    }

    async fn rows<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Vec<T>> {
        self.run.rows(&statement.sql, statement.values).await
    }

    async fn run(&mut self, statement: Statement) -> Result<usize> {
        self.run.run(&statement.sql, statement.values).await
    }

    fn may_go_on(&self) -> bool {
        may_walk(self.run.used)
    }
}
