//! One request, from the runtime and back to it.

use worker::worker_sys::web_sys;
use worker::{Context, Env};

use super::app::{App, site};
use super::route::Route;
use super::{admission, cors, routes, verbatim};
use once::id::RequestId;
use runtime::serve;
use web::http::{Answer, Request};
use web::locale::EN;
use web::problem::{Kind, Problem};
use web::reply::{in_language, with_error};

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
    let customers = route.as_ref().filter(|route| is_for_customers(route));
    let t = customers.map_or(&EN, |_| request.messages());
    let refuse = |problem: Problem, request: &Request, demo: bool| {
        let answer = serve::refuse(problem, request, site(demo, request, t));
        if customers.is_some() && request.wants_problem_page() { in_language(answer, t) } else { answer }
    };
    let name = route.as_ref().map_or("none", Route::name);
    let mut file = None;
    let answer = match App::new(&env) {
        Ok(app) => {
            app.trace(&mut request);
            let answered = answer(&app, &mut request, &incoming, route.as_ref()).await;
            let answer = answered.unwrap_or_else(|problem| refuse(problem, &request, app.config.demo));
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
        Err(what) => refuse(Problem::of_setting(Kind::Misconfigured, what), &request, false),
    };
    serve::finish(answer, &request, name, &env, &ctx, file)
}

/// Whether its pages are read by customers: they are in the customer's language.
fn is_for_customers(route: &Route) -> bool {
    matches!(route.name(), "/checkout" | "/checkout/{token}" | "/payments/{id}/return")
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
