//! What an operator says of what nobody knows the end of.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its reply, and nobody links to it"
)]

use messages::gate::GateWord;
use messages::message::ByHandAnswer;
use once::begin::{Begin, begin};
use once::call::{LookUp, Outcome};
use once::flow::Flow as _;
use once::id::{InstanceId, ObjectId};
use once::object_state::ObjectState;
use once::record::Lifecycle;
use once::run::{Action, Event, Run};
use paid_once_gate::by_hand::{inspection, over_at_ms, settle};
use paid_once_gate::domain::{Again, PassOn};
use paid_once_gate::meaning::Ended;
use support::{WAITS, at, command, me};

mod support;

fn word(is_done: bool) -> GateWord {
    let (operator, reason) = ("ada".to_owned(), "it is in the books".to_owned());
    GateWord { number: 1, is_done, operator, reason, button: 7 }
}

/// An operation that was sent at 1 ms, of whose answer nothing is known. `while_sent` is called before that is.
fn lost(again: Again, while_sent: impl Fn(&mut ObjectState<PassOn>)) -> ObjectState<PassOn> {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let Ok(Begin::Run(token)) = begin(&mut state, &command(again), &me(), &at(1)) else { panic!("begins") };
    let mut run = Run::new(token, 0, &[]);
    let mut action = run.first_turn(&mut state, &at(1));
    loop {
        let event = match action {
            Action::Send(call) => {
                while_sent(&mut state);
                let reason = "no answer".to_owned();
                Event::Outcome(call.call_id, Outcome::Unknown { answer_is_stored: false, reason })
            }
            Action::LookUp(call) => {
                let reason = "no visitor".to_owned();
                Event::LookedUp(call.call_id, LookUp::NoClient { reason })
            }
            Action::Again => Event::Go,
            Action::SleepUntil(_) | Action::End(_) => return state,
        };
        action = run.turn(&mut state, event, &at(2)).unwrap();
    }
}

fn refusal(answer: &ByHandAnswer) -> &str {
    match answer {
        ByHandAnswer::Refused { detail } => detail,
        other => panic!("it was taken: {other:?}"),
    }
}

#[test]
fn what_is_unknown_ends_as_they_say() {
    for (is_done, ended) in [(true, Ended::Done), (false, Ended::NotDone)] {
        let mut state = lost(Again::Never, |_| {});
        assert_eq!(state.resource.ended.get(&1), Some(&Ended::Unknown));
        let answer = settle(&mut state, &word(is_done), &me(), &at(200_000));
        assert!(matches!(answer, ByHandAnswer::Settled { .. }), "{answer:?}");
        assert_eq!(state.resource.ended.get(&1), Some(&ended));
        // Pressed twice it is said once.
        let lines = state.appended.timeline.len();
        assert!(matches!(
            settle(&mut state, &word(is_done), &me(), &at(200_001)),
            ByHandAnswer::Settled { .. }
        ));
        assert_eq!(state.appended.timeline.len(), lines);
        // Another button says what is known.
        let other = GateWord { button: 8, ..word(!is_done) };
        assert!(refusal(&settle(&mut state, &other, &me(), &at(200_002))).contains("known meanwhile"));
        assert_eq!(state.resource.ended.get(&1), Some(&ended));
    }
}

#[test]
fn what_waits_for_its_visitor_goes_on_from_their_word() {
    for again in [Again::Ask, Again::Send] {
        let mut state = lost(again, |_| {});
        assert_eq!(state.resource.ended.get(&1), None, "{again:?}");
        let answer = settle(&mut state, &word(true), &me(), &at(200_000));
        assert!(matches!(answer, ByHandAnswer::Settled { .. }), "{answer:?}");
        let Lifecycle::Open(open) = &state.key(1).unwrap().lifecycle else { panic!("a run has to end it") };
        assert_eq!((open.lease.is_none(), open.resume_at_ms), (true, 200_000));
        let tokens = once::alarm::wake(&mut state, &me(), &at(200_000));
        let mut run = Run::new(tokens[0].clone(), 0, &[]);
        let mut action = run.turn(&mut state, Event::Go, &at(200_000)).unwrap();
        while action == Action::Again {
            action = run.turn(&mut state, Event::Go, &at(200_000)).unwrap();
        }
        assert!(matches!(action, Action::End(_)), "nothing is sent or asked any more: {action:?}");
        assert_eq!(state.resource.ended.get(&1), Some(&Ended::Done));
    }
}

#[test]
fn while_the_site_may_work_on_it_nobody_can_know_that_it_was_not_done() {
    let mut state = lost(Again::Never, |_| {});
    let before = state.clone();
    let answer = settle(&mut state, &word(false), &me(), &at(60_000));
    assert!(refusal(&answer).contains("may still work on it"), "{answer:?}");
    assert_eq!(state, before);
    let answer = settle(&mut state, &word(false), &me(), &at(1 + WAITS.quiet_ms));
    assert!(matches!(answer, ByHandAnswer::Settled { .. }), "{answer:?}");
}

#[test]
fn nothing_is_said_of_what_is_being_sent_or_of_nothing() {
    lost(Again::Never, |state| {
        let before = state.clone();
        let answer = settle(state, &word(true), &me(), &at(30_000));
        assert!(refusal(&answer).contains("right now"), "{answer:?}");
        assert_eq!(*state, before);
        // Whoever has sent it is gone.
        let answer = settle(&mut state.clone(), &word(true), &InstanceId("next".into()), &at(30_000));
        assert!(matches!(answer, ByHandAnswer::Settled { .. }), "{answer:?}");
    });
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    assert!(matches!(begin(&mut state, &command(Again::Never), &me(), &at(1)), Ok(Begin::Run(_))));
    let answer = settle(&mut state, &word(true), &me(), &at(2));
    assert!(refusal(&answer).contains("never sent"), "{answer:?}");
}

#[test]
fn what_they_have_written_is_kept_as_long_as_an_answer_and_stands_in_no_line() {
    let said_at_ms = 200_000;
    let mut state = lost(Again::Never, |_| {});
    settle(&mut state, &word(true), &me(), &at(said_at_ms));
    let lines = serde_json::to_string(&state.appended.timeline).unwrap();
    assert!(lines.contains("done, by hand") && !lines.contains("in the books"), "{lines}");
    let written = |state: &ObjectState<PassOn>| state.calls[0].evidence.by_hand.clone().unwrap();
    // It was unknown before they said so: its answer ends earlier.
    let expires_at_ms = 2 + WAITS.keep_ms;
    assert_eq!(over_at_ms(&state), None, "its answer is kept");
    once::alarm::wake(&mut state, &me(), &at(expires_at_ms));
    assert!(matches!(state.key(1).unwrap().lifecycle, Lifecycle::Expired(_)));
    let over_at = said_at_ms + WAITS.keep_ms;
    assert_eq!(over_at_ms(&state), Some(over_at));
    assert_eq!(PassOn::due_at_ms(&state, &at(expires_at_ms)), Some(over_at));
    for (now_ms, reason) in [(over_at - 1, "it is in the books"), (over_at, "")] {
        once::alarm::wake(&mut state, &me(), &at(now_ms));
        assert_eq!(written(&state).reason, reason);
    }
    assert_eq!((written(&state).by.as_str(), written(&state).at_ms), ("ada", said_at_ms));
    assert_eq!(over_at_ms(&state), None, "nothing is left to forget");
}

#[test]
fn an_operator_sees_no_more_than_they_need() {
    let state = lost(Again::Never, |_| {});
    let shown = inspection(&state, Vec::new(), 3).unwrap();
    assert_eq!(shown.snapshot.keys[0].status, "unknown");
    assert_eq!(shown.snapshot.keys[0].operation.as_deref(), Some("POST /checkout"));
    assert_eq!(shown.calls[0].provider, "shop.example");
    assert!(inspection(&ObjectState::empty(ObjectId::from_bytes([7; 32])), Vec::new(), 3).is_none());
}
