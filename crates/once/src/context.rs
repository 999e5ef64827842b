//! What comes in from outside at each step: the time, the entropy, what is configured.

use std::fmt;

use super::account::Credential;
use super::domain::Settings;
pub use super::times::{QUIET_MAX_MS, Times};

/// What a step is given: it has no clock and no dice of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context<S> {
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// A random number from 0 to 1000: spreads retries out.
    pub jitter_permille: u16,
    /// The configured times.
    pub times: Times,
    /// How many keys an object takes.
    pub keys_max: u32,
    /// What is configured for the flow.
    pub settings: S,
}

impl<S> Context<S> {
    /// The credential with which a request for this account is sent to a provider. `None` where nothing is known of it.
    pub fn credential<P>(&self, provider: P, account: Option<&str>) -> Option<Credential>
    where
        S: Settings<P>,
    {
        self.settings.credential(provider, account)
    }

    /// The delay before try number `failures` + 1: doubles from half a second to five minutes, half of it random.
    pub fn backoff_ms(&self, failures: u32) -> u64 {
        let ceiling = 500u64.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(300_000);
        ceiling / 2 + ceiling / 2 * u64::from(self.jitter_permille.min(1000)) / 1000
    }
}

/// A state that cannot be: a bug of ours or rows that somebody else changed. It says what was found.
///
/// Nothing is committed when a step returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug(pub String);

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bug: {}", self.0)
    }
}

impl std::error::Error for Bug {}
