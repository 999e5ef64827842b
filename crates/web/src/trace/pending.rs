//! The spans of an isolate that wait to be sent: a few, for a moment, and one sender at a time.

use super::span::Span;

/// The most spans that wait: some twenty payments'.
pub const PENDING_MAX: usize = 256;

/// The spans that wait.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    spans: Vec<Span>,
    /// How many had no room since the last ones were taken.
    lost: u64,
    /// Until when somebody is about to send, or sends, in ms since the epoch.
    claimed_until_ms: u64,
}

impl Pending {
    /// None.
    pub const fn new() -> Self {
        Self { spans: Vec::new(), lost: 0, claimed_until_ms: 0 }
    }

    /// One more, if there is room and its trace is recorded.
    pub fn add(&mut self, span: Span) {
        if !span.context.is_sampled() {
            return;
        }
        match self.spans.len() {
            ..PENDING_MAX => self.spans.push(span),
            _ => self.lost = self.lost.saturating_add(1),
        }
    }

    /// Whether the caller is to send what waits: not if nothing does, or if somebody else is about to. The runtime may end a sender, so its
    /// claim holds for `patience_ms` only.
    pub fn claim(&mut self, now_ms: u64, patience_ms: u64) -> bool {
        let until_ms = now_ms.saturating_add(patience_ms);
        // A clock that went back must not hold up the next one for longer.
        let is_claimed = (now_ms..=until_ms).contains(&self.claimed_until_ms);
        if self.spans.is_empty() || is_claimed {
            return false;
        }
        self.claimed_until_ms = until_ms;
        true
    }

    /// Gives the claim back, unless something waits again and `goes_on`.
    pub fn release(&mut self, goes_on: bool) -> bool {
        let is_over = self.spans.is_empty() || !goes_on;
        if is_over {
            self.claimed_until_ms = 0;
        }
        is_over
    }

    /// Takes all that waits, and how many had no room.
    pub fn take(&mut self) -> (Vec<Span>, u64) {
        (std::mem::take(&mut self.spans), std::mem::take(&mut self.lost))
    }
}
