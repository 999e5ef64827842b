//! What waits in a place of the read model, as SQL: dead letters, open breaks, open keys, reservations that end.

use serde::{Deserialize, Serialize};
use worker::Result;

use runtime::db::Db;

/// How late an alarm must be to count as late, in ms: then a sweep wakes the object.
const LATE_MS: u64 = 120_000;
/// Until when a reservation can be captured, in ms since the epoch.
pub(crate) const CAPTURE_BEFORE_MS: &str = "unixepoch(shown ->> '$.capture_before') * 1000";
/// A reservation that ends within so long is shown to a person, in ms: a day.
const ENDS_SOON_MS: u64 = 86_400_000;

/// What of a payment says that its reservation ends soon, given until when it can be captured.
pub(crate) fn ends_soon(capture_before_ms: &str, now_ms: u64) -> String {
    let until_ms = now_ms.saturating_add(ENDS_SOON_MS);
    format!("status = 'requires_capture' AND status != 'succeeded' AND {capture_before_ms} <= {until_ms}")
}

/// What waits in one place, or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Jobs, and webhooks, that failed for good.
    pub(crate) dead: u64,
    /// Open breaks.
    pub(crate) breaks: u64,
    /// What the gate has passed on that nobody knows the end of.
    pub(crate) gate: u64,
    /// Keys that are not complete.
    pub(crate) open: u64,
    /// Those of them whose provider has not said whether it took the money.
    pub(crate) in_doubt: u64,
    /// Those of them whose alarm is late, or that need a person.
    pub(crate) late_or_flagged: u64,
    /// Reservations that end within a day.
    pub(crate) ending: u64,
}

impl Counts {
    /// Those of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            dead: self.dead.saturating_add(other.dead),
            breaks: self.breaks.saturating_add(other.breaks),
            gate: self.gate.saturating_add(other.gate),
            open: self.open.saturating_add(other.open),
            in_doubt: self.in_doubt.saturating_add(other.in_doubt),
            late_or_flagged: self.late_or_flagged.saturating_add(other.late_or_flagged),
            ending: self.ending.saturating_add(other.ending),
        }
    }
}

/// What is counted where places are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What the menu of each page shows: dead letters, breaks, and what the gate has passed on.
    Menu,
    /// All of it.
    All,
}

/// Of one place.
pub(crate) async fn of_place(db: &Db, now_ms: u64) -> Result<Counts> {
    Ok(db.first(&sql(Scope::All, now_ms), Vec::new()).await?.unwrap_or_default())
}

/// In one row, with the names of [`Counts`].
pub(crate) fn sql(scope: Scope, now_ms: u64) -> String {
    if scope == Scope::Menu {
        return WAITING.to_owned();
    }
    format!("SELECT * FROM ({}) CROSS JOIN ({}) CROSS JOIN ({})", WAITING, open_keys(now_ms), ending(now_ms))
}

/// What makes an open key one that a person should look at.
pub(crate) fn late_or_flagged(now_ms: u64) -> String {
    format!("(flagged = 1 OR coalesce(wake_at_ms, {now_ms}) < {})", now_ms.saturating_sub(LATE_MS))
}

/// What waits for an operator.
const WAITING: &str = "SELECT (SELECT count(*) FROM jobs WHERE state = 'dead')
        + (SELECT count(*) FROM inbox WHERE state = 'dead') AS dead,
    (SELECT count(*) FROM breaks WHERE state = 'open') AS breaks,
    (SELECT count(*) FROM gate_operations WHERE state = 'unknown' AND state != 'done') AS gate";

/// How the open keys stand.
fn open_keys(now_ms: u64) -> String {
    format!(
        "SELECT count(*) AS open, coalesce(sum(in_doubt), 0) AS in_doubt,
            coalesce(sum({}), 0) AS late_or_flagged
         FROM keys WHERE status = 'open'",
        late_or_flagged(now_ms)
    )
}

/// How many reservations end soon.
fn ending(now_ms: u64) -> String {
    let ends_soon = ends_soon(CAPTURE_BEFORE_MS, now_ms);
    format!("SELECT count(*) AS ending FROM payments WHERE {ends_soon}")
}
