//! What others do with a payment at Adyen, by hand in its Customer Area or by a program of their own, and what Adyen does by itself: it has the
//! payment's own reference, and comes in any order.

use super::modifications::{capture, received};
use super::tries::tried_twice;
use super::*;
use payments::payment::operation::VoidRequest;
use payments::payment::tries::Stage;
use payments::transitions::by_hand::RECAPTURES_END_MS;
use serde_json::json;

/// One thing that Adyen tells of `psp_pay`: which, the id of what was done, and in which minute.
struct Notification {
    code: &'static str,
    id: &'static str,
    minute: u64,
    success: bool,
    amount: u64,
    currency: &'static str,
    /// What became of a request to cancel or refund.
    action: Option<&'static str>,
    payment: &'static str,
}

const CAPTURED: Notification = Notification {
    code: "CAPTURE",
    id: "psp_theirs",
    minute: 5,
    success: true,
    amount: AMOUNT,
    currency: "USD",
    action: None,
    payment: "psp_pay",
};
const REFUNDED: Notification = Notification { code: "CANCEL_OR_REFUND", action: Some("refund"), ..CAPTURED };

fn date(minute: u64) -> String {
    let at_ms = i64::try_from(NOW_MS + minute * 60_000).unwrap();
    chrono::DateTime::from_timestamp_millis(at_ms).unwrap().to_rfc3339()
}

impl Harness {
    /// What the object makes of it, and whether an operator sees it.
    fn is_told(&mut self, told: &Notification) -> Ingested {
        let first = self.object_state.calls.first().unwrap().provider_key.clone();
        self.is_told_under(&first, told)
    }

    fn is_told_under(&mut self, provider_key: &str, told: &Notification) -> Ingested {
        let item = json!({ "eventCode": told.code, "success": told.success.to_string(), "eventDate": date(told.minute), "pspReference": told.id,
            "originalReference": told.payment, "merchantAccountCode": "a-merchant", "merchantReference": format!("x.{provider_key}"),
            "amount": { "currency": told.currency, "value": told.amount },
            "additionalData": told.action.map(|action| json!({ "modification.action": action })) });
        let body = json!({ "notificationItems": [{ "NotificationRequestItem": item }] }).to_string();
        let (event, _) = adyen::webhook::items(body.as_bytes()).unwrap().into_iter().next().unwrap().read();
        let taken = ingest::take(&mut self.object_state, &event, &at(NOW_MS + 1)).unwrap();
        self.object_state.appended = Default::default();
        taken
    }

    /// The status, what was taken, and what others have given back.
    fn money(&self) -> (&'static str, u64, u64) {
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        (payment.status(), payment.captured_minor(), payment.refunded_elsewhere_minor)
    }

    fn refundable_minor(&self) -> u64 {
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        payment.refundable_minor(&self.object_state.resource.refunds)
    }

    fn late_stage(&self) -> Option<Stage> {
        self.object_state.resource.tries.first().unwrap().late.as_ref().map(|late| late.stage())
    }
}

/// A payment at Adyen whose answer is this, or was lost.
fn paid(captures: bool, result: Option<ProviderResult>) -> Harness {
    let Operation::Payment(request) = pay(Provider::Adyen) else { panic!("it is a payment") };
    let request = PaymentRequest { capture: captures, order_id: Some("order-1".into()), ..*request };
    let mut harness = Harness::of(Provider::Adyen);
    harness.run("pay", Operation::Payment(Box::new(request)), result);
    harness
}

fn reserved() -> Harness {
    let card = None;
    paid(false, Some(ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card }))
}

fn charged() -> Harness {
    paid(true, Some(ProviderResult::Charged { payment: "psp_pay".into(), card: None }))
}

fn is_alert(taken: &Ingested) -> bool {
    matches!(taken, Ingested::Alert { .. })
}

#[test]
fn a_cancel_or_refund_that_refunded_shows_that_the_money_was_taken() {
    let mut harness = reserved();
    assert!(is_alert(&harness.is_told(&REFUNDED)));
    assert_eq!(harness.money(), ("succeeded", AMOUNT, AMOUNT));
    // Its capture comes late, and says no more.
    assert_eq!(
        harness.is_told(&Notification { minute: 4, id: "psp_capture", ..CAPTURED }),
        Ingested::Applied
    );
    // It came back, and may be made again: it is not given back a second time.
    assert!(is_alert(&harness.is_told(&Notification { code: "REFUND_FAILED", minute: 6, ..CAPTURED })));
    assert_eq!((harness.money(), harness.refundable_minor()), (("succeeded", AMOUNT, AMOUNT), 0));

    let mut control = reserved();
    let canceled = Notification { action: Some("cancel"), ..REFUNDED };
    assert_eq!(control.is_told(&canceled), Ingested::Applied);
    assert_eq!(control.money(), ("canceled", 0, 0));
}

#[test]
fn a_payment_that_nobody_has_heard_of_and_that_was_refunded_was_paid() {
    for captures in [false, true] {
        for told in [
            REFUNDED,
            Notification { code: "REFUND", ..CAPTURED },
            Notification { code: "CHARGEBACK", ..CAPTURED },
        ] {
            let mut harness = paid(captures, None);
            assert_eq!(harness.is_told(&told), Ingested::RetryLater, "{}", told.code);
            harness.wake();
            let taken = harness.is_told(&told);
            assert!(matches!(taken, Ingested::Alert { .. } | Ingested::Applied), "{taken:?}");
            let (status, captured_minor, back_minor) = harness.money();
            assert_ne!(status, "declined", "{}", told.code);
            if told.code != "CHARGEBACK" {
                assert_eq!(back_minor, AMOUNT, "{}", told.code);
            }
            if captures || told.code == "CANCEL_OR_REFUND" {
                assert_eq!(captured_minor, AMOUNT, "{}", told.code);
            }
        }
    }
}

#[test]
fn a_refund_of_what_is_captured_right_now_waits_for_the_capture() {
    let (mut harness, derived) = received(capture(None));
    assert_eq!(harness.is_told(&REFUNDED), Ingested::RetryLater);
    harness.hear(&harness.dated("CAPTURE", &derived, true, 4));
    assert_eq!(harness.is_told(&REFUNDED), Ingested::Applied);
    assert_eq!(harness.money(), ("succeeded", AMOUNT, AMOUNT));
}

#[test]
fn a_refund_of_a_try_that_is_over_shows_that_its_money_was_taken() {
    let of_first = Notification { payment: "psp_first", amount: PART, ..CAPTURED };
    let refund = Notification { code: "REFUND", ..of_first };
    for told in [Notification { action: Some("refund"), code: "CANCEL_OR_REFUND", ..of_first }, refund] {
        let (mut harness, _) = tried_twice(Provider::Adyen, true);
        assert!(is_alert(&harness.is_told(&told)), "{}", told.code);
        assert_eq!(harness.late_stage(), Some(Stage::GivenBack));
        // More was taken than was given back: a person must look.
        let captured = Notification { id: "psp_capture", minute: 4, amount: AMOUNT, ..of_first };
        assert!(is_alert(&harness.is_told(&captured)));
        assert_eq!(harness.late_stage(), Some(Stage::Refused));
        assert_eq!(harness.is_told(&captured), Ingested::Applied, "and once");
    }
    // What came back is there.
    let (mut harness, _) = tried_twice(Provider::Adyen, true);
    let came_back = Notification { code: "REFUND_FAILED", ..of_first };
    assert!(is_alert(&harness.is_told(&came_back)));
    assert_eq!(harness.late_stage(), Some(Stage::Refused));
    // A refund that was refused shows nothing.
    let (mut control, _) = tried_twice(Provider::Adyen, true);
    assert_eq!(
        control.is_told(&Notification { code: "REFUND", success: false, ..of_first }),
        Ingested::Applied
    );
    assert_eq!(control.late_stage(), None);
}

#[test]
fn a_second_capture_of_a_try_that_is_over_is_seen() {
    let (mut harness, _) = tried_twice(Provider::Adyen, true);
    let first = Notification { payment: "psp_first", amount: PART, ..CAPTURED };
    assert!(is_alert(&harness.is_told(&first)));
    let done = ProviderResult::Refunded { refund: "psp_back".into(), settled: true };
    for token in wake(&mut harness.object_state, &InstanceId("me".into()), &at(NOW_MS + 1)) {
        harness.drive(Run::new(token, 0, &[]), Some(done.clone()), NOW_MS + 1);
    }
    assert_eq!(harness.late_stage(), Some(Stage::GivenBack));
    assert_eq!(harness.is_told(&first), Ingested::Applied, "the same");
    assert!(is_alert(&harness.is_told(&Notification { id: "psp_more", minute: 6, ..first })));
    assert_eq!(harness.late_stage(), Some(Stage::Refused));
}

#[test]
fn a_capture_that_came_before_the_rest_was_gone_is_given_back() {
    for (code, status) in [("EXPIRE", "expired"), ("CANCELLATION", "canceled")] {
        let mut harness = reserved();
        harness.is_told(&Notification { code, id: "psp_end", minute: 6, ..CAPTURED });
        assert_eq!(harness.money().0, status);
        assert!(
            is_alert(&harness.is_told(&Notification { amount: PART, ..CAPTURED })),
            "{code}: it is dated before that"
        );
        assert_eq!(harness.late_stage(), Some(Stage::Begun));
    }
}

#[test]
fn a_capture_by_others_is_given_back_though_a_void_of_ours_is_under_way() {
    let (mut harness, derived) = received(Operation::Void(VoidRequest::default()));
    harness.is_told(&Notification { code: "CANCELLATION", id: "psp_end", ..CAPTURED });
    assert!(is_alert(&harness.is_told(&CAPTURED)));
    assert_eq!(harness.late_stage(), Some(Stage::Begun), "at once: the order may not be paid again before");
    harness.hear(&harness.dated("CANCELLATION", &derived, false, 6));
    assert_eq!(harness.is_told(&CAPTURED), Ingested::Applied);
    assert_eq!((harness.money().0, harness.late_stage()), ("canceled", Some(Stage::Begun)));
}

#[test]
fn a_capture_of_more_counts_as_all_that_was_asked_for_and_is_seen() {
    let mut harness = reserved();
    assert!(is_alert(&harness.is_told(&Notification { amount: AMOUNT + 1, ..CAPTURED })));
    assert_eq!(harness.money(), ("succeeded", AMOUNT, 0));
    let mut other = reserved();
    let taken = other.is_told(&Notification { currency: "EUR", ..CAPTURED });
    assert!(matches!(taken, Ingested::Contradiction { .. }), "{taken:?}");
    assert_eq!(other.money(), ("requires_capture", 0, 0));
}

#[test]
fn another_capture_that_fails_fails_nothing_that_was_taken() {
    let (mut harness, derived) = received(capture(AmountMinor::new(PART)));
    let taken = harness.is_told_under(&derived, &Notification { id: "psp_move", amount: PART, ..CAPTURED });
    assert_eq!(taken, Ingested::Applied);
    let failed = Notification { code: "CAPTURE_FAILED", minute: 6, ..CAPTURED };
    assert!(is_alert(&harness.is_told(&Notification { id: "psp_theirs", amount: 700, ..failed })));
    assert_eq!(harness.money(), ("succeeded", PART, 0));
    assert!(is_alert(
        &harness.is_told_under(&derived, &Notification { id: "psp_move", amount: PART, ..failed })
    ));
    assert_eq!(harness.money().0, "capture_failed", "control: its own");
}

#[test]
fn more_given_back_than_was_taken_is_seen() {
    let mut harness = charged();
    let refund = Notification { code: "REFUND", id: "psp_one", ..CAPTURED };
    assert_eq!(harness.is_told(&Notification { amount: AMOUNT - PART, ..refund }), Ingested::Applied);
    let euros = harness.is_told(&Notification { id: "psp_euros", currency: "EUR", amount: 900, ..refund });
    assert!(matches!(euros, Ingested::Contradiction { .. }), "{euros:?}");
    assert_eq!(harness.money().2, AMOUNT - PART);
    assert!(is_alert(&harness.is_told(&Notification { id: "psp_two", amount: PART + 1, ..refund })));
}

#[test]
fn what_others_gave_back_counts_while_adyen_may_make_it_again() {
    let mut harness = charged();
    let refund = Notification { code: "REFUND", amount: PART, ..CAPTURED };
    harness.is_told(&refund);
    let failed = Notification { code: "REFUND_FAILED", minute: 6, ..refund };
    assert!(is_alert(&harness.is_told(&failed)));
    assert_eq!(harness.refundable_minor(), AMOUNT - PART);
    let again_ms = NOW_MS + 1 + RECAPTURES_END_MS;
    assert!(once::alarm::wake_at(&harness.object_state, &at(NOW_MS + 2)).is_some_and(|due| due <= again_ms));
    wake(&mut harness.object_state, &InstanceId("me".into()), &at(again_ms));
    assert_eq!(harness.refundable_minor(), AMOUNT);
    // For good is at once.
    let mut reversed = charged();
    reversed.is_told(&refund);
    reversed.is_told(&Notification { code: "REFUNDED_REVERSED", ..failed });
    assert_eq!(reversed.refundable_minor(), AMOUNT);
}

#[test]
fn a_refund_of_ours_is_known_by_its_reference_where_it_comes_back_under_another_name() {
    let mut harness = charged();
    let answer = ProviderResult::Refunded { refund: "psp_refund".into(), settled: false };
    let derived = harness.run("refund", refund(), Some(answer));
    let made = Notification { code: "REFUND", id: "psp_refund", amount: PART, ..CAPTURED };
    assert_eq!(harness.is_told_under(&derived, &made), Ingested::Applied);
    let back = Notification { code: "REFUNDED_REVERSED", id: "psp_reversal", minute: 6, ..made };
    harness.is_told_under(&derived, &back);
    assert_eq!(harness.refund(0).status(), "failed");
    assert_eq!(harness.refundable_minor(), AMOUNT);
}

#[test]
fn a_refund_of_ours_that_was_made_of_another_amount_is_seen() {
    let mut harness = charged();
    let answer = ProviderResult::Refunded { refund: "psp_refund".into(), settled: false };
    let derived = harness.run("refund", refund(), Some(answer));
    let made = Notification { code: "REFUND", id: "psp_refund", amount: PART - 400, ..CAPTURED };
    assert!(is_alert(&harness.is_told_under(&derived, &made)));
}

#[test]
fn a_bank_that_gives_back_a_part_keeps_the_rest() {
    let mut harness = charged();
    let dispute = Notification { code: "CHARGEBACK", id: "psp_dispute", ..CAPTURED };
    harness.is_told(&dispute);
    harness.is_told(&Notification { code: "CHARGEBACK_REVERSED", minute: 6, amount: PART, ..dispute });
    let payment = harness.object_state.resource.payment.as_ref().unwrap();
    let shown = payment.dispute.as_ref().unwrap();
    assert_eq!((shown.withdrawn, shown.amount_minor), (true, AMOUNT - PART));
    assert_eq!(harness.refundable(), ("disputed", PART));
    harness.is_told(&Notification {
        code: "CHARGEBACK_REVERSED",
        minute: 7,
        amount: AMOUNT - PART,
        ..dispute
    });
    assert_eq!(harness.refundable(), ("succeeded", AMOUNT));
}

#[test]
fn a_warning_of_the_same_second_does_not_undo_what_the_bank_has_taken() {
    let mut harness = charged();
    let dispute = Notification { code: "CHARGEBACK", id: "psp_dispute", ..CAPTURED };
    harness.is_told(&dispute);
    harness.is_told(&Notification { code: "NOTIFICATION_OF_CHARGEBACK", ..dispute });
    let payment = harness.object_state.resource.payment.as_ref().unwrap();
    assert!(payment.dispute.as_ref().unwrap().withdrawn);
}

#[test]
fn what_a_bank_has_taken_back_for_good_frees_the_order() {
    let result = ProviderResult::Declined {
        payment: Some("psp_pay".into()),
        code: "card_declined".into(),
        decline_code: None,
        message: String::new(),
    };
    let mut harness = paid(true, Some(result));
    assert!(is_alert(&harness.is_told(&CAPTURED)));
    let refused = ProviderResult::Rejected {
        payment: None,
        code: "charged_back".into(),
        message: String::new(),
        found: None,
    };
    for token in wake(&mut harness.object_state, &InstanceId("me".into()), &at(NOW_MS + 1)) {
        harness.drive(Run::new(token, 0, &[]), Some(refused.clone()), NOW_MS + 1);
    }
    assert_eq!(harness.late_stage(), Some(Stage::Refused));
    let dispute = Notification { code: "CHARGEBACK", id: "psp_dispute", minute: 6, ..CAPTURED };
    harness.is_told(&dispute);
    assert_eq!(harness.late_stage(), Some(Stage::Refused), "it can be won");
    harness.is_told(&Notification { code: "SECOND_CHARGEBACK", minute: 7, ..dispute });
    assert_eq!(harness.late_stage(), Some(Stage::GivenBack));
}

/// The date of a notification is not signed.
#[test]
fn what_is_dated_far_ahead_keeps_nothing_out_that_is_told_later() {
    let (mut harness, derived) = received(capture(None));
    let capture = Notification { id: "psp_move", minute: 60 * 24 * 365, ..CAPTURED };
    assert_eq!(harness.is_told_under(&derived, &capture), Ingested::Applied);
    let failed = Notification { code: "CAPTURE_FAILED", minute: 11, ..capture };
    assert!(is_alert(&harness.is_told_under(&derived, &failed)));
    assert_eq!(harness.money().0, "capture_failed");
}
