//! What is the same for everybody: the files of the pages, whether the desk is set up, what a problem means.

use crate::app::App;
use web::assets::{Asset, ICON, SCRIPT, STYLE};
use web::http::{Answer, Request};
use web::pages::ProblemPage;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

pub(crate) const DESK_STYLE: Asset = Asset {
    name: "desk.css",
    address: concat!("/assets/desk.css?v=", env!("DESK_VERSION")),
    media_type: "text/css; charset=utf-8",
    bytes: concat!(
        include_str!("../../static/desk.css"),
        include_str!("../../static/desk-charts.css"),
        include_str!("../../static/desk-lists.css"),
        include_str!("../../static/desk-detail.css"),
    )
    .as_bytes(),
};

pub(crate) const DESK_SCRIPT: Asset = Asset {
    name: "desk.js",
    address: concat!("/assets/desk.js?v=", env!("DESK_SCRIPT_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/desk.js"),
};

/// `GET /assets/{file}`
pub(crate) async fn asset(_app: &App, request: &Request, file: &str) -> Result<Answer, Problem> {
    web::assets::serve(&[STYLE, SCRIPT, DESK_STYLE, DESK_SCRIPT, ICON], request, file)
}

/// `GET /`
pub(crate) async fn home(_app: &App, _request: &Request) -> Result<Answer, Problem> {
    Ok(Answer::see_other("/admin", "desk"))
}

/// `GET /healthz`: whoever gets here has found all settings without which nothing works.
pub(crate) async fn health(app: &App, _request: &Request) -> Result<Answer, Problem> {
    Ok(reply::healthy(&app.config.incomplete))
}

/// `GET /problems/{kind}`
pub(crate) async fn problem(
    app: &App,
    request: &Request,
    kind: &Parameter<'_, Kind>,
) -> Result<Answer, Problem> {
    let page = ProblemPage::explained(kind.read()?, app.site(request), "The desk");
    Ok(reply::html(200, &page, "page"))
}
