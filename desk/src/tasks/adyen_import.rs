//! Imports Adyen's settlement details reports: keeps each in R2, reads it in slices, and writes down where it and our books differ.
//!
//! Outcomes of a report: `waiting` (what is read is counted, and the next run goes on), `done`, or `refused` where it is no report any
//! more: what was read before that counts. What a slice holds, what came of comparing it, and where the next one begins are written so
//! that a run may break off anywhere: the same slice again changes nothing, as the same report does, or another one with the same lines.
//!
//! Where payments are in shards each is looked for in [all places](super::adyen_places): a report stops at a slice for which a shard does not
//! answer, and what other reports say goes on.
//!
//! As in the [reconciliation](super::reconcile) nothing is repaired with money: the objects that are meant are asked.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Env, Error, Result};

use super::adyen_breaks::{About, Unsettled};
use super::adyen_merchants::within;
use super::adyen_report::{Head, Line, Lines, Row, Type};
use super::adyen_run::{Import, SLICE_BYTES};
use super::adyen_stores::{Bound, Stores};
use super::breaks;
use super::csv::LINE_MAX_BYTES;
use super::place_stores::Halt;
use super::settlement_place::set;
use crate::operations;
use crate::tasks::bucket::only_new;
use messages::operations::{PaymentsSettings, SETTINGS_PATH};
use messages::settlement::{Counts, REPORT_COLUMNS, Report, Uploaded};
use payments::providers::Provider;
use runtime::db::{Db, Statement};
use runtime::log::log;

/// How many slices a scheduled run reads, and an upload before it answers: an invocation may make 1000 calls.
const SLICES_MAX: u32 = 60;
const SLICES_AT_ONCE: u32 = 8;
/// How many unreadable lines of a report get a break each.
const UNREADABLE_MAX: u64 = 20;
/// How many types of lines, and merchant accounts, are counted by their names.
const NAMES_MAX: usize = 60;

/// Why a report is refused whose bytes were deleted.
const GONE: &str = "its file is not in the bucket any more: send it again";

/// Counts a line of a report of this merchant account by its type.
fn count(counts: &mut Counts, merchant: &str, line: &Line) {
    if !merchant.is_empty() {
        count_name(&mut counts.own, merchant);
    }
    match line {
        Line::Unreadable { .. } => counts.unreadable += 1,
        Line::Moved(row) => count_name(&mut counts.types, &row.kind),
        Line::Counted { kind, is_unknown: false } => count_name(&mut counts.types, kind),
        Line::Counted { kind, is_unknown: true } => count_name(&mut counts.unknown, kind),
    }
}

fn count_name(counts: &mut BTreeMap<String, u64>, name: &str) {
    let is_named = counts.len() < NAMES_MAX || counts.contains_key(name);
    *counts.entry(if is_named { name } else { "others" }.to_owned()).or_default() += 1;
}

/// The id of the break about a report, by its name within its merchant account, or its id.
pub(super) fn report_break(report: &str) -> String {
    format!("report:adyen:{report}")
}

/// Closes the breaks that say that a report of this name is missing, of these merchant accounts.
pub(super) fn close_missing<'a>(
    merchants: impl Iterator<Item = &'a str>,
    name: &str,
    now_ms: u64,
) -> Result<Statement> {
    let sql = "UPDATE breaks SET state = 'repaired', last_seen_at_ms = ?2
         WHERE break_id IN (SELECT value FROM json_each(?1)) AND state = 'open'";
    let missing: Vec<String> = merchants.map(|merchant| report_break(&within(merchant, name))).collect();
    Ok(Statement::new(sql, vec![serde_json::to_string(&missing)?.into(), now_ms.into()]))
}

/// Where a report is in the bucket.
fn key(report: &Report) -> String {
    format!("reports/{}.csv", report.report_id)
}

/// Imports a report that a person sends.
pub(crate) async fn upload(env: &Env, name: &str, bytes: Vec<u8>) -> Result<Uploaded> {
    upload_by(Import::of(env).await?.as_ref(), name, bytes, None).await
}

/// Imports a report. It is stored in the bucket first: if this breaks off, the scheduled task continues, as it does with what is beyond what this import
/// may read. With `only` lines of that merchant account alone count: it was fetched for its account.
pub(super) async fn upload_by(
    import: Option<&Import<Bound>>,
    name: &str,
    bytes: Vec<u8>,
    only: Option<&str>,
) -> Result<Uploaded> {
    let Some(import) = import else {
        return Ok(Uploaded::Off(
            "Reports need the binding SETTLEMENT, a bucket, and ADYEN_MERCHANT_ACCOUNT or an account with a key of its own at Adyen."
                .to_owned(),
        ));
    };
    if let Err(error) = Head::read(bytes.get(..SLICE_BYTES).unwrap_or(&bytes), bytes.len() <= SLICE_BYTES) {
        return Ok(Uploaded::NoReport(error));
    }
    let hash = HEXLOWER.encode(&Sha256::digest(&bytes));
    // The same bytes say something else where other lines of them count.
    let report_id = only.map_or_else(|| hash.clone(), |merchant| format!("{hash}.{merchant}"));
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let stored = import.stores.bucket.put(format!("reports/{report_id}.csv"), bytes);
    stored.only_if(only_new()).execute().await?;
    import.keep(&report_id, name, size, only).await?;
    match import.work(&report_id, SLICES_AT_ONCE).await {
        Ok(()) => {}
        // It is kept, and the scheduled task goes on and says why it waits.
        Err(Halt::Waits(why)) => log("warn", &[("event", "report_waits".into()), ("error", why.into())]),
        Err(Halt::Failed(error)) => return Err(error),
    }
    match import.report(&report_id).await? {
        Some(report) => {
            import.close_missing_of(&report, name).await?;
            Ok(Uploaded::Kept(report))
        }
        None => Err(Error::RustError("the report was not written down".to_owned())),
    }
}

/// Continues with unread reports, and compares open breaks again.
pub(super) async fn go_on(env: &Env) -> Result<Value> {
    let Some(import) = Import::of(env).await? else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT, or no merchant account at Adyen" }));
    };
    let (mut result, waits_for) = import.run().await?;
    let db = Db::of(env)?;
    let of_adyen = (Provider::Adyen, None);
    let asked = breaks::ask_objects(env, &db, of_adyen, breaks::ASKED_MAX, import.now_ms).await?;
    set(&mut result, "asked", asked.into());
    match waits_for {
        Some(waits_for) => Err(Error::RustError(waits_for)),
        None => Ok(result),
    }
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// What is to wait is no failure: the rest goes on.
fn or_wait<T>(done: std::result::Result<T, Halt>) -> Result<std::result::Result<T, String>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(Halt::Waits(why)) => Ok(Err(why)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

impl Import<Bound> {
    /// `None` where there is no bucket, or nothing at Adyen.
    pub(super) async fn of(env: &Env) -> Result<Option<Self>> {
        let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
        let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
        let deployments = settings.adyen_merchant_account;
        if deployments.is_none() {
            // Reports of one whose key is gone are read all the same.
            let sql = "SELECT account AS name FROM account_credentials WHERE merchant_account IS NOT NULL
                 UNION ALL SELECT merchant_account FROM reported_merchants LIMIT 1";
            if Db::of(env)?.first::<Name>(sql, Vec::new()).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Self::begin(Bound::of(env, bucket)?, deployments)))
    }
}

impl<S: Stores> Import<S> {
    /// One run of the task, without asking objects. The second one says what is in the way of the rest.
    pub(super) async fn run(&self) -> Result<(Value, Option<String>)> {
        let sql = format!(
            "SELECT {REPORT_COLUMNS} FROM reports WHERE state = 'waiting' ORDER BY updated_at_ms, received_at_ms LIMIT 5"
        );
        let waiting: Vec<Report> = self.stores.rows(Statement::new(sql, Vec::new())).await?;
        let mut waits_for = None;
        let mut failed = 0;
        for report in &waiting {
            if self.slices.get() >= SLICES_MAX || !self.may_go_on() {
                break;
            }
            self.comes_last(&report.report_id).await?;
            let why = match self.work(&report.report_id, SLICES_MAX).await {
                Ok(()) => continue,
                Err(Halt::Waits(why)) => why,
                // What is wrong with one keeps no other one back.
                Err(Halt::Failed(error)) => {
                    failed += 1;
                    let report_id = report.report_id.as_str().into();
                    let why = error.to_string();
                    let fields =
                        [("event", "report_failed".into()), ("report", report_id), ("error", (&*why).into())];
                    log("error", &fields);
                    format!("{why}.")
                }
            };
            waits_for = Some(format!("{} is compared no further: {why} It goes on by itself.", report.name));
        }
        let mut of_rest = |done: std::result::Result<usize, Halt>| -> Result<usize> {
            or_wait(done).map(|done| {
                done.unwrap_or_else(|why| {
                    waits_for.get_or_insert(why);
                    0
                })
            })
        };
        let searching = if self.is_d1_alone().await? { None } else { Some(of_rest(self.search().await)?) };
        let again = of_rest(self.old().await)?;
        let Unsettled { made, waits, missing } = self.unsettled().await?;
        let mut result = json!({
            "waiting": waiting.len(), "failed": failed, "slices": self.slices.get(), "again": again, "unsettled": made,
        });
        if let Some(searching) = searching {
            set(&mut result, "searching", searching.into());
            set(&mut result, "requests", self.requests.get().into());
            if waits {
                set(
                    &mut result,
                    "unsettled",
                    "waits until all reports are compared and no payments are moved".into(),
                );
            }
        }
        Ok((result, waits_for.or(missing)))
    }

    /// Before a try of a report: so one that waits, fails, or breaks the run off holds up no other in the next run.
    async fn comes_last(&self, report_id: &str) -> Result<()> {
        let sql = "UPDATE reports SET updated_at_ms = ?2 WHERE report_id = ?1 AND state = 'waiting'";
        let values = vec![report_id.into(), self.now_ms.into()];
        self.stores.batch(vec![Statement::new(sql, values)]).await.map(drop)
    }

    async fn report(&self, report_id: &str) -> Result<Option<Report>> {
        let sql = format!("SELECT {REPORT_COLUMNS} FROM reports WHERE report_id = ?1");
        let rows = self.stores.rows(Statement::new(sql, vec![report_id.into()])).await?;
        Ok(rows.into_iter().next())
    }

    /// Writes down that there is this report, which is in the bucket. One that was read is read anew, where a line of it was of a merchant account that was
    /// not known then, and may be known by now; and where it was refused. What was compared before is not changed by that.
    pub(super) async fn keep(
        &self,
        report_id: &str,
        name: &str,
        bytes: u64,
        only: Option<&str>,
    ) -> Result<()> {
        let sql = "INSERT INTO reports (report_id, name, bytes, bytes_done, line, state, counts, merchant_account, received_at_ms, updated_at_ms)
             VALUES (?1, ?2, ?3, 0, 1, 'waiting', '{}', ?5, ?4, ?4)
             ON CONFLICT (report_id) DO UPDATE SET name = excluded.name, state = 'waiting', error = NULL, updated_at_ms = excluded.updated_at_ms,
                bytes_done = iif(reports.state = 'waiting', reports.bytes_done, 0), line = iif(reports.state = 'waiting', reports.line, 1),
                counts = iif(reports.state = 'waiting', reports.counts, '{}')
             WHERE reports.state IN ('waiting', 'refused') OR (reports.merchant_account IS NULL AND reports.counts ->> 'of_others' > 0)";
        let only = only.map(str::to_owned);
        let values = vec![report_id.into(), name.into(), bytes.into(), self.now_ms.into(), only.into()];
        self.stores.batch(vec![Statement::new(sql, values)]).await.map(drop)
    }

    /// A break says no more that this file is missing, of the merchant accounts of which it tells: also where its lines, or its bytes, were here already.
    /// One that tells of nobody is the deployment's.
    async fn close_missing_of(&self, report: &Report, name: &str) -> Result<()> {
        let of = report.merchant_account.as_deref();
        let mut merchants = of.map_or_else(|| report.counted().told_of(), |only| [only.to_owned()].into());
        if merchants.is_empty() {
            merchants.insert(String::new());
        }
        let closed = close_missing(merchants.iter().map(String::as_str), name, self.now_ms)?;
        self.stores.batch(vec![closed]).await.map(drop)
    }

    /// Continues reading a report, until this run has read `slices_max` slices.
    async fn work(&self, report_id: &str, slices_max: u32) -> std::result::Result<(), Halt> {
        let mut head = None;
        while self.slices.get() < slices_max && self.may_go_on() {
            let Some(report) = self.report(report_id).await?.filter(|report| report.state == "waiting")
            else {
                return Ok(());
            };
            if head.is_none() {
                let Some(bytes) = self.read(&report, 0, LINE_MAX_BYTES * 2).await? else {
                    self.refuse(&report, GONE).await?;
                    return Ok(());
                };
                let is_all = u64::try_from(bytes.len()).unwrap_or(u64::MAX) == report.bytes;
                match Head::read(&bytes, is_all) {
                    Ok(found) => head = Some(found),
                    Err(error) => {
                        self.refuse(&report, &error).await?;
                        return Ok(());
                    }
                }
            }
            let Some(head) = &head else { return Ok(()) };
            let (from, line) = match report.bytes_done {
                0 => (u64::try_from(head.bytes).unwrap_or(u64::MAX), head.next_line),
                done => (done, report.line),
            };
            let Some(bytes) = self.read(&report, from, self.limits.slice_bytes).await? else {
                self.refuse(&report, GONE).await?;
                return Ok(());
            };
            let is_all = from.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)) >= report.bytes;
            match head.rows(&bytes, line, is_all) {
                Ok(lines) => self.take(&report, from, lines, is_all).await?,
                Err(error) => self.refuse(&report, &error).await?,
            }
            self.slices.set(self.slices.get() + 1);
        }
        Ok(())
    }

    /// Some of its bytes; `None` if it is not in the bucket any more.
    async fn read(&self, report: &Report, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
        if offset >= report.bytes {
            return Ok(Some(Vec::new()));
        }
        let length = u64::try_from(length).unwrap_or(u64::MAX).min(report.bytes - offset);
        self.stores.read(&key(report), offset, length).await
    }

    /// Stores a slice and compares its payments; then advances the report, in the same batch.
    async fn take(
        &self,
        report: &Report,
        from: u64,
        lines: Lines,
        is_last: bool,
    ) -> std::result::Result<(), Halt> {
        let mut counts = report.counted();
        let mut statements = Vec::new();
        let mut rows = Vec::new();
        let merchants = self.merchants(report, &lines.lines).await?;
        for (account, line) in lines.lines {
            let Some(merchant) = merchants.get(&account) else {
                counts.of_others += 1;
                continue;
            };
            count(&mut counts, merchant, &line);
            match line {
                Line::Moved(row) => rows.push((merchant, row.within(merchant))),
                Line::Unreadable { line, error } if counts.unreadable <= UNREADABLE_MAX => {
                    statements.push(self.told(report, Some(line), &error));
                }
                _ => {}
            }
        }
        let mut reported: BTreeMap<&str, Option<u64>> =
            merchants.values().map(|merchant| (merchant.as_str(), None)).collect();
        for (merchant, row) in rows.iter().filter(|(_, row)| row.kind() == Type::Settled) {
            let since_ms = reported.entry(merchant.as_str()).or_default();
            *since_ms = [*since_ms, row.made_at_ms].into_iter().flatten().min();
        }
        if !reported.is_empty() {
            statements.extend(self.reported_of(report, &reported)?);
        }
        let rows: Vec<&Row> = rows.iter().map(|(_, row)| row).collect();
        if !rows.is_empty() {
            self.book(report, &rows).await?;
            let payments: Vec<&str> = rows.iter().map(|row| row.payment.as_str()).collect();
            statements.extend(self.compare(&payments, About::Slice).await?);
        }
        let bytes_done = from.saturating_add(u64::try_from(lines.bytes).unwrap_or(u64::MAX));
        let sql = "UPDATE reports SET bytes_done = ?3, line = ?4, counts = ?5, state = ?6, updated_at_ms = ?7
             WHERE report_id = ?1 AND bytes_done = ?2 AND state = 'waiting'";
        let values = vec![
            report.report_id.as_str().into(),
            report.bytes_done.into(),
            bytes_done.into(),
            lines.next_line.into(),
            serde_json::to_string(&counts)?.into(),
            if is_last { "done" } else { "waiting" }.into(),
            self.now_ms.into(),
        ];
        statements.push(Statement::new(sql, values));
        if is_last {
            // If it was refused before.
            statements.push(close_missing([""].into_iter(), &report.report_id, self.now_ms)?);
            // Other reports may have been read between its slices. By their names: there may be more than are counted by it.
            let sql = "UPDATE reported_merchants SET until_ms = max(coalesce(until_ms, 0), ?2)
                 WHERE (report_id = ?1 OR merchant_account IN (SELECT value FROM json_each(?3)))
                    AND EXISTS (SELECT 1 FROM reports WHERE report_id = ?1 AND state = 'done')";
            let merchants = serde_json::to_string(&counts.told_of())?;
            let values =
                vec![report.report_id.as_str().into(), report.received_at_ms.into(), merchants.into()];
            statements.push(Statement::new(sql, values));
        }
        self.stores.batch(statements).await?;
        Ok(())
    }

    /// Whose lines count, of those that these are of: by the merchant account's name the same, or nothing for the deployment's. Those are known for
    /// which there is a key, or was.
    async fn merchants(&self, report: &Report, lines: &[(String, Line)]) -> Result<BTreeMap<String, String>> {
        let mut names: BTreeSet<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
        names.remove("");
        if let Some(only) = report.merchant_account.as_deref() {
            names.retain(|name| *name == only);
            return Ok(names.into_iter().map(|name| (name.to_owned(), name.to_owned())).collect());
        }
        let deployments = self.deployments.as_deref().filter(|name| names.remove(name));
        let mut merchants: BTreeMap<String, String> =
            deployments.map(|name| (name.to_owned(), String::new())).into_iter().collect();
        if !names.is_empty() {
            let sql = "SELECT value AS name FROM json_each(?1)
                 WHERE EXISTS (SELECT 1 FROM account_credentials WHERE account_credentials.merchant_account = value)
                    OR EXISTS (SELECT 1 FROM reported_merchants WHERE reported_merchants.merchant_account = value)";
            let values = vec![serde_json::to_string(&names)?.into()];
            let known: Vec<Name> = self.stores.rows(Statement::new(sql, values)).await?;
            merchants.extend(known.into_iter().map(|Name { name }| (name.clone(), name)));
        }
        Ok(merchants)
    }

    /// There are reports of these merchant accounts, each with the time of the earliest payment that is settled by a slice. And a break says no more
    /// that this one is missing.
    fn reported_of(
        &self,
        report: &Report,
        merchants: &BTreeMap<&str, Option<u64>>,
    ) -> Result<[Statement; 2]> {
        let sql = "INSERT INTO reported_merchants (merchant_account, since_ms, report_id)
             SELECT value ->> 0, value ->> 1, ?2 FROM json_each(?1) WHERE true
             ON CONFLICT (merchant_account) DO UPDATE SET report_id = excluded.report_id,
                since_ms = min(coalesce(since_ms, excluded.since_ms), coalesce(excluded.since_ms, since_ms))";
        let rows: Vec<_> = merchants.iter().collect();
        let values = vec![serde_json::to_string(&rows)?.into(), report.report_id.as_str().into()];
        let there_are = Statement::new(sql, values);
        Ok([there_are, close_missing(merchants.keys().copied(), &report.name, self.now_ms)?])
    }

    async fn book(&self, report: &Report, rows: &[&Row]) -> Result<()> {
        let lines = serde_json::to_string(rows)?;
        let sql = "INSERT INTO report_lines (line_id, report_id, line, kind, payment, modification, resource, amount_minor, currency,
                made_at_ms, batch)
             SELECT value->>'id', ?1, value->>'line', value->>'kind', value->>'payment', value->>'modification', value->>'resource',
                value->>'amount_minor', value->>'currency', value->>'made_at_ms', value->>'batch'
             FROM json_each(?2) WHERE true ON CONFLICT (line_id) DO NOTHING";
        let values = vec![report.report_id.as_str().into(), lines.into()];
        self.stores.batch(vec![Statement::new(sql, values)]).await.map(drop)
    }

    /// Stops reading a report and records why.
    async fn refuse(&self, report: &Report, error: &str) -> Result<()> {
        let fields = [
            ("event", "report_refused".into()),
            ("report", report.report_id.as_str().into()),
            ("error", error.into()),
        ];
        log("error", &fields);
        let sql = "UPDATE reports SET state = 'refused', error = ?2, updated_at_ms = ?3 WHERE report_id = ?1 AND state = 'waiting'";
        let values = vec![report.report_id.as_str().into(), error.into(), self.now_ms.into()];
        let refused = Statement::new(sql, values);
        self.stores.batch(vec![refused, self.told(report, None, error)]).await.map(drop)
    }

    /// A break for operators: an unreadable line, or a report that could not be read further.
    fn told(&self, report: &Report, line: Option<u64>, error: &str) -> Statement {
        let sql =
            "INSERT INTO breaks (break_id, kind, provider, theirs, state, note, first_seen_at_ms, last_seen_at_ms)
             VALUES (?1, 'report', 'adyen', ?2, 'open', ?3, ?4, ?4) ON CONFLICT (break_id) DO NOTHING";
        let place = line.map(|line| format!(":{line}")).unwrap_or_default();
        let note = match line {
            Some(line) => format!("line {line} is left out: {error}"),
            None => format!("it is read no further: {error}"),
        };
        let break_id = report_break(&format!("{}{place}", report.report_id));
        Statement::new(
            sql,
            vec![
                break_id.into(),
                within(report.merchant_account.as_deref().unwrap_or_default(), &report.name).into(),
                note.into(),
                self.now_ms.into(),
            ],
        )
    }
}
