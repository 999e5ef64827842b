//! Decides when an isolate sends its counters: after an answer, at most about once a second.

/// The time between two sends, in ms.
const INTERVAL_MS: u64 = 1000;
/// For how long after its time a claim holds, in ms: the runtime may have ended the claimant.
const PATIENCE_MS: u64 = 5000;

/// One isolate's throttle. Its times are in ms since the epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushThrottle {
    sent_at_ms: u64,
    claimed_until_ms: u64,
}

impl FlushThrottle {
    /// Nothing was sent or claimed.
    pub const fn new() -> Self {
        Self { sent_at_ms: 0, claimed_until_ms: 0 }
    }

    /// After how many ms the caller must send; `None` if another caller is about to.
    pub fn claim(&mut self, now_ms: u64) -> Option<u64> {
        // A clock that went back must not delay the next send.
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
