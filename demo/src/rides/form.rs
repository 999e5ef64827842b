//! A browser's form: minted with its key, and sent back with it. Whatever goes wrong, the person sees a page that says
//! what happened, and what was entered is kept.

use crate::rides::id::RideId;
use once::begin::Command;
use once::fingerprint::{FieldError, Fingerprint, Parameters};
use once::id::{ObjectId, Owner};
use once::key::IdempotencyKey;
use once::record::Channel;
use runtime::objects::ObjectRef;
use runtime::serve::{session, unavailable, unreadable};
use serde_json::json;
use web::entries::foreign_fields;
use web::http::{Answer, Request, percent_decode};
use web::key_source;
use web::locale::EN;
use web::pages::Notice;
use web::problem::{Kind, Problem};
use web::session::{OpenForm, Session};
use web::signing::Purpose;
use web::token::FormToken;

use super::ask::{ExecuteResult, ObjectRequest, Shown};
use super::booking::{TRANSPORT_FIELDS, answer, run};
use super::entries::{COORDINATES, form_request};
use super::pages;
use crate::app::{App, site};

/// `GET /rides/new`
pub(crate) async fn new_ride(app: &App, request: &Request) -> Result<Answer, Problem> {
    let session = session(request).map_err(unavailable)?;
    if request.has_query("another") {
        return Ok(another(app, request, &session.owner()).await);
    }
    open_form(app, request, &session, FormState::default(), None).await
}

/// `GET /rides/new?another`: forgets the open key, if its booking is over. Always leads on: a Back must not ask for another
/// booking once more.
async fn another(app: &App, request: &Request, owner: &Owner) -> Answer {
    let on = Answer::see_other("/rides/new", "another");
    match open_key(app, request, owner, None).await {
        Some((_, _, Ok(Some(view)))) if view.is_over => {
            on.with("set-cookie", OpenForm::clear_cookie(request.secure()))
        }
        _ => on,
    }
}

/// What stands on a form.
#[derive(Default)]
pub(super) struct FormState<'a> {
    /// The entries to keep.
    pub(super) kept: Option<&'a Parameters>,
    /// What is wrong with them.
    pub(super) errors: &'a [FieldError],
    /// What to say above it.
    pub(super) notice: Option<Notice>,
    /// The status to answer with; 200 if 0.
    pub(super) status: u16,
}

/// A form that may be paid: with the key that this browser has open, if it was not used; else with a fresh one.
///
/// If the open key was used, the answer leads to what it booked instead: otherwise a reload or a Back would bring a form with
/// another key, and paying that would be a second charge. Only who asks for another booking, after the first is over, gets
/// another key; or who is being shown the failed booking of the object `over`.
pub(super) async fn open_form(
    app: &App,
    request: &Request,
    session: &Session,
    form_state: FormState<'_>,
    over: Option<ObjectId>,
) -> Result<Answer, Problem> {
    let owner = session.owner();
    match open_key(app, request, &owner, over).await {
        Some((_, token, Ok(Some(_)))) => {
            return Ok(Answer::see_other(&RideId::in_object(token.object).path(), "used"));
        }
        // Whether it was used cannot always be told: the same key is safe either way.
        Some((text, _, Ok(None) | Err(_))) => return Ok(form_page(app, request, session, text, form_state)),
        None => {}
    }
    let token = FormToken {
        object: app.rides.fresh().map_err(unavailable)?,
        expires_at_ms: request.now_ms.saturating_add(app.config.form_ttl_ms),
    };
    let key = token.seal(Purpose::Ride, &owner, &app.config.signing_keys);
    Ok(form_page(app, request, session, key, form_state))
}

/// The key that this browser has open, if it is one of ours and may still be used, and what it has booked.
async fn open_key(
    app: &App,
    request: &Request,
    owner: &Owner,
    over: Option<ObjectId>,
) -> Option<(String, FormToken, worker::Result<Shown>)> {
    let text = OpenForm::from_cookies(request.header("cookie")?, request.secure())?;
    let token = FormToken::open(text, Purpose::Ride, owner, &app.config.signing_keys).ok()?;
    if request.now_ms >= token.expires_at_ms || over == Some(token.object) {
        return None;
    }
    let key_hash = IdempotencyKey::parse(text).ok().map(|key| key.hash(owner));
    let ask = ObjectRequest::Show { owner: owner.clone(), key_hash };
    Some((text.to_owned(), token, app.rides.ask(&ObjectRef::Id(token.object), ask).await))
}

fn form_page(
    app: &App,
    request: &Request,
    session: &Session,
    key: String,
    form_state: FormState<'_>,
) -> Answer {
    let open = open_cookie(app, request, &key);
    let page = pages::form(site(request), key, form_state.kept, form_state.errors, form_state.notice);
    let status = if form_state.status == 0 { 200 } else { form_state.status };
    let mut answer = web::reply::html(status, &page, if status == 200 { "form" } else { "form_again" });
    answer.headers.extend(open);
    if session.is_new { answer.with("set-cookie", session.set_cookie(request.secure())) } else { answer }
}

/// The header that lets the browser keep this key as the one that it has open. None if it has it: a cookie that changes
/// costs the page its place in the browser's back-forward cache.
fn open_cookie(app: &App, request: &Request, key: &str) -> Option<(String, String)> {
    let secure = request.secure();
    let known = OpenForm::from_cookies(request.header("cookie").unwrap_or_default(), secure) == Some(key);
    (!known).then(|| ("set-cookie".to_owned(), OpenForm::set_cookie(key, app.config.form_ttl_ms, secure)))
}

/// `GET /rides/keys/{key}`: what a form's key has booked. A page asks it that comes out of the browser's cache.
pub(crate) async fn used(app: &App, request: &Request, encoded: &str) -> Result<Answer, Problem> {
    let not_found = || Problem::new(Kind::NotFound);
    let owner = session(request).map_err(unavailable)?.owner();
    let text = percent_decode(encoded).ok_or_else(not_found)?;
    let key = IdempotencyKey::parse(&text).map_err(|_| not_found())?;
    let token = FormToken::open(key.as_str(), Purpose::Ride, &owner, &app.config.signing_keys);
    let object = token.map_err(|_| not_found())?.object;
    let ask = ObjectRequest::Show { key_hash: Some(key.hash(&owner)), owner };
    let shown = app.rides.ask::<Shown>(&ObjectRef::Id(object), ask).await.map_err(unreadable)?;
    shown.ok_or_else(not_found)?;
    let body = json!({ "resource": RideId::in_object(object).path() });
    Ok(Answer::new(200, "application/json", body.to_string(), "shown"))
}

/// `POST /rides` by the form.
pub(super) async fn post_ride(app: &App, request: &Request) -> Result<Answer, Problem> {
    let body = request.parameters()?;
    let session = session(request).map_err(unavailable)?;
    let owner = session.owner();
    let entries = body.clone().without(&TRANSPORT_FIELDS);
    let again = async |title: &str, text: &str| {
        let notice = Some(Notice { title: title.to_owned(), text: text.to_owned(), tone: "warning" });
        let form_state = FormState { kept: Some(&entries), notice, status: 409, ..FormState::default() };
        open_form(app, request, &session, form_state, None).await
    };
    let Some(key) = key_source::form_key(&body)? else {
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
    let operation = match form_request(&entries) {
        Ok(operation) => operation,
        Err(errors) => {
            // Whoever spoils a form that was sent before is shown what it booked: "nothing was charged" may be wrong.
            let used = ObjectRequest::Show { key_hash: Some(key.hash(&owner)), owner };
            let place = ObjectRef::Id(token.object);
            if app.rides.ask::<Shown>(&place, used).await.map_err(unreadable)?.is_some() {
                let ride = RideId::in_object(token.object).path();
                return Ok(Answer::see_other(&format!("{ride}?edited"), "mismatch"));
            }
            // The key is still free: the same form is corrected and sent again.
            let key = key.as_str().to_owned();
            let notice =
                foreign_fields(&EN, &errors, &[&COORDINATES.map(|(name, _)| name)[..], &["email"]].concat());
            let form_state = FormState { kept: Some(&entries), errors: &errors, notice, status: 422 };
            return Ok(form_page(app, request, &session, key, form_state));
        }
    };
    let canonical = entries.canonical()?;
    let command = Command {
        key_hash: key.hash(&owner),
        owner,
        fingerprint: Fingerprint::of(&request.method, &request.path, &canonical),
        parameters: canonical,
        operation,
        channel: Channel::Form,
        request_id: request.id.clone(),
        may_start: request.now_ms < token.expires_at_ms,
        by: None,
        trace: None,
    };
    match run(app, request, &ObjectRef::Id(token.object), &command).await {
        Err(_) => {
            let notice = Some(Notice {
                title: "We could not get through".to_owned(),
                text: "Press Pay again: this form is paid once, however often it is sent.".to_owned(),
                tone: "warning",
            });
            let form_state = FormState { kept: Some(&entries), notice, status: 503, ..FormState::default() };
            Ok(form_page(app, request, &session, key.as_str().to_owned(), form_state).with("retry-after", "1"))
        }
        Ok(ExecuteResult::NotStarted) => {
            again(
                "This form has expired",
                "It was open for too long. Nothing was charged. Your entries are kept: please check them and pay below.",
            )
            .await
        }
        Ok(result) => {
            // A form of an older tab: from now on it is the one to come back to.
            let mut answer = answer(result, request, &RideId::in_object(token.object).path(), &command);
            answer.headers.extend(open_cookie(app, request, key.as_str()));
            Ok(answer)
        }
    }
}
