//! How often a key was answered again, for people: nothing is decided by it.
//!
//! A replay writes nothing. An incarnation counts in memory, and writes the count with the next commit that comes anyway; without one, when a
//! key's replays become 16, 32, 64 … What an incarnation that ends has not written is lost: the count may be too small, never too large.

use std::collections::{BTreeMap, VecDeque};

use super::domain::Domain;
use super::id::RequestId;
use super::object_state::{ObjectState, TimelineEntry};

/// The event of a timeline's line about a replay.
pub const REPLAYED: &str = "replayed";
/// How many replays of a key have a line in the timeline: the first ones. Fewer are not worth a commit of their own.
pub const REPLAYS_SHOWN_MAX: u32 = 16;

/// How many of the newest requests are known by their ids, so that none of them is counted once more.
const NEWEST_MAX: usize = 64;

/// What is counted and not written.
#[derive(Clone, Debug, Default)]
pub struct Replays {
    /// By the key's number.
    counts: BTreeMap<u32, u32>,
    lines: Vec<TimelineEntry>,
    is_due: bool,
    /// Those that were counted last, written or not, with the numbers of their keys.
    newest: VecDeque<(u32, RequestId)>,
}

impl Replays {
    /// A request was given the response of another one: the stored one, or that of a run whose end it has waited for. Whether that is new: who
    /// asks in two ways, because the first one took too long, asks under one id and is counted once.
    pub fn count<F: Domain>(
        &mut self,
        state: &ObjectState<F>,
        key_id: u32,
        request: &RequestId,
        now_ms: u64,
    ) -> bool {
        let Some(key) = state.key(key_id) else { return true };
        if self.newest.iter().any(|(of, counted)| *of == key_id && counted == request) {
            return false;
        }
        self.newest.truncate(NEWEST_MAX - 1);
        self.newest.push_front((key_id, request.clone()));
        let unwritten = self.counts.entry(key_id).or_default();
        *unwritten = unwritten.saturating_add(1);
        let replays = key.replays.saturating_add(*unwritten);
        if replays <= REPLAYS_SHOWN_MAX {
            let (attempt, event, detail) = (key.attempt, REPLAYED.to_owned(), request.0.clone());
            self.lines.push(TimelineEntry { key_id, at_ms: now_ms, attempt, event, detail });
        }
        self.is_due |= replays >= REPLAYS_SHOWN_MAX && replays.is_power_of_two();
        true
    }

    /// What is to be written now, which is not unwritten any more.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let newest = std::mem::take(&mut self.newest);
        std::mem::replace(self, Self { newest, ..Self::default() })
    }

    /// Whether they are to be written although nothing else is.
    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// The lines of the timeline, oldest first.
    pub fn lines(&self) -> &[TimelineEntry] {
        &self.lines
    }

    /// Adds the counts to those that are written.
    pub fn add_to<F: Domain>(&self, state: &mut ObjectState<F>) {
        for (key_id, count) in &self.counts {
            if let Some(key) = state.key_mut(*key_id) {
                key.replays = key.replays.saturating_add(*count);
            }
        }
    }
}
