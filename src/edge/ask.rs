//! Asking objects: to run an operation, or how things stand.

use super::app::{App, ObjectRef};
use super::return_key::sign_way_back;
use messages::message::{Answered, Execute, ExecuteResult, ObjectRequest, Shown, View};
use payments::payment::operation::Operation;
use runtime::log::log;
use runtime::serve::unreadable;
use web::problem::{Kind, Problem};

/// What its owner sees of an object.
pub(super) async fn show(app: &App, place: &ObjectRef, ask: ObjectRequest) -> Result<View, Problem> {
    match app.ask::<Shown>(place, ask).await {
        Ok(Some(view)) => Ok(view),
        Ok(None) => Err(Problem::new(Kind::NotFound)),
        Err(error) => Err(unreadable(error)),
    }
}

/// An object gave no answer to what needs no key: it is not known whether it was done, as `detail` says, and what to do.
pub(super) fn not_known(error: &worker::Error, detail: &str) -> Problem {
    log_unreachable(error);
    Problem::because(Kind::OutcomeUnknown, detail).retry_after_s(1)
}

pub(super) fn log_unreachable(error: &worker::Error) {
    log("error", &[("event", "object_unreachable".into()), ("error", error.to_string().into())]);
}

/// The object gave no answer: nobody knows whether the request reached it. The same key finds out.
pub(super) struct Unreachable;

/// Asks the object to run.
pub(super) async fn run(app: &App, place: &ObjectRef, ask: Execute) -> Result<ExecuteResult, Unreachable> {
    run_whole(app, place, ask).await.map(|answered| answered.message)
}

/// Asks the object to run. Gives the result with what beside it is told of it: how long the provider took, and whether it is final.
pub(super) async fn run_whole(
    app: &App,
    place: &ObjectRef,
    mut ask: Execute,
) -> Result<Answered<ExecuteResult>, Unreachable> {
    let unreachable = |error: worker::Error| {
        log_unreachable(&error);
        Unreachable
    };
    if let Operation::Payment(payment) = &mut ask.command.operation {
        let object = app.object_id(place).map_err(unreachable)?;
        sign_way_back(payment, object, &app.config.signing_keys);
    }
    app.ask_whole(place, ObjectRequest::Run(Box::new(ask))).await.map_err(unreachable)
}
