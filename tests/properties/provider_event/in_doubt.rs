//! News about a payment whose end is not known.

use super::*;
use payments::engine::{CallState, LookUp};
use payments::providers::stripe;

impl Harness {
    /// For four days the look-up finds nothing.
    fn find_nothing_for_days(&mut self) {
        for hour in 1..=96 {
            let now_ms = NOW_MS + hour * 3_600_000;
            for token in wake(&mut self.object_state, &InstanceId("me".into()), &at(now_ms)) {
                let (mut run, mut event) = (Run::new(token, 0, &[]), Input::Go);
                loop {
                    event = match run.step(&mut self.object_state, event, &at(now_ms)).unwrap() {
                        Action::Again => Input::Go,
                        Action::LookUp(call) => Input::LookedUp(call.call_id, LookUp::Absent),
                        Action::Send(call) => panic!("{} is sent again", call.name),
                        Action::SleepUntil(_) | Action::End(_) => break,
                    };
                }
            }
        }
    }
}

/// What was taken over and is authorised later must be all of it, in its own currency.
#[test]
fn a_part_that_is_authorised_later_is_not_the_payment() {
    for (amount, currency, is_all) in [
        (AMOUNT, "usd", true),
        (PART, "usd", false),
        (AMOUNT, "eur", false),
        (2 * AMOUNT, "usd", false),
        (0, "usd", false),
    ] {
        let mut harness = Harness::of(Provider::Adyen);
        let derived = harness.run(
            "pay",
            pay(Provider::Adyen),
            Some(ProviderResult::Processing { payment: "psp_pay".into() }),
        );
        let mut event = harness.told("AUTHORISATION", &derived, "psp_pay", true, amount);
        let EventKind::Authorisation(told) = &mut event.news else { panic!() };
        told.currency = currency.to_owned();
        let taken = ingest::take(&mut harness.object_state, &event, &at(NOW_MS + 1)).unwrap();
        let status = harness.object_state.resource.payment.as_ref().unwrap().status();
        assert_eq!(
            (taken == Ingested::Applied, status == "succeeded"),
            (is_all, is_all),
            "{amount} {currency}: {taken:?}"
        );
    }
}

/// Of a payment whose answer was lost Stripe tells under its key: it is asked for by its id then, also where no list shows it.
#[test]
fn news_of_a_payment_in_doubt_says_what_to_look_up() {
    let mut harness = Harness::of(Provider::Stripe);
    let derived = harness.run("pay", pay(Provider::Stripe), None);
    let news = |key: &str| EventKind::Ask {
        refund: None,
        payment: Some("pi_late".into()),
        provider_key: Some(key.to_owned()),
    };
    let event = |event_id: &str, key: &str| Event { news: news(key), ..ask(event_id, None) };
    ingest::take(&mut harness.object_state, &event("evt_1", "of_another_call"), &at(NOW_MS + 1)).unwrap();
    assert_eq!(harness.object_state.calls[0].evidence.provider_id, None);
    ingest::take(&mut harness.object_state, &event("evt_2", &derived), &at(NOW_MS + 1)).unwrap();
    let call = &harness.object_state.calls[0];
    assert_eq!(stripe::look_up(call).path, "/v1/payment_intents/pi_late");
    assert_eq!(call.next_try_at_ms, NOW_MS + 1);
    // What it names exists: that a look does not find it is no proof that nothing was charged.
    harness.find_nothing_for_days();
    assert_eq!(harness.object_state.calls[0].state, CallState::Unknown);
}
