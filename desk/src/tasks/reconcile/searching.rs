//! What a run does about payments that are looked for in all shards: it goes on with that, and does what was due for those of which it is known by then
//! where they stand, or that they stand nowhere.

use worker::Error;

use super::known::stopped;
use super::places::Sought;
use super::searches::{Due, Dues};
use super::session::{Findings, Reconciliation};
use crate::tasks::compare::{Break, Kind};
use crate::tasks::pace::may_search;
use crate::tasks::place_stores::Halt;
use payments::providers::Provider;
use runtime::db::Statement;

/// Takes over what is looked for under the labels `?1`, as the books `?2`. Who had a turn begins anew.
const ADOPTED: [&str; 2] = [
    "INSERT INTO payment_searches (books, payment, due, resource, after, since_ms)
     SELECT ?2, payment, due, resource, NULL, since_ms FROM payment_searches
     WHERE books IN (SELECT value FROM json_each(?1)) AND books != ?2 ON CONFLICT (books, payment, due) DO NOTHING",
    "DELETE FROM payment_searches WHERE books IN (SELECT value FROM json_each(?1)) AND books != ?2",
];

impl Reconciliation {
    /// Goes on with what is looked for in all places, as long as this run may ask them. A shard that does not answer stops it, and nothing else.
    pub(super) async fn search(&mut self) -> Result<(), Error> {
        let is_alone = self.finder.is_d1_alone().await;
        self.count_places();
        let books = self.books.label.clone().unwrap_or_default();
        let before = self.used.places;
        let mut is_over = is_alone?;
        if !is_over && !self.books.left.is_empty() {
            // What was looked for in these books under another label.
            let left = serde_json::to_string(&self.books.left)?;
            let statements =
                ADOPTED.map(|sql| Statement::new(sql, vec![left.as_str().into(), books.as_str().into()]));
            self.count_queries(statements.len());
            self.db.batch(statements.into()).await?;
        }
        while !is_over && may_search(self.share, self.used, self.used.places.saturating_sub(before)) {
            let step = self.finder.search(&books).await;
            self.count_places();
            let step = match step {
                Ok(Some(step)) => step,
                Ok(None) => break,
                Err(Halt::Waits(missing)) => {
                    self.search_missing = Some(missing);
                    break;
                }
                Err(Halt::Failed(error)) => return Err(error),
            };
            self.settle(&step.dues).await?;
            self.finder.searched(&books, &step).await.map_err(stopped)?;
            self.count_places();
            self.searching = step.left;
            // The next turn is another run's, if there is one.
            is_over = step.to.is_none() && step.left == 0;
        }
        Ok(())
    }

    /// Does what was due for payments of which it is known by now where they stand, or that they stand nowhere.
    async fn settle(&mut self, dues: &[Due]) -> Result<(), Error> {
        let dues = Dues::of(dues);
        if !dues.moved.is_empty() || !dues.refunds.is_empty() {
            let known = self.local_records(&dues.sought).await?;
            let (moved, refunded) =
                (dues.moved.iter().copied().collect(), dues.refunds.iter().copied().collect());
            self.write(&Findings { moved, refunded, known: Some(&known), ..Findings::default() }).await?;
        }
        self.fetch_and_compare(dues.compare).await?;
        for id in dues.movements {
            self.recheck_movement(id, &Break::id_of(Kind::Movement, Provider::Stripe.as_str(), id)).await?;
        }
        for (id, payment) in dues.disputes {
            let sought = Sought { payment: payment.to_owned(), ..Sought::default() };
            let known = self.local_records(&[sought]).await?;
            let resource = known.records.by_provider_id(payment).map(|ours| ours.resource.clone());
            if resource.is_none() {
                continue;
            }
            let break_id = Break::id_of(Kind::Dispute, Provider::Stripe.as_str(), id);
            self.recheck_dispute(id, &break_id, payment, resource.as_deref()).await?;
        }
        Ok(())
    }
}
