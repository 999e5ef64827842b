//! The counts: what they add up to, and how they are shown.

use proptest::prelude::*;
use runtime::metrics::catalog::{BUCKETS, Entity, Family, Kind, Sample};
use runtime::metrics::counters::{Counters, Row};
use runtime::metrics::flush_throttle::FlushThrottle;
use runtime::metrics::stats::stats;
use runtime::metrics::text::exposition;
use runtime::metrics::{self, moves};

/// The numbers of a family, as they are shown.
fn samples<'a>(text: &'a str, family: &str) -> Vec<&'a str> {
    let is_of = |line: &&str| {
        line.strip_prefix(family).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    };
    text.lines().filter(is_of).collect()
}

#[test]
fn every_family_is_described_once_and_its_samples_follow_it() {
    let mut counters = Counters::new();
    counters.request("/payments", "POST", 201, "created");
    counters.provider_call("stripe", "charge", "charged", 7);
    counters.lag("events", 7);
    let text = exposition(counters);
    assert!(text.ends_with('\n'));
    let mut lines = text.lines().peekable();
    for family in Family::ALL {
        let name = family.name();
        assert!(name.starts_with("paid_once_"));
        assert_eq!(name.ends_with("_total"), family.kind() == Kind::Counter, "{name}");
        assert_eq!(lines.next().unwrap(), format!("# HELP {name} {}", family.help()));
        assert_eq!(lines.next().unwrap(), format!("# TYPE {name} {}", family.kind().as_str()));
        let mut samples = 0;
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let sample = line.split(['{', ' ']).next().unwrap();
            let suffix = sample.strip_prefix(name).unwrap();
            let suffixes: &[_] = match family.kind() {
                Kind::Histogram => &["_bucket", "_sum", "_count"],
                Kind::Counter | Kind::Gauge => &[""],
            };
            assert!(suffixes.contains(&suffix), "{line}");
            samples += 1;
        }
        assert!(samples > 0, "{name}");
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn a_sample_names_its_labels() {
    let mut counters = Counters::new();
    counters.request("/payments/{id}", "GET", 404, "not-found");
    counters.request("/payments/{id}", "GET", 404, "not-found");
    let text = exposition(counters);
    assert_eq!(
        samples(&text, "paid_once_requests_total"),
        [
            r#"paid_once_requests_total{route="/payments/{id}",method="GET",outcome="not-found",status="4xx"} 2"#
        ]
    );
}

#[test]
fn what_never_happened_is_shown_as_nothing() {
    let text = exposition(Counters::new());
    assert_eq!(
        samples(&text, "paid_once_idempotency_cache_hits_total"),
        ["paid_once_idempotency_cache_hits_total 0"]
    );
    assert_eq!(samples(&text, "paid_once_keys").len(), 3);
    assert_eq!(samples(&text, "paid_once_payments_total").len(), Entity::Payment.statuses().len());
    assert!(!text.contains("NaN") && !text.contains("-1"));
}

#[test]
fn a_label_never_comes_from_a_request() {
    let mut counters = Counters::new();
    for method in ["BREW", "get", "GET\"} 1\n", ""] {
        counters.request("none", method, 405, "method-not-allowed");
    }
    counters.provider_call("stripe", "pay_with_4242", "unknown", 1);
    let text = exposition(counters);
    assert_eq!(
        samples(&text, "paid_once_requests_total"),
        [
            r#"paid_once_requests_total{route="none",method="other",outcome="method-not-allowed",status="4xx"} 4"#
        ]
    );
    assert!(!text.contains("4242"));
}

#[test]
fn a_stored_label_cannot_break_the_text() {
    let labels = ["stripe", "a\"b\\c\nd", "ok"].map(str::to_owned).to_vec();
    let row = Row("paid_once_provider_calls_total".to_owned(), labels, String::new(), 1);
    let text = exposition(Counters::from_rows([row]));
    assert_eq!(
        samples(&text, "paid_once_provider_calls_total"),
        [r#"paid_once_provider_calls_total{provider="stripe",kind="a\"b\\c\nd",outcome="ok"} 1"#]
    );
}

#[test]
fn what_another_version_stored_is_left_out() {
    let row = |family: &str, labels: &[&str], part: &str| {
        Row(family.to_owned(), labels.iter().map(|l| (*l).to_owned()).collect(), part.to_owned(), 1)
    };
    let object_state = [
        row("paid_once_unheard_of_total", &[], ""),
        row("paid_once_payments", &["succeeded", "more"], ""),
        row("paid_once_provider_call_duration_seconds", &["stripe", "charge"], "0.3"),
    ];
    assert!(Counters::from_rows(object_state).is_empty());
}

#[test]
fn the_buckets_of_a_histogram_are_cumulative() {
    let mut counters = Counters::new();
    for ms in [0, 50, 51, 700, 30_000, 30_001, 5_000_000] {
        counters.provider_call("stripe", "charge", "charged", ms);
    }
    let text = exposition(counters);
    let name = "paid_once_provider_call_duration_seconds";
    let bucket = |bound: &str, count: u32| {
        format!(r#"{name}_bucket{{provider="stripe",kind="charge",le="{bound}"}} {count}"#)
    };
    assert_eq!(
        samples(&text, &format!("{name}_bucket")),
        [
            bucket("0.05", 2),
            bucket("0.1", 3),
            bucket("0.25", 3),
            bucket("0.5", 3),
            bucket("1", 4),
            bucket("2.5", 4),
            bucket("5", 4),
            bucket("10", 4),
            bucket("30", 5),
            bucket("+Inf", 7),
        ]
    );
    let labels = r#"{provider="stripe",kind="charge"}"#;
    assert_eq!(samples(&text, &format!("{name}_sum")), [format!("{name}_sum{labels} 5060.802")]);
    assert_eq!(samples(&text, &format!("{name}_count")), [format!("{name}_count{labels} 7")]);
}

#[test]
fn the_buckets_are_in_order_and_named_after_their_bounds() {
    assert!(BUCKETS.is_sorted_by(|(a, _), (b, _)| a < b));
    let (last, bounded) = BUCKETS.split_last().unwrap();
    assert_eq!(*last, (u64::MAX, "+Inf"));
    for (ms, bound) in bounded {
        #[allow(clippy::cast_precision_loss)]
        let seconds = *ms as f64 / 1000.0;
        assert_eq!(bound.parse::<f64>().unwrap(), seconds);
        assert_eq!(Sample::parse(bound), Some(Sample::Bucket(bound)));
    }
}

#[test]
fn a_gauge_is_the_sum_of_its_changes() {
    let mut counters = Counters::new();
    for _ in 0..3 {
        counters.moved(Entity::Key, None, Some("open"));
    }
    counters.moved(Entity::Key, Some("open"), Some("finished"));
    counters.moved(Entity::Key, Some("open"), Some("open"));
    counters.moved(Entity::Payment, None, Some("processing"));
    counters.moved(Entity::Payment, Some("processing"), Some("succeeded"));
    let text = exposition(counters.clone());
    assert_eq!(
        samples(&text, "paid_once_keys"),
        [
            r#"paid_once_keys{status="expired"} 0"#,
            r#"paid_once_keys{status="finished"} 1"#,
            r#"paid_once_keys{status="open"} 2"#,
        ]
    );
    assert_eq!(samples(&text, "paid_once_keys_open"), ["paid_once_keys_open 2"]);
    assert!(text.contains("paid_once_payments{status=\"processing\"} 0\n"));
    assert!(text.contains("paid_once_payments{status=\"succeeded\"} 1\n"));
    assert!(text.contains("paid_once_payments_total{status=\"processing\"} 1\n"));
    let stats = stats(&counters.into(), &[("events", 61_000)], 0);
    assert_eq!(
        stats["keys"],
        serde_json::json!({ "processing": 2, "complete": 1, "expired": 0, "total": 3 })
    );
    assert_eq!(stats["payments"]["total"], 1);
    assert_eq!(stats["as_of"], "1970-01-01T00:00:00.000Z");
}

#[test]
fn a_gauge_that_lost_its_beginning_shows_nothing_below_zero() {
    let mut counters = Counters::new();
    counters.moved(Entity::Payment, Some("processing"), Some("succeeded"));
    assert!(exposition(counters.clone()).contains("paid_once_payments{status=\"processing\"} 0\n"));
}

#[test]
fn a_thread_counts_for_itself_and_gives_it_away_once() {
    metrics::request("/payments", "POST", 201, "replayed");
    metrics::replayed(true);
    metrics::replayed(false);
    metrics::waited(true);
    metrics::in_progress();
    metrics::mismatch();
    metrics::key_missing();
    metrics::moved(Entity::Payment, None, Some("processing"));
    let taken = metrics::drain();
    assert!(metrics::drain().is_empty());
    let stats = stats(&taken.into(), &[], 0);
    assert_eq!(stats["charges_saved_by_replays"], 2);
    assert_eq!((&stats["payments"]["processing"], &stats["payments"]["total"]), (&1.into(), &1.into()));
    assert_eq!(
        stats["requests"],
        serde_json::json!({
            "total": 1, "answered": 1, "refused": 0, "failed": 0, "replayed": 2, "waited": 1, "in_progress": 1,
            "mismatched": 1, "without_key": 1,
        })
    );
}

#[test]
fn an_object_in_which_nothing_changed_moves_nothing() {
    use once::{id::ObjectId, object_state::ObjectState};
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    assert_eq!(moves(&object_state, &object_state), []);
}

#[test]
fn one_caller_sends_within_the_interval() {
    let mut throttle = FlushThrottle::new();
    let now_ms = 1_800_000_000_000;
    assert_eq!(throttle.claim(now_ms), Some(0), "the first one at once");
    assert_eq!(throttle.claim(now_ms), None, "nobody else while it is about to");
    throttle.sent(now_ms, 1000);
    assert_eq!(throttle.claim(now_ms + 300), Some(700), "the next one when the second is over");
    assert_eq!(throttle.claim(now_ms + 900), None);
    assert_eq!(throttle.claim(now_ms + 60_000), Some(0), "a sender that never sent is not waited for");
    throttle.sent(now_ms + 60_000, 1000);
    assert!(throttle.claim(now_ms).is_some_and(|delay_ms| delay_ms <= 1000), "the clock went back");
    throttle.sent(now_ms, 20_000);
    assert_eq!(throttle.claim(now_ms + 1_000), Some(19_000), "as it is set");
    assert_eq!(throttle.claim(now_ms + 24_999), None, "the sender has its time");
}

/// Anything that can be counted.
fn event() -> impl Strategy<Value = Counters> {
    let status = |entity: Entity| proptest::option::of(proptest::sample::select(entity.statuses()));
    let moved = proptest::sample::select(vec![Entity::Key, Entity::Payment])
        .prop_flat_map(move |entity| (Just(entity), status(entity), status(entity)));
    prop_oneof![
        (proptest::sample::select(vec!["/", "/payments"]), 100_u16..600).prop_map(|(route, status)| {
            let mut counters = Counters::new();
            counters.request(route, "GET", status, "shown");
            counters
        }),
        (0_u64..100_000).prop_map(|ms| {
            let mut counters = Counters::new();
            counters.provider_call("stripe", "charge", "charged", ms);
            counters
        }),
        moved.prop_map(|(entity, from, to)| {
            let mut counters = Counters::new();
            counters.moved(entity, from, to);
            counters
        }),
    ]
}

fn sum<'a>(all: impl IntoIterator<Item = &'a Counters>) -> Counters {
    let mut sum = Counters::new();
    all.into_iter().for_each(|counters| sum.merge(counters.clone()));
    sum
}

proptest! {
    #[test]
    fn shards_add_up_to_the_same_however_the_counts_were_spread(
        events in proptest::collection::vec((event(), 0_usize..3), 0..40),
    ) {
        let at_once = sum(events.iter().map(|(event, _)| event));
        let shard = |number| sum(events.iter().filter(|(_, at)| *at == number).map(|(event, _)| event));
        // Each goes to its shard and back as rows, through JSON.
        let carried = [2, 0, 1].map(|number| {
            let json = serde_json::to_string(&shard(number).rows()).unwrap();
            Counters::from_rows(serde_json::from_str::<Vec<Row>>(&json).unwrap())
        });
        prop_assert_eq!(exposition(sum(&carried)), exposition(at_once.clone()));
        prop_assert_eq!(stats(&sum(&carried).into(), &[], 0), stats(&at_once.into(), &[], 0));
    }
}
