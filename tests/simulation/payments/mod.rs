//! The simulation of payments: whole histories of payments, orders, captures, voids and refunds with two providers, decided by
//! one number, with every kind of fault, and judged by an auditor of their own.
//!
//! ```text
//! cargo test --test simulation payments                                            all of this
//! THOROUGH=1 cargo test --test simulation payments                                 several times as much of it
//! SIM_PAYMENTS_HISTORIES=1000000 cargo test --test simulation payments             more histories
//! SIM_PAYMENTS_SEED=7 cargo test --test simulation replay -- --nocapture           one history, told step by step
//! SIM_PAYMENTS_RENEW=1 cargo test --test simulation protections                    the seeds of what is rare, anew
//! ```
//!
//! Read on in this order: scenario.rs and scenarios.rs (who wants what), world.rs (objects, incarnations, and time), requests.rs and
//! runs.rs (what the objects do), wire.rs (the way to the providers), accounts.rs (whose books they are), webhooks.rs (what they tell by themselves), inbox.rs (where Adyen's waits), customers.rs (what an object does before it runs a request about one), elsewhere.rs (what others do with the money), bank.rs, stripe.rs and adyen.rs (their books and their
//! manners), auditor/ (what must hold) and view.rs (what it is told); then directed.rs (histories made for one protection) and protections.rs (each switched off; in seeds.rs, where that is seen).

mod accounts;
mod adyen;
mod auditor;
mod bank;
mod customers;
mod directed;
mod elsewhere;
mod inbox;
mod jobs;
mod links;
mod operators;
mod protections;
mod requests;
mod runs;
mod scenario;
mod scenarios;
mod seeds;
mod stripe;
mod view;
mod webhooks;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use paid_once::config::Config;

use crate::campaign::{self, amount, every_fault, is_thorough, play_all, play_random, singles};
use crate::faults::{Boundary, Fault, HOUR, MINUTE, Oddity, Plan, SECOND, SKEW_MAX_MS};
use crate::history::Outcome;
use crate::invariants::{
    AUDIT, FROZEN, LIVENESS, MISMATCH, ONE_CHARGE, SAME_BYTES, STALE, STRANGER, TOMBSTONE, TRUE_VERDICT,
    Violation, WINDOW,
};
use crate::report::{Counters, Name};
use crate::rng::Rng;
use crate::saboteur::Mutant;
use auditor::{
    AGREES, DISPUTED, FORWARD, GIVEN_BACK, HEARD, MOVES, ONCE, ONE_CUSTOMER, ONE_TRY, SHOWS, SUMS,
    TAKEN_ONCE, UNCHANGED,
};
use scenario::Scenario;
use scenarios::{CUSTOMERS, SCENARIOS, WITH_WEBHOOKS, named};
use wire::LAGS;
use world::{Disabled, PRUNED, World};

const WORLD: &str = "SIM_PAYMENTS";
/// The same world, in which runs are in [turns](crate::history::Active::in_turns).
const TURNS: &str = "SIM_PAYMENTS_TURNS";
/// Seeds the numbers that say whether they are in a random history.
const IN_TURNS: u64 = 0x0000_0074_7572_6e73;
/// Seeds the numbers that say whether the providers tell anything in a random history.
const WEBHOOKS: u64 = 0x7765_6268_6f6f_6b73;
/// The same for what others do with the money.
const OTHERS: u64 = 0x656c_7365_7768_6572;
/// The same for days in which Adyen refuses everything.
const LOCKED_OUT: u64 = 0x0006_c6f6_3b65_6420;
/// The same for the secret of another account.
const ACCOUNTS: u64 = 0x6163_636f_756e_7473;
/// The same for the operator who settles calls by hand.
const OPERATORS: u64 = 0x6f70_6572_6174_6f72;
/// The same for personal data that is kept for days only. None of the histories that are played first is one of these.
const PERSONAL_DATA: u64 = 0x7065_7273_6f6e_6171;
/// The same for a client who comes with a form that has expired.
const EXPIRED_FORM: u64 = 0x6578_7069_7265_646c;
/// The same for Stripe's list, which shows what was made only after a while.
const LISTS: u64 = 0x0000_006c_6973_7473;
/// The same for whose reference Adyen's notifications of a move have.
const NAMED: u64 = 0x0000_006e_616d_6564;
/// The longest that Stripe's list lags behind. A send arrives within 10 min, and the second look is 25 min after the last send.
const LIST_LAG_MAX_MS: u64 = 14 * MINUTE;
/// How many pairs of faults are tried, of the millions that there are, and how many if it is to be thorough.
const PAIRS: (u64, u64) = (3_000, 24_000);
/// The same of random histories.
const HISTORIES: (u64, u64) = (10_000, 50_000);
/// Histories in which the rarest happens, played before all others, or many more would have to be; and one in which two keys wait for the other
/// account's key until that is given up, which takes more events than any other.
const RARE: [u64; 2] = [37_778, 34_946];
/// Within so many histories every protection that is switched off must be missed.
const MISSED_WITHIN: u64 = 30_000;

/// The history of a seed, about to be played.
pub(crate) fn random(seed: u64, disabled: Option<Disabled>, trace: bool) -> World {
    let mut rng = Rng::new(seed);
    let mut scenario = Scenario::random(&mut rng);
    let mut lists = Rng::new(seed ^ LISTS);
    // Where clocks differ the second look may follow the first one at once.
    if !scenario.clocks_differ && lists.permille(300) {
        scenario.lists_lag_ms = lists.between(MINUTE, LIST_LAG_MAX_MS);
    }
    let last = scenario.clients.last_mut().filter(|_| Rng::new(seed ^ EXPIRED_FORM).permille(100));
    if let Some(client) = last {
        client.command.may_start = false;
    }
    let plan = Plan::Random {
        permille: rng.pick(&[0, 20, 40, 80, 160]),
        budget: u32::try_from(rng.between(1, 12)).unwrap_or(1),
        until_ms: rng.pick(&[10 * SECOND, HOUR, 24 * HOUR, 80 * HOUR]),
    };
    let jobs = Rng::new(!seed).pick(&[0, 20, 150]);
    let in_turns = Rng::new(seed ^ IN_TURNS).permille(500);
    let world =
        World::new(scenario, plan, rng, disabled, trace).in_turns(in_turns).with_jobs_struck(jobs, 30 * HOUR);
    let mut personal = Rng::new(seed ^ PERSONAL_DATA);
    let world = match personal.permille(200) {
        true => world.forgetting_after(personal.between(2 * 24 * HOUR, 4 * 24 * HOUR)),
        false => world,
    };
    let has_others = Rng::new(seed ^ OTHERS).permille(300);
    let world = if has_others { world.with_others() } else { world };
    let mut locked_out = Rng::new(seed ^ LOCKED_OUT);
    let world = match locked_out.permille(5) {
        true => world.locked_out(locked_out.between(0, 5 * MINUTE), locked_out.between(HOUR, 8 * 24 * HOUR)),
        false => world,
    };
    let world = if Rng::new(seed ^ OPERATORS).permille(200) { world.with_operators(false) } else { world };
    let world = world.naming_payments(Rng::new(seed ^ NAMED).permille(300));
    let mut webhooks = Rng::new(seed ^ WEBHOOKS);
    if webhooks.permille(500) {
        return world.with_webhooks(webhooks.pick(&[0, 50, 300]));
    }
    let mut accounts = Rng::new(seed ^ ACCOUNTS);
    if !has_others && accounts.permille(500) { world.with_accounts(accounts) } else { world }
}

/// Plays a history.
fn play(name: &Name, trace: bool) -> Outcome {
    played(name, None, trace)
}

fn played(name: &Name, disabled: Option<Disabled>, trace: bool) -> Outcome {
    match name {
        Name::Seed(_, seed) => random(*seed, disabled, trace).play(),
        Name::Scenario(name, scenario, faults) => {
            let world =
                World::new(named(scenario), Plan::Exactly(faults.clone()), Rng::new(1), disabled, trace)
                    .in_turns(*name == TURNS);
            if WITH_WEBHOOKS.contains(scenario) { world.with_webhooks(200).play() } else { world.play() }
        }
    }
}

/// A scenario with a single fault, and the boundaries that its history has passed.
type Single = (&'static str, &'static str, (usize, usize), Vec<Boundary>);

/// A pair by its number: one of the first faults, and one of the second ones in the history that the first one makes.
fn pair(number: u64, singles: &[Single]) -> Name {
    let mut rng = Rng::new(number);
    loop {
        let (world, scenario, first, passed) = &singles[rng.between(0, singles.len() as u64 - 1) as usize];
        let seconds = every_fault(passed, first.0 + 1);
        if !seconds.is_empty() {
            let second = seconds[rng.between(0, seconds.len() as u64 - 1) as usize];
            return Name::Scenario(world, scenario, vec![*first, second]);
        }
    }
}

#[test]
fn every_single_fault_and_many_pairs_leave_the_money_right() {
    let all_of = |world| SCENARIOS.iter().flat_map(move |scenario| singles(world, scenario, play));
    let singles: Vec<Name> = all_of(WORLD).chain(all_of(TURNS)).collect();
    for scenario in SCENARIOS {
        let of_it =
            singles.iter().filter(|name| matches!(name, Name::Scenario(_, known, _) if *known == scenario));
        println!("{:>6} single faults in {scenario}", of_it.count());
    }
    let played: Mutex<Vec<Single>> = Mutex::default();
    let play_single = |name: &Name, trace: bool| {
        let outcome = play(name, trace);
        if let Name::Scenario(world, scenario, faults) = name {
            played.lock().unwrap().push((*world, *scenario, faults[0], outcome.passed.clone()));
        }
        outcome
    };
    let counters = play_all(&|number| singles[number as usize].clone(), singles.len() as u64, play_single);
    println!("single faults tried: {}\n{counters}", singles.len());
    assert!(singles.len() > 7_000, "the scenarios have become too short: {} faults", singles.len());

    let mut played = played.into_inner().unwrap();
    played.sort_unstable_by_key(|(world, scenario, fault, _)| (*world, *scenario, *fault));
    let pairs = if is_thorough() { PAIRS.1 } else { PAIRS.0 };
    let counters = play_all(&|number| pair(number, &played), pairs, play);
    println!("pairs of faults tried: {pairs}\n{counters}");
}

/// The scenarios in which the rarer ones are missed. They are played before all others; one that shows nothing any more is only
/// useless.
const MISSED_IN_SCENARIO: [(Disabled, &str); 9] = [
    (Disabled::Core(Mutant::NoRefundReservation), "hold"),
    (Disabled::Core(Mutant::MovesOverlap), "rivals"),
    (Disabled::Core(Mutant::ForgetUnknownMove), "capture"),
    (Disabled::Core(Mutant::OrderPaidAgain), "bank-void"),
    (Disabled::Core(Mutant::NoCloseBeforeTry), "confirmed-late"),
    (Disabled::Core(Mutant::OwnMinorUnits), "fallback-rupiah"),
    (Disabled::Core(Mutant::ReceivedIsDone), "fallback-moves"),
    (Disabled::Core(Mutant::FallbackAfterUnknown), "pay"),
    (Disabled::OrderObject, "bank-void"),
];

/// The scenarios and their single faults are enough to miss each protection that is there for money.
#[test]
fn the_told_stories_miss_every_protection_of_money() {
    let all: Vec<Name> = SCENARIOS.iter().flat_map(|scenario| singles(WORLD, scenario, play)).collect();
    let core =
        [Mutant::FreshProviderKey, Mutant::FailAfterTimeout, Mutant::NoLeaseCheck, Mutant::ReleaseKeyOnError];
    let core = core.into_iter().chain(Mutant::OF_PAYMENTS).map(Disabled::Core);
    for disabled in core.chain([Disabled::OrderObject]) {
        let missed_in =
            MISSED_IN_SCENARIO.iter().find(|(known, _)| *known == disabled).map(|(_, scenario)| *scenario);
        let (first, others): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|name| matches!(name, Name::Scenario(_, scenario, _) if Some(*scenario) == missed_in));
        let mut singles = first.into_iter().chain(others);
        let broken =
            singles.find_map(|name| Some((name, played(name, Some(disabled), false).violations.pop()?)));
        let (name, violation) = broken.unwrap_or_else(|| panic!("{disabled:?} is not missed"));
        println!("{:<28} missed by {name}: {}", format!("{disabled:?}"), violation.invariant);
    }
}

/// What the random histories must reach, or they have stopped exercising it.
const EXERCISED: [&str; 147] = [
    "accounts: another one's key",
    "accounts: asked for",
    "accounts: the first one's key",
    "accounts: waited for",
    "adyen: charges",
    "adyen: parts called off",
    "adyen: refunds",
    "adyen: technical cancels",
    "alarms early",
    "alarms early, for a finished key",
    "alarms late",
    "alarms lost, found by the read model",
    "alarms lost, not told to the read model",
    "alarms lost, swept",
    "alarms twice",
    "alarms twice, for a finished key",
    "bank's pages",
    "begin: expired, refused",
    "begin: in progress, waits",
    "begin: may not start",
    "begin: other payload refused",
    "begin: refused by the payment's state",
    "begin: replay",
    "begin: stranger refused",
    "begin: waits for the provider",
    "bind: used for something else, refused",
    "by hand: executed",
    "by hand: not executed",
    "by hand: refused",
    "by hand: settled meanwhile",
    "by hand: too early, held",
    "capture.failed",
    "capture.pending",
    "clocks set",
    "customer area: canceled",
    "customer area: canceled or refunded",
    "customer area: captured",
    "customer area: captured after it had lapsed",
    "customer area: refunded",
    "elsewhere: canceled",
    "elsewhere: captured",
    "elsewhere: confirmed after a decline",
    "elsewhere: disputed",
    "elsewhere: disputes come to another status",
    "elsewhere: refunded",
    "elsewhere: refunds sent back",
    "elsewhere: reservations lapsed",
    "inbox: again",
    "inbox: dead",
    "inbox: dies after it worked",
    "inbox: dies before it works",
    "inbox: done",
    "inbox: not stored",
    "inbox: poison comes with it",
    "inbox: stored",
    "jobs: an email is left, and goes on alone",
    "jobs: consumer dies after",
    "jobs: consumer dies before",
    "jobs: crash between send and mark",
    "jobs: done before",
    "jobs: doubled by the queue",
    "jobs: evicted before the look",
    "jobs: given more time",
    "jobs: handed over, not written down",
    "jobs: looks that fail",
    "jobs: lost by the queue",
    "jobs: not taken by the queue",
    "jobs: objects at rest",
    "jobs: old snapshots left aside",
    "jobs: one fails beside others, and goes on alone",
    "jobs: over, forgotten",
    "jobs: reordered by the queue",
    "jobs: sent before",
    "jobs: the read model is silent about an email",
    "look-ups of several pages",
    "look-ups past the window",
    "look-ups taken over between two pages",
    "look-ups: absent",
    "look-ups: found",
    "look-ups: found, left open",
    "look-ups: found, moved by others",
    "look-ups: found, not final",
    "look-ups: found, unconfirmed",
    "look-ups: inconclusive",
    "look-ups: of the account",
    "look-ups: read on",
    LAGS,
    "looks",
    "looks by the alarm",
    "operation.refused",
    "outcomes: done",
    "outcomes: executed, unconfirmed",
    "outcomes: left open",
    "outcomes: not executed",
    "outcomes: refused for good",
    "outcomes: the provider failed",
    "outcomes: unknown",
    "outcomes: unknown, retries are useless",
    "pauses, replaced meanwhile",
    "payment.authorized",
    "payments left open, to be canceled",
    "payment.canceled",
    "payment.capture_failed",
    "payment.captured",
    "payment.disputed",
    "payment.expired",
    "payment.failed",
    "payment.processing",
    "payment.requires_action",
    "payment.rerouted",
    "personal_data.erased",
    "providers: decided later",
    "providers: key in use",
    "providers: stored answers replayed",
    "refund.elsewhere",
    "refund.failed",
    "refund.pending",
    "refund.succeeded",
    "responses forgotten early",
    "runs interrupted by an error",
    "sends that arrive late",
    "sends that arrive twice",
    "sends under a used key",
    "sends: adyen, capture or void",
    "sends: adyen, refund",
    "sends: stripe, capture",
    "sends: stripe, refund",
    "sends: stripe, void",
    "stale runs fenced off",
    "takeovers",
    "try.given_back",
    "try.late_money",
    "try.paid_after_all",
    "void.pending",
    "webhooks: acknowledgement lost",
    "webhooks: an unknown call settled",
    "webhooks: busy",
    "webhooks: doubled",
    "webhooks: known",
    "webhooks: late",
    "webhooks: lost",
    "webhooks: not reached",
    "webhooks: objects that heard all",
    "webhooks: overtaken",
    "webhooks: sent",
    "webhooks: sent again after all",
    "webhooks: taken in",
];

#[test]
fn random_histories_of_payments_break_no_promise() {
    let histories = amount("SIM_PAYMENTS_HISTORIES", HISTORIES.0, HISTORIES.1);
    let seed = |number| match RARE.get(number as usize) {
        Some(rare) => *rare,
        None => number - RARE.len() as u64,
    };
    let counters = play_random(&|number| Name::Seed(WORLD, seed(number)), histories, &EXERCISED, play);
    assert_eq!(counters.of(PRUNED), 0, "{PRUNED}");
}

/// By the defaults, and by what wrangler.toml says instead.
#[test]
fn the_times_that_are_played_are_those_that_are_deployed() {
    let accounts = format!(r#"{{"acme":{{"token_sha256":"{:064}","payment_method":"pm_1"}}}}"#, 0);
    let mut settings = BTreeMap::from([
        ("SIGNING_KEY", "k".repeat(32)),
        ("STRIPE_SECRET_KEY", "sk_live_secret".to_owned()),
        ("API_ACCOUNTS", accounts),
    ]);
    let vars =
        include_str!("../../../wrangler.toml").split("\n[").find_map(|part| part.strip_prefix("vars]"));
    let lines = vars.unwrap().lines().filter(|line| !line.starts_with('#'));
    let vars = lines.filter_map(|line| line.split_once(" = "));
    settings.extend(vars.map(|(name, value)| (name, value.trim_matches('"').to_owned())));
    let deployed = Config::read(|name| settings.get(name).cloned()).unwrap();
    let played = World::new(named("pay"), Plan::Exactly(Vec::new()), Rng::new(1), None, false);
    assert_eq!(played.times, deployed.times);
}

/// `SIM_PAYMENTS_SEED=7 cargo test --test simulation replay -- --nocapture` tells one history; without it, that the same
/// number gives the same history.
#[test]
fn replay() {
    campaign::replay([WORLD, TURNS], &SCENARIOS, play);
}
