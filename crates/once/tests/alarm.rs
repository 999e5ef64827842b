//! When the alarm is set, what it takes up, and what the outbox looks at: what comes right without it, only later.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod begun;

use begun::flow::{Receipt, Transfers, request};
use begun::{BEGIN_MS, at};
use once::alarm::{KnownAlarm, alarm_to_set, let_go, wake, wake_at};
use once::begin::{Begin, begin};
use once::call::{Outcome, ProviderReply};
use once::id::InstanceId;
use once::object_state::ObjectState;
use once::outbox::{self, Handed};
use once::record::{Lifecycle, Open};
use once::run::{Action, Event, Run, RunEnd};
use once::times::Times;

const COMPLETER_MS: u64 = 60_000;
const LEASE_MS: u64 = 90_000;

fn incarnation(name: &str) -> InstanceId {
    InstanceId(name.to_owned())
}

/// A transfer that an incarnation has begun.
fn begun() -> ObjectState<Transfers> {
    let (mut state, _) = begun::begun();
    state.appended = Default::default();
    state
}

/// First it is looked whether the holder is gone, then whether its lease has run out.
#[test]
fn it_wakes_for_a_run_that_is_silent_and_for_one_that_is_late() {
    let state = begun();
    let wakes = |now_ms| wake_at(&state, &at(now_ms)).unwrap();
    assert_eq!(wakes(BEGIN_MS), BEGIN_MS + COMPLETER_MS);
    assert_eq!(wakes(BEGIN_MS + COMPLETER_MS), BEGIN_MS + LEASE_MS);
    assert_eq!(wakes(BEGIN_MS + LEASE_MS + 5), BEGIN_MS + LEASE_MS + 5, "at once");
}

#[test]
fn it_takes_up_what_a_dead_holder_has_left_and_no_living_one() {
    let taken = |holder: &str, now_ms| wake(&mut begun(), &incarnation(holder), &at(now_ms)).len();
    assert_eq!(taken("me", BEGIN_MS + COMPLETER_MS), 0);
    assert_eq!(taken("another", BEGIN_MS + COMPLETER_MS), 1);
    assert_eq!(taken("me", BEGIN_MS + LEASE_MS), 1);
}

/// The platform gives an alarm up for good that has failed six times: whoever comes then sets it.
#[test]
fn a_new_incarnation_sets_the_alarm_of_what_is_open() {
    let state = begun();
    let set = |known| alarm_to_set(&state, &state, known, &at(BEGIN_MS));
    let due_ms = Some(BEGIN_MS + COMPLETER_MS);
    assert_eq!(set(KnownAlarm::Unknown), due_ms);
    assert_eq!(set(KnownAlarm::Gone), due_ms);
    assert_eq!(set(KnownAlarm::At(BEGIN_MS + COMPLETER_MS)), None);
    assert_eq!(set(KnownAlarm::At(BEGIN_MS + COMPLETER_MS + 1)), due_ms, "it would be late");
    assert_eq!(set(KnownAlarm::At(BEGIN_MS + COMPLETER_MS - 1)), None, "a run goes on");
}

/// What is due now may be what the alarm rings for. The runtime forgets that one when it has rung, also if it was set anew for the same time.
#[test]
fn what_is_due_already_rings_at_the_next_millisecond() {
    let (state, due_ms) = (begun(), BEGIN_MS + LEASE_MS);
    let set = |known, now_ms| alarm_to_set(&state, &state, known, &at(now_ms));
    for now_ms in [due_ms, due_ms + 5] {
        assert_eq!(set(KnownAlarm::Gone, now_ms), Some(now_ms + 1));
        assert_eq!(set(KnownAlarm::At(now_ms + 1), now_ms), None, "it is set for that");
        assert_eq!(set(KnownAlarm::At(now_ms + 1), now_ms + 1), None, "it rings by itself");
    }
}

/// One that the queue has is looked at, given its time, and given again; none is forgotten before its word has come.
#[test]
fn a_job_leaves_again_until_it_is_confirmed() {
    let (mut state, mut handed) = (begun(), Handed::default());
    let job = outbox::job((), "1".to_owned(), serde_json::json!({}), &at(BEGIN_MS));
    let look_ms = job.next_at_ms;
    state.jobs = vec![job];
    let leaving = outbox::due(&state, &handed, &at(BEGIN_MS)).leaving;
    assert_eq!(leaving.len(), 1);
    assert!(outbox::handed(&mut handed, leaving, &at(BEGIN_MS)).is_empty(), "nothing is written");
    assert!(outbox::due(&state, &handed, &at(look_ms - 1)).is_empty());
    let waiting = outbox::due(&state, &handed, &at(look_ms)).waiting;
    assert_eq!(waiting.len(), 1);
    outbox::put_off(&mut state, &mut handed, &waiting, &at(look_ms));
    let again_ms = look_ms + Times::default().confirm_ms;
    assert!(outbox::due(&state, &handed, &at(again_ms - 1)).is_empty());
    let leaving = outbox::due(&state, &handed, &at(again_ms)).leaving;
    assert_eq!(leaving.len(), 1);
    let written = outbox::handed(&mut handed, leaving, &at(again_ms));
    assert_eq!(written.len(), 1, "that it left again is written");
    outbox::sent(&mut state, &written, true, &at(again_ms));
    assert_eq!((state.jobs.len(), state.jobs[0].sends), (1, 2));
    outbox::confirm(&mut state, "another");
    assert_eq!(state.jobs.len(), 1);
    outbox::confirm(&mut state, "1");
    assert!(state.jobs.is_empty());
}

/// Whoever does them would do one, and both would be forgotten.
#[test]
fn two_jobs_of_one_id_are_never_staged() {
    let job = |id: &str| outbox::job((), id.to_owned(), serde_json::json!({}), &at(BEGIN_MS));
    let mut state = begun();
    state.appended.jobs = vec![job("1"), job("2")];
    state.take_appended();
    state.appended.jobs = vec![job("1"), job("3"), job("3")];
    state.take_appended();
    let ids: Vec<&str> = state.jobs.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!((ids, state.appended.jobs.len()), (vec!["1", "2", "3"], 0));
}

fn open_mut(state: &mut ObjectState<Transfers>, key_id: u32) -> &mut Open<Transfers> {
    match &mut state.key_mut(key_id).unwrap().lifecycle {
        Lifecycle::Open(open) => open,
        other => panic!("it is {}", other.name()),
    }
}

fn open(state: &ObjectState<Transfers>, key_id: u32) -> &Open<Transfers> {
    match &state.key(key_id).unwrap().lifecycle {
        Lifecycle::Open(open) => open,
        other => panic!("it is {}", other.name()),
    }
}

/// An eviction or a deploy in the middle of a run is nothing to tell a person of, and nobody waits longer for it.
#[test]
fn a_run_that_was_broken_off_once_goes_on_at_once() {
    let mut state = begun();
    assert_eq!(wake(&mut state, &incarnation("another"), &at(BEGIN_MS + 1)).len(), 1);
    assert_eq!((open(&state, 1).failures, open(&state, 1).is_flagged()), (1, false));
}

/// The provider was away for an hour, and then comes a deploy.
#[test]
fn a_run_that_was_broken_off_once_goes_on_at_once_however_often_it_has_waited_for_the_provider() {
    let mut state = begun();
    open_mut(&mut state, 1).failures = 12;
    assert_eq!(wake(&mut state, &incarnation("another"), &at(BEGIN_MS + 1)).len(), 1);
}

/// What a person has mended goes on when they say so.
#[test]
fn a_run_that_was_broken_off_again_and_again_goes_on_when_a_person_lets_it() {
    let (mut state, me, now) = (begun(), incarnation("another"), at(BEGIN_MS + 1));
    open_mut(&mut state, 1).broken_off = 9;
    let mut waiting = state.clone();
    assert_eq!(wake(&mut waiting, &me, &now), [], "the control");
    let_go(&mut state, &me, &now);
    assert_eq!((open(&state, 1).failures, wake(&mut state, &me, &now).len()), (1, 1));
    let living = state.clone();
    let_go(&mut state, &me, &now);
    assert_eq!(state, living, "whoever works on it goes on");
}

/// A trap takes the whole instance with it: the object's other keys, if one alarm began all of them.
#[test]
fn a_run_that_traps_each_time_waits_longer_is_flagged_and_lets_others_end() {
    // How often runs of the two have broken off before.
    for broken_off in [[0, 0], [1, 1], [5, 5], [2, 1], [1, 2]] {
        let mut state = begun();
        let gift = request("gift", r#"{"to":"DE03","cents":1000}"#).unwrap();
        let begun = begin(&mut state, &gift, &incarnation("me"), &at(BEGIN_MS));
        assert!(matches!(begun, Ok(Begin::Run(_))), "{begun:?}");
        for (key_id, broken_off) in [1, 2].into_iter().zip(broken_off) {
            open_mut(&mut state, key_id).broken_off = broken_off;
        }
        let (mut now_ms, mut traps, mut other_ended_after) = (BEGIN_MS, Vec::new(), None);
        for alarm in 0..100 {
            let me = incarnation(&format!("incarnation {alarm}"));
            let tokens = wake(&mut state, &me, &at(now_ms));
            if tokens.iter().any(|token| token.key_id == 1) {
                // So the guard sets the alarm.
                traps.push(now_ms);
                now_ms += 60_000;
                continue;
            }
            if let [token] = &tokens[..] {
                let mut run = Run::new(token.clone(), 0, &[]);
                assert!(matches!(run.turn(&mut state, Event::Go, &at(now_ms)), Ok(Action::Send(_))));
                let rejected = Receipt::Rejected { reason: String::new() };
                let reply = ProviderReply { status: 422, result: rejected, request_id: None };
                let outcome = Event::Outcome(state.calls.last().unwrap().call_id, Outcome::Definitive(reply));
                let end = run.turn(&mut state, outcome, &at(now_ms));
                assert!(matches!(end, Ok(Action::End(RunEnd::Finished(_)))), "{end:?}");
                other_ended_after = Some(traps.len());
            }
            now_ms = wake_at(&state, &at(now_ms)).unwrap();
            if open(&state, 1).is_flagged() {
                break;
            }
        }
        assert!(other_ended_after.is_some_and(|traps| traps <= 2), "{broken_off:?}: {other_ended_after:?}");
        assert!(open(&state, 1).is_flagged(), "{broken_off:?}");
        let pauses: Vec<u64> = traps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.is_sorted() && pauses.last() > Some(&120_000), "{pauses:?}");
    }
}
