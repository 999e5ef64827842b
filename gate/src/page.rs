//! Which forms of a page get a key, and the page with them.

use std::rc::Rc;

use wasm_bindgen::prelude::wasm_bindgen;
use worker::js_sys::{Array, Promise};
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::worker_sys::web_sys;

use crate::config::{Config, Kind};
use crate::form_key::FormKey;

/// Decides for the forms of a page.
#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
pub struct Page {
    config: Rc<Config>,
    host: String,
}

impl Page {
    /// Of a page at this host.
    pub const fn new(config: Rc<Config>, host: String) -> Self {
        Self { config, host }
    }

    /// A key for a form that goes there, if that is one of the gate's.
    pub fn mint(&self, method: &str, path: &str, query: &str) -> Option<FormKey> {
        let kind = self.config.find(&self.host, method, path, query)?.kind;
        let random = runtime::random::bytes().ok()?;
        (kind == Kind::Form).then(|| FormKey::mint(random, runtime::now_ms(), &self.config.signing_keys))
    }
}

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
impl Page {
    /// The same, for the rewriter.
    pub fn key(&self, method: &str, path: &str, query: &str) -> Option<String> {
        self.mint(method, path, query).map(|key| key.as_str().to_owned())
    }
}

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, module = "/src/html.mjs")]
extern "C" {
    #[wasm_bindgen(catch, js_name = rewrite)]
    fn rewrite_js(
        response: &web_sys::Response,
        page: Page,
        address: &str,
        script: &str,
        is_elsewhere: bool,
    ) -> Result<Promise, JsValue>;
}

/// A page with its keys.
pub struct Rewritten {
    /// What is sent.
    pub body: web_sys::ReadableStream,
    /// There is a key in it, or there may be one; `None` where it could not be read, and is as it was.
    pub is_keyed: Option<bool>,
}

/// Writes keys into a page. `None` where it cannot be read: nothing of it is used up then. A page that `is_elsewhere` is not at its own address in the
/// browser: what it names without a host is named from there all the same.
pub async fn rewrite(
    response: &web_sys::Response,
    page: Page,
    address: &str,
    script: &str,
    is_elsewhere: bool,
) -> Option<Rewritten> {
    let rewritten = rewrite_js(response, page, address, script, is_elsewhere).ok()?;
    let rewritten = JsFuture::from(rewritten).await.ok()?;
    let rewritten: Array = rewritten.dyn_into().ok()?;
    Some(Rewritten { body: rewritten.get(0).dyn_into().ok()?, is_keyed: rewritten.get(1).as_bool() })
}
