//! Signs operators in: every request to the desk but a login passes [`admit`].

use super::context::{Desk, MADE_BEFORE};
use super::view_models::{Login, SessionEnded};
use crate::app::App;
use crate::login;
use crate::operator::admit;
use crate::pages::DESK_STYLE;
use once::fingerprint::Field;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::reply;

/// Admits an operator, or shows the login page.
pub(crate) async fn enter<'a>(
    app: &'a App,
    request: &'a Request,
) -> Result<Result<Desk<'a>, Answer>, Problem> {
    match admit(app, request).await {
        Ok(operator) => {
            let desk = Desk::new(app, request, operator);
            if let Ok(until_ms) = desk.query(MADE_BEFORE).parse() {
                app.model.look_on(until_ms);
            }
            Ok(Ok(desk))
        }
        Err(refused) if request.method != "POST" && may_log_in(app, request, &refused) => {
            Ok(Err(login_page(app, request, false)))
        }
        Err(refused) => Err(refused),
    }
}

/// `GET /admin/login` by somebody who is logged in.
pub(crate) async fn logged_in(_desk: &Desk<'_>) -> Result<Answer, Problem> {
    Ok(Answer::see_other("/admin", "logged_in"))
}

/// `POST /admin/login`
pub(crate) async fn log_in(app: &App, request: &Request) -> Result<Answer, Problem> {
    Ok(login::log_in(app, request).await?.unwrap_or_else(|| login_page(app, request, true)))
}

/// What a form gets whose session has ended: the browser still has what was entered, and can send it once more.
pub(crate) fn ended(app: &App, request: &Request, refused: &Problem) -> Option<Answer> {
    let page = || SessionEnded { site: app.site(request) };
    let is_form = request.method == "POST" && may_log_in(app, request, refused);
    is_form.then(|| reply::html(401, &page(), "session_ended"))
}

/// Whether it is somebody with a browser who is refused, and can log in.
fn may_log_in(app: &App, request: &Request, refused: &Problem) -> bool {
    refused.kind == Kind::Unauthorized
        && login::has_login(&app.config)
        && request.header("authorization").is_none()
        && request.wants_html()
}

fn login_page(app: &App, request: &Request, wrong: bool) -> Answer {
    let asked = match request.query.as_str() {
        "" => request.path.clone(),
        query => format!("{}?{query}", request.path),
    };
    let kept = request.parameters().ok().filter(|_| wrong).map(|entries| entries.text("to"));
    let to = match kept {
        Some(Field::Text(to)) => to,
        _ if request.path == "/admin/login" => "/admin".to_owned(),
        _ => asked,
    };
    let page = Login { site: app.site(request), style: DESK_STYLE.address, to, wrong };
    reply::html(401, &page, if wrong { "wrong_secret" } else { "log_in" })
}
