//! A flow of several points with everything that can go wrong around it: jobs that take each other's place, a provider that cannot be asked, and
//! what is sent once at most.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test: a panic is its verdict, and nobody links to it"
)]

mod flow;

use flow::{Limits, Mistake, Orders, Reply, request};
use once::begin::Command;
use once::call::ProviderCall;
use once::context::{Bug, Context};
use once::domain::Provider as _;
use once::object_state::ObjectState;
use once::times::Times;
use once_testing::{End, Harness, Job, Plan, Saboteur, Scenario};

/// One order that comes twice, one that is too dear, and one more than an object takes.
struct Sale {
    /// The partner's call that is refused for good.
    refused: &'static str,
    /// Whether the newest word of how an order stands is enough.
    is_newest_enough: bool,
    /// What the flow does wrong.
    mistake: Option<Mistake>,
    /// How long the partners keep a key, in ms, unless that is as long as the window needs.
    keeps_ms: Option<u64>,
    /// How long a call is sent again, in ms.
    window_ms: u64,
    /// Whether a person may have to say how a call ended.
    has_a_person: bool,
    /// How long the carrier and the post take a call in before they tell how it ended, in ms.
    accepts_for_ms: Option<u64>,
    /// When the customer is rude to the shop, in ms.
    rude_at_ms: Option<u64>,
}

const SALE: Sale = Sale {
    refused: "",
    is_newest_enough: true,
    mistake: None,
    keeps_ms: None,
    window_ms: 1_200_000,
    has_a_person: true,
    accepts_for_ms: None,
    rude_at_ms: None,
};

impl Scenario for Sale {
    type Flow = Orders;

    fn requests(&self) -> Vec<(u64, Command<Orders>)> {
        vec![
            (0, request("one", 500)),
            (10, request("one", 500)),
            (20, request("dear", 5_000)),
            (30, request("another", 500)),
        ]
    }

    fn execute(&self, call: &ProviderCall<Orders>) -> Reply {
        if call.name == self.refused { Reply::Refused } else { Reply::Done }
    }

    fn refuse(&self, _: &ProviderCall<Orders>) -> Option<Reply> {
        Some(Reply::Refused)
    }

    fn stands_for(&self, newer: &Job<Self>, older: &Job<Self>) -> bool {
        self.is_newest_enough && newer.payload["order"] == older.payload["order"]
    }

    fn settings(&self) -> Limits {
        Limits { cents_max: 1_000, mistake: self.mistake }
    }

    fn times(&self) -> Times {
        Times {
            provider_window_ms: self.window_ms,
            quarantine_ms: 3_600_000,
            retention_ms: 7_200_000,
            confirm_ms: 3_600_000,
            ..Times::default()
        }
    }

    fn keeps_ms(&self, call: &ProviderCall<Orders>) -> u64 {
        let as_needed_ms = call.provider.window_ms(&self.times()).saturating_add(self.times().quiet_ms);
        self.keeps_ms.unwrap_or(as_needed_ms)
    }

    fn keys_max(&self) -> u32 {
        1
    }

    fn accepts_for_ms(&self, call: &ProviderCall<Orders>) -> Option<u64> {
        self.accepts_for_ms.filter(|_| !call.provider.answers_questions())
    }

    fn events(&self) -> Vec<u64> {
        self.rude_at_ms.into_iter().collect()
    }

    fn happens(&self, _: usize, state: &mut ObjectState<Orders>, _: &Context<Limits>) -> Result<(), Bug> {
        state.resource.is_rude = true;
        Ok(())
    }

    fn may_need_a_person(&self) -> bool {
        self.has_a_person
    }

    fn judge(&self, end: &End<'_, Orders>) -> Result<(), String> {
        let shop = &end.object_state.resource;
        let is_done = |name: &str| {
            let is_it = |call: &ProviderCall<Orders>| call.name.starts_with(name);
            end.executions.iter().any(|made| is_it(&made.call) && made.answer == Reply::Done)
        };
        let Some(stage) = shop.orders.get(&1).filter(|_| shop.orders.len() == 1) else {
            return Err(format!("there are {:?}", shop.orders));
        };
        if shop.questions > 0 {
            return Err(format!("{} questions were never asked", shop.questions));
        }
        if shop.is_rude != self.rude_at_ms.is_some() {
            return Err(format!("is the customer rude? {}", shop.is_rude));
        }
        if stage == "not paid" && end.responses.values().any(|response| response.status == 200) {
            return Err("an order that was refused is answered 200".to_owned());
        }
        let is_right = match stage.as_str() {
            "not paid" => !is_done("pay") && shop.left == 5,
            "not sent" => is_done("pay") && !is_done("send") && shop.left == 4,
            "confirmed" => is_done("pay") && is_done("send") && is_done("confirm"),
            "perhaps confirmed" => is_done("pay") && is_done("send"),
            _ => false,
        };
        if is_right { Ok(()) } else { Err(format!("the order is {stage}, and {} are left", shop.left)) }
    }
}

#[test]
fn one_fault_anywhere_breaks_no_order() {
    for refused in ["", "pay", "send", "confirm"] {
        let played = Harness::new(&Sale { refused, ..SALE })
            .every_single_fault()
            .unwrap_or_else(|violation| panic!("{violation}"));
        println!("{} histories with {} faults", played.histories, played.faults);
        assert!(played.histories > 100);
    }
}

#[test]
fn two_faults_break_no_order() {
    let played = Harness::new(&SALE).every_pair().unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
    assert!(played.histories > 1_000);
}

#[test]
fn faults_at_random_break_no_order() {
    let played = Harness::new(&SALE).random(5_000, 1).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{} histories with {} faults", played.histories, played.faults);
}

#[test]
fn without_a_protection_something_breaks() {
    for protection in Saboteur::ALL {
        let harness = Harness::new(&SALE).without(protection);
        let found = harness.every_single_fault().and_then(|_| harness.random(20_000, 1));
        let violation = found.expect_err(&format!("nothing breaks without {protection:?}"));
        println!("without {protection:?}: {}", violation.what);
        assert_eq!(*violation, *harness.replay(violation.plan.clone()).expect_err("the plan is the history"));
    }
}

/// The control of jobs that take each other's place: a scenario that does not say so misses the older ones.
#[test]
fn each_job_is_missed_unless_a_newer_one_stands_for_it() {
    let violation = Harness::new(&Sale { is_newest_enough: false, ..SALE })
        .every_single_fault()
        .expect_err("no job is missed");
    assert!(violation.what.starts_with("the job "), "{violation}");
}

/// A flow that believes of a provider that it keeps keys longer than it does, or at all.
#[test]
fn a_provider_that_forgets_keys_early_executes_one_twice() {
    for keeps_ms in [0, SALE.window_ms / 2] {
        let sale = Sale { keeps_ms: Some(keeps_ms), ..SALE };
        let violation = Harness::new(&sale).every_single_fault().expect_err("nothing is executed twice");
        assert!(violation.what.ends_with("was executed twice"), "{violation}");
    }
}

/// A carrier who takes a parcel in and tells hours later what has become of it, also that nothing has: that ends the order, and nobody need look.
#[test]
fn what_is_accepted_ends_by_the_event_of_it() {
    for refused in ["", "send", "confirm"] {
        let sale = Sale { refused, accepts_for_ms: Some(7_200_000), ..SALE };
        let quiet = Sale { has_a_person: false, ..sale };
        Harness::new(&quiet).replay(Plan::quiet()).unwrap_or_else(|violation| panic!("{violation}"));
        let played =
            Harness::new(&sale).every_single_fault().unwrap_or_else(|violation| panic!("{violation}"));
        assert!(played.histories > 100);
        Harness::new(&sale).random(500, 1).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// Between the runs, whatever dies meanwhile.
#[test]
fn what_happens_beside_the_runs_is_kept() {
    let sale = Sale { rude_at_ms: Some(70), ..SALE };
    Harness::new(&sale).every_single_fault().unwrap_or_else(|violation| panic!("{violation}"));
}

/// The carrier cannot be asked: where it is away for longer than its window somebody must call them. Who says that nobody need is told where.
#[test]
fn how_often_a_person_is_needed_is_counted() {
    let quiet = Harness::new(&SALE).replay(Plan::quiet()).unwrap();
    assert_eq!(quiet.settled_by_hand, 0);
    let played = Harness::new(&SALE).every_single_fault().unwrap();
    assert!(played.settled_by_hand > 0);
    let sale = Sale { has_a_person: false, ..SALE };
    let violation = Harness::new(&sale).every_single_fault().expect_err("nobody is needed");
    assert_eq!(violation.what, "a person must say how send ended");
}

#[test]
fn times_that_do_not_fit_together_are_not_played() {
    let sale = Sale { window_ms: 86_400_000, ..SALE };
    for played in [Harness::new(&sale).replay(Plan::quiet()), Harness::new(&sale).random(1, 1)] {
        let violation = played.expect_err("they are played");
        assert!(violation.what.contains("PROVIDER_WINDOW_MS must be at most"), "{violation}");
    }
}

/// The control of what is judged whatever the flow: what somebody may do wrong who writes one.
#[test]
fn what_a_flow_does_wrong_is_found() {
    for (mistake, refused, told) in [
        (Mistake::KeyWithoutObject, "pay", "two objects use the same key"),
        // The bank refuses nothing unless a fault has it refuse.
        (Mistake::RefusalWithoutObject, "", "the same id of a job: 1_refused"),
        (Mistake::RepeatsAJob, "pay", "is staged again, with another payload"),
        (Mistake::StagesBeforeACall, "", "_pack is staged again after it was done"),
        (Mistake::NamesRuns, "", "pay_1 is executed once more, as pay_2"),
        (Mistake::LosesAField, "pay", "is read as something else"),
        (Mistake::Panics, "pay", "it panicked: it is not given back"),
        (Mistake::WrongResponse, "pay", "an order that was refused is answered 200"),
    ] {
        let sale = Sale { refused, mistake: Some(mistake), ..SALE };
        let violation =
            Harness::new(&sale).every_single_fault().expect_err(&format!("{mistake:?} is not found"));
        assert!(violation.what.contains(told), "{mistake:?}: {}", violation.what);
        let again = Harness::new(&sale).replay(violation.plan.clone()).expect_err("the plan is the history");
        assert_eq!(*violation, *again);
        assert!(violation.to_string().contains("with Plan::quiet()"), "{violation}");
    }
}
