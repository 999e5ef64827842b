//! Looks again: at payments that were too recent to compare, at those of ours that were in no list, and at open breaks.

use std::collections::BTreeSet;

use serde::Deserialize;
use worker::Result;

use super::lists::{Fetched, due_of, sought_of_sum};
use super::periods::is_surely_in;
use super::places::Sought;
use super::session::{Findings, Reconciliation};
use crate::tasks::breaks::{self, COMPARED_KINDS, HOLDS_MONEY, MARK_GONE, UNBOOKED};
use crate::tasks::changes;
use crate::tasks::compare::{Break, Kind, LocalRecord, LocalRecords, missing, must_exist};
use crate::tasks::movements::{self, Matched, Movement};
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::providers::{HttpAnswer, Provider};
use runtime::db::{self, Statement};

/// How many payments that were too recent are looked at again in one run, and how many that were in no list.
///
/// These limits are shared among the accounts of a run.
const AGAIN_MAX: u32 = 50;
pub(super) const UNLISTED_MAX: u32 = 100;
/// How many a shard is asked for: it does not know which are known to be missing.
pub(super) const UNLISTED_OF_A_SHARD_MAX: u32 = 1_000;
/// How many open breaks are looked at again in one run.
const OLD_MAX: u32 = 20;
/// After how many of which Stripe says nothing usable the run looks at no more.
const UNANSWERED_MAX: usize = 3;

/// A break that is open.
#[derive(Deserialize)]
struct Old {
    break_id: String,
    provider_payment: String,
    resource: Option<String>,
}

/// What came of looking again at something that Stripe has.
pub(super) enum Looked {
    /// It was compared.
    Compared,
    /// Our side of it was not found where it was looked for: nothing follows from that.
    Unfound,
    /// Stripe gave no usable answer about it: why.
    Unanswered(String),
}

impl Reconciliation {
    /// Compares payments again that were too recent last time.
    pub(super) async fn recheck_recent(&mut self) -> Result<()> {
        #[derive(Deserialize)]
        struct Look {
            provider_payment: String,
        }
        let sql = "SELECT provider_payment FROM looks WHERE since_ms <= ?1
            AND (stripe_account IS ?3 OR stripe_account IN (SELECT value FROM json_each(?4)))
            ORDER BY since_ms, provider_payment LIMIT ?2";
        let values = self.of_these_books(self.quiet_since_ms, AGAIN_MAX)?;
        let looks: Vec<Look> = self.rows(sql, values).await?;
        if looks.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = looks.iter().map(|look| look.provider_payment.as_str()).collect();
        let sql =
            "UPDATE looks SET since_ms = ?2 WHERE provider_payment IN (SELECT value FROM json_each(?1))";
        self.run(sql, vec![serde_json::to_string(&ids)?.into(), self.now_ms.into()]).await?;
        let Fetched { absent, unanswered, .. } = self.fetch(ids.into_iter().collect(), None).await?;
        self.ask_again(&unanswered).await?;
        let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
        let sql = "DELETE FROM looks WHERE provider_payment IN (SELECT value FROM json_each(?1))";
        self.run(sql, vec![serde_json::to_string(&absent)?.into()]).await.map(drop)
    }

    /// Our payments that hold money and that were in no list, as far as that was read: at most so many.
    pub(super) fn unlisted_statement(
        &self,
        (since_ms, through_ms): (u64, u64),
        most: u32,
    ) -> Result<Statement> {
        let unlisted = format!(
            "provider = 'stripe' AND {HOLDS_MONEY} AND status != 'disputed' AND {} AND {UNBOOKED}
             AND (provider_payment IS NULL OR listed_payment IS NOT provider_payment)
             AND updated_at_ms BETWEEN ?1 AND ?2 AND NOT EXISTS (SELECT 1 FROM breaks
                WHERE break_id IN ('missing:stripe:' || coalesce(payments.provider_payment, payment_id), 'unanswered:stripe:' || payments.provider_payment)
                    AND state != 'resolved' AND state != 'repaired')
             AND NOT EXISTS (SELECT 1 FROM payment_searches WHERE books = ?4 AND payment = payments.provider_payment AND due = 'again')",
            is_surely_in("?3")
        );
        let sql = format!(
            "SELECT * FROM ({}) ORDER BY updated_at_ms LIMIT {most}",
            breaks::local_records_sql(&unlisted)
        );
        let until_ms = through_ms.min(self.quiet_since_ms);
        let values = vec![
            since_ms.into(),
            until_ms.into(),
            serde_json::to_string(&self.books.spans)?.into(),
            self.books.label.clone().unwrap_or_default().into(),
        ];
        Ok(Statement::new(&sql, values))
    }

    /// Fetches those in D1. Returns whether these were all.
    pub(super) async fn check_unlisted(&mut self, span: (u64, u64), most: u32) -> Result<bool> {
        let Statement { sql, values } = self.unlisted_statement(span, most)?;
        let rows: Vec<LocalRecord> = self.rows(&sql, values).await?;
        self.compare_unlisted(&rows).await?;
        Ok(rows.len() < usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Fetches payments of ours: the provider has them, or they are missing.
    pub(super) async fn compare_unlisted(&mut self, rows: &[LocalRecord]) -> Result<()> {
        let ids = rows.iter().filter_map(|row| row.provider_payment.as_deref()).collect();
        let fetched = self.fetch(ids, None).await?;
        let is_absent =
            |row: &&LocalRecord| row.provider_payment.as_ref().is_none_or(|id| fetched.absent.contains(id));
        let breaks = rows.iter().filter(is_absent).map(missing).collect();
        self.write(&Findings { breaks, ..Findings::default() }).await?;
        self.ask_again(&fetched.unanswered).await
    }

    /// The values of a statement over what stands under the labels of these books.
    fn of_these_books(&self, before_ms: u64, most: u32) -> Result<Vec<db::Value>> {
        let left = serde_json::to_string(&self.books.left)?;
        let label = self.books.label.clone();
        Ok(vec![before_ms.into(), self.share_of(most).into(), label.into(), left.into()])
    }

    /// Those of which D1 has no break that says that they are missing, or that Stripe says nothing usable about them, and of which Stripe is not asked
    /// again later: a shard does not know which are.
    pub(super) async fn without_known(&mut self, mut rows: Vec<LocalRecord>) -> Result<Vec<LocalRecord>> {
        #[derive(Deserialize)]
        struct Known {
            id: String,
        }
        let id = |row: &LocalRecord| row.provider_payment.clone().unwrap_or_else(|| row.resource.clone());
        let ids: Vec<String> = rows.iter().map(id).collect();
        let sql = "SELECT asked.value AS id FROM json_each(?1) AS asked
            WHERE EXISTS (SELECT 1 FROM breaks WHERE break_id IN ('missing:stripe:' || asked.value, 'unanswered:stripe:' || asked.value)
                    AND state != 'resolved' AND state != 'repaired')
                OR EXISTS (SELECT 1 FROM payment_searches WHERE books = ?2 AND payment = asked.value AND due = 'again')";
        let books = self.books.label.clone().unwrap_or_default();
        let known: Vec<Known> =
            self.rows(sql, vec![serde_json::to_string(&ids)?.into(), books.into()]).await?;
        let known: BTreeSet<String> = known.into_iter().map(|known| known.id).collect();
        rows.retain(|row| !known.contains(&id(row)));
        Ok(rows)
    }

    /// Compares open breaks again that no list covers any more.
    pub(super) async fn recheck_open_breaks(&mut self) -> Result<()> {
        let sql = format!(
            "SELECT break_id, provider_payment, resource FROM breaks WHERE state = 'open' AND provider = 'stripe'
             AND kind IN ({COMPARED_KINDS}, 'movement', 'dispute', 'unanswered') AND last_seen_at_ms < ?1
             AND (stripe_account IS ?3 OR stripe_account IN (SELECT value FROM json_each(?4))) ORDER BY last_seen_at_ms LIMIT ?2"
        );
        let values = self.of_these_books(self.now_ms, OLD_MAX)?;
        let mut unanswered = 0;
        for old in self.rows::<Old>(&sql, values).await? {
            match self.recheck_open_break(&old).await? {
                // What it is instead, if it is anything, is a break of its own.
                Looked::Compared if old.break_id.starts_with("unanswered:") => {
                    self.close(&old.break_id).await?
                }
                Looked::Compared => {}
                // It has its turn after others.
                Looked::Unfound => self.has_had_its_turn(&old.break_id).await?,
                Looked::Unanswered(why) => {
                    self.note_unanswered(&old.provider_payment, &why);
                    self.has_had_its_turn(&old.break_id).await?;
                    unanswered += 1;
                    if unanswered >= UNANSWERED_MAX {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    async fn recheck_open_break(&mut self, old: &Old) -> Result<Looked> {
        let asked = Break::unanswered_of(&old.break_id).unwrap_or_default();
        if let Some(movement) =
            Break::movement_of(&old.break_id).or_else(|| Some(asked).filter(|id| id.starts_with("txn_")))
        {
            return self.recheck_movement(movement, &old.break_id).await;
        }
        if let Some(dispute) =
            Break::dispute_of(&old.break_id).or_else(|| Some(asked).filter(|id| is_dispute(id)))
        {
            return self.recheck_dispute(dispute, &old.break_id, "", old.resource.as_deref()).await;
        }
        let mut fetched = self.fetch([old.provider_payment.as_str()].into(), None).await?;
        if let Some((_, why)) = fetched.unanswered.pop_first() {
            return Ok(Looked::Unanswered(why));
        }
        if fetched.absent.is_empty() {
            return Ok(Looked::Compared);
        }
        let sought = Sought {
            payment: old.provider_payment.clone(),
            resource: old.resource.clone(),
            ..Sought::default()
        };
        let known = self.local_records(&[sought]).await?;
        if known.is_left(&old.provider_payment) {
            // It is not said to be gone before it is found.
            return Ok(Looked::Unfound);
        }
        let is_it = |found: &Break| found.provider_payment == old.provider_payment;
        let breaks = known.records.all().filter(|ours| must_exist(ours)).map(missing).filter(is_it).collect();
        let compared = vec![old.provider_payment.as_str()];
        self.write(&Findings { breaks, compared, ..Findings::default() }).await?;
        Ok(Looked::Compared)
    }

    /// Other breaks are looked at before this one.
    async fn has_had_its_turn(&mut self, break_id: &str) -> Result<()> {
        let sql = "UPDATE breaks SET last_seen_at_ms = ?2 WHERE break_id = ?1";
        self.run(sql, vec![break_id.into(), self.now_ms.into()]).await.map(drop)
    }

    /// Marks what a movement is about, and closes its break if we have a record of it by now.
    pub(super) async fn recheck_movement(&mut self, id: &str, break_id: &str) -> Result<Looked> {
        let movement =
            match usable(self.get(&movements::movement_request(id)).await, movements::read_movement) {
                Ok(movement) => movement,
                Err(why) => return Ok(Looked::Unanswered(why)),
            };
        let sought: Vec<Sought> = movement.sum().and_then(sought_of_sum).into_iter().collect();
        let source: Vec<&str> = movement.sum().map(|sum| sum.id.as_str()).into_iter().collect();
        let mut known = self.local_records(&sought).await?;
        self.local_refunds(&source, &mut known).await?;
        let left = movement.sum().filter(|sum| sum.payment.as_deref().is_some_and(|id| known.is_left(id)));
        let is_unknown = match movement.matched(&known.records, &known.refunds) {
            Matched::Recorded => false,
            // It is unknown once it was looked for in all places.
            Matched::Unrecorded if left.is_some() => {
                let searched = left.and_then(|sum| due_of(&movement, sum)).into_iter().collect();
                self.write(&Findings { searched, ..Findings::default() }).await?;
                return Ok(Looked::Unfound);
            }
            Matched::FetchPayment(payment) => {
                let mut fetched = self.fetch([payment.as_str()].into(), None).await?;
                if let Some((_, why)) = fetched.unanswered.pop_first() {
                    return Ok(Looked::Unanswered(why));
                }
                !fetched.absent.is_empty()
            }
            Matched::Unrecorded => match self.is_of_a_shown_dispute(&movement, &known.records).await {
                Ok(is_shown) => !is_shown,
                Err(error) => return Ok(Looked::Unanswered(error.to_string())),
            },
        };
        let breaks = is_unknown.then(|| movement.unknown(&known.records)).into_iter().collect();
        let refunded = source.into_iter().collect();
        let moved = movement.charged().into_iter().collect();
        self.write(&Findings { breaks, moved, refunded, known: Some(&known), ..Findings::default() }).await?;
        if !is_unknown {
            self.close(break_id).await?;
        }
        Ok(Looked::Compared)
    }

    /// Whether it is of a dispute that its payment shows together with others.
    pub(super) async fn is_of_a_shown_dispute(
        &mut self,
        movement: &Movement,
        known: &LocalRecords,
    ) -> Result<bool> {
        let movements::Source::Dispute(sum) = &movement.source else { return Ok(false) };
        match sum.payment.as_deref().and_then(|payment| known.by_provider_id(payment)) {
            Some(ours) => self.is_shown_with_others(&sum.id, ours).await,
            None => Ok(false),
        }
    }

    /// Closes the break of a dispute once its payment shows it as it stands. Until then it stays, whatever else of the payment agrees.
    pub(super) async fn recheck_dispute(
        &mut self,
        id: &str,
        break_id: &str,
        payment: &str,
        resource: Option<&str>,
    ) -> Result<Looked> {
        let dispute = match usable(self.get(&changes::dispute_request(id)).await, changes::read_dispute) {
            Ok(dispute) => dispute,
            Err(why) => return Ok(Looked::Unanswered(why)),
        };
        let sought = Sought {
            payment: payment.to_owned(),
            resource: resource.map(str::to_owned),
            ..Sought::default()
        };
        let known = self.local_records(&[sought]).await?;
        let Some(ours) = known.records.all().next() else { return Ok(Looked::Unfound) };
        let Some(found) = dispute.unknown(ours) else {
            self.close(break_id).await?;
            return Ok(Looked::Compared);
        };
        match self.is_shown_with_others(id, ours).await {
            Ok(true) => self.close(break_id).await?,
            Ok(false) => {
                // Under its own id, where it was written as another kind.
                let is_its = found.id(Provider::Stripe.as_str()) == break_id;
                self.write(&Findings { breaks: vec![found], ..Findings::default() }).await?;
                if !is_its {
                    self.close(break_id).await?;
                }
            }
            Err(error) => return Ok(Looked::Unanswered(error.to_string())),
        }
        Ok(Looked::Compared)
    }

    /// Whether our payment shows this dispute together with others: the provider is asked for all of them.
    pub(super) async fn is_shown_with_others(&mut self, dispute: &str, ours: &LocalRecord) -> Result<bool> {
        let Some(id) = ours.provider_payment.clone().filter(|_| ours.dispute.is_some()) else {
            return Ok(false);
        };
        let question = StatusQuery::Disputes { provider: Provider::Stripe, account: None, id, doubt: None };
        let Some(request) = Provider::Stripe.question_request(&question) else { return Ok(false) };
        let answer = self.get(&request).await?;
        let StatusReply::Disputes(all) = Provider::Stripe.read_status_reply(&question, &answer) else {
            return Ok(false);
        };
        Ok(all.iter().any(|one| one.id == dispute) && changes::are_shown(&all, ours))
    }

    async fn close(&mut self, break_id: &str) -> Result<()> {
        let sql = format!("UPDATE breaks SET {MARK_GONE} WHERE state = 'open' AND break_id = ?1");
        self.resolved += self.run(&sql, vec![break_id.into(), self.now_ms.into()]).await?;
        Ok(())
    }
}

/// What an answer says, or why it is of no use.
fn usable<T, E: std::fmt::Display>(
    answer: Result<HttpAnswer>,
    read: impl FnOnce(&str) -> std::result::Result<T, E>,
) -> std::result::Result<T, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status != 200 {
        return Err(format!("it was answered {}", answer.status));
    }
    read(&answer.body).map_err(|error| error.to_string())
}

/// Whether Stripe's id is one of a dispute.
fn is_dispute(id: &str) -> bool {
    id.starts_with("du_") || id.starts_with("dp_")
}

impl Break {
    /// What Stripe gave no usable answer about, by the id of its break.
    fn unanswered_of(break_id: &str) -> Option<&str> {
        break_id.strip_prefix(&Self::id_of(Kind::Unanswered, Provider::Stripe.as_str(), ""))
    }
}
