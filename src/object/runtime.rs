//! [`Storage`] by the Workers runtime.
//!
//! The runtime's implicit transactions are not enough: an error or a panic does not roll them back.
//! `transactionSync` does, and it takes the alarm with it.

use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;
use worker::{SqlStorage, SqlStorageValue, State};

use super::storage::{SqlValue, Storage};
use super::store::Store;
use once::context::Bug;
use once::id::ObjectId;
use runtime::metrics;

#[wasm_bindgen]
extern "C" {
    /// `DurableObjectStorage`, as far as the bindings lack it.
    type RawStorage;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction_sync(
        this: &RawStorage,
        closure: &mut dyn FnMut() -> Result<JsValue, JsValue>,
    ) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch, js_name = setAlarm)]
    fn set_alarm(this: &RawStorage, at_ms: f64) -> Result<js_sys::Promise, JsValue>;
}

/// The storage of the object that runs here.
pub(super) struct Runtime {
    raw: RawStorage,
    sql: SqlStorage,
}

/// Opens it. Nothing is written yet.
pub(super) fn open(state: &State) -> Result<Store<Runtime>, Bug> {
    let storage = state.storage();
    let object =
        ObjectId::from_hex(&state.id().to_string()).ok_or_else(|| Bug("not an object's id".into()))?;
    let raw: RawStorage = JsValue::from(storage.as_raw()).unchecked_into();
    Ok(Store::new(object, Runtime { raw, sql: storage.sql() }))
}

impl Storage for Runtime {
    fn query<T: DeserializeOwned>(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<Vec<T>, Bug> {
        let cursor = self.sql.exec(sql, bound(bindings)).map_err(|error| Bug(format!("{sql}: {error}")))?;
        // The text of the error may quote a value.
        cursor.to_array().map_err(|_| Bug(format!("{sql}: rows that cannot be read")))
    }

    fn exec(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<(), Bug> {
        let cursor = self.sql.exec(sql, bound(bindings)).map_err(|error| Bug(format!("{sql}: {error}")))?;
        metrics::rows_written("object", cursor.rows_written());
        Ok(())
    }

    fn set_alarm(&self, at_ms: u64) -> Result<(), Bug> {
        // The promise says nothing that the transaction does not: an output gate holds all answers back until it is kept.
        let _kept: js_sys::Promise =
            self.raw.set_alarm(at_ms as f64).map_err(|error| Bug(format!("setAlarm: {error:?}")))?;
        // It is billed as one.
        metrics::rows_written("object", 1);
        Ok(())
    }

    fn atomically(&self, mut body: impl FnMut() -> Result<(), Bug>) -> Result<(), Bug> {
        let mut failure: Option<Bug> = None;
        let done = self.raw.transaction_sync(&mut || match body() {
            Ok(()) => Ok(JsValue::UNDEFINED),
            Err(bug) => {
                let error = JsValue::from(js_sys::Error::new(&bug.0));
                failure = Some(bug);
                Err(error)
            }
        });
        match (done, failure) {
            (Ok(_), None) => Ok(()),
            (_, Some(bug)) => Err(bug),
            (Err(error), None) => Err(Bug(format!("storage: {error:?}"))),
        }
    }
}

fn bound(values: Vec<SqlValue>) -> Vec<SqlStorageValue> {
    let bound = |value| match value {
        SqlValue::Null => SqlStorageValue::Null,
        SqlValue::Integer(integer) => SqlStorageValue::Integer(integer),
        SqlValue::Text(text) => SqlStorageValue::String(text),
        SqlValue::Blob(bytes) => SqlStorageValue::Blob(bytes),
    };
    values.into_iter().map(bound).collect()
}
