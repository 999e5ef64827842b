//! The very same request once more: answered from what was made of its copy, without reading it again.
//!
//! `src/verbatim.mjs` asks here before it hands a request on to be read. A request is remembered once it was answered from a copy (`copies.rs`),
//! and the copy is what decides: where that is gone, or its time is over, so is what was made of it. What else the answer depends on is in
//! the request, byte for byte, but for the settings and the account, which are looked at each time. So whoever is answered here would be
//! answered alike by the long way.

use std::rc::Rc;

use js_sys::{Array, JSON, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::worker_sys::{Context as JsContext, web_sys};
use worker::{Context, Env};

use super::app::App;
use crate::accounts;
use crate::config::{Config, token_hash};
use crate::replay_cache::Verbatim;
use crate::replay_cache::isolate::{self, Prepared};
use once::id::Owner;
use runtime::{metrics, now_ms, serve};
use web::credentials;
use web::http::{Answer, Request};
use web::reply;

/// The headers that such an answer depends on. What else the edge reads says why not: `a copy at the edge` of the tests has the list.
const HEADERS: [&str; 10] = [
    "authorization",
    "idempotency-key",
    "content-type",
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

/// Remembers a request whose answer came from a copy. `answer` is all but what [`serve::finish`] adds.
pub(super) fn remember(app: &App, request: &Request, route: &'static str, answer: &Answer) {
    let Some(key_hash) = app.replayed.take() else { return };
    // Without its length, bytes of another text could come behind the same body; and each span of a trace is another one.
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    let is_plain = request.method == "POST" && length == Some(request.body.len()) && request.trace.is_none();
    if !is_plain || request.body.len() > BODY_MAX_BYTES || answer.status >= 500 {
        return;
    }
    let Ok(Some(token)) = credentials::token(request, app.config.demo) else { return };
    let token_hash = token_hash(token);
    let Some((_, account)) = accounts::known(&app.config, &token_hash, request.now_ms) else { return };
    let answer_bytes =
        answer.body.len() + answer.headers.iter().map(|(n, v)| n.len() + v.len()).sum::<usize>();
    let Ok(prepared) = prepare(request, route, answer) else { return };
    let answer = Prepared { answer: prepared, status: answer.status, route, token_hash, account };
    let (head, body) = (head(request), request.body.clone());
    isolate::remember(&key_hash, Verbatim { head, body, answer, answer_bytes });
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

fn prepare(request: &Request, route: &str, answer: &Answer) -> worker::Result<Array> {
    let line = serve::line_begins(request, route, answer);
    let answer = reply::finish(answer.clone(), request);
    let timing = answer.headers.iter().find(|(name, _)| name == "server-timing");
    let timing = timing.and_then(|(_, value)| value.split_once(',')).map_or("", |(_, rest)| rest);
    let each_its_own = |name: &str| matches!(name, "request-id" | "server-timing");
    let headers: Vec<_> = answer.headers.iter().filter(|(name, _)| !each_its_own(name)).collect();
    let headers = JSON::parse(&serde_json::to_string(&headers)?)?;
    let headers = web_sys::Headers::new_with_str_sequence_sequence(&headers)?;
    Ok(Array::of5(
        &answer.status.into(),
        &headers,
        &Uint8Array::from(answer.body.as_slice()),
        &timing.into(),
        &line.map_or(JsValue::NULL, JsValue::from),
    ))
}

/// The names of those headers that the answer depends on, with commas between them.
#[wasm_bindgen]
pub fn verbatim_headers() -> String {
    HEADERS.join(",")
}

/// Whether any request is remembered: where none is, no head is made.
#[wasm_bindgen]
pub fn verbatim_is_any() -> bool {
    isolate::is_any_remembered()
}

/// Whether a request with this head is remembered: only then its body is worth to be read for it.
#[wasm_bindgen]
pub fn verbatim_is_known(head: &str) -> bool {
    isolate::knows(head)
}

/// What this request is answered with, if it is the very same as one before. It is counted as a replay from a copy, which it is.
#[wasm_bindgen]
pub fn verbatim_answer(head: &str, body: &[u8], env: Env, ctx: JsContext) -> Option<Array> {
    let config = Config::of(&env).ok().filter(|config| config.replay_cache_ms > 0)?;
    let now_ms = now_ms();
    let (answer, status, route, took_money) = isolate::recall(head, body, |prepared, copy| {
        let (id, account) = accounts::known(&config, &prepared.token_hash, now_ms)?;
        let is_theirs = Rc::ptr_eq(&account, &prepared.account) && copy.owner == Owner::Account(id);
        is_theirs.then(|| (prepared.answer.clone(), prepared.status, prepared.route, copy.took_money))
    })?;
    metrics::replayed_at_edge(took_money);
    metrics::request(route, "POST", status, "replayed");
    if let Some(flush) = metrics::flush(&env) {
        Context::new(ctx).wait_until(flush);
    }
    Some(answer)
}
