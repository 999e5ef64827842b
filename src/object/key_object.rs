//! The exported class: what is asked of the object, by RPC, and its alarms.

use std::rc::Rc;

use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;
use worker::{DurableObject, Env, Error, Request, Response, Result, State, durable_object};

use super::drive::Drive;
use super::old_tables::adopt;
use crate::config::Config;
use crate::replay_cache::isolate;
use ::runtime::now_or_later::now_or_promise;
use ::runtime::{metrics, trace};
use messages::message::{Envelope, Finality, ObjectRequest, VERSION};
use messages::recall::Recall;
use once::context::Bug;
use once::id::RequestId;
use once_object::runtime::{Runtime, object_id};
use once_object::store::{Hooks, Store};
use payments::engine::{ObjectState, Payments};
use web::trace::Kind;

/// The Durable Object of one payment, order or customer, with all keys of it; or of one key whose operation runs in another object.
#[durable_object(alarm)]
pub struct KeyObject(Rc<Parts>);

/// What a call holds on to.
struct Parts {
    state: State,
    env: Env,
    drive: std::result::Result<Drive, Bug>,
}

/// By RPC a question is a text and so is its answer. A request and a response cost several times as much: headers, streams, and each
/// of their parts is a call into JavaScript.
#[wasm_bindgen]
impl KeyObject {
    /// Answers a question: both are JSON, see [`messages::message`]. A promise, if something has to be waited for.
    pub fn ask(&self, question: String) -> Result<JsValue, JsValue> {
        let parts = Rc::clone(&self.0);
        now_or_promise(async move {
            let answer = parts.answer(&question).await;
            answer.map(JsValue::from).map_err(JsValue::from)
        })
    }

    /// Answers [`Recall`]: with a [`Recalled`](messages::recall::Recalled), or with nothing where it is to be asked in full.
    pub fn recall(&self, question: &str, request_id: String) -> Result<Option<String>, JsValue> {
        self.0.recall(question, RequestId(request_id)).map_err(JsValue::from)
    }
}

impl DurableObject for KeyObject {
    fn new(state: State, env: Env) -> Self {
        let drive = Config::of(&env).map_err(Bug).and_then(|config| Drive::new(&env, open(&state)?, config));
        Self(Rc::new(Parts { state, env, drive }))
    }

    /// The same question as a request: an edge of the release before asks like that while a deploy rolls out.
    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let question = request.text().await?;
        Response::ok(self.0.answer(&question).await?)
    }

    async fn alarm(&self) -> Result<Response> {
        self.0.alarm().await?;
        Response::empty()
    }
}

impl Parts {
    async fn answer(&self, question: &str) -> Result<String> {
        let drive = self.drive.as_ref().map_err(|bug| Error::RustError(bug.0.clone()))?;
        let envelope: Envelope<ObjectRequest> = read(question)?;
        if envelope.version > VERSION {
            return Err(Error::RustError("another version of the message is spoken here".to_owned()));
        }
        metrics::object_request("fetch");
        let name = format!("KeyObject/{}", envelope.message.name());
        let mut span = trace::begin(envelope.trace, name, Kind::Server);
        let (mut provider_ms, mut finality) = (0, None);
        let answer = match envelope.message {
            ObjectRequest::Run(ask) => {
                drive.run(*ask, &mut span).await.and_then(|(result, waited_ms, is_final)| {
                    (provider_ms, finality) = (waited_ms, is_final);
                    encode(&result)
                })
            }
            ObjectRequest::Bind { command, object, is_counted } => {
                drive.bind_to(&command, &object, is_counted).await.and_then(|result| encode(&result))
            }
            ObjectRequest::Show { owner, key_hash, refresh } => {
                let shown = || drive.show(&owner, key_hash.as_ref());
                // A stranger costs nothing at the provider: it is asked for the owner only.
                if refresh && matches!(shown(), Ok(Some(_))) {
                    drive.check_for_looker().await;
                }
                shown().and_then(|shown| encode(&shown))
            }
            ObjectRequest::Order { owner } => {
                drive.check_for_looker().await;
                drive.order(&owner).and_then(|order| encode(&order))
            }
            ObjectRequest::MakeLink { revision, content, key, owner } => {
                drive.make_link(revision, &content, key, owner).await.and_then(|made| encode(&made))
            }
            ObjectRequest::EndLinks => drive.end_links(None).and_then(|ended| encode(&ended)),
            ObjectRequest::EndLinksOnce { key } => {
                drive.end_links(Some(key)).and_then(|ended| encode(&ended))
            }
            ObjectRequest::Locate { owner, key_hash } => {
                drive.locate(&owner, &key_hash).and_then(|located| encode(&located))
            }
            ObjectRequest::Forget { owner, key_hash } => {
                drive.forget(&owner, &key_hash).and_then(|forgotten| encode(&forgotten))
            }
            ObjectRequest::JobDone { job_id, audit_through } => {
                drive.job_done(&job_id, audit_through).and_then(|done| encode(&done))
            }
            ObjectRequest::Event(event) => drive.take_event(&event).and_then(|taken| encode(&taken)),
            ObjectRequest::Wake => {
                drive.alarm().await;
                encode(&())
            }
            ObjectRequest::Project => drive.project_anew().await.and_then(|done| encode(&done)),
            ObjectRequest::Inspect => drive.inspect().and_then(|inspected| encode(&inspected)),
            ObjectRequest::Resume => drive.go_on(false).await.and_then(|done| encode(&done)),
            ObjectRequest::Settle => drive.go_on(true).await.and_then(|done| encode(&done)),
            ObjectRequest::ShowCall { call_id } => {
                drive.show_call(call_id).await.and_then(|shown| encode(&shown))
            }
            ObjectRequest::SettleByHand(ask) => {
                drive.settle_by_hand(*ask).await.and_then(|done| encode(&done))
            }
            ObjectRequest::Hold { call_id } => drive.hold(call_id).and_then(|held| encode(&held)),
            ObjectRequest::Erase => drive.erase().await.and_then(|erased| encode(&erased)),
            ObjectRequest::Return => match drive.check_after_return().await {
                Ok(()) => drive.return_address().and_then(|returned| encode(&returned)),
                Err(bug) => Err(bug),
            },
        };
        if let Some(span) = &mut span {
            span.set("paid_once.object", drive.store().object().to_hex());
            if answer.is_err() {
                span.fail("object_failed");
            }
        }
        trace::end(span);
        self.send_counts();
        answer.and_then(|message| answered(provider_ms, finality, &message)).map_err(|bug| drive.failed(&bug))
    }

    fn recall(&self, question: &str, request: RequestId) -> Result<Option<String>> {
        let Ok(drive) = &self.drive else { return Ok(None) };
        let asked: Recall = read(question)?;
        if asked.version > VERSION {
            return Ok(None);
        }
        metrics::object_request("fetch");
        let recalled = drive.replay(&asked, &request).map_err(|bug| drive.failed(&bug));
        self.send_counts();
        recalled
    }

    async fn alarm(&self) -> Result<()> {
        // Where the settings are wrong or the storage does not open, the guard sets the alarm again until somebody has mended that.
        let drive = self.drive.as_ref().map_err(|bug| Error::RustError(bug.0.clone()))?;
        metrics::object_request("alarm");
        drive.alarm().await;
        self.send_counts();
        Ok(())
    }

    /// After the answer, and without anybody waiting for it.
    fn send_counts(&self) {
        if let Some(flush) = metrics::flush(&self.env) {
            self.state.wait_until(flush);
        }
        if let Some(flush) = trace::flush(&self.env) {
            self.state.wait_until(flush);
        }
    }
}

/// The storage of the object that runs here. Nothing is written yet.
fn open(state: &State) -> std::result::Result<Store<Payments, Runtime>, Bug> {
    let runtime = Runtime::open(state, |rows| metrics::rows_written("object", rows));
    let hooks = Hooks { adopt, committed };
    Ok(Store::new(object_id(state)?, runtime, hooks))
}

impl Drive {
    /// What a caller is told of an error of ours: the log knows more.
    fn failed(&self, bug: &Bug) -> Error {
        self.log("error", "object_failed", &[("error", bug.0.as_str().into())]);
        Error::RustError("the object failed".to_owned())
    }
}

fn committed(before: &ObjectState, after: &ObjectState) {
    metrics::committed(before, after);
    isolate::committed(before, after);
}

fn read<T: DeserializeOwned>(question: &str) -> Result<T> {
    json_text::from_str(question).map_err(|error| Error::RustError(json_text::unquoted(&error)))
}

fn encode<T: serde::Serialize>(message: &T) -> std::result::Result<String, Bug> {
    serde_json::to_string(message).map_err(|error| Bug(error.to_string()))
}

/// [`Answered`](messages::message::Answered), around a message in JSON.
fn answered(provider_ms: u64, finality: Option<Finality>, message: &str) -> std::result::Result<String, Bug> {
    let finality = encode(&finality)?;
    Ok(format!(
        r#"{{"version":{VERSION},"provider_ms":{provider_ms},"finality":{finality},"message":{message}}}"#
    ))
}
