//! When an isolate sends what it has counted: after an answer, at most about once a second, whoever answers.

/// The time between two sends, in ms.
const INTERVAL_MS: u64 = 1000;
/// For how long a claim is honoured after its time, in ms: the runtime may have ended whoever made it.
const PATIENCE_MS: u64 = 5000;

/// The pace of one isolate. Its times are in ms since the epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    sent_at_ms: u64,
    claimed_until_ms: u64,
}

impl Pace {
    /// As it begins.
    pub const fn new() -> Self {
        Self { sent_at_ms: 0, claimed_until_ms: 0 }
    }

    /// After how many ms the caller must send; `None` if another caller is about to.
    pub fn claim(&mut self, now_ms: u64) -> Option<u64> {
        // A clock that went back must not hold the next send up.
        let honoured = now_ms..=now_ms.saturating_add(INTERVAL_MS + PATIENCE_MS);
        if honoured.contains(&self.claimed_until_ms) {
            return None;
        }
        let since_ms = now_ms.checked_sub(self.sent_at_ms).unwrap_or(INTERVAL_MS);
        let delay_ms = INTERVAL_MS.saturating_sub(since_ms);
        self.claimed_until_ms = now_ms.saturating_add(delay_ms + PATIENCE_MS);
        Some(delay_ms)
    }

    /// A send begins.
    pub fn sent(&mut self, now_ms: u64) {
        *self = Self { sent_at_ms: now_ms, claimed_until_ms: 0 };
    }
}
