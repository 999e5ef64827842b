//! The way to an object.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::js_sys::Promise;
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::worker_sys::web_sys;
use worker::{Env, Error, Method, RequestInit, Response, Result, Stub};

use crate::http_client::within;
use messages::message::{Answered, Envelope, ObjectRequest, VERSION};
use once::id::ObjectId;
use once::trace::TraceContext;

/// How long an object may take where no person waits: longer than its call to a provider.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks an object. An exception, or no answer in time, says nothing about what was done: what is asked must be safe to ask again.
pub async fn ask<T: DeserializeOwned>(env: &Env, object: ObjectId, ask: &ObjectRequest) -> Result<T> {
    let stub = env.durable_object("KEYS")?.id_from_string(&object.to_hex())?.get_stub()?;
    within(PATIENCE, "the object's answer", ask_stub(stub, ask, None)).await.map(|answered| answered.message)
}

/// The same, of an object that was found already, with all that it tells. `trace` is the span that asks.
pub async fn ask_stub<T: DeserializeOwned>(
    stub: Stub,
    ask: &impl Serialize,
    trace: Option<TraceContext>,
) -> Result<Answered<T>> {
    let question = serde_json::to_string(&Envelope { version: VERSION, trace, message: ask })?;
    let object: Object = stub.into_rpc();
    let answer = match call(&object, &question).await {
        Ok(answer) => answer,
        // An object of the release before, while a deploy rolls out: nothing was done.
        Err(error) if error.to_string().contains(NO_METHOD) => fetch(&object, &question).await?,
        Err(error) => return Err(error),
    };
    json_text::from_str(&answer).map_err(|error| Error::RustError(json_text::unquoted(&error)))
}

/// Asks an object that takes a text and answers one.
pub async fn ask_text(stub: Stub, question: &str) -> Result<String> {
    call(&stub.into_rpc(), question).await
}

/// What the runtime says of an object without the method.
const NO_METHOD: &str = "does not implement the method";

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
extern "C" {
    /// A stub, as far as the bindings lack it: what the object's class answers by RPC.
    type Object;

    #[wasm_bindgen(method, catch, js_name = ask)]
    fn ask_by_rpc(this: &Object, question: &str) -> std::result::Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch, js_name = fetch)]
    fn ask_by_fetch(this: &Object, request: &web_sys::Request) -> std::result::Result<Promise, JsValue>;
}

async fn call(object: &Object, question: &str) -> Result<String> {
    let answer = JsFuture::from(object.ask_by_rpc(question)?).await?;
    answer.as_string().ok_or_else(|| Error::RustError("the object answered no text".to_owned()))
}

async fn fetch(object: &Object, question: &str) -> Result<String> {
    let mut init = RequestInit::new();
    init.with_method(Method::Post).with_body(Some(JsValue::from_str(question)));
    let request = worker::Request::new_with_init("https://object/", &init)?;
    let answer = JsFuture::from(object.ask_by_fetch(request.inner())?).await?;
    let mut response = Response::from(answer.dyn_into::<web_sys::Response>()?);
    match response.status_code() {
        200 => response.text().await,
        status => Err(Error::RustError(format!("the object answered {status}"))),
    }
}
