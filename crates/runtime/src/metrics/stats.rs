//! The same numbers as JSON: `GET /admin/stats`.

use serde_json::{Map, Value, json};

use super::catalog::{Entity, Family};
use super::counters::Counters;
use super::reading::Reading;
use payments::timestamp;

/// As JSON: what exists and what was answered, from the counters, which are kept and not counted anew; and how far behind the provider's
/// `lists` are read, in ms. `now_ms` (since the epoch) is when all this was read. Where changes are estimates, how many there are is null.
pub fn stats(reading: &Reading, lists: &[(&'static str, u64)], now_ms: u64) -> Value {
    let lags: Map<String, Value> =
        lists.iter().map(|(list, lag_ms)| ((*list).to_owned(), (lag_ms / 1000).into())).collect();
    let counters = &reading.counters;
    let number_of = |entity| (!reading.is_sampled()).then(|| by_status(counters, entity));
    let total = |family: Family| counters.of(family).map(|(_, _, number)| number).sum::<i64>();
    json!({
        "keys": number_of(Entity::Key),
        "payments": number_of(Entity::Payment),
        "charges_saved_by_replays": total(Family::ChargesSaved),
        "requests": {
            "total": total(Family::Requests),
            "answered": answers(counters, &["1xx", "2xx", "3xx"]),
            "refused": answers(counters, &["4xx"]),
            "failed": answers(counters, &["5xx"]),
            "replayed": total(Family::CacheHits),
            "waited": total(Family::Waits),
            "in_progress": total(Family::InProgress),
            "mismatched": total(Family::Conflicts),
            "without_key": total(Family::KeysMissing),
        },
        "reconciliation_lag_seconds": lags,
        "as_of": timestamp(now_ms),
    })
}

fn by_status(counters: &Counters, entity: Entity) -> Value {
    let mut shown_counts = Map::new();
    let mut total = 0;
    for status in entity.statuses() {
        let of_it = counters
            .of(entity.gauge())
            .filter(|(labels, _, _)| labels.iter().any(|label| **label == **status));
        let number: i64 = of_it.map(|(_, _, number)| number).sum::<i64>().max(0);
        total += number;
        shown_counts.insert(shown(entity, status).to_owned(), number.into());
    }
    shown_counts.insert("total".to_owned(), total.into());
    Value::Object(shown_counts)
}

/// A key's status as clients know it (`GET /idempotency-keys/{key}`).
fn shown(entity: Entity, status: &'static str) -> &'static str {
    match (entity, status) {
        (Entity::Key, "open") => "processing",
        (Entity::Key, "finished") => "complete",
        _ => status,
    }
}

fn answers(counters: &Counters, classes: &[&str]) -> i64 {
    let of = counters.of(Family::Requests);
    let in_class = of.filter(|(labels, _, _)| labels.last().is_some_and(|class| classes.contains(&&**class)));
    in_class.map(|(_, _, number)| number).sum()
}
