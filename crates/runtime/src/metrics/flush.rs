//! Sends what this isolate has counted to the metrics objects, or to Analytics Engine where it is bound, and reads the objects' sums.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::join_all;
use worker::wasm_bindgen::JsValue;
use worker::{Delay, Env, Method, RequestInit, Response};

use super::analytics;
use super::counters::Row;
use super::flush_throttle::{self, FlushThrottle};
use super::reading::{Fold, Reading};
use super::recorder::{drain, provider_call};
use crate::log::log;
use crate::{now_ms, random, setting};
use payments::engine::{LookUp, Outcome, ProviderCall};

/// How often, and how long each time in ms, a reader waits until what this isolate sent is added up.
const LOOKS: u32 = 40;
const LOOK_PAUSE_MS: u64 = 25;

thread_local! {
    static THROTTLE: RefCell<FlushThrottle> = const { RefCell::new(FlushThrottle::new()) };
    /// How many sends are in flight: their counts are no longer here and not there yet.
    static SENDS: Cell<u32> = const { Cell::new(0) };
}

/// The send to make after an answer, for `wait_until`; `None` if one is due in this isolate anyway, or nothing is left to be sent because
/// Analytics Engine has it.
pub fn flush(env: &Env) -> Option<impl Future<Output = ()> + 'static> {
    if analytics::write(env) {
        return None;
    }
    let delay_ms = THROTTLE.with_borrow_mut(|throttle| throttle.claim(now_ms()))?;
    let env = env.clone();
    Some(async move {
        if delay_ms > 0 {
            Delay::from(Duration::from_millis(delay_ms)).await;
        }
        send(&env).await;
    })
}

/// The sums of all isolates, with all that this one has counted.
pub async fn read(env: &Env) -> worker::Result<Reading> {
    send_all(env).await;
    let shards = (0..shards(env)).map(|shard| read_shard(env, shard));
    let mut all = Reading { writes: analytics::is_bound(env), ..Reading::default() };
    for reading in join_all(shards).await {
        all.merge(reading?);
    }
    Ok(all)
}

/// Adds what Analytics Engine has of a window to the sums of the first object. It is added once: if another reader was faster, nothing is.
pub async fn fold(env: &Env, fold: &Fold) -> worker::Result<()> {
    let mut init = RequestInit::new();
    init.with_method(Method::Put).with_body(Some(JsValue::from_str(&serde_json::to_string(fold)?)));
    ask(env, 0, init).await.map(drop)
}

/// Sends all that this isolate has counted, and waits until it has come.
pub async fn send_all(env: &Env) {
    if analytics::write(env) {
        return;
    }
    send(env).await;
    for _ in 0..LOOKS {
        if SENDS.get() == 0 {
            break;
        }
        Delay::from(Duration::from_millis(LOOK_PAUSE_MS)).await;
    }
    // The runtime may have ended a sender: the next reader does not wait for it.
    SENDS.set(0);
}

async fn read_shard(env: &Env, shard: u32) -> worker::Result<Reading> {
    let text = ask(env, shard, RequestInit::new()).await?.text().await?;
    Ok(Reading::from_rows(json_text::from_str::<Vec<Row>>(&text)?))
}

/// Sends what was counted, once. A failed message is not repeated, because it may have been added up.
async fn send(env: &Env) {
    // Where settings are read, a wrong one is refused.
    let interval_ms =
        flush_throttle::interval_ms(|name| setting(env, name)).unwrap_or(flush_throttle::INTERVAL_MS);
    THROTTLE.with_borrow_mut(|throttle| throttle.sent(now_ms(), interval_ms));
    let rows = drain().rows();
    if rows.is_empty() {
        return;
    }
    SENDS.set(SENDS.get().saturating_add(1));
    let added = add(env, &rows).await;
    SENDS.set(SENDS.get().saturating_sub(1));
    if let Err(error) = added {
        let error = error.to_string();
        log("warn", &[("event", "counts_lost".into()), ("rows", rows.len().into()), ("error", error.into())]);
    }
}

async fn add(env: &Env, rows: &[Row]) -> worker::Result<()> {
    let shard = u32::from_be_bytes(random::bytes()?) % shards(env).max(1);
    let mut init = RequestInit::new();
    init.with_method(Method::Post).with_body(Some(JsValue::from_str(&serde_json::to_string(rows)?)));
    ask(env, shard, init).await.map(|_| ())
}

async fn ask(env: &Env, shard: u32, init: RequestInit) -> worker::Result<Response> {
    let stub = env.durable_object("METRICS")?.id_from_name(&format!("shard {shard}"))?.get_stub()?;
    let request = worker::Request::new_with_init("https://metrics/", &init)?;
    let response = stub.fetch_with_request(request).await?;
    match response.status_code() {
        200 => Ok(response),
        status => Err(worker::Error::RustError(format!("the object answered {status}"))),
    }
}

/// An invalid setting is refused where settings are read; counting continues with one shard.
fn shards(env: &Env) -> u32 {
    super::shards::read(setting(env, "METRICS_SHARDS")).unwrap_or(1)
}

/// Counts a send and how long it took.
pub async fn sending(call: &ProviderCall, send: impl Future<Output = Outcome>) -> Outcome {
    let began_at_ms = now_ms();
    let outcome = send.await;
    provider_call(
        call.provider.as_str(),
        call.kind.as_str(),
        outcome.name(),
        now_ms().saturating_sub(began_at_ms),
    );
    outcome
}

/// Counts a page of a look-up and how long it took.
pub async fn looking_up(call: &ProviderCall, look_up: impl Future<Output = LookUp>) -> LookUp {
    let began_at_ms = now_ms();
    let found = look_up.await;
    provider_call(call.provider.as_str(), "look_up", found.name(), now_ms().saturating_sub(began_at_ms));
    found
}
