//! When a provider's own news of a call is taken, and what follows from it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod begun;

use begun::flow::{Receipt, Transfers};
use begun::{BEGIN_MS, at, begun};
use once::alarm::{KnownAlarm, alarm_to_set, wake};
use once::by_provider::Refusal;
use once::call::{
    ByHand, CallState, LookUp, Outcome, ProviderReply, RefusalScope, RetryPolicy, Settlement, Unconfirmed,
};
use once::id::InstanceId;
use once::object_state::ObjectState;
use once::run::{Action, Event, Run, RunEnd};

fn incarnation(name: &str) -> InstanceId {
    InstanceId(name.to_owned())
}

/// A transfer of which the first send is under way.
fn sent() -> (ObjectState<Transfers>, Run<Transfers>) {
    let (mut state, token) = begun();
    let mut run = Run::new(token, 0, &[]);
    let action = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(action, Ok(Action::Send(_))), "{action:?}");
    (state, run)
}

fn booked() -> ProviderReply<Receipt> {
    ProviderReply { status: 200, result: Receipt::Booked { reference: "tr_1".into() }, request_id: None }
}

fn rejected() -> ProviderReply<Receipt> {
    ProviderReply { status: 422, result: Receipt::Rejected { reason: "closed".into() }, request_id: None }
}

fn no_answer() -> Outcome<Receipt> {
    Outcome::Unknown { answer_is_stored: false, reason: "no answer".into() }
}

/// What comes of news at this time. Where it is not taken nothing is changed.
fn tells(
    state: &mut ObjectState<Transfers>,
    reply: ProviderReply<Receipt>,
    now_ms: u64,
) -> Result<(), Refusal> {
    let before = state.clone();
    let told = state.settle_by_provider(1, reply, &incarnation("me"), &at(now_ms));
    assert_eq!(*state == before, told.is_err(), "{told:?}");
    told
}

fn accepted() -> Outcome<Receipt> {
    Outcome::Unconfirmed(Unconfirmed { provider_id: None, needs_review: false, reason: "accepted".into() })
}

/// The bank has taken it in (202), and tells later how it ended: nothing else can have been executed under its key.
#[test]
fn what_was_accepted_is_refused_by_an_event() {
    let waiting = |outcome| {
        let (mut state, mut run) = sent();
        let end = run.turn(&mut state, Event::Outcome(1, outcome), &at(BEGIN_MS + 100));
        assert!(matches!(end, Ok(Action::End(RunEnd::Pending { .. }))), "{end:?}");
        state
    };
    let mut state = waiting(accepted());
    assert_eq!(tells(&mut state, rejected(), BEGIN_MS + 200), Ok(()));
    let tokens = wake(&mut state, &incarnation("me"), &at(BEGIN_MS + 201));
    let mut run = Run::new(tokens[0].clone(), 0, &[]);
    let end = run.turn(&mut state, Event::Go, &at(BEGIN_MS + 201));
    let Ok(Action::End(RunEnd::Finished(response))) = end else { panic!("{end:?}") };
    assert_eq!(response.status, 402);

    let mut state = waiting(no_answer());
    assert_eq!(tells(&mut state, rejected(), BEGIN_MS + 200), Err(Refusal::InDoubt), "control");
}

/// Nobody sends it again, and nobody says that its end is not known: its event does.
#[test]
fn what_is_sent_once_and_was_accepted_waits_for_its_event() {
    let sent_once = |outcome| {
        let (mut state, mut run) = sent();
        state.calls[0].retry_policy = RetryPolicy::AtMostOnce;
        let action = run.turn(&mut state, Event::Outcome(1, outcome), &at(BEGIN_MS + 100));
        assert!(action.is_ok(), "{action:?}");
        state
    };
    for told in [booked(), rejected()] {
        let mut state = sent_once(accepted());
        for hour in 1..100 {
            let now_ms = BEGIN_MS + hour * 3_600_000;
            for token in wake(&mut state, &incarnation("me"), &at(now_ms)) {
                let mut run = Run::new(token, 0, &[]);
                let action = run.turn(&mut state, Event::Go, &at(now_ms));
                let Ok(Action::LookUp(_)) = action else { panic!("{action:?}") };
                let unsaid = LookUp::Inconclusive { from_the_start: false, reason: String::new() };
                let action = run.turn(&mut state, Event::LookedUp(1, unsaid), &at(now_ms));
                assert!(matches!(action, Ok(Action::End(RunEnd::Pending { .. }))), "{action:?}");
            }
        }
        assert_eq!(state.calls[0].sends, 1);
        assert_eq!(tells(&mut state, told.clone(), BEGIN_MS + 400_000_000), Ok(()));
        assert_eq!(state.calls[0].state, CallState::Settled(Settlement::Answered(told)));
    }
    let state = sent_once(no_answer());
    assert_eq!(state.calls[0].state, CallState::Settled(Settlement::NeedsReview), "control");
}

/// Who is told of a call that has ended knows whether that end is the bank's own.
#[test]
fn news_of_what_ended_without_the_banks_word_is_told_apart() {
    let settled = |settlement, by_hand| {
        let (mut state, _) = sent();
        state.calls[0].state = CallState::Settled(settlement);
        state.calls[0].evidence.by_hand = by_hand;
        tells(&mut state, booked(), BEGIN_MS + 1)
    };
    let person = || {
        let (by, reason) = ("somebody".to_owned(), "as the bank's page has it".to_owned());
        Some(ByHand { by, reason, at_ms: BEGIN_MS, button: 1, is_contradicted: false })
    };
    assert_eq!(settled(Settlement::Answered(booked()), None), Err(Refusal::Settled));
    assert_eq!(settled(Settlement::Answered(rejected()), None), Err(Refusal::Settled));
    let without = Err(Refusal::SettledWithoutWord);
    assert_eq!(settled(Settlement::Answered(booked()), person()), without);
    assert_eq!(settled(Settlement::NotExecuted, None), without);
    assert_eq!(settled(Settlement::NeedsReview, None), without);
    assert!(!Refusal::SettledWithoutWord.comes_again());
}

/// Whatever comes of the send: what was told stays, and the run goes on from there.
#[test]
fn news_is_nearer_than_the_answer() {
    let limited =
        Outcome::NotExecuted { retry_after_ms: None, scope: RefusalScope::Copy, reason: "a limit".into() };
    for outcome in [Outcome::Definitive(booked()), Outcome::Definitive(rejected()), no_answer(), limited] {
        let (mut state, mut run) = sent();
        assert_eq!(tells(&mut state, booked(), BEGIN_MS + 10), Ok(()));
        state.appended.timeline.clear();
        let end = run.turn(&mut state, Event::Outcome(1, outcome), &at(BEGIN_MS + 100));
        let Ok(Action::End(RunEnd::Finished(response))) = end else { panic!("{end:?}") };
        assert_eq!(response.status, 200);
        assert_eq!(state.calls[0].state, CallState::Settled(Settlement::Answered(booked())));
        let line = &state.appended.timeline[0];
        assert_eq!(line.event, "call_outcome");
        assert!(line.detail.ends_with("; it was settled before"), "{}", line.detail);
    }
}

#[test]
fn a_look_up_that_is_on_its_way_writes_nothing_over_it() {
    let (mut state, mut run) = sent();
    let unknown = Outcome::Unknown { answer_is_stored: true, reason: "no answer".into() };
    let action = run.turn(&mut state, Event::Outcome(1, unknown), &at(BEGIN_MS + 100));
    assert!(matches!(action, Ok(Action::End(RunEnd::Pending { .. }))), "{action:?}");
    let due_ms = state.calls[0].next_try_at_ms;
    let tokens = wake(&mut state, &incarnation("me"), &at(due_ms));
    let mut run = Run::new(tokens[0].clone(), 0, &[]);
    let action = run.turn(&mut state, Event::Go, &at(due_ms));
    assert!(matches!(action, Ok(Action::LookUp(_))), "{action:?}");
    assert_eq!(tells(&mut state, booked(), due_ms + 1), Ok(()));
    let end = run.turn(&mut state, Event::LookedUp(1, LookUp::Absent), &at(due_ms + 2));
    assert!(matches!(end, Ok(Action::End(RunEnd::Finished(_)))), "{end:?}");
}

/// Nobody works on it: the alarm rings at once, however long it would have waited.
#[test]
fn what_waits_for_the_provider_goes_on_at_once() {
    let now_ms = BEGIN_MS + 5_000;
    let waiting = |holder: &str| {
        let (mut state, mut run) = sent();
        if holder == "me" {
            let end = run.turn(&mut state, Event::Outcome(1, no_answer()), &at(BEGIN_MS + 4_000));
            assert!(matches!(end, Ok(Action::End(RunEnd::Pending { .. }))), "{end:?}");
        }
        let before = state.clone();
        let told = state.settle_by_provider(1, booked(), &incarnation(holder), &at(now_ms));
        assert_eq!(told, Ok(()));
        let alarm_ms = alarm_to_set(&before, &state, KnownAlarm::At(now_ms + 60_000), &at(now_ms));
        (alarm_ms, wake(&mut state, &incarnation(holder), &at(now_ms + 1)).len())
    };
    assert_eq!(waiting("me"), (Some(now_ms + 1), 1), "it was left to the alarm");
    assert_eq!(waiting("next"), (Some(now_ms + 1), 1), "its run is gone");
}

#[test]
fn news_comes_again_where_something_else_decides_first() {
    let (mut state, token) = begun();
    assert_eq!(tells(&mut state, booked(), BEGIN_MS), Err(Refusal::NoCall));
    let mut run = Run::new(token, 0, &[]);
    assert_eq!(run.step(&mut state, Event::Go, &at(BEGIN_MS)), Ok(Action::Again));
    assert_eq!(tells(&mut state, booked(), BEGIN_MS), Err(Refusal::NeverSent));

    let (mut state, mut run) = sent();
    assert_eq!(tells(&mut state, rejected(), BEGIN_MS + 1), Err(Refusal::InDoubt), "in flight");
    let action = run.turn(&mut state, Event::Outcome(1, no_answer()), &at(BEGIN_MS + 2));
    assert!(action.is_ok(), "{action:?}");
    assert_eq!(tells(&mut state, rejected(), BEGIN_MS + 3), Err(Refusal::InDoubt), "unknown");
    let mut open = state.clone();
    open.calls[0].close(booked(), &at(BEGIN_MS + 3));
    assert_eq!(tells(&mut open, booked(), BEGIN_MS + 4), Err(Refusal::Closing));
    assert_eq!(tells(&mut state, booked(), BEGIN_MS + 4), Ok(()));
    assert_eq!(tells(&mut state, booked(), BEGIN_MS + 5), Err(Refusal::Settled));

    let comes_again = [Refusal::NeverSent, Refusal::InDoubt, Refusal::Closing].map(Refusal::comes_again);
    assert_eq!(comes_again, [true; 3]);
    assert_eq!([Refusal::NoCall, Refusal::Settled].map(Refusal::comes_again), [false; 2]);
}
