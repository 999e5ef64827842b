//! The Durable Object that holds the whole account, and plays the faults.
//!
//! Outcomes of a request: a reply; or, by [`CUT_HEADER`], the order to the entry to cut the connection. Each step is one `transactionSync`.
//! Between the steps a request may wait, and others run meanwhile: what lives over a wait is a key's claim and nothing else.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::select;
use wasm_bindgen::prelude::*;
use worker::{Delay, DurableObject, Env, Headers, Request, Response, Result, State, durable_object};

use crate::api;
use crate::control;
use crate::faults::{Does, Plan};
use crate::http::{self, Reply};
use crate::idempotency::InFlight;
use crate::ids::Ids;
use crate::provider::Provider;
use crate::sql::Sql;
use crate::store::Store;

/// On an answer of the object: cut the connection instead of answering.
pub const CUT_HEADER: &str = "x-simulator-cut";

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
}

impl DurableObject for Account {
    fn new(state: State, env: Env) -> Self {
        let public_origin = env.var("PUBLIC_ORIGIN").map(|origin| origin.to_string()).unwrap_or_default();
        let latency_ms = env.var("LATENCY_MS").ok().and_then(|ms| ms.to_string().parse().ok()).unwrap_or(0);
        if let Err(error) = Sql::new(&state).migrate() {
            worker::console_error!("the schema could not be made: {}", error.0);
        }
        Account {
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
        if Provider::of_path(&request.path).is_none() {
            let reply = self.transaction(|store| control::answer(store, &mut Random, wall_ms(), &request));
            if request.method == "POST" && request.path == "/_sim/reset" {
                self.in_flight.clear();
                self.epoch.set(self.epoch.get() + 1);
                self.let_go();
            }
            if request.method == "DELETE" && request.path == "/_sim/faults" {
                self.let_go();
            }
            return reply.map_or_else(|error| Response::error(error, 500), respond);
        }
        self.play(&request).await
    }
}

impl Account {
    /// One API request, with whatever fault is armed for it.
    async fn play(&self, request: &http::Request) -> Result<Response> {
        let epoch = self.epoch.get();
        let arrived = self.transaction(|store| {
            let now_ms = now_ms(store);
            api::arrive(store, &mut Random, now_ms, request).map(Ok).map_err(|error| Box::new(Err(error.0)))
        });
        let (request_id, fault) = match arrived.flatten() {
            Ok(arrival) => arrival,
            Err(error) => return respond(api::broken(request, "req_broken", wall_ms(), &error)),
        };
        let undisturbed = Plan::undisturbed(self.latency_ms);
        let plan = fault.map_or(undisturbed, |pending| pending.fault.plan(pending.delay_ms));

        let reply = match &plan.does {
            Does::Nothing => None,
            Does::Refuse(refusal) => Some(api::refuse(request, &request_id, self.now_ms(), *refusal)),
            Does::Execute | Does::ExecuteThenFail => {
                match self
                    .run(request, &request_id, plan.before_ms, plan.does == Does::ExecuteThenFail, epoch)
                    .await
                {
                    Some(reply) => Some(reply),
                    None => return cut(),
                }
            }
        };
        self.wait(plan.after_ms).await;
        match reply {
            Some(reply) if plan.answers => {
                self.note(&request_id, &reply);
                respond(reply)
            }
            _ => cut(),
        }
    }

    /// Admits and executes, with a wait in between during which the key is in use. `None`: everything was reset meanwhile.
    async fn run(
        &self,
        request: &http::Request,
        request_id: &str,
        before_ms: u64,
        then_fail: bool,
        epoch: u64,
    ) -> Option<Reply> {
        let admitted = self.transaction(|store| {
            let now_ms = now_ms(store);
            Ok(api::admit(store, &self.in_flight, now_ms, request, request_id))
        });
        let admitted = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(reply)) => return Some(*reply),
            Err(error) => return Some(api::broken(request, request_id, self.now_ms(), &error)),
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
            api::execute(store, &mut Random, now_ms, request, request_id, &admitted, then_fail)
        });
        Some(executed.unwrap_or_else(|error| api::broken(request, request_id, self.now_ms(), &error)))
    }

    /// Completes the line in the request log, which a reset may have emptied.
    fn note(&self, request_id: &str, reply: &Reply) {
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
    fn let_go(&self) {
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
    i64::try_from(worker::Date::now().as_millis()).unwrap_or(i64::MAX)
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
