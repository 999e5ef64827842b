//! A booking, handed to the ride's object, and its answer.

use once::begin::Command;
use runtime::log::log;
use runtime::objects::ObjectRef;
use web::http::{Answer, Request};
use web::key_source;
use web::problem::{Kind, Problem};
use web::reply::{self, Refused, ResponseOptions};

use super::ask::{ExecuteResult, ObjectRequest};
use super::flow::Rides;
use crate::app::App;

/// What is no part of the request.
pub(super) const TRANSPORT_FIELDS: [&str; 1] = ["idempotency_key"];

/// Asks the object to book. An error says nothing about what was done: the same key finds out.
pub(super) async fn run(
    app: &App,
    request: &Request,
    place: &ObjectRef,
    command: &Command<Rides>,
) -> worker::Result<ExecuteResult> {
    let wait_ms = key_source::wait_ms(request, app.config.times.wait_ms);
    let ask = ObjectRequest::Run { command: Box::new(command.clone()), wait_ms };
    let result = app.rides.ask(place, ask).await;
    if let Err(error) = &result {
        log("error", &[("event", "object_unreachable".into()), ("error", error.to_string().into())]);
    }
    result
}

/// The answer to a booking.
pub(super) fn answer(
    result: ExecuteResult,
    request: &Request,
    resource: &str,
    command: &Command<Rides>,
) -> Answer {
    let refused = |detail| Refused::new(Problem::because(Kind::LimitReached, detail), "limit_reached");
    reply::execute_result(result, command.channel, request, resource, ResponseOptions::default(), refused)
        .under(&command.owner, &command.key_hash)
}
