//! How far a list of Stripe's was read. A pass reads what was made in a span of time, in as many runs as it takes; the next one begins a
//! while before the end of the last. So no list is too long, and nothing is left off.
//!
//! A page follows from the one before it, so a list by itself is read no faster than pages come. So a long pass is cut into slices of
//! time, of which each is a list of its own: a round reads a page of each at once.
//!
//! What is older than that and is compared once more is read beside it, and holds up no pass.

use serde::{Deserialize, Serialize};

use super::page::{PAGE_SIZE, PageEnd};
use super::{changes, movements, provider_ledger};
pub use messages::source::Source;
use once::call::FrozenRequest;

/// Pages per round.
pub const SLICES_MAX: usize = 40;
/// How far a pass overlaps the last one, in ms: entries appear late, and clocks differ.
const OVERLAP_MS: u64 = 600_000;

/// How far a list was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Everything created until then was read, in ms since the epoch.
    pub through_ms: u64,
    /// Until when the current pass reads, in ms since the epoch.
    pub until_ms: Option<u64>,
    /// What is to be read: first what the current pass has not read, then what is compared once more. A round reads a page of each of
    /// the first [`SLICES_MAX`].
    pub slices: Vec<Slice>,
}

/// A part of a list: what was created in these seconds, both included, and is older than the last entry that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// In seconds since the epoch.
    pub from_s: u64,
    /// In seconds since the epoch.
    pub until_s: u64,
    /// The last entry that was read.
    pub after: Option<String>,
    /// When that was created, in seconds since the epoch: where a slice can be cut. What is to be read `after` alone says.
    #[serde(default)]
    pub reached_s: Option<u64>,
    /// It was read by an earlier pass, and is compared once more.
    #[serde(default)]
    pub is_again: bool,
}

impl Slice {
    /// Requests its next page.
    pub fn request(&self, source: Source) -> FrozenRequest {
        let (path, more) = match source {
            Source::Events => ("/v1/events", changes::query()),
            Source::Movements => ("/v1/balance_transactions", movements::query().to_vec()),
            Source::Payments => ("/v1/payment_intents", provider_ledger::query().to_vec()),
        };
        let [from_s, until_s] = [self.from_s, self.until_s].map(|at_s| at_s.to_string());
        let limit = PAGE_SIZE.to_string();
        let mut query =
            vec![("created[gte]", from_s.as_str()), ("created[lte]", &until_s), ("limit", &limit)];
        query.extend(more);
        query.extend(self.after.as_deref().map(|id| ("starting_after", id)));
        let query = serde_urlencoded::to_string(query).unwrap_or_default();
        FrozenRequest::new(format!("{path}?{query}"), String::new())
    }

    /// What is left of it after a page; nothing if that was the last one. A list that does not go on has ended.
    fn after_page(&self, page: &PageEnd) -> Option<Self> {
        let after = page.last.clone().filter(|_| page.has_more);
        if after.is_none() || after == self.after {
            return None;
        }
        let reached_s = page.created_s.map(|at_s| at_s.clamp(self.from_s, self.until_s)).or(self.reached_s);
        Some(Self { after, reached_s, ..*self })
    }

    /// Until when it is to be read, as far as that is known, in seconds since the epoch.
    fn left_until_s(&self) -> u64 {
        self.reached_s.unwrap_or(self.until_s)
    }

    /// Cut into at most `count` parts, of which none is shorter than `page_s`, which is how many seconds were on the last page.
    fn cut(self, page_s: u64, count: usize) -> Vec<Self> {
        let left_s = self.left_until_s().saturating_sub(self.from_s);
        let count = u64::try_from(count).unwrap_or(u64::MAX).min(left_s / page_s.max(1)).max(1);
        let lowest_s = self.from_s;
        let mut rest = self;
        let mut parts = Vec::new();
        for part in (1..count).rev() {
            let from_s = lowest_s + left_s / count * part;
            let older = Self { until_s: from_s - 1, after: None, reached_s: None, ..rest };
            parts.push(Self { from_s, ..rest });
            rest = older;
        }
        parts.push(rest);
        parts
    }
}

impl Cursor {
    /// Before the first pass, which starts at `from_ms` (since the epoch).
    pub const fn first(from_ms: u64) -> Self {
        Self { through_ms: from_ms, until_ms: None, slices: Vec::new() }
    }

    /// Continues the current pass, or begins one that reads until `until_ms` (since the epoch). What is no older than `again_ms` before the
    /// end of the last one is compared once more, unless that is still under way.
    pub fn begin(&mut self, until_ms: u64, again_ms: u64) {
        if self.until_ms.is_some() && self.slices.iter().any(|slice| !slice.is_again) {
            return;
        }
        let slice =
            |from_s, until_s, is_again| Slice { from_s, until_s, after: None, reached_s: None, is_again };
        let until_ms = *self.until_ms.get_or_insert(until_ms);
        let from_s = self.through_ms.saturating_sub(OVERLAP_MS) / 1000;
        let again_s = self.through_ms.saturating_sub(again_ms) / 1000;
        if self.slices.is_empty() && again_s < from_s {
            self.slices.push(slice(again_s, from_s - 1, true));
        }
        self.slices.insert(0, slice(from_s, until_ms / 1000, false));
    }

    /// Moves past a round of pages that were processed: one of each of the first slices, or none where there was no answer. Returns whether
    /// nothing is left to read.
    pub fn advance(&mut self, pages: &[Option<PageEnd>]) -> bool {
        let slices = std::mem::take(&mut self.slices);
        let pages = pages.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        // What is left of each, and how many seconds were on its page.
        let open: Vec<(Slice, Option<u64>)> = slices
            .into_iter()
            .zip(pages)
            .filter_map(|(slice, page)| {
                let Some(page) = page else { return Some((slice, None)) };
                let rest = slice.after_page(page)?;
                let page_s = slice.left_until_s().saturating_sub(rest.left_until_s());
                Some((rest, Some(page_s)))
            })
            .collect();
        // The pages of a round are shared out among the slices of the pass, and among the others when that is over.
        let is_of_pass = open.iter().any(|(rest, _)| !rest.is_again);
        let takes_part = |rest: &Slice| rest.is_again != is_of_pass;
        let count = open.iter().filter(|(rest, _)| takes_part(rest)).count();
        let mut sharers = open.iter().filter(|(rest, page_s)| takes_part(rest) && page_s.is_some()).count();
        let mut free = SLICES_MAX.saturating_sub(count);
        for (rest, page_s) in open {
            let Some(page_s) = page_s.filter(|_| takes_part(&rest)) else {
                self.slices.push(rest);
                continue;
            };
            let parts = rest.cut(page_s, 1 + free / sharers.max(1));
            free = free.saturating_sub(parts.len() - 1);
            sharers = sharers.saturating_sub(1);
            self.slices.extend(parts);
        }
        if self.slices.iter().all(|slice| slice.is_again)
            && let Some(until_ms) = self.until_ms.take()
        {
            self.through_ms = until_ms.max(self.through_ms);
        }
        self.slices.is_empty()
    }

    /// Stripe no longer knows the entry to continue after: that slice begins again. Returns whether there was such an entry.
    pub fn restart(&mut self, index: usize, status: u16) -> bool {
        let is_gone = matches!(status, 400 | 404);
        let slice = self.slices.get_mut(index).filter(|_| is_gone);
        slice.is_some_and(|slice| {
            slice.reached_s = None;
            slice.after.take().is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: u64 = 10_800_000;

    fn page(last: &str, created_s: u64, has_more: bool) -> Option<PageEnd> {
        Some(PageEnd { last: Some(last.to_owned()), created_s: Some(created_s), has_more })
    }

    const ENDED: Option<PageEnd> = Some(PageEnd { last: None, created_s: None, has_more: false });

    fn slice(from_s: u64, until_s: u64, after: Option<&str>) -> Slice {
        Slice { from_s, until_s, after: after.map(str::to_owned), reached_s: None, is_again: false }
    }

    fn reached(slice: Slice, at_s: u64) -> Slice {
        Slice { reached_s: Some(at_s), ..slice }
    }

    #[test]
    fn a_pass_goes_on_page_by_page_and_the_next_one_overlaps_it() {
        let mut cursor = Cursor::first(1_000_600_000);
        cursor.begin(2_000_000_000, 0);
        assert_eq!(cursor.slices, [slice(1_000_000, 2_000_000, None)]);
        // Less than another page is left: that is not cut.
        assert!(!cursor.advance(&[page("evt_9", 1_400_000, true)]));
        assert_eq!(cursor.slices, [reached(slice(1_000_000, 2_000_000, Some("evt_9")), 1_400_000)]);
        // What has happened meanwhile does not move it.
        cursor.begin(3_000_000_000, 0);
        assert_eq!(cursor.slices, [reached(slice(1_000_000, 2_000_000, Some("evt_9")), 1_400_000)]);
        assert!(cursor.advance(&[page("evt_1", 1_000_000, false)]));
        assert_eq!(cursor, Cursor::first(2_000_000_000));
        cursor.begin(3_000_000_000, OVERLAP_MS);
        assert_eq!(cursor.slices, [slice(1_999_400, 3_000_000, None)]);
        // A list that does not go on ends the pass.
        cursor.slices = vec![slice(0, 9, Some("evt_1"))];
        assert!(cursor.advance(&[page("evt_1", 5, true)]));
        // Of a pass without slices nothing was written down: it begins again, until the same time.
        let mut begun = Cursor { through_ms: 1_000_000, until_ms: Some(5_000_000), slices: Vec::new() };
        begun.begin(9_000_000, 0);
        assert_eq!(begun.slices, [slice(400, 5_000, None)]);
    }

    #[test]
    fn a_long_pass_is_cut_into_slices_that_cover_it_once() {
        let mut cursor = Cursor::first(0);
        cursor.begin(100_000_000, 0);
        // A page took ten seconds, so there are some ten thousand.
        assert!(!cursor.advance(&[page("evt_1", 99_990, true)]));
        assert_eq!(cursor.slices.len(), SLICES_MAX);
        assert_eq!(cursor.slices[0].after.as_deref(), Some("evt_1"));
        assert!(cursor.slices[1..].iter().all(|slice| slice.after.is_none()));
        assert_eq!((cursor.slices[0].until_s, cursor.slices[SLICES_MAX - 1].from_s), (100_000, 0));
        for pair in cursor.slices.windows(2) {
            assert_eq!(pair[0].from_s, pair[1].until_s + 1, "newest first, without a gap");
        }
        // One ends; its share goes to another.
        let mut pages: Vec<Option<PageEnd>> = cursor
            .slices
            .iter()
            .map(|slice| page(&format!("evt_{}", slice.until_s), slice.left_until_s() - 10, true))
            .collect();
        pages[3] = ENDED;
        assert!(!cursor.advance(&pages));
        assert_eq!(cursor.slices.len(), SLICES_MAX);
        // A second round that reads a part of them, or gets an answer to a part, leaves the others.
        let before = cursor.slices.clone();
        assert!(!cursor.advance(&[ENDED, None, ENDED]));
        assert_eq!(cursor.slices, [&before[1..2], &before[3..]].concat());
    }

    #[test]
    fn a_page_within_one_second_is_gone_on_after() {
        let mut cursor = Cursor::first(0);
        cursor.begin(50_000, 0);
        assert!(!cursor.advance(&[page("evt_1", 50, true)]));
        let newest = &cursor.slices[0];
        assert_eq!((newest.until_s, newest.after.as_deref()), (50, Some("evt_1")));
        assert!(cursor.slices.iter().all(|slice| slice.from_s <= slice.until_s));
        let mut last = Cursor { slices: vec![slice(7, 7, None)], ..Cursor::first(0) };
        assert!(!last.advance(&[page("evt_1", 7, true)]));
        assert_eq!(last.slices, [reached(slice(7, 7, Some("evt_1")), 7)]);
    }

    #[test]
    fn a_slice_begins_again_where_its_place_is_gone() {
        let mut cursor =
            Cursor { through_ms: 1, until_ms: Some(9_000), slices: vec![slice(0, 9, Some("evt_1"))] };
        let before = cursor.clone();
        assert!(!cursor.restart(0, 500));
        assert_eq!(cursor, before);
        assert!(cursor.restart(0, 404));
        assert_eq!(cursor.slices, [slice(0, 9, None)]);
        assert!(!cursor.restart(0, 404), "it was not the place that was missing");
        assert!(!cursor.restart(1, 404));
    }

    #[test]
    fn what_is_compared_again_holds_up_no_pass() {
        let mut cursor = Cursor::first(100_000_000);
        cursor.begin(100_300_000, WINDOW_MS);
        let again = Slice { is_again: true, ..slice(89_200, 99_399, None) };
        assert_eq!(cursor.slices, [slice(99_400, 100_300, None), again.clone()]);
        // A page took ten seconds of the pass, and one of what is read again: all that is free is the pass's.
        assert!(!cursor.advance(&[page("1", 100_290, true), page("2", 99_398, true)]));
        assert_eq!(cursor.slices.iter().filter(|slice| !slice.is_again).count(), SLICES_MAX);
        assert_eq!(cursor.slices.len(), SLICES_MAX + 1, "the other one waits");
        assert_eq!(cursor.until_ms, Some(100_300_000));
        assert!(!cursor.advance(&vec![ENDED; SLICES_MAX]));
        assert_eq!((cursor.through_ms, cursor.until_ms), (100_300_000, None), "the pass is over");
        let left = Slice { after: Some("2".to_owned()), reached_s: Some(99_398), ..again };
        assert_eq!(cursor.slices, std::slice::from_ref(&left));
        // The next pass begins beside it.
        cursor.begin(100_600_000, WINDOW_MS);
        assert_eq!(cursor.slices, [slice(99_700, 100_600, None), left]);
        assert!(!cursor.advance(&[ENDED, page("3", 99_000, true)]));
        assert!(cursor.slices.len() > 1, "with no pass it is cut itself");
        assert!(cursor.advance(&vec![ENDED; cursor.slices.len()]));
        assert_eq!(cursor, Cursor::first(100_600_000));
    }

    #[test]
    fn each_list_has_its_own_request() {
        let path = |source: Source| slice(10_200, 20_000, Some("x_1")).request(source).path;
        assert_eq!(
            path(Source::Payments),
            "/v1/payment_intents?created%5Bgte%5D=10200&created%5Blte%5D=20000&limit=100&expand%5B%5D=data.latest_charge\
             &starting_after=x_1"
        );
        assert_eq!(
            path(Source::Movements),
            "/v1/balance_transactions?created%5Bgte%5D=10200&created%5Blte%5D=20000&limit=100&expand%5B%5D=data.source\
             &starting_after=x_1"
        );
        let events = "/v1/events?created%5Bgte%5D=10200&created%5Blte%5D=20000&limit=100&types";
        assert!(path(Source::Events).starts_with(events));
        for source in Source::ALL {
            assert_eq!(source.cursor_of(None), source.cursor());
            for account in [None, Some("acct_B")] {
                assert_eq!(Source::of_cursor(&source.cursor_of(account)), Some(source));
                assert_eq!(Source::of_cursor(&source.since_of(account)), None);
            }
        }
        assert_eq!(Source::of_cursor("stripe_payments_since"), None);
    }

    proptest::proptest! {
        /// However the pages come, all that was created is read, and what is not read yet stands in a slice.
        #[test]
        fn nothing_is_left_off(
            mut created in proptest::collection::vec(0_u64..400, 0..300),
            page_size in 1_usize..9,
            answered in proptest::collection::vec(proptest::bool::weighted(0.8), 64),
            width in 1_usize..=SLICES_MAX,
        ) {
            created.sort_unstable_by(|one, other| other.cmp(one));
            let mut read = vec![false; created.len()];
            let mut cursor = Cursor::first(0);
            cursor.begin(400_000, 0);
            let entries = |slice: &Slice| -> Vec<usize> {
                let after = slice.after.as_ref().map(|after| after.parse::<usize>().unwrap());
                (0..created.len())
                    .filter(|at| (slice.from_s..=slice.until_s).contains(&created[*at]) && after.is_none_or(|after| *at > after))
                    .collect()
            };
            for round in 0..10_000 {
                let mut pages = Vec::new();
                for (index, slice) in cursor.slices.iter().take(width).enumerate() {
                    if !answered[(round + 7 * index) % answered.len()] {
                        pages.push(None);
                        continue;
                    }
                    let left = entries(slice);
                    let on_page = &left[..left.len().min(page_size)];
                    on_page.iter().for_each(|at| read[*at] = true);
                    let last = on_page.last();
                    pages.push(Some(PageEnd {
                        last: last.map(ToString::to_string),
                        created_s: last.map(|at| created[*at]),
                        has_more: left.len() > page_size,
                    }));
                }
                let is_over = cursor.advance(&pages);
                let covered: std::collections::BTreeSet<usize> = cursor.slices.iter().flat_map(entries).collect();
                proptest::prop_assert!((0..created.len()).all(|at| read[at] || covered.contains(&at)));
                proptest::prop_assert!(cursor.slices.len() <= SLICES_MAX);
                if is_over {
                    break;
                }
            }
            proptest::prop_assert!(read.iter().all(|read| *read));
            proptest::prop_assert_eq!((cursor.through_ms, cursor.until_ms), (400_000, None));
        }
    }
}
