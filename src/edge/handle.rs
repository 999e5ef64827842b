//! One request, from the runtime and back to it.

use worker::worker_sys::web_sys;
use worker::{Context, Env};

use super::app::{App, site};
use super::checkout::{Order, till::way_on};
use super::route::{OrderLink, Route};
use super::{admission, cors, routes, verbatim};
use once::id::RequestId;
use runtime::serve;
use web::http::{Answer, Request};
use web::locale::{EN, Messages};
use web::problem::{Kind, Problem};
use web::reply::with_error;

/// Answers a request, under this id if it has one. An error is an answer too.
pub async fn handle(
    incoming: web_sys::Request,
    id: Option<String>,
    env: Env,
    ctx: Context,
) -> worker::Result<web_sys::Response> {
    let mut request = serve::read(&incoming)?;
    request.id = id.map_or(request.id, RequestId);
    let route = routes::find(&request.path);
    let name = route.as_ref().map_or("none", Route::name);
    let mut file = None;
    let answer = match App::new(&env) {
        Ok(app) => {
            app.trace(&mut request);
            let answered = answer(&app, &mut request, &incoming, route.as_ref()).await;
            let answer =
                answered.unwrap_or_else(|problem| refuse(problem, &request, route.as_ref(), Some(&app)));
            let has_error = app.config.convention.has_error;
            let answer = if has_error { with_error(answer) } else { answer };
            let answer = cors::allow(answer, &request, route.as_ref(), &app.config.cors_origins);
            file = app.file.take();
            if let Some(work) = app.afterwards.take() {
                ctx.wait_until(work);
            }
            let answer = app.timed(answer, &request);
            verbatim::remember(&app, &request, name, &answer);
            answer
        }
        Err(what) => refuse(Problem::of_setting(Kind::Misconfigured, what), &request, route.as_ref(), None),
    };
    serve::finish(answer, &request, name, &env, &ctx, file)
}

/// Whether its pages are read by customers: they are in the customer's language.
fn is_for_customers(route: &Route) -> bool {
    matches!(route.name(), "/checkout" | "/checkout/{token}" | "/payments/{id}/return")
}

/// A problem. A customer is told in the order's language, or else in the browser's, and led to the order.
fn refuse(problem: Problem, request: &Request, route: Option<&Route>, app: Option<&App>) -> Answer {
    let demo = app.is_some_and(|app| app.config.demo);
    let Some(route) = route.filter(|route| is_for_customers(route)) else {
        return serve::refuse(problem, request, site(demo, request, &EN));
    };
    let link = route.parameters.get::<OrderLink>("token");
    let order = app.and_then(|app| Order::open(&link, &app.config.signing_keys).ok());
    let locale = order.as_ref().and_then(|order| order.locale);
    let t = locale.map_or_else(|| request.messages(), Messages::of);
    let way_on = match &order {
        Some(order) => way_on(&problem, order, &request.path, t),
        None => ("/", t.back_to_start),
    };
    serve::refuse_customer(problem, request, site(demo, request, t), way_on)
}

/// Judges a request by all that its headers tell, and only then reads its body.
async fn answer(
    app: &App,
    request: &mut Request,
    incoming: &web_sys::Request,
    route: Option<&Route>,
) -> Result<Answer, Problem> {
    if let Some(answer) = serve::insecure(request) {
        return answer;
    }
    let route = route.ok_or_else(|| Problem::new(Kind::NotFound))?;
    if request.method == "OPTIONS" {
        return Ok(cors::options(request, route, &app.config.cors_origins));
    }
    let endpoint = route.endpoint(&request.method)?;
    if endpoint.method.has_body() {
        admission::admit(app, request, endpoint.own.who, &route.parameters).await?;
        request.body =
            serve::body(request, incoming, endpoint.body_max_bytes, app.config.body_timeout_ms).await?;
    }
    (endpoint.own.handler)(app, request, &route.parameters).await
}
