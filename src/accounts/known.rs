//! What an isolate has read of the registry, with its age.

use std::collections::BTreeMap;

/// For how long an isolate goes by what it has read, while D1 does not answer, in ms.
const STALE_MAX_MS: u64 = 600_000;
/// How many entries an isolate keeps. The oldest one gives way.
const ENTRIES_MAX: usize = 2_000;

/// What was read: also that there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<T> {
    /// What there is.
    pub(crate) found: Option<T>,
    /// From when on it is not good, in ms since the epoch.
    pub(crate) ends_at_ms: Option<u64>,
    /// There is something that this release cannot read: what was read before does not count any more.
    pub(crate) is_unusable: bool,
}

impl<T: Clone> Entry<T> {
    /// What there is.
    pub(crate) const fn of(found: Option<T>, ends_at_ms: Option<u64>) -> Self {
        Self { found, ends_at_ms, is_unusable: false }
    }

    /// Nothing is there.
    pub(crate) const fn none() -> Self {
        Self::of(None, None)
    }

    /// It cannot be read by this release.
    pub(crate) const fn unusable() -> Self {
        Self { found: None, ends_at_ms: None, is_unusable: true }
    }

    /// What is good now.
    pub(crate) fn good_at(self, now_ms: u64) -> Option<T> {
        self.found.filter(|_| self.ends_at_ms.is_none_or(|ends_at_ms| now_ms < ends_at_ms))
    }
}

/// How fresh what is known of a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Freshness<T> {
    /// It was read a moment ago.
    Fresh(Entry<T>),
    /// It has to be read again, and may be used while it cannot.
    Stale(Entry<T>),
    /// It was not read, or too long ago.
    Unknown,
}

/// The entries, by name.
#[derive(Debug)]
pub(crate) struct Known<T>(BTreeMap<String, (u64, Entry<T>)>);

impl<T: Clone> Known<T> {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// How fresh what is known of a name is. What is not there counts as known for as long, but not while D1 cannot be read: nobody is refused for that.
    pub(crate) fn freshness(&self, name: &str, now_ms: u64, fresh_ms: u64) -> Freshness<T> {
        let Some((read_at_ms, entry)) = self.0.get(name) else { return Freshness::Unknown };
        match now_ms.saturating_sub(*read_at_ms) {
            age_ms if age_ms < fresh_ms => Freshness::Fresh(entry.clone()),
            age_ms if age_ms < STALE_MAX_MS && entry.found.is_some() => Freshness::Stale(entry.clone()),
            _ => Freshness::Unknown,
        }
    }

    /// Drops what is known of a name.
    pub(crate) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(crate) fn keep(&mut self, name: String, entry: Entry<T>, now_ms: u64) {
        if self.0.len() >= ENTRIES_MAX && !self.0.contains_key(&name) {
            // What nobody has is dropped first: whoever makes tokens up drives out no account.
            let oldest = self.0.iter().min_by_key(|(_, (at_ms, entry))| (entry.found.is_some(), *at_ms));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(name, (now_ms, entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH_MS: u64 = 10_000;

    fn entry(found: Option<u32>) -> Entry<u32> {
        Entry::of(found, None)
    }

    #[test]
    fn what_was_read_ages() {
        let mut known = Known::new();
        known.keep("a".to_owned(), entry(Some(1)), 1_000);
        known.keep("none".to_owned(), entry(None), 1_000);
        let freshness = |name: &str, age_ms: u64| known.freshness(name, 1_000 + age_ms, FRESH_MS);
        assert_eq!(freshness("a", FRESH_MS - 1), Freshness::Fresh(entry(Some(1))));
        assert_eq!(freshness("a", FRESH_MS), Freshness::Stale(entry(Some(1))));
        assert_eq!(freshness("a", STALE_MAX_MS), Freshness::Unknown);
        assert_eq!(freshness("none", FRESH_MS - 1), Freshness::Fresh(entry(None)));
        assert_eq!(freshness("none", FRESH_MS), Freshness::Unknown, "it may be there by now");
        assert_eq!(freshness("b", 0), Freshness::Unknown);
    }

    #[test]
    fn what_cannot_be_read_by_this_release_takes_the_place_of_what_was_read_before() {
        let mut known = Known::new();
        known.keep("a".to_owned(), entry(Some(1)), 1_000);
        known.keep("a".to_owned(), Entry::unusable(), 2_000);
        let Freshness::Fresh(fresh) = known.freshness("a", 2_001, FRESH_MS) else { panic!("it was read") };
        assert!(fresh.is_unusable && fresh.good_at(2_001).is_none());
        assert_eq!(known.freshness("a", 2_000 + FRESH_MS, FRESH_MS), Freshness::Unknown, "also without D1");
    }

    #[test]
    fn a_token_ends_by_the_clock_whenever_it_was_read() {
        let ending = Entry::of(Some(1), Some(5_000));
        assert_eq!(ending.clone().good_at(4_999), Some(1));
        assert_eq!(ending.good_at(5_000), None);
    }

    #[test]
    fn made_up_names_drive_out_no_account() {
        let mut known = Known::new();
        known.keep("account".to_owned(), entry(Some(1)), 0);
        for number in 0..ENTRIES_MAX as u64 * 2 {
            known.keep(format!("made up {number}"), entry(None), 1 + number);
        }
        assert!(known.0.len() <= ENTRIES_MAX);
        assert_eq!(known.freshness("account", 1, FRESH_MS), Freshness::Fresh(entry(Some(1))));
    }

    #[test]
    fn of_many_accounts_the_oldest_gives_way() {
        let mut known = Known::new();
        for number in 0..=ENTRIES_MAX as u64 {
            known.keep(number.to_string(), entry(Some(1)), number);
        }
        assert_eq!(known.freshness("0", 1, FRESH_MS), Freshness::Unknown);
        assert_eq!(known.freshness("1", 1, FRESH_MS), Freshness::Fresh(entry(Some(1))));
    }
}
