//! Payments that Adyen captures by itself after a while: until it has told of that they are only believed to be captured.

use super::*;
use once::flow::Flow as _;
use payments::engine::Payments;

const ENDINGS: [(&str, &str); 2] = [("EXPIRE", "expired"), ("CANCELLATION", "canceled")];

impl Harness {
    /// A payment of an order whose capture follows by itself, and a refund of a part of it that was answered so.
    fn believed(refund_answer: Option<ProviderResult>) -> Self {
        let mut harness = Self::of(Provider::Adyen);
        let Operation::Payment(request) = pay(Provider::Adyen) else { panic!("it is a payment") };
        let order = PaymentRequest { order_id: Some("order-1".into()), ..*request };
        let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
        harness.run("pay", Operation::Payment(Box::new(order)), Some(charged));
        if let Some(answer) = refund_answer {
            harness.run("refund", refund(), Some(answer));
        }
        harness
    }

    /// What a person or the time has brought about there, under the payment's own reference.
    fn by_nobody_here(&mut self, kind: &str, minute: u64) -> (Ingested, &'static str) {
        let key = self.object_state.calls[0].provider_key.clone();
        let mut event = self.dated(kind, &key, true, minute);
        if let EventKind::Expired(told) = &mut event.news {
            told.id.clone_from(&told.payment);
        }
        let taken = ingest::take(&mut self.object_state, &event, &at(NOW_MS + 1)).unwrap();
        Payments::verify(&self.object_state).unwrap();
        (taken, self.object_state.resource.payment.as_ref().unwrap().status())
    }
}

#[test]
fn what_was_only_believed_to_be_captured_ends_as_adyen_says_and_a_person_sees_it() {
    for (kind, status) in ENDINGS {
        let mut harness = Harness::believed(None);
        let (taken, now) = harness.by_nobody_here(kind, 2);
        assert!(matches!(taken, Ingested::Alert { .. }), "{kind}: {taken:?}");
        assert_eq!(now, status);
        // Of what a settlement file makes its lines.
        let last = format!("payment.{status}");
        let moved = ["payment.captured", "payment.capture_failed", last.as_str()];
        let records = harness.object_state.appended.facts.audit.iter().map(|record| record.action);
        assert_eq!(records.filter(|action| moved.contains(action)).collect::<Vec<_>>(), moved[1..]);
        let Operation::Payment(request) = pay(Provider::Adyen) else { panic!("it is a payment") };
        let again = PaymentRequest { order_id: Some("order-1".into()), ..*request };
        let again = command("again", Operation::Payment(Box::new(again)));
        let begun =
            begin(&mut harness.object_state, &again, &InstanceId("me".into()), &at(NOW_MS + 2)).unwrap();
        assert!(matches!(begun, Begin::Run(_)), "the order can be paid again: {begun:?}");
    }
}

/// Nobody knows whether it was the capture that follows by itself, or one more by a person: the state stays, and somebody looks.
#[test]
fn a_capture_that_failed_of_what_is_only_believed_to_be_captured_is_shown_to_a_person() {
    let mut harness = Harness::believed(None);
    let key = harness.object_state.calls[0].provider_key.clone();
    let failed = harness.dated("CAPTURE", &key, false, 2);
    let mut take = || ingest::take(&mut harness.object_state, &failed, &at(NOW_MS + 1)).unwrap();
    let taken = take();
    assert!(
        matches!(&taken, Ingested::Alert { detail } if detail.contains("the capture failed")),
        "{taken:?}"
    );
    assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().status(), "succeeded");

    let mut harness = Harness::believed(None);
    assert_eq!(harness.by_nobody_here("CAPTURE", 1), (Ingested::Applied, "succeeded"));
    let again = harness.dated("CAPTURE", &key, false, 2);
    let taken = ingest::take(&mut harness.object_state, &again, &at(NOW_MS + 1)).unwrap();
    assert_eq!(taken, Ingested::Applied, "control: one that is known to have succeeded");
}

#[test]
fn what_adyen_has_told_to_be_captured_stays_so() {
    for (kind, _) in ENDINGS {
        let mut harness = Harness::believed(None);
        assert_eq!(harness.by_nobody_here("CAPTURE", 1), (Ingested::Applied, "succeeded"));
        let (taken, now) = harness.by_nobody_here(kind, 2);
        assert!(matches!(taken, Ingested::Contradiction { .. }), "{kind}: {taken:?}");
        assert_eq!(now, "succeeded");
    }
}

#[test]
fn a_refund_of_what_was_only_believed_to_be_captured_fails_with_it_unless_it_has_succeeded() {
    let given = |settled| ProviderResult::Refunded { refund: "psp_refund".into(), settled };
    for (kind, status) in ENDINGS {
        let mut harness = Harness::believed(Some(given(false)));
        let (taken, now) = harness.by_nobody_here(kind, 2);
        assert!(matches!(taken, Ingested::Alert { .. }), "{kind}: {taken:?}");
        assert_eq!((now, harness.refund(0).status()), (status, "failed"));

        let mut harness = Harness::believed(Some(given(true)));
        let (taken, now) = harness.by_nobody_here(kind, 2);
        assert!(matches!(taken, Ingested::Contradiction { .. }), "{kind}: {taken:?}");
        assert_eq!((now, harness.refund(0).status()), ("succeeded", "succeeded"));

        let mut harness = Harness::believed(None);
        harness.run("refund", refund(), None);
        assert_eq!(harness.by_nobody_here(kind, 2), (Ingested::RetryLater, "succeeded"));
    }
}

#[test]
fn what_adyen_has_told_to_be_captured_without_saying_when_stays_so_too() {
    for (kind, _) in ENDINGS {
        let mut harness = Harness::believed(None);
        let key = harness.object_state.calls[0].provider_key.clone();
        harness.hear(&harness.told("CAPTURE", &key, "psp_capture", true, AMOUNT));
        let (taken, now) = harness.by_nobody_here(kind, 2);
        assert!(matches!(taken, Ingested::Contradiction { .. }), "{kind}: {taken:?}");
        assert_eq!(now, "succeeded");
    }
}

/// What somebody elsewhere ends by Adyen's "cancel or refund" was not taken where Adyen says that it was canceled.
#[test]
fn a_cancel_or_refund_says_which_of_both_it_was() {
    for (action, is_told, status, refunded_minor) in
        [("cancel", true, "canceled", 0), ("refund", false, "succeeded", AMOUNT)]
    {
        let mut harness = Harness::believed(None);
        let key = harness.object_state.calls[0].provider_key.clone();
        let item = serde_json::json!({ "eventCode": "CANCEL_OR_REFUND", "success": "true", "eventDate": "2026-11-11T10:00:00+01:00",
            "pspReference": "psp_reversal", "originalReference": "psp_pay", "merchantReference": format!("x.{key}"),
            "additionalData": { "modification.action": action }, "amount": { "currency": "USD", "value": AMOUNT } });
        let body =
            serde_json::json!({ "notificationItems": [{ "NotificationRequestItem": item }] }).to_string();
        let (event, _) = adyen::webhook::items(body.as_bytes()).unwrap().into_iter().next().unwrap().read();
        let heard = ingest::take(&mut harness.object_state, &event, &at(NOW_MS + 1)).unwrap();
        assert_eq!(matches!(heard, Ingested::Alert { .. }), is_told, "{action}: {heard:?}");
        let payment = harness.object_state.resource.payment.as_ref().unwrap();
        assert_eq!(
            (payment.status(), payment.refunded_elsewhere_minor),
            (status, refunded_minor),
            "{action}"
        );
    }
}
