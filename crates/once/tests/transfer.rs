//! The example's flow with everything that can go wrong around it.

#![allow(clippy::panic, reason = "a test: a panic is its verdict, and nobody links to it")]

#[path = "../examples/transfer/flow.rs"]
mod flow;

use flow::{Account, Receipt, Transfers, parse, request};
use once::begin::Command;
use once::call::ProviderCall;
use once::id::ObjectId;
use once::object_state::ObjectState;
use once::record::StoredResponse;
use once::state::{from_text, to_text};
use once_testing::{End, Harness, Saboteur, Scenario};

/// Two transfers, the second of which the bank rejects, and one for which there is no money.
#[derive(Default)]
struct Morning {
    /// By a webhook, before it answers.
    bank_tells: bool,
}

impl Scenario for Morning {
    type Flow = Transfers;

    fn requests(&self) -> Vec<(u64, Command<Transfers>)> {
        let asks = |key, body| request(key, body).unwrap_or_else(|error| panic!("{error}"));
        vec![
            (0, asks("rent", r#"{"to":"DE02 1203 0000 0000 2020 51","cents":7000}"#)),
            (10, asks("rent", r#"{ "cents": 7000, "to": "DE02 1203 0000 0000 2020 51" }"#)),
            (20, asks("gift", r#"{"to":"nobody","cents":2000}"#)),
            (30, asks("yacht", r#"{"to":"DE02 1203 0000 0000 2020 51","cents":50000}"#)),
        ]
    }

    fn execute(&self, call: &ProviderCall<Transfers>) -> Receipt {
        match call.request.body.contains("nobody") {
            true => Receipt::Rejected { reason: "no such account".to_owned() },
            false => Receipt::Booked { reference: format!("tr_{}", call.key_id) },
        }
    }

    fn tells_by_itself(&self) -> bool {
        self.bank_tells
    }

    fn refuse(&self, _: &ProviderCall<Transfers>) -> Option<Receipt> {
        Some(Receipt::Rejected { reason: "the bank is closed".to_owned() })
    }

    fn judge(&self, end: &End<'_, Transfers>) -> Result<(), String> {
        let Account { balance_cents, sent } = &end.object_state.resource;
        let booked =
            end.executions.iter().filter(|made| matches!(made.answer, Receipt::Booked { .. })).count();
        if sent.len() != booked {
            return Err(format!("{} transfers are known, the bank booked {booked}", sent.len()));
        }
        let expected = 10_000 - 7_000 * booked as u64;
        if *balance_cents != expected {
            return Err(format!("{balance_cents} cents are left, and should be {expected}"));
        }
        // What the engine cannot know: what should have been answered, and who should have been told.
        if end.staged.len() != booked {
            return Err(format!("{} jobs for {booked} transfers", end.staged.len()));
        }
        let is_right = |(key, response): (&String, &StoredResponse)| {
            let is_sent = response.status == 200 && response.body == b"sent";
            let is_problem = response.status == 402 && response.body.starts_with(b"{\"title\":");
            is_sent != is_problem && is_sent == (key == "rent" && booked == 1)
        };
        match end.responses.iter().find(|answered| !is_right(*answered)) {
            Some((key, response)) => Err(format!("{key} was answered {response:?}, {booked} were booked")),
            None => Ok(()),
        }
    }
}

#[test]
fn one_fault_anywhere_moves_no_money_twice() {
    let played = Harness::new(&Morning::default())
        .every_single_fault()
        .unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
    assert!(played.histories > 50);
}

#[test]
fn two_faults_move_no_money_twice() {
    let played =
        Harness::new(&Morning::default()).every_pair().unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
    assert!(played.histories > 1_000);
}

#[test]
fn faults_at_random_move_no_money_twice() {
    let played =
        Harness::new(&Morning::default()).random(10_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
}

/// What it has booked is known by its own news, before its answer and where that is lost.
#[test]
fn what_the_bank_tells_by_itself_moves_no_money_twice() {
    let morning = Morning { bank_tells: true };
    let harness = Harness::new(&morning);
    let played = harness.every_single_fault().unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
    harness.random(2_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn without_a_protection_something_breaks() {
    let morning = Morning::default();
    for protection in Saboteur::ALL {
        let harness = Harness::new(&morning).without(protection);
        let found = harness.every_single_fault().and_then(|_| harness.random(20_000, 1));
        let violation = found.expect_err(&format!("nothing breaks without {protection:?}"));
        println!("without {protection:?}: {}", violation.what);
        let again = harness.replay(violation.plan.clone()).expect_err("the plan is the history");
        assert_eq!(*violation, *again);
    }
}

/// Not of what this release makes of it: to a later one, whose type has a member more, a retry is the same request.
#[test]
fn a_request_is_known_by_the_body_that_came() {
    let canonical = |body: &str| {
        parse(body.as_bytes()).map(|(_, canonical)| canonical.0).map_err(|error| error.to_string())
    };
    let known = Ok(r#"{"cents":7000,"to":"DE02"}"#.to_owned());
    assert!(
        canonical(r#"{"to":"DE02","cents":7000,"remittance":{"of":"May"}}"#)
            .is_ok_and(|other| Ok(other) != known)
    );
    assert_eq!(canonical(r#"{"to":"DE02","cents":7000}"#), known);
    assert_eq!(canonical(r#"{ "cents": 7000, "to": "DE02" }"#), known);
    for (wrong, why) in [
        (r#"{"to":"DE02","cents":7000,"when":"tomorrow"}"#, "unknown field `when`"),
        (r#"{"to":"DE02","cents":9007199254740993}"#, "`cents` has a number beyond 2^53"),
        (r#"{"to":"DE02"}"#, "missing field `cents`"),
        (r#"["DE02",7000]"#, "expected a map"),
    ] {
        assert!(canonical(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
    }
}

/// A release that is rolled back to would write the row without what it does not know, and so for the next one again.
#[test]
fn a_member_of_a_newer_release_is_not_dropped_by_an_older_one() {
    let object = ObjectId::from_bytes([7; 32]);
    let text = to_text(&ObjectState::<Transfers>::empty(object), 0).unwrap_or_default();
    let newer = text.replace(r#""sent":[]"#, r#""sent":[],"refunded_cents":500"#);
    assert!(text != newer && from_text::<Transfers>(object, &text).is_ok(), "{text}");
    let opened = from_text::<Transfers>(object, &newer);
    assert!(opened.as_ref().is_err_and(|bug| bug.0.contains("cannot be read")), "{opened:?}");
}
