//! Bodies that are too large to be held: see stream.mjs.

use wasm_bindgen::prelude::wasm_bindgen;
use worker::js_sys::{Array, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::worker_sys::web_sys;

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, module = "/src/stream.mjs")]
extern "C" {
    #[wasm_bindgen(catch, js_name = beginning)]
    fn beginning_js(body: &web_sys::ReadableStream, bytes: u32) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_name = joined)]
    fn joined_js(first: &Uint8Array, reader: &JsValue, length: Option<f64>) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(catch, js_name = drain)]
    fn drain_js(reader: &JsValue) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_name = watched)]
    fn watched_js(body: &web_sys::ReadableStream, length: Option<f64>) -> Result<Array, JsValue>;
}

/// The beginning of a body, and whence the rest comes.
pub(crate) async fn beginning(
    body: &web_sys::ReadableStream,
    bytes: u32,
) -> Result<(Vec<u8>, Option<JsValue>), JsValue> {
    let read: Array = JsFuture::from(beginning_js(body, bytes)?).await?.dyn_into()?;
    let reader = read.get(1);
    Ok((Uint8Array::new(&read.get(0)).to_vec(), (!reader.is_undefined()).then_some(reader)))
}

/// A body of its beginning and the rest.
pub(crate) fn joined(first: &[u8], reader: &JsValue, length: Option<u64>) -> Result<JsValue, JsValue> {
    joined_js(&Uint8Array::from(first), reader, length.map(|length| length as f64))
}

/// Reads the rest of a body that nobody takes.
pub(crate) fn drain(reader: &JsValue) {
    drain_js(reader).ok();
}

/// A body that tells whether it broke off.
pub(crate) struct Watched {
    /// What is sent.
    pub(crate) body: JsValue,
    state: JsValue,
}

impl Watched {
    pub(crate) fn new(body: &web_sys::ReadableStream, length: Option<u64>) -> Result<Self, JsValue> {
        let both = watched_js(body, length.map(|length| length as f64))?;
        Ok(Self { body: both.get(0), state: both.get(1) })
    }

    /// Whether it broke off before its end: nobody has got it whole.
    pub(crate) fn is_broken(&self) -> bool {
        Reflect::get(&self.state, &"isBroken".into()).is_ok_and(|value| value.is_truthy())
    }
}
