//! The way to the objects that add up: sends what this isolate has counted, and reads what all have.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::join_all;
use worker::wasm_bindgen::JsValue;
use worker::{Date, Delay, Env, Method, RequestInit, Response};

use super::pace::Pace;
use super::tally::{Row, Tally};
use super::{provider_call, take};
use crate::config::{Config, setting};
use crate::flows::engine::{LookUp, Outcome, ProviderCall};
use crate::log::log;
use crate::random;

/// How often, and how long each time, in ms, whoever reads waits for what this isolate has sent to be added up.
const LOOKS: u32 = 40;
const LOOK_PAUSE_MS: u64 = 25;

thread_local! {
    static PACE: RefCell<Pace> = const { RefCell::new(Pace::new()) };
    /// How many sends are on their way: what they carry is neither here any more nor there yet.
    static SENDS: Cell<u32> = const { Cell::new(0) };
}

/// What is left to do after an answer, if nobody else in this isolate is about to do it: `wait_until` takes it.
pub fn flush(env: &Env) -> Option<impl Future<Output = ()> + 'static> {
    let delay_ms = PACE.with_borrow_mut(|pace| pace.claim(now_ms()))?;
    let env = env.clone();
    Some(async move {
        if delay_ms > 0 {
            Delay::from(Duration::from_millis(delay_ms)).await;
        }
        send(&env).await;
    })
}

/// What all isolates have sent, and this one has counted.
pub async fn read(env: &Env) -> worker::Result<Tally> {
    send(env).await;
    for _ in 0..LOOKS {
        if SENDS.get() == 0 {
            break;
        }
        Delay::from(Duration::from_millis(LOOK_PAUSE_MS)).await;
    }
    // The runtime may have ended whoever sends: the next reader does not wait for that.
    SENDS.set(0);
    let shards = (0..shards(env)).map(|shard| read_shard(env, shard));
    let mut all = Tally::new();
    for tally in join_all(shards).await {
        all.merge(tally?);
    }
    Ok(all)
}

async fn read_shard(env: &Env, shard: u32) -> worker::Result<Tally> {
    let rows: Vec<Row> = ask(env, shard, RequestInit::new()).await?.json().await?;
    Ok(Tally::from_rows(rows))
}

/// Sends what was counted, once: whether a message that failed was added up, nobody knows.
async fn send(env: &Env) {
    PACE.with_borrow_mut(|pace| pace.sent(now_ms()));
    let rows = take().rows();
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

/// A setting that cannot be is refused where the settings are read; it must not stop the counting of that.
fn shards(env: &Env) -> u32 {
    Config::metrics_shards(setting(env, "METRICS_SHARDS")).unwrap_or(1)
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

fn now_ms() -> u64 {
    Date::now().as_millis()
}
