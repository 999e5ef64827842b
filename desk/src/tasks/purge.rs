//! Drops what has been kept long enough: payloads of jobs that nobody took up, jobs that are long over, and old runs of these
//! tasks. Objects drop the personal data that they hold themselves, by their alarms. A job that nobody has touched for long is
//! lost: it becomes a dead letter.

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Result};

use super::names::TASKS;
use crate::operations;
use messages::operations::{PaymentsSettings, SETTINGS_PATH};
use payments::payment::records::JobKind;
use runtime::db::Db;
use runtime::log::log;
use runtime::metrics;
use runtime::places::ReadModel;

/// How long the runs of tasks are kept, in ms.
const RUNS_KEPT_MS: u64 = 30 * 86_400_000;
/// How long a finished job is kept, in ms, so that a repeated message finds it done. The queue keeps messages for four days, and an
/// object without confirmation sends one every six hours.
const OVER_KEPT_MS: u64 = 30 * 86_400_000;
/// How long a processed event is kept, in ms: its provider may send it again for up to 30 days.
const EVENTS_KEPT_MS: u64 = 40 * 86_400_000;
/// How long it is shown what the gate has passed on, in ms; what nobody knows the end of stays until an operator has said it.
const GATE_KEPT_MS: u64 = 90 * 86_400_000;
/// How long a movement that came late waits for a settlement file, in ms, where there is no bucket for one.
const LATE_KEPT_MS: u64 = 70 * 86_400_000;
/// How many of each one run deletes.
const OVER_MAX: u32 = 10_000;
/// After how long an untouched job counts as lost, in ms: longer than any backoff, and than an object waits for confirmation.
const LOST_AFTER_MS: u64 = 24 * 3_600_000;
/// How many of them one run finds.
const LOST_MAX: u32 = 100;

pub(super) async fn purge(env: &Env) -> Result<Value> {
    let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
    let model = ReadModel::of(env);
    let db = model.d1()?;
    let now_ms = Date::now().as_millis();
    let sql = "UPDATE jobs SET state = 'purged', payload = NULL, frozen = NULL, updated_at_ms = ?2
         WHERE state IN ('tried', 'attempted', 'dead') AND updated_at_ms < ?1";
    let kept_since_ms = now_ms.saturating_sub(settings.personal_retention_ms);
    let places = || model.places();
    let purged = async |db: Db| db.run(sql, vec![kept_since_ms.into(), now_ms.into()]).await;
    let jobs = sum(model.each(places().await?, purged).await?);
    let lost = sum(model.each(places().await?, async |db: Db| lost(&db, now_ms).await).await?);
    let sql = "DELETE FROM jobs WHERE job_id IN
         (SELECT job_id FROM jobs WHERE updated_at_ms < ?1 AND state IN ('done', 'purged') LIMIT ?2)";
    let over_since_ms = now_ms.saturating_sub(OVER_KEPT_MS);
    let deleted = async |db: Db| db.run(sql, vec![over_since_ms.into(), OVER_MAX.into()]).await;
    let over = sum(model.each(places().await?, deleted).await?);
    let sql = "UPDATE inbox SET state = 'purged', event = NULL, updated_at_ms = ?2
         WHERE state = 'dead' AND updated_at_ms < ?1";
    db.run(sql, vec![kept_since_ms.into(), now_ms.into()]).await?;
    let sql = "DELETE FROM inbox WHERE event_key IN
         (SELECT event_key FROM inbox WHERE updated_at_ms < ?1 AND state IN ('done', 'purged') LIMIT ?2)";
    let events_since_ms = now_ms.saturating_sub(EVENTS_KEPT_MS);
    let events = db.run(sql, vec![events_since_ms.into(), OVER_MAX.into()]).await?;
    let sql = "DELETE FROM gate_operations WHERE key_hash IN
         (SELECT key_hash FROM gate_operations WHERE began_at_ms < ?1 AND state != 'unknown' LIMIT ?2)
         AND began_at_ms < ?1 AND state != 'unknown'";
    let gate_since_ms = now_ms.saturating_sub(GATE_KEPT_MS);
    let gate = db.run(sql, vec![gate_since_ms.into(), OVER_MAX.into()]).await?;
    if env.bucket("SETTLEMENT").is_err() {
        let late_since_ms = now_ms.saturating_sub(LATE_KEPT_MS);
        let sql = "DELETE FROM settlement_late WHERE at_ms < ?1";
        model.each(places().await?, async |db: Db| db.run(sql, vec![late_since_ms.into()]).await).await?;
    }
    let runs_since_ms = now_ms.saturating_sub(RUNS_KEPT_MS);
    let runs = db
        .run(
            "DELETE FROM runs WHERE task IN (SELECT value FROM json_each(?2)) AND at_ms < ?1",
            vec![runs_since_ms.into(), serde_json::to_string(&TASKS)?.into()],
        )
        .await?;
    // Of each task with an object of its own the newest run is kept; it has stopped if that is so old.
    let sql = "DELETE FROM runs WHERE task > 'reconcile:' AND task < 'reconcile:~' AND at_ms < ?1";
    db.run(sql, vec![runs_since_ms.into()]).await?;
    let mut result =
        json!({ "jobs": jobs, "lost": lost, "over": over, "events": events, "gate": gate, "runs": runs });
    if let (Some(missing), Some(result)) = (model.missing(), result.as_object_mut()) {
        result.insert("missing".to_owned(), missing.into());
    }
    Ok(result)
}

fn sum(each: Vec<(Db, usize)>) -> usize {
    each.into_iter().map(|(_, number)| number).sum()
}

/// Moves jobs whose message was lost to the dead letters. Returns how many there were.
async fn lost(db: &Db, now_ms: u64) -> Result<usize> {
    #[derive(Deserialize)]
    struct Lost {
        job_id: String,
        kind: String,
    }
    let sql = "UPDATE jobs SET state = 'dead', updated_at_ms = ?1,
            history = json_insert(history, '$[#]', json_object('at_ms', ?1, 'error', CASE state
                WHEN 'attempted' THEN 'lost: its try broke off, outcome unknown; ask the provider or the pilot'
                ELSE 'lost: no message came for it any more' END))
         WHERE job_id IN (SELECT job_id FROM jobs WHERE updated_at_ms < ?2 AND state IN ('tried', 'attempted', 'dead')
            AND state != 'dead' LIMIT ?3)
         RETURNING job_id, kind";
    let values = vec![now_ms.into(), now_ms.saturating_sub(LOST_AFTER_MS).into(), LOST_MAX.into()];
    let lost: Vec<Lost> = db.rows(sql, values).await?;
    for job in &lost {
        if let Some(kind) = JobKind::parse(&job.kind) {
            metrics::job(kind.as_str(), "dead");
        }
        let fields = [
            ("event", "job_over".into()),
            ("job_id", job.job_id.as_str().into()),
            ("kind", job.kind.as_str().into()),
            ("outcome", "dead: lost".into()),
        ];
        log("error", &fields);
    }
    Ok(lost.len())
}
