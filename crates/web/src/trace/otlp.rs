//! Spans as [OTLP/HTTP](https://opentelemetry.io/docs/specs/otlp/#otlphttp) takes them, in JSON.

use serde_json::{Value, json};

use super::settings::Collector;
use super::span::Span;
use once::trace::TraceContext;

/// The body of a request to a collector. `lost` spans of these traces were not kept.
pub fn encode(spans: &[Span], collector: &Collector, lost: u64) -> String {
    let mut resource = vec![
        ("service.name", "paid-once".into()),
        ("service.version", env!("CARGO_PKG_VERSION").into()),
        ("cloud.provider", "cloudflare".into()),
        ("deployment.environment.name", collector.environment.into()),
    ];
    if lost > 0 {
        resource.push(("paid_once.spans_lost", lost.into()));
    }
    let scope = json!({ "name": "paid-once", "version": env!("CARGO_PKG_VERSION") });
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&resource) },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
    .to_string()
}

fn span(span: &Span) -> Value {
    let mut value = json!({
        "traceId": span.context.trace_id_hex(),
        "spanId": span.context.span_id_hex(),
        "flags": flags(&span.context),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": nanos(span.began_at_ms),
        // A clock that was set back in between must not make a span of a negative length.
        "endTimeUnixNano": nanos(span.ended_at_ms.max(span.began_at_ms)),
        "attributes": attributes(&span.attributes),
        "status": if span.is_error { json!({ "code": 2 }) } else { json!({}) },
    });
    let links: Vec<Value> = span.links.iter().map(link).collect();
    if let Some(fields) = value.as_object_mut() {
        let parent =
            span.parent.map(|parent| ("parentSpanId", base16ct::lower::encode_string(&parent).into()));
        let state = span.state.as_ref().map(|state| ("traceState", state.as_str().into()));
        let links = (!links.is_empty()).then(|| ("links", links.into()));
        let more = [parent, state, links].into_iter().flatten();
        fields.extend(more.map(|(name, value): (&str, Value)| (name.to_owned(), value)));
    }
    value
}

fn link(context: &TraceContext) -> Value {
    json!({
        "traceId": context.trace_id_hex(),
        "spanId": context.span_id_hex(),
        "flags": flags(context),
    })
}

fn flags(context: &TraceContext) -> u8 {
    u8::from(context.is_sampled())
}

fn nanos(at_ms: u64) -> String {
    u128::from(at_ms).saturating_mul(1_000_000).to_string()
}

fn attributes(attributes: &[(&str, Value)]) -> Vec<Value> {
    let attribute = |(name, value): &(&str, Value)| json!({ "key": name, "value": any_value(value) });
    attributes.iter().map(attribute).collect()
}

fn any_value(value: &Value) -> Value {
    match value {
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if !number.is_f64() => json!({ "intValue": number.to_string() }),
        Value::Number(number) => json!({ "doubleValue": number }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    }
}
