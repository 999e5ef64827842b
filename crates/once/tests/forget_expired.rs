//! What was forgotten makes room, and its numbers are not given again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

#[path = "../examples/transfer/flow.rs"]
mod flow;

use flow::{Receipt, Transfers, request};
use once::alarm::{wake, wake_at};
use once::begin::{Begin, begin};
use once::call::{Outcome, ProviderReply};
use once::context::Context;
use once::flow::Flow as _;
use once::id::{InstanceId, ObjectId};
use once::object_state::ObjectState;
use once::run::{Action, Event, Run, RunEnd};
use once::state::{from_text, to_text};
use once::times::Times;

const BEGIN_MS: u64 = 1_000_000_000;
const OBJECT: ObjectId = ObjectId::from_bytes([7; 32]);

fn at(now_ms: u64) -> Context<()> {
    Context { now_ms, jitter_permille: 0, times: Times::default(), keys_max: 3, settings: () }
}

fn begins(state: &mut ObjectState<Transfers>, key: &str, now_ms: u64) -> Begin<Transfers> {
    let command = request(key, r#"{"to":"DE02","cents":100}"#).unwrap();
    begin(state, &command, &InstanceId("me".into()), &at(now_ms)).unwrap()
}

/// Makes a transfer, and gives the key under which it went to the bank.
fn transfers(state: &mut ObjectState<Transfers>, key: &str, now_ms: u64) -> (u32, String) {
    let Begin::Run(token) = begins(state, key, now_ms) else { panic!("{key} does not begin") };
    let mut run = Run::new(token, 0, &[]);
    let Ok(Action::Send(call)) = run.turn(state, Event::Go, &at(now_ms)) else { panic!("{key} is not sent") };
    let result = Receipt::Booked { reference: key.to_owned() };
    let booked = Outcome::Definitive(ProviderReply { status: 200, result, request_id: None });
    let end = run.turn(state, Event::Outcome(call.call_id, booked), &at(now_ms));
    assert!(matches!(end, Ok(Action::End(RunEnd::Finished(_)))), "{end:?}");
    (call.call_id, call.provider_key)
}

/// Three transfers, which is as many as there may be, whose responses have expired; and when that was.
fn full() -> (ObjectState<Transfers>, u64) {
    let mut state = ObjectState::empty(OBJECT);
    for key in ["a", "b", "c"] {
        transfers(&mut state, key, BEGIN_MS);
    }
    let expired_ms = BEGIN_MS + Times::default().retention_ms;
    wake(&mut state, &InstanceId("me".into()), &at(expired_ms));
    (state, expired_ms)
}

#[test]
fn what_the_flow_still_needs_is_not_forgotten() {
    let (mut state, expired_ms) = full();
    assert_eq!(state.forget_expired_but(expired_ms, |key| key.key_id == 2), 1);
    assert_eq!(state.keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(transfers(&mut state, "d", expired_ms).0, 4, "a number that was forgotten is not given again");
}

#[test]
fn what_is_forgotten_makes_room_and_its_keys_at_the_bank_are_not_used_again() {
    let (mut state, expired_ms) = full();
    assert!(matches!(begins(&mut state, "d", expired_ms), Begin::Refused(_)));
    assert_eq!(state.forget_expired(expired_ms - 1), 0);
    assert_eq!(state.forget_expired(expired_ms), 2);
    assert_eq!((state.keys.len(), state.calls.len()), (1, 1), "the first one says whose it is");
    // Also as another incarnation reads it.
    let (mut state, _) = from_text::<Transfers>(OBJECT, &to_text(&state, 0).unwrap()).unwrap();
    assert_eq!(transfers(&mut state, "d", expired_ms), (4, format!("{}_4", OBJECT.to_hex())));
    assert!(matches!(begins(&mut state, "a", expired_ms), Begin::Expired));
    assert!(matches!(begins(&mut state, "b", expired_ms), Begin::Run(_)), "nothing is known of it any more");
}

/// Nobody calls in a whole month: the alarm comes for them, and for nothing after that.
#[test]
fn the_alarm_forgets_what_no_client_comes_back_with() {
    let (mut state, expired_ms) = full();
    let over_ms = expired_ms + Transfers::forgets_after_ms(&at(0)).unwrap();
    state.take_appended();
    state.jobs.clear();
    assert_eq!(wake_at(&state, &at(expired_ms)), Some(over_ms));
    wake(&mut state, &InstanceId("me".into()), &at(over_ms - 1));
    assert_eq!(state.keys.len(), 3, "too early");
    wake(&mut state, &InstanceId("me".into()), &at(over_ms));
    assert_eq!((state.keys.len(), state.calls.len()), (1, 1), "the first one says whose it is");
    assert_eq!(wake_at(&state, &at(over_ms)), None, "the first one stays");
}

/// An object that a release before has left without an alarm, or whose alarm is late.
#[test]
fn a_full_object_forgets_what_is_over_by_itself() {
    let (mut state, expired_ms) = full();
    let over_ms = expired_ms + Transfers::forgets_after_ms(&at(0)).unwrap();
    assert!(matches!(begins(&mut state, "d", over_ms - 1), Begin::Refused(_)), "too early");
    assert!(matches!(begins(&mut state, "d", over_ms), Begin::Run(_)));
    assert_eq!(state.keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), [1, 4]);
}

/// A state of an older release has no such numbers: nothing was ever forgotten there.
#[test]
fn an_older_state_goes_on_from_its_newest_key() {
    let (state, expired_ms) = full();
    let text = to_text(&state, 0).unwrap();
    assert!(!text.contains("forgotten"), "{text}");
    let (mut read, _) = from_text::<Transfers>(OBJECT, &text).unwrap();
    assert!(read == ObjectState { appended: Default::default(), ..state });
    assert_eq!(read.forget_expired(expired_ms), 2);
    assert_eq!((read.forgotten.key_id, read.forgotten.call_id), (3, 3));
}

/// What is under way, and what is replayed yet, is known.
#[test]
fn what_has_not_expired_is_not_forgotten() {
    let mut state = ObjectState::empty(OBJECT);
    transfers(&mut state, "a", BEGIN_MS);
    transfers(&mut state, "b", BEGIN_MS);
    assert!(matches!(begins(&mut state, "c", BEGIN_MS), Begin::Run(_)));
    assert_eq!(state.forget_expired(u64::MAX), 0);
    assert_eq!(state.keys.len(), 3);
}
