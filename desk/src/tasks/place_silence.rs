//! Whether D1's own runs go on, where each place of the read model has [runs of its own](super::place_runs). Shards that are silent are counted by the
//! [directory](super::place_alarms), in which D1 is not.

use serde::Deserialize;
use serde_json::Value;
use worker::Result;

use super::schedule::{D1, PAUSE_MAX_MS, PLACE};
use super::task_object::RUN_MAX_MS;
use crate::format::duration;
use runtime::db::Db;

/// Within how long each place is heard of whose alarm is not lost, in ms: the longest pause, and the longest run.
pub(crate) const HEARD_WITHIN_MS: u64 = PAUSE_MAX_MS + RUN_MAX_MS;

/// The cron's task that sees to the places. Its first run is when D1 began to have runs of its own.
const WATCHER: &str = "places";

/// D1's newest run (`?1`), and since when somebody sees to it that there is one (`?2`).
const NEWEST: &str = "SELECT newest.result, newest.at_ms AS heard_at_ms, (SELECT min(at_ms) FROM runs WHERE task = ?2) AS watched_since_ms
     FROM (SELECT 1) LEFT JOIN (SELECT result, at_ms FROM runs WHERE task = ?1 ORDER BY at_ms DESC LIMIT 1) newest";

/// D1's own runs.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RunsOfD1 {
    /// What the newest one has done; none if there was none.
    result: Option<String>,
    heard_at_ms: Option<u64>,
    watched_since_ms: Option<u64>,
}

impl RunsOfD1 {
    pub(super) async fn read(d1: &Db) -> Result<Self> {
        let values = vec![format!("{PLACE}{D1}").into(), WATCHER.into()];
        Ok(d1.first(NEWEST, values).await?.unwrap_or_default())
    }

    /// What the newest one has done, task by task.
    pub(super) fn result(&self) -> serde_json::Result<Value> {
        self.result.as_deref().map_or(Ok(Value::Null), serde_json::from_str)
    }

    /// The error of all of D1's tasks, if none was heard of for longer than the longest pause and the longest run.
    pub(super) fn silence(&self, now_ms: u64) -> Option<String> {
        let silent_ms = now_ms.saturating_sub(self.heard_at_ms.or(self.watched_since_ms)?);
        (silent_ms > HEARD_WITHIN_MS)
            .then(|| format!("no run of D1 was heard of for {}", duration(silent_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::{plan, read_model};

    const NOW_MS: u64 = 1_900_000_000_000;

    fn runs(rows: &[(&str, u64)]) -> RunsOfD1 {
        let model = read_model();
        for (task, ago_ms) in rows {
            let sql = "INSERT INTO runs (task, at_ms, took_ms, result) VALUES (?1, ?2, 1, '{\"sweep\":{}}')";
            model.execute(sql, (task, (NOW_MS - ago_ms).cast_signed())).unwrap();
        }
        let whole = |at_ms: Option<i64>| at_ms.map(i64::cast_unsigned);
        let row = |row: &rusqlite::Row<'_>| {
            let (heard, watched) = (row.get("heard_at_ms")?, row.get("watched_since_ms")?);
            Ok(RunsOfD1 {
                result: row.get("result")?,
                heard_at_ms: whole(heard),
                watched_since_ms: whole(watched),
            })
        };
        model.query_row(NEWEST, (format!("{PLACE}{D1}"), WATCHER), row).unwrap()
    }

    #[test]
    fn d1_is_silent_once_no_run_was_heard_of_for_longer_than_any_pause() {
        const MINUTE_MS: u64 = 60_000;
        let said = |rows: &[(&str, u64)]| runs(rows).silence(NOW_MS);
        let cron = [("places", 3_000 * MINUTE_MS), ("places", 0)];
        let with = |ago_ms| [cron[0], cron[1], ("place:D1", ago_ms)];
        assert_eq!(said(&with(HEARD_WITHIN_MS)), None);
        assert_eq!(said(&with(120 * MINUTE_MS)), Some("no run of D1 was heard of for 2 h".to_owned()));
        assert_eq!(said(&[with(120 * MINUTE_MS), with(MINUTE_MS)].concat()), None, "the newest one counts");
        assert_eq!(said(&cron), Some("no run of D1 was heard of for 2 d".to_owned()), "there was never one");
        assert_eq!(said(&[("places", HEARD_WITHIN_MS)]), None, "the first shard has just come");
        assert_eq!(said(&[("place:g1-2026-11-001", 0), cron[0]]), said(&cron), "a shard is another place");
        assert_eq!(said(&[]), None);
        assert_eq!(runs(&cron).result().unwrap(), Value::Null);
        assert_eq!(runs(&with(1)).result().unwrap(), serde_json::json!({ "sweep": {} }));
    }

    #[test]
    fn it_is_found_by_an_index() {
        let plan = plan(&read_model(), NEWEST);
        assert!(plan.iter().filter(|step| step.contains("SEARCH runs USING")).count() == 2, "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("SCAN runs")), "{plan:?}");
    }
}
