//! [`Storage`] by the Workers runtime.
//!
//! The runtime's implicit transactions are not enough: an error or a panic does not roll them back.
//! `transactionSync` does, and it takes the alarm with it.

use std::cell::{OnceCell, RefCell};

use once::context::Bug;
use once::id::ObjectId;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;
use worker::{SqlStorage, SqlStorageValue, State};

use super::storage::{Row, SqlValue, Storage};

#[wasm_bindgen]
extern "C" {
    /// `DurableObjectStorage`, as far as the bindings lack it.
    type RawStorage;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction_sync(
        this: &RawStorage,
        closure: &mut dyn FnMut() -> Result<JsValue, JsValue>,
    ) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, getter)]
    fn sql(this: &RawStorage) -> RawSql;

    type RawSql;

    #[wasm_bindgen(method, catch)]
    fn exec(this: &RawSql, sql: &str) -> Result<Cursor, JsValue>;

    #[wasm_bindgen(method, catch, variadic, js_name = exec)]
    fn exec_with(this: &RawSql, sql: &str, bindings: &js_sys::Array) -> Result<Cursor, JsValue>;

    type Cursor;

    #[wasm_bindgen(method, catch, js_name = toArray)]
    fn to_array(this: &Cursor) -> Result<js_sys::Array, JsValue>;

    type TextRow;

    #[wasm_bindgen(method, getter)]
    fn text(this: &TextRow) -> Option<String>;

    #[wasm_bindgen(method, getter)]
    fn lines(this: &TextRow) -> Option<String>;

    #[wasm_bindgen(method, getter)]
    fn facts(this: &TextRow) -> Option<String>;

    #[wasm_bindgen(catch, js_namespace = crypto, js_name = randomUUID)]
    fn make_uuid() -> Result<String, JsValue>;
}

// JSON has no bytes: a blob is an array of numbers. What the runtime does not take as an alarm it says by the promise, never by an exception.
#[wasm_bindgen(inline_js = r#"export const rows_as_json = (rows) => JSON.stringify(rows, (_, value) => {
        if (value instanceof ArrayBuffer) return [...new Uint8Array(value)];
        if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new RangeError("not exact");
        return value;
    });
    export const set_alarm = (storage, at_ms, failed) => {
        storage.setAlarm(at_ms).catch((error) => failed(String(error)));
    };"#)]
extern "C" {
    #[wasm_bindgen(catch)]
    fn rows_as_json(rows: &js_sys::Array) -> Result<String, JsValue>;

    #[wasm_bindgen(catch)]
    fn set_alarm(storage: &RawStorage, at_ms: f64, failed: &JsValue) -> Result<(), JsValue>;
}

/// The latest time that the runtime takes for an alarm, and some years less: it keeps it in nanoseconds. One that rings too early finds nothing
/// due and is set anew.
const ALARM_MAX_MS: u64 = 9_000_000_000_000;

/// A UUID of version 4: the name of a new incarnation, or the id of a request.
///
/// # Errors
/// Where the runtime has no randomness.
pub fn random_uuid() -> Result<String, Bug> {
    make_uuid().map_err(|error| Bug(format!("no randomness: {error:?}")))
}

/// The time, in ms since the epoch.
pub(crate) fn now_ms() -> u64 {
    js_sys::Date::now() as u64
}

/// From 0 to 1000, to spread retries.
pub(crate) fn jitter_permille() -> u16 {
    (js_sys::Math::random() * 1001.0) as u16
}

/// The storage of the object that runs here.
pub struct Runtime {
    raw: RawStorage,
    raw_sql: RawSql,
    sql: SqlStorage,
    counted: fn(usize),
    alarm_failed: AlarmFailed,
}

/// What is called with the reason for which an alarm could not be set.
type Tells = Box<dyn Fn(String)>;

/// Who is told that an alarm could not be set.
#[derive(Default)]
struct AlarmFailed {
    tells: RefCell<Option<Tells>>,
    /// The same as a function of JavaScript's: made once, and only where an alarm is set.
    function: OnceCell<JsValue>,
}

impl Runtime {
    /// Opens it. Nothing is written yet. `counted` is told how many rows each statement writes, as they are billed.
    pub fn open(state: &State, counted: fn(usize)) -> Self {
        let storage = state.storage();
        let raw: RawStorage = JsValue::from(storage.as_raw()).unchecked_into();
        Self { raw_sql: raw.sql(), raw, sql: storage.sql(), counted, alarm_failed: AlarmFailed::default() }
    }

    /// `tells` is called with the reason when an alarm could not be set, which is known only after its commit.
    pub(crate) fn on_alarm_failed(&self, tells: impl Fn(String) + 'static) {
        self.alarm_failed.tells.replace(Some(Box::new(tells)));
    }
}

impl AlarmFailed {
    fn function(&self) -> &JsValue {
        self.function.get_or_init(|| {
            let nobody: fn() -> Tells = || Box::new(|error| worker::console_error!("setAlarm: {error}"));
            let tells = self.tells.take().unwrap_or_else(nobody);
            Closure::<dyn Fn(String)>::new(tells).into_js_value()
        })
    }
}

/// The id of the object that runs here.
///
/// # Errors
/// Where the runtime gives none: never, for an object that has requests.
pub fn object_id(state: &State) -> Result<ObjectId, Bug> {
    ObjectId::from_hex(&state.id().to_string()).ok_or_else(|| Bug("not an object's id".into()))
}

impl Storage for Runtime {
    fn query<T: DeserializeOwned>(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<Vec<T>, Bug> {
        let bindings = bound(bindings).into_iter().map(JsValue::from).collect();
        let cursor = self.raw_sql.exec_with(sql, &bindings);
        let cursor = cursor.map_err(|error| Bug(format!("{sql}: {error:?}")))?;
        let text = cursor.to_array().and_then(|rows| rows_as_json(&rows));
        // The text of the error may quote a value.
        let rows = text.ok().and_then(|text| json_text::from_str(&text).ok());
        rows.ok_or_else(|| Bug(format!("{sql}: rows that cannot be read")))
    }

    /// With a tenth of the calls into JavaScript that `query` makes.
    fn text(&self, sql: &str) -> Result<Option<String>, Bug> {
        self.first(sql)?.map(|row| row.the_text(sql)).transpose()
    }

    fn row(&self, sql: &str) -> Result<Option<Row>, Bug> {
        let read =
            |row: TextRow| Ok(Row { text: row.the_text(sql)?, lines: row.lines(), facts: row.facts() });
        self.first(sql)?.map(read).transpose()
    }

    fn exec(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<(), Bug> {
        let cursor = self.sql.exec(sql, bound(bindings)).map_err(|error| Bug(format!("{sql}: {error}")))?;
        (self.counted)(cursor.rows_written());
        Ok(())
    }

    fn set_alarm(&self, at_ms: u64) -> Result<(), Bug> {
        // Nobody waits for it: an output gate holds all answers back until it is kept.
        set_alarm(&self.raw, at_ms.min(ALARM_MAX_MS) as f64, self.alarm_failed.function())
            .map_err(|error| Bug(format!("setAlarm: {error:?}")))?;
        // It is billed as one.
        (self.counted)(1);
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

impl Runtime {
    /// The first row that a statement without values gives.
    fn first(&self, sql: &str) -> Result<Option<TextRow>, Bug> {
        let rows = self.raw_sql.exec(sql).and_then(|cursor| cursor.to_array());
        let row = rows.map_err(|error| Bug(format!("{sql}: {error:?}")))?.get(0);
        Ok(if row.is_undefined() { None } else { Some(row.unchecked_into()) })
    }
}

impl TextRow {
    fn the_text(&self, sql: &str) -> Result<String, Bug> {
        self.text().ok_or_else(|| Bug(format!("{sql}: not a text")))
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
