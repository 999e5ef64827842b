//! The home page, and the files of the pages.

use askama::Template;

use crate::app::{App, site};
use web::assets::{Asset, ICON, SCRIPT, STYLE};
use web::http::{Answer, Request};
use web::pages::Site;
use web::problem::Problem;
use web::reply;

pub(crate) const LAB_SCRIPT: Asset = Asset {
    name: "lab.js",
    address: concat!("/assets/lab.js?v=", env!("LAB_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/lab.js"),
};

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    site: Site,
}

/// `GET /`
pub(crate) async fn home(_app: &App, request: &Request) -> Result<Answer, Problem> {
    Ok(reply::html(200, &Home { site: site(request) }, "page"))
}

/// `GET /assets/{file}`
pub(crate) async fn asset(_app: &App, request: &Request, file: &str) -> Result<Answer, Problem> {
    web::assets::serve(&[STYLE, SCRIPT, LAB_SCRIPT, ICON], request, file)
}
