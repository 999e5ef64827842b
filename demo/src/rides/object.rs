//! The Durable Object of a ride: the engine's, with the way to the payments API.

use std::rc::Rc;
use std::time::Duration;

use once::call::{LookUp, Outcome, ProviderCall};
use once::context::Bug;
use once::object_state::{ObjectState, StagedJob};
use once::times::Times;
use once_object::execute::{Execute, Executed};
use once_object::object::{Host, NotTaken, Object};
use runtime::http_client::{OutboundRequest, fetch};
use runtime::log::log;
use serde_json::Value;
use worker::js_sys::Promise;
use worker::wasm_bindgen::JsValue;
use worker::wasm_bindgen_futures::future_to_promise;
use worker::{DurableObject, Env, Error, Request, Response, Result, State, durable_object};

use super::ask::{ObjectRequest, View};
use super::flow::Rides;
use super::payments_api::{Charge, found, outcome, resource};
use super::pilot::{Sent, tell};
use crate::config::Config;
use messages::message::{Answered, Envelope, VERSION};

/// What the objects of this Worker are made with.
struct RideHost {
    config: Config,
    env: Env,
}

/// An answer of the payments API.
struct Reply {
    status: u16,
    retry_after: Option<String>,
    body: String,
}

impl RideHost {
    /// Asks the payments API. An error means that it is unknown whether the request arrived.
    async fn ask(
        &self,
        method: &str,
        path: &str,
        more: Vec<(&'static str, String)>,
        body: Option<&str>,
    ) -> std::result::Result<Reply, String> {
        let mut headers = vec![
            ("authorization", format!("Bearer {}", self.config.api_token)),
            ("accept", "application/json".to_owned()),
            // What is not known yet is asked for again from here, where the person waits.
            ("prefer", "wait=0".to_owned()),
        ];
        headers.extend(more);
        let request = OutboundRequest { method, url: format!("https://payments{path}"), headers, body };
        let timeout = Duration::from_millis(self.config.times.provider_timeout_ms);
        let (response, body) = fetch(&self.env, Some("PAYMENTS"), &request, timeout).await?;
        let retry_after = response.headers().get("retry-after").ok().flatten();
        Ok(Reply { status: response.status_code(), retry_after, body })
    }
}

impl Host for RideHost {
    type Flow = Rides;

    fn times(&self) -> Times {
        self.config.times
    }

    fn settings(&self) {}

    async fn send(&self, call: &ProviderCall<Rides>) -> Outcome<Charge> {
        let headers = vec![
            ("content-type", "application/x-www-form-urlencoded".to_owned()),
            ("idempotency-key", call.provider_key.clone()),
        ];
        match self.ask("POST", &call.request.path, headers, Some(&call.request.body)).await {
            Ok(Reply { status, retry_after, body }) => outcome(status, retry_after.as_deref(), &body),
            Err(reason) => Outcome::Unknown { answer_is_stored: false, reason },
        }
    }

    async fn look_up(&self, call: &ProviderCall<Rides>) -> LookUp<Charge> {
        let unclear = |reason| LookUp::Inconclusive { from_the_start: false, reason };
        let key = format!("/idempotency-keys/{}", call.provider_key);
        let path = match self.ask("GET", &key, Vec::new(), None).await {
            Ok(Reply { status: 404, .. }) => return LookUp::Absent,
            Ok(Reply { status, body, .. }) => match resource(&body) {
                Some(path) => path,
                None => return unclear(format!("{status} of the key")),
            },
            Err(reason) => return unclear(reason),
        };
        match self.ask("GET", &path, Vec::new(), None).await {
            Ok(Reply { status, body, .. }) => found(status, &body),
            Err(reason) => unclear(reason),
        }
    }

    async fn deliver(
        &self,
        object: &Object<Self>,
        _: &ObjectState<Rides>,
        jobs: Vec<StagedJob<()>>,
    ) -> std::result::Result<Vec<NotTaken>, Bug> {
        let mut left = Vec::new();
        for job in jobs {
            match tell(&self.env, &job).await {
                Sent::Done(how) => {
                    object.log("info", "pilot_told", &[("answer", how.into())]);
                    object.confirm(&job.job_id)?;
                }
                Sent::NotYet(reason) => left.push(NotTaken { job_id: job.job_id, reason }),
            }
        }
        Ok(left)
    }

    fn log(&self, level: &str, fields: &[(&str, Value)]) {
        log(level, fields);
    }
}

/// The object of a ride.
#[durable_object(alarm)]
pub struct RideObject(std::result::Result<Rc<Object<RideHost>>, Bug>);

#[wasm_bindgen::prelude::wasm_bindgen]
impl RideObject {
    /// Answers a question: both are JSON, see [`ObjectRequest`].
    pub fn ask(&self, question: String) -> Promise {
        let opened = self.opened();
        future_to_promise(async move {
            let answer = async { answer(&opened?, &question).await }.await;
            answer.map(JsValue::from).map_err(JsValue::from)
        })
    }
}

impl DurableObject for RideObject {
    fn new(state: State, env: Env) -> Self {
        let config = Config::of(&env).map_err(Bug);
        Self(config.and_then(|config| Object::open(&state, RideHost { config, env })))
    }

    async fn fetch(&self, _: Request) -> Result<Response> {
        Response::error("ask by RPC", 405)
    }

    async fn alarm(&self) -> Result<Response> {
        // Where the settings are wrong the guard sets the alarm again.
        self.opened()?.alarm().await;
        Response::empty()
    }
}

impl RideObject {
    fn opened(&self) -> Result<Rc<Object<RideHost>>> {
        self.0.as_ref().map(Rc::clone).map_err(failed)
    }
}

fn failed(bug: &Bug) -> Error {
    Error::RustError(bug.0.clone())
}

async fn answer(object: &Rc<Object<RideHost>>, question: &str) -> Result<String> {
    match serde_json::from_str::<Envelope<ObjectRequest>>(question)?.message {
        ObjectRequest::Run { command, wait_ms } => {
            let ask = Execute { command: *command, wait_ms, is_counted: true, faults: None };
            let Executed { result, provider_ms, .. } =
                object.execute(ask).await.map_err(|bug| failed(&bug))?;
            answered(provider_ms, result)
        }
        ObjectRequest::Show { owner, key_hash } => {
            let state = object.store().read().map_err(|bug| failed(&bug))?;
            answered(0, state.and_then(|state| View::of(&state, &owner, key_hash.as_ref())))
        }
    }
}

fn answered(provider_ms: u64, message: impl serde::Serialize) -> Result<String> {
    Ok(serde_json::to_string(&Answered { version: VERSION, provider_ms, finality: None, message })?)
}
