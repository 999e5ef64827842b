//! What is erased is gone, wherever it stood, and what the provider says afterwards does not bring it back.

use once::alarm::{wake, wake_at};
use once::begin::begin;
use once::context::Times;
use once::domain::Answer as _;
use once::flow::Flow as _;
use once::id::Owner;
use payments::engine::{Begin, CallState, Command, Lifecycle, ObjectState, Payments, Settlement, StagedJob};
use payments::payment::id::RefundId;
use payments::payment::records::{JobKind, Unpurged};
use payments::payment::refund::{Refund, RefundReason, RefundState};
use payments::payment::result::{ProviderResult, RemoteState};
use payments::payment::status_query::{Beside, StatusQuery, StatusReply};
use payments::payment::{Failure, PaymentState};
use payments::providers::Provider;
use payments::transitions::answers::take;
use payments::transitions::pii::{Erased, erase, erase_everywhere, purged};
use serde_json::Value;

use crate::card::answered;
use crate::payment::pay;
use crate::support::{NOW_MS, at, command, me};

const SECRET: &str = "pi_1_secret_5ecret";
const WORDS: &str = "Ada Lovelace has no account here.";

fn bank_page() -> String {
    format!("https://bank.example/?client_secret={SECRET}")
}

fn at_the_bank() -> ObjectState {
    let mut state = answered(ProviderResult::RequiresAction { payment: "pi_1".into(), url: bank_page() });
    state.appended = Default::default();
    state
}

fn paid() -> ObjectState {
    let mut state = answered(ProviderResult::Charged { payment: "pi_1".into(), card: None });
    state.appended = Default::default();
    state
}

fn failure() -> Failure {
    Failure { declined: true, code: "card_declined".into(), decline_code: None, message: WORDS.into() }
}

fn text(state: &ObjectState) -> String {
    serde_json::to_string(state).unwrap()
}

/// The provider is asked, and says that the payment is this.
fn found(state: &mut ObjectState, found: RemoteState) {
    let ask =
        StatusQuery::Payment { provider: Provider::Stripe, account: None, id: "pi_1".into(), doubt: None };
    take(state, &ask, StatusReply::Payment(found, Beside::default()), &at(NOW_MS)).unwrap();
}

fn actions(state: &ObjectState) -> Vec<&'static str> {
    state.appended.facts.audit.iter().map(|record| record.action).collect()
}

#[test]
fn the_banks_page_stands_with_the_payment_alone_and_goes_with_what_is_personal() {
    let mut state = at_the_bank();
    let calls = serde_json::to_string(&state.calls).unwrap();
    assert!(!calls.contains(SECRET), "{calls}");
    assert!(format!("{:?}", state.resource).contains(SECRET), "the person has to be led there");

    let payment = state.resource.payment.as_mut().unwrap();
    (payment.return_url, payment.receipt_email) = (None, None);
    wake(&mut state, &me(), &at(NOW_MS + Times::default().personal_retention_ms));
    assert!(!text(&state).contains(SECRET), "also where nothing else of it is personal: {}", text(&state));
    let payment = state.resource.payment.as_ref().unwrap();
    assert_eq!(payment.status(), "requires_action");
    assert_eq!(payment.to_json(&[], &[])["next_action"], Value::Null);
}

#[test]
fn what_the_provider_says_after_an_erasure_is_not_taken_in() {
    let mut state = at_the_bank();
    wake(&mut state, &me(), &at(NOW_MS + Times::default().personal_retention_ms));
    state.appended = Default::default();
    found(&mut state, RemoteState::RequiresAction { url: bank_page() });
    assert_eq!(actions(&state), [""; 0], "it stands as it did");
    assert!(!text(&state).contains(SECRET), "{}", text(&state));
    found(&mut state, RemoteState::Failed(failure()));
    assert_eq!(actions(&state), ["payment.failed"]);
    assert!(!text(&state).contains("Lovelace"), "{}", text(&state));
    assert!(text(&state).contains("card_declined"), "what the books need stays");
}

#[test]
fn what_a_refund_fails_with_after_an_erasure_goes_with_the_transaction_that_takes_it_in() {
    let mut state = paid();
    assert_eq!(erase(&mut state, &at(NOW_MS)), Erased::Gone);
    let before = state.clone();
    let failed = RefundState::Failed { code: "declined".into(), message: WORDS.into() };
    state.resource.refunds = vec![refund(&state, failed)];
    Payments::on_commit(&before, &mut state, &at(NOW_MS));
    assert!(!text(&state).contains("Lovelace"), "{}", text(&state));
    let mut kept = paid();
    kept.resource.refunds.clone_from(&state.resource.refunds);
    let words = RefundState::Failed { code: "declined".into(), message: WORDS.into() };
    kept.resource.refunds[0].state = words;
    Payments::on_commit(&paid(), &mut kept, &at(NOW_MS));
    assert!(text(&kept).contains("Lovelace"), "control: nothing was erased there");
}

fn refund(state: &ObjectState, refund_state: RefundState) -> Refund {
    Refund {
        id: RefundId::of(state.object, "refund"),
        key_id: 1,
        amount: state.resource.payment.as_ref().unwrap().amount,
        reason: RefundReason::Duplicate,
        state: refund_state,
        provider_refund: Some("re_1".into()),
        told_at_ms: None,
        undone: None,
        created_at_ms: NOW_MS,
        version: 0,
    }
}

#[test]
fn nothing_is_erased_by_hand_while_the_provider_has_not_decided() {
    let mut open = vec![at_the_bank(), answered(ProviderResult::Processing { payment: "pi_1".into() })];
    for pending in [RefundState::Pending, RefundState::Requested] {
        let mut state = paid();
        state.resource.refunds = vec![refund(&state, pending)];
        open.push(state);
    }
    for mut state in open {
        let before = state.clone();
        assert_eq!(erase(&mut state, &at(NOW_MS)), Erased::Unfinished, "{:?}", state.resource);
        assert_eq!(state, before);
    }
    let mut done = paid();
    done.resource.refunds = vec![refund(&done, RefundState::Succeeded)];
    assert_eq!(erase(&mut done, &at(NOW_MS)), Erased::Gone);
}

#[test]
fn an_expired_answer_has_no_words_and_no_banks_page_in_it() {
    let refused = |found| ProviderResult::Rejected {
        payment: None,
        code: "payment_intent_unexpected_state".into(),
        message: String::new(),
        found: Some(found),
    };
    for mut result in [
        ProviderResult::RequiresAction { payment: "pi_1".into(), url: bank_page() },
        refused(RemoteState::RequiresAction { url: bank_page() }),
        refused(RemoteState::Failed(failure())),
        ProviderResult::Moved { payment: "pi_1".into(), found: RemoteState::Failed(failure()) },
    ] {
        result.forget_text();
        let text = serde_json::to_string(&result).unwrap();
        assert!(!text.contains(SECRET) && !text.contains("Lovelace"), "{text}");
        serde_json::from_str::<ProviderResult>(&text).unwrap();
    }
    // As a release before has left it.
    let mut state = paid();
    let CallState::Settled(Settlement::Answered(reply)) = &mut state.calls[0].state else { panic!() };
    reply.result = refused(RemoteState::RequiresAction { url: bank_page() });
    assert_eq!(erase(&mut state, &at(NOW_MS)), Erased::Gone);
    assert!(!text(&state).contains(SECRET), "{}", text(&state));
}

#[test]
fn an_erased_key_tells_nothing_of_what_it_was_used_for_and_runs_nothing_again() {
    let mut state = paid();
    let asked = command("k", pay(true));
    let stranger = Command { owner: Owner::Account("somebody".into()), ..asked.clone() };
    let begun = |state: &ObjectState, command: &Command| {
        let mut after = state.clone();
        let begun = begin(&mut after, command, &me(), &at(NOW_MS)).unwrap();
        assert_eq!(after, *state, "nothing is begun");
        begun
    };
    let other = command("k", pay(false));
    assert!(matches!(begun(&state, &other), Begin::Mismatch { .. }), "control");
    assert_eq!(erase(&mut state, &at(NOW_MS)), Erased::Gone);
    assert!(!text(&state).contains(&asked.fingerprint.0), "{}", text(&state));
    for command in [&asked, &other] {
        assert_eq!(begun(&state, command), Begin::Expired);
    }
    assert_eq!(begun(&state, &stranger), Begin::NotOwner);
}

fn staged(job_id: &str, kind: JobKind) -> StagedJob {
    let (payload, staged_at_ms, next_at_ms) = (Value::Null, NOW_MS, NOW_MS);
    StagedJob { job_id: job_id.into(), kind, payload, staged_at_ms, sends: 1, next_at_ms }
}

#[test]
fn what_jobs_have_kept_is_dropped_until_that_is_done() {
    let mut state = paid();
    state.jobs = vec![staged("pay_receipt", JobKind::SendReceipt), staged("project_1", JobKind::Project)];
    let version = state.resource.version;
    assert_eq!(erase_everywhere(&mut state, &at(NOW_MS)), Erased::Gone);
    assert!(state.keys.iter().all(|key| matches!(key.lifecycle, Lifecycle::Expired(_))));
    let unpurged = state.resource.unpurged.clone().unwrap();
    let ids: Vec<&str> = unpurged.jobs.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!(ids, ["pay_receipt", "project_1"], "their messages may still be in the queue");
    assert!(unpurged.version > version && unpurged.version == state.resource.version, "{unpurged:?}");
    let read: ObjectState = serde_json::from_str(&text(&state)).unwrap();
    assert_eq!(read.resource.unpurged, Some(unpurged.clone()), "it is written down");

    // The alarm tries it, and again.
    (state.jobs, state.appended) = Default::default();
    assert_eq!(wake_at(&state, &at(NOW_MS)), Some(unpurged.next_at_ms));
    wake(&mut state, &me(), &at(unpurged.next_at_ms));
    assert!(wake_at(&state, &at(unpurged.next_at_ms)) > Some(unpurged.next_at_ms));

    // What was erased again meanwhile is not done.
    purged(&mut state, &Unpurged { version: unpurged.version - 1, ..unpurged.clone() });
    assert!(state.resource.unpurged.is_some());
    purged(&mut state, &unpurged);
    assert_eq!(state.resource.unpurged, None);
}

#[test]
fn an_erasure_that_is_refused_drops_no_job() {
    let mut state = paid();
    state.resource.refunds = vec![refund(&state, RefundState::Requested)];
    state.jobs = vec![staged("pay_receipt", JobKind::SendReceipt)];
    let before = state.clone();
    assert_eq!(erase_everywhere(&mut state, &at(NOW_MS)), Erased::Unfinished);
    assert_eq!(state, before);
    let payment = state.resource.payment.as_ref().unwrap();
    assert!(matches!(payment.state, PaymentState::Captured { .. }));
}
