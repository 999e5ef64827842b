//! What a reader of the counts is given: the sums, and how they came to be.
//!
//! Where Analytics Engine is bound, it stands between the isolates and the object: whoever reads asks it for what was written since the
//! last time, and adds that to the object's sums, once ([`Fold`]). So a counter only grows, whatever a query would estimate the next
//! time, and it goes on for longer than Analytics Engine keeps its points. How far it was read is kept with the sums, in rows that are no
//! counts: a version that does not know them leaves them out.

use serde::{Deserialize, Serialize};

use super::counters::{Counters, Row};

/// Up to when Analytics Engine was read, in seconds since the epoch.
pub const READ_TO: &str = "analytics_read_to_s";
/// The largest sample interval that was read.
pub const SAMPLE_INTERVAL: &str = "analytics_sample_interval_max";
/// Whether whoever was asked writes to it.
const WRITES: &str = "analytics_writes";

/// How far Analytics Engine was added to the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// All points that were logged before, in seconds since the epoch.
    pub read_to_s: u64,
    /// For how many points one stood at most. Above 1 the sums are estimates.
    pub sample_interval_max: u64,
}

/// The sums, and how they came to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The sums.
    pub counters: Counters,
    /// How far they were read from Analytics Engine; `None` if never.
    pub folded: Option<Folded>,
    /// Whether whoever was asked writes to Analytics Engine.
    pub writes: bool,
    /// How many keys are open, if that was counted otherwise.
    pub keys_open: Option<u64>,
}

impl From<Counters> for Reading {
    fn from(counters: Counters) -> Self {
        Self { counters, ..Self::default() }
    }
}

impl Reading {
    /// From the rows of objects.
    pub fn from_rows(rows: Vec<Row>) -> Self {
        let mut reading = Self { folded: folded(&rows), ..Self::default() };
        reading.writes = number_of(&rows, WRITES).is_some();
        reading.counters = Counters::from_rows(rows);
        reading
    }

    /// As rows, from which another Worker makes the same.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.counters.rows();
        if let Some(Folded { read_to_s, sample_interval_max }) = self.folded {
            rows.extend([note(READ_TO, read_to_s), note(SAMPLE_INTERVAL, sample_interval_max)]);
        }
        rows.extend(self.writes.then(|| note(WRITES, 1)));
        rows
    }

    /// Adds another one's, which knows of other shards.
    pub fn merge(&mut self, other: Self) {
        self.counters.merge(other.counters);
        self.folded = self.folded.or(other.folded);
        self.writes |= other.writes;
    }

    /// Whether a point has stood for more than one: then the sums are estimates. Those of changes say nothing then: what a thing has entered
    /// and what it has left are estimated each for itself, and what is between them is small.
    pub fn is_sampled(&self) -> bool {
        self.folded.is_some_and(|folded| folded.sample_interval_max > 1)
    }
}

/// What Analytics Engine has of a window, to be added to the sums once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Up to when it had been read before; `None` if never.
    pub from_s: Option<u64>,
    /// Up to when it is read now.
    pub to_s: u64,
    /// The largest sample interval in it.
    pub sample_interval_max: u64,
    /// What it has.
    pub rows: Vec<Row>,
}

impl Fold {
    /// What to add to the rows that are stored; `None` if another reader has added something of this window already.
    pub fn rows_to_add(self, stored: Option<Folded>) -> Option<Vec<Row>> {
        if self.from_s != stored.map(|stored| stored.read_to_s) || self.from_s.unwrap_or(0) >= self.to_s {
            return None;
        }
        let interval = stored.map_or(0, |stored| stored.sample_interval_max);
        // Rows are added up: of what is kept with them, too, only the difference.
        let mut rows = self.rows;
        rows.push(note(READ_TO, self.to_s.saturating_sub(self.from_s.unwrap_or(0))));
        rows.push(note(SAMPLE_INTERVAL, self.sample_interval_max.saturating_sub(interval)));
        Some(rows)
    }
}

/// How far was read, by rows that are stored.
pub fn folded(rows: &[Row]) -> Option<Folded> {
    let read_to_s = number_of(rows, READ_TO)?;
    Some(Folded { read_to_s, sample_interval_max: number_of(rows, SAMPLE_INTERVAL).unwrap_or(1) })
}

fn number_of(rows: &[Row], name: &str) -> Option<u64> {
    let mut of_it = rows.iter().filter(|Row(family, ..)| family == name);
    of_it.next().and_then(|Row(.., number)| u64::try_from(*number).ok())
}

fn note(name: &str, number: u64) -> Row {
    Row(name.to_owned(), Vec::new(), String::new(), i64::try_from(number).unwrap_or(i64::MAX))
}
