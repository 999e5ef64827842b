//! One run of the settlement: what it works with, and what it has used.

use serde::de::DeserializeOwned;
use worker::{Bucket, Date, Result};

use super::settlement_pace::Used;
use runtime::db::{Db, Statement, Value};

/// A run, as far as it has come.
pub(super) struct Run {
    db: Db,
    pub(super) bucket: Bucket,
    /// How many lines a part of a file has at most.
    pub(super) part_lines: u64,
    pub(super) began_at_ms: u64,
    used: Used,
}

impl Run {
    pub(super) fn begin(db: Db, bucket: Bucket, part_lines: u64) -> Self {
        Self { db, bucket, part_lines, began_at_ms: Date::now().as_millis(), used: Used::default() }
    }

    /// Whether another slice or part may follow.
    pub(super) const fn may_go_on(&self) -> bool {
        self.used.may_go_on()
    }

    /// So many more lines are in files.
    pub(super) fn wrote(&mut self, lines: u64) {
        self.used.lines = self.used.lines.saturating_add(lines);
    }

    pub(super) async fn rows<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Vec<T>> {
        self.uses(1);
        self.db.rows(&statement.sql, statement.values).await
    }

    pub(super) async fn first<T: DeserializeOwned>(&mut self, statement: Statement) -> Result<Option<T>> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    /// All of them, or none. Gives whether the last one has changed a row.
    pub(super) async fn batch<const N: usize>(&mut self, statements: [Statement; N]) -> Result<bool> {
        self.uses(u32::try_from(N).unwrap_or(u32::MAX));
        let changed = self.db.batch_changes(statements.into()).await?;
        Ok(changed.last().is_some_and(|rows| *rows > 0))
    }

    pub(super) async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<()> {
        self.uses(1);
        self.db.run(sql, values).await.map(drop)
    }

    fn uses(&mut self, queries: u32) {
        self.used.queries = self.used.queries.saturating_add(queries);
        self.used.ran_ms = Date::now().as_millis().saturating_sub(self.began_at_ms);
    }
}
