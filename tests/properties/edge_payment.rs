//! The parameters of payments, captures and refunds: read alike from JSON and forms, and every wrong one named.

use std::collections::{BTreeMap, BTreeSet};

use messages::account::Account;
use once::fingerprint::{FieldError, Parameters};
use paid_once::config::Config;
use paid_once::edge::customer_params::customer_content;
use paid_once::edge::fields::NotAllowed;
use paid_once::edge::payment_params::{capture_request, no_parameters, payment_request, refund_request};
use paid_once::edge::shop_url::address;
use payments::payment::RefundReason;
use payments::payment::money::AMOUNT_MAX_MINOR;
use payments::payment::operation::PaymentRequest;
use payments::providers::Provider;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::rc::Rc;
use web::entries::in_address;

mod accounts;

const ORIGIN: &str = "https://pay.example";
const TOKEN_SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn config() -> Config {
    let account = format!(
        r#"{{"acme":{{"token_sha256":"{TOKEN_SHA256}","payment_method":"pm_1","adyen":{{"payment_method":"stored","customer":"shopper"}}}}}}"#
    );
    let settings = BTreeMap::from([
        ("SIGNING_KEY", "k".repeat(32)),
        ("STRIPE_SECRET_KEY", "sk_live_secret".to_owned()),
        ("STRIPE_API_BASE", "https://api.stripe.com".to_owned()),
        ("ADYEN_API_BASE", "https://checkout.adyen.com/v71".to_owned()),
        ("ADYEN_API_KEY", "key".to_owned()),
        ("ADYEN_MERCHANT_ACCOUNT", "Shop".to_owned()),
        ("API_ACCOUNTS", account),
    ]);
    Config::read(|name| settings.get(name).cloned()).unwrap()
}

fn account(config: &Config) -> &Account {
    &config.accounts["acme"]
}

fn fields(errors: Vec<FieldError>) -> Vec<String> {
    errors.into_iter().map(|error| error.field).collect()
}

fn read(parameters: &Parameters) -> Result<PaymentRequest, Vec<String>> {
    let config = config();
    let read = payment_request(parameters, &config, account(&config), ORIGIN);
    read.map_err(|refused| fields(refused.errors))
}

#[test]
fn an_account_with_a_merchant_account_of_its_own_is_never_routed_to_the_deployments() {
    let route = |more: &str, has_adyen: bool| {
        let account: Account = serde_json::from_str(&format!(
            r#"{{"payment_method":"pm_1","adyen":{{"payment_method":"stored","customer":"a"}}{more}}}"#
        ))
        .unwrap();
        let mut config = config();
        config.adyen = config.adyen.filter(|_| has_adyen);
        let read =
            payment_request(&with("provider", json!("adyen")), &config, &account.named("shop-a"), ORIGIN);
        read.map(|request| request.route.merchant_account.unwrap()).map_err(|refused| refused.errors.len())
    };
    let own = r#","own_adyen_keys":true,"adyen_account":{"merchant_account":"Shop_A"}"#;
    for has_adyen in [true, false] {
        assert_eq!(route(own, has_adyen).as_deref(), Ok("keys:shop-a/Shop_A"));
    }
    let named = r#","adyen_account":{"merchant_account":"Shop_A"}"#;
    for more in ["", named] {
        assert_eq!(route(more, true).as_deref(), Ok("Shop"));
        assert_eq!(route(more, false), Err(1), "there is none");
    }
}

fn members(value: &Value) -> Parameters {
    let Value::Object(members) = value else { panic!() };
    Parameters::Json(members.clone())
}

fn good() -> Value {
    json!({ "amount": 2500, "currency": "usd" })
}

fn with(name: &str, value: Value) -> Parameters {
    let mut body = good();
    body[name] = value;
    members(&body)
}

proptest! {
    #[test]
    fn json_and_forms_ask_for_the_same(
        amount in 50..=99_999_999u64,
        currency in "usd|EUR|jpy",
        capture in prop::option::of(any::<bool>()),
        order in prop::option::of("[!-~]{1,64}"),
        description in prop::option::of("[ -~äöü]{1,40}"),
        metadata in prop::collection::btree_map("[a-z]{1,12}", "[ -~]{1,20}", 0..6),
        adyen: bool,
        falls_back: bool,
    ) {
        let metadata: BTreeMap<_, _> = metadata.into_iter().filter(|(name, _)| name != "resource").collect();
        let (first, second) = if adyen { ("adyen", "stripe") } else { ("stripe", "adyen") };
        let mut json = json!({ "amount": amount, "currency": currency, "provider": first, "metadata": metadata });
        let mut pairs = vec![
            ("amount".to_owned(), amount.to_string()),
            ("currency".to_owned(), currency.clone()),
            ("provider".to_owned(), first.to_owned()),
        ];
        pairs.extend(metadata.iter().map(|(name, value)| (format!("metadata[{name}]"), value.clone())));
        let mut also = |name: &str, value: Value, text: String| {
            json[name] = value;
            pairs.push((name.to_owned(), text));
        };
        if let Some(capture) = capture {
            also("capture", capture.into(), capture.to_string());
        }
        if let Some(order) = &order {
            also("order_id", order.as_str().into(), order.clone());
        }
        if let Some(description) = &description {
            also("description", description.as_str().into(), description.clone());
        }
        if falls_back {
            json["fallback"] = json!({ "provider": second });
            pairs.push(("fallback[provider]".to_owned(), second.to_owned()));
        }
        let from_json = read(&members(&json));
        prop_assert_eq!(&from_json, &read(&Parameters::Form(pairs)));
        let request = from_json.unwrap();
        prop_assert_eq!(request.amount.get(), amount);
        prop_assert_eq!(request.currency.as_str(), currency.to_ascii_lowercase());
        prop_assert_eq!(request.capture, capture.unwrap_or(true));
        prop_assert_eq!((&request.order_id, &request.description), (&order, &description));
        prop_assert_eq!(request.metadata.into_iter().collect::<BTreeMap<_, _>>(), metadata);
        prop_assert_eq!(request.route.provider.as_str(), first);
        prop_assert_eq!(request.fallback.is_some(), falls_back);
        let routes = [Some(request.route), request.fallback];
        for route in routes.into_iter().flatten() {
            prop_assert_eq!(route.merchant_account.is_some(), route.provider == Provider::Adyen);
        }
    }

    #[test]
    fn whatever_is_sent_is_read_or_named(
        name in "amount|currency|capture|order_id|payment_method|provider|return_url|metadata|fallback|[a-z\\[\\]]{1,12}",
        value in prop_oneof![
            Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from), ".{0,80}".prop_map(Value::from),
            prop::collection::vec(".{0,4}", 0..3).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", ".{0,6}", 0..3).prop_map(|m| json!(m)),
        ],
    ) {
        match read(&with(&name, value)) {
            Ok(request) => {
                prop_assert!(request.order_id.is_none_or(|id| (1..=64).contains(&id.len())));
                prop_assert!(request.return_url.is_none_or(|url| url.starts_with("https://")));
                prop_assert!(request.metadata.iter().all(|(name, value)| name.chars().count() <= 40 && value.chars().count() <= 500));
                prop_assert!(request.amount.check(request.currency).is_ok());
            }
            Err(fields) => {
                prop_assert!(!fields.is_empty());
                let begins: String = name.chars().take_while(|c| *c != '[').collect();
                prop_assert!(fields.iter().all(|field| field.starts_with(&begins) || field == "amount"), "{:?}", fields);
            }
        }
    }

    #[test]
    fn all_that_is_wrong_is_named_at_once(wrong in prop::collection::btree_set(0..6usize, 1..6)) {
        let cases = [
            ("amount", json!("12.50")),
            ("currency", json!("xxx")),
            ("capture", json!("yes")),
            ("order_id", json!("")),
            ("return_url", json!("javascript:alert(1)")),
            ("colour", json!("red")),
        ];
        let mut body = good();
        for number in &wrong {
            body[cases[*number].0] = cases[*number].1.clone();
        }
        let named: BTreeSet<String> = read(&members(&body)).unwrap_err().into_iter().collect();
        let expected: BTreeSet<String> = wrong.into_iter().map(|number| cases[number].0.to_owned()).collect();
        prop_assert_eq!(named, expected);
    }

    #[test]
    fn a_browser_is_only_sent_to_https(text in "(https?://)?[ -~]{0,40}|.{0,20}", demo: bool) {
        if let Ok(address) = address(&text, demo) {
            prop_assert_eq!(&address, &text);
            prop_assert!(text.starts_with("https://") || (demo && text.starts_with("http://")));
            prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()) && !text.contains(['"', '<', '>', '\\']));
        }
    }

    #[test]
    fn a_capture_and_a_refund_read_an_amount_or_none(text in "[0-9]{1,14}|.{0,5}", as_number: bool) {
        let number = text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let value = match number.filter(|_| as_number) {
            Some(number) => json!(number),
            None => json!(text),
        };
        let expected = number.filter(|minor| (1..=AMOUNT_MAX_MINOR).contains(minor));
        let body = members(&json!({ "amount": value }));
        prop_assert_eq!(capture_request(&body).ok().and_then(|capture| capture.amount).map(|a| a.get()), expected);
        prop_assert_eq!(refund_request(&body).ok().and_then(|refund| refund.amount).map(|a| a.get()), expected);
        prop_assert_eq!(capture_request(&body).is_ok(), expected.is_some());
        prop_assert!(no_parameters(&body).is_err(), "a void has no parameters");
    }
}

#[test]
fn a_browser_is_only_sent_to_a_host() {
    for good in [
        "https://shop.example",
        "https://shop.example/",
        "https://shop.example?a",
        "https://shop.example#a",
        "https://shop.example:8443/back?to=a@b.example",
        "https://[2001:db8::1]/",
        "https://[::1]:8443",
        "https://192.0.2.1/",
        "https://shop.example:/",
        "https://xn--mnchen-3ya.example/",
    ] {
        assert_eq!(address(good, false).as_deref(), Ok(good));
    }
    for wrong in [
        "https://",
        "https:///back",
        "https://?a",
        "https://#a",
        "https://@shop.example/",
        "https://user@/",
        "https://shop.example@evil.example/",
        "https://user:password@shop.example/",
        "https://[::zz]/",
        "https://[::1/",
        "https://::1/",
        "https://[::1]8443/",
        "https://shop.example:port/",
        "https://shop.example:65536/",
        "https://shop.example:+80/",
        "https://:8443/",
        "https://shop]/",
        "http://shop.example/",
    ] {
        assert!(address(wrong, false).is_err(), "{wrong}");
    }
}

#[test]
fn a_refund_has_one_of_three_reasons() {
    for (reason, expected) in [
        (json!("duplicate"), Some(RefundReason::Duplicate)),
        (json!("fraudulent"), Some(RefundReason::Fraudulent)),
        (Value::Null, None),
        (json!("because"), None),
        (json!(7), None),
    ] {
        let read = refund_request(&members(&json!({ "reason": reason }))).ok();
        assert_eq!(read.map(|refund| refund.reason), expected, "{reason}");
    }
    assert_eq!(capture_request(&Parameters::Json(Map::new())).unwrap().amount, None);
}

/// Who sends a field with nothing in it has lost what was to stand there: it becomes neither all that is left nor somebody's default card.
#[test]
fn what_decides_is_left_out_or_has_a_value() {
    let form = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Parameters::Form(pairs.collect())
    };
    for name in ["amount", "reason"] {
        for body in [form(&[(name, "")]), members(&json!({ name: null }))] {
            let NotAllowed { errors, asked } = refund_request(&body).unwrap_err();
            assert_eq!(fields(errors), [name]);
            assert_eq!(asked.unwrap().reason, RefundReason::RequestedByCustomer, "as it was begun before");
        }
    }
    for body in [form(&[("amount", "")]), members(&json!({ "amount": null }))] {
        let NotAllowed { errors, asked } = capture_request(&body).unwrap_err();
        assert_eq!(fields(errors), ["amount"]);
        assert_eq!(asked.unwrap().amount, None, "as it was begun before");
    }
    assert!(
        refund_request(&members(&json!({ "amount": null, "reason": "because" })))
            .unwrap_err()
            .asked
            .is_none()
    );
    for name in ["currency", "capture", "payment_method", "customer", "order_id", "provider"] {
        let in_form = form(&[("amount", "2500"), ("currency", "usd"), (name, "")]);
        let in_form = match (name, in_form) {
            ("currency", _) => form(&[("amount", "2500"), (name, "")]),
            (_, body) => body,
        };
        for body in [in_form, with(name, Value::Null)] {
            assert_eq!(read(&body), Err(vec![name.to_owned()]), "{body:?}");
        }
    }
    let fallback = with("fallback", json!({ "provider": "adyen", "payment_method": null }));
    assert_eq!(read(&fallback), Err(vec!["fallback[payment_method]".to_owned()]));
    for (name, empty) in
        [("fallback", Value::Null), ("fallback", json!({})), ("fallback[provider]", Value::Null)]
    {
        assert_eq!(read(&with(name, empty)), Err(vec![name.to_owned()]));
    }
    let mut beside = good();
    beside["fallback"] = json!({ "provider": "adyen" });
    for name in ["fallback[customer]", "fallback[custmer]"] {
        beside[name] = Value::Null;
        assert_eq!(read(&members(&beside)), Err(vec![name.to_owned()]));
        beside.as_object_mut().unwrap().remove(name);
    }
    for metadata in [Value::Null, json!({}), json!({ "gift": null })] {
        assert_eq!(read(&with("metadata", metadata)).unwrap().metadata, []);
    }
    assert!(read(&with("metadata[gift]", Value::Null)).is_ok());
    for name in ["description", "return_url", "receipt_email"] {
        assert!(read(&with(name, Value::Null)).is_ok(), "{name}");
        assert!(read(&form(&[("amount", "2500"), ("currency", "usd"), (name, "")])).is_ok(), "{name}");
    }
    assert_eq!(
        read(&with("description", json!(""))).unwrap().description,
        None,
        "the provider takes no empty one"
    );
}

/// `null` under a name that nobody reads is a value that went astray: what it was meant for would be left out.
#[test]
fn a_misspelt_name_is_refused_with_any_value() {
    for value in [Value::Null, json!(500), json!("")] {
        let is_null = value.is_null();
        let body = members(&json!({ "amount_minor": value }));
        let refund = refund_request(&body).unwrap_err();
        let capture = capture_request(&body).unwrap_err();
        let nothing = no_parameters(&body).unwrap_err();
        assert_eq!(
            [refund.asked.is_some(), capture.asked.is_some(), nothing.asked.is_some()],
            [is_null; 3],
            "a release before ignored null alone"
        );
        for errors in [refund.errors, capture.errors, nothing.errors] {
            assert_eq!(fields(errors), ["amount_minor"]);
        }
        assert_eq!(fields(customer_content(&body).unwrap_err()), ["amount_minor"]);
    }
    assert_eq!(customer_content(&members(&json!({ "name": null }))).unwrap().name, None);
    assert_eq!(read(&with("metdata", Value::Null)), Err(vec!["metdata".to_owned()]));
}

#[test]
fn true_and_false_are_no_texts() {
    for name in ["order_id", "payment_method", "customer", "description", "receipt_email", "provider"] {
        assert_eq!(read(&with(name, json!(false))), Err(vec![name.to_owned()]), "{name}");
    }
    assert_eq!(read(&with("metadata", json!({ "gift": true }))), Err(vec!["metadata[gift]".to_owned()]));
    assert_eq!(read(&with("order_id", json!(1042))).unwrap().order_id.as_deref(), Some("1042"));
    assert!(!read(&with("capture", json!(false))).unwrap().capture);
}

#[test]
fn names_of_ours_and_too_much_metadata_are_refused() {
    for name in ["resource", "idempotency_key", "capture_key", "", "a[b]"] {
        assert!(read(&with("metadata", json!({ name: "x" }))).is_err(), "{name}");
    }
    let entries = |count: usize| -> Value { (0..count).map(|n| (format!("n{n}"), json!("x"))).collect() };
    assert!(read(&with("metadata", entries(40))).is_ok());
    assert_eq!(read(&with("metadata", entries(41))), Err(vec!["metadata".to_owned()]));
}

#[test]
fn what_may_be_empty_is_left_out_however_it_is_written() {
    let without = read(&members(&good())).unwrap();
    for name in ["description", "return_url", "receipt_email", "metadata"] {
        let form = [("amount", "2500"), ("currency", "usd"), (name, "")];
        let form = Parameters::Form(form.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        for body in [with(name, json!("")), with(name, Value::Null), form] {
            assert_eq!(read(&body).as_ref(), Ok(&without), "{name}: {body:?}");
        }
    }
    assert_eq!(read(&with("order_id", json!(""))), Err(vec!["order_id".to_owned()]));
    assert_eq!(read(&with("metadata", json!("x"))), Err(vec!["metadata".to_owned()]));
}

#[test]
fn the_fallback_is_another_provider_that_is_set_up() {
    let same = with("fallback", json!({ "provider": "stripe" }));
    assert_eq!(read(&same), Err(vec!["fallback[provider]".to_owned()]));
    let request = read(&with("fallback", json!({ "provider": "adyen" }))).unwrap();
    let route = request.fallback.unwrap();
    assert_eq!((route.payment_method.as_str(), route.customer.as_deref()), ("stored", Some("shopper")));
    let bare = Config { adyen: None, ..config() };
    let body = with("fallback", json!({ "provider": "adyen" }));
    let errors = payment_request(&body, &bare, account(&bare), ORIGIN).unwrap_err().errors;
    assert_eq!(errors[0].field, "fallback[provider]");
}

#[test]
fn what_is_well_formed_and_only_not_allowed_any_more_is_told_apart() {
    let mut bare = Config { adyen: None, ..config() };
    let account = Rc::make_mut(bare.accounts.get_mut("acme").unwrap());
    account.currencies = serde_json::from_value(json!({ "usd": { "amount_max": 3000 } })).unwrap();
    let asked = |more: &[(&str, Value)]| {
        let mut body = good();
        for (name, value) in more {
            body[*name] = value.clone();
        }
        payment_request(&members(&body), &bare, &bare.accounts["acme"], ORIGIN).unwrap_err().asked
    };
    for now in [
        ("amount", json!(3001)),
        ("currency", json!("eur")),
        ("currency", json!("ugx")),
        ("provider", json!("adyen")),
        ("fallback", json!({ "provider": "adyen" })),
        ("payment_method", Value::Null),
        ("fallback", Value::Null),
        ("metdata", Value::Null),
        ("order_id", json!(false)),
        ("metadata", json!({ "gift": true })),
    ] {
        assert!(asked(std::slice::from_ref(&now)).is_some(), "{now:?}");
        assert!(asked(&[now.clone(), ("capture", json!("perhaps"))]).is_none(), "{now:?}");
    }
    for wrong in [
        ("amount", json!(0)),
        ("currency", json!("xxx")),
        ("provider", json!("paypal")),
        ("provider", json!(true)),
        ("capture", Value::from("")),
    ] {
        assert!(asked(std::slice::from_ref(&wrong)).is_none(), "{wrong:?}");
    }
    let gift = asked(&[("metadata", json!({ "gift": true })), ("order_id", json!(false))]).unwrap();
    assert_eq!(gift.metadata, [("gift".to_owned(), "true".to_owned())], "as it was begun before");
    assert_eq!(gift.order_id.as_deref(), Some("false"), "as it was begun before");
}

#[test]
fn what_stands_in_the_address_is_named() {
    assert_eq!(fields(in_address("")), Vec::<String>::new());
    assert_eq!(fields(in_address("&amount=500&re%61son&=")), ["amount", "reason", ""]);
    assert_eq!(in_address(&"a=1&".repeat(50)).len(), 20);
    assert_eq!(in_address(&"a".repeat(500))[0].field.len(), 64);
}
