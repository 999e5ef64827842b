//! When the provider is asked how a payment stands that is not decided yet.

use std::collections::BTreeSet;

use once::begin::begin as begin_key;
use once::context::Times;
use once::id::ObjectId;
use payments::engine::{Context, Limits, ObjectState, context};
use payments::payment::id::{PaymentId, RefundId};
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::result::RemoteState;
use payments::payment::status_query::{Beside, RemoteRefund, StatusQuery, StatusReply};
use payments::payment::tries::Try;
use payments::payment::{
    Dispute, DisputeStatus, Payment, PaymentState, PollSchedule, Refund, RefundReason, RefundState,
};
use payments::providers::Provider;
use payments::transitions::answers::take;
use payments::transitions::polling::Asker::{Background, Waiting};
use payments::transitions::polling::{self, begin, look_wait_ms};
use proptest::prelude::*;

use crate::payment::pay;
use crate::support::{command, me};

pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

pub(crate) fn at(now_ms: u64, jitter_permille: u16) -> Context {
    context(now_ms, jitter_permille, Times::default(), Limits::default())
}

/// A payment that waits at the bank's page, this old.
fn at_the_bank(age_ms: u64) -> ObjectState {
    let mut object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    object_state.resource.payment = Some(Payment {
        id: PaymentId::in_object(object_state.object),
        amount: AmountMinor::new(2500).unwrap(),
        currency: Currency::USD,
        capture: true,
        order_id: Some("order-1".into()),
        description: None,
        customer: None,
        metadata: Vec::new(),
        return_url: Some("https://shop.example/".into()),
        receipt_email: None,
        receipt_content: Default::default(),
        provider: Provider::Stripe,
        merchant_account: None,
        provider_payment: Some("pi_1".into()),
        link_revision: None,
        attempt: 1,
        moves: 0,
        state: PaymentState::RequiresAction { url: "https://bank.example/".into() },
        pending: None,
        failed_operation: None,
        ended_at_ms: None,
        captured_by: None,
        dispute: None,
        disputes: Vec::new(),
        receipted: false,
        check: Some(PollSchedule { next_at_ms: NOW_MS, tries: 0, asked_at_ms: None, told_at_ms: None }),
        doubts: Vec::new(),
        watch: None,
        refunded_elsewhere_minor: 0,
        in_provider_units: true,
        capture_before_ms: None,
        held_elsewhere_minor: 0,
        disbelieved: None,
        refunds_elsewhere: Vec::new(),
        card: None,
        is_erased: false,
        paid_at_ms: None,
        created_at_ms: NOW_MS - age_ms,
    });
    object_state
}

fn wait_ms(object_state: &ObjectState, now_ms: u64) -> u64 {
    look_wait_ms(&object_state.resource.payment.as_ref().unwrap().check.unwrap(), &at(now_ms, 0))
}

proptest! {
    #[test]
    fn whoever_looks_may_ask_a_second_after_the_last_question_however_old_the_payment_is(
        age_ms in 0..100_000_000_u64,
        jitter in 0..=1000_u16,
        asked in 1..12_usize,
    ) {
        let mut object_state = at_the_bank(age_ms);
        let mut now_ms = NOW_MS;
        for _ in 0..asked {
            prop_assert_eq!(begin(&mut object_state, Background, &at(now_ms, jitter)).len(), 1, "the alarm asks when it is due");
            prop_assert_eq!(begin(&mut object_state, Background, &at(now_ms, jitter)).len(), 0);
            let next_ms = object_state.resource.payment.as_ref().unwrap().check.unwrap().next_at_ms;
            prop_assert!(next_ms > now_ms);
            prop_assert_eq!(begin(&mut object_state.clone(), Waiting, &at(now_ms + 999, jitter)).len(), 0);
            prop_assert_eq!(wait_ms(&object_state, now_ms + 400), 600);
            prop_assert_eq!(begin(&mut object_state.clone(), Waiting, &at(now_ms + 1000, jitter)).len(), 1);
            prop_assert_eq!(wait_ms(&object_state, now_ms + 1000), 0);
            now_ms = next_ms;
        }
    }
}

#[test]
fn the_first_who_looks_may_ask_at_once() {
    let mut object_state = at_the_bank(0);
    object_state.resource.payment.as_mut().unwrap().check.as_mut().unwrap().next_at_ms = NOW_MS + 5_000;
    assert_eq!(wait_ms(&object_state, NOW_MS), 0);
    assert_eq!(begin(&mut object_state, Waiting, &at(NOW_MS, 0)).len(), 1);
}

#[test]
fn of_many_pending_refunds_each_has_its_turn() {
    let mut object_state = at_the_bank(0);
    let payment = object_state.resource.payment.as_mut().unwrap();
    payment.state = PaymentState::Captured { amount_minor: 2500 };
    for number in 1..=23 {
        object_state.resource.refunds.push(Refund {
            id: RefundId(format!("re_{number}")),
            key_id: number,
            amount: AmountMinor::new(1).unwrap(),
            reason: RefundReason::Duplicate,
            state: RefundState::Pending,
            provider_refund: Some(format!("re_at_stripe_{number}")),
            told_at_ms: None,
            undone: None,
            created_at_ms: NOW_MS,
            version: 0,
        });
    }
    let mut now_ms = NOW_MS;
    let mut asked = BTreeSet::new();
    for _ in 0..3 {
        let questions = begin(&mut object_state, Background, &at(now_ms, 0));
        assert_eq!(questions.len(), 10, "one look asks no more");
        asked.extend(questions.iter().map(|question| format!("{question:?}")));
        now_ms = object_state.resource.payment.as_ref().unwrap().check.unwrap().next_at_ms;
    }
    assert_eq!(asked.len(), 23);
}

const DAY_MS: u64 = 86_400_000;

/// Stripe's answers to questions, one after the other, at the times at which they are asked; gives these times in ms after
/// `NOW_MS`. A payment that has no more of them is left alone for good.
fn asked_at(object_state: &mut ObjectState, mut reply: impl FnMut(&StatusQuery) -> StatusReply) -> Vec<u64> {
    let mut times = Vec::new();
    polling::schedule(object_state, &at(NOW_MS, 0));
    while let Some(now_ms) = polling::due_at_ms(object_state.resource.payment.as_ref().unwrap()) {
        let questions = begin(object_state, Background, &at(now_ms, 0));
        times.extend(questions.iter().map(|_| now_ms - NOW_MS));
        for question in questions {
            let mut next = Some(question);
            while let Some(question) = next {
                next = take(object_state, &question, reply(&question), &at(now_ms, 0)).unwrap();
            }
        }
        assert!(times.len() < 100, "{times:?}");
    }
    times
}

fn decided(state: PaymentState) -> ObjectState {
    let mut object_state = at_the_bank(0);
    let payment = object_state.resource.payment.as_mut().unwrap();
    (payment.state, payment.check) = (state, None);
    object_state
}

/// The same, with the key under which it was asked for: it has an audit.
pub(crate) fn keyed(state: PaymentState) -> ObjectState {
    let mut object_state = decided(state);
    let mut asked_for = ObjectState::empty(object_state.object);
    begin_key(&mut asked_for, &command("k", pay(true)), &me(), &at(NOW_MS, 0)).unwrap();
    object_state.keys = asked_for.keys;
    object_state
}

const TAKEN: RemoteState = RemoteState::Captured { amount_minor: 2500 };

/// It was taken as we know, and these refunds were made.
fn taken_and(question: &StatusQuery, refunds: impl FnOnce() -> Vec<RemoteRefund>) -> StatusReply {
    match question {
        StatusQuery::Refunds { .. } => StatusReply::Refunds { refunds: refunds(), has_more: false },
        _ => StatusReply::Payment(TAKEN, Beside::default()),
    }
}

#[test]
fn a_reservation_is_asked_for_a_few_times_and_right_after_each_time_at_which_one_lapses() {
    let mut object_state = decided(PaymentState::Authorized);
    let times =
        asked_at(&mut object_state, |_| StatusReply::Payment(RemoteState::Authorized, Beside::default()));
    assert_eq!(times.len(), 5, "{times:?}");
    for lapses_ms in [4 * DAY_MS + 18 * 3_600_000, 7 * DAY_MS, 30 * DAY_MS] {
        let after = times.iter().find(|at_ms| **at_ms > lapses_ms);
        assert!(after.is_some_and(|at_ms| at_ms - lapses_ms <= DAY_MS), "{lapses_ms}: {times:?}");
    }
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.last() > pauses.first(), "{pauses:?}");
}

#[test]
fn money_that_was_taken_is_asked_for_twice_and_not_because_somebody_looks() {
    let mut object_state = decided(PaymentState::Captured { amount_minor: 2500 });
    polling::schedule(&mut object_state, &at(NOW_MS, 0));
    for hour in 0..40 {
        assert_eq!(begin(&mut object_state, Waiting, &at(NOW_MS + hour * 3_600_000, 0)), [], "hour {hour}");
    }
    assert_eq!(asked_at(&mut object_state, |question| taken_and(question, Vec::new)).len(), 2);
}

#[test]
fn what_the_provider_does_not_answer_is_asked_again() {
    let mut object_state = decided(PaymentState::Captured { amount_minor: 2500 });
    let mut silent = 3;
    let times = asked_at(&mut object_state, |question| {
        silent -= i32::from(silent > 0);
        if silent > 0 { StatusReply::NoAnswer } else { taken_and(question, Vec::new) }
    });
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times[2] - times[0] < 60_000, "{times:?}");
}

fn given_back(amount_minor: u64, state: RefundState) -> Refund {
    Refund {
        id: RefundId("re_1".into()),
        key_id: 1,
        amount: AmountMinor::new(amount_minor).unwrap(),
        reason: RefundReason::Duplicate,
        state,
        provider_refund: Some("re_at_stripe".into()),
        told_at_ms: None,
        undone: None,
        created_at_ms: NOW_MS,
        version: 0,
    }
}

fn remote(id: &str, amount_minor: u64, state: RefundState) -> RemoteRefund {
    RemoteRefund { id: id.into(), amount_minor, state, provider_key: None, may_be_release: false }
}

fn failed() -> RefundState {
    RefundState::Failed { code: "unknown".into(), message: String::new() }
}

#[test]
fn a_refund_that_fails_after_days_is_found_without_any_webhook() {
    let mut object_state = decided(PaymentState::Captured { amount_minor: 2500 });
    object_state.resource.refunds.push(given_back(1000, RefundState::Succeeded));
    let mut looks = 0;
    let times = asked_at(&mut object_state, |question| {
        taken_and(question, || {
            looks += 1;
            let state = if looks < 3 { RefundState::Succeeded } else { failed() };
            vec![remote("re_at_stripe", 1000, state)]
        })
    });
    assert_eq!(object_state.resource.refunds[0].state, failed());
    assert!(times[2] <= 16 * DAY_MS && times.len() <= 6, "{times:?}");
    assert_eq!(
        object_state.resource.payment.as_ref().unwrap().refundable_minor(&object_state.resource.refunds),
        2500
    );

    let mut object_state = decided(PaymentState::Captured { amount_minor: 2500 });
    object_state.resource.refunds.push(given_back(1000, RefundState::Succeeded));
    let still = || vec![remote("re_at_stripe", 1000, RefundState::Succeeded)];
    let times = asked_at(&mut object_state, |question| taken_and(question, still));
    assert!(times.len() == 4 && *times.last().unwrap() >= 40 * DAY_MS, "{times:?}");
}

/// What the object makes of these refunds at Stripe; gives what can still be refunded.
fn left_after(object_state: &mut ObjectState, refunds: Vec<RemoteRefund>) -> u64 {
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let question = StatusQuery::Refunds { provider, account: None, id, doubt: None, read: Vec::new() };
    let next =
        take(object_state, &question, StatusReply::Refunds { refunds, has_more: false }, &at(NOW_MS, 0));
    assert_eq!(next.unwrap(), None);
    object_state.resource.payment.as_ref().unwrap().refundable_minor(&object_state.resource.refunds)
}

#[test]
fn what_others_have_given_back_cannot_be_given_back_again() {
    let mut object_state = decided(PaymentState::Captured { amount_minor: 2000 });
    object_state.resource.refunds.push(given_back(500, RefundState::Succeeded));
    let own = remote("re_at_stripe", 500, RefundState::Succeeded);
    let theirs = |minor| remote("re_9", minor, RefundState::Succeeded);
    assert_eq!(left_after(&mut object_state, vec![own.clone()]), 1500);
    assert_eq!(left_after(&mut object_state, vec![theirs(300), own.clone()]), 1200);
    assert_eq!(left_after(&mut object_state, vec![remote("re_9", 300, failed()), own.clone()]), 1500);
    // A capture of a part may have given the other 500 free in the form of a refund, at most once.
    let release = |id: &str| RemoteRefund { may_be_release: true, ..remote(id, 500, RefundState::Succeeded) };
    assert_eq!(left_after(&mut object_state, vec![release("re_7"), own.clone()]), 1500);
    assert_eq!(left_after(&mut object_state, vec![release("re_8"), release("re_7"), own.clone()]), 1000);

    // One of ours whose answer is not taken in yet is counted once.
    let mut object_state = decided(PaymentState::Captured { amount_minor: 2000 });
    object_state
        .resource
        .refunds
        .push(Refund { provider_refund: None, ..given_back(500, RefundState::Requested) });
    let payment = object_state.resource.payment.as_ref().unwrap().id;
    let provider_key = Some(format!("{payment}_refund_re_1"));
    let on_its_way = RemoteRefund { provider_key, ..own };
    assert_eq!(left_after(&mut object_state, vec![on_its_way.clone()]), 1500);
    // One of ours that was held to have failed, and was made after all, counts.
    object_state.resource.refunds[0].state = failed();
    assert_eq!(left_after(&mut object_state, vec![on_its_way]), 1500);
}

#[test]
fn a_long_list_of_refunds_is_read_page_by_page() {
    let mut object_state = decided(PaymentState::Captured { amount_minor: 2500 });
    let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
    let first = StatusQuery::Refunds { provider, account: None, id, doubt: None, read: Vec::new() };
    let page = |id: &str, has_more| StatusReply::Refunds {
        refunds: vec![remote(id, 100, RefundState::Succeeded)],
        has_more,
    };
    let second = take(&mut object_state, &first, page("re_2", true), &at(NOW_MS, 0)).unwrap().unwrap();
    assert_eq!(object_state.resource.payment.as_ref().unwrap().refunded_elsewhere_minor, 0);
    let asked = provider.question_request(&second).unwrap().path;
    assert_eq!(asked, "/v1/refunds?payment_intent=pi_1&limit=100&starting_after=re_2");
    assert_eq!(take(&mut object_state, &second, page("re_1", false), &at(NOW_MS, 0)).unwrap(), None);
    assert_eq!(object_state.resource.payment.as_ref().unwrap().refunded_elsewhere_minor, 200);
}

#[test]
fn a_reservation_whose_end_is_known_is_asked_for_right_after_it() {
    let until_ms = NOW_MS + 4 * DAY_MS + 18 * 3_600_000;
    let mut object_state = keyed(PaymentState::Authorized);
    object_state.resource.payment.as_mut().unwrap().capture_before_ms = Some(until_ms);
    let shown = |object_state: &ObjectState| {
        object_state.resource.payment.as_ref().unwrap().to_json(&[], &[])["capture_before"].clone()
    };
    assert_eq!(shown(&object_state), payments::timestamp(until_ms));
    let beside = Beside { capture_before_ms: Some(until_ms), ..Beside::default() };
    let mut at_ms = NOW_MS;
    let times = asked_at(&mut object_state, |_| {
        at_ms += DAY_MS;
        StatusReply::Payment(
            if at_ms > NOW_MS + DAY_MS { RemoteState::Expired } else { RemoteState::Authorized },
            beside,
        )
    });
    assert_eq!(times.last(), Some(&(until_ms - NOW_MS + 60_000)), "{times:?}");
    assert_eq!(object_state.resource.payment.as_ref().unwrap().state, PaymentState::Expired);
    assert_eq!(shown(&object_state), serde_json::Value::Null);

    // What was not known when it was made is learnt with the first question.
    let mut object_state = decided(PaymentState::Authorized);
    let times = asked_at(&mut object_state, |_| StatusReply::Payment(RemoteState::Authorized, beside));
    assert!(times.contains(&(until_ms - NOW_MS + 60_000)), "{times:?}");
}

fn a_dispute(status: DisputeStatus) -> Dispute {
    let withdrawn = status != DisputeStatus::Won;
    let known =
        serde_json::json!({ "id": "du_1", "amount_minor": 1000, "status": status, "withdrawn": withdrawn });
    serde_json::from_value(known).unwrap()
}

const DISPUTED: Beside = Beside {
    capture_before_ms: None,
    held_minor: 0,
    is_disputed: true,
    card: None,
    amount_minor: None,
    currency: None,
};

/// The money was taken, nothing of it was given back, and banks want this.
fn disputed(question: &StatusQuery, disputes: &[Dispute]) -> StatusReply {
    match question {
        StatusQuery::Disputes { .. } => StatusReply::Disputes(disputes.to_vec()),
        StatusQuery::Refunds { .. } => taken_and(question, Vec::new),
        _ => StatusReply::Payment(TAKEN, DISPUTED),
    }
}

/// Gives the actions of the audit records since the last time.
pub(crate) fn audited(object_state: &mut ObjectState) -> Vec<&'static str> {
    object_state.appended.facts.audit.drain(..).map(|record| record.action).collect()
}

#[test]
fn a_dispute_is_found_by_asking_and_followed_to_its_end() {
    let mut object_state = keyed(PaymentState::Captured { amount_minor: 2500 });
    let mut asked = 0;
    let times = asked_at(&mut object_state, |question| {
        asked += u32::from(matches!(question, StatusQuery::Disputes { .. }));
        let status = if asked < 4 { DisputeStatus::Open } else { DisputeStatus::Won };
        disputed(question, &[a_dispute(status)])
    });
    let payment = object_state.resource.payment.as_ref().unwrap();
    assert_eq!(payment.dispute, Some(a_dispute(DisputeStatus::Won)));
    assert_eq!((payment.status(), payment.disputed_minor()), ("succeeded", 0));
    assert!(times.len() >= 5 && times[3] > 16 * DAY_MS, "{times:?}");
    let told = ["payment.disputed", "webhook.alert"];
    assert_eq!(audited(&mut object_state), [told, told].concat(), "once for each status");
}

#[test]
fn of_several_disputes_what_is_open_or_lost_is_summed_up() {
    let answer = |disputes: &[Dispute]| {
        let mut object_state = keyed(PaymentState::Captured { amount_minor: 2500 });
        let question = StatusQuery::Disputes {
            provider: Provider::Stripe,
            account: None,
            id: "pi_1".into(),
            doubt: None,
        };
        take(&mut object_state, &question, StatusReply::Disputes(disputes.to_vec()), &at(NOW_MS, 0)).unwrap();
        let payment = object_state.resource.payment.unwrap();
        (payment.status(), payment.disputed_minor(), payment.forbids_refunds())
    };
    let [open, won, lost] = [DisputeStatus::Open, DisputeStatus::Won, DisputeStatus::Lost].map(a_dispute);
    let inquiry = Dispute { refundable: true, withdrawn: false, ..open.clone() };
    assert_eq!(answer(&[]), ("succeeded", 0, false));
    assert_eq!(answer(std::slice::from_ref(&open)), ("disputed", 1000, true));
    assert_eq!(answer(std::slice::from_ref(&inquiry)), ("disputed", 0, false), "the bank only asks");
    assert_eq!(answer(std::slice::from_ref(&won)), ("succeeded", 0, false));
    assert_eq!(
        answer(std::slice::from_ref(&lost)),
        ("disputed", 1000, false),
        "what was not lost can be given back"
    );
    assert_eq!(answer(&[won, lost.clone(), open]), ("disputed", 2000, true));
    assert_eq!(
        answer(&[inquiry, lost]),
        ("disputed", 1000, false),
        "and beside what is lost it asks no more"
    );
}

/// Their sum says the same throughout: that it is 2000, and withdrawn.
#[test]
fn what_each_of_several_disputes_withdraws_is_written_down() {
    let mut object_state = keyed(PaymentState::Captured { amount_minor: 2500 });
    let mut withdrawn = |disputes: &[Dispute]| {
        let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
        let question = StatusQuery::Disputes { provider, account: None, id, doubt: None };
        let reply = StatusReply::Disputes(disputes.to_vec());
        take(&mut object_state, &question, reply, &at(NOW_MS, 0)).unwrap();
        let records = object_state.appended.facts.audit.drain(..);
        let disputed = records.filter(|record| record.action == "payment.disputed");
        let disputed: Vec<serde_json::Value> = disputed.map(|record| record.data).collect();
        let moved = disputed.iter().map(|data| data["moved"]["id"].to_string()).collect::<Vec<_>>().join(" ");
        let newest = disputed.last()?;
        let each = newest["disputes"].as_array().unwrap().clone();
        let those = each.iter().filter(|one| one["withdrawn"] == true).map(|one| one["id"].to_string());
        Some((newest["amount"].as_u64().unwrap(), those.collect::<Vec<_>>().join(" "), moved))
    };
    let first = a_dispute(DisputeStatus::Lost);
    let asked = Dispute { id: "du_2".into(), withdrawn: false, ..a_dispute(DisputeStatus::Open) };
    let second = Dispute { withdrawn: true, ..asked.clone() };
    let told = |amount, withdrawn: &str, moved: &str| Some((amount, withdrawn.to_owned(), moved.to_owned()));
    let both = r#""du_2" "du_1""#;
    assert_eq!(withdrawn(&[asked.clone(), first.clone()]), told(2000, r#""du_1""#, both));
    assert_eq!(withdrawn(&[asked, first.clone()]), None, "nothing has changed");
    assert_eq!(withdrawn(&[second, first]), told(2000, both, r#""du_2""#), "the other one has not moved");
}

#[test]
fn a_dispute_of_an_earlier_try_is_that_trys() {
    let mut object_state = keyed(PaymentState::Captured { amount_minor: 2500 });
    let row: Try = serde_json::from_value(serde_json::json!({
        "attempt": 1, "provider": "stripe", "merchant_account": null, "provider_payment": "pi_0", "derived_key": "key",
        "amount": 2500, "currency": "usd", "capture": true, "status": "failed", "definitive": true, "was_authorized": false,
        "ended_at_ms": null, "asked_for": "evt_1", "late": { "amount_minor": 2500, "captured": true, "stage": "given_back" },
    }))
    .unwrap();
    object_state.resource.tries.push(row);
    object_state.resource.payment.as_mut().unwrap().attempt = 2;
    let mut next = polling::questions(&object_state).into_iter().next();
    while let Some(question) = next {
        assert!(object_state.resource.tries[0].asked_for.is_some(), "until all is answered");
        next = take(
            &mut object_state,
            &question,
            disputed(&question, &[a_dispute(DisputeStatus::Lost)]),
            &at(NOW_MS, 0),
        )
        .unwrap();
    }
    assert_eq!(object_state.resource.tries[0].asked_for, None);
    assert_eq!(object_state.resource.tries[0].dispute, Some(a_dispute(DisputeStatus::Lost)));
    assert_eq!(object_state.resource.payment.as_ref().unwrap().dispute, None);
}
