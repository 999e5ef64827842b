//! The addresses of the operator's API, as the document tells of them. The desk (`desk/`) answers them: on a host of its own or, where
//! it is bound as `DESK`, on this one, before any request for it comes here.

use super::app::App;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};

/// The desk is not here.
pub(super) async fn elsewhere(_app: &App, _request: &Request) -> Result<Answer, Problem> {
    Err(Problem::new(Kind::NotFound))
}

/// The same, of an address with an id.
pub(super) async fn elsewhere_of(_app: &App, _request: &Request, _id: &str) -> Result<Answer, Problem> {
    Err(Problem::new(Kind::NotFound))
}

/// The same, of an address with two.
pub(super) async fn elsewhere_in(
    _app: &App,
    _request: &Request,
    _id: &str,
    _of: &str,
) -> Result<Answer, Problem> {
    Err(Problem::new(Kind::NotFound))
}
