//! The home page, and the files of the pages.

use askama::Template;

use crate::app::{App, site};
use crate::lab::{ExperimentId, InjectedFault, LAB_SCRIPT, LAB_STYLE, PRICE_MINOR};
use payments::payment::money::Currency;
use runtime::random;
use runtime::serve::unavailable;
use web::assets::{ICON, SCRIPT, STYLE};
use web::http::{Answer, Request};
use web::locale::EN;
use web::pages::Site;
use web::problem::Problem;
use web::reply;

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    site: Site,
    script: &'static str,
    /// The one that the page's button begins.
    experiment: ExperimentId,
    /// What goes wrong in it.
    fault: &'static str,
    price: String,
    /// Of the example.
    key: uuid::Uuid,
}

/// `GET /`
pub(crate) async fn home(_app: &App, request: &Request) -> Result<Answer, Problem> {
    let page = Home {
        site: site(request),
        script: LAB_SCRIPT.address,
        experiment: random::uuid().map(ExperimentId::new).map_err(unavailable)?,
        fault: InjectedFault::AnswerLost.as_str(),
        price: EN.money(PRICE_MINOR, Currency::USD),
        key: random::uuid().map_err(unavailable)?,
    };
    Ok(reply::html(200, &page, "page"))
}

/// `GET /assets/{file}`
pub(crate) async fn asset(_app: &App, request: &Request, file: &str) -> Result<Answer, Problem> {
    web::assets::serve(&[STYLE, SCRIPT, LAB_STYLE, LAB_SCRIPT, ICON], request, file)
}
