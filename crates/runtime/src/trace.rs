//! The spans of this isolate: begun with the runtime's clock and randomness, kept in memory, and sent to the collector after an answer, if
//! one is set. Nothing waits for it, and nothing depends on it: what cannot be sent in time is lost, and the log says so.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use worker::{Delay, Env};

use crate::http_client::{OutboundRequest, fetch};
use crate::log::log;
use crate::{now_ms, random};
use once::trace::TraceContext;
use serde_json::Value;
use web::http::Request;
use web::trace::{Collector, FreshIds, Kind, Pending, RequestTrace, Span, encode};

/// How long the first span waits for those that end soon after: the work that goes on after an answer.
const LINGER: Duration = Duration::from_millis(500);
/// How long the collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often one sender goes on with what came meanwhile.
const SENDS_MAX: u32 = 4;
/// How long the claim of a sender holds, in ms: as long as it can take.
const PATIENCE_MS: u64 = 25_000;
/// For how long after an error the next one is left out of the log, in ms.
const QUIET_MS: u64 = 60_000;

thread_local! {
    static COLLECTOR: RefCell<Option<Rc<Collector>>> = const { RefCell::new(None) };
    static PENDING: RefCell<Pending> = const { RefCell::new(Pending::new()) };
    static COMPLAINED_AT_MS: Cell<u64> = const { Cell::new(0) };
}

/// From here on the spans of this isolate go there, or nowhere.
pub fn send_to(collector: Option<Collector>) {
    COLLECTOR.set(collector.map(Rc::new));
}

fn collector() -> Option<Rc<Collector>> {
    COLLECTOR.with_borrow(Clone::clone)
}

/// The trace of a request: the caller's, or a new one where there is a collector.
pub fn of(request: &Request) -> Option<RequestTrace> {
    let (collector, traceparent) = (collector(), request.header("traceparent"));
    if collector.is_none() && traceparent.is_none() {
        return None;
    }
    let fresh = FreshIds { trace: random::bytes().ok()?, span: random::bytes().ok()? };
    RequestTrace::of(traceparent, request.header("tracestate"), fresh, collector.as_deref())
}

/// A span that begins now, as part of another one, if there is that.
pub fn begin(parent: Option<TraceContext>, name: impl Into<String>, kind: Kind) -> Option<Span> {
    Span::child(parent?, random::bytes().ok()?, name, kind, now_ms())
}

/// A span has ended.
pub fn end(span: Option<Span>) {
    if let Some(span) = span {
        record(Span { ended_at_ms: now_ms(), ..span });
    }
}

/// The same, of one that says itself when it ended.
pub fn record(span: Span) {
    if collector().is_some() {
        PENDING.with_borrow_mut(|pending| pending.add(span));
    }
}

/// The fields by which a line of the log is found by its trace.
pub fn fields(context: Option<TraceContext>) -> impl Iterator<Item = (&'static str, Value)> {
    let fields = context.map(|context| {
        [("trace_id", context.trace_id_hex().into()), ("span_id", context.span_id_hex().into())]
    });
    fields.into_iter().flatten()
}

/// Sends what waits, after an answer; `None` if there is nothing to send, or somebody is about to.
pub fn flush(env: &Env) -> Option<impl Future<Output = ()> + 'static> {
    let collector = collector()?;
    PENDING.with_borrow_mut(|pending| pending.claim(now_ms(), PATIENCE_MS)).then_some(())?;
    let env = env.clone();
    Some(async move {
        for sends in 1..=SENDS_MAX {
            Delay::from(LINGER).await;
            let (spans, lost) = PENDING.with_borrow_mut(Pending::take);
            if let Err(error) = send(&env, &collector, &spans, lost).await {
                complain(&error, spans.len());
            }
            if PENDING.with_borrow_mut(|pending| pending.release(sends < SENDS_MAX)) {
                break;
            }
        }
    })
}

/// Once: a message that may have come is not sent again.
async fn send(env: &Env, collector: &Collector, spans: &[Span], lost: u64) -> Result<(), String> {
    let body = encode(spans, collector, lost);
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(collector.headers.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let sent = OutboundRequest { method: "POST", url: collector.url.clone(), headers, body: Some(&body) };
    let (response, _) = fetch(env, None, &sent, TIMEOUT).await?;
    match response.status_code() {
        200..300 => Ok(()),
        status => Err(format!("the collector answered {status}")),
    }
}

fn complain(error: &str, spans: usize) {
    let now_ms = now_ms();
    if now_ms.abs_diff(COMPLAINED_AT_MS.get()) >= QUIET_MS {
        COMPLAINED_AT_MS.set(now_ms);
        log("warn", &[("event", "spans_lost".into()), ("spans", spans.into()), ("error", error.into())]);
    }
}
