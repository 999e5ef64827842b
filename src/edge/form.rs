//! A browser's form: minted with its key, and sent back with it. Whatever goes wrong, the person sees a page that says
//! what happened, and what was entered is kept.

use super::api::{fault, run, unavailable};
use super::app::{App, Place, session};
use super::http::{Answer, Request};
use super::pages::Notice;
use super::problem::{Kind, Problem};
use super::ride::{self, TRANSPORT_FIELDS};
use super::session::Session;
use super::token::{FormToken, Purpose};
use super::{key_source, reply};
use crate::flows::ride::FieldError;
use crate::machine::begin::Arrival;
use crate::machine::fingerprint::{Fingerprint, Parameters};
use crate::machine::id::RideId;
use crate::machine::record::Channel;
use crate::object::message::{Ask, Shown, Verdict};

/// `GET /rides/new`
pub(super) fn new_ride(app: &App, request: &Request) -> Result<Answer, Problem> {
    let session = session(request).map_err(unavailable)?;
    fresh_form(app, request, &session, 200, None, &[], None)
}

/// A form with a fresh key.
pub(super) fn fresh_form(
    app: &App,
    request: &Request,
    session: &Session,
    status: u16,
    kept: Option<&Parameters>,
    errors: &[FieldError],
    notice: Option<Notice>,
) -> Result<Answer, Problem> {
    if !app.config.demo {
        return Err(Problem::because(
            Kind::Misconfigured,
            "This form takes the demo's test cards only. API clients can book rides with `POST /rides`.",
        ));
    }
    let token = FormToken {
        object: app.fresh_object().map_err(unavailable)?,
        expires_at_ms: request.now_ms.saturating_add(app.config.form_ttl_ms),
    };
    let key = token.seal(Purpose::Ride, &session.owner(), &app.config.signing_keys);
    Ok(form_page(app, request, session, status, key, kept, errors, notice))
}

#[allow(clippy::too_many_arguments)] // each is another part of the same page
fn form_page(
    app: &App,
    request: &Request,
    session: &Session,
    status: u16,
    key: String,
    kept: Option<&Parameters>,
    errors: &[FieldError],
    notice: Option<Notice>,
) -> Answer {
    let page = ride::form(app.site(), key, kept, errors, notice);
    let answer = reply::html(status, &page, if status == 200 { "form" } else { "form_again" });
    if session.is_new { answer.with("set-cookie", session.set_cookie(request.secure())) } else { answer }
}

/// `POST /rides` by the form.
pub(super) async fn post_ride(app: &App, request: &Request) -> Result<Answer, Problem> {
    if !key_source::from_our_pages(request) {
        return Err(Problem::new(Kind::Forbidden));
    }
    let body = request.parameters()?;
    let session = session(request).map_err(unavailable)?;
    let owner = session.owner();
    let entries = body.clone().without(&TRANSPORT_FIELDS);
    let again = |title: &str, text: &str| {
        let notice = Notice { title: title.to_owned(), text: text.to_owned(), tone: "warning" };
        fresh_form(app, request, &session, 409, Some(&entries), &[], Some(notice))
    };
    let Some(key) = key_source::key(request, Some(&body))? else {
        return again(
            "This form was not complete",
            "Nothing was charged. Your entries are kept: please check them and pay below.",
        );
    };
    let Ok(token) = FormToken::open(key.as_str(), Purpose::Ride, &owner, &app.config.signing_keys) else {
        return again(
            "This form cannot be used here",
            "It was made for another visit, or your browser did not send its cookie. Nothing was charged. \
             Your entries are kept: please check them and pay below.",
        );
    };
    let fault = fault(app, &body)?;
    let operation = match ride::form_request(&entries) {
        Ok(operation) => operation,
        Err(errors) => {
            // Whoever spoils a form that was sent before is shown what it booked: "nothing was charged" may be wrong.
            let used = Ask::Show { key_hash: Some(key.hash(&owner)), owner };
            let place = Place::Id(token.object);
            if app.ask::<Shown>(&place, used).await.map_err(unavailable)?.is_some() {
                let ride = RideId::in_object(token.object).path();
                return Ok(Answer::see_other(&format!("{ride}?edited"), "mismatch"));
            }
            // The key is still free: the same form is corrected and sent again.
            let key = key.as_str().to_owned();
            let notice = ride::foreign_fields(&errors);
            return Ok(form_page(app, request, &session, 422, key, Some(&entries), &errors, notice));
        }
    };
    let canonical = entries.canonical();
    let resource = operation.resource_path(token.object);
    let arrival = Arrival {
        key_hash: key.hash(&owner),
        owner,
        fingerprint: Fingerprint::of(&request.method, &request.path, &canonical),
        parameters: canonical,
        operation,
        channel: Channel::Form,
        request_id: request.id.clone(),
        may_start: request.now_ms < token.expires_at_ms,
    };
    match run(app, &Place::Id(token.object), arrival, request, fault).await {
        Verdict::NotStarted => again(
            "This form has expired",
            "It was open for too long. Nothing was charged. Your entries are kept: please check them and pay below.",
        ),
        verdict => Ok(reply::verdict(verdict, Channel::Form, request, &resource)),
    }
}
