//! How much of each list one run of the reconciliation reads. The lists go on where they were left in the next run.

use super::cursor::Source;

/// Requests to the provider at once, and in a second: Stripe answers [25 lists a second](https://docs.stripe.com/rate-limits).
pub const AT_ONCE: usize = 20;

/// What a run has used for one account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Queries to D1: an invocation has [1,000](https://developers.cloudflare.com/d1/platform/limits/), and other tasks need theirs.
    pub queries: u32,
    /// Requests to the provider: an invocation has [10,000](https://developers.cloudflare.com/workers/platform/limits/), and a round may
    /// make 4,040.
    pub reads: u32,
    /// Time, in ms: the next run begins after five minutes.
    pub ran_ms: u64,
}

/// What may be used before a list is left to the next run: each is read until then, whatever the lists before it have left.
const fn most(source: Source) -> Used {
    match source {
        Source::Events => Used { queries: 200, reads: 2_000, ran_ms: 100_000 },
        Source::Movements => Used { queries: 350, reads: 4_000, ran_ms: 160_000 },
        Source::Payments => Used { queries: 500, reads: 5_500, ran_ms: 220_000 },
    }
}

/// Whether another round of the list may follow, where `share` accounts are read in the run.
pub fn may_go_on(source: Source, share: u32, used: Used) -> bool {
    let most = most(source);
    let share = share.max(1);
    used.queries < most.queries / share
        && used.reads < most.reads / share
        && used.ran_ms < most.ran_ms / u64::from(share)
}
