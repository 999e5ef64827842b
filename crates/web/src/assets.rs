//! The static files of pages: embedded, so that they are there whenever the pages are.

use crate::http::{Answer, Request};
use crate::problem::{Kind, Problem};

/// A static file, embedded.
pub struct Asset {
    /// The last part of its address.
    pub name: &'static str,
    /// Its address, with its version: whoever asks for that may keep it for ever.
    pub address: &'static str,
    /// Its type.
    pub media_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

/// The style of all pages.
pub const STYLE: Asset = Asset {
    name: "style.css",
    address: concat!("/assets/style.css?v=", env!("STYLE_VERSION")),
    media_type: "text/css; charset=utf-8",
    bytes: concat!(
        include_str!("../../../static/style.css"),
        include_str!("../../../static/controls.css"),
        include_str!("../../../static/home.css"),
        include_str!("../../../static/forms.css"),
        include_str!("../../../static/order.css"),
    )
    .as_bytes(),
};
/// The script of all pages.
pub const SCRIPT: Asset = Asset {
    name: "app.js",
    address: concat!("/assets/app.js?v=", env!("SCRIPT_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../../static/app.js"),
};
/// The icon of all pages.
pub const ICON: Asset = Asset {
    name: "favicon.svg",
    address: "/assets/favicon.svg",
    media_type: "image/svg+xml",
    bytes: include_bytes!("../../../static/favicon.svg"),
};

/// `GET /assets/{file}`: one of these.
pub fn serve(assets: &[Asset], request: &Request, file: &str) -> Result<Answer, Problem> {
    let asset = assets.iter().find(|asset| asset.name == file).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let asked = format!("{}?{}", request.path, request.query);
    let cache =
        if asked == asset.address { "public, max-age=31536000, immutable" } else { "public, max-age=300" };
    Ok(Answer::new(200, asset.media_type, asset.bytes, "asset").with("cache-control", cache))
}
