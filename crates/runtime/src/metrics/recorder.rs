//! Counts what happens in this isolate, until it is sent.

use std::cell::RefCell;

use super::catalog::{Entity, Family};
use super::counters::Counters;
use payments::engine::ObjectState;

thread_local! {
    /// What this isolate has counted and not sent yet.
    static LOCAL: RefCell<Counters> = const { RefCell::new(Counters::new()) };
}

/// Takes all that was counted and not sent yet.
pub fn drain() -> Counters {
    LOCAL.take()
}

/// Takes back what could not be sent yet.
pub fn put_back(counters: Counters) {
    record(|counted| counted.merge(counters));
}

fn record(count: impl FnOnce(&mut Counters)) {
    LOCAL.with_borrow_mut(count);
}

/// A request was answered.
pub fn request(route: &'static str, method: &str, status: u16, outcome: &'static str) {
    record(|counters| counters.request(route, method, status, outcome));
}

/// A call to a provider ended after `ms`. `name` is its name within the operation.
pub fn provider_call(provider: &'static str, name: &str, outcome: &'static str, ms: u64) {
    record(|counters| counters.provider_call(provider, name, outcome, ms));
}

/// A stored response was replayed. `took_money`: without the key, this would have been a second charge.
pub fn replayed(took_money: bool) {
    record(|counters| counters.count(Family::CacheHits, &[]));
    saved(took_money);
}

/// The same, from a copy at the edge.
pub fn replayed_at_edge(took_money: bool) {
    record(|counters| counters.count(Family::EdgeReplays, &[]));
    replayed(took_money);
}

/// A concurrent duplicate waited for the first request's result. `took_money`: it got one, and the operation took money.
pub fn waited(took_money: bool) {
    record(|counters| counters.count(Family::Waits, &[]));
    saved(took_money);
}

fn saved(took_money: bool) {
    if took_money {
        record(|counters| counters.count(Family::ChargesSaved, &[]));
    }
}

/// A concurrent duplicate was refused: the first request still ran.
pub fn in_progress() {
    record(|counters| counters.count(Family::InProgress, &[]));
}

/// A request was refused: its key was used for another request.
pub fn mismatch() {
    record(|counters| counters.count(Family::Conflicts, &[]));
}

/// A request was run without a key.
pub fn key_missing() {
    record(|counters| counters.count(Family::KeysMissing, &[]));
}

/// An object got a request or an alarm.
pub fn object_request(by: &'static str) {
    record(|counters| counters.count(Family::ObjectRequests, &[by]));
}

/// Rows were written, to an `object` or to the `read_model`.
pub fn rows_written(store: &'static str, number: usize) {
    record(|counters| counters.count_all(Family::RowsWritten, &[store], number));
}

/// Messages were sent to the queue.
pub fn queued(number: usize) {
    record(|counters| counters.count_all(Family::QueueMessages, &[], number));
}

/// An attempt of a job ended: `done`, `failed`, `dead`, or `handed_on`.
pub fn job(kind: &'static str, outcome: &'static str) {
    record(|counters| counters.count(Family::Jobs, &[kind, outcome]));
}

/// A transaction was committed: counts every status that it has changed.
pub fn committed(before: &ObjectState, after: &ObjectState) {
    moves(before, after).into_iter().for_each(|(entity, from, to)| moved(entity, from, to));
}

/// A committed transaction changed a status. `from` is `None` for something new.
pub fn moved(entity: Entity, from: Option<&'static str>, to: Option<&'static str>) {
    record(|counters| counters.moved(entity, from, to));
}

/// The changes of status that a transaction makes, of keys and payments.
pub fn moves(
    before: &ObjectState,
    after: &ObjectState,
) -> Vec<(Entity, Option<&'static str>, Option<&'static str>)> {
    let status = |state: &ObjectState, key_id| state.key(key_id).map(|key| key.lifecycle.name());
    let keys =
        after.keys.iter().map(|key| (Entity::Key, status(before, key.key_id), Some(key.lifecycle.name())));
    let payment =
        |state: &ObjectState| state.resource.payment.as_ref().map(payments::payment::Payment::status);
    keys.chain([(Entity::Payment, payment(before), payment(after))])
        .filter(|(_, from, to)| from != to)
        .collect()
}
