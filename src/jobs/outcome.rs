//! What comes of a try to do a job.

/// Why a job is not done.
pub(super) enum Failure {
    /// It may work later, by the same id.
    Later(String),
    /// It was not done, says whoever does it, and may work later. Only this lets a job be done again that is done once.
    NotDone(String),
    /// The ledger did not answer: nothing more is known than before, and nothing is written.
    Blind(String),
    /// It will not, or must not be tried again.
    Never(String),
}

/// Of the ledger.
impl From<worker::Error> for Failure {
    fn from(error: worker::Error) -> Self {
        Self::Blind(error.to_string())
    }
}

/// What came of a job that was not done before.
pub(super) enum Done {
    /// Its row is not worth making.
    Quietly,
    /// With this result, which the ledger keeps.
    As(String),
    /// It was over before.
    Already,
    /// Another try is under way: nothing is known yet.
    UnderWay,
}
