//! The outcome of an attempt of a job.

/// Why an attempt failed.
pub(super) enum Failure {
    /// It may work later, under the same id.
    Retryable(String),
    /// Our settings are wrong, not the job: it works under the same id once somebody has mended them. The job itself says when that is too late.
    Misconfigured(String),
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
