//! When the provider is asked how a payment stands that is not decided yet.

use std::collections::BTreeSet;

use paid_once::machine::context::{Context, Limits, Times};
use paid_once::machine::id::{ObjectId, PaymentId, RefundId};
use paid_once::machine::rows::Rows;
use paid_once::payment::check::{begin, look_wait_ms};
use paid_once::payment::money::{AmountMinor, Currency};
use paid_once::payment::{Check, Payment, PaymentState, Refund, RefundReason, RefundState};
use paid_once::providers::Provider;
use proptest::prelude::*;

const NOW_MS: u64 = 1_800_000_000_000;

fn at(now_ms: u64, jitter_permille: u16) -> Context {
    Context::new(now_ms, jitter_permille, Times::default(), Limits::default())
}

/// A payment that waits at the bank's page, this old.
fn at_the_bank(age_ms: u64) -> Rows {
    let mut rows = Rows::empty(ObjectId::from_bytes([7; 32]));
    rows.payment = Some(Payment {
        id: PaymentId::in_object(rows.object),
        amount: AmountMinor::new(2500).unwrap(),
        currency: Currency::USD,
        capture: true,
        order_id: Some("order-1".into()),
        description: None,
        customer: None,
        metadata: Vec::new(),
        return_url: Some("https://shop.example/".into()),
        receipt_email: None,
        provider: Provider::Stripe,
        merchant_account: None,
        provider_payment: Some("pi_1".into()),
        attempt: 1,
        moves: 0,
        state: PaymentState::RequiresAction { url: "https://bank.example/".into() },
        pending: None,
        failed_operation: None,
        ended_at_ms: None,
        dispute: None,
        receipted: false,
        check: Some(Check { next_at_ms: NOW_MS, tries: 0, asked_at_ms: None, told_at_ms: None }),
        doubts: Vec::new(),
        created_at_ms: NOW_MS - age_ms,
    });
    rows
}

fn wait_ms(rows: &Rows, now_ms: u64) -> u64 {
    look_wait_ms(&rows.payment.as_ref().unwrap().check.unwrap(), &at(now_ms, 0))
}

proptest! {
    #[test]
    fn whoever_looks_may_ask_a_second_after_the_last_question_however_old_the_payment_is(
        age_ms in 0..100_000_000_u64,
        jitter in 0..=1000_u16,
        asked in 1..12_usize,
    ) {
        let mut rows = at_the_bank(age_ms);
        let mut now_ms = NOW_MS;
        for _ in 0..asked {
            prop_assert_eq!(begin(&mut rows, false, &at(now_ms, jitter)).len(), 1, "the alarm asks when it is due");
            prop_assert_eq!(begin(&mut rows, false, &at(now_ms, jitter)).len(), 0);
            let next_ms = rows.payment.as_ref().unwrap().check.unwrap().next_at_ms;
            prop_assert!(next_ms > now_ms);
            prop_assert_eq!(begin(&mut rows.clone(), true, &at(now_ms + 999, jitter)).len(), 0);
            prop_assert_eq!(wait_ms(&rows, now_ms + 400), 600);
            prop_assert_eq!(begin(&mut rows.clone(), true, &at(now_ms + 1000, jitter)).len(), 1);
            prop_assert_eq!(wait_ms(&rows, now_ms + 1000), 0);
            now_ms = next_ms;
        }
    }
}

#[test]
fn the_first_who_looks_may_ask_at_once() {
    let mut rows = at_the_bank(0);
    rows.payment.as_mut().unwrap().check.as_mut().unwrap().next_at_ms = NOW_MS + 5_000;
    assert_eq!(wait_ms(&rows, NOW_MS), 0);
    assert_eq!(begin(&mut rows, true, &at(NOW_MS, 0)).len(), 1);
}

#[test]
fn of_many_pending_refunds_each_has_its_turn() {
    let mut rows = at_the_bank(0);
    let payment = rows.payment.as_mut().unwrap();
    payment.state = PaymentState::Captured { amount_minor: 2500 };
    for number in 1..=23 {
        rows.refunds.push(Refund {
            id: RefundId(format!("re_{number}")),
            key_id: number,
            amount: AmountMinor::new(1).unwrap(),
            reason: RefundReason::Duplicate,
            state: RefundState::Pending,
            provider_refund: Some(format!("re_at_stripe_{number}")),
            created_at_ms: NOW_MS,
            version: 0,
        });
    }
    let mut now_ms = NOW_MS;
    let mut asked = BTreeSet::new();
    for _ in 0..3 {
        let questions = begin(&mut rows, false, &at(now_ms, 0));
        assert_eq!(questions.len(), 10, "one look asks no more");
        asked.extend(questions.iter().map(|question| format!("{question:?}")));
        now_ms = rows.payment.as_ref().unwrap().check.unwrap().next_at_ms;
    }
    assert_eq!(asked.len(), 23);
}
