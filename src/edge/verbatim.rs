//! The very same request once more: answered by what was read in it before, without reading it again.
//!
//! `src/verbatim.mjs` asks here before it hands a request on to be read. What was read in a request is remembered once its answer is final: its key,
//! what it stands for, and the object that has it, which its bytes decide; and how it was answered, but for the body. The body comes from the copy of this isolate
//! (`copies.rs`), or, where there is none, from the object, which is asked for no more than that ([`Recall`]). So these decide: where the copy is gone, or the response,
//! there is nothing to answer with, and the request is read. What else an answer depends on are the settings and the account, which are looked at
//! each time. So whoever is answered here would be answered alike by the long way.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use js_sys::{Array, JSON, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::worker_sys::{Context as JsContext, web_sys};
use worker::{Context, Env};

use super::app::App;
use super::copies;
use crate::accounts;
use crate::config::{Config, token_hash};
use crate::replay_cache::requests::{Requests, Seen};
use messages::account::Account;
use messages::message::VERSION;
use messages::recall::{Recall, Recalled};
use once::id::Owner;
use once::record::StoredResponse;
use runtime::{metrics, now_ms, serve};
use web::credentials;
use web::http::{Answer, Request};
use web::reply;

/// The headers that such an answer depends on. What else the edge reads says why not: `a copy at the edge` of the tests has the list.
const HEADERS: [&str; 11] = [
    "authorization",
    "idempotency-key",
    "content-type",
    "content-encoding",
    "content-length",
    "prefer",
    "accept",
    "origin",
    "cookie",
    "sec-fetch-site",
    "traceparent",
];
/// The longest body that is remembered, in bytes: payments have some hundred.
const BODY_MAX_BYTES: usize = 4096;

/// What each answer has of its own.
const REQUEST_ID: &str = "request-id";
const SERVER_TIMING: &str = "server-timing";
/// What a replay has more than the first answer.
const REPLAYED: &str = "idempotent-replayed";

/// What was read in a request.
struct Reading {
    seen: Seen,
    /// What stands for its token.
    token_hash: String,
    /// Whose token that is.
    account: Rc<Account>,
    /// The pattern that it is of.
    route: &'static str,
    /// Without its headers and its body.
    request: Request,
    /// What a replay of it is answered, but for the body.
    answer: Answer,
    made: OnceCell<Made>,
}

/// What is made of a reading for JavaScript, once it is used.
struct Made {
    number: u32,
    headers: web_sys::Headers,
    /// How its line in the log begins, if there is one.
    line: JsValue,
    /// The id of the object, and what it is asked.
    object: JsValue,
    question: JsValue,
}

#[wasm_bindgen]
extern "C" {
    /// A namespace of objects, as far as the bindings lack it.
    type Namespace;

    #[wasm_bindgen(method, catch, js_name = idFromString)]
    fn id_from_string(this: &Namespace, hex: &str) -> Result<JsValue, JsValue>;
}

thread_local! {
    static REQUESTS: RefCell<Requests<Rc<Reading>>> = RefCell::default();
    /// From anywhere: an answer may be on its way for which an instance before this one has asked, that has trapped.
    static NUMBERS: Cell<u32> = Cell::new(runtime::random::bytes().map_or(0, u32::from_be_bytes));
}

/// Remembers a request whose answer is final. `answer` is all but what [`serve::finish`] adds.
pub(super) fn remember(app: &App, request: &Request, route: &'static str, answer: &Answer) {
    let Some(seen) = app.seen.take() else { return };
    // Without its length, bytes of another text could come behind the same body; and each span of a trace is another one.
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    let is_plain = request.method == "POST" && length == Some(request.body.len()) && request.trace.is_none();
    let is_short = request.body.len() <= BODY_MAX_BYTES;
    if !is_plain || !is_short || answer.status >= 500 || !app.config.answers_as_stored() {
        return;
    }
    let Ok(Some(token)) = credentials::token(request, app.config.demo) else { return };
    let token_hash = token_hash(token);
    let Some((_, account)) = accounts::known(&app.config, &token_hash, request.now_ms) else { return };
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| name != SERVER_TIMING);
    if !headers.iter().any(|(name, _)| name == REPLAYED) {
        headers.push((REPLAYED.to_owned(), "true".to_owned()));
    }
    let reading = Reading {
        seen,
        token_hash,
        account,
        route,
        request: without_content(request),
        answer: Answer { headers, body: Vec::new(), outcome: "replayed", ..answer.clone() },
        made: OnceCell::new(),
    };
    REQUESTS.with_borrow_mut(|all| all.remember(&head(request), &request.body, Rc::new(reading)));
}

/// Alike in `src/verbatim.mjs`. No value of a header has an end of line in it.
fn head(request: &Request) -> String {
    let mut head = format!("{}{}", request.origin(), request.path_and_query());
    for name in HEADERS {
        if let Some(value) = request.header(name) {
            head.extend(["\n", name, ":", value]);
        }
    }
    head
}

fn without_content(request: &Request) -> Request {
    let Request { id, now_ms, method, scheme, host, path, query, .. } = request.clone();
    Request { id, now_ms, method, scheme, host, path, query, headers: vec![], body: vec![], trace: None }
}

impl Reading {
    /// Whether the token is still the same account's, with the same settings.
    fn is_theirs(&self, config: &Config, now_ms: u64) -> bool {
        accounts::known(config, &self.token_hash, now_ms).is_some_and(|(id, account)| {
            let is_same = Rc::ptr_eq(&account, &self.account) || account == self.account;
            is_same && self.seen.owner == Owner::Account(id)
        })
    }

    fn made(&self, env: &Env) -> Option<&Made> {
        if self.made.get().is_none() {
            let _ = self.made.set(self.make(env).ok()?);
        }
        self.made.get()
    }

    fn make(&self, env: &Env) -> worker::Result<Made> {
        let Self { seen, route, request, answer, .. } = self;
        let line = serve::line_begins(request, route, answer);
        let mut headers = reply::finish(answer.clone(), request).headers;
        headers.retain(|(name, _)| name != REQUEST_ID);
        let headers = JSON::parse(&serde_json::to_string(&headers)?)?;
        let keys: Namespace = JsValue::from(env.durable_object("KEYS")?).unchecked_into();
        let Seen { owner, key_hash, fingerprint, object } = seen.clone();
        let question = Recall { version: VERSION, owner, key_hash, fingerprint };
        NUMBERS.set(NUMBERS.get().wrapping_add(1));
        Ok(Made {
            number: NUMBERS.get(),
            headers: web_sys::Headers::new_with_str_sequence_sequence(&headers)?,
            line: line.map_or(JsValue::NULL, JsValue::from),
            object: keys.id_from_string(&object.to_hex())?,
            question: serde_json::to_string(&question)?.into(),
        })
    }

    /// For JavaScript; and it is counted.
    fn answered(&self, made: &Made, body: &JsValue, env: &Env, ctx: JsContext) -> Array {
        metrics::request(self.route, "POST", self.answer.status, self.answer.outcome);
        if let Some(flush) = metrics::flush(env) {
            Context::new(ctx).wait_until(flush);
        }
        Array::of4(&self.answer.status.into(), &made.headers, body, &made.line)
    }
}

/// The names of those headers that the answer depends on, with commas between them.
#[wasm_bindgen]
pub fn verbatim_headers() -> String {
    HEADERS.join(",")
}

/// Whether any request is remembered: where none is, no head is made.
#[wasm_bindgen]
pub fn verbatim_is_any() -> bool {
    REQUESTS.with_borrow(|all| !all.is_empty())
}

/// Whether a request with this head is remembered: only then its body is worth to be read for it.
#[wasm_bindgen]
pub fn verbatim_is_known(head: &str) -> bool {
    REQUESTS.with_borrow(|all| all.knows(head))
}

/// What this request is answered, if it is the very same as one before: status, headers, body, and the beginning of the line for the log if there is
/// one. Without a copy the object is to be asked: three parts are its id, the question, and the number for [`verbatim_told`].
#[wasm_bindgen]
pub fn verbatim_answer(head: &str, body: &[u8], env: Env, ctx: JsContext) -> Option<Array> {
    let config = Config::of(&env).ok()?;
    let reading = REQUESTS.with_borrow_mut(|all| all.recall(head, body))?;
    if !reading.is_theirs(&config, now_ms()) {
        return None;
    }
    let made = reading.made(&env)?;
    if config.replay_cache_ms > 0
        && let Some((body, took_money)) = copies::body(&reading.seen)
    {
        metrics::replayed_at_edge(took_money);
        return Some(reading.answered(made, &Uint8Array::from(body.as_slice()), &env, ctx));
    }
    Some(Array::of3(&made.object, &made.question, &made.number.into()))
}

/// What a request is answered, by what its object has told. `came_ms` is when the request came, since the epoch.
#[wasm_bindgen]
pub fn verbatim_told(
    head: &str,
    number: u32,
    came_ms: f64,
    told: &str,
    env: Env,
    ctx: JsContext,
) -> Option<Array> {
    let config = Config::of(&env).ok()?;
    let reading = REQUESTS.with_borrow(|all| all.last_of(head))?;
    let made = reading.made.get().filter(|made| made.number == number)?;
    let Recalled { head, body } = Recalled::of_text(told)?;
    if head.status != reading.answer.status {
        return None;
    }
    let text = body.as_str().into();
    if config.replay_cache_ms > 0 {
        let response = StoredResponse { status: head.status, headers: head.headers, body: body.into_bytes() };
        let kept = (&response, &head.original_request);
        copies::keep(&config, came_ms as u64, &reading.seen, head.finality, kept);
    }
    Some(reading.answered(made, &text, &env, ctx))
}
