//! How far a list of Stripe's was read. A pass reads what was made in a span of time, the newest first, page by page and in as many
//! runs as it takes; the next one begins a while before the end of the last. So no list is too long, and nothing is left off.

use serde::Deserialize;

use super::{changes, movements, provider_ledger};
pub use messages::source::Source;
use once::call::FrozenRequest;

/// Entries per page: Stripe's maximum.
const PAGE_SIZE: u32 = 100;

/// How far a list was read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Cursor {
    /// Everything created until then was read, in ms since the epoch.
    pub through_ms: u64,
    /// Until when the current pass reads, in ms since the epoch.
    pub until_ms: Option<u64>,
    /// The last entry that it has read.
    pub after: Option<String>,
}

impl Cursor {
    /// Requests the page of a list at this cursor.
    pub fn request(&self, source: Source, overlap_ms: u64) -> FrozenRequest {
        let (path, more) = match source {
            Source::Events => ("/v1/events", changes::query()),
            Source::Movements => ("/v1/balance_transactions", movements::query().to_vec()),
            Source::Payments => ("/v1/payment_intents", provider_ledger::query().to_vec()),
        };
        let from_s = (self.through_ms.saturating_sub(overlap_ms) / 1000).to_string();
        let until_s = (self.until_ms.unwrap_or(self.through_ms) / 1000).to_string();
        let limit = PAGE_SIZE.to_string();
        let mut query =
            vec![("created[gte]", from_s.as_str()), ("created[lte]", &until_s), ("limit", &limit)];
        query.extend(more);
        query.extend(self.after.as_deref().map(|id| ("starting_after", id)));
        let query = serde_urlencoded::to_string(query).unwrap_or_default();
        FrozenRequest::new(format!("{path}?{query}"), String::new())
    }

    /// Before the first pass, which starts at `from_ms` (since the epoch).
    pub const fn first(from_ms: u64) -> Self {
        Self { through_ms: from_ms, until_ms: None, after: None }
    }

    /// Continues the current pass, or begins one that reads until `until_ms` (since the epoch).
    pub fn begin(&mut self, until_ms: u64) {
        self.until_ms.get_or_insert(until_ms);
    }

    /// Moves past a page that was processed and whose last entry is `last`. Returns whether it was the last page of the pass.
    pub fn advance(&mut self, last: Option<&str>, has_more: bool) -> bool {
        if has_more && last.is_some() && last != self.after.as_deref() {
            self.after = last.map(str::to_owned);
            return false;
        }
        self.through_ms = self.until_ms.take().unwrap_or(self.through_ms).max(self.through_ms);
        self.after = None;
        true
    }

    /// Stripe no longer knows the entry to continue after: the pass begins again. Returns whether there was such an entry.
    pub fn restart(&mut self, status: u16) -> bool {
        matches!(status, 400 | 404) && self.after.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_on_page_by_page_and_the_next_one_overlaps_it() {
        let path = |cursor: &Cursor| cursor.request(Source::Events, 600_000).path;
        let mut cursor = Cursor::first(1_000_600_000);
        cursor.begin(2_000_000_000);
        assert!(
            path(&cursor)
                .starts_with("/v1/events?created%5Bgte%5D=1000000&created%5Blte%5D=2000000&limit=100&types")
        );
        assert!(!cursor.advance(Some("evt_9"), true));
        // What has happened meanwhile does not move it.
        cursor.begin(3_000_000_000);
        assert!(path(&cursor).ends_with("&starting_after=evt_9"));
        assert!(path(&cursor).contains("created%5Blte%5D=2000000"));
        assert!(cursor.advance(Some("evt_1"), false));
        assert_eq!(cursor, Cursor { through_ms: 2_000_000_000, until_ms: None, after: None });
        cursor.begin(3_000_000_000);
        assert!(path(&cursor).contains("created%5Bgte%5D=1999400&created%5Blte%5D=3000000"));
        // A list that does not go on ends the pass.
        let mut stuck = Cursor { after: Some("evt_1".to_owned()), ..cursor };
        assert!(stuck.advance(Some("evt_1"), true));
    }

    #[test]
    fn a_pass_begins_again_where_its_place_is_gone() {
        let mut cursor = Cursor { through_ms: 1, until_ms: Some(2), after: Some("evt_1".to_owned()) };
        assert!(!cursor.restart(500));
        assert!(cursor.restart(404));
        assert_eq!(cursor, Cursor { through_ms: 1, until_ms: Some(2), after: None });
        assert!(!cursor.restart(404), "it was not the place that was missing");
    }

    #[test]
    fn each_list_has_its_own_request_and_overlap() {
        let cursor = Cursor { through_ms: 10_800_000, until_ms: Some(20_000_000), after: None };
        let path = |source: Source| cursor.request(source, source.overlap_ms(10_800_000)).path;
        assert_eq!(
            path(Source::Payments),
            "/v1/payment_intents?created%5Bgte%5D=0&created%5Blte%5D=20000&limit=100&expand%5B%5D=data.latest_charge"
        );
        assert_eq!(
            path(Source::Movements),
            "/v1/balance_transactions?created%5Bgte%5D=10200&created%5Blte%5D=20000&limit=100&expand%5B%5D=data.source"
        );
        for source in Source::ALL {
            assert_eq!(source.cursor_of(None), source.cursor());
            for account in [None, Some("acct_B")] {
                assert_eq!(Source::of_cursor(&source.cursor_of(account)), Some(source));
                assert_eq!(Source::of_cursor(&source.since_of(account)), None);
            }
        }
        assert_eq!(Source::of_cursor("stripe_payments_since"), None);
    }
}
