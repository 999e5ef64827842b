//! How long is waited for what.

use once::times::Times;
use serde::{Deserialize, Serialize};

/// How long a route waits for what, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waits {
    /// A duplicate for the first one.
    pub wait_ms: u64,
    /// Until an answer is dropped; so long a form may be open, too.
    pub keep_ms: u64,
    /// For the origin.
    pub timeout_ms: u64,
    /// How long after the first send the origin keeps our key.
    pub replay_ms: u64,
    /// How long after a send an "it is not there" of a look-up is believed.
    pub quiet_ms: u64,
}

impl Waits {
    /// The same where a request takes so many times longer.
    #[must_use]
    pub const fn times_longer(self, factor: u64) -> Self {
        Self {
            timeout_ms: self.timeout_ms.saturating_mul(factor),
            quiet_ms: self.quiet_ms.saturating_mul(factor),
            ..self
        }
    }

    /// As the engine takes them.
    pub fn times(self) -> Times {
        Times {
            lease_ms: self.timeout_ms.saturating_add(30_000),
            wait_ms: self.wait_ms,
            completer_ms: self.timeout_ms,
            retention_ms: self.keep_ms,
            provider_timeout_ms: self.timeout_ms,
            provider_window_ms: self.replay_ms,
            quiet_ms: self.quiet_ms,
            // An origin that has failed does not go on with it hours later.
            quarantine_ms: self.quiet_ms,
            ..Times::default()
        }
    }
}
