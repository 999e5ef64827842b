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
use payments::transitions::polling::{self, Asker};
use payments::transitions::{answers, ingest, try_rows};
use std::collections::BTreeSet;

/// An order whose first try was refused, and whose second one was paid. With the first one's derived key.
pub(super) fn tried_twice(provider: Provider, capture: bool) -> (Harness, String) {
    let object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let mut harness = Harness { provider, object_state, known: BTreeSet::new(), events: Vec::new() };
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
    let first = harness.run("first", ask(), Some(declined));
    let paid = match capture {
        true => ProviderResult::Charged { payment: "psp_pay".into(), card: None },
        false => {
            ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card: None }
        }
    };
    harness.run("second", ask(), Some(paid));
    (harness, first)
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
        self.takes_and_records(event).0
    }

    /// What is said of an event, and what is written down.
    fn takes_and_records(&mut self, event: &Event) -> (Ingested, Vec<&'static str>) {
        let taken = ingest::take(&mut self.object_state, event, &at(NOW_MS + 1)).unwrap();
        let appended = std::mem::take(&mut self.object_state.appended);
        (taken, appended.facts.audit.iter().map(|record| record.action).collect())
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
        self.asks_of((AMOUNT, 0), refunds, dispute);
    }

    /// The same where so much was captured, and so much is still held.
    pub(super) fn asks_of(
        &mut self,
        (amount_minor, held_minor): (u64, u64),
        refunds: &[RemoteRefund],
        dispute: Option<Dispute>,
    ) {
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
        let mut questions = polling::begin(&mut self.object_state, Asker::Background, &at(NOW_MS + 1));
        while let Some(question) = questions.pop() {
            let status_reply = match &question {
                StatusQuery::Payment { .. } => {
                    let beside = Beside { is_disputed: dispute.is_some(), held_minor, ..Beside::default() };
                    StatusReply::Payment(RemoteState::Captured { amount_minor }, beside)
                }
                StatusQuery::Disputes { .. } => StatusReply::Disputes(dispute.clone().into_iter().collect()),
                StatusQuery::Refunds { .. } => {
                    StatusReply::Refunds { refunds: refunds.to_vec(), has_more: false }
                }
                other => panic!("{other:?}"),
            };
            questions.extend(
                answers::take(&mut self.object_state, &question, status_reply, &at(NOW_MS + 1)).unwrap(),
            );
        }
        assert_eq!(polling::questions(&self.object_state), [], "all is answered");
    }

    pub(super) fn late(&self) -> &'static str {
        self.object_state.resource.tries[0].late.as_ref().map_or("none", |late| late.stage().as_str())
    }
}

#[test]
fn each_try_has_a_row_that_says_how_it_ended() {
    let (harness, first) = tried_twice(Provider::Adyen, true);
    let tries: Vec<_> = harness
        .object_state
        .resource
        .tries
        .iter()
        .map(|row| (row.attempt, row.provider_payment.as_deref(), row.status.as_str(), row.definitive))
        .collect();
    let expected =
        [(1, Some("psp_first"), "declined", Some(true)), (2, Some("psp_pay"), "succeeded", Some(true))];
    assert_eq!(tries, expected);
    assert_eq!(harness.object_state.resource.tries[0].provider_key, first);
    // Objects of before have no rows: they are made from the calls.
    let mut before = harness.object_state.clone();
    before.resource.tries.clear();
    try_rows::complete(&mut before);
    assert_eq!(before.resource.tries, harness.object_state.resource.tries);
}

#[test]
fn money_on_a_try_that_is_over_is_seen_and_given_back() {
    for capture in [false, true] {
        let (mut harness, first) = tried_twice(Provider::Adyen, capture);
        let before = harness.object_state.resource.payment.clone();
        let late = harness.of_first("AUTHORISATION", &first, true);
        assert_eq!(harness.late(), "none", "nobody has heard of it yet");
        assert!(matches!(harness.takes(&late), Ingested::Alert { .. }));
        assert_eq!(harness.takes(&late), Ingested::Applied, "it is begun once");
        let received = ProviderResult::Received { modification: "psp_back".into() };
        let refunded = ProviderResult::Refunded { refund: "psp_back".into(), settled: false };
        let (kind, path, derived) = harness.drive_on(if capture { refunded.clone() } else { received });
        let (expected, place) =
            if capture { (CallKind::Refund, "refunds") } else { (CallKind::Void, "cancels") };
        assert_eq!((kind, path), (expected, format!("/payments/psp_first/{place}")));
        assert_eq!(harness.late(), "pending");
        if !capture {
            // It cannot be canceled any more: it is refunded.
            harness.takes(&harness.of_first("CANCELLATION", &derived, false));
            let (kind, path, derived) = harness.drive_on(refunded);
            assert_eq!((kind, path.as_str()), (CallKind::Refund, "/payments/psp_first/refunds"));
            harness.takes(&harness.of_first("REFUND", &derived, true));
        } else {
            harness.takes(&harness.of_first("REFUND", &derived, true));
        }
        assert_eq!(harness.late(), "given_back");
        harness.takes(&harness.of_first("CAPTURE", &first, true));
        assert_eq!(harness.late(), "given_back", "nothing is begun for what was refunded");
        assert_eq!(harness.object_state.resource.payment, before, "the try that was paid is as it was");
        assert!(harness.object_state.resource.refunds.is_empty());
    }
}

#[test]
fn stripe_is_asked_about_a_try_that_is_over_and_gives_its_money_back() {
    let (mut harness, _) = tried_twice(Provider::Stripe, true);
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
    assert_eq!(harness.takes(&event), Ingested::Applied);
    let [question] = &polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1))[..]
    else {
        panic!("one is asked")
    };
    assert!(matches!(question, StatusQuery::Payment { id, .. } if id == "psp_first"));
    let status_reply =
        StatusReply::Payment(RemoteState::Captured { amount_minor: AMOUNT }, Beside::default());
    answers::take(&mut harness.object_state, question, status_reply, &at(NOW_MS + 1)).unwrap();
    assert!(harness.object_state.appended.facts.audit.iter().any(|record| record.action == "webhook.alert"));
    let done = ProviderResult::Refunded { refund: "re_1".into(), settled: true };
    let (kind, path, _) = harness.drive_on(done);
    assert_eq!((kind, path.as_str()), (CallKind::Refund, "/v1/refunds"));
    assert_eq!(harness.late(), "given_back");
    assert_eq!(polling::questions(&harness.object_state), []);
}

/// The first try's money was taken, and giving it back stands so.
pub(super) fn late_at(provider: Provider, stage: Stage) -> Harness {
    let (mut harness, _) = tried_twice(provider, true);
    let late = LateMoney::new(AMOUNT, true, stage);
    harness.object_state.resource.tries[0].late = Some(late);
    harness
}

pub(super) fn listed(id: &str, amount_minor: u64, state: RefundState) -> RemoteRefund {
    RemoteRefund { id: id.into(), amount_minor, state, provider_key: None, may_be_release: false }
}

fn failed() -> RefundState {
    RefundState::Failed { code: "expired_or_canceled_card".into(), message: String::new() }
}

#[test]
fn what_a_person_gives_back_at_stripe_that_was_refused_is_given_back() {
    let mut harness = late_at(Provider::Stripe, Stage::Refused);
    harness.asks(&[listed("re_1", AMOUNT, failed())], None);
    assert_eq!(harness.late(), "refused");
    let part = listed("re_2", PART, RefundState::Succeeded);
    harness.asks(&[listed("re_3", AMOUNT - PART, RefundState::Pending), part.clone()], None);
    assert_eq!(harness.late(), "refused", "a part is on its way");
    harness.asks(&[listed("re_3", AMOUNT - PART, RefundState::Succeeded), part.clone()], None);
    assert_eq!(harness.late(), "given_back");
    harness.asks(std::slice::from_ref(&part), None);
    assert_eq!(harness.late(), "given_back", "a list that lacks one says nothing");
    harness.asks(&[listed("re_3", AMOUNT - PART, failed()), part], None);
    assert_eq!(harness.late(), "refused", "it came back");
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
    let mut harness = late_at(Provider::Stripe, Stage::Refused);
    for (status, expected) in [
        (DisputeStatus::Open, "refused"),
        (DisputeStatus::Won, "refused"),
        (DisputeStatus::Lost, "given_back"),
    ] {
        harness.asks(&[], Some(dispute(status)));
        assert_eq!(harness.late(), expected, "{status:?}");
    }
}

/// What the first try only held could not be canceled: that was refused.
fn held_and_refused(provider: Provider) -> Harness {
    let mut harness = tried_twice(provider, false).0;
    harness.object_state.resource.tries[0].late = Some(LateMoney::new(AMOUNT, false, Stage::Refused));
    harness
}

#[test]
fn what_was_only_held_and_is_not_any_more_is_given_back() {
    for (found, expected) in [
        (RemoteState::Authorized, "refused"),
        (RemoteState::Voided, "given_back"),
        (RemoteState::Expired, "given_back"),
    ] {
        let mut harness = held_and_refused(Provider::Stripe);
        polling::schedule(&mut harness.object_state, &at(NOW_MS));
        // Nobody tells of it: it is asked for in the course of time.
        let asked_at_ms = NOW_MS + 3 * 86_400_000;
        let mut questions = polling::begin(&mut harness.object_state, Asker::Background, &at(asked_at_ms));
        questions.retain(|question| matches!(question, StatusQuery::Payment { id, .. } if id == "psp_first"));
        let [question] = &questions[..] else { panic!("{questions:?}") };
        let status_reply = StatusReply::Payment(found.clone(), Beside::default());
        let next =
            answers::take(&mut harness.object_state, question, status_reply, &at(asked_at_ms)).unwrap();
        assert_eq!((next, harness.late()), (None, expected), "{found:?}");
        let audit = &harness.object_state.appended.facts.audit;
        let is_told = audit.iter().any(|record| record.action == "try.given_back");
        assert_eq!(is_told, expected == "given_back");
    }
}

#[test]
fn a_hold_that_nobody_else_asks_for_is_watched_until_it_is_gone() {
    let mut harness = held_and_refused(Provider::Stripe);
    harness.object_state.resource.payment.as_mut().unwrap().state = PaymentState::Canceled;
    harness.object_state.resource.tries[1].status = "canceled".to_owned();
    polling::schedule(&mut harness.object_state, &at(NOW_MS));
    let watch = |harness: &Harness| harness.object_state.resource.payment.as_ref().unwrap().watch;
    assert!(watch(&harness).is_some());
    harness.object_state.resource.tries[0].late = Some(LateMoney::new(AMOUNT, false, Stage::GivenBack));
    polling::schedule(&mut harness.object_state, &at(NOW_MS));
    assert!(watch(&harness).is_none());
}

#[test]
fn a_person_who_looks_asks_about_the_money_of_an_earlier_try() {
    let mut harness = late_at(Provider::Stripe, Stage::Refused);
    ingest::ask_all(&mut harness.object_state, &at(NOW_MS + 1));
    let asked = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
    let is_it =
        |question: &StatusQuery| matches!(question, StatusQuery::Payment { id, .. } if id == "psp_first");
    assert!(asked.iter().any(is_it), "{asked:?}");
}

#[test]
fn what_a_person_gives_back_at_adyen_is_given_back() {
    for stage in [Stage::Received, Stage::Refused] {
        let mut harness = late_at(Provider::Adyen, stage);
        let before = harness.late();
        let (most, rest) = (("hand_1", AMOUNT - 1), ("hand_2", 1));
        for (part, expected) in [(most, before), (most, before), (rest, "given_back")] {
            let event = harness.by_hand(part, true);
            assert_eq!((harness.takes(&event), harness.late()), (Ingested::Applied, expected));
        }
        let came_back = harness.by_hand(rest, false);
        let undone = if stage == Stage::Refused { "try.give_back_refused" } else { "try.give_back_undone" };
        let (taken, records) = harness.takes_and_records(&came_back);
        assert!(matches!(taken, Ingested::Alert { .. }), "a person must see it");
        assert_eq!(records, [undone, "webhook.alert"], "and the shop is told");
        assert_eq!(harness.late(), before, "what came back does not count");
        let other_money = Event { news: in_euros(harness.by_hand(("hand_3", 1), true).news), ..came_back };
        assert_eq!((harness.takes(&other_money), harness.late()), (Ingested::Applied, before));
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
        let (mut harness, first) = tried_twice(Provider::Adyen, true);
        harness.takes(&harness.of_first("AUTHORISATION", &first, true));
        let all = harness.by_hand(("hand_1", AMOUNT), true);
        if is_before {
            assert_eq!((harness.takes(&all), harness.late()), (Ingested::Applied, "given_back"));
        }
        let (_, _, derived) = harness.drive_on(ours);
        if !is_before {
            assert_eq!((harness.takes(&all), harness.late()), (Ingested::Applied, "given_back"));
        }
        let not_done = harness.of_first("REFUND", &derived, false);
        assert_eq!((harness.takes(&not_done), harness.late()), (Ingested::Applied, "given_back"));
        let came_back = harness.by_hand(("hand_1", AMOUNT), false);
        assert!(matches!(harness.takes(&came_back), Ingested::Alert { .. }));
        assert_eq!(harness.late(), "refused");
    }
}

#[test]
fn what_was_given_back_and_may_be_repeated_is_given_back_by_nobody_else_yet() {
    let (mut harness, first) = tried_twice(Provider::Adyen, true);
    harness.takes(&harness.of_first("AUTHORISATION", &first, true));
    let (_, _, derived) =
        harness.drive_on(ProviderResult::Refunded { refund: "psp_back".into(), settled: false });
    harness.takes(&harness.of_first("REFUND", &derived, true));
    let mut failed = harness.of_first("REFUND", &derived, false);
    let EventKind::Refund(told) = &mut failed.news else { unreachable!() };
    told.undone = Some(Undone::MayBeRepeated);
    let (Ingested::Alert { detail }, records) = harness.takes_and_records(&failed) else {
        panic!("a person is told")
    };
    assert!(detail.contains("may be repeated"), "{detail}");
    assert_eq!(records, ["try.give_back_undone", "webhook.alert"], "and so is the shop");
    assert_eq!(harness.late(), "pending");
    harness.takes(&harness.of_first("REFUND", &derived, true));
    assert_eq!(harness.late(), "given_back");
}

#[test]
fn a_hold_that_a_person_has_canceled_at_adyen_is_not_refunded_when_our_cancel_is_refused() {
    let (mut harness, first) = tried_twice(Provider::Adyen, false);
    harness.takes(&harness.of_first("AUTHORISATION", &first, true));
    let (_, _, derived) = harness.drive_on(ProviderResult::Received { modification: "psp_back".into() });
    harness.takes(&harness.of_first("CANCELLATION", &first, true));
    assert_eq!(harness.late(), "given_back");
    let keys = harness.object_state.keys.len();
    let not_done = harness.of_first("CANCELLATION", &derived, false);
    assert_eq!((harness.takes(&not_done), harness.late()), (Ingested::Applied, "given_back"));
    assert_eq!(harness.object_state.keys.len(), keys, "nothing is begun");
}

#[test]
fn what_a_provider_does_not_tell_the_end_of_is_left_to_a_person_after_two_weeks() {
    const UNTOLD_MS: u64 = 14 * 86_400_000;
    let (mut harness, first) = tried_twice(Provider::Adyen, true);
    harness.takes(&harness.of_first("AUTHORISATION", &first, true));
    let refunded = ProviderResult::Refunded { refund: "psp_back".into(), settled: false };
    let (_, _, derived) = harness.drive_on(refunded);
    let due_ms = NOW_MS + 1 + UNTOLD_MS;
    assert!(wake_at(&harness.object_state, &at(NOW_MS + 1)).is_some_and(|at_ms| at_ms <= due_ms));
    for (now_ms, expected) in [(due_ms - 1, "pending"), (due_ms, "refused"), (due_ms + 1, "refused")] {
        wake(&mut harness.object_state, &InstanceId("me".into()), &at(now_ms));
        assert_eq!(harness.late(), expected);
    }
    let audit = &harness.object_state.appended.facts.audit;
    let actions: Vec<_> = audit.iter().map(|record| record.action).collect();
    assert_eq!(actions.iter().filter(|action| **action == "webhook.alert").count(), 1, "{actions:?}");
    assert!(actions.contains(&"try.give_back_refused"));
    harness.takes(&harness.of_first("REFUND", &derived, true));
    assert_eq!(harness.late(), "given_back", "what is told at last counts");
}

/// Money of which an older release has kept how giving it back stands, and not since when.
fn of_an_older_release(stage: Stage) -> Harness {
    let (mut harness, first) = tried_twice(Provider::Adyen, true);
    harness.takes(&harness.of_first("AUTHORISATION", &first, true));
    harness.drive_on(ProviderResult::Refunded { refund: "psp_back".into(), settled: false });
    harness.object_state.appended = Default::default();
    harness.object_state.resource.tries[0].late = Some(LateMoney::new(AMOUNT, true, stage));
    harness
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
        let mut harness = of_an_older_release(stage);
        assert!(wake_at(&harness.object_state, &at(NOW_MS + 1)).is_some_and(|at_ms| at_ms <= due_ms));
        assert_eq!((harness.wakes_at(due_ms - 1), harness.late()), (0, "pending"), "{stage:?}");
        assert_eq!((harness.wakes_at(due_ms), harness.late()), (1, "refused"), "{stage:?}");
    }
}

#[test]
fn what_an_older_release_has_left_refused_is_told_of_once() {
    let mut harness = of_an_older_release(Stage::Refused);
    assert!(wake_at(&harness.object_state, &at(NOW_MS + 1)).is_some_and(|at_ms| at_ms <= NOW_MS + 1));
    assert_eq!([1, 2].map(|later_ms| harness.wakes_at(NOW_MS + later_ms)), [1, 0]);
}
