//! When a look-up, a refusal and a clock are believed, to the millisecond: what a play of faults passes by.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod begun;

use begun::flow::{Receipt, Transfers, request};
use begun::{BEGIN_MS, at, begun};
use once::begin::{Begin, begin};
use once::call::{
    CallState, LookUp, Outcome, ProviderCall, ProviderReply, RefusalScope, RetryPolicy, Settlement,
    Unconfirmed,
};
use once::context::Bug;
use once::id::InstanceId;
use once::object_state::ObjectState;
use once::record::FencingToken;
use once::run::{Action, Event, Run, RunEnd};
use once::step::{self, StepError};
use once::times::Times;

/// How much later its only send has ended.
const SENT_MS: u64 = 100;
const WINDOW_MS: u64 = 23 * 3_600_000;
const QUIET_MS: u64 = 1_200_000;

/// A transfer that is driven by hand.
struct Harness {
    state: ObjectState<Transfers>,
    run: Run<Transfers>,
}

impl Harness {
    fn new() -> Self {
        let (state, token) = begun();
        Self { state, run: Run::new(token, u64::MAX, &[]) }
    }

    /// One whose first send has ended like this.
    fn sent(outcome: Outcome<Receipt>) -> Self {
        let mut harness = Self::new();
        assert!(matches!(harness.go(BEGIN_MS), Action::Send(_)));
        harness.record(outcome, BEGIN_MS + SENT_MS);
        harness
    }

    fn step(&mut self, event: Event<Receipt>, now_ms: u64) -> Action<Transfers> {
        self.run.step(&mut self.state, event, &at(now_ms)).unwrap()
    }

    /// Steps up to the next thing to wait for. Its time is come, whatever it is.
    fn go(&mut self, now_ms: u64) -> Action<Transfers> {
        loop {
            match self.step(Event::Go, now_ms) {
                Action::Again => {}
                action => return action,
            }
        }
    }

    fn record(&mut self, outcome: Outcome<Receipt>, now_ms: u64) {
        let call_id = self.call().call_id;
        assert_eq!(self.step(Event::Outcome(call_id, outcome), now_ms), Action::Again);
    }

    /// Asks for a page, and has the answer at another time.
    fn look(&mut self, look_up: LookUp<Receipt>, asked_ms: u64, answered_ms: u64) {
        let action = self.go(asked_ms);
        let Action::LookUp(call) = action else { panic!("{action:?}") };
        assert_eq!(self.step(Event::LookedUp(call.call_id, look_up), answered_ms), Action::Again);
    }

    fn call(&self) -> &ProviderCall<Transfers> {
        self.state.calls.last().unwrap()
    }

    fn is_settled(&self) -> bool {
        matches!(self.call().state, CallState::Settled(_))
    }
}

fn no_answer(answer_is_stored: bool) -> Outcome<Receipt> {
    Outcome::Unknown { answer_is_stored, reason: "no answer".into() }
}

fn refused(scope: RefusalScope) -> Outcome<Receipt> {
    Outcome::NotExecuted { retry_after_ms: None, scope, reason: "refused".into() }
}

fn rejected() -> ProviderReply<Receipt> {
    ProviderReply { status: 400, result: Receipt::Rejected { reason: "closed".into() }, request_id: None }
}

/// One of which the bank has said that sending it again brings nothing new: it is looked up, and nobody has failed with it.
fn looked_up() -> Harness {
    let mut harness = Harness::sent(no_answer(true));
    harness.state.calls[0].evidence.unheard_at_ms = None;
    harness
}

#[test]
fn a_look_up_says_how_it_was_when_it_was_asked() {
    let quiet_ms = BEGIN_MS + QUIET_MS;
    let mut harness = looked_up();
    harness.look(LookUp::Absent, quiet_ms - 1, quiet_ms + 20_000);
    assert_eq!(harness.call().evidence.absent_at_ms, None);
    harness.look(LookUp::Absent, quiet_ms + 20_000, quiet_ms + 20_001);
    assert_eq!(harness.call().evidence.absent_at_ms, Some(quiet_ms + 20_000));
}

/// New entries stand before the page that was read first.
#[test]
fn a_look_up_of_several_pages_is_as_old_as_its_first_one() {
    let quiet_ms = BEGIN_MS + QUIET_MS;
    let mut harness = looked_up();
    harness.look(LookUp::More { after: "1".into() }, quiet_ms - 1, quiet_ms);
    harness.look(LookUp::More { after: "2".into() }, quiet_ms + 1, quiet_ms + 2);
    harness.look(LookUp::Absent, quiet_ms + 3, quiet_ms + 4);
    assert_eq!(harness.call().evidence.absent_at_ms, None);
}

#[test]
fn two_looks_that_show_nothing_are_five_minutes_apart() {
    let first_ms = BEGIN_MS + QUIET_MS;
    let mut harness = looked_up();
    harness.look(LookUp::Absent, first_ms, first_ms + 1);
    assert_eq!(harness.go(first_ms + 299_999), Action::SleepUntil(first_ms + 300_000));
    harness.look(LookUp::Absent, first_ms + 300_000, first_ms + 300_001);
    assert_eq!(harness.call().state, CallState::Settled(Settlement::NotExecuted));
}

#[test]
fn the_quiet_time_begins_with_the_last_send() {
    let mut harness = Harness::sent(no_answer(false));
    let again_ms = BEGIN_MS + 600_000;
    assert!(matches!(harness.go(again_ms), Action::Send(_)));
    harness.record(no_answer(true), again_ms + SENT_MS);
    harness.look(LookUp::Absent, BEGIN_MS + QUIET_MS, BEGIN_MS + QUIET_MS + 1);
    assert_eq!(harness.call().evidence.absent_at_ms, None);
    assert_eq!(harness.call().next_try_at_ms, again_ms + QUIET_MS);
}

/// What shows nothing before another send says nothing of that one.
#[test]
fn a_send_needs_two_looks_of_its_own() {
    let mut harness = Harness::sent(no_answer(false));
    harness.state.calls[0].evidence.absent_at_ms = Some(BEGIN_MS);
    assert!(matches!(harness.go(BEGIN_MS + 600_000), Action::Send(_)));
    assert_eq!(harness.call().evidence.absent_at_ms, None);
}

#[test]
fn what_may_still_be_completed_is_looked_for_as_long() {
    let quarantine_ms = Times::default().quarantine_ms;
    let mut harness = Harness::sent(no_answer(true));
    let first_ms = BEGIN_MS + QUIET_MS;
    harness.look(LookUp::Absent, first_ms, first_ms + 1);
    harness.look(LookUp::Absent, BEGIN_MS + quarantine_ms - 1, BEGIN_MS + quarantine_ms);
    assert!(!harness.is_settled());
    assert!(harness.call().needs_review().is_some(), "a person is told");
    harness.look(LookUp::Absent, BEGIN_MS + quarantine_ms + 1, BEGIN_MS + quarantine_ms + 2);
    assert!(harness.is_settled());
}

#[test]
fn the_window_begins_with_the_first_send() {
    let mut harness = Harness::sent(no_answer(false));
    assert!(matches!(harness.go(BEGIN_MS + WINDOW_MS - 1), Action::Send(_)));
    harness.record(no_answer(false), BEGIN_MS + WINDOW_MS);
    assert!(matches!(harness.go(BEGIN_MS + WINDOW_MS + 300_000), Action::LookUp(_)));
}

/// A clock that has gone back far does not know how old the key is.
#[test]
fn a_time_before_the_first_send_is_outside_of_the_window() {
    let mut harness = Harness::sent(no_answer(false));
    harness.state.calls[0].next_try_at_ms = 0;
    assert!(matches!(harness.go(BEGIN_MS - 1), Action::LookUp(_)));
}

#[test]
fn a_clock_that_goes_back_makes_no_send_older() {
    let mut harness = Harness::new();
    assert!(matches!(harness.go(BEGIN_MS), Action::Send(_)));
    // Refused, and sent again with a clock that is a minute behind: the window still begins with the first one.
    harness.record(refused(RefusalScope::Copy), BEGIN_MS + SENT_MS);
    let call = &mut harness.state.calls[0];
    (call.first_sent_at_ms, call.next_try_at_ms) = (Some(BEGIN_MS - 120_000), 0);
    assert!(matches!(harness.go(BEGIN_MS - 60_000), Action::Send(_)));
    assert_eq!(harness.call().first_sent_at_ms, Some(BEGIN_MS - 120_000));
    assert_eq!(harness.call().last_sent_at_ms, Some(BEGIN_MS));
}

/// The time that passes between two commits counts.
#[test]
fn what_is_to_be_sent_is_planned_again_right_before_it() {
    let mut harness = Harness::sent(no_answer(false));
    let before_ms = BEGIN_MS + WINDOW_MS - 1;
    assert_eq!(harness.step(Event::Go, before_ms), Action::Again);
    let sends = harness.call().sends;
    assert_eq!(harness.step(Event::Go, BEGIN_MS + WINDOW_MS), Action::Again);
    assert_eq!((harness.call().sends, &harness.call().state), (sends, &CallState::Unknown));
}

/// The provider keeps no such answer: a send that is still on its way would be executed.
#[test]
fn a_refusal_is_believed_where_nothing_is_on_its_way() {
    let answered = |harness: &mut Harness, now_ms: u64| {
        assert!(matches!(harness.go(now_ms), Action::Send(_)));
        harness.record(Outcome::Definitive(rejected()), now_ms + SENT_MS);
        harness.is_settled()
    };
    assert!(answered(&mut Harness::new(), BEGIN_MS), "it is the only send");
    assert!(answered(&mut Harness::sent(refused(RefusalScope::Send)), BEGIN_MS + 1_000), "no copy has left");
    assert!(
        !answered(&mut Harness::sent(no_answer(false)), BEGIN_MS + QUIET_MS),
        "an earlier one may be executed"
    );
    // The network may have made two of one, of which one was limited.
    assert!(!answered(&mut Harness::sent(refused(RefusalScope::Copy)), BEGIN_MS + QUIET_MS - 1));
    assert!(answered(&mut Harness::sent(refused(RefusalScope::Copy)), BEGIN_MS + QUIET_MS), "it has arrived");
}

/// Who would wait for the provider longer than a client does is told so; a shorter pause is worth a run.
#[test]
fn whoever_comes_in_a_long_pause_is_told_that_it_is_not_known() {
    let mut harness = Harness::sent(no_answer(false));
    harness.run = Run::new(harness.run.token, 0, &[]);
    let end = harness.go(BEGIN_MS + SENT_MS);
    assert!(matches!(end, Action::End(RunEnd::Pending { in_doubt: true, .. })), "{end:?}");
    let command = request("rent", r#"{"cents":7000,"to":"DE02"}"#).unwrap();
    let retry_at_ms = harness.call().next_try_at_ms;
    let comes = |now_ms| begin(&mut harness.state.clone(), &command, &InstanceId("me".into()), &at(now_ms));
    let wait_ms = Times::default().wait_ms;
    assert!(matches!(comes(retry_at_ms - wait_ms), Ok(Begin::Run(_))));
    let told = comes(retry_at_ms - wait_ms - 1);
    assert_eq!(told, Ok(Begin::Pending { retry_at_ms, in_doubt: true }));
}

/// Who has waited long enough for a provider that gives no answer is told whether it may have been executed.
#[test]
fn a_run_that_is_left_to_the_alarm_says_whether_it_is_in_doubt() {
    let mut harness = Harness::new();
    harness.run = Run::new(harness.run.token, BEGIN_MS + 10_000, &[]);
    assert!(matches!(harness.go(BEGIN_MS), Action::Send(_)));
    harness.record(no_answer(false), BEGIN_MS + 30_000);
    let end = harness.go(BEGIN_MS + 31_000);
    assert!(matches!(end, Action::End(RunEnd::Pending { in_doubt: true, .. })), "{end:?}");
}

/// It has executed it, it says, and shows nothing of it: a person is told, and nothing is settled.
#[test]
fn what_the_provider_says_it_has_executed_is_never_absent() {
    let said = Unconfirmed { provider_id: None, needs_review: false, reason: "it is open".into() };
    let mut harness = Harness::sent(Outcome::Unconfirmed(said));
    for look in 1..4 {
        let asked_ms = BEGIN_MS + look * Times::default().quarantine_ms;
        harness.look(LookUp::Absent, asked_ms, asked_ms + 1);
        assert!(!harness.is_settled() && harness.call().needs_review().is_some());
    }
}

#[test]
fn a_failure_is_a_doubt() {
    let failed = Outcome::Indeterminate { answer_is_stored: false, reason: "it failed".into() };
    let mut harness = Harness::sent(failed);
    assert!(matches!(harness.go(BEGIN_MS + QUIET_MS), Action::Send(_)));
    harness.record(Outcome::Definitive(rejected()), BEGIN_MS + QUIET_MS + SENT_MS);
    assert!(!harness.is_settled());
}

/// The first send is lost. Stored under the key is how it ended, so no copy of it can end otherwise any more.
#[test]
fn a_refusal_from_under_the_key_is_the_last_word() {
    let refused_after = |outcome: Outcome<Receipt>| {
        let mut harness = Harness::sent(no_answer(false));
        assert!(matches!(harness.go(BEGIN_MS + QUIET_MS), Action::Send(_)));
        harness.record(outcome, BEGIN_MS + QUIET_MS + SENT_MS);
        harness
    };
    let stored = refused_after(Outcome::Stored(rejected()));
    assert_eq!(stored.call().state, CallState::Settled(Settlement::Answered(rejected())));
    // One that is not stored says nothing of the first, and is kept as the reason in case that was not executed.
    let alone = refused_after(Outcome::Definitive(rejected()));
    assert!(!alone.is_settled() && alone.call().in_doubt());
    assert_eq!(alone.call().evidence.refusal, Some(rejected()));
}

/// One send was refused with all of its copies, and one was not.
#[test]
fn one_send_that_was_not_refused_is_looked_up() {
    let mut harness = Harness::sent(refused(RefusalScope::Copy));
    let last_ms = BEGIN_MS + WINDOW_MS - 1;
    assert!(matches!(harness.go(last_ms), Action::Send(_)));
    harness.record(refused(RefusalScope::Send), last_ms + SENT_MS);
    assert!(matches!(harness.go(last_ms + QUIET_MS), Action::LookUp(_)));
}

#[test]
fn a_refusal_unsays_no_doubt() {
    for scope in [RefusalScope::Copy, RefusalScope::Send, RefusalScope::Key] {
        let mut harness = Harness::sent(no_answer(false));
        assert!(matches!(harness.go(BEGIN_MS + QUIET_MS), Action::Send(_)));
        harness.record(refused(scope), BEGIN_MS + QUIET_MS + SENT_MS);
        assert!(harness.call().maybe_executed && harness.call().in_doubt(), "{scope:?}");
        let end = harness.run.turn(&mut harness.state, Event::Go, &at(BEGIN_MS + WINDOW_MS));
        assert!(matches!(end, Ok(Action::LookUp(_))), "{scope:?}: {end:?}");
    }
}

/// That a key is unused says nothing of what is still on its way.
#[test]
fn an_unused_key_settles_what_has_arrived() {
    let refused_after = |wait_ms: u64| {
        let mut harness = Harness::sent(refused(RefusalScope::Copy));
        assert!(matches!(harness.go(BEGIN_MS + wait_ms), Action::Send(_)));
        harness.record(refused(RefusalScope::Key), BEGIN_MS + wait_ms + SENT_MS);
        harness.call().evidence.refused_sends
    };
    assert_eq!(refused_after(QUIET_MS - 1), 1);
    assert_eq!(refused_after(QUIET_MS), 2, "the one before has arrived, or never will");
}

#[test]
fn what_was_refused_with_all_its_copies_ends_when_it_is_quiet() {
    let mut harness = Harness::sent(refused(RefusalScope::Send));
    let last_ms = BEGIN_MS + WINDOW_MS - 1;
    assert!(matches!(harness.go(last_ms), Action::Send(_)));
    harness.record(refused(RefusalScope::Send), last_ms + SENT_MS);
    let action = harness.go(last_ms + QUIET_MS - 1);
    assert!(matches!(action, Action::SleepUntil(until_ms) if until_ms == last_ms + QUIET_MS), "{action:?}");
    assert!(matches!(harness.go(last_ms + QUIET_MS), Action::End(RunEnd::Finished(_))));
    assert_eq!(harness.call().state, CallState::Settled(Settlement::NotExecuted));
}

/// A call that nothing protects from copies, whose first send has ended like this: what is done next.
fn sent_once(outcome: Outcome<Receipt>) -> (Harness, Action<Transfers>) {
    let mut harness = Harness::new();
    assert!(matches!(harness.go(BEGIN_MS), Action::Send(_)));
    harness.state.calls[0].retry_policy = RetryPolicy::AtMostOnce;
    harness.record(outcome, BEGIN_MS + SENT_MS);
    let action = harness.step(Event::Go, BEGIN_MS + SENT_MS);
    (harness, action)
}

/// Another copy may have come through, or comes later.
#[test]
fn what_is_sent_once_is_sent_again_only_if_no_copy_of_it_can_be_executed() {
    for scope in [RefusalScope::Copy, RefusalScope::Key] {
        let (harness, _) = sent_once(refused(scope));
        assert_eq!(harness.call().state, CallState::Settled(Settlement::NeedsReview), "{scope:?}");
    }
    for scope in [RefusalScope::Send, RefusalScope::NoClient] {
        let (mut harness, _) = sent_once(refused(scope));
        assert!(matches!(harness.go(BEGIN_MS + QUIET_MS), Action::Send(_)), "{scope:?}");
    }
}

/// Else it stays open at the provider, and nobody cancels it.
#[test]
fn what_is_sent_once_and_left_open_is_canceled_before_it_ends() {
    let booked = Receipt::Booked { reference: "tr_1".into() };
    let open = || ProviderReply { status: 200, result: booked.clone(), request_id: None };
    let (mut harness, action) = sent_once(Outcome::LeftOpen(open()));
    let Action::LookUp(call) = action else { panic!("{action:?}") };
    assert!(call.evidence.closing.is_some());
    let canceled = Event::LookedUp(call.call_id, LookUp::Found(open()));
    assert_eq!(harness.step(canceled, BEGIN_MS + SENT_MS), Action::Again);
    assert_eq!(harness.call().state, CallState::Settled(Settlement::Answered(open())));
    assert_eq!(harness.call().sends, 1);
    let (harness, _) = sent_once(no_answer(false));
    assert_eq!(
        harness.call().state,
        CallState::Settled(Settlement::NeedsReview),
        "control: nothing to cancel"
    );
}

/// A run that has died has been heard of as little as one that got no answer.
#[test]
fn a_send_whose_run_died_may_have_been_executed() {
    let mut harness = Harness::new();
    assert!(matches!(harness.go(BEGIN_MS), Action::Send(_)));
    let token =
        once::begin::take_over(&mut harness.state, 1, &InstanceId("another".into()), &at(BEGIN_MS + 1));
    harness.run = Run::new(token.unwrap(), u64::MAX, &[]);
    assert!(matches!(harness.go(BEGIN_MS + 1), Action::Send(_)));
    assert!(harness.call().maybe_executed);
    assert_eq!(harness.call().evidence.unheard_at_ms, Some(BEGIN_MS));
}

/// Whatever it was about to do: it changes nothing, and sends nothing.
#[test]
fn a_run_that_was_taken_over_does_nothing() {
    let mut harness = Harness::new();
    assert_eq!(harness.step(Event::Go, BEGIN_MS), Action::Again);
    let (token, ctx) = (harness.run.token.clone(), at(BEGIN_MS + 1));
    let other = once::begin::take_over(&mut harness.state, 1, &InstanceId("another".into()), &ctx).unwrap();
    let same_holder = FencingToken { holder: other.holder.clone(), ..token.clone() };
    let same_attempt = FencingToken { attempt: other.attempt, ..token };
    let before = harness.state.clone();
    for stale in [same_holder, same_attempt] {
        let state = &mut harness.state;
        assert_eq!(step::advance(state, &stale, &ctx), Err(StepError::Fenced));
        assert_eq!(step::mark_sending(state, &stale, 1, &ctx), Err(StepError::Fenced));
        assert_eq!(step::record(state, &stale, 1, no_answer(false), &ctx), Err(StepError::Fenced));
        let looked_up = step::record_look_up(state, &stale, 1, LookUp::Absent, BEGIN_MS, &ctx);
        assert_eq!(looked_up, Err(StepError::Fenced));
        assert_eq!(step::release(state, &stale, BEGIN_MS, "late", &ctx), Err(StepError::Fenced));
        assert!(harness.state == before);
    }
    // Whoever took over goes on, for as long as a lease lasts from now.
    let later = at(BEGIN_MS + 50_000);
    assert!(step::mark_sending(&mut harness.state, &other, 1, &later).unwrap().is_some());
    let lease_ms = Times::default().lease_ms;
    assert!(!harness.state.keys[0].is_worked_on(&other.holder, BEGIN_MS + 50_000 + lease_ms));
    assert!(harness.state.keys[0].is_worked_on(&other.holder, BEGIN_MS + 50_000 + lease_ms - 1));
}

/// The provider has told by itself, or a person has: that is not written over.
#[test]
fn what_was_settled_meanwhile_stays_settled() {
    let by_hand = |harness: &mut Harness| {
        harness.state.calls[0].state = CallState::Settled(Settlement::Answered(rejected()));
    };
    let mut harness = Harness::new();
    assert_eq!(harness.step(Event::Go, BEGIN_MS), Action::Again);
    assert_eq!(harness.step(Event::Go, BEGIN_MS), Action::Again);
    by_hand(&mut harness);
    assert_eq!(harness.step(Event::Go, BEGIN_MS), Action::Again);
    assert_eq!((harness.call().sends, harness.is_settled()), (0, true), "it is not sent");

    let mut harness = looked_up();
    assert!(matches!(harness.go(BEGIN_MS + 1_000), Action::LookUp(_)));
    by_hand(&mut harness);
    assert_eq!(harness.step(Event::LookedUp(1, LookUp::Absent), BEGIN_MS + 1_001), Action::Again);
    assert!(harness.is_settled(), "it is not looked up");
}

#[test]
fn an_outcome_without_a_send_is_a_bug() {
    let mut harness = Harness::sent(no_answer(false));
    let twice =
        harness.run.step(&mut harness.state, Event::Outcome(1, no_answer(false)), &at(BEGIN_MS + 101));
    assert!(matches!(twice, Err(StepError::Bug(_))), "{twice:?}");
}

#[test]
fn a_step_that_fails_leaves_rows_and_run_as_they_were() {
    let mut harness = Harness::new();
    assert_eq!(harness.step(Event::Go, BEGIN_MS), Action::Again);
    let before = (harness.run.clone(), harness.state.clone());
    let mut steps = 0;
    let action = harness.run.steps_on(Action::Again, &mut harness.state, |run, state| {
        steps += 1;
        // It decides what to send, and then fails.
        let action = run.step(state, Event::Go, &at(BEGIN_MS)).unwrap();
        assert_eq!(action, Action::Again);
        state.keys.clear();
        Err(StepError::Bug(Bug("it fails".into())))
    });
    assert_eq!((action, steps), (Action::Again, 1));
    assert!((harness.run, harness.state) == before);
}
