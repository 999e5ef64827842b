//! What each provider is told about the same money. The numbers are written out, from the providers' own tables: a factor that the
//! program and a test shared would hide a wrong one.

use std::collections::BTreeMap;

use once::fingerprint::Parameters;
use paid_once::config::Config;
use paid_once::edge::payment_params::payment_request;
use paid_once::webhooks::EventKind;
use paid_once::webhooks::adyen::items;
use payments::engine::Outcome;
use payments::payment::locale::Locale;
use payments::payment::money::for_people;
use payments::payment::money::{AMOUNT_MAX_MINOR, AmountMinor, Currency};
use payments::payment::result::{CallKind, ProviderResult};
use payments::providers::adyen::minor_units::{from_adyen, to_adyen};
use payments::providers::adyen::{self, authorize};
use payments::providers::{Authorization, Provider, UnsupportedMoney};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{a_call, answer};

/// A currency, an amount as clients and Stripe say it, what people call that, and Adyen's `value`.
const SAME_MONEY: [(&str, u64, &str, i64); 20] = [
    ("usd", 2_500, "$25.00", 2_500),
    ("eur", 50, "€0.50", 50),
    ("huf", 17_500, "HUF 175.00", 17_500),
    ("twd", 1_234, "NT$12.34", 1_234),
    ("clp", 1_000, "CLP 1,000", 100_000),
    ("clp", 99_999_999, "CLP 99,999,999", 9_999_999_900),
    ("idr", 999_999_999_900, "IDR 9,999,999,999.00", 9_999_999_999),
    ("cve", 250_000, "CVE 2,500.00", 2_500),
    ("idr", 1_000_000, "IDR 10,000.00", 10_000),
    ("isk", 50_000, "ISK 500.00", 50_000),
    ("jpy", 500, "¥500", 500),
    ("krw", 12_000, "₩12,000", 12_000),
    ("vnd", 99_999_999, "₫99,999,999", 99_999_999),
    ("pyg", 7_000, "PYG 7,000", 7_000),
    ("xaf", 655, "FCFA 655", 655),
    ("kwd", 12_500, "KWD 12.500", 12_500),
    ("bhd", 1_000, "BHD 1.000", 1_000),
    ("jod", 990, "JOD 0.990", 990),
    ("omr", 10, "OMR 0.010", 10),
    ("tnd", 4_990, "TND 4.990", 4_990),
];

/// Currencies that Stripe charges, and that stand in no table of Adyen's.
const NOT_AT_ADYEN: [&str; 11] =
    ["afn", "ang", "bgn", "bif", "cdf", "lbp", "lrd", "lsl", "mga", "std", "tjs"];

fn currency(code: &str) -> Currency {
    Currency::parse(code).unwrap()
}

fn amount(minor: u64) -> AmountMinor {
    AmountMinor::new(minor).unwrap()
}

#[test]
fn the_same_money_is_said_to_each_provider_in_its_own_units() {
    for (code, minor, people, value) in SAME_MONEY {
        let shown = for_people(Locale::En, minor, currency(code));
        assert_eq!(shown.replace('\u{a0}', " "), people);
        assert_eq!(to_adyen(minor, currency(code)), Ok(value), "{code}");
        assert_eq!(from_adyen(value, &code.to_ascii_uppercase()), Some(minor), "{code}");
        let asked = Authorization {
            amount_minor: minor,
            currency: currency(code),
            capture: true,
            payment_method: "card",
            customer: None,
            merchant_account: None,
            description: None,
            metadata: &[],
            return_url: None,
            payment_url: "https://pay.example/payments/pay_1",
            resource: "pay_1",
            provider_key: "po_1",
        };
        let at_stripe = payments::providers::stripe::authorize(&asked);
        assert!(
            at_stripe.body.starts_with(&format!("amount={minor}&currency={code}&")),
            "{}",
            at_stripe.body
        );
        let at_adyen: Value = serde_json::from_str(&authorize(&asked).unwrap().body).unwrap();
        assert_eq!(at_adyen["amount"], json!({ "value": value, "currency": code.to_ascii_uppercase() }));
    }
}

#[test]
fn what_adyen_cannot_express_is_refused_and_never_rounded() {
    for (code, minor) in [("idr", 1_000_050), ("idr", 99), ("cve", 250_001)] {
        let refused = Provider::Adyen.check_amount(amount(minor), currency(code)).unwrap_err();
        assert!(matches!(&refused, UnsupportedMoney::Amount(message) if message.contains("multiple of 100")));
        assert_eq!(Provider::Stripe.check_amount(amount(minor), currency(code)), Ok(()));
    }
    for code in NOT_AT_ADYEN {
        let refused = Provider::Adyen.check_amount(amount(1_000), currency(code)).unwrap_err();
        assert!(
            matches!(&refused, UnsupportedMoney::Currency(message) if message.contains(code)),
            "{refused:?}"
        );
        assert_eq!(Provider::Stripe.check_amount(amount(1_000), currency(code)), Ok(()));
        assert_eq!(from_adyen(1_000, code), None);
    }
    // What Adyen tells of and no amount of ours is: half a peso, more than fits, money taken back.
    for (value, code) in
        [(150, "CLP"), (9_999_999_999_999, "KRW"), (60_000_000_000, "IDR"), (-990, "EUR"), (1, "XXX")]
    {
        assert_eq!(from_adyen(value, code), None, "{value} {code}");
    }
}

#[test]
fn what_stripe_rounds_is_refused_before() {
    for (code, good, bad) in
        [("isk", 50_000, 50_050), ("isk", 100, 501), ("kwd", 1_000, 1_001), ("tnd", 4_990, 4_999)]
    {
        assert!(amount(good).check(currency(code)).is_ok(), "{code} {good}");
        assert!(amount(bad).check(currency(code)).is_err(), "{code} {bad}");
        assert!(amount(bad).check_rounding(currency(code)).is_err(), "a part of it: {code} {bad}");
    }
    // Only their payouts are in whole units.
    for code in ["huf", "twd"] {
        assert!(amount(17_501).check(currency(code)).is_ok(), "{code}");
    }
}

#[test]
fn a_currency_of_which_the_providers_say_two_things_is_not_offered() {
    let message = Currency::parse_offered("UGX").unwrap_err();
    assert!(message.contains("ugx is not offered"), "{message}");
    assert_eq!(Currency::parse_offered("usd"), Ok(Currency::USD));
    assert!(Currency::parse_offered("xyz").is_err());
    // A payment of before is still read.
    assert_eq!(serde_json::from_value::<Currency>(json!("ugx")).unwrap(), currency("ugx"));
}

fn asked(mut parameters: Value) -> Result<(), Vec<String>> {
    let account = r#"{"acme":{"token_sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","payment_method":"pm_1",
        "adyen":{"payment_method":"stored","customer":"shopper"}}}"#;
    let settings = BTreeMap::from([
        ("SIGNING_KEY", "k".repeat(32)),
        ("STRIPE_SECRET_KEY", "sk_live_secret".to_owned()),
        ("STRIPE_API_BASE", "https://api.stripe.com".to_owned()),
        ("ADYEN_API_BASE", "https://checkout.adyen.com/v71".to_owned()),
        ("ADYEN_API_KEY", "key".to_owned()),
        ("ADYEN_MERCHANT_ACCOUNT", "Shop".to_owned()),
        ("API_ACCOUNTS", account.to_owned()),
    ]);
    let config = Config::read(|name| settings.get(name).cloned()).unwrap();
    let Value::Object(members) = parameters.take() else { panic!() };
    let read =
        payment_request(&Parameters::Json(members), &config, &config.accounts["acme"], "https://pay.example");
    read.map(|_| ()).map_err(|refused| refused.errors.into_iter().map(|error| error.field).collect())
}

#[test]
fn each_provider_of_a_payment_is_checked_when_it_is_asked_for() {
    let adyen =
        |amount: u64, currency: &str| json!({ "amount": amount, "currency": currency, "provider": "adyen" });
    let falls_back = |amount: u64, currency: &str| json!({ "amount": amount, "currency": currency, "fallback": { "provider": "adyen" } });
    for good in [
        adyen(1_000, "clp"),
        adyen(1_000_000, "idr"),
        falls_back(1_000_000, "idr"),
        falls_back(1_000, "clp"),
        adyen(200, "sek"),
        // 1.5 million rupiahs are some 90 US dollars.
        json!({ "amount": 150_000_000, "currency": "idr" }),
        adyen(999_999_999_900, "idr"),
        json!({ "amount": 99_999_999, "currency": "usd" }),
    ] {
        assert_eq!(asked(good.clone()), Ok(()), "{good}");
    }
    for (wrong, field) in [
        (adyen(1_000_050, "idr"), "amount"),
        (falls_back(1_000_050, "idr"), "amount"),
        (adyen(1_000, "mga"), "currency"),
        (adyen(1_000, "bif"), "currency"),
        (falls_back(1_000, "bif"), "fallback[provider]"),
        (json!({ "amount": 1_000, "currency": "ugx" }), "currency"),
        (json!({ "amount": 50_050, "currency": "isk" }), "amount"),
        // Less than Stripe takes.
        (json!({ "amount": 200, "currency": "sek" }), "amount"),
        (falls_back(200, "sek"), "amount"),
        // More than is taken.
        (json!({ "amount": 100_000_000, "currency": "usd" }), "amount"),
        (adyen(100_000_000, "eur"), "amount"),
        (json!({ "amount": 1_000_000_000_000_u64, "currency": "idr" }), "amount"),
    ] {
        assert_eq!(asked(wrong.clone()), Err(vec![field.to_owned()]), "{wrong}");
    }
    // Stripe alone takes them.
    assert_eq!(asked(json!({ "amount": 1_000, "currency": "mga" })), Ok(()));
}

/// Adyen's answers and notifications, in its units, are read in ours.
#[test]
fn what_adyen_answers_and_tells_is_read_in_our_units() {
    let payment = crate::adyen::a_payment_in(currency("clp"), 1_000);
    let request = adyen::capture("PSP", &payment, 400, "po_1").unwrap();
    assert!(request.body.contains(r#""amount":{"value":40000,"currency":"CLP"}"#), "{}", request.body);
    let call = a_call(Provider::Adyen, CallKind::Capture, request);
    let received = |value: i64| json!({ "pspReference": "C", "status": "received", "amount": { "value": value, "currency": "CLP" } });
    let captured = |outcome| match outcome {
        Outcome::Definitive(reply) => Some(reply.result),
        _ => None,
    };
    let classify = |value| captured(Provider::Adyen.classify(&call, &answer(201, received(value))));
    assert_eq!(classify(40_000), Some(ProviderResult::Received { modification: "C".into() }));
    assert_eq!(classify(400), None, "a hundredth of what was asked for is not believed");

    let told = |value: i64, code: &str| {
        let body = json!({ "notificationItems": [{ "NotificationRequestItem": {
            "amount": { "value": value, "currency": code }, "eventCode": "CAPTURE", "pspReference": "C",
            "originalReference": "PSP", "merchantReference": "pay_1.po_1", "success": "true"
        } }] });
        let news = items(body.to_string().as_bytes()).unwrap().remove(0).read().0.news;
        let EventKind::Capture(told) = news else { panic!("{news:?}") };
        told
    };
    assert_eq!(told(40_000, "CLP").amount_minor, 400);
    assert_eq!(told(10_000, "IDR").amount_minor, 1_000_000);
    assert_eq!(told(150, "CLP").amount_minor, 0, "no amount of ours is half a peso");
    assert!(adyen::told(&call, &told(40_000, "CLP")).is_ok());
    assert!(adyen::told(&call, &told(400, "CLP")).is_err());
    assert!(adyen::told(&call, &told(40_000, "COP")).is_err());
}

proptest! {
    #[test]
    fn what_was_said_to_adyen_is_what_is_read_back(minor in 1..=AMOUNT_MAX_MINOR, code in "[a-z]{3}") {
        let codes = SAME_MONEY.map(|(code, ..)| code);
        for code in codes.into_iter().chain([code.as_str()]) {
            let Some(currency) = Currency::parse(code) else { continue };
            if let Ok(value) = to_adyen(minor, currency) {
                prop_assert_eq!(from_adyen(value, &code.to_ascii_uppercase()), Some(minor));
            }
        }
    }
}
