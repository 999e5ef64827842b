//! Histories that are made for one protection each: what it is there for happens, and with it off the same history breaks an invariant.

use super::*;

/// Plays a scenario with these faults, its incarnations' clocks that far ahead.
fn with_clocks(
    scenario: Scenario,
    clocks: &[i64],
    faults: Vec<(Boundary, usize, Fault)>,
    disabled: Option<Disabled>,
) -> Outcome {
    let mut world = World::new(scenario, Plan::Listed(faults), Rng::new(1), disabled, false);
    world.clocks = clocks.to_vec();
    world.play()
}

/// The first send of a payment or a move is lost. Just inside the window the key is sent again, late, by an incarnation whose clock is
/// behind; then one whose clock is ahead sees the window closed and looks it up. Wherever the two crash.
fn late_moves(disabled: Option<Disabled>) -> (u32, Counters, Option<Violation>) {
    let most = SKEW_MAX_MS as i64;
    let (mut histories, mut counters) = (0, Counters::default());
    for (name, send, first_crash) in [("pay", 0, 0), ("capture", 1, 8), ("void", 1, 8), ("refund", 1, 8)] {
        for (first, second) in
            (first_crash..24).flat_map(|first| (first + 1..first + 16).map(move |second| (first, second)))
        {
            let faults = vec![
                (Boundary::Send, send, Fault::RequestLost),
                (
                    Boundary::Transaction,
                    first,
                    Fault::Crash { committed: true, dark_ms: 23 * HOUR - 4 * MINUTE },
                ),
                (Boundary::Send, send + 1, Fault::Late { ms: HOUR }),
                (Boundary::Transaction, second, Fault::Crash { committed: true, dark_ms: 0 }),
            ];
            let outcome = with_clocks(named(name), &[-most, -most, most], faults, disabled);
            histories += 1;
            counters.merge(&outcome.counters);
            if let Some(violation) = outcome.violations.first() {
                return (histories, counters, Some(violation.clone()));
            }
        }
    }
    (histories, counters, None)
}

#[test]
fn no_verdict_overtakes_a_late_send_when_clocks_differ() {
    let (histories, counters, violation) = late_moves(None);
    println!("histories: {histories}\n{counters}");
    assert!(violation.is_none(), "{violation:?}");
    assert!(counters.of("look-ups: absent") > 0, "no look-up found nothing");
    let (_, _, violation) = late_moves(Some(Disabled::Core(Mutant::NoQuietPeriod)));
    assert!(violation.is_some(), "without the quiet time nothing went wrong");
}

/// Adyen executes, and nobody hears of it; then nothing reaches the object for as long as Adyen keeps its keys, and longer.
fn past_adyens_window(disabled: Option<Disabled>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, days) in (8..20).flat_map(|at| [5, 7, 8].map(|days| (at, days))) {
        let crash = Fault::Crash { committed: true, dark_ms: days * 24 * HOUR + MINUTE };
        let faults = vec![(Boundary::Send, 2, Fault::ResponseLost), (Boundary::Transaction, at, crash)];
        let outcome = with_clocks(named("fallback"), &[], faults, disabled);
        assert!(disabled.is_some() || outcome.counters.of(PRUNED) == 0, "{PRUNED}: crash at {at}");
        violations.extend(outcome.violations);
    }
    violations
}

#[test]
fn adyen_is_not_sent_to_once_it_may_have_forgotten_the_key() {
    let violations = past_adyens_window(None);
    assert!(violations.is_empty(), "{violations:?}");
    let violations = past_adyens_window(Some(Disabled::Core(Mutant::IgnoreWindow)));
    let is_seen = |invariant| violations.iter().any(|violation| violation.invariant == invariant);
    assert!(is_seen(WINDOW), "without the window nothing went wrong");
}

/// An object stands still for a day just as a refund is asked for, or before it is sent; in the meantime the capture has failed.
fn moved_before_the_first_send(disabled: Option<Disabled>) -> Vec<Violation> {
    let (dropped, paused) = (9, 8);
    let pairs = (8..20).flat_map(|first| (first + 1..70).map(move |second| (first, second)));
    let histories = pairs.map(|(first, second)| {
        let name = Name::Scenario(WORLD, "pesos", vec![(first, dropped), (second, paused)]);
        played(&name, disabled, false).violations
    });
    histories.flatten().collect()
}

#[test]
fn nothing_is_sent_that_the_payment_has_moved_away_from() {
    let violations = moved_before_the_first_send(None);
    assert!(violations.is_empty(), "{violations:?}");
    let violations = moved_before_the_first_send(Some(Disabled::Core(Mutant::OvertakenIsSent)));
    let is_missed = violations.iter().any(|violation| violation.invariant == MOVES);
    assert!(is_missed, "what the payment has moved away from is sent, and nobody missed anything");
}

/// Adyen refuses our credentials for so many days, from so long after the beginning.
fn locked_out(
    scenario: &str,
    (from_ms, days): (u64, u64),
    faults: Vec<(Boundary, usize, Fault)>,
    disabled: Option<Disabled>,
) -> Outcome {
    let world = World::new(named(scenario), Plan::Listed(faults), Rng::new(1), disabled, false);
    let world = if WITH_WEBHOOKS.contains(&scenario) { world.with_webhooks(200) } else { world };
    world.locked_out(from_ms, days * 24 * HOUR).play()
}

/// Nobody can be asked at Adyen, and whatever is sent to it is refused for as long as the key may be used, and longer.
fn refused_for_days(disabled: Option<Disabled>) -> Vec<Violation> {
    let cases = [
        ("fallback", 0),
        ("fallback-moves", 0),
        ("fallback-moves", 4 * SECOND),
        ("fallback-moves", 2 * MINUTE),
    ];
    let mut violations = Vec::new();
    for ((scenario, from_ms), days) in cases.into_iter().flat_map(|case| [5, 7].map(|days| (case, days))) {
        violations.extend(locked_out(scenario, (from_ms, days), Vec::new(), disabled).violations);
    }
    violations
}

/// The network delivers a send twice: one copy is executed unheard, the other one meets a rate limit. Then all is refused.
fn executed_beside_a_refusal(disabled: Option<Disabled>) -> Vec<Violation> {
    let faults = || vec![(Boundary::Send, 2, Fault::DuplicatedRefused)];
    let all = (1..12).flat_map(|at| locked_out("fallback", (at * 250, 7), faults(), disabled).violations);
    all.collect()
}

/// A send is on its way for minutes, and the next one is refused, which is not stored.
fn refused_before_an_earlier_send_arrives(disabled: Option<Disabled>) -> Vec<Violation> {
    let late = (Boundary::Send, 2, Fault::Late { ms: 8 * MINUTE });
    let faults = vec![late, (Boundary::Send, 3, Fault::Odd(Oddity::Invalid))];
    locked_out("fallback", (HOUR, 7), faults, disabled).violations
}

/// The first send is lost, then all are refused. One refusal, long after the first send, says that the key is unused.
fn lost_and_refused(disabled: Option<Disabled>) -> Vec<Violation> {
    let histories = [Oddity::Hiccup, Oddity::Invalid].into_iter().flat_map(|odd| {
        let told = |at| if at == 31 { odd } else { Oddity::Unauthorized };
        let refused = (3..81).map(|at| (Boundary::Send, at, Fault::Odd(told(at))));
        let faults = [(Boundary::Send, 2, Fault::RequestLost)].into_iter().chain(refused).collect();
        locked_out("fallback", (2 * HOUR, 7), faults, disabled).violations
    });
    histories.collect()
}

#[test]
fn what_adyen_has_refused_for_days_ends_by_itself() {
    type History = fn(Option<Disabled>) -> Vec<Violation>;
    let histories: [(History, Mutant, &str); 4] = [
        (refused_for_days, Mutant::RefusedIsUnknown, LIVENESS),
        (executed_beside_a_refusal, Mutant::CopyIsSend, TRUE_VERDICT),
        (refused_before_an_earlier_send_arrives, Mutant::UnusedIsFinal, WINDOW),
        (lost_and_refused, Mutant::RefusedIsUnknown, LIVENESS),
    ];
    for (history, disabled, invariant) in histories {
        let violations = history(None);
        assert!(violations.is_empty(), "{violations:?}");
        let violations = history(Some(Disabled::Core(disabled)));
        let is_missed = violations.iter().any(|violation| violation.invariant == invariant);
        assert!(is_missed, "{disabled:?} is not missed: {violations:?}");
    }
}

/// A send is on its way for minutes, and the next one is refused, which is not stored. The first one is executed before anybody
/// looks, and listed after they have looked once.
fn executed_and_not_listed_yet(disabled: Option<Disabled>) -> Vec<Violation> {
    let late = (Boundary::Send, 0, Fault::Late { ms: 9 * MINUTE });
    let faults = vec![late, (Boundary::Send, 1, Fault::Odd(Oddity::Invalid))];
    let outcome = with_clocks(named("list-lags"), &[], faults, disabled);
    assert!(outcome.counters.of(LAGS) > 0, "the list did not lag");
    outcome.violations
}

#[test]
fn one_look_at_a_list_is_not_enough() {
    let violations = executed_and_not_listed_yet(None);
    assert!(violations.is_empty(), "{violations:?}");
    for mutant in Mutant::OF_LISTS {
        let violations = executed_and_not_listed_yet(Some(Disabled::Core(mutant)));
        let is_missed = violations.iter().any(|violation| violation.invariant == TRUE_VERDICT);
        assert!(is_missed, "{mutant:?} is not missed: {violations:?}");
    }
}

/// A declined try that somebody confirms hours later, while nobody tries again and no webhook comes: with every single fault.
fn confirmed_unheard(disabled: Option<Disabled>) -> Vec<Violation> {
    let names = singles(WORLD, "confirmed-unheard", play);
    assert!(names.len() > 100, "the scenario has become too short: {} faults", names.len());
    names.iter().flat_map(|name| played(name, disabled, false).violations).collect()
}

#[test]
fn money_on_a_declined_try_is_given_back_although_no_webhook_tells_of_it() {
    let violations = confirmed_unheard(None);
    assert!(violations.is_empty(), "{violations:?}");
    let violations = confirmed_unheard(Some(Disabled::Core(Mutant::DecidedIsFinal)));
    assert!(violations.iter().any(|violation| violation.invariant == GIVEN_BACK), "nothing was missed");
}

/// The money of a declined try is found a day later, and Stripe refuses to give it back; then the order is tried again.
fn confirmed_and_kept(disabled: Option<Disabled>) -> Outcome {
    let refused = vec![(Boundary::Send, 1, Fault::Odd(Oddity::Declined))];
    with_clocks(named("confirmed-kept"), &[], refused, disabled)
}

#[test]
fn an_order_is_not_charged_beside_money_that_was_not_given_back() {
    let Outcome { violations, counters, .. } = confirmed_and_kept(None);
    assert!(violations.is_empty(), "{violations:?}");
    assert!(counters.of("begin: refused by the payment's state") > 0, "{counters}");
    let violations = confirmed_and_kept(Some(Disabled::Core(Mutant::BesideLateMoney))).violations;
    assert!(violations.iter().any(|violation| violation.invariant == ONE_TRY), "{violations:?}");
}
