//! Asks the payments Worker itself: see [`messages::operations`].

use serde::Serialize;
use serde::de::DeserializeOwned;
use worker::wasm_bindgen::JsValue;
use worker::{Env, Error, Method, RequestInit, Response, Result};

/// The payments Worker's entrypoint for the desk, by its name in wrangler.toml.
const OPERATIONS: &str = "OPERATIONS";

/// Asks, and reads the answer.
pub(crate) async fn ask<T: DeserializeOwned>(env: &Env, path: &str, body: &impl Serialize) -> Result<T> {
    let mut response = send(env, path, body).await?;
    match response.status_code() {
        200 => response.json().await,
        status => Err(Error::RustError(format!("the payments Worker answered {status}"))),
    }
}

/// Asks, and gives whatever is answered.
pub(crate) async fn send(env: &Env, path: &str, body: &impl Serialize) -> Result<Response> {
    let mut init = RequestInit::new();
    init.with_method(Method::Post).with_body(Some(JsValue::from_str(&serde_json::to_string(body)?)));
    let request = worker::Request::new_with_init(&format!("https://payments{path}"), &init)?;
    env.service(OPERATIONS)?.fetch_request(request).await
}
