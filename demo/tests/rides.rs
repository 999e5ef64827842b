//! A ride is booked and paid once, whatever goes wrong around its flow; and what is entered is read as it was meant.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

use once::begin::Command;
use once::call::ProviderCall;
use once::fingerprint::{Fingerprint, Parameters};
use once::id::{Owner, RequestId};
use once::key::KeyHash;
use once::record::Channel;
use once_testing::{End, Harness, Saboteur, Scenario};
use paid_once_demo::rides::Account;
use paid_once_demo::rides::entries::{COORDINATES, api_request, places};
use paid_once_demo::rides::flow::Rides;
use paid_once_demo::rides::payments_api::Charge;
use paid_once_demo::rides::ride::{DegreesE7, RideState, Unpaid};
use proptest::prelude::*;

/// A ride that is asked for again and again. The API takes its payment, or the card is declined.
struct Trip {
    is_declined: bool,
}

impl Scenario for Trip {
    type Flow = Rides;

    fn requests(&self) -> Vec<(u64, Command<Rides>)> {
        let pairs = COORDINATES.map(|(name, _)| (name.to_owned(), "1.5".to_owned()));
        let parameters = Parameters::Form(pairs.to_vec());
        let operation = api_request(&parameters, Account::ANONYMOUS).unwrap();
        let canonical = parameters.canonical().unwrap();
        let command = Command {
            owner: Owner::Account("anonymous".into()),
            key_hash: KeyHash("trip".into()),
            fingerprint: Fingerprint::of("POST", "/rides", &canonical),
            parameters: canonical,
            operation,
            channel: Channel::Api,
            request_id: RequestId("req_1".into()),
            may_start: true,
            by: None,
            trace: None,
        };
        vec![(0, command.clone()), (10, command.clone()), (5_000, command)]
    }

    fn execute(&self, call: &ProviderCall<Rides>) -> Charge {
        let charge = format!("pi_{}", call.call_id);
        match self.is_declined {
            false => Charge::Paid { charge },
            true => Charge::Failed(Unpaid {
                charge: Some(charge),
                code: "card_declined".into(),
                decline_code: None,
                message: "No.".into(),
            }),
        }
    }

    fn refuse(&self, _: &ProviderCall<Rides>) -> Option<Charge> {
        Some(Charge::Refused)
    }

    fn judge(&self, end: &End<'_, Rides>) -> Result<(), String> {
        let Some(ride) = &end.object_state.resource else { return Err("there is no ride".into()) };
        let paid = end.executions.iter().filter(|made| matches!(made.answer, Charge::Paid { .. })).count();
        match (&ride.state, paid) {
            (RideState::Paid { charge }, 1) if charge == "pi_1" => Ok(()),
            (RideState::Unpaid(_), 0) => Ok(()),
            (state, paid) => Err(format!("the ride is {state:?}, and was paid {paid} times")),
        }
    }
}

const TRIPS: [Trip; 2] = [Trip { is_declined: false }, Trip { is_declined: true }];

#[test]
fn two_faults_pay_no_ride_twice() {
    for trip in &TRIPS {
        let harness = Harness::new(trip);
        let played = harness.every_single_fault().and_then(|_| harness.every_pair());
        let played = played.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(played.histories > 500, "{}", played.histories);
    }
}

#[test]
fn faults_at_random_pay_no_ride_twice() {
    for trip in &TRIPS {
        Harness::new(trip).random(5_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn without_a_protection_something_breaks() {
    let [paid, _] = &TRIPS;
    for protection in Saboteur::ALL {
        let harness = Harness::new(paid).without(protection);
        let found = harness.every_single_fault().and_then(|_| harness.random(20_000, 1));
        found.expect_err(&format!("nothing breaks without {protection:?}"));
    }
}

proptest! {
    #[test]
    fn degrees_survive_being_shown(e7 in -1_800_000_000..=1_800_000_000i32) {
        let degrees = DegreesE7(e7);
        prop_assert_eq!(DegreesE7::parse(&degrees.degrees().to_string(), 180), Some(degrees));
        prop_assert_eq!(DegreesE7::parse(&format!("{:.7}", degrees.degrees()), 180), Some(degrees));
    }

    #[test]
    fn degrees_past_the_limit_are_refused(whole in 0..1_000_000u32, part in 0..10_000_000u32, limit in 1..=180i32) {
        let text = format!("{whole}.{part:07}");
        let inside = (whole, part) <= (limit.unsigned_abs(), 0);
        prop_assert_eq!(DegreesE7::parse(&text, limit).is_some(), inside);
        prop_assert_eq!(DegreesE7::parse(&format!("-{text}"), limit).is_some(), inside);
    }

    #[test]
    fn only_decimals_are_degrees(text in ".{0,12}|[-0-9.]{0,40}|[-+0-9.eE]{0,8}") {
        if let Some(degrees) = DegreesE7::parse(&text, 90) {
            prop_assert!(text.len() <= 32 && text.bytes().all(|b| b.is_ascii_digit() || b"-+.eE".contains(&b)));
            prop_assert!(degrees.0.abs() <= 900_000_000);
        }
    }

    #[test]
    fn every_wrong_coordinate_is_named(wrong: [bool; 4]) {
        let pairs = COORDINATES
            .iter()
            .zip(wrong)
            .map(|((name, _), wrong)| ((*name).to_owned(), if wrong { "x" } else { "1.5" }.to_owned()));
        let expected: Vec<String> =
            COORDINATES.iter().zip(wrong).filter(|(_, w)| *w).map(|((name, _), _)| (*name).to_owned()).collect();
        let named = match places(&Parameters::Form(pairs.collect())) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.into_iter().map(|error| error.field).collect(),
        };
        prop_assert_eq!(named, expected);
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for text in [
        "",
        "-",
        ".",
        "NaN",
        "inf",
        "-inf",
        "1e2",
        "e1",
        "1e",
        "1,5",
        "0x1",
        " 1",
        "1 ",
        "--1",
        "1.2.3",
        "90.00000001",
    ] {
        assert_eq!(DegreesE7::parse(text, 90), None, "{text:?}");
    }
    assert_eq!(DegreesE7::parse("1e1", 90), Some(DegreesE7(100_000_000)));
    assert_eq!(DegreesE7::parse("-1e-7", 90), Some(DegreesE7(-1)));
    assert_eq!(DegreesE7::parse("-90", 90), Some(DegreesE7(-900_000_000)));
    assert_eq!(DegreesE7::parse("-0", 90), Some(DegreesE7(0)));
}
