//! The same numbers for a person or a dashboard: `GET /admin/stats`.

use serde_json::{Map, Value, json};

use super::series::{Family, Thing};
use super::tally::Tally;
use crate::timestamp;

/// How many there are in each status, by the read model.
pub type Counts = Vec<(Thing, &'static str, i64)>;

/// As JSON: what there is, by the read model; what was answered, by the counts of all isolates; and how far behind the provider's
/// `lists` are read, in ms. `now_ms` (since the epoch) is when it was read.
pub fn stats(tally: &Tally, counts: &Counts, lists: &[(&'static str, u64)], now_ms: u64) -> Value {
    let lags: Map<String, Value> =
        lists.iter().map(|(list, lag_ms)| ((*list).to_owned(), (lag_ms / 1000).into())).collect();
    let total = |family: Family| tally.of(family).map(|(_, _, number)| number).sum::<i64>();
    json!({
        "keys": by_status(counts, Thing::Key),
        "payments": by_status(counts, Thing::Payment),
        "rides": by_status(counts, Thing::Ride),
        "charges_saved_by_replays": total(Family::ChargesSaved),
        "requests": {
            "total": total(Family::Requests),
            "answered": answers(tally, &["1xx", "2xx", "3xx"]),
            "refused": answers(tally, &["4xx"]),
            "failed": answers(tally, &["5xx"]),
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

fn by_status(counts: &Counts, thing: Thing) -> Value {
    let mut shown_counts = Map::new();
    let mut total = 0;
    for status in thing.statuses() {
        let is_it = |count: &&(Thing, &str, i64)| count.0 == thing && count.1 == *status;
        let number: i64 = counts.iter().filter(is_it).map(|count| count.2).sum();
        total += number;
        shown_counts.insert(shown(thing, status).to_owned(), number.into());
    }
    shown_counts.insert("total".to_owned(), total.into());
    Value::Object(shown_counts)
}

/// A key's status as clients know it (`GET /idempotency-keys/{key}`).
fn shown(thing: Thing, status: &'static str) -> &'static str {
    match (thing, status) {
        (Thing::Key, "open") => "processing",
        (Thing::Key, "finished") => "complete",
        _ => status,
    }
}

fn answers(tally: &Tally, classes: &[&str]) -> i64 {
    let of = tally.of(Family::Requests);
    let in_class = of.filter(|(labels, _, _)| labels.last().is_some_and(|class| classes.contains(&&**class)));
    in_class.map(|(_, _, number)| number).sum()
}
