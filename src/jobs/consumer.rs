//! A batch of messages: each is acknowledged or sent back by itself, so that none holds up another.

use std::time::Duration;

use futures_util::future::join_all;
use worker::{Env, Message, MessageBatch, MessageExt, QueueRetryOptionsBuilder};

use super::ledger::{End, Known, Ledger};
use super::levels::pause_s;
use super::message::Job;
use super::outcome::{Done, Failure};
use super::{send_message, send_receipt};
use crate::config::Config;
use crate::exchange::within;
use crate::log::log;
use crate::machine::id::ObjectId;
use crate::metrics;
use crate::object::client;
use crate::object::message::Ask;
use crate::payment::records::JobKind;
use crate::random;
use crate::readmodel::project::project;
use crate::readmodel::snapshot::Snapshot;
use serde::Deserialize as _;

/// The pause after a failure that could not even be written down, in seconds.
const BLIND_PAUSE_S: u32 = 60;

/// How long one message may take. Others wait for it, because a batch ends as a whole.
const JOB_TAKES: Duration = Duration::from_secs(90);
/// How long an object may take to forget a job: it waits for nobody then.
const CONFIRM_TAKES: Duration = Duration::from_secs(10);

/// What becomes of a message.
enum Fate {
    /// It is over.
    Ack,
    /// It comes again after so many seconds.
    Retry(u32),
}

/// Does what a batch holds. `is_dead` is the queue of messages that came too often: they go to the dead letters as they are.
pub async fn consume(batch: &MessageBatch<String>, env: &Env) {
    let is_dead = batch.queue().ends_with("-dead");
    let config = Config::of(env);
    let config = match &config {
        Ok(config) => config,
        Err(what) => {
            log("error", &[("event", "misconfigured".into()), ("error", what.as_str().into())]);
            batch.retry_all_with_options(&delay(BLIND_PAUSE_S));
            return;
        }
    };
    let work = batch.iter().map(|message| async move {
        // A message that is no text was not made by us: nobody could do anything with it.
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
            // A new object may speak to an old consumer while a deploy rolls out: it comes again.
            log("error", &[("event", "job_unreadable".into()), ("error", error.into())]);
            message.retry_with_options(&delay(BLIND_PAUSE_S));
            return;
        }
    };
    let fate = match within(JOB_TAKES, "the job", end(env, config, &job, is_dead)).await {
        Ok(fate) => fate,
        Err(error) => {
            told("error", "job_unfinished", &job, &error.to_string());
            Fate::Retry(BLIND_PAUSE_S)
        }
    };
    match fate {
        Fate::Ack => message.ack(),
        Fate::Retry(seconds) => message.retry_with_options(&delay(seconds)),
    }
}

/// Does a job, writes down what came of it, and tells the object. An error means that this could not be done.
async fn end(env: &Env, config: &Config, job: &Job, is_dead: bool) -> worker::Result<Fate> {
    let ledger = Ledger::new(env, job)?;
    let done = if is_dead {
        Err(Failure::Never("the queue has given it up: it could not be worked on".to_owned()))
    } else {
        run(env, config, job, &ledger).await
    };
    let (level, outcome) = match done {
        Ok(Done::Quietly) => {
            // Only an earlier failure has left a row.
            ledger.done("").await?;
            ("info", "done".to_owned())
        }
        Ok(Done::UnderWay) => return Ok(Fate::Retry(send_message::TRY_TAKES_S)),
        Ok(Done::As(result)) => {
            ledger.done(&result).await?;
            ("info", result)
        }
        Ok(Done::Already) => return over(env, job).await,
        Err(Failure::Blind(error)) => {
            told("warn", "job_unfinished", job, &error);
            return Ok(Fate::Retry(BLIND_PAUSE_S));
        }
        Err(failure @ (Failure::Later(_) | Failure::NotDone(_))) => {
            let (error, end) = match failure {
                Failure::NotDone(error) => (error, End::NotDone),
                Failure::Later(error) | Failure::Blind(error) | Failure::Never(error) => (error, End::Failed),
            };
            let known = ledger.known().await?;
            let known = match known {
                // A snapshot from before personal data was erased: a newer one is on its way.
                Some(known) if known.is_purged() => return over(env, job).await,
                // The try was counted when it began, where it is counted.
                Some(known) if job.kind != JobKind::Project => known,
                Some(known) => Known { attempts: known.attempts.saturating_add(1), ..known },
                None => Known::default(),
            };
            if let Some(seconds) = pause_s(known.attempts, random::permille()) {
                ledger.failed(&known, end, &error).await?;
                metrics::job(job.kind.as_str(), "failed");
                told("warn", "job_failed", job, &error);
                return Ok(Fate::Retry(seconds));
            }
            ledger.failed(&known, End::Dead, &error).await?;
            ("error", format!("dead: {error}"))
        }
        Err(Failure::Never(error)) => {
            let known = ledger.known().await?.unwrap_or_default();
            ledger.failed(&known, End::Dead, &error).await?;
            ("error", format!("dead: {error}"))
        }
    };
    let is_done = level == "info";
    metrics::job(job.kind.as_str(), if is_done { "done" } else { "dead" });
    told(level, "job_over", job, &outcome);
    confirm(env, job, is_done).await?;
    Ok(Fate::Ack)
}

/// It was over before: it was counted then.
async fn over(env: &Env, job: &Job) -> worker::Result<Fate> {
    told("info", "job_over", job, "was over before");
    confirm(env, job, false).await?;
    Ok(Fate::Ack)
}

async fn run(env: &Env, config: &Config, job: &Job, ledger: &Ledger<'_>) -> Result<Done, Failure> {
    match job.kind {
        JobKind::Project => {
            let snapshot = snapshot(job).ok_or_else(|| Failure::Never("not a snapshot".to_owned()))?;
            project(env, &snapshot).await.map_err(|error| Failure::Later(error.to_string()))?;
            Ok(Done::Quietly)
        }
        JobKind::SendReceipt => send_receipt::run(env, config, job, ledger).await,
        JobKind::SendMessage => send_message::run(env, config, job, ledger).await,
    }
}

fn snapshot(job: &Job) -> Option<Snapshot> {
    Snapshot::deserialize(&job.payload).ok()
}

/// Tells the object that it can forget the job. The audit that a projection carried is there only if it is done.
async fn confirm(env: &Env, job: &Job, is_done: bool) -> worker::Result<()> {
    let Some(object) = ObjectId::from_hex(&job.object) else {
        return Ok(());
    };
    let audit =
        snapshot(job).filter(|_| is_done && job.kind == JobKind::Project).map(|snapshot| snapshot.audit);
    let audit_through = audit.and_then(|audit| audit.last().map(|record| record.audit_id));
    let done = Ask::JobDone { job_id: job.job_id.clone(), audit_through };
    within(CONFIRM_TAKES, "the object's word", client::ask::<()>(env, object, &done)).await
}

fn told(level: &str, event: &str, job: &Job, outcome: &str) {
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
