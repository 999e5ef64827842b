//! Settings: what is missing or impossible is named, and no secret is ever quoted.

use std::collections::HashMap;

use paid_once::config::{Config, Convention};
use runtime::log::{self, Level};
use web::signing::{Genuine, Purpose};

const TOKEN_SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn production() -> HashMap<&'static str, String> {
    let accounts = format!(r#"{{"acme":{{"token_sha256":"{TOKEN_SHA256}","payment_method":"pm_1"}}}}"#);
    HashMap::from([
        ("SIGNING_KEY", "k".repeat(32)),
        ("STRIPE_SECRET_KEY", "sk_live_secret".to_owned()),
        ("STRIPE_API_BASE", "https://api.stripe.com/".to_owned()),
        ("API_ACCOUNTS", accounts),
    ])
}

fn read(changes: &[(&'static str, &str)]) -> Result<Config, String> {
    let mut settings = production();
    for (name, value) in changes {
        settings.insert(name, (*value).to_owned());
    }
    Config::read(|name| settings.get(name).cloned())
}

#[test]
fn a_complete_configuration_is_read_and_knows_its_accounts_by_their_tokens() {
    let config = read(&[]).unwrap();
    assert!(!config.demo && !config.unprotected);
    assert_eq!(config.stripe_base, "https://api.stripe.com");
    assert_eq!(config.account(TOKEN_SHA256).map(|(id, _)| id), Some("acme"));
    assert!(!config.accounts.contains_key("user@example.com"), "the demo's accounts are not in production");
}

#[test]
fn every_missing_setting_is_named() {
    for name in ["SIGNING_KEY", "STRIPE_SECRET_KEY", "STRIPE_API_BASE", "API_ACCOUNTS"] {
        for nothing in ["", " \n"] {
            let error = read(&[(name, nothing)]).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }
}

#[test]
fn what_cannot_be_right_is_refused_and_no_secret_is_quoted() {
    let upper = TOKEN_SHA256.to_uppercase();
    let account = |token: &str| format!(r#""token_sha256":"{token}","payment_method":"pm_1""#);
    let cases = [
        ("API_ACCOUNTS", r#"{"acme":"hush-token"}"#.to_owned()),
        ("API_ACCOUNTS", r#""{\"acme\":\"hush-token\"}""#.to_owned()),
        ("API_ACCOUNTS", format!(r#"{{"acme":{{{},"hush-token":1}}}}"#, account(TOKEN_SHA256))),
        ("API_ACCOUNTS", format!(r#"{{"acme":{{{}}}}}"#, account("hush-token"))),
        ("API_ACCOUNTS", format!(r#"{{"acme":{{{}}}}}"#, account(&upper))),
        ("API_ACCOUNTS", format!(r#"{{"a":{{{0}}},"b":{{{0}}}}}"#, account(TOKEN_SHA256))),
        (
            "API_ACCOUNTS",
            format!(
                r#"{{"a":{{{},"currencies":{{"usd":{{"amount_max":"hush-token"}}}}}}}}"#,
                account(TOKEN_SHA256)
            ),
        ),
        ("API_ACCOUNTS", format!(r#"{{"a":{{{},"currencies":{{}}}}}}"#, account(TOKEN_SHA256))),
        ("API_ACCOUNTS", r#"{"a":{"payment_method":"hush-token"}}"#.to_owned()),
        ("ACCOUNTS_CACHE_MS", "60001".to_owned()),
        ("SHARDS_CACHE_MS", "999".to_owned()),
        ("SHARDS_CACHE_MS", "10001".to_owned()),
        ("ACCOUNTS_CACHE_SHARDS", "0".to_owned()),
        ("ACCOUNTS_CACHE_SHARDS", "65".to_owned()),
        ("METRICS_INTERVAL_MS", "25001".to_owned()),
        ("SIGNING_KEY", "hush-token".to_owned()),
        ("SIGNING_KEY", format!("{} hush-token", "k".repeat(32))),
        ("SIGNING_KEY", format!("{}@2027-01-31", "hush-token".repeat(4))), // the one that signs
        ("SIGNING_KEY", format!("{} {}@2027-02-30", "k".repeat(32), "hush-token".repeat(4))),
        ("SIGNING_KEY", format!("{} {}@", "k".repeat(32), "hush-token".repeat(4))),
        ("STRIPE_API_BASE", "http://api.stripe.com".to_owned()),
        (
            "API_ACCOUNTS",
            format!(
                r#"{{"a":{{{},"customer":"hush-token","customer_prefix":"a-"}}}}"#,
                account(TOKEN_SHA256)
            ),
        ),
        ("API_ACCOUNTS", format!(r#"{{"a":{{{},"stripe_account":"hush-token"}}}}"#, account(TOKEN_SHA256))),
        ("API_ACCOUNTS", format!(r#"{{"a":{{{},"shop":{{"name":" hush-token"}}}}}}"#, account(TOKEN_SHA256))),
        (
            "API_ACCOUNTS",
            format!(
                r#"{{"a":{{{},"shop":{{"name":"A","support":"javascript:hush-token"}}}}}}"#,
                account(TOKEN_SHA256)
            ),
        ),
        (
            "API_ACCOUNTS",
            format!(
                r#"{{"a":{{{},"shop":{{"name":"A","logo":"http://shop.example/hush-token.png"}}}}}}"#,
                account(TOKEN_SHA256)
            ),
        ),
        ("SECURITY_CONTACT", "mailto:hush-token@example.com".to_owned()), // without a time
        ("ADYEN_WEBHOOK_AUTH", "hush-token".to_owned()),
        ("UNPROTECTED", "true".to_owned()),
        ("LAB", "true".to_owned()), // without the demo
        ("CREATED_STATUS", "200".to_owned()),
        ("KEY_ECHO", "none".to_owned()),
        ("ERROR_MEMBER", "error".to_owned()),
        ("DEFAULT_CURRENCY", "usd".to_owned()),
        ("METRICS_SHARDS", "0".to_owned()),
        ("METRICS_SHARDS", "33".to_owned()),
        ("METRICS_SHARDS", "many".to_owned()),
        ("LOG_LEVEL", "loud".to_owned()),
        ("DEMO", "true".to_owned()), // with a live key
        ("STRIPE_PUBLISHABLE_KEY", "sk_live_hush-token".to_owned()), // the wrong one of the two
        ("STRIPE_PUBLISHABLE_KEY", "pk_live_hush-token".to_owned()),
        ("LEASE_MS", "ninety".to_owned()),
        ("PROVIDER_TIMEOUT_MS", "90000".to_owned()),
        ("PROVIDER_WINDOW_MS", "86400000".to_owned()),
    ];
    for (name, value) in cases {
        let error = read(&[(name, &value)]).unwrap_err();
        assert!(error.contains(name), "{name}={value}: {error}");
        assert!(!error.contains("hush-token") && !error.contains("sk_live_secret"), "{error}");
    }
}

#[test]
fn a_shop_is_known_by_its_name_and_answers_by_email_or_on_a_page() {
    for (support, leads_to) in [
        ("help@shop.example", "mailto:help@shop.example"),
        ("https://shop.example/help", "https://shop.example/help"),
    ] {
        let shop = format!(r#""shop":{{"name":"Ada’s shop","support":"{support}"}}"#);
        let accounts =
            format!(r#"{{"a":{{"token_sha256":"{TOKEN_SHA256}","payment_method":"pm_1",{shop}}}}}"#);
        let config = read(&[("API_ACCOUNTS", &accounts)]).unwrap();
        let shop = config.accounts["a"].shop.as_ref().unwrap();
        assert_eq!((shop.name.as_str(), shop.support_href().as_deref()), ("Ada’s shop", Some(leads_to)));
    }
    assert!(read(&[]).unwrap().accounts["acme"].shop.is_none());
}

/// A secret and a variable are deployed one after the other: what can be done without stops nothing else meanwhile.
#[test]
fn a_part_that_is_not_set_as_a_whole_counts_as_not_set() {
    let adyen = [
        ("ADYEN_API_BASE", "https://checkout-test.adyen.com/v71"),
        ("ADYEN_API_KEY", "hush-token"),
        ("ADYEN_MERCHANT_ACCOUNT", "Shop"),
    ];
    for (number, left_out) in adyen.iter().enumerate() {
        let rest: Vec<_> = adyen.iter().copied().filter(|setting| setting != left_out).collect();
        let config = read(&rest).unwrap();
        assert!(config.adyen.is_none() && config.credentials.adyen.is_none());
        assert_eq!(config.incomplete.len(), 2, "{number}: {:?}", config.incomplete);
        for (sentence, (name, _)) in config.incomplete.iter().zip(&rest) {
            assert!(sentence.starts_with(name) && sentence.contains(left_out.0), "{sentence}");
            assert!(!sentence.contains("hush-token"), "{sentence}");
        }
    }
    let whole = read(&adyen).unwrap();
    assert!(whole.adyen.is_some() && whole.incomplete.is_empty());
    // What is asked of it by name is never given to the other one.
    assert!(read(&[adyen[0], ("PROVIDER", "adyen")]).unwrap_err().contains("ADYEN_API_BASE"));

    for (name, value, needs) in [
        ("RESEND_API_KEY", "hush-token", "RECEIPT_FROM"),
        ("OTLP_HEADERS", "a=hush-token", "OTLP_ENDPOINT"),
        ("STRIPE_PUBLISHABLE_KEY", "pk_test_1", "STRIPE_SECRET_KEY"), // the other one is live
    ] {
        let config = read(&[(name, value)]).unwrap();
        assert!(config.email.is_none() && config.collector.is_none() && config.publishable_key.is_none());
        let [sentence] = config.incomplete.as_slice() else { panic!("{:?}", config.incomplete) };
        assert!(sentence.starts_with(name) && sentence.contains(needs), "{sentence}");
        assert!(!sentence.contains("hush-token"), "{sentence}");
    }
    for alone in [("RECEIPT_FROM", "f"), ("OTLP_ENDPOINT", "https://otlp.example")] {
        assert!(read(&[alone]).unwrap().incomplete.is_empty(), "{alone:?} is as it may be");
    }
}

#[test]
fn every_provider_is_spoken_to_over_https() {
    let adyen = [("ADYEN_API_KEY", "k"), ("ADYEN_MERCHANT_ACCOUNT", "m")];
    let email = [("RESEND_API_KEY", "k"), ("RECEIPT_FROM", "f")];
    let rest: [(&'static str, &[(&'static str, &str)]); 3] =
        [("STRIPE_API_BASE", &[]), ("ADYEN_API_BASE", &adyen), ("RESEND_API_BASE", &email)];
    for (name, more) in rest {
        let with = |base: &str| read(&[&[(name, base)], more].concat());
        assert!(with("https://provider.example").is_ok(), "{name}");
        for plain in ["http://provider.example", "provider.example", "HTTP://provider.example"] {
            let error = with(plain).unwrap_err();
            assert!(error.contains(name) && error.contains("https://"), "{error}");
        }
    }
}

#[test]
fn no_secret_of_the_demo_is_taken_in_production() {
    let toml = include_str!("../../wrangler.toml");
    let demo = toml.split("[env.demo.vars]").nth(1).unwrap().split("\n[").next().unwrap();
    let published = demo.lines().filter_map(|line| line.split_once(" = "));
    let secrets: Vec<(&'static str, &str)> =
        published.filter(|(name, _)| name.ends_with("_KEY") || name.ends_with("_SECRET")).collect();
    assert_eq!(secrets.len(), 7, "{secrets:?}");
    for (name, value) in secrets {
        let value = value.trim_matches('"');
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.contains(name) && error.contains("the demo's value"), "{error}");
        assert!(!error.contains(value), "{error}");
        if name.starts_with("STRIPE_WEBHOOK") || name.starts_with("ADYEN_HMAC") {
            let error = read(&[(name, &format!("00 {value}"))]).unwrap_err();
            assert!(error.contains("the demo's value"), "beside another one: {error}");
        }
    }
}

#[test]
fn the_log_has_what_is_grave_enough() {
    assert_eq!(read(&[]).unwrap().log_level, Level::Info);
    let written = |word: &'static str| {
        log::set_least(read(&[("LOG_LEVEL", word)]).unwrap().log_level);
        ["info", "warn", "error"].map(log::is_written)
    };
    assert_eq!(written("error"), [false, false, true]);
    assert_eq!(written("warn"), [false, true, true]);
    assert_eq!(written("info"), [true, true, true]);
}

#[test]
fn an_older_signing_key_still_verifies() {
    let (new, old) = ("n".repeat(32), "o".repeat(32));
    let keys = |setting: &str| read(&[("SIGNING_KEY", setting)]).unwrap().signing_keys;
    let signature = keys(&old).sign(Purpose::OrderLink, &[b"order"]);
    let verified = |setting: &str| keys(setting).verify(Purpose::OrderLink, &[b"order"], &signature);
    assert_eq!(verified(&new), None);
    let ends_at_ms = |verified: Option<Genuine>| verified.map(|genuine| genuine.ends_at_ms);
    assert_eq!(ends_at_ms(verified(&format!("{new}\n{old}"))), Some(u64::MAX));
    assert_eq!(ends_at_ms(verified(&format!("{new} {old}@2027-01-15"))), Some(1_799_971_200_000));
    assert_eq!(ends_at_ms(verified(&format!("{new} {old}@2027-1-15"))), Some(1_799_971_200_000));
}

#[test]
fn the_convention_of_tutorials_is_read_in_the_demo_and_what_is_none_is_named() {
    let demo = |name: &'static str, value: &str| {
        read(&[("DEMO", "true"), ("STRIPE_SECRET_KEY", "sk_test_demo"), (name, value)])
    };
    assert_eq!(demo("CREATED_STATUS", "201").unwrap().convention, Convention::default());
    assert_eq!(demo("CREATED_STATUS", "200").unwrap().convention.created_status, Some(200));
    assert!(demo("KEY_ECHO", "body").unwrap().convention.echoes_key);
    assert!(demo("ERROR_MEMBER", "error").unwrap().convention.has_error);
    assert_eq!(demo("DEFAULT_CURRENCY", "eur").unwrap().convention.currency.unwrap().as_str(), "eur");
    for (name, value) in [
        ("CREATED_STATUS", "204"),
        ("KEY_ECHO", "true"),
        ("ERROR_MEMBER", "body"),
        ("DEFAULT_CURRENCY", "euro"),
    ] {
        let error = demo(name, value).unwrap_err();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn the_lab_is_a_demo_with_an_account_for_whoever_has_none() {
    let test_key = ("STRIPE_SECRET_KEY", "sk_test_demo");
    let lab = read(&[("DEMO", "true"), ("LAB", "true"), test_key]).unwrap();
    assert!(lab.lab);
    let (id, account) = lab.anonymous().unwrap();
    assert_eq!((id, account.payment_method.as_str()), ("anonymous", "pm_card_visa"));

    let same_name = format!(r#"{{"anonymous":{{"token_sha256":"{TOKEN_SHA256}","payment_method":"pm_1"}}}}"#);
    let accounts = ("API_ACCOUNTS", same_name.as_str());
    let demo = read(&[("DEMO", "true"), accounts, test_key]).unwrap();
    assert!(!demo.lab && demo.anonymous().is_none());
    assert!(
        read(&[accounts]).unwrap().anonymous().is_none(),
        "nor in production, whatever an account is called"
    );
}

/// The demo's tokens are published: whoever has read them must reach nobody's money.
#[test]
fn the_demo_reaches_no_live_account() {
    let with = |stripe_key, adyen_base| {
        read(&[
            ("DEMO", "true"),
            ("STRIPE_SECRET_KEY", stripe_key),
            ("ADYEN_API_BASE", adyen_base),
            ("ADYEN_API_KEY", "key"),
            ("ADYEN_MERCHANT_ACCOUNT", "Shop"),
        ])
        .map(|_| ())
    };
    let (test, live) = (
        "https://checkout-test.adyen.com/v71",
        "https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout/v71",
    );
    assert_eq!(with("sk_test_1", test), Ok(()));
    assert!(with("sk_live_1", test).unwrap_err().contains("STRIPE_SECRET_KEY"));
    assert!(with("sk_test_1", live).unwrap_err().contains("ADYEN_API_BASE"));
}

#[test]
fn the_checkout_takes_real_cards_with_a_publishable_key_of_the_same_mode() {
    assert_eq!(read(&[]).unwrap().publishable_key, None);
    let config = read(&[("STRIPE_PUBLISHABLE_KEY", "pk_live_1")]).unwrap();
    assert_eq!(config.publishable_key.as_deref(), Some("pk_live_1"));
    let test =
        [("STRIPE_PUBLISHABLE_KEY", "pk_test_1"), ("STRIPE_SECRET_KEY", "rk_test_1"), ("DEMO", "true")];
    let config = read(&test).unwrap();
    assert_eq!(config.publishable_key.as_deref(), Some("pk_test_1"));
    assert!(config.accounts.contains_key(&config.checkout_account));
    let stranger = [("DEMO", "true"), ("STRIPE_SECRET_KEY", "sk_test_1"), ("CHECKOUT_ACCOUNT", "nobody")];
    assert!(read(&stranger).unwrap_err().contains("CHECKOUT_ACCOUNT"));
}

#[test]
fn the_limits_of_an_object_can_be_set_and_not_switched_off() {
    let limits = read(&[]).unwrap().limits;
    assert_eq!((limits.order_tries_max, limits.try_pause_ms, limits.keys_max), (10, 15_000, 200));
    let limits =
        read(&[("ORDER_TRIES_MAX", "3"), ("ORDER_TRY_PAUSE_MS", "0"), ("KEYS_MAX", "50")]).unwrap().limits;
    assert_eq!((limits.order_tries_max, limits.try_pause_ms, limits.keys_max), (3, 0, 50));
    for (name, value) in [("ORDER_TRIES_MAX", "0"), ("KEYS_MAX", "1001"), ("KEYS_MAX", "many")] {
        assert!(read(&[(name, value)]).unwrap_err().contains(name));
    }
}

#[test]
fn copies_at_the_edge_last_for_a_short_time_or_are_switched_off() {
    assert_eq!(read(&[]).unwrap().replay_cache_ms, 10_000);
    for (value, ms) in [("0", 0), ("60000", 60_000)] {
        assert_eq!(read(&[("REPLAY_CACHE_MS", value)]).unwrap().replay_cache_ms, ms);
    }
    for value in ["60001", "-1", "10s"] {
        assert!(read(&[("REPLAY_CACHE_MS", value)]).unwrap_err().contains("REPLAY_CACHE_MS must be"));
    }
}

#[test]
fn an_origin_that_no_browser_sends_is_refused() {
    let origins =
        read(&[("CORS_ORIGINS", "https://shop.example, http://localhost:3000")]).unwrap().cors_origins;
    assert_eq!(origins, ["https://shop.example", "http://localhost:3000"]);
    for value in [
        "https://Shop.example",
        "https://shop.example:443",
        "http://shop.example:80",
        "https://shop.example/",
        "*",
    ] {
        assert!(read(&[("CORS_ORIGINS", value)]).unwrap_err().contains("CORS_ORIGINS must be"), "{value}");
    }
}
