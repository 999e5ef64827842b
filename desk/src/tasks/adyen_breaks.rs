//! What comes of comparing Adyen's reports with our payments: breaks, which are D1's, and marks of those that stand in a report.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde::Deserialize;
use worker::Result;

use super::adyen_compare::{Booked, compare};
use super::adyen_merchants::bare;
use super::adyen_places::{Sought, ask, find, mark};
use super::adyen_run::Import;
use super::adyen_stores::Stores;
use super::break_texts::{Done, amount_sql};
use super::breaks::{
    self, BATCHES_MAX, BREAKS_MAX, COMPARED_KINDS, HOLDS_MONEY, MARK_GONE, TAKEN_AT_MS, UNBOOKED, WAS_BOOKED,
};
use super::compare::{Break, LocalRecords};
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
/// In how many shards a run looks for payments that stand in no report, and of how many merchant accounts: the next one goes on with others.
const UNSETTLED_SHARDS_MAX: usize = 150;
const UNSETTLED_MERCHANTS_MAX: usize = 500;

/// Which payments are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Those of which a slice of a report tells.
    Slice,
    /// Those of open breaks.
    OpenBreaks,
}

impl<S: Stores> Import<S> {
    /// Compares all that the reports say about these payments (Adyen's ids, within their merchant accounts). Returns the statements that record the result, for D1.
    pub(super) async fn compare(
        &self,
        payments: &[&str],
        about: About,
    ) -> std::result::Result<Vec<Statement>, Halt> {
        let lines = self.lines(&serde_json::to_string(payments)?).await?;
        if !self.is_d1_alone().await? {
            return self.compare_in_places(&lines, about).await;
        }
        let mut found = Found::default();
        found.add(None, self.stores.rows(ask(&Sought::of(&lines))?).await?)?;
        let mut statements = self.judged(&lines, &found)?;
        let sql = "UPDATE payments SET listed_payment = provider_payment, moved_payment = provider_payment
             WHERE provider = 'adyen' AND moved_payment IS NOT provider_payment
                AND provider_payment IN (SELECT value FROM json_each(?1)) AND EXISTS (SELECT 1 FROM report_lines
                    WHERE report_lines.payment = coalesce(payments.merchant_account || '/', '') || payments.provider_payment
                        AND report_lines.kind = 'Settled')";
        let payments: Vec<&str> = payments.iter().map(|payment| bare(payment)).collect();
        statements.push(Statement::new(sql, vec![serde_json::to_string(&payments)?.into()]));
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

    /// Flags payments that were captured long before the latest report of their merchant account, and are in none. Captures from before the first
    /// one are not expected.
    pub(super) async fn unsettled(&self) -> Result<Unsettled> {
        let is_alone = self.is_d1_alone().await?;
        let merchants = self.reported().await?;
        // What is not marked yet, though it stands in a report, is no break.
        if !is_alone && merchants.iter().any(|merchant| merchant.waits != 0) {
            return Ok(Unsettled { waits: true, ..Unsettled::default() });
        }
        self.end_turn(&merchants).await?;
        let gone = self.settled_meanwhile();
        self.stores.batch(vec![gone.clone()]).await?;
        let flags = flags(&merchants, self.now_ms)?;
        let mut made = 0;
        for flag in &flags {
            made += self.flag_in_d1(flag).await?;
        }
        if is_alone {
            return Ok(Unsettled { made, ..Unsettled::default() });
        }
        let before_ms = merchants.iter().map(|merchant| merchant.until_ms).max().unwrap_or(self.now_ms);
        let shards = self.stores.some_shards(before_ms, UNSETTLED_SHARDS_MAX).await?;
        self.requests.set(self.requests.get().saturating_add(shards.len()));
        let statements: Rc<[Statement]> = [gone].into_iter().chain(flags).collect();
        let asks: Vec<_> = shards.into_iter().map(|shard| (shard, Rc::clone(&statements))).collect();
        let answers = self.stores.shard_batch(&asks).await?;
        made += answers.each.iter().flat_map(|(_, changed)| changed.iter().skip(1)).sum::<usize>();
        Ok(Unsettled { made, waits: false, missing: answers.missing })
    }

    /// The merchant accounts of which there are reports: where there are many, those that were not looked at for the longest time.
    async fn reported(&self) -> Result<Vec<Reported>> {
        let sql = "SELECT merchant_account, since_ms, until_ms, EXISTS (SELECT 1 FROM reports WHERE state = 'waiting')
                    OR EXISTS (SELECT 1 FROM report_searches WHERE is_again = 0)
                    OR EXISTS (SELECT 1 FROM shard_layouts WHERE moved_at_ms IS NOT NULL AND done_at_ms IS NULL) AS waits
             FROM reported_merchants WHERE since_ms IS NOT NULL AND until_ms IS NOT NULL ORDER BY looked_at_ms LIMIT ?1";
        let limit = u64::try_from(UNSETTLED_MERCHANTS_MAX).unwrap_or(u64::MAX);
        self.stores.rows(Statement::new(sql, vec![limit.into()])).await
    }

    /// The next run looks at others, if there are more.
    async fn end_turn(&self, merchants: &[Reported]) -> Result<()> {
        if merchants.len() < UNSETTLED_MERCHANTS_MAX {
            return Ok(());
        }
        let sql = "UPDATE reported_merchants SET looked_at_ms = ?2 WHERE merchant_account IN (SELECT value FROM json_each(?1))";
        let names: Vec<&str> = merchants.iter().map(|one| one.merchant_account.as_str()).collect();
        let values = vec![serde_json::to_string(&names)?.into(), self.now_ms.into()];
        self.stores.batch(vec![Statement::new(sql, values)]).await.map(drop)
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

    async fn flag_in_d1(&self, flag: &Statement) -> Result<usize> {
        let mut all = 0;
        for _ in 0..BATCHES_MAX {
            let made: usize = self.stores.batch(vec![flag.clone()]).await?.iter().sum();
            all += made;
            if made < BREAKS_MAX {
                break;
            }
        }
        Ok(all)
    }
}

/// A merchant account of which there are reports.
#[derive(Deserialize)]
struct Reported {
    /// Its name; empty for the deployment's.
    merchant_account: String,
    since_ms: u64,
    until_ms: u64,
    /// Not all is marked that stands in a report.
    waits: u32,
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

/// The statements that flag payments in any place: those of the deployment's merchant account, and of others.
fn flags(merchants: &[Reported], now_ms: u64) -> Result<Vec<Statement>> {
    let mut own = Vec::new();
    let mut statements = Vec::new();
    let common = || vec![now_ms.into(), UNSETTLED_MS.into()];
    for Reported { merchant_account, since_ms, until_ms, .. } in merchants {
        if merchant_account.is_empty() {
            let sql = unsettled_sql(
                "payments",
                &format!(
                    "merchant_account IS NULL AND updated_at_ms >= ?3 AND updated_at_ms < ?4 - ?2 AND {TAKEN_AT_MS} >= ?3"
                ),
            );
            let values = [common(), vec![(*since_ms).into(), (*until_ms).into()]].concat();
            statements.push(Statement::new(sql, values));
        } else {
            own.push((merchant_account, since_ms, until_ms));
        }
    }
    if !own.is_empty() {
        let sql = unsettled_sql(
            "json_each(?3) AS reported CROSS JOIN payments",
            &format!(
                "merchant_account = reported.value ->> 0 AND updated_at_ms >= reported.value ->> 1
                    AND updated_at_ms < (reported.value ->> 2) - ?2 AND {TAKEN_AT_MS} >= reported.value ->> 1"
            ),
        );
        let values = [common(), vec![serde_json::to_string(&own)?.into()]].concat();
        statements.push(Statement::new(sql, values));
    }
    Ok(statements)
}

/// Opens breaks, at `?1`, of payments that stand in no report: `from` has the table, `of_which` the merchant account and the span of time in which they
/// were captured.
fn unsettled_sql(from: &str, of_which: &str) -> String {
    let taken = amount_sql("status", "captured_minor", "currency", Some(Done::Captured));
    format!(
        "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, state, first_seen_at_ms,
            last_seen_at_ms)
         SELECT 'unsettled:adyen:' || provider_payment, 'unsettled', 'adyen', provider_payment, payment_id, object,
            {taken}, 'open', ?1, ?1
         FROM {from} WHERE provider = 'adyen' AND {HOLDS_MONEY} AND {UNBOOKED} AND status != 'requires_capture'
            AND provider_payment IS NOT NULL AND moved_payment IS NOT provider_payment AND {of_which}
            AND NOT {WAS_BOOKED} AND NOT EXISTS (SELECT 1 FROM breaks
                WHERE break_id = 'unsettled:adyen:' || payments.provider_payment AND state IN ('open', 'accepted'))
         LIMIT {BREAKS_MAX}
         ON CONFLICT (break_id) DO UPDATE SET state = 'open', note = NULL, ours = excluded.ours, last_seen_at_ms = excluded.last_seen_at_ms"
    )
}

/// Those that are captured by these lines: Adyen's ids, within their merchant accounts.
pub(super) fn settled(lines: &[Booked]) -> BTreeSet<&str> {
    lines.iter().filter(|line| line.kind == "Settled").map(|line| line.payment.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::read_model;
    use crate::tasks::simulation::{bound, execute};

    const DAY_MS: u64 = 86_400_000;

    #[test]
    fn only_what_was_taken_since_the_first_report_is_expected_in_one_whatever_changes_later() {
        let of = |merchant_account: &str| Reported {
            merchant_account: merchant_account.to_owned(),
            since_ms: 100 * DAY_MS,
            until_ms: 200 * DAY_MS,
            waits: 0,
        };
        for merchant_account in ["", "Own_ECOM"] {
            let model = read_model();
            for (number, made_at_day, taken_at_day) in
                [(1, 10, Some(10)), (2, 120, Some(120)), (3, 10, None), (4, 90, None), (5, 130, None)]
            {
                let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor,
                        currency, provider, provider_payment, attempt, shown, created_at_ms, updated_at_ms, captured_at_ms, merchant_account)
                     VALUES (?1, ?2, 1, 'a', 'succeeded', 900, 900, 0, 'eur', 'adyen', ?3, 1, '{}', ?4, ?5, ?6, nullif(?7, ''))";
                let at_ms = |day: u64| (day * DAY_MS).cast_signed();
                let values = (
                    format!("pay_{number}"),
                    format!("0{number}"),
                    format!("PSP{number}"),
                    at_ms(made_at_day),
                    // A refund, a rebuild, personal data that were dropped.
                    at_ms(150),
                    taken_at_day.map(at_ms),
                    merchant_account,
                );
                execute(&model, sql, values).unwrap();
            }
            // It was reserved before, and taken later.
            let sql =
                "INSERT INTO audit_records VALUES ('04', 2, ?1, 'a', 'payment.captured', 'pay_4', '{}')";
            execute(&model, sql, [(110 * DAY_MS).cast_signed()]).unwrap();
            // It stood in a report before it left, and is here again.
            execute(&model, "INSERT INTO history_payments VALUES (unhex('05'), 1, 1, 2, 1)", ()).unwrap();
            // One was accepted once, closed, and is found again: what justified another one justifies it no more.
            let sql = "INSERT INTO breaks (break_id, kind, provider, provider_payment, state, note, first_seen_at_ms, last_seen_at_ms)
                 VALUES ('unsettled:adyen:PSP2', 'unsettled', 'adyen', 'PSP2', 'resolved', 'known', 1, 1)";
            execute(&model, sql, ()).unwrap();
            for Statement { sql, values } in flags(&[of(merchant_account)], 201 * DAY_MS).unwrap() {
                execute(&model, &sql, bound(&values)).unwrap();
            }
            let sql = "SELECT provider_payment FROM breaks WHERE state = 'open' AND note IS NULL ORDER BY 1";
            let mut breaks = model.prepare(sql).unwrap();
            let found = breaks.query_map((), |row| row.get::<_, String>(0)).unwrap();
            assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), ["PSP2", "PSP4"], "{merchant_account}");
        }
    }
}
