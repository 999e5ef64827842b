//! Replays: each changes nothing, and is counted.

use once::alarm::{KnownAlarm, alarm_to_set, wake};
use once::begin::{begin, decided};
use once::context::Times;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{ObjectId, Owner, RequestId};
use once::record::StoredResponse;
use once::replays::Replays;
use once::run::RunEnd;
use payments::engine::{Action, Begin, Command, Event, Lifecycle, ObjectState, Outcome, ProviderReply, Run};
use payments::payment::result::ProviderResult;
use payments::transitions::projection::stage_projection;

use crate::payment::pay;
use crate::support::{self, NOW_MS, at, me};

fn command(request: &str) -> Command {
    Command { request_id: RequestId(request.into()), ..support::command("k", pay(true)) }
}

/// A key that has ended, with nothing left to do, and what it answers.
fn finished() -> (ObjectState, StoredResponse) {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let Begin::Run(token) = begin(&mut state, &command("req_1"), &me(), &at(NOW_MS)).unwrap() else {
        panic!("it is new")
    };
    let mut run = Run::new(token, NOW_MS, &[]);
    let mut event = Event::Go;
    for _ in 0..20 {
        event = match run.step(&mut state, event, &at(NOW_MS)).unwrap() {
            Action::Send(call) => Event::Outcome(
                call.call_id,
                Outcome::Definitive(ProviderReply {
                    status: 200,
                    request_id: None,
                    result: ProviderResult::Charged { payment: "pi_1".into(), card: None },
                }),
            ),
            Action::End(RunEnd::Finished(response)) => {
                state.appended = Default::default();
                state.jobs.clear();
                return (state, response);
            }
            _ => Event::Go,
        };
    }
    panic!("it does not end")
}

fn counted(replays: &mut Replays, state: &ObjectState, key_id: u32, times: u32) {
    for number in 0..times {
        assert!(replays.count(state, key_id, &RequestId(format!("req_{number}")), NOW_MS));
    }
}

#[test]
fn a_replay_changes_nothing() {
    let (mut state, response) = finished();
    let before = state.clone();
    let replay = Begin::Replay { key_id: 1, response, original_request: RequestId("req_1".into()) };
    assert_eq!(decided(&state, &command("req_2"), &me(), &at(NOW_MS)), Some(replay.clone()));
    assert_eq!(begin(&mut state, &command("req_2"), &me(), &at(NOW_MS)).unwrap(), replay);
    assert_eq!(state, before);
}

#[test]
fn only_what_needs_no_run_is_decided_without_a_change() {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let decided = |state: &ObjectState| decided(state, &command("req_2"), &me(), &at(NOW_MS));
    assert_eq!(decided(&state), None, "it is new");
    begin(&mut state, &command("req_1"), &me(), &at(NOW_MS)).unwrap();
    assert!(matches!(decided(&state), Some(Begin::InProgress { key_id: 1, .. })));
    let Lifecycle::Open(open) = &mut state.keys[0].lifecycle else { panic!("it is open") };
    open.lease = None;
    assert_eq!(decided(&state), None, "it is resumed");
}

#[test]
fn the_first_replays_have_a_line_that_names_their_request() {
    let (mut state, _) = finished();
    let mut replays = Replays::default();
    counted(&mut replays, &state, 1, 20);
    replays.count(&state, 2, &RequestId("req".into()), NOW_MS);
    assert_eq!(replays.lines().len(), 16, "a key that is not there has none");
    let [line, ..] = replays.lines() else { panic!("there are lines") };
    assert_eq!(
        (line.key_id, line.at_ms, line.event.as_str(), line.detail.as_str()),
        (1, NOW_MS, "replayed", "req_0")
    );
    let before = state.clone();
    replays.add_to(&mut state);
    assert_eq!(state.keys[0].replays, 20);
    state.keys[0].replays = 0;
    assert_eq!(state, before, "nothing else changes");
}

#[test]
fn replays_alone_are_written_when_they_have_doubled() {
    let (mut state, _) = finished();
    let mut replays = Replays::default();
    let mut written = Vec::new();
    for number in 1..=10_000 {
        replays.count(&state, 1, &RequestId(format!("req_{number}")), NOW_MS);
        if replays.is_due() {
            replays.take().add_to(&mut state);
            assert_eq!(state.keys[0].replays, number);
            written.push(number);
        }
    }
    assert_eq!(written, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]);
}

/// Who did not wait for the object's answer asks it again, under the same id.
#[test]
fn a_request_that_asks_again_is_counted_once() {
    let (mut state, _) = finished();
    let mut replays = Replays::default();
    counted(&mut replays, &state, 1, 10);
    let again = |replays: &mut Replays, state: &ObjectState, number: u32| {
        replays.count(state, 1, &RequestId(format!("req_{number}")), NOW_MS)
    };
    assert!(!again(&mut replays, &state, 9));
    assert_eq!(replays.lines().len(), 10);
    replays.take().add_to(&mut state);
    assert!(!again(&mut replays, &state, 0), "also where it is written already");
    assert_eq!(replays.lines().len(), 0);
    assert!(again(&mut replays, &state, 10));
    replays.take().add_to(&mut state);
    assert_eq!(state.keys[0].replays, 11);
    (0..1000).for_each(|number| assert!(again(&mut replays, &state, 100 + number), "and no more are kept"));
    assert!(again(&mut replays, &state, 100));
}

#[test]
fn a_request_that_is_refused_is_no_replay() {
    let (state, _) = finished();
    let mut other = command("req_2");
    other.fingerprint = Fingerprint::of("POST", "/payments", &Canonical(r#"{"other":1}"#.into()));
    let mut stranger = command("req_2");
    stranger.owner = Owner::Account("b".into());
    let expires_at_ms = NOW_MS + Times::default().retention_ms;
    for (command, now_ms) in [(other, NOW_MS), (stranger, NOW_MS), (command("req_2"), expires_at_ms)] {
        let mut after = state.clone();
        begin(&mut after, &command, &me(), &at(now_ms)).unwrap();
        assert_eq!(after, state);
    }
}

#[test]
fn a_replay_sets_no_alarm_and_tells_the_read_model_nothing() {
    let (before, _) = finished();
    let mut after = before.clone();
    let ctx = at(NOW_MS + 5);
    after.keys[0].replays += 1;
    stage_projection(&before, &mut after, &ctx);
    assert!(after.appended.jobs.is_empty());
    assert_eq!(alarm_to_set(&before, &before, KnownAlarm::Unknown, &ctx), None);
    let due_at_ms = NOW_MS + Times::default().retention_ms;
    assert_eq!(alarm_to_set(&before, &before, KnownAlarm::At(due_at_ms), &ctx), None);
    // The control: whatever else changes, an incarnation that does not know of an alarm sets it.
    after.keys[0].attempt += 1;
    assert_eq!(alarm_to_set(&before, &after, KnownAlarm::Unknown, &ctx), Some(due_at_ms));
}

#[test]
fn the_count_outlives_the_response() {
    let (mut state, _) = finished();
    state.keys[0].replays = 1;
    let expires_at_ms = NOW_MS + Times::default().retention_ms;
    wake(&mut state, &me(), &at(expires_at_ms));
    assert!(matches!(state.keys[0].lifecycle, Lifecycle::Expired(_)));
    assert_eq!(state.keys[0].replays, 1);
}
