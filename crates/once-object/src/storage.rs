//! What an object needs of the runtime to keep its rows: a database, transactions, and one alarm.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use once::context::Bug;

/// A value in SQLite.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// `NULL`.
    Null,
    /// `INTEGER`.
    Integer(i64),
    /// `TEXT`.
    Text(String),
    /// `BLOB`.
    Blob(Vec<u8>),
}

/// A text, and what stands beside it in its row.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// The text.
    pub text: String,
    /// Lines of the timeline, as JSON.
    pub lines: Option<String>,
    /// Facts, as JSON.
    pub facts: Option<String>,
}

/// An object's storage: the Durable Object's own in the Worker, a database of the tests' on the host.
pub trait Storage {
    /// The rows that a statement gives, each read by the names of its columns.
    fn query<T: DeserializeOwned>(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<Vec<T>, Bug>;

    /// The column `text` of the first row that a statement gives: what is read for each request. `None` without a row.
    fn text(&self, sql: &str) -> Result<Option<String>, Bug> {
        #[derive(Deserialize)]
        struct Row {
            text: String,
        }
        Ok(self.query::<Row>(sql, vec![])?.into_iter().next().map(|row| row.text))
    }

    /// The first row that a statement gives of the column `text` and of what stands beside it: what is read for each commit. `None` without a row.
    fn row(&self, sql: &str) -> Result<Option<Row>, Bug> {
        Ok(self.query::<Row>(sql, vec![])?.into_iter().next())
    }

    /// Runs a statement that gives none.
    fn exec(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<(), Bug>;

    /// Sets the alarm, in the place of the one before: for a time in ms since the epoch.
    fn set_alarm(&self, at_ms: u64) -> Result<(), Bug>;

    /// Runs `body` as one unit: where it fails nothing of it is kept, its alarm neither.
    fn atomically(&self, body: impl FnMut() -> Result<(), Bug>) -> Result<(), Bug>;
}
