//! Reads what the Workers have counted from Workers Analytics Engine, and adds it to the sums of the metrics object.
//!
//! A query over points is an estimate: it is sampled, the next one may say less, and points are kept for three months. A counter that
//! goes back is a restart to Prometheus, which then counts all of it once more. So no query is shown as it is. Each window is read one
//! time, some minutes after it has passed, and its sums are added to those of the object, once: by every reading of `/metrics`, and by the
//! clock. Windows are short, so they are hardly sampled. What comes to be seen later than that is lost: the numbers may be too small.

pub mod config;
pub mod query;

use std::time::Duration;

use serde_json::{Value, json};
use worker::Env;

use config::AnalyticsConfig;
use query::{Counted, Window};
use runtime::http_client::{OutboundRequest, fetch};
use runtime::metrics::{self, reading::Fold};

/// How long points are kept, in seconds: what is asked for when nothing was read before.
const RETENTION_S: u64 = 92 * 86_400;
/// How often a window is halved in one reading: from all that is kept down to a second. What is left is read the next time.
const HALVES_MAX: usize = 23;

/// Adds what has settled since the last time. An error is for the operator: it says what went wrong, and nothing of the token.
pub(crate) async fn fold(env: &Env, config: &AnalyticsConfig, now_ms: u64) -> Result<(), String> {
    let stored =
        metrics::read(env).await.map_err(|error| format!("The counts could not be read: {error}."))?;
    let from_s = stored.folded.map(|folded| folded.read_to_s);
    let to_s = now_ms.saturating_sub(config.settle_ms) / 1000;
    let window = Window { from_s: from_s.unwrap_or_else(|| to_s.saturating_sub(RETENTION_S)), to_s };
    if window.from_s >= window.to_s {
        return Ok(());
    }
    let (window, counted) = read(env, config, window)
        .await
        .map_err(|why| format!("Analytics Engine could not be read: {why}. Ask again in a moment."))?;
    let fold = Fold {
        from_s,
        to_s: window.to_s,
        sample_interval_max: counted.sample_interval_max,
        rows: counted.rows,
    };
    metrics::fold(env, &fold).await.map_err(|error| format!("What was read could not be added: {error}."))
}

/// What was counted in the window, or in a first part of it.
async fn read(env: &Env, config: &AnalyticsConfig, mut window: Window) -> Result<(Window, Counted), String> {
    for _ in 0..=HALVES_MAX {
        let counted = ask(env, config, window).await?;
        match window.half() {
            Some(half) if counted.is_cut => window = half,
            _ if counted.is_cut => break,
            _ => return Ok((window, counted)),
        }
    }
    Err("there are more sets of series than one answer takes".to_owned())
}

async fn ask(env: &Env, config: &AnalyticsConfig, window: Window) -> Result<Counted, String> {
    let sql = query::sql(&config.dataset, window);
    let headers = vec![
        ("authorization", format!("Bearer {}", config.token)),
        ("content-type", "text/plain; charset=utf-8".to_owned()),
    ];
    let sent = OutboundRequest { method: "POST", url: config.address.clone(), headers, body: Some(&sql) };
    let timeout = Duration::from_millis(config.timeout_ms);
    let (response, body) = fetch(env, None, &sent, timeout).await?;
    match response.status_code() {
        200 => query::read(&body),
        status @ (401 | 403) => Err(format!(
            "it answered {status}: ANALYTICS_API_TOKEN needs the permission Account Analytics, Read, for the \
             account ANALYTICS_ACCOUNT_ID"
        )),
        status => Err(format!("it answered {status}{}", said(&body))),
    }
}

/// What it said of its failure, as far as a person reads it.
fn said(body: &str) -> String {
    let said: String = body.chars().filter(|letter| !letter.is_control()).take(200).collect();
    if said.is_empty() { said } else { format!(": {said}") }
}

/// The same by the clock, so that nothing is lost where nobody reads.
pub(crate) async fn scheduled(env: &Env, config: &AnalyticsConfig) -> worker::Result<Value> {
    fold(env, config, runtime::now_ms()).await.map_err(worker::Error::RustError)?;
    Ok(json!({ "read": true }))
}
