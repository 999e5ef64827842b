//! Webhooks: the events that providers record, sent to the merchant.
//!
//! 1. [`Webhooks::enqueue`] reads on from its cursor and makes a delivery of each event, or two of them, at the time that the mode says;
//! 2. [`Webhooks::due`] names the deliveries whose time has come, in the order in which they are sent;
//! 3. [`Webhooks::prepare`] makes the signed request of one, and [`record_attempt`] writes down what came of it: delivered by any 2xx, else
//!    tried again with growing delays, until three days after the event.
//!
//! What the object owes: one delivery is sent at a time, each step is one transaction, and what a reset has removed is not sent. A failing
//! delivery holds no other one up. All times are the simulator's clock, but for the time in a signature: the merchant compares that with
//! its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Outcome;
use crate::http::Reply;
use crate::ids::{self, Ids};
use crate::provider::{EventSource, Outgoing, Providers};
use crate::store::{Kind, Query, Row, Store, Stored};

/// The kind of deliveries.
pub const DELIVERY: Kind = Kind("webhook");
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
const MODE_SETTING: &str = "webhook_mode";

/// Whose webhooks go where, by the Worker's settings.
#[derive(Clone)]
pub struct Webhooks {
    /// Whose events are sent.
    pub providers: Providers,
    /// The binding's name or the address, for people. Without one nothing is sent.
    pub destination: Option<String>,
    /// Whether they are sent until the control surface says otherwise.
    pub on: bool,
    /// What they are signed with, by the variable that holds it.
    pub secrets: BTreeMap<&'static str, String>,
}

/// How they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Not at all. What happens meanwhile is never sent, unless by `/_sim/webhooks/resend`.
    Off,
    /// At once, in wanted.
    On,
    /// In order, a while after the event.
    Late,
    /// Each twice.
    Doubled,
    /// What is due together, in an order that the seed decides.
    Shuffled,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ModeSetting {
    mode: Mode,
    delay_ms: i64,
    seed: u64,
}

/// What has become of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
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
    provider: String,
    /// The event's type, or Adyen's code.
    #[serde(rename = "type")]
    event_type: String,
    /// What has become of it.
    #[serde(rename = "standing")]
    pub status: DeliveryStatus,
    created_ms: i64,
    due_ms: Option<i64>,
    /// Sent once, because somebody asked for it.
    by_hand: bool,
    attempts: Vec<Attempt>,
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

/// What `POST /_sim/webhooks` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeRequest {
    mode: Mode,
    delay_ms: Option<i64>,
    #[serde(default)]
    seed: u64,
}

impl Webhooks {
    fn mode(&self, store: &dyn Store) -> Outcome<ModeSetting> {
        if self.destination.is_none() {
            return Ok(ModeSetting { mode: Mode::Off, delay_ms: 0, seed: 0 });
        }
        Ok(match store.setting(MODE_SETTING)? {
            Some(mode) => serde_json::from_str(&mode)?,
            None => ModeSetting { mode: if self.on { Mode::On } else { Mode::Off }, delay_ms: 0, seed: 0 },
        })
    }

    /// Whether any is sent.
    pub fn is_on(&self, store: &dyn Store) -> Outcome<bool> {
        Ok(self.mode(store)?.mode != Mode::Off)
    }

    /// Makes deliveries of what was recorded since the last call.
    pub fn enqueue(&self, store: &mut dyn Store, ids: &mut dyn Ids) -> Outcome<()> {
        let mode = self.mode(store)?;
        if mode.mode == Mode::Off {
            return Ok(());
        }
        let cursor = store.setting(CURSOR)?.and_then(|cursor| cursor.parse().ok());
        let events = self.recorded(store, &|kind| Query {
            after_seq: cursor,
            oldest_first: true,
            ..Query::all(kind)
        })?;
        for (provider, source, event) in &events {
            let copies = if mode.mode == Mode::Doubled { 2 } else { 1 };
            for _ in 0..copies {
                let due_ms = Some(event.created_ms + mode.delay_ms);
                insert(
                    store,
                    &Delivery::of(ids, provider, *source, event, event.created_ms, due_ms, false)?,
                )?;
            }
        }
        if let Some((_, _, last)) = events.last() {
            store.set_setting(CURSOR, last.seq.to_string())?;
        }
        Ok(())
    }

    fn sources(&self) -> impl Iterator<Item = (&'static str, &'static dyn EventSource)> {
        self.providers.iter().filter_map(|provider| Some((provider.name(), provider.events()?)))
    }

    /// The rows of all providers' events, in one order.
    fn recorded(&self, store: &dyn Store, query: &dyn Fn(Kind) -> Query) -> Stored<Vec<Recorded>> {
        let mut events = Vec::new();
        for (provider, source) in self.sources() {
            let rows = store.list(&query(source.kind()))?;
            events.extend(rows.into_iter().map(|row| (provider, source, row)));
        }
        events.sort_by_key(|(_, _, row)| row.seq);
        Ok(events)
    }

    /// The ids of the deliveries that are to be sent now, in order.
    pub fn due(&self, store: &dyn Store, now_ms: i64) -> Outcome<Vec<String>> {
        let mode = self.mode(store)?;
        if mode.mode == Mode::Off {
            return Ok(Vec::new());
        }
        let rows = store.due(now_ms)?.into_iter().filter(|row| row.kind == DELIVERY);
        let mut ids: Vec<String> = rows.map(|row| row.id).collect();
        if mode.mode == Mode::Shuffled {
            shuffle(&mut ids, mode.seed);
        }
        Ok(ids)
    }

    /// A delivery of one event, outside of all modes, to be sent now. `None`: there is no such event.
    pub fn resend(
        &self,
        store: &mut dyn Store,
        ids: &mut dyn Ids,
        event_id: &str,
        now_ms: i64,
    ) -> Outcome<Option<String>> {
        for (provider, source) in self.sources() {
            if let Some(event) = store.find(source.kind(), event_id)? {
                let delivery = Delivery::of(ids, provider, source, &event, now_ms, None, true)?;
                insert(store, &delivery)?;
                return Ok(Some(delivery.id));
            }
        }
        Ok(None)
    }

    /// The request of a delivery. `None`: there is nothing to send any more.
    pub fn prepare(
        &self,
        store: &dyn Store,
        id: &str,
        wall_ms: i64,
    ) -> Outcome<Option<Result<Outgoing, String>>> {
        let delivery = find(store, id)?.filter(|delivery| delivery.status == DeliveryStatus::Waiting);
        let Some(delivery) = delivery else {
            return Ok(None);
        };
        let source = self.providers.named(&delivery.provider).and_then(|provider| provider.events());
        let Some(source) = source else {
            return Ok(None);
        };
        let Some(event) = store.find(source.kind(), &delivery.event_id)? else {
            return Ok(None);
        };
        let body: Value = serde_json::from_str(&event.body)?;
        let at_s = wall_ms.div_euclid(1000);
        if let Some(endpoint) = source.endpoint(store, &body)? {
            let outgoing = source.outgoing(&endpoint.secret, body, at_s).map(|outgoing| Outgoing {
                path: endpoint.path.into(),
                signature: outgoing.signature.or(endpoint.authorization),
                ..outgoing
            });
            return Ok(Some(outgoing));
        }
        let secret = self.secrets.get(source.secret_variable()).map_or("", String::as_str);
        Ok(Some(source.outgoing(secret, body, at_s)))
    }

    /// `GET /_sim/webhooks`, with `event_id=`: how they are sent, and every delivery, oldest first.
    pub fn show(&self, store: &dyn Store, event_id: Option<String>) -> Outcome<Reply> {
        let mode = self.mode(store)?;
        let query = Query { parent: event_id, oldest_first: true, ..Query::all(DELIVERY) };
        let deliveries = store
            .list(&query)?
            .iter()
            .map(|row| serde_json::from_str(&row.body))
            .collect::<Result<Vec<Value>, serde_json::Error>>()?;
        Ok(Reply::json(
            200,
            &json!({
                "mode": mode.mode, "delay_ms": mode.delay_ms, "seed": mode.seed, "destination": self.destination,
                "deliveries": deliveries,
            }),
        ))
    }

    /// `POST /_sim/webhooks`
    pub fn set(&self, store: &mut dyn Store, body: &Value) -> Outcome<Reply> {
        let refuse = |message: &str| Ok(Reply::json(400, &json!({ "error": message })));
        let wanted: ModeRequest = match serde_json::from_value(body.clone()) {
            Ok(wanted) => wanted,
            Err(error) => return refuse(&error.to_string()),
        };
        let delay_ms = wanted.delay_ms.unwrap_or(match wanted.mode {
            Mode::Off | Mode::On | Mode::Doubled => 0,
            Mode::Late => LATE_MS,
            Mode::Shuffled => SHUFFLED_MS,
        });
        if !(0..=MAX_DELAY_MS).contains(&delay_ms) {
            return refuse("delay_ms must be 0 to 604800000, a week");
        }
        if self.destination.is_none() && wanted.mode != Mode::Off {
            return refuse("there is nowhere to send webhooks to: bind MERCHANT or set WEBHOOK_URL");
        }
        if !self.is_on(store)? {
            // What happened while they were off is not sent.
            let newest = self.recorded(store, &|kind| Query { limit: 1, ..Query::all(kind) })?;
            let cursor = newest.last().map_or(0, |(_, _, row)| row.seq);
            store.set_setting(CURSOR, cursor.to_string())?;
        }
        if wanted.mode == Mode::Off {
            drop_waiting(store)?;
        }
        let mode = ModeSetting { mode: wanted.mode, delay_ms, seed: wanted.seed };
        store.set_setting(MODE_SETTING, serde_json::to_string(&mode)?)?;
        self.show(store, None)
    }
}

/// An event, with the name of its provider and how that sends it.
type Recorded = (&'static str, &'static dyn EventSource, Row);

impl Delivery {
    fn of(
        ids: &mut dyn Ids,
        provider: &str,
        source: &dyn EventSource,
        event: &Row,
        now_ms: i64,
        due_ms: Option<i64>,
        by_hand: bool,
    ) -> Outcome<Self> {
        let body: Value = serde_json::from_str(&event.body)?;
        Ok(Delivery {
            id: ids::with_prefix(ids, "wh_"),
            event_id: event.id.clone(),
            provider: provider.to_owned(),
            event_type: body.get(source.type_field()).and_then(Value::as_str).unwrap_or_default().to_owned(),
            status: DeliveryStatus::Waiting,
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
        kind: DELIVERY.0.to_owned(),
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
    Ok(store.replace(DELIVERY, &delivery.id, body, delivery.due_ms)?)
}

/// Fisher and Yates, by a generator that the seed starts: the same number of deliveries is always put in the same wanted.
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

/// Writes down what came of a try. `None`: a reset has removed the delivery meanwhile.
pub fn record_attempt(
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
        delivery.status = DeliveryStatus::Delivered;
    } else if delivery.status == DeliveryStatus::Waiting {
        let again_ms = now_ms + RETRIED_AFTER_MS.get(failures).copied().unwrap_or(12 * HOUR_MS);
        if delivery.by_hand || again_ms > delivery.created_ms + TRIED_FOR_MS {
            delivery.status = DeliveryStatus::GivenUp;
        } else {
            delivery.due_ms = Some(again_ms);
        }
    }
    save(store, &delivery)?;
    Ok(Some(delivery))
}

fn find(store: &dyn Store, id: &str) -> Outcome<Option<Delivery>> {
    match store.find(DELIVERY, id)? {
        Some(row) => Ok(Some(serde_json::from_str(&row.body)?)),
        None => Ok(None),
    }
}

fn drop_waiting(store: &mut dyn Store) -> Outcome<()> {
    for row in store.due(EVER_MS)?.iter().filter(|row| row.kind == DELIVERY) {
        let mut delivery: Delivery = serde_json::from_str(&row.body)?;
        delivery.status = DeliveryStatus::Dropped;
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
