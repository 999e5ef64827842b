//! What a key keeps: how far its operation has come, and its response for as long as is configured.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

use once::alarm::{KnownAlarm, alarm_to_set};
use once::begin::{Begin, Command, begin};
use once::context::{Bug, Context};
use once::domain::{Answer, Domain, Point, Provider};
use once::fingerprint::{Canonical, Fingerprint};
use once::flow::{Admission, End, Flow, ObjectLimit, Phase};
use once::id::{InstanceId, ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::record::{Channel, RecoveryPoint, StoredResponse};
use once::run::{Action, Event, Run, RunEnd};
use once::step::StepError;
use once::times::Times;
use serde::{Deserialize, Serialize};

const BEGIN_MS: u64 = 1_000_000_000;

/// A walk past two points, in the order that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Walk;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stone {
    First,
    Second,
}

impl Point for Stone {
    fn as_str(self) -> &'static str {
        if self == Self::First { "first" } else { "second" }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::First, Self::Second].into_iter().find(|stone| stone.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Nowhere;

impl Provider for Nowhere {
    type Kind = ();

    fn window_ms(self, _: &Times) -> u64 {
        0
    }

    fn answers_questions(self) -> bool {
        false
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Nothing;

impl Answer for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn is_refusal(&self) -> bool {
        false
    }
}

impl Domain for Walk {
    /// Whether it goes back.
    type Operation = bool;
    type Resource = u32;
    type Point = Stone;
    type Provider = Nowhere;
    type Answer = Nothing;
    type Refusal = ();
    type JobKind = ();
    type Facts = ();
    type Settings = ();

    const ANSWERS_BYTES: usize = 1_000_000;
}

impl Flow for Walk {
    fn name(_: &bool) -> &'static str {
        "walk"
    }

    fn admit(_: &bool, _: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        Ok(Ok(None))
    }

    fn run(goes_back: &bool, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        phase.object_state.resource += 1;
        Ok(match phase.key()?.recovery_point() {
            RecoveryPoint::Started => End::At(Stone::First),
            RecoveryPoint::At(Stone::First) => End::At(Stone::Second),
            RecoveryPoint::At(Stone::Second) if *goes_back => End::At(Stone::First),
            _ => End::Response(StoredResponse { status: 200, headers: Vec::new(), body: Vec::new() }),
        })
    }

    fn limit_reached(_: ObjectLimit) {}
}

fn at(now_ms: u64) -> Context<()> {
    Context { now_ms, jitter_permille: 0, times: Times::default(), keys_max: 100, settings: () }
}

fn walk(goes_back: bool) -> Command<Walk> {
    Command {
        owner: Owner::Account("walker".into()),
        key_hash: KeyHash("walk".into()),
        fingerprint: Fingerprint("walk".into()),
        parameters: Canonical("{}".into()),
        operation: goes_back,
        channel: Channel::Api,
        request_id: RequestId("req_1".into()),
        may_start: true,
        by: None,
        trace: None,
    }
}

fn ask(state: &mut ObjectState<Walk>, goes_back: bool, now_ms: u64) -> Begin<Walk> {
    begin(state, &walk(goes_back), &InstanceId("me".into()), &at(now_ms)).unwrap()
}

fn begun(goes_back: bool) -> (ObjectState<Walk>, Run<Walk>) {
    let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let Begin::Run(token) = ask(&mut state, goes_back, BEGIN_MS) else { panic!("it does not begin") };
    (state, Run::new(token, 0, &[]))
}

/// A phase that ends where its operation has been is wrong: what it has changed is not kept, and the run fails.
#[test]
fn no_operation_goes_back() {
    let (mut state, mut run) = begun(true);
    let turn = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(turn, Ok(Action::Again)), "{turn:?}");
    assert_eq!(state.keys[0].recovery_point(), RecoveryPoint::At(Stone::Second));
    assert_eq!(state.resource, 2, "the phase that went back is undone");
    let turn = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(turn, Err(StepError::Bug(_))), "{turn:?}");
}

/// The alarm that drops a response may be late.
#[test]
fn a_response_is_given_until_its_time_is_over() {
    let (mut state, mut run) = begun(false);
    let end = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(end, Ok(Action::End(RunEnd::Finished(_)))), "{end:?}");
    let over_ms = BEGIN_MS + Times::default().retention_ms;
    assert!(matches!(ask(&mut state, false, over_ms - 1), Begin::Replay { .. }));
    assert!(matches!(ask(&mut state, false, over_ms), Begin::Expired));
}

#[test]
fn whoever_comes_waits_for_a_living_run_alone() {
    let comes = |me: &str, now_ms| {
        begin(&mut begun(false).0, &walk(false), &InstanceId(me.into()), &at(now_ms)).unwrap()
    };
    let over_ms = BEGIN_MS + Times::default().lease_ms;
    assert!(matches!(comes("me", over_ms - 1), Begin::InProgress { lease_left_ms: 1, .. }));
    assert!(matches!(comes("me", over_ms), Begin::Run(_)));
    assert!(matches!(comes("another", BEGIN_MS), Begin::Run(_)));
}

#[test]
fn the_alarm_is_set_for_the_end_of_a_response() {
    let (mut state, mut run) = begun(false);
    let before = ObjectState::empty(state.object);
    let end = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(end, Ok(Action::End(_))), "{end:?}");
    let over_ms = BEGIN_MS + Times::default().retention_ms;
    for known in [KnownAlarm::Unknown, KnownAlarm::Gone, KnownAlarm::At(BEGIN_MS + 1)] {
        assert_eq!(alarm_to_set(&before, &state, known, &at(BEGIN_MS)), Some(over_ms), "{known:?}");
    }
}

/// What has begun must find room for its answers in the object's row: the next one does not begin before that is over, and none whose own are too long.
#[test]
fn what_there_would_be_no_room_for_does_not_begin() {
    let comes = |state: &mut ObjectState<Walk>, parameters: &str| {
        let another = Command { key_hash: KeyHash("another".into()), ..walk(false) };
        let command = Command { parameters: Canonical(parameters.to_owned()), ..another };
        begin(state, &command, &InstanceId("me".into()), &at(BEGIN_MS)).unwrap()
    };
    let (mut state, mut run) = begun(false);
    assert_eq!(comes(&mut state, "{}"), Begin::Refused(()));
    let end = run.turn(&mut state, Event::Go, &at(BEGIN_MS));
    assert!(matches!(end, Ok(Action::End(_))), "{end:?}");
    assert!(matches!(comes(&mut state, "{}"), Begin::Run(_)));
    let mut empty = ObjectState::empty(state.object);
    assert_eq!(comes(&mut empty, &"x".repeat(100_000)), Begin::Refused(()));
    assert_eq!(empty.keys.len(), 0);
}
