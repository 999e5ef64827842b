//! The API for whoever reads it: the document for programs, and a page on which people read it and try it.
//!
//! The page is Swagger UI, from the npm package `swagger-ui-dist`. Its files are a few megabytes: they are static assets of
//! the Worker and not part of its WebAssembly. `scripts/build.mjs` puts them there.

use std::sync::LazyLock;

use super::api::unreadable;
use super::app::App;
use super::openapi::document;
use super::pages::Docs;
use super::routes::ENDPOINTS;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::reply;

/// The API, as OpenAPI 3.1. It is the same for everybody.
static OPENAPI: LazyLock<String> = LazyLock::new(|| document(ENDPOINTS).to_string());

/// Neither the document nor a file has its version in its address: they may be kept for a while only.
const CACHE: &str = "public, max-age=300";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// The files that the page is made of, with their media types. Swagger UI's licence wants its text beside it.
const FILES: [(&str, &str); 7] = [
    ("docs.css", STYLE),
    ("docs.js", SCRIPT),
    ("swagger-ui.css", STYLE),
    ("swagger-ui-bundle.js", SCRIPT),
    ("swagger-ui-bundle.js.LICENSE.txt", TEXT),
    ("LICENSE", TEXT),
    ("NOTICE", TEXT),
];

/// `GET /openapi.json`
pub(super) async fn openapi(_app: &App, _request: &Request) -> Result<Answer, Problem> {
    Ok(Answer::new(200, "application/json", OPENAPI.as_str(), "asset").with("cache-control", CACHE))
}

/// `GET /docs`
pub(super) async fn page(app: &App, request: &Request) -> Result<Answer, Problem> {
    Ok(reply::html(200, &Docs { site: app.site(request) }, "page"))
}

/// `GET /docs/{file}`
pub(super) async fn file(app: &App, request: &Request, name: &str) -> Result<Answer, Problem> {
    let (name, media_type) =
        FILES.into_iter().find(|(known, _)| *known == name).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let found = app.static_file(&format!("/docs/{name}"), request).await.map_err(unreadable)?;
    let mut answer = Answer::new(found.status_code(), media_type, [], "asset").with("cache-control", CACHE);
    if let Some(etag) = found.headers().get("etag").map_err(unreadable)? {
        answer = answer.with("etag", etag);
    }
    app.file.set(Some(found.into_parts().1));
    Ok(answer)
}
