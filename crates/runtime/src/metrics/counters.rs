//! Counters as one value: it is added to, merged, sent as rows, and shown.
//!
//! A gauge is the sum of its changes, and a histogram's buckets become cumulative only where they are shown. So counters merge by
//! addition, in any order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::catalog::{Entity, Family, Sample, call, method, status_class};

/// The values of a series' labels, in the order of [`Family::labels`].
pub type Labels = Vec<Cow<'static, str>>;

/// Numbers by family, labels and sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<(Family, Labels, Sample), i64>);

/// One number, as it is sent and stored: family, labels, sample, number.
///
/// All of it by name: during a deploy, one version may store what another does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(pub String, pub Vec<String>, pub String, pub i64);

impl Counters {
    /// No counts.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether there is nothing to add to another one.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|number| *number == 0)
    }

    fn add(&mut self, family: Family, labels: &[&'static str], sample: Sample, number: i64) {
        let labels = labels.iter().map(|label| Cow::Borrowed(*label)).collect();
        let sum = self.0.entry((family, labels, sample)).or_default();
        *sum = sum.saturating_add(number);
    }

    /// One more in a counter.
    pub fn count(&mut self, family: Family, labels: &[&'static str]) {
        self.add(family, labels, Sample::Value, 1);
    }

    /// So many more in a counter.
    pub fn count_all(&mut self, family: Family, labels: &[&'static str], number: usize) {
        self.add(family, labels, Sample::Value, i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// A request was answered.
    pub fn request(&mut self, route: &'static str, by: &str, status: u16, outcome: &'static str) {
        self.count(Family::Requests, &[route, method(by), outcome, status_class(status)]);
    }

    /// A call to a provider ended after `ms`.
    pub fn provider_call(&mut self, provider: &'static str, name: &str, outcome: &'static str, ms: u64) {
        let name = call(name);
        self.count(Family::ProviderCalls, &[provider, name, outcome]);
        self.add(Family::ProviderDuration, &[provider, name], Sample::bucket(ms), 1);
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        self.add(Family::ProviderDuration, &[provider, name], Sample::SumMs, ms);
    }

    /// How far a list of the provider's is behind, where it is read.
    pub fn lag(&mut self, source: &'static str, seconds: u64) {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        self.add(Family::ReconciliationLag, &[source], Sample::Value, seconds);
    }

    /// Something changed its status. `from` is `None` for something new.
    pub fn moved(&mut self, entity: Entity, from: Option<&'static str>, to: Option<&'static str>) {
        if from == to {
            return;
        }
        for (status, number) in from.map(|from| (from, -1)).into_iter().chain(to.map(|to| (to, 1))) {
            self.add(entity.gauge(), &[status], Sample::Value, number);
            if entity == Entity::Key && status == "open" {
                self.add(Family::KeysOpen, &[], Sample::Value, number);
            }
        }
        if let (Entity::Payment, Some(to)) = (entity, to) {
            self.count(Family::PaymentsEntered, &[to]);
        }
    }

    /// Takes a family's numbers away, and puts one without labels in their place if there is one.
    pub fn replace(&mut self, family: Family, number: Option<i64>) {
        self.0.retain(|(of, _, _), _| *of != family);
        self.0.extend(number.map(|number| ((family, Labels::new(), Sample::Value), number)));
    }

    /// Adds another one.
    pub fn merge(&mut self, other: Self) {
        for (cell, number) in other.0 {
            let sum = self.0.entry(cell).or_default();
            *sum = sum.saturating_add(number);
        }
    }

    /// As rows, without zeros.
    pub fn rows(&self) -> Vec<Row> {
        let changes = self.0.iter().filter(|(_, number)| **number != 0);
        changes
            .map(|((family, labels, sample), number)| {
                let labels = labels.iter().map(|label| label.clone().into_owned()).collect();
                Row(family.name().to_owned(), labels, sample.as_str().to_owned(), *number)
            })
            .collect()
    }

    /// From rows. Unknown ones are left out.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut counters = Self::new();
        for Row(family, labels, sample, number) in rows {
            let (Some(family), Some(sample)) = (Family::parse(&family), Sample::parse(&sample)) else {
                continue;
            };
            if labels.len() == family.labels().len() {
                let labels = labels.into_iter().map(Cow::Owned).collect();
                let sum = counters.0.entry((family, labels, sample)).or_default();
                *sum = sum.saturating_add(number);
            }
        }
        counters
    }

    /// Adds the series that are shown before their first event.
    #[must_use]
    pub fn with_initial_series(mut self) -> Self {
        for family in Family::ALL {
            for labels in family.initial_labels() {
                self.add(family, &labels, Sample::Value, 0);
            }
        }
        self
    }

    /// The numbers of a family.
    pub fn of(&self, family: Family) -> impl Iterator<Item = (&Labels, Sample, i64)> {
        let numbers = self.0.iter().filter(move |((of, _, _), _)| *of == family);
        numbers.map(|((_, labels, sample), number)| (labels, *sample, *number))
    }
}
