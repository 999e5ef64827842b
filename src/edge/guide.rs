//! The repository's documents as pages, in the demo alone: whoever tries it reads them beside it. A shop's customers have no use for them.
//!
//! They are static assets, written by `crates/guide` when the Worker is built. Which there are, only that folder says.

use super::app::App;
use super::assets::built;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// The file of the first page: its address is `/guide` alone.
const FIRST: &str = "overview";

/// `GET /guide`
pub(super) async fn first(app: &App, request: &Request) -> Result<Answer, Problem> {
    written(app, request, FIRST).await
}

/// `GET /guide/{name}`
pub(super) async fn page(app: &App, request: &Request, name: &str) -> Result<Answer, Problem> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if !is_name || name == FIRST {
        return Err(Problem::new(Kind::NotFound));
    }
    written(app, request, name).await
}

async fn written(app: &App, request: &Request, name: &str) -> Result<Answer, Problem> {
    if !app.config.demo {
        return Err(Problem::new(Kind::NotFound));
    }
    built(app, request, &format!("/guide/{name}.html"), "text/html; charset=utf-8").await
}
