//! The API for whoever reads it: the document for programs, and the same as a page for people.
//!
//! Both are made when the Worker is built, by `src/bin/api-document.rs` from the table of routes, and are static assets: nothing of them
//! is part of the WebAssembly. Only this Worker decides what of its assets is served, and under which policy.

use super::api::unreadable;
use super::app::App;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// None of the files has its version in its address: they may be kept for a while only.
const CACHE: &str = "public, max-age=300";

/// The files that the page loads, with their media types.
const FILES: [(&str, &str); 2] =
    [("docs.css", "text/css; charset=utf-8"), ("docs.js", "text/javascript; charset=utf-8")];

/// `GET /openapi.json`
pub(super) async fn openapi(app: &App, request: &Request) -> Result<Answer, Problem> {
    asset(app, request, "openapi.json", "application/json").await
}

/// `GET /docs`
pub(super) async fn page(app: &App, request: &Request) -> Result<Answer, Problem> {
    let name = if app.config.demo { "demo.html" } else { "page.html" };
    asset(app, request, name, "text/html; charset=utf-8").await
}

/// `GET /docs/{file}`
pub(super) async fn file(app: &App, request: &Request, name: &str) -> Result<Answer, Problem> {
    let (name, media_type) =
        FILES.into_iter().find(|(known, _)| *known == name).ok_or_else(|| Problem::new(Kind::NotFound))?;
    asset(app, request, name, media_type).await
}

async fn asset(
    app: &App,
    request: &Request,
    name: &str,
    media_type: &'static str,
) -> Result<Answer, Problem> {
    let found = app.static_file(&format!("/docs/{name}"), request).await.map_err(unreadable)?;
    let mut answer = Answer::new(found.status_code(), media_type, [], "asset").with("cache-control", CACHE);
    if let Some(etag) = found.headers().get("etag").map_err(unreadable)? {
        answer = answer.with("etag", etag);
    }
    app.file.set(Some(found.into_parts().1));
    Ok(answer)
}
