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
use once::call::{CallState, LookUp, Outcome, ProviderReply, RefusalScope, Settlement};
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
