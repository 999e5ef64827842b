//! How long a client is held by a provider that does not answer.

use once::begin::begin;
use once::call::LookUp;
use once::id::ObjectId;
use once::run::RunEnd;
use payments::engine::{Action, Begin, Context, Event as Input, ObjectState, Outcome, Run, with_credentials};
use proptest::prelude::*;

use crate::account::key;
use crate::payment::pay;
use crate::support::{self, NOW_MS, command, me};

fn at(now_ms: u64) -> Context {
    with_credentials(support::at(now_ms), key("sk_test_1"))
}

/// What a run asks of a provider that says nothing until the timeout, and when it ends, in ms after its beginning.
fn asked(patience_until_ms: u64, timeout_ms: u64) -> (Vec<&'static str>, u64) {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let begun = begin(&mut state, &command("key", pay(true)), &me(), &at(NOW_MS)).unwrap();
    let Begin::Run(token) = begun else { panic!("{begun:?}") };
    let mut run = Run::new(token, patience_until_ms, &[]);
    let (mut event, mut now_ms, mut asked) = (Input::Go, NOW_MS, Vec::new());
    for _ in 0..1000 {
        let reason = "no answer".to_owned();
        event = match run.step(&mut state, event, &at(now_ms)).unwrap() {
            Action::Again => Input::Go,
            Action::Send(call) => {
                asked.push("send");
                now_ms += timeout_ms;
                Input::Outcome(call.call_id, Outcome::Unknown { answer_is_stored: false, reason })
            }
            Action::LookUp(call) => {
                asked.push("look-up");
                now_ms += timeout_ms;
                Input::LookedUp(call.call_id, LookUp::Inconclusive { from_the_start: false, reason })
            }
            Action::SleepUntil(at_ms) => {
                now_ms = at_ms;
                Input::Go
            }
            Action::End(RunEnd::Pending { in_doubt, .. }) => {
                assert!(in_doubt);
                return (asked, now_ms - NOW_MS);
            }
            other => panic!("{other:?}"),
        };
    }
    panic!("it never ends: {asked:?}");
}

#[test]
fn a_client_that_would_not_wait_is_held_by_one_send_and_one_question_and_nobody_hurries_the_alarm() {
    assert_eq!(asked(NOW_MS, 30_000), (vec!["send", "look-up"], 60_000));
    // What its account is is asked at once after that, so that a try is due again when the answer would have come.
    let (asked, _) = asked(0, 30_000);
    assert!(asked.len() > 4, "{asked:?}");
}

proptest! {
    #[test]
    fn a_client_is_held_no_longer_than_it_waits_and_two_calls_take(
        wait_ms in 0u64..30_000, timeout_ms in 1u64..60_000,
    ) {
        let (asked, ended_ms) = asked(NOW_MS + wait_ms, timeout_ms);
        prop_assert!(ended_ms <= wait_ms + 2 * timeout_ms, "{:?} in {} ms", asked, ended_ms);
    }
}
