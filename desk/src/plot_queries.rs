//! What the plots of the overview show, of all places of the read model.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use worker::Result;

use super::kept_sums::{Found, PAGE_BOUND, Sum, window_sql};
use super::status::OUTCOMES;
use super::time_window::TimeWindow;
use runtime::db::Statement;
use runtime::places::ReadModel;

/// Payments of one bucket that ended alike.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) bucket: usize,
    /// The name of one of [`OUTCOMES`].
    pub(super) outcome: &'static str,
    pub(super) currency: String,
    pub(super) number: u64,
    pub(super) minor: u64,
}

/// What the plots show.
pub(super) struct Plots {
    pub(super) ended: Vec<Ended>,
    /// From the first request of a key to its response.
    pub(super) latency: Vec<Took>,
    /// From the commit that staged a job to its end.
    pub(super) job_lag: Vec<Took>,
    /// Whether nothing is missing that is not summed yet.
    pub(super) are_whole: bool,
}

/// Asks D1, or the newest places of many: each adds what it has summed and what it counts anew.
pub(super) async fn plots(model: &ReadModel, window: &TimeWindow) -> Result<Plots> {
    let statements = [Statement::new(window_sql(window, PAGE_BOUND), Vec::new())];
    let (sums, are_whole) = (RefCell::new(Sums::default()), Cell::new(true));
    let add = |_, found: Found| {
        are_whole.set(are_whole.get() && found.is_whole());
        let mut sums = sums.borrow_mut();
        found.sums().for_each(|(bucket, sum)| sums.add(bucket, sum));
    };
    model.add_up(&statements, add).await?;
    let Sums { ended, latency, job_lag } = sums.into_inner();
    Ok(Plots {
        ended: listed(ended),
        latency: took(latency),
        job_lag: took(job_lag),
        are_whole: are_whole.get(),
    })
}

/// What all places have, so far.
#[derive(Default)]
struct Sums {
    ended: EndedSums,
    latency: Durations,
    job_lag: Durations,
}

/// How many ended alike, and how much that was, by bucket, outcome and currency.
type EndedSums = BTreeMap<(usize, &'static str, String), (u64, u64)>;
/// How often something took about so long, by bucket.
type Durations = BTreeMap<usize, BTreeMap<u64, u64>>;

impl Sums {
    fn add(&mut self, bucket: usize, (what, name, currency, number, minor): Sum) {
        let durations = match what.as_str() {
            "ended" => {
                let sum = self.ended.entry((bucket, outcome(&name), currency)).or_default();
                *sum = (sum.0.saturating_add(number), sum.1.saturating_add(minor));
                return;
            }
            "key" => &mut self.latency,
            "job" => &mut self.job_lag,
            // Of a newer release.
            _ => return,
        };
        let Ok(about_ms) = name.parse() else { return };
        let sum = durations.entry(bucket).or_default().entry(about_ms).or_default();
        *sum = sum.saturating_add(number);
    }
}

/// What a status counts as.
fn outcome(status: &str) -> &'static str {
    let is_it = |outcome: &&super::status::Outcome| outcome.statuses.contains(&status);
    OUTCOMES.iter().find(is_it).map_or("undecided", |outcome| outcome.name)
}

fn listed(sums: EndedSums) -> Vec<Ended> {
    let ended =
        |((bucket, outcome, currency), (number, minor))| Ended { bucket, outcome, currency, number, minor };
    sums.into_iter().map(ended).collect()
}

/// How long something took in one bucket: half were faster than `p50`, all but a twentieth than `p95`. Right to within a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Took {
    pub(super) bucket: usize,
    pub(super) p50: u64,
    pub(super) p95: u64,
}

fn took(buckets: Durations) -> Vec<Took> {
    let took = |(bucket, counts): (usize, BTreeMap<u64, u64>)| {
        let all: u64 = counts.values().sum();
        let ranked = |rank: u64| {
            let mut before = 0;
            let is_it = |(_, number): &(&u64, &u64)| {
                before += **number;
                before >= rank
            };
            counts.iter().find(is_it).map_or(0, |(ms, _)| *ms)
        };
        Took { bucket, p50: ranked(all.div_ceil(2)), p95: ranked((all * 95).div_ceil(100)) }
    };
    buckets.into_iter().map(took).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(what: &str, name: &str, number: u64, minor: u64) -> Sum {
        (what.to_owned(), name.to_owned(), "usd".to_owned(), number, minor)
    }

    #[test]
    fn what_places_have_is_added_and_a_status_counts_as_its_outcome() {
        let mut sums = Sums::default();
        for (bucket, sum) in [
            (3, sum("ended", "succeeded", 2, 900)),
            (3, sum("ended", "disputed", 1, 50)),
            (3, sum("ended", "capturing", 4, 0)),
            (3, sum("key", "120", 19, 0)),
            (3, sum("key", "3400", 1, 0)),
            (3, sum("key", "9000", 0, 0)),
            (7, sum("job", "50", 1, 0)),
            (7, sum("something", "newer", 1, 0)),
        ] {
            sums.add(bucket, sum);
        }
        let ended: Vec<_> =
            listed(sums.ended).into_iter().map(|one| (one.outcome, one.number, one.minor)).collect();
        assert_eq!(ended, [("paid", 3, 950), ("undecided", 4, 0)]);
        assert_eq!(took(sums.latency), [Took { bucket: 3, p50: 120, p95: 120 }]);
        assert_eq!(took(sums.job_lag), [Took { bucket: 7, p50: 50, p95: 50 }]);
    }
}
