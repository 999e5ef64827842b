//! Why the clock or the control surface could not do what it was asked.

use crate::store::StoreError;

/// Nothing was done, and everything written is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// For a person.
    pub message: String,
}

/// What the clock and the control surface return.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// The simulator itself is broken.
    pub fn broken(message: impl Into<String>) -> Self {
        Failure { status: 500, message: message.into() }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::broken(error.0)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::broken(error.to_string())
    }
}
