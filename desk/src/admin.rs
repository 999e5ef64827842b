//! What programs of the operator read: the counts. They are let in as the operator is, and by everyone in the lab.

use super::app::App;
use super::operator::admit;
use messages::operations::LAB_PATH;
use runtime::log::log;
use runtime::metrics::{counters::Counters, stats, text};
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// `GET /metrics`
pub(super) async fn metrics(app: &App, request: &Request) -> Result<Answer, Problem> {
    let mut counters = counts(app, request).await?;
    // Counts are shown also while the read model cannot be read.
    match runtime::lag::lag(&app.env, request.now_ms).await {
        Ok(lags) => lags.iter().for_each(|lag| counters.lag(lag.source.as_str(), lag.lag_ms / 1000)),
        Err(error) => log("warn", &[("event", "lag_unreadable".into()), ("error", error.to_string().into())]),
    }
    let mut shown = text::exposition(counters);
    match runtime::counts::backlog(&app.env).await {
        Ok(backlog) => shown.push_str(&backlog.exposition(request.now_ms)),
        Err(error) => drop(unreadable(error)),
    }
    Ok(Answer::new(200, text::MEDIA_TYPE, shown, "shown"))
}

/// `GET /admin/stats`
pub(super) async fn stats(app: &App, request: &Request) -> Result<Answer, Problem> {
    let counters = counts(app, request).await?;
    let lags = runtime::lag::lag(&app.env, request.now_ms).await.map_err(unreadable)?;
    let lags: Vec<_> = lags.iter().map(|lag| (lag.source.as_str(), lag.lag_ms)).collect();
    let stats = stats::stats(&counters, &lags, request.now_ms);
    Ok(Answer::new(200, "application/json", stats.to_string(), "shown"))
}

async fn counts(app: &App, request: &Request) -> Result<Counters, Problem> {
    // Whether it is the lab is the payments Worker's setting. Production does not ask.
    let is_lab = app.config.demo && app.operation(LAB_PATH).await.map_err(unreadable)?;
    if !is_lab {
        admit(app, request).await?;
    }
    app.counts().await.map_err(unreadable)
}

fn unreadable(error: worker::Error) -> Problem {
    log("error", &[("event", "counts_unreadable".into()), ("error", error.to_string().into())]);
    let mut problem =
        Problem::because(Kind::Unreadable, "The counts could not be read. Ask again in a moment.");
    problem.retry_after_s = Some(1);
    problem
}
