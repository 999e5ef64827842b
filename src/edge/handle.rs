//! One request, from the runtime and back to it.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use worker::{Context, Delay, Env, Headers, ResponseBody};

use super::app::{App, ObjectRef, session, site};
use super::checkout::serve;
use super::http::{Answer, Request, Url};
use super::lab::run as lab;
use super::pages::{Home, ProblemPage};
use super::problem::{Kind, Problem};
use super::ride::{RidePage, Visit, kept, page};
use super::routes::Route;
use super::{
    admin, admission, api, assets, cors, desk, docs, form, keys, payments, reply, retention, webhooks,
};
use crate::log::log;
use crate::machine::id::{Owner, RequestId};
use crate::metrics;
use crate::object::message::{Ask, Shown, View};
use crate::payment::id::RideId;
use crate::random;

/// Answers a request. An error is an answer too.
pub async fn handle(
    mut incoming: worker::Request,
    env: Env,
    ctx: Context,
) -> worker::Result<worker::Response> {
    let mut request = read(&incoming)?;
    let route = Route::find(&request.path);
    let mut file = None;
    let answer = match App::new(&env) {
        Ok(app) => {
            let answered = answer(&app, &mut request, &mut incoming, route.as_ref()).await;
            let answer = answered.unwrap_or_else(|problem| refuse(problem, &request, app.config.demo));
            let answer = cors::allow(answer, &request, route.as_ref(), &app.config.cors_origins);
            file = app.file.take();
            if let Some(work) = app.afterwards.take() {
                ctx.wait_until(work);
            }
            app.timed(answer, &request)
        }
        Err(what) => refuse(Problem::of_setting(Kind::Misconfigured, what), &request, false),
    };
    let answer = reply::finish(answer, &request);
    log_request(&request, route.as_ref(), &answer);
    let name = route.as_ref().map_or("none", Route::name);
    metrics::request(name, &request.method, answer.status, answer.outcome);
    if let Some(flush) = metrics::flush(&env) {
        ctx.wait_until(flush);
    }
    write(answer, file)
}

fn log_request(request: &Request, route: Option<&Route>, answer: &Answer) {
    let mut fields = vec![
        ("event", "request".into()),
        ("request_id", request.id.0.as_str().into()),
        ("method", request.method.as_str().into()),
        ("route", route.map_or("none", Route::name).into()),
        ("status", answer.status.into()),
        ("outcome", answer.outcome.into()),
        ("ms", worker::Date::now().as_millis().saturating_sub(request.now_ms).into()),
    ];
    if let Some((owner, key_hash)) = &answer.key {
        fields.extend([("owner", owner.as_str().into()), ("key_hash", key_hash.as_str().into())]);
    }
    log(if answer.status >= 500 { "error" } else { "info" }, &fields);
}

/// Judges a request by all that its headers tell, and only then reads its body.
async fn answer(
    app: &App,
    request: &mut Request,
    incoming: &mut worker::Request,
    route: Option<&Route>,
) -> Result<Answer, Problem> {
    if !request.secure() && !request.is_local() {
        // A cookie or a token that comes in the clear has been seen already: it must not work.
        return match request.method.as_str() {
            "GET" | "HEAD" => Ok(reply::moved(&request.https_url())),
            _ => Err(Problem::new(Kind::HttpsRequired)),
        };
    }
    let route = route.ok_or_else(|| Problem::new(Kind::NotFound))?;
    if !route.allows(&request.method) {
        let mut problem = Problem::new(Kind::MethodNotAllowed);
        problem.allow = Some(route.allow());
        return Err(problem);
    }
    if request.method == "OPTIONS" {
        return Ok(cors::options(request, route, &app.config.cors_origins));
    }
    if request.method == "POST" {
        admission::admit(app, request, route).await?;
        request.body = body(request, incoming, route.body_max_bytes(), app.config.body_timeout_ms).await?;
    }
    dispatch(app, request, route).await
}

async fn dispatch(app: &App, request: &Request, route: &Route) -> Result<Answer, Problem> {
    match route {
        Route::Home => Ok(reply::html(200, &Home { site: app.site(request) }, "page")),
        Route::Health => Ok(Answer::new(200, "application/json", r#"{"status":"ok"}"#, "healthy")),
        Route::SecurityTxt => docs::security_txt(app, request),
        Route::Asset(file) => assets::serve(file, request),
        Route::Problem(kind) => explain(app, request, kind),
        Route::OpenApi => Ok(docs::openapi()),
        Route::Docs => Ok(docs::page(app, request)),
        Route::DocsFile(file) => docs::file(app, request, file).await,
        Route::RideForm => form::new_ride(app, request).await,
        Route::Rides if is_form(request) => form::post_ride(app, request).await,
        Route::Rides => api::post_ride(app, request).await,
        Route::Checkout => serve::demo_order(app, request),
        Route::CheckoutSessions => serve::make_link(app, request).await,
        Route::ExpireLinks(order) => serve::expire_links(app, request, order).await,
        Route::Order(link) if request.method == "POST" => serve::pay_order(app, request, link).await,
        Route::Order(link) => serve::show_order(app, request, link).await,
        Route::Ride(id) => show_ride(app, request, id).await,
        Route::Payments if request.method == "POST" => payments::pay(app, request).await,
        Route::Payments => payments::list(app, request).await,
        Route::Payment(id) => payments::show(app, request, id).await,
        Route::Capture(id) => payments::capture(app, request, id).await,
        Route::Void(id) => payments::void(app, request, id).await,
        Route::Refunds(id) if request.method == "POST" => payments::refund(app, request, id).await,
        Route::Refunds(id) => payments::list_refunds(app, request, id).await,
        Route::Return(id) => payments::back(app, request, id).await,
        Route::Key(key) if request.method == "DELETE" => keys::forget(app, request, key).await,
        Route::Key(key) => keys::show(app, request, key).await,
        Route::BankPage | Route::Mailbox => payments::simulated(app, request).await,
        Route::Lab => lab::begin(app, request),
        Route::Experiment(id) => lab::show(app, request, id).await,
        Route::Presses(id) => lab::pay(app, request, id).await,
        Route::StripeWebhook => webhooks::from_stripe(app, request).await,
        Route::AdyenWebhook => webhooks::from_adyen(app, request).await,
        Route::Metrics => admin::metrics(app, request).await,
        Route::Stats => admin::stats(app, request).await,
        Route::Erase(id) => retention::erase(app, request, id).await,
        Route::Answers => retention::answers(app, request).await,
        Route::Reports => retention::report(app, request).await,
        Route::Project(id) => retention::project(app, request, id).await,
        Route::Desk(page) => desk::serve(app, request, page).await,
    }
}

/// A browser's form and not an API client: no credentials, and the body of a form.
pub(super) fn is_form(request: &Request) -> bool {
    let content_type = request.header("content-type").unwrap_or_default();
    let is_form_body = content_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
    let is_browser = request.wants_html() || request.header("cookie").is_some();
    request.header("authorization").is_none() && is_form_body && is_browser
}

fn explain(app: &App, request: &Request, slug: &str) -> Result<Answer, Problem> {
    let kind = Kind::from_slug(slug).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let page = ProblemPage {
        site: app.site(request),
        status: kind.status(),
        title: kind.title().to_owned(),
        detail: kind.explanation().to_owned(),
        request_id: String::new(),
        link_href: "/".to_owned(),
        link_text: "What is Paid Once?".to_owned(),
    };
    Ok(reply::html(200, &page, "page"))
}

/// Who asks: the account of the credentials, else the browser's session, else the lab's account.
pub(super) fn owner(app: &App, request: &Request) -> Result<Owner, Problem> {
    if request.header("authorization").is_some() {
        return Ok(api::account(app, request)?.0);
    }
    match session(request).map_err(api::unavailable)? {
        session if !session.is_new => Ok(session.owner()),
        _ if app.config.lab => Ok(api::account(app, request)?.0),
        _ if request.wants_html() => Err(Problem::new(Kind::NotFound)),
        _ => Err(Problem::new(Kind::Unauthorized)),
    }
}

/// What its owner sees of an object.
pub(super) async fn show(app: &App, place: &ObjectRef, ask: Ask) -> Result<View, Problem> {
    match app.ask::<Shown>(place, ask).await {
        Ok(Some(view)) => Ok(view),
        Ok(None) => Err(Problem::new(Kind::NotFound)),
        Err(error) => Err(api::unreadable(error)),
    }
}

async fn show_ride(app: &App, request: &Request, id: &str) -> Result<Answer, Problem> {
    let owner = owner(app, request)?;
    let ride_id = RideId::parse(id).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let place = ObjectRef::Id(ride_id.object());
    if !app.exists(&place) {
        return Err(Problem::new(Kind::NotFound));
    }
    let view = show(app, &place, Ask::Show { owner: owner.clone(), key_hash: None, refresh: false }).await?;
    if !request.wants_html() {
        return Ok(reply::ride(&view, id));
    }
    let object = ride_id.object();
    let may_try_again = app.config.demo && matches!(owner, Owner::Session(_));
    let visit = Visit { edited: request.has_query("edited"), may_try_again, now_ms: request.now_ms };
    match page(app.site(request), id, &view, &visit) {
        RidePage::Receipt(receipt) => Ok(reply::html(200, &receipt, "receipt")),
        RidePage::Status(status) => Ok(reply::html(200, &status, "status")),
        RidePage::NotPaid(page) => Ok(reply::html(200, &page, "not_paid")),
        RidePage::Again(notice) => {
            let session = session(request).map_err(api::unavailable)?;
            let entries = view.parameters.as_ref().and_then(kept);
            let sheet =
                form::Sheet { kept: entries.as_ref(), notice: Some(notice), ..form::Sheet::default() };
            form::open_form(app, request, &session, sheet, Some(object)).await
        }
    }
}

/// A problem, as a page for a person and as problem details for everyone else. What is wrong with the settings is for the log; in the
/// demo, and where it is asked for from the same machine, the answer says it, too.
fn refuse(mut problem: Problem, request: &Request, demo: bool) -> Answer {
    if problem.names_setting {
        let event = if problem.status() >= 500 { "misconfigured" } else { "closed" };
        let fields = [("event", event.into()), ("error", problem.detail.as_str().into())];
        log(if problem.status() >= 500 { "error" } else { "warn" }, &fields);
        if request.is_local() {
            problem.detail.push_str(
                " Under `wrangler dev` a secret is a line NAME=\"value\" of .dev.vars instead (of .dev.vars.demo, with \
                 --env demo).",
            );
        } else if !demo {
            problem.kind.explanation().clone_into(&mut problem.detail);
        }
    }
    let problem = &problem;
    if request.wants_html() {
        let link = match problem.kind {
            Kind::Unreadable => (request.path.as_str(), "Load it again"),
            _ => ("/", "Back to the start"),
        };
        reply::problem_page(problem, request, site(demo, request), link)
    } else {
        reply::problem(problem, request)
    }
}

fn read(incoming: &worker::Request) -> worker::Result<Request> {
    let url = incoming.inner().url();
    let url = Url::split(&url);
    let now_ms = worker::Date::now().as_millis();
    Ok(Request {
        id: RequestId::new(now_ms, random::bytes()?),
        now_ms,
        method: incoming.inner().method(),
        scheme: url.scheme.to_owned(),
        host: url.host.to_owned(),
        path: url.path.to_owned(),
        query: url.query.to_owned(),
        headers: incoming.headers().entries().collect(),
        body: Vec::new(),
    })
}

/// The body. One that says that it is too large is not read, and one that does not say so is read up to the limit. A caller
/// who is known may not hold it open either: what has not come whole in time is given up.
async fn body(
    request: &Request,
    incoming: &mut worker::Request,
    max_bytes: usize,
    timeout_ms: u64,
) -> Result<Vec<u8>, Problem> {
    let declared: Option<usize> =
        request.header("content-length").and_then(|length| length.trim().parse().ok());
    if declared.is_some_and(|length| length > max_bytes) {
        return Err(Problem::too_large(max_bytes));
    }
    if incoming.inner().body().is_none() {
        return Ok(Vec::new());
    }
    let broke_off = |_| Problem::because(Kind::BadRequest, "The body broke off. Nothing was run.");
    let mut stream = incoming.stream().map_err(broke_off)?;
    let whole = async {
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            body.extend(chunk.map_err(broke_off)?);
            if body.len() > max_bytes {
                return Err(Problem::too_large(max_bytes));
            }
        }
        Ok(body)
    };
    match select(pin!(whole), Delay::from(Duration::from_millis(timeout_ms))).await {
        Either::Left((body, _)) => body,
        Either::Right(_) => Err(Problem::timed_out(timeout_ms)),
    }
}

/// What is sent: the answer, with its own body or with a static file as its body.
fn write(answer: Answer, file: Option<ResponseBody>) -> worker::Result<worker::Response> {
    let headers = Headers::new();
    for (name, value) in &answer.headers {
        headers.append(name, value)?;
    }
    let response = match file {
        Some(file) => worker::Response::from_body(file)?,
        None if answer.body.is_empty() => worker::Response::empty()?,
        None => worker::Response::from_bytes(answer.body)?,
    };
    Ok(response.with_status(answer.status).with_headers(headers))
}
