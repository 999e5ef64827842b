//! What comes of comparing Adyen's reports with our payments: breaks, which are D1's, and marks of those that stand in a report.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde::Deserialize;
use worker::Result;

use super::adyen_compare::{Booked, LocalRefund, compare};
use super::adyen_places::{Sought, find, mark};
use super::adyen_run::Import;
use super::adyen_stores::Stores;
use super::breaks::{self, BATCHES_MAX, BREAKS_MAX, COMPARED_KINDS, HOLDS_MONEY, MARK_GONE, UNBOOKED};
use super::compare::{Break, LocalRecord, LocalRecords};
use super::place_stores::Halt;
use super::placed::Found;
use payments::providers::Provider;
use runtime::db::{self, Statement};

/// How many open breaks are looked at again in one run.
const OLD_MAX: u32 = 50;
/// How often payments are looked for that were moved meanwhile.
const LOOKS_MAX: u32 = 5;
/// How long after its capture a payment must stand in a report, in ms. Adyen holds money back for up to 12 business days
/// (<https://docs.adyen.com/managed-model/delayed-settlement>), which with holidays are up to three weeks.
const UNSETTLED_MS: u64 = 21 * 86_400_000;
/// In how many shards a run looks for payments that stand in no report: the next one goes on with others.
const UNSETTLED_SHARDS_MAX: usize = 150;

/// Which payments are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Those of which a slice of a report tells.
    Slice,
    /// Those of open breaks.
    OpenBreaks,
}

impl<S: Stores> Import<S> {
    /// Compares all that the reports say about these payments (Adyen's ids). Returns the statements that record the result, for D1.
    pub(super) async fn compare(
        &self,
        payments: &[&str],
        about: About,
    ) -> std::result::Result<Vec<Statement>, Halt> {
        let payments = serde_json::to_string(payments)?;
        let lines = self.lines(&payments).await?;
        if !self.is_d1_alone().await? {
            return self.compare_in_places(&lines, about).await;
        }
        let resources: Vec<&str> = lines.iter().filter_map(|line| line.resource.as_deref()).collect();
        let sql = breaks::local_records_sql(
            "provider_payment IN (SELECT value FROM json_each(?1)) OR payment_id IN (SELECT value FROM json_each(?2))",
        );
        let values = vec![payments.as_str().into(), serde_json::to_string(&resources)?.into()];
        let rows: Vec<LocalRecord> = self.stores.rows(Statement::new(sql, values)).await?;
        let own: Vec<&str> = rows.iter().map(|row| row.resource.as_str()).collect();
        let sql = "SELECT payment_id, provider_refund, status, amount_minor, currency FROM refunds
             WHERE provider = 'adyen' AND payment_id IN (SELECT value FROM json_each(?1))";
        let own = serde_json::to_string(&own)?;
        let refunds: Vec<LocalRefund> = self.stores.rows(Statement::new(sql, vec![own.into()])).await?;
        let breaks = compare(&lines, &LocalRecords::new(rows), &refunds);
        let mut statements = self.written(&lines, &breaks)?;
        let sql = "UPDATE payments SET listed_payment = provider_payment, moved_payment = provider_payment
             WHERE provider = 'adyen' AND moved_payment IS NOT provider_payment AND provider_payment IN (
                SELECT payment FROM report_lines WHERE kind = 'Settled' AND payment IN (SELECT value FROM json_each(?1)))";
        statements.push(Statement::new(sql, vec![payments.into()]));
        Ok(statements)
    }

    /// All that the reports say of these payments.
    pub(super) async fn lines(&self, payments: &str) -> Result<Vec<Booked>> {
        let sql = "SELECT kind, payment, modification, resource, amount_minor, currency, made_at_ms FROM report_lines
             WHERE payment IN (SELECT value FROM json_each(?1)) ORDER BY line_id";
        self.stores.rows(Statement::new(sql, vec![payments.into()])).await
    }

    /// The same with all places. What is not found where it most probably is, is neither known nor unknown yet.
    async fn compare_in_places(
        &self,
        lines: &[Booked],
        about: About,
    ) -> std::result::Result<Vec<Statement>, Halt> {
        let sought = Sought::of(lines);
        for _ in 0..LOOKS_MAX {
            let mut found = find(&self.stores, &sought, self.limits.near_shards).await?;
            let is_marked = mark(&self.stores, &mut found, &settled(lines)).await?;
            self.requests.set(self.requests.get().saturating_add(found.requests));
            if !is_marked {
                continue;
            }
            let compared: Vec<Booked> =
                lines.iter().filter(|line| !found.left.contains(&line.payment)).cloned().collect();
            let mut statements = self.judged(&compared, &found)?;
            if !found.left.is_empty() {
                statements.push(self.to_search(&found.left, about)?);
            }
            return Ok(statements);
        }
        Err(Halt::Waits("payments are being moved: it goes on later.".to_owned()))
    }

    /// These are looked for in all shards. Of one that is looked for already there are other lines now: it begins again.
    fn to_search(&self, payments: &BTreeSet<String>, about: About) -> Result<Statement> {
        let sql = "INSERT INTO report_searches (payment, is_again, since_ms) SELECT value, ?2, ?3 FROM json_each(?1) WHERE true
             ON CONFLICT (payment) DO UPDATE SET is_again = 0, after = NULL, since_ms = max(since_ms + 1, excluded.since_ms)
             WHERE excluded.is_again = 0";
        let is_again = u32::from(about == About::OpenBreaks);
        let payments = serde_json::to_string(payments)?;
        Ok(Statement::new(sql, vec![payments.into(), is_again.into(), self.now_ms.into()]))
    }

    /// The statements that record what differs from what was found.
    pub(super) fn judged(&self, lines: &[Booked], found: &Found) -> Result<Vec<Statement>> {
        let (records, refunds) = found.records(Provider::Adyen.as_str());
        self.written(lines, &compare(lines, &LocalRecords::new(records), &refunds))
    }

    fn written(&self, lines: &[Booked], breaks: &[Break]) -> Result<Vec<Statement>> {
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
        Ok(statements)
    }

    /// Compares the payments of open breaks again: our records may agree by now. Returns how many there were.
    pub(super) async fn old(&self) -> std::result::Result<usize, Halt> {
        #[derive(Deserialize)]
        struct Old {
            payment: String,
        }
        // One that is looked for in all shards has its turn there.
        let is_meant = match self.is_d1_alone().await? {
            true => "",
            false => " AND provider_payment NOT IN (SELECT payment FROM report_searches)",
        };
        let sql = format!(
            "SELECT DISTINCT payment FROM report_lines JOIN (
                SELECT provider_payment AS id FROM breaks WHERE state = 'open' AND provider = 'adyen'
                    AND kind IN ({COMPARED_KINDS}, 'movement') AND last_seen_at_ms < ?1{is_meant} ORDER BY last_seen_at_ms LIMIT ?2)
             ON payment = id OR modification = id"
        );
        let old: Vec<Old> =
            self.stores.rows(Statement::new(sql, vec![self.now_ms.into(), OLD_MAX.into()])).await?;
        if old.is_empty() {
            return Ok(0);
        }
        let payments: Vec<&str> = old.iter().map(|old| old.payment.as_str()).collect();
        self.stores.batch(self.compare(&payments, About::OpenBreaks).await?).await?;
        Ok(old.len())
    }

    /// Flags payments that were captured long before the latest report and are in none. Captures from before the first report are not
    /// expected.
    pub(super) async fn unsettled(&self) -> Result<Unsettled> {
        #[derive(Deserialize)]
        struct Known {
            since_ms: Option<u64>,
            until_ms: Option<u64>,
            waits: u32,
        }
        let gone = self.settled_meanwhile();
        let of_d1 = "updated_at_ms >= (SELECT min(made_at_ms) FROM report_lines WHERE kind = 'Settled')
                AND updated_at_ms < (SELECT max(received_at_ms) FROM reports WHERE state = 'done') - ?2";
        if self.is_d1_alone().await? {
            self.stores.batch(vec![gone]).await?;
            return Ok(Unsettled { made: self.flag_in_d1(of_d1).await?, ..Unsettled::default() });
        }
        // What is not marked yet, though it stands in a report, is no break.
        let sql = "SELECT (SELECT min(made_at_ms) FROM report_lines WHERE kind = 'Settled') AS since_ms,
                (SELECT max(received_at_ms) FROM reports WHERE state = 'done') AS until_ms,
                EXISTS (SELECT 1 FROM reports WHERE state = 'waiting') OR EXISTS (SELECT 1 FROM report_searches WHERE is_again = 0)
                    OR EXISTS (SELECT 1 FROM shard_layouts WHERE moved_at_ms IS NOT NULL AND done_at_ms IS NULL) AS waits";
        let known: Vec<Known> = self.stores.rows(Statement::new(sql, Vec::new())).await?;
        let Some(known) = known.first().filter(|known| known.waits == 0) else {
            return Ok(Unsettled { waits: true, ..Unsettled::default() });
        };
        self.stores.batch(vec![gone.clone()]).await?;
        let mut made = self.flag_in_d1(of_d1).await?;
        let mut statements = vec![gone];
        if let (Some(since_ms), Some(until_ms)) = (known.since_ms, known.until_ms) {
            let sql = unsettled_sql("updated_at_ms >= ?3 AND updated_at_ms < ?4 - ?2");
            let values = vec![self.now_ms.into(), UNSETTLED_MS.into(), since_ms.into(), until_ms.into()];
            statements.push(Statement::new(sql, values));
        }
        let before_ms = known.until_ms.unwrap_or(self.now_ms);
        let shards = self.stores.some_shards(before_ms, UNSETTLED_SHARDS_MAX).await?;
        self.requests.set(self.requests.get().saturating_add(shards.len()));
        let statements: Rc<[Statement]> = statements.into();
        let asks: Vec<_> = shards.into_iter().map(|shard| (shard, Rc::clone(&statements))).collect();
        let answers = self.stores.shard_batch(&asks).await?;
        made += answers.each.iter().filter_map(|(_, changed)| changed.get(1)).sum::<usize>();
        Ok(Unsettled { made, waits: false, missing: answers.missing })
    }

    /// Closes breaks whose payment stands in a report by now, or holds no money any more.
    fn settled_meanwhile(&self) -> Statement {
        let gone = format!(
            "UPDATE breaks SET {MARK_GONE} WHERE kind = 'unsettled' AND state = 'open' AND NOT EXISTS (
                SELECT 1 FROM payments WHERE payment_id = breaks.resource AND {HOLDS_MONEY} AND status != 'requires_capture'
                    AND provider_payment = breaks.provider_payment AND moved_payment IS NOT provider_payment) AND ?1 IS NULL"
        );
        Statement::new(gone, vec![db::Value::Null, self.now_ms.into()])
    }

    async fn flag_in_d1(&self, since_and_until: &str) -> Result<usize> {
        let sql = unsettled_sql(since_and_until);
        let mut all = 0;
        for _ in 0..BATCHES_MAX {
            let values = vec![self.now_ms.into(), UNSETTLED_MS.into()];
            let made: usize =
                self.stores.batch(vec![Statement::new(sql.as_str(), values)]).await?.iter().sum();
            all += made;
            if made < BREAKS_MAX {
                break;
            }
        }
        Ok(all)
    }
}

/// What came of looking for payments that stand in no report.
#[derive(Default)]
pub(super) struct Unsettled {
    /// How many there are more.
    pub(super) made: usize,
    /// Payments are being moved, or a report is not compared as a whole: nothing was looked for.
    pub(super) waits: bool,
    /// The shards that did not answer: they are asked again by a later run.
    pub(super) missing: Option<String>,
}

/// Opens breaks, at `?1`, of payments that were captured in a span of time and stand in no report. Reports are those of one merchant account: what
/// was paid in another one, with a key of its account's own, stands in none of them.
fn unsettled_sql(since_and_until: &str) -> String {
    format!(
        "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
            last_seen_at_ms)
         SELECT 'unsettled:adyen:' || provider_payment, 'unsettled', 'adyen', provider_payment, payment_id, object,
            status || ': ' || captured_minor || ' ' || currency || ' taken', 'open', ?1, ?1
         FROM payments WHERE provider = 'adyen' AND {HOLDS_MONEY} AND {UNBOOKED} AND status != 'requires_capture'
            AND provider_payment IS NOT NULL AND moved_payment IS NOT provider_payment AND merchant_account IS NULL
            AND {since_and_until}
            AND NOT EXISTS (SELECT 1 FROM breaks
                WHERE break_id = 'unsettled:adyen:' || payments.provider_payment AND state IN ('open', 'accepted'))
         LIMIT {BREAKS_MAX}
         ON CONFLICT (break_id) DO UPDATE SET state = 'open', ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms"
    )
}

/// Those that are captured by these lines: Adyen's ids.
pub(super) fn settled(lines: &[Booked]) -> BTreeSet<&str> {
    lines.iter().filter(|line| line.kind == "Settled").map(|line| line.payment.as_str()).collect()
}
