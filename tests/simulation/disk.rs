//! The store of the Worker on a database of its own, beside the rows that the simulation keeps: every transaction that is
//! committed goes through [`once_object::store::Store`] as well, and what that then reads must be the same.
//!
//! So all SQL of an object runs here, on SQLite as the runtime has it: strict tables, foreign keys, no integer above 2⁵³.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use once::context::Bug;
use once::id::ObjectId;
use once::object_state::TimelineEntry;
use once_object::storage::{SqlValue, Storage};
use once_object::store::{Hooks, Store};
use paid_once::object::{log, old_tables};
use payments::engine::{Context, ObjectState, Payments};
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

/// A field of what is written, which the store forgets: what a careless change of what is stored would do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field {
    /// The column of the row.
    column: &'static str,
    /// The names on the way to it.
    path: Vec<String>,
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.column, self.path.join("."))
    }
}

/// The columns of what a commit inserts, in their order.
const COLUMNS: [&str; 3] = ["state", "lines", "facts"];
/// What these hold is kept as it is, whatever its members are called.
const FREE: [&str; 3] = ["data", "payload", "metadata"];

impl Field {
    /// Every field of a value, but those that say nothing: what is read where they are missing is the same.
    fn all_of(
        column: &'static str,
        value: &serde_json::Value,
        path: &mut Vec<String>,
        all: &mut BTreeSet<Self>,
    ) {
        match value {
            serde_json::Value::Object(members) => {
                for (name, value) in members.iter().filter(|(_, value)| !says_nothing(value)) {
                    path.push(name.clone());
                    all.insert(Self { column, path: path.clone() });
                    if !FREE.contains(&name.as_str()) {
                        Self::all_of(column, value, path, all);
                    }
                    path.pop();
                }
            }
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| Self::all_of(column, item, path, all));
            }
            _ => {}
        }
    }

    /// The text of the column without the field, wherever it stands.
    fn forgotten(&self, text: &str) -> String {
        fn drop_at(value: &mut serde_json::Value, path: &[String]) {
            match value {
                serde_json::Value::Object(members) => match path {
                    [name] => drop(members.shift_remove(name)),
                    [name, rest @ ..] => {
                        if let Some(value) = members.get_mut(name) {
                            drop_at(value, rest);
                        }
                    }
                    [] => {}
                },
                serde_json::Value::Array(items) => items.iter_mut().for_each(|item| drop_at(item, path)),
                _ => {}
            }
        }
        let mut value = serde_json::from_str(text).expect("JSON is stored");
        drop_at(&mut value, &self.path);
        value.to_string()
    }
}

fn says_nothing(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => true,
        serde_json::Value::Number(number) => number.as_u64() == Some(0),
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(members) => members.is_empty(),
        serde_json::Value::Bool(true) | serde_json::Value::String(_) => false,
    }
}

/// SQLite on the host.
#[derive(Clone)]
pub(crate) struct Sqlite {
    pub(crate) connection: Rc<Connection>,
    alarm: Rc<Cell<Option<u64>>>,
    forgets: Option<Rc<Field>>,
    /// The fields that were written.
    written: Option<Rc<RefCell<BTreeSet<Field>>>>,
}

impl Sqlite {
    /// What a commit is about to insert: notes its fields, and forgets the one that is to be forgotten.
    fn pass(&self, bindings: &mut [SqlValue]) {
        for (column, value) in COLUMNS.into_iter().zip(bindings) {
            let SqlValue::Text(text) = value else { continue };
            if let Some(written) = &self.written {
                let value = serde_json::from_str(text).expect("JSON is stored");
                Field::all_of(column, &value, &mut Vec::new(), &mut written.borrow_mut());
            }
            if let Some(field) = self.forgets.as_ref().filter(|field| field.column == column) {
                *text = field.forgotten(text);
            }
        }
    }

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
        let mut state =
            statement.query(params_from_iter(bindings.iter().map(Bound))).map_err(|error| bug(sql, error))?;
        let mut read = Vec::new();
        while let Some(row) = state.next().map_err(|error| bug(sql, error))? {
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
        if sql.starts_with("INSERT OR REPLACE INTO timeline") || sql.starts_with("UPDATE timeline SET state")
        {
            self.pass(&mut bindings);
        }
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| bug(sql, error))?;
        statement.execute(params_from_iter(bindings.iter().map(Bound))).map_err(|error| bug(sql, error))?;
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
    pub(crate) forgets: Option<Rc<Field>>,
    pub(crate) written: Option<Rc<RefCell<BTreeSet<Field>>>>,
}

/// Sees an object's disk, and what is read from it.
pub(crate) type Watch = Rc<dyn Fn(&Sqlite, &ObjectState)>;

/// One object's rows on SQLite, through the store of the Worker.
pub(crate) struct Disk {
    object: ObjectId,
    pub(crate) storage: Sqlite,
    /// The store of the incarnation that wrote last, and which one that was.
    store: Store<Payments, Sqlite>,
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
    pub(crate) changed: &'a ObjectState,
    pub(crate) after: &'a ObjectState,
    pub(crate) set_alarm_ms: Option<u64>,
    pub(crate) events: &'a BTreeSet<EventKey>,
}

impl Disk {
    pub(crate) fn new(object: ObjectId, has_outbox: bool, disks: &Disks) -> Self {
        let (forgets, written) = (disks.forgets.clone(), disks.written.clone());
        let storage = Sqlite { forgets, written, ..Sqlite::new() };
        let store = store_of(object, storage.clone());
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
            self.store = store_of(self.object, self.storage.clone());
            self.instance = instance;
        }
    }

    pub(crate) fn alarm_fired(&mut self, instance: usize) {
        self.of_instance(instance);
        self.store.alarm_gone();
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
        let written: Result<(), Bug> = self.store.transaction(ctx, |state| {
            let mut changed = it.changed.clone();
            if !self.has_outbox {
                (changed.resource.version, changed.resource.audit_through) =
                    (state.resource.version, state.resource.audit_through);
                changed.resource.audit_newest = state.resource.audit_newest;
                changed.jobs.clone_from(&state.jobs);
            }
            *state = changed;
            Ok(())
        });
        written.map_err(|bug| bug.0)?;
        let read = |bug: Bug| bug.0;
        let found = self.store.read().map_err(read)?;
        if let (Some(watch), Some(state)) = (&self.watched, &found) {
            watch(&self.storage, state);
        }
        let state = found.map_or_else(|| ObjectState::empty(self.object), |state| ObjectState::clone(&state));
        same("rows", self.without_jobs(it.after), self.without_jobs(&state))?;
        if self.has_outbox {
            same("the alarm", it.set_alarm_ms, self.storage.take_alarm())?;
        }
        self.audit_records += it.changed.appended.facts.audit.len() as u64;
        same("audit records", self.audit_records, state.resource.audit_newest)?;
        // All of an object's lines are read only when there are new ones: what was lost before then is missing now.
        if let Some(record) = it.changed.appended.facts.audit.last() {
            let mut audit = log::audit_after(&self.store, 0, u32::MAX).map_err(read)?;
            same("the audit", self.audit_records, audit.len() as u64)?;
            let newest = audit.pop().ok_or("no audit record is kept")?;
            let facts = serde_json::from_str(&newest.data).map_err(|error| error.to_string())?;
            let kept = (newest.at_ms, newest.actor, newest.action, newest.subject, facts);
            let record = record.clone();
            same(
                "the newest audit record",
                (record.at_ms, record.actor.to_text(), record.action.to_owned(), record.subject, record.data),
                kept,
            )?;
        }
        let events = log::events(&self.store).map_err(read)?;
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
                log::knows_event(&self.store, event.provider, &event.event_id).map_err(read),
            )?;
        }
        self.timeline.extend(it.changed.appended.timeline.iter().cloned());
        let excess = self.timeline.len().saturating_sub(TIMELINE_FIRST + TIMELINE_NEWEST);
        self.timeline.drain(
            TIMELINE_FIRST.min(self.timeline.len())..(TIMELINE_FIRST + excess).min(self.timeline.len()),
        );
        same("the timeline", &self.timeline, &self.store.timeline().map_err(read)?)
    }

    fn without_jobs(&self, state: &ObjectState) -> ObjectState {
        let mut state = state.clone();
        if !self.has_outbox {
            (state.jobs, state.resource.version, state.resource.audit_through) = (Vec::new(), 0, 0);
            state.resource.audit_newest = 0;
        }
        state
    }
}

/// The store of the Worker, on this storage.
pub(crate) fn store_of(object: ObjectId, storage: Sqlite) -> Store<Payments, Sqlite> {
    Store::new(object, storage, Hooks { adopt: old_tables::adopt, ..Hooks::default() })
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, committed: T, read: T) -> Result<(), String> {
    if committed == read { Ok(()) } else { Err(format!("{what}: committed {committed:?}, read {read:?}")) }
}
