//! Writes down which of Adyen's reports are there: the desk's scheduled tasks download them.

use serde::Serialize;
use worker::{Env, Result};

use super::adyen::Item;
use payments::providers::adyen::report::is_settlement_report;
use runtime::db::Db;
use runtime::log::log;

/// A report that is there.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Announcement {
    name: String,
    address: String,
    told_at_ms: u64,
    /// With whose own key it is downloaded; `None` with the deployment's.
    account: Option<String>,
    /// Where that is so, the one merchant account whose lines count.
    merchant_account: Option<String>,
}

impl Announcement {
    /// The report that a notification received at `now_ms` (since the epoch) announces, if it is a settlement details report.
    pub(crate) fn of(item: &Item, now_ms: u64) -> Option<Self> {
        let (name, address) = item.report().filter(|(name, _)| is_settlement_report(name))?;
        let told_at_ms = item.told_at_ms().map_or(now_ms, |told_at_ms| told_at_ms.min(now_ms));
        let (name, address) = (name.to_owned(), address.to_owned());
        Some(Self { name, address, told_at_ms, account: None, merchant_account: None })
    }

    /// The same, as the keys of an account have signed it. Each merchant account has a report of this name.
    pub(crate) fn of_account(self, account: &str, merchant_account: &str) -> Self {
        Self {
            name: format!("{account}/{}", self.name),
            account: Some(account.to_owned()),
            merchant_account: Some(merchant_account.to_owned()),
            ..self
        }
    }
}

/// Records an announced report. One that is announced again is fetched again: Adyen may have regenerated it.
pub(crate) async fn announce(env: &Env, announced: &[Announcement], now_ms: u64) -> Result<()> {
    let sql = "INSERT INTO report_announcements (name, address, account, merchant_account, state, attempts, told_at_ms, next_at_ms, updated_at_ms)
         SELECT value->>'name', value->>'address', value->>'account', value->>'merchant_account', 'waiting', 0, value->>'told_at_ms', ?2, ?2
         FROM json_each(?1) WHERE true
         ON CONFLICT (name) DO UPDATE SET address = excluded.address, merchant_account = excluded.merchant_account, state = 'waiting', attempts = 0, error = NULL,
            told_at_ms = excluded.told_at_ms, next_at_ms = excluded.next_at_ms, updated_at_ms = excluded.updated_at_ms
         WHERE excluded.told_at_ms > report_announcements.told_at_ms";
    let values = vec![serde_json::to_string(announced)?.into(), now_ms.into()];
    Db::of(env)?.run(sql, values).await.map(drop)
}

/// Reports are said to be there by whom nothing shows to be Adyen: a person looks. However many are told of, it is one break, of the first one; the
/// log names each. Anybody can tell of one: what is open, or was accepted, stays as it is.
pub(crate) async fn leave_to_a_person(env: &Env, reports: &[Announcement], now_ms: u64) -> Result<()> {
    let Some(first) = reports.first() else { return Ok(()) };
    for report in reports {
        log("warn", &[("event", "report_not_signed".into()), ("report", report.name.as_str().into())]);
    }
    let sql =
        "INSERT INTO breaks (break_id, kind, provider, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
         VALUES ('report:adyen:unsigned', 'report', 'adyen', ?1, 'open', ?2, ?3, ?3)
         ON CONFLICT (break_id) DO NOTHING";
    let note = "it is told without a signature that reports are there, of which this was the first: set ADYEN_WEBHOOK_AUTH, and download them in the \
                Customer Area and send them under Reports";
    let values = vec![first.name.as_str().into(), note.into(), now_ms.into()];
    Db::of(env)?.run(sql, values).await.map(drop)
}
