//! `GET /admin`: how it goes, at a glance.

use std::collections::BTreeMap;

use futures_util::try_join;

use super::chart::{self, Plot, Series, Shape, Unit};
use super::context::Desk;
use super::format;
use super::gate;
use super::health::{Health, HealthSummary, LAG_MAX_MS};
use super::plot_queries::{self, Ended, Plots, Took};
use super::queries;
use super::route::{OperatorAction, Target};
use super::settlement_queries::settlement_behind_ms;
use super::status::OUTCOMES;
use super::time_window::{Range, TimeWindow};
use super::view_models::{Chart, Overview, TaskRun, Tile};
use crate::tasks::counts::{Counts, Scope};
use runtime::lag;
use runtime::metrics::catalog::Family;
use runtime::metrics::reading::Reading;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::Problem;
use web::reply;

/// How many currencies have a plot of their own; the tile has them all.
const CURRENCIES_MAX: usize = 3;
/// What a person is told where a place has more to count than one page counts.
const NOT_SUMMED: &str = "Some of this time is not summed yet, and is missing in the plots: the next runs of the scheduled tasks do so.";

pub(crate) async fn page(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let (env, model, now_ms) = (&desk.app.env, &desk.app.model, desk.request.now_ms);
    let range = Range::parse(&desk.query("range")).unwrap_or_default();
    let window = range.window(now_ms);
    let (plots, runs, reading, lists, stopped, settlement_behind_ms) = try_join!(
        plot_queries::plots(model, &window),
        queries::runs(desk.app),
        desk.app.counts(),
        lag::lag(env, now_ms),
        gate::stopped_since(env, window.start_ms),
        settlement_behind_ms(env, now_ms),
    )
    .map_err(unreadable)?;
    let Plots { ended, latency, job_lag, are_whole } = plots;
    let saved: i64 = reading.counters.of(Family::ChargesSaved).map(|(_, _, number)| number).sum();
    let waiting = desk.waiting(Scope::All).await?;
    let mut chrome = desk.chrome("/admin").await?;
    if !are_whole {
        chrome.missing.get_or_insert_with(|| NOT_SUMMED.to_owned());
    }
    let Counts { dead, breaks, open, in_doubt, late_or_flagged, ending, .. } = waiting.counts;
    let as_of = waiting
        .as_of_ms()
        .map(|at_ms| format!("; the oldest count is of {}", format::from_now(at_ms, now_ms)));
    let as_of = as_of.unwrap_or_default();
    let health = HealthSummary::of(&Health {
        unknown: in_doubt,
        late_or_flagged,
        ending,
        dead,
        breaks,
        gate: chrome.gate.unwrap_or(0),
        lag_ms: lists.iter().map(|list| list.lag_ms).max(),
        settlement_behind_ms,
        tasks: runs.iter().map(|run| run.health(now_ms)).collect(),
    });
    let number = |outcome: &str| ended.iter().filter(|e| e.outcome == outcome).map(|e| e.number).sum::<u64>();
    let (paid, declined, waits) = (number("paid"), number("not_paid"), number("undecided"));
    let in_range = match range {
        Range::Hour => "in this hour",
        Range::Day => "in these 24 hours",
        Range::Week => "in these 7 days",
    };
    let sums = sums(&ended);
    let volume: Vec<String> = sums.iter().map(|(currency, minor)| format::money(*minor, currency)).collect();
    let tone = |number: u64, tone| if number > 0 { tone } else { "good" };
    let mut tiles = vec![
        Tile {
            label: "Paid",
            value: format::count(paid),
            note: if volume.is_empty() { in_range.to_owned() } else { volume.join(" · ") },
            tone: "",
            href: "/admin/payments?status=paid",
        },
        Tile {
            label: "Not paid",
            value: format::count(declined),
            note: match paid + declined {
                0 => in_range.to_owned(),
                decided => format!("{} % of {} decided", declined * 100 / decided, format::count(decided)),
            },
            tone: "",
            href: "/admin/payments?status=not_paid",
        },
        Tile {
            label: "Unknown now",
            value: format::count(in_doubt),
            note: format!(
                "of {}{as_of}; {}",
                format::number_of(open, "key that is not complete", "keys that are not complete"),
                format::number_of(waits, "payment is not decided", "payments are not decided")
            ),
            tone: tone(in_doubt, "warn"),
            href: "/admin/keys?state=unknown",
        },
        Tile {
            label: "Charges saved",
            value: format::count(saved.max(0).unsigned_abs()),
            note: saved_note(&reading, desk.app.config.analytics.is_some(), now_ms),
            tone: "good",
            href: "",
        },
        Tile {
            label: "Late or needs review",
            value: format::count(late_or_flagged),
            note: format!("keys whose alarm is late, or that need a person{as_of}"),
            tone: tone(late_or_flagged, "bad"),
            href: "/admin/keys?state=late",
        },
        Tile {
            label: "Reservations ending",
            value: format::count(ending),
            note: format!("to be captured within a day, or the money is free again{as_of}"),
            tone: tone(ending, "warn"),
            href: "/admin/payments?status=ending",
        },
        Tile {
            label: "Dead letters",
            value: format::count(dead),
            note: format!("jobs that failed for good{as_of}"),
            tone: tone(dead, "bad"),
            href: "/admin/dead-letters",
        },
        Tile {
            label: "Breaks",
            value: format::count(breaks),
            note: format!("where the provider’s records differ from ours{as_of}"),
            tone: tone(breaks, "bad"),
            href: "/admin/breaks",
        },
        behind(&lists),
    ];
    if let Some(unknown) = chrome.gate {
        tiles.push(Tile {
            label: "Gate: duplicates stopped",
            value: format::count(stopped),
            note: format!("of what was sent first {in_range}; {unknown} to be reviewed now"),
            tone: tone(unknown, "bad"),
            href: gate::PATH,
        });
    }
    let mut plots = vec![payments(window, &ended)];
    plots.extend(sums.iter().take(CURRENCIES_MAX).map(|(currency, _)| volume_of(window, &ended, currency)));
    plots.push(durations(
        window,
        ("latency", "Time to the response"),
        "From the first request of a key to its stored response.",
        &latency,
    ));
    plots.push(durations(
        window,
        ("lag", "Time to the end of a job"),
        "Receipts and messages: from the commit that stages them to their end.",
        &job_lag,
    ));
    chart::fit(&mut plots);
    let charts = plots.into_iter().map(drawn).collect();
    let page = Overview {
        site: desk.site(),
        chrome,
        ranges: Range::ALL.map(|one| (one.as_str(), name(one), one == range)).to_vec(),
        health,
        tiles,
        charts,
        runs: runs
            .into_iter()
            .map(|run| TaskRun {
                task: run.task,
                when: format::from_now(run.at_ms, now_ms),
                took: format::duration(run.took_ms),
                result: format::facts_in_full(&run.result),
            })
            .collect(),
        run_now: desk.button(OperatorAction::Run, &Target::Tasks, "Run now")?,
    };
    Ok(reply::html(200, &page, "desk"))
}

/// What was counted, by whom, and up to when: a page reads the sums that are kept, and asks Analytics Engine for nothing.
fn saved_note(reading: &Reading, by_analytics: bool, now_ms: u64) -> String {
    let note = "second charges that replays prevented, ever";
    match reading.folded {
        _ if reading.writes && !by_analytics => {
            format!("{note}; not counted any more: Analytics Engine is written to, and not read")
        }
        Some(folded) if by_analytics => {
            let ago = format::from_now(folded.read_to_s.saturating_mul(1000), now_ms);
            let estimate = if reading.is_sampled() { ", an estimate" } else { "" };
            format!("{note}; by Analytics Engine up to {ago}{estimate}")
        }
        _ => note.to_owned(),
    }
}

/// How far behind the provider’s lists are read.
fn behind(lists: &[lag::Lag]) -> Tile {
    let most_ms = lists.iter().map(|list| list.lag_ms).max();
    let each = lists
        .iter()
        .map(|list| format!("{} {}", list.source.as_str().replace('_', " "), format::duration(list.lag_ms)));
    Tile {
        label: "Reconciled up to",
        value: most_ms.map_or_else(|| "never".to_owned(), |ms| format!("{} ago", format::duration(ms))),
        note: each.collect::<Vec<_>>().join(" · "),
        tone: if most_ms.is_some_and(|ms| ms > LAG_MAX_MS) { "bad" } else { "" },
        href: "",
    }
}

const fn name(range: Range) -> &'static str {
    match range {
        Range::Hour => "Hour",
        Range::Day => "Day",
        Range::Week => "Week",
    }
}

fn drawn(plot: Plot) -> Chart {
    Chart { svg: plot.svg(), legend: plot.legend(), title: plot.title, note: plot.note }
}

/// What was taken of each currency, the most used first.
fn sums(ended: &[Ended]) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for one in ended.iter().filter(|one| one.minor > 0) {
        let (number, minor) = sums.entry(&one.currency).or_default();
        *number += one.number;
        *minor = minor.saturating_add(one.minor);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (number, _))| std::cmp::Reverse(*number));
    sums.into_iter().map(|(currency, (_, minor))| (currency.to_owned(), minor)).collect()
}

fn series(
    window: TimeWindow,
    name: &'static str,
    class: &'static str,
    values: impl Iterator<Item = (usize, u64)>,
) -> Series {
    let mut buckets = vec![None::<u64>; window.count];
    for (bucket, value) in values {
        if let Some(known) = buckets.get_mut(bucket) {
            *known = Some(known.unwrap_or(0).saturating_add(value));
        }
    }
    Series { name, class, values: buckets }
}

fn payments(window: TimeWindow, ended: &[Ended]) -> Plot {
    let of = |name, class, outcome: &'static str| {
        let mine = ended.iter().filter(move |one| one.outcome == outcome);
        series(window, name, class, mine.map(|one| (one.bucket, one.number)))
    };
    Plot {
        id: "payments".to_owned(),
        title: "Payments".to_owned(),
        note: "By the time at which they were begun.",
        unit: Unit::Count,
        shape: Shape::Bars,
        window,
        series: OUTCOMES
            .iter()
            .zip(["paid", "declined", "open", "canceled"])
            .map(|(outcome, class)| of(outcome.word, class, outcome.name))
            .collect(),
    }
}

fn volume_of(window: TimeWindow, ended: &[Ended], currency: &str) -> Plot {
    let mine = ended.iter().filter(|one| one.currency == currency && one.minor > 0);
    Plot {
        id: format!("volume-{currency}"),
        title: format!("Volume in {}", currency.to_ascii_uppercase()),
        note: "What was captured; refunds are not subtracted.",
        unit: Unit::Money(currency.to_owned()),
        shape: Shape::Bars,
        window,
        series: vec![series(window, "Captured", "paid", mine.map(|one| (one.bucket, one.minor)))],
    }
}

fn durations(window: TimeWindow, (id, title): (&str, &str), note: &'static str, took: &[Took]) -> Plot {
    Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        note,
        unit: Unit::Duration,
        shape: Shape::Lines,
        window,
        series: vec![
            series(window, "Half are faster (p50)", "p50", took.iter().map(|one| (one.bucket, one.p50))),
            series(
                window,
                "All but 5 % are faster (p95)",
                "p95",
                took.iter().map(|one| (one.bucket, one.p95)),
            ),
        ],
    }
}
