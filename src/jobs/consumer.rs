//! Consumes a batch of messages. Each is acknowledged or retried by itself, so that none delays another: a job that fails beside others goes
//! on in a message of its own.
//!
//! No object is told: it looks into D1 which of its jobs are over.

use std::time::Duration;

use futures_util::future::join_all;
use worker::{
    Env, Message, MessageBatch, MessageBuilder, MessageExt, QueueContentType, QueueRetryOptionsBuilder,
};

use super::backoff::backoff_s;
use super::ledger::{FailedAs, JobRow, Ledger};
use super::outcome::{Done, Failure};
use super::send_receipt;
use crate::config::Config;
use crate::readmodel::project::project;
use messages::job::Job;
use messages::snapshot::Snapshot;
use payments::payment::records::JobKind;
use runtime::http_client::within;
use runtime::log::log;
use runtime::metrics;
use runtime::random;
use serde::Deserialize as _;

/// The delay after a failure that could not be recorded, in seconds.
const RETRY_DELAY_S: u32 = 60;

/// How long one message may take. The batch waits for all of its messages.
const JOB_TIMEOUT: Duration = Duration::from_secs(90);
/// How long the queue may take to accept jobs that go on by themselves.
const QUEUE_TAKES: Duration = Duration::from_secs(10);

/// What becomes of a job.
#[derive(Clone, Copy)]
enum Disposition {
    /// It is over.
    Over,
    /// It comes again after this many seconds.
    Again(u32),
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
    let jobs = match Job::read(message.body()) {
        Ok(jobs) => jobs,
        Err(error) => {
            // During a deploy, a new object may send to an old consumer: retry.
            log("error", &[("event", "job_unreadable".into()), ("error", error.into())]);
            message.retry_with_options(&delay(RETRY_DELAY_S));
            return;
        }
    };
    let ends = join_all(jobs.iter().map(|job| work_on(env, config, job, is_dead))).await;
    let again: Vec<(&Job, u32)> = jobs
        .iter()
        .zip(ends)
        .filter_map(|(job, end)| match end {
            Disposition::Over => None,
            Disposition::Again(seconds) => Some((job, seconds)),
        })
        .collect();
    let Some(first_s) = again.iter().map(|(_, seconds)| *seconds).min() else {
        return message.ack();
    };
    // What was given up stays with what has given it up.
    let is_alone = jobs.len() == 1 || is_dead;
    let goes_on = if is_alone { Ok(false) } else { go_on(env, &again).await.map(|()| true) };
    match goes_on {
        Ok(true) => message.ack(),
        Ok(false) => message.retry_with_options(&delay(first_s)),
        Err(error) => {
            log("warn", &[("event", "jobs_not_split".into()), ("error", error.to_string().into())]);
            message.retry_with_options(&delay(first_s));
        }
    }
}

/// Sends each of these jobs on by itself, to come again after so many seconds.
async fn go_on(env: &Env, jobs: &[(&Job, u32)]) -> worker::Result<()> {
    let mut messages = Vec::new();
    for (job, seconds) in jobs {
        let message = MessageBuilder::new(serde_json::to_string(job)?).content_type(QueueContentType::Text);
        messages.push(message.delay_seconds(*seconds).build());
    }
    metrics::queued(messages.len());
    within(QUEUE_TAKES, "the queue", env.queue("JOBS")?.send_batch(messages)).await
}

async fn work_on(env: &Env, config: &Config, job: &Job, is_dead: bool) -> Disposition {
    match within(JOB_TIMEOUT, "the job", end(env, config, job, is_dead)).await {
        Ok(disposition) => disposition,
        Err(error) => {
            log_job("error", "job_unfinished", job, &error.to_string());
            Disposition::Again(RETRY_DELAY_S)
        }
    }
}

/// Does a job and records its outcome. An error means that the outcome was not recorded.
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
        Ok(Done::Already) => return Ok(over(job)),
        Err(Failure::LedgerUnavailable(error)) => {
            log_job("warn", "job_unfinished", job, &error);
            return Ok(Disposition::Again(RETRY_DELAY_S));
        }
        Err(Failure::Retryable(error)) => {
            let known = ledger.known().await?;
            let known = match known {
                // The snapshot is older than the erasure of personal data; a newer one follows.
                Some(known) if known.is_purged() => return Ok(over(job)),
                // `begin` has counted this attempt already.
                Some(known) if job.kind != JobKind::Project => known,
                Some(known) => JobRow { attempts: known.attempts.saturating_add(1), ..known },
                None => JobRow::default(),
            };
            if let Some(seconds) = backoff_s(known.attempts, random::permille()) {
                ledger.failed(&known, FailedAs::Retryable, &error).await?;
                metrics::job(job.kind.as_str(), "failed");
                log_job("warn", "job_failed", job, &error);
                return Ok(Disposition::Again(seconds));
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
    Ok(Disposition::Over)
}

/// The job was over before, and counted then.
fn over(job: &Job) -> Disposition {
    log_job("info", "job_over", job, "was over before");
    Disposition::Over
}

async fn run(env: &Env, config: &Config, job: &Job, ledger: &Ledger<'_>) -> Result<Done, Failure> {
    match job.kind {
        JobKind::Project => {
            let snapshot = Snapshot::deserialize(&job.payload)
                .map_err(|_| Failure::Permanent("not a snapshot".to_owned()))?;
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
