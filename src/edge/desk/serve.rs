//! From a request at the desk to its page. Nobody gets past [`admit`].

use super::data;
use super::route::DeskRoute;
use super::sheets::{Frame, Login};
use super::{actions, by_hand, lists, overview, reports, sight};
use crate::edge::api::unreadable;
use crate::edge::app::App;
use crate::edge::assets::DESK_STYLE;
use crate::edge::http::{Answer, Request};
use crate::edge::login;
use crate::edge::operator::{Operator, admit};
use crate::edge::pages::{Notice, Site};
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

/// Somebody at the desk, and what they ask.
pub(super) struct Desk<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a Request,
    pub(super) operator: Operator,
}

impl Desk<'_> {
    /// A parameter of the address; empty if it is not there.
    pub(super) fn query(&self, name: &str) -> String {
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_str(&self.request.query).unwrap_or_default();
        let found = pairs.into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim().chars().take(300).collect()).unwrap_or_default()
    }

    /// See [`Site`].
    pub(super) fn site(&self) -> Site {
        self.app.site(self.request)
    }

    /// What every page needs. `here` is its address in the menu.
    pub(super) async fn frame(&self, here: &'static str) -> Result<Frame, Problem> {
        let waiting = data::waiting(&self.app.env).await.map_err(unreadable)?;
        Ok(Frame {
            style: DESK_STYLE.address,
            operator: self.operator.name.clone(),
            has_session: self.operator.has_session,
            here,
            dead: waiting.dead,
            breaks: waiting.breaks,
            notice: self.notice().await?,
        })
    }

    /// What the button did that has led here.
    async fn notice(&self) -> Result<Option<Notice>, Problem> {
        let Ok(action_id) = self.query("done").parse::<u64>() else { return Ok(None) };
        let action = data::find_action(&self.app.env, action_id).await.map_err(unreadable)?;
        Ok(action.map(|action| {
            let is_refused = ["refused", "failed"].iter().any(|word| action.outcome.starts_with(word));
            Notice {
                title: format!(
                    "{}: {}",
                    actions::sentence(&action.action),
                    super::words::short(&action.subject)
                ),
                text: actions::sentence(&action.outcome),
                tone: if is_refused { "warning" } else { "info" },
            }
        }))
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
