//! What happens without any client: the alarm, expiry, and a look-up that is longer than one run.

use once::alarm::{KnownAlarm, alarm_to_set, wake, wake_at};
use once::begin::{KeyRoute, begin, bind};
use once::call::LookUpProgress;
use once::context::Times;
use once::id::ObjectId;
use once::record::Tombstone;
use once::run::RunEnd;
use payments::engine::{
    Action, Begin, Event, Lifecycle, LookUp, ObjectState, Outcome, ProviderReply, Run, StagedJob,
};
use payments::payment::id::RefundId;
use payments::payment::operation::{CaptureRequest, Operation};
use payments::payment::records::JobKind;
use payments::payment::refund::{Refund, RefundReason, RefundState};
use payments::payment::result::ProviderResult;
use payments::payment::{Failure, PaymentState};
use payments::transitions::pii::{Erased, erase};

use crate::payment::pay;
use crate::support::{NOW_MS, at, command, me};

fn email(object_state: &ObjectState) -> Option<&str> {
    object_state.resource.payment.as_ref()?.receipt_email.as_deref()
}

/// Steps a run until it has something to do outside.
fn until_effect(run: &mut Run, object_state: &mut ObjectState, mut event: Event, now_ms: u64) -> Action {
    for _ in 0..20 {
        match run.step(object_state, event, &at(now_ms)).unwrap() {
            Action::Again => event = Event::Go,
            effect => return effect,
        }
    }
    panic!("it goes round in circles")
}

/// A run that has just sent its charge, and the rows that it committed.
fn sent() -> (Run, ObjectState) {
    let mut object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let Operation::Payment(mut request) = pay(true) else { panic!() };
    request.receipt_email = Some("ada@example.com".into());
    let request = command("k", Operation::Payment(request));
    let Ok(Begin::Run(token)) = begin(&mut object_state, &request, &me(), &at(NOW_MS)) else { panic!() };
    let mut run = Run::new(token, 0, &[]);
    let effect = until_effect(&mut run, &mut object_state, Event::Go, NOW_MS);
    assert!(matches!(effect, Action::Send(_)), "{effect:?}");
    (run, object_state)
}

fn finished() -> ObjectState {
    let (mut run, mut object_state) = sent();
    let result = ProviderResult::Charged { payment: "pi_1".into(), card: None };
    let reply = ProviderReply { status: 200, result, request_id: None };
    let answered = Event::Outcome(1, Outcome::Definitive(reply));
    let end = until_effect(&mut run, &mut object_state, answered, NOW_MS);
    assert!(matches!(end, Action::End(RunEnd::Finished(_))), "{end:?}");
    object_state.appended = Default::default();
    // What it asks its provider days later was asked.
    object_state.resource.payment.as_mut().unwrap().watch.as_mut().unwrap().asked = u32::MAX;
    object_state
}

/// A key that is bound elsewhere is kept for good and needs no alarm. What an older release has kept of its request goes after the retention.
#[test]
fn a_bound_key_has_nothing_that_expires() {
    let mut object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let request =
        command("k", Operation::Capture(CaptureRequest { amount: None, attempt: None, seen: None }));
    let target = ObjectId::from_bytes([8; 32]);
    assert_eq!(bind(&mut object_state, &request, target, &at(NOW_MS)), KeyRoute::To(target));
    assert_eq!((wake_at(&object_state, &at(NOW_MS)), &object_state.bindings[0].parameters), (None, &None));
    object_state.bindings[0].parameters = Some(request.parameters.clone());
    let due_at_ms = wake_at(&object_state, &at(NOW_MS)).unwrap();
    assert_eq!(due_at_ms, NOW_MS + Times::default().retention_ms);
    wake(&mut object_state, &me(), &at(due_at_ms));
    assert_eq!((wake_at(&object_state, &at(due_at_ms)), &object_state.bindings[0].parameters), (None, &None));
    let years = at(due_at_ms + 10 * 365 * 86_400_000);
    assert_eq!(bind(&mut object_state, &request, target, &years), KeyRoute::To(target));
    let elsewhere = ObjectId::from_bytes([9; 32]);
    assert_eq!(bind(&mut object_state, &request, elsewhere, &years), KeyRoute::Mismatch { fields: vec![] });
    let paid = command("k", pay(true));
    let begun = begin(&mut object_state, &paid, &me(), &years).unwrap();
    assert_eq!(begun, Begin::Mismatch { fields: vec![] }, "nor in its own object");
}

#[test]
fn an_alarm_that_comes_early_is_set_anew() {
    let object_state = finished();
    let due_at_ms = wake_at(&object_state, &at(NOW_MS)).unwrap();
    let early = at(due_at_ms - 1);
    let mut after = object_state.clone();
    assert_eq!(wake(&mut after, &me(), &early), []);
    assert_eq!(after, object_state, "nothing is due");
    assert_eq!(alarm_to_set(&object_state, &after, KnownAlarm::Gone, &early), Some(due_at_ms));
}

#[test]
fn an_open_key_is_never_without_an_alarm() {
    let (run, mut object_state) = sent();
    object_state.appended = Default::default();
    let ctx = at(NOW_MS);
    let due_at_ms = wake_at(&object_state, &ctx).unwrap();
    for known in [KnownAlarm::Unknown, KnownAlarm::Gone, KnownAlarm::At(due_at_ms + 1)] {
        assert_eq!(alarm_to_set(&object_state, &object_state, known, &ctx), Some(due_at_ms), "{known:?}");
    }
    let earlier = KnownAlarm::At(due_at_ms - 1);
    assert_eq!(
        alarm_to_set(&object_state, &object_state, earlier, &ctx),
        None,
        "while a run goes on, early is good enough"
    );
    let mut released = object_state.clone();
    run.abandon(&mut released, "an error", &ctx).unwrap();
    let due_at_ms = wake_at(&released, &ctx).unwrap();
    assert_eq!(
        alarm_to_set(&object_state, &released, earlier, &ctx),
        Some(due_at_ms),
        "then it is set exactly"
    );
}

#[test]
fn expiry_drops_what_was_asked_and_sent_and_keeps_when() {
    let mut object_state = finished();
    let expires_at_ms = NOW_MS + Times::default().retention_ms;
    wake(&mut object_state, &me(), &at(expires_at_ms + 3_600_000));
    let key = object_state.key(1).unwrap();
    assert_eq!(
        key.lifecycle,
        Lifecycle::Expired(Tombstone { status: 201, finished_at_ms: NOW_MS, expires_at_ms })
    );
    assert_eq!(key.parameters, None);
    assert_eq!(object_state.calls.len(), 1, "the call is kept, with the key under which it was sent");
    assert_eq!(object_state.calls[0].request.body, "");
    assert_eq!(
        alarm_to_set(&object_state, &object_state, KnownAlarm::Gone, &at(expires_at_ms)),
        Some(NOW_MS + Times::default().personal_retention_ms),
        "it wakes once more, for the personal data"
    );
}

#[test]
fn personal_data_goes_with_its_time_and_leaves_what_the_books_need() {
    let mut object_state = finished();
    let due_at_ms = NOW_MS + Times::default().personal_retention_ms;
    wake(&mut object_state, &me(), &at(due_at_ms - 1));
    assert_eq!(email(&object_state), Some("ada@example.com"), "not before");
    object_state.appended = Default::default();
    wake(&mut object_state, &me(), &at(due_at_ms));
    let payment = object_state.resource.payment.clone().unwrap();
    assert_eq!((payment.receipt_email, payment.return_url), (None, None));
    assert_eq!(
        (payment.state, payment.provider_payment),
        (PaymentState::Captured { amount_minor: payment.amount.get() }, Some("pi_1".into()))
    );
    let [record] = object_state.appended.facts.audit.as_slice() else {
        panic!("{:?}", object_state.appended.facts.audit)
    };
    assert_eq!((record.action, record.at_ms), ("personal_data.erased", due_at_ms));
    object_state.appended = Default::default();
    object_state.jobs.clear();
    assert_eq!(
        alarm_to_set(&object_state, &object_state, KnownAlarm::Gone, &at(due_at_ms)),
        None,
        "it never wakes again"
    );
    let before = object_state.clone();
    assert_eq!(erase(&mut object_state, &at(due_at_ms + 1)), Erased::Gone);
    assert_eq!(object_state, before, "there is nothing more to erase");
}

#[test]
fn personal_data_can_be_erased_at_once_but_not_under_a_run() {
    let (_, mut open) = sent();
    let before = open.clone();
    assert_eq!(erase(&mut open, &at(NOW_MS)), Erased::Unfinished);
    assert_eq!(open, before, "it is needed");
    let far = at(NOW_MS + 2 * Times::default().personal_retention_ms);
    wake(&mut open, &me(), &far);
    assert_eq!(email(&open), Some("ada@example.com"), "however old it is");

    let mut object_state = finished();
    object_state.jobs.push(StagedJob {
        job_id: "pay_receipt".into(),
        kind: JobKind::SendReceipt,
        payload: serde_json::json!({ "to": "ada@example.com" }),
        staged_at_ms: NOW_MS,
        sends: 0,
        next_at_ms: NOW_MS,
    });
    assert_eq!(erase(&mut object_state, &at(NOW_MS + 1)), Erased::Gone);
    assert!(
        matches!(object_state.key(1).unwrap().lifecycle, Lifecycle::Expired(_)),
        "the stored response goes"
    );
    assert_eq!((object_state.calls[0].request.body.as_str(), object_state.jobs.len()), ("", 0));
    assert!(!format!("{object_state:?}").contains("ada@example.com"), "{object_state:?}");
    assert_eq!(erase(&mut ObjectState::empty(object_state.object), &at(NOW_MS)), Erased::Nothing);
}

#[test]
fn the_providers_words_about_what_failed_go_too_also_where_nothing_else_is_left() {
    const WORDS: &str = "Ada Lovelace has no account here.";
    let mut object_state = finished();
    let fails = |state: &mut ObjectState| {
        let id = RefundId::of(state.object, "refund");
        let payment = state.resource.payment.as_mut().unwrap();
        let refund = Refund {
            id,
            key_id: 1,
            amount: payment.amount,
            reason: RefundReason::Duplicate,
            state: RefundState::Failed { code: "declined".into(), message: WORDS.into() },
            provider_refund: None,
            told_at_ms: None,
            undone: None,
            created_at_ms: NOW_MS,
            version: 0,
        };
        state.resource.refunds = vec![refund];
        payment.state = PaymentState::Failed(Failure {
            declined: true,
            code: "declined".into(),
            decline_code: None,
            message: WORDS.into(),
        });
    };
    let has_words = |state: &ObjectState| format!("{:?}", state.resource).matches(WORDS).count();
    fails(&mut object_state);
    assert_eq!(has_words(&object_state), 2);
    assert_eq!(erase(&mut object_state, &at(NOW_MS + 1)), Erased::Gone);
    assert_eq!(has_words(&object_state), 0);
    object_state.jobs.clear();
    let wakes_at = |state: &ObjectState| alarm_to_set(state, state, KnownAlarm::Gone, &at(NOW_MS + 1));
    assert_eq!(wakes_at(&object_state), None);

    // It was told after that.
    fails(&mut object_state);
    let due_at_ms = NOW_MS + Times::default().personal_retention_ms;
    assert_eq!(wakes_at(&object_state), Some(due_at_ms));
    wake(&mut object_state, &me(), &at(due_at_ms));
    assert_eq!(has_words(&object_state), 0);
}

#[test]
fn a_look_up_of_many_pages_goes_on_in_the_next_run_where_the_last_one_stopped() {
    const PAGES: u32 = 100;
    let (mut run, mut object_state) = sent();
    let unknown = Outcome::Unknown { answer_is_stored: true, reason: "stored 500".into() };
    let mut effect = until_effect(&mut run, &mut object_state, Event::Outcome(1, unknown), NOW_MS);
    // What nobody has heard of is in quarantine. A look that found nothing was there before: this is the second one.
    let first_ms = NOW_MS + Times::default().quarantine_ms;
    object_state.calls[0].evidence.absent_at_ms = Some(NOW_MS + Times::default().quiet_ms);
    let (mut now_ms, mut read, mut runs) = (first_ms, 0, 1);
    let end = loop {
        let event =
            match effect {
                Action::End(RunEnd::Pending { .. }) => {
                    assert!(object_state.key(1).is_some_and(
                        |key| matches!(&key.lifecycle, Lifecycle::Open(o) if o.lease.is_none())
                    ));
                    now_ms = now_ms.max(wake_at(&object_state, &at(now_ms)).unwrap());
                    run = Run::new(wake(&mut object_state, &me(), &at(now_ms)).remove(0), 0, &[]);
                    runs += 1;
                    Event::Go
                }
                Action::LookUp(call) => {
                    let asked_at_ms = first_ms;
                    let expected =
                        (read > 0).then(|| LookUpProgress { after: format!("pi_{read}"), asked_at_ms });
                    assert_eq!(call.look_up, expected);
                    read += 1;
                    let after = format!("pi_{read}");
                    Event::LookedUp(1, if read == PAGES { LookUp::Absent } else { LookUp::More { after } })
                }
                other => break other,
            };
        effect = until_effect(&mut run, &mut object_state, event, now_ms);
    };
    let Action::End(RunEnd::Finished(response)) = end else { panic!("{end:?}") };
    assert_eq!((response.status, read), (402, PAGES));
    assert!((3..=5).contains(&runs), "{runs} runs: no run reads for ever");
    assert_eq!(object_state.calls[0].look_up, None);
    let lines = object_state.appended.timeline.iter().filter(|line| line.event == "look_up").count();
    assert_eq!(lines, 2, "one line where it begins, one where it ends");
}
