//! The state of one run, and its reads and writes: cursors, our records, and what was found.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use worker::{Delay, Env, Error, Result};

use super::known::{BoundObjects, Known, stopped};
use super::marks::{Marks, marking};
use super::periods::OpenBooks;
use super::places::Finder;
use super::searches::{Due, to_search};
use crate::operations;
use crate::tasks::breaks::{self, COMPARED_KINDS, MARK_GONE};
use crate::tasks::compare::{Break, LocalRecord};
use crate::tasks::cursor::{Cursor, Source};
use crate::tasks::place_stores::BoundPlaces;
use crate::tasks::run_limits::{AT_ONCE, REQUEST_MS, Used};
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
    /// Where those stand of which Stripe tells.
    pub(super) finder: Finder<BoundPlaces, BoundObjects>,
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
    /// How many payments are looked for in all places, after the newest search, and why it went no further.
    pub(super) searching: usize,
    pub(super) search_missing: Option<String>,
    /// How often Stripe gave no usable answer about something that is asked for again.
    pub(super) unanswered: usize,
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
    /// Where those stand that are marked.
    pub(super) known: Option<&'a Known>,
    /// What is looked for in all places first.
    pub(super) searched: Vec<Due>,
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
        let now_ms = runtime::now_ms();
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

    /// The rows of D1 and of the newest shards, and whether these are all: there may be more shards, and some may not answer.
    pub(super) async fn rows_of_newest<T: serde::de::DeserializeOwned>(
        &mut self,
        sql: &str,
        values: Vec<db::Value>,
    ) -> Result<(Vec<T>, bool)> {
        self.count_queries(1 + usize::from(is_bound(&self.env)));
        let model = ReadModel::of(&self.env);
        let mut rows: Vec<T> = self.db.rows(sql, values.clone()).await?;
        let shards = model.places().await?.into_iter().filter(|db| db.name().is_some()).collect();
        let answers = model.each(shards, async |db: Db| db.rows(sql, values.clone()).await).await?;
        rows.extend(answers.into_iter().flat_map(|(_, rows)| rows));
        Ok((rows, model.missing().is_none()))
    }

    /// Records what was found, and closes the breaks that were not found again.
    pub(super) async fn write(&mut self, found: &Findings<'_>) -> Result<()> {
        let list = |ids: &[&str]| serde_json::to_string(ids).map(db::Value::from);
        let mut statements = Vec::new();
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
        // What is looked for has its turn there.
        let over: Vec<&str> = found
            .compared
            .iter()
            .copied()
            .chain(found.searched.iter().map(|due| due.payment.as_str()))
            .collect();
        if !over.is_empty() {
            let sql = "DELETE FROM looks WHERE provider_payment IN (SELECT value FROM json_each(?1))";
            statements.push(Statement::new(sql, vec![list(&over)?]));
        }
        if !found.searched.is_empty() {
            let books = self.books.label.clone().unwrap_or_default();
            statements.push(to_search(&books, &found.searched, self.now_ms)?);
        }
        // Without the mark a payment would seem to be missing there: if a shard does not answer, the list is read again.
        let marks = Marks {
            listed: found.listed.iter().copied().collect(),
            moved: found.moved.iter().copied().collect(),
            refunded: found.refunded.iter().copied().collect(),
        };
        if let Some(placed) = found.known.and_then(|known| known.found.as_ref()) {
            let marked = self.finder.mark(placed, &marks).await;
            self.count_places();
            marked.map_err(stopped)?;
        } else {
            let marks = marking(&marks)?;
            self.count_queries(marks.len());
            if !marks.is_empty() {
                self.db.batch(marks).await?;
            }
        }
        self.count_queries(statements.len());
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
