//! The way to the queues. Everything that sends a job sends it here.

use std::cell::OnceCell;
use std::time::Duration;

use messages::queue::{Queue, Queues};
use worker::Env;
use worker::js_sys::{Array, JSON, Promise, Reflect};
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};
use worker::wasm_bindgen_futures::JsFuture;

use crate::http_client::within;

/// The queues that this Worker is bound to: they are the same as long as its isolate lives.
pub fn bound(env: &Env) -> Queues {
    thread_local! {
        static BOUND: OnceCell<Queues> = const { OnceCell::new() };
    }
    BOUND.with(|bound| *bound.get_or_init(|| Queues::bound(|name| env.queue(name).is_ok())))
}

/// The binding of the queue for a job of an object, whose id is given as hexadecimal digits.
pub fn binding(env: &Env, queue: Queue, object: &str) -> String {
    bound(env).binding(queue, object)
}

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen)]
extern "C" {
    /// A queue: by the bindings each field of a message is a call into JavaScript.
    type RawQueue;

    #[wasm_bindgen(method, catch, js_name = sendBatch)]
    fn send_batch(this: &RawQueue, messages: &Array) -> std::result::Result<Promise, JsValue>;
}

/// Sends these texts to the queue of a binding, each to come after so many seconds. They must fit into one batch.
pub async fn send<'a>(
    env: &Env,
    binding: &str,
    texts: impl IntoIterator<Item = (&'a str, u32)>,
    takes: Duration,
) -> worker::Result<()> {
    let queue = JsValue::from(env.queue(binding)?).unchecked_into::<RawQueue>();
    let messages: Array = texts.into_iter().map(message).collect::<worker::Result<_>>()?;
    let sent = async { Ok(JsFuture::from(queue.send_batch(&messages)?).await.map(drop)?) };
    within(takes, "the queue", sent).await
}

fn message((text, delay_s): (&str, u32)) -> worker::Result<JsValue> {
    let message = match delay_s {
        0 => JSON::parse(r#"{"contentType":"text"}"#),
        _ => JSON::parse(&format!(r#"{{"contentType":"text","delaySeconds":{delay_s}}}"#)),
    }?;
    Reflect::set(&message, &"body".into(), &text.into())?;
    Ok(message)
}
