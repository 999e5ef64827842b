//! The simulation: whole histories of one key of a ride, decided by one number, with every kind of fault, and judged by an
//! auditor that shares no code with the core. [`payments`] is a world of its own, with the same faults.
//!
//! ```text
//! cargo test --test simulation                                            everything
//! THOROUGH=1 cargo test --test simulation                                 several times as many histories, and every pair of faults
//! SIM_HISTORIES=1000000 cargo test --test simulation random               more histories
//! SIM_SEED=7 cargo test --test simulation replay -- --nocapture           one history, told step by step
//! ```
//!
//! Read on in this order: faults.rs (what can go wrong), world.rs (an object, its incarnations, and time),
//! clients.rs and requests.rs (who asks), runs.rs (what the object then does), wire.rs and provider.rs (Stripe and the
//! way to it), auditor.rs (what must hold). What both worlds use: invariants.rs (what both auditors judge), history.rs,
//! schedule.rs, store.rs, campaign.rs, report.rs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod auditor;
mod campaign;
mod clients;
mod disk;
mod faults;
mod history;
mod invariants;
mod old_tables;
mod payments;
mod provider;
mod report;
mod requests;
mod rng;
mod runs;
#[path = "../saboteur/mod.rs"]
mod saboteur;
mod schedule;
mod store;
mod tables;
mod wire;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use once::id::ObjectId;
use once::record::Channel;

use campaign::{amount, every_fault, is_thorough, play_all, play_random, singles};
use clients::{Client, Place, Role};
use faults::{Boundary, Fault, HOUR, MINUTE, Plan, SECOND, SKEW_MAX_MS};
use history::Outcome;
use invariants::{ONE_CHARGE, TRUE_VERDICT, Violation};
use report::Name;
use rng::Dice;
use saboteur::{Mutant, Saboteur};
use world::{Clocks, PRUNED, Scenario, World};

/// A ride's variables are `SIM_SEED` and `SIM_STORY`, those of the payments `SIM_PAYMENTS_SEED` and so on.
const WORLD: &str = "SIM";
/// The same world, in which runs are in [turns](history::Active::in_turns).
const TURNS: &str = "SIM_TURNS";
/// Makes the dice that say whether they are in a random history.
const IN_TURNS: u64 = 0x0000_0074_7572_6e73;
const STORIES: [&str; 2] = ["api", "form"];

/// The told stories: an API client that returns later and once more after its key has expired; a double click.
fn told(story: &str) -> Scenario {
    let channel = if story == "api" { Channel::Api } else { Channel::Form };
    let place = Place { object: ObjectId::from_bytes([7; 32]), channel };
    let mut clients = vec![Client::new(&place, Role::Faithful, 0)];
    match story {
        "api" => clients[0].returns_ms = vec![MINUTE, 27 * HOUR],
        _ => clients.push(Client::new(&place, Role::Faithful, 120)),
    }
    Scenario { place, clients, clocks: Clocks::Right, key_kept_longer_ms: 0, other_payments: 2 }
}

/// The history of a seed, about to be played.
fn random(seed: u64, mutant: Option<Mutant>, trace: bool) -> World {
    let mut dice = Dice::new(seed);
    let story = Scenario::random(&mut dice);
    let plan = Plan::Random {
        permille: dice.pick(&[0, 30, 60, 120, 250]),
        budget: u32::try_from(dice.between(1, 12)).unwrap_or(1),
        until_ms: dice.pick(&[10 * SECOND, HOUR, 24 * HOUR, 80 * HOUR]),
    };
    let in_turns = Dice::new(seed ^ IN_TURNS).permille(500);
    World::new(story, plan, dice, Saboteur(mutant), trace).in_turns(in_turns)
}

/// Plays a history.
fn play(name: &Name, trace: bool) -> Outcome {
    match name {
        Name::Seed(_, seed) => random(*seed, None, trace).play(),
        Name::Scenario(world, story, faults) => {
            let plan = Plan::Exactly(faults.clone());
            let world_of = World::new(told(story), plan, Dice::new(1), Saboteur::default(), trace);
            world_of.in_turns(*world == TURNS).play()
        }
    }
}

/// Every second fault at every boundary after the first, in the history that the first one makes.
fn pairs(single: &Name) -> Vec<Name> {
    let Name::Scenario(world, story, faults) = single else {
        return vec![];
    };
    let at = faults[0].0;
    let passed = play(single, false).passed;
    every_fault(&passed, at + 1)
        .into_iter()
        .map(|second| Name::Scenario(world, story, vec![faults[0], second]))
        .collect()
}

/// Of the pairs of faults every so many-th is played, if it is not to be thorough.
const PAIRS_STEP: usize = 4;

#[test]
fn every_single_fault_and_pairs_of_them_leave_one_charge_and_one_answer() {
    let told = |world| STORIES.iter().flat_map(move |story| singles(world, story, play));
    let singles: Vec<Name> = told(WORLD).chain(told(TURNS)).collect();
    let counters = play_all(&|number| singles[number as usize].clone(), singles.len() as u64, play);
    println!("single faults tried: {}\n{counters}", singles.len());

    let step = if is_thorough() { 1 } else { PAIRS_STEP };
    let pairs: Vec<Name> = singles.iter().flat_map(pairs).step_by(step).collect();
    let counters = play_all(&|number| pairs[number as usize].clone(), pairs.len() as u64, play);
    println!("pairs of faults tried: {}\n{counters}", pairs.len());
    assert!(pairs.len() > 10_000, "the stories have become too short: {} pairs", pairs.len());
}

/// The first send is lost. Just inside the window the key is sent again, late, by an incarnation whose clock is behind;
/// then one whose clock is ahead sees the window closed and looks the payment up. Wherever the two crash.
#[test]
fn no_verdict_overtakes_a_late_send_when_clocks_differ() {
    let most = SKEW_MAX_MS as i64;
    for (first, second) in (0..12).flat_map(|first| (first + 1..24).map(move |second| (first, second))) {
        let faults = vec![
            (Boundary::Send, 0, Fault::RequestLost),
            (Boundary::Transaction, first, Fault::Crash { committed: true, dark_ms: 23 * HOUR - 4 * MINUTE }),
            (Boundary::Send, 1, Fault::Late { ms: HOUR }),
            (Boundary::Transaction, second, Fault::Crash { committed: true, dark_ms: 0 }),
        ];
        let story = Scenario { clocks: Clocks::Listed(vec![-most, -most, most]), ..told("api") };
        let outcome =
            World::new(story, Plan::Listed(faults), Dice::new(1), Saboteur::default(), false).play();
        assert!(outcome.violations.is_empty(), "crashes at {first} and {second}: {:?}", outcome.violations);
    }
}

/// What the random histories must reach, or they have stopped exercising it.
const EXERCISED: [&str; 46] = [
    "alarms early",
    "alarms early, for a finished key",
    "alarms late",
    "alarms lost, swept",
    "alarms twice",
    "alarms twice, for a finished key",
    "begin: expired, refused",
    "begin: in progress, waits",
    "begin: may not start",
    "begin: other payload refused",
    "begin: replay",
    "begin: run",
    "begin: stranger refused",
    "begin: waits for the provider",
    "clocks set",
    "crashes",
    "faults",
    "look-ups of several pages",
    "look-ups past the window",
    "look-ups taken over between two pages",
    "look-ups: absent",
    "look-ups: found",
    "look-ups: found, unconfirmed",
    "look-ups: inconclusive",
    "look-ups: read on",
    "outcomes: definitive",
    "outcomes: not executed",
    "outcomes: unknown",
    "outcomes: executed, unconfirmed",
    "outcomes: left open",
    "outcomes: the provider failed",
    "pauses",
    "pauses, replaced meanwhile",
    "payments left open, to be canceled",
    "provider: 409, key in use",
    "provider: charges",
    "provider: executions",
    "provider: stored answers replayed",
    "requests timed out",
    "runs dropped",
    "runs interrupted by an error",
    "sends that arrive late",
    "sends that arrive twice",
    "sends under a used key",
    "stale runs fenced off",
    "takeovers",
];

#[test]
fn random_histories_break_no_promise() {
    let histories = amount("SIM_HISTORIES", 20_000, 100_000);
    let counters = play_random(&|seed| Name::Seed(WORLD, seed), histories, &EXERCISED, play);
    assert_eq!(counters.of(PRUNED), 0, "{PRUNED}");
}

/// Within so many histories every mutant must be caught.
const CAUGHT_WITHIN: u64 = 50_000;

/// How a mutant is noticed first, and the first history in which it costs somebody money: a second charge, or an
/// answer that is not true.
#[derive(Default)]
struct Caught {
    first: Option<(u64, Violation)>,
    money: Option<(u64, Violation)>,
}

fn catch(mutant: Mutant) -> Caught {
    let mut caught = Caught::default();
    for seed in 0..CAUGHT_WITHIN {
        let violations = random(seed, Some(mutant), false).played_on().play().violations;
        let costs = |v: &&Violation| v.invariant == ONE_CHARGE || v.invariant == TRUE_VERDICT;
        if let Some(first) = violations.first().filter(|_| caught.first.is_none()) {
            caught.first = Some((seed + 1, first.clone()));
        }
        if let Some(money) = violations.iter().find(costs) {
            caught.money = Some((seed + 1, money.clone()));
        }
        if caught.first.is_some() && (caught.money.is_some() || !costs_money(mutant)) {
            break;
        }
    }
    caught
}

/// The others only leave a key open, or answer another payload.
const fn costs_money(mutant: Mutant) -> bool {
    !matches!(mutant, Mutant::NoAlarm | Mutant::NoFingerprint)
}

#[test]
fn every_mutant_is_caught() {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::new());
    let work = || {
        while let Some(mutant) = Mutant::OF_THE_MACHINE.get(next.fetch_add(1, Ordering::Relaxed)) {
            let caught = catch(*mutant);
            all.lock().unwrap().push((format!("{mutant:?}"), *mutant, caught));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let tell = |caught: &Option<(u64, Violation)>| match caught {
        Some((histories, violation)) => format!("{histories:>5} histories: {}", violation.invariant),
        None => "never".to_owned(),
    };
    for (name, mutant, caught) in &all {
        println!("{name:<18} noticed after {}", tell(&caught.first));
        if costs_money(*mutant) {
            println!("{:<18} costs   after {}", "", tell(&caught.money));
        }
    }
    for (name, mutant, caught) in &all {
        assert!(caught.first.is_some(), "{name} survived");
        assert!(caught.money.is_some() || !costs_money(*mutant), "{name} cost nothing");
    }
}

/// `SIM_SEED=7 cargo test --test simulation replay -- --nocapture` tells one history; without it, that the same number
/// gives the same history.
#[test]
fn replay() {
    campaign::replay([WORLD, TURNS], &STORIES, play);
}
