//! Refunds at Adyen that fail after they have succeeded, and that Adyen repeats by itself.

use super::*;
use once::flow::Flow as _;
use payments::engine::Payments;
use payments::payment::provider_event::Undone;
use payments::payment::records::AuditRecord;
use payments::transitions::by_hand::{self, RECAPTURES_END_MS};

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// A payment of which all that was taken is refunded, as far as Adyen has told, and the refund's derived key.
fn refunding(answered: bool) -> (Harness, String) {
    let mut harness = Harness::of(Provider::Adyen);
    let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
    harness.run("pay", pay(Provider::Adyen), Some(charged));
    let answer = ProviderResult::Refunded { refund: "psp_refund".into(), settled: false };
    let derived = harness.run("refund", refund_of(AMOUNT), answered.then_some(answer));
    (harness, derived)
}

fn refund_of(amount: u64) -> Operation {
    let reason = RefundReason::RequestedByCustomer;
    Operation::Refund(RefundRequest { amount: AmountMinor::new(amount), reason, seen: None })
}

impl Harness {
    fn of_refund(&self, kind: &str, derived: &str, minute: u64) -> Event {
        let undone = match kind {
            "REFUND_FAILED" => Some(Undone::MayBeRepeated),
            "REFUNDED_REVERSED" => Some(Undone::ForGood),
            _ => None,
        };
        let mut event = self.told(kind, derived, "psp_refund", undone.is_none(), AMOUNT);
        if let EventKind::Refund(told) = &mut event.news {
            (told.at_ms, told.undone) = (Some(NOW_MS + minute * 60_000), undone);
        }
        event.event_id = format!("{}:{minute}", event.event_id);
        event
    }

    /// What the object makes of it, and the actions that it writes down.
    fn taken(&mut self, event: &Event) -> (Ingested, Vec<&'static str>) {
        let taken = ingest::take(&mut self.object_state, event, &at(NOW_MS + 1)).unwrap();
        Payments::verify(&self.object_state).unwrap();
        (taken, self.recorded())
    }

    fn recorded(&mut self) -> Vec<&'static str> {
        let audit = std::mem::take(&mut self.object_state.appended).facts.audit;
        let of_refund = |record: &AuditRecord| record.action.starts_with("refund.").then_some(record.action);
        audit.iter().filter_map(of_refund).collect()
    }

    fn left(&self) -> u64 {
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        payment.refundable_minor(&self.object_state.resource.refunds)
    }

    /// The alarm of that time.
    fn wake_at(&mut self, now_ms: u64) {
        wake(&mut self.object_state, &InstanceId("me".into()), &at(now_ms));
    }
}

/// In its Customer Area Adyen gives back parts of three decimals: what they leave must be refundable here.
#[test]
fn a_part_at_adyen_need_not_end_as_stripe_wants_it() {
    for (provider, is_refused) in [(Provider::Adyen, false), (Provider::Stripe, true)] {
        let mut harness = Harness::of(provider);
        let charged = ProviderResult::Charged { payment: "their_pay".into(), card: None };
        harness.run("pay", pay(provider), Some(charged));
        harness.object_state.resource.payment.as_mut().unwrap().currency = Currency::parse("kwd").unwrap();
        let asked = command("refund", refund_of(1_003));
        let begun = begin(&mut harness.object_state, &asked, &InstanceId("me".into()), &at(NOW_MS)).unwrap();
        assert_eq!(matches!(begun, Begin::Refused(_)), is_refused, "{provider:?}: {begun:?}");
    }
}

#[test]
fn a_refund_that_fails_and_is_made_again_ends_where_the_books_stand_in_any_order() {
    let heard = [1, 2, 3].into_iter().flat_map(|heard| ORDERS.map(|order| (order, heard)));
    for ((order, heard), answered) in heard.flat_map(|heard| [(heard, true), (heard, false)]) {
        let (mut harness, derived) = refunding(answered);
        let events = [
            harness.of_refund("REFUND", &derived, 1),
            harness.of_refund("REFUND_FAILED", &derived, 2),
            harness.of_refund("REFUND", &derived, 3),
        ];
        let mut newest = 0;
        for number in order.into_iter().take(heard) {
            newest = newest.max(number);
            for _ in 0..2 {
                harness.hear(&events[number]);
                harness.wake();
            }
            harness.hear(&events[number]);
            let status = if newest == 1 { "pending" } else { "succeeded" };
            assert_eq!(harness.refund(0).status(), status, "{order:?} {number} {answered}");
            assert_eq!(harness.left(), 0, "what Adyen may repeat is not given back by us");
        }
    }
}

#[test]
fn a_refund_that_adyen_repeats_no_more_has_failed_and_its_amount_is_free() {
    let (mut harness, derived) = refunding(true);
    let (taken, recorded) = harness.taken(&harness.of_refund("REFUND", &derived, 1));
    assert_eq!((taken, recorded), (Ingested::Applied, vec!["refund.succeeded"]));
    let (taken, recorded) = harness.taken(&harness.of_refund("REFUND_FAILED", &derived, 2));
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(recorded, ["refund.undone"]);
    let before = harness.object_state.clone();
    let (taken, recorded) = harness.taken(&harness.of_refund("REFUND", &derived, 3));
    assert_eq!((taken, recorded), (Ingested::Applied, vec!["refund.repeated"]));
    harness.object_state = before;
    let until_ms = NOW_MS + 1 + RECAPTURES_END_MS;
    assert!(once::alarm::wake_at(&harness.object_state, &at(NOW_MS + 1)).unwrap() <= until_ms);
    harness.wake_at(until_ms - 1);
    assert_eq!((harness.refund(0).status(), harness.left()), ("pending", 0));
    harness.wake_at(until_ms);
    assert_eq!((harness.refund(0).status(), harness.left()), ("failed", AMOUNT));
    assert_eq!(harness.recorded(), ["refund.failed"], "of which a settlement file makes its line");
    // Adyen makes it after all: it counts, and a person sees it.
    let (taken, recorded) = harness.taken(&harness.of_refund("REFUND", &derived, 3));
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!((recorded, harness.left()), (vec!["refund.succeeded"], 0));
}

#[test]
fn a_refund_that_is_made_again_although_its_amount_was_given_back_meanwhile_is_counted_and_seen() {
    let (mut harness, derived) = refunding(true);
    harness.hear(&harness.of_refund("REFUND", &derived, 1));
    harness.hear(&harness.of_refund("REFUND_FAILED", &derived, 2));
    harness.wake_at(NOW_MS + 1 + RECAPTURES_END_MS);
    harness.object_state.appended = Default::default();
    let second = ProviderResult::Refunded { refund: "psp_second".into(), settled: false };
    harness.run("second", refund_of(AMOUNT - PART), Some(second));
    let (taken, _) = harness.taken(&harness.of_refund("REFUND", &derived, 3));
    let Ingested::Alert { detail } = taken else { panic!("{taken:?}") };
    assert!(detail.ends_with("given back meanwhile"), "{detail}");
    let elsewhere_minor = harness.object_state.resource.payment.as_ref().unwrap().refunded_elsewhere_minor;
    assert_eq!((harness.refund(0).status(), elsewhere_minor, harness.left()), ("failed", AMOUNT, 0));
    // And that comes back in turn.
    harness.taken(&harness.of_refund("REFUND_FAILED", &derived, 4));
    assert_eq!((harness.refund(0).status(), harness.left()), ("failed", 0), "it may be made again");
    harness.wake_at(NOW_MS + 1 + 2 * RECAPTURES_END_MS);
    assert_eq!((harness.refund(0).status(), harness.left()), ("failed", PART));
}

#[test]
fn a_refund_that_comes_back_for_good_is_free_at_once() {
    let (mut harness, derived) = refunding(true);
    harness.hear(&harness.of_refund("REFUND", &derived, 1));
    harness.hear(&harness.of_refund("REFUNDED_REVERSED", &derived, 2));
    harness.hear(&harness.of_refund("REFUND", &derived, 1));
    assert_eq!((harness.refund(0).status(), harness.left()), ("failed", AMOUNT));
}

#[test]
fn what_adyen_may_repeat_is_not_settled_by_hand() {
    let (mut harness, derived) = refunding(true);
    harness.hear(&harness.of_refund("REFUND", &derived, 1));
    harness.hear(&harness.of_refund("REFUND_FAILED", &derived, 2));
    let call = harness.object_state.calls.last().unwrap();
    assert_eq!(by_hand::untold(&harness.object_state, call, NOW_MS + RECAPTURES_END_MS - 1), None);
}

#[test]
fn a_refund_that_had_failed_before_times_were_kept_and_is_told_to_be_made_is_for_a_person() {
    let (mut harness, derived) = refunding(true);
    harness.hear(&harness.of_refund("REFUNDED_REVERSED", &derived, 1));
    harness.object_state.resource.refunds[0].told_at_ms = None;
    let (taken, _) = harness.taken(&harness.of_refund("REFUND", &derived, 3));
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(harness.refund(0).status(), "failed");
}

/// The run that takes in what answers the payment's call has yet to come: who gives the money back there is told of in the same moment.
#[test]
fn a_refund_made_elsewhere_waits_until_the_payment_is_taken_in() {
    let mut harness = Harness::of(Provider::Adyen);
    let derived = harness.run("pay", pay(Provider::Adyen), None);
    harness.hear(&harness.told("AUTHORISATION", &derived, "psp_pay", true, AMOUNT));
    let refund = harness.told("REFUND", &derived, "psp_elsewhere", true, PART);
    let take =
        |harness: &mut Harness| ingest::take(&mut harness.object_state, &refund, &at(NOW_MS + 1)).unwrap();
    assert_eq!(take(&mut harness), Ingested::RetryLater);
    harness.wake();
    assert_eq!(take(&mut harness), Ingested::Applied);
    assert_eq!(harness.object_state.resource.payment.unwrap().refunded_elsewhere_minor, PART);
}

/// A capture failed while it was given back, and somebody made it again in the Customer Area, of less: no more is given back than was taken.
#[test]
fn a_capture_that_is_made_again_of_less_than_is_given_back_is_for_a_person() {
    let again_of = |amount_minor| {
        let (mut harness, derived) = modifications::received(modifications::capture(None));
        harness.hear(&harness.dated("CAPTURE", &derived, true, 1));
        let answer = ProviderResult::Refunded { refund: "psp_refund".into(), settled: false };
        harness.run("refund", refund(), Some(answer));
        harness.hear(&harness.dated("CAPTURE_FAILED", &derived, false, 2));
        let mut again = harness.dated("CAPTURE", &derived, true, 3);
        if let EventKind::Capture(told) = &mut again.news {
            (told.id, told.amount_minor) = ("psp_again".to_owned(), amount_minor);
        }
        again.event_id = "again".to_owned();
        let taken = ingest::take(&mut harness.object_state, &again, &at(NOW_MS + 240_000)).unwrap();
        assert_eq!(Payments::verify(&harness.object_state), Ok(()), "it can be committed");
        (taken, harness.object_state.resource.payment.unwrap().status())
    };
    let (taken, status) = again_of(PART - 1);
    assert!(matches!(taken, Ingested::Contradiction { .. }), "{taken:?}");
    assert_eq!(status, "capture_failed");
    let (taken, status) = again_of(PART);
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(status, "succeeded", "the control");
}
