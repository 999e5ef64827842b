//! Customers by address: what is read of a request, what the object makes of it as it stands, and what goes to Stripe and comes back.

use messages::account::Account;
use once::begin::begin;
use once::fingerprint::Parameters;
use once::id::{ObjectId, Owner, RequestId};
use once::record::Channel;
use once::run::Run;
use paid_once::edge::customer_params::{customer_content, customer_prefix, if_match, normalized};
use payments::engine::{
    Action, Begin, CallState, Command, Context, Event, LookUp, ObjectState, Outcome, Payments, ProviderCall,
    ProviderReply, with_credentials,
};
use payments::flows::customer::{Route, path, route};
use payments::payment::customer::{CustomerContent, CustomerRequest, IfMatch, customer_object_name};
use payments::payment::operation::{Operation, Refusal};
use payments::payment::result::ProviderResult;
use payments::providers::Provider;
use payments::providers::stripe::{look_up, read_page};
use payments::transitions::pii;
use proptest::prelude::*;
use serde_json::{Value, json};
use web::http::Request;

use crate::account::key;
use crate::support::{NOW_MS, answer, at, command, me};

const EMAIL: &str = "ada@shop.example";
const DAY_MS: u64 = 86_400_000;

fn content(name: &str) -> CustomerContent {
    CustomerContent { name: Some(name.to_owned()), ..CustomerContent::default() }
}

fn request(content: CustomerContent) -> CustomerRequest {
    let email = EMAIL.to_owned();
    CustomerRequest { email, content, merchant_account: None, id_prefix: None, if_match: None, number: 0 }
}

fn asks(request: &CustomerRequest) -> Command {
    Command { channel: Channel::Api, ..command("", Operation::Customer(Box::new(request.clone()))) }
}

fn routed(state: &ObjectState, request: &CustomerRequest) -> Route {
    route(state, &asks(request), request, &at(NOW_MS)).unwrap()
}

/// Begins a request, as the object does, up to its send.
fn began(state: &mut ObjectState, request: &CustomerRequest, now_ms: u64) -> (Run<Payments>, ProviderCall) {
    let (run, action) = begun(state, request, &at(now_ms));
    let Action::Send(call) = action else { panic!("{action:?}") };
    (run, call)
}

/// The same, up to whatever has to be waited for.
fn begun(state: &mut ObjectState, request: &CustomerRequest, ctx: &Context) -> (Run<Payments>, Action) {
    let routed = route(state, &asks(request), request, ctx).unwrap();
    let Route::Run { key_hash, number } = routed else { panic!("it does not run: {routed:?}") };
    let numbered = CustomerRequest { number, ..request.clone() };
    // What it wants is what it wants under every number.
    let command = Command { key_hash, operation: Operation::Customer(Box::new(numbered)), ..asks(request) };
    let begun = begin(state, &command, &me(), ctx).unwrap();
    let Begin::Run(token) = begun else { panic!("{begun:?}") };
    let mut run = Run::new(token, ctx.now_ms, &[]);
    let action = goes_on(&mut run, state, Event::Go, ctx);
    (run, action)
}

fn goes_on(run: &mut Run<Payments>, state: &mut ObjectState, event: Event, ctx: &Context) -> Action {
    let mut action = run.turn(state, event, ctx).unwrap();
    while action == Action::Again {
        action = run.turn(state, Event::Go, ctx).unwrap();
    }
    action
}

fn ended(action: Action) -> (u16, Value) {
    let Action::End(once::run::RunEnd::Finished(response)) = action else { panic!("{action:?}") };
    (response.status, serde_json::from_slice(&response.body).unwrap())
}

fn replied(result: ProviderResult) -> Outcome {
    Outcome::Definitive(ProviderReply { status: 200, result, request_id: None })
}

/// Brings a request to its end. Gives the answer and what was sent.
fn put(
    state: &mut ObjectState,
    request: &CustomerRequest,
    result: ProviderResult,
) -> (u16, Value, ProviderCall) {
    let (mut run, call) = began(state, request, NOW_MS);
    let event = Event::Outcome(call.call_id, replied(result));
    let (status, body) = ended(goes_on(&mut run, state, event, &at(NOW_MS)));
    (status, body, call)
}

fn made(id: &str) -> ProviderResult {
    ProviderResult::Customer { customer: id.to_owned() }
}

fn declined() -> ProviderResult {
    let (code, message) = ("card_declined".into(), "No.".into());
    ProviderResult::Declined { payment: None, code, decline_code: None, message }
}

fn empty() -> ObjectState {
    ObjectState::empty(ObjectId::from_bytes([7; 32]))
}

#[test]
fn an_address_is_one_whatever_the_case_of_its_domain() {
    assert_eq!(normalized(" Ada@Shop.EXAMPLE ").unwrap(), "Ada@shop.example");
    assert_ne!(normalized("ada@shop.example").unwrap(), normalized("Ada@shop.example").unwrap());
    for wrong in ["", "ada", "ada@", "@shop.example", "a b@shop.example", "a@b@c.example"] {
        assert_eq!(normalized(wrong).unwrap_err().field, "email", "{wrong}");
    }
    let owner = |id: &str| Owner::Account(id.to_owned());
    let names = [
        customer_object_name(&owner("a"), None, EMAIL),
        customer_object_name(&owner("b"), None, EMAIL),
        customer_object_name(&owner("a"), Some("acct_1"), EMAIL),
        customer_object_name(&owner("a"), None, "bob@shop.example"),
    ];
    for (at, name) in names.iter().enumerate() {
        assert!(!name.contains("shop.example") && !names[..at].contains(name), "{name}");
    }
    assert_eq!(path("a/b?c%d#e+f@shop.example"), "/customers/a%2Fb%3Fc%25d%23e+f@shop.example");
}

#[test]
fn a_prefix_that_cannot_stand_in_an_address_is_refused() {
    let account = |prefix: Option<&str>| -> Account {
        serde_json::from_value(json!({ "payment_method": "pm_1", "customer_prefix": prefix })).unwrap()
    };
    assert_eq!(customer_prefix(&account(None)), Ok(None));
    assert_eq!(customer_prefix(&account(Some("shop-7_"))), Ok(Some("shop-7_".to_owned())));
    for wrong in ["shop/", "a b", &"x".repeat(65)] {
        assert!(customer_prefix(&account(Some(wrong))).is_err(), "{wrong}");
    }
}

#[test]
fn if_match_is_any_or_revisions_and_nothing_else() {
    let read = |value: &str| {
        if_match(&Request {
            id: RequestId("r".into()),
            now_ms: NOW_MS,
            method: "PUT".into(),
            scheme: "https".into(),
            host: "pay.example".into(),
            path: path(EMAIL),
            query: String::new(),
            headers: vec![("if-match".to_owned(), value.to_owned())],
            body: Vec::new(),
            trace: None,
        })
    };
    assert_eq!(read("*").unwrap(), Some(IfMatch::Any));
    assert_eq!(read(r#""3", "7""#).unwrap(), Some(IfMatch::Revisions(vec![3, 7])));
    // What compresses our answer makes its tag a weak one.
    assert_eq!(read(r#"W/"3", "7""#).unwrap(), Some(IfMatch::Revisions(vec![3, 7])));
    // One that is not ours is of no revision.
    assert_eq!(read(r#""x", W/"W/3""#).unwrap(), Some(IfMatch::Revisions(vec![])));
    // Nor one with a comma in it, which parts nothing.
    assert_eq!(read(r#""3,7", "4""#).unwrap(), Some(IfMatch::Revisions(vec![4])));
    // Nor is one that is written in another way than ours.
    assert_eq!(read(r#""+3", "03", "3""#).unwrap(), Some(IfMatch::Revisions(vec![3])));
    assert_eq!(read(r#", "3",, "7","#).unwrap(), Some(IfMatch::Revisions(vec![3, 7])));
    for wrong in
        ["3", "", ",", " , ,", "\"", "\"3\", 4", "W/3", "w/\"3\"", "W/W/\"3\"", "\"3\"7\"", "\"3\" \"7\""]
    {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert!(!IfMatch::Any.holds(0) && IfMatch::Any.holds(1));
    assert!(!IfMatch::Revisions(vec![0]).holds(0) && IfMatch::Revisions(vec![2]).holds(2));
}

proptest! {
    /// JSON and a form say the same; what is wrong is named.
    #[test]
    fn content_is_read_alike(name in "\\PC{0,300}", description in "\\PC{0,20}") {
        let json = Parameters::Json(
            [("name", &name), ("description", &description)].map(|(key, text)| (key.to_owned(), json!(text))).into_iter().collect(),
        );
        let form = Parameters::Form(vec![("name".into(), name.clone()), ("description".into(), description)]);
        let read = customer_content(&json);
        prop_assert_eq!(&read, &customer_content(&form));
        match read {
            Ok(content) => prop_assert!(name.chars().count() <= 256 && content.name.is_none_or(|kept| kept == name)),
            Err(errors) => prop_assert!(errors.iter().all(|error| error.field == "name") && name.chars().count() > 256),
        }
    }

    /// Whatever was asked for before: what is there is found, what differs is begun with the next number, and each call has a key of its own.
    #[test]
    fn each_request_that_has_something_to_do_is_the_next(names in prop::collection::vec(0..3_u8, 1..12)) {
        let (mut state, mut revision, mut last) = (empty(), 0, None);
        let mut keys = std::collections::BTreeSet::new();
        for name in names {
            let wanted = request(content(&format!("n{name}")));
            if last == Some(name) {
                let stands = matches!(routed(&state, &wanted), Route::Stands { .. });
                prop_assert!(stands);
                continue;
            }
            let (status, body, call) = put(&mut state, &wanted, made("cus_1"));
            revision += 1;
            last = Some(name);
            prop_assert_eq!((status, &body["revision"]), (if revision == 1 { 201 } else { 200 }, &json!(revision)));
            prop_assert!(keys.insert(call.provider_key.clone()), "{} twice", call.provider_key);
            let path = if revision == 1 { "/v1/customers" } else { "/v1/customers/cus_1" };
            prop_assert_eq!(call.request.path.as_str(), path);
        }
        state.verify().unwrap();
    }
}

#[test]
fn while_one_is_under_way_the_same_joins_it_and_another_waits() {
    let mut state = empty();
    let (ada, bob) = (request(content("Ada")), request(content("Bob")));
    let (_, call) = began(&mut state, &ada, NOW_MS);
    let open = state.keys[0].key_hash.clone();
    assert_eq!(routed(&state, &ada), Route::Run { key_hash: open.clone(), number: 1 });
    let Route::After(other) = routed(&state, &bob) else { panic!() };
    assert_eq!((&other.key_hash, &other.fingerprint), (&open, &state.keys[0].fingerprint));
    assert_eq!(call.sends, 1);
    // One that was decided on before this one began begins nothing.
    let late = CustomerRequest { number: 1, ..bob.clone() };
    let late = Command {
        key_hash: once::key::KeyHash("late".into()),
        operation: Operation::Customer(Box::new(late)),
        ..asks(&bob)
    };
    let before = state.clone();
    assert_eq!(begin(&mut state, &late, &me(), &at(NOW_MS)), Ok(Begin::Refused(Refusal::Overtaken)));
    assert_eq!(state, before);
}

#[test]
fn a_refusal_makes_nothing_and_the_next_number_tries_again() {
    let mut state = empty();
    let ada = request(content("Ada"));
    let (status, body, first) = put(&mut state, &ada, declined());
    assert_eq!((status, &body["customer"], &body["code"]), (402, &Value::Null, &json!("card_declined")));
    let (status, _, second) = put(&mut state, &ada, made("cus_1"));
    assert_eq!(status, 201);
    assert_ne!(first.provider_key, second.provider_key);
}

#[test]
fn a_customer_that_is_so_already_names_the_request_that_made_it_so() {
    let mut state = empty();
    let ada = request(content("Ada"));
    put(&mut state, &ada, made("cus_1"));
    let first = asks(&ada).request_id;
    put(&mut state, &request(content("Bob")), declined());
    state.keys.last_mut().unwrap().original_request = RequestId("req_refused".into());
    // The very request comes again where its answer was lost on the way: it is told what it has made.
    for (request_id, status) in [(first.clone(), 201), (RequestId("req_later".into()), 200)] {
        let asked = Command { request_id, ..asks(&ada) };
        let Route::Stands { response, original_request } = route(&state, &asked, &ada, &at(NOW_MS)).unwrap()
        else {
            panic!("it is so already")
        };
        assert_eq!((response.status, original_request), (status, first.clone()));
    }
}

#[test]
fn what_a_request_may_not_change_is_refused() {
    let mut state = empty();
    let with_card =
        |method: &str| request(CustomerContent { payment_method: Some(method.to_owned()), ..content("Ada") });
    put(&mut state, &with_card("pm_1"), made("cus_1"));
    assert!(matches!(routed(&state, &request(content("Ada"))), Route::Stands { .. }));
    let Route::Refused(Refusal::Field { field, .. }) = routed(&state, &with_card("pm_2")) else { panic!() };
    assert_eq!(field, "payment_method");
    let matching = |revision| CustomerRequest {
        if_match: Some(IfMatch::Revisions(vec![revision])),
        ..request(content("Bob"))
    };
    assert_eq!(routed(&state, &matching(2)), Route::Refused(Refusal::Revision { revision: 1 }));
    assert!(matches!(routed(&state, &matching(1)), Route::Run { number: 2, .. }));
}

/// With the deployment's key.
fn with(secret: &str) -> Context {
    with_credentials(at(NOW_MS), key(secret))
}

/// What is asked before it is sent with another key, and what it is told with that answer.
fn asked(
    state: &mut ObjectState,
    request: &CustomerRequest,
    (status, body): (u16, Value),
    ctx: &Context,
) -> (Run<Payments>, ProviderCall) {
    let (mut run, action) = begun(state, request, ctx);
    let Action::LookUp(call) = action else { panic!("{action:?}") };
    assert_eq!(Provider::Stripe.look_up_request(&call).unwrap().path, "/v1/customers/cus_1");
    let told = Provider::Stripe.read_look_up(&call, &answer(status, body));
    let action = goes_on(&mut run, state, Event::LookedUp(call.call_id, told), ctx);
    let Action::Send(call) = action else { panic!("{action:?}") };
    (run, call)
}

#[test]
fn with_a_key_of_another_account_another_one_is_made() {
    let missing =
        json!({ "error": { "type": "invalid_request_error", "code": "resource_missing", "message": "No." } });
    let methods = |method: &str| CustomerContent { payment_method: Some(method.into()), ..content("Ada") };
    for (now, anew) in [
        ("sk_test_other", methods("pm_1")),
        ("sk_live_other", methods("pm_1")),
        ("sk_live_other", methods("pm_2")),
        ("sk_test_other", content("Bob")),
    ] {
        let mut state = empty();
        let (mut run, action) = begun(&mut state, &request(methods("pm_1")), &with("sk_test_1"));
        let Action::Send(call) = action else { panic!("{action:?}") };
        let event = Event::Outcome(call.call_id, replied(made("cus_1")));
        ended(goes_on(&mut run, &mut state, event, &with("sk_test_1")));
        let same =
            route(&state, &asks(&request(methods("pm_1"))), &request(methods("pm_1")), &with("sk_test_1"));
        assert!(matches!(same.unwrap(), Route::Stands { .. }));

        let (mut run, call) = asked(&mut state, &request(anew.clone()), (404, missing.clone()), &with(now));
        assert_eq!(call.request.path, "/v1/customers", "{now}");
        let event = Event::Outcome(call.call_id, replied(made("cus_2")));
        let (status, body) = ended(goes_on(&mut run, &mut state, event, &with(now)));
        assert_eq!((status, &body["id"], &body["revision"]), (201, &json!("cus_2"), &json!(2)));
        assert_eq!(body["payment_method"], json!(anew.payment_method));
        let stands = route(&state, &asks(&request(anew.clone())), &request(anew), &with(now)).unwrap();
        assert!(matches!(stands, Route::Stands { .. }));
        assert!(state.calls.iter().all(|call| call.needs_review().is_none()));
        state.verify().unwrap();
        assert_eq!(pii::may_erase(&state), pii::Erased::Gone);
    }
}

#[test]
fn with_a_rolled_key_it_stays_as_it_is() {
    let mut state = empty();
    let ada = request(content("Ada"));
    let (mut run, action) = begun(&mut state, &ada, &with("sk_test_1"));
    let Action::Send(call) = action else { panic!("{action:?}") };
    let event = Event::Outcome(call.call_id, replied(made("cus_1")));
    ended(goes_on(&mut run, &mut state, event, &with("sk_test_1")));

    let rolled = with("sk_test_2");
    let (mut run, call) = asked(&mut state, &ada, (200, json!({ "id": "cus_1" })), &rolled);
    assert_eq!(call.request.path, "/v1/customers/cus_1");
    let event = Event::Outcome(call.call_id, replied(made("cus_1")));
    let (status, body) = ended(goes_on(&mut run, &mut state, event, &rolled));
    assert_eq!((status, &body["id"], &body["revision"]), (200, &json!("cus_1"), &json!(1)));
    assert!(matches!(route(&state, &asks(&ada), &ada, &rolled).unwrap(), Route::Stands { .. }));
}

#[test]
fn a_prefix_and_an_account_are_frozen_with_the_call() {
    let asked = CustomerRequest {
        merchant_account: Some("acct_1".into()),
        id_prefix: Some("shop7_".into()),
        ..request(content("Ada"))
    };
    let (_, call) = began(&mut empty(), &asked, NOW_MS);
    assert_eq!(call.request.account.as_deref(), Some("acct_1"));
    let body: std::collections::BTreeMap<String, String> =
        serde_urlencoded::from_str(&call.request.body).unwrap();
    assert!(body["id"].starts_with("shop7_") && body["id"].len() == 30, "{}", body["id"]);
    assert_eq!(body["metadata[idempotency_key]"], call.provider_key);
}

#[test]
fn a_look_up_finds_what_bears_the_calls_own_mark_and_nothing_else() {
    let mut state = empty();
    let (_, mut call) = began(&mut state, &request(content("Ada")), NOW_MS);
    (call.state, call.first_sent_at_ms, call.last_sent_at_ms) =
        (CallState::Unknown, Some(NOW_MS), Some(NOW_MS));
    assert!(look_up(&call).path.contains("email=ada%40shop.example"), "{}", look_up(&call).path);
    let one = |id: &str, key: &str| json!({ "id": id, "object": "customer", "metadata": { "idempotency_key": key } });
    let list = |data: Value| answer(200, json!({ "object": "list", "data": data, "has_more": false }));
    let others = list(json!([one("cus_2", "another"), { "id": "cus_3", "email": EMAIL }]));
    assert_eq!(read_page(&call, &others), LookUp::Absent);
    let ours = list(json!([one("cus_2", "another"), one("cus_1", &call.provider_key)]));
    let LookUp::Found(found) = read_page(&call, &ours) else { panic!() };
    assert_eq!(found.result, made("cus_1"));

    let mut state = empty();
    put(&mut state, &request(content("Ada")), made("cus_1"));
    let (_, mut change) = began(&mut state, &request(content("Bob")), NOW_MS);
    change.state = CallState::Unknown;
    assert_eq!(look_up(&change).path, "/v1/customers/cus_1");
    assert_eq!(read_page(&change, &answer(200, one("cus_1", "before"))), LookUp::Absent);
    assert!(matches!(read_page(&change, &answer(200, one("cus_1", &change.provider_key))), LookUp::Found(_)));
    let deleted = answer(200, json!({ "id": "cus_1", "object": "customer", "deleted": true }));
    let LookUp::Found(gone) = read_page(&change, &deleted) else { panic!() };
    assert!(matches!(gone.result, ProviderResult::Rejected { .. }));
}

#[test]
fn the_object_does_not_grow_and_what_is_personal_goes() {
    let mut state = empty();
    for number in 0..5 {
        put(&mut state, &request(content(&format!("Ada {number}"))), made("cus_1"));
    }
    assert_eq!(state.keys.len(), 5);
    once::alarm::wake(&mut state, &me(), &at(NOW_MS + 2 * DAY_MS));
    assert_eq!((state.keys.len(), state.calls.len()), (1, 1), "the newest stays");
    let text = serde_json::to_string(&state).unwrap();
    assert!(!text.contains("shop.example"), "{text}");
    assert!(text.contains("Ada 4"));
    assert!(
        state.keys[0].fingerprint.is_erased(),
        "nor what it was asked for: its name and address can be guessed by it"
    );
    assert_eq!(pii::erase(&mut state, &at(NOW_MS)), pii::Erased::Gone);
    let text = serde_json::to_string(&state).unwrap();
    assert!(!text.contains("Ada") && text.contains("cus_1"), "{text}");
    // It is written anew, to the same customer.
    let (status, body, _) = put(&mut state, &request(content("Ada 4")), made("cus_1"));
    assert_eq!((status, &body["id"], &body["revision"]), (200, &json!("cus_1"), &json!(6)));
}

/// As Stripe says it of an address that it does not take.
fn refused_email() -> ProviderResult {
    ProviderResult::Rejected {
        payment: None,
        code: "email_invalid".into(),
        message: format!("Invalid email address: {EMAIL}"),
        found: None,
    }
}

#[test]
fn what_the_provider_says_of_an_address_goes_with_the_response() {
    let mut state = empty();
    let (status, _, _) = put(&mut state, &request(content("Ada")), refused_email());
    assert_eq!(status, 402);
    let text = |state: &ObjectState| serde_json::to_string(state).unwrap();
    assert!(text(&state).contains("shop.example"), "as long as it is answered with");
    once::alarm::wake(&mut state, &me(), &at(NOW_MS + 2 * DAY_MS));
    assert!(!text(&state).contains("shop.example"), "{}", text(&state));
    assert!(text(&state).contains("email_invalid"));
}

#[test]
fn erasing_drops_what_a_release_before_has_left_of_a_providers_words() {
    let mut state = empty();
    put(&mut state, &request(content("Ada")), refused_email());
    once::alarm::wake(&mut state, &me(), &at(NOW_MS + 2 * DAY_MS));
    let CallState::Settled(once::call::Settlement::Answered(reply)) = &mut state.calls[0].state else {
        panic!()
    };
    reply.result = refused_email();
    assert_eq!(pii::erase(&mut state, &at(NOW_MS)), pii::Erased::Gone);
    let text = serde_json::to_string(&state).unwrap();
    assert!(!text.contains("shop.example"), "{text}");
}

#[test]
fn an_object_of_before_there_were_customers_has_none() {
    let state: ObjectState = serde_json::from_value(json!({
        "keys": [], "resource": { "version": 3, "audit_through": 0, "audit_newest": 0 },
    }))
    .unwrap();
    assert_eq!(state.resource.customer, None);
    let text = serde_json::to_string(&state).unwrap();
    assert!(!text.contains("customer"), "what has none says nothing of it: {text}");
}
