//! When which account at Stripe had the payments of an account with keys of its own. Pure.
//!
//! A payment belongs to the books of the key that was there when it was made. An isolate may go on for a while with the key before, so of what was made right
//! after a key had changed nobody knows: it is found in whichever books have it, and is missing in none.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use once::id::Owner;
use payments::payment::own_keys::account_of;

/// How long after a key was replaced a payment may still be made with the one before, in ms: an isolate that cannot read D1 goes by what it knows for ten
/// minutes.
const STALE_MS: u64 = 660_000;
/// Later than all that was ever made, in ms since the epoch: numbers in JSON are exact up to here.
const FOREVER_MS: u64 = 9_007_199_254_740_991;

/// An account at Stripe in one mode: its books.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Books {
    pub(super) stripe_account: String,
    /// `live` or `test`.
    pub(super) mode: String,
}

impl Books {
    /// From `acct_1 (test)`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (id, mode) = text.strip_suffix(')')?.split_once(" (")?;
        Some(Self { stripe_account: id.to_owned(), mode: mode.to_owned() })
    }
}

impl std::fmt::Display for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.stripe_account, self.mode)
    }
}

/// Since when a name has had its payments in some books.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Period {
    /// `keys:ACCOUNT`.
    pub(super) name: String,
    pub(super) from_ms: u64,
    #[serde(flatten)]
    pub(super) books: Books,
    /// Whether an account has a key for the books that were asked for.
    #[serde(default)]
    pub(super) is_held: u8,
}

/// From when to when the payments of a name belong to books, in ms since the epoch, all included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Span {
    /// As payments have it in `stripe_account`; `None` for the deployment's own.
    name: Option<String>,
    from_ms: u64,
    /// From then on they are surely not in the books before.
    sure_from_ms: u64,
    until_ms: u64,
    /// Until then some of the next books' may be here.
    maybe_until_ms: u64,
}

/// When the first of these begins and the last one ends, in ms since the epoch; at `now_ms` where it has not.
pub(super) fn from_until(spans: &[Span], now_ms: u64) -> (u64, u64) {
    let from_ms = spans.iter().map(|span| span.from_ms).min().unwrap_or_default();
    let until_ms = spans.iter().map(|span| span.until_ms).max().unwrap_or(now_ms);
    (from_ms, until_ms.min(now_ms))
}

impl Span {
    /// All that was ever made under a name.
    pub(super) const fn always(name: Option<String>) -> Self {
        Self { name, from_ms: 0, sure_from_ms: 0, until_ms: FOREVER_MS, maybe_until_ms: FOREVER_MS }
    }
}

/// The books that are being read.
#[derive(Default)]
pub(super) struct OpenBooks {
    /// Whose they are; `None` where that is not known, or does not matter.
    pub(super) of: Option<Books>,
    /// Under which name their cursors, looks and breaks stand; `None` for the deployment's.
    pub(super) label: Option<String>,
    /// The payments that must be there, of the name that is read and of those that have no run for these books.
    pub(super) spans: Vec<Span>,
    /// The names that have had payments there.
    pub(super) names: BTreeSet<String>,
    /// The labels of the other names that have no run for these books.
    pub(super) left: BTreeSet<String>,
    /// When the key was set with which they are read, if that is an account's own, in ms since the epoch.
    pub(super) key_set_at_ms: Option<u64>,
}

impl OpenBooks {
    /// Whose payments these are, as the read model has it, if all of them are of accounts with keys of their own. `None`: anybody's may be among them.
    pub(super) fn owners(&self) -> Option<BTreeSet<String>> {
        let owner = |span: &Span| {
            let account = account_of(span.name.as_deref()?)?;
            Some(Owner::Account(account.into()).to_text())
        };
        self.spans.iter().map(owner).collect()
    }
}

/// The spans of these books, of all names. The periods of a name stand together, the first one first.
pub(super) fn spans(periods: &[Period], books: &Books) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_name in periods.chunk_by(|one, other| one.name == other.name) {
        let mut before: Option<&Period> = None;
        for (period, next) in of_name.iter().zip(of_name.iter().skip(1).map(Some).chain([None])) {
            if period.books == *books {
                let is_first_here = before.is_none_or(|before| before.books == *books);
                let stale_ms = if is_first_here { 0 } else { STALE_MS };
                let until_ms = next.map_or(FOREVER_MS, |next| next.from_ms.saturating_sub(1));
                let is_last_here = next.is_none_or(|next| next.books == *books);
                spans.push(Span {
                    name: Some(period.name.clone()),
                    from_ms: period.from_ms,
                    sure_from_ms: period.from_ms.saturating_add(stale_ms),
                    until_ms,
                    maybe_until_ms: if is_last_here { until_ms } else { until_ms.saturating_add(STALE_MS) },
                });
            }
            before = Some(period);
        }
    }
    spans
}

/// Under which name the cursors and breaks of these books stand: of a name's first books that is the name. An id has no space.
pub(super) fn label(periods: &[Period], name: &str, books: &Books) -> String {
    match periods.iter().find(|period| period.name == name) {
        Some(first) if first.books != *books => format!("{}{books}", later_label(name)),
        _ => name.to_owned(),
    }
}

/// How the labels of a name begin that are not its first.
pub(super) fn later_label(name: &str) -> String {
    format!("{name} of ")
}

/// The names that have had payments in these books.
pub(super) fn names(periods: &[Period], books: &Books) -> BTreeSet<String> {
    periods.iter().filter(|period| period.books == *books).map(|period| period.name.clone()).collect()
}

/// The condition for payments that must be in the books of these spans, in JSON.
pub(super) fn is_surely_in(spans: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM json_each({spans}) AS span WHERE span.value ->> 'name' IS payments.stripe_account
            AND payments.created_at_ms BETWEEN span.value ->> 'sure_from_ms' AND span.value ->> 'until_ms')"
    )
}

/// The condition for payments of spans that have ended: those that were made then, and those that may have been and are in no books yet.
pub(super) fn has_ended_with(spans: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM json_each({spans}) AS span
            WHERE payments.created_at_ms BETWEEN span.value ->> 'from_ms' AND span.value ->> 'until_ms'
                OR payments.created_at_ms BETWEEN span.value ->> 'until_ms' AND span.value ->> 'maybe_until_ms'
                    AND payments.listed_payment IS NOT payments.provider_payment)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(id: &str) -> Books {
        Books::parse(&format!("{id} (test)")).unwrap()
    }

    fn periods(all: &[(&str, u64, &str)]) -> Vec<Period> {
        let period = |&(name, from_ms, id): &(&str, u64, &str)| Period {
            name: name.to_owned(),
            from_ms,
            books: books(id),
            is_held: 0,
        };
        all.iter().map(period).collect()
    }

    const M: u64 = 100_000_000;

    /// In which books each payment of a name must be, and which may have it once they have ended, by the spans.
    fn at(all: &[Period], name: &str, made_at_ms: u64) -> (Vec<String>, Vec<String>) {
        let every: BTreeSet<Books> = all.iter().map(|period| period.books.clone()).collect();
        let mut found = (Vec::new(), Vec::new());
        for books in every {
            for span in spans(all, &books).iter().filter(|span| span.name.as_deref() == Some(name)) {
                if (span.sure_from_ms..=span.until_ms).contains(&made_at_ms) {
                    found.0.push(books.stripe_account.clone());
                }
                if (span.from_ms..=span.maybe_until_ms).contains(&made_at_ms) {
                    found.1.push(books.stripe_account.clone());
                }
            }
        }
        found
    }

    #[test]
    fn a_payment_belongs_to_the_books_of_the_key_of_its_time_and_to_no_others() {
        let all = periods(&[
            ("keys:a", 0, "acct_1"),
            ("keys:a", M, "acct_2"),
            ("keys:a", 2 * M, "acct_1"),
            ("keys:b", M, "acct_1"),
        ]);
        let sure = |made_at_ms| at(&all, "keys:a", made_at_ms).0;
        for (made_at_ms, expected) in [
            (0, "acct_1"),
            (M - 1, "acct_1"),
            (M + STALE_MS, "acct_2"),
            (2 * M - 1, "acct_2"),
            (2 * M + STALE_MS, "acct_1"),
            (9 * M, "acct_1"),
        ] {
            assert_eq!(sure(made_at_ms), [expected], "{made_at_ms}");
        }
        for made_at_ms in [M, M + STALE_MS - 1, 2 * M] {
            assert!(
                sure(made_at_ms).is_empty(),
                "an isolate may still have had the key before: {made_at_ms}"
            );
            assert_eq!(at(&all, "keys:a", made_at_ms).1.len(), 2);
        }
        assert_eq!(names(&all, &books("acct_1")).len(), 2);
        assert_eq!(at(&all, "keys:b", M).0, ["acct_1"]);
    }

    #[test]
    fn only_books_of_own_keys_alone_say_whose_payments_they_have() {
        let of = |names: &[Option<&str>]| {
            let spans = names.iter().map(|name| Span::always(name.map(str::to_owned))).collect();
            OpenBooks { spans, ..OpenBooks::default() }.owners()
        };
        let own = of(&[Some("keys:a"), Some("keys:b"), Some("keys:a")]).unwrap();
        assert_eq!(own.into_iter().collect::<Vec<_>>(), ["account:a", "account:b"]);
        for among in [&[Some("keys:a"), None][..], &[Some("acct_1")], &[None]] {
            assert_eq!(of(among), None);
        }
    }

    #[test]
    fn a_key_that_was_away_and_is_back_has_left_no_gap() {
        let all = periods(&[("keys:a", 0, "acct_1"), ("keys:a", M, "acct_1")]);
        for made_at_ms in [0, M - 1, M, M + 1, 5 * M] {
            assert_eq!(at(&all, "keys:a", made_at_ms).0, ["acct_1"], "{made_at_ms}");
        }
    }

    #[test]
    fn the_books_of_a_name_have_a_label_each() {
        let all = periods(&[("keys:a", 0, "acct_1"), ("keys:a", M, "acct_2")]);
        assert_eq!(label(&all, "keys:a", &books("acct_1")), "keys:a");
        assert_eq!(label(&all, "keys:a", &books("acct_2")), "keys:a of acct_2 (test)");
        assert_eq!(label(&all, "acct_1", &books("acct_1")), "acct_1");
        assert_eq!(Books::parse("acct_1"), None);
    }
}
