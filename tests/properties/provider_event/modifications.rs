//! Captures, voids and lapses that a provider only receives, and tells of later, in any order.

use super::{AMOUNT, Harness, at, pay, refund};
use crate::support::{NOW_MS, command};
use once::begin::begin;
use once::call::ByHand;
use once::flow::Flow as _;
use once::id::{InstanceId, ObjectId};
use once::run::RunEnd;
use paid_once::webhooks::{Event, EventKind, Ingested, OperationNotice};
use payments::engine::{
    Action, Begin, Event as Input, Lifecycle, ObjectState, Outcome, Payments, ProviderReply, Run, Settlement,
};
use payments::payment::money::AmountMinor;
use payments::payment::operation::{CaptureRequest, Operation, PaymentRequest, Refusal, VoidRequest};
use payments::payment::result::{ProviderResult, RemoteState};
use payments::payment::{DisputeStatus, Failure};
use payments::providers::Provider;
use payments::transitions::{by_hand, ingest};
use std::collections::BTreeSet;

/// A payment that is reserved at Adyen, and a move of it that Adyen has received. With the derived key of the move.
pub(super) fn received(operation: Operation) -> (Harness, String) {
    let mut harness = authorized();
    let derived = harness.modify("move", operation);
    (harness, derived)
}

/// A payment whose money is held.
pub(super) fn authorized() -> Harness {
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let mut harness =
        Harness { provider: Provider::Adyen, object_state, known: BTreeSet::new(), events: Vec::new() };
    let reserved =
        ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card: None };
    harness.run("pay", pay_order(), Some(reserved));
    harness
}

/// A payment of an order, that is to be captured later.
fn pay_order() -> Operation {
    let Operation::Payment(request) = pay(Provider::Adyen) else { panic!("it is a payment") };
    let order_id = Some("order-1".into());
    Operation::Payment(Box::new(PaymentRequest { capture: false, order_id, ..*request }))
}

pub(super) const fn capture(amount: Option<AmountMinor>) -> Operation {
    Operation::Capture(CaptureRequest { amount, attempt: None, seen: None })
}

fn void() -> Operation {
    Operation::Void(VoidRequest::default())
}

impl Harness {
    fn modify(&mut self, key: &str, operation: Operation) -> String {
        let modification = format!("psp_{key}");
        self.run(key, operation, Some(ProviderResult::Received { modification }))
    }

    /// News of the move, of that minute.
    pub(super) fn dated(&self, kind: &str, derived: &str, success: bool, minute: u64) -> Event {
        let mut event = self.told(kind, derived, "psp_move", success, AMOUNT);
        if let EventKind::Capture(told) | EventKind::Cancellation(told) | EventKind::Refund(told) =
            &mut event.news
        {
            told.at_ms = Some(NOW_MS + minute * 60_000);
        }
        event.news = match (kind, event.news) {
            ("CAPTURE_FAILED", EventKind::Refund(told)) => {
                EventKind::CaptureFailed(OperationNotice { success: false, ..told })
            }
            ("EXPIRE", EventKind::Refund(told)) => EventKind::Expired(told),
            ("CHARGEBACK", EventKind::Refund(told)) => EventKind::Dispute {
                told,
                status: DisputeStatus::Open,
                withdrawn: Some(true),
                is_inquiry: false,
            },
            ("CHARGEBACK_REVERSED", EventKind::Refund(told)) => EventKind::Dispute {
                told,
                status: DisputeStatus::Won,
                withdrawn: Some(false),
                is_inquiry: false,
            },
            (_, news) => news,
        };
        event.event_id = format!("{}:{minute}", event.event_id);
        event
    }

    /// Whether this was written down since something was last heard.
    pub(super) fn has_recorded(&self, action: &str) -> bool {
        self.object_state.appended.facts.audit.iter().any(|record| record.action == action)
    }

    /// A capture by somebody else.
    pub(super) fn by_others(&self, key: &str) -> Event {
        let mut event = self.dated("CAPTURE", key, true, 1);
        let EventKind::Capture(told) = &mut event.news else { unreachable!() };
        told.id = "psp_other".to_owned();
        event
    }

    fn status(&self) -> (&'static str, Option<&'static str>) {
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        (payment.status(), payment.pending.map(|pending| pending.operation()))
    }

    fn is_refused(&mut self, key: &str, operation: Operation) -> Option<String> {
        let begun =
            begin(&mut self.object_state, &command(key, operation), &InstanceId("me".into()), &at(NOW_MS));
        match begun.unwrap() {
            Begin::Refused(Refusal::State { state, .. }) => Some(state),
            _ => None,
        }
    }
}

#[test]
fn what_is_only_received_is_under_way_until_it_is_told_how_it_ended() {
    for (operation, kind, under_way, done) in [
        (capture(None), "CAPTURE", "capturing", "succeeded"),
        (void(), "CANCELLATION", "voiding", "canceled"),
    ] {
        let (mut harness, derived) = received(operation.clone());
        let name = if kind == "CAPTURE" { "capture" } else { "void" };
        assert_eq!(harness.status(), ("requires_capture", Some(name)));
        let answer = harness.object_state.keys.last().map(|key| key.lifecycle.clone());
        assert!(matches!(answer, Some(Lifecycle::Finished(it)) if it.response.status == 202));
        for another in [capture(None), void(), refund(), pay(Provider::Adyen)] {
            assert_eq!(harness.is_refused("another", another).as_deref(), Some(under_way));
        }
        harness.hear(&harness.dated(kind, &derived, true, 1));
        assert_eq!(harness.status(), (done, None));

        // Refused afterwards: what it was before, and another one may begin, under another key.
        let (mut harness, derived) = received(operation.clone());
        harness.hear(&harness.dated(kind, &derived, false, 1));
        assert_eq!(harness.status(), ("requires_capture", None));
        let failed =
            harness.object_state.resource.payment.as_ref().unwrap().failed_operation.clone().unwrap();
        assert_eq!(failed.operation, name);
        let second = harness.modify("second", operation);
        assert_ne!(second, derived);
        harness.hear(&harness.dated(kind, &derived, false, 2));
        assert_eq!(harness.status(), ("requires_capture", Some(name)), "news of the first one is not its");
        harness.hear(&harness.dated(kind, &second, true, 3));
        assert_eq!(harness.status(), (done, None));
    }
}

#[test]
fn a_capture_that_fails_and_is_made_again_ends_where_the_books_stand_in_any_order() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (order, heard) in orders.into_iter().flat_map(|order| [(order, 2), (order, 3)]) {
        let (mut harness, derived) = received(capture(None));
        let events = [
            harness.dated("CAPTURE", &derived, true, 1),
            harness.dated("CAPTURE_FAILED", &derived, true, 2),
            harness.dated("CAPTURE", &derived, true, 3),
        ];
        let mut newest = 0;
        for number in order.into_iter().take(heard) {
            newest = newest.max(number);
            harness.hear(&events[number]);
            harness.hear(&events[number]);
            let status = if newest == 1 { "capture_failed" } else { "succeeded" };
            assert_eq!(harness.status(), (status, None), "{order:?} {number}");
        }
        if newest == 1 {
            // Whatever is done now may take it twice.
            for another in [capture(None), void(), refund(), pay(Provider::Adyen)] {
                assert_eq!(harness.is_refused("another", another).as_deref(), Some("capture_failed"));
            }
        }
    }
}

#[test]
fn a_reservation_that_lapses_is_over_and_the_order_can_be_paid_again() {
    let (mut harness, derived) = received(void());
    harness.hear(&harness.dated("EXPIRE", &derived, true, 1));
    assert_eq!(harness.status(), ("expired", None));
    assert_eq!(harness.is_refused("again", pay(Provider::Adyen)), None);
    // Of what was captured only the rest lapses.
    let (mut harness, derived) = received(capture(None));
    harness.hear(&harness.dated("CAPTURE", &derived, true, 1));
    harness.hear(&harness.dated("EXPIRE", &derived, true, 2));
    assert_eq!(harness.status(), ("succeeded", None));
}

/// A random history of the simulation found it: the run came back for a reservation that the lapse had taken away.
#[test]
fn a_void_that_a_lapse_overtakes_ends_with_its_own_answer() {
    let answers = [
        (ProviderResult::Received { modification: "psp_void".into() }, 200),
        (ProviderResult::Voided, 200),
        (
            ProviderResult::Rejected {
                payment: None,
                code: "transaction_not_found".into(),
                message: String::new(),
                found: None,
            },
            402,
        ),
    ];
    for (result, status) in answers {
        let (mut harness, derived) = received(capture(None));
        harness.hear(&harness.dated("CAPTURE", &derived, false, 1));
        let me = InstanceId("me".into());
        let begun = begin(&mut harness.object_state, &command("void", void()), &me, &at(NOW_MS)).unwrap();
        let Begin::Run(token) = begun else { panic!("{begun:?}") };
        let mut run = Run::new(token, 0, &[]);
        let call = loop {
            if let Action::Send(call) = run.step(&mut harness.object_state, Input::Go, &at(NOW_MS)).unwrap() {
                break call;
            }
        };
        harness.hear(&harness.dated("EXPIRE", "", true, 2));
        assert_eq!(harness.status(), ("expired", Some("void")));
        let reply = ProviderReply { status: 201, result, request_id: None };
        let mut event = Input::Outcome(call.call_id, Outcome::Definitive(reply));
        let end = loop {
            match run.step(&mut harness.object_state, event, &at(NOW_MS)).unwrap() {
                Action::End(end) => break end,
                _ => event = Input::Go,
            }
        };
        assert!(matches!(end, RunEnd::Finished(response) if response.status == status));
        assert_eq!(harness.status(), ("expired", None));
    }
}

#[test]
fn what_a_bank_takes_back_is_not_refunded_as_well() {
    let (mut harness, derived) = received(capture(None));
    harness.hear(&harness.dated("CAPTURE", &derived, true, 1));
    let (taken, reversed) = (
        harness.dated("CHARGEBACK", &derived, true, 2),
        harness.dated("CHARGEBACK_REVERSED", &derived, true, 3),
    );
    harness.hear(&taken);
    assert_eq!(harness.status(), ("disputed", None));
    assert_eq!(harness.is_refused("refund", refund()).as_deref(), Some("disputed"));
    harness.hear(&reversed);
    harness.hear(&harness.dated("CHARGEBACK", &derived, true, 2));
    assert_eq!(harness.status(), ("succeeded", None), "the older one is old news");
    assert_eq!(harness.is_refused("refund", refund()), None);
}

#[test]
fn money_for_a_payment_that_is_canceled_is_never_silent() {
    for (minute, is_seen) in [(1, false), (3, true)] {
        let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let mut harness =
            Harness { provider: Provider::Adyen, object_state, known: BTreeSet::new(), events: Vec::new() };
        let processing = ProviderResult::Processing { payment: "psp_pay".into() };
        let authorisation = harness.run("pay", pay(Provider::Adyen), Some(processing));
        let derived = harness.modify("void", void());
        harness.hear(&harness.dated("CANCELLATION", &derived, true, 2));
        assert_eq!(harness.status(), ("canceled", None));
        let mut event = harness.told("AUTHORISATION", &authorisation, "psp_pay", true, AMOUNT);
        if let EventKind::Authorisation(told) = &mut event.news {
            told.at_ms = Some(NOW_MS + minute * 60_000);
        }
        let taken = ingest::take(&mut harness.object_state, &event, &at(NOW_MS)).unwrap();
        assert_eq!(matches!(taken, Ingested::Alert { .. }), is_seen, "minute {minute}");
    }
}

#[test]
fn a_void_that_succeeds_ends_also_where_the_authorisation_was_told_before_it() {
    for is_answered in [true, false] {
        let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let mut harness =
            Harness { provider: Provider::Adyen, object_state, known: BTreeSet::new(), events: Vec::new() };
        let processing = ProviderResult::Processing { payment: "psp_pay".into() };
        let authorisation = harness.run("pay", pay(Provider::Adyen), Some(processing));
        let derived =
            if is_answered { harness.modify("void", void()) } else { harness.run("void", void(), None) };
        let event = harness.told("AUTHORISATION", &authorisation, "psp_pay", true, AMOUNT);
        ingest::take(&mut harness.object_state, &event, &at(NOW_MS)).unwrap();
        assert_eq!(harness.status(), ("succeeded", Some("void")));
        let voided = harness.dated("CANCELLATION", &derived, true, 2);
        let taken = ingest::take(&mut harness.object_state, &voided, &at(NOW_MS)).unwrap();
        assert_eq!(matches!(taken, Ingested::Alert { .. }), is_answered, "{taken:?}");
        harness.wake();
        assert_eq!(harness.status(), ("canceled", None));
        // Of what a settlement file makes its lines.
        let moved = ["payment.captured", "payment.capture_failed", "payment.canceled"];
        let records = harness.object_state.appended.facts.audit.iter().map(|record| record.action);
        assert_eq!(records.filter(|action| moved.contains(action)).collect::<Vec<_>>(), moved);
    }
}

#[test]
fn a_void_that_succeeds_is_over_where_a_capture_was_told_too() {
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let mut harness =
        Harness { provider: Provider::Adyen, object_state, known: BTreeSet::new(), events: Vec::new() };
    let processing = ProviderResult::Processing { payment: "psp_pay".into() };
    let authorisation = harness.run("pay", pay(Provider::Adyen), Some(processing));
    let derived = harness.modify("void", void());
    harness.hear(&harness.told("AUTHORISATION", &authorisation, "psp_pay", true, AMOUNT));
    harness.hear(&harness.dated("CAPTURE", "somebody-else", true, 1));
    let voided = harness.dated("CANCELLATION", &derived, true, 2);
    let taken = ingest::take(&mut harness.object_state, &voided, &at(NOW_MS)).unwrap();
    assert!(matches!(taken, Ingested::Contradiction { .. }), "{taken:?}");
    assert_eq!(harness.status(), ("succeeded", None), "and it can be given back");
    assert!(harness.has_recorded("operation.ended"), "the shop is told that nothing is under way");
}

#[test]
fn a_capture_that_failed_for_good_leaves_no_refund_of_it() {
    let days = |days: u64| at(NOW_MS + days * 86_400_000);
    for (refunded, refusal) in [
        (Some(false), None),
        (Some(true), Some(by_hand::Refusal::GivenBack)),
        (None, Some(by_hand::Refusal::RefundInDoubt)),
    ] {
        let (mut harness, captured) = received(capture(None));
        harness.hear(&harness.dated("CAPTURE", &captured, true, 1));
        let made = refunded.map(|settled| ProviderResult::Refunded { refund: "psp_refund".into(), settled });
        harness.run("refund", refund(), made);
        harness.hear(&harness.dated("CAPTURE_FAILED", &captured, false, 2));
        let state = &mut harness.object_state;
        let (call_id, _) = by_hand::given_up(state, days(13).now_ms).unwrap();
        let sends = state.calls.iter().find(|call| call.call_id == call_id).unwrap().sends;
        let by = ByHand {
            by: "Ada".into(),
            reason: "the bank says so".into(),
            at_ms: NOW_MS,
            button: 1,
            is_contradicted: false,
        };
        let word = by_hand::Word { call_id, sends, settlement: Settlement::NotExecuted, by_hand: by };
        let settled = by_hand::settle(state, &word, &InstanceId("me".into()), &days(13)).unwrap();
        assert_eq!(settled.err(), refusal);
        Payments::verify(state).unwrap();
        if refusal.is_none() {
            assert_eq!((harness.refund(0).status(), harness.status()), ("failed", ("failed", None)));
            let again = begin(
                &mut harness.object_state,
                &command("again", pay_order()),
                &InstanceId("me".into()),
                &days(14),
            );
            assert!(matches!(again, Ok(Begin::Run(_))), "the order can be paid again: {again:?}");
        }
    }
}

/// The lapse, or a cancellation in the Customer Area, is told before how our capture ended that it is dated after.
#[test]
fn a_move_that_later_news_has_overtaken_is_over_once_it_is_told_how_it_ended() {
    for ((ending, status), kind) in [("EXPIRE", "expired"), ("CANCELLATION", "canceled")]
        .into_iter()
        .flat_map(|ending| ["CAPTURE", "CAPTURE_FAILED"].map(|kind| (ending, kind)))
    {
        let (mut harness, derived) = received(capture(None));
        let payment = harness.object_state.calls[0].provider_key.clone();
        harness.hear(&harness.dated(ending, &payment, true, 3));
        assert_eq!(harness.status(), (status, Some("capture")), "how it ended is still to be told");
        assert_eq!(harness.is_refused("again", pay_order()).as_deref(), Some("capturing"));
        let told = harness.dated(kind, &derived, true, 2);
        let taken = ingest::take(&mut harness.object_state, &told, &at(NOW_MS)).unwrap();
        // What has ended it has ended the rest.
        assert_eq!(matches!(taken, Ingested::Alert { .. }), kind == "CAPTURE", "{taken:?}");
        let ends = if kind == "CAPTURE" { "succeeded" } else { status };
        assert_eq!(harness.status(), (ends, None));
        let record = if kind == "CAPTURE" { "payment.captured" } else { "operation.ended" };
        assert!(harness.has_recorded(record));
        let is_refused = harness.is_refused("again", pay_order());
        assert_eq!(is_refused.as_deref(), (kind == "CAPTURE").then_some("succeeded"));
    }
}

#[test]
fn a_void_of_what_could_not_be_captured_leaves_no_refund_of_it() {
    let given = |settled| Some(ProviderResult::Refunded { refund: "psp_refund".into(), settled });
    for (answer, ends) in [
        (given(false), ("canceled", "failed")),
        (given(true), ("capture_failed", "succeeded")),
        (None, ("capture_failed", "pending")),
    ] {
        let (mut harness, captured) = received(capture(None));
        harness.hear(&harness.dated("CAPTURE", &captured, true, 1));
        let is_unknown = answer.is_none();
        harness.run("refund", refund(), answer);
        harness.hear(&harness.dated("CAPTURE_FAILED", &captured, true, 2));
        let payment = harness.object_state.calls[0].provider_key.clone();
        let voided = harness.dated("CANCELLATION", &payment, true, 3);
        let taken = ingest::take(&mut harness.object_state, &voided, &at(NOW_MS)).unwrap();
        Payments::verify(&harness.object_state).unwrap();
        assert_eq!((harness.status().0, harness.refund(0).status()), ends, "{taken:?}");
        assert_eq!(taken == Ingested::RetryLater, is_unknown, "{taken:?}");
        let is_contradiction = matches!(taken, Ingested::Contradiction { .. });
        assert_eq!(is_contradiction, ends.1 == "succeeded", "{taken:?}");
    }
}

/// Its end is a state of its own only where nobody else had captured before.
#[test]
fn a_capture_of_ours_that_others_have_overtaken_is_told_to_have_ended() {
    let (mut harness, derived) = received(capture(None));
    harness.hear(&harness.by_others("somebody-else"));
    assert_eq!(harness.status(), ("succeeded", Some("capture")));
    let ours = harness.dated("CAPTURE", &derived, true, 2);
    let taken = ingest::take(&mut harness.object_state, &ours, &at(NOW_MS)).unwrap();
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(harness.status(), ("succeeded", None));
    assert!(harness.has_recorded("operation.ended"));
}

/// Where Adyen lets a payment be captured in parts, somebody in the Customer Area can take more than we know of.
#[test]
fn another_capture_of_what_is_captured_is_never_silent() {
    for is_answered in [true, false] {
        let (mut harness, derived) = received(capture(AmountMinor::new(AMOUNT)));
        if !is_answered {
            harness = Harness::of(Provider::Adyen);
            let reserved =
                ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card: None };
            harness.run("pay", pay_order(), Some(reserved));
            assert_eq!(harness.run("move", capture(AmountMinor::new(AMOUNT)), None), derived);
        }
        harness.hear(&harness.dated("CAPTURE", &derived, true, 2));
        harness.wake();
        assert_eq!(harness.status(), ("succeeded", None));
        let payment = harness.object_state.calls[0].provider_key.clone();
        let mut take = |key: &str, id: &str, minute: u64| {
            let mut event = harness.dated("CAPTURE", key, true, minute);
            if let EventKind::Capture(told) = &mut event.news {
                (told.id, told.amount_minor) = (id.to_owned(), AMOUNT - 1);
            }
            ingest::take(&mut harness.object_state, &event, &at(NOW_MS)).unwrap()
        };
        let Ingested::Alert { detail } = take(&payment, "psp_other", 3) else { panic!("nobody is told") };
        assert_eq!(detail, "another capture, of 4999, has succeeded; 5000 counts as taken");
        assert_eq!(take(&derived, "psp_move", 4), Ingested::Applied, "the same one again");
        assert_eq!(take(&payment, "psp_other", 1), Ingested::Applied, "old news");
    }
}

/// What the provider was still capturing came to nothing: no reservation is left that could be captured once more.
#[test]
fn a_capture_that_fails_after_all_ends_its_payment() {
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let mut harness =
        Harness { provider: Provider::Stripe, object_state, known: BTreeSet::new(), events: Vec::new() };
    let Operation::Payment(request) = pay(Provider::Stripe) else { panic!("it is a payment") };
    let reserved = ProviderResult::Authorized { payment: "pi_1".into(), capture_before_ms: None, card: None };
    harness.run(
        "pay",
        Operation::Payment(Box::new(PaymentRequest { capture: false, ..*request })),
        Some(reserved),
    );
    let failure = Failure {
        declined: true,
        code: "card_declined".into(),
        decline_code: None,
        message: "Your card was declined.".into(),
    };
    let failed = ProviderResult::Rejected {
        payment: None,
        code: failure.code.clone(),
        message: failure.message.clone(),
        found: Some(RemoteState::Failed(failure)),
    };
    harness.run("capture", capture(None), Some(failed));
    Payments::verify(&harness.object_state).unwrap();
    let payment = harness.object_state.resource.payment.as_ref().unwrap();
    assert_eq!((payment.status(), payment.pending), ("declined", None));
    assert!(payment.is_over_unpaid());
}
