//! AES-256-GCM, by the runtime's own [Web Crypto](https://www.w3.org/TR/webcrypto-2/): what is sealed is read, and changed, by whoever has the key alone.

use worker::js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;

const NONCE_LEN: usize = 12;

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

async fn imported(key: &[u8; 32]) -> Result<JsValue, JsValue> {
    let usages = Array::of2(&"encrypt".into(), &"decrypt".into());
    JsFuture::from(import_key("raw", &Uint8Array::from(&key[..]), "AES-GCM", false, &usages)?).await
}

fn algorithm(nonce: &[u8], place: &[u8]) -> Result<Object, JsValue> {
    let algorithm = Object::new();
    Reflect::set(&algorithm, &"name".into(), &"AES-GCM".into())?;
    Reflect::set(&algorithm, &"iv".into(), &Uint8Array::from(nonce))?;
    if !place.is_empty() {
        Reflect::set(&algorithm, &"additionalData".into(), &Uint8Array::from(place))?;
    }
    Ok(algorithm)
}

/// Seals it: a fresh nonce of 12 bytes, and what is encrypted. It opens only with the same `place`, which may be empty: so what is sealed for one
/// row is of no use in another.
///
/// # Errors
/// Where the runtime's cryptography fails.
pub async fn seal(key: &[u8; 32], plain: &[u8], place: &[u8]) -> worker::Result<Vec<u8>> {
    let nonce: [u8; NONCE_LEN] = super::random::bytes()?;
    let plain = Uint8Array::from(plain);
    let sealed = encrypt(&algorithm(&nonce, place)?, &imported(key).await?, &plain)?;
    let sealed = JsFuture::from(sealed).await?;
    Ok([&nonce[..], &Uint8Array::new(&sealed.unchecked_into::<JsValue>()).to_vec()].concat())
}

/// Opens it; `None` if it is not of this key and this place, or was changed.
pub async fn open(key: &[u8; 32], sealed: &[u8], place: &[u8]) -> Option<Vec<u8>> {
    let (nonce, data) = sealed.split_at_checked(NONCE_LEN)?;
    let key = imported(key).await.ok()?;
    let opened = decrypt(&algorithm(nonce, place).ok()?, &key, &Uint8Array::from(data)).ok()?;
    Some(Uint8Array::new(&JsFuture::from(opened).await.ok()?).to_vec())
}
