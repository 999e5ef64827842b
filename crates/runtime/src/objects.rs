//! A Worker's objects, as a request finds and asks them.

use std::cell::Cell;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::{Delay, Env, ObjectNamespace, Result, Stub};

use crate::client;
use crate::http_client::{TOO_LONG, within};
use crate::{now_ms, trace};
use messages::gate::GateAsk;
use messages::message::{Answered, ObjectRequest};
use once::id::ObjectId;
use once::trace::TraceContext;
use web::http::{Answer, Request};
use web::trace::Kind;

/// How often an object is asked when its stub fails.
const TRIES: u32 = 3;
/// How much longer an object may take than what it waits for.
const GRACE: Duration = Duration::from_secs(15);
/// The pause before it is asked again; longer each time.
const PAUSE: Duration = Duration::from_millis(50);

/// What an object is asked.
pub trait Question: Serialize {
    /// It is asked once more: a failure that was asked for strikes only once.
    fn again(&mut self) {}

    /// Its name in traces.
    fn name(&self) -> &'static str {
        "ask"
    }
}

impl Question for ObjectRequest {
    fn again(&mut self) {
        if let Self::Run(run) = self {
            run.fault = None;
        }
    }

    fn name(&self) -> &'static str {
        self.name()
    }
}

impl Question for GateAsk {}

/// Where an object is.
#[derive(Clone)]
pub enum ObjectRef {
    /// An API key's or an order's object, found by name.
    Named(String),
    /// A form's or a resource's object, by its own id.
    Id(ObjectId),
}

/// The objects, for one request.
pub struct Objects {
    env: Env,
    binding: &'static str,
    patience: Duration,
    /// How long this request has waited for objects, in ms.
    waited_ms: Cell<u64>,
    /// How much of that the objects waited for the provider, in ms.
    provider_ms: Cell<u64>,
    /// The span of this request.
    trace: Cell<Option<TraceContext>>,
    /// The object that was looked for last: to find one costs the runtime a digest or two.
    found: Cell<Option<(ObjectId, Stub)>>,
}

impl Objects {
    /// Those of a namespace, by the name of its binding. `waits_ms` is the longest time, in ms, that an object itself waits for something.
    pub fn of(env: &Env, binding: &'static str, waits_ms: u64) -> Self {
        Self {
            env: env.clone(),
            binding,
            patience: Duration::from_millis(waits_ms).saturating_add(GRACE),
            waited_ms: Cell::new(0),
            provider_ms: Cell::new(0),
            trace: Cell::new(None),
            found: Cell::new(None),
        }
    }

    /// What is asked from here on is part of this span.
    pub fn trace(&self, span: Option<TraceContext>) {
        self.trace.set(span);
    }

    /// Tells with the answer where the time went: [`Server-Timing`](https://www.w3.org/TR/server-timing/).
    pub fn timed(&self, answer: Answer, request: &Request) -> Answer {
        let total_ms = now_ms().saturating_sub(request.now_ms);
        let (object_ms, provider_ms) = (self.waited_ms.get(), self.provider_ms.get());
        let mut timing = format!("total;dur={total_ms}, object;dur={object_ms}, provider;dur={provider_ms}");
        if let Some(trace) = self.trace.get() {
            timing.push_str(&format!(", traceparent;desc=\"{trace}\""));
        }
        answer.with("server-timing", timing)
    }

    fn namespace(&self) -> Result<ObjectNamespace> {
        self.env.durable_object(self.binding)
    }

    /// A fresh unique id: the object does not exist before it is called.
    pub fn fresh(&self) -> Result<ObjectId> {
        parse_id(&self.namespace()?.unique_id()?.to_string())
    }

    /// The id of the object at a place.
    pub fn id(&self, place: &ObjectRef) -> Result<ObjectId> {
        match place {
            ObjectRef::Id(id) => Ok(*id),
            ObjectRef::Named(name) => {
                let objects = self.namespace()?;
                let named = objects.id_from_name(name)?;
                let id = parse_id(&named.to_string())?;
                self.found.set(Some((id, named.get_stub()?)));
                Ok(id)
            }
        }
    }

    /// Whether an id is one of our namespace's. The runtime signs them: a made-up one is not.
    pub fn exists(&self, place: &ObjectRef) -> bool {
        let stub = self.stub(place);
        let exists = stub.is_ok();
        if let (ObjectRef::Id(id), Ok(stub)) = (place, stub) {
            self.found.set(Some((*id, stub)));
        }
        exists
    }

    /// A stub is used once: one that has failed is of no use any more.
    fn stub(&self, place: &ObjectRef) -> Result<Stub> {
        if let (ObjectRef::Id(id), Some((found, stub))) = (place, self.found.take())
            && found == *id
        {
            return Ok(stub);
        }
        let objects = self.namespace()?;
        match place {
            ObjectRef::Named(name) => objects.id_from_name(name)?.get_stub(),
            ObjectRef::Id(id) => objects.id_from_string(&id.to_hex())?.get_stub(),
        }
    }

    /// Asks an object. An exception from a stub says nothing about what was done: the key makes it safe to ask again,
    /// with a new stub, after a short pause. Not of an object that has too much to do, or that has not answered for long.
    pub async fn ask<T: DeserializeOwned>(&self, object: &ObjectRef, ask: impl Question) -> Result<T> {
        self.ask_whole(object, ask).await.map(|answered| answered.message)
    }

    /// The same, with all that it tells.
    pub async fn ask_whole<T: DeserializeOwned>(
        &self,
        object: &ObjectRef,
        mut ask: impl Question,
    ) -> Result<Answered<T>> {
        let mut tried = 1;
        loop {
            let error = match self.ask_once(object, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let text = error.to_string();
            if tried == TRIES || text.contains("overloaded") || text.contains(TOO_LONG) {
                return Err(error);
            }
            Delay::from(PAUSE * tried).await;
            tried += 1;
            ask.again();
        }
    }

    async fn ask_once<T: DeserializeOwned>(
        &self,
        object: &ObjectRef,
        ask: &impl Question,
    ) -> Result<Answered<T>> {
        let asked_at_ms = now_ms();
        let stub = self.stub(object)?;
        let mut span =
            trace::begin(self.trace.get(), format!("{}/{}", self.binding, ask.name()), Kind::Client);
        let asked = client::ask_stub(stub, ask, span.as_ref().map(|span| span.context));
        let answered = within(self.patience, "the object's answer", asked).await;
        let waited_ms = now_ms().saturating_sub(asked_at_ms);
        self.waited_ms.set(self.waited_ms.get().saturating_add(waited_ms));
        if let (Some(span), Err(_)) = (&mut span, &answered) {
            span.fail("no_answer");
        }
        trace::end(span);
        let answered = answered?;
        self.provider_ms.set(self.provider_ms.get().saturating_add(answered.provider_ms));
        Ok(answered)
    }
}

fn parse_id(hex: &str) -> Result<ObjectId> {
    ObjectId::from_hex(hex).ok_or_else(|| worker::Error::RustError("an object id of another form".into()))
}
