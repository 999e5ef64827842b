//! The state of one run, and its reads and writes: cursors, our records, and what was found.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use worker::{Date, Delay, Env, Error, Result};

use super::periods::OpenBooks;
use crate::operations;
use crate::tasks::breaks::{self, COMPARED_KINDS, MARK_GONE};
use crate::tasks::compare::{Break, LocalRecord, LocalRecords};
use crate::tasks::cursor::{Cursor, Source};
use crate::tasks::movements::{LocalRefund, Refunds};
use crate::tasks::pace::{AT_ONCE, REQUEST_MS, Used};
use messages::operations::{ProviderAnswer, ProviderRead, READ_PATH};
use once::call::FrozenRequest;
use payments::providers::{HttpAnswer, Provider};
use runtime::db::{self, Db, Statement};
use runtime::places::{ReadModel, is_bound};

/// How many breaks one statement writes: a value of D1 has at most 2 MB.
const BREAKS_AT_ONCE: usize = 1_000;

/// The state of one run.
pub(super) struct Reconciliation {
    /// D1: what is not of one payment alone.
    pub(super) db: Db,
    /// Our payments, wherever they stand.
    pub(super) model: ReadModel,
    pub(super) env: Env,
    /// For how long payments are compared again, in ms.
    pub(super) window_ms: u64,
    /// Later changes are left to the next run, in ms since the epoch.
    pub(super) quiet_since_ms: u64,
    pub(super) now_ms: u64,
    /// The connected account that is read, or the one with [keys of its own](payments::payment::own_keys), or `None` for the deployment's key's own.
    pub(super) account: Option<String>,
    /// Whether the deployment's key moves real money: connected accounts are read with it.
    pub(super) live: bool,
    /// Its books.
    pub(super) books: OpenBooks,
    /// How many accounts share the run's limits.
    pub(super) share: u32,
    /// What it has used.
    pub(super) used: Used,
    /// What it had used before the current account.
    pub(super) used_before: Used,
    /// From when on the provider takes more requests, in ms since the epoch.
    pub(super) next_read_at_ms: u64,
    /// How many movements were looked for in our records.
    pub(super) movements: usize,
    /// The provider's ids of what this run has compared.
    pub(super) compared: BTreeSet<String>,
    /// The breaks that it has found.
    pub(super) breaks: BTreeSet<String>,
    /// How many breaks were closed.
    pub(super) resolved: usize,
}

/// What one comparison found. It is written in one batch.
#[derive(Default)]
pub(super) struct Findings<'a> {
    pub(super) breaks: Vec<Break>,
    /// Payments that were compared: their other breaks are closed.
    pub(super) compared: Vec<&'a str>,
    /// Payments that are too recent: they are compared again later.
    pub(super) young: Vec<&'a str>,
    /// Payments that the provider has.
    pub(super) listed: Vec<&'a str>,
    /// Payments whose money is in Stripe's balance.
    pub(super) moved: Vec<&'a str>,
    /// Refunds whose money has left it, by Stripe's ids.
    pub(super) refunded: Vec<&'a str>,
}

impl Reconciliation {
    /// The name of a list's cursor in this account.
    pub(super) fn cursor_name(&self, source: Source) -> String {
        source.cursor_of(self.books.label.as_deref())
    }

    pub(super) fn since_name(&self, source: Source) -> String {
        source.since_of(self.books.label.as_deref())
    }

    /// Since when a list of these books is read, under whatever label, and how far. `None` if it was not read yet.
    pub(super) async fn span_read(&mut self, source: Source) -> Result<Option<(u64, u64)>> {
        #[derive(Deserialize)]
        struct Read {
            since_ms: Option<u64>,
            through_ms: Option<u64>,
        }
        let left = self.books.left.iter().map(|label| source.since_of(Some(label)));
        let since: Vec<String> = left.chain([self.since_name(source)]).collect();
        let sql = "SELECT (SELECT min(through_ms) FROM cursors WHERE name IN (SELECT value FROM json_each(?1))) AS since_ms,
            (SELECT through_ms FROM cursors WHERE name = ?2) AS through_ms";
        let values = vec![serde_json::to_string(&since)?.into(), self.cursor_name(source).into()];
        let read = self.rows::<Read>(sql, values).await?.into_iter().next();
        Ok(read.and_then(|read| Some((read.since_ms?, read.through_ms?))))
    }

    /// How far a list of these books was read under the labels that are left, in ms since the epoch: from there it is read on.
    pub(super) async fn left_at(&mut self, source: Source) -> Result<Option<u64>> {
        #[derive(Deserialize)]
        struct Left {
            through_ms: Option<u64>,
        }
        let names: Vec<String> = self.books.left.iter().map(|label| source.cursor_of(Some(label))).collect();
        let sql = "SELECT max(through_ms) AS through_ms FROM cursors WHERE name IN (SELECT value FROM json_each(?1))";
        let left: Vec<Left> = self.rows(sql, vec![serde_json::to_string(&names)?.into()]).await?;
        Ok(left.into_iter().next().and_then(|left| left.through_ms))
    }

    /// This account's share of a limit.
    pub(super) const fn share_of(&self, most: u32) -> u32 {
        let part = most / self.share;
        if part == 0 { 1 } else { part }
    }

    pub(super) async fn cursor(&mut self, name: &str) -> Result<Option<Cursor>> {
        #[derive(Deserialize)]
        struct Row {
            through_ms: u64,
            until_ms: Option<u64>,
            slices: Option<String>,
        }
        let sql = "SELECT through_ms, until_ms, slices FROM cursors WHERE name = ?1";
        let row = self.rows::<Row>(sql, vec![name.into()]).await?.into_iter().next();
        row.map(|Row { through_ms, until_ms, slices }| {
            let slices = slices.map_or(Ok(Vec::new()), |slices| serde_json::from_str(&slices))?;
            Ok(Cursor { through_ms, until_ms, slices })
        })
        .transpose()
    }

    pub(super) async fn save_cursor(&mut self, name: &str, cursor: &Cursor) -> Result<()> {
        let sql = "INSERT INTO cursors (name, through_ms, until_ms, slices) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, until_ms = excluded.until_ms,
            slices = excluded.slices, after = NULL, ended_at_ms = NULL";
        let slices =
            (!cursor.slices.is_empty()).then(|| serde_json::to_string(&cursor.slices)).transpose()?;
        let values = vec![name.into(), cursor.through_ms.into(), cursor.until_ms.into(), slices.into()];
        self.run(sql, values).await.map(drop)
    }

    pub(super) async fn get(&mut self, request: &FrozenRequest) -> Result<HttpAnswer> {
        self.take_turn(1).await;
        self.ask_provider(request).await
    }

    /// The answers to all of these, in their order: as many at once as the provider takes in a second.
    pub(super) async fn get_all(&mut self, requests: &[FrozenRequest]) -> Vec<Result<HttpAnswer>> {
        let mut answers = Vec::new();
        for requests in requests.chunks(AT_ONCE) {
            self.take_turn(requests.len()).await;
            answers.extend(join_all(requests.iter().map(|request| self.ask_provider(request))).await);
        }
        answers
    }

    /// Waits until the provider takes more requests, and counts these.
    async fn take_turn(&mut self, requests: usize) {
        let now_ms = Date::now().as_millis();
        if self.next_read_at_ms > now_ms {
            Delay::from(Duration::from_millis(self.next_read_at_ms - now_ms)).await;
        }
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        self.next_read_at_ms = self.next_read_at_ms.max(now_ms) + REQUEST_MS * u64::from(requests);
        self.used.reads += requests;
    }

    async fn ask_provider(&self, request: &FrozenRequest) -> Result<HttpAnswer> {
        let request = request.clone().for_account(self.account.as_deref());
        let read =
            ProviderRead { provider: Provider::Stripe, request, key_set_at_ms: self.books.key_set_at_ms };
        let answer: ProviderAnswer = operations::ask(&self.env, READ_PATH, &read).await?;
        answer.map_err(Error::RustError)
    }

    pub(super) fn count_queries(&mut self, queries: usize) {
        self.used.queries += u32::try_from(queries).unwrap_or(u32::MAX);
    }

    pub(super) async fn rows<T: serde::de::DeserializeOwned>(
        &mut self,
        sql: &str,
        values: Vec<db::Value>,
    ) -> Result<Vec<T>> {
        self.count_queries(1);
        self.db.rows(sql, values).await
    }

    pub(super) async fn run(&mut self, sql: &str, values: Vec<db::Value>) -> Result<usize> {
        self.count_queries(1);
        self.db.run(sql, values).await
    }

    /// The rows of all places. One that does not answer leaves nothing out without a word: a payment would seem to be unknown.
    pub(super) async fn rows_of_all<T: serde::de::DeserializeOwned>(
        &mut self,
        sql: &str,
        values: Vec<db::Value>,
    ) -> Result<Vec<T>> {
        let answers = self.in_each(async |db: Db| db.rows(sql, values.clone()).await).await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Asks D1 and all shards, each of which must answer.
    async fn in_each<T>(&mut self, ask: impl AsyncFn(Db) -> Result<T>) -> Result<Vec<T>> {
        self.count_queries(1 + usize::from(is_bound(&self.env)));
        // What an earlier one has read of the directory may be older than what D1 answers now.
        let model = ReadModel::of(&self.env);
        let shards = async || {
            let shards = model.places().await?.into_iter().filter(|db| db.name().is_some()).collect();
            Ok(model.each(shards, &ask).await?.into_iter().map(|(_, answer)| answer).collect())
        };
        let answers = d1_first(ask(self.db.clone()), shards).await?;
        match model.missing() {
            Some(missing) => Err(Error::RustError(missing)),
            None => Ok(answers),
        }
    }

    /// Our payments with these provider ids or our ids.
    pub(super) async fn local_records(&mut self, ids: &[&str], resources: &[&str]) -> Result<LocalRecords> {
        if ids.is_empty() && resources.is_empty() {
            return Ok(LocalRecords::default());
        }
        // A payment in another account can carry our ids without being ours.
        let sql = breaks::local_records_sql(
            "(provider_payment IN (SELECT value FROM json_each(?1)) OR payment_id IN (SELECT value FROM json_each(?2)))
             AND (provider != 'stripe' OR stripe_account IS ?3 OR stripe_account IN (SELECT value FROM json_each(?4)))",
        );
        let (ids, resources) = (serde_json::to_string(ids)?, serde_json::to_string(resources)?);
        let names = serde_json::to_string(&self.books.names)?;
        let values = vec![ids.into(), resources.into(), self.account.clone().into(), names.into()];
        Ok(LocalRecords::new(newest(self.rows_of_all(&sql, values).await?)))
    }

    pub(super) async fn local_refunds(&mut self, ids: &[&str]) -> Result<Refunds> {
        if ids.is_empty() {
            return Ok(Refunds::default());
        }
        let sql = "SELECT provider_refund, status, amount_minor, currency FROM refunds
            WHERE provider = 'stripe' AND provider_refund IN (SELECT value FROM json_each(?1))";
        let rows: Vec<LocalRefund> = self.rows_of_all(sql, vec![serde_json::to_string(ids)?.into()]).await?;
        Ok(Refunds::new(rows))
    }

    /// Records what was found, and closes the breaks that were not found again.
    pub(super) async fn write(&mut self, found: &Findings<'_>) -> Result<()> {
        let list = |ids: &[&str]| serde_json::to_string(ids).map(db::Value::from);
        let mut statements = Vec::new();
        // These change payments, wherever they stand.
        let mut marks = Vec::new();
        let breaks: Vec<String> = found.breaks.iter().map(id).collect();
        for breaks in found.breaks.chunks(BREAKS_AT_ONCE) {
            let values = vec![
                breaks::rows_json(breaks, Provider::Stripe)?.into(),
                self.now_ms.into(),
                self.books.label.clone().into(),
            ];
            statements.push(Statement::new(breaks::upsert_sql(Provider::Stripe), values));
        }
        if !found.young.is_empty() {
            let sql = "INSERT INTO looks (provider_payment, since_ms, stripe_account) SELECT value, ?2, ?3 FROM json_each(?1) WHERE true
                ON CONFLICT (provider_payment) DO UPDATE SET since_ms = excluded.since_ms";
            statements.push(Statement::new(
                sql,
                vec![list(&found.young)?, self.now_ms.into(), self.books.label.clone().into()],
            ));
        }
        if !found.compared.is_empty() {
            let sql = "DELETE FROM looks WHERE provider_payment IN (SELECT value FROM json_each(?1))";
            statements.push(Statement::new(sql, vec![list(&found.compared)?]));
        }
        for (ids, mark) in [(&found.listed, "listed_payment"), (&found.moved, "moved_payment")] {
            if ids.is_empty() {
                continue;
            }
            let sql = format!(
                "UPDATE payments SET {mark} = provider_payment
                 WHERE provider_payment IN (SELECT value FROM json_each(?1)) AND {mark} IS NOT provider_payment"
            );
            marks.push(Statement::new(&sql, vec![list(ids)?]));
        }
        if !found.refunded.is_empty() {
            let sql = "UPDATE refunds SET moved_refund = provider_refund
                WHERE provider_refund IN (SELECT value FROM json_each(?1)) AND moved_refund IS NOT provider_refund";
            marks.push(Statement::new(sql, vec![list(&found.refunded)?]));
        }
        self.count_queries(statements.len() + marks.len());
        if !marks.is_empty() {
            // Without the mark a payment would seem to be missing there: if a shard does not answer, the list is read again.
            self.in_each(async |db: Db| db.batch(marks.clone()).await).await?;
        }
        if !statements.is_empty() {
            self.db.batch(statements).await?;
        }
        if !found.compared.is_empty() {
            let sql = format!(
                "UPDATE breaks SET {MARK_GONE} WHERE state = 'open' AND provider = 'stripe' AND kind IN ({COMPARED_KINDS})
                 AND provider_payment IN (SELECT value FROM json_each(?1))
                 AND break_id NOT IN (SELECT value FROM json_each(?3))"
            );
            // Keep breaks of these that this run found in other ways.
            let compared: BTreeSet<&str> = found.compared.iter().copied().collect();
            let is_of_these =
                |id: &&String| id.rsplit(':').next().is_some_and(|payment| compared.contains(payment));
            let found_now: Vec<&String> = self.breaks.iter().chain(&breaks).filter(is_of_these).collect();
            let values =
                vec![list(&found.compared)?, self.now_ms.into(), serde_json::to_string(&found_now)?.into()];
            self.resolved += self.run(&sql, values).await?;
        }
        self.compared.extend(found.compared.iter().map(|id| (*id).to_owned()));
        self.breaks.extend(breaks);
        Ok(())
    }
}

/// Asks D1, and only then which shards there are, and those. In this order nothing is missed that the mover takes from D1 to a shard meanwhile, also
/// to one that is new: it is in the shard before it leaves D1.
async fn d1_first<T>(
    d1: impl Future<Output = Result<T>>,
    shards: impl AsyncFnOnce() -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut answers = vec![d1.await?];
    answers.extend(shards().await?);
    Ok(answers)
}

/// Each payment once: while it is moved it may stand in two places.
pub(super) fn newest(mut rows: Vec<LocalRecord>) -> Vec<LocalRecord> {
    rows.sort_by_key(|row| Reverse(row.updated_at_ms));
    let mut known = BTreeSet::new();
    rows.retain(|row| known.insert(row.resource.clone()));
    rows
}

fn id(found: &Break) -> String {
    found.id(Provider::Stripe.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::ready;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// A payment, and whether it has the mark, by place.
    type Places = RefCell<BTreeMap<&'static str, bool>>;

    /// The mover writes to a new shard, and only then deletes in D1 what is as it has read it.
    fn move_all(places: &Places) {
        let mut places = places.borrow_mut();
        if let Some(marked) = places.remove("D1") {
            places.insert("new shard", marked);
        }
    }

    fn mark(places: &Places, place: &'static str) -> bool {
        places.borrow_mut().get_mut(place).map(|marked| *marked = true).is_some()
    }

    fn shards(places: &Places) -> Vec<&'static str> {
        places.borrow().keys().copied().filter(|place| *place != "D1").collect()
    }

    #[test]
    fn a_payment_that_is_moved_meanwhile_is_found_and_keeps_its_mark() {
        for is_moved_first in [true, false] {
            let places: Places = RefCell::new(BTreeMap::from([("D1", false)]));
            if is_moved_first {
                move_all(&places);
            }
            let d1 = async {
                let found = mark(&places, "D1");
                move_all(&places);
                Ok(found)
            };
            let asked = async || Ok(shards(&places).into_iter().map(|shard| mark(&places, shard)).collect());
            let found = d1_first(d1, asked).now_or_never().unwrap().unwrap();
            assert!(found.contains(&true));
            assert_eq!(*places.borrow(), BTreeMap::from([("new shard", true)]));
        }
    }

    /// The control: in the other order, and by a directory that was read before, it seems to be unknown and has no mark.
    #[test]
    fn in_another_order_it_would_be_missed() {
        for is_order_other in [true, false] {
            let places: Places = RefCell::new(BTreeMap::from([("D1", false)]));
            let known = shards(&places);
            let in_shards = || known.iter().map(|shard| mark(&places, shard)).collect::<Vec<_>>();
            let found = if is_order_other {
                let mut found = in_shards();
                move_all(&places);
                found.push(mark(&places, "D1"));
                found
            } else {
                move_all(&places);
                d1_first(ready(Ok(mark(&places, "D1"))), async || Ok(in_shards()))
                    .now_or_never()
                    .unwrap()
                    .unwrap()
            };
            assert!(!found.contains(&true));
            assert_eq!(*places.borrow(), BTreeMap::from([("new shard", false)]));
        }
    }
}
