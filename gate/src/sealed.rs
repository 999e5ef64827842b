//! What is kept of an answer, sealed under the secret of its key: AES-256-GCM, by the runtime's own
//! [Web Crypto](https://www.w3.org/TR/webcrypto-2/).

use serde::{Deserialize, Serialize};
use worker::js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;

use crate::cookies::Sent;
use crate::secret::Secret;

const NONCE_LEN: usize = 12;

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// All but the body.
    pub head: Head,
    /// The body; empty if it was too large to be kept.
    pub body: Vec<u8>,
}

/// All but the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The headers of the answer.
    pub headers: Vec<(String, String)>,
    /// The cookies with which it was sent first.
    pub first: Vec<Sent>,
    /// The body is there.
    pub is_whole: bool,
    /// It lies in the bucket, sealed with this head.
    #[serde(default)]
    pub in_bucket: bool,
}

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = importKey)]
    fn import_key(
        format: &str,
        key: &Uint8Array,
        algorithm: &str,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn encrypt(algorithm: &Object, key: &JsValue, data: &Uint8Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn decrypt(algorithm: &Object, key: &JsValue, data: &Uint8Array) -> Result<Promise, JsValue>;
}

async fn key(secret: &Secret) -> Result<JsValue, JsValue> {
    let bytes = Uint8Array::from(&secret.digest("seal").bytes()[..]);
    let usages = Array::of2(&"encrypt".into(), &"decrypt".into());
    JsFuture::from(import_key("raw", &bytes, "AES-GCM", false, &usages)?).await
}

fn algorithm(nonce: &[u8]) -> Result<Object, JsValue> {
    let algorithm = Object::new();
    Reflect::set(&algorithm, &"name".into(), &"AES-GCM".into())?;
    Reflect::set(&algorithm, &"iv".into(), &Uint8Array::from(nonce))?;
    Ok(algorithm)
}

/// Seals it: `nonce 12 · encrypted( length of the head 4 · head as JSON · body )`.
///
/// # Errors
/// Where the runtime's cryptography fails.
pub async fn seal(kept: &Kept, secret: &Secret) -> worker::Result<Vec<u8>> {
    let nonce: [u8; NONCE_LEN] = runtime::random::bytes()?;
    let head = serde_json::to_vec(&kept.head)?;
    let length = u32::try_from(head.len()).unwrap_or(u32::MAX).to_be_bytes();
    let plain = [&length[..], &head, &kept.body].concat();
    let plain = Uint8Array::from(&plain[..]);
    let sealed = JsFuture::from(encrypt(&algorithm(&nonce)?, &key(secret).await?, &plain)?).await?;
    Ok([&nonce[..], &Uint8Array::new(&sealed.unchecked_into::<JsValue>()).to_vec()].concat())
}

/// Opens it; `None` if it is not of this secret.
pub async fn open(sealed: &[u8], secret: &Secret) -> Option<Kept> {
    let (nonce, data) = sealed.split_at_checked(NONCE_LEN)?;
    let key = key(secret).await.ok()?;
    let opened = decrypt(&algorithm(nonce).ok()?, &key, &Uint8Array::from(data)).ok()?;
    let plain = Uint8Array::new(&JsFuture::from(opened).await.ok()?).to_vec();
    let (length, rest) = plain.split_first_chunk()?;
    let (head, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(Kept { head: serde_json::from_slice(head).ok()?, body: body.to_vec() })
}
