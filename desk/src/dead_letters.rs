//! The buttons of dead letters: they go back into the queue, or are dropped.

use worker::Error;

use super::action_outcome::ActionOutcome;
use super::actions::{CHANGED, Press};
use super::context::MADE_BEFORE;
use super::queries::{self, DeadRow};
use super::requeue::{PutBack, REQUEUE_MAX, Requeue};
use super::route::DeadKind;

/// What is said of one that somebody has requeued or purged meanwhile.
const NOT_DEAD: &str = "it is not a dead letter any more";

impl Press<'_> {
    /// A dead letter goes back into the queue.
    pub(super) async fn requeue(&self, job_id: &str) -> worker::Result<ActionOutcome> {
        let row = queries::dead_letter(&self.desk.app.model, job_id, &self.shard()).await?;
        let is_dead = |row: &DeadRow| row.state == "dead" && row.payload.is_some();
        self.put_back(row.into_iter().filter(is_dead).collect()).await
    }

    /// The oldest that the list shows go back, all of them or those of a kind: of a list that goes on behind what was looked through, those of its part.
    pub(super) async fn requeue_all(&self, kind: Option<DeadKind>) -> worker::Result<ActionOutcome> {
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

    async fn put_back(&self, dead: Vec<DeadRow>) -> worker::Result<ActionOutcome> {
        let (app, now_ms) = (self.desk.app, self.desk.request.now_ms);
        let put = Requeue { app, now_ms }.put_back(dead).await?;
        Ok(ActionOutcome::done(match put {
            put if put.not_taken > 0 => return Ok(put.in_part()),
            PutBack { jobs: 0, events: 0, .. } => {
                return match app.model.missing().or_else(|| self.desk.looked_to()) {
                    Some(not_seen) => Err(Error::RustError(not_seen)),
                    None => Ok(ActionOutcome::refused(NOT_DEAD)),
                };
            }
            PutBack { jobs: 0, events: 1, .. } => {
                "one webhook is in the inbox again, and taken up within minutes".to_owned()
            }
            PutBack { jobs: 0, events, .. } => {
                format!("{events} webhooks are in the inbox again, and taken up within minutes")
            }
            PutBack { jobs: 1, events: 0, .. } => "one job is in the queue again".to_owned(),
            PutBack { jobs, events: 0, .. } => format!("{jobs} jobs are in the queue again"),
            PutBack { jobs, events, .. } => format!("{} jobs and webhooks are tried again", jobs + events),
        }))
    }

    pub(super) async fn purge(&self, job_id: &str) -> worker::Result<ActionOutcome> {
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
        let purged = || ActionOutcome::done("dropped, with what it carried");
        let Some(row) = queries::dead_letter(model, job_id, &self.shard()).await? else {
            return Ok(ActionOutcome::refused(NOT_DEAD));
        };
        let places = self.places([row.shard.as_deref()].into_iter()).await?;
        if model.run_in(places, sql, values).await? > 0 {
            return Ok(purged());
        }
        let found = queries::dead_letter(model, job_id, &self.shard()).await?;
        Ok(match found.as_ref().map_or("", |row| row.state.as_str()) {
            // The same button, pressed at once or before, may have done it.
            "purged" => purged(),
            "dead" => ActionOutcome::refused(CHANGED),
            _ => ActionOutcome::refused(NOT_DEAD),
        })
    }
}
