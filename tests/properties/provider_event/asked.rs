//! What Stripe tells of is asked for, again until it answers.

use super::{Books, Ending, Harness, ask, at, is_about, pay, refund};
use crate::support::NOW_MS;
use payments::payment::RefundState;
use payments::payment::operation::{Operation, PaymentRequest, VoidRequest};
use payments::payment::result::{ProviderResult, RemoteState};
use payments::payment::status_query::{Beside, StatusQuery, StatusReply};
use payments::providers::Provider;
use payments::transitions::answers::Ended;
use payments::transitions::polling::{self, Asker};
use payments::transitions::{answers, ingest};

/// A payment whose one refund seems to be done.
pub(super) fn refunded() -> Harness {
    let books = Books { payment_lost: false, refunds: vec![(false, Ending::Succeeded)] };
    let mut harness = Harness::new(Provider::Stripe, &books);
    let [question] = &polling::questions(&harness.object_state)[..] else { panic!("one refund is pending") };
    let question = question.clone();
    answers::take(
        &mut harness.object_state,
        &question,
        StatusReply::Refund(RefundState::Succeeded),
        &at(NOW_MS),
    )
    .unwrap();
    assert_eq!(
        harness.object_state.resource.payment.as_ref().unwrap().check,
        None,
        "nothing is asked for any more"
    );
    harness
}

fn came_back() -> StatusReply {
    StatusReply::Refund(RefundState::Failed { code: "no".into(), message: String::new() })
}

#[test]
fn what_stripe_has_told_of_is_asked_for_until_it_answers() {
    let mut harness = refunded();
    harness.hear(&ask("evt_1", Some("psp_0")));
    let (mut now_ms, mut pauses) = (NOW_MS + 1, Vec::new());
    for tries in 0..60 {
        let mut questions = polling::begin(&mut harness.object_state, Asker::Background, &at(now_ms));
        // After two days the payment is asked for as well.
        questions.retain(|question| is_about(question, "psp_0"));
        assert_eq!(questions.len(), 1);
        let told = std::mem::take(&mut harness.object_state.appended).facts.audit;
        assert_eq!(told.iter().any(|record| record.action == "provider.silent"), tries == 44, "{tries}");
        assert!(
            tries != 44 || (86_400_000..10 * 86_400_000).contains(&(now_ms - NOW_MS)),
            "{}",
            now_ms - NOW_MS
        );
        answers::take(&mut harness.object_state, &questions[0], StatusReply::NoAnswer, &at(now_ms)).unwrap();
        let next_at_ms = harness.object_state.resource.payment.as_ref().unwrap().check.unwrap().next_at_ms;
        pauses.push(next_at_ms - now_ms);
        now_ms = next_at_ms;
    }
    assert!(pauses.is_sorted() && pauses[0] < 10_000 && pauses[59] > 36_000_000, "{pauses:?}");
    let mut questions = polling::begin(&mut harness.object_state, Asker::Background, &at(now_ms));
    questions.retain(|question| is_about(question, "psp_0"));
    answers::take(&mut harness.object_state, &questions[0], came_back(), &at(now_ms)).unwrap();
    assert_eq!(harness.refund(0).status(), "failed");
    assert!(!polling::questions(&harness.object_state).iter().any(|question| is_about(question, "psp_0")));
}

#[test]
fn an_old_payment_of_which_stripe_tells_is_asked_for_soon() {
    let mut harness = refunded();
    harness.object_state.resource.payment.as_mut().unwrap().created_at_ms -= 100 * 86_400_000;
    harness.hear(&ask("evt_1", Some("psp_0")));
    polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
    let next_at_ms = harness.object_state.resource.payment.as_ref().unwrap().check.unwrap().next_at_ms;
    assert!(next_at_ms < NOW_MS + 10_000);
}

#[test]
fn an_answer_that_was_asked_for_before_an_event_does_not_answer_it() {
    let mut harness = refunded();
    harness.hear(&ask("evt_1", Some("psp_0")));
    let first = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
    harness.hear(&ask("evt_2", Some("psp_0")));
    answers::take(
        &mut harness.object_state,
        &first[0],
        StatusReply::Refund(RefundState::Succeeded),
        &at(NOW_MS + 2),
    )
    .unwrap();
    let second = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 2));
    assert_eq!(second.len(), 1, "the second event has a question of its own");
    answers::take(&mut harness.object_state, &second[0], came_back(), &at(NOW_MS + 3)).unwrap();
    assert_eq!(harness.refund(0).status(), "failed");
}

#[test]
fn a_person_can_ask_about_refunds_that_seem_to_be_done() {
    let mut harness = refunded();
    ingest::ask_all(&mut harness.object_state, &at(NOW_MS + 1));
    let questions = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
    assert!(matches!(&questions[..], [StatusQuery::Payment { .. }]), "{questions:?}");
}

#[test]
fn what_was_asked_before_our_void_finds_no_money_on_the_payment_that_it_has_canceled() {
    for is_compared in [true, false] {
        let Operation::Payment(request) = pay(Provider::Stripe) else { panic!("it is a payment") };
        let held = Operation::Payment(Box::new(PaymentRequest { capture: false, ..*request }));
        let mut harness = Harness::of(Provider::Stripe);
        let result =
            ProviderResult::Authorized { payment: "psp_pay".into(), capture_before_ms: None, card: None };
        harness.run("pay", held, Some(result));
        harness.hear(&ask("evt_1", None));
        let questions = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 1));
        let [question] = &questions[..] else { panic!("{questions:?}") };
        let before = Ended::of(&harness.object_state);
        harness.run("void", Operation::Void(VoidRequest::default()), Some(ProviderResult::Voided));
        let status_reply = StatusReply::Payment(RemoteState::Authorized, Beside::default());
        let (state, ctx) = (&mut harness.object_state, at(NOW_MS + 2));
        // Control: taken as it is, it says that what was canceled is held.
        match is_compared {
            true => answers::take_unless_moved(state, question, before, status_reply, &ctx),
            false => answers::take(state, question, status_reply, &ctx),
        }
        .unwrap();
        assert_eq!(harness.object_state.resource.payment.as_ref().unwrap().status(), "canceled");
        assert_eq!(harness.object_state.resource.tries[0].late.is_none(), is_compared);
    }
}

#[test]
fn what_was_asked_before_a_call_of_ours_ended_is_asked_again_at_once() {
    let mut harness = refunded();
    harness.hear(&ask("evt_1", Some("psp_0")));
    let asks = |harness: &mut Harness| {
        let mut questions = polling::begin(&mut harness.object_state, Asker::Background, &at(NOW_MS + 2));
        questions.retain(|question| is_about(question, "psp_0"));
        let [question] = &questions[..] else { panic!("{questions:?}") };
        (question.clone(), Ended::of(&harness.object_state))
    };
    let (question, before) = asks(&mut harness);
    harness.run(
        "another",
        refund(),
        Some(ProviderResult::Refunded { refund: "psp_1".into(), settled: true }),
    );
    for (asked, expected) in [(Some((question, before)), "succeeded"), (None, "failed")] {
        let (question, before) = asked.unwrap_or_else(|| asks(&mut harness));
        let ctx = at(NOW_MS + 2);
        answers::take_unless_moved(&mut harness.object_state, &question, before, came_back(), &ctx).unwrap();
        assert_eq!(harness.refund(0).status(), expected);
    }
}
