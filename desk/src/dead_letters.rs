//! What the buttons of dead letters do: into the queue again, or away.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::actions::{CHANGED, Press};
use super::queries::{self, DeadRow};
use messages::inbox::REQUEUE;
use messages::job::{Apart, Job, JobPayment, VERSION, batches};
use messages::queue::Queue;
use once::id::ObjectId;
use payments::payment::id::PaymentId;
use payments::payment::records::JobKind;
use runtime::db::Db;
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
    /// Dead letters go back into the queue, the oldest first, all or those of which a condition about a value holds: the ledger first, then the messages. Should that break off in between, the clock
    /// finds rows that nobody touches, and makes them dead letters again.
    pub(super) async fn requeue(&self, which: Option<(&str, &str)>) -> worker::Result<String> {
        let model = &self.desk.app.model;
        let mut conditions = queries::Where::default();
        conditions.and("state = 'dead' AND payload IS NOT NULL");
        if let Some((condition, value)) = which {
            conditions.and_value(condition, value);
        }
        let mut dead = queries::oldest_dead_letters(model, conditions, REQUEUE_MAX).await?;
        let events: Vec<&str> = dead.iter().filter_map(DeadRow::event_key).collect();
        let events = self.requeue_events(&events).await?;
        dead.retain(|row| row.event_key().is_none());
        let ids: Vec<&str> = dead.iter().map(|row| row.job_id.as_str()).collect();
        let taken = self.revive(&ids).await?;
        let about = self.payments_of(&dead).await?;
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
            return Ok("refused: it is not a dead letter any more".to_owned());
        }
        let mut sent = 0;
        let mut refused = None;
        for (queue, messages) in messages {
            for batch in batches(messages, |(_, text)| text) {
                match self.send(&queue, &batch).await {
                    Ok(()) => sent += batch.len(),
                    Err(error) => {
                        let ids: Vec<&str> = batch.iter().map(|(job_id, _)| *job_id).collect();
                        self.bury(&ids).await?;
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

    /// The payments that these jobs are about, by their objects: where the read model has shards a message says it.
    async fn payments_of(&self, dead: &[DeadRow]) -> worker::Result<BTreeMap<String, JobPayment>> {
        #[derive(Deserialize)]
        struct Row {
            object: String,
            owner: String,
            created_at_ms: u64,
        }
        let model = &self.desk.app.model;
        if dead.is_empty() || !model.is_many().await? {
            return Ok(BTreeMap::new());
        }
        let objects = dead.iter().filter_map(|row| ObjectId::from_hex(&row.object));
        let payments: Vec<String> = objects.map(|id| PaymentId::in_object(id).to_string()).collect();
        let sql = "SELECT object, owner, created_at_ms FROM payments WHERE payment_id IN (SELECT value FROM json_each(?1))";
        let rows: Vec<Row> = model.rows(sql, vec![serde_json::to_string(&payments)?.into()]).await?;
        let about = |row: Row| (row.object, JobPayment { owner: row.owner, made_at_ms: row.created_at_ms });
        Ok(rows.into_iter().map(about).collect())
    }

    /// Says in the ledger that these dead jobs have all their tries again. Gives those that were still dead: nobody else
    /// requeues them now.
    async fn revive(&self, ids: &[&str]) -> worker::Result<Vec<String>> {
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
        let values = vec![serde_json::to_string(ids)?.into(), now_ms.into()];
        let rows: Vec<Revived> = self.desk.app.model.rows(&sql, values).await?;
        Ok(rows.into_iter().map(|row| row.job_id).collect())
    }

    /// The queue did not take these: they are dead letters as before.
    async fn bury(&self, ids: &[&str]) -> worker::Result<()> {
        let sql = "UPDATE jobs SET state = 'dead' WHERE state = 'tried' AND attempts = 0
             AND job_id IN (SELECT value FROM json_each(?1))";
        let values = vec![serde_json::to_string(ids)?.into()];
        self.desk.app.model.run(sql, values).await.map(drop)
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
        if model.run(sql, values).await? > 0 {
            return Ok(purged.to_owned());
        }
        let found = queries::dead_letter(model, job_id).await?;
        Ok(match found.as_ref().map_or("", |row| row.state.as_str()) {
            // The same button, pressed at once or before, may have done it.
            "purged" => purged,
            "dead" => CHANGED,
            _ => "refused: it is not a dead letter any more",
        }
        .to_owned())
    }
}
