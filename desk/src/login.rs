//! The door of the desk where there is no Cloudflare Access: the secret is sent once, for a cookie that lasts a working day.
//!
//! The cookie is signed, and the session stands in D1 for as long as it lasts: logging out ends it, wherever the cookie has got to.
//! Whoever tries the secret waits: after five tries from one address longer each time, up to a quarter of an hour. A try is counted
//! before it is judged, so that many at once are as many tries. A bearer token that is wrong is such a try, too, and while its address
//! waits the right one is not told from it.

use data_encoding::HEXLOWER;
use serde::Deserialize;
use worker::Env;

use super::action_outcome::ActionOutcome;
use super::action_rows::{number, over};
use super::app::App;
use crate::config::Config;
use once::id::{Owner, digest};
use runtime::db::{Db, Statement};
use runtime::limiter::has_room;
use runtime::log::log;
use runtime::random;
use runtime::serve::{unavailable, unreadable};
use web::http::{Answer, Request};
use web::origin::from_here;
use web::origin::network;
use web::problem::{Kind, Problem};
use web::session::DeskSession;
use web::signing::Purpose;
use web::token::FormToken;

/// How long a login lasts, in ms.
pub(super) const SESSION_MS: u64 = 8 * 3_600_000;
/// How many tries cost nothing.
const FREE_TRIES: u32 = 5;
/// The first pause, in ms; each is twice as long as the one before.
const PAUSE_MS: u64 = 1_000;
/// The longest pause, in ms.
const PAUSE_MAX_MS: u64 = 900_000;
/// When tries are forgotten, in ms after the last one.
const FORGET_MS: u64 = 24 * 3_600_000;

/// The name of whoever has the secret: it says no more.
pub(super) const BY_SECRET: &str = "operator";
/// How the log of operators names what is done here.
const LOGIN: &str = "login";
const LOGOUT: &str = "logout";
const WRONG_SECRET: &str = "a wrong secret";
/// How much of what stands for an address is shown, in characters.
const SHOWN_MAX: usize = 12;
const DAY_MS: u64 = 24 * 3_600_000;

/// Whether somebody may log in with the secret.
pub(super) const fn has_login(config: &Config) -> bool {
    config.access.is_none() && config.admin_token.is_some()
}

/// Whether somebody may send the secret now. Counts it as a try.
pub(super) async fn may_try(app: &App, request: &Request) -> Result<(), Problem> {
    if !has_login(&app.config) {
        return Err(Problem::new(Kind::NotFound));
    }
    from_here(request)?;
    let address = address(&app.config, request);
    // A flood does not reach D1.
    if !has_room(&app.env, "LOGIN_LIMITER", address.clone()).await {
        return Err(too_many(60));
    }
    let wait_ms = count(&app.env, &address, request.now_ms).await.map_err(unreadable)?;
    if wait_ms == 0 { Ok(()) } else { Err(too_many(wait_ms.div_ceil(1000))) }
}

/// Whether a bearer token that came may be judged now. A wrong one is counted as a try; the right one is none, because programs send it
/// with every request. Without D1 nothing is counted, and the right one still opens: the counts are wanted most when something fails.
pub(super) async fn may_bear(app: &App, request: &Request, is_right: bool) -> Result<(), Problem> {
    let address = address(&app.config, request);
    if !is_right && !has_room(&app.env, "LOGIN_LIMITER", address.clone()).await {
        return Err(too_many(60));
    }
    let wait_ms = match is_right {
        true => wait_ms(&app.env, &address, request.now_ms).await,
        false => count(&app.env, &address, request.now_ms).await,
    };
    match wait_ms {
        Ok(0) => Ok(()),
        Ok(wait_ms) => Err(too_many(wait_ms.div_ceil(1000))),
        Err(error) => {
            log("warn", &[("event", "tries_unreadable".into()), ("error", error.to_string().into())]);
            Ok(())
        }
    }
}

fn too_many(wait_s: u64) -> Problem {
    log("warn", &[("event", "operator_refused".into()), ("reason", "too many tries".into())]);
    let detail = format!("The secret was tried too often from your address. Try again in {wait_s} s.");
    Problem::because(Kind::RateLimited, detail).retry_after_s(wait_s)
}

/// Counts a try, unless one has to wait: then gives how long, in ms.
async fn count(env: &Env, address: &str, now_ms: u64) -> worker::Result<u64> {
    let db = Db::of(env)?;
    let forgotten = now_ms.saturating_sub(FORGET_MS);
    db.run("DELETE FROM login_attempts WHERE last_at_ms < ?1", vec![forgotten.into()]).await?;
    let sql = "INSERT INTO login_attempts (address, attempts, last_at_ms, next_at_ms) VALUES (?1, 1, ?2, ?2)
         ON CONFLICT (address) DO UPDATE SET attempts = attempts + 1, last_at_ms = ?2,
           next_at_ms = ?2 + CASE WHEN attempts + 1 < ?3 THEN 0 ELSE min(?5, ?4 << min(attempts + 1 - ?3, 20)) END
         WHERE next_at_ms <= ?2";
    let values = vec![address.into(), now_ms.into(), FREE_TRIES.into(), PAUSE_MS.into(), PAUSE_MAX_MS.into()];
    if db.run(sql, values).await? > 0 {
        return Ok(0);
    }
    Ok(wait_ms(env, address, now_ms).await?.max(1))
}

/// How long this address has to wait, in ms.
async fn wait_ms(env: &Env, address: &str, now_ms: u64) -> worker::Result<u64> {
    #[derive(Deserialize)]
    struct Row {
        next_at_ms: u64,
    }
    let sql = "SELECT next_at_ms FROM login_attempts WHERE address = ?1";
    let row = Db::of(env)?.first::<Row>(sql, vec![address.into()]).await?;
    Ok(row.map_or(0, |row| row.next_at_ms.saturating_sub(now_ms)))
}

/// Stands for who tries; of an IPv6 address for its network, because one machine has all addresses of that.
fn address(config: &Config, request: &Request) -> String {
    let network = network(request.header("cf-connecting-ip").unwrap_or_default());
    let secret = config.admin_token.as_deref().unwrap_or_default();
    HEXLOWER.encode(&digest(&[b"login address", secret.as_bytes(), network.as_bytes()]))
}

/// Whose sessions these are. No account can have such an id: a form's key of one is no good at the other. Another secret is
/// another owner, and so ends all sessions.
fn desk(config: &Config) -> Option<Owner> {
    let secret = config.admin_token.as_ref()?;
    let secret = HEXLOWER.encode(&digest(&[b"admin token", secret.as_bytes()]));
    Some(Owner::Account(format!("\0desk {secret}")))
}

/// The session in the cookie, as far as the cookie alone can tell.
fn from_cookie(app: &App, request: &Request) -> Option<FormToken> {
    let cookies = request.header("cookie").unwrap_or_default();
    let text = DeskSession::from_cookies(cookies, request.secure())?;
    let token = FormToken::open(text, Purpose::DeskSession, &desk(&app.config)?, &app.config.signing_keys);
    token.ok().filter(|token| request.now_ms < token.expires_at_ms)
}

/// As it stands in D1: who can read that cannot log in with it.
fn id(session: &FormToken) -> String {
    HEXLOWER.encode(&digest(&[b"operator session", session.object.as_bytes()]))
}

/// The session of whoever is logged in, as it stands in D1.
pub(super) async fn session(app: &App, request: &Request) -> Result<Option<String>, Problem> {
    #[derive(Deserialize)]
    struct Row {
        session: String,
    }
    let Some(session) = from_cookie(app, request) else { return Ok(None) };
    let sql = "SELECT session FROM operator_sessions WHERE session = ?1 AND expires_at_ms > ?2";
    let found =
        async { Db::of(&app.env)?.first::<Row>(sql, vec![id(&session).into(), request.now_ms.into()]).await };
    Ok(found.await.map_err(unreadable)?.map(|row| row.session))
}

/// `POST /admin/login`: `None` if the secret is wrong.
pub(super) async fn log_in(app: &App, request: &Request) -> Result<Option<Answer>, Problem> {
    let entries = request.parameters()?;
    let given = entries.text("token").or_empty();
    let Some(owner) = desk(&app.config).filter(|_| app.config.is_admin(given.trim())) else {
        refused(app, request).await;
        return Ok(None);
    };
    let to = asked_for(request);
    let id = random::uuid().map_err(unavailable)?;
    let session = FormToken::of_desk(id, request.now_ms.saturating_add(SESSION_MS));
    begin(app, request, &session).await.map_err(unreadable)?;
    write_down(app, request, LOGIN, "logged in").await.map_err(unreadable)?;
    let sealed = session.seal(Purpose::DeskSession, &owner, &app.config.signing_keys);
    let cookie = DeskSession::set_cookie(&sealed, SESSION_MS, request.secure());
    Ok(Some(Answer::see_other(&to, "logged_in").with("set-cookie", cookie)))
}

async fn begin(app: &App, request: &Request, session: &FormToken) -> worker::Result<()> {
    let db = Db::of(&app.env)?;
    let insert = "INSERT INTO operator_sessions (session, expires_at_ms) VALUES (?1, ?2)";
    db.batch(vec![
        Statement::new(insert, vec![id(session).into(), session.expires_at_ms.into()]),
        Statement::new(
            "DELETE FROM operator_sessions WHERE expires_at_ms <= ?1",
            vec![request.now_ms.into()],
        ),
        Statement::new(
            "DELETE FROM login_attempts WHERE address = ?1",
            vec![address(&app.config, request).into()],
        ),
    ])
    .await
}

/// `POST /admin/logout`
pub(super) async fn log_out(app: &App, request: &Request) -> Result<Answer, Problem> {
    if let Some(session) = from_cookie(app, request) {
        let sql = "DELETE FROM operator_sessions WHERE session = ?1";
        let ended = async {
            match Db::of(&app.env)?.run(sql, vec![id(&session).into()]).await? {
                0 => Ok(()),
                _ => write_down(app, request, LOGOUT, "logged out").await,
            }
        };
        ended.await.map_err(unreadable)?;
    }
    let cookie = DeskSession::clear_cookie(request.secure());
    Ok(Answer::see_other("/admin", "logged_out").with("set-cookie", cookie))
}

/// The log of operators has who has logged in or out: all who have the secret have one name, so it is the address that tells them apart.
async fn write_down(app: &App, request: &Request, action: &str, outcome: &str) -> worker::Result<()> {
    let id = number(random::uuid()?.as_bytes());
    over(
        &app.env,
        id,
        (BY_SECRET, action),
        &subject(app, request),
        &ActionOutcome::done(outcome),
        request.now_ms,
    )
    .await
}

/// A wrong secret. The log of operators has that once for each address and day, so that nobody can flood it; how often, the attempts say.
pub(super) async fn refused(app: &App, request: &Request) {
    log("warn", &[("event", "operator_refused".into()), ("reason", WRONG_SECRET.into())]);
    let subject = subject(app, request);
    let day = request.now_ms / DAY_MS;
    let id = number(&digest(&[b"refused login", subject.as_bytes(), &day.to_be_bytes()]));
    let outcome = ActionOutcome::refused(WRONG_SECRET);
    let written = over(&app.env, id, ("unknown", LOGIN), &subject, &outcome, request.now_ms).await;
    if let Err(error) = written {
        log("error", &[("event", "refusal_not_written".into()), ("error", error.to_string().into())]);
    }
}

/// What stands for the address of who tries, as the log of operators has it.
fn subject(app: &App, request: &Request) -> String {
    address(&app.config, request).chars().take(SHOWN_MAX).collect()
}

/// Where somebody goes on to after the login: it stands in the address of the form, which is known before its body is read.
pub(super) fn asked_for(request: &Request) -> String {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(&request.query).unwrap_or_default();
    let to = pairs.into_iter().find(|(name, _)| name == "to").map(|(_, to)| to);
    to.filter(|to| is_desk_path(to)).unwrap_or_else(|| "/admin".to_owned())
}

/// Only the desk's own pages are gone on to.
fn is_desk_path(to: &str) -> bool {
    let rest = to.strip_prefix("/admin");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        && to.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}
