//! What waits in a place of the read model, as SQL: dead letters, open breaks, open keys, reservations that end.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Of open breaks and dead letters how many there are of each kind that there is any of.
    #[serde(deserialize_with = "kinds", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kinds: Kinds,
}

/// Numbers by their names: [`BREAKS`] or [`DEAD`], and a kind.
pub(crate) type Kinds = BTreeMap<String, u64>;

/// What the name of a kind of breaks begins with.
pub(crate) const BREAKS: &str = "breaks:";
/// The same of a kind of dead letters.
pub(crate) const DEAD: &str = "dead:";

/// As SQLite gives it, as text, and as the result of a run has it.
fn kinds<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Kinds, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Numbers(Kinds),
    }
    match Form::deserialize(from)? {
        Form::Text(text) => serde_json::from_str(&text).map_err(serde::de::Error::custom),
        Form::Numbers(numbers) => Ok(numbers),
    }
}

impl Counts {
    /// Those of both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        for (name, number) in other.kinds {
            let sum = self.kinds.entry(name).or_default();
            *sum = sum.saturating_add(number);
        }
        Self {
            dead: self.dead.saturating_add(other.dead),
            breaks: self.breaks.saturating_add(other.breaks),
            gate: self.gate.saturating_add(other.gate),
            open: self.open.saturating_add(other.open),
            in_doubt: self.in_doubt.saturating_add(other.in_doubt),
            late_or_flagged: self.late_or_flagged.saturating_add(other.late_or_flagged),
            ending: self.ending.saturating_add(other.ending),
            kinds: self.kinds,
        }
    }

    /// How many there are of each kind whose names begin so, with these as 0 where there are none. What a shard has counted that does not say of which
    /// kind it is stands under `other`: `all` is what they should come to.
    pub(crate) fn of_kinds<'a>(
        &'a self,
        prefix: &str,
        known: impl Iterator<Item = &'a str>,
        all: u64,
    ) -> BTreeMap<&'a str, u64> {
        let mut numbers: BTreeMap<&str, u64> = known.map(|kind| (kind, 0)).collect();
        numbers.extend(
            self.kinds.iter().filter_map(|(name, number)| Some((name.strip_prefix(prefix)?, *number))),
        );
        let rest = all.saturating_sub(numbers.values().sum());
        if rest > 0 {
            numbers.insert("other", rest);
        }
        numbers
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

/// Of one place, and how large it is, in bytes, if it says so.
pub(crate) async fn of_place(db: &Db, scope: Scope, now_ms: u64) -> Result<(Counts, Option<u64>)> {
    let (counts, bytes) = db.first_and_bytes(&sql(scope, now_ms), Vec::new()).await?;
    Ok((counts.unwrap_or_default(), bytes))
}

/// In one row, with the names of [`Counts`].
pub(crate) fn sql(scope: Scope, now_ms: u64) -> String {
    if scope == Scope::Menu {
        return WAITING.to_owned();
    }
    format!(
        "SELECT * FROM ({WAITING}) CROSS JOIN ({}) CROSS JOIN ({}) CROSS JOIN ({KINDS})",
        open_keys(now_ms),
        ending(now_ms)
    )
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

/// The same by kinds, as one text.
const KINDS: &str = "SELECT json_group_object(name, number) AS kinds FROM (
    SELECT 'breaks:' || kind AS name, count(*) AS number FROM breaks WHERE state = 'open' GROUP BY kind
    UNION ALL SELECT 'dead:' || kind, count(*) FROM jobs WHERE state = 'dead' GROUP BY kind
    UNION ALL SELECT 'dead:webhook', count(*) FROM inbox WHERE state = 'dead')";

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
    use super::{BREAKS, Counts, DEAD, Scope};
    use crate::break_kinds::KINDS;
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

    /// As one reads it who asks the place.
    fn counted(model: &rusqlite::Connection) -> Counts {
        let mut statement = model.prepare(&super::sql(Scope::All, NOW_MS)).unwrap();
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let row = statement.query_row((), |row| {
            let value = |at: usize| match row.get_ref(at)? {
                rusqlite::types::ValueRef::Text(_) => row.get::<_, String>(at).map(serde_json::Value::from),
                _ => row.get::<_, i64>(at).map(serde_json::Value::from),
            };
            names.iter().enumerate().map(|(at, name)| Ok((name.clone(), value(at)?))).collect()
        });
        serde_json::from_value(serde_json::Value::Object(row.unwrap())).unwrap()
    }

    #[test]
    fn breaks_and_dead_letters_are_counted_by_their_kinds() {
        let model = read_model();
        let none = counted(&model);
        assert_eq!((none.breaks, none.dead), (0, 0));
        let zeros = none.of_kinds(BREAKS, KINDS.iter().map(|(kind, _)| *kind), none.breaks);
        assert_eq!((zeros.len(), zeros.values().sum::<u64>()), (KINDS.len(), 0), "each is there, as 0");

        for (id, kind, state) in [
            ("1", "orphan", "open"),
            ("2", "orphan", "open"),
            ("3", "silent", "open"),
            ("4", "amount", "accepted"),
        ] {
            let sql = "INSERT INTO breaks (break_id, kind, provider, state, first_seen_at_ms, last_seen_at_ms) VALUES (?1, ?2, 'stripe', ?3, 1, 1)";
            model.execute(sql, (id, kind, state)).unwrap();
        }
        for (id, kind, state) in
            [("1", "project", "dead"), ("2", "send_receipt", "dead"), ("3", "send_receipt", "done")]
        {
            let sql = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
                VALUES (?1, ?2, 'o', ?3, 1, 1, '[]', 1, 1)";
            model.execute(sql, (id, kind, state)).unwrap();
        }
        let counts = counted(&model);
        let of = |prefix, kind, all| counts.of_kinds(prefix, std::iter::empty(), all).get(kind).copied();
        assert_eq!((counts.breaks, counts.dead), (3, 2));
        assert_eq!(of(BREAKS, "orphan", 3), Some(2));
        assert_eq!(of(BREAKS, "silent", 3), Some(1));
        assert_eq!(of(BREAKS, "amount", 3), None);
        assert_eq!(of(BREAKS, "other", 3), None);
        assert_eq!(of(DEAD, "send_receipt", 2), Some(1));

        // Two places, and the result of a run; one of a release before says no kinds.
        let kept: Counts = serde_json::from_value(serde_json::to_value(&counts).unwrap()).unwrap();
        assert_eq!(kept, counts);
        let older: Counts = serde_json::from_str(r#"{"breaks": 5, "dead": 1}"#).unwrap();
        let both = counts.and(kept).and(older);
        let by_kind = both.of_kinds(BREAKS, std::iter::empty(), both.breaks);
        assert_eq!(by_kind, [("orphan", 4), ("silent", 2), ("other", 5)].into());
    }
}
