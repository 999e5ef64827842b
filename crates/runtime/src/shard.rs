//! A shard of the read model: an object of the payments Worker, whose class (`src/shard.mjs`) runs the statements that it is given and
//! decides nothing.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::json;
use worker::js_sys::{Array, JSON, Reflect};
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::{Env, Error, Result};

use crate::client;
use crate::http_client::within;
use crate::log::log;
use crate::metrics;
use crate::rest::{self, Asked};
use crate::statement::{Statement, Value};

/// The binding of the shards.
pub const BINDING: &str = "SHARDS";
/// How long a shard may take. What it was told may be done all the same, as with D1.
const ANSWERS: Duration = Duration::from_secs(5);

/// A shard.
#[derive(Clone)]
pub(crate) struct Shard {
    env: Env,
    name: String,
}

/// What came of a statement, in a shard or in D1.
pub(crate) struct Outcome {
    pub(crate) rows: Array,
    /// How many rows it changed.
    pub(crate) changes: usize,
    /// How many it wrote, with those of indexes.
    pub(crate) written: usize,
    /// How large the place is then, if it says so.
    pub(crate) bytes: Option<u64>,
}

impl Outcome {
    fn of(result: &JsValue, bytes: Option<u64>) -> Result<Self> {
        let number = |name: &str| -> Result<usize> {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Ok(member(result, name)?.as_f64().unwrap_or(0.0) as usize)
        };
        let rows = member(result, "rows")?.dyn_into()?;
        Ok(Self { rows, changes: number("changes")?, written: number("written")?, bytes })
    }

    /// Rows that were read elsewhere.
    pub(crate) const fn read_only(rows: Array) -> Self {
        Self { rows, changes: 0, written: 0, bytes: None }
    }

    /// Its rows, by way of JSON: one call into JavaScript, where each column would take several. A whole number beyond 2^53 comes rounded: select it as text.
    pub(crate) fn rows<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        Ok(json_text::from_str(&String::from(JSON::stringify(&self.rows)?))?)
    }
}

/// What an object of JavaScript's has by this name.
pub(crate) fn member(of: &JsValue, name: &str) -> Result<JsValue> {
    Ok(Reflect::get(of, &name.into())?)
}

impl Shard {
    pub(crate) fn new(env: &Env, name: &str) -> Self {
        Self { env: env.clone(), name: name.to_owned() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs all of these, or none. One at rest is woken if they change something.
    pub(crate) async fn ask(&self, statements: Vec<Statement>) -> Result<Vec<Outcome>> {
        let done = rest::waking(
            async |mark| self.ask_once(&statements, mark).await,
            async || {
                log("info", &[("event", "shard_woken".into()), ("shard", self.name.as_str().into())]);
                let woken = self.env.d1("DB")?.prepare(rest::WAKE).bind(&[self.name.as_str().into()])?;
                woken.run().await.map(drop)
            },
        );
        done.await?
            .ok_or_else(|| Error::RustError(format!("{}: it was laid to rest again and again", self.name)))
    }

    /// Runs all of these, after the mark of its rest is gone, or none.
    async fn ask_once(&self, statements: &[Statement], mark: Option<u64>) -> Result<Asked<Vec<Outcome>>> {
        let stub = self.env.durable_object(BINDING)?.id_from_name(&self.name)?.get_stub()?;
        let unmark = mark.map(|mark| Statement::new(rest::UNMARK, vec![mark.into()]));
        let statements: Vec<_> = unmark.iter().chain(statements).map(|one| (&one.sql, &one.values)).collect();
        let number = statements.len();
        let question = json!({ "statements": statements }).to_string();
        let answer = within(ANSWERS, "the shard", client::ask_text(stub, &question)).await;
        let answer = answer.map_err(|error| Error::RustError(format!("{}: {error}", self.name)))?;
        let answer = JSON::parse(&answer)?;
        if let Some(mark) = member(&answer, "at_rest")?.as_f64() {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            return Ok(Asked::AtRest(mark as u64));
        }
        let results: Array = member(&answer, "results")?.dyn_into()?;
        // A shard of the release before does not say it.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bytes = member(&answer, "bytes")?.as_f64().map(|bytes| bytes as u64);
        let results = results.iter().map(|result| Outcome::of(&result, bytes)).collect::<Result<Vec<_>>>()?;
        if results.len() != number {
            return Err(Error::RustError(format!("{}: not as many results as statements", self.name)));
        }
        let written = results.iter().map(|result| result.written).sum();
        if written > 0 {
            metrics::rows_written("read_model", written);
        }
        Ok(Asked::Done(results.into_iter().skip(usize::from(mark.is_some())).collect()))
    }

    pub(crate) async fn one(&self, sql: &str, values: Vec<Value>) -> Result<Outcome> {
        let results = self.ask(vec![Statement::new(sql, values)]).await?;
        results.into_iter().next().ok_or_else(|| Error::RustError("a shard gave no result".to_owned()))
    }
}
