//! The queue's messages: JSON text with a version, because during a deploy an old object may send to a new consumer.

use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;
use payments::payment::records::JobKind;

/// The version of these messages.
pub const VERSION: u32 = 1;

/// The longest message, in bytes: the queue takes 128 KB, including its own overhead.
pub const MESSAGE_MAX_BYTES: usize = 120_000;
/// The largest batch, in bytes: the queue takes 256 KB.
const BATCH_MAX_BYTES: usize = 240_000;
/// The most messages in a batch.
const BATCH_MAX: usize = 100;
/// What the queue adds to each message, in bytes.
const ENVELOPE_BYTES: usize = 200;

/// A job in the queue.
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
    /// The job's input.
    pub payload: serde_json::Value,
    /// When it was staged, in ms since the epoch.
    pub staged_at_ms: u64,
}

impl Job {
    /// The message of a projection, with as much of the snapshot as fits.
    pub fn projecting(mut self, mut snapshot: Snapshot) -> serde_json::Result<String> {
        loop {
            self.payload = serde_json::to_value(&snapshot)?;
            let text = serde_json::to_string(&self)?;
            if text.len() <= MESSAGE_MAX_BYTES || !snapshot.halve() {
                return Ok(text);
            }
        }
    }

    /// Reads a message. The error quotes nothing of it.
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

/// Splits messages into batches that the queue takes, in order. `text` gives a message's text.
pub fn batches<T>(messages: Vec<T>, text: impl Fn(&T) -> &str) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        // The queue refuses a batch with a message that is too long: it goes alone.
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
