//! The API for whoever reads it: the document for programs, and the same as a page for people.
//!
//! Both are made when the Worker is built, by `src/bin/api-document.rs` from the table of routes, and are static assets: nothing of them
//! is part of the WebAssembly. Only this Worker decides what of its assets is served, and under which policy.

use super::app::App;
use super::assets::built;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// The files that this page and those of the guide load, with their media types.
const FILES: [(&str, &str); 3] = [
    ("docs.css", "text/css; charset=utf-8"),
    ("docs.js", "text/javascript; charset=utf-8"),
    ("guide.css", "text/css; charset=utf-8"),
];

/// `GET /openapi.json`
pub(super) async fn openapi(app: &App, request: &Request) -> Result<Answer, Problem> {
    built(app, request, "/docs/openapi.json", "application/json").await
}

/// `GET /docs`
pub(super) async fn page(app: &App, request: &Request) -> Result<Answer, Problem> {
    let path = if app.config.demo { "/docs/demo.html" } else { "/docs/page.html" };
    built(app, request, path, "text/html; charset=utf-8").await
}

/// `GET /docs/{file}`
pub(super) async fn file(app: &App, request: &Request, name: &str) -> Result<Answer, Problem> {
    let (name, media_type) =
        FILES.into_iter().find(|(known, _)| *known == name).ok_or_else(|| Problem::new(Kind::NotFound))?;
    built(app, request, &format!("/docs/{name}"), media_type).await
}
