//! To which account a call was sent, and what may be done with another key.

use once::account::{Credential, Identity};
use once::alarm::{wake, wake_at};
use once::begin::begin;
use once::call::{CallState, FrozenRequest, RefusalScope, Settlement};
use once::context::Times;
use once::id::ObjectId;
use once::run::RunEnd;
use paid_once::webhooks::{Event as Notice, EventKind, Ingested};
use payments::engine::{
    Action, Begin, Context, Credentials, Event, LookUp, ObjectState, Outcome, ProviderCall, ProviderReply,
    Run, with_credentials,
};
use payments::payment::operation::{Operation, Refusal};
use payments::payment::own_keys;
use payments::payment::result::{CallKind, ProviderResult};
use payments::payment::status_query::StatusQuery;
use payments::providers::{Provider, stripe};
use payments::transitions::ingest;
use proptest::prelude::*;

use crate::payment::pay;
use crate::support::{NOW_MS, a_call, answer, at, command, me};

const HOUR_MS: u64 = 3_600_000;
/// An account's own key was removed.
const NO_KEY: &str = "";

pub(crate) fn key(secret: &str) -> Credentials {
    let live = secret.contains("_live_");
    Credentials {
        stripe: Credential::of(secret, &["https://api.stripe.com"], live),
        own_stripe: None,
        adyen: None,
        own_adyen: None,
    }
}

fn with(secret: &str, now_ms: u64) -> Context {
    with_credentials(at(now_ms), key(secret))
}

/// With this key as the one that the payment goes with: the deployment's, or that of the account, where it has one of its own.
fn configured(secret: &str, now_ms: u64) -> Context {
    let key = key(secret);
    let own_stripe = (secret != NO_KEY).then_some(key.stripe);
    with_credentials(at(now_ms), Credentials { own_stripe, ..key })
}

/// An object, and what it has sent and asked.
struct Harness {
    object_state: ObjectState,
    now_ms: u64,
    seen: Vec<String>,
}

impl Harness {
    fn begun(secret: &str, heard: &mut dyn FnMut(&str) -> Event) -> Self {
        Self::begun_with(pay(true), secret, heard)
    }

    fn begun_with(operation: Operation, secret: &str, heard: &mut dyn FnMut(&str) -> Event) -> Self {
        let mut object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let ctx = configured(secret, NOW_MS);
        let Begin::Run(token) = begin(&mut object_state, &command("key", operation), &me(), &ctx).unwrap()
        else {
            panic!("it does not begin");
        };
        let mut harness = Self { object_state, now_ms: NOW_MS, seen: Vec::new() };
        harness.drive(secret, Run::new(token, 0, &[]), heard);
        harness
    }

    /// The alarm rings, as often as it takes until `is_done`, or a hundred times.
    fn rings(&mut self, secret: &str, times: u32, heard: &mut dyn FnMut(&str) -> Event) {
        for _ in 0..times {
            let ctx = configured(secret, self.now_ms);
            let Some(at_ms) = wake_at(&self.object_state, &ctx) else { return };
            self.now_ms = self.now_ms.max(at_ms);
            for token in wake(&mut self.object_state, &me(), &configured(secret, self.now_ms)) {
                self.drive(secret, Run::new(token, 0, &[]), heard);
            }
        }
    }

    fn drive(&mut self, secret: &str, mut run: Run, heard: &mut dyn FnMut(&str) -> Event) {
        let mut event = Event::Go;
        for _ in 0..100 {
            let ctx = configured(secret, self.now_ms);
            let what = match run.step(&mut self.object_state, event, &ctx).unwrap() {
                Action::Again => {
                    event = Event::Go;
                    continue;
                }
                Action::Send(_) => "send",
                Action::LookUp(call) if call.asks_identity() => "account",
                Action::LookUp(_) => "look-up",
                Action::SleepUntil(_) | Action::End(RunEnd::Pending { .. } | RunEnd::Finished(_)) => return,
                other => panic!("{other:?}"),
            };
            self.seen.push(what.to_owned());
            event = heard(what);
        }
        panic!("it never ends: {:?}", self.seen);
    }

    fn call(&self) -> &ProviderCall {
        self.object_state.calls.first().unwrap()
    }

    fn count(&self, what: &str) -> usize {
        self.seen.iter().filter(|seen| *seen == what).count()
    }
}

fn is(identity: Identity) -> Event {
    Event::LookedUp(1, LookUp::Identity(identity))
}

fn account(id: &str) -> Event {
    is(Identity::Account(id.to_owned()))
}

fn lost() -> Event {
    Event::Outcome(1, Outcome::Unknown { answer_is_stored: false, reason: "lost".into() })
}

fn refused(scope: RefusalScope) -> Event {
    Event::Outcome(1, Outcome::NotExecuted { retry_after_ms: None, scope, reason: "refused".into() })
}

fn charged() -> Event {
    let result = ProviderResult::Charged { payment: "pi_1".into(), card: None };
    Event::Outcome(1, Outcome::Definitive(ProviderReply { status: 200, result, request_id: None }))
}

/// What a provider answers: to a send, and to the question of its account.
fn answers(send: fn() -> Event, id: Option<&'static str>) -> impl FnMut(&str) -> Event {
    move |what| match (what, id) {
        ("send", _) => send(),
        ("account", Some(id)) => account(id),
        ("account", None) => is(Identity::Refused { status: 403 }),
        _ => panic!("{what} is not expected"),
    }
}

#[test]
fn nothing_is_asked_on_the_ordinary_way() {
    let harness = Harness::begun("sk_test_1", &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.seen, ["send"]);
}

#[test]
fn a_call_in_doubt_learns_its_account_once_and_waits_while_another_ones_key_is_set() {
    let mut harness = Harness::begun("sk_test_1", &mut answers(lost, Some("acct_A")));
    assert_eq!(harness.seen, ["send", "account"], "at once, while the key is there with which it was sent");
    harness.seen.clear();
    harness.rings("sk_test_other", 30, &mut answers(charged, Some("acct_B")));
    assert_eq!(harness.count("send") + harness.count("look-up"), 0, "{:?}", harness.seen);
    assert!(harness.count("account") > 10, "it asks again, in case the key is set right");
    let why = harness.call().needs_review().unwrap();
    assert!(why.contains("acct_A (test)") && why.contains("acct_B (test)"), "{why}");
    // The right one is there again, rolled meanwhile.
    harness.rings("sk_test_2", 1, &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.count("send"), 1);
    assert_eq!(harness.call().needs_review(), None);
}

#[test]
fn the_key_that_it_was_sent_with_needs_no_proof_and_no_patience() {
    let mut harness = Harness::begun("sk_test_1", &mut answers(lost, Some("acct_A")));
    harness.rings("sk_test_other", 30, &mut answers(charged, Some("acct_B")));
    harness.seen.clear();
    // Somebody asks before the time for which the alarm is set.
    let ctx = with("sk_test_1", harness.now_ms + 1);
    let begun = begin(&mut harness.object_state, &command("key", pay(true)), &me(), &ctx).unwrap();
    let Begin::Run(token) = begun else { panic!("{begun:?}") };
    harness.now_ms += 1;
    harness.drive("sk_test_1", Run::new(token, 0, &[]), &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.seen, ["send"]);
}

#[test]
fn without_any_key_it_waits_as_with_another_accounts() {
    let mut own = pay(true);
    if let Operation::Payment(payment) = &mut own {
        payment.route.merchant_account = Some(own_keys::name_of("shop-a"));
    }
    let mut harness = Harness::begun_with(own.clone(), "sk_test_1", &mut answers(lost, Some("acct_A")));
    harness.rings("sk_test_other", 30, &mut answers(charged, Some("acct_B")));
    harness.seen.clear();
    // That one is removed, to set the first one again. What is sent meanwhile cannot leave.
    let mut cannot_leave = answers(|| refused(RefusalScope::Send), None);
    for rings in 1..=5 {
        harness.rings(NO_KEY, 1, &mut cannot_leave);
        assert!(harness.seen.len() <= rings, "one try, then a pause: {:?}", harness.seen);
        // Nor does one who asks before that time begin a run.
        let ctx = configured(NO_KEY, harness.now_ms + 1);
        let begun = begin(&mut harness.object_state, &command("key", own.clone()), &me(), &ctx).unwrap();
        assert!(matches!(begun, Begin::Pending { .. }), "{begun:?}");
    }
    harness.seen.clear();
    harness.rings("sk_test_1", 1, &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.seen, ["send"]);
}

#[test]
fn test_and_live_of_one_account_are_two_worlds() {
    let mut harness = Harness::begun("sk_test_1", &mut answers(lost, Some("acct_A")));
    harness.rings("sk_live_1", 5, &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.count("send"), 1);
    assert!(harness.call().needs_review().unwrap().contains("acct_A (live)"));
}

#[test]
fn where_the_account_was_never_said_only_the_very_key_helps() {
    let mut harness = Harness::begun("rk_test_1", &mut answers(lost, None));
    harness.rings("sk_test_2", 5, &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.count("send"), 1);
    assert!(harness.call().needs_review().unwrap().contains("not known"));
    harness.rings("rk_test_2", 5, &mut answers(charged, None));
    assert_eq!(harness.count("send"), 1);
    assert!(harness.call().needs_review().unwrap().contains("may not say"));
    harness.rings("rk_test_1", 1, &mut answers(charged, None));
    assert_eq!(harness.count("send"), 2);
}

#[test]
fn a_run_that_died_learns_the_account_before_it_sends_again() {
    let mut asked = false;
    // The send never comes back: the run is gone.
    let mut object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
    let ctx = with("sk_test_1", NOW_MS);
    let Begin::Run(token) = begin(&mut object_state, &command("key", pay(true)), &me(), &ctx).unwrap() else {
        panic!("it does not begin");
    };
    let mut run = Run::new(token, 0, &[]);
    while !matches!(run.step(&mut object_state, Event::Go, &ctx).unwrap(), Action::Send(_)) {}
    let now_ms = NOW_MS + 2 * Times::default().lease_ms;
    let mut harness = Harness { object_state, now_ms, seen: Vec::new() };
    harness.rings("sk_test_1", 1, &mut |what| {
        assert!(asked || what == "account", "{what} comes first");
        asked = true;
        if what == "account" { account("acct_A") } else { charged() }
    });
    assert_eq!(harness.seen, ["account", "send"]);
}

#[test]
fn a_refused_send_is_bound_too_unless_the_key_itself_was_refused() {
    // A copy of one that was refused for its rate may have been executed.
    let mut harness =
        Harness::begun("sk_test_1", &mut answers(|| refused(RefusalScope::Copy), Some("acct_A")));
    harness.rings("sk_test_other", 20, &mut answers(charged, Some("acct_B")));
    assert_eq!(harness.count("send"), 1);
    // A wrong key: nothing was executed with it, wherever that was.
    let mut wrong = |what: &str| {
        assert_eq!(what, "send", "a key that is refused has no account");
        refused(RefusalScope::Send)
    };
    let mut harness = Harness::begun("sk_test_mistyped", &mut wrong);
    harness.rings("sk_test_mistyped", 3, &mut wrong);
    harness.seen.clear();
    harness.rings("sk_test_1", 1, &mut answers(charged, Some("acct_A")));
    assert_eq!(harness.seen, ["send"]);
}

#[test]
fn the_account_is_asked_for_by_the_payment_where_that_is_known() {
    let request = FrozenRequest::new("/v1/payment_intents/pi_7/capture".into(), String::new());
    let capture = a_call(Provider::Stripe, CallKind::Capture, request);
    assert_eq!(stripe::identity(&capture).path, "/v1/payment_intents/pi_7");
    let missing = r#"{"error":{"type":"invalid_request_error","code":"resource_missing"}}"#;
    for (status, body, expected) in [
        (200, r#"{"id":"pi_7"}"#, Identity::SeesIt),
        (200, r#"{"id":"pi_8"}"#, Identity::Silent),
        (200, "<html>", Identity::Silent),
        (404, missing, Identity::SeesNothing),
        // A proxy's page proves nothing.
        (404, "", Identity::Silent),
        (403, "", Identity::Refused { status: 403 }),
        (500, missing, Identity::Silent),
    ] {
        assert_eq!(stripe::read_identity(&capture, &answer(status, body)), expected, "{status} {body}");
    }
    let request = FrozenRequest::new("/v1/payment_intents".into(), "amount=1".into());
    let charge = a_call(Provider::Stripe, CallKind::Authorize, request);
    assert_eq!(stripe::identity(&charge).path, "/v1/account");
    let is = |body: &str| stripe::read_identity(&charge, &answer(200, body));
    assert_eq!(is(r#"{"id":"acct_A"}"#), Identity::Account("acct_A".into()));
    assert_eq!(is(r#"{"id":"not plain"}"#), Identity::Silent);
}

#[test]
fn whose_an_own_key_is_is_asked_with_that_key() {
    let own = own_keys::name_of("shop-a");
    let request = FrozenRequest::new("/v1/payment_intents".into(), "amount=1".into());
    let charge = |account: Option<&str>| {
        a_call(Provider::Stripe, CallKind::Authorize, request.clone().for_account(account))
    };
    let identity = stripe::identity(&charge(Some(&own)));
    assert_eq!((identity.path.as_str(), identity.account.as_deref()), ("/v1/account", Some(own.as_str())));
    let connected = stripe::identity(&charge(Some("acct_B")));
    assert_eq!(connected.account, None, "of a connected one the platform's key is asked");
}

#[test]
fn an_own_key_and_the_deployments_stand_for_nothing_of_each_other() {
    let deployments = key("sk_live_1");
    let own = Credential::of("sk_live_2", &["https://api.stripe.com"], true);
    let (name, both) = (own_keys::name_of("shop-a"), Credentials { own_stripe: Some(own), ..deployments });
    let with = |credentials: &Credentials, account: Option<&str>| credentials.with(Provider::Stripe, account);
    assert_eq!(with(&both, Some(&name)), Some(own));
    assert_eq!(with(&deployments, Some(&name)), None, "never the deployment's in its place");
    for others in [None, Some("acct_B")] {
        assert_eq!(with(&both, others), Some(deployments.stripe));
    }
}

#[test]
fn nothing_begins_with_own_keys_that_cannot_be_used() {
    let mut operation = pay(true);
    if let Operation::Payment(request) = &mut operation {
        request.route.merchant_account = Some(own_keys::name_of("shop-a"));
    }
    let begins = |credentials: Credentials| {
        let mut state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let ctx = with_credentials(at(NOW_MS), credentials);
        let begun = begin(&mut state, &command("key", operation.clone()), &me(), &ctx).unwrap();
        (begun, state.keys.len())
    };
    let refused = (Begin::Refused(Refusal::KeysUnusable), 0);
    assert_eq!(begins(key("sk_live_1")), refused, "and the key stays free");
    let own_stripe = Some(Credential::of("sk_live_2", &["https://api.stripe.com"], true));
    let control = begins(Credentials { own_stripe, ..key("sk_live_1") });
    assert!(matches!(control, (Begin::Run(_), 1)), "{control:?}");
}

#[test]
fn a_call_that_was_frozen_before_accounts_could_be_connected_is_of_the_keys_own() {
    let written = r#"{"path":"/v1/refunds","body":"amount=1"}"#;
    let read: FrozenRequest = serde_json::from_str(written).unwrap();
    assert_eq!(read, FrozenRequest::new("/v1/refunds".into(), "amount=1".into()));
    assert_eq!(serde_json::to_string(&read).unwrap(), written);
}

#[test]
fn an_event_counts_in_the_account_alone_to_which_a_call_went() {
    let notice = |account: Option<&str>| Notice {
        event_id: "evt_1".into(),
        provider: Provider::Stripe,
        account: account.map(str::to_owned),
        kind: "payment_intent.succeeded".into(),
        news: EventKind::Ask { refund: None, payment: None, provider_key: None },
        is_unwritten: false,
    };
    for of in [None, Some("acct_B")] {
        for account in [None, Some("acct_B"), Some("acct_C")] {
            let mut object_state =
                Harness::begun("sk_test_1", &mut answers(lost, Some("acct_A"))).object_state;
            for call in &mut object_state.calls {
                call.request.account = of.map(str::to_owned);
            }
            let taken =
                ingest::take(&mut object_state, &notice(account), &with("sk_test_1", NOW_MS + 1)).unwrap();
            assert_eq!(taken == Ingested::OtherAccount, account != of, "{account:?} {of:?}");
        }
    }
}

proptest! {
    #[test]
    fn all_that_is_asked_about_a_call_is_asked_in_its_account(
        account in prop::option::of("acct_[a-zA-Z0-9]{1,16}"),
        kind in prop::sample::select(vec![CallKind::Authorize, CallKind::Capture, CallKind::Void, CallKind::Refund]),
        has_id: bool,
    ) {
        let path = "/v1/payment_intents/pi_7/capture".to_owned();
        let request = FrozenRequest::new(path, "payment_intent=pi_7&amount=1".into()).for_account(account.as_deref());
        let written = serde_json::to_string(&request).unwrap();
        prop_assert_eq!(&serde_json::from_str::<FrozenRequest>(&written).unwrap(), &request);
        let mut call = a_call(Provider::Stripe, kind, request);
        call.evidence.provider_id = has_id.then(|| "pi_7".to_owned());
        call.evidence.closing = Some(ProviderReply {
            status: 200,
            result: ProviderResult::Voided,
            request_id: None,
        });
        prop_assert_eq!(&stripe::look_up(&call).account, &account);
        prop_assert_eq!(stripe::close(&call).map(|close| close.account), has_id.then(|| account.clone()));
        // Whose the key is: its own account, and which payments it sees there.
        let identity = stripe::identity(&call);
        let expected = account.clone().filter(|_| identity.path != "/v1/account");
        prop_assert_eq!(identity.account, expected);
        let about = StatusQuery::Payment { provider: Provider::Stripe, account: account.clone(), id: "pi_7".into(), doubt: None };
        prop_assert_eq!(&stripe::question(&about).account, &account);
        let home = StatusQuery::Home { payment: "pi_7".into(), question: Box::new(about) };
        prop_assert_eq!(&stripe::question(&home).account, &account);
    }

    #[test]
    fn a_credential_tells_nothing_and_is_read_as_it_was_written(secret in "[a-zA-Z0-9_]{20,40}", live: bool) {
        let credential = Credential::of(&secret, &["https://api.stripe.com"], live);
        let written = serde_json::to_string(&credential).unwrap();
        prop_assert_eq!(serde_json::from_str::<Credential>(&written).unwrap(), credential);
        prop_assert_eq!(written.len(), 23);
        prop_assert_ne!(credential, Credential::of(&secret, &["https://api.stripe.com"], !live));
        prop_assert_ne!(credential, Credential::of(&secret, &["https://other.example"], live));
        prop_assert_ne!(credential, Credential::of(&secret[1..], &["https://api.stripe.com"], live));
    }
}

/// A key that was revoked on Friday: who has asked is not left without an end until somebody finds the old one, and a person is told within
/// the hour. Nothing was taken in under any of the sends, by Stripe's own word.
#[test]
fn a_key_that_is_refused_for_a_day_ends_its_calls_and_a_person_is_told() {
    let mut refusing = |what: &str| match what {
        "send" => refused(RefusalScope::Send),
        "look-up" => panic!("nothing can be looked up"),
        _ => is(Identity::Refused { status: 401 }),
    };
    let mut harness = Harness::begun("sk_test_1", &mut refusing);
    let mut told_at_ms = None;
    while !matches!(harness.call().state, CallState::Settled(_)) {
        harness.rings("sk_test_1", 1, &mut refusing);
        told_at_ms = told_at_ms.or_else(|| harness.call().needs_review().map(|_| harness.now_ms));
        assert!(harness.now_ms < NOW_MS + 25 * HOUR_MS, "it does not end");
    }
    assert_eq!(harness.call().state, CallState::Settled(Settlement::NotExecuted));
    assert!((NOW_MS + HOUR_MS..NOW_MS + 2 * HOUR_MS).contains(&told_at_ms.unwrap()));
    assert_eq!(harness.call().needs_review(), None, "it is over");

    // Control: where one send may have come through, it is not over.
    let mut sends = 0;
    let mut first_is_lost = |what: &str| match what {
        "send" if std::mem::replace(&mut sends, 1) == 0 => lost(),
        "send" => refused(RefusalScope::Send),
        "look-up" => Event::LookedUp(
            1,
            LookUp::Inconclusive { from_the_start: false, reason: "the list was refused (401)".into() },
        ),
        _ => is(Identity::Refused { status: 401 }),
    };
    let mut harness = Harness::begun("sk_test_1", &mut first_is_lost);
    while harness.now_ms < NOW_MS + 48 * HOUR_MS {
        harness.rings("sk_test_1", 1, &mut first_is_lost);
    }
    assert_eq!(harness.call().state, CallState::Unknown);
}
