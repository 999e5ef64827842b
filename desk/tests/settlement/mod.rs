//! The read model on the host's SQLite, with a clock of the test's, for the tests of the settlement.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};

use paid_once_desk::tasks::settlement_closing::{self, Closing, Probed};
use paid_once_desk::tasks::settlement_file::{Day, Line};
use runtime::db::{Statement, Value};

pub(crate) const DAY_MS: u64 = 86_400_000;
/// A midnight.
pub(crate) const OPENS_MS: u64 = 20_800 * DAY_MS;

/// How money moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A capture that stands in the payment's own row.
    FirstCapture,
    /// One that has a record of its own.
    Capture,
    Refund,
}

/// A movement, and the line that it becomes.
#[derive(Clone, Debug)]
pub(crate) struct Movement {
    pub(crate) kind: Kind,
    pub(crate) subject: String,
    pub(crate) line_id: String,
    pub(crate) amount_minor: u64,
    pub(crate) at_ms: u64,
}

impl Movement {
    pub(crate) fn new(number: usize, kind: Kind, at_ms: u64) -> Self {
        // Not in the order of time, as real ids are not.
        let scattered = (number * 7_919) % 1_000_003;
        let (prefix, of) = if kind == Kind::Refund { ("re", "refund") } else { ("pay", "capture") };
        let subject = format!("{prefix}_{scattered:07}_{number}");
        let line_id = format!("{subject}:{of}");
        let amount_minor = 100 + u64::try_from(number).unwrap() % 900;
        Self { kind, subject, line_id, amount_minor, at_ms }
    }

    /// The file of the day on which it moved.
    pub(crate) fn own_file(&self) -> String {
        let date = payments::utc(self.at_ms).unwrap().format("%Y-%m-%d");
        format!("settlement/{date}.csv")
    }
}

pub(crate) struct Model {
    pub(crate) sqlite: Connection,
    now_s: Arc<AtomicI64>,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self::on(Connection::open_in_memory().unwrap())
    }

    pub(crate) fn on(sqlite: Connection) -> Self {
        // D1's own.
        sqlite.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_COMPOUND_SELECT, 5).unwrap();
        let now_s = Arc::new(AtomicI64::new(0));
        let clock = now_s.clone();
        // The triggers' clock.
        sqlite
            .create_scalar_function("unixepoch", 0, FunctionFlags::SQLITE_UTF8, move |_| {
                Ok(clock.load(Ordering::Relaxed))
            })
            .unwrap();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files {
            sqlite.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
        }
        let model = Self { sqlite, now_s };
        model.is_now(OPENS_MS);
        model
    }

    pub(crate) fn is_now(&self, now_ms: u64) {
        self.now_s.store(i64::try_from(now_ms / 1000).unwrap(), Ordering::Relaxed);
    }

    /// The read model learns of a movement at this time.
    pub(crate) fn learn(&self, now_ms: u64, movement: &Movement) {
        self.is_now(now_ms);
        let Movement { kind, subject, amount_minor, at_ms, .. } = movement;
        let object = format!("object of {subject}");
        let amount = i64::try_from(*amount_minor).unwrap();
        let at = i64::try_from(*at_ms).unwrap();
        let data = format!(
            r#"{{"provider":"stripe","provider_payment":"pi_{subject}","amount_captured":{amount},"currency":"usd"}}"#
        );
        let record = "INSERT INTO audit_records (object, audit_id, at_ms, actor, action, subject, data) VALUES (?1, 3, ?2, 'a', ?3, ?4, ?5)";
        let mut record = self.sqlite.prepare_cached(record).unwrap();
        match kind {
            Kind::FirstCapture => {
                let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor,
                        currency, provider, attempt, shown, created_at_ms, updated_at_ms, captured_data, captured_at_ms)
                     VALUES (?1, ?2, 1, 'a', 'succeeded', ?3, ?3, 0, 'usd', 'stripe', 1, '{}', ?4, ?4, ?5, ?4)";
                self.sqlite
                    .prepare_cached(sql)
                    .unwrap()
                    .execute((subject, object, amount, at, data))
                    .unwrap();
            }
            Kind::Capture => drop(record.execute((object, at, "payment.captured", subject, data)).unwrap()),
            Kind::Refund => {
                let sql = "INSERT INTO refunds (refund_id, payment_id, version, status, amount_minor, currency, reason, provider,
                        provider_refund, created_at_ms, updated_at_ms)
                     VALUES (?1, 'pay_x', 1, 'succeeded', ?2, 'usd', 'requested_by_customer', 'stripe', 'r', ?3, ?3)";
                self.sqlite.prepare_cached(sql).unwrap().execute((subject, amount, at)).unwrap();
                record.execute((object, at, "refund.succeeded", subject, "{}")).unwrap();
            }
        }
    }

    /// All of them, or none.
    pub(crate) fn transaction(&self, statements: &[Statement]) {
        self.execute("BEGIN");
        for Statement { sql, values } in statements {
            self.sqlite.prepare_cached(sql).unwrap().execute(params_from_iter(bound(values))).unwrap();
        }
        self.execute("COMMIT");
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.sqlite.execute_batch(sql).unwrap();
    }

    pub(crate) fn text(&self, sql: &str) -> Option<String> {
        self.sqlite.query_row(sql, (), |row| row.get(0)).unwrap()
    }

    pub(crate) fn count(&self, sql: &str) -> u64 {
        let count: i64 = self.sqlite.query_row(sql, (), |row| row.get(0)).unwrap();
        u64::try_from(count).unwrap()
    }

    pub(crate) fn probed(&self, Statement { sql, values }: Statement) -> Probed {
        let mut statement = self.sqlite.prepare_cached(&sql).unwrap();
        let until_ms: Option<i64> =
            statement.query_row(params_from_iter(bound(&values)), |row| row.get(0)).unwrap();
        Probed { until_ms: until_ms.map(|ms| u64::try_from(ms).unwrap()) }
    }

    pub(crate) fn closing(&self, name: &str) -> Option<Closing> {
        let Statement { sql, values } = settlement_closing::find(name);
        let mut statement = self.sqlite.prepare_cached(&sql).unwrap();
        let number =
            |row: &rusqlite::Row<'_>, at: usize| row.get::<_, i64>(at).map(|it| u64::try_from(it).unwrap());
        let mut rows = statement
            .query_map(params_from_iter(bound(&values)), |row| {
                Ok(Closing {
                    name: row.get(0)?,
                    day: row.get(1)?,
                    ends_ms: number(row, 2)?,
                    through_ms: number(row, 3)?,
                    version: number(row, 4)?,
                })
            })
            .unwrap();
        rows.next().map(Result::unwrap)
    }

    pub(crate) fn is_closed(&self, name: &str) -> bool {
        let sql = "SELECT count(*) FROM settlement_files WHERE name = ?1";
        self.sqlite.query_row(sql, [name], |row| row.get::<_, i64>(0)).unwrap() > 0
    }

    /// A file's lines, sorted.
    pub(crate) fn lines(&self, name: &str) -> Vec<Line> {
        let sql = "SELECT line_id, kind, provider, provider_reference, amount_minor, currency, at_ms FROM settlement_lines
             WHERE file = ?1 ORDER BY line_id";
        let mut statement = self.sqlite.prepare_cached(sql).unwrap();
        let number =
            |row: &rusqlite::Row<'_>, at: usize| row.get::<_, i64>(at).map(|it| u64::try_from(it).unwrap());
        let lines = statement.query_map([name], |row| {
            Ok(Line {
                line_id: row.get(0)?,
                kind: row.get(1)?,
                provider: row.get(2)?,
                provider_reference: row.get(3)?,
                amount_minor: number(row, 4)?,
                currency: row.get(5)?,
                at_ms: number(row, 6)?,
            })
        });
        lines.unwrap().map(Result::unwrap).collect()
    }

    /// As the release before closed a day: all of 35 days in one transaction. Of the kinds that are made here.
    pub(crate) fn closes_as_before(&self, day: &Day, now_ms: u64) {
        let name = day.file_name();
        let bounds = (
            name.as_str(),
            i64::try_from(day.ends_at_ms - 35 * DAY_MS).unwrap(),
            i64::try_from(day.ends_at_ms).unwrap(),
        );
        self.execute("BEGIN");
        for (id, from) in [
            (
                "payment_id || ':capture', ?1, 'capture', 'stripe', NULL, captured_data->>'amount_captured', 'usd', captured_at_ms",
                "payments WHERE captured_at_ms >= ?2 AND captured_at_ms < ?3",
            ),
            (
                "a.subject || ':refund', ?1, 'refund', 'stripe', NULL, r.amount_minor, 'usd', a.at_ms",
                "audit_records a JOIN refunds r ON r.refund_id = a.subject
                 WHERE a.action = 'refund.succeeded' AND a.at_ms >= ?2 AND a.at_ms < ?3",
            ),
        ] {
            let sql = format!("INSERT INTO settlement_lines (line_id, file, kind, provider, provider_reference, amount_minor, currency, at_ms)
                 SELECT {id} FROM {from} ON CONFLICT (line_id) DO NOTHING");
            self.sqlite.execute(&sql, bounds).unwrap();
        }
        let sql = "INSERT INTO settlement_files (name, day, closed_at_ms) VALUES (?1, ?2, ?3)";
        self.sqlite.execute(sql, (&name, &day.date, i64::try_from(now_ms).unwrap())).unwrap();
        self.execute("COMMIT");
    }
}

fn bound(values: &[Value]) -> Vec<Sql> {
    let bound = |value: &Value| match value {
        Value::Null => Sql::Null,
        Value::Number(number) => Sql::Integer(i64::try_from(*number).unwrap()),
        Value::Text(text) => Sql::Text(text.clone()),
    };
    values.iter().map(bound).collect()
}
