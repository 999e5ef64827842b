//! What was counted, as one value: it is added to, merged, carried as rows, and shown.
//!
//! All of it adds up: a gauge is the sum of its changes, and a histogram's buckets are kept apart and made cumulative only
//! where they are shown. So two tallies are merged by adding number to number, in any order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::series::{Family, Part, Thing, call, method, status_class};

/// The values of a series' labels, in the order of [`Family::labels`].
pub type Labels = Vec<Cow<'static, str>>;

/// Numbers by family, labels and part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<(Family, Labels, Part), i64>);

/// A number of a tally, as it is carried and stored: family, labels, part, number.
///
/// All by name: while a deploy rolls out, one version may store what another does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(pub String, pub Vec<String>, pub String, pub i64);

impl Tally {
    /// Nothing.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether there is nothing to add to another one.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|number| *number == 0)
    }

    fn add(&mut self, family: Family, labels: &[&'static str], part: Part, number: i64) {
        let labels = labels.iter().map(|label| Cow::Borrowed(*label)).collect();
        let sum = self.0.entry((family, labels, part)).or_default();
        *sum = sum.saturating_add(number);
    }

    /// One more in a counter.
    pub fn count(&mut self, family: Family, labels: &[&'static str]) {
        self.add(family, labels, Part::Whole, 1);
    }

    /// So many more in a counter.
    pub fn count_all(&mut self, family: Family, labels: &[&'static str], number: usize) {
        self.add(family, labels, Part::Whole, i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// A request was answered.
    pub fn request(&mut self, route: &'static str, by: &str, status: u16, outcome: &'static str) {
        self.count(Family::Requests, &[route, method(by), outcome, status_class(status)]);
    }

    /// A call to a provider ended after `ms`.
    pub fn provider_call(&mut self, provider: &'static str, name: &str, outcome: &'static str, ms: u64) {
        let name = call(name);
        self.count(Family::ProviderCalls, &[provider, name, outcome]);
        self.add(Family::ProviderDuration, &[provider, name], Part::bucket(ms), 1);
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        self.add(Family::ProviderDuration, &[provider, name], Part::SumMs, ms);
    }

    /// How far a list of the provider's is behind, where it is read.
    pub fn lag(&mut self, source: &'static str, seconds: u64) {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        self.add(Family::ReconciliationLag, &[source], Part::Whole, seconds);
    }

    /// Something went from one status to another; from none when it is made.
    pub fn moved(&mut self, thing: Thing, from: Option<&'static str>, to: Option<&'static str>) {
        if from == to {
            return;
        }
        for (status, number) in from.map(|from| (from, -1)).into_iter().chain(to.map(|to| (to, 1))) {
            self.add(thing.gauge(), &[status], Part::Whole, number);
            if thing == Thing::Key && status == "open" {
                self.add(Family::KeysOpen, &[], Part::Whole, number);
            }
        }
        if let (Thing::Payment, Some(to)) = (thing, to) {
            self.count(Family::PaymentsEntered, &[to]);
        }
    }

    /// Adds another one.
    pub fn merge(&mut self, other: Self) {
        for (cell, number) in other.0 {
            let sum = self.0.entry(cell).or_default();
            *sum = sum.saturating_add(number);
        }
    }

    /// As it is carried; without what changes nothing.
    pub fn rows(&self) -> Vec<Row> {
        let changes = self.0.iter().filter(|(_, number)| **number != 0);
        changes
            .map(|((family, labels, part), number)| {
                let labels = labels.iter().map(|label| label.clone().into_owned()).collect();
                Row(family.name().to_owned(), labels, part.as_str().to_owned(), *number)
            })
            .collect()
    }

    /// From rows. What this version does not know is left out.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut tally = Self::new();
        for Row(family, labels, part, number) in rows {
            let (Some(family), Some(part)) = (Family::parse(&family), Part::parse(&part)) else {
                continue;
            };
            if labels.len() == family.labels().len() {
                let labels = labels.into_iter().map(Cow::Owned).collect();
                let sum = tally.0.entry((family, labels, part)).or_default();
                *sum = sum.saturating_add(number);
            }
        }
        tally
    }

    /// With the series that are shown from the start.
    #[must_use]
    pub fn with_standing(mut self) -> Self {
        for family in Family::ALL {
            for labels in family.standing() {
                self.add(family, &labels, Part::Whole, 0);
            }
        }
        self
    }

    /// The numbers of a family.
    pub fn of(&self, family: Family) -> impl Iterator<Item = (&Labels, Part, i64)> {
        let numbers = self.0.iter().filter(move |((of, _, _), _)| *of == family);
        numbers.map(|((_, labels, part), number)| (labels, *part, *number))
    }
}
