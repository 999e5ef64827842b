//! Fetches the reports of which Adyen tells: `REPORT_AVAILABLE`, with the name of the file and the address at which it is.
//!
//! The payments Worker downloads them, which has the key for it. Outcomes: the report is [imported](super::adyen_import); it is tried again, with growing pauses; or a person
//! is told to fetch it, at the desk. Sending it there settles that, too.

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Env, Error, Result};

use super::adyen_import::{self, close_missing, report_break};
use super::adyen_merchants::within;
use super::adyen_run::Import;
use super::adyen_stores::Bound;
use crate::operations;
use messages::operations::{REPORT_PATH, REPORT_REFUSED, ReportRead};
use messages::settlement::Uploaded;
use runtime::db::{Db, Statement};
use runtime::log::log;

/// How often one is asked for: for some two days.
const TRIES_MAX: u32 = 16;
/// How many are fetched in one run: fewer, if so many bytes have come before, if so much time has passed, or if so many in a row did not come. The
/// tasks behind this one have their turn in the same invocation, and a download may take a minute.
const FETCHED_MAX: u32 = 5;
const RUN_MAX_BYTES: usize = 4_194_304;
const RUN_MAX_MS: u64 = 60_000;
const FAILED_MAX: u32 = 3;

#[derive(Deserialize)]
struct Claimed {
    name: String,
    address: String,
    account: Option<String>,
    merchant_account: Option<String>,
    attempts: u32,
    told_at_ms: u64,
}

impl Claimed {
    /// What the file is called: the same in each merchant account.
    fn file(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The same, within the merchant account.
    fn within(&self) -> String {
        within(self.merchant_account.as_deref().unwrap_or_default(), self.file())
    }
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

/// Fetches the reports that are due. All are imported by one [`Import`]: what it may read and ask is for all of them together.
pub(super) async fn fetch(env: &Env) -> Result<Value> {
    let db = Db::of(env)?;
    let began_at_ms = runtime::now_ms();
    let (mut due, mut fetched, mut failed, mut bytes) = (0, 0, 0, 0);
    let mut import = None;
    while due < FETCHED_MAX && bytes < RUN_MAX_BYTES && failed < FAILED_MAX {
        let now_ms = runtime::now_ms();
        if now_ms.saturating_sub(began_at_ms) > RUN_MAX_MS {
            break;
        }
        let Some(one) = claim(&db, now_ms).await? else { break };
        due += 1;
        // As many tries have broken off this Worker.
        if one.attempts > TRIES_MAX {
            note(&db, &one, &Fetched::Refused("each try to fetch it broke off".to_owned())).await?;
            continue;
        }
        if import.is_none() {
            import = Import::of(env).await?;
        }
        let end = fetch_one(env, import.as_ref(), &one, &mut bytes).await;
        failed = if matches!(end, Fetched::Again(_)) { failed + 1 } else { 0 };
        let end = match end {
            Fetched::Again(error) if one.attempts >= TRIES_MAX => {
                Fetched::Refused(format!("it could not be fetched: {error}"))
            }
            end => end,
        };
        fetched += u32::from(matches!(end, Fetched::Kept));
        note(&db, &one, &end).await?;
    }
    Ok(json!({ "due": due, "fetched": fetched }))
}

/// One that is due, of the account whose last turn is the longest ago: of how many one is told says nothing about when another has its turn. A try is
/// counted before it begins, so that one that crashes the Worker comes last next time.
async fn claim(db: &Db, now_ms: u64) -> Result<Option<Claimed>> {
    let sql = "UPDATE report_announcements SET attempts = attempts + 1, updated_at_ms = ?1,
            next_at_ms = ?1 + min(21600000, 60000 << min(attempts, 20))
         WHERE name IN (
            SELECT name FROM report_announcements LEFT JOIN report_turns ON report_turns.account = coalesce(report_announcements.account, '')
            WHERE state = 'waiting' AND next_at_ms <= ?1 ORDER BY coalesce(turn, 0), next_at_ms LIMIT 1)
         RETURNING name, address, account, merchant_account, attempts, told_at_ms";
    let claimed: Option<Claimed> = db.first(sql, vec![now_ms.into()]).await?;
    if let Some(claimed) = &claimed {
        let sql = "INSERT INTO report_turns (account, turn) SELECT ?1, coalesce(max(turn), 0) + 1 FROM report_turns WHERE true
             ON CONFLICT (account) DO UPDATE SET turn = excluded.turn";
        db.run(sql, vec![claimed.account.as_deref().unwrap_or_default().into()]).await?;
    }
    Ok(claimed)
}

/// Also counts how many bytes came.
async fn fetch_one(
    env: &Env,
    import: Option<&Import<Bound>>,
    one: &Claimed,
    all_bytes: &mut usize,
) -> Fetched {
    let bytes = match download(env, one).await {
        Ok(bytes) => bytes,
        Err(end) => return end,
    };
    *all_bytes = all_bytes.saturating_add(bytes.len());
    match adyen_import::upload_by(import, one.file(), bytes, one.merchant_account.as_deref()).await {
        Ok(Uploaded::Kept(_)) => Fetched::Kept,
        Ok(Uploaded::NoReport(error)) => Fetched::Again(format!("it is no report: {error}")),
        Ok(Uploaded::Off(why)) => Fetched::Refused(why),
        Err(error) => Fetched::Again(error.to_string()),
    }
}

/// Asks the payments Worker for the report's bytes: it has the key.
async fn download(env: &Env, one: &Claimed) -> std::result::Result<Vec<u8>, Fetched> {
    let again = |error: Error| Fetched::Again(error.to_string());
    let read = ReportRead { address: one.address.clone(), account: one.account.clone() };
    let mut answer = operations::send(env, REPORT_PATH, &read).await.map_err(again)?;
    if answer.status_code() == 200 {
        return answer.bytes().await.map_err(again);
    }
    let why = answer.text().await.map_err(again)?;
    Err(if answer.status_code() == REPORT_REFUSED { Fetched::Refused(why) } else { Fetched::Again(why) })
}

async fn note(db: &Db, one: &Claimed, end: &Fetched) -> Result<()> {
    let now_ms = runtime::now_ms();
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
    let mut statements = vec![Statement::new(sql, values)];
    match end {
        Fetched::Again(_) => {}
        // Also where it has no line of this merchant account.
        Fetched::Kept => {
            let merchant = one.merchant_account.as_deref().unwrap_or_default();
            statements.push(close_missing([merchant].into_iter(), one.file(), now_ms)?);
        }
        Fetched::Refused(error) => {
            let sql = "INSERT INTO breaks (break_id, kind, provider, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
                 VALUES (?1, 'report', 'adyen', ?2, 'open', ?3, ?4, ?4)
                 ON CONFLICT (break_id) DO UPDATE SET state = 'open', note = excluded.note, last_seen_at_ms = excluded.last_seen_at_ms";
            let note = format!(
                "the report is there: download it in the Customer Area and send it under Reports; {error}"
            );
            let within = one.within();
            statements.push(Statement::new(
                sql,
                vec![report_break(&within).into(), within.into(), note.into(), now_ms.into()],
            ));
        }
    }
    db.batch(statements).await
}
