//! Looks in all shards for payments in Stripe's lists that were not found where they can be expected, some shards in each run.
//!
//! Some payments have a turn together. How far it has come is written down after each few shards: a run that is killed, or a shard that does not
//! answer, is followed by another run that goes on there. What was due for a payment is done once it is found, or is in no shard: then it is unknown,
//! which a break says. Only what was done is written off.
//!
//! What Stripe gives no usable answer about holds up nothing else: Stripe is asked again after a pause, each time a longer one, and it is given up after
//! [`TRIES_MAX`]: a break says so. So is what a list tells of and Stripe then says nothing usable about.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::Deserialize;

use super::places::{Finder, Objects, Sought};
use crate::tasks::compare::LocalRecord;
use crate::tasks::place_stores::{Halt, Places};
use crate::tasks::placed::Found;
use messages::placement::ShardName;
use runtime::db::Statement;

/// How many payments have a turn together.
const TURN_MAX: u32 = 10_000;
/// How many shards are asked at once.
const SHARDS: usize = 48;
/// Of how many payments at once it is told that they are in no shard: Stripe is asked for each.
const OVER_MAX: usize = 200;
/// How often Stripe is asked about something that it gives no usable answer about: for some two days.
const TRIES_MAX: u32 = 10;

/// Compare it with what Stripe says of it.
pub(super) const COMPARE: &str = "compare";
/// The same, after Stripe has given no usable answer about it: wherever it stands, it is asked for first.
pub(super) const AGAIN: &str = "again";
/// Mark it as one whose money has moved.
pub(super) const MOVED: &str = "moved";

/// What is done once a payment is found, or is in no place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Due {
    /// Stripe's id.
    pub(super) payment: String,
    /// [`COMPARE`], [`AGAIN`], [`MOVED`], or Stripe's id of a refund, a movement or a dispute; of a movement that could not be read, the same as `payment`.
    pub(super) due: String,
    /// Our id, where Stripe has one.
    pub(super) resource: Option<String>,
    /// How often Stripe has given no usable answer about it.
    #[serde(default)]
    pub(super) tries: u32,
}

impl Due {
    pub(super) fn new(payment: &str, due: &str, resource: Option<&str>) -> Self {
        Self {
            payment: payment.to_owned(),
            due: due.to_owned(),
            resource: resource.map(str::to_owned),
            tries: 0,
        }
    }

    /// What Stripe has just given no usable answer about.
    pub(super) fn again(payment: &str, due: &str, resource: Option<&str>) -> Self {
        Self { tries: 1, ..Self::new(payment, due, resource) }
    }

    /// Stripe's id of what it is asked for, if it is.
    pub(super) fn asked(&self) -> &str {
        if matches!(self.due.as_str(), COMPARE | AGAIN) { &self.payment } else { &self.due }
    }
}

/// Writes down that these are looked for. Who has a turn already goes on with it.
pub(super) fn to_search(books: &str, dues: &[Due], now_ms: u64) -> serde_json::Result<Statement> {
    let sql = "INSERT INTO payment_searches (books, payment, due, resource, after, since_ms, tries, next_at_ms)
         SELECT ?2, value ->> 0, value ->> 1, value ->> 2, CASE value ->> 3 WHEN 0 THEN
            (SELECT max(s.after) FROM payment_searches s WHERE s.books = ?2 AND s.payment = value ->> 0) END, ?3, value ->> 3,
            CASE value ->> 3 WHEN 0 THEN 0 ELSE ?3 + 300000 END
         FROM json_each(?1) WHERE true ON CONFLICT (books, payment, due) DO NOTHING";
    let rows: Vec<_> = dues.iter().map(|due| (&due.payment, &due.due, &due.resource, due.tries)).collect();
    Ok(Statement::new(sql, vec![serde_json::to_string(&rows)?.into(), books.into(), now_ms.into()]))
}

/// What of a step was not done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    /// What Stripe gave no usable answer about: it is looked for again.
    again: BTreeSet<Due>,
    /// The same, for the last time; each with why.
    pub(super) given_up: Vec<(Due, String)>,
    /// What there was no time for: it is due in the next step.
    left: BTreeSet<Due>,
}

impl Undone {
    /// Of these dues Stripe gave no usable answer about the ones of these ids, and was not asked about those.
    pub(super) fn of(dues: &[Due], unanswered: &BTreeMap<String, String>, left: &BTreeSet<String>) -> Self {
        let mut undone = Self::default();
        for due in dues {
            match unanswered.get(due.asked()) {
                Some(why) if due.tries + 1 >= TRIES_MAX => {
                    undone.given_up.push((due.clone(), why.clone()));
                }
                Some(_) => drop(undone.again.insert(due.clone())),
                None if left.contains(due.asked()) => drop(undone.left.insert(due.clone())),
                None => {}
            }
        }
        undone
    }

    fn ends(&self, due: &Due) -> bool {
        !self.again.contains(due) && !self.left.contains(due)
    }
}

/// What came of some shards.
pub(super) struct Step {
    /// All that have this turn.
    turn: Vec<String>,
    /// The shards that were asked before.
    from: String,
    /// And those that are asked by now; `None` where these were all.
    pub(super) to: Option<String>,
    /// What is due by now: for those that were found, or that are in no shard.
    pub(super) dues: Vec<Due>,
    /// How many are left.
    pub(super) left: usize,
}

impl<P: Places, O: Objects> Finder<P, O> {
    /// Asks the next shards for those that have their turn. `None` if there is nothing to look for.
    pub(super) async fn search(&mut self, books: &str) -> Result<Option<Step>, Halt> {
        let Some((from, turn)) = self.turn(books).await? else { return Ok(None) };
        self.queries += 1;
        let shards = self.places.shards_behind(ShardName::parse(&from).as_ref(), SHARDS).await?;
        let mut over = Vec::new();
        if shards.is_empty() {
            over.extend(turn.iter().take(OVER_MAX).map(|one| one.payment.clone()));
            self.nowhere.extend(over.iter().cloned());
        } else {
            let mut found = Found::default();
            let question = Rc::new(self.ask(&turn)?);
            let asks: Vec<_> = shards.iter().map(|shard| (shard.clone(), Rc::clone(&question))).collect();
            self.ask_shards(&mut found, &asks).await?;
            for one in turn.iter().filter(|one| one.is_in(&found)) {
                let is_it = |record: &LocalRecord| {
                    record.provider_payment.as_ref() == Some(&one.payment)
                        || Some(&record.resource) == one.resource.as_ref()
                };
                let shard = found.placed.iter().find(|placed| is_it(&placed.record));
                if let Some(shard) = shard.and_then(|placed| placed.shard.clone()) {
                    self.found_in.insert(one.payment.clone(), shard);
                    over.push(one.payment.clone());
                }
            }
        }
        let dues = if over.is_empty() { Vec::new() } else { self.dues(books, &over).await? };
        let left = turn.len().saturating_sub(over.len());
        let turn = turn.into_iter().map(|one| one.payment).collect();
        Ok(Some(Step { turn, from, to: shards.last().map(ToString::to_string), dues, left }))
    }

    /// What was due is done, but for this: it is written off, and the others go on behind the shards that were asked.
    pub(super) async fn searched(&mut self, books: &str, step: &Step, undone: &Undone) -> Result<(), Halt> {
        let mut statements = self.ended(books, &step.dues, undone, Some(&step.from))?;
        if let Some(to) = step.to.as_ref().filter(|_| undone.left.is_empty()) {
            let sql = "UPDATE payment_searches SET after = ?3
                WHERE books = ?1 AND payment IN (SELECT value FROM json_each(?2)) AND after = ?4";
            let turn = serde_json::to_string(&step.turn)?;
            let values = vec![books.into(), turn.into(), to.as_str().into(), step.from.as_str().into()];
            statements.push(Statement::new(sql, values));
        }
        if !statements.is_empty() {
            self.queries += 1;
            self.places.batch(statements).await?;
        }
        Ok(())
    }

    /// What Stripe has to be asked about again, whatever the shards have: where all is in D1, all that is looked for.
    pub(super) async fn asked_again(&mut self, books: &str, is_d1_alone: bool) -> Result<Vec<Due>, Halt> {
        let sql = "SELECT payment, due, resource, tries FROM payment_searches
            WHERE books = ?1 AND after IS NULL AND next_at_ms <= ?2 AND (due IN ('again', payment) OR ?3 = 1) ORDER BY next_at_ms LIMIT ?4";
        self.queries += 1;
        let values = vec![
            books.into(),
            self.places.now_ms().into(),
            u32::from(is_d1_alone).into(),
            u32::try_from(OVER_MAX).unwrap_or(u32::MAX).into(),
        ];
        Ok(self.places.rows(Statement::new(sql, values)).await?)
    }

    /// It was asked, and this was done, but for what is not.
    pub(super) async fn answered(&mut self, books: &str, dues: &[Due], undone: &Undone) -> Result<(), Halt> {
        let statements = self.ended(books, dues, undone, None)?;
        if !statements.is_empty() {
            self.queries += 1;
            self.places.batch(statements).await?;
        }
        Ok(())
    }

    /// Writes off what is done. What Stripe has to be asked about again has its turn after a pause, from the first shard on: by then it may have been
    /// moved.
    fn ended(
        &self,
        books: &str,
        dues: &[Due],
        undone: &Undone,
        after: Option<&str>,
    ) -> serde_json::Result<Vec<Statement>> {
        let mut statements = Vec::new();
        let done: Vec<&Due> = dues.iter().filter(|due| undone.ends(due)).collect();
        if !done.is_empty() {
            let sql = "DELETE FROM payment_searches WHERE books = ?1 AND payment IN (SELECT value ->> 0 FROM json_each(?2))
                AND json_array(payment, due) IN (SELECT value FROM json_each(?2))";
            statements.push(Statement::new(sql, vec![books.into(), pairs(done)?.into()]));
        }
        if !undone.again.is_empty() {
            // Where it waits already it does so as it did.
            let sql = "UPDATE OR IGNORE payment_searches SET due = CASE due WHEN 'compare' THEN 'again' ELSE due END, after = NULL,
                    tries = tries + 1, next_at_ms = ?3 + min(86400000, 300000 << min(tries, 20))
                WHERE books = ?1 AND payment IN (SELECT value ->> 0 FROM json_each(?2))
                    AND json_array(payment, due) IN (SELECT value FROM json_each(?2)) AND after IS ?4";
            let again = pairs(&undone.again)?;
            let values = vec![
                books.into(),
                again.as_str().into(),
                self.places.now_ms().into(),
                after.map(str::to_owned).into(),
            ];
            statements.push(Statement::new(sql, values));
            let sql = "DELETE FROM payment_searches WHERE books = ?1 AND payment IN (SELECT value ->> 0 FROM json_each(?2)) AND due = 'compare'
                AND json_array(payment, due) IN (SELECT value FROM json_each(?2)) AND after IS ?3";
            let values = vec![books.into(), again.into(), after.map(str::to_owned).into()];
            statements.push(Statement::new(sql, values));
        }
        Ok(statements)
    }

    /// Those that have a turn, and the shard that was asked for them last.
    async fn turn(&mut self, books: &str) -> Result<Option<(String, Vec<Sought>)>, Halt> {
        if let Some(turn) = self.begun(books).await? {
            return Ok(Some(turn));
        }
        let sql = "UPDATE payment_searches SET after = '' WHERE books = ?1 AND after IS NULL AND next_at_ms <= ?3 AND due NOT IN ('again', payment) AND payment IN (
                SELECT payment FROM payment_searches WHERE books = ?1 AND after IS NULL AND next_at_ms <= ?3 AND due NOT IN ('again', payment)
                ORDER BY since_ms LIMIT ?2)";
        self.queries += 1;
        let begins = Statement::new(sql, vec![books.into(), TURN_MAX.into(), self.places.now_ms().into()]);
        let begun: usize = self.places.batch(vec![begins]).await?.iter().sum();
        if begun == 0 { Ok(None) } else { self.begun(books).await }
    }

    async fn begun(&mut self, books: &str) -> Result<Option<(String, Vec<Sought>)>, Halt> {
        #[derive(Deserialize)]
        struct Row {
            payment: String,
            resource: Option<String>,
            after: String,
        }
        let sql = "SELECT payment, resource, after FROM payment_searches WHERE books = ?1 AND after IS NOT NULL ORDER BY after LIMIT ?2";
        self.queries += 1;
        let values = vec![books.into(), TURN_MAX.into()];
        let rows: Vec<Row> = self.places.rows(Statement::new(sql, values)).await?;
        let Some(after) = rows.first().map(|row| row.after.clone()) else { return Ok(None) };
        let of_it = rows.into_iter().filter(|row| row.after == after);
        let sought =
            of_it.map(|Row { payment, resource, .. }| Sought { payment, resource, ..Sought::default() });
        let turn = Sought::merged(sought);
        Ok(Some((after, turn)))
    }

    async fn dues(&mut self, books: &str, payments: &[String]) -> Result<Vec<Due>, Halt> {
        let sql = "SELECT payment, due, resource, tries FROM payment_searches
            WHERE books = ?1 AND payment IN (SELECT value FROM json_each(?2)) AND after IS NOT NULL";
        self.queries += 1;
        let values = vec![books.into(), serde_json::to_string(payments)?.into()];
        Ok(self.places.rows(Statement::new(sql, values)).await?)
    }
}

/// Payments, each with what is due for it.
fn pairs<'a>(dues: impl IntoIterator<Item = &'a Due>) -> serde_json::Result<String> {
    let pairs: Vec<_> = dues.into_iter().map(|due| (&due.payment, &due.due)).collect();
    serde_json::to_string(&pairs)
}

/// What is due for a payment.
#[derive(Default)]
pub(super) struct Dues<'a> {
    /// To be compared.
    pub(super) compare: BTreeSet<&'a str>,
    /// To be marked as moved.
    pub(super) moved: BTreeSet<&'a str>,
    /// Refunds to be marked.
    pub(super) refunds: BTreeSet<&'a str>,
    /// Movements to be looked at again.
    pub(super) movements: BTreeSet<&'a str>,
    /// Disputes to be looked at again, each with Stripe's id of its payment.
    pub(super) disputes: BTreeMap<&'a str, &'a str>,
    /// All payments.
    pub(super) sought: Vec<Sought>,
}

impl<'a> Dues<'a> {
    /// By what is to be done.
    pub(super) fn of(all: &'a [Due]) -> Self {
        let mut dues = Self::default();
        for one in all {
            match one.due.as_str() {
                COMPARE | AGAIN => drop(dues.compare.insert(&one.payment)),
                MOVED => drop(dues.moved.insert(&one.payment)),
                id if id.starts_with("txn_") => drop(dues.movements.insert(id)),
                id if id.starts_with("du_") || id.starts_with("dp_") => {
                    dues.disputes.insert(id, &one.payment);
                }
                refund => drop(dues.refunds.insert(refund)),
            }
        }
        dues.sought = Sought::merged(all.iter().map(|one| Sought {
            payment: one.payment.clone(),
            resource: one.resource.clone(),
            ..Sought::default()
        }));
        dues
    }
}
