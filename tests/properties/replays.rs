//! Replays: each is counted, a key's rows stay bounded, and no alarm is moved.

use once::alarm::{KnownAlarm, alarm_to_set, wake};
use once::begin::{begin, replayed};
use once::context::Times;
use once::fingerprint::{Canonical, Fingerprint};
use once::id::{ObjectId, Owner, RequestId};
use once::record::{REPLAYS_COUNTED_MAX, REPLAYS_SHOWN_MAX, StoredResponse};
use once::run::RunEnd;
use payments::flows::engine::{Action, Begin, Command, Event, Lifecycle, Outcome, ProviderReply, Rows, Run};
use payments::payment::projection::stage_projection;
use payments::providers::result::ProviderResult;

use crate::support::{self, NOW_MS, at, me, ride};

fn command(request: &str) -> Command {
    Command { request_id: RequestId(request.into()), ..support::command("k", ride(None)) }
}

/// A key that has ended, with nothing left to do, and what it answers.
fn finished() -> (Rows, StoredResponse) {
    let mut rows = Rows::empty(ObjectId::from_bytes([7; 32]));
    let Begin::Run(ticket) = begin(&mut rows, &command("req_1"), &me(), &at(NOW_MS)).unwrap() else {
        panic!("it is new")
    };
    let mut run = Run::new(ticket, NOW_MS, &[]);
    let mut event = Event::Go;
    for _ in 0..20 {
        event = match run.step(&mut rows, event, &at(NOW_MS)).unwrap() {
            Action::Send(call) => Event::Outcome(
                call.call_id,
                Outcome::Definitive(ProviderReply {
                    status: 200,
                    request_id: None,
                    result: ProviderResult::Charged { payment: "pi_1".into() },
                }),
            ),
            Action::End(RunEnd::Finished(response)) => {
                rows.appended = Default::default();
                rows.jobs.clear();
                return (rows, response);
            }
            _ => Event::Go,
        };
    }
    panic!("it does not end")
}

/// One more request under the key, as a transaction of its own: the rows that it writes.
fn again(rows: &mut Rows, request: &str, now_ms: u64) -> usize {
    let before = rows.clone();
    let begun = begin(rows, &command(request), &me(), &at(now_ms)).unwrap();
    assert!(matches!(begun, Begin::Replay { .. }), "{begun:?}");
    let lines = std::mem::take(&mut rows.appended.timeline).len();
    assert_eq!(rows.appended, Default::default());
    lines + rows.keys.iter().filter(|key| !before.keys.contains(key)).count()
}

#[test]
fn each_replay_is_counted_and_the_first_ones_have_a_line_that_names_their_request() {
    let (mut rows, response) = finished();
    let before = rows.clone();
    let begun = begin(&mut rows, &command("req_2"), &me(), &at(NOW_MS + 5)).unwrap();
    assert_eq!(begun, Begin::Replay { response, original_request: RequestId("req_1".into()) });
    assert_eq!(rows.keys[0].replays, 1);
    let [line] = rows.appended.timeline.as_slice() else { panic!("{:?}", rows.appended) };
    assert_eq!(
        (line.key_id, line.at_ms, line.event.as_str(), line.detail.as_str()),
        (1, NOW_MS + 5, "replayed", "req_2")
    );
    rows.keys[0].replays = 0;
    rows.appended = Default::default();
    assert_eq!(rows, before, "nothing else changes");
}

#[test]
fn ten_thousand_replays_write_no_more_rows_than_the_bounds_say() {
    let (mut rows, _) = finished();
    let written: Vec<usize> = (0..10_000).map(|number| again(&mut rows, "req", NOW_MS + number)).collect();
    let (counted, shown) = (REPLAYS_COUNTED_MAX as usize, REPLAYS_SHOWN_MAX as usize);
    assert!(written[..shown].iter().all(|rows| *rows == 2));
    assert!(written[shown..counted].iter().all(|rows| *rows == 1));
    assert!(written[counted..].iter().all(|rows| *rows == 0));
    assert_eq!(written.iter().sum::<usize>(), 1000 + 16);
    assert_eq!(rows.keys[0].replays, 1000);
}

#[test]
fn who_has_waited_for_a_run_is_counted_like_who_comes_after_it() {
    let (mut rows, _) = finished();
    for number in 0..20 {
        replayed(&mut rows, 1, &RequestId(format!("req_{number}")), &at(NOW_MS));
    }
    assert_eq!((rows.keys[0].replays, rows.appended.timeline.len()), (20, 16));
    replayed(&mut rows, 2, &RequestId("req".into()), &at(NOW_MS));
    assert_eq!(rows.keys[0].replays, 20, "a key that is not there is not counted");
}

#[test]
fn a_request_that_is_refused_is_no_replay() {
    let (rows, _) = finished();
    let mut other = command("req_2");
    other.fingerprint = Fingerprint::of("POST", "/rides", &Canonical(r#"{"other":1}"#.into()));
    let mut stranger = command("req_2");
    stranger.owner = Owner::Account("b".into());
    let expires_at_ms = NOW_MS + Times::default().retention_ms;
    for (command, now_ms) in [(other, NOW_MS), (stranger, NOW_MS), (command("req_2"), expires_at_ms)] {
        let mut after = rows.clone();
        begin(&mut after, &command, &me(), &at(now_ms)).unwrap();
        assert_eq!(after, rows);
    }
}

#[test]
fn a_replay_sets_no_alarm_and_tells_the_read_model_nothing() {
    let (before, _) = finished();
    let mut after = before.clone();
    let ctx = at(NOW_MS + 5);
    begin(&mut after, &command("req_2"), &me(), &ctx).unwrap();
    stage_projection(&before, &mut after, &ctx);
    assert!(after.appended.jobs.is_empty());
    assert_eq!(alarm_to_set(&before, &after, KnownAlarm::Unknown, &ctx), None);
    let due_at_ms = NOW_MS + Times::default().retention_ms;
    assert_eq!(alarm_to_set(&before, &after, KnownAlarm::At(due_at_ms), &ctx), None);
    // The control: whatever else changes, an incarnation that does not know of an alarm sets it.
    after.keys[0].attempt += 1;
    assert_eq!(alarm_to_set(&before, &after, KnownAlarm::Unknown, &ctx), Some(due_at_ms));
}

#[test]
fn the_count_outlives_the_response() {
    let (mut rows, _) = finished();
    again(&mut rows, "req_2", NOW_MS);
    let expires_at_ms = NOW_MS + Times::default().retention_ms;
    wake(&mut rows, &me(), &at(expires_at_ms));
    assert!(matches!(rows.keys[0].lifecycle, Lifecycle::Expired(_)));
    assert_eq!(rows.keys[0].replays, 1);
}
