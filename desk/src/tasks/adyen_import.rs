//! Imports Adyen's settlement details reports: keeps each in R2, reads it in slices, and writes down where it and our books differ.
//!
//! Outcomes of a report: `waiting` (what is read is counted, and the next run goes on), `done`, or `refused` where it is no report any
//! more: what was read before that counts. What a slice holds, what came of comparing it, and where the next one begins are written so
//! that a run may break off anywhere: the same slice again changes nothing, as the same report does, or another one with the same lines.
//!
//! As in the [reconciliation](super::reconcile) nothing is repaired with money: the objects that are meant are asked.

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use worker::{Bucket, Date, Env, Error, Range, Result};

use super::adyen_compare::{Booked, LocalRefund, compare};
use super::adyen_report::{Head, Line, Lines, Row};
use super::breaks::{self, BATCHES_MAX, BREAKS_MAX, COMPARED_KINDS, HOLDS_MONEY, MARK_GONE, UNBOOKED};
use super::compare::{Break, LocalRecord, LocalRecords};
use super::csv::LINE_MAX_BYTES;
use crate::operations;
use crate::tasks::bucket::only_new;
use messages::operations::{PaymentsSettings, SETTINGS_PATH};
use messages::settlement::{Counts, REPORT_COLUMNS, Report, Uploaded};
use payments::providers::Provider;
use runtime::db::{self, Db, Statement};
use runtime::log::log;
use runtime::places;

/// How much of a report is read at once, in bytes: some 1300 lines, which are one value in D1.
const SLICE_BYTES: usize = 262_144;
/// How many slices a scheduled run reads, and an upload before it answers: an invocation may make 1000 calls.
const SLICES_MAX: u32 = 60;
const SLICES_AT_ONCE: u32 = 8;
/// How many open breaks are looked at again in one run.
const OLD_MAX: u32 = 50;
/// How many unreadable lines of a report get a break each.
const UNREADABLE_MAX: u64 = 20;
/// How many types of lines are counted by their names.
const TYPES_MAX: usize = 60;
/// How long after its capture a payment must stand in a report, in ms. Adyen holds money back for up to 12 business days
/// (<https://docs.adyen.com/managed-model/delayed-settlement>), which with holidays are up to three weeks.
const UNSETTLED_MS: u64 = 21 * 86_400_000;

const IN_SHARDS: &str = "Payments are in shards, and Adyen's reports are compared with D1 alone: nothing was done. Compare them at Adyen, and take \
     ADYEN_MERCHANT_ACCOUNT out if they are not needed.";

/// Whether payments may be in shards: what is there would seem to be unknown.
async fn is_sharded(env: &Env) -> Result<bool> {
    Ok(places::fresh(env).await?.layouts.iter().any(|layout| layout.slots > 0))
}

/// Counts a line of a report by its type.
fn count(counts: &mut Counts, line: &Line) {
    let (of_type, kind) = match line {
        Line::OfAnother => return counts.of_others += 1,
        Line::Unreadable { .. } => return counts.unreadable += 1,
        Line::Moved(row) => (&mut counts.types, &row.kind),
        Line::Counted { kind, is_unknown: false } => (&mut counts.types, kind),
        Line::Counted { kind, is_unknown: true } => (&mut counts.unknown, kind),
    };
    let is_named = of_type.len() < TYPES_MAX || of_type.contains_key(kind);
    *of_type.entry(if is_named { kind.clone() } else { "others".to_owned() }).or_default() += 1;
}

/// Where a report is in the bucket.
fn key(report: &Report) -> String {
    format!("reports/{}.csv", report.report_id)
}

/// Imports an uploaded report. It is stored in the bucket first: if this breaks off, the scheduled task continues.
pub(crate) async fn upload(env: &Env, name: &str, bytes: Vec<u8>) -> Result<Uploaded> {
    let Some(import) = Import::of(env).await? else {
        return Ok(Uploaded::Off(
            "Reports need the binding SETTLEMENT, a bucket, and ADYEN_MERCHANT_ACCOUNT.".to_owned(),
        ));
    };
    if is_sharded(env).await? {
        return Ok(Uploaded::Off(IN_SHARDS.to_owned()));
    }
    if let Err(error) = Head::read(bytes.get(..SLICE_BYTES).unwrap_or(&bytes), bytes.len() <= SLICE_BYTES) {
        return Ok(Uploaded::NoReport(error));
    }
    let report_id = HEXLOWER.encode(&Sha256::digest(&bytes));
    import.keep(&report_id, name, bytes).await?;
    import.work(&report_id, SLICES_AT_ONCE).await?;
    match import.report(&report_id).await? {
        Some(report) => Ok(Uploaded::Kept(report)),
        None => Err(Error::RustError("the report was not written down".to_owned())),
    }
}

/// Continues with unread reports, and compares open breaks again.
pub(super) async fn go_on(env: &Env) -> Result<Value> {
    let Some(import) = Import::of(env).await? else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT, or no ADYEN_MERCHANT_ACCOUNT" }));
    };
    if is_sharded(env).await? {
        return Err(Error::RustError(IN_SHARDS.to_owned()));
    }
    let sql = format!(
        "SELECT {REPORT_COLUMNS} FROM reports WHERE state = 'waiting' ORDER BY received_at_ms LIMIT 5"
    );
    let waiting: Vec<Report> = import.db.rows(&sql, vec![]).await?;
    let mut left = SLICES_MAX;
    for report in &waiting {
        left -= import.work(&report.report_id, left).await?;
    }
    let again = import.old().await?;
    let unsettled = import.unsettled().await?;
    let asked =
        breaks::ask_objects(env, &import.db, (Provider::Adyen, None), breaks::ASKED_MAX, import.now_ms)
            .await?;
    Ok(json!({
        "waiting": waiting.len(), "slices": SLICES_MAX - left, "again": again, "unsettled": unsettled, "asked": asked,
    }))
}

struct Import {
    db: Db,
    bucket: Bucket,
    /// Lines of others do not count.
    merchant_account: String,
    now_ms: u64,
}

impl Import {
    async fn of(env: &Env) -> Result<Option<Self>> {
        let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
        let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
        let Some(merchant_account) = settings.adyen_merchant_account else { return Ok(None) };
        Ok(Some(Self { db: Db::of(env)?, bucket, merchant_account, now_ms: Date::now().as_millis() }))
    }

    async fn report(&self, report_id: &str) -> Result<Option<Report>> {
        self.db
            .first(
                &format!("SELECT {REPORT_COLUMNS} FROM reports WHERE report_id = ?1"),
                vec![report_id.into()],
            )
            .await
    }

    async fn keep(&self, report_id: &str, name: &str, bytes: Vec<u8>) -> Result<()> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bucket.put(format!("reports/{report_id}.csv"), bytes).only_if(only_new()).execute().await?;
        let sql = "INSERT INTO reports (report_id, name, bytes, bytes_done, line, state, counts, received_at_ms, updated_at_ms)
             VALUES (?1, ?2, ?3, 0, 1, 'waiting', '{}', ?4, ?4) ON CONFLICT (report_id) DO NOTHING";
        let values = vec![report_id.into(), name.into(), size.into(), self.now_ms.into()];
        self.db.run(sql, values).await?;
        // The break about the missing report is settled.
        let sql = "UPDATE breaks SET state = 'repaired', last_seen_at_ms = ?2
             WHERE break_id = 'report:adyen:' || ?1 AND state = 'open'";
        self.db.run(sql, vec![name.into(), self.now_ms.into()]).await.map(drop)
    }

    /// Continues reading a report, by at most `slices_max` slices. Returns how many it read.
    async fn work(&self, report_id: &str, slices_max: u32) -> Result<u32> {
        let mut head = None;
        for slice in 0..slices_max {
            let Some(report) = self.report(report_id).await?.filter(|report| report.state == "waiting")
            else {
                return Ok(slice);
            };
            if head.is_none() {
                let bytes = self.read(&report, 0, LINE_MAX_BYTES * 2).await?;
                let is_all = u64::try_from(bytes.len()).unwrap_or(u64::MAX) == report.bytes;
                match Head::read(&bytes, is_all) {
                    Ok(found) => head = Some(found),
                    Err(error) => return self.refuse(&report, &error).await.map(|()| slice),
                }
            }
            let Some(head) = &head else { return Ok(slice) };
            let (from, line) = match report.bytes_done {
                0 => (u64::try_from(head.bytes).unwrap_or(u64::MAX), head.next_line),
                done => (done, report.line),
            };
            let bytes = self.read(&report, from, SLICE_BYTES).await?;
            let is_all = from.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)) >= report.bytes;
            match head.rows(&bytes, line, is_all, &self.merchant_account) {
                Ok(lines) => self.take(&report, from, &lines, is_all).await?,
                Err(error) => self.refuse(&report, &error).await?,
            }
        }
        Ok(slices_max)
    }

    async fn read(&self, report: &Report, offset: u64, length: usize) -> Result<Vec<u8>> {
        if offset >= report.bytes {
            return Ok(Vec::new());
        }
        let length = u64::try_from(length).unwrap_or(u64::MAX).min(report.bytes - offset);
        let range = Range::OffsetWithLength { offset, length };
        let object = self.bucket.get(key(report)).range(range).execute().await?;
        match object.as_ref().and_then(worker::Object::body) {
            Some(body) => body.bytes().await,
            None => Err(Error::RustError(format!("{} is not in the bucket", key(report)))),
        }
    }

    /// Stores a slice and compares its payments; then advances the report, in the same batch.
    async fn take(&self, report: &Report, from: u64, lines: &Lines, is_last: bool) -> Result<()> {
        let mut counts = report.counted();
        let mut statements = Vec::new();
        let mut rows = Vec::new();
        for line in &lines.lines {
            count(&mut counts, line);
            match line {
                Line::Moved(row) => rows.push(row),
                Line::Unreadable { line, error } if counts.unreadable <= UNREADABLE_MAX => {
                    statements.push(self.told(report, Some(*line), error));
                }
                _ => {}
            }
        }
        if !rows.is_empty() {
            self.book(report, &rows).await?;
            let payments: Vec<&str> = rows.iter().map(|row| row.payment.as_str()).collect();
            statements.extend(self.compare(&payments).await?);
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
        self.db.batch(statements).await
    }

    async fn book(&self, report: &Report, rows: &[&Row]) -> Result<()> {
        let lines = serde_json::to_string(rows)?;
        let sql = "INSERT INTO report_lines (line_id, report_id, line, kind, payment, modification, resource, amount_minor, currency,
                made_at_ms, batch)
             SELECT value->>'id', ?1, value->>'line', value->>'kind', value->>'payment', value->>'modification', value->>'resource',
                value->>'amount_minor', value->>'currency', value->>'made_at_ms', value->>'batch'
             FROM json_each(?2) WHERE true ON CONFLICT (line_id) DO NOTHING";
        self.db.run(sql, vec![report.report_id.as_str().into(), lines.into()]).await.map(drop)
    }

    /// Compares all that the reports say about these payments (Adyen's ids). Returns the statements that record the result.
    async fn compare(&self, payments: &[&str]) -> Result<Vec<Statement>> {
        let payments = serde_json::to_string(payments)?;
        let sql = "SELECT kind, payment, modification, resource, amount_minor, currency FROM report_lines
             WHERE payment IN (SELECT value FROM json_each(?1)) ORDER BY line_id";
        let lines: Vec<Booked> = self.db.rows(sql, vec![payments.as_str().into()]).await?;
        let resources: Vec<&str> = lines.iter().filter_map(|line| line.resource.as_deref()).collect();
        let sql = breaks::local_records_sql(
            "provider_payment IN (SELECT value FROM json_each(?1)) OR payment_id IN (SELECT value FROM json_each(?2))",
        );
        let values = vec![payments.as_str().into(), serde_json::to_string(&resources)?.into()];
        let rows: Vec<LocalRecord> = self.db.rows(&sql, values).await?;
        let own: Vec<&str> = rows.iter().map(|row| row.resource.as_str()).collect();
        let sql = "SELECT payment_id, provider_refund, status, amount_minor, currency FROM refunds
             WHERE provider = 'adyen' AND payment_id IN (SELECT value FROM json_each(?1))";
        let refunds: Vec<LocalRefund> = self.db.rows(sql, vec![serde_json::to_string(&own)?.into()]).await?;
        let breaks = compare(&lines, &LocalRecords::new(rows), &refunds);
        self.written(&lines, &breaks, &payments)
    }

    fn written(&self, lines: &[Booked], breaks: &[Break], payments: &str) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        if !breaks.is_empty() {
            let values =
                vec![breaks::rows_json(breaks, Provider::Adyen)?.into(), self.now_ms.into(), db::Value::Null];
            statements.push(Statement::new(breaks::upsert_sql(Provider::Adyen), values));
        }
        let ids: Vec<&str> =
            lines.iter().flat_map(|line| [line.payment.as_str(), line.modification.as_str()]).collect();
        let found: Vec<String> = breaks.iter().map(|found| found.id(Provider::Adyen.as_str())).collect();
        let sql = format!(
            "UPDATE breaks SET {MARK_GONE} WHERE state = 'open' AND provider = 'adyen' AND kind IN ({COMPARED_KINDS}, 'movement')
             AND provider_payment IN (SELECT value FROM json_each(?1)) AND break_id NOT IN (SELECT value FROM json_each(?3))"
        );
        let values = vec![
            serde_json::to_string(&ids)?.into(),
            self.now_ms.into(),
            serde_json::to_string(&found)?.into(),
        ];
        statements.push(Statement::new(&sql, values));
        let sql = "UPDATE payments SET listed_payment = provider_payment, moved_payment = provider_payment
             WHERE provider = 'adyen' AND moved_payment IS NOT provider_payment AND provider_payment IN (
                SELECT payment FROM report_lines WHERE kind = 'Settled' AND payment IN (SELECT value FROM json_each(?1)))";
        statements.push(Statement::new(sql, vec![payments.into()]));
        Ok(statements)
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
        self.db.batch(vec![refused, self.told(report, None, error)]).await
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
        let break_id = format!("report:adyen:{}{place}", report.report_id);
        Statement::new(
            sql,
            vec![break_id.into(), report.name.as_str().into(), note.into(), self.now_ms.into()],
        )
    }

    /// Compares the payments of open breaks again: our records may agree by now. Returns how many there were.
    async fn old(&self) -> Result<usize> {
        #[derive(Deserialize)]
        struct Old {
            payment: String,
        }
        let sql = format!(
            "SELECT DISTINCT payment FROM report_lines JOIN (
                SELECT provider_payment AS id FROM breaks WHERE state = 'open' AND provider = 'adyen'
                    AND kind IN ({COMPARED_KINDS}, 'movement') AND last_seen_at_ms < ?1 ORDER BY last_seen_at_ms LIMIT ?2)
             ON payment = id OR modification = id"
        );
        let old: Vec<Old> = self.db.rows(&sql, vec![self.now_ms.into(), OLD_MAX.into()]).await?;
        if old.is_empty() {
            return Ok(0);
        }
        let payments: Vec<&str> = old.iter().map(|old| old.payment.as_str()).collect();
        self.db.batch(self.compare(&payments).await?).await?;
        Ok(old.len())
    }

    /// Flags payments that were captured long before the latest report and are in none. Captures from before the first report are not
    /// expected.
    async fn unsettled(&self) -> Result<usize> {
        let gone = format!(
            "UPDATE breaks SET {MARK_GONE} WHERE kind = 'unsettled' AND state = 'open' AND NOT EXISTS (
                SELECT 1 FROM payments WHERE payment_id = breaks.resource AND {HOLDS_MONEY} AND status != 'requires_capture'
                    AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment) AND ?1 IS NULL"
        );
        self.db.run(&gone, vec![db::Value::Null, self.now_ms.into()]).await?;
        let sql = format!(
            "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
                last_seen_at_ms)
             SELECT 'unsettled:adyen:' || provider_payment, 'unsettled', 'adyen', provider_payment, payment_id, object,
                status || ': ' || captured_minor || ' ' || currency || ' taken', 'open', ?1, ?1
             FROM payments WHERE provider = 'adyen' AND {HOLDS_MONEY} AND {UNBOOKED} AND status != 'requires_capture'
                AND provider_payment IS NOT NULL AND moved_payment IS NOT provider_payment
                AND updated_at_ms >= (SELECT min(made_at_ms) FROM report_lines WHERE kind = 'Settled')
                AND updated_at_ms < (SELECT max(received_at_ms) FROM reports WHERE state = 'done') - ?2
                AND NOT EXISTS (SELECT 1 FROM breaks
                    WHERE break_id = 'unsettled:adyen:' || payments.provider_payment AND state IN ('open', 'accepted'))
             LIMIT {BREAKS_MAX}
             ON CONFLICT (break_id) DO UPDATE SET state = 'open', ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms"
        );
        let mut all = 0;
        for _ in 0..BATCHES_MAX {
            let made = self.db.run(&sql, vec![self.now_ms.into(), UNSETTLED_MS.into()]).await?;
            all += made;
            if made < BREAKS_MAX {
                break;
            }
        }
        Ok(all)
    }
}
