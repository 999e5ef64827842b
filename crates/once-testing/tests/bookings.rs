//! A room that is booked at a hotel, and a guest who changes their mind: two operations that meet in one object, and what somebody who writes a flow
//! may forget about its rows.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

use once::begin::Command;
use once::call::{CallSpec, FrozenRequest, ProviderCall, RetryPolicy, Settlement};
use once::context::{Bug, Context};
use once::domain::{Answer, Domain, NoPoint, Provider, Settings};
use once::fingerprint::{Canonical, Fingerprint};
use once::flow::{Admission, End, Flow, ObjectLimit, Phase};
use once::id::{Owner, RequestId};
use once::key::KeyHash;
use once::object_state::ObjectState;
use once::record::{Channel, StoredResponse};
use once::times::Times;
use once_testing::{End as Ended, Harness, Plan, Scenario};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Bookings;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum BookingRequest {
    Book,
    Cancel,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Room {
    is_canceled: bool,
    is_booked: bool,
}

/// Hotels can be asked about bookings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Hotel {
    #[default]
    KeepsKeys,
    KeepsNone,
}

impl Provider for Hotel {
    type Kind = ();

    fn window_ms(self, times: &Times) -> u64 {
        match self {
            Self::KeepsKeys => times.provider_window_ms,
            Self::KeepsNone => 0,
        }
    }

    fn answers_questions(self) -> bool {
        true
    }
}

/// What the hotel says: its page.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Booked {
    page: String,
}

impl Answer for Booked {
    fn name(&self) -> &'static str {
        "booked"
    }

    fn is_refusal(&self) -> bool {
        false
    }
}

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
enum Notes {
    #[default]
    Nothing,
    Lists {
        booked: Vec<u32>,
    },
    Bare {
        booked: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mistake {
    /// What is written down is no list.
    BareFacts,
    /// The page is kept, and the response has it, too.
    KeepsPages,
    /// A key is forgotten as soon as its response has expired, though its client may come back.
    ForgetsAtOnce,
    /// A key is forgotten only where the alarm rings for something else.
    ForgetsByChance,
}

/// A day at a hotel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Day {
    hotel: Hotel,
    mistake: Option<Mistake>,
    /// How long after a response has expired a key may be forgotten, in ms.
    forgets_after_ms: Option<u64>,
}

impl Settings<Hotel> for Day {}

impl Domain for Bookings {
    type Operation = BookingRequest;
    type Resource = Room;
    type Point = NoPoint;
    type Provider = Hotel;
    type Answer = Booked;
    type Refusal = ();
    type JobKind = ();
    type Facts = Notes;
    type Settings = Day;
}

impl Flow for Bookings {
    fn name(request: &BookingRequest) -> &'static str {
        if *request == BookingRequest::Book { "book" } else { "cancel" }
    }

    fn admit(request: &BookingRequest, phase: &mut Phase<'_, Self>) -> Result<Admission<Self>, Bug> {
        phase.object_state.resource.is_canceled |= *request == BookingRequest::Cancel;
        Ok(Ok(None))
    }

    fn run(request: &BookingRequest, phase: &mut Phase<'_, Self>) -> Result<End<Self>, Bug> {
        if *request == BookingRequest::Cancel {
            return Ok(response(200, Vec::new()));
        }
        match phase.settlement("book")? {
            None => Ok(End::Call(CallSpec {
                name: "book".to_owned(),
                kind: (),
                provider: phase.ctx.settings.hotel,
                retry_policy: RetryPolicy::IdempotentByKey,
                provider_key: format!("{}_{}", phase.object_state.object.to_hex(), phase.key_id),
                request: FrozenRequest::new("/bookings".to_owned(), String::new()),
            })),
            Some(Settlement::Answered(reply)) => {
                phase.object_state.resource.is_booked = true;
                let booked = phase.key_id;
                phase.object_state.appended.facts = match phase.ctx.settings.mistake {
                    Some(Mistake::BareFacts) => Notes::Bare { booked },
                    _ => Notes::Lists { booked: vec![booked] },
                };
                Ok(response(201, reply.result.page.into_bytes()))
            }
            Some(Settlement::NotExecuted) => Ok(response(409, Vec::new())),
            Some(Settlement::NeedsReview) => Err(Bug("it can be asked".to_owned())),
        }
    }

    fn limit_reached(_: ObjectLimit) {}

    fn forgets_after_ms(ctx: &Context<Day>) -> Option<u64> {
        ctx.settings.forgets_after_ms.filter(|_| ctx.settings.mistake.is_none())
    }

    fn on_alarm(state: &mut ObjectState<Self>, ctx: &Context<Day>) {
        let after_ms = match ctx.settings.mistake {
            Some(Mistake::ForgetsAtOnce) => Some(0),
            Some(Mistake::ForgetsByChance) => ctx.settings.forgets_after_ms,
            _ => None,
        };
        if let Some(after_ms) = after_ms {
            state.forget_expired(ctx.now_ms - after_ms);
        }
    }

    fn is_overtaken(_: &ProviderCall<Self>, state: &ObjectState<Self>) -> bool {
        state.resource.is_canceled
    }
}

fn response(status: u16, body: Vec<u8>) -> End<Bookings> {
    End::Response(StoredResponse { status, headers: Vec::new(), body })
}

fn request(key: &str, operation: BookingRequest) -> Command<Bookings> {
    let parameters = Canonical("{}".to_owned());
    Command {
        owner: Owner::Account("guest".to_owned()),
        key_hash: KeyHash(key.to_owned()),
        fingerprint: Fingerprint::of("POST", key, &parameters),
        parameters,
        operation,
        channel: Channel::Api,
        request_id: RequestId(format!("req_{key}")),
        may_start: true,
        by: None,
        trace: None,
    }
}

/// The guest changes their mind while the hotel is waited for, if at all.
impl Scenario for Day {
    type Flow = Bookings;

    fn requests(&self) -> Vec<(u64, Command<Bookings>)> {
        vec![(0, request("book", BookingRequest::Book)), (1_000, request("cancel", BookingRequest::Cancel))]
    }

    fn execute(&self, call: &ProviderCall<Bookings>) -> Booked {
        assert_eq!(
            self.keeps_ms(call) > 0,
            self.hotel == Hotel::KeepsKeys,
            "it keeps what the flow believes in"
        );
        let is_long = self.mistake == Some(Mistake::KeepsPages);
        Booked { page: "x".repeat(if is_long { 1_000_000 } else { 10 }) }
    }

    fn settings(&self) -> Self {
        *self
    }

    fn times(&self) -> Times {
        let hour_ms = 3_600_000;
        Times {
            provider_window_ms: hour_ms,
            quarantine_ms: hour_ms,
            retention_ms: hour_ms,
            ..Times::default()
        }
    }

    fn forgets_after_ms(&self) -> Option<u64> {
        self.forgets_after_ms
    }

    fn judge(&self, end: &Ended<'_, Bookings>) -> Result<(), String> {
        let is_booked = end.object_state.resource.is_booked;
        let is_told = end.responses.get("book").is_none_or(|response| (response.status == 201) == is_booked);
        if is_told { Ok(()) } else { Err(format!("is it booked? {is_booked}")) }
    }
}

/// Of a call that was sent it is not asked whether it has lost its point; and nobody's flow is blamed for copies that a provider without keys executes.
#[test]
fn whoever_changes_their_mind_is_told_what_the_hotel_has_done() {
    for hotel in [Hotel::KeepsKeys, Hotel::KeepsNone] {
        let day = Day { hotel, ..Day::default() };
        let played =
            Harness::new(&day).every_single_fault().unwrap_or_else(|violation| panic!("{violation}"));
        assert!(played.histories > 100);
        Harness::new(&day).random(2_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn a_key_is_forgotten_when_no_client_comes_back_with_it() {
    let forgets = |forgets_after_ms| {
        let day = Day { mistake: Some(Mistake::ForgetsAtOnce), forgets_after_ms, ..Day::default() };
        Harness::new(&day).replay(Plan::quiet()).map_err(|violation| violation.what)
    };
    assert_eq!(forgets(None), Err("key 2 is forgotten".to_owned()));
    assert_eq!(forgets(Some(1)), Err("key 2 is forgotten".to_owned()), "too early");
    let played = forgets(Some(0));
    assert!(played.is_ok(), "{played:?}");
}

/// Once the last response has expired nobody calls any more.
#[test]
fn what_is_to_be_forgotten_is_forgotten_though_nobody_comes() {
    let forgets_after_ms = Some(86_400_000);
    let day = Day { forgets_after_ms, ..Day::default() };
    Harness::new(&day).every_single_fault().unwrap_or_else(|violation| panic!("{violation}"));
    let day = Day { mistake: Some(Mistake::ForgetsByChance), ..day };
    let violation = Harness::new(&day).replay(Plan::quiet()).expect_err("it is forgotten by chance");
    assert_eq!(violation.what, "key 2 was never forgotten");
}

/// What the first commit writes, and a later one cannot; and what no commit can.
#[test]
fn what_cannot_be_written_is_found() {
    for (mistake, told) in [
        (Mistake::BareFacts, "facts that are no object of lists"),
        (Mistake::KeepsPages, "bytes, which fits into no row"),
    ] {
        let day = Day { mistake: Some(mistake), ..Day::default() };
        let violation =
            Harness::new(&day).replay(Plan::quiet()).expect_err(&format!("{mistake:?} is not found"));
        assert!(violation.what.contains(told), "{}", violation.what);
    }
}
