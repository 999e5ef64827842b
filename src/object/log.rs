//! What an object has written down beside its state: audit records, and the events that providers have told of. All SQL over it is here.

use serde::Deserialize;
use serde_json::Value;

use messages::inspection::EventView;
use messages::snapshot::AuditRow;
use once::context::Bug;
use once_object::storage::{SqlValue, Storage};
use once_object::store::Store;
use payments::engine::Payments;
use payments::providers::Provider;

/// The events that an object knows: the newest.
pub const EVENTS_NEWEST: u32 = 500;

/// The audit records after that one, oldest first: at most `limit`.
pub fn audit_after<S: Storage>(
    store: &Store<Payments, S>,
    audit_id: u64,
    limit: u32,
) -> Result<Vec<AuditRow>, Bug> {
    if let Some(newest) = newest_audit(store, audit_id, limit)? {
        return Ok(newest);
    }
    let sql = "SELECT value ->> '$.audit_id' AS audit_id, value ->> '$.at_ms' AS at_ms, value ->> '$.actor' AS actor,
            value ->> '$.action' AS action, value ->> '$.subject' AS subject, value -> '$.data' AS data
         FROM timeline, json_each(facts, '$.audit') WHERE facts IS NOT NULL AND value ->> '$.audit_id' > ?
         ORDER BY value ->> '$.audit_id' LIMIT ?";
    store.facts(sql, vec![int(audit_id), int(limit)])
}

/// The same, without a statement that SQLite has to compile for it, where the newest facts have all of them: a payment's most often do.
fn newest_audit<S: Storage>(
    store: &Store<Payments, S>,
    audit_id: u64,
    limit: u32,
) -> Result<Option<Vec<AuditRow>>, Bug> {
    #[derive(Deserialize)]
    struct Newest {
        audit: Vec<Record>,
    }
    #[derive(Deserialize)]
    struct Record {
        audit_id: u64,
        at_ms: u64,
        actor: String,
        action: String,
        subject: String,
        data: Value,
    }
    let Some(facts) = store.newest_facts()? else { return Ok(Some(Vec::new())) };
    let Ok(Newest { audit }) = json_text::from_str(&facts) else { return Ok(None) };
    // They are numbered one after the other.
    if audit.first().is_none_or(|oldest| oldest.audit_id > audit_id.saturating_add(1)) {
        return Ok(None);
    }
    let row = |Record { audit_id, at_ms, actor, action, subject, data }| {
        let data = data.to_string();
        AuditRow { audit_id, at_ms, actor, action, subject, data }
    };
    let rows = audit.into_iter().filter(|record| record.audit_id > audit_id).map(row);
    Ok(Some(rows.take(limit as usize).collect()))
}

/// The events that were taken in, oldest first.
pub fn events<S: Storage>(store: &Store<Payments, S>) -> Result<Vec<EventView>, Bug> {
    let sql = "SELECT value ->> '$.event_id' AS event_id, value ->> '$.provider' AS provider, value ->> '$.kind' AS kind,
            value ->> '$.received_at_ms' AS received_at_ms
         FROM timeline, json_each(facts, '$.events') WHERE facts IS NOT NULL
         ORDER BY received_at_ms, timeline.id = 0, timeline.id, json_each.key";
    store.facts(sql, vec![])
}

/// Whether an event was taken in.
pub fn knows_event<S: Storage>(
    store: &Store<Payments, S>,
    provider: Provider,
    event_id: &str,
) -> Result<bool, Bug> {
    #[derive(Deserialize)]
    struct Known {}
    let sql = "SELECT 1 AS known FROM timeline, json_each(facts, '$.events')
         WHERE facts IS NOT NULL AND value ->> '$.event_id' = ? AND value ->> '$.provider' = ? LIMIT 1";
    Ok(!store.facts::<Known>(sql, vec![text(event_id), text(provider.as_str())])?.is_empty())
}

/// How many audit records tell of events that a person must see.
pub fn records_of_events<S: Storage>(store: &Store<Payments, S>) -> Result<u64, Bug> {
    #[derive(Deserialize)]
    struct Count {
        count: u64,
    }
    let sql = "SELECT count(*) AS count FROM timeline, json_each(facts, '$.audit')
         WHERE facts IS NOT NULL AND value ->> '$.action' IN ('webhook.contradicts', 'webhook.alert')";
    Ok(store.facts::<Count>(sql, vec![])?.first().map_or(0, |row| row.count))
}

/// What an event said that a person must see, if whoever brings it is to keep that. Records of before do not name the provider.
pub fn contradiction<S: Storage>(
    store: &Store<Payments, S>,
    provider: Provider,
    event_id: &str,
) -> Result<Option<String>, Bug> {
    #[derive(Deserialize)]
    struct Contradiction {
        detail: String,
    }
    let sql = "SELECT value ->> '$.data.detail' AS detail FROM timeline, json_each(facts, '$.audit')
         WHERE facts IS NOT NULL AND value ->> '$.action' IN ('webhook.contradicts', 'webhook.alert')
            AND value ->> '$.data.event' = ? AND coalesce(value ->> '$.data.provider', ?) = ?
            AND value ->> '$.data.unwritten' IS NULL";
    let provider = provider.as_str();
    let found = store.facts::<Contradiction>(sql, vec![text(event_id), text(provider), text(provider)])?;
    Ok(found.into_iter().next().map(|found| found.detail))
}

/// Forgets the oldest events, once there are more than [`EVENTS_NEWEST`].
pub fn forget_events<S: Storage>(store: &Store<Payments, S>) -> Result<(), Bug> {
    #[derive(Deserialize)]
    struct Row {
        id: u64,
        events: u32,
    }
    let sql = "SELECT id, json_array_length(facts, '$.events') AS events FROM timeline
         WHERE facts ->> '$.events' IS NOT NULL ORDER BY id = 0, id";
    let rows = store.facts::<Row>(sql, vec![])?;
    let mut old = rows.iter().map(|row| row.events).sum::<u32>().saturating_sub(EVENTS_NEWEST);
    if old == 0 {
        return Ok(());
    }
    let storage = store.storage();
    storage.atomically(|| {
        for row in &rows {
            let gone = old.min(row.events);
            if gone == 0 {
                break;
            }
            old -= gone;
            let paths = match gone == row.events {
                true => "'$.events'".to_owned(),
                false => vec!["'$.events[0]'"; gone as usize].join(", "),
            };
            let update = format!(
                "UPDATE timeline SET facts = nullif(json_remove(facts, {paths}), '{{}}') WHERE id = ?"
            );
            storage.exec(&update, vec![int(row.id)])?;
        }
        store.drop_empty()
    })
}

fn int(value: impl Into<u64>) -> SqlValue {
    SqlValue::Integer(i64::try_from(value.into()).unwrap_or(i64::MAX))
}

fn text(value: impl Into<String>) -> SqlValue {
    SqlValue::Text(value.into())
}
