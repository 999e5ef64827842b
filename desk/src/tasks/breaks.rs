//! Breaks in D1: how they are written, found again, and closed; and the objects that are asked about them. Reconciliation with Stripe
//! and Adyen's reports both use this.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Env, Result};

use super::compare::Break;
use messages::message::ObjectRequest;
use once::id::ObjectId;
use payments::payment::id::object_of;
use payments::providers::Provider;
use runtime::client;
use runtime::db::Db;
use runtime::log::log;

/// How many breaks one statement writes, and how often it is repeated while there are more.
pub(super) const BREAKS_MAX: usize = 200;
pub(super) const BATCHES_MAX: u32 = 10;
/// How many objects one run asks.
pub(super) const ASKED_MAX: u32 = 50;
/// The kinds of breaks that a comparison finds.
pub(super) const COMPARED_KINDS: &str = "'orphan', 'missing', 'amount', 'status'";
/// Closes a break that was not found again at `?2`.
pub(super) const MARK_GONE: &str =
    "state = CASE WHEN asked_at_ms IS NULL THEN 'resolved' ELSE 'repaired' END, last_seen_at_ms = ?2";
/// These conditions must match the indexes of payments that are not found in the provider's books yet.
pub(super) const HOLDS_MONEY: &str = "status IN ('succeeded', 'requires_capture', 'disputed')";
/// When the money of a payment was taken, in ms since the epoch. Its row says so of one that was taken at once, and its audit records of one that was
/// reserved before, as long as they have not left for history. `updated_at_ms`, by which those that are unbooked are found, is no earlier, and
/// becomes later with whatever else the object tells.
pub(super) const TAKEN_AT_MS: &str = "coalesce(payments.captured_at_ms, (SELECT max(taken.at_ms) FROM audit_records taken
    WHERE taken.object = payments.object AND taken.subject = payments.payment_id AND +taken.action = 'payment.captured'), payments.created_at_ms)";
/// A payment that has left for history and has changed since does not say any more that its money was found in the provider's books: that is
/// remembered there.
pub(super) const WAS_BOOKED: &str =
    "EXISTS (SELECT 1 FROM history_payments h WHERE h.object = unhex(payments.object) AND h.is_booked = 1)";
pub(super) const UNBOOKED: &str = "(provider_payment IS NULL OR listed_payment IS NOT provider_payment OR moved_payment IS NOT provider_payment)";

/// Whether a break that is found again was accepted, and says the same as then.
const IS_ACCEPTED: &str =
    "breaks.state = 'accepted' AND breaks.ours IS excluded.ours AND breaks.theirs IS excluded.theirs";

/// Writes breaks from JSON rows (`?1`), at `?2`, of a connected account (`?3`). A break that an operator accepted stays accepted, with the note that
/// says why, until it changes.
pub(super) fn upsert_sql(provider: Provider) -> String {
    format!(
        "INSERT INTO breaks (break_id, kind, provider, provider_payment, resource, object, ours, theirs, state,
            first_seen_at_ms, last_seen_at_ms, stripe_account)
         SELECT value->>'break_id', value->>'kind', '{}', value->>'provider_payment', value->>'resource', value->>'object',
            value->>'ours', value->>'theirs', 'open', ?2, ?2, ?3 FROM json_each(?1) WHERE true
         ON CONFLICT (break_id) DO UPDATE SET resource = excluded.resource, object = excluded.object,
            ours = excluded.ours, theirs = excluded.theirs, last_seen_at_ms = excluded.last_seen_at_ms,
            note = CASE WHEN {IS_ACCEPTED} THEN breaks.note END,
            state = CASE WHEN {IS_ACCEPTED} THEN 'accepted' ELSE 'open' END",
        provider.as_str()
    )
}

pub(super) fn rows_json(breaks: &[Break], provider: Provider) -> Result<String> {
    let rows = breaks.iter().map(|found| {
        json!({
            "break_id": found.id(provider.as_str()), "kind": found.kind.as_str(), "provider_payment": found.provider_payment,
            "resource": found.resource, "object": object(found).map(ObjectId::to_hex), "ours": found.ours,
            "theirs": found.theirs,
        })
    });
    Ok(serde_json::to_string(&rows.collect::<Vec<Value>>())?)
}

/// The object that a break is about: from the read model, or else from our id in the provider's metadata.
fn object(found: &Break) -> Option<ObjectId> {
    let known = found.object.as_deref().and_then(ObjectId::from_hex);
    let claimed = || object_of(found.resource.as_deref()?);
    known.or_else(claimed)
}

/// Tells the objects of open breaks in the books of an account to check with their provider: at most so many of those whose breaks were seen
/// again since they were last asked, longest waiting first. Returns how many there were.
pub(super) async fn ask_objects(
    env: &Env,
    db: &Db,
    (provider, account): (Provider, Option<&str>),
    most: u32,
    now_ms: u64,
) -> Result<usize> {
    #[derive(Deserialize)]
    struct Asked {
        break_id: String,
        object: String,
    }
    let sql = format!(
        "SELECT break_id, object FROM breaks WHERE state = 'open' AND provider = ?1 AND kind IN ({COMPARED_KINDS}, 'movement', 'dispute')
         AND stripe_account IS ?2 AND object IS NOT NULL AND (asked_at_ms IS NULL OR last_seen_at_ms > asked_at_ms)
         ORDER BY coalesce(asked_at_ms, 0), first_seen_at_ms LIMIT {BREAKS_MAX}"
    );
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut objects = BTreeSet::new();
    let mut asked = Vec::new();
    let values = vec![provider.as_str().into(), account.map(str::to_owned).into()];
    for found in db.rows::<Asked>(&sql, values).await? {
        if objects.contains(&found.object) || objects.len() < most {
            objects.insert(found.object);
            asked.push(found.break_id);
        }
    }
    if asked.is_empty() {
        return Ok(0);
    }
    let sql = "UPDATE breaks SET asked_at_ms = ?1 WHERE break_id IN (SELECT value FROM json_each(?2))";
    db.run(sql, vec![now_ms.into(), serde_json::to_string(&asked)?.into()]).await?;
    let objects: Vec<ObjectId> = objects.iter().filter_map(|hex| ObjectId::from_hex(hex)).collect();
    let ends = join_all(objects.iter().map(|object| ask_object(env, *object))).await;
    for error in ends.iter().filter_map(|end| end.as_ref().err()) {
        log("error", &[("event", "repair_failed".into()), ("error", error.to_string().into())]);
    }
    Ok(ends.iter().filter(|end| matches!(end, Ok(true))).count())
}

/// Returns whether the object exists.
async fn ask_object(env: &Env, object: ObjectId) -> Result<bool> {
    let is_there: bool = client::ask(env, object, &ObjectRequest::Settle).await?;
    if is_there {
        client::ask::<()>(env, object, &ObjectRequest::Project).await?;
    }
    Ok(is_there)
}

/// Selects the payments that match the conditions, as [`LocalRecord`](super::compare::LocalRecord)s.
pub(super) fn local_records_sql(conditions: &str) -> String {
    let refunds = |status: &str| {
        format!(
            "(SELECT coalesce(sum(refunds.amount_minor), 0) FROM refunds
              WHERE refunds.payment_id = payments.payment_id AND refunds.status = '{status}')"
        )
    };
    let own_captures = "(SELECT count(*) FROM keys WHERE keys.object = payments.object
        AND keys.operation = 'capture' AND keys.response_status = 200)";
    let disputes = "(SELECT group_concat(one.value ->> 'id', ' ') FROM json_each((SELECT newest.data -> 'disputes' FROM audit_records newest
            WHERE newest.object = payments.object AND newest.subject = payments.payment_id AND +newest.action = 'payment.disputed'
            ORDER BY newest.audit_id DESC LIMIT 1)) one)";
    format!(
        "SELECT payment_id AS resource, object, provider, status, amount_minor, captured_minor,
            {} + refunded_elsewhere_minor AS refunded_minor,
            {} AS refunding_minor, {own_captures} AS own_captures, currency, provider_payment,
            shown ->> '$.dispute.id' AS dispute,
            CASE WHEN provider = 'adyen' AND shown ->> '$.dispute.id' IS NOT NULL THEN {disputes} END AS disputes, shown ->> '$.dispute.status' AS dispute_status,
            shown ->> '$.dispute.amount' AS dispute_minor, shown ->> '$.dispute.funds_withdrawn' AS dispute_withdrawn,
            created_at_ms, updated_at_ms
         FROM payments WHERE {conditions}",
        refunds("succeeded"),
        refunds("pending")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::read_model;

    /// The control: it stays as long as nothing else is said.
    #[test]
    fn the_note_of_who_has_accepted_a_break_goes_once_it_says_something_else() {
        let model = read_model();
        let found = |theirs: &str| {
            let rows = json!([{ "break_id": "b", "kind": "amount", "provider_payment": "pi_1", "ours": "a", "theirs": theirs }]);
            model.execute(&upsert_sql(Provider::Stripe), (rows.to_string(), 1, None::<String>)).unwrap();
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            model
                .query_row::<(String, Option<String>), _, _>("SELECT state, note FROM breaks", (), row)
                .unwrap()
        };
        assert_eq!(found("b"), ("open".to_owned(), None));
        model.execute("UPDATE breaks SET state = 'accepted', note = 'a tip'", ()).unwrap();
        assert_eq!(found("b"), ("accepted".to_owned(), Some("a tip".to_owned())));
        assert_eq!(found("c"), ("open".to_owned(), None));
    }

    /// A payment shows one of its disputes.
    #[test]
    fn all_disputes_of_a_payment_at_adyen_are_known_by_its_newest_record_of_them() {
        let model = read_model();
        let shown =
            json!({ "dispute": { "id": "DIS2", "status": "open", "amount": 900, "funds_withdrawn": true } });
        let sql = "INSERT INTO payments (payment_id, object, version, owner, status, amount_minor, captured_minor, refunded_minor, currency,
                provider, attempt, shown, created_at_ms, updated_at_ms) VALUES ('pay_1', 'o', 1, 'a', 'disputed', 900, 900, 0, 'eur', 'adyen', 1, ?1, 0, 0)";
        model.execute(sql, [shown.to_string()]).unwrap();
        let known = || {
            let sql = local_records_sql("payment_id = 'pay_1'");
            let row = |row: &rusqlite::Row<'_>| {
                Ok((row.get::<_, Option<String>>("disputes")?, row.get("dispute_withdrawn")?))
            };
            model.query_row(&sql, (), row).unwrap()
        };
        assert_eq!(known(), (None, 1), "as earlier releases recorded it");
        let told = [json!({}), json!([{ "id": "DIS1" }]), json!([{ "id": "DIS2" }, { "id": "DIS1" }])];
        for (number, disputes) in (2_i64..).zip(told) {
            let sql = "INSERT INTO audit_records VALUES ('o', ?1, 7, 'a', 'payment.disputed', 'pay_1', ?2)";
            model.execute(sql, (number, json!({ "disputes": disputes }).to_string())).unwrap();
        }
        assert_eq!(known(), (Some("DIS2 DIS1".to_owned()), 1));
    }
}
