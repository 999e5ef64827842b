//! What a provider tells of tries that are over: each has a row, and money on it is given back.

use super::{AMOUNT, Harness, PART, at, pay};
use crate::support::NOW_MS;
use once::alarm::{wake, wake_at};
use once::id::{InstanceId, ObjectId};
use paid_once::webhooks::{Event, EventKind, Ingested, OperationNotice};
use payments::engine::{ObjectState, Run};
use payments::payment::operation::{Operation, PaymentRequest};
use payments::payment::provider_event::Undone;
use payments::payment::result::{CallKind, ProviderResult, RemoteState};
use payments::payment::status_query::{Beside, RemoteRefund, StatusQuery, StatusReply};
use payments::payment::tries::{LateMoney, Stage};
use payments::payment::{Dispute, DisputeStatus, PaymentState, RefundState};
use payments::providers::Provider;
use payments::transitions::{answers, ingest, polling, try_rows};
use std::collections::BTreeSet;

/// An order whose first try was refused, and whose second one was paid. With the first one's derived key.
fn tried_twice(provider: Provider, capture: bool) -> (Harness, String) {
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let mut bench = Harness { provider, object_state, known: BTreeSet::new(), events: Vec::new() };
    let ask = || {
        let Operation::Payment(request) = pay(provider) else { panic!("it is a payment") };
        Operation::Payment(Box::new(PaymentRequest { capture, order_id: Some("order-1".into()), ..*request }))
    };
    let declined = ProviderResult::Declined {
        payment: Some("psp_first".into()),
        code: "card_declined".into(),
        decline_code: None,
        message: String::new(),
    };
    let first = bench.run("first", ask(), Some(declined));
    let paid = match capture {
        true => ProviderResult::Charged { payment: "psp_pay".into(), card: None },
        false => {
            ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card: None }
        }
    };
    bench.run("second", ask(), Some(paid));
    (bench, first)
}

impl Harness {
    fn of_first(&self, kind: &str, derived: &str, success: bool) -> Event {
        let mut event = self.told(kind, derived, "psp_first", success, AMOUNT);
        let (EventKind::Authorisation(told)
        | EventKind::Capture(told)
        | EventKind::Cancellation(told)
        | EventKind::Refund(told)) = &mut event.news
        else {
            panic!("{kind}")
        };
        told.payment = "psp_first".to_owned();
        event
    }

    fn takes(&mut self, event: &Event) -> Ingested {
        let taken = ingest::take(&mut self.object_state, event, &at(NOW_MS + 1)).unwrap();
        self.object_state.appended = Default::default();
        taken
    }

    /// The alarm drives what was begun to its call, which is answered so.
    fn drive_on(&mut self, result: ProviderResult) -> (CallKind, String, String) {
        for token in wake(&mut self.object_state, &InstanceId("me".into()), &at(NOW_MS + 1)) {
            self.drive(Run::new(token, 0, &[]), Some(result.clone()), NOW_MS + 1);
        }
        let call = self.object_state.calls.last().unwrap();
        (call.kind, call.request.path.clone(), call.provider_key.clone())
    }

    /// What Stripe answers while all is asked that an event about the first try gives cause to ask, and a dispute of it.
    fn asks(&mut self, refunds: &[RemoteRefund], dispute: Option<Dispute>) {
        let news = EventKind::Ask { refund: None, payment: Some("psp_first".into()), provider_key: None };
        let kind = "charge.updated".to_owned();
        let event = Event {
            event_id: "evt".into(),
            provider: Provider::Stripe,
            account: None,
            kind,
            news,
            is_unwritten: false,
        };
        assert_eq!(self.takes(&event), Ingested::Applied);
        let mut questions = polling::begin(&mut self.object_state, false, &at(NOW_MS + 1));
        while let Some(question) = questions.pop() {
            let truth = match &question {
                StatusQuery::Payment { .. } => {
                    let beside = Beside { is_disputed: dispute.is_some(), ..Beside::default() };
                    StatusReply::Payment(RemoteState::Captured { amount_minor: AMOUNT }, beside)
                }
                StatusQuery::Disputes { .. } => StatusReply::Disputes(dispute.clone().into_iter().collect()),
                StatusQuery::Refunds { .. } => {
                    StatusReply::Refunds { refunds: refunds.to_vec(), has_more: false }
                }
                other => panic!("{other:?}"),
            };
            questions
                .extend(answers::take(&mut self.object_state, &question, truth, &at(NOW_MS + 1)).unwrap());
        }
        assert_eq!(polling::questions(&self.object_state), [], "all is answered");
    }

    fn late(&self) -> &'static str {
        self.object_state.resource.tries[0].late.as_ref().map_or("none", |late| late.stage().as_str())
    }
}

#[test]
fn each_try_has_a_row_that_says_how_it_ended() {
    let (bench, first) = tried_twice(Provider::Adyen, true);
    let tries: Vec<_> = bench
        .object_state
        .resource
        .tries
        .iter()
        .map(|row| (row.attempt, row.provider_payment.as_deref(), row.status.as_str(), row.definitive))
        .collect();
    let expected =
        [(1, Some("psp_first"), "declined", Some(true)), (2, Some("psp_pay"), "succeeded", Some(true))];
    assert_eq!(tries, expected);
    assert_eq!(bench.object_state.resource.tries[0].provider_key, first);
    // Objects of before have no rows: they are made from the calls.
    let mut before = bench.object_state.clone();
    before.resource.tries.clear();
    try_rows::complete(&mut before);
    assert_eq!(before.resource.tries, bench.object_state.resource.tries);
}

#[test]
fn money_on_a_try_that_is_over_is_seen_and_given_back() {
    for capture in [false, true] {
        let (mut bench, first) = tried_twice(Provider::Adyen, capture);
        let before = bench.object_state.resource.payment.clone();
        let late = bench.of_first("AUTHORISATION", &first, true);
        assert_eq!(bench.late(), "none", "nobody has heard of it yet");
        assert!(matches!(bench.takes(&late), Ingested::Alert { .. }));
        assert_eq!(bench.takes(&late), Ingested::Applied, "it is begun once");
        let received = ProviderResult::Received { modification: "psp_back".into() };
        let refunded = ProviderResult::Refunded { refund: "psp_back".into(), settled: false };
        let (kind, path, derived) = bench.drive_on(if capture { refunded.clone() } else { received });
        let (expected, place) =
            if capture { (CallKind::Refund, "refunds") } else { (CallKind::Void, "cancels") };
        assert_eq!((kind, path), (expected, format!("/payments/psp_first/{place}")));
        assert_eq!(bench.late(), "pending");
        if !capture {
            // It cannot be canceled any more: it is refunded.
            bench.takes(&bench.of_first("CANCELLATION", &derived, false));
            let (kind, path, derived) = bench.drive_on(refunded);
            assert_eq!((kind, path.as_str()), (CallKind::Refund, "/payments/psp_first/refunds"));
            bench.takes(&bench.of_first("REFUND", &derived, true));
        } else {
            bench.takes(&bench.of_first("REFUND", &derived, true));
        }
        assert_eq!(bench.late(), "given_back");
        bench.takes(&bench.of_first("CAPTURE", &first, true));
        assert_eq!(bench.late(), "given_back", "nothing is begun for what was refunded");
        assert_eq!(bench.object_state.resource.payment, before, "the try that was paid is as it was");
        assert!(bench.object_state.resource.refunds.is_empty());
    }
}

#[test]
fn stripe_is_asked_about_a_try_that_is_over_and_gives_its_money_back() {
    let (mut bench, _) = tried_twice(Provider::Stripe, true);
    let news = EventKind::Ask { refund: None, payment: Some("psp_first".into()), provider_key: None };
    let kind = "payment_intent.succeeded".to_owned();
    let event = Event {
        event_id: "evt_1".into(),
        provider: Provider::Stripe,
        account: None,
        kind,
        news,
        is_unwritten: false,
    };
    assert_eq!(bench.takes(&event), Ingested::Applied);
    let [question] = &polling::begin(&mut bench.object_state, false, &at(NOW_MS + 1))[..] else {
        panic!("one is asked")
    };
    assert!(matches!(question, StatusQuery::Payment { id, .. } if id == "psp_first"));
    let truth = StatusReply::Payment(RemoteState::Captured { amount_minor: AMOUNT }, Beside::default());
    answers::take(&mut bench.object_state, question, truth, &at(NOW_MS + 1)).unwrap();
    assert!(bench.object_state.appended.facts.audit.iter().any(|record| record.action == "webhook.alert"));
    let done = ProviderResult::Refunded { refund: "re_1".into(), settled: true };
    let (kind, path, _) = bench.drive_on(done);
    assert_eq!((kind, path.as_str()), (CallKind::Refund, "/v1/refunds"));
    assert_eq!(bench.late(), "given_back");
    assert_eq!(polling::questions(&bench.object_state), []);
}

/// The first try's money was taken, and giving it back stands so.
fn late_at(provider: Provider, stage: Stage) -> Harness {
    let (mut bench, _) = tried_twice(provider, true);
    let late = LateMoney::new(AMOUNT, true, stage);
    bench.object_state.resource.tries[0].late = Some(late);
    bench
}

fn listed(id: &str, amount_minor: u64, state: RefundState) -> RemoteRefund {
    RemoteRefund { id: id.into(), amount_minor, state, provider_key: None, may_be_release: false }
}

fn failed() -> RefundState {
    RefundState::Failed { code: "expired_or_canceled_card".into(), message: String::new() }
}

#[test]
fn what_a_person_gives_back_at_stripe_that_was_refused_is_given_back() {
    let mut bench = late_at(Provider::Stripe, Stage::Refused);
    bench.asks(&[listed("re_1", AMOUNT, failed())], None);
    assert_eq!(bench.late(), "refused");
    let part = listed("re_2", PART, RefundState::Succeeded);
    bench.asks(&[listed("re_3", AMOUNT - PART, RefundState::Pending), part.clone()], None);
    assert_eq!(bench.late(), "refused", "a part is on its way");
    bench.asks(&[listed("re_3", AMOUNT - PART, RefundState::Succeeded), part.clone()], None);
    assert_eq!(bench.late(), "given_back");
    bench.asks(std::slice::from_ref(&part), None);
    assert_eq!(bench.late(), "given_back", "a list that lacks one says nothing");
    bench.asks(&[listed("re_3", AMOUNT - PART, failed()), part], None);
    assert_eq!(bench.late(), "refused", "it came back");
}

#[test]
fn what_a_bank_has_taken_back_for_good_is_given_back() {
    let dispute = |status| Dispute {
        id: "dp_1".into(),
        amount_minor: AMOUNT,
        status,
        withdrawn: status != DisputeStatus::Won,
        refundable: false,
        at_ms: None,
        began_as_inquiry: false,
        undefended_at_ms: None,
    };
    let mut bench = late_at(Provider::Stripe, Stage::Refused);
    for (status, expected) in [
        (DisputeStatus::Open, "refused"),
        (DisputeStatus::Won, "refused"),
        (DisputeStatus::Lost, "given_back"),
    ] {
        bench.asks(&[], Some(dispute(status)));
        assert_eq!(bench.late(), expected, "{status:?}");
    }
}

/// What the first try only held could not be canceled: that was refused.
fn held_and_refused(provider: Provider) -> Harness {
    let mut bench = tried_twice(provider, false).0;
    bench.object_state.resource.tries[0].late = Some(LateMoney::new(AMOUNT, false, Stage::Refused));
    bench
}

#[test]
fn what_was_only_held_and_is_not_any_more_is_given_back() {
    for (found, expected) in [
        (RemoteState::Authorized, "refused"),
        (RemoteState::Voided, "given_back"),
        (RemoteState::Expired, "given_back"),
    ] {
        let mut bench = held_and_refused(Provider::Stripe);
        polling::schedule(&mut bench.object_state, &at(NOW_MS));
        // Nobody tells of it: it is asked for in the course of time.
        let asked_at_ms = NOW_MS + 3 * 86_400_000;
        let mut questions = polling::begin(&mut bench.object_state, false, &at(asked_at_ms));
        questions.retain(|question| matches!(question, StatusQuery::Payment { id, .. } if id == "psp_first"));
        let [question] = &questions[..] else { panic!("{questions:?}") };
        let truth = StatusReply::Payment(found.clone(), Beside::default());
        let next = answers::take(&mut bench.object_state, question, truth, &at(asked_at_ms)).unwrap();
        assert_eq!((next, bench.late()), (None, expected), "{found:?}");
        let audit = &bench.object_state.appended.facts.audit;
        let is_told = audit.iter().any(|record| record.action == "try.given_back");
        assert_eq!(is_told, expected == "given_back");
    }
}

#[test]
fn a_hold_that_nobody_else_asks_for_is_watched_until_it_is_gone() {
    let mut bench = held_and_refused(Provider::Stripe);
    bench.object_state.resource.payment.as_mut().unwrap().state = PaymentState::Canceled;
    bench.object_state.resource.tries[1].status = "canceled".to_owned();
    polling::schedule(&mut bench.object_state, &at(NOW_MS));
    let watch = |bench: &Harness| bench.object_state.resource.payment.as_ref().unwrap().watch;
    assert!(watch(&bench).is_some());
    bench.object_state.resource.tries[0].late = Some(LateMoney::new(AMOUNT, false, Stage::GivenBack));
    polling::schedule(&mut bench.object_state, &at(NOW_MS));
    assert!(watch(&bench).is_none());
}

#[test]
fn a_person_who_looks_asks_about_the_money_of_an_earlier_try() {
    let mut bench = late_at(Provider::Stripe, Stage::Refused);
    ingest::ask_all(&mut bench.object_state, &at(NOW_MS + 1));
    let asked = polling::begin(&mut bench.object_state, false, &at(NOW_MS + 1));
    let is_it =
        |question: &StatusQuery| matches!(question, StatusQuery::Payment { id, .. } if id == "psp_first");
    assert!(asked.iter().any(is_it), "{asked:?}");
}

#[test]
fn what_a_person_gives_back_at_adyen_is_given_back() {
    for stage in [Stage::Received, Stage::Refused] {
        let mut bench = late_at(Provider::Adyen, stage);
        let before = bench.late();
        let (most, rest) = (("hand_1", AMOUNT - 1), ("hand_2", 1));
        for (part, expected) in [(most, before), (most, before), (rest, "given_back")] {
            let event = bench.by_hand(part, true);
            assert_eq!((bench.takes(&event), bench.late()), (Ingested::Applied, expected));
        }
        let came_back = bench.by_hand(rest, false);
        assert!(matches!(bench.takes(&came_back), Ingested::Alert { .. }), "a person must see it");
        assert_eq!(bench.late(), before, "what came back does not count");
        let other_money = Event { news: in_euros(bench.by_hand(("hand_3", 1), true).news), ..came_back };
        assert_eq!((bench.takes(&other_money), bench.late()), (Ingested::Applied, before));
    }
}

fn in_euros(news: EventKind) -> EventKind {
    let EventKind::Refund(told) = news else { unreachable!() };
    EventKind::Refund(OperationNotice { currency: "eur".into(), ..told })
}

impl Harness {
    /// A person's refund of the first try's money in the Customer Area.
    fn by_hand(&self, (id, amount_minor): (&str, u64), success: bool) -> Event {
        let mut event = self.of_first("REFUND", "", success);
        let EventKind::Refund(told) = &mut event.news else { unreachable!() };
        (told.provider_key, told.id, told.amount_minor) = (None, id.to_owned(), amount_minor);
        event
    }
}

#[test]
fn what_a_person_has_given_back_at_adyen_stays_so_whatever_becomes_of_our_own() {
    let refused = ProviderResult::Rejected {
        payment: None,
        code: "insufficient_balance".into(),
        message: String::new(),
        found: None,
    };
    let received = ProviderResult::Refunded { refund: "psp_back".into(), settled: false };
    for (is_before, ours) in [(true, refused), (true, received.clone()), (false, received)] {
        let (mut bench, first) = tried_twice(Provider::Adyen, true);
        bench.takes(&bench.of_first("AUTHORISATION", &first, true));
        let all = bench.by_hand(("hand_1", AMOUNT), true);
        if is_before {
            assert_eq!((bench.takes(&all), bench.late()), (Ingested::Applied, "given_back"));
        }
        let (_, _, derived) = bench.drive_on(ours);
        if !is_before {
            assert_eq!((bench.takes(&all), bench.late()), (Ingested::Applied, "given_back"));
        }
        let not_done = bench.of_first("REFUND", &derived, false);
        assert_eq!((bench.takes(&not_done), bench.late()), (Ingested::Applied, "given_back"));
        let came_back = bench.by_hand(("hand_1", AMOUNT), false);
        assert!(matches!(bench.takes(&came_back), Ingested::Alert { .. }));
        assert_eq!(bench.late(), "refused");
    }
}

#[test]
fn what_was_given_back_and_may_be_repeated_is_given_back_by_nobody_else_yet() {
    let (mut bench, first) = tried_twice(Provider::Adyen, true);
    bench.takes(&bench.of_first("AUTHORISATION", &first, true));
    let (_, _, derived) =
        bench.drive_on(ProviderResult::Refunded { refund: "psp_back".into(), settled: false });
    bench.takes(&bench.of_first("REFUND", &derived, true));
    let mut failed = bench.of_first("REFUND", &derived, false);
    let EventKind::Refund(told) = &mut failed.news else { unreachable!() };
    told.undone = Some(Undone::MayBeRepeated);
    let Ingested::Alert { detail } = bench.takes(&failed) else { panic!("a person is told") };
    assert!(detail.contains("may be repeated"), "{detail}");
    assert_eq!(bench.late(), "pending");
    bench.takes(&bench.of_first("REFUND", &derived, true));
    assert_eq!(bench.late(), "given_back");
}

#[test]
fn a_hold_that_a_person_has_canceled_at_adyen_is_not_refunded_when_our_cancel_is_refused() {
    let (mut bench, first) = tried_twice(Provider::Adyen, false);
    bench.takes(&bench.of_first("AUTHORISATION", &first, true));
    let (_, _, derived) = bench.drive_on(ProviderResult::Received { modification: "psp_back".into() });
    bench.takes(&bench.of_first("CANCELLATION", &first, true));
    assert_eq!(bench.late(), "given_back");
    let keys = bench.object_state.keys.len();
    let not_done = bench.of_first("CANCELLATION", &derived, false);
    assert_eq!((bench.takes(&not_done), bench.late()), (Ingested::Applied, "given_back"));
    assert_eq!(bench.object_state.keys.len(), keys, "nothing is begun");
}

#[test]
fn what_a_provider_does_not_tell_the_end_of_is_left_to_a_person_after_two_weeks() {
    const UNTOLD_MS: u64 = 14 * 86_400_000;
    let (mut bench, first) = tried_twice(Provider::Adyen, true);
    bench.takes(&bench.of_first("AUTHORISATION", &first, true));
    let refunded = ProviderResult::Refunded { refund: "psp_back".into(), settled: false };
    let (_, _, derived) = bench.drive_on(refunded);
    let due_ms = NOW_MS + 1 + UNTOLD_MS;
    assert!(wake_at(&bench.object_state, &at(NOW_MS + 1)).is_some_and(|at_ms| at_ms <= due_ms));
    for (now_ms, expected) in [(due_ms - 1, "pending"), (due_ms, "refused"), (due_ms + 1, "refused")] {
        wake(&mut bench.object_state, &InstanceId("me".into()), &at(now_ms));
        assert_eq!(bench.late(), expected);
    }
    let audit = &bench.object_state.appended.facts.audit;
    let actions: Vec<_> = audit.iter().map(|record| record.action).collect();
    assert_eq!(actions.iter().filter(|action| **action == "webhook.alert").count(), 1, "{actions:?}");
    assert!(actions.contains(&"try.give_back_refused"));
    bench.takes(&bench.of_first("REFUND", &derived, true));
    assert_eq!(bench.late(), "given_back", "what is told at last counts");
}

/// Money of which an older release has kept how giving it back stands, and not since when.
fn of_an_older_release(stage: Stage) -> Harness {
    let (mut bench, first) = tried_twice(Provider::Adyen, true);
    bench.takes(&bench.of_first("AUTHORISATION", &first, true));
    bench.drive_on(ProviderResult::Refunded { refund: "psp_back".into(), settled: false });
    bench.object_state.appended = Default::default();
    bench.object_state.resource.tries[0].late = Some(LateMoney::new(AMOUNT, true, stage));
    bench
}

impl Harness {
    fn wakes_at(&mut self, now_ms: u64) -> usize {
        wake(&mut self.object_state, &InstanceId("me".into()), &at(now_ms));
        let audit = std::mem::take(&mut self.object_state.appended).facts.audit;
        audit.iter().filter(|record| record.action == "webhook.alert").count()
    }
}

#[test]
fn what_an_older_release_has_left_without_a_time_counts_since_its_operation_ended() {
    let due_ms = NOW_MS + 1 + 14 * 86_400_000;
    for stage in [Stage::Begun, Stage::Received] {
        let mut bench = of_an_older_release(stage);
        assert!(wake_at(&bench.object_state, &at(NOW_MS + 1)).is_some_and(|at_ms| at_ms <= due_ms));
        assert_eq!((bench.wakes_at(due_ms - 1), bench.late()), (0, "pending"), "{stage:?}");
        assert_eq!((bench.wakes_at(due_ms), bench.late()), (1, "refused"), "{stage:?}");
    }
}

#[test]
fn what_an_older_release_has_left_refused_is_told_of_once() {
    let mut bench = of_an_older_release(Stage::Refused);
    assert!(wake_at(&bench.object_state, &at(NOW_MS + 1)).is_some_and(|at_ms| at_ms <= NOW_MS + 1));
    assert_eq!([1, 2].map(|later_ms| bench.wakes_at(NOW_MS + later_ms)), [1, 0]);
}
