//! One request, from the runtime and back to it.

use worker::worker_sys::web_sys;
use worker::{Context, Env};

use crate::app::{App, site};
use crate::rides::serve::account;
use crate::routes::{self, Route, Who};
use runtime::serve;
use web::http::{Answer, Request};
use web::origin::from_here;
use web::problem::{Kind, Problem};

/// Answers a request. An error is an answer too.
pub(crate) async fn handle(
    incoming: web_sys::Request,
    env: Env,
    ctx: Context,
) -> worker::Result<web_sys::Response> {
    let mut request = serve::read(&incoming)?;
    let route = routes::find(&request.path);
    let answered = match App::new(&env) {
        Ok(app) => answer(&app, &mut request, &incoming, route.as_ref()).await,
        Err(what) => Err(Problem::of_setting(Kind::Misconfigured, what)),
    };
    let answer = answered.unwrap_or_else(|problem| serve::refuse(problem, &request, site(&request)));
    let name = route.as_ref().map_or("none", Route::name);
    serve::finish(answer, &request, name, &env, &ctx, None)
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
        return Ok(Answer::empty(204, "options").with("allow", route.allow()));
    }
    let endpoint = route.endpoint(&request.method)?;
    if endpoint.method.has_body() {
        match endpoint.own.who {
            Who::OurPages => from_here(request)?,
            Who::FormOrAccount if request.is_form() => from_here(request)?,
            Who::FormOrAccount => account(app, request).map(drop)?,
            Who::Anyone => {}
        }
        request.body =
            serve::body(request, incoming, endpoint.body_max_bytes, app.config.body_timeout_ms).await?;
    }
    (endpoint.own.handler)(app, request, &route.parameters).await
}
