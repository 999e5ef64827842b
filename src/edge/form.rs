//! A browser's form: minted with its key, and sent back with it. Whatever goes wrong, the person sees a page that says
//! what happened, and what was entered is kept.

use super::api::{fault, run, unavailable};
use super::app::{App, Place, session};
use super::http::{Answer, Request};
use super::pages::Notice;
use super::problem::{Kind, Problem};
use super::ride::{self, TRANSPORT_FIELDS};
use super::session::{OpenForm, Session};
use super::token::{FormToken, Purpose};
use super::{key_source, reply};
use crate::flows::ride::FieldError;
use crate::machine::begin::Arrival;
use crate::machine::fingerprint::{Fingerprint, Parameters};
use crate::machine::id::{ObjectId, Owner, RideId};
use crate::machine::key::IdempotencyKey;
use crate::machine::record::Channel;
use crate::object::message::{Ask, Shown, Verdict};

/// `GET /rides/new`
pub(super) async fn new_ride(app: &App, request: &Request) -> Result<Answer, Problem> {
    let session = session(request).map_err(unavailable)?;
    open_form(app, request, &session, Sheet::default(), None).await
}

/// What stands on a form.
#[derive(Default)]
pub(super) struct Sheet<'a> {
    /// The entries to keep.
    pub(super) kept: Option<&'a Parameters>,
    /// What is wrong with them.
    pub(super) errors: &'a [FieldError],
    /// What to say above it.
    pub(super) notice: Option<Notice>,
    /// The status to answer with; 200 if 0.
    pub(super) status: u16,
}

/// A form that may be paid: with the key that this browser has open, if it was not used; else with a fresh one. If the
/// open key was used and its end was not seen, the answer leads to that instead: otherwise a reload in the middle of a
/// payment would be a second charge. `seen` is the object whose end is being shown right now.
pub(super) async fn open_form(
    app: &App,
    request: &Request,
    session: &Session,
    sheet: Sheet<'_>,
    seen: Option<ObjectId>,
) -> Result<Answer, Problem> {
    if !app.config.demo {
        return Err(Problem::because(
            Kind::Misconfigured,
            "This form takes the demo's test cards only. API clients can book rides with `POST /rides`.",
        ));
    }
    let owner = session.owner();
    let open = open_token(app, request, &owner).filter(|(_, token)| Some(token.object) != seen);
    if let Some((text, token)) = open {
        let key_hash = IdempotencyKey::parse(&text).ok().map(|key| key.hash(&owner));
        match app.ask::<Shown>(&Place::Id(token.object), Ask::Show { owner, key_hash }).await {
            Ok(Some(_)) => return Ok(Answer::see_other(&RideId::in_object(token.object).path(), "unseen")),
            // Whether it was used cannot be told now: the same key is safe either way.
            Ok(None) | Err(_) => return Ok(form_page(app, request, session, text, sheet)),
        }
    }
    let token = FormToken {
        object: app.fresh_object().map_err(unavailable)?,
        expires_at_ms: request.now_ms.saturating_add(app.config.form_ttl_ms),
    };
    let key = token.seal(Purpose::Ride, &owner, &app.config.signing_keys);
    Ok(form_page(app, request, session, key, sheet))
}

/// The key that this browser has open, if it is one of ours and may still be used.
fn open_token(app: &App, request: &Request, owner: &Owner) -> Option<(String, FormToken)> {
    let text = OpenForm::from_cookies(request.header("cookie")?, request.secure())?;
    let token = FormToken::open(text, Purpose::Ride, owner, &app.config.signing_keys).ok()?;
    (request.now_ms < token.expires_at_ms).then(|| (text.to_owned(), token))
}

/// The end of a form's payment is being shown: from now on a new form gets a new key. A script that looks ahead has not
/// shown it to anyone yet.
pub(super) fn seen(app: &App, request: &Request, owner: &Owner, object: ObjectId, answer: Answer) -> Answer {
    let is_shown = request.header("sec-fetch-dest").is_none_or(|dest| dest == "document");
    match open_token(app, request, owner) {
        Some((_, token)) if is_shown && token.object == object => {
            answer.with("set-cookie", OpenForm::clear_cookie(request.secure()))
        }
        _ => answer,
    }
}

fn form_page(app: &App, request: &Request, session: &Session, key: String, sheet: Sheet<'_>) -> Answer {
    let (secure, status) = (request.secure(), if sheet.status == 0 { 200 } else { sheet.status });
    let open = OpenForm::set_cookie(&key, app.config.form_ttl_ms, secure);
    let page = ride::form(app.site(), key, sheet.kept, sheet.errors, sheet.notice);
    let answer = reply::html(status, &page, if status == 200 { "form" } else { "form_again" });
    let answer = answer.with("set-cookie", open);
    if session.is_new { answer.with("set-cookie", session.set_cookie(secure)) } else { answer }
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
    let again = async |title: &str, text: &str| {
        let notice = Some(Notice { title: title.to_owned(), text: text.to_owned(), tone: "warning" });
        let sheet = Sheet { kept: Some(&entries), notice, status: 409, ..Sheet::default() };
        open_form(app, request, &session, sheet, None).await
    };
    let Some(key) = key_source::key(request, Some(&body))? else {
        return again(
            "This form was not complete",
            "Nothing was charged. Your entries are kept: please check them and pay below.",
        )
        .await;
    };
    let Ok(token) = FormToken::open(key.as_str(), Purpose::Ride, &owner, &app.config.signing_keys) else {
        return again(
            "This form cannot be used here",
            "It was made for another visit, or your browser did not send its cookie. Nothing was charged. \
             Your entries are kept: please check them and pay below.",
        )
        .await;
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
            let sheet = Sheet { kept: Some(&entries), errors: &errors, notice, status: 422 };
            return Ok(form_page(app, request, &session, key, sheet));
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
    let (owner, key_hash) = (arrival.owner.clone(), arrival.key_hash.clone());
    match run(app, &Place::Id(token.object), arrival, request, fault).await {
        Verdict::NotStarted => again(
            "This form has expired",
            "It was open for too long. Nothing was charged. Your entries are kept: please check them and pay below.",
        ).await,
        verdict => Ok(reply::verdict(verdict, Channel::Form, request, &resource).under(&owner, &key_hash)),
    }
}
