//! The circuit breaker before the service for emails, one in each isolate: once an email has made a projection wait too long, emails are handed
//! on before they begin, and only one at a time is tried to see whether the service is fast again.

/// How long the circuit stays open after an email that was slow, in ms.
const OPEN_MS: u64 = 30_000;
/// How long the one that is tried then keeps others from being tried, in ms: it may never end here.
const TRIAL_MS: u64 = 5_000;

/// See above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Circuit {
    /// All begin.
    #[default]
    Closed,
    /// None begins until then.
    Open { until_ms: u64 },
    /// One is tried, and no other until then.
    HalfOpen { until_ms: u64 },
}

impl Circuit {
    /// Whether an email may begin now, and the circuit from then on.
    pub(super) const fn begin(self, now_ms: u64) -> (bool, Self) {
        match self {
            Self::Closed => (true, self),
            Self::Open { until_ms } | Self::HalfOpen { until_ms } if now_ms < until_ms => (false, self),
            Self::Open { .. } | Self::HalfOpen { .. } => {
                (true, Self::HalfOpen { until_ms: now_ms.saturating_add(TRIAL_MS) })
            }
        }
    }

    /// After an email that has ended in time, or was left. One that began with others before they were slow says nothing new.
    pub(super) const fn ended(self, is_in_time: bool, now_ms: u64) -> Self {
        match (self, is_in_time) {
            (_, false) => Self::Open { until_ms: now_ms.saturating_add(OPEN_MS) },
            (Self::HalfOpen { .. }, true) => Self::Closed,
            (Self::Closed | Self::Open { .. }, true) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_slow_one_none_begins_and_then_one_is_tried() {
        let closed = Circuit::default();
        assert_eq!(closed.begin(0), (true, closed));
        assert_eq!(closed.ended(true, 5), closed);
        let open = closed.ended(false, 1_000);
        assert_eq!(open.begin(1_001), (false, open));
        assert_eq!(open.begin(30_999), (false, open));
        let (begins, half_open) = open.begin(31_000);
        assert!(begins);
        assert_eq!(half_open.begin(31_001), (false, half_open), "one only");
        assert_eq!(half_open.ended(true, 31_100), Circuit::Closed);
        assert_eq!(half_open.ended(false, 32_500), Circuit::Open { until_ms: 62_500 });
    }

    #[test]
    fn one_that_began_with_a_slow_one_does_not_close_it_and_a_trial_that_never_ends_is_made_again() {
        let open = Circuit::Closed.ended(false, 0);
        assert_eq!(open.ended(true, 1), open);
        let (_, half_open) = open.begin(30_000);
        assert!(half_open.begin(35_000).0);
    }
}
