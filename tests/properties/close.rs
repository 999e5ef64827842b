//! What an order's earlier tries have left open at Stripe: it is closed before another one is sent, and asked for if none is.

use messages::message::{KeyView, View};
use once::alarm::wake;
use once::begin::begin;
use once::id::{InstanceId, ObjectId};
use once::record::StoredResponse;
use once::run::RunEnd;
use paid_once::edge::checkout::page::OrderState;
use payments::engine::{Action, Begin, Context, Event, Lifecycle, ObjectState, Run};
use payments::flows::tries::{NextTry, next_try};
use payments::payment::RefundState;
use payments::payment::money::AmountMinor;
use payments::payment::operation::{Operation, Refusal};
use payments::payment::result::RemoteState;
use payments::payment::status_query::{Beside, RemoteRefund, StatusQuery, StatusReply};
use payments::payment::tries::{LateMoney, Stage};
use payments::providers::HttpAnswer;
use payments::transitions::answers;
use payments::transitions::polling::{self, Asker};
use serde_json::{Value, json};

use crate::payment::pay;
use crate::support::{NOW_MS, answer, at, command};

const DAY_MS: u64 = 86_400_000;
const AMOUNT: u64 = 5000;

fn intent(id: &str, status: &str) -> Value {
    let received = if status == "succeeded" { AMOUNT } else { 0 };
    json!({
        "id": id, "object": "payment_intent", "status": status, "amount": AMOUNT, "amount_received": received,
        "amount_capturable": 0, "currency": "usd", "metadata": {},
    })
}

fn declined(id: &str) -> HttpAnswer {
    let intent = intent(id, "requires_payment_method");
    answer(
        402,
        json!({ "error": { "type": "card_error", "code": "card_declined", "message": "No.", "payment_intent": intent } }),
    )
}

fn charged(id: &str) -> HttpAnswer {
    answer(200, intent(id, "succeeded"))
}

fn canceled(id: &str) -> HttpAnswer {
    answer(200, intent(id, "canceled"))
}

fn not_canceled(id: &str, status: &str) -> HttpAnswer {
    let (code, intent) = ("payment_intent_unexpected_state", intent(id, status));
    answer(
        400,
        json!({ "error": { "type": "invalid_request_error", "code": code, "message": "No.", "payment_intent": intent } }),
    )
}

fn missing() -> HttpAnswer {
    answer(
        404,
        json!({ "error": { "type": "invalid_request_error", "code": "resource_missing", "message": "No." } }),
    )
}

/// An order, and what was sent to Stripe for it.
struct Order {
    object_state: ObjectState,
    keys: u32,
    sent: Vec<(String, String)>,
}

impl Order {
    fn new() -> Self {
        Self { object_state: ObjectState::empty(ObjectId::from_bytes([7; 32])), keys: 0, sent: Vec::new() }
    }

    /// Another try, under a key of its own, and Stripe's answers to what it sends.
    fn tries(&mut self, operation: Operation, answers: Vec<HttpAnswer>, ctx: &Context) -> (u16, Value) {
        self.keys += 1;
        let command = command(&format!("key-{}", self.keys), operation);
        let begun = begin(&mut self.object_state, &command, &InstanceId("me".into()), ctx).unwrap();
        let Begin::Run(token) = begun else { panic!("{begun:?}") };
        self.drive(Run::new(token, 0, &[]), answers, ctx)
    }

    fn drive(&mut self, mut run: Run, answers: Vec<HttpAnswer>, ctx: &Context) -> (u16, Value) {
        let (mut event, mut answers) = (Event::Go, answers.into_iter());
        loop {
            event = match run.step(&mut self.object_state, event, ctx).unwrap() {
                Action::Again => Event::Go,
                Action::Send(call) => {
                    self.sent.push((call.request.path.clone(), call.provider_key.clone()));
                    let answer = answers.next().unwrap_or_else(|| panic!("unexpected: {:?}", self.sent));
                    Event::Outcome(call.call_id, call.provider.classify(&call, &answer))
                }
                Action::End(RunEnd::Finished(StoredResponse { status, body, .. })) => {
                    assert_eq!(answers.len(), 0, "sent no more than {:?}", self.sent);
                    return (status, serde_json::from_slice(&body).unwrap());
                }
                other => panic!("{other:?}"),
            };
        }
    }

    fn paths(&mut self) -> Vec<String> {
        self.sent.drain(..).map(|(path, _)| path).collect()
    }

    fn audited(&self, action: &str) -> bool {
        self.object_state.appended.facts.audit.iter().any(|record| record.action == action)
    }

    fn gives_back(&self) -> bool {
        let is_it = |operation: &Operation| matches!(operation, Operation::GiveBack(_));
        self.object_state
            .keys
            .iter()
            .any(|key| matches!(&key.lifecycle, Lifecycle::Open(open) if is_it(&open.operation)))
    }
}

/// An order whose first tries were all declined and not closed, as older versions left them.
fn left_open(ids: &[&str]) -> Order {
    let mut order = Order::new();
    let mut tries = Vec::new();
    for id in ids {
        assert_eq!(order.tries(pay(true), vec![declined(id)], &at(NOW_MS)).0, 402);
        // The next try does not see it, and so does not close it.
        tries.append(&mut order.object_state.resource.tries);
    }
    order.object_state.resource.tries = tries;
    order.sent.clear();
    order
}

#[test]
fn a_try_whose_payment_is_missing_at_stripe_holds_up_the_next_one_until_it_is_seen_canceled() {
    let mut order = left_open(&["pi_1"]);
    let (status, body) = order.tries(pay(true), vec![missing()], &at(NOW_MS));
    assert_eq!((status, body["code"].as_str()), (402, Some("earlier_try_open")));
    let (_, first_key) = order.sent[0].clone();
    assert_eq!(order.paths(), ["/v1/payment_intents/pi_1/cancel"], "nothing is charged");

    let (status, _) = order.tries(pay(true), vec![canceled("pi_1"), charged("pi_2")], &at(NOW_MS));
    assert_eq!(status, 201);
    assert_ne!(order.sent[0].1, first_key, "Stripe has stored its first answer under the first key");
    assert_eq!(order.paths(), ["/v1/payment_intents/pi_1/cancel", "/v1/payment_intents"]);
}

#[test]
fn all_tries_that_are_left_open_are_closed_and_each_once() {
    let mut order = left_open(&["pi_1", "pi_2"]);
    let answers = vec![canceled("pi_1"), not_canceled("pi_2", "canceled"), declined("pi_4")];
    assert_eq!(order.tries(pay(true), answers, &at(NOW_MS)).0, 402);
    let cancel = |id| format!("/v1/payment_intents/{id}/cancel");
    let charge = "/v1/payment_intents".to_owned();
    assert_eq!(order.paths(), [cancel("pi_1"), cancel("pi_2"), charge.clone()]);
    let later = at(NOW_MS + DAY_MS);
    assert_eq!(order.tries(pay(true), vec![canceled("pi_4"), charged("pi_5")], &later).0, 201);
    assert_eq!(order.paths(), [cancel("pi_4"), charge]);
}

#[test]
fn one_that_was_confirmed_meanwhile_pays_the_order() {
    let mut order = left_open(&["pi_1"]);
    let (status, body) = order.tries(pay(true), vec![not_canceled("pi_1", "succeeded")], &at(NOW_MS));
    assert_eq!(
        (status, body["status"].as_str(), body["attempt"].as_u64()),
        (201, Some("succeeded"), Some(1))
    );
    assert_eq!(body["provider_payment"], "pi_1");
    assert_eq!(order.paths(), ["/v1/payment_intents/pi_1/cancel"]);
    assert!(order.audited("try.paid_after_all") && !order.gives_back());
}

#[test]
fn what_was_given_back_of_one_that_pays_the_order_is_asked_for_at_once() {
    let (mut order, ctx) = (left_open(&["pi_1"]), at(NOW_MS));
    order.tries(pay(true), vec![not_canceled("pi_1", "succeeded")], &ctx);
    let mut questions = polling::begin(&mut order.object_state, Asker::Background, &ctx);
    while let Some(question) = questions.pop() {
        let status_reply = match &question {
            StatusQuery::Payment { .. } => {
                StatusReply::Payment(RemoteState::Captured { amount_minor: AMOUNT }, Beside::default())
            }
            StatusQuery::Refunds { .. } => {
                let (id, state) = ("re_1".to_owned(), RefundState::Succeeded);
                let (provider_key, may_be_release) = (None, false);
                let refund = RemoteRefund { id, amount_minor: AMOUNT, state, provider_key, may_be_release };
                StatusReply::Refunds { refunds: vec![refund], has_more: false }
            }
            other => panic!("{other:?}"),
        };
        questions.extend(answers::take(&mut order.object_state, &question, status_reply, &ctx).unwrap());
    }
    let payment = order.object_state.resource.payment.as_ref().unwrap();
    assert_eq!((payment.attempt, payment.refunded_elsewhere_minor), (1, AMOUNT));
}

#[test]
fn one_that_was_confirmed_and_is_not_what_is_asked_for_now_is_given_back() {
    let mut order = left_open(&["pi_1"]);
    let Operation::Payment(mut request) = pay(true) else { unreachable!() };
    request.amount = AmountMinor::new(AMOUNT + 1).unwrap();
    let answers = vec![not_canceled("pi_1", "succeeded")];
    let (status, body) = order.tries(Operation::Payment(request), answers, &at(NOW_MS));
    assert_eq!((status, body["code"].as_str()), (402, Some("earlier_try_open")));
    assert!(order.audited("try.late_money") && order.gives_back());
}

/// What Stripe says of an order that nobody tries again, at the times at which it is asked, in ms after `NOW_MS`.
fn asked(order: &mut Order, status_reply: &StatusReply) -> Vec<(u64, String)> {
    let mut asked = Vec::new();
    while let Some(now_ms) = polling::due_at_ms(order.object_state.resource.payment.as_ref().unwrap()) {
        for question in polling::begin(&mut order.object_state, Asker::Background, &at(now_ms)) {
            let StatusQuery::Payment { id, .. } = &question else { panic!("{question:?}") };
            asked.push((now_ms - NOW_MS, id.clone()));
            answers::take(&mut order.object_state, &question, status_reply.clone(), &at(now_ms)).unwrap();
        }
        assert!(asked.len() < 50, "{asked:?}");
    }
    asked
}

fn still_declined(order: &Order) -> StatusReply {
    let call = &order.object_state.calls[0];
    let question =
        StatusQuery::Payment { provider: call.provider, account: None, id: "pi_1".into(), doubt: None };
    call.provider.read_status_reply(&question, &answer(200, intent("pi_1", "requires_payment_method")))
}

#[test]
fn a_declined_try_is_asked_for_a_few_times_while_nobody_tries_again() {
    let mut order = left_open(&["pi_1"]);
    let status_reply = still_declined(&order);
    let times: Vec<u64> =
        asked(&mut order, &status_reply).into_iter().map(|(at_ms, _)| at_ms / DAY_MS).collect();
    assert_eq!(times, [1, 7, 30]);
    assert!(!order.gives_back());
}

#[test]
fn money_that_comes_to_a_declined_try_is_given_back_although_nobody_tells_of_it() {
    for found in [RemoteState::Captured { amount_minor: AMOUNT }, RemoteState::Authorized] {
        let mut order = left_open(&["pi_1"]);
        assert_eq!(
            asked(&mut order, &StatusReply::Payment(found, Beside::default())),
            [(DAY_MS, "pi_1".to_owned())]
        );
        assert!(order.audited("try.late_money") && order.gives_back());
    }
}

#[test]
fn each_try_that_could_not_be_closed_is_asked_for_and_none_that_was() {
    let mut order = left_open(&["pi_1", "pi_2"]);
    assert_eq!(order.tries(pay(true), vec![canceled("pi_1"), missing()], &at(NOW_MS)).0, 402);
    let status_reply = still_declined(&order);
    let ids: Vec<String> = asked(&mut order, &status_reply).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, ["pi_2"; 3]);
}

#[test]
fn money_that_somebody_has_given_back_before_holds_nothing_up() {
    for (code, expected) in [
        ("charge_already_refunded", Stage::GivenBack),
        // The bank has it, and decides.
        ("charge_disputed", Stage::Refused),
    ] {
        let mut order = left_open(&["pi_1"]);
        let found = RemoteState::Captured { amount_minor: AMOUNT };
        asked(&mut order, &StatusReply::Payment(found, Beside::default()));
        let ctx = at(NOW_MS + DAY_MS);
        let refused = answer(
            400,
            json!({ "error": { "type": "invalid_request_error", "code": code, "message": "No." } }),
        );
        for token in wake(&mut order.object_state, &InstanceId("me".into()), &ctx) {
            order.drive(Run::new(token, 0, &[]), vec![refused.clone()], &ctx);
        }
        assert_eq!(order.paths(), ["/v1/refunds"]);
        let late = order.object_state.resource.tries[0].late.clone().unwrap();
        assert_eq!(late.stage(), expected, "{code}");
        assert_eq!(order.audited("try.given_back"), expected == Stage::GivenBack);
    }
}

/// Money on the order's first try, given back as far as this.
fn late(order: &mut Order, stage: Stage) {
    let late = LateMoney::new(AMOUNT, true, stage);
    order.object_state.resource.tries[0].late = Some(late);
}

#[test]
fn no_other_try_is_admitted_beside_money_that_is_not_given_back() {
    let mut order = left_open(&["pi_1"]);
    for (stage, expected) in
        [(Stage::Begun, "giving_back"), (Stage::Received, "giving_back"), (Stage::Refused, "not_given_back")]
    {
        late(&mut order, stage);
        let before = order.object_state.clone();
        let command = command("another", pay(true));
        let begun = begin(&mut order.object_state, &command, &InstanceId("me".into()), &at(NOW_MS)).unwrap();
        let Begin::Refused(Refusal::State { state, .. }) = begun else { panic!("{stage:?}: {begun:?}") };
        assert_eq!(state, expected);
        assert_eq!(order.object_state, before, "nothing is stored, and no try is counted");
    }
    late(&mut order, Stage::GivenBack);
    assert_eq!(order.tries(pay(true), vec![charged("pi_2")], &at(NOW_MS)).0, 201);
}

#[test]
fn a_try_that_is_not_sent_yet_is_not_sent_once_there_is_money_on_an_earlier_one() {
    for steps in 0..4 {
        let (mut order, ctx) = (left_open(&["pi_1"]), at(NOW_MS));
        order.object_state.resource.tries[0].status = "canceled".to_owned();
        let me = InstanceId("me".into());
        let begun = begin(&mut order.object_state, &command("another", pay(true)), &me, &ctx).unwrap();
        let Begin::Run(token) = begun else { panic!("{begun:?}") };
        let mut run = Run::new(token, 0, &[]);
        for _ in 0..steps {
            let mut ahead = order.object_state.clone();
            match run.clone().step(&mut ahead, Event::Go, &ctx).unwrap() {
                Action::Again => run.step(&mut order.object_state, Event::Go, &ctx).unwrap(),
                _ => break,
            };
        }
        late(&mut order, Stage::Begun);
        let (status, body) = order.drive(run, Vec::new(), &ctx);
        let answered = (status, body["code"].as_str());
        assert_eq!(answered, (402, Some("earlier_try_open")), "after {steps} steps");
        assert_eq!(
            order.object_state.resource.tries.len(),
            1,
            "after {steps} steps: it is no try that counts"
        );
    }
}

#[test]
fn what_was_never_sent_is_no_try_that_counts() {
    let mut order = left_open(&["pi_1"]);
    let ctx = at(NOW_MS);
    for _ in 0..2 * ctx.settings.limits.order_tries_max {
        let (_, body) = order.tries(pay(true), vec![missing()], &ctx);
        assert_eq!(body["code"], "earlier_try_open");
        assert_eq!(next_try(&order.object_state, &ctx), NextTry::Now);
    }
    assert_eq!(order.tries(pay(true), vec![canceled("pi_1"), charged("pi_2")], &ctx).0, 201);
}

#[test]
fn what_was_never_sent_begins_no_pause() {
    let mut order = left_open(&["pi_1", "pi_2", "pi_3"]);
    let NextTry::At(at_ms) = next_try(&order.object_state, &at(NOW_MS)) else { panic!("no pause") };
    let ctx = at(at_ms);
    let (_, body) = order.tries(pay(true), vec![missing()], &ctx);
    assert_eq!(body["code"], "earlier_try_open");
    assert_eq!(next_try(&order.object_state, &ctx), NextTry::Now);
}

#[test]
fn the_orders_page_leads_to_no_bank_beside_money_that_is_not_given_back() {
    let mut order = left_open(&["pi_1"]);
    let mut waiting = intent("pi_2", "requires_action");
    let url = "https://bank.example/";
    waiting["next_action"] = json!({ "type": "redirect_to_url", "redirect_to_url": { "url": url } });
    let (status, _) = order.tries(pay(true), vec![canceled("pi_1"), answer(200, waiting)], &at(NOW_MS));
    assert_eq!(status, 201);
    let shown = |order: &Order| {
        let (state, resource) = (&order.object_state, &order.object_state.resource);
        OrderState::of(Some(&View {
            payment: resource.payment.clone(),
            refunds: Vec::new(),
            tries: resource.tries.clone(),
            customer: None,
            key: KeyView::of(state, state.keys.last().unwrap(), Vec::new(), NOW_MS),
            parameters: None,
            next_try: NextTry::Now,
        }))
    };
    let at_the_bank = OrderState::AtTheBank { attempt: 2, url: url.to_owned() };
    assert_eq!(shown(&order), at_the_bank);
    for (stage, expected) in [
        (Stage::Received, OrderState::GivingBack { is_refused: false }),
        (Stage::Refused, OrderState::GivingBack { is_refused: true }),
        (Stage::GivenBack, at_the_bank),
    ] {
        late(&mut order, stage);
        assert_eq!(shown(&order), expected);
    }
}
