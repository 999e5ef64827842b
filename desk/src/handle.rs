//! One request, from the runtime and back to it.

use worker::worker_sys::web_sys;
use worker::{Context, Env};

use crate::app::{App, site};
use crate::routes::{self, Route, Who};
use crate::{login, operator, sign_in};
use runtime::serve;
use web::http::{Answer, Request};
use web::origin::from_here;
use web::problem::{Kind, Problem};
use web::reply;

/// Answers a request. An error is an answer too.
pub(crate) async fn handle(
    incoming: web_sys::Request,
    env: Env,
    ctx: Context,
) -> worker::Result<web_sys::Response> {
    let mut request = serve::read(&incoming)?;
    let route = routes::find(&request.path);
    let answer = match App::new(&env) {
        Ok(app) => {
            let answered = answer(&app, &mut request, &incoming, route.as_ref()).await;
            let answer = answered.unwrap_or_else(|problem| {
                let form = sign_in::ended(&app, &request, &problem)
                    .or_else(|| sign_in::later(&app, &request, &problem));
                if let Some(page) = form {
                    return page;
                }
                let site = app.site(&request);
                let start = ("/", site.t.back_to_start);
                let back = above(&request.path).map_or(start, |above| (above, "Back to the desk"));
                serve::refuse_to(problem, &request, site, back)
            });
            let subject = || route.as_ref().map(|route| route.parameters.text()).unwrap_or_default();
            let operator = app.admitted.get().map(|operator| (operator.clone(), subject()));
            Answer { operator, ..app.timed(answer, &request) }
        }
        Err(what) => {
            serve::refuse(Problem::of_setting(Kind::Misconfigured, what), &request, site(false, &request))
        }
    };
    let name = route.as_ref().map_or("none", Route::name);
    serve::finish(answer, &request, name, &env, &ctx, None)
}

/// The address above a page of the desk's: the page on which a form stands, the list in which something is not.
fn above(path: &str) -> Option<&str> {
    path.strip_prefix("/admin/")?;
    path.rsplit_once('/').map(|(above, _)| above)
}

/// Leads on from an address of a page with a slash at its end.
fn without_slash(request: &Request) -> Option<Answer> {
    let path = request.path.strip_suffix('/').filter(|path| path.starts_with("/admin"))?;
    let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
    let is_page = is_read && routes::find(path)?.endpoint(&request.method).is_ok();
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    is_page.then(|| reply::moved(&format!("{path}{query}")))
}

/// Judges a request by all that its headers tell, and only then reads its body: a stranger cannot make us read one.
async fn answer(
    app: &App,
    request: &mut Request,
    incoming: &web_sys::Request,
    route: Option<&Route>,
) -> Result<Answer, Problem> {
    if let Some(answer) = serve::insecure(request) {
        return answer;
    }
    if app.config.demo && request.query_value("raise_error") == Some("crash") {
        // A trap takes down every request of this WebAssembly instance, as any panic would; and none of another Worker.
        std::process::abort();
    }
    let Some(route) = route else {
        return without_slash(request).ok_or_else(|| Problem::new(Kind::NotFound));
    };
    if request.method == "OPTIONS" {
        return Ok(Answer::empty(204, "options").with("allow", route.allow()));
    }
    let endpoint = route.endpoint(&request.method)?;
    if endpoint.method.has_body() {
        admit(app, request, endpoint.own.who).await?;
        request.body =
            serve::body(request, incoming, endpoint.body_max_bytes, app.config.body_timeout_ms).await?;
    }
    (endpoint.own.handler)(app, request, &route.parameters).await
}

/// Refuses a POST whose headers are reason enough. The handlers ask again where they need to know who it is.
async fn admit(app: &App, request: &Request, who: Who) -> Result<(), Problem> {
    match who {
        Who::Operator | Who::Desk => operator::admit(app, request).await.map(drop),
        Who::Login => login::may_try(app, request).await,
        Who::OurPages => from_here(request),
        // Whoever may look may not change anything.
        Who::Anyone => Err(Problem::new(Kind::MethodNotAllowed)),
    }
}
