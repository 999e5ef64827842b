//! What stands beside an object's state: the newest lines of its timeline and the newest facts, until they go into a row of their own.

use ::payments::payment::records::AuditRecord;
use once::context::Bug;
use once::id::Owner;
use once::object_state::TimelineEntry;
use paid_once::object::log;

use crate::disk::{Sqlite, store_of};
use crate::schedule::EPOCH_MS;
use crate::tables::{context, object};

fn entry(number: u32) -> TimelineEntry {
    TimelineEntry { key_id: 1, at_ms: 1, attempt: 1, event: "step".to_owned(), detail: number.to_string() }
}

/// The first fifty lines of a timeline and the newest hundred and fifty stay, however they come.
#[test]
fn the_timeline_keeps_its_beginning_and_its_end() {
    for batch in [1, 7, 199, 200, 201, 1000] {
        let store = store_of(object(), Sqlite::new());
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

/// A commit writes one row, as long as what has been written down so far is short; then that goes into a row of its own. What a release before
/// has written stands before it.
#[test]
fn a_commit_writes_one_row_until_what_stands_beside_the_state_is_long() {
    let sqlite = Sqlite::new();
    let first = 1;
    let add = |number: u32| {
        let added: Result<(), Bug> =
            store_of(object(), sqlite.clone()).transaction(&context(EPOCH_MS), |rows| {
                rows.appended.timeline.push(entry(number));
                rows.appended.facts.audit.push(AuditRecord {
                    audit_id: 0,
                    at_ms: EPOCH_MS,
                    actor: Owner::Account("ada".to_owned()),
                    action: "payment.captured",
                    subject: String::new(),
                    data: number.into(),
                });
                Ok(())
            });
        added.unwrap();
    };
    let numbers = |sql: &str| -> Vec<u32> {
        let mut statement = sqlite.connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let apart = || numbers("SELECT length(lines) + length(facts) FROM timeline WHERE id > 0 ORDER BY id");
    add(first);
    // As version 1 has left it.
    sqlite
        .connection
        .execute_batch(
            "INSERT INTO timeline (lines, facts) SELECT lines, facts FROM timeline WHERE id = 0;
             UPDATE timeline SET lines = NULL, facts = NULL WHERE id = 0;",
        )
        .unwrap();
    let mut last = first;
    while apart().len() < 3 {
        last += 1;
        add(last);
    }
    let lengths = apart();
    assert!(lengths[1..].iter().all(|length| (8_192..8_600).contains(length)), "{lengths:?}");
    last += 1;
    add(last);
    assert_eq!(numbers("SELECT json_array_length(lines) FROM timeline WHERE id = 0"), [1]);
    let store = store_of(object(), sqlite.clone());
    let lines = store.timeline().unwrap();
    assert!(lines.iter().map(|line| line.detail.clone()).eq((first..=last).map(|number| number.to_string())));
    let records = log::audit_after(&store, 0, u32::MAX).unwrap();
    assert!(
        records.iter().map(|record| record.data.clone()).eq((first..=last).map(|number| number.to_string()))
    );
    assert!(records.iter().map(|record| record.audit_id).eq(1..=u64::from(last)));
    // Some stand beside the state, and the others do not.
    for (after, rest) in (0..=u64::from(last)).map(|after| (after, &records[after as usize..])) {
        assert_eq!(log::audit_after(&store, after, u32::MAX).unwrap(), rest, "after {after}");
        assert_eq!(log::audit_after(&store, after, 1).unwrap(), rest[..rest.len().min(1)]);
    }
}

/// What an incarnation remembers is not written over what a hand has mended meanwhile: the state, and what stands beside it.
#[test]
fn what_a_hand_has_mended_stays() {
    let sqlite = Sqlite::new();
    let store = store_of(object(), sqlite.clone());
    let add = |number: u32| {
        let added: Result<(), Bug> = store.transaction(&context(EPOCH_MS), |rows| {
            rows.appended.timeline.push(entry(number));
            Ok(())
        });
        added.unwrap();
    };
    add(1);
    sqlite
        .connection
        .execute_batch(
            "UPDATE timeline SET state = json_set(state, '$.state.resource.audit_through', 41), lines = replace(lines, '\"1\"', '\"2\"')",
        )
        .unwrap();
    assert_eq!(store.known().unwrap().unwrap().resource.audit_through, 0, "it is remembered as it was");
    add(3);
    assert_eq!(store.known().unwrap().unwrap().resource.audit_through, 41);
    let lines = store.timeline().unwrap();
    assert!(lines.iter().map(|line| line.detail.as_str()).eq(["2", "3"]), "{lines:?}");
}
