//! The static files of our pages, beside those of all pages.

use super::api::unreadable;
use super::app::App;
use web::assets::{Asset, ICON, SCRIPT, STYLE};
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

pub(super) const CHECKOUT_SCRIPT: Asset = Asset {
    name: "checkout.js",
    address: concat!("/assets/checkout.js?v=", env!("CHECKOUT_VERSION")),
    media_type: "text/javascript; charset=utf-8",
    bytes: include_bytes!("../../static/checkout.js"),
};

/// Files of our pages that are static assets of the build, in its folder `pages`, with their media types.
const PAGES: [(&str, &str); 7] = [
    ("checkout.css", "text/css; charset=utf-8"),
    ("cards.svg", "image/svg+xml"),
    // What a link to the demo shows in a message.
    ("preview.png", "image/png"),
    // Who sells in the demo, and what.
    ("lift-off.svg", "image/svg+xml"),
    ("patch.svg", "image/svg+xml"),
    ("mug.svg", "image/svg+xml"),
    ("star-map.svg", "image/svg+xml"),
];

/// `GET /assets/{file}`
pub(super) async fn serve(app: &App, request: &Request, file: &str) -> Result<Answer, Problem> {
    match PAGES.into_iter().find(|(known, _)| *known == file) {
        Some((name, media_type)) => built(app, request, &format!("/pages/{name}"), media_type).await,
        None => web::assets::serve(&[STYLE, SCRIPT, CHECKOUT_SCRIPT, ICON], request, file),
    }
}

/// A static asset of the build: it is no part of the WebAssembly, and streams past it. None has its version in its address, so it may be
/// kept for a while only.
pub(super) async fn built(
    app: &App,
    request: &Request,
    path: &str,
    media_type: &'static str,
) -> Result<Answer, Problem> {
    let found = app.static_file(path, request).await.map_err(unreadable)?;
    let found = found.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let mut answer = Answer::new(found.status_code(), media_type, [], "asset")
        .with("cache-control", "public, max-age=300");
    if let Some(etag) = found.headers().get("etag").map_err(unreadable)? {
        answer = answer.with("etag", etag);
    }
    app.file.set(Some(found.into_parts().1));
    Ok(answer)
}
