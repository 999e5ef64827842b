//! Signs operators in: every request to the desk but a login passes [`admit`].

use super::context::{Desk, MADE_BEFORE};
use super::view_models::{Login, SessionEnded};
use crate::app::App;
use crate::format::number_of;
use crate::login;
use crate::operator::admit;
use crate::pages::DESK_STYLE;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem};
use web::reply;

/// Where the form is sent.
const LOGIN_PATH: &str = "/admin/login";

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
            Ok(Err(login_page(app, request, 401, None)))
        }
        Err(refused) => Err(refused),
    }
}

/// `GET /admin/login` by somebody who is logged in.
pub(crate) async fn logged_in(desk: &Desk<'_>) -> Result<Answer, Problem> {
    Ok(Answer::see_other(&login::asked_for(desk.request), "logged_in"))
}

/// `POST /admin/login`
pub(crate) async fn log_in(app: &App, request: &Request) -> Result<Answer, Problem> {
    let wrong = || login_page(app, request, 401, Some("This is not the secret.".to_owned()));
    Ok(login::log_in(app, request).await?.unwrap_or_else(wrong))
}

/// What the login form gets whose address has to wait: the form again. The secret was not checked, and is not in the page.
pub(crate) fn later(app: &App, request: &Request, refused: &Problem) -> Option<Answer> {
    let is_form = request.method == "POST" && request.path == LOGIN_PATH && request.wants_html();
    let wait_s = refused.retry_after_s.filter(|_| is_form && refused.kind == Kind::RateLimited)?;
    let error = format!(
        "There were too many attempts to log in from your address, so this one was not checked. Wait {}, then enter the secret again.",
        wait(wait_s)
    );
    Some(login_page(app, request, 429, Some(error)).with("retry-after", wait_s.to_string()))
}

/// A time to wait, in words: never less than it is.
fn wait(seconds: u64) -> String {
    match seconds {
        0..=90 => number_of(seconds, "second", "seconds"),
        _ => number_of(seconds.div_ceil(60), "minute", "minutes"),
    }
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

fn login_page(app: &App, request: &Request, status: u16, error: Option<String>) -> Answer {
    let outcome = match (status, &error) {
        (429, _) => Kind::RateLimited.slug(),
        (_, Some(_)) => "wrong_secret",
        (_, None) => "log_in",
    };
    let to = match request.path.as_str() {
        LOGIN_PATH => login::asked_for(request),
        _ => request.path_and_query(),
    };
    let query = serde_urlencoded::to_string([("to", to)]).unwrap_or_default();
    let action = format!("{LOGIN_PATH}?{query}");
    let page = Login { site: app.site(request), style: DESK_STYLE.address, action, error };
    reply::html(status, &page, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_wait_is_in_words_and_not_too_short() {
        let words = [1, 8, 64, 128, 900].map(wait);
        assert_eq!(words, ["1 second", "8 seconds", "64 seconds", "3 minutes", "15 minutes"]);
    }
}
