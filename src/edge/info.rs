//! What is the same for everybody: what this is, whether it is set up, what a problem means.

use super::app::App;
use super::pages::Home;
use web::http::{Answer, Request};
use web::pages::ProblemPage;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

/// `GET /`
pub(super) async fn home(app: &App, request: &Request) -> Result<Answer, Problem> {
    Ok(reply::html(200, &Home { site: app.site(request) }, "page"))
}

/// `GET /healthz`: whoever gets here has found all settings without which nothing works.
pub(super) async fn health(app: &App, _request: &Request) -> Result<Answer, Problem> {
    Ok(reply::healthy(&app.config.incomplete))
}

/// `GET /problems/{kind}`
pub(super) async fn problem(
    app: &App,
    request: &Request,
    kind: &Parameter<'_, Kind>,
) -> Result<Answer, Problem> {
    let page = ProblemPage::explained(kind.read()?, app.site(request), "What is Paid Once?");
    Ok(reply::html(200, &page, "page"))
}

/// `GET /.well-known/security.txt`
pub(super) async fn security_txt(app: &App, request: &Request) -> Result<Answer, Problem> {
    let security = app.config.security.as_ref().ok_or_else(|| Problem::new(Kind::NotFound))?;
    let text = format!(
        "Contact: {}\nExpires: {}\nPreferred-Languages: en\nCanonical: {}{}\n",
        security.contact,
        security.expires,
        request.origin(),
        request.path
    );
    Ok(Answer::new(200, "text/plain; charset=utf-8", text, "shown"))
}
