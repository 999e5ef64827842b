//! Whose books have their turn in a run of the cron: a page of them, from where the last one ended. Where tasks have objects, these compare
//! the books, and the cron only sees to it that each has its alarm.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use worker::{Error, Result};

use super::WITHOUT_KEYS;
use super::session::Reconciliation;
use crate::tasks::alarms;
use crate::tasks::cursor::Source;
use crate::tasks::names::FAILING;
use crate::tasks::schedule::ScheduledTask;
use messages::credentials::CredentialKind;
use payments::payment::own_keys::{account_of, name_of};
use runtime::lag;

/// The cursor over the accounts.
const TURN: &str = "accounts";

impl Reconciliation {
    /// The account of the deployment's own key, and the next ones, at most so many, of those that are connected or have keys of their own and
    /// in which payments were made or that are configured.
    pub(super) async fn next_books(
        &mut self,
        most: usize,
        configured: &[String],
    ) -> Result<Vec<Option<String>>> {
        #[derive(Deserialize)]
        struct Turn {
            after: Option<String>,
        }
        let sql = "SELECT after FROM cursors WHERE name = ?1";
        let turn: Vec<Turn> = self.rows(sql, vec![TURN.into()]).await?;
        let after = turn.into_iter().next().and_then(|turn| turn.after).unwrap_or_default();
        let mut names = self.books_after(&after, most, configured).await?;
        if names.len() < most && !after.is_empty() {
            let first = self.books_after("", most - names.len(), configured).await?;
            names.extend(first.into_iter().filter(|name| *name <= after));
        }
        // Where all have their turn each run begins with the first.
        let next = names.last().filter(|_| names.len() >= most).cloned().unwrap_or_default();
        if next != after {
            let sql = "INSERT INTO cursors (name, through_ms, after) VALUES (?1, ?2, ?3)
                ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, after = excluded.after";
            self.run(sql, vec![TURN.into(), self.now_ms.into(), next.into()]).await?;
        }
        Ok(std::iter::once(None).chain(names.into_iter().map(Some)).collect())
    }

    async fn books_after(&mut self, after: &str, most: usize, configured: &[String]) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Used {
            stripe_account: String,
        }
        // From one to the next in the index: `DISTINCT` reads every payment of each.
        let sql = "WITH RECURSIVE used (stripe_account) AS (
                SELECT min(stripe_account) FROM payments WHERE stripe_account > ?1
                UNION ALL SELECT (SELECT min(p.stripe_account) FROM payments p WHERE p.stripe_account > used.stripe_account)
                FROM used WHERE used.stripe_account IS NOT NULL LIMIT ?2)
             SELECT stripe_account FROM used WHERE stripe_account IS NOT NULL";
        let limit = u32::try_from(most).unwrap_or(u32::MAX);
        let (mut used, are_all) = self.rows_of_newest::<Used>(sql, vec![after.into(), limit.into()]).await?;
        if !are_all {
            // Whose payments are all in other shards was compared before, has had a key, or is in the registry.
            let sql = "SELECT name AS stripe_account FROM own_key_periods WHERE name > ?1
                UNION SELECT settings ->> '$.stripe_account' FROM accounts WHERE settings ->> '$.stripe_account' > ?1
                ORDER BY 1 LIMIT ?2";
            used.extend(self.rows::<Used>(sql, vec![after.into(), limit.into()]).await?);
            let sql = "SELECT substr(name, ?1) AS stripe_account FROM cursors
                WHERE name > ?2 AND name < ?3 AND ended_at_ms IS NULL AND instr(name, ' ') = 0 ORDER BY name LIMIT ?4";
            let list = Source::Payments.cursor_of(Some(""));
            let begins = u64::try_from(list.len()).unwrap_or(u64::MAX).saturating_add(1);
            let values = vec![
                begins.into(),
                Source::Payments.cursor_of(Some(after)).into(),
                format!("{list}~").into(),
                limit.into(),
            ];
            used.extend(self.rows::<Used>(sql, values).await?);
        }
        let configured = configured.iter().filter(|name| name.as_str() > after).cloned();
        let names: BTreeSet<String> =
            used.into_iter().map(|used| used.stripe_account).chain(configured).collect();
        Ok(names.into_iter().take(most).collect())
    }

    /// The current account is not compared any more: its lists do not count as behind. Should it be compared again, it goes on from there.
    pub(super) async fn end_books(&mut self) -> Result<()> {
        match self.account.clone() {
            Some(name) => self.end_lists(&name, None).await,
            None => Ok(()),
        }
    }

    /// Sees to it that the object of each of these books has its alarm. The result says how the newest runs of all books ended.
    pub(super) async fn keep_alarms(
        &mut self,
        books: Vec<Option<String>>,
        is_now: bool,
    ) -> Result<Map<String, Value>> {
        let with_keys = self.with_keys(&books).await?;
        let is_there = |name: &Option<String>| {
            name.as_ref().is_none_or(|name| account_of(name).is_none() || with_keys.contains(name))
        };
        let (there, without_keys): (Vec<_>, Vec<_>) = books.into_iter().partition(is_there);
        let accounts = there.len();
        let tasks = there.into_iter().map(ScheduledTask::Reconcile).collect();
        let woken = alarms::wake_all(&self.env, tasks, is_now).await;
        if let Some(error) = woken.failed {
            return Err(Error::RustError(format!("an object of a task does not answer: {error}")));
        }
        let mut result = Map::new();
        result.insert("accounts".to_owned(), accounts.into());
        result.insert("begun".to_owned(), woken.set.into());
        if !without_keys.is_empty() {
            result.insert(WITHOUT_KEYS.to_owned(), without_keys.len().into());
            self.flag_all_ended(&without_keys.into_iter().flatten().collect::<Vec<_>>()).await?;
        }
        self.add_newest(&mut result).await?;
        Ok(result)
    }

    /// Those of these accounts that have a key of their own.
    async fn with_keys(&mut self, books: &[Option<String>]) -> Result<BTreeSet<String>> {
        #[derive(Deserialize)]
        struct Key {
            account: String,
        }
        let accounts: Vec<&str> = books.iter().flatten().filter_map(|name| account_of(name)).collect();
        if accounts.is_empty() {
            return Ok(BTreeSet::new());
        }
        let sql = "SELECT account FROM account_credentials
            WHERE account IN (SELECT value FROM json_each(?1)) AND kind = ?2";
        let kind = CredentialKind::StripeSecretKey.as_str();
        let values = vec![serde_json::to_string(&accounts)?.into(), kind.into()];
        let keys: Vec<Key> = self.rows(sql, values).await?;
        Ok(keys.iter().map(|key| name_of(&key.account)).collect())
    }

    /// How far behind the lists are read, and whose newest run has failed.
    async fn add_newest(&mut self, result: &mut Map<String, Value>) -> Result<()> {
        #[derive(Deserialize)]
        struct Failing {
            failing: u32,
            task: Option<String>,
            error: Option<String>,
        }
        for list in lag::lag(&self.env, self.now_ms).await? {
            result.insert(format!("{}_lag_ms", list.source.as_str()), list.lag_ms.into());
        }
        let sql = format!(
            "SELECT count(*) AS failing, min(at_ms) AS at_ms, task, result ->> '$.error' AS error
             FROM runs INDEXED BY runs_failing WHERE {FAILING}"
        );
        let failing: Option<Failing> = self.rows(&sql, Vec::new()).await?.into_iter().next();
        if let Some(Failing { failing, task: Some(task), error: Some(error) }) = failing {
            result.insert("failing".to_owned(), failing.into());
            result.insert("error".to_owned(), format!("{task}: {error}").into());
        }
        Ok(())
    }
}
