//! The static files of our pages, beside those of all pages.

use super::app::App;
use web::assets::{Asset, ICON, SCRIPT, STYLE};
use web::http::{Answer, Request};
use web::problem::Problem;

pub(super) const CHECKOUT_SCRIPT: Asset = Asset {
    name: "checkout.js",
    address: concat!("/assets/checkout.js?v=", env!("CHECKOUT_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/checkout.js"),
};

/// `GET /assets/{file}`
pub(super) async fn serve(_app: &App, request: &Request, file: &str) -> Result<Answer, Problem> {
    web::assets::serve(&[STYLE, SCRIPT, CHECKOUT_SCRIPT, ICON], request, file)
}
