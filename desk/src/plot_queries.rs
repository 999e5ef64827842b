//! What the plots of the overview show, as SQL.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::try_join;
use serde::Deserialize;
use worker::Result;

use super::status::OUTCOMES;
use super::time_window::TimeWindow;
use runtime::db::Statement;
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

/// What the plots show.
pub(super) struct Plots {
    pub(super) ended: Vec<Ended>,
    /// From the first request of a key to its response.
    pub(super) latency: Vec<Took>,
    /// From the commit that staged a job to its end.
    pub(super) job_lag: Vec<Took>,
}

/// Asks D1, or the newest places of many.
pub(super) async fn plots(model: &ReadModel, window: &TimeWindow) -> Result<Plots> {
    let (ended, [latency, job_lag]) = (ended(window), durations(window));
    if model.is_many().await? {
        return plots_of_many(model, ended, &latency.in_many(window), &job_lag.in_many(window)).await;
    }
    let d1 = model.d1()?;
    let (latency, job_lag) = (latency.in_one(window), job_lag.in_one(window));
    let (ended, latency, job_lag) =
        try_join!(d1.rows(&ended, vec![]), d1.rows(&latency, vec![]), d1.rows(&job_lag, vec![]))?;
    Ok(Plots { ended, latency, job_lag })
}

/// What a place has counted, as its columns.
type Counted = (usize, String, String, u64, u64);

/// Of many places nothing is kept but the sums: all that a day's have counted is more than an isolate holds.
async fn plots_of_many(model: &ReadModel, ended: String, latency: &str, job_lag: &str) -> Result<Plots> {
    // Each as one text: to read it row by row would take most of the time.
    let statements = [
        format!(
            "SELECT json_group_array(json_array(bucket, outcome, currency, number, minor)) AS found FROM ({ended})"
        ),
        format!(
            "SELECT json_group_array(json_array(bucket, '', '', number, about_ms)) AS found FROM ({latency})"
        ),
        format!(
            "SELECT json_group_array(json_array(bucket, '', '', number, about_ms)) AS found FROM ({job_lag})"
        ),
    ];
    let sums: RefCell<EndedSums> = RefCell::default();
    let durations: [RefCell<Durations>; 2] = Default::default();
    let statements = statements.map(|sql| Statement::new(&sql, vec![]));
    let add =
        |number: usize, counted: Vec<Counted>| match number.checked_sub(1).and_then(|at| durations.get(at)) {
            None => counted.into_iter().for_each(|counted| add(&mut sums.borrow_mut(), counted)),
            Some(durations) => {
                let mut durations = durations.borrow_mut();
                for (bucket, _, _, number, about_ms) in counted {
                    *durations.entry(bucket).or_default().entry(about_ms).or_default() += number;
                }
            }
        };
    model.add_up(&statements, add).await?;
    let [latency, job_lag] = durations.map(|durations| took_in_many(durations.into_inner()));
    Ok(Plots { ended: listed(sums.into_inner()), latency, job_lag })
}

fn ended(window: &TimeWindow) -> String {
    let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
    let cases: String = OUTCOMES
        .iter()
        .map(|outcome| format!("WHEN status IN ({}) THEN '{}' ", outcome.sql(), outcome.name))
        .collect();
    format!(
        "SELECT (created_at_ms - {start_ms}) / {bucket_ms} AS bucket, outcome, currency, count(*) AS number, sum(minor) AS minor
         FROM (
            SELECT created_at_ms, currency, captured_minor AS minor, CASE {cases}ELSE 'undecided' END AS outcome
            FROM payments WHERE created_at_ms >= {start_ms})
         GROUP BY bucket, outcome, currency"
    )
}

/// How many ended alike, and how much that was, by bucket, outcome and currency.
type EndedSums = BTreeMap<(usize, String, String), (u64, u64)>;

fn add(sums: &mut EndedSums, (bucket, outcome, currency, number, minor): Counted) {
    let sum = sums.entry((bucket, outcome, currency)).or_default();
    *sum = (sum.0 + number, sum.1 + minor);
}

fn listed(sums: EndedSums) -> Vec<Ended> {
    let ended =
        |((bucket, outcome, currency), (number, minor))| Ended { bucket, outcome, currency, number, minor };
    sums.into_iter().map(ended).collect()
}

/// How long something took in one bucket: half were faster than `p50`, all but a twentieth than `p95`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Took {
    pub(super) bucket: usize,
    pub(super) p50: u64,
    pub(super) p95: u64,
}

/// How long before a job was staged its `near_at_ms` is at most, in ms.
const NEAR_MS: u64 = 3_600_000;

/// What takes a time, as SQL.
struct Duration {
    from: &'static str,
    to: &'static str,
    source: String,
}

/// The latency of keys, and the lag of jobs.
fn durations(window: &TimeWindow) -> [Duration; 2] {
    // The second condition has an index, and follows from the others.
    let near_ms = window.start_ms.saturating_sub(NEAR_MS);
    let keys = "key_list WHERE finished_at_ms IS NOT NULL".to_owned();
    let jobs = format!("job_list WHERE state = 'done' AND near_at_ms >= {near_ms}");
    [
        Duration { from: "created_at_ms", to: "finished_at_ms", source: keys },
        Duration { from: "staged_at_ms", to: "updated_at_ms", source: jobs },
    ]
}

/// How often something took about so long, by bucket.
type Durations = BTreeMap<usize, BTreeMap<u64, u64>>;

impl Duration {
    fn in_one(&self, window: &TimeWindow) -> String {
        let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
        let Self { from, to, source } = self;
        format!(
            "WITH each AS (SELECT ({from} - {start_ms}) / {bucket_ms} AS bucket, max({to} - {from}, 0) AS ms FROM {source} AND {from} >= {start_ms}),
            ranked AS (SELECT bucket, ms, row_number() OVER (PARTITION BY bucket ORDER BY ms) AS rank,
                count(*) OVER (PARTITION BY bucket) AS number FROM each)
         SELECT bucket, max(CASE WHEN rank = (number + 1) / 2 THEN ms END) AS p50,
            max(CASE WHEN rank = (number * 95 + 99) / 100 THEN ms END) AS p95
         FROM ranked GROUP BY bucket"
        )
    }

    /// The same of many places: each counts how often what was taken how long, to two digits. So what comes of it is right to within a tenth.
    fn in_many(&self, window: &TimeWindow) -> String {
        let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
        let Self { from, to, source } = self;
        let digits: String = (1..12)
            .map(|power| {
                let (below, step) = (10_u64.pow(power + 1), 10_u64.pow(power - 1));
                format!("WHEN ms < {below} THEN ms / {step} * {step} ")
            })
            .collect();
        format!(
            "SELECT bucket, CASE {digits}ELSE ms END AS about_ms, count(*) AS number FROM (
            SELECT ({from} - {start_ms}) / {bucket_ms} AS bucket, max({to} - {from}, 0) AS ms FROM {source} AND {from} >= {start_ms})
         GROUP BY bucket, about_ms"
        )
    }
}

fn took_in_many(buckets: Durations) -> Vec<Took> {
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
