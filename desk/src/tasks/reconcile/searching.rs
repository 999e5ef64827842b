//! What a run does about payments that are looked for in all shards: it goes on with that, and does what was due for those of which it is known by then
//! where they stand, or that they stand nowhere. And it asks again about what Stripe has given no usable answer about.

use std::collections::{BTreeMap, BTreeSet};

use worker::Error;

use super::known::stopped;
use super::lists::Fetched;
use super::places::Sought;
use super::recheck::Looked;
use super::searches::{AGAIN, Due, Dues, Undone};
use super::session::{Findings, Reconciliation};
use crate::tasks::compare::{Break, Kind};
use crate::tasks::place_stores::Halt;
use crate::tasks::run_limits::{SEARCH_MS, Used, may_search};
use payments::providers::Provider;
use runtime::db::Statement;
use runtime::log::log;

/// Takes over what is looked for under the labels `?1`, as the books `?2`. Who had a turn begins anew.
const ADOPTED: [&str; 2] = [
    "INSERT INTO payment_searches (books, payment, due, resource, after, since_ms, tries, next_at_ms)
     SELECT ?2, payment, due, resource, NULL, since_ms, tries, next_at_ms FROM payment_searches
     WHERE books IN (SELECT value FROM json_each(?1)) AND books != ?2 ON CONFLICT (books, payment, due) DO NOTHING",
    "DELETE FROM payment_searches WHERE books IN (SELECT value FROM json_each(?1)) AND books != ?2",
];

impl Reconciliation {
    /// Goes on with what is looked for in all places, as long as this run may ask them. A shard that does not answer stops it, and nothing else.
    pub(super) async fn search(&mut self) -> Result<(), Error> {
        let is_alone = self.finder.is_d1_alone().await;
        self.count_places();
        let is_alone = is_alone?;
        let books = self.books.label.clone().unwrap_or_default();
        if !self.books.left.is_empty() {
            // What was looked for in these books under another label.
            let left = serde_json::to_string(&self.books.left)?;
            let statements =
                ADOPTED.map(|sql| Statement::new(sql, vec![left.as_str().into(), books.as_str().into()]));
            self.count_queries(statements.len());
            self.db.batch(statements.into()).await?;
        }
        let (before, began_ms) = (self.used, runtime::now_ms());
        let until_ms = began_ms.saturating_add(SEARCH_MS / u64::from(self.share));
        let again = self.finder.asked_again(&books, is_alone).await.map_err(stopped)?;
        if !again.is_empty() {
            let undone = self.settle(&again, until_ms).await?;
            self.finder.answered(&books, &again, &undone).await.map_err(stopped)?;
        }
        self.count_places();
        let mut is_over = is_alone;
        while !is_over && self.may_search(before, began_ms) {
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
            let undone = self.settle(&step.dues, until_ms).await?;
            self.finder.searched(&books, &step, &undone).await.map_err(stopped)?;
            self.count_places();
            self.searching = step.left;
            // The next turn is another run's, if there is one.
            is_over = step.to.is_none() && step.left == 0;
        }
        Ok(())
    }

    fn may_search(&self, before: Used, began_ms: u64) -> bool {
        let mut for_it = self.used.since(before);
        for_it.ran_ms = runtime::now_ms().saturating_sub(began_ms);
        may_search(self.share, self.used, for_it)
    }

    /// Does what was due for payments of which it is known by now where they stand, or that they stand nowhere. What Stripe gives no usable answer about
    /// stops nothing else.
    async fn settle(&mut self, all: &[Due], until_ms: u64) -> Result<Undone, Error> {
        let dues = Dues::of(all);
        if !dues.moved.is_empty() || !dues.refunds.is_empty() {
            let known = self.local_records(&dues.sought).await?;
            let (moved, refunded) =
                (dues.moved.iter().copied().collect(), dues.refunds.iter().copied().collect());
            self.write(&Findings { moved, refunded, known: Some(&known), ..Findings::default() }).await?;
        }
        let Fetched { mut unanswered, mut left, .. } = self.fetch(dues.compare, Some(until_ms)).await?;
        for id in dues.movements {
            if runtime::now_ms() >= until_ms {
                left.insert(id.to_owned());
                continue;
            }
            let break_id = Break::id_of(Kind::Movement, Provider::Stripe.as_str(), id);
            if let Looked::Unanswered(why) = self.recheck_movement(id, &break_id).await? {
                unanswered.insert(id.to_owned(), why);
            }
        }
        let mut ours = BTreeMap::new();
        for (id, payment) in dues.disputes {
            if runtime::now_ms() >= until_ms {
                left.insert(id.to_owned());
                continue;
            }
            let sought = Sought { payment: payment.to_owned(), ..Sought::default() };
            let known = self.local_records(&[sought]).await?;
            let resource = known.records.by_provider_id(payment).map(|ours| ours.resource.clone());
            if resource.is_none() {
                continue;
            }
            let break_id = Break::id_of(Kind::Dispute, Provider::Stripe.as_str(), id);
            let looked = self.recheck_dispute(id, &break_id, payment, resource.as_deref()).await?;
            if let Looked::Unanswered(why) = looked {
                unanswered.insert(id.to_owned(), why);
                ours.extend(resource.map(|resource| (id.to_owned(), resource)));
            }
        }
        let undone = Undone::of(all, &unanswered, &left);
        self.tell_unanswered(all, &unanswered, &undone, &ours).await?;
        Ok(undone)
    }

    /// Stripe is asked about these payments again in a later run: it has given no usable answer about them.
    pub(super) async fn ask_again(&mut self, unanswered: &BTreeMap<String, String>) -> Result<(), Error> {
        let again = |payment: &String| Due::again(payment, AGAIN, None);
        let searched: Vec<Due> = unanswered.keys().map(again).collect();
        self.tell_unanswered(&searched, unanswered, &Undone::default(), &BTreeMap::new()).await?;
        self.write(&Findings { searched, ..Findings::default() }).await
    }

    /// Says what Stripe has given no usable answer about: in the log, in the run's result, and as a break, once it is given up. `ours` are our ids of the
    /// payments of disputes: by them they are compared, should Stripe say something after all.
    async fn tell_unanswered(
        &mut self,
        dues: &[Due],
        unanswered: &BTreeMap<String, String>,
        undone: &Undone,
        ours: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let of_these: BTreeSet<&str> = dues.iter().map(Due::asked).collect();
        for (asked, why) in unanswered.iter().filter(|(asked, _)| of_these.contains(asked.as_str())) {
            self.note_unanswered(asked, why);
        }
        let given_up = |(due, why): &(Due, String)| {
            let resource = due.resource.as_ref().or_else(|| ours.get(due.asked())).cloned();
            Break { resource, ..Break::unanswered(due, why) }
        };
        let breaks: Vec<Break> = undone.given_up.iter().map(given_up).collect();
        if breaks.is_empty() {
            return Ok(());
        }
        self.write(&Findings { breaks, ..Findings::default() }).await
    }

    pub(super) fn note_unanswered(&mut self, asked: &str, why: &str) {
        self.unanswered += 1;
        let fields = [
            ("event", "reconcile_unanswered".into()),
            ("account", self.account.as_deref().unwrap_or_default().into()),
            ("asked", asked.into()),
            ("error", why.into()),
        ];
        log("warn", &fields);
    }
}

impl Break {
    /// Stripe gave no usable answer about it, however often it was asked.
    pub(super) fn unanswered(due: &Due, why: &str) -> Self {
        let of = if due.asked() == due.payment { String::new() } else { format!(" (of {})", due.payment) };
        Self {
            kind: Kind::Unanswered,
            provider_payment: due.asked().to_owned(),
            resource: due.resource.clone(),
            object: None,
            ours: None,
            theirs: Some(format!("no answer that can be used{of}: {why}")),
        }
    }
}
