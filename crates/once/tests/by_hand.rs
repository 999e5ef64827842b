//! When a person may say how a call ended, and what follows from their word.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod begun;

use begun::flow::{Receipt, Transfers};
use begun::{BEGIN_MS, at, begun};
use once::by_hand::{Refusal, Word, newly_flagged};
use once::call::{ByHand, CallState, ProviderReply, Settlement};
use once::id::InstanceId;
use once::object_state::ObjectState;
use once::record::{Lease, Lifecycle};
use once::run::{Action, Event, Run};
use once::step::StepError;

/// By when the send has arrived, or never will.
const QUIET_MS: u64 = BEGIN_MS + 1_200_000;

fn incarnation(name: &str) -> InstanceId {
    InstanceId(name.to_owned())
}

/// A transfer that runs.
fn running() -> (ObjectState<Transfers>, Run<Transfers>) {
    let (state, token) = begun();
    (state, Run::new(token, 0, &[]))
}

/// A transfer of which the only send is under way.
fn sent() -> (ObjectState<Transfers>, Run<Transfers>) {
    let (mut state, mut run) = running();
    let action = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(action, Ok(Action::Send(_))), "{action:?}");
    (state, run)
}

fn word(settlement: Settlement<Receipt>) -> Word<Transfers> {
    let by_hand = ByHand {
        by: "operator".into(),
        reason: "it is on the statement".into(),
        at_ms: BEGIN_MS,
        button: 1,
        is_contradicted: false,
    };
    Word { call_id: 1, sends: 1, settlement, by_hand }
}

fn booked() -> Settlement<Receipt> {
    let result = Receipt::Booked { reference: "tr_1".into() };
    Settlement::Answered(ProviderReply { status: 200, result, request_id: None })
}

/// What comes of a word. Where it is not taken nothing is changed.
fn says(
    state: &mut ObjectState<Transfers>,
    word: Word<Transfers>,
    who: &str,
    now_ms: u64,
) -> Result<(), Refusal> {
    let before = state.clone();
    let said = state.settle_by_hand(word, &incarnation(who), &at(now_ms));
    assert_eq!(*state == before, said.is_err(), "{said:?}");
    said
}

/// Its run writes nothing over that, and the alarm goes on at once.
#[test]
fn what_a_person_settles_is_taken_up_at_once() {
    let (mut state, mut run) = sent();
    assert_eq!(says(&mut state, word(Settlement::NotExecuted), "next", QUIET_MS), Ok(()));
    assert_eq!(run.step(&mut state, Event::Go, &at(QUIET_MS)), Err(StepError::Fenced));
    assert_eq!(once::alarm::wake(&mut state, &incarnation("next"), &at(QUIET_MS)).len(), 1);
}

#[test]
fn nobody_settles_what_was_never_sent_or_is_under_way() {
    let (mut state, mut run) = running();
    assert_eq!(says(&mut state, word(booked()), "next", QUIET_MS), Err(Refusal::NoCall));
    assert_eq!(run.step(&mut state, Event::Go, &at(BEGIN_MS)), Ok(Action::Again));
    assert_eq!(says(&mut state, word(booked()), "next", QUIET_MS), Err(Refusal::NeverSent));
    let (mut state, _) = sent();
    assert_eq!(says(&mut state, word(booked()), "me", BEGIN_MS + 1), Err(Refusal::UnderWay));
    let seen_before = Word { sends: 0, ..word(booked()) };
    assert_eq!(says(&mut state, seen_before, "next", QUIET_MS), Err(Refusal::SentAgain));
}

#[test]
fn nobody_has_seen_that_it_was_not_executed_while_it_may_arrive() {
    let (mut state, _) = sent();
    let early = Err(Refusal::TooEarly { until_ms: QUIET_MS });
    assert_eq!(says(&mut state, word(Settlement::NotExecuted), "next", QUIET_MS - 1), early);
    assert_eq!(says(&mut state, word(booked()), "next", BEGIN_MS + 1), Ok(()), "what was made can be seen");
}

#[test]
fn what_has_ended_is_overruled_on_purpose_alone() {
    let (mut state, _) = sent();
    assert_eq!(
        state.overrule_by_hand(word(booked()), &incarnation("next"), &at(QUIET_MS)),
        Err(Refusal::Open)
    );
    assert_eq!(says(&mut state, word(booked()), "next", QUIET_MS), Ok(()));
    assert_eq!(says(&mut state, word(Settlement::NotExecuted), "next", QUIET_MS), Err(Refusal::Settled));
    let early =
        state.overrule_by_hand(word(Settlement::NotExecuted), &incarnation("next"), &at(QUIET_MS - 1));
    assert_eq!(early, Err(Refusal::TooEarly { until_ms: QUIET_MS }));
    assert_eq!(
        state.overrule_by_hand(word(Settlement::NotExecuted), &incarnation("next"), &at(QUIET_MS)),
        Ok(())
    );
    assert_eq!(state.calls[0].state, CallState::Settled(Settlement::NotExecuted));
}

/// A call has ended, and the operation's run goes on with another one: it is not taken from that.
#[test]
fn what_has_ended_is_not_overruled_under_a_run_that_lives() {
    let (mut state, _) = sent();
    state.calls[0].state = CallState::Settled(booked());
    let overrules = |state: &mut ObjectState<Transfers>, who: &str, now_ms| {
        let before = state.clone();
        let said = state.overrule_by_hand(word(Settlement::NotExecuted), &incarnation(who), &at(now_ms));
        assert_eq!(*state == before, said.is_err(), "{said:?}");
        said
    };
    // By then the send has arrived; the run has a lease until later.
    let lease = Lease { holder: incarnation("me"), until_ms: QUIET_MS + 10 };
    let Lifecycle::Open(open) = &mut state.keys[0].lifecycle else { panic!("it is open") };
    open.lease = Some(lease);
    assert_eq!(overrules(&mut state, "me", QUIET_MS + 9), Err(Refusal::UnderWay));
    assert_eq!(overrules(&mut state.clone(), "me", QUIET_MS + 10), Ok(()), "it has run out");
    assert_eq!(overrules(&mut state, "next", QUIET_MS), Ok(()), "it is of one that is gone");
}

/// Once each: when the runs have failed as often, and when the provider's answer contradicts what was asked for.
#[test]
fn what_a_person_must_look_at_is_told_when_it_begins() {
    let told = |before: &ObjectState<Transfers>, after: &ObjectState<Transfers>| {
        newly_flagged(before, after)
            .map(|(key_id, call, _)| (key_id, call.map(str::to_owned)))
            .collect::<Vec<_>>()
    };
    let (sent, _) = sent();
    let fails = |failures| {
        let mut state = sent.clone();
        let Lifecycle::Open(open) = &mut state.keys[0].lifecycle else { panic!("it is open") };
        open.failures = failures;
        state
    };
    assert_eq!(told(&fails(14), &fails(15)), []);
    assert_eq!(told(&fails(15), &fails(16)), [(1, None)]);
    assert_eq!(told(&fails(16), &fails(17)), [], "it was told");
    let reviewed = |why: &str| {
        let mut state = sent.clone();
        state.calls[0].evidence.needs_review = Some(why.to_owned());
        state
    };
    assert_eq!(told(&sent, &reviewed("another amount")), [(1, Some("send".to_owned()))]);
    assert_eq!(told(&reviewed("another amount"), &reviewed("it is not there")), [], "it was told");
    assert_eq!(told(&reviewed("another amount"), &sent), []);
}
