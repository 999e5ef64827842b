//! Decides when an isolate sends its counters: after an answer, at most about once in an interval.

use crate::settings;

/// The time between two sends, in ms, where it is not set.
pub const INTERVAL_MS: u64 = 1_000;
/// The longest: a runtime ends what still waits half a minute after its answer.
const INTERVAL_MAX_MS: u64 = 25_000;
/// For how long after its time a claim holds, in ms: the runtime may have ended the claimant.
const PATIENCE_MS: u64 = 5_000;

/// `METRICS_INTERVAL_MS`: how often an isolate sends its counts at most, in ms.
pub fn interval_ms(setting: impl Fn(&str) -> Option<String>) -> Result<u64, String> {
    match settings::ms(setting, "METRICS_INTERVAL_MS", INTERVAL_MS)? {
        interval_ms if interval_ms <= INTERVAL_MAX_MS => Ok(interval_ms),
        _ => Err(format!("METRICS_INTERVAL_MS must be at most {INTERVAL_MAX_MS}.")),
    }
}

/// One isolate's throttle. Its times are in ms since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct FlushThrottle {
    interval_ms: u64,
    sent_at_ms: u64,
    claimed_until_ms: u64,
}

impl FlushThrottle {
    /// Nothing was sent or claimed.
    pub const fn new() -> Self {
        Self { interval_ms: INTERVAL_MS, sent_at_ms: 0, claimed_until_ms: 0 }
    }

    /// After how many ms the caller must send; `None` if another caller is about to.
    pub fn claim(&mut self, now_ms: u64) -> Option<u64> {
        // A clock that went back must not delay the next send.
        let honoured = now_ms..=now_ms.saturating_add(self.interval_ms + PATIENCE_MS);
        if honoured.contains(&self.claimed_until_ms) {
            return None;
        }
        let since_ms = now_ms.checked_sub(self.sent_at_ms).unwrap_or(self.interval_ms);
        let delay_ms = self.interval_ms.saturating_sub(since_ms);
        self.claimed_until_ms = now_ms.saturating_add(delay_ms + PATIENCE_MS);
        Some(delay_ms)
    }

    /// A send begins; the next is after `interval_ms`.
    pub fn sent(&mut self, now_ms: u64, interval_ms: u64) {
        *self = Self { interval_ms, sent_at_ms: now_ms, claimed_until_ms: 0 };
    }
}

impl Default for FlushThrottle {
    fn default() -> Self {
        Self::new()
    }
}
