//! The outcome of an attempt of a job.

use super::ledger::Ledger;

/// Why an attempt failed.
pub(super) enum Failure {
    /// It may work later, under the same id.
    Retryable(String),
    /// What it needs here is not ready, and not the job's fault: a setting, or our own queue. It works under the same id once that is mended. The job
    /// itself says when that is too late.
    Unready(String),
    /// It was not begun, because others of its kind go first: that is no attempt.
    NotTried(String),
    /// D1 did not answer: nothing is recorded.
    LedgerUnavailable(String),
    /// It cannot or must not be retried.
    Permanent(String),
}

/// An error of D1.
impl From<worker::Error> for Failure {
    fn from(error: worker::Error) -> Self {
        Self::LedgerUnavailable(error.to_string())
    }
}

/// What an attempt has achieved.
pub(super) enum Done {
    /// It is done, with this result for the ledger.
    Recorded(String),
    /// It was over before.
    Already,
}

/// A job that no release stages any more. It is not done: a person sees that, unless it was over before.
pub(super) async fn retired(ledger: &Ledger<'_>) -> Result<Done, Failure> {
    match ledger.known().await? {
        Some(known) if known.is_over() => Ok(Done::Already),
        Some(_) => {
            Err(Failure::Permanent("an earlier try broke off, outcome unknown: not sent again".to_owned()))
        }
        None => Err(Failure::Permanent("text messages are no longer sent: purge this job".to_owned())),
    }
}
