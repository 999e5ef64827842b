//! Takes a protection away, so that a harness can show that it would notice.

use once::times::Times;

/// Which protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Saboteur {
    /// Each send goes out under a key of its own.
    ProviderKey,
    /// A send goes out although nothing about it was written down before.
    WriteAhead,
    /// A run that was taken over writes as if it held the lease.
    Fencing,
    /// No alarm is ever set.
    Alarm,
    /// A key is forgotten when its response has expired.
    Tombstone,
    /// A job counts as done as soon as the queue was asked.
    Outbox,
    /// A stranger counts as the owner of a key.
    Owner,
    /// Whatever is asked under a key counts as what was asked first.
    Fingerprint,
    /// A call is sent again however old its key is.
    Window,
    /// That a look-up shows nothing is believed at once.
    Quiet,
    /// That a look-up shows nothing is believed although the provider has failed with it.
    Quarantine,
    /// Clocks are wrong by hours.
    Clocks,
}

impl Saboteur {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ProviderKey,
        Self::WriteAhead,
        Self::Fencing,
        Self::Alarm,
        Self::Tombstone,
        Self::Outbox,
        Self::Owner,
        Self::Fingerprint,
        Self::Window,
        Self::Quiet,
        Self::Quarantine,
        Self::Clocks,
    ];

    /// The times that the engine is given.
    pub(crate) const fn change(this: Option<Self>, times: Times) -> Times {
        match this {
            Some(Self::Window) => Times { provider_window_ms: u64::MAX, ..times },
            Some(Self::Quiet) => Times { quiet_ms: 0, ..times },
            Some(Self::Quarantine) => Times { quarantine_ms: 0, ..times },
            _ => times,
        }
    }
}
