//! The buttons of dead letters: they go back into the queue, or are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use worker::Error;

use super::actions::{CHANGED, Press};
use super::context::MADE_BEFORE;
use super::queries::{self, DeadRow};
use super::route::DeadKind;
use messages::inbox::REQUEUE;
use messages::job::{Apart, Job, JobPayment, VERSION, batches};
use messages::message::{Inspected, ObjectRequest};
use messages::queue::Queue;
use once::id::ObjectId;
use payments::payment::records::JobKind;
use runtime::db::Db;
use runtime::objects::ObjectRef;
use runtime::queue;

/// The delay before a requeued job runs, in seconds, so that the next page still shows it as queued.
const REQUEUE_DELAY_S: u32 = 2;
/// How long the queue may take to accept a requeued batch.
const QUEUE_TAKES: Duration = Duration::from_secs(10);
/// How many dead letters one click requeues.
pub(super) const REQUEUE_MAX: usize = 50;
/// For how long a provider keeps our keys, in ms; later, a requeued email would be sent a second time.
const WINDOW_MS: u64 = 23 * 3_600_000;

impl Press<'_> {
    /// A dead letter goes back into the queue.
    pub(super) async fn requeue(&self, job_id: &str) -> worker::Result<String> {
        let row = queries::dead_letter(&self.desk.app.model, job_id, &self.shard()).await?;
        let is_dead = |row: &DeadRow| row.state == "dead" && row.payload.is_some();
        self.put_back(row.into_iter().filter(is_dead).collect()).await
    }

    /// The oldest that the list shows go back, all of them or those of a kind: of a list that goes on behind what was looked through, those of its part.
    pub(super) async fn requeue_all(&self, kind: Option<DeadKind>) -> worker::Result<String> {
        let model = &self.desk.app.model;
        if let Ok(until_ms) = self.entries.text(MADE_BEFORE).or_empty().parse() {
            model.look_on(until_ms);
        }
        let mut conditions = queries::Where::default();
        conditions.and("state = 'dead' AND payload IS NOT NULL");
        if let Some(kind) = kind {
            conditions.and_value("kind = ?", kind.as_str());
        }
        self.put_back(queries::oldest_dead_letters(model, conditions, REQUEUE_MAX).await?).await
    }

    /// The ledger first, then the messages. Should that break off in between, the clock finds rows that nobody touches, and makes them dead letters again.
    async fn put_back(&self, mut dead: Vec<DeadRow>) -> worker::Result<String> {
        let events: Vec<&str> = dead.iter().filter_map(DeadRow::event_key).collect();
        let events = self.requeue_events(&events).await?;
        dead.retain(|row| row.event_key().is_none());
        let about = self.payments_of(&dead).await?;
        let places = self.places(dead.iter().map(|row| row.shard.as_deref())).await?;
        let ids: Vec<&str> = dead.iter().map(|row| row.job_id.as_str()).collect();
        let taken = self.revive(places.clone(), &ids).await?;
        let mut messages = BTreeMap::<String, Vec<(&str, String)>>::new();
        for row in dead.iter().filter(|row| taken.contains(&row.job_id)) {
            let Some(kind) = JobKind::parse(&row.kind) else { continue };
            let job = Job {
                version: VERSION,
                job_id: row.job_id.clone(),
                kind,
                object: row.object.clone(),
                payload: serde_json::from_str(row.payload.as_deref().unwrap_or("null")).unwrap_or_default(),
                staged_at_ms: row.staged_at_ms,
                trace: None,
                apart: Some(Apart::default()),
                payment: about.get(&row.object).cloned(),
            };
            let queue = queue::binding(&self.desk.app.env, Queue::of(kind), &row.object);
            messages.entry(queue).or_default().push((row.job_id.as_str(), serde_json::to_string(&job)?));
        }
        if messages.is_empty() && events > 0 {
            return Ok(match events {
                1 => "one webhook is in the inbox again, and taken up within minutes".to_owned(),
                many => format!("{many} webhooks are in the inbox again, and taken up within minutes"),
            });
        }
        if messages.is_empty() {
            return match self.desk.app.model.missing().or_else(|| self.desk.looked_to()) {
                Some(not_seen) => Err(Error::RustError(not_seen)),
                None => Ok("refused: it is not a dead letter any more".to_owned()),
            };
        }
        let mut sent = 0;
        let mut refused = None;
        for (queue, messages) in messages {
            for batch in batches(messages, |(_, text)| text) {
                match self.send(&queue, &batch).await {
                    Ok(()) => sent += batch.len(),
                    Err(error) => {
                        let ids: Vec<&str> = batch.iter().map(|(job_id, _)| *job_id).collect();
                        self.bury(places.clone(), &ids).await?;
                        refused = Some(format!("failed: the queue did not take {}: {error}", ids.len()));
                    }
                }
            }
        }
        Ok(match (refused, sent) {
            (Some(refused), _) => refused,
            (None, sent) if events > 0 => format!("{} jobs and webhooks are tried again", sent + events),
            (None, 1) => "one job is in the queue again".to_owned(),
            (None, many) => format!("{many} jobs are in the queue again"),
        })
    }

    /// Events that were given up have all their time again. Gives how many these were.
    async fn requeue_events(&self, keys: &[&str]) -> worker::Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let values = vec![serde_json::to_string(keys)?.into(), self.desk.request.now_ms.into()];
        Db::of(&self.desk.app.env)?.run(REQUEUE, values).await
    }

    /// The payments that these jobs are about, by their objects, which say it: where a job's row is in a shard its message must, too.
    async fn payments_of(&self, dead: &[DeadRow]) -> worker::Result<BTreeMap<String, JobPayment>> {
        let app = self.desk.app;
        let is_moving = app.model.is_moving().await?;
        let in_shards = dead.iter().filter(|row| is_moving || row.shard.is_some());
        let objects: BTreeSet<&str> = in_shards.map(|row| row.object.as_str()).collect();
        let ask = |object: ObjectId| async move {
            let inspected = app.ask::<Inspected>(&ObjectRef::Id(object), ObjectRequest::Inspect).await?;
            let about = inspected.and_then(|it| JobPayment::of_snapshot(&it.snapshot));
            Ok(about.map(|about| (object.to_hex(), about)))
        };
        let objects = objects.into_iter().filter_map(ObjectId::from_hex);
        let ours = objects.filter(|object| app.exists(&ObjectRef::Id(*object)));
        let found: worker::Result<Vec<_>> = join_all(ours.map(ask)).await.into_iter().collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Says in the ledger that these dead jobs have all their tries again. Gives those that were still dead: nobody else
    /// requeues them now.
    async fn revive(&self, places: Vec<Db>, ids: &[&str]) -> worker::Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Revived {
            job_id: String,
        }
        let now_ms = self.desk.request.now_ms;
        let sql = format!(
            "UPDATE jobs SET state = 'tried', attempts = 0, updated_at_ms = ?2,
                first_at_ms = CASE WHEN first_at_ms < {} THEN ?2 ELSE first_at_ms END
             WHERE state = 'dead' AND job_id IN (SELECT value FROM json_each(?1)) RETURNING job_id",
            now_ms.saturating_sub(WINDOW_MS)
        );
        let values = [serde_json::to_string(ids)?.into(), now_ms.into()];
        let model = &self.desk.app.model;
        let rows = model.rows_in::<Revived>(places, &sql, &values).await?;
        Ok(rows.into_iter().map(|(_, row)| row.job_id).collect())
    }

    /// The queue did not take these: they are dead letters as before.
    async fn bury(&self, places: Vec<Db>, ids: &[&str]) -> worker::Result<()> {
        let sql = "UPDATE jobs SET state = 'dead' WHERE state = 'tried' AND attempts = 0
             AND job_id IN (SELECT value FROM json_each(?1))";
        let values = vec![serde_json::to_string(ids)?.into()];
        self.desk.app.model.run_in(places, sql, values).await.map(drop)
    }

    async fn send(&self, queue: &str, batch: &[(&str, String)]) -> worker::Result<()> {
        let texts = batch.iter().map(|(_, text)| (text.as_str(), REQUEUE_DELAY_S));
        queue::send(&self.desk.app.env, queue, texts, QUEUE_TAKES).await
    }

    pub(super) async fn purge(&self, job_id: &str) -> worker::Result<String> {
        let of_job = "UPDATE jobs SET state = 'purged', payload = NULL, frozen = NULL, updated_at_ms = ?2
             WHERE job_id = ?1 AND state = 'dead' AND updated_at_ms = ?3";
        let of_event = "UPDATE inbox SET state = 'purged', event = NULL, updated_at_ms = ?2
             WHERE event_key = ?1 AND state = 'dead' AND updated_at_ms = ?3";
        let (sql, key) = match job_id.strip_prefix(queries::EVENT) {
            Some(key) => (of_event, key),
            None => (of_job, job_id),
        };
        let seen: u64 = self.entries.text("seen").or_empty().parse().unwrap_or(0);
        let values = vec![key.into(), self.desk.request.now_ms.into(), seen.into()];
        let model = &self.desk.app.model;
        let purged = "dropped, with what it carried";
        let Some(row) = queries::dead_letter(model, job_id, &self.shard()).await? else {
            return Ok("refused: it is not a dead letter any more".to_owned());
        };
        let places = self.places([row.shard.as_deref()].into_iter()).await?;
        if model.run_in(places, sql, values).await? > 0 {
            return Ok(purged.to_owned());
        }
        let found = queries::dead_letter(model, job_id, &self.shard()).await?;
        Ok(match found.as_ref().map_or("", |row| row.state.as_str()) {
            // The same button, pressed at once or before, may have done it.
            "purged" => purged,
            "dead" => CHANGED,
            _ => "refused: it is not a dead letter any more",
        }
        .to_owned())
    }
}
