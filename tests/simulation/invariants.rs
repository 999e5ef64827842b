//! The invariants of docs/protocol.md, and what is judged alike of every operation: keys as committed, and sends under a derived key.
//! Nothing here knows the core.

/// A broken invariant.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Which one.
    pub(crate) invariant: &'static str,
    /// What was seen.
    pub(crate) seen: String,
}

pub(crate) const ONE_CHARGE: &str = "1: at most one charge per key, ever";
pub(crate) const SAME_BYTES: &str = "3: every replay is byte-identical";
pub(crate) const TRUE_VERDICT: &str = "4: failed means no charge, paid means exactly one";
pub(crate) const MISMATCH: &str = "5: another payload under the same key is refused without effect";
pub(crate) const NO_CONCURRENCY: &str = "6: a concurrent duplicate never executes";
pub(crate) const ONLY_FORWARD: &str = "7: a recovery point only advances";
pub(crate) const STALE: &str = "8: a stale attempt writes nothing";
pub(crate) const FROZEN: &str = "9: the bytes under a derived key never change";
pub(crate) const WINDOW: &str = "10: nothing is sent past the window, no verdict while a send can succeed";
pub(crate) const STRANGER: &str = "11: a stranger learns nothing";
pub(crate) const AUDIT: &str = "12: one audit row per effect, in its transaction";
pub(crate) const RECEIPT: &str = "13: one receipt job for what is paid";
pub(crate) const LIVENESS: &str = "15: once faults stop, every key ends";
pub(crate) const DROPPED: &str = "15: every response is dropped at its time";
pub(crate) const ALARM: &str = "16: every open row has an alarm";
pub(crate) const TOMBSTONE: &str = "17: an expired key is refused, never charged again";
pub(crate) const PERSONAL: &str = "18: personal data goes at its time, never before, never from an open key";
pub(crate) const KEPT: &str = "0: what is committed is read back as it is";
pub(crate) const NO_BUG: &str = "0: the core never meets a state that cannot be";

/// The configured times that the invariants name, in ms.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    pub(crate) lease_ms: u64,
    pub(crate) retention_ms: u64,
    pub(crate) personal_retention_ms: u64,
    /// The furthest that an alarm may be set ahead while a key is open.
    pub(crate) alarm_ahead_ms: u64,
}

/// A key as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyView {
    pub(crate) key: u32,
    /// `started`, …, `finished`
    pub(crate) point: &'static str,
    /// `open`, `finished`, `expired`
    pub(crate) life: &'static str,
    pub(crate) attempt: u32,
    pub(crate) holder: Option<String>,
    /// It waits for a webhook or a person: the provider has nothing to ask, has said all that it will, and money may have moved.
    pub(crate) needs_person: bool,
    /// When its response is to be dropped.
    pub(crate) expires_at_ms: Option<u64>,
}

/// Who wrote.
#[derive(Clone, Debug)]
pub(crate) enum Writer {
    /// A request or the alarm, which takes leases.
    Taker,
    /// A request with the first turn of the run that it begins.
    Beginner,
    /// What the provider says about what is open there.
    Check,
    /// What gives the queue its jobs, and hears that they are over.
    Outbox,
    /// A run, by what its token says.
    Run { key: u32, attempt: u32, holder: String },
}

impl Writer {
    /// Whether it takes an operation further.
    pub(crate) const fn runs(&self) -> bool {
        matches!(self, Self::Beginner | Self::Run { .. })
    }

    /// Whether it is the run of this attempt.
    pub(crate) fn is_run_of(&self, view: &KeyView) -> bool {
        matches!(self, Self::Run { key, attempt, .. } if (*key, *attempt) == (view.key, view.attempt))
    }
}

/// A stored response as the client got it.
pub(crate) type Bytes = (u16, Vec<(String, String)>, Vec<u8>);

/// A run writes only while it holds its key's lease, and a key only moves on.
pub(crate) fn judge_keys(
    before: &[KeyView],
    after: &[KeyView],
    writer: &Writer,
    changed: bool,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut violated = |invariant, seen| violations.push(Violation { invariant, seen });
    if let Writer::Run { key, attempt, holder } = writer {
        let before = before.iter().find(|view| view.key == *key);
        let current = before.is_some_and(|view| {
            view.attempt == *attempt && (view.life != "open" || view.holder.as_deref() == Some(holder))
        });
        if changed && !current {
            violated(STALE, format!("attempt {attempt} of {holder} wrote over {before:?}"));
        }
    }
    for before in before {
        let Some(after) = after.iter().find(|view| view.key == before.key) else {
            violated(ONLY_FORWARD, format!("key {} vanished at {}", before.key, before.point));
            continue;
        };
        if rank(after.point) < rank(before.point) || rank(after.life) < rank(before.life) {
            violated(ONLY_FORWARD, format!("from {before:?} to {after:?}"));
        }
        if after.attempt < before.attempt {
            violated(STALE, format!("attempt {} after {}", after.attempt, before.attempt));
        }
    }
    violations
}

/// How far along a word is.
fn rank(word: &str) -> usize {
    const ORDER: [&str; 5] = ["open", "started", "reserved", "finished", "expired"];
    ORDER.iter().position(|known| *known == word).unwrap_or(ORDER.len())
}

/// The sends under one derived key.
pub(crate) struct Sends {
    derived: String,
    bytes: String,
    sent: Vec<Sent>,
    pub(crate) executed_at_ms: Option<u64>,
    /// Copies on their way to the provider, or being executed there.
    pub(crate) under_way: u32,
}

struct Sent {
    at_ms: u64,
    number: u64,
    /// The provider answered that it did not execute it.
    refused: bool,
    /// And no other copy of it either.
    refused_for_certain: bool,
}

impl Sends {
    /// None yet. Each must have these bytes.
    pub(crate) fn new(derived: &str, bytes: &str) -> Self {
        let (derived, bytes) = (derived.to_owned(), bytes.to_owned());
        Self { derived, bytes, sent: Vec::new(), executed_at_ms: None, under_way: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// A send begins: `copies` of it will reach the provider. It must not come longer than `window_ms` after the first that
    /// may have been executed.
    pub(crate) fn sent(
        &mut self,
        now_ms: u64,
        bytes: &str,
        (number, copies): (u64, u32),
        window_ms: u64,
    ) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut violated = |invariant, seen| violations.push(Violation { invariant, seen });
        if self.bytes != bytes {
            violated(FROZEN, format!("other bytes under {}", self.derived));
        }
        let doubted = self.sent.iter().filter(|sent| !sent.refused).map(|sent| sent.at_ms);
        let since_ms = doubted.chain(self.executed_at_ms).min();
        if let Some(past_ms) = since_ms.map(|since_ms| now_ms - since_ms).filter(|ms| *ms > window_ms) {
            violated(WINDOW, format!("sent {past_ms} ms after the first send under {}", self.derived));
        }
        self.sent.push(Sent { at_ms: now_ms, number, refused: false, refused_for_certain: false });
        self.under_way += copies;
        violations
    }

    /// A copy has been answered, or executed.
    pub(crate) const fn dealt_with(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The sender was told by the provider that it did not execute a send.
    pub(crate) fn refused(&mut self, number: u64) {
        for sent in &mut self.sent {
            sent.refused |= sent.number == number;
        }
    }

    /// The same of all copies of a send; and if the provider looked into the key, of all that had arrived before it: what began
    /// so long before.
    pub(crate) fn refused_for_certain(&mut self, number: u64, arrives_within_ms: Option<u64>) {
        let at_ms = self.sent.iter().find(|sent| sent.number == number).map_or(0, |sent| sent.at_ms);
        for sent in &mut self.sent {
            let has_arrived = arrives_within_ms.is_some_and(|within_ms| sent.at_ms + within_ms <= at_ms);
            sent.refused_for_certain |= sent.number == number || has_arrived;
        }
    }

    /// Whether all that was heard of so many says that nothing was executed.
    pub(crate) fn are_refused_for_certain(&self, sends: u32) -> bool {
        !self.sent.is_empty()
            && self.sent.len() == sends as usize
            && self.sent.iter().all(|sent| sent.refused_for_certain)
    }

    /// The provider executed what they ask for.
    pub(crate) fn executed(&mut self, now_ms: u64) {
        self.executed_at_ms.get_or_insert(now_ms);
    }

    /// Whether one that is under way may be the first to be executed.
    pub(crate) const fn may_still_be_executed(&self) -> bool {
        self.under_way > 0 && self.executed_at_ms.is_none()
    }
}
