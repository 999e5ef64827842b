//! Objects of older releases: they are read as they were written, and go on; a ride, which no release runs any more, is left as it is.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ::payments::payment::operation::Operation;
use ::payments::payment::result::CallKind;
use ::payments::transitions::projection;
use messages::snapshot::snapshot;
use once::alarm::{wake, wake_at};
use once::begin::begin;
use once::context::{Bug, Times};
use once::fingerprint::Canonical;
use once::id::{InstanceId, ObjectId, RequestId};
use once_object::storage::Storage;
use paid_once::object::log;
use payments::engine::{Begin, Command, Context, Lifecycle, ObjectState, ProviderCall};
use serde_json::{Map, Value};

use crate::disk::{Sqlite, store_of};
use crate::faults::HOUR;
use crate::old_tables::{MIGRATIONS, VERSION_TABLE};
use crate::schedule::EPOCH_MS;
use crate::tables::{context, paid, watch};

/// Objects as older releases wrote them, into tables of that version. A file is never changed: such objects are out there.
const OLD_OBJECTS: [(usize, &str); 2] =
    [(5, include_str!("objects/5.sql")), (8, include_str!("objects/8.sql"))];

/// Objects as they have been written since their state is one row, by the version of its text.
const OBJECTS: [&str; 2] = [include_str!("objects/state-1.sql"), include_str!("objects/state-2.sql")];

/// The parts of a file: what an object shows of itself, and the rows that it is made of.
fn objects(file: &str) -> impl Iterator<Item = (ObjectId, Value, &str)> {
    file.split("-- object ").skip(1).map(|part| {
        let (id, rest) = part.split_once('\n').unwrap();
        let (shows, object_state) = rest.strip_prefix("-- shows ").unwrap().split_once('\n').unwrap();
        (ObjectId::from_hex(id).unwrap(), serde_json::from_str(shows).unwrap(), object_state)
    })
}

/// A database with the tables of a version.
pub(crate) fn of_version(version: usize) -> Sqlite {
    let sqlite = Sqlite::new();
    let statements = MIGRATIONS.iter().take(version).flat_map(|statements| statements.iter());
    for statement in std::iter::once(&VERSION_TABLE).chain(statements) {
        sqlite.connection.execute_batch(statement).unwrap();
    }
    sqlite.connection.execute("INSERT INTO schema_version VALUES (1, ?)", [version as u32]).unwrap();
    sqlite
}

/// Everything that stands in one is in the other, and is the same; but for how its owner is shown it, which may change.
fn is_part(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let stays = |(name, value): (&String, &Value)| {
                name == "shown" || other.get(name).is_some_and(|other| is_part(value, other))
            };
            one.iter().all(stays)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_part(one, other))
        }
        _ => one == other,
    }
}

fn shows(object_state: &ObjectState) -> Value {
    serde_json::to_value(snapshot(object_state, Vec::new(), 0)).unwrap()
}

/// Nothing is shown of a ride any more but its key; of that not what it was for, and both of its points as the first one.
fn without_ride(mut shown: Value) -> Value {
    let fields = shown.as_object_mut().unwrap();
    let is_ride = fields.remove("ride").is_some_and(|ride| !ride.is_null());
    for key in fields["keys"].as_array_mut().unwrap().iter_mut().filter(|_| is_ride) {
        if key["status"] != "open" {
            key["operation"] = Value::Null;
        } else if key["recovery_point"] == "charge_created" {
            key["recovery_point"] = "ride_created".into();
        }
    }
    shown
}

/// An object is read as it was, and goes on.
fn goes_on(object: ObjectId, shown: &Value, sqlite: Sqlite) {
    let store = store_of(object, sqlite);
    let read = store.read().unwrap().unwrap();
    let shown = without_ride(shown.clone());
    assert!(is_part(&shown, &shows(&read)), "{shown} became {}", shows(&read));
    // Its alarm rings, a month later.
    let ctx = context(EPOCH_MS + 31 * 24 * HOUR);
    let me = InstanceId("new".to_owned());
    let gone_on: Result<_, Bug> = store.transaction(&ctx, |object_state| Ok(wake(object_state, &me, &ctx)));
    gone_on.unwrap();
    store.read().unwrap();
}

#[test]
fn objects_of_every_version_load_and_go_on() {
    for (version, file) in OLD_OBJECTS {
        let mut count = 0;
        for (object, shown, object_state) in objects(file) {
            let sqlite = of_version(version);
            sqlite.connection.execute_batch(object_state).unwrap();
            goes_on(object, &shown, sqlite);
            count += 1;
        }
        assert!(count >= 20, "version {version}: only {count} objects");
    }
    for file in OBJECTS {
        let mut count = 0;
        for (object, shown, object_state) in objects(file) {
            let sqlite = Sqlite::new();
            sqlite.connection.execute_batch(object_state).unwrap();
            goes_on(object, &shown, sqlite);
            count += 1;
        }
        assert!(count >= 20, "only {count} objects");
    }
}

/// What an older release had written down beside the state is there as it was: the audit, the events, the timeline.
#[test]
fn what_older_releases_wrote_down_is_kept() {
    let (version, file) = OLD_OBJECTS[1];
    let (mut audit, mut events, mut lines) = (0, 0, 0);
    for (object, _, object_state) in objects(file) {
        let old = of_version(version);
        old.connection.execute_batch(object_state).unwrap();
        let query = |sql: &str| old.query::<Value>(sql, vec![]).unwrap();
        let old_audit = query("SELECT * FROM audit_records ORDER BY audit_id");
        let old_events =
            query("SELECT provider, kind, received_at_ms FROM webhook_events ORDER BY received_at_ms, rowid");
        let old_lines = query("SELECT key_id, at_ms, attempt, event, detail FROM timeline ORDER BY entry_id");
        let store = store_of(object, old.clone());
        let newest = store.read().unwrap().unwrap().resource.audit_newest;
        assert_eq!(Some(newest), old_audit.last().map_or(Some(0), |record| record["audit_id"].as_u64()));
        let parsed = |mut record: Value| {
            record["data"] = serde_json::from_str(record["data"].as_str().unwrap()).unwrap();
            record
        };
        let kept = log::audit_after(&store, 0, u32::MAX).unwrap().into_iter();
        let kept: Vec<Value> = kept.map(|record| parsed(serde_json::to_value(record).unwrap())).collect();
        assert_eq!(kept, old_audit.into_iter().map(parsed).collect::<Vec<_>>());
        let kept = log::events(&store).unwrap();
        assert_eq!(kept.len(), old_events.len());
        for (kept, old) in kept.iter().zip(&old_events) {
            assert!(is_part(old, &serde_json::to_value(kept).unwrap()), "{old} became {kept:?}");
            assert!(!kept.event_id.starts_with(&format!("{}:", kept.provider)), "{kept:?}");
        }
        let kept = serde_json::to_value(store.timeline().unwrap()).unwrap();
        assert_eq!(kept, Value::Array(old_lines.clone()));
        (audit, events, lines) =
            (audit + usize::try_from(newest).unwrap(), events + old_events.len(), lines + old_lines.len());
    }
    assert!(audit > 20 && events > 20 && lines > 20, "{audit} {events} {lines}");
}

/// A release of before that is rolled back to cannot take a converted object for one in which nothing has happened: it fails as it makes its tables.
#[test]
fn a_release_of_before_refuses_what_was_converted() {
    let object_state = paid();
    let sqlite = Sqlite::new();
    let put: Result<(), Bug> =
        store_of(object_state.object, sqlite.clone()).transaction(&context(EPOCH_MS), |now| {
            *now = object_state;
            Ok(())
        });
    put.unwrap();
    let made = MIGRATIONS.iter().flat_map(|statements| statements.iter());
    let failed: Vec<_> =
        made.filter(|statement| sqlite.connection.execute_batch(statement).is_err()).collect();
    assert!(!failed.is_empty());
}

/// All columns of all tables, with their types, defaults and constraints.
fn tables(sqlite: &Sqlite) -> Vec<(String, String)> {
    let mut statement = sqlite
        .connection
        .prepare("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
        .unwrap();
    let object_state = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    object_state.map(Result::unwrap).collect()
}

/// Objects of a file, in the tables of each version before: without what those had not. They are read as they were, but for that.
#[test]
fn every_older_version_of_the_tables_is_read() {
    let (newest, file) = OLD_OBJECTS[0];
    for version in 1..newest {
        for (object, _, object_state) in objects(file) {
            let full = of_version(newest);
            full.connection.execute_batch(object_state).unwrap();
            let old = of_version(version);
            copy(&full, &old);
            let read = store_of(object, old.clone()).read().unwrap().unwrap();
            let original = store_of(object, full).read().unwrap().unwrap();
            assert_eq!(*read, as_of(version, ObjectState::clone(&original)), "version {version}");
            let left: Vec<String> = tables(&old).into_iter().map(|(name, _)| name).collect();
            assert_eq!(left, ["timeline"], "version {version}");
        }
    }
}

/// Copies the rows of all tables that both have, in the columns that both have.
fn copy(from: &Sqlite, to: &Sqlite) {
    let columns = |sqlite: &Sqlite, table: &str| -> Vec<String> {
        let mut statement = sqlite.connection.prepare("SELECT name FROM pragma_table_info(?)").unwrap();
        statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let mut names = to
        .connection
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'schema_version' ORDER BY rowid",
        )
        .unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for table in names {
        let known = columns(to, &table);
        let common = columns(from, &table).into_iter().filter(|column| known.contains(column));
        let common: Vec<String> = common.collect();
        for insert in inserts(from, &table, &common) {
            to.connection.execute_batch(&insert).unwrap();
        }
    }
}

/// A table's rows as statements.
fn inserts(sqlite: &Sqlite, table: &str, columns: &[String]) -> Vec<String> {
    let quoted: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
    let sql = format!("SELECT {} FROM {table} ORDER BY rowid", quoted.join(" || ',' || "));
    let mut statement = sqlite.connection.prepare(&sql).unwrap();
    let object_state = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    object_state
        .map(|values| format!("INSERT INTO {table} ({}) VALUES ({values});", columns.join(",")))
        .collect()
}

/// What the tables of a version cannot say has the value that it is given since.
fn as_of(version: usize, mut object_state: ObjectState) -> ObjectState {
    if version < 2 {
        (
            object_state.resource.payment,
            object_state.resource.refunds,
            object_state.resource.tries,
            object_state.bindings,
        ) = (None, Vec::new(), Vec::new(), Vec::new());
        object_state.calls.iter_mut().for_each(|call| call.kind = CallKind::Authorize);
    }
    if version < 3 {
        (object_state.resource.version, object_state.resource.audit_through) = (0, 0);
        object_state.jobs.iter_mut().for_each(|job| (job.sends, job.next_at_ms) = (0, 0));
    }
    if version < 5 {
        object_state.keys.iter_mut().for_each(|key| key.replays = 0);
    }
    object_state
}

/// All objects of before that hold a ride, as they are read now.
fn rides() -> Vec<(ObjectId, Sqlite, ObjectState)> {
    let old =
        OLD_OBJECTS.iter().flat_map(|(version, file)| objects(file).map(|found| (Some(*version), found)));
    let all = old.chain(OBJECTS.iter().flat_map(|file| objects(file)).map(|found| (None, found)));
    let read = all.filter(|(_, (_, shown, object_state))| {
        !shown["ride"].is_null() || object_state.contains(r#""kind":"ride""#)
    });
    read.map(|(version, (object, _, object_state))| {
        let sqlite = version.map_or_else(Sqlite::new, of_version);
        sqlite.connection.execute_batch(object_state).unwrap();
        let object_state = ObjectState::clone(&store_of(object, sqlite.clone()).read().unwrap().unwrap());
        (object, sqlite, object_state)
    })
    .collect()
}

/// The same request again, as far as a key knows it.
fn again(object_state: &ObjectState) -> Command {
    let key = object_state.keys.first().unwrap();
    Command {
        owner: key.owner.clone(),
        key_hash: key.key_hash.clone(),
        fingerprint: key.fingerprint.clone(),
        parameters: Canonical("{}".to_owned()),
        operation: Operation::Retired(Map::new()),
        channel: key.channel,
        request_id: RequestId("req_again".to_owned()),
        may_start: true,
        by: None,
        trace: None,
    }
}

/// A ride that a release before has not ended is left as it is: its alarm takes up nothing and does not come again for it, nothing of it is
/// sent, and that release can still end it. One that has ended is replayed until its response expires.
#[test]
fn a_ride_of_before_is_not_taken_up_and_what_was_answered_is_replayed() {
    let (mut open, mut unsettled, mut replayed) = (0, 0, 0);
    for (object, sqlite, object_state) in rides() {
        let store = store_of(object, sqlite.clone());
        let is_open = matches!(object_state.keys[0].lifecycle, Lifecycle::Open(_));
        let me = InstanceId("new".to_owned());
        for at_ms in [EPOCH_MS + HOUR, EPOCH_MS + 31 * 24 * HOUR] {
            let ctx = context(at_ms);
            let begun = |object_state: &mut ObjectState| begin(object_state, &again(object_state), &me, &ctx);
            let begun = store.transaction(&ctx, begun).unwrap();
            match &object_state.keys[0].lifecycle {
                Lifecycle::Open(_) => {
                    assert!(matches!(begun, Begin::NotStarted | Begin::Pending { .. }), "{begun:?}")
                }
                Lifecycle::Finished(it) if at_ms < it.expires_at_ms => {
                    assert!(matches!(begun, Begin::Replay { response, .. } if response == it.response));
                    replayed += 1;
                }
                Lifecycle::Finished(_) | Lifecycle::Expired(_) => assert_eq!(begun, Begin::Expired),
            }
            let tokens: Result<_, Bug> =
                store.transaction(&ctx, |object_state| Ok(wake(object_state, &me, &ctx)));
            assert_eq!(tokens.unwrap(), []);
        }
        let now = store.read().unwrap().unwrap();
        assert_eq!(now.keys[0].attempt, object_state.keys[0].attempt);
        // A response takes the provider's words with it.
        let calls = |object_state: &ObjectState| {
            let mut calls = object_state.calls.clone();
            calls.iter_mut().for_each(ProviderCall::forget_content);
            calls.into_iter().map(|call| (call.state, call.sends)).collect::<Vec<_>>()
        };
        assert_eq!(calls(&now), calls(&object_state));
        if is_open {
            open += 1;
            unsettled += usize::from(now.unsettled_call(1).is_some());
            assert_eq!(
                (&now.keys, &now.resource.retired),
                (&object_state.keys, &object_state.resource.retired)
            );
            // What still leaves are its jobs, and in the end its personal data.
            let mut alone = ObjectState::clone(&now);
            alone.jobs.clear();
            let ctx = context(EPOCH_MS + 31 * 24 * HOUR);
            let kept_ms = ctx.times.personal_retention_ms;
            assert!(wake_at(&alone, &ctx).is_none_or(|at_ms| at_ms >= EPOCH_MS + kept_ms), "{alone:?}");
        }
    }
    assert!(
        open > 20 && unsettled > 5 && replayed > 5,
        "{open} open, {unsettled} unsettled, {replayed} replayed"
    );
}

/// What a release before has written of an unfinished ride is written back as it was.
#[test]
fn a_ride_of_before_is_kept_for_the_release_that_can_end_it() {
    let mut count = 0;
    for (object, _, object_state) in
        objects(OBJECTS[0]).filter(|(_, _, object_state)| object_state.contains(r#""kind":"ride""#))
    {
        let sqlite = Sqlite::new();
        sqlite.connection.execute_batch(object_state).unwrap();
        let state = || -> Value {
            let select = "SELECT state FROM timeline WHERE id = 0";
            let text: String = sqlite.connection.query_row(select, [], |row| row.get(0)).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let before = state();
        let ctx = context(EPOCH_MS + HOUR);
        let changed: Result<_, Bug> = store_of(object, sqlite.clone()).transaction(&ctx, |object_state| {
            projection::stage_anew(object_state, &ctx);
            Ok(())
        });
        changed.unwrap();
        let after = state();
        assert_ne!(after, before, "control: it was written");
        for part in ["/state/keys/0/lifecycle/open/operation", "/state/resource/ride"] {
            assert_eq!(after.pointer(part), before.pointer(part), "{part}");
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} rides");
}

#[test]
fn the_personal_data_of_a_ride_of_before_goes_when_it_is_asked_for_and_by_the_clock() {
    let kept_ms = Times { personal_retention_ms: 400 * 24 * HOUR, ..Times::default() };
    for (object, sqlite, _) in rides() {
        let ctx = Context { times: kept_ms, ..context(EPOCH_MS + 500 * 24 * HOUR) };
        let me = InstanceId("new".to_owned());
        let store = store_of(object, sqlite.clone());
        let woken: Result<_, Bug> = store.transaction(&ctx, |object_state| Ok(wake(object_state, &me, &ctx)));
        woken.unwrap();
        let select = "SELECT state FROM timeline WHERE id = 0";
        let text: String = sqlite.connection.query_row(select, [], |row| row.get(0)).unwrap();
        for word in ["377749000", "37.7749", "pm_card", "ada@example.com"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
}

/// Writes the file of the newest version: few objects with much that is different. Once, when a version is released:
/// `cargo test --test simulation old_objects::write_objects -- --ignored --nocapture`
#[test]
#[ignore = "writes a file"]
fn write_objects() {
    let (seen, file) = (RefCell::new(BTreeSet::new()), Rc::new(RefCell::new(String::new())));
    let written = Rc::clone(&file);
    watch(0..400, move |sqlite, object_state| {
        let text: String = sqlite
            .connection
            .query_row("SELECT state FROM timeline WHERE id = 0", [], |row| row.get(0))
            .unwrap();
        let mut features = BTreeSet::new();
        features_of("state", &serde_json::from_str(&text).unwrap(), &mut features);
        let new = features.difference(&seen.borrow()).count();
        if new >= 3 {
            seen.borrow_mut().extend(features);
            let mut dump =
                format!("-- object {}\n-- shows {}\n", object_state.object.to_hex(), shows(object_state));
            tables(sqlite).iter().for_each(|(_, sql)| dump += &format!("{sql};\n"));
            let columns = ["id", "state", "lines", "facts"].map(str::to_owned);
            // Of what is only ever added two rows are enough.
            inserts(sqlite, "timeline", &columns)
                .iter()
                .take(3)
                .for_each(|insert| dump += &format!("{insert}\n"));
            *written.borrow_mut() += &dump;
        }
    });
    let version = once::state::VERSION;
    let path = format!("{}/tests/simulation/objects/state-{version}.sql", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(path, file.borrow().as_str()).unwrap();
}

/// What is to be seen in a cell: its shape, and the words that stand for a case.
fn features_of(path: &str, value: &Value, features: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| features_of(&format!("{path}.{name}"), value, features));
        }
        Value::Array(items) => {
            items.iter().for_each(|item| features_of(&format!("{path}[]"), item, features))
        }
        Value::String(word)
            if word.len() < 24 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_') =>
        {
            features.insert(format!("{path}={word}"));
        }
        Value::Bool(flag) => drop(features.insert(format!("{path}={flag}"))),
        Value::Null => drop(features.insert(format!("{path}=null"))),
        Value::Number(_) => drop(features.insert(format!("{path}: number"))),
        Value::String(_) => drop(features.insert(format!("{path}: text"))),
    }
}
