//! All SQL of the simulator: [`Store`] over the Durable Object's SQLite. The caller holds the transaction.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use worker::{SqlStorage, SqlStorageValue, State};

use crate::fault::PendingFault;
use crate::store::{Kind, LoggedRequest, Query, REQUESTS_KEPT, Row, Store, StoreError, Stored, StoredKey};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS objects (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL UNIQUE, created_ms INTEGER NOT NULL,
  customer TEXT, parent TEXT, label TEXT, due_ms INTEGER, idempotency_key TEXT, request_id TEXT NOT NULL, body TEXT NOT NULL,
  account TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS objects_by_kind ON objects (kind, seq);
CREATE INDEX IF NOT EXISTS objects_by_parent ON objects (parent, kind, seq) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS objects_by_due ON objects (due_ms) WHERE due_ms IS NOT NULL;
CREATE TABLE IF NOT EXISTS idempotency_keys (
  provider TEXT NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
  fingerprint TEXT NOT NULL, created_ms INTEGER NOT NULL, request_id TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (provider, account, key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idempotency_keys_by_age ON idempotency_keys (provider, created_ms);
CREATE TABLE IF NOT EXISTS faults (seq INTEGER PRIMARY KEY AUTOINCREMENT, remaining INTEGER NOT NULL, fault TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE, at_ms INTEGER NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
  idempotency_key TEXT, status INTEGER, replayed INTEGER NOT NULL, fault TEXT, body_sha256 TEXT NOT NULL,
  traceparent TEXT);
CREATE INDEX IF NOT EXISTS requests_by_key ON requests (idempotency_key, seq);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (id INTEGER PRIMARY KEY CHECK (id = 1), offset_ms INTEGER NOT NULL);
";

/// What a database of before there were accounts lacks: all that it has of Stripe is the default account's.
const ACCOUNTS: &[&str] = &[
    "ALTER TABLE objects ADD COLUMN account TEXT NOT NULL DEFAULT ''",
    "UPDATE objects SET account = 'acct_simulator'
     WHERE kind IN ('payment_intent', 'charge', 'refund', 'customer', 'payment_method', 'event')",
    "INSERT INTO idempotency_keys SELECT 'stripe', 'acct_simulator', * FROM keys",
    "INSERT INTO idempotency_keys SELECT 'adyen', '', * FROM adyen_keys",
    "INSERT INTO idempotency_keys SELECT 'resend', '', * FROM resend_keys",
    "DROP TABLE keys",
    "DROP TABLE adyen_keys",
    "DROP TABLE resend_keys",
];

const COLUMNS: &str =
    "seq, kind, account, id, created_ms, customer, parent, label, due_ms, idempotency_key, request_id, body";

/// The store of the Worker.
pub struct Sql(SqlStorage);

impl Sql {
    /// Over an object's database.
    pub fn new(state: &State) -> Self {
        Sql(state.storage().sql())
    }

    /// Makes the tables.
    pub fn migrate(&self) -> Stored<()> {
        self.run(SCHEMA, vec![])?;
        #[derive(Deserialize)]
        struct Table {}
        let old = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'keys'";
        if self.first::<Table>(old, vec![])?.is_some() {
            ACCOUNTS.iter().try_for_each(|statement| self.run(statement, vec![]))?;
        }
        let old = "SELECT name FROM sqlite_master WHERE name = 'requests' AND sql NOT LIKE '%traceparent%'";
        if self.first::<Table>(old, vec![])?.is_some() {
            self.run("ALTER TABLE requests ADD COLUMN traceparent TEXT", vec![])?;
        }
        Ok(())
    }

    fn run(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Stored<()> {
        self.0.exec(statement, bindings).map(|_| ()).map_err(broken)
    }

    fn rows<T: DeserializeOwned>(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Stored<Vec<T>> {
        self.0.exec(statement, bindings).and_then(|cursor| cursor.to_array()).map_err(broken)
    }

    fn first<T: DeserializeOwned>(
        &self,
        statement: &str,
        bindings: Vec<SqlStorageValue>,
    ) -> Stored<Option<T>> {
        Ok(self.rows(statement, bindings)?.into_iter().next())
    }
}

impl Store for Sql {
    fn insert(&mut self, row: Row) -> Stored<()> {
        self.run(
            "INSERT INTO objects (kind, account, id, created_ms, customer, parent, label, due_ms, idempotency_key, request_id, body)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            vec![
                row.kind.into(),
                row.account.into(),
                row.id.into(),
                row.created_ms.into(),
                row.customer.into(),
                row.parent.into(),
                row.label.into(),
                row.due_ms.into(),
                row.idempotency_key.into(),
                row.request_id.into(),
                row.body.into(),
            ],
        )
    }

    fn replace(&mut self, kind: Kind, id: &str, body: String, due_ms: Option<i64>) -> Stored<()> {
        self.run(
            "UPDATE objects SET body = ?, due_ms = ? WHERE kind = ? AND id = ?",
            vec![body.into(), due_ms.into(), kind.0.into(), id.into()],
        )
    }

    fn find(&self, kind: Kind, id: &str) -> Stored<Option<Row>> {
        self.first(
            &format!("SELECT {COLUMNS} FROM objects WHERE id = ? AND kind = ?"),
            vec![id.into(), kind.0.into()],
        )
    }

    fn list(&self, query: &Query) -> Stored<Vec<Row>> {
        let mut conditions = vec!["kind = ?".to_owned()];
        let mut bindings: Vec<SqlStorageValue> = vec![query.kind.0.into()];
        let mut and = |condition: &str, value: Option<SqlStorageValue>| {
            if let Some(value) = value {
                conditions.push(condition.to_owned());
                bindings.push(value);
            }
        };
        and("account = ?", query.account.as_deref().map(Into::into));
        and("customer = ?", query.customer.as_deref().map(Into::into));
        and("parent = ?", query.parent.as_deref().map(Into::into));
        and("created_ms >= ?", query.created_from_s.map(|from| (from * 1000).into()));
        and("created_ms < ?", query.created_until_s.map(|until| ((until + 1) * 1000).into()));
        and("seq < ?", query.before_seq.map(Into::into));
        and("seq > ?", query.after_seq.map(Into::into));
        if !query.labels.is_empty() {
            conditions.push(format!("label IN ({})", vec!["?"; query.labels.len()].join(", ")));
            bindings.extend(query.labels.iter().map(|label| SqlStorageValue::from(label.as_str())));
        }
        bindings.push(query.limit.into());
        let order = if query.oldest_first { "ASC" } else { "DESC" };
        let conditions = conditions.join(" AND ");
        self.rows(
            &format!("SELECT {COLUMNS} FROM objects WHERE {conditions} ORDER BY seq {order} LIMIT ?"),
            bindings,
        )
    }

    fn due(&self, now_ms: i64) -> Stored<Vec<Row>> {
        self.rows(
            &format!("SELECT {COLUMNS} FROM objects WHERE due_ms <= ? ORDER BY due_ms, seq"),
            vec![now_ms.into()],
        )
    }

    fn next_due_ms(&self) -> Stored<Option<i64>> {
        #[derive(Deserialize)]
        struct DueRow {
            due_ms: i64,
        }
        let row: Option<DueRow> = self
            .first("SELECT due_ms FROM objects WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1", vec![])?;
        Ok(row.map(|row| row.due_ms))
    }

    fn stored_key(&self, provider: &str, account: &str, key: &str) -> Stored<Option<StoredKey>> {
        self.first(
            "SELECT * FROM idempotency_keys WHERE provider = ? AND account = ? AND key = ?",
            vec![provider.into(), account.into(), key.into()],
        )
    }

    fn store_key(&mut self, stored: StoredKey) -> Stored<()> {
        self.run(
            "INSERT INTO idempotency_keys (provider, account, key, method, path, fingerprint, created_ms, request_id, status, body)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            vec![
                stored.provider.into(),
                stored.account.into(),
                stored.key.into(),
                stored.method.into(),
                stored.path.into(),
                stored.fingerprint.into(),
                stored.created_ms.into(),
                stored.request_id.into(),
                i32::from(stored.status).into(),
                stored.body.into(),
            ],
        )
    }

    fn prune_keys(&mut self, provider: &str, before_ms: i64) -> Stored<()> {
        self.run(
            "DELETE FROM idempotency_keys WHERE provider = ? AND created_ms < ?",
            vec![provider.into(), before_ms.into()],
        )
    }

    fn push_fault(&mut self, fault: PendingFault) -> Stored<()> {
        let body = serde_json::to_string(&fault).map_err(|error| StoreError(error.to_string()))?;
        self.run(
            "INSERT INTO faults (remaining, fault) VALUES (?, ?)",
            vec![i64::from(fault.remaining).into(), body.into()],
        )
    }

    fn faults(&self) -> Stored<Vec<PendingFault>> {
        #[derive(Deserialize)]
        struct FaultRow {
            seq: i64,
            remaining: u32,
            fault: String,
        }
        let rows: Vec<FaultRow> =
            self.rows("SELECT seq, remaining, fault FROM faults ORDER BY seq", vec![])?;
        rows.into_iter()
            .map(|row| {
                let mut fault: PendingFault =
                    serde_json::from_str(&row.fault).map_err(|error| StoreError(error.to_string()))?;
                fault.seq = row.seq;
                fault.remaining = row.remaining;
                Ok(fault)
            })
            .collect()
    }

    fn set_fault_remaining(&mut self, seq: i64, remaining: u32) -> Stored<()> {
        self.run(
            "UPDATE faults SET remaining = ? WHERE seq = ?",
            vec![i64::from(remaining).into(), seq.into()],
        )?;
        self.run("DELETE FROM faults WHERE remaining = 0", vec![])
    }

    fn clear_faults(&mut self) -> Stored<()> {
        self.run("DELETE FROM faults", vec![])
    }

    fn log_request(&mut self, request: LoggedRequest) -> Stored<()> {
        self.run(
            "INSERT INTO requests (request_id, at_ms, method, path, idempotency_key, status, replayed, fault, body_sha256, traceparent)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            vec![
                request.request_id.into(),
                request.at_ms.into(),
                request.method.into(),
                request.path.into(),
                request.idempotency_key.into(),
                request.status.map(i32::from).into(),
                i32::from(request.replayed).into(),
                request.fault.into(),
                request.body_sha256.into(),
                request.traceparent.into(),
            ],
        )?;
        self.run(
            "DELETE FROM requests WHERE seq <= (SELECT MAX(seq) FROM requests) - ?",
            vec![REQUESTS_KEPT.into()],
        )
    }

    fn finish_request(&mut self, request_id: &str, status: u16, replayed: bool) -> Stored<()> {
        self.run(
            "UPDATE requests SET status = ?, replayed = ? WHERE request_id = ?",
            vec![i32::from(status).into(), i32::from(replayed).into(), request_id.into()],
        )
    }

    fn requests(&self, key: Option<&str>, limit: i64) -> Stored<Vec<LoggedRequest>> {
        #[derive(Deserialize)]
        struct RequestRow {
            request_id: String,
            at_ms: i64,
            method: String,
            path: String,
            idempotency_key: Option<String>,
            status: Option<u16>,
            replayed: i64,
            fault: Option<String>,
            body_sha256: String,
            traceparent: Option<String>,
        }
        let filter = if key.is_some() { "WHERE idempotency_key = ?" } else { "" };
        let mut bindings: Vec<SqlStorageValue> = key.map(Into::into).into_iter().collect();
        bindings.push(limit.into());
        let mut rows: Vec<RequestRow> = self.rows(
            &format!(
                "SELECT request_id, at_ms, method, path, idempotency_key, status, replayed, fault, body_sha256, traceparent
                 FROM requests {filter} ORDER BY seq DESC LIMIT ?"
            ),
            bindings,
        )?;
        rows.reverse();
        let logged = |row: RequestRow| LoggedRequest {
            request_id: row.request_id,
            at_ms: row.at_ms,
            method: row.method,
            path: row.path,
            idempotency_key: row.idempotency_key,
            status: row.status,
            replayed: row.replayed != 0,
            fault: row.fault,
            body_sha256: row.body_sha256,
            traceparent: row.traceparent,
        };
        Ok(rows.into_iter().map(logged).collect())
    }

    fn clock_offset_ms(&self) -> Stored<i64> {
        #[derive(Deserialize)]
        struct ClockRow {
            offset_ms: i64,
        }
        let row: Option<ClockRow> = self.first("SELECT offset_ms FROM clock", vec![])?;
        Ok(row.map_or(0, |row| row.offset_ms))
    }

    fn set_clock_offset_ms(&mut self, offset_ms: i64) -> Stored<()> {
        self.run(
            "INSERT INTO clock (id, offset_ms) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET offset_ms = excluded.offset_ms",
            vec![offset_ms.into()],
        )
    }

    fn setting(&self, name: &str) -> Stored<Option<String>> {
        #[derive(Deserialize)]
        struct SettingRow {
            value: String,
        }
        let row: Option<SettingRow> =
            self.first("SELECT value FROM settings WHERE name = ?", vec![name.into()])?;
        Ok(row.map(|row| row.value))
    }

    fn set_setting(&mut self, name: &str, value: String) -> Stored<()> {
        self.run(
            "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            vec![name.into(), value.into()],
        )
    }

    fn clear(&mut self) -> Stored<()> {
        for table in ["objects", "idempotency_keys", "faults", "requests", "settings", "clock"] {
            self.run(&format!("DELETE FROM {table}"), vec![])?;
        }
        Ok(())
    }
}

fn broken(error: worker::Error) -> StoreError {
    StoreError(error.to_string())
}
