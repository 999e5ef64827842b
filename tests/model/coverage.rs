//! What the exploration met: a model in which nothing ever goes wrong would hold any property.

use std::sync::atomic::{AtomicU64, Ordering};

/// Something worth meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Sent,
    Replayed,
    Conflict,
    MismatchRefused,
    RefusedByTombstone,
    TakenOverByRetry,
    TakenOverByAlarm,
    Fenced,
    DiedBeforeSend,
    LateSuccessPossible,
    ProviderReplayed,
    LookUpReadOn,
    LookUpFound,
    LookUpAbsent,
    Quarantined,
    Completed,
    LeftPending,
    Interrupted,
    FinishedByAlarm,
}

impl Seen {
    const ALL: [Self; 19] = [
        Self::Sent,
        Self::Replayed,
        Self::Conflict,
        Self::MismatchRefused,
        Self::RefusedByTombstone,
        Self::TakenOverByRetry,
        Self::TakenOverByAlarm,
        Self::Fenced,
        Self::DiedBeforeSend,
        Self::LateSuccessPossible,
        Self::ProviderReplayed,
        Self::LookUpReadOn,
        Self::LookUpFound,
        Self::LookUpAbsent,
        Self::Quarantined,
        Self::Completed,
        Self::LeftPending,
        Self::Interrupted,
        Self::FinishedByAlarm,
    ];
}

/// How often each was met.
#[derive(Default)]
pub struct Coverage([AtomicU64; Seen::ALL.len()]);

impl Coverage {
    pub fn note(&self, seen: Seen) {
        self.0[seen as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Each with its count.
    pub fn table(&self) -> impl Iterator<Item = (Seen, u64)> {
        Seen::ALL.into_iter().map(|seen| (seen, self.0[seen as usize].load(Ordering::Relaxed)))
    }
}
