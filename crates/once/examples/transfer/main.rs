//! A bank transfer that is asked for twice and made once: `cargo run -p paid-once-engine --example transfer`.

mod flow;

use flow::{Receipt, Transfers, request};
use once::begin::{Begin, begin};
use once::call::{Outcome, ProviderCall, ProviderReply};
use once::context::Context;
use once::id::{InstanceId, ObjectId};
use once::object_state::ObjectState;
use once::run::{Action, Event, Run, RunEnd};
use once::times::Times;

/// The shell's part, without a database: each step is to be one transaction over the rows.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctx = Context { now_ms: 0, jitter_permille: 0, times: Times::default(), keys_max: 100, settings: () };
    let mut state = ObjectState::<Transfers>::empty(ObjectId::from_bytes([7; 32]));
    for _ in 0..2 {
        let command = request("k1", r#"{"to": "DE02 1203 0000 0000 2020 51", "cents": 2500}"#)?;
        match begin(&mut state, &command, &InstanceId("me".into()), &ctx)? {
            Begin::Run(token) => {
                let mut run = Run::new(token, 0, &[]);
                let mut event = Event::Go;
                let response = loop {
                    event = match run.step(&mut state, event, &ctx).map_err(|error| error.to_string())? {
                        Action::Send(call) => Event::Outcome(call.call_id, send(&call)),
                        Action::End(RunEnd::Finished(response)) => break response,
                        _ => Event::Go,
                    };
                };
                println!("{}: {}", response.status, String::from_utf8_lossy(&response.body));
            }
            Begin::Replay { response, .. } => println!("{} again, and nothing was sent", response.status),
            other => println!("{other:?}"),
        }
    }
    println!("{} cents are left", state.resource.balance_cents);
    Ok(())
}

fn send(call: &ProviderCall<Transfers>) -> Outcome<Receipt> {
    println!("POST {} under the key {}", call.request.path, call.provider_key);
    let result = Receipt::Booked { reference: "tr_1".into() };
    Outcome::Definitive(ProviderReply { status: 200, result, request_id: None })
}
