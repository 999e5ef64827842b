//! The read model, as far as it is used here: statements with text and whole numbers, in D1 or in a shard.

use std::rc::Rc;

use serde::de::DeserializeOwned;
use worker::wasm_bindgen::JsValue;
use worker::{D1Database, D1PreparedStatement, D1Result, Env, Result};

use crate::metrics;
use crate::shard::{Outcome, Shard};
pub use crate::statement::{Statement, Value};

/// A place of the read model: D1, or one shard of it. Both have the same tables and take the same statements.
#[derive(Clone)]
pub struct Db(Place);

#[derive(Clone)]
enum Place {
    D1(Rc<D1Database>),
    Shard(Shard),
}

impl Db {
    /// D1, as bound: `DB`.
    pub fn of(env: &Env) -> Result<Self> {
        Ok(Self(Place::D1(Rc::new(env.d1("DB")?))))
    }

    /// The shard of this name. It must be written down in D1 before anything is written into it: see [`Places`](crate::places::Places).
    pub(crate) fn shard(env: &Env, name: &str) -> Self {
        Self(Place::Shard(Shard::new(env, name)))
    }

    /// The name of the shard; `None` for D1.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Place::D1(_) => None,
            Place::Shard(shard) => Some(shard.name()),
        }
    }

    /// Runs one, without its rows. Gives how many rows it changed.
    pub async fn run(&self, sql: &str, values: Vec<Value>) -> Result<usize> {
        match &self.0 {
            Place::D1(d1) => {
                let result = prepared(d1, sql, values)?.run().await?;
                counted(&result)?;
                Ok(result.meta()?.and_then(|meta| meta.changes).unwrap_or(0))
            }
            Place::Shard(shard) => Ok(shard.one(sql, values).await?.changes),
        }
    }

    /// Runs one and gives its rows.
    pub async fn rows<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        self.ask(sql, values).await?.read()
    }

    /// The same, before the rows are read: this is in the WebAssembly once, however many kinds of rows there are.
    pub(crate) async fn ask(&self, sql: &str, values: Vec<Value>) -> Result<RawRows> {
        match &self.0 {
            Place::D1(d1) => {
                let result = prepared(d1, sql, values)?.all().await?;
                counted(&result)?;
                Ok(RawRows::D1(result))
            }
            Place::Shard(shard) => shard.one(sql, values).await.map(RawRows::Shard),
        }
    }

    /// Runs one and gives its first row.
    pub async fn first<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Option<T>> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs all of them, or none.
    pub async fn batch(&self, statements: Vec<Statement>) -> Result<()> {
        self.batch_changes(statements).await.map(drop)
    }

    /// The same. Gives how many rows each has changed.
    pub async fn batch_changes(&self, statements: Vec<Statement>) -> Result<Vec<usize>> {
        Ok(self.results(statements).await?.into_iter().map(|(changes, _)| changes).collect())
    }

    /// The same. Gives also the rows of the last one.
    pub async fn batch_rows<T: DeserializeOwned>(
        &self,
        statements: Vec<Statement>,
    ) -> Result<(Vec<usize>, Vec<T>)> {
        let results = self.results(statements).await?;
        let rows = results.last().map_or_else(|| Ok(Vec::new()), |(_, rows)| rows.read())?;
        Ok((results.into_iter().map(|(changes, _)| changes).collect(), rows))
    }

    /// Runs all of them, or none. Gives the rows of each.
    pub(crate) async fn rows_of_each(&self, statements: Vec<Statement>) -> Result<Vec<RawRows>> {
        Ok(self.results(statements).await?.into_iter().map(|(_, rows)| rows).collect())
    }

    /// Runs all of them, or none. Gives of each how many rows it changed, and its own.
    async fn results(&self, statements: Vec<Statement>) -> Result<Vec<(usize, RawRows)>> {
        match &self.0 {
            Place::D1(d1) => {
                let prepared = statements.into_iter().map(|one| prepared(d1, &one.sql, one.values));
                let result = |result: D1Result| {
                    counted(&result)?;
                    let changes = result.meta()?.and_then(|meta| meta.changes).unwrap_or(0);
                    Ok((changes, RawRows::D1(result)))
                };
                d1.batch(prepared.collect::<Result<_>>()?).await?.into_iter().map(result).collect()
            }
            Place::Shard(shard) => {
                let outcomes = shard.ask(statements).await?.into_iter();
                Ok(outcomes.map(|one| (one.changes, RawRows::Shard(one))).collect())
            }
        }
    }
}

/// What a statement has given.
pub(crate) enum RawRows {
    D1(D1Result),
    Shard(Outcome),
}

impl RawRows {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        match self {
            Self::D1(result) => result.results(),
            Self::Shard(outcome) => outcome.rows(),
        }
    }
}

fn prepared(d1: &D1Database, sql: &str, values: Vec<Value>) -> Result<D1PreparedStatement> {
    let values: Vec<JsValue> = values.into_iter().map(JsValue::from).collect();
    d1.prepare(sql).bind(&values)
}

/// What was written is counted: it is billed.
fn counted(result: &D1Result) -> Result<()> {
    let written = result.meta()?.and_then(|meta| meta.rows_written).unwrap_or(0);
    if written > 0 {
        metrics::rows_written("read_model", written);
    }
    Ok(())
}
