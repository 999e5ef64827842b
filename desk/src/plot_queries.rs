//! What the plots of the overview show, as SQL.

use std::collections::BTreeMap;

use serde::Deserialize;
use worker::Result;

use super::status::OUTCOMES;
use super::time_window::TimeWindow;
use runtime::places::ReadModel;

/// Payments of one bucket that ended alike.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Ended {
    pub(super) bucket: usize,
    /// The name of one of [`OUTCOMES`].
    pub(super) outcome: String,
    pub(super) currency: String,
    pub(super) number: u64,
    pub(super) minor: u64,
}

pub(super) async fn ended(model: &ReadModel, window: &TimeWindow) -> Result<Vec<Ended>> {
    let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
    let cases: String = OUTCOMES
        .iter()
        .map(|outcome| format!("WHEN status IN ({}) THEN '{}' ", outcome.sql(), outcome.name))
        .collect();
    let sql = format!(
        "SELECT (created_at_ms - {start_ms}) / {bucket_ms} AS bucket, outcome, currency, count(*) AS number, sum(minor) AS minor
         FROM (
            SELECT created_at_ms, currency, captured_minor AS minor, CASE {cases}ELSE 'undecided' END AS outcome
            FROM payments WHERE created_at_ms >= {start_ms})
         GROUP BY bucket, outcome, currency"
    );
    let mut sums: BTreeMap<(usize, String, String), (u64, u64)> = BTreeMap::new();
    for Ended { bucket, outcome, currency, number, minor } in model.rows(&sql, vec![]).await? {
        let sum = sums.entry((bucket, outcome, currency)).or_default();
        *sum = (sum.0 + number, sum.1 + minor);
    }
    let ended =
        |((bucket, outcome, currency), (number, minor))| Ended { bucket, outcome, currency, number, minor };
    Ok(sums.into_iter().map(ended).collect())
}

/// How long something took in one bucket: half were faster than `p50`, all but a twentieth than `p95`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Took {
    pub(super) bucket: usize,
    pub(super) p50: u64,
    pub(super) p95: u64,
}

/// From the first request of a key to its response.
pub(super) async fn latency(model: &ReadModel, window: &TimeWindow) -> Result<Vec<Took>> {
    took(model, window, "created_at_ms", "finished_at_ms", "key_list WHERE finished_at_ms IS NOT NULL").await
}

/// How long before a job was staged its `near_at_ms` is at most, in ms.
const NEAR_MS: u64 = 3_600_000;

/// From the commit that staged a job to its end.
pub(super) async fn job_lag(model: &ReadModel, window: &TimeWindow) -> Result<Vec<Took>> {
    // The second condition has an index, and follows from the others.
    let near_ms = window.start_ms.saturating_sub(NEAR_MS);
    let source = format!("job_list WHERE state = 'done' AND near_at_ms >= {near_ms}");
    took(model, window, "staged_at_ms", "updated_at_ms", &source).await
}

async fn took(
    model: &ReadModel,
    window: &TimeWindow,
    from: &str,
    to: &str,
    source: &str,
) -> Result<Vec<Took>> {
    if model.is_many().await? {
        return took_in_many(model, window, from, to, source).await;
    }
    let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
    let sql = format!(
        "WITH each AS (SELECT ({from} - {start_ms}) / {bucket_ms} AS bucket, max({to} - {from}, 0) AS ms FROM {source} AND {from} >= {start_ms}),
            ranked AS (SELECT bucket, ms, row_number() OVER (PARTITION BY bucket ORDER BY ms) AS rank,
                count(*) OVER (PARTITION BY bucket) AS number FROM each)
         SELECT bucket, max(CASE WHEN rank = (number + 1) / 2 THEN ms END) AS p50,
            max(CASE WHEN rank = (number * 95 + 99) / 100 THEN ms END) AS p95
         FROM ranked GROUP BY bucket"
    );
    model.d1()?.rows(&sql, vec![]).await
}

/// The same of many places: each counts how often what was taken how long, to two digits. So what comes of it is right to within a tenth.
async fn took_in_many(
    model: &ReadModel,
    window: &TimeWindow,
    from: &str,
    to: &str,
    source: &str,
) -> Result<Vec<Took>> {
    #[derive(Deserialize)]
    struct Counted {
        bucket: usize,
        about_ms: u64,
        number: u64,
    }
    let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
    let digits: String = (1..12)
        .map(|power| {
            let (below, step) = (10_u64.pow(power + 1), 10_u64.pow(power - 1));
            format!("WHEN ms < {below} THEN ms / {step} * {step} ")
        })
        .collect();
    let sql = format!(
        "SELECT bucket, CASE {digits}ELSE ms END AS about_ms, count(*) AS number FROM (
            SELECT ({from} - {start_ms}) / {bucket_ms} AS bucket, max({to} - {from}, 0) AS ms FROM {source} AND {from} >= {start_ms})
         GROUP BY bucket, about_ms"
    );
    let mut buckets: BTreeMap<usize, BTreeMap<u64, u64>> = BTreeMap::new();
    for Counted { bucket, about_ms, number } in model.rows(&sql, vec![]).await? {
        *buckets.entry(bucket).or_default().entry(about_ms).or_default() += number;
    }
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
    Ok(buckets.into_iter().map(took).collect())
}
