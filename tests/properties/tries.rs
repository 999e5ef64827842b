//! How often an order may be tried, how soon again, and how many keys an object takes.

use once::begin::begin;
use once::call::FrozenRequest;
use once::context::Times;
use once::id::{InstanceId, ObjectId};
use once::record::{Finished, StoredResponse};
use paid_once::edge::checkout::limits::buckets;
use payments::engine::{
    Begin, CallState, Context, Lifecycle, Limits, ObjectState, ProviderCall, Settlement, context,
};
use payments::flows::tries::{FREE_TRIES, NextTry, next_try};
use payments::payment::money::AmountMinor;
use payments::payment::operation::{Operation, RefundRequest, Refusal};
use payments::payment::result::CallKind;
use payments::payment::{Failure, PaymentState, RefundReason};
use payments::providers::Provider;
use payments::transitions::try_rows;
use proptest::prelude::*;

use crate::payment::pay;
use crate::support::{NOW_MS, a_call, command};

const MINUTE_MS: u64 = 60_000;

fn at(now_ms: u64, limits: Limits) -> Context {
    context(now_ms, 500, Times::default(), limits)
}

/// An object in which operations end at once.
struct Order {
    object_state: ObjectState,
    keys: u32,
    limits: Limits,
}

impl Order {
    fn new(limits: Limits) -> Self {
        Self { object_state: ObjectState::empty(ObjectId::from_bytes([7; 32])), keys: 0, limits }
    }

    fn ask(&mut self, operation: Operation, now_ms: u64) -> Begin {
        self.keys += 1;
        let command = command(&format!("key-{}", self.keys), operation);
        begin(&mut self.object_state, &command, &InstanceId("me".into()), &at(now_ms, self.limits)).unwrap()
    }

    /// A try, which leaves the payment in this state.
    fn tries(&mut self, now_ms: u64, state: &PaymentState) -> Begin {
        let begun = self.ask(pay(true), now_ms);
        if matches!(begun, Begin::Run(_)) {
            try_rows::begin(&mut self.object_state, "sent");
            let key_id = self.object_state.keys.last().unwrap().key_id;
            let request = FrozenRequest::new(String::new(), String::new());
            let call = ProviderCall {
                call_id: key_id,
                key_id,
                state: CallState::Settled(Settlement::NotExecuted),
                ..a_call(Provider::Stripe, CallKind::Authorize, request)
            };
            self.object_state.calls.push(call);
            self.object_state.resource.payment.as_mut().unwrap().state = state.clone();
            self.end(now_ms);
        }
        begun
    }

    fn end(&mut self, now_ms: u64) {
        let response = StoredResponse { status: 402, headers: Vec::new(), body: Vec::new() };
        let expires_at_ms = now_ms + 24 * 60 * MINUTE_MS;
        self.object_state.keys.last_mut().unwrap().lifecycle =
            Lifecycle::Finished(Finished { response, finished_at_ms: now_ms, expires_at_ms });
    }

    fn next_try(&self, now_ms: u64) -> NextTry {
        next_try(&self.object_state, &at(now_ms, self.limits))
    }
}

fn declined() -> PaymentState {
    let code = "card_declined".to_owned();
    PaymentState::Failed(Failure { declined: true, code, decline_code: None, message: String::new() })
}

#[test]
fn the_first_tries_follow_at_once_and_then_each_pause_is_twice_the_last_one() {
    let mut order = Order::new(Limits::default());
    let (mut now_ms, mut pauses) = (NOW_MS, Vec::new());
    for _ in 0..Limits::default().order_tries_max {
        assert!(matches!(order.tries(now_ms, &declined()), Begin::Run(_)));
        match order.next_try(now_ms) {
            NextTry::Now => pauses.push(0),
            NextTry::At(at_ms) => {
                pauses.push((at_ms - now_ms) / 1000);
                let before = order.object_state.clone();
                assert_eq!(
                    order.tries(at_ms - 1, &declined()),
                    Begin::Refused(Refusal::TooSoon { retry_at_ms: at_ms })
                );
                assert_eq!(order.object_state, before, "what is refused leaves nothing, and its key is free");
                now_ms = at_ms;
            }
            NextTry::Never => pauses.push(u64::MAX),
        }
    }
    assert_eq!(pauses, [0, 0, 15, 30, 60, 120, 240, 480, 900, u64::MAX]);
    let later = order.tries(now_ms + 365 * 24 * 60 * MINUTE_MS, &declined());
    assert!(matches!(later, Begin::Refused(Refusal::LimitReached { .. })), "{later:?}");
}

#[test]
fn without_the_limits_an_order_is_tried_for_ever() {
    let mut order = Order::new(Limits { order_tries_max: u32::MAX, try_pause_ms: 0, keys_max: u32::MAX });
    for _ in 0..100 {
        assert!(matches!(order.tries(NOW_MS, &declined()), Begin::Run(_)));
    }
}

#[test]
fn a_payment_takes_so_many_keys_and_what_is_known_is_still_answered() {
    let mut order = Order::new(Limits { keys_max: 20, ..Limits::default() });
    order.tries(NOW_MS, &PaymentState::Captured { amount_minor: 5000 });
    let refund = || {
        Operation::Refund(RefundRequest {
            amount: AmountMinor::new(1),
            reason: RefundReason::Duplicate,
            seen: None,
        })
    };
    for _ in 1..20 {
        assert!(matches!(order.ask(refund(), NOW_MS), Begin::Run(_)));
        order.end(NOW_MS);
    }
    let refused = order.ask(refund(), NOW_MS);
    assert!(matches!(refused, Begin::Refused(Refusal::LimitReached { .. })), "{refused:?}");
    assert_eq!((order.object_state.keys.len(), order.object_state.resource.refunds.len()), (20, 19));
    order.keys = 1;
    assert!(matches!(order.ask(refund(), NOW_MS), Begin::Replay { .. }), "the first refund's key");
}

proptest! {
    #[test]
    fn an_order_is_tried_no_more_often_and_no_sooner_than_it_may(
        pauses in prop::collection::vec(0u64..20 * MINUTE_MS, 0..40), tries_max in 1u32..12, pause_ms in 0u64..60_000,
        given_up in any::<bool>(),
    ) {
        let limits = Limits { order_tries_max: tries_max, try_pause_ms: pause_ms, ..Limits::default() };
        let mut order = Order::new(limits);
        let state = if given_up { PaymentState::Canceled } else { declined() };
        let (mut now_ms, mut begun) = (NOW_MS, Vec::new());
        for pause in pauses {
            now_ms += pause;
            let promised = order.next_try(now_ms);
            let tried = order.tries(now_ms, &state);
            prop_assert_eq!(matches!(tried, Begin::Run(_)), promised == NextTry::Now, "{:?} {:?}", tried, promised);
            if matches!(tried, Begin::Run(_)) {
                begun.push(now_ms);
            }
        }
        prop_assert!(begun.len() <= tries_max as usize);
        for (first, pair) in begun.windows(2).enumerate().skip(FREE_TRIES as usize - 1) {
            prop_assert!(pair[1] - pair[0] >= pause_ms.min(900_000), "after try {}", first + 1);
        }
    }

    #[test]
    fn forms_are_counted_by_order_and_by_the_network_that_they_come_from(
        order: [u8; 32], other: [u8; 32], net: [u16; 4], host: [u16; 4], neighbour: [u16; 4], v4: [u8; 4],
    ) {
        prop_assume!(order != other && net != [0; 4]);
        let keys = |order: [u8; 32], address: Option<String>| -> Vec<String> {
            let buckets = buckets(ObjectId::from_bytes(order), address.as_deref());
            buckets.into_iter().map(|bucket| bucket.key).collect()
        };
        let v6 = |host: [u16; 4]| {
            let groups: Vec<_> = net.iter().chain(&host).map(|group| format!("{group:x}")).collect();
            Some(groups.join(":"))
        };
        let v4 = std::net::Ipv4Addr::from(v4).to_string();
        prop_assert_eq!(keys(order, None).len(), 1);
        prop_assert_ne!(keys(order, None), keys(other, None));
        prop_assert_eq!(keys(order, v6(host)), keys(order, v6(neighbour)), "one network");
        prop_assert_ne!(&keys(order, v6(host))[0], &keys(order, Some(v4.clone()))[0]);
        prop_assert_eq!(keys(order, Some(v4.clone())), keys(order, Some(format!("::ffff:{v4}"))));
        prop_assert_eq!(&keys(order, Some(v4.clone()))[0], &keys(other, Some(v4))[0], "wherever it goes");
    }
}
