//! Writing down what was done: one audit record for each effect, in the effect's own transaction.

use serde_json::{Value, json};

use crate::engine::{Context, ObjectState};
use crate::payment::provider::Provider;
use crate::payment::records::AuditRecord;
use once::id::Owner;

/// Writes an effect down.
pub fn record(
    state: &mut ObjectState,
    actor: Owner,
    action: &'static str,
    subject: String,
    data: Value,
    ctx: &Context,
) {
    let record = AuditRecord { audit_id: 0, at_ms: ctx.now_ms, actor, action, subject, data };
    state.appended.facts.audit.push(record);
}

/// Writes down an effect that nobody has asked for: on behalf of the object's owner.
pub fn record_for_owner(
    state: &mut ObjectState,
    action: &'static str,
    subject: String,
    data: Value,
    ctx: &Context,
) {
    // What has no key has no payment, and nothing can befall it.
    if let Some(actor) = state.keys.first().map(|key| key.owner.clone()) {
        record(state, actor, action, subject, data, ctx);
    }
}

/// The same, of the payment.
pub(crate) fn record_for_payment(state: &mut ObjectState, action: &'static str, data: Value, ctx: &Context) {
    let subject = state.resource.payment.as_ref().map(|payment| payment.id.to_string()).unwrap_or_default();
    record_for_owner(state, action, subject, data, ctx);
}

/// Says more in the newest record of this transaction, if it is of this action.
pub(crate) fn add_to_newest(state: &mut ObjectState, action: &str, name: &str, value: Value) {
    let newest = state.appended.facts.audit.last_mut().filter(|record| record.action == action);
    if let Some(data) = newest.and_then(|record| record.data.as_object_mut()) {
        data.insert(name.to_owned(), value);
    }
}

/// What was found by asking, and a person must see.
pub(crate) fn alert(
    state: &mut ObjectState,
    provider: Provider,
    event_id: Option<&str>,
    detail: &str,
    ctx: &Context,
) {
    let data = json!({ "event": event_id, "provider": provider.as_str(), "kind": "asked", "detail": detail });
    record_for_payment(state, "webhook.alert", data, ctx);
}

/// Numbers the records of a transaction that is about to be committed.
pub fn number(state: &mut ObjectState) {
    let audit = state.appended.facts.audit.iter_mut().zip(state.resource.audit_newest.saturating_add(1)..);
    for (record, audit_id) in audit {
        record.audit_id = audit_id;
        state.resource.audit_newest = audit_id;
    }
}
