//! Webhooks: what is recorded in `events` and in `adyen::notifications`, sent to the merchant.
//!
//! 1. [`enqueue`] reads on from its cursor and makes a delivery of each event, or two of them, at the time that the mode says;
//! 2. [`due`] names the deliveries whose time has come, in the order in which they are sent;
//! 3. [`prepare`] makes the signed request of one, and [`note`] writes down what came of it: delivered by any 2xx, else tried again with
//!    growing delays, until three days after the event.
//!
//! What the object owes: one delivery is sent at a time, each step is one transaction, and what a reset has removed is not sent. A failing
//! delivery holds no other one up. All times are the simulator's clock, but for the `t` of Stripe's signature: the merchant compares that with
//! its own.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::errors::Outcome;
use crate::http::Reply;
use crate::ids::{self, Ids};
use crate::provider::Provider;
use crate::signing;
use crate::store::{Kind, Query, Row, Store, Stored};

/// How long after an event its delivery is still tried.
const TRIED_FOR_MS: i64 = 3 * 24 * HOUR_MS;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// What is waited after the first, the second, … failure; the last goes on.
const RETRIED_AFTER_MS: [i64; 8] =
    [5_000, 30_000, 2 * MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS];
/// Later than anything; what is larger is no exact number in the database.
const EVER_MS: i64 = (1 << 53) - 1;
/// As much delay as a test can want: a week.
const MAX_DELAY_MS: i64 = 7 * 24 * HOUR_MS;
/// What `late` waits unless told otherwise.
const LATE_MS: i64 = MINUTE_MS;
/// What `shuffled` waits unless told otherwise, so that there is something to shuffle.
const SHUFFLED_MS: i64 = 1_000;

const CURSOR: &str = "webhook_cursor";
const MODE: &str = "webhook_mode";

/// Where webhooks go, by the Worker's settings.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The binding's name or the address, for people. Without one nothing is sent.
    pub destination: Option<String>,
    /// Whether they are sent until the control surface says otherwise.
    pub on: bool,
    /// `whsec_…`
    pub stripe_secret: String,
    /// In hex.
    pub adyen_hmac_key: String,
}

/// How they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Not at all. What happens meanwhile is never sent, unless by `/_sim/webhooks/resend`.
    Off,
    /// At once, in order.
    On,
    /// In order, a while after the event.
    Late,
    /// Each twice.
    Doubled,
    /// What is due together, in an order that the seed decides.
    Shuffled,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Mode {
    mode: Manner,
    delay_ms: i64,
    seed: u64,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// To be sent, or to be sent again.
    Waiting,
    /// Answered with 2xx.
    Delivered,
    /// Tried for three days; or asked for by hand, which is tried once.
    GivenUp,
    /// It waited when webhooks were turned off.
    Dropped,
}

/// One try.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    at_ms: i64,
    /// What the merchant answered; none if there was no answer.
    pub status: Option<u16>,
    /// Why there was none.
    pub error: Option<String>,
}

/// One event on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    id: String,
    /// `evt_…`, or Adyen's `pspReference:EVENTCODE`.
    pub event_id: String,
    provider: Provider,
    /// The event's type, or Adyen's code.
    #[serde(rename = "type")]
    event_type: String,
    /// Where it stands.
    pub standing: Standing,
    created_ms: i64,
    due_ms: Option<i64>,
    /// Sent once, because somebody asked for it.
    by_hand: bool,
    attempts: Vec<Attempt>,
}

/// A request to the merchant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// `/webhooks/stripe` or `/webhooks/adyen`.
    pub path: &'static str,
    /// Besides `Content-Type`.
    pub signature: Option<(&'static str, String)>,
    /// JSON.
    pub body: String,
}

/// Where a webhook goes by `WEBHOOK_URL`: an origin gets `/webhooks/stripe` and `/webhooks/adyen`, an address with a path is the endpoint
/// itself, and `{provider}` in it stands for either.
pub fn address(webhook_url: &str, path: &str) -> String {
    let base = webhook_url.trim_end_matches('/');
    let has_path = base.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?']));
    if !has_path {
        return format!("{base}{path}");
    }
    webhook_url.replace("{provider}", path.trim_start_matches("/webhooks/"))
}

fn mode(store: &dyn Store, settings: &Settings) -> Outcome<Mode> {
    if settings.destination.is_none() {
        return Ok(Mode { mode: Manner::Off, delay_ms: 0, seed: 0 });
    }
    Ok(match store.setting(MODE)? {
        Some(mode) => serde_json::from_str(&mode)?,
        None => Mode { mode: if settings.on { Manner::On } else { Manner::Off }, delay_ms: 0, seed: 0 },
    })
}

/// Whether any is sent.
pub fn is_on(store: &dyn Store, settings: &Settings) -> Outcome<bool> {
    Ok(mode(store, settings)?.mode != Manner::Off)
}

/// Makes deliveries of what was recorded since the last call.
pub fn enqueue(store: &mut dyn Store, ids: &mut dyn Ids, settings: &Settings) -> Outcome<()> {
    let mode = mode(store, settings)?;
    if mode.mode == Manner::Off {
        return Ok(());
    }
    let cursor = store.setting(CURSOR)?.and_then(|cursor| cursor.parse().ok());
    let events =
        recorded(store, &|kind| Query { after_seq: cursor, oldest_first: true, ..Query::all(kind) })?;
    for event in &events {
        let copies = if mode.mode == Manner::Doubled { 2 } else { 1 };
        for _ in 0..copies {
            let due_ms = event.created_ms + mode.delay_ms;
            insert(store, &Delivery::of(ids, event, event.created_ms, Some(due_ms), false)?)?;
        }
    }
    if let Some(last) = events.last() {
        store.set_setting(CURSOR, last.seq.to_string())?;
    }
    Ok(())
}

/// The rows of both providers' events, in one order.
fn recorded(store: &dyn Store, query: &dyn Fn(Kind) -> Query) -> Stored<Vec<Row>> {
    let mut rows = store.list(&query(Kind::Event))?;
    rows.extend(store.list(&query(Kind::AdyenNotification))?);
    rows.sort_by_key(|row| row.seq);
    Ok(rows)
}

impl Delivery {
    fn of(ids: &mut dyn Ids, event: &Row, now_ms: i64, due_ms: Option<i64>, by_hand: bool) -> Outcome<Self> {
        let body: Value = serde_json::from_str(&event.body)?;
        let (provider, name) = match event.kind {
            Kind::AdyenNotification => (Provider::Adyen, "eventCode"),
            _ => (Provider::Stripe, "type"),
        };
        Ok(Delivery {
            id: ids::with_prefix(ids, "wh_"),
            event_id: event.id.clone(),
            provider,
            event_type: body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned(),
            standing: Standing::Waiting,
            created_ms: now_ms,
            due_ms,
            by_hand,
            attempts: Vec::new(),
        })
    }

    /// What became of it, for whoever asked for it to be sent.
    pub fn shown(&self) -> Value {
        let last = self.attempts.last();
        json!({
            "event_id": self.event_id, "provider": self.provider, "type": self.event_type,
            "status": last.and_then(|attempt| attempt.status), "error": last.and_then(|attempt| attempt.error.clone()),
        })
    }
}

fn insert(store: &mut dyn Store, delivery: &Delivery) -> Outcome<()> {
    Ok(store.insert(Row {
        seq: 0,
        kind: Kind::Webhook,
        account: String::new(),
        id: delivery.id.clone(),
        created_ms: delivery.created_ms,
        customer: None,
        parent: Some(delivery.event_id.clone()),
        label: None,
        due_ms: delivery.due_ms,
        idempotency_key: None,
        request_id: "req_webhook".to_owned(),
        body: serde_json::to_string(delivery)?,
    })?)
}

fn save(store: &mut dyn Store, delivery: &Delivery) -> Outcome<()> {
    let body = serde_json::to_string(delivery)?;
    Ok(store.replace(Kind::Webhook, &delivery.id, body, delivery.due_ms)?)
}

/// The ids of the deliveries that are to be sent now, in order.
pub fn due(store: &dyn Store, settings: &Settings, now_ms: i64) -> Outcome<Vec<String>> {
    let mode = mode(store, settings)?;
    if mode.mode == Manner::Off {
        return Ok(Vec::new());
    }
    let rows = store.due(now_ms)?.into_iter().filter(|row| row.kind == Kind::Webhook);
    let mut ids: Vec<String> = rows.map(|row| row.id).collect();
    if mode.mode == Manner::Shuffled {
        shuffle(&mut ids, mode.seed);
    }
    Ok(ids)
}

/// Fisher and Yates, by a generator that the seed starts: the same number of deliveries is always put in the same order.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let below = u64::try_from(last + 1).unwrap_or(1);
        items.swap(last, usize::try_from(state % below).unwrap_or(0));
    }
}

/// A delivery of one event, outside of all modes, to be sent now. `None`: there is no such event.
pub fn by_hand(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    event_id: &str,
    now_ms: i64,
) -> Outcome<Option<String>> {
    let found = match store.find(Kind::Event, event_id)? {
        None => store.find(Kind::AdyenNotification, event_id)?,
        found => found,
    };
    let Some(event) = found else {
        return Ok(None);
    };
    let delivery = Delivery::of(ids, &event, now_ms, None, true)?;
    insert(store, &delivery)?;
    Ok(Some(delivery.id))
}

/// The request of a delivery. `None`: there is nothing to send any more.
pub fn prepare(
    store: &dyn Store,
    settings: &Settings,
    id: &str,
    wall_ms: i64,
) -> Outcome<Option<Result<Outgoing, String>>> {
    let Some(delivery) = find(store, id)?.filter(|delivery| delivery.standing == Standing::Waiting) else {
        return Ok(None);
    };
    let kind = match delivery.provider {
        Provider::Adyen => Kind::AdyenNotification,
        Provider::Stripe | Provider::Resend | Provider::Sms => Kind::Event,
    };
    let Some(event) = store.find(kind, &delivery.event_id)? else {
        return Ok(None);
    };
    let body: Value = serde_json::from_str(&event.body)?;
    Ok(Some(match kind {
        Kind::AdyenNotification => of_adyen(settings, body),
        _ => of_stripe(settings, body, wall_ms.div_euclid(1000)),
    }))
}

fn of_stripe(settings: &Settings, mut event: Value, at_s: i64) -> Result<Outgoing, String> {
    if settings.stripe_secret.is_empty() {
        return Err("STRIPE_WEBHOOK_SECRET is not set".to_owned());
    }
    if let Some(pending) = event.get_mut("pending_webhooks") {
        *pending = json!(1);
    }
    let body = crate::http::render(&event);
    let signature = signing::stripe(&settings.stripe_secret, at_s, &body)
        .ok_or_else(|| "the event could not be signed".to_owned())?;
    Ok(Outgoing { path: "/webhooks/stripe", signature: Some(("Stripe-Signature", signature)), body })
}

fn of_adyen(settings: &Settings, mut item: Value) -> Result<Outgoing, String> {
    let signature = signing::adyen(&settings.adyen_hmac_key, &item)
        .ok_or_else(|| "ADYEN_HMAC_KEY is not set, or is no hex".to_owned())?;
    if let Some(additional) = item.get_mut("additionalData").and_then(Value::as_object_mut) {
        additional.insert("hmacSignature".into(), json!(signature));
    }
    let body = json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] });
    Ok(Outgoing { path: "/webhooks/adyen", signature: None, body: body.to_string() })
}

/// Writes down what came of a try. `None`: a reset has removed the delivery meanwhile.
pub fn note(
    store: &mut dyn Store,
    id: &str,
    now_ms: i64,
    result: Result<u16, String>,
) -> Outcome<Option<Delivery>> {
    let Some(mut delivery) = find(store, id)? else {
        return Ok(None);
    };
    let (status, error) = match result {
        Ok(status) => (Some(status), None),
        Err(error) => (None, Some(error)),
    };
    let failures = delivery.attempts.len();
    delivery.attempts.push(Attempt { at_ms: now_ms, status, error });
    delivery.due_ms = None;
    if status.is_some_and(|status| (200..300).contains(&status)) {
        delivery.standing = Standing::Delivered;
    } else if delivery.standing == Standing::Waiting {
        let again_ms = now_ms + RETRIED_AFTER_MS.get(failures).copied().unwrap_or(12 * HOUR_MS);
        if delivery.by_hand || again_ms > delivery.created_ms + TRIED_FOR_MS {
            delivery.standing = Standing::GivenUp;
        } else {
            delivery.due_ms = Some(again_ms);
        }
    }
    save(store, &delivery)?;
    Ok(Some(delivery))
}

fn find(store: &dyn Store, id: &str) -> Outcome<Option<Delivery>> {
    match store.find(Kind::Webhook, id)? {
        Some(row) => Ok(Some(serde_json::from_str(&row.body)?)),
        None => Ok(None),
    }
}

/// `GET /_sim/webhooks`, with `event_id=`: how they are sent, and every delivery, oldest first.
pub fn show(store: &dyn Store, settings: &Settings, event_id: Option<String>) -> Outcome<Reply> {
    let mode = mode(store, settings)?;
    let query = Query { parent: event_id, oldest_first: true, ..Query::all(Kind::Webhook) };
    let deliveries = store
        .list(&query)?
        .iter()
        .map(|row| serde_json::from_str(&row.body))
        .collect::<Result<Vec<Value>, serde_json::Error>>()?;
    Ok(Reply::json(
        200,
        &json!({
            "mode": mode.mode, "delay_ms": mode.delay_ms, "seed": mode.seed, "destination": settings.destination,
            "deliveries": deliveries,
        }),
    ))
}

/// What `POST /_sim/webhooks` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    mode: Manner,
    delay_ms: Option<i64>,
    #[serde(default)]
    seed: u64,
}

/// `POST /_sim/webhooks`
pub fn set(store: &mut dyn Store, settings: &Settings, body: &Value) -> Outcome<Reply> {
    let refuse = |message: &str| Ok(Reply::json(400, &json!({ "error": message })));
    let order: Order = match serde_json::from_value(body.clone()) {
        Ok(order) => order,
        Err(error) => return refuse(&error.to_string()),
    };
    let delay_ms = order.delay_ms.unwrap_or(match order.mode {
        Manner::Off | Manner::On | Manner::Doubled => 0,
        Manner::Late => LATE_MS,
        Manner::Shuffled => SHUFFLED_MS,
    });
    if !(0..=MAX_DELAY_MS).contains(&delay_ms) {
        return refuse("delay_ms must be 0 to 604800000, a week");
    }
    if settings.destination.is_none() && order.mode != Manner::Off {
        return refuse("there is nowhere to send webhooks to: bind MERCHANT or set WEBHOOK_URL");
    }
    let was_off = !is_on(store, settings)?;
    if was_off {
        // What happened while they were off is not sent.
        let newest = recorded(store, &|kind| Query { limit: 1, ..Query::all(kind) })?;
        let cursor = newest.last().map_or(0, |row| row.seq);
        store.set_setting(CURSOR, cursor.to_string())?;
    }
    if order.mode == Manner::Off {
        drop_waiting(store)?;
    }
    let mode = Mode { mode: order.mode, delay_ms, seed: order.seed };
    store.set_setting(MODE, serde_json::to_string(&mode)?)?;
    show(store, settings, None)
}

fn drop_waiting(store: &mut dyn Store) -> Outcome<()> {
    for row in store.due(EVER_MS)?.iter().filter(|row| row.kind == Kind::Webhook) {
        let mut delivery: Delivery = serde_json::from_str(&row.body)?;
        delivery.standing = Standing::Dropped;
        delivery.due_ms = None;
        save(store, &delivery)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::shuffle;

    #[test]
    fn a_seed_always_gives_the_same_order_and_loses_nothing() {
        let order = |seed| {
            let mut items: Vec<u8> = (0..10).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let mut sorted = order(7);
        assert_ne!(sorted, (0..10).collect::<Vec<u8>>());
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u8>>());
    }
}
