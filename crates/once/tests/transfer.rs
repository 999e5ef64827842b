//! The example's flow with everything that can go wrong around it.

#[path = "../examples/transfer/flow.rs"]
mod flow;

use flow::{Account, Receipt, Transfer, Transfers, request};
use once::begin::Command;
use once::call::ProviderCall;
use once::id::ObjectId;
use once::object_state::ObjectState;
use once::record::StoredResponse;
use once::state::{from_text, to_text};
use once_testing::{End, Harness, Saboteur, Scenario};

/// Two transfers, the second of which the bank rejects, and one for which there is no money.
struct Morning;

impl Scenario for Morning {
    type Flow = Transfers;

    fn requests(&self) -> Vec<(u64, Command<Transfers>)> {
        let transfer = |to: &str, cents| Transfer { to: to.to_owned(), cents };
        vec![
            (0, request("rent", transfer("DE02 1203 0000 0000 2020 51", 7_000))),
            (10, request("rent", transfer("DE02 1203 0000 0000 2020 51", 7_000))),
            (20, request("gift", transfer("nobody", 2_000))),
            (30, request("yacht", transfer("DE02 1203 0000 0000 2020 51", 50_000))),
        ]
    }

    fn execute(&self, call: &ProviderCall<Transfers>) -> Receipt {
        match call.request.body.contains("nobody") {
            true => Receipt::Rejected { reason: "no such account".to_owned() },
            false => Receipt::Booked { reference: format!("tr_{}", call.key_id) },
        }
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
            (response.body == b"sent") == (key == "rent" && booked == 1)
        };
        match end.responses.iter().find(|answered| !is_right(*answered)) {
            Some((key, response)) => Err(format!("{key} was answered {response:?}, {booked} were booked")),
            None => Ok(()),
        }
    }
}

#[test]
fn one_fault_anywhere_moves_no_money_twice() {
    let played =
        Harness::new(&Morning).every_single_fault().unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
    assert!(played.histories > 50);
}

#[test]
fn two_faults_move_no_money_twice() {
    let played = Harness::new(&Morning).every_pair().unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
    assert!(played.histories > 1_000);
}

#[test]
fn faults_at_random_move_no_money_twice() {
    let played = Harness::new(&Morning).random(10_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
}

#[test]
fn without_a_protection_something_breaks() {
    for protection in Saboteur::ALL {
        let harness = Harness::new(&Morning).without(protection);
        let found = harness.every_single_fault().and_then(|_| harness.random(20_000, 1));
        let violation = found.expect_err(&format!("nothing breaks without {protection:?}"));
        println!("without {protection:?}: {}", violation.what);
        let again = harness.replay(violation.plan.clone()).expect_err("the plan is the history");
        assert_eq!(*violation, *again);
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
