//! What is counted, for Prometheus (`GET /metrics`) and for people (`GET /admin/stats`).
//!
//! Isolates share no memory, and no request may wait for a counter that all others share. So each isolate counts for
//! itself ([`tally`]) and sends what it has after an answer, at most about once a second ([`pace`]), in one message to one
//! of a few objects, which add up (`metrics_object`). A message whose fate is unknown is not sent again, and what an
//! isolate had not sent when it ended is lost: the numbers may be too small, never too large. Nothing is decided by them.

#[cfg(target_arch = "wasm32")]
mod flush;
#[cfg(target_arch = "wasm32")]
mod metrics_object;
pub mod pace;
pub mod series;
pub mod stats;
pub mod tally;
pub mod text;

use std::cell::RefCell;

#[cfg(target_arch = "wasm32")]
pub use flush::{flush, looking_up, read, sending};

use crate::flows::engine::Rows;
use series::Family;
pub use series::Thing;
use tally::Tally;

thread_local! {
    /// What this isolate has counted and not sent.
    static HERE: RefCell<Tally> = const { RefCell::new(Tally::new()) };
}

/// Takes what was counted and not sent.
pub fn take() -> Tally {
    HERE.take()
}

fn note(count: impl FnOnce(&mut Tally)) {
    HERE.with_borrow_mut(count);
}

/// A request was answered.
pub fn request(route: &'static str, method: &str, status: u16, outcome: &'static str) {
    note(|tally| tally.request(route, method, status, outcome));
}

/// A call to a provider ended after `ms`. `name` is its name within the operation.
pub fn provider_call(provider: &'static str, name: &str, outcome: &'static str, ms: u64) {
    note(|tally| tally.provider_call(provider, name, outcome, ms));
}

/// A stored response was sent again. `took_money`: without the key, this would have been a second charge.
pub fn replayed(took_money: bool) {
    note(|tally| tally.count(Family::CacheHits, &[]));
    saved(took_money);
}

/// A concurrent duplicate waited for the first one's result. `took_money`: it got one, and the operation took money.
pub fn waited(took_money: bool) {
    note(|tally| tally.count(Family::Waits, &[]));
    saved(took_money);
}

fn saved(took_money: bool) {
    if took_money {
        note(|tally| tally.count(Family::ChargesSaved, &[]));
    }
}

/// A concurrent duplicate was refused: the first request still ran.
pub fn in_progress() {
    note(|tally| tally.count(Family::InProgress, &[]));
}

/// A request was refused: its key stands for another one.
pub fn mismatch() {
    note(|tally| tally.count(Family::Conflicts, &[]));
}

/// A request was run without a key.
pub fn key_missing() {
    note(|tally| tally.count(Family::KeysMissing, &[]));
}

/// An object was called, or its alarm was.
pub fn object_request(by: &'static str) {
    note(|tally| tally.count(Family::ObjectRequests, &[by]));
}

/// Rows were written, to an `object` or to the `read_model`.
pub fn rows_written(store: &'static str, number: usize) {
    note(|tally| tally.count_all(Family::RowsWritten, &[store], number));
}

/// Messages were given to the queue.
pub fn queued(number: usize) {
    note(|tally| tally.count_all(Family::QueueMessages, &[], number));
}

/// A try of a job ended: `done`, `failed` or `dead`.
pub fn job(kind: &'static str, outcome: &'static str) {
    note(|tally| tally.count(Family::Jobs, &[kind, outcome]));
}

/// Something went from one status to another, in a transaction that is committed; from none when it was made.
pub fn moved(thing: Thing, from: Option<&'static str>, to: Option<&'static str>) {
    note(|tally| tally.moved(thing, from, to));
}

/// What a transaction changes in the status of keys, rides and payments.
pub fn moves(before: &Rows, after: &Rows) -> Vec<(Thing, Option<&'static str>, Option<&'static str>)> {
    let status = |rows: &Rows, key_id| rows.key(key_id).map(|key| key.lifecycle.name());
    let keys =
        after.keys.iter().map(|key| (Thing::Key, status(before, key.key_id), Some(key.lifecycle.name())));
    let ride = |rows: &Rows| rows.resource.ride.as_ref().map(crate::flows::ride::Ride::status);
    let payment = |rows: &Rows| rows.resource.payment.as_ref().map(crate::payment::Payment::status);
    let things =
        [(Thing::Ride, ride(before), ride(after)), (Thing::Payment, payment(before), payment(after))];
    keys.chain(things).filter(|(_, from, to)| from != to).collect()
}
