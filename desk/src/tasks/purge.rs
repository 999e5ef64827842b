//! Drops what has been kept long enough: payloads of jobs that nobody took up, jobs that are long over, and old runs of these
//! tasks. Objects drop the personal data that they hold themselves, by their alarms. A job that nobody has touched for long is
//! lost: it becomes a dead letter.

use serde::Deserialize;
use serde_json::{Map, Value};
use worker::{Env, Result};

use super::names::TASKS;
use crate::operations;
use messages::operations::{PaymentsSettings, SETTINGS_PATH};
use payments::payment::records::JobKind;
use runtime::db::Db;
use runtime::log::log;
use runtime::metrics;
use runtime::places::ReadModel;

/// How long the runs of tasks are kept, in ms.
const RUNS_KEPT_MS: u64 = 30 * 86_400_000;
/// How long a finished job is kept, in ms, so that a repeated message finds it done. The queue keeps messages for four days, and an
/// object without confirmation sends one every six hours.
const OVER_KEPT_MS: u64 = 30 * 86_400_000;
/// How long a processed event is kept, in ms: its provider may send it again for up to 30 days.
const EVENTS_KEPT_MS: u64 = 40 * 86_400_000;
/// How long the key of a customer is listed after its response has expired, in ms: by then its object tells of it no more.
const CUSTOMERS_KEPT_MS: u64 = 30 * 86_400_000;
/// Of the keys of customers that expired before `?1`, at most `?2`. Those of payments leave with them, into files.
const CUSTOMERS: &str =
    "DELETE FROM keys WHERE (object, key_id) IN (SELECT object, key_id FROM keys INDEXED BY keys_of_customers
        WHERE operation = 'customer' AND expires_at_ms < ?1 LIMIT ?2)";
/// How long it is shown what the gate has passed on, in ms; what nobody knows the end of stays until an operator has said it.
const GATE_KEPT_MS: u64 = 90 * 86_400_000;
/// How long it is remembered what was looked for in books that nobody reads any more, in ms: their key may be entered again.
const SEARCHES_KEPT_MS: u64 = 30 * 86_400_000;
/// How long it is remembered whose payments are of which a provider has told by its own ids alone, in ms; later they are looked for anew.
const LOOKUPS_KEPT_MS: u64 = 90 * 86_400_000;
/// How long a movement that came late waits for a settlement file, in ms, where there is no bucket for one.
const LATE_KEPT_MS: u64 = 70 * 86_400_000;
/// How many of each one run deletes.
const OVER_MAX: u32 = 10_000;
/// After how long an untouched job counts as lost, in ms: longer than any backoff, and than an object waits for confirmation.
const LOST_AFTER_MS: u64 = 24 * 3_600_000;
/// How many of them one run finds.
const LOST_MAX: u32 = 100;

/// In all places.
pub(super) async fn purge(env: &Env) -> Result<Value> {
    let kept = Kept::of(env).await?;
    let model = ReadModel::of(env);
    let each = model.each(model.places().await?, async |db: Db| kept.purge_place(&db).await).await?;
    let mut all = Purged::default();
    for (_, one) in each {
        all.jobs += one.jobs;
        all.lost += one.lost;
        all.over += one.over;
        all.customers += one.customers;
    }
    let mut result = all.told();
    kept.purge_d1(&model.d1()?, &mut result).await?;
    if let Some(missing) = model.missing() {
        result.insert("missing".to_owned(), missing.into());
    }
    Ok(Value::Object(result))
}

/// In one place, which has the run for itself.
pub(super) async fn purge_one(env: &Env, db: &Db) -> Result<Value> {
    let kept = Kept::of(env).await?;
    let mut result = kept.purge_place(db).await?.told();
    if db.name().is_none() {
        kept.purge_d1(db, &mut result).await?;
    }
    Ok(Value::Object(result))
}

/// Of what each place has.
#[derive(Default)]
struct Purged {
    jobs: usize,
    lost: usize,
    over: usize,
    customers: usize,
}

impl Purged {
    fn told(&self) -> Map<String, Value> {
        let numbers =
            [("jobs", self.jobs), ("lost", self.lost), ("over", self.over), ("customers", self.customers)];
        numbers.into_iter().map(|(name, number)| (name.to_owned(), number.into())).collect()
    }
}

/// How long what is kept.
struct Kept {
    now_ms: u64,
    personal_ms: u64,
    has_settlement: bool,
}

impl Kept {
    async fn of(env: &Env) -> Result<Self> {
        let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
        Ok(Self {
            now_ms: runtime::now_ms(),
            personal_ms: settings.personal_retention_ms,
            has_settlement: env.bucket("SETTLEMENT").is_ok(),
        })
    }

    const fn since_ms(&self, kept_ms: u64) -> u64 {
        self.now_ms.saturating_sub(kept_ms)
    }

    async fn purge_place(&self, db: &Db) -> Result<Purged> {
        let sql = "UPDATE jobs SET state = 'purged', payload = NULL, frozen = NULL, updated_at_ms = ?2
             WHERE state IN ('tried', 'attempted', 'dead') AND updated_at_ms < ?1";
        let jobs = db.run(sql, vec![self.since_ms(self.personal_ms).into(), self.now_ms.into()]).await?;
        let lost = lost(db, self.now_ms).await?;
        let sql = "DELETE FROM jobs WHERE job_id IN
             (SELECT job_id FROM jobs WHERE updated_at_ms < ?1 AND state IN ('done', 'purged') LIMIT ?2)";
        let over = db.run(sql, vec![self.since_ms(OVER_KEPT_MS).into(), OVER_MAX.into()]).await?;
        let values = vec![self.since_ms(CUSTOMERS_KEPT_MS).into(), OVER_MAX.into()];
        let customers = db.run(CUSTOMERS, values).await?;
        if !self.has_settlement {
            let sql = "DELETE FROM settlement_late WHERE at_ms < ?1";
            db.run(sql, vec![self.since_ms(LATE_KEPT_MS).into()]).await?;
        }
        Ok(Purged { jobs, lost, over, customers })
    }

    /// What is in D1 alone.
    async fn purge_d1(&self, db: &Db, result: &mut Map<String, Value>) -> Result<()> {
        let sql = "UPDATE inbox SET state = 'purged', event = NULL, updated_at_ms = ?2
             WHERE state = 'dead' AND updated_at_ms < ?1";
        db.run(sql, vec![self.since_ms(self.personal_ms).into(), self.now_ms.into()]).await?;
        let sql = "DELETE FROM inbox WHERE event_key IN
             (SELECT event_key FROM inbox WHERE updated_at_ms < ?1 AND state IN ('done', 'purged') LIMIT ?2)";
        let events = db.run(sql, vec![self.since_ms(EVENTS_KEPT_MS).into(), OVER_MAX.into()]).await?;
        let sql = "DELETE FROM gate_operations WHERE key_hash IN
             (SELECT key_hash FROM gate_operations WHERE began_at_ms < ?1 AND state != 'unknown' LIMIT ?2)
             AND began_at_ms < ?1 AND state != 'unknown'";
        let gate = db.run(sql, vec![self.since_ms(GATE_KEPT_MS).into(), OVER_MAX.into()]).await?;
        let sql = "DELETE FROM payment_searches WHERE (books, payment, due) IN (
                SELECT books, payment, due FROM payment_searches WHERE since_ms < ?1 AND books != '' AND NOT EXISTS (
                    SELECT 1 FROM cursors c INDEXED BY sqlite_autoindex_cursors_1
                    WHERE c.name IN ('stripe_events:' || books, 'stripe_movements:' || books, 'stripe_payments:' || books)
                        AND (c.ended_at_ms IS NULL OR c.ended_at_ms >= ?1))
                LIMIT ?2)";
        let searches = db.run(sql, vec![self.since_ms(SEARCHES_KEPT_MS).into(), OVER_MAX.into()]).await?;
        let sql = "DELETE FROM payment_lookups WHERE (provider, payment) IN (
                SELECT provider, payment FROM payment_lookups WHERE at_ms < ?1 LIMIT ?2)";
        let lookups = db.run(sql, vec![self.since_ms(LOOKUPS_KEPT_MS).into(), OVER_MAX.into()]).await?;
        let sql = "DELETE FROM runs WHERE task IN (SELECT value FROM json_each(?2)) AND at_ms < ?1";
        let runs_since_ms = self.since_ms(RUNS_KEPT_MS);
        let runs = db.run(sql, vec![runs_since_ms.into(), serde_json::to_string(&TASKS)?.into()]).await?;
        // Of each task with an object of its own the newest run is kept; it has stopped if that is so old.
        for sql in [
            "DELETE FROM runs WHERE task > 'reconcile:' AND task < 'reconcile:~' AND at_ms < ?1",
            "DELETE FROM runs WHERE task > 'place:' AND task < 'place:~' AND at_ms < ?1",
        ] {
            db.run(sql, vec![runs_since_ms.into()]).await?;
        }
        let numbers = [
            ("events", events),
            ("gate", gate),
            ("searches", searches),
            ("lookups", lookups),
            ("runs", runs),
        ];
        for (name, number) in numbers {
            result.insert(name.to_owned(), number.into());
        }
        Ok(())
    }
}

/// Moves jobs whose message was lost to the dead letters. Returns how many there were.
async fn lost(db: &Db, now_ms: u64) -> Result<usize> {
    #[derive(Deserialize)]
    struct Lost {
        job_id: String,
        kind: String,
    }
    let sql = "UPDATE jobs SET state = 'dead', updated_at_ms = ?1,
            history = json_insert(history, '$[#]', json_object('at_ms', ?1, 'error', CASE state
                WHEN 'attempted' THEN 'lost: its try broke off, outcome unknown; ask the provider or the pilot'
                ELSE 'lost: no message came for it any more' END))
         WHERE job_id IN (SELECT job_id FROM jobs WHERE updated_at_ms < ?2 AND state IN ('tried', 'attempted', 'dead')
            AND state != 'dead' LIMIT ?3)
         RETURNING job_id, kind";
    let values = vec![now_ms.into(), now_ms.saturating_sub(LOST_AFTER_MS).into(), LOST_MAX.into()];
    let lost: Vec<Lost> = db.rows(sql, values).await?;
    for job in &lost {
        if let Some(kind) = JobKind::parse(&job.kind) {
            metrics::job(kind.as_str(), "dead");
        }
        let fields = [
            ("event", "job_over".into()),
            ("job_id", job.job_id.as_str().into()),
            ("kind", job.kind.as_str().into()),
            ("outcome", "dead: lost".into()),
        ];
        log("error", &fields);
    }
    Ok(lost.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::{plan, read_model};

    #[test]
    fn keys_of_customers_go_once_they_are_told_of_no_more() {
        let model = read_model();
        let insert = "INSERT INTO keys (object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures,
                in_doubt, flagged, created_at_ms, updated_at_ms, expires_at_ms)
             VALUES (?1, 1, 1, 'h', 'account:a', ?2, ?3, 'finished', 1, 0, 0, 0, 1, 1, ?4)";
        for (object, operation, status, expires_at_ms) in [
            ("gone", "customer", "finished", Some(99)),
            ("still", "customer", "finished", Some(100)),
            ("open", "customer", "open", None),
            ("payment", "refund", "finished", Some(1)),
        ] {
            model.execute(insert, (object, operation, status, expires_at_ms)).unwrap();
        }
        assert_eq!(model.execute(CUSTOMERS, (100, 10)).unwrap(), 1);
        let left = "SELECT group_concat(object, ' ') FROM (SELECT object FROM keys ORDER BY object)";
        let left: String = model.query_row(left, (), |row| row.get(0)).unwrap();
        assert_eq!(left, "open payment still");
        let plan = plan(&model, CUSTOMERS).join("; ");
        assert!(plan.contains("keys_of_customers") && !plan.contains("SCAN"), "{plan}");
    }
}
