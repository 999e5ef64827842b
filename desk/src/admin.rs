//! What programs of the operator read: the counts. They are let in as the operator is, or with a secret for the counts alone; in the lab everyone is.

use std::collections::BTreeMap;

use super::analytics;
use super::app::App;
use super::break_kinds::KINDS;
use super::kept_counts::{self, Sizes};
use super::operator::admit_reader;
use super::route::DeadKind;
use super::{health, queries, settlement_queries};
use crate::tasks::counts::{BREAKS, Counts, DEAD, Scope};
use messages::operations::LAB_PATH;
use runtime::log::log;
use runtime::metrics::{self, reading::Reading, stats, text};
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// `GET /metrics`
pub(super) async fn metrics(app: &App, request: &Request) -> Result<Answer, Problem> {
    let mut reading = counts(app, request).await?;
    // Counts are shown also while the read model cannot be read.
    match runtime::lag::lag(&app.env, request.now_ms).await {
        Ok(lags) => lags.iter().for_each(|lag| reading.counters.lag(lag.source.as_str(), lag.lag_ms / 1000)),
        Err(error) => log("warn", &[("event", "lag_unreadable".into()), ("error", error.to_string().into())]),
    }
    let waiting = match kept_counts::waiting(&app.env, &app.model, Scope::All, request.now_ms).await {
        Ok(waiting) => Some(waiting),
        Err(error) => {
            drop(unreadable(error));
            None
        }
    };
    // The sum of sampled changes would say nothing of so few.
    reading.keys_open = waiting.as_ref().filter(|_| reading.is_sampled()).map(|waiting| waiting.counts.open);
    let source = text::source(&reading, app.config.analytics.is_some(), request.now_ms);
    let mut shown = text::exposition(reading);
    shown.push_str(&source);
    match runtime::counts::backlog(&app.env).await {
        Ok(backlog) => shown.push_str(&backlog.exposition(request.now_ms)),
        Err(error) => drop(unreadable(error)),
    }
    if let Some(waiting) = waiting {
        let Counts { in_doubt, late_or_flagged, ending, gate, .. } = waiting.counts;
        shown.push_str(&by_kind(&waiting.counts));
        shown.push_str(&read_model_bytes(waiting.sizes));
        for (name, help, number) in [
            (
                "paid_once_keys_unknown",
                "Open keys whose provider has not said whether it took the money.",
                in_doubt,
            ),
            (
                "paid_once_keys_late_or_flagged",
                "Open keys whose alarm is late, or that need a person.",
                late_or_flagged,
            ),
            (
                "paid_once_reservations_ending",
                "Authorizations that lapse within a day, by Stripe's own date, and are not captured.",
                ending,
            ),
            (
                "paid_once_gate_unknown",
                "Operations that the gate has passed on and of which nobody knows how they ended.",
                gate,
            ),
        ] {
            shown.push_str(&text::gauge(name, help, number));
        }
        let is_missing = app.model.missing().or_else(|| waiting.missing()).is_some();
        shown.push_str(&text::gauge(INCOMPLETE, INCOMPLETE_HELP, is_missing.into()));
    }
    match queries::runs(app).await {
        Ok(runs) => {
            let tasks: Vec<_> = runs.iter().map(|run| run.health(request.now_ms)).collect();
            shown.push_str(&tasks_failing(&health::failing(&tasks)));
        }
        Err(error) => drop(unreadable(error)),
    }
    match settlement_queries::settlement_behind_ms(&app.env, request.now_ms).await {
        Ok(behind_ms) => shown.push_str(&settlement_lag(behind_ms)),
        Err(error) => drop(unreadable(error)),
    }
    Ok(Answer::new(200, text::MEDIA_TYPE, shown, "shown"))
}

const INCOMPLETE: &str = "paid_once_read_model_incomplete";
const INCOMPLETE_HELP: &str = "1 if a part of the read model is missing in the gauges of what waits there: open breaks, keys that are unknown, late or need a person, and open keys where they are sampled.";

/// What waits for an operator, by its kind. Each kind is there from the start, as 0.
fn by_kind(counts: &Counts) -> String {
    let breaks = counts.of_kinds(BREAKS, KINDS.iter().map(|(kind, _)| *kind), counts.breaks);
    let dead = counts.of_kinds(DEAD, DeadKind::ALL.iter().map(|kind| kind.as_str()), counts.dead);
    let breaks_help = "Open differences from the provider's records.";
    let dead_help = "Jobs, and webhooks, that failed for good and wait for an operator.";
    text::gauge_by("paid_once_breaks_open", breaks_help, "kind", breaks)
        + &text::gauge_by("paid_once_dead_letters", dead_help, "kind", dead)
}

/// A place has room for 10 GB.
fn read_model_bytes(sizes: Sizes) -> String {
    let name = "paid_once_read_model_bytes";
    let help = "How large D1 and the largest shard are, of 10 GB. Where there are more shards than are asked, one below 5 GB is left out.";
    let places = [("d1", sizes.d1), ("largest_shard", sizes.largest_shard)];
    text::gauge_by(name, help, "place", places.into_iter().filter_map(|(place, bytes)| Some((place, bytes?))))
}

fn tasks_failing(tasks: &BTreeMap<&str, bool>) -> String {
    let name = "paid_once_task_failing";
    let help = "1 if the newest run of a scheduled task has failed, or it has not run for 15 minutes.";
    text::gauge_by(name, help, "task", tasks.iter().map(|(task, is_failing)| (*task, (*is_failing).into())))
}

fn settlement_lag(behind_ms: u64) -> String {
    let help = "For how long the oldest day that is due has had no whole settlement file.";
    text::gauge("paid_once_settlement_lag_seconds", help, behind_ms / 1000)
}

/// `GET /admin/stats`
pub(super) async fn stats(app: &App, request: &Request) -> Result<Answer, Problem> {
    let reading = counts(app, request).await?;
    let lags = runtime::lag::lag(&app.env, request.now_ms).await.map_err(unreadable)?;
    let lags: Vec<_> = lags.iter().map(|lag| (lag.source.as_str(), lag.lag_ms)).collect();
    let stats = stats::stats(&reading, &lags, request.now_ms);
    Ok(Answer::new(200, "application/json", stats.to_string(), "shown"))
}

async fn counts(app: &App, request: &Request) -> Result<Reading, Problem> {
    // Whether it is the lab is the payments Worker's setting. Production does not ask.
    let is_lab = app.config.demo && app.operation(LAB_PATH).await.map_err(unreadable)?;
    if !is_lab {
        admit_reader(app, request).await?;
    }
    if let Some(analytics) = &app.config.analytics {
        analytics::fold(&app.env, analytics, request.now_ms).await.map_err(|why| {
            log("error", &[("event", "counts_unreadable".into()), ("error", why.as_str().into())]);
            not_now(why)
        })?;
    }
    let reading = app.counts().await.map_err(unreadable)?;
    if app.config.analytics.is_none() && (reading.writes || metrics::writes_to_analytics(&app.env)) {
        // The object has what was counted before. To show it would say that nothing happens any more.
        return Err(Problem::of_setting(Kind::Misconfigured, NOT_READ));
    }
    Ok(reading)
}

const NOT_READ: &str = "The counts are written to Analytics Engine (the binding ANALYTICS), and nothing says how to read them: set \
    ANALYTICS_ACCOUNT_ID in desk/wrangler.toml, and `npx wrangler secret put ANALYTICS_API_TOKEN -c desk/wrangler.toml`.";

fn unreadable(error: worker::Error) -> Problem {
    log("error", &[("event", "counts_unreadable".into()), ("error", error.to_string().into())]);
    not_now("The counts could not be read. Ask again in a moment.")
}

fn not_now(detail: impl Into<String>) -> Problem {
    Problem::because(Kind::Unreadable, detail).retry_after_s(1)
}
