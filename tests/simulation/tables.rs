//! An object's state on SQLite: what the histories commit is read back as it is (disk.rs), and what cannot be is refused.
//!
//! ```text
//! cargo test --test simulation tables                                              all of this
//! SIM_TABLES_HISTORIES=100000 cargo test --test simulation tables                  more histories
//! SIM_TABLES_SEED=7 cargo test --test simulation tables::replay -- --nocapture     one history, told step by step
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use ::payments::engine::{self, Context, Limits, ObjectState, Payments};
use ::payments::payment::PaymentState;
use ::payments::payment::records::JobKind;
use ::payments::providers::Provider;
use once::context::{Bug, Times};
use once::id::{ObjectId, RequestId};
use once::replays::REPLAYED;
use once_object::store::Store;
use paid_once::object::events::{self, RECORDS_MAX};
use paid_once::object::log::{self, EVENTS_NEWEST};
use paid_once::webhooks::{Event, EventKind, Ingested, OperationNotice};

use crate::campaign::{self, amount, play_random};
use crate::disk::{Disks, Field, Sqlite, store_of};
use crate::history::Outcome;
use crate::invariants::KEPT;
use crate::old_objects::of_version;
use crate::old_tables::MIGRATIONS;
use crate::payments;
use crate::report::Name;
use crate::schedule::EPOCH_MS;

mod nested;

const WORLD: &str = "SIM_TABLES";
/// How many histories are played, and how many if it is to be thorough.
const HISTORIES: (u64, u64) = (400, 2_000);
/// Within so many histories every forgotten column must be found.
const FOUND_WITHIN: u64 = 6_000;

/// The history of a seed, on disks.
fn history(seed: u64, disks: &Disks, trace: bool) -> Outcome {
    payments::random(seed, None, trace).on(disks).play()
}

fn play(name: &Name, trace: bool) -> Outcome {
    let Name::Seed(_, seed) = name else { panic!("only seeds are played here") };
    history(*seed, &Disks::default(), trace)
}

/// What the histories must reach, or they have stopped exercising the tables.
const EXERCISED: [&str; 15] = [
    "begin: expired, refused",
    "begin: replay",
    "jobs: over, forgotten",
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
    "webhooks: taken in",
];

#[test]
fn what_is_committed_is_read_back_as_it_is() {
    let histories = amount("SIM_TABLES_HISTORIES", HISTORIES.0, HISTORIES.1);
    play_random(&|seed| Name::Seed(WORLD, seed), histories, &EXERCISED, play);
}

/// A capture failed while a refund of it was under way, and no state of that could be written.
#[test]
fn a_capture_that_fails_while_it_is_given_back_is_kept() {
    assert!(history(981, &Disks::default(), false).violations.is_empty());
}

/// The control: a store that forgets a field, any field of the state or of the timeline, does not read back what was committed.
#[test]
fn every_forgotten_field_is_found() {
    let mut all: BTreeSet<Field> = BTreeSet::new();
    let mut first_written = Vec::new();
    for seed in 0..60 {
        let written = Rc::new(RefCell::new(BTreeSet::new()));
        let disks = Disks { written: Some(Rc::clone(&written)), ..Disks::default() };
        history(seed, &disks, false);
        for field in written.take() {
            if all.insert(field.clone()) {
                first_written.push((seed, field));
            }
        }
    }
    assert!(all.len() > 200, "only {} fields are written", all.len());
    for (seed, field) in first_written {
        let what = field.to_string();
        let disks = Disks { forgets: Some(Rc::new(field)), ..Disks::default() };
        let found = (seed..FOUND_WITHIN).find(|seed| {
            let violations = history(*seed, &disks, false).violations;
            violations.iter().any(|violation| violation.invariant == KEPT)
        });
        let found = found.unwrap_or_else(|| panic!("{what}: not found within {FOUND_WITHIN} histories"));
        println!("{what:<80} found in history {found}");
    }
}

/// Plays histories, and looks at every object's disk after each commit.
pub(crate) fn watch(seeds: std::ops::Range<u64>, watch: impl Fn(&Sqlite, &ObjectState) + 'static) {
    let disks = Disks { watched: Some(Rc::new(watch)), ..Disks::default() };
    for seed in seeds {
        let violations = history(seed, &disks, false).violations;
        assert!(violations.is_empty(), "{WORLD}_SEED={seed}: {violations:?}");
    }
}

/// What can be wrong with a state: a change, and where it must strike at least once within the histories that are tried.
const CORRUPTIONS: &[&str] = &[
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle', 'closed') WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].channel', 'fax') WHERE id = 0 AND json_type(state, '$.state.keys[0].channel') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].attempt', 0) WHERE id = 0 AND json_type(state, '$.state.keys[0].attempt') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].owner', 'nobody') WHERE id = 0 AND json_type(state, '$.state.keys[0].owner') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].key_hash', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].key_hash') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].created_at_ms', -1) WHERE id = 0 AND json_type(state, '$.state.keys[0].created_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].created_at_ms', 'yesterday') WHERE id = 0 AND json_type(state, '$.state.keys[0].created_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].replays', -1) WHERE id = 0 AND json_type(state, '$.state.keys[0].replays') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[1].key_hash', state ->> '$.state.keys[0].key_hash') WHERE id = 0 AND json_type(state, '$.state.keys[1].key_hash') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[1].key_id', 1) WHERE id = 0 AND json_type(state, '$.state.keys[1].key_id') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.operation', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.operation') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.operation', json('{}')) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.operation') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.recovery_point', 'nowhere') WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.recovery_point') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.lease.until_ms', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.lease.until_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.resume_at_ms', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.resume_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.last_run_at_ms', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.last_run_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.open.failures', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.open.failures') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.finished.response.status', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.finished.response.status') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.finished.response.headers', '[') WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.finished.response.headers') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.finished.response.body', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.finished.response.body') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.finished.response.body.text', replace(hex(zeroblob(524289)), '00', 'xx')) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.finished.response.body.text') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.finished.finished_at_ms', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.finished.finished_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.expired.finished_at_ms', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.expired.finished_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.keys[0].lifecycle.finished.expires_at_ms', NULL) WHERE id = 0 AND json_type(state, '$.state.keys[0].lifecycle.finished.expires_at_ms') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].key_id', 999) WHERE id = 0 AND json_type(state, '$.state.calls[0].key_id') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].kind', 'gift') WHERE id = 0 AND json_type(state, '$.state.calls[0].kind') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].provider', 'nobody') WHERE id = 0 AND json_type(state, '$.state.calls[0].provider') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].retry_policy', 'whatever') WHERE id = 0 AND json_type(state, '$.state.calls[0].retry_policy') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].request', json('{}')) WHERE id = 0 AND json_type(state, '$.state.calls[0].request') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].state', 'sent') WHERE id = 0 AND json_type(state, '$.state.calls[0].state') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].state.settled', json('{}')) WHERE id = 0 AND json_type(state, '$.state.calls[0].state.settled') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].sends', -1) WHERE id = 0 AND json_type(state, '$.state.calls[0].sends') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].maybe_executed', 2) WHERE id = 0 AND json_type(state, '$.state.calls[0].maybe_executed') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].answer_is_stored', 2) WHERE id = 0 AND json_type(state, '$.state.calls[0].answer_is_stored') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[0].look_up', json('{}')) WHERE id = 0 AND json_type(state, '$.state.calls[0].look_up') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[1].derived_key', state ->> '$.state.calls[0].derived_key') WHERE id = 0 AND json_type(state, '$.state.calls[1].derived_key') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.calls[1].call_id', 1) WHERE id = 0 AND json_type(state, '$.state.calls[1].call_id') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.payment.amount', 0) WHERE id = 0 AND json_type(state, '$.state.resource.payment.amount') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.payment.amount', -1) WHERE id = 0 AND json_type(state, '$.state.resource.payment.amount') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.payment.state.amount_minor', 1000000000) WHERE id = 0 AND json_type(state, '$.state.resource.payment.state.amount_minor') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.payment', json('{}')) WHERE id = 0 AND json_type(state, '$.state.resource.payment') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.payment.state.state', 'lost') WHERE id = 0 AND json_type(state, '$.state.resource.payment.state.state') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.refunds[0].amount', 1000000000) WHERE id = 0 AND json_type(state, '$.state.resource.refunds[0].amount') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.refunds[0].key_id', 999) WHERE id = 0 AND json_type(state, '$.state.resource.refunds[0].key_id') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.refunds[0].amount', 0) WHERE id = 0 AND json_type(state, '$.state.resource.refunds[0].amount') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.refunds[0].state.state', 'promised') WHERE id = 0 AND json_type(state, '$.state.resource.refunds[0].state.state') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.refunds[0]', NULL) WHERE id = 0 AND json_type(state, '$.state.resource.refunds[0]') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.jobs[0].kind', 'dance') WHERE id = 0 AND json_type(state, '$.state.jobs[0].kind') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.jobs[0].job_id', NULL) WHERE id = 0 AND json_type(state, '$.state.jobs[0].job_id') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.bindings[0].object', 'here') WHERE id = 0 AND json_type(state, '$.state.bindings[0].object') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.bindings[0].owner', '') WHERE id = 0 AND json_type(state, '$.state.bindings[0].owner') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.version', -1) WHERE id = 0 AND json_type(state, '$.state.resource.version') IS NOT NULL",
    "UPDATE timeline SET state = json_replace(state, '$.state.resource.audit_newest', NULL) WHERE id = 0 AND json_type(state, '$.state.resource.audit_newest') IS NOT NULL",
    "UPDATE timeline SET state = json_set(state, '$.version', 3) WHERE id = 0",
    "UPDATE timeline SET state = json_remove(state, '$.version') WHERE id = 0",
    "UPDATE timeline SET state = json_remove(state, '$.state.keys[0]') WHERE id = 0 AND json_array_length(state, '$.state.keys') = 1 AND state -> '$.state.calls[0]' IS NOT NULL",
    "UPDATE timeline SET state = substr(state, 1, 100) WHERE id = 0",
    "UPDATE timeline SET state = NULL WHERE id = 0",
    "DELETE FROM timeline WHERE id = 0",
];

/// A state that cannot be is refused. Nothing is made up in its place.
#[test]
fn corrupt_states_are_refused() {
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
                let read = store_of(rows.object, sqlite.clone()).read();
                assert!(changed.is_err() || read.is_err(), "{corruption}: read as {read:?}");
            }
            batch("ROLLBACK TO corrupt; RELEASE corrupt");
        }
    });
    for (corruption, struck) in CORRUPTIONS.iter().zip(struck.borrow().iter()) {
        assert!(*struck > 0, "never tried: {corruption}");
    }
}

pub(crate) fn object() -> ObjectId {
    ObjectId::from_bytes([7; 32])
}

pub(crate) fn context(now_ms: u64) -> Context {
    engine::context(now_ms, 500, Times::default(), Limits::default())
}

/// Replays are written with the next commit that comes anyway, or when there are many. Until then they are seen in their incarnation alone.
#[test]
fn replays_are_written_with_the_next_commit() {
    let rows = paid();
    let sqlite = Sqlite::new();
    let store = || store_of(rows.object, sqlite.clone());
    let change = |store: &Store<Payments, Sqlite>, change: &dyn Fn(&mut ObjectState)| {
        let done: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |now| {
            change(now);
            Ok(())
        });
        done.unwrap();
    };
    let requests = Cell::new(0);
    let replay = |store: &Store<Payments, Sqlite>| {
        store.read().unwrap();
        requests.set(requests.get() + 1);
        let request = RequestId(format!("req_{}", requests.get()));
        for is_new in [true, false] {
            let counted = store.replayed(1, &request, &context(EPOCH_MS)).unwrap();
            assert_eq!(counted, is_new, "who asks twice under one id is counted once");
        }
    };
    let replays = |store: &Store<Payments, Sqlite>| {
        let lines = store.timeline().unwrap().iter().filter(|line| line.event == REPLAYED).count();
        (store.read_counted().unwrap().unwrap().keys[0].replays, lines)
    };
    let first = store();
    change(&first, &|now| {
        rows.clone_into(now);
        now.keys.iter_mut().for_each(|key| key.replays = 0);
    });
    replay(&first);
    replay(&first);
    assert_eq!((replays(&first), replays(&store())), ((2, 2), (0, 0)), "nothing is written");
    change(&first, &|_| {});
    assert_eq!(replays(&store()), (0, 0), "nor by a transaction that changes nothing");
    change(&first, &|now| now.resource.version += 1);
    assert_eq!((replays(&first), replays(&store())), ((2, 2), (2, 2)));
    let second = store();
    (0..13).for_each(|_| replay(&second));
    assert_eq!((replays(&second), replays(&store())), ((15, 15), (2, 2)), "lost, should it end now");
    replay(&second);
    assert_eq!((replays(&second), replays(&store())), ((16, 16), (16, 16)));
    (0..20).for_each(|_| replay(&second));
    assert_eq!((replays(&second), replays(&store())), ((36, 16), (32, 16)));
}

/// A payment in its object, by whatever history: one that a provider has taken money for.
pub(crate) fn paid() -> ObjectState {
    let found = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&found);
    watch(0..12, move |_, rows| {
        let is_paid = |rows: &ObjectState| {
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
    let mut rows = found.take().expect("a history in which Adyen was paid");
    // Adyen has told of the capture, too: it is not only believed.
    rows.resource.payment.as_mut().unwrap().ended_at_ms = Some(1);
    rows
}

/// A provider tells for ever: of nothing much, and of what contradicts all that we know. Each time it is taken for what it is, and
/// the rows do not grow.
#[test]
fn events_that_never_end_add_no_rows_for_ever() {
    let rows = paid();
    let sqlite = Sqlite::new();
    let store = store_of(rows.object, sqlite.clone());
    let payment = rows.resource.payment.clone().unwrap().provider_payment.unwrap();
    let put: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |now| {
        *now = rows;
        Ok(())
    });
    put.unwrap();
    let count =
        |sql: &str| u64::from(sqlite.connection.query_row::<u32, _, _>(sql, [], |row| row.get(0)).unwrap());
    let counts = || {
        let state = "SELECT coalesce(json_array_length(state, '$.state.KEY'), 0) FROM timeline WHERE id = 0";
        let state = ["jobs", "calls", "keys"].map(|name| count(&state.replace("KEY", name)));
        let events =
            count("SELECT count(*) FROM timeline, json_each(facts, '$.events') WHERE facts IS NOT NULL");
        let audit =
            count("SELECT count(*) FROM timeline, json_each(facts, '$.audit') WHERE facts IS NOT NULL");
        [events, audit, store.timeline().unwrap().len() as u64, state[0], state[1], state[2]]
    };
    let before = counts();
    for number in 0..1_500_u64 {
        let contradicts = number % 3 == 0;
        let event = Event {
            event_id: format!("event-{number}"),
            provider: Provider::Adyen,
            account: None,
            kind: "CANCELLATION".to_owned(),
            news: if contradicts { voided(&payment, &format!("VOID{number}")) } else { EventKind::Other },
            is_unwritten: false,
        };
        let ctx = context(EPOCH_MS + number);
        let taken = events::take(&store, &event, &ctx).unwrap();
        assert_eq!(matches!(taken, Ingested::Contradiction { .. }), contradicts, "{number}: {taken:?}");
        // It comes again at once: taken in, or told again to whoever keeps it for a person.
        let again = events::take(&store, &event, &ctx).unwrap();
        assert_eq!(again, if contradicts { taken } else { Ingested::Duplicate }, "{number}");
        assert!(log::events(&store).unwrap().len() as u64 <= EVENTS_NEWEST.into(), "{number}");
    }
    let grown: Vec<u64> = counts().iter().zip(before).map(|(now, before)| now - before).collect();
    assert_eq!(grown[..2], [EVENTS_NEWEST.into(), RECORDS_MAX]);
    assert!(grown[2] <= 200 && grown[3..].iter().sum::<u64>() <= 1, "{grown:?}");
    let rows = count("SELECT count(*) FROM timeline");
    assert!(rows <= 1 + u64::from(EVENTS_NEWEST) + RECORDS_MAX + 200, "{rows} rows");
}

/// What cannot be: a payment that was captured was voided.
fn voided(payment: &str, id: &str) -> EventKind {
    EventKind::Cancellation(OperationNotice {
        id: id.to_owned(),
        payment: payment.to_owned(),
        provider_key: None,
        amount_minor: 100,
        currency: "usd".to_owned(),
        success: true,
        reason: String::new(),
        undone: None,
        was_taken: false,
        at_ms: None,
        card: None,
    })
}

/// Two providers may give two events one id: each is taken in, and each is known when it comes again. Of what could not be written down its record tells,
/// and nobody else.
#[test]
fn an_event_is_known_by_its_provider_and_its_id() {
    let rows = paid();
    let store = store_of(rows.object, Sqlite::new());
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
        is_unwritten: false,
    };
    let contradicts = event(Provider::Adyen, voided(&payment, "VOID1"));
    let harmless = event(Provider::Stripe, EventKind::Other);
    let take = |event: &Event| events::take(&store, event, &context(EPOCH_MS)).unwrap();
    let said = take(&contradicts);
    assert!(matches!(said, Ingested::Contradiction { .. }), "{said:?}");
    assert_eq!(take(&harmless), Ingested::Applied, "of another provider");
    assert_eq!((take(&contradicts), take(&harmless)), (said, Ingested::Duplicate), "each for itself");
    let unwritten = |number: u64| {
        let news = voided(&payment, &format!("VOID{}", number + 2));
        Event { event_id: format!("unwritten-{number}"), is_unwritten: true, ..event(Provider::Adyen, news) }
    };
    for number in 0..RECORDS_MAX - 1 {
        assert_eq!(take(&unwritten(number)), Ingested::Applied, "its record tells of it");
        assert_eq!(take(&unwritten(number)), Ingested::Duplicate, "and of one that is known already, too");
    }
    let further = take(&unwritten(RECORDS_MAX));
    assert!(matches!(further, Ingested::Contradiction { .. }), "without a record nothing does: {further:?}");
}

/// What was known when an event's id alone was its key is known since.
#[test]
fn events_of_before_are_known_by_their_provider() {
    let sqlite = of_version(MIGRATIONS.len());
    let known = "INSERT INTO webhook_events (event_id, provider, kind, received_at_ms) VALUES ('event-1', 'stripe', 'k', 1)";
    sqlite.connection.execute(known, []).unwrap();
    let store = store_of(object(), sqlite);
    assert_eq!(log::knows_event(&store, Provider::Stripe, "event-1"), Ok(true));
    assert_eq!(log::knows_event(&store, Provider::Adyen, "event-1"), Ok(false));
    assert_eq!(log::events(&store).unwrap().len(), 1);
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
    let store = store_of(rows.object, sqlite.clone());

    let refused: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        Err(Bug("refused".into()))
    });
    assert_eq!(refused, Err(Bug("refused".into())));
    assert_eq!((store.read(), sqlite.take_alarm()), (Ok(None), None));

    let broken: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        now.calls.iter_mut().for_each(|call| call.key_id = 999);
        Ok(())
    });
    assert!(broken.unwrap_err().0.contains("a call of no key"), "{rows:?}");
    assert_eq!((store.read(), sqlite.take_alarm()), (Ok(None), None));

    let kept: Result<(), Bug> = store.transaction(&ctx, |now| {
        *now = rows.clone();
        Ok(())
    });
    kept.unwrap();
    let read = store.read().unwrap().unwrap();
    assert_eq!((&read.keys, &read.calls), (&rows.keys, &rows.calls));
    assert!(sqlite.take_alarm().is_some());
}

#[test]
fn an_object_that_was_only_asked_keeps_nothing() {
    let sqlite = Sqlite::new();
    assert_eq!(store_of(object(), sqlite.clone()).read(), Ok(None));
    let tables: u32 =
        sqlite.connection.query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 0);
}

#[test]
fn replay() {
    campaign::replay([WORLD, WORLD], &[], play);
}
