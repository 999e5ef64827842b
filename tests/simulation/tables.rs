//! All SQL of an object, on SQLite: what the histories of both worlds commit is read back as it is (disk.rs), and the tables
//! refuse what cannot be.
//!
//! ```text
//! cargo test --test simulation tables                                              all of this
//! SIM_TABLES_HISTORIES=100000 cargo test --test simulation tables                  more histories
//! SIM_TABLES_SEED=7 cargo test --test simulation tables::replay -- --nocapture     one history, told step by step
//! ```

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ::payments::flows::engine::{self, Context, Limits, Rows};
use ::payments::payment::PaymentState;
use ::payments::providers::Provider;
use ::payments::providers::result::CallKind;
use messages::snapshot::snapshot;
use once::alarm::wake;
use once::context::{Bug, Times};
use once::id::{InstanceId, ObjectId};
use once::rows::TimelineEntry;
use paid_once::object::events::{self, RECORDS_MAX};
use paid_once::object::schema::{MIGRATIONS, VERSION_TABLE};
use paid_once::object::storage::Storage;
use paid_once::object::store::{EVENTS_NEWEST, Store};
use paid_once::webhooks::{Event, EventKind, OperationNotice, Taken};
use serde_json::Value;

use crate::campaign::{self, amount, play_random};
use crate::disk::{Disks, Forgets, Sqlite};
use crate::faults::HOUR;
use crate::history::Outcome;
use crate::payments;
use crate::promises::KEPT;
use crate::report::Name;
use crate::schedule::EPOCH_MS;

const WORLD: &str = "SIM_TABLES";
/// How many histories are played, and how many if it is to be thorough.
const HISTORIES: (u64, u64) = (400, 2_000);
/// Within so many histories every forgotten column must be found.
const FOUND_WITHIN: u64 = 6_000;

/// The history of a seed, on disks: every third is a ride's.
fn history(seed: u64, disks: &Disks, trace: bool) -> Outcome {
    if seed.is_multiple_of(3) {
        crate::random(seed, None, trace).on(disks).play()
    } else {
        payments::random(seed, None, trace).on(disks).play()
    }
}

fn play(name: &Name, trace: bool) -> Outcome {
    let Name::Seed(_, seed) = name else { panic!("only seeds are played here") };
    history(*seed, &Disks::default(), trace)
}

/// What the histories must reach, or they have stopped exercising the tables.
const EXERCISED: [&str; 16] = [
    "begin: expired, refused",
    "begin: replay",
    "jobs: confirmed",
    "links: ended",
    "links: made",
    "look-ups: found",
    "look-ups: read on",
    "outcomes: unknown",
    "payment.captured",
    "payment.failed",
    "payment.rerouted",
    "refund.failed",
    "refund.pending",
    "refund.succeeded",
    "replays to who has waited",
    "webhooks: taken in",
];

#[test]
fn what_is_committed_is_read_back_as_it_is() {
    let histories = amount("SIM_TABLES_HISTORIES", HISTORIES.0, HISTORIES.1);
    play_random(&|seed| Name::Seed(WORLD, seed), histories, &EXERCISED, play);
}

/// The control: a store that forgets a column, any column of any statement, does not read back what was committed.
#[test]
fn every_forgotten_column_is_found() {
    let written = Rc::new(RefCell::new(BTreeSet::new()));
    let disks = Disks { written: Some(Rc::clone(&written)), ..Disks::default() };
    (0..60).for_each(|seed| drop(history(seed, &disks, false)));
    let all: Vec<Forgets> =
        written.borrow().iter().flat_map(|statement| Forgets::all_of(statement)).collect();
    assert!(all.len() > 100, "only {} columns are written", all.len());
    let mut last = 0;
    for forgets in all {
        let what = forgets.what.clone();
        let disks = Disks { forgets: Some(Rc::new(forgets)), ..Disks::default() };
        // What is rare is written by more than one statement: where it was seen last comes first.
        let found = std::iter::once(last).chain(0..FOUND_WITHIN).find(|seed| {
            let violations = history(*seed, &disks, false).violations;
            violations.iter().any(|violation| violation.invariant == KEPT)
        });
        let found = found.unwrap_or_else(|| panic!("{what}: not found within {FOUND_WITHIN} histories"));
        println!("{what:<60} found in history {found}");
        last = found;
    }
}

/// Plays histories, and looks at every object's disk after each commit.
fn watch(seeds: std::ops::Range<u64>, watch: impl Fn(&Sqlite, &Rows) + 'static) {
    let disks = Disks { watched: Some(Rc::new(watch)), ..Disks::default() };
    for seed in seeds {
        let violations = history(seed, &disks, false).violations;
        assert!(violations.is_empty(), "{WORLD}_SEED={seed}: {violations:?}");
    }
}

/// What can be wrong with a row: a change, and where it must strike at least once within the histories that are tried.
const CORRUPTIONS: &[&str] = &[
    "UPDATE idempotency_keys SET status = 'closed'",
    "UPDATE idempotency_keys SET channel = 'fax'",
    "UPDATE idempotency_keys SET attempt = 0",
    "UPDATE idempotency_keys SET owner = 'nobody'",
    "UPDATE idempotency_keys SET key_hash = NULL",
    "UPDATE idempotency_keys SET created_at_ms = -1",
    "UPDATE idempotency_keys SET created_at_ms = 'yesterday'",
    "UPDATE idempotency_keys SET replays = -1",
    "UPDATE idempotency_keys SET operation = NULL WHERE status = 'open'",
    "UPDATE idempotency_keys SET operation = '{}' WHERE status = 'open'",
    "UPDATE idempotency_keys SET operation = '{}' WHERE status != 'open'",
    "UPDATE idempotency_keys SET recovery_point = 'nowhere' WHERE status = 'open'",
    "UPDATE idempotency_keys SET lease_until_ms = NULL WHERE lease_holder IS NOT NULL",
    "UPDATE idempotency_keys SET resume_at_ms = NULL WHERE status = 'open'",
    "UPDATE idempotency_keys SET last_run_at_ms = NULL WHERE status = 'open'",
    "UPDATE idempotency_keys SET failures = NULL WHERE status = 'open'",
    "UPDATE idempotency_keys SET response_status = 200 WHERE status = 'open'",
    "UPDATE idempotency_keys SET response_status = NULL WHERE status = 'finished'",
    "UPDATE idempotency_keys SET response_headers = '[' WHERE status = 'finished'",
    "UPDATE idempotency_keys SET response_body = NULL WHERE status = 'finished'",
    "UPDATE idempotency_keys SET response_body = zeroblob(1048577) WHERE status = 'finished'",
    "UPDATE idempotency_keys SET finished_at_ms = NULL WHERE status = 'expired'",
    "UPDATE idempotency_keys SET expires_at_ms = NULL WHERE status != 'open'",
    "DELETE FROM idempotency_keys WHERE key_id IN (SELECT key_id FROM foreign_calls)",
    "INSERT INTO idempotency_keys SELECT * FROM idempotency_keys",
    "UPDATE foreign_calls SET key_id = 999",
    "UPDATE foreign_calls SET kind = 'gift'",
    "UPDATE foreign_calls SET provider = 'nobody'",
    "UPDATE foreign_calls SET semantics = 'whatever'",
    "UPDATE foreign_calls SET request = '{}'",
    "UPDATE foreign_calls SET status = 'sent'",
    "UPDATE foreign_calls SET settlement = NULL WHERE status = 'settled'",
    "UPDATE foreign_calls SET settlement = '{}' WHERE status = 'settled'",
    "UPDATE foreign_calls SET sends = -1",
    "UPDATE foreign_calls SET maybe_executed = 2",
    "UPDATE foreign_calls SET answer_is_stored = 2",
    "UPDATE foreign_calls SET look_up = '{}'",
    "UPDATE foreign_calls SET derived_key = 'same' WHERE (SELECT COUNT(*) FROM foreign_calls) > 1",
    "UPDATE payments SET amount_minor = 0",
    "UPDATE payments SET captured_minor = amount_minor + 1",
    "UPDATE payments SET refunded_minor = captured_minor + 1",
    "UPDATE payments SET details = '{}'",
    "UPDATE payments SET details = json_set(details, '$.state.state', 'lost')",
    "UPDATE payments SET details = json_set(details, '$.amount', -1)",
    "UPDATE refunds SET key_id = 999",
    "UPDATE refunds SET amount_minor = 0",
    "UPDATE refunds SET status = 'promised'",
    "UPDATE refunds SET details = 'null'",
    "UPDATE rides SET amount_minor = 0",
    "UPDATE rides SET ride_id = 'ride_1'",
    "UPDATE rides SET origin_lat_e7 = 9000000000",
    "UPDATE rides SET state = '\"flying\"'",
    "UPDATE staged_jobs SET kind = 'dance'",
    "UPDATE staged_jobs SET payload = '{'",
    "UPDATE key_bindings SET object = 'here'",
    "UPDATE key_bindings SET owner = ''",
    "UPDATE projection SET id = 2",
    "UPDATE projection SET version = -1",
];

/// A row that cannot be is refused: by the tables, or when it is read. Nothing is made up in its place.
#[test]
fn corrupt_rows_are_refused() {
    let struck = Rc::new(RefCell::new(vec![0; CORRUPTIONS.len()]));
    let counts = Rc::clone(&struck);
    watch(0..150, move |sqlite, rows| {
        let batch = |sql| sqlite.connection.execute_batch(sql).unwrap();
        for (corruption, struck) in
            CORRUPTIONS.iter().zip(counts.borrow_mut().iter_mut()).filter(|(_, n)| **n < 10)
        {
            batch("SAVEPOINT corrupt");
            let changed = sqlite.connection.execute(corruption, []);
            if changed.as_ref().map_or(1, |rows| *rows) > 0 {
                *struck += 1;
                let read = Store::new(rows.object, sqlite.clone()).read();
                assert!(changed.is_err() || read.is_err(), "{corruption}: read as {read:?}");
            }
            batch("ROLLBACK TO corrupt; RELEASE corrupt");
        }
    });
    for (corruption, struck) in CORRUPTIONS.iter().zip(struck.borrow().iter()) {
        assert!(*struck > 0, "never tried: {corruption}");
    }
}

fn object() -> ObjectId {
    ObjectId::from_bytes([7; 32])
}

fn context(now_ms: u64) -> Context {
    engine::context(now_ms, 500, Times::default(), Limits::default())
}

fn entry(number: u32) -> TimelineEntry {
    TimelineEntry { key_id: 1, at_ms: 1, attempt: 1, event: "step".to_owned(), detail: number.to_string() }
}

/// The first fifty lines of a timeline and the newest hundred and fifty stay, however they come.
#[test]
fn the_timeline_keeps_its_beginning_and_its_end() {
    for batch in [1, 7, 199, 200, 201, 1000] {
        let store = Store::new(object(), Sqlite::new());
        for first in (1..=1000).step_by(batch) {
            let lines = (first..first + batch as u32).map(entry);
            let added: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |rows| {
                rows.appended.timeline.extend(lines);
                Ok(())
            });
            added.unwrap();
            let last = first + batch as u32 - 1;
            let kept: Vec<u32> =
                store.timeline().unwrap().iter().map(|entry| entry.detail.parse().unwrap()).collect();
            let expected: Vec<u32> =
                (1..=last).filter(|number| *number <= 50 || number + 150 > last).collect();
            assert_eq!(kept, expected, "batches of {batch}, after {last}");
        }
    }
}

/// A payment in its object, by whatever history: one that a provider has taken money for.
fn paid() -> Rows {
    let found = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&found);
    watch(0..12, move |_, rows| {
        let is_paid = |rows: &Rows| {
            rows.resource.payment.as_ref().is_some_and(|payment| {
                payment.provider == Provider::Adyen
                    && payment.provider_payment.is_some()
                    && matches!(payment.state, PaymentState::Captured { .. })
            })
        };
        if is_paid(rows) {
            *keep.borrow_mut() = Some(rows.clone());
        }
    });
    found.take().expect("a history in which Adyen was paid")
}

/// A provider tells for ever: of nothing much, and of what contradicts all that we know. Each time it is taken for what it is, and
/// the rows do not grow.
#[test]
fn events_that_never_end_add_no_rows_for_ever() {
    let rows = paid();
    let sqlite = Sqlite::new();
    let store = Store::new(rows.object, sqlite.clone());
    let payment = rows.resource.payment.clone().unwrap().provider_payment.unwrap();
    let put: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |now| {
        *now = rows;
        Ok(())
    });
    put.unwrap();
    let count = |table: &str| {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        u64::from(sqlite.connection.query_row::<u32, _, _>(&sql, [], |row| row.get(0)).unwrap())
    };
    let tables =
        ["webhook_events", "audit_records", "timeline", "staged_jobs", "foreign_calls", "idempotency_keys"];
    let before: Vec<u64> = tables.iter().copied().map(count).collect();
    for number in 0..3_000_u64 {
        let contradicts = number % 3 == 0;
        let event = Event {
            event_id: format!("event-{number}"),
            provider: Provider::Adyen,
            account: None,
            kind: "CANCELLATION".to_owned(),
            news: if contradicts { voided(&payment, &format!("VOID{number}")) } else { EventKind::Other },
        };
        let ctx = context(EPOCH_MS + number);
        let taken = events::take(&store, &event, &ctx).unwrap();
        assert_eq!(matches!(taken, Taken::Contradiction { .. }), contradicts, "{number}: {taken:?}");
        // It comes again at once: taken in, or told again to whoever keeps it for a person.
        let again = events::take(&store, &event, &ctx).unwrap();
        assert_eq!(again, if contradicts { taken } else { Taken::Known }, "{number}");
        assert!(count("webhook_events") <= EVENTS_NEWEST.into(), "{number}");
    }
    let grown: Vec<u64> = tables.iter().zip(before).map(|(table, before)| count(table) - before).collect();
    assert_eq!(grown[..2], [EVENTS_NEWEST.into(), RECORDS_MAX]);
    assert!(grown[2] <= 200 && grown[3..].iter().sum::<u64>() <= 1, "{grown:?}");
}

/// What cannot be: a payment that was captured was voided.
fn voided(payment: &str, id: &str) -> EventKind {
    EventKind::Cancellation(OperationNotice {
        id: id.to_owned(),
        payment: payment.to_owned(),
        derived_key: None,
        amount_minor: 100,
        currency: "usd".to_owned(),
        success: true,
        reason: String::new(),
        at_ms: None,
    })
}

/// Two providers may give two events one id: each is taken in, and each is known when it comes again.
#[test]
fn an_event_is_known_by_its_provider_and_its_id() {
    let rows = paid();
    let store = Store::new(rows.object, Sqlite::new());
    let payment = rows.resource.payment.clone().unwrap().provider_payment.unwrap();
    let put: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |now| {
        *now = rows;
        Ok(())
    });
    put.unwrap();
    let event = |provider, news| Event {
        event_id: "event-1".to_owned(),
        provider,
        account: None,
        kind: "something".to_owned(),
        news,
    };
    let contradicts = event(Provider::Adyen, voided(&payment, "VOID1"));
    let harmless = event(Provider::Stripe, EventKind::Other);
    let take = |event| events::take(&store, event, &context(EPOCH_MS)).unwrap();
    let said = take(&contradicts);
    assert!(matches!(said, Taken::Contradiction { .. }), "{said:?}");
    assert_eq!(take(&harmless), Taken::In, "of another provider");
    assert_eq!((take(&contradicts), take(&harmless)), (said, Taken::Known), "each for itself");
}

/// What was known when an event's id alone was its key is known since.
#[test]
fn events_of_before_are_known_by_their_provider() {
    let sqlite = of_version(MIGRATIONS.len());
    let known = "INSERT INTO webhook_events (event_id, provider, kind, received_at_ms) VALUES ('event-1', 'stripe', 'k', 1)";
    sqlite.connection.execute(known, []).unwrap();
    let store = Store::new(object(), sqlite);
    let brought_up: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |_| Ok(()));
    brought_up.unwrap();
    assert_eq!(store.knows_event(Provider::Stripe, "event-1"), Ok(true));
    assert_eq!(store.knows_event(Provider::Adyen, "event-1"), Ok(false));
    assert_eq!(store.events().unwrap().len(), 1);
}

/// What fails leaves nothing: not the rows, not the alarm, and nothing of what came before the failure in the same transaction.
#[test]
fn a_transaction_that_fails_leaves_nothing() {
    let last = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&last);
    watch(1..3, move |_, rows| {
        if !rows.calls.is_empty() {
            *keep.borrow_mut() = Some(rows.clone());
        }
    });
    let rows = last.borrow().clone().unwrap();
    let (sqlite, ctx) = (Sqlite::new(), context(EPOCH_MS));
    let store = Store::new(rows.object, sqlite.clone());

    let refused: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        Err(Bug("refused".into()))
    });
    assert_eq!(refused, Err(Bug("refused".into())));
    assert_eq!((store.read(), sqlite.take_alarm()), (Ok(Some(Rows::empty(rows.object))), None));

    // The keys are written before the calls, and the tables refuse a call of no key.
    let broken: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        now.calls.iter_mut().for_each(|call| call.key_id = 999);
        Ok(())
    });
    assert!(broken.unwrap_err().0.contains("FOREIGN KEY"), "{rows:?}");
    assert_eq!((store.read(), sqlite.take_alarm()), (Ok(Some(Rows::empty(rows.object))), None));

    let kept: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        Ok(())
    });
    kept.unwrap();
    let read = store.read().unwrap().unwrap();
    assert_eq!((read.keys, read.calls), (rows.keys, rows.calls));
    assert!(sqlite.take_alarm().is_some());
}

#[test]
fn an_object_that_was_only_asked_keeps_nothing() {
    let sqlite = Sqlite::new();
    assert_eq!(Store::new(object(), sqlite.clone()).read(), Ok(None));
    let tables: u32 =
        sqlite.connection.query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 0);
}

/// Objects as the Worker of a version of the tables wrote them. A file is never changed: such objects are out there.
const OBJECTS: [(usize, &str); 1] = [(5, include_str!("objects/5.sql"))];

/// The parts of a file: what an object shows of itself, and the rows that it is made of.
fn objects(file: &str) -> impl Iterator<Item = (ObjectId, Value, &str)> {
    file.split("-- object ").skip(1).map(|part| {
        let (id, rest) = part.split_once('\n').unwrap();
        let (shows, rows) = rest.strip_prefix("-- shows ").unwrap().split_once('\n').unwrap();
        (ObjectId::from_hex(id).unwrap(), serde_json::from_str(shows).unwrap(), rows)
    })
}

/// A database with the tables of a version.
fn of_version(version: usize) -> Sqlite {
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

fn shows(rows: &Rows) -> Value {
    serde_json::to_value(snapshot(rows, Vec::new(), 0)).unwrap()
}

#[test]
fn objects_of_every_version_load_and_go_on() {
    for (version, file) in OBJECTS {
        let mut count = 0;
        for (object, shown, rows) in objects(file) {
            let sqlite = of_version(version);
            sqlite.connection.execute_batch(rows).unwrap();
            let store = Store::new(object, sqlite);
            let read = store.read().unwrap().unwrap();
            assert!(is_part(&shown, &shows(&read)), "version {version}: {shown} became {}", shows(&read));
            // Its alarm rings, a month later.
            let ctx = context(EPOCH_MS + 31 * 24 * HOUR);
            let me = InstanceId("new".to_owned());
            let gone_on: Result<_, Bug> = store.transaction(&ctx, |rows| Ok(wake(rows, &me, &ctx)));
            gone_on.unwrap();
            store.read().unwrap();
            count += 1;
        }
        assert!(count >= 20, "version {version}: only {count} objects");
    }
}

/// All columns of all tables, with their types, defaults and constraints.
fn tables(sqlite: &Sqlite) -> Vec<(String, String)> {
    let mut statement = sqlite
        .connection
        .prepare("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Objects of today's file, in the tables of each version before: without what those had not. They load as they were, but for that.
#[test]
fn every_older_version_of_the_tables_leads_to_the_newest() {
    let (newest, file) = OBJECTS[OBJECTS.len() - 1];
    let fresh = tables(&of_version(MIGRATIONS.len()));
    for version in 1..newest {
        for (object, _, rows) in objects(file) {
            let full = of_version(newest);
            full.connection.execute_batch(rows).unwrap();
            let old = of_version(version);
            copy(&full, &old);
            let store = Store::new(object, old.clone());
            let read = store.read().unwrap().unwrap();
            let original = Store::new(object, full).read().unwrap().unwrap();
            assert_eq!(read, as_of(version, original), "version {version}");
            assert_eq!(tables(&old), fresh, "version {version}");
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
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    rows.map(|values| format!("INSERT INTO {table} ({}) VALUES ({values});", columns.join(","))).collect()
}

/// What the tables of a version cannot say has the value that it is given since.
fn as_of(version: usize, mut rows: Rows) -> Rows {
    if version < 2 {
        (rows.resource.payment, rows.resource.refunds, rows.resource.tries, rows.bindings) =
            (None, Vec::new(), Vec::new(), Vec::new());
        rows.calls.iter_mut().for_each(|call| call.kind = CallKind::Charge);
    }
    if version < 3 {
        (rows.resource.version, rows.resource.audit_through) = (0, 0);
        rows.jobs.iter_mut().for_each(|job| (job.sends, job.next_at_ms) = (0, 0));
    }
    if version < 4 {
        rows.resource.ride.iter_mut().for_each(|ride| ride.erased_at_ms = None);
    }
    if version < 5 {
        rows.keys.iter_mut().for_each(|key| key.replays = 0);
    }
    rows
}

/// Writes the file of the newest version: few objects with much that is different. Once, when a version is released:
/// `cargo test --test simulation tables::write_objects -- --ignored --nocapture`
#[test]
#[ignore = "writes a file"]
fn write_objects() {
    let (seen, file) = (RefCell::new(BTreeSet::new()), Rc::new(RefCell::new(String::new())));
    let written = Rc::clone(&file);
    watch(0..1_500, move |sqlite, rows| {
        let mut features = BTreeSet::new();
        let mut dump = String::new();
        for (table, _) in tables(sqlite).into_iter().filter(|(table, _)| table != "schema_version") {
            let columns = sqlite.connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns: Vec<String> = columns.column_names().map(str::to_owned).collect();
            // Of what is only ever added two lines are enough.
            let most = if matches!(table.as_str(), "timeline" | "audit_records") { 2 } else { usize::MAX };
            let rows = inserts(sqlite, &table, &columns);
            rows.iter().take(most).for_each(|insert| dump += &format!("{insert}\n"));
            for column in columns {
                let sql = format!("SELECT {column} FROM {table}");
                let cells = sqlite.query::<serde_json::Map<String, Value>>(&sql, vec![]).unwrap();
                cells.iter().flat_map(|row| row.values()).for_each(|cell| {
                    let parsed = cell.as_str().and_then(|text| serde_json::from_str(text).ok());
                    features_of(&format!("{table}.{column}"), parsed.as_ref().unwrap_or(cell), &mut features);
                });
            }
        }
        let new = features.difference(&seen.borrow()).count();
        if new >= 3 {
            seen.borrow_mut().extend(features);
            let header = format!("-- object {}\n-- shows {}\n", rows.object.to_hex(), shows(rows));
            *written.borrow_mut() += &(header + &dump);
        }
    });
    let path = format!("{}/tests/simulation/objects/{}.sql", env!("CARGO_MANIFEST_DIR"), MIGRATIONS.len());
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

#[test]
fn replay() {
    campaign::replay(WORLD, &[], play);
}
