//! What the providers tell, shuffled and doubled: the object ends where the provider's books stand, and nothing goes back on the way.

mod asked;
mod believed;
mod customer_area;
mod disputes;
mod in_doubt;
mod modifications;
mod named;
mod parts;
mod refunds;
mod tries;
mod untold;

use crate::support::{NOW_MS, command};
use once::context::Times;
use once::id::{InstanceId, ObjectId};
use once::{alarm::wake, begin::begin};
use paid_once::webhooks::{Event, EventKind, Ingested, OperationNotice};
use payments::engine::{
    Action, Begin, Context, Event as Input, Lifecycle, Limits, ObjectState, Outcome, ProviderReply, Run,
    context,
};
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::operation::{Operation, PaymentRequest, RefundRequest, Route};
use payments::payment::result::ProviderResult;
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::payment::{PaymentState, Refund, RefundReason, RefundState, refunded_minor};
use payments::providers::{Provider, adyen};
use payments::transitions::{answers, ingest, polling};
use proptest::prelude::*;
use std::collections::BTreeSet;

const AMOUNT: u64 = 5000;
const PART: u64 = 1000;

/// How a refund ended in the provider's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Succeeded,
    Failed,
    /// It succeeded, and the bank sent it back.
    CameBack,
}

/// What was done, and which answers were lost.
#[derive(Clone, Debug)]
struct Books {
    payment_lost: bool,
    refunds: Vec<(bool, Ending)>,
}

fn books() -> impl Strategy<Value = Books> {
    let ending = prop::sample::select(vec![Ending::Succeeded, Ending::Failed, Ending::CameBack]);
    (any::<bool>(), prop::collection::vec((any::<bool>(), ending), 1..5))
        .prop_map(|(payment_lost, refunds)| Books { payment_lost, refunds })
}

/// An object, the events that it knows, and what the provider has still to tell.
struct Harness {
    provider: Provider,
    object_state: ObjectState,
    known: BTreeSet<String>,
    events: Vec<Event>,
}

impl Harness {
    fn of(provider: Provider) -> Self {
        let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        Self { provider, object_state, known: BTreeSet::new(), events: Vec::new() }
    }

    /// Does all that the books say. An authorisation whose answer was lost is told of at once: a refund needs it.
    fn new(provider: Provider, books: &Books) -> Self {
        let mut harness = Self::of(provider);
        let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
        let derived = harness.run("pay", pay(provider), (!books.payment_lost).then_some(charged));
        let authorised = harness.told("AUTHORISATION", &derived, "psp_pay", true, AMOUNT);
        if books.payment_lost {
            harness.hear(&authorised);
            harness.wake();
        }
        harness.events.push(authorised);
        for (number, (is_lost, ending)) in books.refunds.iter().enumerate() {
            let id = format!("psp_{number}");
            let answer = ProviderResult::Refunded { refund: id.clone(), settled: false };
            let derived = harness.run(&id, refund(), (!is_lost).then_some(answer));
            let tell = |kind, success| harness.told(kind, &derived, &id, success, PART);
            let told = match ending {
                Ending::Succeeded => vec![tell("REFUND", true)],
                Ending::Failed => vec![tell("REFUND", false)],
                Ending::CameBack => vec![tell("REFUND", true), tell("REFUND_FAILED", false)],
            };
            harness.events.extend(told);
        }
        harness
    }

    /// Runs an operation to its end, or until nobody knows how it ended: `None` is an answer that was lost.
    fn run(&mut self, key: &str, operation: Operation, result: Option<ProviderResult>) -> String {
        let begun =
            begin(&mut self.object_state, &command(key, operation), &InstanceId("me".into()), &at(NOW_MS))
                .unwrap();
        let Begin::Run(token) = begun else { panic!("{key}: {begun:?}") };
        self.drive(Run::new(token, 0, &[]), result, NOW_MS);
        self.object_state.appended = Default::default();
        self.object_state.calls.last().unwrap().provider_key.clone()
    }

    fn drive(&mut self, mut run: Run, result: Option<ProviderResult>, now_ms: u64) {
        let outcome = match result {
            Some(result) => Outcome::Definitive(ProviderReply { status: 200, result, request_id: None }),
            None => Outcome::Unknown { answer_is_stored: true, reason: "lost".into() },
        };
        let mut event = Input::Go;
        loop {
            event = match run.step(&mut self.object_state, event, &at(now_ms)).unwrap() {
                Action::Again => Input::Go,
                // What an earlier try has left open is canceled before the answered one is sent.
                Action::Send(call) if call.name.starts_with("close_") => {
                    let result = ProviderResult::Voided;
                    let reply = ProviderReply { status: 200, result, request_id: None };
                    Input::Outcome(call.call_id, Outcome::Definitive(reply))
                }
                Action::Send(call) => Input::Outcome(call.call_id, outcome.clone()),
                Action::LookUp(call) => Input::LookedUp(call.call_id, adyen::no_look_up()),
                Action::SleepUntil(_) | Action::End(_) => break,
            };
        }
    }

    fn told(&self, kind: &str, provider_key: &str, id: &str, success: bool, amount_minor: u64) -> Event {
        let told = OperationNotice {
            provider_key: Some(provider_key.to_owned()),
            payment: "psp_pay".to_owned(),
            id: id.to_owned(),
            amount_minor,
            currency: "usd".to_owned(),
            success,
            reason: String::new(),
            undone: None,
            was_taken: false,
            at_ms: None,
            card: None,
        };
        let news = match kind {
            "AUTHORISATION" => EventKind::Authorisation(told),
            "CAPTURE" => EventKind::Capture(told),
            "CANCELLATION" => EventKind::Cancellation(told),
            _ => EventKind::Refund(told),
        };
        let event_id = format!("{kind}:{id}:{success}");
        Event {
            event_id,
            provider: self.provider,
            account: None,
            kind: kind.to_owned(),
            news,
            is_unwritten: false,
        }
    }

    /// As the object does: an event that is known changes nothing, and one that comes too early must come again.
    fn hear(&mut self, event: &Event) {
        if self.known.contains(&event.event_id) {
            return;
        }
        let taken = ingest::take(&mut self.object_state, event, &at(NOW_MS + 1)).unwrap();
        assert_ne!(taken, Ingested::UnknownResource);
        if taken != Ingested::RetryLater {
            self.known.insert(event.event_id.clone());
        }
        self.object_state.appended = Default::default();
    }

    /// The alarm: takes up what is due.
    fn wake(&mut self) {
        let now_ms = NOW_MS + 1;
        for token in wake(&mut self.object_state, &InstanceId("me".into()), &at(now_ms)) {
            self.drive(Run::new(token, 0, &[]), None, now_ms);
        }
    }

    fn refund(&self, number: usize) -> &Refund {
        self.object_state.resource.refunds.get(number).unwrap()
    }

    /// The object stands where the books do.
    fn agrees(&self, books: &Books) {
        let is_open = |lifecycle: &Lifecycle| matches!(lifecycle, Lifecycle::Open(_));
        assert!(!self.object_state.keys.iter().any(|key| is_open(&key.lifecycle)), "a key is open");
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        assert_eq!(payment.state, PaymentState::Captured { amount_minor: AMOUNT });
        let mut given = 0;
        for (number, (_, ending)) in books.refunds.iter().enumerate() {
            let is_given = *ending == Ending::Succeeded;
            let expected = if is_given { "succeeded" } else { "failed" };
            assert_eq!(self.refund(number).status(), expected, "{ending:?}");
            given += if is_given { PART } else { 0 };
        }
        assert_eq!(refunded_minor(&self.object_state.resource.refunds), given);
    }
}

fn at(now_ms: u64) -> Context {
    context(now_ms, 0, Times::default(), Limits::default())
}

fn pay(provider: Provider) -> Operation {
    Operation::Payment(Box::new(PaymentRequest {
        amount: AmountMinor::new(AMOUNT).unwrap(),
        currency: Currency::USD,
        capture: true,
        order_id: None,
        description: None,
        metadata: Vec::new(),
        route: Route {
            provider,
            payment_method: "a-card".into(),
            customer: Some("a-customer".into()),
            merchant_account: (provider == Provider::Adyen).then(|| "a-merchant".into()),
        },
        fallback: None,
        return_url: None,
        receipt_email: Some("ada@example.com".into()),
        receipt_content: Default::default(),
        origin: "https://pay.example".into(),
        return_key: None,
        page: None,
        link_revision: None,
    }))
}

fn refund() -> Operation {
    let reason = RefundReason::RequestedByCustomer;
    Operation::Refund(RefundRequest { amount: AmountMinor::new(PART), reason, seen: None })
}

/// How far a refund is along.
fn rank(state: &RefundState) -> u8 {
    match state {
        RefundState::Requested => 0,
        RefundState::Pending => 1,
        RefundState::Succeeded => 2,
        RefundState::Failed { .. } => 3,
    }
}

fn is_about(question: &StatusQuery, refund: &str) -> bool {
    matches!(question, StatusQuery::Refund { id, .. } if id == refund)
}

/// Stripe's event that something has happened to a refund, or to the payment.
fn ask(event_id: &str, refund: Option<&str>) -> Event {
    let news = EventKind::Ask { refund: refund.map(str::to_owned), payment: None, provider_key: None };
    Event {
        event_id: event_id.into(),
        provider: Provider::Stripe,
        account: None,
        kind: "some.news".into(),
        news,
        is_unwritten: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn adyens_news_ends_where_its_books_stand_in_any_order_and_however_often(
        books in books(),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..30),
    ) {
        let mut harness = Harness::new(Provider::Adyen, &books);
        // Any order, with doubles; and at the end whatever has not come yet, or must come again.
        let events = harness.events.clone();
        let shuffled = order.iter().map(|(index, wakes)| (index.get(&events), *wakes));
        for (event, wakes) in shuffled.chain(events.iter().map(|event| (event, true))) {
            let before = harness.object_state.clone();
            if wakes {
                harness.wake();
            }
            harness.hear(event);
            if wakes {
                harness.wake();
            }
            for (before, after) in before.resource.refunds.iter().zip(&harness.object_state.resource.refunds) {
                prop_assert!(rank(&after.state) >= rank(&before.state), "{:?}, {:?}", before, after);
            }
            prop_assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().status(), "succeeded");
        }
        harness.agrees(&books);
        let object_state = harness.object_state.clone();
        harness.events.clone().iter().for_each(|event| harness.hear(event));
        prop_assert_eq!(harness.object_state, object_state, "what is known changes nothing");
    }

    /// Stripe's events say only that there is something to ask. Answers overtake each other: an old one changes nothing.
    #[test]
    fn stripes_news_ends_where_its_books_stand_in_any_order_and_however_often(
        endings in prop::collection::vec(prop::sample::select(vec![Ending::Succeeded, Ending::Failed, Ending::CameBack]), 1..5),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..30),
    ) {
        let books = Books { payment_lost: false, refunds: endings.into_iter().map(|ending| (false, ending)).collect() };
        let mut harness = Harness::new(Provider::Stripe, &books);
        let failed = || RefundState::Failed { code: "no".into(), message: String::new() };
        // What Stripe answers about each refund, in the order of its books.
        let truths = |number: usize| match books.refunds[number].1 {
            Ending::Succeeded => vec![RefundState::Pending, RefundState::Succeeded],
            Ending::Failed => vec![RefundState::Pending, failed()],
            Ending::CameBack => vec![RefundState::Pending, RefundState::Succeeded, failed()],
        };
        let numbers: Vec<usize> = (0..books.refunds.len()).collect();
        let any_time = order.iter().map(|(which, when)| (*which.get(&numbers), Some(when)));
        for (turn, (number, when)) in any_time.chain(numbers.iter().map(|number| (*number, None))).enumerate() {
            let (states, id) = (truths(number), format!("psp_{number}"));
            let state = when.map_or_else(|| states.last().unwrap(), |when| when.get(&states)).clone();
            let event = ask(&format!("evt_{turn}"), Some(&id));
            let before = harness.refund(number).clone();
            harness.hear(&event);
            let questions = polling::begin(&mut harness.object_state, polling::Asker::Background, &at(NOW_MS + 1));
            let Some(question) = questions.iter().find(|question| is_about(question, &id)) else {
                prop_assert!(matches!(before.state, RefundState::Failed { .. }), "nobody asks about {:?}", before);
                continue;
            };
            answers::take(&mut harness.object_state, question, StatusReply::Refund(state), &at(NOW_MS + 1)).unwrap();
            harness.object_state.appended = Default::default();
            prop_assert!(rank(&harness.refund(number).state) >= rank(&before.state));
        }
        harness.agrees(&books);
    }
}

/// A modification that was made at Adyen's own desk comes with the payment's reference. Of a payment that nobody has heard of it says
/// only what could not be otherwise: what was captured had been authorised, and what was canceled is not held any more.
#[test]
fn news_of_another_kind_does_not_answer_a_call_that_nobody_knows_the_end_of() {
    for captures in [true, false] {
        let kinds = ["CAPTURE", "CANCELLATION", "REFUND"];
        for (kind, success) in kinds.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
            let mut harness = Harness::of(Provider::Adyen);
            let Operation::Payment(request) = pay(Provider::Adyen) else { panic!("it is a payment") };
            let request = PaymentRequest { capture: captures, ..*request };
            let derived = harness.run("lost", Operation::Payment(Box::new(request)), None);
            let before = harness.object_state.clone();
            let other = harness.told(kind, &derived, "psp_other", success, AMOUNT);
            let taken = ingest::take(&mut harness.object_state, &other, &at(NOW_MS + 1)).unwrap();
            let is_answered = harness.object_state.calls != before.calls;
            let (is_busy, answers) = match (kind, success) {
                // How the capture or the refund ended must be told again, once the payment is known.
                ("CAPTURE" | "REFUND", true) => (true, true),
                ("CANCELLATION", success) => (false, success),
                _ => (true, false),
            };
            assert_eq!((taken == Ingested::RetryLater, is_answered), (is_busy, answers), "{kind} {success}");
            if is_busy && !answers {
                assert_eq!(harness.object_state, before, "{kind} {success}");
            }
            // What does answer it comes late where it is canceled, and says nothing new where it is captured.
            harness.hear(&harness.told("AUTHORISATION", &derived, "psp_pay", true, AMOUNT));
            harness.wake();
            let payment = harness.object_state.resource.payment.as_ref().unwrap();
            let is_canceled = (kind, success) == ("CANCELLATION", true);
            let expected = match (is_canceled, captures) {
                (true, _) => "declined",
                (false, true) => "succeeded",
                (false, false) => "requires_capture",
            };
            assert_eq!(payment.status(), expected, "{kind} {success}");
        }
    }
}

/// A payment at Adyen whose first send nobody has heard of, taken up again a minute later; and what Adyen tells of it.
fn taken_up_again(answer_is_stored: bool) -> (Harness, Event, Run) {
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let mut harness =
        Harness { provider: Provider::Adyen, object_state, known: BTreeSet::new(), events: Vec::new() };
    let (me, pay) = (InstanceId("me".into()), command("pay", pay(Provider::Adyen)));
    let begun = begin(&mut harness.object_state, &pay, &me, &at(NOW_MS)).unwrap();
    let Begin::Run(token) = begun else { panic!("{begun:?}") };
    let mut run = Run::new(token, 0, &[]);
    let call = loop {
        if let Action::Send(call) = run.step(&mut harness.object_state, Input::Go, &at(NOW_MS)).unwrap() {
            break call;
        }
    };
    let unknown = Outcome::Unknown { answer_is_stored, reason: "lost".into() };
    let mut event = Input::Outcome(call.call_id, unknown);
    while !matches!(run.step(&mut harness.object_state, event, &at(NOW_MS)).unwrap(), Action::End(_)) {
        event = Input::Go;
    }
    let token = wake(&mut harness.object_state, &me, &at(LATER_MS)).pop().unwrap();
    let authorised = harness.told("AUTHORISATION", &call.provider_key, "psp_pay", true, AMOUNT);
    (harness, authorised, Run::new(token, 0, &[]))
}

const LATER_MS: u64 = NOW_MS + 60_000;

/// Goes on to the end, which needs no provider.
fn ends_paid(harness: &mut Harness, run: &mut Run, mut event: Input) {
    loop {
        match run.step(&mut harness.object_state, event, &at(LATER_MS)).unwrap() {
            Action::Again => event = Input::Go,
            Action::End(_) => break,
            other => panic!("{other:?}"),
        }
    }
    let payment = harness.object_state.resource.payment.as_ref().unwrap();
    assert_eq!(payment.state, PaymentState::Captured { amount_minor: AMOUNT });
}

#[test]
fn what_is_told_between_the_plan_and_the_send_is_the_answer_and_nothing_is_sent() {
    let (mut harness, authorised, mut run) = taken_up_again(false);
    let (mut before, mut planned) = (harness.object_state.clone(), run.clone());
    // The control: without the news it is sent.
    let sends = loop {
        match planned.step(&mut before, Input::Go, &at(LATER_MS)).unwrap() {
            Action::Again => run = planned.clone(),
            Action::Send(call) => break call.sends,
            other => panic!("{other:?}"),
        }
        harness.object_state = before.clone();
    };
    assert_eq!(sends, 2);
    harness.hear(&authorised);
    ends_paid(&mut harness, &mut run, Input::Go);
}

#[test]
fn what_is_told_during_a_look_up_is_the_answer() {
    let (mut harness, authorised, mut run) = taken_up_again(true);
    let call = loop {
        if let Action::LookUp(call) = run.step(&mut harness.object_state, Input::Go, &at(LATER_MS)).unwrap() {
            break call;
        }
    };
    harness.hear(&authorised);
    ends_paid(&mut harness, &mut run, Input::LookedUp(call.call_id, adyen::no_look_up()));
}

#[test]
fn what_is_told_before_the_answer_is_taken_in_comes_again() {
    let (mut harness, authorised, mut run) = taken_up_again(false);
    let call = loop {
        if let Action::Send(call) = run.step(&mut harness.object_state, Input::Go, &at(LATER_MS)).unwrap() {
            break call;
        }
    };
    let result = ProviderResult::Processing { payment: "psp_pay".into() };
    let received = Outcome::Definitive(ProviderReply { status: 200, result, request_id: None });
    run.step(&mut harness.object_state, Input::Outcome(call.call_id, received), &at(LATER_MS)).unwrap();
    harness.hear(&authorised);
    assert!(harness.known.is_empty(), "it was acknowledged, and nothing has come of it");
    while run.step(&mut harness.object_state, Input::Go, &at(LATER_MS)).unwrap() == Action::Again {}
    assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().state, PaymentState::Processing);
    harness.hear(&authorised);
    assert_eq!(
        harness.object_state.resource.payment.as_ref().unwrap().state,
        PaymentState::Captured { amount_minor: AMOUNT }
    );
}

#[test]
fn news_of_an_earlier_try_does_not_contradict_a_later_one() {
    let books = Books { payment_lost: false, refunds: Vec::new() };
    let mut harness = Harness::new(Provider::Adyen, &books);
    let about = |payment: &str| OperationNotice {
        provider_key: None,
        payment: payment.to_owned(),
        id: "psp_modification".to_owned(),
        amount_minor: AMOUNT,
        currency: "usd".to_owned(),
        success: true,
        reason: String::new(),
        undone: None,
        was_taken: false,
        at_ms: Some(NOW_MS),
        card: None,
    };
    let refunded = |payment: &str| EventKind::CancelOrRefund(about(payment));
    let voided = |payment: &str| EventKind::Cancellation(about(payment));
    let mut take = |news: EventKind| {
        let event = Event { provider: Provider::Adyen, news, ..ask("event", None) };
        ingest::take(&mut harness.object_state, &event, &at(NOW_MS)).unwrap()
    };
    assert_eq!(take(voided("psp_earlier")), Ingested::Applied);
    assert_eq!(take(EventKind::Capture(about("psp_pay"))), Ingested::Applied);
    assert!(matches!(take(voided("psp_pay")), Ingested::Contradiction { .. }), "the control");
    // Somebody gave it back in the Customer Area: told twice it counts once.
    assert_eq!(
        [take(refunded("psp_pay")), take(refunded("psp_pay"))],
        [Ingested::Applied, Ingested::Applied]
    );
    assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().refunded_elsewhere_minor, AMOUNT);
}
