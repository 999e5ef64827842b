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

use futures_util::FutureExt;
use futures_util::future::{Either, select};

pub mod alarm;
mod beside;
mod drive;
pub mod execute;
pub mod object;
mod outbox;
pub mod runtime;
pub mod storage;
pub mod store;

/// What comes of it within so many ms; `None` where it takes longer, and is given up.
pub async fn within<T>(ms: u64, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), worker::Delay::from(Duration::from_millis(ms))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// Waits for some work, for at most so long: then it goes on without whoever waits for it.
pub async fn wait_at_most(patience: Duration, work: impl Future<Output = ()> + 'static) {
    let work = work.boxed_local().shared();
    worker::wasm_bindgen_futures::spawn_local(work.clone());
    select(work, worker::Delay::from(patience)).await;
}
