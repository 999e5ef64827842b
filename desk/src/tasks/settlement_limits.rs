//! How much of the settlement one run does. The next run goes on where it was left. Pure.

/// Movements of each kind in a run's first slice, and in the largest.
const FIRST_ROWS: u32 = 1_000;
const ROWS_MAX: u32 = 5_000;
/// A slice that took longer, in ms, is followed by a smaller one. D1 ends a query after [30 seconds](https://developers.cloudflare.com/d1/platform/limits/).
const SLOW_MS: u64 = 2_000;

/// What a run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Statements of D1: an invocation has [1,000](https://developers.cloudflare.com/d1/platform/limits/), of which the reconciliation takes up to 600.
    pub queries: u32,
    /// Requests to shards and to the bucket: an invocation has [10,000](https://developers.cloudflare.com/workers/platform/limits/), of which the
    /// reconciliation takes up to 6,000.
    pub requests: u32,
    /// Lines that were written into files: each takes some time of the Worker's own, of which a scheduled run has
    /// [30 seconds](https://developers.cloudflare.com/workers/platform/limits/) for all its tasks.
    pub lines: u64,
    /// Time, in ms.
    pub ran_ms: u64,
}

/// What may be used before the rest is left to the next run.
const QUERIES_MAX: u32 = 250;
const REQUESTS_MAX: u32 = 1_500;
const LINES_MAX: u64 = 250_000;
const RAN_MAX_MS: u64 = 90_000;

impl Used {
    /// Whether another slice or part may follow.
    pub const fn may_go_on(self) -> bool {
        self.queries < QUERIES_MAX
            && self.requests < REQUESTS_MAX
            && self.lines < LINES_MAX
            && self.ran_ms < RAN_MAX_MS
    }
}

/// How many movements of each kind the next slice has: few at first, so that one that is too large for today's database does not come again
/// and again.
#[derive(Clone, Copy, Debug)]
pub struct Width(u32);

impl Default for Width {
    fn default() -> Self {
        Self(FIRST_ROWS)
    }
}

impl Width {
    /// The movements.
    pub const fn rows(self) -> u32 {
        self.0
    }

    /// Of the slice after one that took so long.
    #[must_use]
    pub fn next(self, took_ms: u64) -> Self {
        let rows = if took_ms > SLOW_MS { self.0 / 2 } else { self.0.saturating_mul(2) };
        Self(rows.clamp(FIRST_ROWS / 10, ROWS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_until_they_are_slow() {
        let mut width = Width::default();
        let mut rows = Vec::new();
        for took_ms in [5, 5, 5, 2_001, 9_000, 9_000, 9_000, 9_000, 9_000, 1] {
            rows.push(width.rows());
            width = width.next(took_ms);
        }
        assert_eq!(rows, [1_000, 2_000, 4_000, 5_000, 2_500, 1_250, 625, 312, 156, 100]);
        assert_eq!(width.rows(), 200);
    }

    #[test]
    fn a_run_ends_with_any_of_its_limits() {
        assert!(Used::default().may_go_on());
        for over in [
            Used { queries: QUERIES_MAX, ..Used::default() },
            Used { requests: REQUESTS_MAX, ..Used::default() },
            Used { lines: LINES_MAX, ..Used::default() },
            Used { ran_ms: RAN_MAX_MS, ..Used::default() },
        ] {
            assert!(!over.may_go_on(), "{over:?}");
        }
    }
}
