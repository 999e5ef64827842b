//! An API client's `POST /rides`: authentication, key, parameters, then the object. In this order, and nothing is
//! stored before all three are good.

use super::app::{App, ObjectRef};
use super::http::{Answer, Request};
use super::problem::{Kind, Problem};
use super::ride::{TRANSPORT_FIELDS, api_request};
use super::{key_source, reply};
use crate::config::Account;
use crate::flows::ride::FieldError;
use crate::log::log;
use crate::machine::begin::Arrival;
use crate::machine::fingerprint::{Field, Fingerprint, Parameters};
use crate::machine::id::Owner;
use crate::machine::record::Channel;
use crate::object::message::{Ask, Fault, RunAsk, Verdict};

/// The account that a request names with `Authorization`.
pub(super) fn account<'a>(app: &'a App, request: &Request) -> Result<(Owner, &'a Account), Problem> {
    let credentials = request.header("authorization").ok_or_else(|| Problem::new(Kind::Unauthorized))?.trim();
    let token = match credentials.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        // The article's clients send the bare address.
        None if app.config.demo => credentials,
        _ => {
            return Err(Problem::because(
                Kind::Unauthorized,
                "Send the token as `Authorization: Bearer <token>`.",
            ));
        }
    };
    let (id, account) = app.config.account(token).ok_or_else(|| {
        Problem::because(Kind::Unauthorized, "No account has this token. Check it for typing errors.")
    })?;
    Ok((Owner::Account(id.to_owned()), account))
}

pub(super) async fn post_ride(app: &App, request: &Request) -> Result<Answer, Problem> {
    let (owner, account) = account(app, request)?;
    // A body of an unknown type must not hide that the key is missing.
    let body = request.parameters();
    let key = key_source::key(request, body.as_ref().ok())?.ok_or_else(|| Problem::new(Kind::KeyMissing))?;
    let body = body?;
    let fault = fault(app, &body)?;
    let parameters = body.without(&TRANSPORT_FIELDS);
    let operation = api_request(&parameters, &account.payment_method, account.customer.as_deref())
        .map_err(invalid_parameters)?;
    let canonical = parameters.canonical();
    let key_hash = key.hash(&owner);
    let place = ObjectRef::Named(key_hash.clone());
    let object = app.object_id(&place).map_err(unavailable)?;
    let resource = operation.resource_path(object);
    let arrival = Arrival {
        owner,
        key_hash,
        fingerprint: Fingerprint::of(&request.method, &request.path, &canonical),
        parameters: canonical,
        operation,
        channel: Channel::Api,
        request_id: request.id.clone(),
        may_start: true,
    };
    let (owner, key_hash) = (arrival.owner.clone(), arrival.key_hash.clone());
    let verdict =
        run(app, &place, arrival, request, fault).await.map_err(|Unreachable| unreachable(&resource))?;
    Ok(reply::verdict(verdict, Channel::Api, request, &resource).under(&owner, &key_hash))
}

/// The object gave no answer: nobody knows whether the request reached it. The same key finds out.
pub(super) struct Unreachable;

/// Asks the object to run.
pub(super) async fn run(
    app: &App,
    place: &ObjectRef,
    arrival: Arrival,
    request: &Request,
    fault: Option<Fault>,
) -> Result<Verdict, Unreachable> {
    let wait_ms = key_source::wait_ms(request, app.config.times.wait_ms);
    let ask = Ask::Run(Box::new(RunAsk { arrival, wait_ms, fault }));
    app.ask(place, ask).await.map_err(|error| {
        log("error", &[("event", "object_unreachable".into()), ("error", error.to_string().into())]);
        Unreachable
    })
}

fn unreachable(resource: &str) -> Problem {
    let mut problem = Problem::because(
        Kind::OutcomeUnknown,
        "The request could not be handed on, or its answer was lost. Send the same request with the same key again after \
         the time in Retry-After; it cannot charge twice.",
    );
    problem.retry_after_s = Some(1);
    problem.resource = Some(resource.to_owned());
    problem
}

pub(super) fn invalid_parameters(errors: Vec<FieldError>) -> Problem {
    let mut problem = Problem::new(Kind::InvalidParameters);
    problem.errors = errors;
    problem
}

pub(super) fn unavailable(error: worker::Error) -> Problem {
    log("error", &[("event", "platform".into()), ("error", error.to_string().into())]);
    let mut problem = Problem::because(Kind::Unavailable, "Nothing was run. Try again.");
    problem.retry_after_s = Some(1);
    problem
}

/// Something could not be looked up. It says nothing about what was paid.
pub(super) fn unreadable(error: worker::Error) -> Problem {
    log("error", &[("event", "object_unreadable".into()), ("error", error.to_string().into())]);
    let mut problem = Problem::new(Kind::Unreadable);
    problem.retry_after_s = Some(1);
    problem
}

/// `raise_error`, in the demo: fail inside the flow, once.
pub(super) fn fault(app: &App, parameters: &Parameters) -> Result<Option<Fault>, Problem> {
    let asked = match parameters.text("raise_error") {
        Field::Missing => return Ok(None),
        Field::Text(text) => text,
        Field::NotText => String::new(),
    };
    match asked.as_str() {
        "false" => Ok(None),
        "true" if app.config.demo => Ok(Some(Fault::Error)),
        "crash" if app.config.demo => Ok(Some(Fault::Crash)),
        _ => Err(invalid_parameters(vec![FieldError {
            field: "raise_error".to_owned(),
            message: "is `true` or `crash`, and in the demo only".to_owned(),
        }])),
    }
}
