//! Takes a protection away, so that a harness can show that it would notice.

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
}

impl Saboteur {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ProviderKey, Self::WriteAhead, Self::Fencing, Self::Alarm, Self::Tombstone, Self::Outbox];
}
