//! Events of the providers: believed only with the right signature, taken in only forward, in any order.

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit, Mac};
use once::id::ObjectId;
use paid_once::webhooks::stripe::{Refused, Signature, Unreadable, read};
use paid_once::webhooks::{EventKind, adyen};
use payments::payment::id::PaymentId;
use proptest::prelude::*;
use serde_json::json;
use sha2::Sha256;

const SECRET: &str = "whsec_one";
const NOW_S: u64 = 1_800_000_000;

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn v1(secret: &str, at_s: u64, body: &str) -> String {
    base16ct::lower::encode_string(&hmac(secret.as_bytes(), format!("{at_s}.{body}").as_bytes()))
}

fn check(secrets: &[&str], header: &str, body: &str) -> Result<(), Refused> {
    let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    Signature::parse(header)?.verify(&secrets, body.as_bytes(), NOW_S * 1000)
}

#[test]
fn the_example_of_the_documentation_is_right() {
    // Made by the official library: stripe.webhooks.generateTestHeaderString({payload: '{"id":"evt_1"}', secret: 'whsec_test',
    // timestamp: 1800000000}).
    let body = r#"{"id":"evt_1"}"#;
    let header = format!("t={NOW_S},v1={}", v1("whsec_test", NOW_S, body));
    assert_eq!(check(&["whsec_test"], &header, body), Ok(()));
}

/// The destinations of a Stripe account can be told of thin events, too: what moves nothing here is taken, or Stripe would send it for days and
/// then stop.
#[test]
fn a_thin_event_about_nothing_of_ours_is_taken_and_tells_nothing() {
    let thin = json!({
        "id": "evt_1", "object": "v2.core.event", "type": "v2.core.account.updated", "livemode": false, "data": { "changed": [] },
        "related_object": { "id": "acct_1", "type": "v2.core.account", "url": "/v2/core/accounts/acct_1" },
    });
    for body in [thin.clone(), {
        let mut bare = thin;
        bare.as_object_mut().unwrap().remove("data");
        bare
    }] {
        let told = read(body.to_string().as_bytes()).unwrap();
        assert_eq!(
            (told.event.news, told.object, told.payment, told.live),
            (EventKind::Other, None, None, Some(false))
        );
    }
    // Others have their object.
    for body in [
        json!({ "id": "evt_1", "type": "x" }),
        json!({ "id": "evt_1", "object": "event", "type": "x", "data": {} }),
    ] {
        assert_eq!(read(body.to_string().as_bytes()), Err(Unreadable::NoEvent));
    }
}

/// <https://docs.stripe.com/changelog/endive/2026-09-30/thin-events-for-api-v1-resources-generally-available>
#[test]
fn a_thin_event_about_a_payment_says_that_there_is_something_to_ask_and_any_other_is_refused() {
    let thin = |kind: &str, related: &str, id: &str| {
        let body = json!({
            "id": "evt_1", "object": "v2.core.event", "type": kind, "livemode": true, "context": "acct_1",
            "related_object": { "id": id, "type": related, "url": format!("/v1/{related}s/{id}") },
        });
        read(body.to_string().as_bytes())
    };
    let told = thin("v1.payment_intent.succeeded", "payment_intent", "pi_1").unwrap();
    let payment = Some("pi_1".to_owned());
    let news = EventKind::Ask { refund: None, payment: payment.clone(), provider_key: None };
    assert_eq!((told.event.news, told.payment, told.live), (news, payment, Some(true)));
    assert_eq!(told.event.account.as_deref(), Some("acct_1"));
    for (kind, related, id) in [
        ("v1.charge.refunded", "charge", "ch_1"),
        ("v1.charge.dispute.created", "dispute", "du_1"),
        ("v1.refund.failed", "refund", "re_1"),
    ] {
        assert_eq!(thin(kind, related, id), Err(Unreadable::Thin), "it is not lost without a word");
    }
}

#[test]
fn secrets_can_be_rolled_on_both_sides() {
    let (one, two) = (v1("one", NOW_S, "x"), v1("two", NOW_S, "x"));
    let both = format!("t={NOW_S},v1={one},v1={two}");
    assert_eq!(check(&["two"], &both, "x"), Ok(()), "rolled there");
    assert_eq!(check(&["new", "one"], &format!("t={NOW_S},v1={one}"), "x"), Ok(()), "rolled here");
    assert_eq!(check(&["new"], &both, "x"), Err(Refused::Forged));
    assert_eq!(check(&[], &both, "x"), Err(Refused::Forged));
}

#[test]
fn what_is_not_signed_as_it_should_be_is_refused() {
    let right = v1(SECRET, NOW_S, "x");
    for header in
        ["", "t=1", &format!("v1={right}"), &format!("t=now,v1={right}"), &format!("t={NOW_S},v1=zz")]
    {
        assert_eq!(check(&[SECRET], header, "x"), Err(Refused::NoSignature), "{header}");
    }
    let v0 = format!("t={NOW_S},v0={right},v1={}", v1("other", NOW_S, "x"));
    assert_eq!(check(&[SECRET], &v0, "x"), Err(Refused::Forged), "v0 counts for nothing");
    for at_s in [NOW_S - 301, NOW_S + 301] {
        let header = format!("t={at_s},v1={}", v1(SECRET, at_s, "x"));
        assert_eq!(check(&[SECRET], &header, "x"), Err(Refused::Stale));
        let forged = format!("t={at_s},v1={}", v1("other", at_s, "x"));
        assert_eq!(
            check(&[SECRET], &forged, "x"),
            Err(Refused::Forged),
            "who cannot sign learns nothing of the clock"
        );
    }
}

proptest! {
    #[test]
    fn another_byte_of_the_body_is_another_signature(body in ".{1,40}", other in ".{1,40}") {
        let header = format!("t={NOW_S},v1={}", v1(SECRET, NOW_S, &body));
        prop_assert_eq!(check(&[SECRET], &header, &body), Ok(()));
        prop_assert_eq!(check(&[SECRET], &header, &other).is_ok(), body == other);
    }

    #[test]
    fn no_header_and_no_body_makes_it_fall(header in ".{0,80}", body in prop::collection::vec(any::<u8>(), 0..80)) {
        let verified = Signature::parse(&header).and_then(|signature| signature.verify(&[SECRET.to_owned()], &body, NOW_S * 1000));
        prop_assert!(verified.is_err());
        let _ = read(&body);
        let _ = adyen::items(&body);
    }
}

#[test]
fn an_event_finds_our_object_by_what_we_wrote_on_it() {
    let object = ObjectId::from_bytes([9; 32]);
    let id = PaymentId::in_object(object).to_string();
    let event = |data: serde_json::Value| {
        json!({ "id": "evt_1", "object": "event", "type": "x.y", "data": { "object": data } }).to_string()
    };
    let intent = event(json!({ "object": "payment_intent", "id": "pi_1", "metadata": { "resource": id } }));
    let told = read(intent.as_bytes()).unwrap();
    assert_eq!((told.object, told.payment.as_deref()), (Some(object), Some("pi_1")));
    let refund = event(json!({
        "object": "refund", "id": "re_1", "payment_intent": "pi_1", "metadata": { "resource": "re_x", "payment": id }
    }));
    let told = read(refund.as_bytes()).unwrap();
    assert_eq!(
        (told.object, told.event.news),
        (Some(object), EventKind::Ask { refund: Some("re_1".into()), payment: None, provider_key: None })
    );
    let elsewhere = event(
        json!({ "object": "charge", "id": "ch_1", "payment_intent": { "id": "pi_2" }, "metadata": {} }),
    );
    let told = read(elsewhere.as_bytes()).unwrap();
    assert_eq!((told.object, told.payment.as_deref()), (None, Some("pi_2")), "the read model may know it");
    let other = read(event(json!({ "object": "payout", "id": "po_1" })).as_bytes()).unwrap();
    assert_eq!((other.object, other.event.news), (None, EventKind::Other));
    assert_eq!(read(b"{}"), Err(Unreadable::NoEvent));
    // Its signature is over the bytes: one that nothing reads may be wrong.
    let mut cut = event(json!({ "object": "payout", "id": "po_1", "name": "Ren#" })).into_bytes();
    cut.iter_mut().filter(|byte| **byte == b'#').for_each(|byte| *byte = 0xc3);
    assert_eq!(read(&cut).unwrap().event.news, EventKind::Other);
}

/// The example of Adyen's documentation, with its key and signature.
#[test]
fn adyens_own_example_is_right() {
    let key = base16ct::lower::decode_vec("44782def547aaa06c910c43932b1eb0c71fc68d9d0c057550c48ec2acf6ba056")
        .unwrap();
    let item = |signature: &str, value: u32| {
        json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": {
            "additionalData": { "hmacSignature": signature },
            "amount": { "value": value, "currency": "EUR" },
            "pspReference": "7914073381342284", "originalReference": "",
            "eventCode": "AUTHORISATION", "eventDate": "2019-05-06T17:15:34.121+02:00",
            "merchantAccountCode": "TestMerchant", "merchantReference": "TestPayment-1407325143704",
            "operations": ["CANCEL", "CAPTURE", "REFUND"], "paymentMethod": "visa", "success": "true"
        } }] })
        .to_string()
    };
    let signature = "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=";
    let signed = |text: &str| {
        adyen::items(text.as_bytes()).unwrap().iter().all(|item| item.is_signed(std::slice::from_ref(&key)))
    };
    assert!(signed(&item(signature, 1130)));
    assert!(!signed(&item(signature, 1131)), "another amount");
    assert!(!signed(&item(&Base64::encode_string(&hmac(b"other", b"x")), 1130)), "another key");
    assert!(!signed(&item("", 1130)), "no signature");
}

/// Of what was authorised Adyen says the authorisation's number, the card's last digits and until when it is good.
#[test]
fn a_reason_is_kept_of_what_did_not_work_alone() {
    let told = |code: &str, success: &str, reason: &str| {
        let item = json!({ "amount": { "value": 5, "currency": "EUR" }, "eventCode": code, "merchantAccountCode": "Shop",
            "pspReference": "psp_1", "originalReference": "psp_0", "success": success, "reason": reason });
        let body = json!({ "notificationItems": [{ "NotificationRequestItem": item }] }).to_string();
        let item = adyen::items(body.as_bytes()).unwrap().remove(0);
        item.read().0.news.told().unwrap().clone()
    };
    for code in ["AUTHORISATION", "CAPTURE", "CHARGEBACK"] {
        let told = told(code, "true", "033899:1111:03/2030");
        assert_eq!((told.success, told.reason.as_str()), (true, ""), "{code}");
    }
    for (code, success) in [
        ("AUTHORISATION", "false"),
        ("REFUND", "false"),
        ("CAPTURE_FAILED", "true"),
        ("REFUND_FAILED", "true"),
        ("REFUNDED_REVERSED", "true"),
        ("OFFER_CLOSED", "true"),
    ] {
        let told = told(code, success, "Not enough balance");
        assert_eq!((told.success, told.reason.as_str()), (false, "not_enough_balance"), "{code}");
    }
}

/// Adyen tells of many things, some of which have no amount, a negative one, or `null` where others have a text.
#[test]
fn an_odd_item_of_adyens_keeps_no_other_from_being_read() {
    let key = b"a key".to_vec();
    let signature = |signed: &str| Base64::encode_string(&hmac(b"a key", signed.as_bytes()));
    let good = json!({
        "additionalData": { "hmacSignature": signature("psp_1::Shop::5:EUR:AUTHORISATION:true") },
        "amount": { "value": 5, "currency": "EUR" }, "eventCode": "AUTHORISATION", "merchantAccountCode": "Shop",
        "pspReference": "psp_1", "success": "true"
    });
    let odd = [
        json!({
            "additionalData": { "hmacSignature": signature("psp_2::Shop::-990:EUR:CHARGEBACK:true"), "more": null },
            "amount": { "value": -990, "currency": "EUR" }, "eventCode": "CHARGEBACK", "merchantAccountCode": "Shop",
            "merchantReference": null, "originalReference": null, "pspReference": "psp_2", "reason": null,
            "success": true
        }),
        json!({
            "additionalData": { "hmacSignature": signature("psp_3::Shop::99999999999:KRW:SOME_NEWS:") },
            "amount": { "value": 99_999_999_999_i64, "currency": "KRW" }, "eventCode": "SOME_NEWS",
            "merchantAccountCode": "Shop", "pspReference": "psp_3", "success": null
        }),
        json!({
            "additionalData": { "hmacSignature": signature("psp_4::Shop::::REPORT_AVAILABLE:true") },
            "amount": { "value": null, "currency": null }, "eventCode": "REPORT_AVAILABLE",
            "merchantAccountCode": "Shop", "pspReference": "psp_4", "success": "true"
        }),
    ];
    for odd in odd {
        let body = json!({ "live": "false", "notificationItems": [
            { "NotificationRequestItem": odd }, { "NotificationRequestItem": good }
        ] });
        let items = adyen::items(body.to_string().as_bytes()).unwrap();
        assert!(items.iter().all(|item| item.is_signed(std::slice::from_ref(&key))), "{odd}");
        let read: Vec<_> = items.into_iter().map(|item| item.read().0.news).collect();
        assert!(matches!(read[0], EventKind::Other | EventKind::Dispute { .. }));
        assert!(matches!(&read[1], EventKind::Authorisation(told) if told.amount_minor == 5 && told.success));
    }
    // A name that is cut in the middle of a character, which nothing reads and no signature covers.
    let mut named = good.clone();
    named["additionalData"]["shopperName"] = json!("Ren#");
    let body = json!({ "notificationItems": [
        { "NotificationRequestItem": named }, { "NotificationRequestItem": good }
    ] });
    let mut bytes = body.to_string().into_bytes();
    let cut = bytes.iter().position(|byte| *byte == b'#').unwrap();
    bytes[cut] = 0xc3;
    let items = adyen::items(&bytes).unwrap();
    assert_eq!(items.iter().filter(|item| item.is_signed(std::slice::from_ref(&key))).count(), 2);
    bytes[cut] = b'#';
    let signed = body.to_string().find("psp_1").unwrap();
    bytes[signed] = 0xc3;
    let items = adyen::items(&bytes).unwrap();
    let read = items.iter().filter(|item| item.is_signed(std::slice::from_ref(&key))).count();
    assert!(read < 2, "control: where a signature covers it, it is wrong");
    let unsigned = json!({ "notificationItems": [{ "NotificationRequestItem": {
        "additionalData": null, "eventCode": "AUTHORISATION", "pspReference": "psp_1", "success": "true"
    } }] });
    let items = adyen::items(unsigned.to_string().as_bytes()).unwrap();
    assert!(!items[0].is_signed(&[key]), "nothing is no signature");
}
