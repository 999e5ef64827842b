//! What Adyen's news names: our reference of a move or that of the payment, Adyen's own id of it, or a payment that nothing here has made.

use super::modifications::{authorized, capture, received};
use super::*;
use payments::engine::{CallState, Payments};
use payments::payment::operation::VoidRequest;

impl Harness {
    /// News under the reference of the payment itself.
    fn hear_by_payment(&mut self, kind: &str, id: &str, success: bool) -> Ingested {
        let key = self.object_state.calls[0].provider_key.clone();
        let event = self.told(kind, &key, id, success, AMOUNT);
        self.take(&event)
    }

    /// News under it of another payment.
    fn hear_of_another(&mut self, kind: &str, payment: &str) -> Ingested {
        let key = self.object_state.calls[0].provider_key.clone();
        let mut event = self.told(kind, &key, "psp_new", true, AMOUNT);
        let (EventKind::Authorisation(told) | EventKind::Capture(told)) = &mut event.news else {
            panic!("{kind}")
        };
        payment.clone_into(&mut told.payment);
        self.take(&event)
    }

    fn take(&mut self, event: &Event) -> Ingested {
        let taken = ingest::take(&mut self.object_state, event, &at(NOW_MS + 1)).unwrap();
        flow_holds(&self.object_state);
        taken
    }

    fn shown(&self) -> (&'static str, bool) {
        let payment = self.object_state.resource.payment.as_ref().unwrap();
        (payment.status(), payment.pending.is_some())
    }
}

fn flow_holds(object_state: &ObjectState) {
    use once::flow::Flow as _;
    Payments::verify(object_state).unwrap();
}

/// A fake of Adyen's documents names the payment where production names the move.
#[test]
fn a_move_is_known_by_adyens_id_of_it_where_the_reference_is_the_payments() {
    let captured = |success| {
        let (mut harness, _) = received(capture(None));
        assert_eq!(harness.shown(), ("requires_capture", true));
        assert_eq!(harness.hear_by_payment("CAPTURE", "psp_move", success), Ingested::Applied);
        harness
    };
    assert_eq!(captured(true).shown(), ("succeeded", false));
    let refused = captured(false);
    assert_eq!(refused.shown(), ("requires_capture", false));
    assert!(refused.object_state.resource.payment.as_ref().unwrap().failed_operation.is_some());

    let (mut harness, _) = received(Operation::Void(VoidRequest::default()));
    assert_eq!(harness.hear_by_payment("CANCELLATION", "psp_move", true), Ingested::Applied);
    assert_eq!(harness.shown(), ("canceled", false));
    assert!(harness.object_state.resource.payment.as_ref().unwrap().is_over_unpaid());

    // The control: another one's, in the Customer Area, ends no move of ours.
    let (mut harness, _) = received(capture(None));
    harness.hear_by_payment("CAPTURE", "psp_of_a_person", true);
    assert_eq!(harness.shown(), ("succeeded", true));
}

/// How a move ended is told before anybody has heard the answer to it, which alone has Adyen's id of it: the news waits for that.
#[test]
fn news_of_a_move_under_the_payments_reference_waits_for_the_answer_that_names_it() {
    let ends = [
        ("CAPTURE", true, "succeeded"),
        ("CAPTURE", false, "requires_capture"),
        ("CANCELLATION", true, "canceled"),
    ];
    for (kind, success, status) in ends {
        let operation =
            if kind == "CAPTURE" { capture(None) } else { Operation::Void(VoidRequest::default()) };
        let mut harness = authorized();
        harness.run("move", operation, None);
        // It is sent again, and answered as the first time.
        harness.object_state.calls.last_mut().unwrap().answer_is_stored = false;
        assert_eq!(harness.hear_by_payment(kind, "psp_move", success), Ingested::RetryLater);
        assert_eq!(harness.shown(), ("requires_capture", true));
        let answer = ProviderResult::Received { modification: "psp_move".into() };
        let later_ms = NOW_MS + 3_600_000;
        for token in wake(&mut harness.object_state, &InstanceId("me".into()), &at(later_ms)) {
            harness.drive(Run::new(token, 0, &[]), Some(answer.clone()), later_ms);
        }
        assert_eq!(harness.hear_by_payment(kind, "psp_move", success), Ingested::Applied);
        assert_eq!(harness.shown(), (status, false), "{kind} {success}");
    }
}

/// Adyen has failed while it executed a move, and gives that error under its key from now on: nothing will ever name it.
#[test]
fn a_move_that_no_answer_will_name_is_settled_by_news_that_it_was_made() {
    let mut harness = authorized();
    harness.run("move", capture(None), None);
    harness.hear_by_payment("CAPTURE", "psp_of_a_person", false);
    assert_eq!(harness.shown(), ("requires_capture", true), "a refusal may be of another one");
    assert_eq!(harness.hear_by_payment("CAPTURE", "psp_move", true), Ingested::Applied);
    harness.wake();
    assert_eq!(harness.shown(), ("succeeded", false));
}

/// Which of both it tells of is not known before ours has its answer.
#[test]
fn a_capture_by_others_waits_for_the_answer_to_ours_and_counts_when_that_is_refused() {
    let mut harness = authorized();
    let theirs = harness.by_others(&harness.object_state.calls[0].provider_key);
    let (ours, me) = (command("move", capture(None)), InstanceId("me".into()));
    let begun = begin(&mut harness.object_state, &ours, &me, &at(NOW_MS)).unwrap();
    let Begin::Run(token) = begun else { panic!("{begun:?}") };
    let (mut run, mut event) = (Run::new(token, 0, &[]), Input::Go);
    loop {
        event = match run.step(&mut harness.object_state, event, &at(NOW_MS)).unwrap() {
            Action::Again => Input::Go,
            Action::Send(call) => {
                let taken = ingest::take(&mut harness.object_state, &theirs, &at(NOW_MS)).unwrap();
                assert_eq!(taken, Ingested::RetryLater);
                let (code, message) = ("captured".into(), String::new());
                let result = ProviderResult::Rejected { payment: None, code, message, found: None };
                let reply = ProviderReply { status: 422, result, request_id: None };
                Input::Outcome(call.call_id, Outcome::Definitive(reply))
            }
            _ => break,
        };
    }
    assert_eq!(harness.shown(), ("requires_capture", false));
    assert!(harness.has_recorded("operation.refused"));
    harness.hear(&theirs);
    assert_eq!(harness.shown(), ("succeeded", false));
}

/// Its answer was lost, and what it came to is told under the payment's reference: then it is counted as another one's until it has its name.
#[test]
fn a_refund_that_was_told_of_before_it_had_its_name_counts_once() {
    // One that has failed may be one that Adyen makes again.
    for (success, status) in [(true, "succeeded"), (false, "pending")] {
        let mut harness = Harness::of(Provider::Adyen);
        let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
        harness.run("pay", pay(Provider::Adyen), Some(charged));
        harness.run("refund", refund(), None);
        // It is sent again, and answered as the first time.
        harness.object_state.calls.last_mut().unwrap().answer_is_stored = false;
        let key = harness.object_state.calls[0].provider_key.clone();
        let told = harness.told("REFUND", &key, "psp_refund", success, PART);
        harness.take(&told);
        let later_ms = NOW_MS + 3_600_000;
        let answer = ProviderResult::Refunded { refund: "psp_refund".into(), settled: false };
        for token in wake(&mut harness.object_state, &InstanceId("me".into()), &at(later_ms)) {
            harness.drive(Run::new(token, 0, &[]), Some(answer.clone()), later_ms);
        }
        flow_holds(&harness.object_state);
        let payment = harness.object_state.resource.payment.as_ref().unwrap();
        assert_eq!((harness.refund(0).status(), payment.refunded_elsewhere_minor), (status, 0));
        assert_eq!(payment.refunded_minor(&harness.object_state.resource.refunds), PART);
    }
}

/// A person has authorised it anew in the Customer Area, or Auto Rescue has: the reference is ours, and the payment is not.
#[test]
fn another_payment_under_our_reference_is_for_a_person() {
    let mut harness = Harness::of(Provider::Adyen);
    let declined = ProviderResult::Declined {
        payment: Some("psp_pay".into()),
        code: "card_declined".into(),
        decline_code: None,
        message: String::new(),
    };
    harness.run("pay", pay(Provider::Adyen), Some(declined));
    for kind in ["AUTHORISATION", "CAPTURE"] {
        let taken = harness.hear_of_another(kind, "psp_rescued");
        assert!(matches!(&taken, Ingested::Alert { detail } if detail.contains("psp_rescued")), "{taken:?}");
    }
    assert_eq!(harness.shown(), ("declined", false));

    let mut harness = Harness::of(Provider::Adyen);
    let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
    harness.run("pay", pay(Provider::Adyen), Some(charged));
    let taken = harness.hear_of_another("CAPTURE", "psp_again");
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(harness.hear_of_another("CAPTURE", "psp_pay"), Ingested::Applied, "the control");
}

/// Adyen has named what our call has made, and not how it ended: another payment is no answer to it.
#[test]
fn a_call_in_doubt_is_not_answered_by_another_payment_than_its_own() {
    let mut harness = Harness::of(Provider::Adyen);
    harness.run("pay", pay(Provider::Adyen), None);
    harness.object_state.calls[0].evidence.provider_id = Some("psp_pay".into());
    let taken = harness.hear_of_another("AUTHORISATION", "psp_other");
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
    assert_eq!(harness.object_state.calls[0].state, CallState::Unknown);
    assert_eq!(harness.hear_of_another("AUTHORISATION", "psp_pay"), Ingested::Applied);
    harness.wake();
    let payment = harness.object_state.resource.payment.as_ref().unwrap();
    assert_eq!((payment.status(), payment.provider_payment.as_deref()), ("succeeded", Some("psp_pay")));
}

/// Nobody has told of a capture: that nothing was taken yet is the likelier reason, and no bank's.
#[test]
fn a_refusal_of_a_refund_of_what_is_only_believed_to_be_taken_is_for_a_person() {
    let hasnt = "transaction_hasn_t_been_captured";
    for (is_captured, reason) in [(false, hasnt), (true, hasnt), (false, "insufficient_balance")] {
        let mut harness = Harness::of(Provider::Adyen);
        let charged = ProviderResult::Charged { payment: "psp_pay".into(), card: None };
        harness.run("pay", pay(Provider::Adyen), Some(charged));
        if is_captured {
            assert_eq!(harness.hear_of_another("CAPTURE", "psp_pay"), Ingested::Applied);
        }
        let answer = ProviderResult::Refunded { refund: "psp_refund".into(), settled: false };
        let key = harness.run("refund", refund(), Some(answer));
        let mut refused = harness.told("REFUND", &key, "psp_refund", false, PART);
        let EventKind::Refund(told) = &mut refused.news else { panic!() };
        reason.clone_into(&mut told.reason);
        let taken = harness.take(&refused);
        let is_told = !is_captured && reason == hasnt;
        assert_eq!(matches!(taken, Ingested::Alert { .. }), is_told, "{taken:?}");
        assert_eq!(harness.refund(0).status(), "failed");
    }
}

/// The first try was refused before Adyen had a name for it: the second one has one, and this is another.
#[test]
fn another_payment_is_for_a_person_also_beside_a_try_without_a_name() {
    let Operation::Payment(request) = pay(Provider::Adyen) else { panic!("it is a payment") };
    let order = || {
        Operation::Payment(Box::new(PaymentRequest { order_id: Some("order-1".into()), ..*request.clone() }))
    };
    let mut harness = Harness::of(Provider::Adyen);
    let (code, message) = ("adyen_14_030".to_owned(), String::new());
    let invalid = ProviderResult::Rejected { payment: None, code, message, found: None };
    harness.run("first", order(), Some(invalid));
    let (code, decline_code, message) = ("card_declined".to_owned(), None, String::new());
    let payment = Some("psp_pay".to_owned());
    let key = harness.run(
        "second",
        order(),
        Some(ProviderResult::Declined { payment, code, decline_code, message }),
    );
    let mut event = harness.told("AUTHORISATION", &key, "psp_new", true, AMOUNT);
    let EventKind::Authorisation(told) = &mut event.news else { panic!() };
    told.payment = "psp_rescued".into();
    let taken = harness.take(&event);
    assert!(matches!(taken, Ingested::Alert { .. }), "{taken:?}");
}
