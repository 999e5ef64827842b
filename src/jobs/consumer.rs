//! Consumes a batch of messages. Each is acknowledged or retried by itself, so that none delays another.

use std::time::Duration;

use futures_util::future::join_all;
use worker::{Env, Message, MessageBatch, MessageExt, QueueRetryOptionsBuilder};

use super::backoff::backoff_s;
use super::ledger::{FailedAs, JobRow, Ledger};
use super::outcome::{Done, Failure};
use super::send_receipt;
use crate::config::Config;
use crate::readmodel::project::project;
use messages::job::Job;
use messages::message::Ask;
use messages::snapshot::Snapshot;
use once::id::ObjectId;
use payments::payment::records::JobKind;
use runtime::client;
use runtime::http_client::within;
use runtime::log::log;
use runtime::metrics;
use runtime::random;
use serde::Deserialize as _;

/// The delay after a failure that could not be recorded, in seconds.
const RETRY_DELAY_S: u32 = 60;

/// How long one message may take. The batch waits for all of its messages.
const JOB_TIMEOUT: Duration = Duration::from_secs(90);
/// How long an object may take to confirm a job.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);

/// What happens to a message.
enum Disposition {
    /// It is acknowledged.
    Ack,
    /// It comes again after this many seconds.
    Retry(u32),
}

/// Does the jobs of a batch. Messages of the queue `…-dead` were delivered too often: they become dead letters.
pub async fn consume(batch: &MessageBatch<String>, env: &Env) {
    let is_dead = batch.queue().ends_with("-dead");
    let config = Config::of(env);
    let config = match &config {
        Ok(config) => config,
        Err(what) => {
            log("error", &[("event", "misconfigured".into()), ("error", what.as_str().into())]);
            batch.retry_all_with_options(&delay(RETRY_DELAY_S));
            return;
        }
    };
    let work = batch.iter().map(|message| async move {
        // A message that is not text is not ours: nothing can be done with it.
        let Ok(message) = message else { return };
        handle(&message, env, config, is_dead).await;
    });
    join_all(work).await;
}

fn delay(seconds: u32) -> worker::QueueRetryOptions {
    QueueRetryOptionsBuilder::new().with_delay_seconds(seconds).build()
}

async fn handle(message: &Message<String>, env: &Env, config: &Config, is_dead: bool) {
    let job = match Job::read(message.body()) {
        Ok(job) => job,
        Err(error) => {
            // During a deploy, a new object may send to an old consumer: retry.
            log("error", &[("event", "job_unreadable".into()), ("error", error.into())]);
            message.retry_with_options(&delay(RETRY_DELAY_S));
            return;
        }
    };
    let disposition = match within(JOB_TIMEOUT, "the job", end(env, config, &job, is_dead)).await {
        Ok(disposition) => disposition,
        Err(error) => {
            log_job("error", "job_unfinished", &job, &error.to_string());
            Disposition::Retry(RETRY_DELAY_S)
        }
    };
    match disposition {
        Disposition::Ack => message.ack(),
        Disposition::Retry(seconds) => message.retry_with_options(&delay(seconds)),
    }
}

/// Does a job, records its outcome, and tells the object. An error means that the outcome was not recorded.
async fn end(env: &Env, config: &Config, job: &Job, is_dead: bool) -> worker::Result<Disposition> {
    let ledger = Ledger::new(env, job)?;
    let done = if is_dead {
        Err(Failure::Permanent("the queue has given it up: it could not be worked on".to_owned()))
    } else {
        run(env, config, job, &ledger).await
    };
    let (level, outcome) = match done {
        Ok(Done::Unrecorded) => {
            // There is a row only if an attempt failed before.
            ledger.done("").await?;
            ("info", "done".to_owned())
        }
        Ok(Done::Recorded(result)) => {
            ledger.done(&result).await?;
            ("info", result)
        }
        Ok(Done::Already) => return over(env, job).await,
        Err(Failure::LedgerUnavailable(error)) => {
            log_job("warn", "job_unfinished", job, &error);
            return Ok(Disposition::Retry(RETRY_DELAY_S));
        }
        Err(Failure::Retryable(error)) => {
            let known = ledger.known().await?;
            let known = match known {
                // The snapshot is older than the erasure of personal data; a newer one follows.
                Some(known) if known.is_purged() => return over(env, job).await,
                // `begin` has counted this attempt already.
                Some(known) if job.kind != JobKind::Project => known,
                Some(known) => JobRow { attempts: known.attempts.saturating_add(1), ..known },
                None => JobRow::default(),
            };
            if let Some(seconds) = backoff_s(known.attempts, random::permille()) {
                ledger.failed(&known, FailedAs::Retryable, &error).await?;
                metrics::job(job.kind.as_str(), "failed");
                log_job("warn", "job_failed", job, &error);
                return Ok(Disposition::Retry(seconds));
            }
            ledger.failed(&known, FailedAs::Dead, &error).await?;
            ("error", format!("dead: {error}"))
        }
        Err(Failure::Permanent(error)) => {
            let known = ledger.known().await?.unwrap_or_default();
            ledger.failed(&known, FailedAs::Dead, &error).await?;
            ("error", format!("dead: {error}"))
        }
    };
    let is_done = level == "info";
    metrics::job(job.kind.as_str(), if is_done { "done" } else { "dead" });
    log_job(level, "job_over", job, &outcome);
    confirm(env, job, is_done).await?;
    Ok(Disposition::Ack)
}

/// The job was over before, and counted then.
async fn over(env: &Env, job: &Job) -> worker::Result<Disposition> {
    log_job("info", "job_over", job, "was over before");
    confirm(env, job, false).await?;
    Ok(Disposition::Ack)
}

async fn run(env: &Env, config: &Config, job: &Job, ledger: &Ledger<'_>) -> Result<Done, Failure> {
    match job.kind {
        JobKind::Project => {
            let snapshot = snapshot(job).ok_or_else(|| Failure::Permanent("not a snapshot".to_owned()))?;
            project(env, &snapshot).await.map_err(|error| Failure::Retryable(error.to_string()))?;
            Ok(Done::Unrecorded)
        }
        JobKind::SendReceipt => send_receipt::run(env, config, job, ledger).await,
        JobKind::Retired => retired(ledger).await,
    }
}

/// A job that no release stages any more. It is not done: a person sees that, unless it was over before.
async fn retired(ledger: &Ledger<'_>) -> Result<Done, Failure> {
    match ledger.known().await? {
        Some(known) if known.is_over() => Ok(Done::Already),
        Some(_) => {
            Err(Failure::Permanent("an earlier try broke off, outcome unknown: not sent again".to_owned()))
        }
        None => Err(Failure::Permanent("text messages are not sent any more: tell the pilot".to_owned())),
    }
}

fn snapshot(job: &Job) -> Option<Snapshot> {
    Snapshot::deserialize(&job.payload).ok()
}

/// Tells the object that it can delete the job, and up to which record the read model has its audit.
async fn confirm(env: &Env, job: &Job, is_done: bool) -> worker::Result<()> {
    let Some(object) = ObjectId::from_hex(&job.object) else {
        return Ok(());
    };
    let audit =
        snapshot(job).filter(|_| is_done && job.kind == JobKind::Project).map(|snapshot| snapshot.audit);
    let audit_through = audit.and_then(|audit| audit.last().map(|record| record.audit_id));
    let done = Ask::JobDone { job_id: job.job_id.clone(), audit_through };
    within(CONFIRM_TIMEOUT, "the confirmation", client::ask::<()>(env, object, &done)).await
}

fn log_job(level: &str, event: &str, job: &Job, outcome: &str) {
    let lag_ms = worker::Date::now().as_millis().saturating_sub(job.staged_at_ms);
    log(
        level,
        &[
            ("event", event.into()),
            ("job_id", job.job_id.as_str().into()),
            ("kind", job.kind.as_str().into()),
            ("outcome", outcome.into()),
            ("lag_ms", lag_ms.into()),
        ],
    );
}
