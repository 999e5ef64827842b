//! What goes through the queue: JSON with a version, as text. While a deploy rolls out, an old object may speak to a new
//! consumer.

use serde::{Deserialize, Serialize};

use crate::payment::records::JobKind;
use crate::readmodel::snapshot::Snapshot;

/// The version of these messages.
pub const VERSION: u32 = 1;

/// How long a message may be, in bytes: the queue takes 128 KB, with what it adds itself.
pub const MESSAGE_MAX_BYTES: usize = 120_000;
/// How long the messages of one batch may be together, in bytes: the queue takes 256 KB.
const BATCH_MAX_BYTES: usize = 240_000;
/// How many messages one batch has at most.
const BATCH_MAX: usize = 100;
/// What the queue adds to each message, in bytes.
const ENVELOPE_BYTES: usize = 200;

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
    /// The text of a projection: as much of the snapshot as one message holds.
    pub fn projecting(mut self, mut snapshot: Snapshot) -> serde_json::Result<String> {
        loop {
            self.payload = serde_json::to_value(&snapshot)?;
            let text = serde_json::to_string(&self)?;
            if text.len() <= MESSAGE_MAX_BYTES || !snapshot.halve() {
                return Ok(text);
            }
        }
    }

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

/// Messages in batches that the queue takes, in their order. `text` is the text of one.
pub fn batches<T>(messages: Vec<T>, text: impl Fn(&T) -> &str) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        // One that is too long is refused with all of its batch: it goes alone.
        let more = match text(&message).len() {
            ..=MESSAGE_MAX_BYTES => text(&message).len() + ENVELOPE_BYTES,
            _ => BATCH_MAX_BYTES,
        };
        match batches.last_mut().filter(|batch| batch.len() < BATCH_MAX && bytes + more <= BATCH_MAX_BYTES) {
            Some(batch) => {
                bytes += more;
                batch.push(message);
            }
            None => {
                bytes = more;
                batches.push(vec![message]);
            }
        }
    }
    batches
}
