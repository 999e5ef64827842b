//! What the gate tells the read model of what it has passed on, and what the desk asks of its objects. Nothing of what was sent.

use serde::{Deserialize, Serialize};

/// What a person can read out to whoever runs the site: the first digits of what stands for their key.
pub fn reference(key_hash: &str) -> String {
    let digits = key_hash.to_ascii_uppercase();
    format!("{}-{}", digits.get(..4).unwrap_or_default(), digits.get(4..8).unwrap_or_default())
}

/// An operation as the read model has it: the columns are described in migrations/0017_gate.sql.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns are described in migrations/")]
pub struct GateRow {
    pub key_hash: String,
    pub number: u32,
    pub version: u64,
    pub host: String,
    pub route: String,
    pub state: String,
    pub status: Option<u16>,
    pub attempts: u32,
    pub replays: u32,
    pub began_at_ms: u64,
    pub ended_at_ms: Option<u64>,
}

/// Tells it of some: `?1` is a JSON array of rows.
pub const TELL: &str = "INSERT INTO gate_operations
        (key_hash, number, version, host, route, state, status, attempts, replays, began_at_ms, ended_at_ms)
     SELECT value ->> 'key_hash', value ->> 'number', value ->> 'version', value ->> 'host', value ->> 'route', value ->> 'state',
        value ->> 'status', value ->> 'attempts', value ->> 'replays', value ->> 'began_at_ms', value ->> 'ended_at_ms'
     FROM json_each(?1) WHERE true
     ON CONFLICT (key_hash, number) DO UPDATE SET version = excluded.version, state = excluded.state, status = excluded.status,
        attempts = excluded.attempts, replays = excluded.replays, ended_at_ms = excluded.ended_at_ms
     WHERE excluded.version > gate_operations.version";

/// What the desk asks of an object of the gate. It answers with [`Inspected`](crate::message::Inspected), or with
/// [`ByHandAnswer`](crate::message::ByHandAnswer).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAsk {
    /// Show all that happened here.
    Inspect,
    /// An operator says how an operation ended.
    Settle(GateWord),
}

/// What an operator says of an operation that nobody knows the end of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateWord {
    /// Its number under its key.
    pub number: u32,
    /// It was done; else it was not, and may be sent once more.
    pub is_done: bool,
    /// Who says so.
    pub operator: String,
    /// Why, in their words.
    pub reason: String,
    /// The number of the button: pressed twice it counts once.
    pub button: u64,
}
