//! Many histories on all cores, and what they exercised.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::faults::{Boundary, catalogue};
use crate::history::Outcome;
use crate::report::{Counters, Name};

/// How many random histories are played: at first, and at most while something that they must reach has not happened yet.
#[derive(Clone, Copy)]
pub(crate) struct Amount {
    first: u64,
    most: u64,
    is_chosen: bool,
}

/// As many as the variable says; else `first` of them and at most `most`, which `THOROUGH` plays in any case.
pub(crate) fn amount(variable: &str, first: u64, most: u64) -> Amount {
    if let Ok(chosen) = std::env::var(variable) {
        let chosen = chosen.parse().expect("a number");
        return Amount { first: chosen, most: chosen, is_chosen: true };
    }
    Amount { first: if is_thorough() { most } else { first }, most, is_chosen: false }
}

/// `npm test -- thorough` plays several times as much.
pub(crate) fn is_thorough() -> bool {
    std::env::var_os("THOROUGH").is_some()
}

/// Plays the random histories of these numbers until they have reached all that is expected of them, and fails if they never do.
pub(crate) fn play_random(
    names: &(impl Fn(u64) -> Name + Sync),
    amount: Amount,
    expected: &[&str],
    play: impl Fn(&Name, bool) -> Outcome + Sync,
) -> Counters {
    let (mut played, mut counters) = (0, Counters::default());
    loop {
        let more = amount.first.min(amount.most - played);
        counters.merge(&play_all(&|number| names(played + number), more, &play));
        played += more;
        let missing = counters.missing(expected);
        if missing.is_empty() || played == amount.most {
            println!("random histories: {played}\n{counters}");
            assert!(missing.is_empty() || amount.is_chosen, "never happened: {missing:?}");
            return counters;
        }
    }
}

/// Every fault at every boundary from `first` on.
pub(crate) fn every_fault(passed: &[Boundary], first: usize) -> Vec<(usize, usize)> {
    let later = passed.iter().enumerate().skip(first);
    later.flat_map(|(at, boundary)| (0..catalogue(*boundary).len()).map(move |fault| (at, fault))).collect()
}

/// A scenario with each single fault.
pub(crate) fn singles(
    world: &'static str,
    scenario: &'static str,
    play: impl Fn(&Name, bool) -> Outcome,
) -> Vec<Name> {
    let nominal = play(&Name::Scenario(world, scenario, vec![]), false);
    assert!(nominal.violations.is_empty(), "{scenario} without faults: {:?}", nominal.violations);
    every_fault(&nominal.passed, 0)
        .into_iter()
        .map(|fault| Name::Scenario(world, scenario, vec![fault]))
        .collect()
}

/// Tells the history that the environment asks for; without one, shows that the same number gives the same history.
pub(crate) fn replay(
    worlds: [&'static str; 2],
    scenarios: &[&'static str],
    play: impl Fn(&Name, bool) -> Outcome,
) {
    let Some(name) = worlds.into_iter().find_map(|world| Name::from_env(world, scenarios)) else {
        let twice = [0, 1].map(|_| play(&Name::Seed(worlds[0], 7), false).counters.to_string());
        assert_eq!(twice[0], twice[1]);
        return;
    };
    let outcome = play(&name, true);
    println!("{}", outcome.counters);
    if let Some(violation) = outcome.violations.first() {
        panic!("{}", name.failure(violation));
    }
}

/// Plays many histories on all cores; stops at the first that breaks an invariant.
pub(crate) fn play_all(
    names: &(impl Fn(u64) -> Name + Sync),
    how_many: u64,
    play: impl Fn(&Name, bool) -> Outcome + Sync,
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
            let outcome = play(&name, false);
            counters.merge(&outcome.counters);
            if let Some(violation) = outcome.violations.first() {
                next.store(how_many, Ordering::Relaxed);
                failure.lock().unwrap().get_or_insert(name.failure(violation));
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
