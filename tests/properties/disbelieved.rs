//! What a provider shows under a payment's id that nobody has asked for, or that others have done.

use payments::engine::ObjectState;
use payments::payment::PaymentState;
use payments::payment::money::Currency;
use payments::payment::result::RemoteState;
use payments::payment::status_query::{Beside, StatusQuery, StatusReply};
use payments::providers::Provider;
use payments::transitions::answers::take;

use crate::check::{NOW_MS, at, audited, keyed};

/// Until it is confirmed whoever has a key of the account can change what a payment is for.
#[test]
fn what_nobody_has_asked_for_is_not_believed_and_a_person_is_told_once() {
    let waiting = || keyed(PaymentState::RequiresAction { url: "https://bank.example/".into() });
    let usd = Currency::parse("usd");
    let ask = |object_state: &mut ObjectState, amount_minor: u64, beside: Beside| {
        let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
        let question = StatusQuery::Payment { provider, account: None, id, doubt: None };
        let status_reply = StatusReply::Payment(RemoteState::Captured { amount_minor }, beside);
        take(object_state, &question, status_reply, &at(NOW_MS, 0)).unwrap();
        (object_state.resource.payment.as_ref().unwrap().status().to_owned(), audited(object_state))
    };
    let shown =
        |amount_minor, currency| Beside { amount_minor: Some(amount_minor), currency, ..Beside::default() };
    for (taken_minor, beside) in [
        (9900, shown(9900, usd)),
        (100, shown(100, usd)),
        (2500, shown(2500, Currency::parse("jpy"))),
        (100, shown(2500, usd)),
        (0, shown(2500, usd)),
    ] {
        let mut object_state = waiting();
        let told = ask(&mut object_state, taken_minor, beside);
        assert_eq!(told, ("requires_action".to_owned(), vec!["webhook.alert"]), "{taken_minor} {beside:?}");
        assert_eq!(ask(&mut object_state, taken_minor, beside).1, Vec::<&str>::new(), "once");
        let (status, audited) = ask(&mut object_state, 2500, shown(2500, usd));
        assert_eq!(status, "succeeded", "control: what was asked for");
        assert!(audited.contains(&"payment.captured"), "{audited:?}");
        assert_eq!(object_state.resource.payment.unwrap().disbelieved, None);
    }
}

#[test]
fn what_others_capture_in_parts_is_kept_as_it_is_and_the_rest_is_for_a_person() {
    let mut object_state = keyed(PaymentState::Authorized);
    object_state.resource.payment.as_mut().unwrap().capture = false;
    let mut answer = |amount_minor: u64, held_minor: u64| {
        let (provider, id) = (Provider::Stripe, "pi_1".to_owned());
        let question = StatusQuery::Payment { provider, account: None, id, doubt: None };
        let beside = Beside { held_minor, ..Beside::default() };
        let status_reply = StatusReply::Payment(RemoteState::Captured { amount_minor }, beside);
        take(&mut object_state, &question, status_reply, &at(NOW_MS, 0)).unwrap();
        (object_state.resource.payment.as_ref().unwrap().captured_minor(), audited(&mut object_state))
    };
    assert_eq!(answer(400, 2100), (400, vec!["payment.captured", "webhook.alert"]));
    assert_eq!(answer(400, 2100), (400, vec![]));
    assert_eq!(answer(900, 1600), (900, vec!["capture.elsewhere", "webhook.alert"]));
    assert_eq!(answer(400, 1600), (900, vec![]), "an older answer");
    assert_eq!(answer(900, 0), (900, vec![]), "the rest has lapsed");
    assert_eq!(answer(2700, 0), (2500, vec!["capture.elsewhere", "webhook.alert"]), "more than was reserved");
}
