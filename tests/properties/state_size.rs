//! How large a state becomes: a row of an object's database takes 2 MB, and an operation that has begun must find room in it.

use once::alarm::wake;
use once::begin::begin;
use once::context::Times;
use once::fingerprint::Parameters;
use once::id::ObjectId;
use once::state;
use payments::engine::{
    Action, Begin, Command, Context, Event as Input, Limits, ObjectState, Outcome, ProviderReply, Run,
    context,
};
use payments::payment::money::AmountMinor;
use payments::payment::operation::{Operation, PaymentRequest, RefundRequest, Refusal, Route};
use payments::payment::result::ProviderResult;
use payments::payment::{PaymentState, RefundReason};
use payments::providers::Provider;
use serde_json::{Map, Value};
use web::http::REQUEST_MAX_BYTES;

use crate::payment::pay;
use crate::support::{NOW_MS, command, me};

/// What production gives a row, see `docs/architecture.md`.
const ROW_MAX_BYTES: usize = 2_000_000;

/// As many as an order may have keys, by default.
const TRIES_MAX: u32 = 200;

/// Metadata that fills a request.
fn filling(value: char) -> Vec<(String, String)> {
    let one = |number: usize| (format!("{number:02}"), value.to_string().repeat(500));
    let mut entries: Vec<_> = (0..50).map(one).collect();
    while canonical(&entries).len() > REQUEST_MAX_BYTES - 1000 {
        entries.pop();
    }
    entries
}

fn canonical(entries: &[(String, String)]) -> String {
    let members: Map<String, Value> =
        entries.iter().map(|(name, value)| (format!("metadata[{name}]"), value.as_str().into())).collect();
    Parameters::Json(members).canonical().unwrap().0
}

fn at(now_ms: u64) -> Context {
    let limits = Limits { order_tries_max: u32::MAX, try_pause_ms: 0, ..Limits::default() };
    context(now_ms, 0, Times::default(), limits)
}

/// A try of an order at both providers.
fn a_try(number: u32, metadata: &[(String, String)]) -> Command {
    let Operation::Payment(request) = pay(true) else { panic!("not a payment") };
    let fallback = Route {
        provider: Provider::Adyen,
        payment_method: "stored".into(),
        customer: Some("shopper".into()),
        merchant_account: Some("Shop".into()),
    };
    let request = PaymentRequest { metadata: metadata.to_vec(), fallback: Some(fallback), ..*request };
    let mut command = command(&format!("try-{number}"), Operation::Payment(Box::new(request)));
    command.parameters.0 = canonical(metadata);
    command
}

/// The largest text that the state was committed as.
struct Committed {
    largest: usize,
}

impl Committed {
    fn state(&mut self, object_state: &mut ObjectState) {
        object_state.jobs.append(&mut object_state.appended.jobs);
        object_state.appended = Default::default();
        self.largest = self.largest.max(state::to_text(object_state, 0).unwrap().len());
    }

    /// Runs an operation to its end; `false` if it was refused for want of room.
    fn run(&mut self, object_state: &mut ObjectState, command: &Command, now_ms: u64) -> bool {
        let token = match begin(object_state, command, &me(), &at(now_ms)).unwrap() {
            Begin::Run(token) => token,
            Begin::Refused(Refusal::LimitReached { .. }) => return false,
            other => panic!("{other:?}"),
        };
        let (mut run, mut event, mut now_ms) = (Run::new(token, u64::MAX, &[]), Input::Go, now_ms);
        loop {
            self.state(object_state);
            event = match run.step(object_state, event, &at(now_ms)).unwrap() {
                Action::Again => Input::Go,
                Action::Send(call) => Input::Outcome(call.call_id, declined()),
                Action::SleepUntil(at_ms) => {
                    now_ms = at_ms;
                    Input::Go
                }
                Action::LookUp(call) => panic!("{} is looked up", call.name),
                Action::End(_) => break,
            };
        }
        self.state(object_state);
        true
    }
}

fn declined() -> Outcome {
    let result = ProviderResult::Declined {
        payment: None,
        code: "card_declined".into(),
        decline_code: Some("generic_decline".into()),
        message: "Your card was declined. ".repeat(20),
    };
    Outcome::Definitive(ProviderReply { status: 402, result, request_id: None })
}

#[test]
fn an_order_takes_no_more_tries_than_fit_into_its_row() {
    for value in ['x', 'ж', '語', '😀', '"', '\\'] {
        let metadata = filling(value);
        let mut object_state = ObjectState::empty(ObjectId::from_bytes([7; 32]));
        let mut committed = Committed { largest: 0 };
        let tries = (1..=TRIES_MAX)
            .take_while(|number| committed.run(&mut object_state, &a_try(*number, &metadata), NOW_MS))
            .count();
        assert!((4..TRIES_MAX as usize).contains(&tries), "{value:?}: {tries} tries");
        assert!(committed.largest <= ROW_MAX_BYTES, "{value:?}: {} bytes", committed.largest);
        // Control: as many as there may be would not fit.
        let each = committed.largest / tries;
        assert!(each * TRIES_MAX as usize > ROW_MAX_BYTES, "{value:?}: {each} bytes each");

        // What is to be given back needs next to nothing.
        let mut captured = object_state.clone();
        let payment = captured.resource.payment.as_mut().unwrap();
        payment.state = PaymentState::Captured { amount_minor: 5000 };
        let refund =
            RefundRequest { amount: AmountMinor::new(1), reason: RefundReason::Duplicate, seen: None };
        let begun =
            begin(&mut captured, &command("refund", Operation::Refund(refund)), &me(), &at(NOW_MS)).unwrap();
        assert!(matches!(begun, Begin::Run(_)), "{value:?}: {begun:?}");

        // Once the first responses have expired there is room for a try.
        let later_ms = NOW_MS + Times::default().retention_ms + 1;
        wake(&mut object_state, &me(), &at(later_ms));
        committed.state(&mut object_state);
        assert!(committed.run(&mut object_state, &a_try(99, &metadata), later_ms), "{value:?}");
    }
}
