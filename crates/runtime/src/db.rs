//! The read model, as far as it is used here: statements with text and whole numbers, in D1 or in a shard.

use std::rc::Rc;

use serde::de::DeserializeOwned;
use worker::js_sys::{Array, Promise};
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::{D1Database, D1PreparedStatement, Env, Result};

use crate::shard::{Outcome, Shard};
pub use crate::statement::{Statement, Value};
use crate::{meter, metrics};

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
                let result = prepared(d1, sql, values)?.inner().run()?;
                Ok(outcome(JsFuture::from(result).await?).changes)
            }
            Place::Shard(shard) => Ok(shard.one(sql, values).await?.changes),
        }
    }

    /// Runs one and gives its rows.
    pub async fn rows<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        self.ask(sql, values).await?.rows()
    }

    /// The same, before the rows are read: this is in the WebAssembly once, however many kinds of rows there are.
    pub(crate) async fn ask(&self, sql: &str, values: Vec<Value>) -> Result<Outcome> {
        match &self.0 {
            Place::D1(d1) => {
                let result = prepared(d1, sql, values)?.inner().all()?;
                Ok(outcome(JsFuture::from(result).await?))
            }
            Place::Shard(shard) => shard.one(sql, values).await,
        }
    }

    /// Runs one and gives its first row.
    pub async fn first<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Option<T>> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// The same, and how large the place is, in bytes, if it says so.
    pub async fn first_and_bytes<T: DeserializeOwned>(
        &self,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<(Option<T>, Option<u64>)> {
        let outcome = self.ask(sql, values).await?;
        Ok((outcome.rows()?.into_iter().next(), outcome.bytes))
    }

    /// Runs all of them, or none.
    pub async fn batch(&self, statements: Vec<Statement>) -> Result<()> {
        self.batch_changes(statements).await.map(drop)
    }

    /// The same. Gives how many rows each has changed.
    pub async fn batch_changes(&self, statements: Vec<Statement>) -> Result<Vec<usize>> {
        Ok(self.rows_of_each(statements).await?.into_iter().map(|one| one.changes).collect())
    }

    /// The same. Gives also the rows of the last one.
    pub async fn batch_rows<T: DeserializeOwned>(
        &self,
        statements: Vec<Statement>,
    ) -> Result<(Vec<usize>, Vec<T>)> {
        let results = self.rows_of_each(statements).await?;
        let rows = results.last().map_or_else(|| Ok(Vec::new()), Outcome::rows)?;
        Ok((results.into_iter().map(|one| one.changes).collect(), rows))
    }

    /// Runs all of them, or none. Gives what came of each.
    pub(crate) async fn rows_of_each(&self, statements: Vec<Statement>) -> Result<Vec<Outcome>> {
        match &self.0 {
            Place::D1(d1) => {
                let prepared = statements.into_iter().map(|one| prepared(d1, &one.sql, one.values));
                let prepared: Vec<_> = prepared.collect::<Result<_>>()?;
                let prepared: Array = prepared.iter().map(D1PreparedStatement::inner).collect();
                let all = d1.as_ref().as_ref().unchecked_ref::<RawD1>().batch(&prepared)?;
                let all: Array = JsFuture::from(all).await?.unchecked_into();
                Ok(all.iter().map(outcome).collect())
            }
            Place::Shard(shard) => shard.ask(statements).await,
        }
    }
}

fn prepared(d1: &D1Database, sql: &str, values: Vec<Value>) -> Result<D1PreparedStatement> {
    meter::count();
    let values: Vec<JsValue> = values.into_iter().map(JsValue::from).collect();
    d1.prepare(sql).bind(&values)
}

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
extern "C" {
    /// D1, and what it answers, as it is: of the bindings' own result each number costs a dozen calls into JavaScript, whether it is wanted or not.
    type RawD1;

    #[wasm_bindgen(method, catch)]
    fn batch(this: &RawD1, statements: &Array) -> std::result::Result<Promise, JsValue>;

    type RawResult;

    #[wasm_bindgen(method, getter)]
    fn results(this: &RawResult) -> Option<Array>;

    #[wasm_bindgen(method, getter)]
    fn meta(this: &RawResult) -> Option<RawMeta>;

    type RawMeta;

    #[wasm_bindgen(method, getter)]
    fn changes(this: &RawMeta) -> Option<f64>;

    #[wasm_bindgen(method, getter)]
    fn rows_written(this: &RawMeta) -> Option<f64>;

    #[wasm_bindgen(method, getter)]
    fn size_after(this: &RawMeta) -> Option<f64>;
}

/// What D1 says came of a statement. What was written is counted: it is billed.
fn outcome(result: JsValue) -> Outcome {
    let result: RawResult = result.unchecked_into();
    let meta = result.meta();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let number = |read: fn(&RawMeta) -> Option<f64>| meta.as_ref().and_then(read).unwrap_or(0.0) as usize;
    let (changes, written) = (number(RawMeta::changes), number(RawMeta::rows_written));
    if written > 0 {
        metrics::rows_written("read_model", written);
    }
    let bytes = meta.as_ref().and_then(RawMeta::size_after);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let bytes = bytes.map(|bytes| bytes as u64);
    Outcome { rows: result.results().unwrap_or_default(), changes, written, bytes }
}
