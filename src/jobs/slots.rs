//! How many jobs of one batch are at work at a time, beside what is written into the read model.

use futures_util::future::select_all;
use futures_util::lock::{Mutex, MutexGuard};
use runtime::http_client::CONNECTIONS_MAX;

/// The places for them.
#[derive(Default)]
pub(super) struct Slots([Mutex<()>; CONNECTIONS_MAX]);

impl Slots {
    /// Waits until one is free, and has it until what is given is dropped.
    pub(super) async fn take(&self) -> MutexGuard<'_, ()> {
        select_all(self.0.iter().map(|slot| Box::pin(slot.lock()))).await.0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn no_more_than_six_are_at_work_and_the_next_one_begins_as_one_ends() {
        let slots = Slots::default();
        let mut taken: Vec<_> = (0..CONNECTIONS_MAX).map(|_| slots.take().now_or_never().unwrap()).collect();
        let mut waiting = Box::pin(slots.take());
        assert!(waiting.as_mut().now_or_never().is_none(), "all are taken");
        taken.swap_remove(3);
        let next = waiting.now_or_never();
        assert!(next.is_some() && slots.take().now_or_never().is_none(), "one was free, for one");
    }
}
