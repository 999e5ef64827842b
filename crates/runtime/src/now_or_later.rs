//! Work that most often is done at once: without a promise, and without a turn of the runtime.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use worker::wasm_bindgen::JsValue;
use worker::wasm_bindgen_futures::future_to_promise;

/// Wakes whoever waits for the work by then: it begins before there is anybody.
#[derive(Default)]
struct Later(AtomicWaker);

impl Wake for Later {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// What some work gives; or a promise of it, if it has to wait.
pub fn now_or_promise(
    work: impl Future<Output = Result<JsValue, JsValue>> + 'static,
) -> Result<JsValue, JsValue> {
    let mut work = Box::pin(work);
    let later = Arc::new(Later::default());
    match poll(&mut work, &later) {
        Poll::Ready(end) => end,
        Poll::Pending => Ok(future_to_promise(poll_fn(move |ctx| {
            // Whatever has woken it before this is seen by the poll behind it.
            later.0.register(ctx.waker());
            poll(&mut work, &later)
        }))
        .into()),
    }
}

fn poll<T>(work: &mut Pin<Box<impl Future<Output = T>>>, later: &Arc<Later>) -> Poll<T> {
    work.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(later))))
}
