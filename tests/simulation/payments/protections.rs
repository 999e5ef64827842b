//! Every protection switched off: a random history must miss it, by an invariant for which it is there.

use super::seeds::Seeds;
use super::*;

/// What is switched off, and the invariants of which one must break: those that it is there for.
fn protections() -> Vec<(Disabled, &'static [&'static str])> {
    let invariants = |mutant: Mutant| -> &'static [&'static str] {
        match mutant {
            Mutant::FreshProviderKey | Mutant::NoLeaseCheck | Mutant::IgnoreWindow => &[ONE_CHARGE],
            Mutant::FallbackAfterUnknown | Mutant::OrderPaidAgain | Mutant::NoCloseBeforeTry => &[ONE_CHARGE],
            Mutant::FailAfterTimeout | Mutant::NoQuietPeriod | Mutant::ForgetUnknownMove => &[TRUE_VERDICT],
            Mutant::AbsenceIsFinal | Mutant::DisbelievedIsAbsent | Mutant::TentativeIsFinal => {
                &[TRUE_VERDICT]
            }
            Mutant::OpenIsDeclined | Mutant::OneLook => &[TRUE_VERDICT],
            Mutant::CopyIsSend | Mutant::UnusedIsFinal => &[TRUE_VERDICT],
            Mutant::RefusedIsUnknown => &[LIVENESS],
            Mutant::AccountNotFrozen | Mutant::HeldIsRefused => &[ONE_CHARGE],
            Mutant::ReleaseKeyOnError => &[ONE_CHARGE, TRUE_VERDICT],
            Mutant::NoAlarm => &[LIVENESS],
            Mutant::NoFingerprint => &[MISMATCH],
            Mutant::ForgetTombstone => &[TOMBSTONE],
            Mutant::NoRefundReservation => &[SUMS],
            Mutant::OwnMinorUnits => &[TRUE_VERDICT],
            Mutant::MovesOverlap => &[MOVES],
            // Told histories have it.
            Mutant::OvertakenIsSent | Mutant::BesideLateMoney => &[],
            Mutant::ReceivedIsDone => &[AGREES, ONE_CHARGE],
            Mutant::DecidedIsFinal => &[AGREES],
            Mutant::RefundWhileDisputed => &[DISPUTED],
            Mutant::MovedIsOther => &[LIVENESS],
            Mutant::LateNewsDropped => &[GIVEN_BACK],
            Mutant::ByHandInFlight => &[TRUE_VERDICT, ONE_CHARGE, WINDOW],
            // Only an operator who errs shows it.
            Mutant::ByHandBelieved => &[],
        }
    };
    let core = Mutant::OF_THE_MACHINE
        .into_iter()
        .chain(Mutant::OF_PAYMENTS)
        .chain(Mutant::OF_LATER)
        .chain(Mutant::OF_OPERATORS);
    let mut all: Vec<_> = core.map(|mutant| (Disabled::Core(mutant), invariants(mutant))).collect();
    let around: [(Disabled, &'static [&'static str]); 17] = [
        (Disabled::Binding, &[MISMATCH]),
        (Disabled::OrderObject, &[ONE_CHARGE]),
        (Disabled::FrozenBytes, &[FROZEN]),
        (Disabled::AuditRows, &[AUDIT]),
        (Disabled::StoredBytes, &[SAME_BYTES]),
        (Disabled::Replays, &[UNCHANGED]),
        (Disabled::Owners, &[STRANGER]),
        (Disabled::Confirmation, &[ONCE]),
        (Disabled::Look, &[ONCE]),
        (Disabled::AuditRest, &[SHOWS]),
        (Disabled::Versions, &[FORWARD]),
        (Disabled::JobIds, &[ONCE]),
        // Taken in twice an event moves nothing twice: what is lost is only what the invariant says.
        (Disabled::EventIds, &[TAKEN_ONCE]),
        (Disabled::Forward, &[MOVES]),
        (Disabled::ComeAgain, &[HEARD, AGREES]),
        (Disabled::OwnPlaces, &[LIVENESS]),
        (Disabled::Recaptures, &[AGREES]),
    ];
    all.extend(around);
    all
}

/// Histories with an operator who says without looking that calls were not executed: in which of them they were wrong, and how
/// often nobody was told so afterwards.
fn errors_by_hand(seeds: impl IntoIterator<Item = u64>, disabled: Option<Disabled>) -> (Vec<u64>, u64) {
    let (mut wrong, mut unseen) = (Vec::new(), 0);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::random(&mut rng);
        let plan = Plan::Random { permille: rng.pick(&[40, 80, 160]), budget: 6, until_ms: HOUR };
        let world = World::new(scenario, plan, rng, disabled, false).with_operators(true).with_webhooks(0);
        let counters = world.played_on().play().counters;
        wrong.extend((0..counters.of("by hand: wrong")).map(|_| seed));
        unseen += counters.of("by hand: wrong, and nobody is told");
    }
    (wrong, unseen)
}

/// Within so many thousand histories operators must have erred often enough.
const ERRS_WITHIN: u64 = 24;
/// How many histories in which an operator errs are written down, and what for.
const ERRS: (usize, &str) = (12, "errs");

#[test]
fn an_operator_who_errs_is_found_out() {
    let seeds = Seeds::read("errors-by-hand");
    let known: Vec<u64> = seeds.of(ERRS.1).collect();
    let (mut wrong, mut unseen) = errors_by_hand(known.iter().copied(), None);
    for thousand in 0..ERRS_WITHIN {
        if wrong.len() >= ERRS.0 && thousand >= 2 && !is_thorough() {
            break;
        }
        let seeds = (thousand * 1_000..(thousand + 1) * 1_000).filter(|seed| !known.contains(seed));
        let (more, more_unseen) = errors_by_hand(seeds, None);
        wrong.extend(more);
        unseen += more_unseen;
    }
    println!("settled by hand as not executed although it was: {}, unseen: {unseen}", wrong.len());
    assert!(wrong.len() >= 10, "they have hardly ever erred: {}", wrong.len());
    assert_eq!(unseen, 0, "of {}", wrong.len());
    let (_, unseen) = errors_by_hand(wrong.iter().copied(), Some(Disabled::Core(Mutant::ByHandBelieved)));
    assert!(unseen > 0, "an operator's word is believed, and nobody missed anything");
    wrong.dedup();
    let found = wrong.into_iter().map(|seed| (ERRS.1.to_owned(), seed));
    seeds.compare(&found.take(ERRS.0).collect::<Vec<_>>());
}

/// A history in which it is noticed, and one in which an invariant is broken for which it is there.
#[derive(Default)]
struct Missed {
    first: Option<(u64, Violation)>,
    promised: Option<(u64, Violation)>,
}

fn miss(disabled: Disabled, invariants: &[&str], known: &Seeds) -> Missed {
    let mut missed = Missed::default();
    for seed in known.of(&format!("{disabled:?}")).chain(0..MISSED_WITHIN) {
        let violations = random(seed, Some(disabled), false).played_on().play().violations;
        if let Some(first) = violations.first().filter(|_| missed.first.is_none()) {
            missed.first = Some((seed, first.clone()));
        }
        if let Some(promised) = violations.iter().find(|broken| invariants.contains(&broken.invariant)) {
            missed.promised = Some((seed, promised.clone()));
            break;
        }
    }
    missed
}

#[test]
fn every_protection_is_missed_when_it_is_off() {
    let all = protections();
    let seeds = Seeds::read("missed");
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((disabled, invariants)) = all.get(number) else { break };
            let missed = miss(*disabled, invariants, &seeds);
            results.lock().unwrap().push((number, *disabled, missed));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(number, ..)| *number);
    let tell = |missed: &Option<(u64, Violation)>| match missed {
        Some((seed, violation)) => format!("{seed:>5}: {}", violation.invariant),
        None => "never".to_owned(),
    };
    for (_, disabled, missed) in &results {
        println!("{:<28} noticed in history {}", format!("{disabled:?}"), tell(&missed.first));
        println!("{:<28} costs   in history {}", "", tell(&missed.promised));
    }
    for (_, disabled, missed) in &results {
        assert!(missed.promised.is_some(), "{disabled:?} is not missed");
    }
    let found = results
        .iter()
        .filter_map(|(_, disabled, missed)| Some((format!("{disabled:?}"), missed.promised.as_ref()?.0)));
    seeds.compare(&found.collect::<Vec<_>>());
}
