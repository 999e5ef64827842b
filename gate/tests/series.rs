//! A visitor who sends often to one address, where all that they send there is one object's.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its reply, and nobody links to it"
)]

use once::begin::{Begin, Command, begin};
use once::call::{Outcome, ProviderReply};
use once::id::ObjectId;
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::record::Lifecycle;
use once::run::{Action, Event, Run, RunEnd};
use once::state::{from_text, to_text};
use paid_once_gate::domain::{Again, Intent, PassOn, without_answer};
use paid_once_gate::meaning::Ended;
use paid_once_gate::series::forget_over;
use support::{WAITS, at, command, me};

mod support;

const OBJECT: ObjectId = ObjectId::from_bytes([7; 32]);
const TRIES_MAX: u32 = 100;

fn begins(state: &mut ObjectState<PassOn>, number: u32, now_ms: u64) -> Begin<PassOn> {
    let mut command = Command { key_hash: KeyHash(format!("form.{number}")), ..command(Again::Never) };
    command.operation.origin_key = format!("gate_{number}");
    begin(state, &command, &me(), &at(now_ms)).unwrap()
}

/// As many submissions as there may be, each of which has ended so.
fn full(ended: impl Fn(u32) -> Ended) -> ObjectState<PassOn> {
    let mut state = ObjectState::empty(OBJECT);
    for number in 1..=TRIES_MAX {
        let Begin::Run(token) = begins(&mut state, number, number.into()) else { panic!("begins") };
        let mut run = Run::new(token, 0, &[]);
        let Action::Send(call) = run.first_turn(&mut state, &at(number.into())) else { panic!("is sent") };
        let result = without_answer(ended(number));
        let outcome = Outcome::Definitive(ProviderReply { status: 303, result, request_id: None });
        let end = run.turn(&mut state, Event::Outcome(call.call_id, outcome), &at(number.into()));
        assert!(matches!(end, Ok(Action::End(RunEnd::Finished(_)))), "{end:?}");
    }
    state
}

/// When all of them have expired.
const EXPIRED_MS: u64 = TRIES_MAX as u64 + WAITS.keep_ms;

#[test]
fn is_not_locked_out_by_what_was_over_long_ago() {
    let mut state = full(|_| Ended::Done);
    once::alarm::wake(&mut state, &me(), &at(EXPIRED_MS));
    assert!(state.keys.iter().all(|key| matches!(key.lifecycle, Lifecycle::Expired(_))));
    // While a form of before could still be sent.
    forget_over(&mut state, WAITS.keep_ms, 1 + 2 * WAITS.keep_ms - 1);
    assert_eq!(state.keys.len(), TRIES_MAX as usize);
    assert!(matches!(begins(&mut state, TRIES_MAX + 1, EXPIRED_MS), Begin::Refused(())));
    // And then.
    let later_ms = EXPIRED_MS + WAITS.keep_ms;
    forget_over(&mut state, WAITS.keep_ms, later_ms);
    let numbers = |state: &ObjectState<PassOn>| state.keys.iter().map(|key| key.key_id).collect::<Vec<_>>();
    assert_eq!(numbers(&state), [1, TRIES_MAX], "whose it is, and the newest");
    assert_eq!(state.resource.ended.keys().copied().collect::<Vec<_>>(), [1, TRIES_MAX]);
    assert_eq!(state.resource.places.keys().copied().collect::<Vec<_>>(), [1, TRIES_MAX]);
    // Also as another incarnation reads it.
    let (mut state, _) = from_text::<PassOn>(OBJECT, &to_text(&state, 0).unwrap()).unwrap();
    assert!(matches!(begins(&mut state, TRIES_MAX + 1, later_ms), Begin::Run(_)));
    assert_eq!(numbers(&state), [1, TRIES_MAX, TRIES_MAX + 1]);
    assert!(
        matches!(begins(&mut state, TRIES_MAX, later_ms), Begin::Expired),
        "the newest is not done again"
    );
}

#[test]
fn what_nobody_knows_the_end_of_stays() {
    let mut state = full(|number| if number == 50 { Ended::Unknown } else { Ended::Refused });
    once::alarm::wake(&mut state, &me(), &at(EXPIRED_MS));
    forget_over(&mut state, WAITS.keep_ms, EXPIRED_MS + WAITS.keep_ms);
    assert_eq!(state.keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), [1, 50, TRIES_MAX]);
}

#[test]
fn what_lies_in_the_bucket_is_deleted_though_it_is_forgotten() {
    let mut state = full(|_| Ended::Done);
    state.resource.in_bucket.extend([2, TRIES_MAX]);
    once::alarm::wake(&mut state, &me(), &at(EXPIRED_MS));
    forget_over(&mut state, WAITS.keep_ms, EXPIRED_MS + WAITS.keep_ms);
    assert_eq!(Intent::over_in_bucket(&state).collect::<Vec<_>>(), [2, TRIES_MAX]);
}
