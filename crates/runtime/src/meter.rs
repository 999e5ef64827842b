//! Counts the statements that a piece of work sends to D1: an invocation may send [so many](https://developers.cloudflare.com/d1/platform/limits/).
//! What else goes on in the same isolate meanwhile is not counted.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

thread_local! {
    /// Of the work that goes on at this moment.
    static METER: RefCell<Option<Rc<Cell<u32>>>> = const { RefCell::new(None) };
}

/// Does the work, and adds to `number` what it sends.
pub async fn metered<T>(number: &Rc<Cell<u32>>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let outer = METER.replace(Some(Rc::clone(number)));
        let polled = work.as_mut().poll(context);
        METER.set(outer);
        polled
    })
    .await
}

/// A statement is made, to be sent.
pub(crate) fn count() {
    METER.with_borrow(|meter| {
        if let Some(number) = meter {
            number.set(number.get().saturating_add(1));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    /// Counts so many, each in a turn of its own.
    async fn work(turns: u32) {
        for turn in 0..turns {
            let mut is_over = turn == 0;
            poll_fn(|_| match std::mem::replace(&mut is_over, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            count();
        }
    }

    #[test]
    fn each_counts_its_own_whoever_has_his_turn_between() {
        let numbers = [3, 5].map(|turns| (turns, Rc::new(Cell::new(0))));
        let mut works: Vec<_> =
            numbers.iter().map(|(turns, number)| Box::pin(metered(number, work(*turns)))).collect();
        let mut context = Context::from_waker(Waker::noop());
        while !works.is_empty() {
            works.retain_mut(|work| work.as_mut().poll(&mut context).is_pending());
            count();
        }
        for (turns, number) in &numbers {
            assert_eq!(number.get(), *turns);
        }
    }
}
