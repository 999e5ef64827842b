//! Who pays, and what an account may charge.

use super::*;

/// Adyen's schema asks for the shopper of a stored payment method: without one it would refuse, under the key.
#[test]
fn at_adyen_a_payment_method_is_somebodys() {
    let mut config = config();
    Rc::make_mut(config.accounts.get_mut("acme").unwrap()).adyen = None;
    let wrong = |body: Value| match payment_request(&members(&body), &config, account(&config), ORIGIN) {
        Ok(request) => Ok(request.route.customer),
        Err(NotAllowed { errors, .. }) => Err(fields(errors)),
    };
    let body = |more: Value| {
        let Value::Object(more) = more else { panic!() };
        let mut body = json!({ "amount": 2500, "currency": "usd" });
        body.as_object_mut().unwrap().extend(more);
        body
    };
    let alone = body(json!({ "provider": "adyen", "payment_method": "stored" }));
    assert_eq!(wrong(alone), Err(vec!["customer".to_owned()]));
    let fallback = body(json!({ "fallback": { "provider": "adyen", "payment_method": "stored" } }));
    assert_eq!(wrong(fallback), Err(vec!["fallback[customer]".to_owned()]));
    let whole = body(json!({ "provider": "adyen", "payment_method": "stored", "customer": "shopper" }));
    assert_eq!(wrong(whole), Ok(Some("shopper".to_owned())));
    let at_stripe = body(json!({ "payment_method": "pm_1" }));
    assert_eq!(wrong(at_stripe), Ok(None), "control: at Stripe it may be nobody's");
}

#[test]
fn an_account_charges_its_own_currencies_and_no_more_than_it_may() {
    let mut config = config();
    let account = Rc::make_mut(config.accounts.get_mut("acme").unwrap());
    account.currencies = serde_json::from_value(json!({ "usd": { "amount_max": 2500 }, "eur": {} })).unwrap();
    account.check().unwrap();
    let wrong = |amount: u64, currency: &str| {
        let body = json!({ "amount": amount, "currency": currency });
        match payment_request(&members(&body), &config, &config.accounts["acme"], ORIGIN) {
            Ok(_) => None,
            Err(NotAllowed { errors, .. }) => Some((errors[0].field.clone(), errors[0].message.clone())),
        }
    };
    assert_eq!(wrong(2500, "usd"), None);
    assert_eq!(wrong(99_999_999, "eur"), None);
    let (field, message) = wrong(2501, "usd").unwrap();
    assert!(field == "amount" && message.contains("at most 2500"), "{field} {message}");
    let (field, message) = wrong(2500, "gbp").unwrap();
    assert!(field == "currency" && message.contains("eur, usd"), "{field} {message}");
}

#[test]
fn an_account_that_is_bound_to_its_customers_uses_no_others() {
    let mut config = config();
    let account = Rc::make_mut(config.accounts.get_mut("acme").unwrap());
    account.customer_prefix = Some("acme-".to_owned());
    account.adyen.as_mut().unwrap().customer = "acme-shopper".to_owned();
    let read = |more: Value| {
        let mut body = good();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let read = payment_request(&members(&body), &config, &config.accounts["acme"], ORIGIN);
        read.map(|request| request.route.customer)
            .map_err(|refused| refused.errors.into_iter().map(|error| error.field).collect::<Vec<_>>())
    };
    let own = || Ok(Some("acme-shopper".to_owned()));
    assert_eq!(read(json!({})), Ok(None), "the account's own card");
    assert_eq!(read(json!({ "provider": "adyen" })), own());
    assert_eq!(read(json!({ "provider": "adyen", "payment_method": "stored" })), own());
    assert_eq!(
        read(json!({ "customer": "acme-7", "payment_method": "pm_7" })),
        Ok(Some("acme-7".to_owned()))
    );
    for provider in ["stripe", "adyen"] {
        for customer in ["other-7", "ACME-7", "acme"] {
            let wrong = Err(vec!["customer".to_owned()]);
            assert_eq!(read(json!({ "provider": provider, "customer": customer })), wrong);
            assert_eq!(
                read(json!({ "provider": provider, "customer": customer, "payment_method": "x" })),
                wrong
            );
        }
    }
    // At Stripe a method without a customer may be anybody's, and this account has no customer of its own.
    assert_eq!(read(json!({ "payment_method": "pm_7" })), Err(vec!["customer".to_owned()]));
    let fallback =
        json!({ "fallback": { "provider": "adyen", "payment_method": "x", "customer": "other-7" } });
    assert_eq!(read(fallback), Err(vec!["fallback[customer]".to_owned()]));
}
