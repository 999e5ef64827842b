//! A payment's state machine, what is reserved, and when the provider is asked: for any order of things.

use once::begin::begin;
use once::id::{InstanceId, ObjectId};
use once::run::RunEnd;
use payments::engine::{Action, Begin, Event, ObjectState, Outcome, ProviderReply, Run};
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::operation::{
    CaptureRequest, Operation, PaymentRequest, RefundRequest, Refusal, Route, VoidRequest,
};
use payments::payment::result::{CallKind, ProviderResult, RemoteState};
use payments::payment::status_query::{Beside, StatusQuery, StatusReply};
use payments::payment::{
    Failure, InFlight, PaymentState, PollSchedule, Refund, RefundReason, RefundState, refunded_minor,
};
use payments::providers::Provider;
use payments::transitions::answers;
use payments::transitions::polling::{self, Asker};
use proptest::prelude::*;

use crate::support::{NOW_MS, at, command};

const AMOUNT: u64 = 5000;

pub fn pay(capture: bool) -> Operation {
    Operation::Payment(Box::new(PaymentRequest {
        amount: AmountMinor::new(AMOUNT).unwrap(),
        currency: Currency::USD,
        capture,
        order_id: Some("order-1".into()),
        description: None,
        metadata: Vec::new(),
        route: Route {
            provider: Provider::Stripe,
            payment_method: "pm_card_visa".into(),
            customer: None,
            merchant_account: None,
        },
        fallback: None,
        return_url: Some("https://shop.example/".into()),
        receipt_email: None,
        receipt_content: Default::default(),
        origin: "https://pay.example".into(),
        return_key: None,
        page: None,
        link_revision: None,
    }))
}

/// One step of somebody: an operation, or what the provider says to the run of an earlier one.
#[derive(Clone, Debug)]
enum Move {
    Pay(bool),
    Capture(Option<u64>),
    Void,
    Refund(Option<u64>),
    /// The provider answers the run of this number, well or not.
    Answer(usize, u8),
    /// The provider is asked how the payment is.
    Learn(RemoteState),
}

fn found() -> impl Strategy<Value = RemoteState> {
    let failure = Failure { declined: true, code: "no".into(), decline_code: None, message: String::new() };
    prop::sample::select(vec![
        RemoteState::Authorized,
        RemoteState::Captured { amount_minor: AMOUNT },
        RemoteState::Captured { amount_minor: 1200 },
        RemoteState::Voided,
        RemoteState::RequiresAction { url: "https://bank.example".into() },
        RemoteState::Processing,
        RemoteState::Failed(failure),
    ])
}

fn a_move() -> impl Strategy<Value = Move> {
    let amount = prop::option::of(prop::sample::select(vec![1u64, 1000, 2500, 4999, 5000, 5001]));
    prop_oneof![
        1 => any::<bool>().prop_map(Move::Pay),
        2 => amount.clone().prop_map(Move::Capture),
        1 => Just(Move::Void),
        4 => amount.prop_map(Move::Refund),
        6 => (0..12usize, any::<u8>()).prop_map(|(run, answer)| Move::Answer(run, answer)),
        1 => found().prop_map(Move::Learn),
    ]
}

/// An object at work: its rows, and the runs that wait for the provider.
struct Harness {
    object_state: ObjectState,
    waiting: Vec<(Run, u32)>,
    keys: u32,
}

impl Harness {
    fn new() -> Self {
        Self { object_state: ObjectState::empty(ObjectId::from_bytes([7; 32])), waiting: Vec::new(), keys: 0 }
    }

    fn ask(&mut self, operation: Operation) -> Begin {
        self.keys += 1;
        let command = command(&format!("key-{}", self.keys), operation);
        let begun = begin(&mut self.object_state, &command, &InstanceId("me".into()), &at(NOW_MS)).unwrap();
        if let Begin::Run(token) = &begun {
            let run = Run::new(token.clone(), 0, &[]);
            self.go_on(run, Event::Go);
        }
        begun
    }

    fn go_on(&mut self, mut run: Run, mut event: Event) {
        loop {
            match run.step(&mut self.object_state, event, &at(NOW_MS)).unwrap() {
                Action::Again => event = Event::Go,
                Action::Send(call) => return self.waiting.push((run, call.call_id)),
                Action::End(RunEnd::Finished(_)) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    fn answer(&mut self, number: usize, how: u8) {
        if self.waiting.is_empty() {
            return;
        }
        let (run, call_id) = self.waiting.remove(number % self.waiting.len());
        let call = self.object_state.calls.iter().find(|call| call.call_id == call_id).unwrap();
        let payment = || "pi_1".to_owned();
        let manual = call.request.body.contains("manual");
        let asked = |name: &str| {
            let fields: Vec<(String, String)> = serde_urlencoded::from_str(&call.request.body).unwrap();
            fields.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok()).unwrap()
        };
        let refused = || ProviderResult::Rejected {
            payment: None,
            code: "no".into(),
            message: String::new(),
            found: None,
        };
        let result = match (call.kind, how % 5) {
            (_, 0) => refused(),
            (CallKind::Authorize, 1) => ProviderResult::Processing { payment: payment() },
            (CallKind::Authorize, 2) => {
                ProviderResult::RequiresAction { payment: payment(), url: "https://bank.example".into() }
            }
            (CallKind::Authorize, _) if manual => {
                ProviderResult::Authorized { payment: payment(), capture_before_ms: None, card: None }
            }
            (CallKind::Authorize, _) => ProviderResult::Charged { payment: payment(), card: None },
            (CallKind::Capture, _) => ProviderResult::Captured { amount_minor: asked("amount_to_capture") },
            (CallKind::Void, _) => ProviderResult::Voided,
            (CallKind::Refund, how) => ProviderResult::Refunded { refund: "re_1".into(), settled: how > 2 },
            (CallKind::CreateCustomer | CallKind::UpdateCustomer, _) => unreachable!("a payment's object"),
        };
        let reply = ProviderReply { status: 200, result, request_id: None };
        self.go_on(run, Event::Outcome(call_id, Outcome::Definitive(reply)));
    }

    fn apply(&mut self, found: RemoteState) {
        self.apply_at(found, NOW_MS);
    }

    fn apply_at(&mut self, found: RemoteState, now_ms: u64) {
        let Some(payment) = &self.object_state.resource.payment else { return };
        let Some(id) = payment.provider_payment.clone().filter(|_| payment.is_open_at_provider()) else {
            return;
        };
        let question = StatusQuery::Payment { provider: Provider::Stripe, account: None, id, doubt: None };
        answers::take(
            &mut self.object_state,
            &question,
            StatusReply::Payment(found, Beside::default()),
            &at(now_ms),
        )
        .unwrap();
    }

    fn happens(&mut self, a_move: Move) {
        let amount = |minor: Option<u64>| minor.and_then(AmountMinor::new);
        let reason = RefundReason::RequestedByCustomer;
        match a_move {
            Move::Pay(capture) => drop(self.ask(pay(capture))),
            Move::Capture(minor) => {
                drop(self.ask(Operation::Capture(CaptureRequest {
                    amount: amount(minor),
                    attempt: None,
                    seen: None,
                })));
            }
            Move::Void => drop(self.ask(Operation::Void(VoidRequest::default()))),
            Move::Refund(minor) => {
                drop(self.ask(Operation::Refund(RefundRequest {
                    amount: amount(minor),
                    reason,
                    seen: None,
                })));
            }
            Move::Answer(run, how) => self.answer(run, how),
            Move::Learn(found) => self.apply(found),
        }
    }

    /// What must hold at every moment.
    fn judge(&self) {
        let Some(payment) = &self.object_state.resource.payment else {
            assert!(self.object_state.resource.refunds.is_empty());
            return;
        };
        let (captured, refunded) =
            (payment.captured_minor(), refunded_minor(&self.object_state.resource.refunds));
        assert!(captured <= payment.amount.get() && refunded <= captured, "{captured}, {refunded}");
        let json = payment.to_json(&self.object_state.resource.refunds, &self.object_state.resource.tries);
        assert_eq!(json["amount_captured"], captured);
        assert_eq!(json["amount_refunded"], refunded);
        let reserved = payment.state == PaymentState::Authorized && payment.pending.is_none();
        assert_eq!(json["amount_capturable"], if reserved { AMOUNT } else { 0 });
        assert_eq!(json["next_action"].is_null(), json["status"] != "requires_action");
        assert_eq!(json["failure"].is_null(), !matches!(payment.state, PaymentState::Failed(_)));
        assert_eq!(
            payment.check.is_some(),
            !polling::questions(&self.object_state).is_empty(),
            "{payment:?}"
        );
        assert!(payment.pending.is_none() || !payment.is_over_unpaid());
    }
}

/// How far a state is along: no state is followed by an earlier one in the same try.
fn rank(state: &PaymentState) -> u8 {
    match state {
        PaymentState::Authorizing => 0,
        PaymentState::RequiresAction { .. } | PaymentState::Processing => 1,
        PaymentState::Authorized => 2,
        PaymentState::Captured { .. }
        | PaymentState::CaptureFailed { .. }
        | PaymentState::Canceled
        | PaymentState::Expired
        | PaymentState::Failed(_) => 3,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_sums_hold_and_no_state_goes_back_whatever_happens(moves in prop::collection::vec(a_move(), 1..40)) {
        let mut harness = Harness::new();
        harness.happens(Move::Pay(moves.len() % 2 == 0));
        for a_move in moves {
            let before = harness.object_state.resource.payment.clone().unwrap();
            harness.happens(a_move);
            harness.judge();
            let after = harness.object_state.resource.payment.as_ref().unwrap();
            prop_assert!(after.attempt >= before.attempt);
            if after.attempt == before.attempt {
                prop_assert!(rank(&after.state) >= rank(&before.state), "{:?}, {:?}", before, after);
                prop_assert!(rank(&before.state) < 3 || after.state == before.state);
            } else {
                prop_assert!(before.is_over_unpaid());
            }
        }
    }

    #[test]
    fn what_is_refused_leaves_no_trace(moves in prop::collection::vec(a_move(), 0..20), last in a_move()) {
        let mut harness = Harness::new();
        moves.into_iter().for_each(|a_move| harness.happens(a_move));
        let before = harness.object_state.clone();
        let begun = match last {
            Move::Capture(_) => harness.ask(Operation::Capture(CaptureRequest { amount: None, attempt: None, seen: None })),
            Move::Void => harness.ask(Operation::Void(VoidRequest::default())),
            _ => harness.ask(pay(true)),
        };
        if matches!(begun, Begin::Refused(_)) {
            prop_assert_eq!(harness.object_state, before);
        }
    }

    #[test]
    fn refunds_at_once_never_give_back_more_than_was_taken(amounts in prop::collection::vec(1..3000u64, 1..12)) {
        let mut harness = Harness::new();
        harness.happens(Move::Pay(true));
        harness.answer(0, 4);
        let mut left = AMOUNT;
        for minor in amounts {
            let amount = AmountMinor::new(minor);
            let begun = harness.ask(Operation::Refund(RefundRequest { amount, reason: RefundReason::Duplicate, seen: None }));
            match begun {
                Begin::Run(_) => left = left.checked_sub(minor).unwrap(),
                Begin::Refused(Refusal::TooMuch { available_minor, .. }) => {
                    prop_assert!(minor > left);
                    prop_assert_eq!(available_minor, left);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(refunded_minor(&harness.object_state.resource.refunds), AMOUNT - left);
    }

    #[test]
    fn the_provider_is_asked_ever_more_rarely_and_at_least_once_a_day(
        looks in prop::collection::vec((0..90_000_000u64, any::<bool>()), 1..30),
    ) {
        let mut harness = Harness::new();
        harness.happens(Move::Pay(true));
        harness.answer(0, 2);
        let mut now_ms = NOW_MS;
        for (pause_ms, looking) in looks {
            now_ms += pause_ms;
            let before @ PollSchedule { next_at_ms, tries, .. } = harness.object_state.resource.payment.as_ref().unwrap().check.unwrap();
            let asker = if looking { Asker::Waiting } else { Asker::Background };
            let asked = polling::begin(&mut harness.object_state, asker, &at(now_ms));
            let after = harness.object_state.resource.payment.as_ref().unwrap().check.unwrap();
            if asked.is_empty() {
                prop_assert!(now_ms < next_at_ms, "due, and not asked");
                prop_assert_eq!(after, before);
            } else {
                prop_assert!(looking || now_ms >= next_at_ms);
                prop_assert_eq!(after.tries, tries + 1);
                prop_assert!(after.next_at_ms >= now_ms + 5_000);
                prop_assert!(after.next_at_ms <= now_ms + 86_400_000 * 9 / 8);
                let again = polling::begin(&mut harness.object_state, asker, &at(now_ms));
                prop_assert!(again.is_empty(), "two who look at once ask once");
            }
        }
    }

    #[test]
    fn a_refund_is_decided_once_and_can_only_come_back(states in prop::collection::vec(0..3u8, 1..6)) {
        let mut harness = Harness::new();
        harness.happens(Move::Pay(true));
        harness.answer(0, 4);
        harness.happens(Move::Refund(Some(1000)));
        harness.answer(0, 1);
        let Refund { id: refund, state, .. } = harness.object_state.resource.refunds[0].clone();
        prop_assert_eq!(state, RefundState::Pending);
        let (mut decided, mut decisions) = (RefundState::Pending, 0);
        for state in states {
            let state = match state {
                0 => RefundState::Pending,
                1 => RefundState::Succeeded,
                _ => RefundState::Failed { code: "no".into(), message: String::new() },
            };
            let question = StatusQuery::Refund { provider: Provider::Stripe, account: None, refund: refund.clone(), id: "re_1".into(), doubt: None };
            answers::take(&mut harness.object_state, &question, StatusReply::Refund(state.clone()), &at(NOW_MS)).unwrap();
            // What was given back can still come back, and what has failed stays so.
            let is_new = match (&decided, &state) {
                (RefundState::Pending, state) => *state != RefundState::Pending,
                (RefundState::Succeeded, RefundState::Failed { .. }) => true,
                _ => false,
            };
            if is_new {
                (decided, decisions) = (state, decisions + 1);
            }
            prop_assert_eq!(&harness.object_state.resource.refunds[0].state, &decided);
        }
        let made = harness.object_state.appended.facts.audit.iter().filter(|record| {
            matches!(record.action, "refund.succeeded" | "refund.failed")
        });
        prop_assert_eq!(made.count(), decisions);
    }
}

/// A look learns that the void was executed before its own answer is heard: the order waits for that.
#[test]
fn when_it_was_paid_is_when_the_money_was_there_and_not_when_it_was_tried() {
    let paid_at = |harness: &Harness| harness.object_state.resource.payment.as_ref().unwrap().paid_at_ms;
    let mut harness = Harness::new();
    harness.happens(Move::Pay(false));
    harness.answer(0, 2);
    assert_eq!(paid_at(&harness), None, "at the bank");
    harness.apply_at(RemoteState::Authorized, NOW_MS - 2);
    assert_eq!(paid_at(&harness), Some(NOW_MS - 2), "reserved");
    harness.happens(Move::Capture(None));
    harness.answer(0, 4);
    assert_eq!(paid_at(&harness), Some(NOW_MS), "taken");
    assert_eq!(harness.object_state.resource.payment.unwrap().created_at_ms, NOW_MS);
}

#[test]
fn an_order_is_not_tried_again_while_its_void_is_under_way() {
    let mut harness = Harness::new();
    harness.happens(Move::Pay(true));
    harness.answer(0, 2);
    harness.happens(Move::Void);
    harness.apply(RemoteState::Voided);
    let payment = harness.object_state.resource.payment.as_ref().unwrap();
    assert_eq!(
        (payment.status(), payment.pending),
        ("canceled", Some(InFlight::Void { key_id: 2, received: false }))
    );
    let Begin::Refused(Refusal::State { state, .. }) = harness.ask(pay(true)) else {
        panic!("the next try began");
    };
    assert_eq!(state, "voiding");
    harness.answer(0, 4);
    assert!(matches!(harness.ask(pay(true)), Begin::Run(_)), "then it may");
}

#[test]
fn a_late_word_about_an_earlier_try_changes_nothing() {
    let mut harness = Harness::new();
    harness.happens(Move::Pay(true));
    harness.answer(0, 2);
    let before = harness.object_state.resource.payment.clone();
    let question = StatusQuery::Payment {
        provider: Provider::Stripe,
        account: None,
        id: "pi_of_another_try".into(),
        doubt: None,
    };
    answers::take(
        &mut harness.object_state,
        &question,
        StatusReply::Payment(RemoteState::Voided, Beside::default()),
        &at(NOW_MS),
    )
    .unwrap();
    assert_eq!(harness.object_state.resource.payment, before);
}

/// A reservation at Adyen in this currency, as an object of before amounts were converted has it, or as one of today.
fn reserved_at_adyen(currency: &str, is_old: bool) -> Harness {
    let mut harness = Harness::new();
    harness.happens(Move::Pay(false));
    harness.answer(0, 2);
    let payment = harness.object_state.resource.payment.as_mut().unwrap();
    payment.provider = Provider::Adyen;
    payment.currency = Currency::parse(currency).unwrap();
    payment.provider_payment = Some("PSP1".into());
    payment.state = PaymentState::Authorized;
    let mut row = serde_json::to_value(&*payment).unwrap();
    if is_old {
        row.as_object_mut().unwrap().remove("in_provider_units").unwrap();
    }
    *payment = serde_json::from_value(row).unwrap();
    harness
}

#[test]
fn what_adyen_was_told_in_another_unit_is_moved_in_its_customer_area_only() {
    let half = || AmountMinor::new(AMOUNT / 2);
    let capture = || Operation::Capture(CaptureRequest { amount: half(), attempt: None, seen: None });
    let refund =
        || Operation::Refund(RefundRequest { amount: half(), reason: RefundReason::Duplicate, seen: None });
    let is_refused = |mut harness: Harness, operation: Operation| match harness.ask(operation) {
        Begin::Run(_) => false,
        Begin::Refused(Refusal::State { detail, .. }) => detail.contains("Customer Area"),
        other => panic!("{other:?}"),
    };
    for (currency, is_old, expected) in [
        ("clp", true, true),
        ("cve", true, true),
        ("idr", true, true),
        ("idr", false, false),
        ("usd", true, false),
    ] {
        assert_eq!(
            is_refused(reserved_at_adyen(currency, is_old), capture()),
            expected,
            "{currency} {is_old}"
        );
        let mut taken = reserved_at_adyen(currency, is_old);
        taken.object_state.resource.payment.as_mut().unwrap().state =
            PaymentState::Captured { amount_minor: AMOUNT };
        assert_eq!(is_refused(taken, refund()), expected, "{currency} {is_old}");
    }
    let void = Operation::Void(VoidRequest::default());
    assert!(!is_refused(reserved_at_adyen("idr", true), void), "which names no amount");
}

#[test]
fn what_was_confirmed_against_other_figures_is_refused() {
    let mut harness = Harness::new();
    harness.happens(Move::Pay(true));
    harness.answer(0, 4);
    let figures = |harness: &Harness| {
        let resource = &harness.object_state.resource;
        resource.payment.as_ref().unwrap().figures(&resource.refunds)
    };
    let refund = |seen: &str| {
        let (amount, seen) = (AmountMinor::new(AMOUNT / 4), Some(seen.to_owned()));
        Operation::Refund(RefundRequest { amount, reason: RefundReason::Duplicate, seen })
    };
    let seen = figures(&harness);
    assert!(matches!(harness.ask(refund(&seen)), Begin::Run(_)));
    let before = harness.object_state.clone();
    for seen in [seen.as_str(), ""] {
        assert!(matches!(harness.ask(refund(seen)), Begin::Refused(Refusal::State { .. })), "{seen}");
        assert_eq!(harness.object_state, before);
    }
    let seen = figures(&harness);
    assert!(matches!(harness.ask(refund(&seen)), Begin::Run(_)));
}
