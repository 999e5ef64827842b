//! A ride's two addresses, each for browsers and for API clients.

use crate::rides::id::RideId;
use once::begin::Command;
use once::fingerprint::Fingerprint;
use once::id::Owner;
use once::record::Channel;
use runtime::objects::ObjectRef;
use runtime::serve::{session, unavailable, unreadable};
use serde_json::json;
use web::credentials;
use web::entries::{in_address, kept};
use web::http::{Answer, Request};
use web::key_source;
use web::pages::STILL;
use web::problem::{Kind, Problem, invalid_parameters};
use web::reply;
use web::route::Parameter;

use super::Account;
use super::ask::{ObjectRequest, Shown, View};
use super::booking::{TRANSPORT_FIELDS, answer, run};
use super::entries::api_request;
use super::form::{self, FormState};
use super::pages::{RidePage, Visit, page};
use crate::app::{App, site};

/// The account that a request names with `Authorization`; in the lab there is one for requests without it.
pub(crate) fn account(app: &App, request: &Request) -> Result<Account, Problem> {
    match credentials::token(request, true)? {
        Some(token) => Account::of(token).ok_or_else(credentials::unknown_token),
        None if app.config.lab => Ok(Account::ANONYMOUS),
        None => Err(Problem::new(Kind::Unauthorized)),
    }
}

fn owner_of(account: Account) -> Owner {
    Owner::Account(account.id.to_owned())
}

/// Who asks: the account of the credentials, else the browser's session, else the lab's account.
fn owner(app: &App, request: &Request) -> Result<Owner, Problem> {
    if request.header("authorization").is_some() {
        return account(app, request).map(owner_of);
    }
    match session(request).map_err(unavailable)? {
        session if !session.is_new => Ok(session.owner()),
        _ if request.wants_html() && !app.config.lab => Err(Problem::new(Kind::NotFound)),
        _ => account(app, request).map(owner_of),
    }
}

/// `POST /rides`
pub(crate) async fn book(app: &App, request: &Request) -> Result<Answer, Problem> {
    if request.is_form() { form::post_ride(app, request).await } else { book_by_api(app, request).await }
}

/// The ride of an API client. A body of an unknown type must not hide that the key is missing, so the key is asked for first; but one that
/// is not what it says may hold a key: of that its own problem is told.
async fn book_by_api(app: &App, request: &Request) -> Result<Answer, Problem> {
    let account = account(app, request)?;
    let body = request.parameters();
    let key = key_source::key(request, body.as_ref().ok())?;
    let missing = || key_source::missing(request);
    let is_garbled = body.as_ref().is_err_and(|problem| problem.kind == Kind::BadRequest);
    if key.is_none() && !is_garbled {
        return Err(missing());
    }
    let parameters = body?.without(&TRANSPORT_FIELDS);
    let key = key.ok_or_else(missing)?;
    let in_address = in_address(&request.query);
    if !in_address.is_empty() {
        return Err(invalid_parameters(in_address));
    }
    let operation = api_request(&parameters, account).map_err(invalid_parameters)?;
    let (owner, canonical) = (owner_of(account), parameters.canonical()?);
    let key_hash = key.hash(&owner);
    let place = ObjectRef::Named(key_hash.object_name());
    let command = Command {
        owner,
        key_hash,
        fingerprint: Fingerprint::of(&request.method, &request.path, &canonical),
        parameters: canonical,
        operation,
        channel: Channel::Api,
        request_id: request.id.clone(),
        may_start: true,
        by: None,
        trace: None,
    };
    let resource = RideId::in_object(app.rides.id(&place).map_err(unavailable)?).path();
    match run(app, request, &place, &command).await {
        Ok(result) => Ok(answer(result, request, &resource, &command)),
        Err(_) => Err(Problem::unreachable(&resource)),
    }
}

/// `GET /rides/{id}`: page or JSON.
pub(crate) async fn show(
    app: &App,
    request: &Request,
    id: &Parameter<'_, RideId>,
) -> Result<Answer, Problem> {
    let owner = owner(app, request)?;
    let object = id.read()?.object();
    let place = ObjectRef::Id(object);
    if !app.rides.exists(&place) {
        return Err(Problem::new(Kind::NotFound));
    }
    let ask = ObjectRequest::Show { owner: owner.clone(), key_hash: None };
    let shown = app.rides.ask::<Shown>(&place, ask).await.map_err(unreadable)?;
    let view = shown.ok_or_else(|| Problem::new(Kind::NotFound))?;
    if !request.wants_html() {
        return Ok(ride(&view, id));
    }
    let may_try_again = matches!(owner, Owner::Session(_));
    let visit = Visit {
        edited: request.has_query("edited"),
        is_still: request.has_query(STILL),
        may_try_again,
        now_ms: request.now_ms,
    };
    match page(site(request), id, &view, &visit) {
        RidePage::Receipt(receipt) => Ok(reply::html(200, &receipt, "receipt")),
        RidePage::Status(status) => Ok(reply::html(200, &status, "status")),
        RidePage::NotPaid(page) => Ok(reply::html(200, &page, "not_paid")),
        RidePage::Again(notice) => {
            let session = session(request).map_err(unavailable)?;
            let entries = view.parameters.as_ref().and_then(kept);
            let form_state =
                FormState { kept: entries.as_ref(), notice: Some(notice), ..FormState::default() };
            form::open_form(app, request, &session, form_state, Some(object)).await
        }
    }
}

/// A ride as JSON. Before it is created there is only its id.
fn ride(view: &View, id: &str) -> Answer {
    let mut body = match &view.ride {
        Some(ride) => ride.to_json(),
        None => json!({ "id": id, "object": "ride", "status": "pending" }),
    };
    if view.in_doubt
        && let Some(status) = body.get_mut("status")
    {
        *status = "unknown".into();
    }
    Answer::new(200, "application/json", body.to_string(), "shown")
}
