//! The way to an object.

use std::time::Duration;

use serde::de::DeserializeOwned;
use worker::wasm_bindgen::JsValue;
use worker::{Env, Method, RequestInit, Result, Stub};

use crate::http_client::within;
use messages::message::{Ask, Envelope, PROVIDER_MS, VERSION};
use once::id::ObjectId;

/// How long an object may take where no person waits: longer than its call to a provider.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks an object. An exception, or no answer in time, says nothing about what was done: what is asked must be safe to ask again.
pub async fn ask<T: DeserializeOwned>(env: &Env, object: ObjectId, ask: &Ask) -> Result<T> {
    let stub = env.durable_object("KEYS")?.id_from_string(&object.to_hex())?.get_stub()?;
    within(PATIENCE, "the object's answer", ask_stub(&stub, ask)).await.map(|(answer, _)| answer)
}

/// The same, of an object that was found already. Also gives how long it waited for the provider, in ms.
pub async fn ask_stub<T: DeserializeOwned>(stub: &Stub, ask: &Ask) -> Result<(T, u64)> {
    let body = serde_json::to_string(&Envelope { version: VERSION, message: ask })?;
    let mut init = RequestInit::new();
    init.with_method(Method::Post).with_body(Some(JsValue::from_str(&body)));
    let request = worker::Request::new_with_init("https://object/", &init)?;
    let mut response = stub.fetch_with_request(request).await?;
    let provider_ms = response.headers().get(PROVIDER_MS)?.and_then(|ms| ms.parse().ok()).unwrap_or(0);
    if response.status_code() != 200 {
        return Err(worker::Error::RustError(format!("the object answered {}", response.status_code())));
    }
    let envelope: Envelope<T> = response.json().await?;
    Ok((envelope.message, provider_ms))
}
