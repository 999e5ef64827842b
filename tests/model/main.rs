//! The protocol, checked exhaustively within small bounds: every interleaving of requests, crashes, lost and doubled
//! messages, alarms and passing time. The transactions are those of the real core; see [`world`].
//!
//! `cargo test --test model -- --nocapture` prints how many states there are; with `THOROUGH=1` the bounds of the rough wire
//! are wider, which takes some minutes. Each deliberate defect of the core must lead to a counterexample: that shows that the
//! model can find one.
//!
//! What it takes for granted: transactions are atomic; at most two runs are in memory at once; a request is under way
//! for less than the quiet time; the clock does not go back; the provider keeps a key for longer than the window and
//! the longest flight together, completes what it has failed in within the quarantine, and finds the same fault in every copy of a request that it rejects. A run of the living
//! incarnation waits with a transaction for at most a tick at a time, and each such stall counts as a crash.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test: a panic is its verdict, nobody links to it, and it has a clock"
)]

mod coverage;
mod provider;
#[path = "../saboteur/mod.rs"]
#[allow(dead_code, reason = "nothing happens to this payment but that it is paid")]
mod saboteur;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use payments::payment::PaymentState;
use stateright::{Checker, HasDiscoveries, Model, Property};

use coverage::{Coverage, Seen};
use saboteur::Mutant;
use world::{Broken, Budget, ModelAction, Protocol, World};

/// Most of the time of a history went into what it allocates: with the system's allocator it takes half as much again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ONE_CHARGE: &str = "at most one charge";
const FAILED_MEANS_NO_CHARGE: &str = "failed means that nothing was charged, now and later";
const PAID_MEANS_ONE_CHARGE: &str = "paid means exactly one charge";
const VERDICT_IS_TRUE: &str = "the stored verdict is true";
const IN_WINDOW: &str = "nothing is sent under a key past the window";
const SAME_BYTES: &str = "the bytes under a derived key never change";
const FENCED: &str = "a stale run writes nothing";
const FORWARD: &str = "a key only goes forward";
const SAME_REPLAY: &str = "every replay is the same";
const OWN_PAYLOAD: &str = "another payload is refused and changes nothing";
const NO_BUG: &str = "no step meets a state that cannot be";
const SINGLE_EFFECTS: &str = "every effect happens once, with its audit record";
const WAKES: &str = "an open key has an alarm";
const SETTLES: &str = "the alarm brings every key to its end";

impl Model for Protocol {
    type State = World;
    type Action = ModelAction;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
    }

    fn actions(&self, state: &World, actions: &mut Vec<ModelAction>) {
        self.happenings(state, actions);
    }

    fn next_state(&self, state: &World, action: ModelAction) -> Option<World> {
        self.after(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_CHARGE, |_, w: &World| w.provider.charges() <= 1),
            Property::always(FAILED_MEANS_NO_CHARGE, |_, w: &World| {
                w.told() != Some(402) || w.provider.charges() == 0
            }),
            Property::always(PAID_MEANS_ONE_CHARGE, |_, w: &World| {
                w.told() != Some(201) || w.provider.charges() == 1
            }),
            Property::always(VERDICT_IS_TRUE, |_, w: &World| match w.payment() {
                Some(PaymentState::Captured { .. }) => w.provider.charges() == 1,
                Some(PaymentState::Failed(_)) => w.provider.charges() == 0,
                _ => true,
            }),
            Property::always(IN_WINDOW, |_, w: &World| w.broken != Some(Broken::SentPastWindow)),
            Property::always(SAME_BYTES, |_, w: &World| w.broken != Some(Broken::BytesChanged)),
            Property::always(FENCED, |_, w: &World| w.broken != Some(Broken::StaleRunWrote)),
            Property::always(FORWARD, |_, w: &World| w.broken != Some(Broken::WentBack)),
            Property::always(SAME_REPLAY, |_, w: &World| w.broken != Some(Broken::ReplayDiffers)),
            Property::always(OWN_PAYLOAD, |_, w: &World| w.broken != Some(Broken::OtherPayloadAnswered)),
            Property::always(NO_BUG, |_, w: &World| w.broken != Some(Broken::Bug)),
            Property::always(SINGLE_EFFECTS, |_, w: &World| w.effects_are_single()),
            Property::always(WAKES, |_, w: &World| !w.is_open() || w.alarm.is_some()),
            Property::always(SETTLES, Protocol::settles),
            Property::sometimes("a client is told: paid", |_, w: &World| w.told() == Some(201)),
            Property::sometimes("a client is told: failed", |_, w: &World| w.told() == Some(402)),
            Property::sometimes(
                "a declined card",
                |_, w: &World| matches!(w.payment(), Some(PaymentState::Failed(failure)) if failure.code == "card_declined"),
            ),
            Property::sometimes(
                "a request that never arrived",
                |_, w: &World| matches!(w.payment(), Some(PaymentState::Failed(failure)) if failure.code == "payment_not_completed"),
            ),
            Property::sometimes("two runs at once", |_, w: &World| w.live.len() >= 2),
            Property::sometimes("two requests on the wire", |_, w: &World| w.wire.len() >= 2),
        ]
    }
}

/// Crashes, stalls and a bad wire.
const ROUGH_WIRE: Budget =
    Budget { calls: 2, crashes: 2, drops: 1, duplicates: 1, upsets: 0, sends: 4, ticks: 3 };

/// The same with one more request and one more loss: five times as many states.
const ROUGHER_WIRE: Budget = Budget { calls: 3, drops: 2, ..ROUGH_WIRE };

/// Less of these, and beside them a provider that fails, errors of our own, and another payload.
const UPSETS: Budget =
    Budget { calls: 2, crashes: 1, drops: 1, duplicates: 0, upsets: 1, sends: 3, ticks: 3 };

/// The same with one more copy of a request: several times as many states.
const MORE_UPSETS: Budget = Budget { duplicates: 1, ..UPSETS };

fn assert_holds(budget: Budget, cannot_happen: &[Seen]) {
    let started = std::time::Instant::now();
    let coverage = Arc::new(Coverage::default());
    let checker = Protocol::new(budget, None, coverage.clone())
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    println!(
        "{budget:?}\n{} unique states, {} in all, depth {}, {} ms",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed().as_millis()
    );
    for (seen, count) in coverage.table() {
        println!("{count:>10} {seen:?}");
    }
    checker.assert_properties();
    for (seen, count) in coverage.table() {
        assert_eq!(count == 0, cannot_happen.contains(&seen), "{seen:?} was met {count} times");
    }
}

fn is_thorough() -> bool {
    std::env::var_os("THOROUGH").is_some()
}

#[test]
fn the_protocol_holds_on_a_rough_wire() {
    let budget = if is_thorough() { ROUGHER_WIRE } else { ROUGH_WIRE };
    assert_holds(budget, &[Seen::MismatchRefused, Seen::Interrupted, Seen::Quarantined, Seen::Completed]);
}

#[test]
fn the_protocol_holds_when_provider_and_object_fail() {
    let budget = if is_thorough() { MORE_UPSETS } else { UPSETS };
    assert_holds(budget, &[]);
}

/// As little as a mutant needs to be caught: where more may happen it is caught, too, after many more states.
const LITTLE: Budget =
    Budget { calls: 2, crashes: 0, drops: 1, duplicates: 0, upsets: 1, sends: 2, ticks: 3 };

/// One request, and a run that stalls.
const A_STALL: Budget = Budget { calls: 1, crashes: 1, upsets: 0, ..LITTLE };

fn assert_caught(mutant: Mutant, by: &'static str, budget: Budget) {
    let checker = Protocol::new(budget, Some(mutant), Arc::default())
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AllOf(BTreeSet::from([by])))
        .spawn_bfs()
        .join();
    let path = checker.assert_any_discovery(by);
    let (states, path) = (checker.unique_state_count(), path.into_actions());
    println!("{mutant:?}: {by}\n  {states} states, {} steps: {path:?}", path.len());
}

#[test]
fn a_fresh_provider_key_for_each_send_charges_twice() {
    assert_caught(Mutant::FreshProviderKey, ONE_CHARGE, LITTLE);
}

#[test]
fn a_send_without_a_lease_check_charges_twice() {
    assert_caught(Mutant::NoLeaseCheck, ONE_CHARGE, A_STALL);
}

#[test]
fn a_claim_that_goes_with_an_error_charges_twice() {
    assert_caught(Mutant::ReleaseKeyOnError, ONE_CHARGE, LITTLE);
}

#[test]
fn a_time_out_taken_for_a_failure_is_a_lie() {
    assert_caught(Mutant::FailAfterTimeout, FAILED_MEANS_NO_CHARGE, LITTLE);
}

#[test]
fn without_the_alarm_a_key_is_stuck() {
    assert_caught(Mutant::NoAlarm, SETTLES, LITTLE);
}

#[test]
fn a_send_past_the_window_charges_twice() {
    assert_caught(Mutant::IgnoreWindow, ONE_CHARGE, LITTLE);
}

#[test]
fn an_absence_believed_too_early_is_a_lie() {
    assert_caught(Mutant::NoQuietPeriod, FAILED_MEANS_NO_CHARGE, LITTLE);
}

#[test]
fn an_absence_believed_after_a_500_is_a_lie() {
    assert_caught(Mutant::AbsenceIsFinal, FAILED_MEANS_NO_CHARGE, LITTLE);
}

#[test]
fn without_the_fingerprint_another_payload_is_answered() {
    assert_caught(Mutant::NoFingerprint, OWN_PAYLOAD, LITTLE);
}

#[test]
fn a_forgotten_tombstone_charges_twice() {
    assert_caught(Mutant::ForgetTombstone, ONE_CHARGE, LITTLE);
}
