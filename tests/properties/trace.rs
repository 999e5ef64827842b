//! Trace context: what is read is what was written, whatever else comes is none; and spans are written as a collector reads them.

use once::trace::TraceContext;
use proptest::prelude::*;
use serde_json::{Value, json};
use web::trace::{Collector, FreshIds, Kind, PENDING_MAX, Pending, RequestTrace, Span, encode};

const TRACE: [u8; 16] = [0xab; 16];
const SPAN: [u8; 8] = [0xcd; 8];
const FRESH: FreshIds = FreshIds { trace: [0x12; 16], span: [0x34; 8] };

fn settings(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn collector(ratio: &str) -> Collector {
    let setting = |name: &str| match name {
        "OTLP_ENDPOINT" => Some("https://otlp.example/".to_owned()),
        "OTLP_SAMPLE_RATIO" => Some(ratio.to_owned()),
        _ => None,
    };
    Collector::read(setting, false).unwrap().unwrap()
}

fn span(is_sampled: bool) -> Span {
    let parent = TraceContext::new(TRACE, SPAN, is_sampled).unwrap();
    Span::child(parent, [7; 8], "run payment", Kind::Internal, 1_000).unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_read(trace: [u8; 16], id: [u8; 8], is_sampled: bool) {
        if let Some(context) = TraceContext::new(trace, id, is_sampled) {
            let text = context.to_string();
            prop_assert_eq!(text.len(), 55);
            prop_assert_eq!(TraceContext::parse(&text), Some(context));
            prop_assert_eq!(context.is_sampled(), is_sampled);
            prop_assert_eq!(TraceContext::parse(&text.to_uppercase()).is_some(), text == text.to_uppercase());
        }
    }

    #[test]
    fn what_is_read_is_written_alike(text in ".{0,70}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,9})?") {
        if let Some(context) = TraceContext::parse(&text) {
            let written = context.to_string();
            prop_assert_eq!(&written[2..53], &text[2..53]);
            prop_assert!(!text.starts_with("ff"));
        }
    }

    #[test]
    fn any_headers_are_read_without_failing(parent in ".{0,60}", state in "[ -~]{0,700}") {
        let read = RequestTrace::of(Some(&parent), Some(&state), FRESH, None);
        prop_assert_eq!(read.is_some(), TraceContext::parse(parent.trim()).is_some());
    }

    #[test]
    fn a_trace_is_recorded_by_its_id_alone(trace: [u8; 16], ratio in 0.0..1.0f64) {
        let (some, more) = (collector(&ratio.to_string()), collector(&((ratio + 1.0) / 2.0).to_string()));
        prop_assert!(collector("1").samples(&trace) && !collector("0").samples(&trace));
        prop_assert!(!some.samples(&trace) || more.samples(&trace), "more are recorded, not others");
    }
}

#[test]
fn one_trace_in_ten_is_recorded_at_a_ratio_of_a_tenth() {
    let tenth = collector("0.1");
    let ids = (0..10_000u64).map(|n| {
        let mut trace = TRACE;
        trace[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        trace
    });
    let recorded = ids.filter(|id| tenth.samples(id)).count();
    assert!((900..1100).contains(&recorded), "{recorded}");
}

#[test]
fn the_examples_of_the_standard_are_read() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let good = [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true),
        ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", true),
    ];
    for (text, is_sampled) in good {
        let context = TraceContext::parse(text).unwrap();
        assert_eq!((context.trace_id_hex().as_str(), context.is_sampled()), (trace, is_sampled), "{text}");
        assert_eq!(context.span([1; 8]).unwrap().trace_id_hex(), trace);
    }
    let bad = [
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
    ];
    for text in bad {
        assert_eq!(TraceContext::parse(text), None, "{text}");
    }
    assert_eq!(TraceContext::new(TRACE, [0; 8], true), None);
    assert_eq!(TraceContext::new(TRACE, SPAN, true).unwrap().span([0; 8]), None);
}

#[test]
fn a_request_goes_on_with_its_callers_trace_or_begins_one_for_the_collector() {
    let (parent, state) = ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "a=1,b@c=2");
    let all = collector("1");
    for collector in [None, Some(&all)] {
        let trace = RequestTrace::of(Some(parent), Some(state), FRESH, collector).unwrap();
        assert_eq!(
            trace.context.to_string(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-3434343434343434-00",
            "the caller has decided that it is not recorded"
        );
        let span = trace.span("POST", "/payments", 5, 7);
        assert_eq!(span.parent, Some([0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]));
        assert_eq!((span.name.as_str(), span.state.as_deref()), ("POST /payments", Some(state)));
    }
    for (parent, state) in [(None, None), (Some("nonsense"), Some(state))] {
        assert_eq!(RequestTrace::of(parent, state, FRESH, None), None);
        let trace = RequestTrace::of(parent, state, FRESH, Some(&all)).unwrap();
        assert_eq!(trace.context, TraceContext::new(FRESH.trace, FRESH.span, true).unwrap());
        let span = trace.span("GET", "none", 5, 7);
        assert_eq!((span.parent, span.state), (None, None));
        let trace = RequestTrace::of(parent, state, FRESH, Some(&collector("0"))).unwrap();
        assert!(!trace.context.is_sampled());
    }
}

#[test]
fn a_tracestate_is_bounded_and_kept_whole_or_not_at_all() {
    let parent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let kept = |state: &str| {
        let trace = RequestTrace::of(parent, Some(state), FRESH, None).unwrap();
        trace.span("GET", "none", 5, 7).state
    };
    let many = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
    for good in
        ["a=1", "a=1, b=2", "a=1,,b=2", "tenant@vendor=x y", &many(32), &format!("k={}", "v".repeat(256))]
    {
        assert_eq!(kept(good).as_deref(), Some(good));
    }
    let long = format!("a={0},b={0},c={0}", "v".repeat(200));
    for bad in [
        "",
        ",",
        "a",
        "=1",
        "A=1",
        "a=",
        "a=b=c",
        "a=\u{e9}",
        "a=1\n",
        &many(33),
        &format!("k={}", "v".repeat(257)),
        &long,
    ] {
        assert_eq!(kept(bad.trim_end_matches('\r')), (bad == "a=1\n").then(|| "a=1".to_owned()), "{bad}");
    }
}

#[test]
fn a_span_is_written_as_otlp_has_it() {
    let mut span = span(true);
    span.set("paid_once.attempt", 2);
    span.set("paid_once.resumed", true);
    span.answered(402);
    span.asks("http://127.0.0.1:9/v1/secret?key=1");
    span.link(TraceContext::new([5; 16], [6; 8], true));
    span.link(Some(span.context));
    span.ended_at_ms = 900;
    let text = encode(&[span], &collector("1"), 3);
    let body: Value = serde_json::from_str(&text).unwrap();
    let attribute = |name: &str, value: Value| json!({ "key": name, "value": value });
    let resource = body.pointer("/resourceSpans/0/resource/attributes").unwrap();
    let lost = attribute("paid_once.spans_lost", json!({ "intValue": "3" }));
    assert_eq!(resource[0], attribute("service.name", json!({ "stringValue": "paid-once" })));
    assert!(resource.as_array().unwrap().contains(&lost));
    let expected = json!({
        "traceId": "abababababababababababababababab",
        "spanId": "0707070707070707",
        "parentSpanId": "cdcdcdcdcdcdcdcd",
        "flags": 1,
        "name": "run payment",
        "kind": 1,
        "startTimeUnixNano": "1000000000",
        "endTimeUnixNano": "1000000000",
        "attributes": [
            attribute("paid_once.attempt", json!({ "intValue": "2" })),
            attribute("paid_once.resumed", json!({ "boolValue": true })),
            attribute("http.response.status_code", json!({ "intValue": "402" })),
            attribute("error.type", json!({ "stringValue": "402" })),
            attribute("server.address", json!({ "stringValue": "127.0.0.1" })),
            attribute("server.port", json!({ "intValue": "9" })),
        ],
        "status": { "code": 2 },
        "links": [{ "traceId": "05".repeat(16), "spanId": "06".repeat(8), "flags": 1 }],
    });
    assert_eq!(body.pointer("/resourceSpans/0/scopeSpans/0/spans"), Some(&json!([expected])));
    assert!(!text.contains("secret"));
}

#[test]
fn spans_wait_up_to_a_number_and_for_one_sender_at_a_time() {
    let mut pending = Pending::new();
    assert!(!pending.claim(1_000, 100), "nothing waits");
    pending.add(span(false));
    assert!(!pending.claim(1_000, 100), "what is not recorded is not kept");
    for _ in 0..PENDING_MAX + 2 {
        pending.add(span(true));
    }
    assert!(pending.claim(1_000, 100));
    assert!(!pending.claim(1_050, 100), "somebody is about to send");
    let (spans, lost) = pending.take();
    assert_eq!((spans.len(), lost), (PENDING_MAX, 2));
    assert_eq!(pending.take(), (Vec::new(), 0));
    pending.add(span(true));
    assert!(!pending.release(true), "the sender goes on");
    assert!(!pending.claim(1_060, 100));
    assert!(pending.release(false) && pending.claim(1_060, 100), "it has sent often enough");
    assert!(pending.claim(1_161, 100), "a sender that was ended holds up nobody for long");
    assert!(pending.claim(10, 100), "nor does a clock that went back");
}

#[test]
fn a_wrong_setting_is_told_and_no_secret_is_shown() {
    assert_eq!(Collector::read(settings(&[]), false), Ok(None));
    let read = Collector::read(
        settings(&[
            ("OTLP_ENDPOINT", "https://o.example/otlp/"),
            ("OTLP_HEADERS", "Authorization=Bearer%20k,x=1"),
        ]),
        false,
    );
    let collector = read.unwrap().unwrap();
    assert_eq!(collector.url, "https://o.example/otlp/v1/traces");
    let headers =
        [("authorization", "Bearer k"), ("x", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(collector.headers, headers);
    assert!(!format!("{collector:?}").contains("Bearer"));
    assert!(Collector::read(settings(&[("OTLP_ENDPOINT", "http://127.0.0.1:4318")]), true).is_ok());
    let wrong: [(&'static [(&str, &str)], &str); 10] = [
        (&[("OTLP_ENDPOINT", "http://o.example")], "OTLP_ENDPOINT must"),
        (&[("OTLP_ENDPOINT", "o.example")], "OTLP_ENDPOINT must"),
        (&[("OTLP_ENDPOINT", "https://")], "OTLP_ENDPOINT must"),
        (&[("OTLP_ENDPOINT", "https://key@o.example")], "OTLP_ENDPOINT must"),
        (&[("OTLP_HEADERS", "a=SECRET")], "OTLP_HEADERS is set without"),
        (&[("OTLP_SAMPLE_RATIO", "1")], "OTLP_SAMPLE_RATIO is set without"),
        (&[("OTLP_ENDPOINT", "https://o.example"), ("OTLP_HEADERS", "SECRET")], "OTLP_HEADERS must"),
        (&[("OTLP_ENDPOINT", "https://o.example"), ("OTLP_HEADERS", "a=%0ASECRET")], "OTLP_HEADERS must"),
        (&[("OTLP_ENDPOINT", "https://o.example"), ("OTLP_SAMPLE_RATIO", "1.5")], "OTLP_SAMPLE_RATIO must"),
        (&[("OTLP_ENDPOINT", "https://o.example"), ("OTLP_SAMPLE_RATIO", "NaN")], "OTLP_SAMPLE_RATIO must"),
    ];
    for (pairs, expected) in wrong {
        let error = Collector::read(settings(pairs), false).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains("SECRET"), "{error}");
    }
}
