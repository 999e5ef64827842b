use base64ct::{Base64UrlUnpadded, Encoding as _};
use paid_once::edge::checkout::Order;
use paid_once::edge::checkout::request::link_to_json;
use serde_json::{Value, json};
use web::locale::Locale;

use super::checkout::{line, order};
use super::support::signing_keys as keys;

/// What stands in its link.
fn payload(order: &Order) -> Value {
    let link = order.seal(&keys(&["k"])).unwrap();
    let payload = Base64UrlUnpadded::decode_vec(link.split_once('.').unwrap().0).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

#[test]
fn what_a_link_has_not_is_left_off_so_that_releases_of_before_read_it() {
    let plain = order(vec![line("Mug", 1450, 2)]);
    let german = Order { locale: Some(Locale::De), ..plain.clone() };
    let cancel_url = Some("https://shop.example/cart".to_owned());
    let back = Order { cancel_url: cancel_url.clone(), ..plain.clone() };
    let both = Order { cancel_url, ..german.clone() };
    let after_the_revision = |order: &Order| payload(order).as_array().unwrap()[8..].to_vec();
    assert_eq!(after_the_revision(&plain), [] as [Value; 0]);
    assert_eq!(after_the_revision(&german), [json!("de")]);
    assert_eq!(after_the_revision(&back), [Value::Null, json!("https://shop.example/cart")]);
    assert_eq!(after_the_revision(&both), [json!("de"), json!("https://shop.example/cart")]);
    let later = |order: &Order| after_the_revision(&Order { capture: false, ..order.clone() });
    assert_eq!(later(&plain), [Value::Null, Value::Null, json!(false)]);
    assert_eq!(later(&both), [json!("de"), json!("https://shop.example/cart"), json!(false)]);
}

/// Else the link that charges at once could be paid beside the newer one that does not.
#[test]
fn another_time_of_the_charge_is_another_link() {
    let plain = order(vec![line("Mug", 1450, 2)]);
    assert_ne!(plain.content(), Order { capture: false, ..plain.clone() }.content());
}

/// What it was before there was another time: a link that is asked for again after a deploy replaces none.
#[test]
fn what_a_link_sells_is_told_as_releases_of_before_told_it() {
    let content = order(vec![line("Mug", 1450, 2)]).content();
    assert_eq!(content, "s4PjuxXm_ahM2UiR_wbHmu63WvbkCuAMnbDNeq8sESQ");
}

/// Else a link with another way back would end the one before.
#[test]
fn the_way_back_of_who_does_not_pay_sells_nothing() {
    let plain = order(vec![line("Mug", 1450, 2)]);
    let back = Order { cancel_url: Some("https://shop.example/cart".to_owned()), ..plain.clone() };
    assert_eq!(plain.content(), back.content());
    let other = Order { return_url: back.cancel_url, ..plain.clone() };
    assert_ne!(
        plain.content(),
        other.content(),
        "control: where the receipt leads is a part of what is sold"
    );
}

#[test]
fn the_answer_to_the_merchant_tells_what_the_link_is_for() {
    let order = order(vec![line("Mug", 1450, 2)]);
    let expected = json!({
        "object": "checkout_session",
        "url": "https://pay.example/checkout/x",
        "order_id": "order_1",
        "amount": 2900,
        "currency": "usd",
        "revision": 3,
        "locale": "auto",
        "capture": true,
        "expires_at": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(link_to_json(&order, "https://pay.example/checkout/x"), expected);
}
