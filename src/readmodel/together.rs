//! What is asked of one place in the same turn goes there together, once for all who ask.
//!
//! - Nobody waits for anybody who asks later: what is asked leaves at the end of the turn.
//! - Each is told what came of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, Shared};

/// What is asked in this turn, by the name of the place. `T` is what each is told.
pub(crate) struct Together<A, T>(Rc<RefCell<Groups<A, T>>>);

type Groups<A, T> = BTreeMap<Option<String>, Group<A, T>>;

/// Those who go together.
struct Group<A, T> {
    asks: Rc<RefCell<Vec<A>>>,
    told: Shared<LocalBoxFuture<'static, Rc<[T]>>>,
}

impl<A, T> Default for Together<A, T> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<A: 'static, T: Clone + 'static> Together<A, T> {
    /// Asks a place, together with all that ask it in this turn. The first one's `go` goes there with what all of them ask, and gives in the same
    /// order what each is told; `None` where it gives too little.
    pub(crate) async fn ask<F>(
        &self,
        place: Option<&str>,
        ask: A,
        go: impl FnOnce(Vec<A>) -> F + 'static,
    ) -> Option<T>
    where
        F: Future<Output = Vec<T>> + 'static,
    {
        let place = place.map(str::to_owned);
        let (position, told) = {
            let mut open = self.0.borrow_mut();
            let group = open.entry(place.clone()).or_insert_with(|| self.group(place, go));
            let mut asks = group.asks.borrow_mut();
            asks.push(ask);
            (asks.len().saturating_sub(1), group.told.clone())
        };
        end_of_turn().await;
        told.await.get(position).cloned()
    }

    fn group<F>(&self, place: Option<String>, go: impl FnOnce(Vec<A>) -> F + 'static) -> Group<A, T>
    where
        F: Future<Output = Vec<T>> + 'static,
    {
        let (open, asks) = (Rc::clone(&self.0), Rc::new(RefCell::new(Vec::new())));
        let leaving = Rc::clone(&asks);
        let told = async move {
            open.borrow_mut().remove(&place);
            let asks = leaving.take();
            Rc::from(go(asks).await)
        };
        Group { asks, told: told.boxed_local().shared() }
    }
}

/// Resolves when all that can go on now has gone on. Whoever waits for it waits by itself: a future that several poll would be over too soon.
async fn end_of_turn() {
    let mut has_come = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_come, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;

    use super::*;

    /// Asks, and notes what goes together. Each is told what it asked, doubled.
    async fn ask(
        together: &Together<u32, u32>,
        went: &Rc<RefCell<Vec<Vec<u32>>>>,
        place: Option<&str>,
        one: u32,
    ) -> Option<u32> {
        let went = Rc::clone(went);
        together
            .ask(place, one, async move |asks: Vec<u32>| {
                let told = asks.iter().map(|one| one * 2).collect();
                went.borrow_mut().push(asks);
                told
            })
            .await
    }

    fn done<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
        }
    }

    #[test]
    fn what_is_asked_in_one_turn_goes_together_and_each_is_told_its_own() {
        let (together, went) = (Together::default(), Rc::default());
        let all = [(None, 1), (Some("a"), 2), (None, 3), (Some("a"), 4), (None, 5)];
        let told = done(join_all(all.map(|(place, one)| ask(&together, &went, place, one))));
        assert_eq!(told, [2, 4, 6, 8, 10].map(Some));
        assert_eq!(*went.borrow(), [vec![1, 3, 5], vec![2, 4]]);
    }

    #[test]
    fn what_is_asked_later_goes_by_itself_and_nobody_waits_for_it() {
        let (together, went) = (Together::default(), Rc::default());
        let is_asked = Cell::new(false);
        let later = async {
            for _ in 0..3 {
                end_of_turn().await;
            }
            assert!(is_asked.get());
            ask(&together, &went, None, 2).await
        };
        let soon = async {
            let told = ask(&together, &went, None, 1).await;
            is_asked.set(true);
            told
        };
        assert_eq!(done(futures_util::future::join(later, soon)), (Some(4), Some(2)));
        assert_eq!(*went.borrow(), [vec![1], vec![2]]);
    }

    #[test]
    fn one_that_is_given_up_takes_nothing_from_the_others() {
        let (together, went) = (Together::<u32, u32>::default(), Rc::default());
        let mut first = Box::pin(ask(&together, &went, None, 1));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let mut second = Box::pin(ask(&together, &went, None, 2));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert_eq!(done(second), Some(4));
        assert_eq!(*went.borrow(), [vec![1, 2]]);
    }
}
