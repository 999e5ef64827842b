//! The lab's page says what happened, whatever its address claims.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

use askama::Template;
use once::fingerprint::Parameters;
use paid_once_demo::lab::ledger::{Ledger, Waiting, charges, waiting};
use paid_once_demo::lab::page::{FormState, Moment, Outcome, Query, Seen, page, timeline};
use paid_once_demo::lab::payment::{Entry, Key, PaymentView, saw as client_saw};
use paid_once_demo::lab::{
    ClientOutcome, ExperimentId, InjectedFault, MANY, Order, Presses, TRIES, read, write,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Builder;
use web::pages::Site;

const LAB: &str = "0123456789abcdef01234567";

fn charge(side: &str, press: &str, paid: bool) -> Value {
    json!({
        "id": "ch_1", "amount": 2000, "paid": paid, "idempotency_key": null, "status": "ignored",
        "metadata": { "lab": LAB, "side": side, "press": press },
    })
}

fn ledger(lines: &[Value]) -> Ledger {
    let charges = charges(&json!({ "charges": lines, "totals": {} }).to_string()).unwrap();
    Ledger { charges, waiting: Vec::new() }
}

fn outcome_of(query: &str, ledger: Ledger) -> (Outcome, String) {
    let id = || ExperimentId::parse(LAB).unwrap();
    let site = Site {
        demo: true,
        origin: "http://localhost".to_owned(),
        style: "/s.css",
        script: "/s.js",
        t: &web::locale::EN,
        sends_receipts: true,
        has_docs: true,
    };
    let sheet = FormState { site, script: "/lab.js", query: Query::parse(query), fresh: id() };
    let page = page(sheet, Some(Seen { experiment: id(), ledger, view: None, now_ms: 0 }));
    (page.result.clone().unwrap(), page.render().unwrap())
}

fn verdict(ledger: Ledger) -> String {
    outcome_of("", ledger).0.verdict().join(" ")
}

fn saw() -> impl Strategy<Value = ClientOutcome> {
    prop::sample::select(vec![
        ClientOutcome::Paid,
        ClientOutcome::Replayed,
        ClientOutcome::Declined,
        ClientOutcome::BankPage,
        ClientOutcome::NoAnswer,
        ClientOutcome::Failed,
        ClientOutcome::Crashed,
    ])
}

fn presses() -> impl Strategy<Value = Presses> {
    prop::collection::vec(prop::collection::vec(saw(), 1..=TRIES as usize), 0..=MANY as usize)
}

proptest! {
    #[test]
    fn what_the_client_saw_survives_the_address(
        unprotected in presses(), protected in presses(), fault in prop::sample::select(InjectedFault::ALL.to_vec()),
        times in prop::sample::select(vec![None, Some(1), Some(MANY)]),
    ) {
        prop_assert_eq!(&read(&write(&unprotected)), &unprotected);
        let query = Query { fault: Some(fault), times, unprotected, protected };
        prop_assert_eq!(Query::parse(&query.to_string()), query);
    }

    #[test]
    fn no_address_makes_the_page_fail_or_grow(query in ".{0,200}", letters in "[a-z-]{0,400}") {
        for query in [query, format!("protected={letters}&unprotected={letters}&times={letters}")] {
            let (outcome, html) = outcome_of(&query, Ledger::default());
            for column in &outcome.sides {
                prop_assert!(column.presses.len() <= MANY as usize);
                prop_assert!(column.presses.iter().all(|tries| tries.len() <= TRIES as usize));
            }
            prop_assert!(html.len() < 30_000);
        }
    }

    #[test]
    fn only_24_hexadecimal_digits_or_a_uuid_are_an_experiment(text in "[0-9a-fA-F/g]{0,40}|[0-9a-f]{24}") {
        let is_good = text.len() == 24 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        prop_assert_eq!(ExperimentId::parse(&text).is_some(), is_good);
    }

    #[test]
    fn an_experiment_has_one_address(random: [u8; 16]) {
        let uuid = Builder::from_random_bytes(random).into_uuid();
        let id = ExperimentId::new(uuid);
        prop_assert_eq!(id.path(), format!("/lab/{uuid}"));
        prop_assert_eq!(ExperimentId::parse(&id.to_string()), Some(id));
        let upper = uuid.to_string().to_uppercase();
        for other in [uuid.simple().to_string(), uuid.urn().to_string(), uuid.braced().to_string(), upper] {
            prop_assert!(other == uuid.to_string() || ExperimentId::parse(&other).is_none(), "{}", other);
        }
    }
}

#[test]
fn the_verdict_says_how_often_each_side_was_charged() {
    let bare = |press| charge("unprotected", press, true);
    assert_eq!(
        verdict(ledger(&[bare("1"), charge("protected", "", true), bare("1"), bare("2"), bare("3")])),
        "You pressed 3 times. Unprotected: charged 4 times, $80.00. Paid Once: charged once, $20.00."
    );
    assert_eq!(
        verdict(ledger(&[charge("unprotected", "1", false), charge("protected", "", false)])),
        "You pressed once. Unprotected: declined once. Paid Once: declined once."
    );
    assert_eq!(
        verdict(Ledger::default()),
        "You have not pressed yet. Unprotected: not charged. Paid Once: not charged."
    );
}

#[test]
fn more_than_one_charge_is_bad_on_either_side() {
    let tones = |lines: &[Value]| outcome_of("", ledger(lines)).0.sides.map(|column| column.tone);
    let (bare, kept) = (charge("unprotected", "1", true), charge("protected", "", true));
    assert_eq!(tones(&[bare.clone(), kept.clone()]), ["good", "good"]);
    assert_eq!(tones(&[bare.clone(), bare, kept.clone()]), ["bad", "good"]);
    assert_eq!(tones(&[kept.clone(), kept]), ["good", "bad"]);
}

#[test]
fn a_long_ledger_is_cut_and_its_sum_is_not() {
    let lines: Vec<Value> = (0..13).map(|press| charge("unprotected", &press.to_string(), true)).collect();
    let (outcome, html) = outcome_of("", ledger(&lines));
    let [bare, _] = &outcome.sides;
    assert_eq!((bare.charges.len(), bare.earlier), (10, 3));
    assert_eq!((bare.count.as_str(), bare.amount.as_str()), ("charged 13 times", "$260.00"));
    assert!(html.contains("start=\"4\""));
}

#[test]
fn the_payments_that_wait_are_those_of_the_experiment_without_protection() {
    let intent = |lab: &str, side: &str, url: Option<&str>| {
        let next_action =
            url.map(|url| json!({ "type": "redirect_to_url", "redirect_to_url": { "url": url } }));
        json!({ "id": "pi_1", "next_action": next_action, "metadata": { "lab": lab, "side": side, "press": "1" } })
    };
    let list = json!({ "data": [
        intent(LAB, "unprotected", Some("/newer")), intent(LAB, "unprotected", None), intent(LAB, "protected", Some("/own")),
        intent("other", "unprotected", Some("/other")), json!({ "next_action": null, "metadata": {} }),
        intent(LAB, "unprotected", Some("/older")),
    ]});
    let found = waiting(&list.to_string(), LAB).unwrap();
    assert_eq!(found.iter().map(|waiting| waiting.url.as_str()).collect::<Vec<_>>(), ["/older", "/newer"]);
    let (outcome, html) = outcome_of("fault=bank_page", Ledger { charges: Vec::new(), waiting: found });
    assert_eq!(outcome.sides[0].count, "waits for you at the bank twice");
    assert!(html.contains(r#"<a href="/older">"#));
}

#[test]
fn who_asked_again_is_one_line_however_many_they_were() {
    let told = |replays: usize| {
        let entry = |event: &str, at_ms| Entry { at_ms, event: event.into(), detail: String::new() };
        let mut entries = vec![entry("key_created", 0), entry("finished", 900)];
        entries.extend((0..replays).map(|_| entry("replayed", 1_500)));
        timeline(&entries).into_iter().skip(2).collect::<Vec<_>>()
    };
    let line = |text: &str| vec![Moment { after: "+1.50 s".into(), text: text.into(), saves: true }];
    assert_eq!(told(0), []);
    assert_eq!(told(1), line("Asked again: the stored answer is sent"));
    assert_eq!(told(2), line("Asked again twice: the stored answer is sent each time"));
    assert_eq!(told(16), line("Asked again 16 times or more: the stored answer is sent each time"));
}

#[test]
fn an_address_of_the_bank_is_escaped() {
    let marks = ledger(&[charge("unprotected", "1", true)]).charges.remove(0).metadata;
    let waiting = vec![Waiting { url: "\"><script>".to_owned(), marks }];
    let (_, html) = outcome_of("fault=bank_page", Ledger { charges: Vec::new(), waiting });
    assert!(!html.contains("\"><script>"));
}

#[test]
fn every_trouble_has_its_word_and_three_sentences() {
    for fault in InjectedFault::ALL {
        assert_eq!(InjectedFault::parse(fault.as_str()), Some(fault));
        assert!(fault.explanation().iter().all(|sentence| sentence.ends_with('.')));
    }
    assert_eq!(InjectedFault::parse("fire"), None);
}

#[test]
fn a_form_is_read_whole_or_refused_by_its_fields() {
    let form = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Order::parse(&Parameters::Form(pairs))
            .map_err(|errors| errors.into_iter().map(|error| error.field).collect::<Vec<_>>())
    };
    let good = form(&[("fault", "slow"), ("times", "5"), ("pay", "new")]).unwrap();
    assert_eq!((good.fault, good.times), (InjectedFault::Slow, MANY));
    assert_eq!(form(&[]).unwrap_err(), ["fault", "times"]);
    assert_eq!(form(&[("fault", "slow"), ("times", "6")]).unwrap_err(), ["times"]);
    assert_eq!(form(&[("fault", "fire"), ("times", "1")]).unwrap_err(), ["fault"]);
}

#[test]
fn an_older_experiment_has_its_page() {
    assert_eq!(ExperimentId::parse(LAB).unwrap().path(), format!("/lab/{LAB}"));
}

/// A key as `GET /idempotency-keys/{key}` shows it.
fn key(status: &str) -> Key {
    serde_json::from_value(json!({
        "object": "idempotency_key", "status": status, "created_at": "1970-01-01T00:00:01.250Z", "resource": "/payments/pay_1",
        "timeline": [{ "at": "1970-01-01T00:00:01.300Z", "attempt": 1, "event": "key_created", "detail": "" }],
    }))
    .unwrap()
}

#[test]
fn a_payment_is_open_until_its_key_and_itself_are_decided() {
    let view =
        |status: &str, payment: Value| PaymentView::of(key(status), serde_json::from_value(payment).unwrap());
    let paid = json!({ "status": "succeeded", "next_action": null });
    for (status, payment, is_open) in [
        ("processing", Value::Null, true),
        ("complete", json!({ "status": "processing", "next_action": null }), true),
        ("unknown", paid.clone(), true),
        ("complete", paid.clone(), false),
        ("expired", paid, false),
    ] {
        assert_eq!(view(status, payment.clone()).is_open, is_open, "{status} {payment}");
    }
    let next_action = json!({ "type": "redirect_to_url", "redirect_to_url": { "url": "/bank" } });
    let waiting = view("complete", json!({ "status": "requires_action", "next_action": next_action }));
    assert_eq!((waiting.is_open, waiting.bank_page.as_deref()), (false, Some("/bank")));
    assert_eq!((waiting.since_ms, waiting.timeline[0].at_ms), (1_250, 1_300));
}

#[test]
fn what_a_client_makes_of_an_answer() {
    let payment = |status: &str| json!({ "id": "pay_1", "status": status, "next_action": null }).to_string();
    let problem = |kind: &str| json!({ "type": format!("/problems/{kind}"), "status": 500 }).to_string();
    for (status, is_replayed, body, expected) in [
        (201, false, payment("succeeded"), ClientOutcome::Paid),
        (201, true, payment("succeeded"), ClientOutcome::Replayed),
        (201, false, payment("requires_action"), ClientOutcome::BankPage),
        (402, true, problem("card-declined"), ClientOutcome::Declined),
        (500, false, problem("interrupted"), ClientOutcome::Crashed),
        (503, false, problem("outcome-unknown"), ClientOutcome::Failed),
        (502, false, "<html>".to_owned(), ClientOutcome::Failed),
    ] {
        assert_eq!(client_saw(status, is_replayed, &body), expected, "{status} {body}");
    }
}
