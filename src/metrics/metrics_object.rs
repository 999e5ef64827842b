//! The Durable Object that adds counters up: one a shard, off the path of every request. It stores numbers by name only, so that
//! a new version can count what an old one does not know.

use serde::Deserialize;
use worker::{
    DurableObject, Env, Method, Request, Response, Result, SqlStorage, SqlStorageValue, State, durable_object,
};

use runtime::metrics::counters::Row;
use runtime::metrics::reading::{Fold, READ_TO, SAMPLE_INTERVAL, folded};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS counts (
        family TEXT NOT NULL,
        labels TEXT NOT NULL,
        part TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (family, labels, part)
    ) STRICT, WITHOUT ROWID";

/// One statement, so a message is added completely or not at all.
const ADD: &str = "INSERT INTO counts (family, labels, part, number)
     SELECT value ->> 0, value -> 1, value ->> 2, value ->> 3 FROM json_each(?) WHERE true
     ON CONFLICT (family, labels, part) DO UPDATE SET number = counts.number + excluded.number";

/// How far Analytics Engine was added.
const FOLDED: &str = "SELECT * FROM counts WHERE family IN (?, ?)";

#[derive(Deserialize)]
struct Stored {
    family: String,
    labels: String,
    #[serde(rename = "part")]
    sample: String,
    number: i64,
}

/// Adds up the counters of all isolates.
#[durable_object(fetch)]
pub struct MetricsObject {
    sql: SqlStorage,
}

impl DurableObject for MetricsObject {
    fn new(state: State, _env: Env) -> Self {
        Self { sql: state.storage().sql() }
    }

    /// `POST` adds rows, `PUT` adds what Analytics Engine has of a window if nobody has yet, `GET` gives all that were added.
    async fn fetch(&self, mut request: Request) -> Result<Response> {
        match request.method() {
            Method::Post => {
                let rows: Vec<Row> = json_text::from_str(&request.text().await?)?;
                self.sql.exec(TABLE, None)?;
                self.add(&rows)?;
                Response::ok("")
            }
            Method::Put => {
                let fold: Fold = json_text::from_str(&request.text().await?)?;
                self.sql.exec(TABLE, None)?;
                // Nothing is awaited between the look and the write, so no other reader comes between them.
                let stored = self.rows(FOLDED, vec![READ_TO.into(), SAMPLE_INTERVAL.into()])?;
                if let Some(rows) = fold.rows_to_add(folded(&stored)) {
                    self.add(&rows)?;
                }
                Response::ok("")
            }
            _ => {
                self.sql.exec(TABLE, None)?;
                Response::from_json(&self.rows("SELECT * FROM counts", Vec::new())?)
            }
        }
    }
}

impl MetricsObject {
    fn add(&self, rows: &[Row]) -> Result<()> {
        self.sql.exec(ADD, vec![serde_json::to_string(rows)?.into()]).map(drop)
    }

    fn rows(&self, sql: &str, values: Vec<SqlStorageValue>) -> Result<Vec<Row>> {
        let stored: Vec<Stored> = self.sql.exec(sql, values)?.to_array()?;
        let row =
            |row: Stored| Ok(Row(row.family, json_text::from_str(&row.labels)?, row.sample, row.number));
        stored.into_iter().map(row).collect()
    }
}
