//! What an operator reads: the counts, behind the operator's own secret.

use super::app::App;
use super::http::{Answer, Request};
use super::problem::{Kind, Problem};
use crate::log::log;
use crate::metrics::{self, stats, tally::Tally, text};
use crate::readmodel;

/// `GET /metrics`
pub(super) async fn metrics(app: &App, request: &Request) -> Result<Answer, Problem> {
    let tally = counts(app, request).await?;
    Ok(Answer::new(200, text::MEDIA_TYPE, text::exposition(tally), "shown"))
}

/// `GET /admin/stats`
pub(super) async fn stats(app: &App, request: &Request) -> Result<Answer, Problem> {
    let tally = counts(app, request).await?;
    let there = readmodel::counts::counts(&app.env).await.map_err(unreadable)?;
    let stats = stats::stats(&tally, &there, request.now_ms);
    Ok(Answer::new(200, "application/json", stats.to_string(), "shown"))
}

async fn counts(app: &App, request: &Request) -> Result<Tally, Problem> {
    admit(app, request)?;
    metrics::read(&app.env).await.map_err(unreadable)
}

fn unreadable(error: worker::Error) -> Problem {
    log("error", &[("event", "counts_unreadable".into()), ("error", error.to_string().into())]);
    let mut problem =
        Problem::because(Kind::Unreadable, "The counts could not be read. Ask again in a moment.");
    problem.retry_after_s = Some(1);
    problem
}

/// Without a secret it stays closed: an open page would tell everyone how much is paid here.
fn admit(app: &App, request: &Request) -> Result<(), Problem> {
    if app.config.lab {
        return Ok(());
    }
    if app.config.admin_token.is_none() {
        return Err(Problem::because(
            Kind::Unauthorized,
            "This is closed, because ADMIN_TOKEN is not set: `openssl rand -base64 32` makes one, and \
             `npx wrangler secret put ADMIN_TOKEN` sets it.",
        ));
    }
    let credentials = request.header("authorization").unwrap_or_default().trim().split_once(' ');
    match credentials {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("bearer") && app.config.is_admin(token.trim()) =>
        {
            Ok(())
        }
        _ => Err(Problem::because(
            Kind::Unauthorized,
            "Send the operator's secret: `Authorization: Bearer <ADMIN_TOKEN>`.",
        )),
    }
}
