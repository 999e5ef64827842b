//! The static files of our pages: embedded, so that they are there whenever the pages are.

use super::app::App;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// A static file, embedded.
pub(super) struct Asset {
    name: &'static str,
    /// Its address, with its version: whoever asks for that may keep it for ever.
    pub(super) address: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

pub(super) const STYLE: Asset = Asset {
    name: "style.css",
    address: concat!("/assets/style.css?v=", env!("STYLE_VERSION")),
    media_type: "text/css; charset=utf-8",
    bytes: include_bytes!("../../static/style.css"),
};
pub(super) const SCRIPT: Asset = Asset {
    name: "app.js",
    address: concat!("/assets/app.js?v=", env!("SCRIPT_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/app.js"),
};
pub(super) const CHECKOUT_SCRIPT: Asset = Asset {
    name: "checkout.js",
    address: concat!("/assets/checkout.js?v=", env!("CHECKOUT_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/checkout.js"),
};
pub(super) const DESK_STYLE: Asset = Asset {
    name: "desk.css",
    address: concat!("/assets/desk.css?v=", env!("DESK_VERSION")),
    media_type: "text/css; charset=utf-8",
    bytes: include_bytes!("../../static/desk.css"),
};
pub(super) const LAB_SCRIPT: Asset = Asset {
    name: "lab.js",
    address: concat!("/assets/lab.js?v=", env!("LAB_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/lab.js"),
};
const ICON: Asset = Asset {
    name: "favicon.svg",
    address: "/assets/favicon.svg",
    media_type: "image/svg+xml",
    bytes: include_bytes!("../../static/favicon.svg"),
};

/// `GET /assets/{file}`
pub(super) async fn serve(_app: &App, request: &Request, file: &str) -> Result<Answer, Problem> {
    let asset = [STYLE, SCRIPT, CHECKOUT_SCRIPT, DESK_STYLE, LAB_SCRIPT, ICON]
        .into_iter()
        .find(|asset| asset.name == file)
        .ok_or_else(|| Problem::new(Kind::NotFound))?;
    let asked = format!("{}?{}", request.path, request.query);
    let cache =
        if asked == asset.address { "public, max-age=31536000, immutable" } else { "public, max-age=300" };
    Ok(Answer::new(200, asset.media_type, asset.bytes, "asset").with("cache-control", cache))
}
