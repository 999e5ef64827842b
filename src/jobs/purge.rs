//! What is dropped in D1 of an object's jobs, and of what a provider has told of it, once its personal data is erased.

use worker::{Env, Result};

use crate::readmodel::home::home_of;
use messages::job::OF_OBJECT;
use payments::engine::ObjectState;
use payments::payment::records::Unpurged;
use runtime::db::{self, Db, Statement};
use runtime::now_ms;

/// What the row has behind its object's id that says of which version on the object has nothing of what was erased.
pub(super) const ERASED: &str = "_erased";

/// Of the object `?1` with the payment `?2` and the refunds `?3`: at `?4` what was tried is over, and its payload goes.
fn payloads() -> String {
    format!(
        "UPDATE jobs SET payload = NULL, frozen = NULL, state = 'purged', updated_at_ms = ?4
         WHERE {OF_OBJECT} AND state IN ('tried', 'attempted', 'dead')"
    )
}

/// The same of what was done: the id of an email at the service that has sent it.
fn results() -> String {
    format!(
        "UPDATE jobs SET result = NULL, updated_at_ms = ?4 WHERE {OF_OBJECT} AND state = 'done' AND result IS NOT NULL"
    )
}

/// The same where that stands in the row of the payment `?1`.
const RESULTS: &str = "UPDATE payments
     SET done_jobs = (SELECT json_group_object(key, json_set(value, '$[1]', '')) FROM json_each(done_jobs))
     WHERE payment_id = ?1 AND done_jobs IS NOT NULL";
/// The jobs `?3` of the object `?1` are over at `?2`, also those without a row.
const STAGED: &str = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, staged_at_ms, updated_at_ms)
     SELECT value->>'job_id', value->>'kind', ?1, 'purged', 0, ?2, '[]', value->>'staged_at_ms', ?2
     FROM json_each(?3) WHERE true ON CONFLICT (job_id) DO NOTHING";
/// The keys of a customer that the object `?1` is. It tells of the newest one anew.
const KEYS: &str = "DELETE FROM keys WHERE object = ?1 AND operation = 'customer' AND status <> 'open'";
/// Notes at `?2` that the object `?1` was erased with the version `?3`.
fn mark() -> String {
    format!(
        "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, result, staged_at_ms, updated_at_ms)
         VALUES (?1 || '{ERASED}', 'project', ?1, 'purged', 0, ?2, '[]', ?3, ?2, ?2)
         ON CONFLICT (job_id) DO UPDATE SET result = excluded.result, updated_at_ms = excluded.updated_at_ms"
    )
}
/// The card, and the provider's own word, in what is told of the object `?1` and not taken in.
const TOLD: &str = "UPDATE inbox SET event = json_replace(json_remove(event, '$.news.card'), '$.news.reason', '') WHERE event_key IN
     (SELECT event_key FROM inbox WHERE state = 'waiting' AND object = ?1
      UNION ALL SELECT event_key FROM inbox WHERE state = 'dead' AND object = ?1)";

/// Drops it. The jobs that were staged are over, and messages of theirs, and of projections of before, may still be in the queue: they do and leave nothing.
pub(crate) async fn purge(env: &Env, state: &ObjectState, unpurged: &Unpurged) -> Result<()> {
    let home = home_of(env, state).await?;
    let object = state.object.to_hex();
    let payment = state.resource.payment.as_ref().map(|payment| payment.id.to_string());
    let refunds: Vec<&str> = state.resource.refunds.iter().map(|refund| refund.id.0.as_str()).collect();
    let refunds = serde_json::to_string(&refunds)?;
    let staged = serde_json::to_string(&unpurged.jobs)?;
    let (now_ms, version) = (now_ms(), unpurged.version.to_string());
    let of_object: Vec<db::Value> =
        vec![object.as_str().into(), payment.as_deref().into(), refunds.into(), now_ms.into()];
    let of_jobs = || {
        [
            Statement::new(payloads(), of_object.clone()),
            Statement::new(results(), of_object.clone()),
            Statement::new(RESULTS, vec![payment.as_deref().into()]),
            Statement::new(STAGED, vec![object.as_str().into(), now_ms.into(), staged.as_str().into()]),
            Statement::new(KEYS, vec![object.as_str().into()]),
            Statement::new(mark(), vec![object.as_str().into(), now_ms.into(), version.as_str().into()]),
        ]
    };
    // What has come of the provider is always in D1.
    let mut in_d1 = vec![Statement::new(TOLD, vec![object.as_str().into()])];
    for db in home.each() {
        match db.name() {
            None => in_d1.extend(of_jobs()),
            Some(_) => db.batch(of_jobs().into()).await?,
        }
    }
    Db::of(env)?.batch(in_d1).await
}

#[cfg(test)]
pub(super) mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::readmodel::for_tests::read_model;

    pub(in crate::jobs) type Sql = rusqlite::types::Value;

    /// An object was erased with this version.
    pub(in crate::jobs) fn erased(model: &Connection, object: &str, version: u64) {
        model.execute(&mark(), (object, 1, version.to_string())).unwrap();
    }

    pub(in crate::jobs) fn count(model: &Connection, table: &str, condition: &str) -> u32 {
        let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
        model.query_row(&sql, (), |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_later_erasure_moves_the_mark_on() {
        let model = read_model();
        erased(&model, "0a", 7);
        erased(&model, "0a", 19);
        assert_eq!(count(&model, "jobs", "job_id = '0a_erased' AND state = 'purged' AND result = '19'"), 1);
    }

    #[test]
    fn what_was_done_is_kept_without_the_email_that_it_was() {
        let model = read_model();
        let insert = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms, done_jobs)
             VALUES ('pay_1', '0a', 1, 'account:a', 'succeeded', 5, 5, 0, 'usd', 'stripe', 1, '{}', 10, 10,
                '{\"pay_1_receipt\":[\"send_receipt\",\"email-of-ada\",10,11]}')";
        model.execute(insert, ()).unwrap();
        let insert = "INSERT INTO jobs (job_id, kind, object, state, attempts, first_at_ms, history, result, staged_at_ms, updated_at_ms)
             VALUES ('re_1_receipt', 'send_receipt', '0a', 'done', 2, 10, '[]', 'email-of-ada', 10, 11)";
        model.execute(insert, ()).unwrap();
        model.execute(&results(), ("0a", "pay_1", r#"["re_1"]"#, 20)).unwrap();
        model.execute(RESULTS, ["pay_1"]).unwrap();
        assert_eq!(count(&model, "job_list", "result LIKE '%ada%'"), 0);
        let done = r#"{"pay_1_receipt":["send_receipt","",10,11]}"#;
        assert_eq!(count(&model, "payments", &format!("done_jobs = '{done}'")), 1);
        assert_eq!(count(&model, "job_list", "state = 'done'"), 2, "that they are done stays known");
    }

    #[test]
    fn the_keys_of_an_erased_customer_go_and_no_others() {
        let model = read_model();
        let insert = "INSERT INTO keys (object, key_id, version, key_hash, owner, operation, status, recovery_point, attempts, failures,
                in_doubt, flagged, created_at_ms, updated_at_ms)
             VALUES (?1, ?2, 1, 'h', 'account:a', ?3, ?4, 'finished', 1, 0, 0, 0, 1, 1)";
        for (object, key_id, operation, status) in [
            ("0a", 1, "customer", "finished"),
            ("0a", 2, "customer", "expired"),
            ("0b", 1, "customer", "finished"),
            ("0c", 2, "refund", "finished"),
        ] {
            model.execute(insert, (object, key_id, operation, status)).unwrap();
        }
        for object in ["0a", "0c"] {
            model.execute(KEYS, [object]).unwrap();
        }
        assert_eq!((count(&model, "keys", "object = '0a'"), count(&model, "keys", "true")), (0, 2));
    }

    #[test]
    fn what_is_told_and_not_taken_in_loses_what_it_says_of_the_card() {
        let model = read_model();
        let event = r#"{"event_id":"e","news":{"news":"authorisation","success":true,"reason":"033899_1111_03_2030","card":{"last4":"1111"}}}"#;
        let insert = "INSERT INTO inbox (event_key, provider, kind, account, object, event, event_id, told_at_ms, state, attempts, history,
                next_at_ms, received_at_ms, updated_at_ms)
             VALUES (?1, 'adyen', 'AUTHORISATION', '', ?2, ?3, 'e', 1, ?4, 0, '[]', 1, 1, 1)";
        for (key, object, state) in [("1", "0a", "waiting"), ("2", "0a", "dead"), ("3", "0b", "dead")] {
            model.execute(insert, (key, object, event, state)).unwrap();
        }
        model.execute(TOLD, ["0a"]).unwrap();
        assert_eq!(count(&model, "inbox", "event LIKE '%1111%' AND object = '0a'"), 0);
        assert_eq!(
            count(&model, "inbox", "event ->> '$.news.reason' = '' AND object = '0a'"),
            2,
            "as it is read"
        );
        assert_eq!(count(&model, "inbox", "event LIKE '%1111%' AND object = '0b'"), 1, "another object's");
    }

    #[test]
    fn a_migration_cleans_what_releases_before_have_kept_of_what_was_authorised() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let sql = std::fs::read_to_string(format!("{folder}/0043_what_is_kept_of_persons.sql")).unwrap();
        let model = read_model();
        let insert = "INSERT INTO inbox (event_key, provider, kind, account, event, event_id, told_at_ms, state, attempts, history,
                next_at_ms, received_at_ms, updated_at_ms)
             VALUES (?1, 'adyen', 'AUTHORISATION', '', ?2, 'e', 1, 'dead', 0, '[]', 1, 1, 1)";
        for (success, reason) in [(true, "033899_1111_03_2030"), (false, "refused")] {
            let event = serde_json::json!({ "news": { "success": success, "reason": reason } });
            model.execute(insert, (success.to_string(), event.to_string())).unwrap();
        }
        model.execute("DROP INDEX keys_of_customers", ()).unwrap();
        model.execute_batch(&sql).unwrap();
        assert_eq!(count(&model, "inbox", "event LIKE '%1111%'"), 0);
        assert_eq!(count(&model, "inbox", "event ->> '$.news.reason' = 'refused'"), 1, "why not stays");
    }
}
