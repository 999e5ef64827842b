//! The state of each job, in D1. A row appears with the first attempt of a job that must not be done twice, and with the first
//! failure of any other job.

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Env, Result};

use messages::job::{Job, OF_OBJECT};
use payments::engine::{Rows, StagedJob};
use runtime::db::Db;

/// How many lines of a job's history are kept.
const HISTORY_MAX: usize = 50;

/// A job's row.
#[derive(Debug, Deserialize)]
pub(super) struct JobRow {
    pub(super) state: String,
    pub(super) attempts: u32,
    pub(super) frozen: Option<String>,
    pub(super) first_at_ms: u64,
}

impl JobRow {
    /// Whether it needs no more attempts.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "done" | "dead" | "purged")
    }

    /// Whether its payload was deleted.
    pub(super) fn is_purged(&self) -> bool {
        self.state == "purged"
    }
}

/// How an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailedAs {
    /// It is retried.
    Retryable,
    /// It is not retried.
    Dead,
}

impl FailedAs {
    /// The state after the failure, and the states before it.
    const fn states(self) -> (&'static str, &'static str) {
        match self {
            Self::Retryable => ("tried", "'tried'"),
            // Releases before marked a text message so while its outcome was unknown.
            Self::Dead => ("dead", "'tried', 'attempted'"),
        }
    }
}

/// One job's access to the table `jobs`.
pub(super) struct Ledger<'a> {
    pub(super) db: Db,
    pub(super) job: &'a Job,
    pub(super) now_ms: u64,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(env: &Env, job: &'a Job) -> Result<Self> {
        Ok(Self { db: Db::of(env)?, job, now_ms: worker::Date::now().as_millis() })
    }

    /// The job's row, if it has one.
    pub(super) async fn known(&self) -> Result<Option<JobRow>> {
        let sql = "SELECT state, attempts, frozen, first_at_ms FROM jobs WHERE job_id = ?1";
        self.db.first(sql, vec![self.job.job_id.as_str().into()]).await
    }

    /// Counts an attempt. `frozen` is what is sent: the first attempt stores it, later ones get it back. `None` if the job is over.
    pub(super) async fn begin(&self, frozen: Option<&str>) -> Result<Option<JobRow>> {
        let sql =
            "INSERT INTO jobs (job_id, kind, object, state, attempts, payload, frozen, first_at_ms, history,
                staged_at_ms, updated_at_ms)
             VALUES (?1, ?2, ?3, 'tried', 1, ?4, ?7, ?6, '[]', ?5, ?6)
             ON CONFLICT (job_id) DO UPDATE SET attempts = jobs.attempts + 1, updated_at_ms = ?6
             WHERE jobs.state = 'tried'
             RETURNING state, attempts, frozen, first_at_ms";
        let job = self.job;
        let values = vec![
            job.job_id.as_str().into(),
            job.kind.as_str().into(),
            job.object.as_str().into(),
            job.payload.to_string().into(),
            job.staged_at_ms.into(),
            self.now_ms.into(),
            frozen.into(),
        ];
        self.db.first(sql, values).await
    }

    /// Marks the job as done, from any state, and deletes its payload.
    pub(super) async fn done(&self, result: &str) -> Result<()> {
        let sql = "UPDATE jobs SET state = 'done', payload = NULL, frozen = NULL, result = ?2, updated_at_ms = ?3 WHERE job_id = ?1";
        let now_ms = worker::Date::now().as_millis();
        self.db.run(sql, vec![self.job.job_id.as_str().into(), result.into(), now_ms.into()]).await.map(drop)
    }

    /// Records a failed attempt, with one more line of the history: two messages of one job may fail at the same time.
    pub(super) async fn failed(&self, known: &JobRow, end: FailedAs, error: &str) -> Result<()> {
        let (state, from) = end.states();
        let sql = format!(
            "INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms,
                updated_at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?9, json_array(json(?7)), ?8, ?9)
             ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
                history = json_insert(CASE WHEN json_array_length(jobs.history) < {HISTORY_MAX} THEN jobs.history
                    ELSE json_remove(jobs.history, '$[0]') END, '$[#]', json(?7)),
                updated_at_ms = excluded.updated_at_ms
             WHERE jobs.state IN ({from})"
        );
        let job = self.job;
        let values = vec![
            job.job_id.as_str().into(),
            job.kind.as_str().into(),
            job.object.as_str().into(),
            state.into(),
            known.attempts.into(),
            job.payload.to_string().into(),
            json!({ "at_ms": worker::Date::now().as_millis(), "error": error }).to_string().into(),
            job.staged_at_ms.into(),
            self.now_ms.into(),
        ];
        self.db.run(&sql, values).await.map(drop)
    }
}

/// Deletes the payloads of an object's jobs and the cards in what a provider has told of it and is not taken in, and marks its staged jobs as purged, even those without a row: their messages may still be
/// in the queue and must do nothing.
pub(crate) async fn purge(env: &Env, rows: &Rows) -> Result<()> {
    let db = Db::of(env)?;
    let now_ms = worker::Date::now().as_millis();
    let object = rows.object.to_hex();
    let payment = rows.resource.payment.as_ref().map(|payment| payment.id.to_string());
    let refunds: Vec<&str> = rows.resource.refunds.iter().map(|refund| refund.id.0.as_str()).collect();
    let kept = format!(
        "UPDATE jobs SET payload = NULL, frozen = NULL, state = 'purged', updated_at_ms = ?4
         WHERE {OF_OBJECT} AND state IN ('tried', 'attempted', 'dead')"
    );
    let told = "UPDATE inbox SET event = json_remove(event, '$.news.card') WHERE event_key IN
         (SELECT event_key FROM inbox WHERE state = 'waiting' AND object = ?1
          UNION ALL SELECT event_key FROM inbox WHERE state = 'dead' AND object = ?1)";
    let coming = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
         SELECT value->>'job_id', value->>'kind', ?1, 'purged', 0, ?2, '[]', value->>'staged_at_ms', ?2
         FROM json_each(?3) WHERE true ON CONFLICT (job_id) DO NOTHING";
    let row = |job: &StagedJob| json!({ "job_id": job.job_id, "kind": job.kind.as_str(), "staged_at_ms": job.staged_at_ms });
    let staged = Value::Array(rows.jobs.iter().map(row).collect()).to_string();
    let refunds = serde_json::to_string(&refunds)?;
    let values = vec![object.as_str().into(), payment.as_deref().into(), refunds.into(), now_ms.into()];
    let statements = vec![
        db.statement(&kept, values)?,
        db.statement(told, vec![object.as_str().into()])?,
        db.statement(coming, vec![object.into(), now_ms.into(), staged.into()])?,
    ];
    db.batch(statements).await
}

impl Default for JobRow {
    /// The row of a job before its first attempt.
    fn default() -> Self {
        Self { state: "tried".to_owned(), attempts: 1, frozen: None, first_at_ms: 0 }
    }
}
