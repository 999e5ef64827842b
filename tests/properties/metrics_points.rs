//! The counts as data points of Analytics Engine: nothing is lost or counted twice on the way, and no limit is passed.

use proptest::prelude::*;
use runtime::metrics::catalog::{Entity, Family};
use runtime::metrics::counters::{Counters, Row};
use runtime::metrics::points::{INDEX_MAX_BYTES, POINTS_MAX, Point, SERIES_MAX, VERSION, points, rows};
use runtime::metrics::reading::{Fold, Folded, Reading, folded};
use runtime::metrics::stats::stats;
use runtime::metrics::text::{exposition, source};

const ROUTES: [&str; 4] = ["/", "/payments", "/payments/{id}/refunds", "/checkout/sessions/{order}/expire"];
const OUTCOMES: [&str; 3] = ["created", "replayed", "idempotency-key-missing"];

fn counters(count: impl FnOnce(&mut Counters)) -> Counters {
    let mut counters = Counters::new();
    count(&mut counters);
    counters
}

/// What the object of an ordinary payment counts.
fn payment() -> Counters {
    let counted = counters(|counters| {
        counters.count(Family::ObjectRequests, &["fetch"]);
        counters.count_all(Family::RowsWritten, &["object"], 4);
        counters.count_all(Family::QueueMessages, &[], 2);
        counters.moved(Entity::Key, None, Some("open"));
        counters.moved(Entity::Key, Some("open"), Some("finished"));
        counters.moved(Entity::Payment, None, Some("processing"));
        counters.moved(Entity::Payment, Some("processing"), Some("succeeded"));
        counters.provider_call("stripe", "charge", "charged", 420);
    });
    // Without the zeros of what it entered and left again.
    Counters::from_rows(counted.rows())
}

/// As many series as `number`, each once.
fn many(number: usize) -> Counters {
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let mut all = Vec::new();
    for (route, outcome) in ROUTES.into_iter().flat_map(|route| OUTCOMES.map(|outcome| (route, outcome))) {
        for method in methods {
            all.extend([100, 200, 300, 400, 500].map(|status| (route, method, status, outcome)));
        }
    }
    counters(|counters| {
        for (route, method, status, outcome) in all.into_iter().take(number) {
            counters.request(route, method, status, outcome);
        }
    })
}

/// What a reader makes of a point, if it stands for so many.
fn read(point: &Point, sample_interval: i64) -> Vec<Row> {
    let mut sums: Vec<i64> = point.doubles.iter().map(|number| number * sample_interval).collect();
    sums.resize(SERIES_MAX, 0);
    rows(&point.blobs[1], &sums).unwrap()
}

#[test]
fn an_invocation_of_a_payment_is_one_point() {
    let (points, later) = points(&payment());
    assert_eq!(points.len(), 1);
    assert!(later.is_empty());
    let point = &points[0];
    assert_eq!(point.blobs[0], VERSION);
    assert_eq!(point.indexes, ["paid_once_provider_calls_total\t\tstripe\tcharge\tcharged"]);
    // As the runtime is given it.
    let json = serde_json::to_value(point).unwrap();
    assert_eq!(json["indexes"].as_array().unwrap().len(), 1);
    assert_eq!(json["doubles"].as_array().unwrap().len(), json["blobs"][1].as_str().unwrap().lines().count());
}

#[test]
fn nothing_counted_is_no_point() {
    assert_eq!(points(&Counters::new()), (Vec::new(), Counters::new()));
}

#[test]
fn more_than_an_invocation_may_write_waits_for_the_next_one() {
    let all = many(POINTS_MAX * SERIES_MAX + 25);
    let (first, later) = points(&all);
    assert_eq!(first.len(), POINTS_MAX);
    let (second, last) = points(&later);
    assert_eq!(second.len(), 2);
    assert!(last.is_empty());
    let back = first.iter().chain(&second).flat_map(|point| read(point, 1));
    assert_eq!(Counters::from_rows(back), all);
}

#[test]
fn numbers_make_no_set_of_series_of_their_own() {
    let twice = counters(|counters| [payment(), payment()].into_iter().for_each(|one| counters.merge(one)));
    let (once, twice) = (points(&payment()).0, points(&twice).0);
    assert_eq!((&once[0].blobs, &once[0].indexes), (&twice[0].blobs, &twice[0].indexes));
    assert_ne!(once[0].doubles, twice[0].doubles);
}

#[test]
fn a_rare_answer_is_not_sampled_with_a_frequent_one() {
    let answer = |status| points(&counters(|one| one.request("/payments", "POST", status, "created"))).0;
    assert_ne!(answer(201)[0].indexes, answer(500)[0].indexes);
    let call = |outcome| points(&counters(|one| one.provider_call("stripe", "charge", outcome, 7))).0;
    assert_ne!(call("charged")[0].indexes, call("unknown")[0].indexes);
}

#[test]
fn a_text_that_is_no_set_of_series_is_none() {
    for (series, sums) in [("", 20), ("paid_once_keys", 20), ("a\t\nb", 20), ("a\t\nb\t", 1)] {
        assert_eq!(rows(series, &vec![1; sums]), None, "{series}");
    }
    // A family that this version does not know is a row that it leaves out.
    assert!(Counters::from_rows(rows("of_a_later_version\t\tlabel", &[1]).unwrap()).is_empty());
}

proptest! {
    #[test]
    fn points_add_up_to_what_was_counted(
        events in proptest::collection::vec((0_usize..4, 0_usize..3, 100_u16..600, 0_u64..40_000), 0..80),
        sample_interval in 1_i64..1_000,
    ) {
        let all = counters(|counters| for (route, outcome, status, ms) in &events {
            counters.request(ROUTES[*route], "POST", *status, OUTCOMES[*outcome]);
            counters.provider_call("adyen", "refund", OUTCOMES[*outcome], *ms);
            counters.moved(Entity::Payment, None, Some("processing"));
        });
        let (mut left, mut back) = (all.clone(), Vec::new());
        while !left.is_empty() {
            let (written, later) = points(&left);
            prop_assert!(written.len() <= POINTS_MAX);
            for point in &written {
                // developers.cloudflare.com/analytics/analytics-engine/limits/
                prop_assert!(point.doubles.len() <= 20 && point.indexes[0].len() <= INDEX_MAX_BYTES.min(96));
                prop_assert!(point.blobs.iter().map(String::len).sum::<usize>() <= 16_000);
                prop_assert!(!point.indexes[0].is_empty());
                back.extend(read(point, sample_interval));
            }
            left = later;
        }
        let weighted = all.rows().into_iter().map(|Row(family, labels, sample, number)| {
            Row(family, labels, sample, number * sample_interval)
        });
        prop_assert_eq!(Counters::from_rows(back), Counters::from_rows(weighted));
    }
}

/// The object's rows after a fold, as its statement adds them.
fn added(stored: &[Row], fold: Fold) -> Vec<Row> {
    let mut rows = stored.to_vec();
    for Row(family, labels, sample, number) in fold.rows_to_add(folded(stored)).unwrap_or_default() {
        let same = rows.iter_mut().find(|row| (&row.0, &row.1, &row.2) == (&family, &labels, &sample));
        match same {
            Some(row) => row.3 += number,
            None => rows.push(Row(family, labels, sample, number)),
        }
    }
    rows
}

#[test]
fn a_window_is_added_once_whoever_reads_it() {
    let rows = payment().rows();
    let fold =
        |from_s, to_s, sample_interval_max| Fold { from_s, to_s, sample_interval_max, rows: rows.clone() };
    let first = added(&[], fold(None, 100, 1));
    // Two readers have asked for the same window: the slower one adds nothing, and neither does one that asks for what is past.
    for late in [fold(None, 100, 1), fold(None, 101, 1), fold(Some(99), 120, 1), fold(Some(100), 100, 1)] {
        assert_eq!(added(&first, late), first);
    }
    let second = added(&first, fold(Some(100), 130, 20));
    assert_eq!(folded(&second), Some(Folded { read_to_s: 130, sample_interval_max: 20 }));
    let third = added(&second, fold(Some(130), 131, 10));
    let reading = Reading::from_rows(third);
    assert_eq!(
        reading.folded,
        Some(Folded { read_to_s: 131, sample_interval_max: 20 }),
        "the largest one stays"
    );
    let thrice = counters(|all| (0..3).for_each(|_| all.merge(payment())));
    assert_eq!(reading.counters, thrice);
}

#[test]
fn a_reading_goes_to_another_worker_and_to_one_of_before() {
    let folded = Some(Folded { read_to_s: 1_800_000_000, sample_interval_max: 7 });
    let reading = Reading { counters: payment(), folded, writes: true, keys_open: None };
    let json = serde_json::to_string(&reading.rows()).unwrap();
    let rows: Vec<Row> = serde_json::from_str(&json).unwrap();
    assert_eq!(Reading::from_rows(rows.clone()), reading);
    assert_eq!(Counters::from_rows(rows), payment(), "one of before leaves out what is no count");
}

#[test]
fn sums_of_sampled_changes_are_not_shown() {
    let sampled = |interval| Reading {
        folded: Some(Folded { read_to_s: 1_000, sample_interval_max: interval }),
        ..payment().into()
    };
    let whole = exposition(sampled(1));
    assert!(
        whole.contains("paid_once_keys{status=\"finished\"} 1\n")
            && whole.contains("paid_once_keys_open 0\n")
    );
    let text = exposition(sampled(2));
    assert!(!text.contains("\npaid_once_keys{") && !text.contains("\npaid_once_payments{"));
    assert!(!text.contains("\npaid_once_keys_open "), "what is not known is not 0");
    assert!(
        text.contains("\npaid_once_payments_total{status=\"succeeded\"} 1\n"),
        "counters are estimates, and shown"
    );
    let counted = exposition(Reading { keys_open: Some(3), ..sampled(2) });
    assert!(counted.contains("\npaid_once_keys_open 3\n"));
    let shown = stats(&sampled(2), &[], 0);
    assert!(shown["keys"].is_null() && shown["payments"].is_null());
    assert_eq!(stats(&sampled(1), &[], 0)["keys"]["complete"], 1);
}

#[test]
fn the_source_says_how_exact_it_is() {
    let by_object = source(&payment().into(), false, 0);
    assert!(by_object.contains("paid_once_metrics_exact{source=\"object\"} 1\n"));
    assert!(!by_object.contains("sample_interval"));
    let folded = Some(Folded { read_to_s: 1_000, sample_interval_max: 10 });
    let reading = Reading { folded, ..payment().into() };
    let text = source(&reading, true, 1_125_999);
    for line in [
        "paid_once_metrics_exact{source=\"analytics_engine\"} 0\n",
        "paid_once_metrics_sample_interval_max 10\n",
        "paid_once_metrics_behind_seconds 125\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(
        source(&reading, false, 0).contains("{source=\"object\"} 0\n"),
        "what was an estimate once stays one"
    );
}
