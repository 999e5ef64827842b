//! The store of the Worker on a database of its own, beside the rows that the simulation keeps: every transaction that is
//! committed goes through [`paid_once::object::store::Store`] as well, and what that then reads must be the same.
//!
//! So all SQL of an object runs here, on SQLite as the runtime has it: strict tables, foreign keys, no integer above 2⁵³.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use once::context::Bug;
use once::id::ObjectId;
use once::rows::TimelineEntry;
use paid_once::object::storage::{SqlValue, Storage};
use paid_once::object::store::Store;
use payments::flows::engine::{Context, Rows};
use payments::payment::refunded_minor;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::store::EventKey;

/// Beyond this the runtime gives no integer: JavaScript would round it.
const INTEGER_MAX: i64 = 1 << 53;
/// As docs/protocol.md says.
const TIMELINE_FIRST: usize = 50;
const TIMELINE_NEWEST: usize = 150;

/// A statement of the store, changed so that it forgets one column: what a careless change of the store would do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Forgets {
    /// The statement as the store has it.
    statement: String,
    /// The statement that is run instead.
    instead: String,
    /// The parameter that becomes null.
    without: Option<usize>,
    /// For people.
    pub(crate) what: String,
}

impl Forgets {
    /// Every way in which a statement can forget a column: a value that is not bound, an assignment that is not made.
    pub(crate) fn all_of(statement: &str) -> Vec<Self> {
        let forgets = |instead: String, without, what: String| Self {
            statement: statement.to_owned(),
            instead,
            without,
            what,
        };
        // One of a migration binds nothing.
        if !statement.contains('?') {
            return Vec::new();
        }
        let words: Vec<&str> = statement.split_whitespace().collect();
        let table =
            words.iter().position(|word| matches!(*word, "INTO" | "UPDATE")).map_or("", |at| words[at + 1]);
        let mut all = Vec::new();
        if let Some((columns, values)) = statement.split_once('(').and_then(|(_, rest)| rest.split_once(')'))
            && statement.starts_with("INSERT")
        {
            // A literal among the values, such as the only id there is, is no parameter.
            let literals = values.split(')').next().unwrap_or_default().matches('1').count();
            for (at, column) in columns.split(',').map(str::trim).enumerate().skip(literals) {
                let what = format!("{table}.{column}, not bound");
                all.push(forgets(statement.to_owned(), Some(at - literals), what));
            }
        }
        for assignment in statement.split_once(" SET ").map_or("", |(_, rest)| rest).split(',') {
            let assignment = assignment.split(" WHERE ").next().unwrap_or_default().trim();
            let Some((column, value)) = assignment.split_once(" = ") else { continue };
            // A parameter must still be there to be bound.
            let kept =
                if value == "?" { format!("iif(? IS NULL, {column}, {column})") } else { column.to_owned() };
            let instead = statement.replacen(assignment, &format!("{column} = {kept}"), 1);
            all.push(forgets(instead, None, format!("{table}.{column}, not assigned")));
        }
        all
    }
}

/// SQLite on the host.
#[derive(Clone)]
pub(crate) struct Sqlite {
    pub(crate) connection: Rc<Connection>,
    alarm: Rc<Cell<Option<u64>>>,
    forgets: Option<Rc<Forgets>>,
    /// The statements that were run and give no rows.
    written: Option<Rc<RefCell<BTreeSet<String>>>>,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        let connection = Connection::open_in_memory().expect("a database in memory");
        connection.execute_batch("PRAGMA foreign_keys = ON").expect("foreign keys");
        connection.set_prepared_statement_cache_capacity(100);
        Self { connection: Rc::new(connection), alarm: Rc::default(), forgets: None, written: None }
    }

    /// The alarm that is set; none is afterwards.
    pub(crate) fn take_alarm(&self) -> Option<u64> {
        self.alarm.take()
    }
}

struct Bound<'a>(&'a SqlValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            SqlValue::Null => ToSqlOutput::Owned(Value::Null),
            SqlValue::Integer(integer) => ToSqlOutput::Owned(Value::Integer(*integer)),
            SqlValue::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            SqlValue::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

fn bug(sql: &str, error: impl std::fmt::Display) -> Bug {
    Bug(format!("{sql}: {error}"))
}

fn check(sql: &str, bindings: &[SqlValue]) -> Result<(), Bug> {
    let is_too_large =
        |value: &SqlValue| matches!(value, SqlValue::Integer(integer) if integer.abs() > INTEGER_MAX);
    if bindings.iter().any(is_too_large) {
        Err(bug(sql, "an integer that JavaScript would round"))
    } else {
        Ok(())
    }
}

impl Storage for Sqlite {
    fn query<T: DeserializeOwned>(&self, sql: &str, bindings: Vec<SqlValue>) -> Result<Vec<T>, Bug> {
        check(sql, &bindings)?;
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| bug(sql, error))?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows =
            statement.query(params_from_iter(bindings.iter().map(Bound))).map_err(|error| bug(sql, error))?;
        let mut read = Vec::new();
        while let Some(row) = rows.next().map_err(|error| bug(sql, error))? {
            let mut fields = serde_json::Map::new();
            for (at, column) in columns.iter().enumerate() {
                let value = match row.get_ref(at).map_err(|error| bug(sql, error))? {
                    ValueRef::Null => serde_json::Value::Null,
                    ValueRef::Integer(integer) if integer.abs() > INTEGER_MAX => {
                        return Err(bug(sql, "an integer that JavaScript would round"));
                    }
                    ValueRef::Integer(integer) => json!(integer),
                    ValueRef::Real(real) => json!(real),
                    ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
                    ValueRef::Blob(bytes) => json!(bytes),
                };
                fields.insert(column.clone(), value);
            }
            read.push(serde_json::from_value(fields.into()).map_err(|error| bug(sql, error))?);
        }
        Ok(read)
    }

    fn exec(&self, sql: &str, mut bindings: Vec<SqlValue>) -> Result<(), Bug> {
        check(sql, &bindings)?;
        if let Some(written) = &self.written {
            written.borrow_mut().insert(sql.to_owned());
        }
        let mut instead = sql;
        if let Some(forgets) = self.forgets.as_ref().filter(|forgets| forgets.statement == sql) {
            instead = &forgets.instead;
            if let Some(value) = forgets.without.and_then(|at| bindings.get_mut(at)) {
                *value = SqlValue::Null;
            }
        }
        let mut statement = self.connection.prepare_cached(instead).map_err(|error| bug(instead, error))?;
        statement
            .execute(params_from_iter(bindings.iter().map(Bound)))
            .map_err(|error| bug(instead, error))?;
        Ok(())
    }

    fn set_alarm(&self, at_ms: u64) -> Result<(), Bug> {
        self.alarm.set(Some(at_ms));
        Ok(())
    }

    fn atomically(&self, mut body: impl FnMut() -> Result<(), Bug>) -> Result<(), Bug> {
        let batch = |sql| self.connection.execute_batch(sql).map_err(|error| bug(sql, error));
        let alarm = self.alarm.get();
        batch("SAVEPOINT atomically")?;
        let done = body();
        if done.is_err() {
            self.alarm.set(alarm);
            batch("ROLLBACK TO atomically")?;
        }
        batch("RELEASE atomically")?;
        done
    }
}

/// What the disks of a history do.
#[derive(Clone, Default)]
pub(crate) struct Disks {
    /// Looks at a disk after each commit.
    pub(crate) watched: Option<Watch>,
    pub(crate) forgets: Option<Rc<Forgets>>,
    pub(crate) written: Option<Rc<RefCell<BTreeSet<String>>>>,
}

/// Sees an object's disk, and what is read from it.
pub(crate) type Watch = Rc<dyn Fn(&Sqlite, &Rows)>;

/// One object's rows on SQLite, through the store of the Worker.
pub(crate) struct Disk {
    object: ObjectId,
    pub(crate) storage: Sqlite,
    /// The store of the incarnation that wrote last, and which one that was.
    store: Store<Sqlite>,
    instance: usize,
    /// Jobs stay until they are confirmed. Else the simulation knows none, and they stay for good.
    has_outbox: bool,
    watched: Option<Watch>,
    timeline: Vec<TimelineEntry>,
    audit_records: u64,
}

/// What the simulation has committed, and holds to be true.
pub(crate) struct Committed<'a> {
    /// As the transaction left them, before a projection was staged.
    pub(crate) changed: &'a Rows,
    pub(crate) after: &'a Rows,
    pub(crate) set_alarm_ms: Option<u64>,
    pub(crate) events: &'a BTreeSet<EventKey>,
}

impl Disk {
    pub(crate) fn new(object: ObjectId, has_outbox: bool, disks: &Disks) -> Self {
        let (forgets, written) = (disks.forgets.clone(), disks.written.clone());
        let storage = Sqlite { forgets, written, ..Sqlite::new() };
        let store = Store::new(object, storage.clone());
        let watched = disks.watched.clone();
        Self {
            object,
            storage,
            store,
            watched,
            instance: 0,
            has_outbox,
            timeline: Vec::new(),
            audit_records: 0,
        }
    }

    fn of_instance(&mut self, instance: usize) {
        if self.instance != instance {
            self.store = Store::new(self.object, self.storage.clone());
            self.instance = instance;
        }
    }

    pub(crate) fn alarm_fired(&mut self, instance: usize) {
        self.of_instance(instance);
        self.store.alarm_fired();
    }

    /// Writes what was committed, and reads it back: with what is seen that must not be.
    pub(crate) fn committed(
        &mut self,
        it: &Committed<'_>,
        instance: usize,
        ctx: &Context,
    ) -> Result<(), String> {
        self.of_instance(instance);
        self.storage.take_alarm();
        let written: Result<(), Bug> = self.store.transaction(ctx, |rows| {
            let mut changed = it.changed.clone();
            if !self.has_outbox {
                (changed.resource.version, changed.resource.audit_through) =
                    (rows.resource.version, rows.resource.audit_through);
                changed.jobs.clone_from(&rows.jobs);
            }
            *rows = changed;
            Ok(())
        });
        written.map_err(|bug| bug.0)?;
        let read = |bug: Bug| bug.0;
        let rows = self.store.read().map_err(read)?.ok_or("nothing is there")?;
        if let Some(watch) = &self.watched {
            watch(&self.storage, &rows);
        }
        same("rows", self.without_jobs(it.after), self.without_jobs(&rows))?;
        if self.has_outbox {
            same("the alarm", it.set_alarm_ms, self.storage.take_alarm())?;
        }
        self.check_columns(&rows)?;
        self.audit_records += it.changed.appended.facts.audit.len() as u64;
        same("audit records", self.audit_records, self.store.audit_newest().map_err(read)?)?;
        let newest = self.store.audit_after(0, u32::MAX).map_err(read)?.pop();
        if let (Some(record), Some(newest)) = (it.changed.appended.facts.audit.last(), newest) {
            let facts = serde_json::from_str(&newest.data).map_err(|error| error.to_string())?;
            let kept = (newest.at_ms, newest.actor, newest.action, newest.subject, facts);
            let record = record.clone();
            same(
                "the newest audit record",
                (record.at_ms, record.actor.to_text(), record.action.to_owned(), record.subject, record.data),
                kept,
            )?;
        }
        let events = self.store.events().map_err(read)?;
        let known: BTreeSet<_> =
            events.iter().map(|event| (event.provider.clone(), event.event_id.clone())).collect();
        let taken_in = it.events.iter().map(|(provider, id)| ((*provider).to_owned(), id.clone())).collect();
        same("events", taken_in, known)?;
        for event in &it.changed.appended.facts.events {
            let kept = events.iter().find(|kept| {
                (kept.provider.as_str(), &kept.event_id) == (event.provider.as_str(), &event.event_id)
            });
            let kept = kept.map(|kept| (kept.provider.as_str(), kept.kind.as_str(), kept.received_at_ms));
            same(
                "an event",
                Some((event.provider.as_str(), event.kind.as_str(), event.received_at_ms)),
                kept,
            )?;
            same(
                "whether an event is known",
                Ok(true),
                self.store.knows_event(event.provider, &event.event_id).map_err(read),
            )?;
        }
        self.timeline.extend(it.changed.appended.timeline.iter().cloned());
        let excess = self.timeline.len().saturating_sub(TIMELINE_FIRST + TIMELINE_NEWEST);
        self.timeline.drain(
            TIMELINE_FIRST.min(self.timeline.len())..(TIMELINE_FIRST + excess).min(self.timeline.len()),
        );
        same("the timeline", &self.timeline, &self.store.timeline().map_err(read)?)
    }

    fn without_jobs(&self, rows: &Rows) -> Rows {
        let mut rows = rows.clone();
        if !self.has_outbox {
            (rows.jobs, rows.resource.version, rows.resource.audit_through) = (Vec::new(), 0, 0);
        }
        rows
    }

    /// The columns that only people read say what the rows do.
    fn check_columns(&self, rows: &Rows) -> Result<(), String> {
        let columns = |sql: &str| self.storage.query::<serde_json::Value>(sql, vec![]).map_err(|bug| bug.0);
        let payments = columns(
            "SELECT payment_id, amount_minor, captured_minor, refunded_minor, currency, status, provider,
                provider_payment, order_id, created_at_ms FROM payments",
        )?;
        let expected = rows.resource.payment.iter().map(|payment| {
            json!({
                "payment_id": payment.id.to_string(), "amount_minor": payment.amount.get(),
                "captured_minor": payment.captured_minor(), "refunded_minor": refunded_minor(&rows.resource.refunds),
                "currency": payment.currency.as_str(), "status": payment.status(),
                "provider": payment.provider.as_str(), "provider_payment": payment.provider_payment,
                "order_id": payment.order_id, "created_at_ms": payment.created_at_ms,
            })
        });
        same("columns of payments", expected.collect::<Vec<_>>(), payments)?;
        let refunds = columns(
            "SELECT refund_id, key_id, amount_minor, status, created_at_ms FROM refunds ORDER BY rowid",
        )?;
        let expected = rows.resource.refunds.iter().map(|refund| {
            json!({
                "refund_id": refund.id.0, "key_id": refund.key_id, "amount_minor": refund.amount.get(),
                "status": refund.status(), "created_at_ms": refund.created_at_ms,
            })
        });
        same("columns of refunds", expected.collect::<Vec<_>>(), refunds)?;
        let tries = columns(
            "SELECT attempt, provider, provider_payment, derived_key, status FROM tries ORDER BY attempt",
        )?;
        let expected = rows.resource.tries.iter().map(|row| {
            json!({
                "attempt": row.attempt, "provider": row.provider.as_str(),
                "provider_payment": row.provider_payment, "derived_key": row.derived_key, "status": row.status,
            })
        });
        same("columns of tries", expected.collect::<Vec<_>>(), tries)?;
        let links = columns("SELECT revision, content, ended_through FROM order_links")?;
        let expected = rows.resource.links.iter().map(|links| {
            json!({
                "revision": links.revision, "content": links.content, "ended_through": links.ended_through,
            })
        });
        same("columns of order_links", expected.collect::<Vec<_>>(), links)?;
        let keys = columns("SELECT key_id, status, recovery_point FROM idempotency_keys ORDER BY key_id")?;
        let expected = rows.keys.iter().map(|key| {
            json!({
                "key_id": key.key_id, "status": key.lifecycle.name(), "recovery_point": key.recovery_point().as_str(),
            })
        });
        same("columns of keys", expected.collect::<Vec<_>>(), keys)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, committed: T, read: T) -> Result<(), String> {
    if committed == read { Ok(()) } else { Err(format!("{what}: committed {committed:?}, read {read:?}")) }
}
