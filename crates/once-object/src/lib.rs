//! The engine of [`once`] on a Durable Object.
//!
//! - [`object`]: an object at work, which runs operations, joins duplicates, wakes by its alarm and hands on jobs; and its
//!   [`object::Host`], the Worker's part, which is yours to write.
//! - [`execute`]: a request, and what comes of it.
//! - [`store`]: the state of an object as one row of SQLite, with the newest lines of its timeline.
//! - [`storage`]: what that needs of a database, so that it runs on the host, too.
//! - [`runtime`]: the same by the Workers runtime.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt, StreamExt};

pub mod alarm;
mod beside;
mod bounded;
mod drive;
pub mod execute;
pub mod object;
mod outbox;
pub mod runtime;
pub mod storage;
pub mod store;

/// What comes of it within so many ms; `None` where it takes longer, and is given up. That is to wait for it no longer, not to end it: a `fetch` goes
/// on, and holds one of the few connections that a request may have open, until it is aborted. So give it a signal
/// ([`worker::Fetch::send_with_signal`]), and abort that where nothing came, as the example does.
pub async fn within<T>(ms: u64, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), worker::Delay::from(Duration::from_millis(ms))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// The body of an answer as text, if that is UTF-8 and no longer than so many bytes: what comes beyond them is not read. Whoever answers may send
/// as much as they like, and what is kept of it must find [room](once::domain::Domain::ANSWERS_BYTES).
///
/// # Errors
/// Where it is longer, is no text, or breaks off.
pub async fn text_at_most(response: &mut worker::Response, bytes_max: usize) -> worker::Result<String> {
    // A response without any body has none to read from.
    let Ok(mut chunks) = response.stream() else { return response.text().await };
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        bytes.extend(chunk?);
        if bytes.len() > bytes_max {
            return Err(worker::Error::RustError(format!("a body of more than {bytes_max} bytes")));
        }
    }
    String::from_utf8(bytes).map_err(|_| worker::Error::RustError("a body that is no text".to_owned()))
}

/// Waits for some work, for at most so long: then it goes on without whoever waits for it.
pub async fn wait_at_most(patience: Duration, work: impl Future<Output = ()> + 'static) {
    let work = work.boxed_local().shared();
    worker::wasm_bindgen_futures::spawn_local(work.clone());
    select(work, worker::Delay::from(patience)).await;
}
