//! The Durable Object of a key: whatever is sent under it meets here, and one of them is passed on.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use messages::gate::GateAsk;
use messages::message::{Answered, Envelope, VERSION};
use once::begin::Command;
use once::context::Bug;
use once::execute::ExecuteResult;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{Owner, RequestId};
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::record::{Channel, KeyRecord, Lifecycle, StoredResponse};
use once_object::execute::{Execute, Executed};
use once_object::object::Object;
use runtime::now_ms;
use worker::js_sys::Promise;
use worker::wasm_bindgen::JsValue;
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen_futures::future_to_promise;
use worker::{Delay, DurableObject, Env, Error, Headers, Request, Response, Result, State, durable_object};

use crate::ask::{ASK, ObjectReply, ObjectRequest, REPLY_HEADER, from_header, to_header};
use crate::body::fingerprint::{self, Alike};
use crate::bucket;
use crate::by_hand;
use crate::cookies::{self, Sent, Sessions};
use crate::domain::{Again, PassOn, SEND, Submission};
use crate::host::{GateHost, Outgoing, Payload, TRIES_MAX};
use crate::meaning::Ended;
use crate::sealed::{self, Kept};
use crate::secret::Secret;
use crate::series;
use crate::stream::Watched;

/// How long an operator waits for what follows from their word; it goes on without them.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often it is looked whether what is under way has ended, in ms.
const LOOK_MS: u64 = 100;

/// The object of a key.
#[durable_object(alarm)]
pub struct GateObject {
    object: std::result::Result<Rc<Object<GateHost>>, Bug>,
}

impl DurableObject for GateObject {
    fn new(state: State, env: Env) -> Self {
        let object = Object::open(&state, GateHost::new(env));
        Self { object }
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let ask: ObjectRequest = request
            .headers()
            .get(ASK)?
            .and_then(|text| from_header(&text))
            .ok_or_else(|| Error::RustError("nothing is asked".to_owned()))?;
        let object = self.object.as_ref().map_err(failed)?;
        object.host().times.set(ask.times());
        object.host().network.replace(ask.network.clone());
        match ask.fingerprint.clone() {
            Some(fingerprint) => run(object, &mut request, &ask, fingerprint).await,
            None => show(object, &request, &ask).await,
        }
    }

    async fn alarm(&self) -> Result<Response> {
        // Where the settings are wrong the guard sets the alarm again.
        let object = self.object.as_ref().map_err(failed)?;
        remember_times(object);
        object.alarm().await;
        Response::empty()
    }
}

/// What an operator asks, by RPC: a text for a text, see [`messages::gate`].
#[wasm_bindgen]
impl GateObject {
    /// Answers a question. Only the desk is bound to these objects.
    pub fn ask(&self, question: String) -> Promise {
        let object = self.object.clone();
        future_to_promise(async move {
            let answer = match &object {
                Ok(object) => answer_operator(object, &question).await,
                Err(bug) => Err(failed(bug)),
            };
            answer.map(JsValue::from).map_err(JsValue::from)
        })
    }
}

async fn answer_operator(object: &Rc<Object<GateHost>>, question: &str) -> Result<String> {
    let Envelope { message, .. } = serde_json::from_str::<Envelope<GateAsk>>(question)?;
    remember_times(object);
    let message = match message {
        GateAsk::Inspect => {
            let object_state = object.store().read_counted().map_err(|bug| failed(&bug))?;
            let timeline = object.store().timeline().map_err(|bug| failed(&bug))?;
            serde_json::to_value(
                object_state.and_then(|object_state| by_hand::inspection(&object_state, timeline, now_ms())),
            )?
        }
        GateAsk::Settle(word) => {
            let ctx = object.context();
            let settle = |object_state: &mut ObjectState<PassOn>| {
                Ok(by_hand::settle(object_state, &word, object.me(), &ctx))
            };
            let answer = object.store().transaction(&ctx, settle).map_err(|bug: Bug| failed(&bug))?;
            object.wake_within(PATIENCE).await;
            serde_json::to_value(answer)?
        }
    };
    Ok(serde_json::to_string(&Answered { version: VERSION, provider_ms: 0, finality: None, message })?)
}

/// What wakes the object brings no settings with it: those of the newest operation count.
fn remember_times(object: &Object<GateHost>) {
    let object_state = object.store().read().ok().flatten();
    if let Some(waits) = object_state.and_then(|object_state| object_state.resource.waits) {
        object.host().times.set(waits.times());
    }
}

fn failed(bug: &Bug) -> Error {
    Error::RustError(bug.0.clone())
}

/// Which operation of a key a request is about: its number, and whether it would begin it.
fn number(object_state: Option<&ObjectState<PassOn>>, ask: &ObjectRequest, fingerprint: &str) -> (u32, bool) {
    let Some((object_state, newest)) =
        object_state.and_then(|object_state| Some((object_state, object_state.keys.last()?)))
    else {
        return (1, true);
    };
    let ended = |key: &KeyRecord<PassOn>| {
        Some((object_state.resource.ended.get(&key.key_id).copied()?, key.finished_at_ms()?))
    };
    // What was done since a page was made is what the page is about, whatever was refused after it.
    if let Some(made_at_ms) = ask.made_at_ms {
        let is_about = |key: &&KeyRecord<PassOn>| matches!(ended(key), Some((Ended::Done | Ended::Unknown, at_ms)) if at_ms >= made_at_ms);
        let done = object_state.keys.iter().filter(is_about);
        if let Some(key) = done.max_by_key(|key| (is_of(key, fingerprint), key.key_id)) {
            return (key.key_id, false);
        }
    }
    let is_free = match ended(newest).map(|(ended, _)| ended) {
        Some(Ended::Refused | Ended::NeverSent | Ended::NotDone) => true,
        Some(Ended::ShownAgain) => !is_of(newest, fingerprint),
        // A page that was made after it is about something else.
        Some(Ended::Done | Ended::Unknown) => ask.made_at_ms.is_some(),
        None => false,
    };
    if is_free { (newest.key_id.saturating_add(1), true) } else { (newest.key_id, false) }
}

/// Whether an operation is of the same request.
fn is_of(key: &KeyRecord<PassOn>, fingerprint: &str) -> bool {
    fingerprint::compare(&key.fingerprint.0, fingerprint) == Alike::Same
}

/// Passes a request on, or answers it by what was done under its key.
async fn run(
    object: &Rc<Object<GateHost>>,
    request: &mut Request,
    ask: &ObjectRequest,
    fingerprint: String,
) -> Result<Response> {
    let secret = ask.secret();
    let url = request.inner().url();
    let method = request.inner().method();
    let cookie = request.headers().get("cookie")?.unwrap_or_default();
    let now = cookies::sent(&cookie, &secret);
    // A browser may have a key of its own, another one for each click.
    let is_passed_on = |name: &str| name != ASK && name != "idempotency-key";
    let headers = request.headers().entries().filter(|(name, _)| is_passed_on(name)).collect::<Vec<_>>();
    let sent = |name| request.headers().get(name).map(Option::unwrap_or_default);
    let ours = format!("{}://{}", sent("x-forwarded-proto")?, sent("x-forwarded-host")?);
    let body = Rc::new(match ask.large {
        None => Payload::Held(request.bytes().await?),
        Some(length) => {
            let body = request.inner().body().map(|body| Watched::new(&body, length)).transpose()?;
            Payload::Passing(RefCell::new(body))
        }
    });
    let place = ask.place.clone().ok_or_else(|| Error::RustError("nothing is said of where".to_owned()))?;
    make_room(object, ask)?;
    let ends_at_ms = now_ms().saturating_add(ask.times().wait_ms);
    let (number, alike, result) = loop {
        let object_state = object.store().read().map_err(|bug| failed(&bug))?;
        let (number, begins) = number(object_state.as_deref(), ask, &fingerprint);
        let known = object_state.as_deref().and_then(|object_state| object_state.key(number));
        let alike = known.map(|key| fingerprint::compare(&key.fingerprint.0, &fingerprint));
        let fingerprint = known
            .map(|key| &key.fingerprint.0)
            // Made by another release, or while other fields were ignored: what it cannot be told from is not done twice. (What the shop has shown
            // again for it to be corrected has begun a new one above.)
            .filter(|_| matches!(alike, Some(Alike::Same | Alike::Unknown)))
            .unwrap_or(&fingerprint);
        let name = secret.name();
        let owner = Owner::Session(name.clone());
        let command = Command {
            owner,
            key_hash: KeyHash(format!("{name}.{number}")),
            fingerprint: Fingerprint(fingerprint.clone()),
            parameters: Canonical(String::new()),
            operation: Submission {
                place: place.clone(),
                waits: ask.waits(),
                is_told: object.host().tells(),
                again: Again::from(&ask.on_unknown),
                origin_key: secret.origin_key(number),
            },
            channel: Channel::Form,
            request_id: RequestId(ask.request_id.clone()),
            // A form that is too old may still be corrected.
            may_start: ask.may_start || (number > 1 && ask.made_at_ms.is_none()),
            by: None,
            trace: None,
        };
        let mut headers = headers.clone();
        headers.push(("idempotency-key".to_owned(), secret.origin_key(number)));
        let outgoing = Outgoing {
            method: method.clone(),
            url: url.clone(),
            ours: ours.clone(),
            headers,
            body: Rc::clone(&body),
            secret,
            first: now.clone(),
            rules: ask.rules.clone(),
            max_answer: object.host().keeps(ask.max_answer),
            timeout: Duration::from_millis(ask.times().provider_timeout_ms),
            on_unknown: ask.on_unknown.clone(),
        };
        let is_same = begins || known.is_some_and(|key| key.fingerprint.0 == *fingerprint);
        let outgoing = Rc::new(outgoing);
        if is_same {
            object.host().outgoing.borrow_mut().entry(number).or_insert_with(|| Rc::clone(&outgoing));
        }
        let ask = Execute { command, wait_ms: ask.times().wait_ms, is_counted: false, faults: None };
        let executed = object.execute(ask).await;
        object.host().outgoing.borrow_mut().retain(|_, brought| !Rc::ptr_eq(brought, &outgoing));
        let Executed { result, .. } = executed.map_err(|bug| failed(&bug))?;
        match result {
            // Something else is under way: what becomes of that decides.
            ExecuteResult::Mismatch { .. } if is_open(object, number)? && now_ms() < ends_at_ms => {
                Delay::from(Duration::from_millis(LOOK_MS)).await;
            }
            result => break (number, alike, result),
        }
    };
    let reply = match result {
        ExecuteResult::Finished { response, replayed, .. } => {
            let large = object.host().large.borrow_mut().remove(&number).filter(|_| !replayed);
            let stored = Stored { number, response, replayed, large };
            return answer(object, stored, ask, &now).await;
        }
        ExecuteResult::InProgress { retry_after_ms }
        | ExecuteResult::Pending { retry_after_ms, .. }
        | ExecuteResult::Interrupted { retry_after_ms } => ObjectReply::UnderWay { retry_after_ms },
        ExecuteResult::Mismatch { .. } if is_open(object, number)? => {
            ObjectReply::UnderWay { retry_after_ms: 1000 }
        }
        ExecuteResult::Mismatch { .. } => {
            let object_state = object.store().read().map_err(|bug| failed(&bug))?;
            let is_unknown = |object_state: &Rc<ObjectState<PassOn>>| {
                object_state.resource.ended.get(&number) == Some(&Ended::Unknown)
            };
            let differs = match alike {
                Some(Alike::ElsewhereTheSame) => ObjectReply::SentElsewhere,
                _ => ObjectReply::Differs,
            };
            object_state.filter(is_unknown).map_or(differs, |object_state| unknown(&object_state, number))
        }
        ExecuteResult::Expired | ExecuteResult::NotStarted => ObjectReply::Old,
        ExecuteResult::Refused(()) => ObjectReply::TooMany,
        ExecuteResult::RateLimited => ObjectReply::RateLimited,
        ExecuteResult::NotOwner => ObjectReply::Nothing,
    };
    said(reply)
}

/// Where a visitor's submissions to one address have filled the object, what is over for long is forgotten.
fn make_room(object: &Object<GateHost>, ask: &ObjectRequest) -> Result<()> {
    let object_state = object.store().read().map_err(|bug| failed(&bug))?;
    let is_full = object_state.is_some_and(|object_state| object_state.keys.len() >= TRIES_MAX as usize);
    if ask.made_at_ms.is_none() || !is_full {
        return Ok(());
    }
    let forget = |object_state: &mut ObjectState<PassOn>| {
        series::forget_over(object_state, ask.waits().keep_ms, now_ms());
        Ok::<_, Bug>(())
    };
    object.store().transaction(&object.context(), forget).map_err(|bug| failed(&bug))
}

/// What is said of an operation of which nobody knows the end.
fn unknown(object_state: &ObjectState<PassOn>, number: u32) -> ObjectReply {
    let waits = object_state.resource.waits.map_or(0, |waits| waits.quiet_ms);
    let call = object_state.call_named(number, SEND);
    ObjectReply::Unknown { quiet_ms: call.map_or(0, |call| by_hand::quiet_for_ms(call, waits, now_ms())) }
}

fn is_open(object: &Object<GateHost>, number: u32) -> Result<bool> {
    let object_state = object.store().read().map_err(|bug| failed(&bug))?;
    let key = object_state.as_ref().and_then(|object_state| object_state.key(number));
    Ok(key.is_some_and(|key| matches!(key.lifecycle, Lifecycle::Open(_))))
}

/// What the newest operation of a key was answered.
async fn show(object: &Object<GateHost>, request: &Request, ask: &ObjectRequest) -> Result<Response> {
    let cookie = request.headers().get("cookie")?.unwrap_or_default();
    let now = cookies::sent(&cookie, &ask.secret());
    let object_state = object.store().read().map_err(|bug| failed(&bug))?;
    let Some(key) = object_state.as_ref().and_then(|object_state| object_state.keys.last()) else {
        return said(ObjectReply::Nothing);
    };
    match &key.lifecycle {
        Lifecycle::Finished(finished) => {
            let response = finished.response.clone();
            let stored = Stored { number: key.key_id, response, replayed: true, large: None };
            answer(object, stored, ask, &now).await
        }
        Lifecycle::Expired(_) => said(ObjectReply::Old),
        Lifecycle::Open(_) => said(ObjectReply::UnderWay { retry_after_ms: 1000 }),
    }
}

/// The answer to an operation.
struct Stored {
    number: u32,
    response: StoredResponse,
    replayed: bool,
    /// What was too large to be kept, for whoever has sent it.
    large: Option<Response>,
}

/// The origin's answer, as far as it is this visitor's.
async fn answer(
    object: &Object<GateHost>,
    stored: Stored,
    ask: &ObjectRequest,
    now: &[Sent],
) -> Result<Response> {
    let Stored { number, response: stored, replayed, large } = stored;
    let object_state = object.store().read().map_err(|bug| failed(&bug))?;
    if let Some(object_state) = object_state {
        match object_state.resource.ended.get(&number) {
            Some(Ended::Unknown) if stored.body.is_empty() => return said(unknown(&object_state, number)),
            Some(Ended::NeverSent) if stored.body.is_empty() => return said(ObjectReply::NeverSent),
            Some(Ended::NotDone) => return said(ObjectReply::NotDone),
            _ => {}
        }
    }
    let secret = ask.secret();
    let Some(Kept { head, body }) = sealed::open(&stored.body, &secret).await else {
        return said(ObjectReply::AlreadyDone);
    };
    let set: Vec<&str> = head
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie")
        .map(|(_, value)| value.as_str())
        .collect();
    let sessions = Sessions { more: &ask.session, hidden: !ask.is_named };
    if replayed && !cookies::is_same_session(&head.first, now, &set, sessions, &secret) {
        return said(ObjectReply::AlreadyDone);
    }
    let response = match large {
        Some(large) => large,
        None if !head.is_whole => return said(ObjectReply::AlreadyDone),
        None => {
            let kept = if head.in_bucket { from_bucket(object, &secret, number).await } else { Some(body) };
            match kept {
                None => return said(ObjectReply::AlreadyDone),
                Some(body) if body.is_empty() => Response::empty()?,
                Some(body) => Response::from_bytes(body)?,
            }
        }
    };
    let headers = Headers::new();
    for (name, value) in &head.headers {
        if name != "set-cookie" || !replayed || cookies::is_given_again(value, &head.first, now) {
            headers.append(name, value)?;
        }
    }
    headers.set(REPLY_HEADER, &to_header(&ObjectReply::Answered { replayed })?)?;
    Ok(response.with_status(stored.status).with_headers(headers))
}

/// The body of an answer that is too large for a row.
async fn from_bucket(object: &Object<GateHost>, secret: &Secret, number: u32) -> Option<Vec<u8>> {
    let sealed = bucket::get(&object.host().env, &secret.name(), number).await.unwrap_or_else(|error| {
        object.log("warn", "not_read", &[("error", error.to_string().into())]);
        None
    })?;
    Some(sealed::open(&sealed, secret).await?.body)
}

fn said(reply: ObjectReply) -> Result<Response> {
    let headers = Headers::new();
    headers.set(REPLY_HEADER, &to_header(&reply)?)?;
    Ok(Response::empty()?.with_headers(headers))
}
