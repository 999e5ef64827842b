//! Many histories on all cores, and what they exercised.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::faults::{Boundary, catalogue};
use crate::promises::Violation;
use crate::report::{Counters, Name};

/// Every fault at every boundary from `first` on.
pub(crate) fn every_fault(passed: &[Boundary], first: usize) -> Vec<(usize, usize)> {
    let later = passed.iter().enumerate().skip(first);
    later.flat_map(|(at, boundary)| (0..catalogue(*boundary).len()).map(move |fault| (at, fault))).collect()
}

/// Plays many histories on all cores; stops at the first that breaks a promise.
pub(crate) fn play_all(
    names: &(impl Fn(u64) -> Name + Sync),
    how_many: u64,
    play: impl Fn(&Name) -> (Counters, Option<Violation>) + Sync,
) -> Counters {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Counters::default());
    let failure: Mutex<Option<String>> = Mutex::new(None);
    let work = || {
        let mut counters = Counters::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= how_many {
                break;
            }
            let name = names(number);
            let (counted, violation) = play(&name);
            counters.merge(&counted);
            if let Some(violation) = violation {
                next.store(how_many, Ordering::Relaxed);
                failure.lock().unwrap().get_or_insert(name.failure(&violation));
            }
        }
        total.lock().unwrap().merge(&counters);
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    if let Some(failure) = failure.into_inner().unwrap() {
        panic!("{failure}");
    }
    total.into_inner().unwrap()
}
