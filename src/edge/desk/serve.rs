//! From a request at the desk to its page. Nobody gets past [`admit`].

use super::context::Desk;
use super::route::DeskRoute;
use super::sheets::Login;
use super::{actions, by_hand, lists, overview, reports, sight};
use crate::edge::app::App;
use crate::edge::assets::DESK_STYLE;
use crate::edge::http::{Answer, Request};
use crate::edge::login;
use crate::edge::operator::admit;
use crate::edge::problem::{Kind, Problem};
use crate::edge::reply;
use crate::machine::fingerprint::Field;

/// A page of the desk or a button on one.
pub(in crate::edge) async fn serve(
    app: &App,
    request: &Request,
    route: &DeskRoute,
) -> Result<Answer, Problem> {
    match route {
        DeskRoute::Login if request.method == "POST" => {
            return match login::log_in(app, request).await? {
                Some(answer) => Ok(answer),
                None => Ok(login_page(app, request, true)),
            };
        }
        DeskRoute::Logout => return login::log_out(app, request).await,
        _ => {}
    }
    let operator = match admit(app, request).await {
        Ok(operator) => operator,
        Err(refused) if may_log_in(app, request, &refused) => return Ok(login_page(app, request, false)),
        Err(refused) => return Err(refused),
    };
    let desk = Desk { app, request, operator };
    match route {
        DeskRoute::Overview => overview::page(&desk).await,
        DeskRoute::Login | DeskRoute::Logout => Ok(Answer::see_other("/admin", "logged_in")),
        DeskRoute::Payments => lists::payments(&desk).await,
        DeskRoute::Payment(id) => sight::payment(&desk, id).await,
        DeskRoute::Call(id, number) => by_hand::page(&desk, id, *number).await,
        DeskRoute::Review(id, number) => by_hand::review(&desk, id, *number).await,
        DeskRoute::Keys => lists::keys(&desk).await,
        DeskRoute::Key(object, key_id) => sight::key(&desk, object, *key_id).await,
        DeskRoute::DeadLetters => lists::dead_letters(&desk).await,
        DeskRoute::DeadLetter(job_id) => sight::dead_letter(&desk, job_id).await,
        DeskRoute::Breaks => lists::breaks(&desk).await,
        DeskRoute::Reports if request.method == "POST" => reports::upload(&desk).await,
        DeskRoute::Reports => reports::page(&desk).await,
        DeskRoute::Audit => lists::audit(&desk).await,
        DeskRoute::Act(act, subject) => actions::act(&desk, *act, subject).await,
    }
}

/// A person who could log in is offered to.
fn may_log_in(app: &App, request: &Request, refused: &Problem) -> bool {
    refused.kind == Kind::Unauthorized
        && login::has_login(&app.config)
        && request.method != "POST"
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
