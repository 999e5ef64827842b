//! The Durable Object that holds the whole account, plays the faults, and sends the webhooks.
//!
//! Outcomes of a request: a reply; or, by [`CUT_HEADER`], the order to the entry to cut the connection. Each step is one `transactionSync`.
//! Between the steps a request may wait, and others run meanwhile: what lives over a wait is a key's claim and nothing else.
//!
//! Webhooks are sent by the alarm, which every change sets, so that no request ever waits for one; and by `POST /_sim/webhooks/flush`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::select;
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;
use worker::{Delay, DurableObject, Env, Headers, Request, Response, Result, State, durable_object};

use crate::api::{self, Incoming};
use crate::control;
use crate::failure::Outcome;
use crate::fault::{Answer, Effect, Plan};
use crate::http::{self, Reply};
use crate::idempotency::InFlight;
use crate::ids::Ids;
use crate::provider::{Provider, tick};
use crate::registry::PROVIDERS;
use crate::shell::sql::Sql;
use crate::shell::webhook_sender::WebhookSender;
use crate::store::Store;
use crate::webhooks;

/// On an answer of the object: cut the connection instead of answering.
pub const CUT_HEADER: &str = "x-simulator-cut";

/// Webhooks that follow from webhooks: after so many rounds the rest waits for the next alarm.
const MAX_ROUNDS: usize = 100;

/// When the alarm comes again after the simulator itself has failed.
const AFTER_FAILURE_MS: i64 = 60_000;

#[wasm_bindgen]
extern "C" {
    type TransactionalStorage;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction_sync(
        this: &TransactionalStorage,
        body: &mut dyn FnMut() -> std::result::Result<(), JsValue>,
    ) -> std::result::Result<(), JsValue>;
}

/// The account.
#[durable_object]
pub struct Account {
    state: State,
    in_flight: InFlight,
    /// Counts resets: a request that waited over one must not write into the new world.
    epoch: Cell<u64>,
    /// The requests that a fault holds, each with what lets it go.
    held: RefCell<Vec<oneshot::Sender<()>>>,
    public_origin: String,
    /// `LATENCY_MS`: how long an answer takes that no fault disturbs.
    latency_ms: u64,
    sender: WebhookSender,
}

impl DurableObject for Account {
    fn new(state: State, env: Env) -> Self {
        let public_origin = env.var("PUBLIC_ORIGIN").map(|origin| origin.to_string()).unwrap_or_default();
        let latency_ms = env.var("LATENCY_MS").ok().and_then(|ms| ms.to_string().parse().ok()).unwrap_or(0);
        if let Err(error) = Sql::new(&state).migrate() {
            worker::console_error!("the schema could not be made: {}", error.0);
        }
        Account {
            sender: WebhookSender::new(&env),
            state,
            in_flight: InFlight::default(),
            epoch: Cell::new(0),
            held: RefCell::default(),
            public_origin,
            latency_ms,
        }
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let request = self.read(&mut request).await?;
        match PROVIDERS.of_path(&request.path) {
            Some(provider) => self.play(provider, &request).await,
            None => self.control(&request).await,
        }
    }

    async fn alarm(&self) -> Result<Response> {
        // An alarm that fails is tried a few times and then lost: so it never does.
        let not_before_ms = match self.deliver().await {
            Ok(_) => 0,
            Err(error) => {
                worker::console_error!("webhooks: {error}");
                AFTER_FAILURE_MS
            }
        };
        self.set_alarm(not_before_ms).await;
        Response::empty()
    }
}

impl Account {
    /// What is no provider's: the control surface.
    async fn control(&self, request: &http::Request) -> Result<Response> {
        if request.method == "POST" {
            match request.path.as_str() {
                "/_sim/webhooks/flush" => return respond(self.flush().await),
                "/_sim/webhooks/resend" => return respond(self.resend(request).await),
                _ => {}
            }
        }
        let webhooks = &self.sender.webhooks;
        let reply =
            self.transaction(|store| control::answer(store, &mut Random, wall_ms(), webhooks, request));
        if request.method == "POST" && request.path == "/_sim/reset" {
            self.in_flight.clear();
            self.epoch.set(self.epoch.get() + 1);
            self.release_held();
        }
        if request.method == "DELETE" && request.path == "/_sim/faults" {
            self.release_held();
        }
        self.set_alarm(0).await;
        reply.map_or_else(|error| Response::error(error, 500), respond)
    }

    /// One API request, with whatever fault is armed for it.
    async fn play(&self, provider: &dyn Provider, request: &http::Request) -> Result<Response> {
        let epoch = self.epoch.get();
        let arrived = self.transaction(|store| {
            let now_ms = now_ms(store);
            api::arrive(provider, store, &mut Random, now_ms, request)
                .map(Ok)
                .map_err(|error| Box::new(Err(error.0)))
        });
        let incoming = |id| Incoming { providers: PROVIDERS, provider, request, id };
        let (request_id, fault) = match arrived.flatten() {
            Ok(arrived) => arrived,
            Err(error) => return respond(incoming("req_broken").broken(wall_ms(), &error)),
        };
        let incoming = incoming(&request_id);
        let undisturbed = Plan::undisturbed(self.latency_ms);
        let plan = fault.map_or(undisturbed, |pending| pending.fault.plan(pending.delay_ms));

        let reply = match plan.effect {
            Effect::Nothing => None,
            Effect::Refuse(refusal) => Some(incoming.refuse(self.now_ms(), refusal)),
            effect @ (Effect::Execute | Effect::ExecuteThenFail | Effect::FailMidway) => {
                match self.run(incoming, plan.before_ms, effect, epoch).await {
                    Some(reply) => Some(reply),
                    None => return cut(),
                }
            }
        };
        self.wait(plan.after_ms).await;
        match (plan.answer, reply) {
            (Answer::Cut, _) | (_, None) => cut(),
            (Answer::Unreadable, Some(_)) => {
                respond(Reply::html(200, "<p>Please wait while your connection is checked.</p>".to_owned()))
            }
            (Answer::Given, Some(reply)) => {
                self.log_answer(&request_id, &reply);
                respond(reply)
            }
        }
    }

    /// Admits and executes, with a wait in between during which the key is in use. `None`: everything was reset meanwhile.
    async fn run(&self, incoming: Incoming<'_>, before_ms: u64, effect: Effect, epoch: u64) -> Option<Reply> {
        let admitted = self.transaction(|store| {
            let now_ms = now_ms(store);
            Ok(incoming.admit(store, &self.in_flight, now_ms))
        });
        let admitted = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(reply)) => return Some(*reply),
            Err(error) => return Some(incoming.broken(self.now_ms(), &error)),
        };
        if before_ms > 0 {
            let _claim = admitted.key.as_ref().map(|key| self.in_flight.claim(key));
            self.wait(before_ms).await;
            if self.epoch.get() != epoch {
                return None;
            }
        }
        let executed = self.transaction(|store| {
            let now_ms = now_ms(store);
            incoming.execute(store, &mut Random, now_ms, &admitted, effect)
        });
        self.set_alarm(0).await;
        Some(executed.unwrap_or_else(|error| incoming.broken(self.now_ms(), &error)))
    }

    /// Wakes the object when the next webhook is to be sent, or when time alone changes what one has to tell. It never fails a request.
    async fn set_alarm(&self, not_before_ms: i64) {
        let webhooks = &self.sender.webhooks;
        if webhooks.destination.is_none() {
            return;
        }
        let due_in_ms = self.step(|store| {
            webhooks.enqueue(store, &mut Random)?;
            if !webhooks.is_on(store)? {
                return Ok(None);
            }
            Ok(store.next_due_ms()?.map(|due_ms| due_ms - now_ms(store)))
        });
        let set = match due_in_ms {
            Ok(None) => Ok(()),
            Ok(Some(due_in_ms)) => {
                let set = self.state.storage().set_alarm(due_in_ms.max(not_before_ms)).await;
                set.map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = set {
            worker::console_error!("the alarm of the webhooks: {error}");
        }
    }

    /// Sends all webhooks that are due, and those that follow from them; gives what was sent.
    async fn deliver(&self) -> std::result::Result<Vec<Value>, String> {
        let _turn = self.sender.turn().await;
        let webhooks = &self.sender.webhooks;
        let mut sent = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let batch = self.step(|store| {
                if !webhooks.is_on(store)? {
                    return Ok(Vec::new());
                }
                let now_ms = now_ms(store);
                tick(store, &mut Random, PROVIDERS, now_ms)?;
                webhooks.enqueue(store, &mut Random)?;
                webhooks.due(store, now_ms)
            })?;
            if batch.is_empty() {
                break;
            }
            for id in &batch {
                sent.extend(self.send(id).await?);
            }
        }
        Ok(sent)
    }

    /// Sends one webhook. `None`: there is nothing to send, or a reset came between.
    async fn send(&self, id: &str) -> std::result::Result<Option<Value>, String> {
        let webhooks = &self.sender.webhooks;
        let Some(outgoing) = self.step(|store| webhooks.prepare(store, id, wall_ms()))? else {
            return Ok(None);
        };
        let result = match outgoing {
            Ok(outgoing) => self.sender.post(&outgoing).await,
            Err(error) => Err(error),
        };
        let noted = self.step(|store| {
            let now_ms = now_ms(store);
            webhooks::record_attempt(store, id, now_ms, result)
        })?;
        Ok(noted.map(|delivery| delivery.shown()))
    }

    /// `POST /_sim/webhooks/flush`: answers when all that was due has been sent.
    async fn flush(&self) -> Reply {
        let sent = self.deliver().await;
        self.set_alarm(0).await;
        match sent {
            Ok(sent) => Reply::json(200, &json!({ "sent": sent })),
            Err(error) => Reply::json(500, &json!({ "error": error })),
        }
    }

    /// `POST /_sim/webhooks/resend` with `{"event_id": "…"}`: sends one event once more, whatever the mode.
    async fn resend(&self, request: &http::Request) -> Reply {
        let refuse = |status, error: &str| Reply::json(status, &json!({ "error": error }));
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(event_id) = body.get("event_id").and_then(Value::as_str) else {
            return refuse(400, "send {\"event_id\": \"evt_…\"}");
        };
        if self.sender.webhooks.destination.is_none() {
            return refuse(400, "there is nowhere to send webhooks to: bind MERCHANT or set WEBHOOK_URL");
        }
        let _turn = self.sender.turn().await;
        let made = self.step(|store| {
            let now_ms = now_ms(store);
            self.sender.webhooks.resend(store, &mut Random, event_id, now_ms)
        });
        let sent = match made {
            Ok(None) => return refuse(404, "there is no such event"),
            Ok(Some(id)) => self.send(&id).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(sent) => Reply::json(200, &sent.unwrap_or_default()),
            Err(error) => refuse(500, &error),
        }
    }

    /// [`Account::transaction`] for what has no reply of its own.
    fn step<T>(&self, step: impl FnOnce(&mut Sql) -> Outcome<T>) -> std::result::Result<T, String> {
        let done =
            self.transaction(|store| step(store).map(Ok).map_err(|failure| Box::new(Err(failure.message))));
        done.flatten()
    }

    /// Completes the line in the request log, which a reset may have emptied.
    fn log_answer(&self, request_id: &str, reply: &Reply) {
        let noted = self.transaction(|store| {
            store
                .finish_request(request_id, reply.status, reply.replayed)
                .map(Ok)
                .map_err(|error| Box::new(Err(error.0)))
        });
        if let Err(error) = noted.flatten() {
            worker::console_error!("the request log: {error}");
        }
    }

    /// Runs a step as one unit. An `Err` rolls everything back and gives its content all the same.
    fn transaction<T>(
        &self,
        step: impl FnOnce(&mut Sql) -> std::result::Result<T, Box<T>>,
    ) -> std::result::Result<T, String> {
        let storage = self.state.storage();
        let mut store = Sql::new(&self.state);
        let mut step = Some(step);
        let mut result = None;
        let mut body = || match step.take().map(|step| step(&mut store)) {
            Some(Ok(value)) => {
                result = Some(value);
                Ok(())
            }
            Some(Err(value)) => {
                result = Some(*value);
                Err(JsValue::from_str("rolled back"))
            }
            None => Err(JsValue::from_str("a step runs once")),
        };
        let committed = storage.as_raw().unchecked_ref::<TransactionalStorage>().transaction_sync(&mut body);
        result.ok_or_else(|| format!("transactionSync: {committed:?}"))
    }

    async fn read(&self, request: &mut Request) -> Result<http::Request> {
        let url = request.url()?;
        let headers: BTreeMap<String, String> = request.headers().entries().collect();
        let body = if request.method() == worker::Method::Get { Vec::new() } else { request.bytes().await? };
        let local = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
        let origin = if local {
            Some(url.origin().ascii_serialization())
        } else {
            // Over a binding the host in the address is a name of the caller's own: no browser finds it.
            Some(self.public_origin.clone()).filter(|origin| !origin.is_empty())
        };
        Ok(http::Request {
            method: request.method().to_string(),
            path: url.path().to_owned(),
            query: url.query().unwrap_or_default().to_owned(),
            headers,
            body,
            origin,
        })
    }

    /// Waits as long as a fault says, or until all are let go.
    async fn wait(&self, milliseconds: u64) {
        if milliseconds == 0 {
            return;
        }
        let (sender, released) = oneshot::channel();
        {
            let mut held = self.held.borrow_mut();
            held.retain(|sender| !sender.is_canceled());
            held.push(sender);
        }
        select(Delay::from(Duration::from_millis(milliseconds)), released).await;
    }

    /// Ends every wait now: what was slow runs, what was lost is cut.
    fn release_held(&self) {
        for sender in self.held.take() {
            // One that has ended by itself has nobody to tell.
            let _ = sender.send(());
        }
    }

    fn now_ms(&self) -> i64 {
        now_ms(&Sql::new(&self.state))
    }
}

fn now_ms(store: &Sql) -> i64 {
    wall_ms() + store.clock_offset_ms().unwrap_or(0)
}

fn wall_ms() -> i64 {
    worker::js_sys::Date::now() as i64
}

fn cut() -> Result<Response> {
    let headers = Headers::new();
    headers.set(CUT_HEADER, "1")?;
    Ok(Response::empty()?.with_headers(headers))
}

fn respond(reply: Reply) -> Result<Response> {
    let headers = Headers::new();
    for (name, value) in &reply.headers {
        headers.append(name, value)?;
    }
    Ok(Response::from_bytes(reply.body.into_bytes())?.with_status(reply.status).with_headers(headers))
}

/// The platform's randomness.
struct Random;

impl Ids for Random {
    fn fill(&mut self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            worker::console_error!("no randomness: {error}");
        }
    }
}
