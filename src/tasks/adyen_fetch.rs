//! Fetches the reports of which Adyen tells: `REPORT_AVAILABLE`, with the name of the file and the address at which it is.
//!
//! The name is signed and the address is not. So our key (`ADYEN_REPORT_KEY`) goes to a host of Adyen's only, no redirect is followed, and
//! what is read has a limit. Outcomes: the report is [imported](super::adyen_import); it is tried again, with growing pauses; or a person
//! is told to fetch it, at the desk. Sending it there settles that, too.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use worker::{Date, Env, Error, Result};

use super::adyen_import;
use super::adyen_report::{is_adyens, is_settlement_report};
use crate::config::Config;
use crate::webhooks::adyen::Item;
use messages::settlement::{REPORT_MAX_BYTES, Uploaded};
use runtime::db::Db;
use runtime::http_client::{OutboundRequest, download};
use runtime::log::log;

/// How long a report may take to come.
const REPORT_TAKES: Duration = Duration::from_secs(60);
/// How often one is asked for: for some two days.
const TRIES_MAX: u32 = 16;
/// How many are fetched in one run.
const FETCHED_MAX: u32 = 2;

/// A report that is there.
#[derive(Clone, Debug, Serialize)]
pub struct Announcement {
    name: String,
    address: String,
    told_at_ms: u64,
}

impl Announcement {
    /// The report that a notification received at `now_ms` (since the epoch) announces, if it is a settlement details report.
    pub fn of(item: &Item, now_ms: u64) -> Option<Self> {
        let (name, address) = item.report().filter(|(name, _)| is_settlement_report(name))?;
        let told_at_ms = item.told_at_ms().map_or(now_ms, |told_at_ms| told_at_ms.min(now_ms));
        Some(Self { name: name.to_owned(), address: address.to_owned(), told_at_ms })
    }
}

/// Records an announced report. One that is announced again is fetched again: Adyen may have regenerated it.
pub async fn announce(env: &Env, announced: &[Announcement], now_ms: u64) -> Result<()> {
    let sql = "INSERT INTO report_announcements (name, address, state, attempts, told_at_ms, next_at_ms, updated_at_ms)
         SELECT value->>'name', value->>'address', 'waiting', 0, value->>'told_at_ms', ?2, ?2 FROM json_each(?1) WHERE true
         ON CONFLICT (name) DO UPDATE SET address = excluded.address, state = 'waiting', attempts = 0, error = NULL,
            told_at_ms = excluded.told_at_ms, next_at_ms = excluded.next_at_ms, updated_at_ms = excluded.updated_at_ms
         WHERE excluded.told_at_ms > report_announcements.told_at_ms";
    let values = vec![serde_json::to_string(announced)?.into(), now_ms.into()];
    Db::of(env)?.run(sql, values).await.map(drop)
}

#[derive(Deserialize)]
struct Claimed {
    name: String,
    address: String,
    attempts: u32,
    told_at_ms: u64,
}

/// What came of a try.
enum Fetched {
    /// It is kept.
    Kept,
    /// Not yet, because of this.
    Again(String),
    /// For a person, because of this.
    Refused(String),
}

/// Fetches what has just been announced.
pub async fn fetch_at_once(env: Env) {
    if let Err(error) = fetch(&env).await {
        log("error", &[("event", "report_not_fetched".into()), ("error", error.to_string().into())]);
    }
}

/// Fetches the reports that are due. A try is counted before it begins, so that one that crashes the Worker comes last next time.
pub(super) async fn fetch(env: &Env) -> Result<Value> {
    let config = Config::of(env).map_err(Error::RustError)?;
    let db = Db::of(env)?;
    let now_ms = Date::now().as_millis();
    let sql = "UPDATE report_announcements SET attempts = attempts + 1, updated_at_ms = ?1,
            next_at_ms = ?1 + min(21600000, 60000 << min(attempts, 20))
         WHERE name IN (SELECT name FROM report_announcements WHERE state = 'waiting' AND next_at_ms <= ?1
            ORDER BY next_at_ms LIMIT ?2)
         RETURNING name, address, attempts, told_at_ms";
    let claimed: Vec<Claimed> = db.rows(sql, vec![now_ms.into(), FETCHED_MAX.into()]).await?;
    let mut fetched = 0;
    for one in &claimed {
        let end = match fetch_one(env, &config, one).await {
            Fetched::Again(error) if one.attempts >= TRIES_MAX => {
                Fetched::Refused(format!("it could not be fetched: {error}"))
            }
            end => end,
        };
        fetched += u32::from(matches!(end, Fetched::Kept));
        note(&db, one, &end).await?;
    }
    Ok(json!({ "due": claimed.len(), "fetched": fetched }))
}

async fn fetch_one(env: &Env, config: &Config, one: &Claimed) -> Fetched {
    let Some(adyen) = &config.adyen else { return Fetched::Refused("Adyen is not configured".to_owned()) };
    let Some(key) = &config.adyen_report_key else {
        return Fetched::Refused("ADYEN_REPORT_KEY is not set".to_owned());
    };
    if !is_adyens(&one.address, config.demo.then_some(adyen.base.as_str())) {
        return Fetched::Refused("its address is none of Adyen's, and nothing was sent there".to_owned());
    }
    let headers = vec![("x-api-key", key.clone())];
    let sent = OutboundRequest { method: "GET", url: one.address.clone(), headers, body: None };
    let bytes = match download(env, Some("ADYEN"), &sent, REPORT_TAKES, REPORT_MAX_BYTES).await {
        Ok((200, bytes)) => bytes,
        Ok((status, _)) => return Fetched::Again(format!("it was answered {status}")),
        Err(error) => return Fetched::Again(error),
    };
    match adyen_import::upload(env, config, &one.name, bytes).await {
        Ok(Uploaded::Kept(_)) => Fetched::Kept,
        Ok(Uploaded::NoReport(error)) => Fetched::Again(format!("it is no report: {error}")),
        Ok(Uploaded::Off(why)) => Fetched::Refused(why),
        Err(error) => Fetched::Again(error.to_string()),
    }
}

async fn note(db: &Db, one: &Claimed, end: &Fetched) -> Result<()> {
    let now_ms = Date::now().as_millis();
    let (state, error) = match end {
        Fetched::Kept => ("fetched", None),
        Fetched::Again(error) => ("waiting", Some(error.as_str())),
        Fetched::Refused(error) => ("refused", Some(error.as_str())),
    };
    let fields = [
        ("event", "report_announced".into()),
        ("name", one.name.as_str().into()),
        ("state", state.into()),
        ("error", error.unwrap_or_default().into()),
    ];
    log(if error.is_some() { "warn" } else { "info" }, &fields);
    // A report announced in the meantime is fetched again.
    let sql = "UPDATE report_announcements SET state = ?3, error = ?4, updated_at_ms = ?5 WHERE name = ?1 AND told_at_ms = ?2";
    let values = vec![
        one.name.as_str().into(),
        one.told_at_ms.into(),
        state.into(),
        error.map(str::to_owned).into(),
        now_ms.into(),
    ];
    let mut statements = vec![db.statement(sql, values)?];
    if let Fetched::Refused(error) = end {
        let sql = "INSERT INTO breaks (break_id, kind, provider, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
             VALUES ('report:adyen:' || ?1, 'report', 'adyen', ?1, 'open', ?2, ?3, ?3)
             ON CONFLICT (break_id) DO UPDATE SET state = 'open', note = excluded.note, last_seen_at_ms = excluded.last_seen_at_ms";
        let note = format!(
            "the report is there: download it in the Customer Area and send it under Reports; {error}"
        );
        statements.push(db.statement(sql, vec![one.name.as_str().into(), note.into(), now_ms.into()])?);
    }
    db.batch(statements).await
}
