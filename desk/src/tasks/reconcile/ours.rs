//! Reads what we have of payments of which Stripe tells: in D1, or wherever they stand.

use worker::Result;

use super::known::{Known, stopped};
use super::places::{OF_THESE_BOOKS, Sought};
use super::session::Reconciliation;
use crate::tasks::breaks;
use crate::tasks::compare::LocalRecords;
use crate::tasks::movements::{LocalRefund, Refunds};
use crate::tasks::provider_ledger;

impl Reconciliation {
    /// Our payments of which Stripe tells, wherever they stand.
    pub(super) async fn local_records(&mut self, sought: &[Sought]) -> Result<Known> {
        if sought.is_empty() {
            return Ok(Known::default());
        }
        let is_alone = self.finder.is_d1_alone().await;
        self.count_places();
        if !is_alone? {
            return self.find(sought).await;
        }
        let sql = breaks::local_records_sql(&format!(
            "(provider_payment IN (SELECT value FROM json_each(?1)) OR payment_id IN (SELECT value FROM json_each(?2))){OF_THESE_BOOKS}"
        ));
        let ids: Vec<&str> =
            sought.iter().map(|one| one.payment.as_str()).filter(|id| !id.is_empty()).collect();
        let resources: Vec<&str> = sought.iter().filter_map(|one| one.resource.as_deref()).collect();
        let (ids, resources) = (serde_json::to_string(&ids)?, serde_json::to_string(&resources)?);
        let names = serde_json::to_string(&self.books.names)?;
        let values = vec![ids.into(), resources.into(), self.account.clone().into(), names.into()];
        let rows = self.rows(&sql, values).await?;
        Ok(Known { records: LocalRecords::new(rows), ..Known::default() })
    }

    /// Those that are not found, and of which nobody else will ask Stripe when they were made, are looked for again by what it says.
    async fn find(&mut self, sought: &[Sought]) -> Result<Known> {
        let found = self.finder.find(sought).await;
        self.count_places();
        let mut found = found.map_err(stopped)?;
        let asked: Vec<&Sought> =
            sought.iter().filter(|one| one.is_asked && found.left.contains(&one.payment)).collect();
        if asked.is_empty() {
            return Ok(Known::of(found));
        }
        let requests: Vec<_> = asked.iter().map(|one| provider_ledger::entry_request(&one.payment)).collect();
        let mut again = Vec::new();
        for (one, answer) in asked.into_iter().zip(self.get_all(&requests).await) {
            let entry = answer.ok().filter(|answer| answer.status == 200);
            let Some(Ok(entry)) = entry.map(|answer| provider_ledger::read_entry(&answer.body)) else {
                continue;
            };
            again.push(Sought {
                payment: one.payment.clone(),
                resource: one.resource.clone().or(entry.resource),
                made_at_ms: Some(entry.created_at_ms),
                is_asked: false,
            });
        }
        let more = self.finder.find(&again).await;
        self.count_places();
        let more = more.map_err(stopped)?;
        found
            .left
            .retain(|payment| again.iter().all(|one| one.payment != *payment) || more.left.contains(payment));
        found.placed.extend(more.placed);
        Ok(Known::of(found))
    }

    /// Our refunds with these ids at Stripe: those of payments that were looked for have been found with them.
    pub(super) async fn local_refunds(&mut self, ids: &[&str], known: &mut Known) -> Result<()> {
        if ids.is_empty() || known.found.is_some() {
            return Ok(());
        }
        let sql = "SELECT provider_refund, status, amount_minor, currency FROM refunds
            WHERE provider = 'stripe' AND provider_refund IN (SELECT value FROM json_each(?1))";
        let rows: Vec<LocalRefund> = self.rows(sql, vec![serde_json::to_string(ids)?.into()]).await?;
        known.refunds = Refunds::new(rows);
        Ok(())
    }

    /// Counts what looking for payments has used.
    pub(super) fn count_places(&mut self) {
        let (queries, requests) =
            (std::mem::take(&mut self.finder.queries), std::mem::take(&mut self.finder.requests));
        self.used.queries += queries;
        self.used.places += requests;
    }
}
