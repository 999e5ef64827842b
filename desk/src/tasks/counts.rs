//! What waits in a place of the read model, as SQL: dead letters, open breaks, open keys, reservations that end.

use serde::{Deserialize, Serialize};
use worker::Result;

use crate::tasks::late::GRACE_MS;
use runtime::db::Db;

/// Until when a reservation can be captured, in ms since the epoch.
pub(crate) const CAPTURE_BEFORE_MS: &str = "unixepoch(shown ->> '$.capture_before') * 1000";
/// A reservation that ends within so long is shown to a person, in ms: a day.
const ENDS_SOON_MS: u64 = 86_400_000;

/// What of a payment says that its reservation ends soon, given until when it can be captured.
pub(crate) fn ends_soon(capture_before_ms: &str, now_ms: u64) -> String {
    let until_ms = now_ms.saturating_add(ENDS_SOON_MS);
    format!("status = 'requires_capture' AND status != 'succeeded' AND {capture_before_ms} <= {until_ms}")
}

/// What waits in one place, or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Jobs, and webhooks, that failed for good.
    pub(crate) dead: u64,
    /// Open breaks.
    pub(crate) breaks: u64,
    /// What the gate has passed on that nobody knows the end of.
    pub(crate) gate: u64,
    /// Keys that are not complete.
    pub(crate) open: u64,
    /// Those of them whose provider has not said whether it took the money.
    pub(crate) in_doubt: u64,
    /// Those of them whose alarm is late, or that need a person.
    pub(crate) late_or_flagged: u64,
    /// Reservations that end within a day.
    pub(crate) ending: u64,
}

impl Counts {
    /// Those of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            dead: self.dead.saturating_add(other.dead),
            breaks: self.breaks.saturating_add(other.breaks),
            gate: self.gate.saturating_add(other.gate),
            open: self.open.saturating_add(other.open),
            in_doubt: self.in_doubt.saturating_add(other.in_doubt),
            late_or_flagged: self.late_or_flagged.saturating_add(other.late_or_flagged),
            ending: self.ending.saturating_add(other.ending),
        }
    }
}

/// What is counted where places are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What the menu of each page shows: dead letters, breaks, and what the gate has passed on.
    Menu,
    /// All of it.
    All,
}

/// Of one place.
pub(crate) async fn of_place(db: &Db, now_ms: u64) -> Result<Counts> {
    Ok(db.first(&sql(Scope::All, now_ms), Vec::new()).await?.unwrap_or_default())
}

/// In one row, with the names of [`Counts`].
pub(crate) fn sql(scope: Scope, now_ms: u64) -> String {
    if scope == Scope::Menu {
        return WAITING.to_owned();
    }
    format!("SELECT * FROM ({}) CROSS JOIN ({}) CROSS JOIN ({})", WAITING, open_keys(now_ms), ending(now_ms))
}

/// What makes an open key one that a person should look at.
pub(crate) fn late_or_flagged(now_ms: u64) -> String {
    format!("(flagged = 1 OR coalesce(wake_at_ms, {now_ms}) < {})", now_ms.saturating_sub(GRACE_MS))
}

/// What waits for an operator.
const WAITING: &str = "SELECT (SELECT count(*) FROM jobs WHERE state = 'dead')
        + (SELECT count(*) FROM inbox WHERE state = 'dead') AS dead,
    (SELECT count(*) FROM breaks WHERE state = 'open') AS breaks,
    (SELECT count(*) FROM gate_operations WHERE state = 'unknown' AND state != 'done') AS gate";

/// How the open keys stand.
fn open_keys(now_ms: u64) -> String {
    format!(
        "SELECT count(*) AS open, coalesce(sum(in_doubt), 0) AS in_doubt,
            coalesce(sum({}), 0) AS late_or_flagged
         FROM keys WHERE status = 'open'",
        late_or_flagged(now_ms)
    )
}

/// How many reservations end soon.
fn ending(now_ms: u64) -> String {
    let ends_soon = ends_soon(CAPTURE_BEFORE_MS, now_ms);
    format!("SELECT count(*) AS ending FROM payments WHERE {ends_soon}")
}

#[cfg(test)]
mod tests {
    use crate::tasks::late::tests::read_model;
    use crate::tasks::late::{GRACE_MS, KEYS_WOKEN, OPEN};

    const NOW_MS: u64 = 1_900_000_000_000;
    const MINUTE_MS: u64 = 60_000;
    /// How many objects the sweep of these tests wakes.
    const MOST: u64 = 2;

    /// Keys of objects that do not answer.
    struct Silent(rusqlite::Connection);

    impl Silent {
        fn new() -> Self {
            Self(read_model())
        }

        fn due(&self, object: &str, at_ms: u64) {
            let sql = "INSERT INTO keys (object, key_id, version, key_hash, owner, status, recovery_point, attempts, failures, in_doubt,
                flagged, wake_at_ms, created_at_ms, updated_at_ms)
             VALUES (?1, 1, 1, 'h', 'o', 'open', 'started', 1, 0, 0, 0, ?2, 1, 1)";
            self.0.execute(sql, (object, at_ms.cast_signed())).unwrap();
        }

        /// How many the gauge and the desk count.
        fn late(&self, now_ms: u64) -> u64 {
            let sql = super::open_keys(now_ms);
            self.0.query_row(&sql, (), |row| row.get::<_, i64>("late_or_flagged")).unwrap().cast_unsigned()
        }

        /// Which objects a sweep asks. None of them answers, so nothing of them changes.
        fn sweep(&self, now_ms: u64) -> Vec<String> {
            let due_ms = (now_ms - GRACE_MS).cast_signed();
            let mut open = self.0.prepare_cached(OPEN).unwrap();
            let asked = open.query_map((due_ms, MOST.cast_signed()), |row| row.get(0)).unwrap();
            let asked: Vec<String> = asked.map(Result::unwrap).collect();
            for object in &asked {
                self.0.execute(KEYS_WOKEN, (object, due_ms)).unwrap();
            }
            asked
        }
    }

    /// The alert asks that it was so at each moment of an hour.
    #[test]
    fn a_key_whose_object_cannot_be_woken_is_late_at_each_moment() {
        let silent = Silent::new();
        silent.due("a", NOW_MS);
        let late = |minute: u64| {
            let now_ms = NOW_MS + minute * MINUTE_MS;
            if minute.is_multiple_of(5) {
                silent.sweep(now_ms);
            }
            silent.late(now_ms)
        };
        assert_eq!((0..3).map(late).sum::<u64>(), 0, "it is not late yet");
        assert!((3..63).all(|minute| late(minute) == 1), "it is late until its object says otherwise");
        silent
            .0
            .execute("UPDATE keys SET wake_at_ms = ?1", [(NOW_MS + 70 * MINUTE_MS).cast_signed()])
            .unwrap();
        assert_eq!(late(63), 0);
    }

    #[test]
    fn those_that_do_not_answer_keep_no_other_from_being_woken() {
        let silent = Silent::new();
        for object in ["a", "b", "c"] {
            silent.due(object, NOW_MS);
        }
        silent.due("later", NOW_MS + 5 * MINUTE_MS);
        let sweep = |minute: u64| silent.sweep(NOW_MS + minute * MINUTE_MS);
        let asked: Vec<Vec<String>> = [5, 10, 15].map(sweep).into();
        assert_eq!(asked, [vec!["a", "b"], vec!["c", "a"], vec!["b", "later"]]);
        assert_eq!(silent.late(NOW_MS + 15 * MINUTE_MS), 4);
    }

    #[test]
    fn a_key_that_is_not_due_is_not_late_because_its_object_was_woken() {
        let silent = Silent::new();
        silent.due("a", NOW_MS);
        let sql = "INSERT INTO keys SELECT object, 2, version, key_hash, owner, operation, status, recovery_point, attempts, failures, in_doubt, flagged,
            response_status, wake_at_ms + 3600000, created_at_ms, finished_at_ms, updated_at_ms, expires_at_ms FROM keys";
        silent.0.execute(sql, ()).unwrap();
        silent.sweep(NOW_MS + 5 * MINUTE_MS);
        assert_eq!(silent.late(NOW_MS + 5 * MINUTE_MS), 1);
    }
}
