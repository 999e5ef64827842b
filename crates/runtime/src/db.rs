//! D1, as far as it is used here: statements with text and whole numbers.

use serde::de::DeserializeOwned;
use worker::wasm_bindgen::JsValue;
use worker::{D1Database, D1PreparedStatement, D1Result, Env, Result};

use crate::metrics;

/// A value in a statement.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// A whole number below 2⁵³.
    Number(u64),
    /// Text.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<Value> for JsValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            // D1 takes no BigInt.
            #[allow(clippy::cast_precision_loss)]
            Value::Number(number) => Self::from_f64(number as f64),
            Value::Text(text) => Self::from_str(&text),
        }
    }
}

/// The read model.
pub struct Db(D1Database);

impl Db {
    /// As bound: `DB`.
    pub fn of(env: &Env) -> Result<Self> {
        Ok(Self(env.d1("DB")?))
    }

    /// A statement.
    pub fn statement(&self, sql: &str, values: Vec<Value>) -> Result<D1PreparedStatement> {
        let values: Vec<JsValue> = values.into_iter().map(JsValue::from).collect();
        self.0.prepare(sql).bind(&values)
    }

    /// Runs one, without its rows. Gives how many rows it changed.
    pub async fn run(&self, sql: &str, values: Vec<Value>) -> Result<usize> {
        let result = self.statement(sql, values)?.run().await?;
        counted(&result)?;
        Ok(result.meta()?.and_then(|meta| meta.changes).unwrap_or(0))
    }

    /// Runs one and gives its rows.
    pub async fn rows<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>> {
        let result = self.statement(sql, values)?.all().await?;
        counted(&result)?;
        result.results()
    }

    /// Runs one and gives its first row.
    pub async fn first<T: DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Option<T>> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs all of them, or none.
    pub async fn batch(&self, statements: Vec<D1PreparedStatement>) -> Result<()> {
        self.batch_changes(statements).await.map(drop)
    }

    /// The same. Gives how many rows each has changed.
    pub async fn batch_changes(&self, statements: Vec<D1PreparedStatement>) -> Result<Vec<usize>> {
        let changed = |result: &D1Result| {
            counted(result)?;
            Ok(result.meta()?.and_then(|meta| meta.changes).unwrap_or(0))
        };
        self.0.batch(statements).await?.iter().map(changed).collect()
    }
}

/// What was written is counted: it is billed.
fn counted(result: &D1Result) -> Result<()> {
    let written = result.meta()?.and_then(|meta| meta.rows_written).unwrap_or(0);
    if written > 0 {
        metrics::rows_written("read_model", written);
    }
    Ok(())
}
