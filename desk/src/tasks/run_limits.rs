//! How much of each list one run of the reconciliation reads. The lists go on where they were left in the next run.

use super::cursor::{SLICES_MAX, Source};

/// Requests to the provider at once.
pub const AT_ONCE: usize = 20;
/// How long a request takes of the provider's patience, in ms: Stripe answers [25 a second](https://docs.stripe.com/rate-limits) of one kind.
pub const REQUEST_MS: u64 = 50;
/// Slices of a list's first round in a run.
const FIRST_SLICES: usize = 5;
/// Requests after which the next round is smaller: most of them were for single payments.
const MANY_READS: u32 = 500;

/// What a run has used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Statements of D1: an invocation has [1,000](https://developers.cloudflare.com/d1/platform/limits/), and other tasks need theirs.
    pub queries: u32,
    /// Requests to the provider: an invocation has [10,000](https://developers.cloudflare.com/workers/platform/limits/).
    pub reads: u32,
    /// Requests to shards of the read model and to objects.
    pub places: u32,
    /// Time, in ms: the next run begins after five minutes.
    pub ran_ms: u64,
}

impl Used {
    /// What was used since then.
    pub const fn since(self, before: Self) -> Self {
        Self {
            queries: self.queries.saturating_sub(before.queries),
            reads: self.reads.saturating_sub(before.reads),
            places: self.places.saturating_sub(before.places),
            ran_ms: self.ran_ms.saturating_sub(before.ran_ms),
        }
    }
}

/// Queries and requests of a run, for all its accounts, after which no further round of any list begins.
const QUERIES_IN_ALL: u32 = 600;
const READS_IN_ALL: u32 = 6_000;
/// Requests of all kinds: what one more batch, and what comes after the lists, may take is left.
const REQUESTS_IN_ALL: u32 = 8_000;
/// Entries of a list that are looked for together at most, where the read model is in shards: of a batch each shard is asked once.
const BATCH: usize = 10_000;
/// Requests to shards in a run for what must be looked for in all of them.
const SEARCH_IN_ALL: u32 = 1_000;
/// How long a run begins anything more of that, in ms: what comes before it has taken up to five of its ten minutes.
pub const SEARCH_MS: u64 = 100_000;

/// What may be used before a list is left to the next run: each is read until then, whatever the lists before it have left.
const fn most(source: Source) -> Used {
    match source {
        Source::Events => Used { queries: 200, reads: 3_000, places: 1_500, ran_ms: 130_000 },
        Source::Movements => Used { queries: 350, reads: 4_000, places: 2_300, ran_ms: 170_000 },
        Source::Payments => Used { queries: 500, reads: 5_000, places: 3_000, ran_ms: 220_000 },
    }
}

/// Whether another round of the list may follow, where `share` accounts are read in the run.
pub fn may_go_on(source: Source, share: u32, used: Used) -> bool {
    let most = most(source);
    let share = share.max(1);
    used.queries < most.queries / share
        && used.reads < most.reads / share
        && used.places < most.places / share
        && used.ran_ms < most.ran_ms / u64::from(share)
}

/// Whether another round of any list may follow, where the run has used so much for all its accounts.
pub const fn may_read(used: Used) -> bool {
    used.queries < QUERIES_IN_ALL
        && used.reads < READS_IN_ALL
        && used.queries.saturating_add(used.reads).saturating_add(used.places) < REQUESTS_IN_ALL
}

/// Whether more shards may be asked for what is looked for in all of them, where `share` accounts are read in the run and this one has used so much for it.
pub fn may_search(share: u32, used: Used, for_it: Used) -> bool {
    let share = share.max(1);
    may_read(used) && for_it.places < SEARCH_IN_ALL / share && for_it.ran_ms < SEARCH_MS / u64::from(share)
}

/// How many slices the next round reads: few at first, and where many payments must be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    slices: usize,
    most: usize,
}

impl Width {
    /// Of the first round, where `share` accounts are read in the run.
    pub fn first(share: u32) -> Self {
        let share = usize::try_from(share).unwrap_or(usize::MAX).max(1);
        let part = |slices: usize| (slices / share).max(1);
        Self { slices: part(FIRST_SLICES), most: part(SLICES_MAX) }
    }

    /// Of the round after one that made so many requests.
    pub fn next(self, reads: u32) -> Self {
        let slices = if reads > MANY_READS { self.slices / 2 } else { self.slices * 2 };
        Self { slices: slices.clamp(1, self.most), ..self }
    }

    /// How many entries are compared together where the read model is in shards.
    pub const fn batch(self) -> usize {
        BATCH / SLICES_MAX * self.slices
    }

    /// The slices.
    pub const fn slices(self) -> usize {
        self.slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_by_what_it_asks_and_by_the_clock() {
        let used = |places, ran_ms| Used { places, ran_ms, ..Used::default() };
        for (for_it, expected) in
            [(used(999, SEARCH_MS - 1), true), (used(1_000, 0), false), (used(0, SEARCH_MS), false)]
        {
            assert_eq!(may_search(1, used(0, 0), for_it), expected, "{for_it:?}");
        }
        assert!(
            !may_search(5, used(0, 0), used(200, 0)) && !may_search(5, used(0, 0), used(0, SEARCH_MS / 5))
        );
        assert!(!may_search(1, Used { reads: READS_IN_ALL, ..Used::default() }, used(0, 0)));
    }

    #[test]
    fn rounds_grow_until_many_payments_must_be_asked_for() {
        let mut width = Width::first(1);
        let mut slices = Vec::new();
        for reads in [5, 10, 20, 40, 2_000, 1_000, 501, 500, 0] {
            slices.push(width.slices());
            width = width.next(reads);
        }
        assert_eq!(slices, [5, 10, 20, 40, 40, 20, 10, 5, 10]);
        let shared = Width::first(5);
        assert_eq!((shared.slices(), shared.next(0).next(0).next(0).next(0).slices()), (1, 8));
        assert_eq!(Width::first(100).next(0).slices(), 1);
    }
}
