//! What becomes of a job after an attempt, and what is written down of it: in the ledger, in the counts and in the log.

use super::backoff::{Backoff, Tried, backoff_s, delivery_backoff_s, passed_over_s, patient_backoff_s};
use super::hand_on::{self, Next};
use super::ledger::{FailedAs, JobRow, Ledger};
use super::outcome::Failure;
use messages::job::{Apart, Job};
use payments::payment::records::JobKind;
use runtime::log::log;
use runtime::metrics;
use runtime::now_ms;
use runtime::random;
use runtime::trace;

/// The delay after a failure that could not be recorded, in seconds.
pub(super) const RETRY_DELAY_S: u32 = 60;
/// The same of an outgoing webhook. A queue gives up what has come a hundred times, twice in all, and nobody stages an event again: a read model that is
/// away for half a day loses none.
const DELIVERY_RETRY_DELAY_S: u32 = 300;

const fn retry_delay_s(job: &Job) -> u32 {
    match job.kind {
        JobKind::DeliverWebhook => DELIVERY_RETRY_DELAY_S,
        JobKind::Project | JobKind::SendReceipt | JobKind::Retired => RETRY_DELAY_S,
    }
}

/// What becomes of a job.
pub(super) enum Disposition {
    /// It is over.
    Over,
    /// It comes again after this many seconds.
    Again(u32),
    /// It was left before its end was written down, and goes on by itself after this many seconds.
    Left(u32, Apart),
}

impl Disposition {
    /// What is still to be done of a job.
    pub(super) fn next(self, job: &Job) -> Option<Next<'_>> {
        match self {
            Self::Over => None,
            Self::Again(after_s) => Some(Next { job, after_s, left: None }),
            Self::Left(after_s, left) => Some(Next { job, after_s, left: Some(left) }),
        }
    }
}

pub(super) fn is_done(job: &Job, outcome: &str) -> Disposition {
    metrics::job(job.kind.as_str(), "done");
    log_job("info", "job_over", job, outcome);
    Disposition::Over
}

pub(super) fn unfinished(job: &Job, error: &worker::Error) -> Disposition {
    log_job("error", "job_unfinished", job, &error.to_string());
    Disposition::Again(retry_delay_s(job))
}

/// It is done, and that goes on until it is written down.
pub(super) fn unrecorded(job: &Job, error: &worker::Error, result: String) -> Disposition {
    log_job("warn", "job_unrecorded", job, &error.to_string());
    Disposition::Left(retry_delay_s(job), Apart { result: Some(result), ..Apart::default() })
}

/// It is not waited for here. Left in the midst of a send it goes on when that has ended.
pub(super) fn left(job: &Job, why: &str, left: Apart) -> Disposition {
    metrics::job(job.kind.as_str(), "handed_on");
    log_job("info", "job_handed_on", job, why);
    Disposition::Left(hand_on::after_left_s(&left), left)
}

/// It was not tried: no attempt is counted, and none is lost by it. It goes on in a message of its own, since the queue counts how often one has come,
/// and keeps it for some days only.
fn passed_over(job: &Job, why: &str) -> Disposition {
    let before = job.apart.clone().unwrap_or_default();
    let pause_s = passed_over_s(before.passed_over, random::permille());
    metrics::job(job.kind.as_str(), "handed_on");
    log_job("info", "job_handed_on", job, &format!("not tried: {why}"));
    Disposition::Left(pause_s, Apart { passed_over: before.passed_over.saturating_add(1), ..before })
}

/// Records a failure.
pub(super) async fn failed(job: &Job, ledger: &Ledger<'_>, failure: Failure) -> worker::Result<Disposition> {
    match failure {
        Failure::LedgerUnavailable(error) => {
            log_job("warn", "job_unfinished", job, &error);
            Ok(Disposition::Again(retry_delay_s(job)))
        }
        Failure::NotTried(why) => Ok(passed_over(job, &why)),
        Failure::Retryable(error) if job.kind == JobKind::DeliverWebhook => {
            again(job, ledger, &error, delivery_backoff_s).await
        }
        Failure::Retryable(error) => again(job, ledger, &error, backoff_s).await,
        Failure::Unready(error) => again(job, ledger, &error, patient_backoff_s).await,
        Failure::Permanent(error) => {
            dead(job, ledger, &ledger.known().await?.unwrap_or_default(), &error).await
        }
    }
}

/// It comes again after a pause; or it is dead, where there is none any more.
async fn again(job: &Job, ledger: &Ledger<'_>, error: &str, after: Backoff) -> worker::Result<Disposition> {
    let known = match ledger.known().await? {
        // The snapshot is older than the erasure of personal data; a newer one follows.
        Some(known) if known.is_purged() => return Ok(over(job)),
        // `begin` has counted this attempt already.
        Some(known) if job.kind != JobKind::Project => known,
        Some(known) => JobRow { attempts: known.attempts.saturating_add(1), ..known },
        None => JobRow::default(),
    };
    let for_ms = if known.first_at_ms > 0 { now_ms().saturating_sub(known.first_at_ms) } else { 0 };
    let tried = Tried { failures: known.attempts, for_ms };
    let Some(seconds) = after(tried, random::permille()) else {
        return dead(job, ledger, &known, error).await;
    };
    ledger.failed(&known, FailedAs::Retryable, error).await?;
    metrics::job(job.kind.as_str(), "failed");
    log_job("warn", "job_failed", job, error);
    Ok(Disposition::Again(seconds))
}

async fn dead(job: &Job, ledger: &Ledger<'_>, known: &JobRow, error: &str) -> worker::Result<Disposition> {
    ledger.failed(known, FailedAs::Dead, error).await?;
    metrics::job(job.kind.as_str(), "dead");
    log_job("error", "job_over", job, &format!("dead: {error}"));
    Ok(Disposition::Over)
}

/// The job was over before, and counted then.
pub(super) fn over(job: &Job) -> Disposition {
    log_job("info", "job_over", job, "was over before");
    Disposition::Over
}

fn log_job(level: &str, event: &str, job: &Job, outcome: &str) {
    let lag_ms = now_ms().saturating_sub(job.staged_at_ms);
    let mut fields = vec![
        ("event", event.into()),
        ("job_id", job.job_id.as_str().into()),
        ("kind", job.kind.as_str().into()),
        ("outcome", outcome.into()),
        ("lag_ms", lag_ms.into()),
    ];
    fields.extend(trace::fields(job.trace));
    log(level, &fields);
}
