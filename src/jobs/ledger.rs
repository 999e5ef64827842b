//! The state of each job, in D1. A row appears with a job's first failure. One that is done at its first attempt stands in the row of
//! its payment: most jobs are.

use std::cell::OnceCell;
use std::iter;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use worker::{Env, Error, Result};

use super::purge::ERASED;
use crate::readmodel::together::Together;
use messages::job::Job;
use once::id::ObjectId;
use once::sorted;
use payments::payment::id::PaymentId;
use payments::payment::records::JobKind;
use runtime::db::{self, Db};
use runtime::now_ms;
use runtime::places::{self, Home};

/// For how long after a payment was made the jobs that are done stand in its row, in ms: who looks for them by time looks for it.
pub(super) const IN_PAYMENT_MS: u64 = 3_600_000;
/// How many lines of a job's history are kept.
const HISTORY_MAX: usize = 50;

/// A job's row.
#[derive(Clone, Debug, Deserialize)]
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
    home: Home,
    job: &'a Job,
    /// Its row, as it was before this attempt.
    row: Option<JobRow>,
    /// What this attempt sends, if it is the first.
    frozen: Frozen,
    /// The personal data of what it tells was erased since.
    is_erased: bool,
    pub(super) now_ms: u64,
}

/// What an attempt sends, also for whoever leaves it.
pub(super) type Frozen = Rc<OnceCell<String>>;

/// The rows that some jobs have, by their ids, and where the rows of each stand.
pub(super) struct KnownJobs {
    /// By place: a row in a shard goes before one in D1, from where it is moved.
    rows: Vec<Rc<[KnownJob]>>,
    homes: Vec<(String, Home)>,
    /// Stands for the place of all jobs where it was not asked for: nothing is written there.
    unasked: Option<Home>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KnownJob {
    job_id: String,
    #[serde(flatten)]
    row: JobRow,
}

impl KnownJobs {
    /// None: the read model was not asked, or did not answer.
    pub(super) fn none(env: &Env) -> Result<Self> {
        let unasked = Some(Home::of(Db::of(env)?));
        Ok(Self { rows: Vec::new(), homes: Vec::new(), unasked })
    }

    /// Reads them, in one statement for each place: those of one object stand in one, and what is asked `together` is read at once.
    pub(super) async fn read(env: &Env, jobs: &[Job], together: &Reads) -> Result<Self> {
        let mut homes = Vec::new();
        for job in jobs {
            homes.push((job.job_id.clone(), home_of(env, jobs, job).await?));
        }
        let each = homes.iter().flat_map(|(_, home)| home.each());
        let places = sorted::map(each.map(|db| ((db.name().is_none(), db.name()), db)));
        let asked = jobs.iter().flat_map(|job| {
            let own = Asked { job_id: job.job_id.clone(), payment: payment_of(job) };
            let erased = (job.kind == JobKind::DeliverWebhook)
                .then(|| Asked { job_id: erased_id(job), payment: None });
            iter::once(own).chain(erased)
        });
        let asked: Vec<Asked> = asked.collect();
        let mut rows = Vec::new();
        for db in places.into_values() {
            let (db, name) = (db.clone(), db.name());
            let read = together.ask(name, asked.clone(), async move |all| {
                let known = read_known(&db, &all.concat()).await;
                let known = known.map(Rc::from).map_err(|error| error.to_string());
                vec![known; all.len()]
            });
            let unanswered = || Error::RustError("jobs that were not read".to_owned());
            rows.push(read.await.ok_or_else(unanswered)?.map_err(Error::RustError)?);
        }
        Ok(Self { rows, homes, unasked: None })
    }

    fn home(&self, job: &Job) -> Result<Home> {
        let home = self.homes.iter().find(|(job_id, _)| *job_id == job.job_id).map(|(_, home)| home);
        let home = home.or(self.unasked.as_ref()).cloned();
        home.ok_or_else(|| Error::RustError("a job that is not of this message".to_owned()))
    }

    /// Whether the object's personal data was erased after it was what the job tells.
    fn is_erased(&self, job: &Job) -> bool {
        let Some(told) = tells_version(job) else { return false };
        let mark = erased_id(job);
        let mut marks = self.rows.iter().flat_map(|place| place.iter()).filter(|known| known.job_id == mark);
        marks.any(|known| known.row.frozen.as_deref().and_then(|text| text.parse().ok()) > Some(told))
    }

    fn row(&self, job: &Job) -> Option<JobRow> {
        self.rows.iter().find_map(|place| {
            let rows = || place.iter().filter(|known| known.job_id == job.job_id);
            // A row of its own is not over because another message of the same job has done it: it is done once more, under the same key.
            let apart = rows().find(|known| known.row.state != "done");
            apart.or_else(|| rows().next()).map(|known| known.row.clone())
        })
    }
}

/// What is known of jobs, asked for together: of all that one batch of the queue brings.
pub(super) type Reads = Together<Vec<Asked>, std::result::Result<Rc<[KnownJob]>, String>>;

/// A job of which the row is read.
#[derive(Clone)]
pub(super) struct Asked {
    job_id: String,
    payment: Option<String>,
}

async fn read_known(db: &Db, asked: &[Asked]) -> Result<Vec<KnownJob>> {
    let ids: Vec<&str> = asked.iter().map(|one| one.job_id.as_str()).collect();
    let payments: Vec<Option<&str>> = asked.iter().map(|one| one.payment.as_deref()).collect();
    let values = vec![serde_json::to_string(&ids)?.into(), serde_json::to_string(&payments)?.into()];
    db.rows(KNOWN, values).await
}

/// Where the rows of a job stand. What is staged beside a projection is about its payment.
async fn home_of(env: &Env, jobs: &[Job], job: &Job) -> Result<Home> {
    let beside = || jobs.iter().filter(|other| other.object == job.object).find_map(Job::about);
    let about = job.about().or_else(beside);
    places::home(env, about.as_ref(), &job.object).await
}

/// The payment in whose object a job was staged.
fn payment_of(job: &Job) -> Option<String> {
    ObjectId::from_hex(&job.object).map(|object| PaymentId::in_object(object).to_string())
}

/// The version of its object of which a job tells, if it tells of one.
fn tells_version(job: &Job) -> Option<u64> {
    let tells = matches!(job.kind, JobKind::Project | JobKind::DeliverWebhook);
    job.payload.get("version").filter(|_| tells)?.as_u64()
}

/// The id of the row that says of which version on the job's object has nothing of what was erased.
fn erased_id(job: &Job) -> String {
    format!("{}{ERASED}", job.object)
}

/// The rows of the jobs `?1`, with those that are done without one in the payments `?2`: two JSON arrays. What was purged has nothing frozen: of an
/// erasure its version stands there.
const KNOWN: &str = "SELECT job_id, state, attempts, iif(state = 'purged', result, frozen) AS frozen, first_at_ms FROM jobs WHERE job_id IN (SELECT value FROM json_each(?1))
     UNION ALL SELECT done.key, 'done', 1, NULL, 0 FROM payments, json_each(payments.done_jobs) AS done
     WHERE payments.payment_id IN (SELECT value FROM json_each(?2)) AND done.key IN (SELECT value FROM json_each(?1))";

/// Records a failed attempt of the job `?1` that was in one of these states. Of what tells of an object that was erased since nothing is kept, nor does
/// it count as tried: of the read model's snapshots the erasure has staged another one.
fn failed(from: &str) -> String {
    format!(
        "INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms,
            updated_at_ms, frozen)
         SELECT ?1, ?2, ?3, iif(is_erased, 'purged', ?4), ?5, iif(is_erased, NULL, ?6), ?11, json_array(json(?7)), ?8, ?9, ?10
         FROM (SELECT EXISTS (SELECT 1 FROM jobs WHERE job_id = ?3 || '{ERASED}' AND CAST(result AS INTEGER) > ?12) AS is_erased)
         WHERE true
         ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
            history = json_insert(CASE WHEN json_array_length(jobs.history) < {HISTORY_MAX} THEN jobs.history
                ELSE json_remove(jobs.history, '$[0]') END, '$[#]', json(?7)),
            updated_at_ms = excluded.updated_at_ms
         WHERE jobs.state IN ({from})"
    )
}

impl<'a> Ledger<'a> {
    pub(super) fn new(job: &'a Job, known: &KnownJobs) -> Result<Self> {
        let now_ms = now_ms();
        let (row, is_erased) = (known.row(job), known.is_erased(job));
        Ok(Self { home: known.home(job)?, job, row, frozen: Frozen::default(), is_erased, now_ms })
    }

    /// Keeps there what this attempt sends.
    pub(super) fn keeping(mut self, frozen: &Frozen) -> Self {
        self.frozen = Rc::clone(frozen);
        self
    }

    /// Whether it has a row.
    pub(super) const fn has_row(&self) -> bool {
        self.row.is_some()
    }

    /// Whether nothing is to be done of it, as far as is known.
    pub(super) fn is_over(&self) -> bool {
        self.is_erased || self.row.as_ref().is_some_and(JobRow::is_over)
    }

    /// It is still on its way, though nothing is tried: what nobody touches for a day counts as lost. Where it has no row, nobody looks for it.
    pub(super) async fn touch(&self) -> Result<()> {
        if self.row.is_none() {
            return Ok(());
        }
        let sql = "UPDATE jobs SET updated_at_ms = ?2 WHERE job_id = ?1 AND state = 'tried'";
        self.home.db.run(sql, vec![self.job.job_id.as_str().into(), self.now_ms.into()]).await.map(drop)
    }

    /// The job's row, if it has one.
    pub(super) async fn known(&self) -> Result<Option<JobRow>> {
        let sql = "SELECT state, attempts, frozen, first_at_ms FROM jobs WHERE job_id = ?1";
        self.home.first(sql, vec![self.job.job_id.as_str().into()]).await
    }

    /// Counts an attempt. `frozen` is what is sent: the first attempt keeps it should it fail, later ones get it back. `None` if the job is
    /// over.
    pub(super) async fn begin(&self, frozen: Option<String>) -> Result<Option<JobRow>> {
        // What a try that was left has sent goes before what would be sent now.
        let frozen = self.job.apart.as_ref().and_then(|apart| apart.frozen.clone()).or(frozen);
        if self.is_erased {
            return Ok(None);
        }
        let Some(row) = &self.row else {
            let frozen = frozen.map(|text| self.frozen.get_or_init(|| text).clone());
            return Ok(Some(JobRow { frozen, first_at_ms: self.now_ms, ..JobRow::default() }));
        };
        if row.is_over() {
            return Ok(None);
        }
        let sql = "UPDATE jobs SET attempts = attempts + 1, frozen = coalesce(frozen, ?3), updated_at_ms = ?2
             WHERE job_id = ?1 AND state = 'tried' RETURNING state, attempts, frozen, first_at_ms";
        self.home.first(sql, vec![self.job.job_id.as_str().into(), self.now_ms.into(), frozen.into()]).await
    }

    /// Marks the job as done, and deletes its payload. Without a row it is written into that of its payment.
    pub(super) async fn done(&self, result: &str) -> Result<()> {
        let job_id = self.job.job_id.as_str();
        let now_ms = now_ms();
        if self.row.is_some() {
            let sql = "UPDATE jobs SET state = 'done', payload = NULL, frozen = NULL, result = ?2, updated_at_ms = ?3 WHERE job_id = ?1";
            for db in self.home.each() {
                db.run(sql, vec![job_id.into(), result.into(), now_ms.into()]).await?;
            }
            return Ok(());
        }
        let sql = "UPDATE payments SET done_jobs = json_patch(coalesce(done_jobs, '{}'), ?2)
             WHERE payment_id = ?1 AND created_at_ms > ?3";
        let done = json!({ job_id: self.as_done(result, now_ms) }).to_string();
        let since_ms = self.job.staged_at_ms.saturating_sub(IN_PAYMENT_MS);
        let values: Vec<db::Value> = vec![payment_of(self.job).into(), done.into(), since_ms.into()];
        for db in self.home.each() {
            if db.run(sql, values.clone()).await? > 0 {
                return Ok(());
            }
        }
        let sql = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, result, staged_at_ms, updated_at_ms)
             VALUES (?1, ?2, ?3, 'done', 1, ?4, '[]', ?5, ?6, ?7) ON CONFLICT (job_id) DO UPDATE SET state = 'done', payload = NULL,
                frozen = NULL, result = excluded.result, updated_at_ms = excluded.updated_at_ms";
        let values = vec![
            job_id.into(),
            self.job.kind.as_str().into(),
            self.job.object.as_str().into(),
            self.now_ms.into(),
            result.into(),
            self.job.staged_at_ms.into(),
            now_ms.into(),
        ];
        self.home.db.run(sql, values).await.map(drop)
    }

    /// As it stands in the payment's row, once done.
    fn as_done(&self, result: &str, now_ms: u64) -> Value {
        json!([self.job.kind.as_str(), result, self.job.staged_at_ms, now_ms])
    }

    /// Adds it to what a projection writes into the payment's row.
    pub(super) fn add_to(&self, done: &mut Map<String, Value>, result: &str) {
        let now_ms = now_ms();
        done.insert(self.job.job_id.clone(), self.as_done(result, now_ms));
    }

    /// Records a failed attempt, with one more line of the history: two messages of one job may fail at the same time.
    pub(super) async fn failed(&self, known: &JobRow, end: FailedAs, error: &str) -> Result<()> {
        let (state, from) = end.states();
        let sql = failed(from);
        let job = self.job;
        let values = vec![
            job.job_id.as_str().into(),
            job.kind.as_str().into(),
            job.object.as_str().into(),
            state.into(),
            known.attempts.into(),
            job.payload.to_string().into(),
            json!({ "at_ms": now_ms(), "error": error }).to_string().into(),
            job.staged_at_ms.into(),
            self.now_ms.into(),
            // While it is moved a job's row may stand where it was before: what it has sent, and since when, goes along.
            self.frozen.get().or(known.frozen.as_ref()).map(String::as_str).into(),
            (if known.first_at_ms > 0 { known.first_at_ms } else { self.now_ms }).into(),
            tells_version(job).into(),
        ];
        self.home.db.run(&sql, values).await.map(drop)
    }
}

impl Default for JobRow {
    /// The row of a job before its first attempt.
    fn default() -> Self {
        Self { state: "tried".to_owned(), attempts: 1, frozen: None, first_at_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::purge::tests::{Sql, count, erased};
    use crate::readmodel::for_tests::read_model;

    /// A first try of a projection of this version has failed.
    fn fails(model: &rusqlite::Connection, object: &str, version: u64) {
        let sql = failed("'tried'");
        let job_id = format!("{object}_project_{version}");
        let values: [Sql; 12] = [
            job_id.into(),
            "project".to_owned().into(),
            object.to_owned().into(),
            "tried".to_owned().into(),
            1.into(),
            r#"{"payment":{"shown":"ada@example.com"}}"#.to_owned().into(),
            r#"{"at_ms":1,"error":"away"}"#.to_owned().into(),
            1.into(),
            2.into(),
            Sql::Null,
            1.into(),
            version.cast_signed().into(),
        ];
        model.execute(&sql, values).unwrap();
    }

    #[test]
    fn of_a_projection_of_before_its_object_was_erased_nothing_is_kept() {
        let model = read_model();
        erased(&model, "0a", 7);
        for (object, version, kept) in [("0a", 6, 0), ("0a", 7, 1), ("0b", 6, 1)] {
            fails(&model, object, version);
            let job_id = format!("{object}_project_{version}");
            let held = format!("job_id = '{job_id}' AND state = 'tried' AND payload LIKE '%ada@%'");
            assert_eq!(count(&model, "jobs", &held), kept, "{job_id}");
            assert_eq!(count(&model, "jobs", &format!("job_id = '{job_id}'")), 1, "{job_id}");
        }
    }
}
