//! The configured times.

/// The longest quiet time that can be configured, in ms: look-ups search no further than that after the last send.
pub const QUIET_MAX_MS: u64 = 3_600_000;

/// The longest bounded wait that can be configured, in ms: a client should not be kept longer.
const WAIT_MAX_MS: u64 = 30_000;
/// For how long the provider keeps a key at least, in ms; then the same key is executed anew.
const PROVIDER_KEEPS_MS: u64 = 24 * 3_600_000;
/// What the clocks of two incarnations differ by at most, in ms.
const CLOCKS_DIFFER_MS: u64 = 600_000;

/// After how long it is looked whether a job is over, in ms, unless it is configured otherwise. An object that nobody asks leaves memory after
/// 10 s: whoever looks before that has it there still.
pub(crate) const OUTBOX_MS: u64 = 9_000;

/// The configured times. All in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// How long a run may hold a key without a sign of life before another may take it over.
    pub lease_ms: u64,
    /// How long a request waits for a result, unless it says so itself: a duplicate for the first one's, and anybody for the provider. On `once-object` each
    /// says so, by its `Execute::wait_ms`: this is what yours may take for that.
    pub wait_ms: u64,
    /// After how long without a sign of life the alarm pushes an unfinished key through.
    pub completer_ms: u64,
    /// How long a stored response is replayed before only its tombstone is left.
    pub retention_ms: u64,
    /// How long after the first send, even one that was refused, the same derived key may be sent again. A provider keeps keys
    /// for a time, such as 24 h, and then executes anew: this stays well below.
    pub provider_window_ms: u64,
    /// How long one call to the provider may take.
    pub provider_timeout_ms: u64,
    /// How long after the last send an "it is not there" from a look-up is believed.
    ///
    /// Longer than a request can be on its way *and* the clocks of two incarnations can differ: one may be 5 min behind,
    /// the other 5 min ahead, so 20 min leave a late request 10.
    pub quiet_ms: u64,
    /// How long after a provider has failed while it executed (a 5xx of its own) nobody believes that nothing was executed:
    /// it may complete the work hours later, and until then shows nothing of it.
    pub quarantine_ms: u64,
    /// How long after a job was staged its object looks whether it is over. Longer than a queue that is not busy takes.
    pub outbox_ms: u64,
    /// How long a job that was not over then may be on its way before it is given to the queue again. Longer than all its retries take, and
    /// shorter than whoever does it keeps its id.
    pub confirm_ms: u64,
    /// How long after the newest operation personal data is kept. The highest number there is keeps it for good.
    pub personal_retention_ms: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease_ms: 90_000,
            wait_ms: 10_000,
            completer_ms: 60_000,
            retention_ms: 24 * 3_600_000,
            provider_window_ms: 23 * 3_600_000,
            provider_timeout_ms: 30_000,
            quiet_ms: 1_200_000,
            quarantine_ms: 3 * 86_400_000,
            outbox_ms: OUTBOX_MS,
            confirm_ms: 6 * 3_600_000,
            personal_retention_ms: 400 * 86_400_000,
        }
    }
}

impl Times {
    /// Checks that the times fit together; the error says which do not and why. It names them in capitals, as the variables of a Worker are called in which
    /// they stand: `LEASE_MS` is [`lease_ms`](Self::lease_ms).
    ///
    /// ```
    /// use once::times::Times;
    ///
    /// assert!(Times::default().validate().is_ok());
    /// // A call would outlive the lease of its run.
    /// assert!(Times { provider_timeout_ms: 120_000, ..Times::default() }.validate().is_err());
    /// ```
    pub fn validate(self) -> Result<Self, String> {
        let zero = [
            ("LEASE_MS", self.lease_ms),
            ("COMPLETER_MS", self.completer_ms),
            ("RETENTION_MS", self.retention_ms),
            ("PROVIDER_WINDOW_MS", self.provider_window_ms),
            ("PROVIDER_TIMEOUT_MS", self.provider_timeout_ms),
            ("QUIET_MS", self.quiet_ms),
            ("QUARANTINE_MS", self.quarantine_ms),
            ("OUTBOX_MS", self.outbox_ms),
            ("CONFIRM_MS", self.confirm_ms),
            ("PERSONAL_RETENTION_MS", self.personal_retention_ms),
        ];
        if let Some((name, _)) = zero.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!(
                "{name} must be greater than 0: set a number of milliseconds, or leave it out"
            ));
        }
        if self.provider_timeout_ms >= self.lease_ms {
            return Err(
                "PROVIDER_TIMEOUT_MS must be below LEASE_MS: a call may not outlive the lease; raise LEASE_MS".into(),
            );
        }
        if self.provider_timeout_ms >= self.quiet_ms {
            return Err(
                "QUIET_MS must be above PROVIDER_TIMEOUT_MS: a request may still be on its way; raise QUIET_MS"
                    .into(),
            );
        }
        if self.quarantine_ms < self.quiet_ms {
            return Err("QUARANTINE_MS must be at least QUIET_MS: raise it, 3 days is the default".into());
        }
        if self.quiet_ms > QUIET_MAX_MS {
            return Err("QUIET_MS must be at most 3600000 (1 h): look-ups search no further than that".into());
        }
        if self.wait_ms > WAIT_MAX_MS {
            return Err(format!(
                "WAIT_MS must be at most {WAIT_MAX_MS}: answer 409 sooner and let the client retry"
            ));
        }
        // The last send inside the window must reach the provider before it forgets the key, whosever clock is right and however late it is.
        let margin_ms = self.provider_timeout_ms.saturating_add(CLOCKS_DIFFER_MS).max(self.quiet_ms);
        if self.provider_window_ms.saturating_add(margin_ms) > PROVIDER_KEEPS_MS {
            return Err(format!(
                "PROVIDER_WINDOW_MS must be at most {}, which is 24 h less QUIET_MS, or PROVIDER_TIMEOUT_MS and 10 min for \
                 clocks: an older key is executed again by the provider; lower it",
                PROVIDER_KEEPS_MS.saturating_sub(margin_ms)
            ));
        }
        Ok(self)
    }
}
