//! What goes through the queue: JSON with a version, as text. While a deploy rolls out, an old object may speak to a new
//! consumer.

use serde::{Deserialize, Serialize};

use crate::machine::rows::JobKind;

/// The version of these messages.
pub const VERSION: u32 = 1;

/// A job on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// See [`VERSION`].
    pub version: u32,
    /// Unique for ever.
    pub job_id: String,
    /// Which job.
    pub kind: JobKind,
    /// The object that staged it, as hexadecimal digits.
    pub object: String,
    /// What the job needs.
    pub payload: serde_json::Value,
    /// When it was staged, in ms since the epoch.
    pub staged_at_ms: u64,
}

impl Job {
    /// From the text of a message. The error says nothing of what it holds.
    pub fn read(text: &str) -> Result<Self, String> {
        let job: Self = serde_json::from_str(text).map_err(|error| {
            format!("not a job ({:?} at {}:{})", error.classify(), error.line(), error.column())
        })?;
        match job.version {
            VERSION => Ok(job),
            other => Err(format!("a job of version {other}")),
        }
    }
}
