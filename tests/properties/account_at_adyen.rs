//! In which merchant account at Adyen a payment is made, and with whose key.

use once::account::Credential;
use once::begin::begin;
use once::id::ObjectId;
use paid_once::webhooks::{Event as Notice, EventKind, Ingested, OperationNotice};
use payments::engine::{
    Action, Begin, Credentials, Event, ObjectState, ProviderReply, Run, with_credentials,
};
use payments::payment::money::Currency;
use payments::payment::operation::{Operation, Refusal};
use payments::payment::own_keys::{self, Merchant};
use payments::payment::result::{CallKind, ProviderResult};
use payments::providers::{Provider, adyen};
use payments::transitions::ingest;
use proptest::prelude::*;

use crate::account::key;
use crate::adyen::a_payment_in;
use crate::payment::pay;
use crate::support::{NOW_MS, a_call, at, command, me};

/// A key at Adyen that is of this merchant account.
fn adyen_key(merchant: Merchant<'_>) -> Credentials {
    let deployments = Some(Credential::of("", &["https://checkout-test.adyen.com/v71"], false));
    Credentials { adyen: deployments, own_adyen: Some(merchant.credential()), ..key("sk_test_1") }
}

fn at_adyen(name: &str) -> Operation {
    let mut operation = pay(true);
    if let Operation::Payment(request) = &mut operation {
        request.route.provider = Provider::Adyen;
        request.route.merchant_account = Some(name.to_owned());
    }
    operation
}

#[test]
fn a_key_at_adyen_stands_for_its_own_merchant_account_alone() {
    let shop = Merchant { account: "Shop", live_prefix: None };
    let own = own_keys::name_of("shop-a");
    let credentials = adyen_key(shop);
    let with = |name: &str| credentials.with(Provider::Adyen, Some(name));
    assert!(with(&shop.name(&own)).is_some());
    assert_eq!(with("Shop"), credentials.adyen, "the deployment's, of whatever name");
    for other in [
        Merchant { account: "Other", live_prefix: None },
        Merchant { live_prefix: Some("17-Shop"), ..shop },
        Merchant { account: "", live_prefix: None },
    ] {
        assert_eq!(with(&other.name(&own)), None, "{other:?}");
    }
    assert_eq!(with(&own), None, "no merchant account is named");
    let none = Credentials { own_adyen: None, ..credentials };
    assert_eq!(
        none.with(Provider::Adyen, Some(&shop.name(&own))),
        None,
        "never the deployment's in its place"
    );
    // Another endpoint does not know its idempotency keys.
    let live = |prefix| Merchant { account: "Shop", live_prefix: Some(prefix) };
    let at = |prefix| adyen_key(live("17-Shop")).with(Provider::Adyen, Some(&live(prefix).name(&own)));
    assert!(at("17-Shop").is_some_and(|credential| credential.live));
    assert_ne!(at("17-Shop"), at("18-Shop"));
}

#[test]
fn nothing_begins_at_adyen_without_a_key_of_the_merchant_account() {
    let shop = Merchant { account: "Shop", live_prefix: None };
    let name = shop.name(&own_keys::name_of("shop-a"));
    let begins = |credentials: Credentials| {
        let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let ctx = with_credentials(at(NOW_MS), credentials);
        begin(&mut state, &command("key", at_adyen(&name)), &me(), &ctx).unwrap()
    };
    let refused = Begin::Refused(Refusal::KeysUnusable);
    assert_eq!(begins(Credentials { own_adyen: None, ..adyen_key(shop) }), refused);
    assert_eq!(begins(adyen_key(Merchant { account: "Other", live_prefix: None })), refused);
    assert!(matches!(begins(adyen_key(shop)), Begin::Run(_)), "control");
}

#[test]
fn an_event_of_adyens_counts_for_the_very_call_that_it_names() {
    let (of_a, of_b) = ("keys:a/Shop", "keys:b/Shop");
    let notice = |account: Option<&str>, provider_key: &str| Notice {
        event_id: "AUTHORISATION:PSP:true:".into(),
        provider: Provider::Adyen,
        account: account.map(str::to_owned),
        kind: "AUTHORISATION".into(),
        is_unwritten: false,
        news: EventKind::Authorisation(OperationNotice {
            provider_key: Some(provider_key.to_owned()),
            payment: "PSP".into(),
            id: "PSP".into(),
            amount_minor: 2500,
            currency: "usd".into(),
            success: true,
            reason: String::new(),
            undone: None,
            was_taken: false,
            at_ms: None,
            card: None,
        }),
    };
    let shop = Merchant { account: "Shop", live_prefix: None };
    for of in [None, Some(of_a), Some("keys:a/Shop/17-Shop")] {
        for account in [None, Some(of_a), Some(of_b), Some("keys:a/Other"), Some("keys:a")] {
            let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
            let ctx = with_credentials(at(NOW_MS), adyen_key(shop));
            let begun = begin(&mut state, &command("key", at_adyen(of_a)), &me(), &ctx).unwrap();
            let Begin::Run(token) = begun else { panic!("{begun:?}") };
            let mut run = Run::new(token, 0, &[]);
            while !matches!(run.step(&mut state, Event::Go, &ctx).unwrap(), Action::Send(_)) {}
            // An earlier try of the same order, in another account.
            let mut earlier = state.calls[0].clone();
            (earlier.call_id, earlier.provider_key) = (99, "po_earlier".to_owned());
            earlier.request.account = Some(of_b.to_owned());
            state.calls[0].request.account = of.map(str::to_owned);
            let key = state.calls[0].provider_key.clone();
            state.calls.push(earlier);
            let taken = ingest::take(&mut state, &notice(account, &key), &ctx).unwrap();
            let is_its = own_keys::is_in(account, of);
            assert_eq!(taken != Ingested::OtherAccount, is_its, "{account:?} {of:?}");
        }
    }
}

proptest! {
    /// Whatever the settings say later: the body, the endpoint and the key are those of the name that was frozen.
    #[test]
    fn all_that_is_sent_to_adyen_about_a_payment_goes_where_it_was_made(
        id in "[a-z0-9.-]{1,16}", merchant in "[A-Za-z0-9_-]{1,20}", live_prefix in prop::option::of("[a-z0-9]{1,8}-[A-Za-z]{1,8}"),
        is_own: bool,
    ) {
        let named = Merchant { account: &merchant, live_prefix: live_prefix.as_deref() };
        let name = if is_own { named.name(&own_keys::name_of(&id)) } else { merchant.clone() };
        let mut payment = a_payment_in(Currency::USD, 2000);
        payment.merchant_account = Some(name.clone());
        let key = adyen::provider_key("key");
        let mut call = a_call(Provider::Adyen, CallKind::Authorize, adyen::capture("PSP", &payment, 100, &key).unwrap());
        call.evidence.provider_id = Some("PSP".into());
        call.evidence.closing = Some(ProviderReply { status: 200, result: ProviderResult::Voided, request_id: None });
        for request in [
            adyen::capture("PSP", &payment, 100, &key).unwrap(),
            adyen::void("PSP", &payment, &key),
            adyen::close(&call).unwrap(),
        ] {
            let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
            prop_assert_eq!(body["merchantAccount"].as_str(), Some(merchant.as_str()));
            prop_assert_eq!(request.account.as_deref(), is_own.then_some(name.as_str()));
        }
        if is_own {
            prop_assert_eq!(own_keys::account_of(&name), Some(id.as_str()));
            prop_assert_eq!(Merchant::of(&name), Some(named));
        }
    }
}
