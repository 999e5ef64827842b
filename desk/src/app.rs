//! What a request's handler has at hand: the settings, the way to the payments Worker's objects, and to the payments Worker itself.

use std::cell::OnceCell;

use serde::de::DeserializeOwned;
use worker::Env;

use crate::config::Config;
use crate::operations;
use messages::message::{Execute, ExecuteResult, ObjectRequest};
use messages::operations::COUNTS_PATH;
use once::id::ObjectId;
use runtime::log::log;
use runtime::metrics::{self, counters::Row, reading::Reading};
use runtime::objects::{ObjectRef, Objects};
use runtime::places::ReadModel;
use web::assets::{SCRIPT, STYLE};
use web::http::{Answer, Request};
use web::pages::Site;

/// The binding of the gate's objects.
const GATE: &str = "GATE_OBJECTS";
/// How long such an object may wait for what follows from an operator's word, in ms.
const GATE_WAITS_MS: u64 = 10_000;

/// See the module.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) env: Env,
    objects: Objects,
    /// The gate's objects, where they are bound.
    pub(crate) gate: Option<Objects>,
    /// The read model, in all its places.
    pub(crate) model: ReadModel,
    /// Who was let in, for the log.
    pub(crate) admitted: OnceCell<String>,
}

/// The object gave no answer: nobody knows whether the request reached it. The same key finds out.
pub(crate) struct Unreachable;

impl App {
    pub(crate) fn new(env: &Env) -> Result<Self, String> {
        let config = Config::of(env)?;
        let objects = Objects::of(env, "KEYS", config.wait_ms.max(config.provider_timeout_ms));
        let gate = env.durable_object(GATE).is_ok().then(|| Objects::of(env, GATE, GATE_WAITS_MS));
        Ok(Self {
            config,
            env: env.clone(),
            objects,
            gate,
            model: ReadModel::of(env),
            admitted: OnceCell::new(),
        })
    }

    pub(crate) fn site(&self, request: &Request) -> Site {
        site(self.config.demo, request)
    }

    /// See [`Objects::timed`].
    pub(crate) fn timed(&self, answer: Answer, request: &Request) -> Answer {
        self.objects.timed(answer, request)
    }

    /// Whether an id is one of the objects' namespace.
    pub(crate) fn exists(&self, place: &ObjectRef) -> bool {
        self.objects.exists(place)
    }

    /// See [`Objects::id`].
    pub(crate) fn object_id(&self, place: &ObjectRef) -> worker::Result<ObjectId> {
        self.objects.id(place)
    }

    /// Asks an object: see [`Objects::ask`].
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        object: &ObjectRef,
        ask: ObjectRequest,
    ) -> worker::Result<T> {
        self.objects.ask(object, ask).await
    }

    /// Lets an object run an operation.
    pub(crate) async fn run(&self, object: &ObjectRef, ask: Execute) -> Result<ExecuteResult, Unreachable> {
        self.ask(object, ObjectRequest::Run(Box::new(ask))).await.map_err(|error| {
            log("error", &[("event", "object_unreachable".into()), ("error", error.to_string().into())]);
            Unreachable
        })
    }

    /// The counts of all Workers. The payments Worker reads them, so that what its isolate has counted is there; while it does not answer,
    /// they are read without it.
    pub(crate) async fn counts(&self) -> worker::Result<Reading> {
        metrics::send_all(&self.env).await;
        match self.operation::<Vec<Row>>(COUNTS_PATH).await {
            Ok(rows) => Ok(Reading::from_rows(rows)),
            Err(error) => {
                log("warn", &[("event", "counts_may_be_late".into()), ("error", error.to_string().into())]);
                metrics::read(&self.env).await
            }
        }
    }

    /// Asks the payments Worker: see [`operations::ask`].
    pub(crate) async fn operation<T: DeserializeOwned>(&self, path: &str) -> worker::Result<T> {
        operations::ask(&self.env, path, &()).await
    }
}

/// What pages need to know.
pub(crate) fn site(demo: bool, request: &Request) -> Site {
    Site {
        demo,
        sends_receipts: false,
        // The desk has a host of its own; in the demo there is one for all.
        has_docs: demo,
        origin: request.origin(),
        style: STYLE.address,
        script: SCRIPT.address,
        t: &web::locale::EN,
    }
}
