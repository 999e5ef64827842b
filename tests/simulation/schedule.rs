//! Time: what happens when, in an order that is the same at every replay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::faults::{HOUR, MINUTE};

/// When every history begins, by the provider's clock.
pub(crate) const EPOCH_MS: u64 = 1_790_000_000_000;

/// What is still to happen.
pub(crate) struct Schedule<E> {
    order: u64,
    due: BinaryHeap<Reverse<Due<E>>>,
}

struct Due<E> {
    at_ms: u64,
    order: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ms, self.order) == (other.at_ms, other.order)
    }
}
impl<E> Eq for Due<E> {}
impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ms, self.order).cmp(&(other.at_ms, other.order))
    }
}

impl<E> Schedule<E> {
    pub(crate) const fn new() -> Self {
        Self { order: 0, due: BinaryHeap::new() }
    }

    /// Lets something happen at a time; at equal times in the order of these calls.
    pub(crate) fn at(&mut self, at_ms: u64, event: E) {
        self.order += 1;
        self.due.push(Reverse(Due { at_ms, order: self.order, event }));
    }

    /// The next that happens, and when.
    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        self.due.pop().map(|Reverse(due)| (due.at_ms, due.event))
    }
}

/// One line of a told history.
pub(crate) fn tell(now_ms: u64, line: &str) {
    let ms = now_ms - EPOCH_MS;
    println!("{:>4}h {:>2}m {:>6.3}s  {line}", ms / HOUR, ms / MINUTE % 60, (ms % MINUTE) as f64 / 1e3);
}
