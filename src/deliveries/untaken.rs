//! The messages that an account's endpoint has not taken: they have rows in the ledger of jobs, in D1 or in the shards of their payments.

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Env, Error, Result};

use super::QUEUE_TAKES;
use messages::job::{Apart, Job, JobPayment, VERSION};
use messages::placement::ShardName;
use messages::queue::DELIVERIES;
use once::id::{ObjectId, Owner};
use once::sorted;
use payments::payment::id::PaymentId;
use payments::payment::records::JobKind;
use payments::timestamp;
use runtime::db::{self, Db};
use runtime::places::{ReadModel, shard};
use runtime::{metrics, queue};

/// How many shards are asked at a time, and in all.
const SHARDS_AT_ONCE: usize = 50;
const SHARDS_MAX: usize = 200;
/// After all times.
const NEVER_MS: u64 = 9_007_199_254_740_991;

/// What a message is, to its shop.
const SHOWN: &str = "job_id, object, state, attempts, staged_at_ms, history ->> '$[#-1].error' AS error,
     history ->> '$[#-1].at_ms' AS tried_at_ms, payload ->> '$.body' ->> '$.type' AS type";
/// Those of the account `?1`, staged at `?2` or later: the words of their index.
const OF_ACCOUNT: &str = "kind = 'deliver_webhook' AND payload IS NOT NULL AND payload ->> '$.account' = ?1 AND staged_at_ms >= ?2";

/// A page: those in the state `?3` or dead, behind the one that was staged at `?4` with the id `?5`, at most `?6`.
pub fn page() -> String {
    format!(
        "SELECT {SHOWN} FROM jobs WHERE {OF_ACCOUNT} AND state IN ('dead', ?3) AND (staged_at_ms, job_id) < (?4, ?5)
         ORDER BY staged_at_ms DESC, job_id DESC LIMIT ?6"
    )
}

/// The one with the id `?3`.
pub fn one() -> String {
    format!("SELECT {SHOWN} FROM jobs WHERE job_id = ?3 AND {OF_ACCOUNT}")
}

/// Gives the dead one with the id `?3` all its tries again, from `?4` on; `?5` is its payment.
pub fn revive() -> String {
    format!(
        "UPDATE jobs SET state = 'tried', attempts = 0, first_at_ms = ?4, updated_at_ms = ?4
         WHERE job_id = ?3 AND state = 'dead' AND {OF_ACCOUNT}
         RETURNING {SHOWN}, payload, (SELECT created_at_ms FROM payments WHERE payment_id = ?5) AS made_at_ms"
    )
}

/// It is dead as before: the queue did not take it.
const BURY: &str = "UPDATE jobs SET state = 'dead' WHERE state = 'tried' AND attempts = 0
     AND job_id IN (SELECT value FROM json_each(?1))";

/// A message that was not taken.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Untaken {
    job_id: String,
    object: String,
    state: String,
    attempts: u32,
    staged_at_ms: u64,
    error: Option<String>,
    tried_at_ms: Option<u64>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    #[serde(default)]
    payload: Option<String>,
    #[serde(default)]
    made_at_ms: Option<u64>,
}

/// Which payment a message is about.
fn payment_of(object: &str) -> Option<String> {
    ObjectId::from_hex(object).map(|object| PaymentId::in_object(object).to_string())
}

impl Untaken {
    /// As the API shows it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "object": "webhook_delivery",
            "webhook_id": self.job_id,
            "type": self.event_type,
            "payment": payment_of(&self.object),
            "state": if self.state == "dead" { "dead" } else { "trying" },
            "attempts": self.attempts,
            "error": self.error,
            "last_attempt_at": self.tried_at_ms.map(timestamp),
            "created_at": timestamp(self.staged_at_ms),
        })
    }

    /// The job that sends it once more.
    fn job(&self, account: &str) -> Result<String> {
        let payment = self.made_at_ms.map(|made_at_ms| JobPayment { owner: owner(account), made_at_ms });
        let job = Job {
            version: VERSION,
            job_id: self.job_id.clone(),
            kind: JobKind::DeliverWebhook,
            object: self.object.clone(),
            payload: json_text::from_str(self.payload.as_deref().unwrap_or("null")).unwrap_or_default(),
            staged_at_ms: self.staged_at_ms,
            trace: None,
            apart: Some(Apart::default()),
            payment,
        };
        Ok(serde_json::to_string(&job)?)
    }
}

fn owner(account: &str) -> String {
    Owner::Account(account.to_owned()).to_text()
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntakenQuery {
    /// How many at most.
    pub limit: u32,
    /// The page begins after this one.
    pub starting_after: Option<String>,
    /// Also those that are still being tried.
    pub all: bool,
}

/// The messages of an account's endpoint, which was made then.
pub(crate) struct Messages<'a> {
    env: &'a Env,
    model: ReadModel,
    account: &'a str,
    since_ms: u64,
}

impl<'a> Messages<'a> {
    pub(crate) fn of(env: &'a Env, account: &'a str, since_ms: u64) -> Self {
        Self { env, model: ReadModel::of(env), account, since_ms }
    }

    /// The rows of a statement in all places that may have payments of the account; where one is in two, since it is moved, that of the shard.
    async fn rows(&self, sql: &str, more: Vec<db::Value>) -> Result<Vec<(Db, Untaken)>> {
        let mut values: Vec<db::Value> = vec![self.account.into(), self.since_ms.into()];
        values.extend(more);
        let mut found = self.model.rows_in::<Untaken>(vec![self.model.d1()?], sql, &values).await?;
        let owners = sorted::set([owner(self.account)]);
        let mut after: Option<ShardName> = None;
        let mut asked = 0;
        loop {
            let names = self.model.shards_of_behind(&owners, after.as_ref(), SHARDS_AT_ONCE).await?;
            asked += names.len();
            let places = names.iter().map(|name| shard(self.env, name)).collect();
            found.extend(self.model.rows_in(places, sql, &values).await?);
            let is_last = names.len() < SHARDS_AT_ONCE;
            after = names.into_iter().next_back();
            if is_last {
                break;
            }
            if asked >= SHARDS_MAX {
                return Err(Error::RustError("more shards than are asked for a list of webhooks".to_owned()));
            }
        }
        if let Some(missing) = self.model.missing() {
            return Err(Error::RustError(missing));
        }
        sorted::by_key(&mut found, |(db, row)| (row.job_id.clone(), db.name().is_none()));
        found.dedup_by(|(_, later), (_, first)| later.job_id == first.job_id);
        sorted::by_key(&mut found, |(_, row)| std::cmp::Reverse((row.staged_at_ms, row.job_id.clone())));
        Ok(found)
    }

    /// The newest first, and whether there are more. `None` if the page should begin after one that is not known.
    pub(crate) async fn list(&self, query: &UntakenQuery) -> Result<Option<(Vec<Value>, bool)>> {
        let (before_ms, before) = match &query.starting_after {
            None => (NEVER_MS, String::new()),
            Some(id) => match self.one(id).await? {
                Some((_, row)) => (row.staged_at_ms, row.job_id),
                None => return Ok(None),
            },
        };
        let limit = usize::try_from(query.limit).unwrap_or(1);
        let state = if query.all { "tried" } else { "dead" };
        let more = vec![state.into(), before_ms.into(), before.into(), (query.limit + 1).into()];
        let rows = self.rows(&page(), more).await?;
        let shown = rows.iter().take(limit).map(|(_, row)| row.to_json()).collect();
        Ok(Some((shown, rows.len() > limit)))
    }

    async fn one(&self, id: &str) -> Result<Option<(Db, Untaken)>> {
        Ok(self.rows(&one(), vec![id.into()]).await?.into_iter().next())
    }

    /// Sends a dead one once more, for three days. One that is being tried stays as it is. `None` if there is no such message.
    pub(crate) async fn requeue(&self, id: &str, now_ms: u64) -> Result<Option<Value>> {
        let Some((db, row)) = self.one(id).await? else { return Ok(None) };
        let payment = payment_of(&row.object).unwrap_or_default();
        let values =
            vec![self.account.into(), self.since_ms.into(), id.into(), now_ms.into(), payment.into()];
        let Some(revived) = db.first::<Untaken>(&revive(), values).await? else {
            return Ok(Some(row.to_json()));
        };
        let text = revived.job(self.account)?;
        if let Err(error) = queue::send(self.env, DELIVERIES, [(text.as_str(), 0)], QUEUE_TAKES).await {
            db.run(BURY, vec![serde_json::to_string(&[id])?.into()]).await?;
            return Err(error);
        }
        metrics::queued(1);
        Ok(Some(revived.to_json()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readmodel::for_tests::read_model;
    use rusqlite::Connection;

    fn insert(model: &Connection, id: &str, account: &str, state: &str, staged_at_ms: i64) {
        let payload =
            json!({ "account": account, "body": json!({ "type": "payment.succeeded" }).to_string() });
        let sql = "INSERT INTO jobs (job_id, kind, object, state, attempts, payload, first_at_ms, history, staged_at_ms, updated_at_ms)
             VALUES (?1, 'deliver_webhook', '0a', ?3, 3, ?2, 1, '[{\"at_ms\":5,\"error\":\"a\"},{\"at_ms\":7,\"error\":\"b\"}]', ?4, 9)";
        model.execute(sql, (id, payload.to_string(), state, staged_at_ms)).unwrap();
    }

    #[test]
    fn a_page_has_the_accounts_own_the_newest_first_by_their_index() {
        let model = read_model();
        for (id, account, state, staged_at_ms) in [
            ("a", "ada", "dead", 10),
            ("b", "ada", "dead", 20),
            ("c", "ada", "tried", 30),
            ("d", "bob", "dead", 40),
            ("e", "ada", "done", 50),
            ("f", "ada", "dead", 20),
            ("old", "ada", "dead", 1),
        ] {
            insert(&model, id, account, state, staged_at_ms);
        }
        let listed = |state: &str, before_ms: u64, before: &str| -> Vec<String> {
            let mut statement = model.prepare(&page()).unwrap();
            let values = ("ada", 5, state, before_ms.cast_signed(), before, 9);
            let rows = statement.query_map(values, |row| row.get("job_id")).unwrap();
            rows.map(Result::unwrap).collect()
        };
        assert_eq!(listed("dead", NEVER_MS, ""), ["f", "b", "a"]);
        assert_eq!(listed("tried", NEVER_MS, ""), ["c", "f", "b", "a"]);
        assert_eq!(listed("dead", 20, "f"), ["b", "a"], "behind a page");
        let plan = format!("EXPLAIN QUERY PLAN {}", page());
        let plan: String =
            model.query_row(&plan, ("ada", 5, "dead", 9, "", 9), |row| row.get("detail")).unwrap();
        assert!(plan.contains("USING INDEX jobs_deliveries"), "{plan}");
        let shown = "SELECT error || tried_at_ms || type FROM (SELECT * FROM jobs_shown)";
        let shown = shown.replace("jobs_shown", &format!("({})", one()));
        let shown: String = model.query_row(&shown, ("ada", 5, "a"), |row| row.get(0)).unwrap();
        assert_eq!(shown, "b7payment.succeeded", "of the newest attempt");
    }

    #[test]
    fn only_a_dead_one_of_the_account_is_sent_again() {
        let model = read_model();
        insert(&model, "dead", "ada", "dead", 10);
        insert(&model, "tried", "ada", "tried", 10);
        let revived = |id: &str, account: &str, since_ms: i64| {
            let row = model.query_row(&revive(), (account, since_ms, id, 99, "pay_1"), |row| {
                row.get::<_, String>("state")
            });
            row.ok()
        };
        assert_eq!(revived("dead", "bob", 0), None);
        assert_eq!(revived("dead", "ada", 11), None, "of an earlier endpoint");
        assert_eq!(revived("tried", "ada", 0), None);
        assert_eq!(revived("dead", "ada", 0).as_deref(), Some("tried"));
        let again = "SELECT count(*) FROM jobs WHERE job_id = 'dead' AND attempts = 0 AND first_at_ms = 99";
        assert_eq!(model.query_row(again, (), |row| row.get::<_, i64>(0)).unwrap(), 1);
    }
}
