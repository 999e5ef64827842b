//! Dead letters go back into the queue: by the desk's buttons, and by the operator's API, which `npm run requeue` asks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use super::action_outcome::{ActionOutcome, Status};
use super::app::App;
use super::operator::admit;
use super::operator_log::{Action, logged};
use super::queries::{self, DeadRow, Where};
use super::route::{DeadKind, OperatorAction, Target};
use messages::inbox::REQUEUE;
use messages::job::{Apart, Job, JobPayment, VERSION, batches};
use messages::message::{Inspected, ObjectRequest};
use messages::queue::Queue;
use once::id::ObjectId;
use payments::payment::records::JobKind;
use runtime::db::Db;
use runtime::objects::ObjectRef;
use runtime::queue;
use runtime::serve::unreadable;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem, invalid_parameters};
use web::query;
use web::route::Parameter;

/// The delay before a requeued job runs, in seconds, so that the next page still shows it as queued.
const REQUEUE_DELAY_S: u32 = 2;
/// How long the queue may take to accept a requeued batch.
const QUEUE_TAKES: Duration = Duration::from_secs(10);
/// How many dead letters one click, or one page of a program, requeues.
pub(super) const REQUEUE_MAX: usize = 50;
/// For how long a provider keeps our keys, in ms; later, a requeued email would be sent a second time.
const WINDOW_MS: u64 = 23 * 3_600_000;

/// Puts dead letters back.
pub(super) struct Requeue<'a> {
    pub(super) app: &'a App,
    pub(super) now_ms: u64,
}

/// What came of dead letters that were put back.
#[derive(Debug, Default)]
pub(super) struct PutBack {
    /// How many jobs are in their queues again.
    pub(super) jobs: usize,
    /// How many webhooks are in the inbox again.
    pub(super) events: usize,
    /// How many jobs a queue did not take: they are dead letters as before.
    pub(super) not_taken: usize,
    /// Why.
    pub(super) error: String,
}

impl PutBack {
    /// How many are tried again, and how many are not, and why.
    fn in_numbers(&self) -> String {
        let again = format!("{} are tried again", self.jobs + self.events);
        match self.not_taken {
            0 => again,
            more => format!("{again}; the queue did not take {more}: {}", self.error),
        }
    }

    /// Of those of which not all are tried again.
    pub(super) fn in_part(&self) -> ActionOutcome {
        match self.jobs + self.events {
            0 => ActionOutcome::failed(format!("the queue did not take {}: {}", self.not_taken, self.error)),
            _ => ActionOutcome { status: Status::Failed, text: self.in_numbers() },
        }
    }
}

impl Requeue<'_> {
    /// The ledger first, then the messages. Should that break off in between, the clock finds rows that nobody touches, and makes them dead letters again.
    pub(super) async fn put_back(&self, mut dead: Vec<DeadRow>) -> worker::Result<PutBack> {
        let events: Vec<&str> = dead.iter().filter_map(DeadRow::event_key).collect();
        let events = self.requeue_events(&events).await?;
        dead.retain(|row| row.event_key().is_none());
        let about = self.payments_of(&dead).await?;
        let places = self.app.model.d1_and(dead.iter().filter_map(|row| row.shard.as_deref())).await?;
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
            let queue = queue::binding(&self.app.env, Queue::of(kind), &row.object);
            messages.entry(queue).or_default().push((row.job_id.as_str(), serde_json::to_string(&job)?));
        }
        let mut put = PutBack { events, ..PutBack::default() };
        for (queue, messages) in messages {
            for batch in batches(messages, |(_, text)| text) {
                match self.send(&queue, &batch).await {
                    Ok(()) => put.jobs += batch.len(),
                    Err(error) => {
                        let ids: Vec<&str> = batch.iter().map(|(job_id, _)| *job_id).collect();
                        self.bury(places.clone(), &ids).await?;
                        put.not_taken += ids.len();
                        put.error = error.to_string();
                    }
                }
            }
        }
        Ok(put)
    }

    /// Events that were given up have all their time again. Gives how many these were.
    async fn requeue_events(&self, keys: &[&str]) -> worker::Result<usize> {
        if keys.is_empty() {
            return Ok(0);
        }
        let values = vec![serde_json::to_string(keys)?.into(), self.now_ms.into()];
        Db::of(&self.app.env)?.run(REQUEUE, values).await
    }

    /// The payments that these jobs are about, by their objects, which say it: where a job's row is in a shard its message must, too.
    async fn payments_of(&self, dead: &[DeadRow]) -> worker::Result<BTreeMap<String, JobPayment>> {
        let app = self.app;
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
        let now_ms = self.now_ms;
        let sql = format!(
            "UPDATE jobs SET state = 'tried', attempts = 0, updated_at_ms = ?2,
                first_at_ms = CASE WHEN first_at_ms < {} THEN ?2 ELSE first_at_ms END
             WHERE state = 'dead' AND job_id IN (SELECT value FROM json_each(?1)) RETURNING job_id",
            now_ms.saturating_sub(WINDOW_MS)
        );
        let values = [serde_json::to_string(ids)?.into(), now_ms.into()];
        let model = &self.app.model;
        let rows = model.rows_in::<Revived>(places, &sql, &values).await?;
        Ok(rows.into_iter().map(|(_, row)| row.job_id).collect())
    }

    /// The queue did not take these: they are dead letters as before.
    async fn bury(&self, places: Vec<Db>, ids: &[&str]) -> worker::Result<()> {
        let sql = "UPDATE jobs SET state = 'dead' WHERE state = 'tried' AND attempts = 0
             AND job_id IN (SELECT value FROM json_each(?1))";
        let values = vec![serde_json::to_string(ids)?.into()];
        self.app.model.run_in(places, sql, values).await.map(drop)
    }

    async fn send(&self, queue: &str, batch: &[(&str, String)]) -> worker::Result<()> {
        let texts = batch.iter().map(|(_, text)| (text.as_str(), REQUEUE_DELAY_S));
        queue::send(&self.app.env, queue, texts, QUEUE_TAKES).await
    }
}

/// Where a page of the operator's API begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begins {
    /// Only what died before then, in ms since the epoch: what dies again meanwhile is not requeued again and again.
    died_before_ms: u64,
    /// In the newest shards behind those that were looked through, if they were.
    made_before_ms: Option<u64>,
}

impl Begins {
    /// From `next` of the page before; empty for the first one.
    fn parse(text: &str, now_ms: u64) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { died_before_ms: now_ms, made_before_ms: None });
        }
        let (died, made) = text.split_once(':').map_or((text, None), |(died, made)| (died, Some(made)));
        let made_before_ms = match made {
            Some(made) => Some(made.parse().ok()?),
            None => None,
        };
        Some(Self { died_before_ms: died.parse().ok()?, made_before_ms })
    }

    fn text(self) -> String {
        match self.made_before_ms {
            Some(made) => format!("{}:{made}", self.died_before_ms),
            None => self.died_before_ms.to_string(),
        }
    }

    /// Behind a page of so many. `looked_to_ms`: there are shards in which nobody has looked yet.
    fn next(self, found: usize, looked_to_ms: Option<u64>) -> Option<Self> {
        match looked_to_ms {
            _ if found >= REQUEUE_MAX => Some(self),
            Some(made) => Some(Self { made_before_ms: Some(made), ..self }),
            None => None,
        }
    }
}

/// `POST /admin/api/dead-letters/{kind}/requeue`: the oldest of a kind; with `after`, those behind a page.
pub(super) async fn requeue(
    app: &App,
    request: &Request,
    kind: &Parameter<'_, DeadKind>,
) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let kind = kind.read()?;
    let after = query::only("after", &request.query).map_err(invalid_parameters)?;
    let begins = Begins::parse(&after, request.now_ms)
        .ok_or_else(|| Problem::because(Kind::InvalidParameters, "`after` is `next` of a page before."))?;
    let subject = Target::Jobs(Some(kind)).name();
    let action = Action { operator: &operator, what: OperatorAction::RequeueAll.as_str(), subject: &subject };
    logged(app, request, action, async { page(app, request.now_ms, kind, begins).await.map_err(unreadable) })
        .await
}

/// The answer, and what the log says.
async fn page(
    app: &App,
    now_ms: u64,
    kind: DeadKind,
    begins: Begins,
) -> worker::Result<(Answer, ActionOutcome)> {
    if let Some(made_before_ms) = begins.made_before_ms {
        app.model.look_on(made_before_ms);
    }
    let mut conditions = Where::default();
    conditions.and("state = 'dead' AND payload IS NOT NULL");
    conditions.and_value("kind = ?", kind.as_str());
    conditions.and_value("updated_at_ms < ?", begins.died_before_ms);
    let dead = queries::oldest_dead_letters(&app.model, conditions, REQUEUE_MAX).await?;
    let next = begins.next(dead.len(), app.model.looked_to_ms());
    let put = Requeue { app, now_ms }.put_back(dead).await?;
    let missing = app.model.missing();
    let body = json!({
        "requeued": put.jobs + put.events, "not_taken": put.not_taken, "missing": missing, "next": next.map(Begins::text),
    });
    let said = if put.not_taken > 0 { put.in_part() } else { ActionOutcome::done(put.in_numbers()) };
    Ok((Answer::new(200, "application/json", body.to_string(), "requeued"), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_took_is_told_beside_what_it_did_not_take() {
        let put = |not_taken| PutBack { jobs: 40, events: 7, not_taken, error: "it is full".to_owned() };
        assert_eq!(put(0).in_numbers(), "47 are tried again");
        let said = "47 are tried again; the queue did not take 3: it is full".to_owned();
        assert_eq!(put(3).in_part(), ActionOutcome { status: Status::Failed, text: said });
        let none = PutBack { jobs: 0, events: 0, ..put(3) };
        assert_eq!(none.in_part(), ActionOutcome::failed("the queue did not take 3: it is full"));
    }

    #[test]
    fn a_page_says_where_the_next_one_begins_and_takes_nothing_that_has_died_since() {
        let first = Begins::parse("", 70).unwrap();
        assert_eq!(first, Begins { died_before_ms: 70, made_before_ms: None });
        let again = first.next(REQUEUE_MAX, Some(9)).unwrap();
        assert_eq!(again, first, "there may be more in the same places");
        let on = first.next(3, Some(9)).unwrap();
        assert_eq!(on, Begins { died_before_ms: 70, made_before_ms: Some(9) });
        assert_eq!(on.next(0, None), None);
        for begins in [first, on] {
            assert_eq!(Begins::parse(&begins.text(), 99), Some(begins));
        }
        for wrong in ["x", "1:", ":1", "1:2:3", "-1"] {
            assert_eq!(Begins::parse(wrong, 99), None, "{wrong}");
        }
    }
}
