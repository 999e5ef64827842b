//! The log of operators, `operator_actions`: who did what is written down before it is done, and how it ended afterwards. An
//! action without an outcome was broken off.

use worker::Env;

use super::action_outcome::ActionOutcome;
use super::action_rows::{WRITE, number};
use super::app::App;
use super::operator::Operator;
use super::queries;
use once::id::digest;
use runtime::db::{Db, Value};
use runtime::log::log;
use runtime::random;
use runtime::serve::{unavailable, unreadable};
use web::http::Request;
use web::problem::{Kind, Problem};

/// What an action's outcome is until it has one.
pub(super) const BEGUN: &str = "begun";

/// Who does what, and to what.
pub(super) struct Action<'a> {
    pub(super) operator: &'a Operator,
    pub(super) what: &'a str,
    pub(super) subject: &'a str,
}

/// Writes down who does what; `false` if that is written already.
pub(super) async fn begin(env: &Env, id: u64, action: &Action<'_>, now_ms: u64) -> worker::Result<bool> {
    let operator = action.operator.name.as_str();
    let values = vec![
        id.into(),
        now_ms.into(),
        operator.into(),
        action.what.into(),
        action.subject.into(),
        BEGUN.into(),
        Value::Null,
    ];
    Ok(Db::of(env)?.run(WRITE, values).await? > 0)
}

/// An action in the log that is done once, however often its form is sent.
pub(super) struct Begun {
    pub(super) id: u64,
    /// It was not there before.
    pub(super) is_new: bool,
    /// It was there, and has no outcome: it is under way, or was broken off.
    pub(super) is_unfinished: bool,
}

/// Writes down who does what, by the one-time key of its form: a second press finds the first.
pub(super) async fn begin_once(
    env: &Env,
    key: &str,
    action: &Action<'_>,
    now_ms: u64,
) -> Result<Begun, Problem> {
    let id = number_of(key);
    if begin(env, id, action, now_ms).await.map_err(unreadable)? {
        return Ok(Begun { id, is_new: true, is_unfinished: false });
    }
    let known = queries::find_action(env, id).await.map_err(unreadable)?;
    let Some(known) = known.filter(|known| known.action == action.what && known.subject == action.subject)
    else {
        return Err(Problem::because(
            Kind::KeyReused,
            "This form was sent before, with other entries. Those were used, and these were not. Load the page again.",
        ));
    };
    Ok(Begun { id, is_new: false, is_unfinished: known.outcome == BEGUN })
}

/// The number of what a form does.
pub(super) fn number_of(key: &str) -> u64 {
    number(&digest(&[b"operator action", key.as_bytes()]))
}

/// What is answered to a form whose one-time key is not this operator's.
pub(super) fn stranger() -> Problem {
    Problem::because(
        Kind::Forbidden,
        "This was not made for you, or its page was open for too long. Nothing was done: load the page again.",
    )
}

/// Writes down how it ended. Of two that do the same at once the first one says it.
pub(super) async fn end(
    env: &Env,
    id: u64,
    action: &Action<'_>,
    outcome: &ActionOutcome,
) -> worker::Result<()> {
    let fields = [
        ("event", "operator_action".into()),
        ("operator", action.operator.name.as_str().into()),
        // What a person has typed stays in the table.
        ("action", action.what.split([':', ' ']).next().unwrap_or_default().into()),
        ("subject", action.subject.into()),
        ("outcome", outcome.text.as_str().into()),
    ];
    log("info", &fields);
    let sql = "UPDATE operator_actions SET outcome = ?2, status = ?4 WHERE action_id = ?1 AND outcome = ?3";
    let values = vec![id.into(), outcome.text.as_str().into(), BEGUN.into(), outcome.status.as_str().into()];
    Db::of(env)?.run(sql, values).await.map(drop)
}

/// Does something that an operator asks for, between its two entries. `work` gives its answer and how it ended.
pub(super) async fn logged<T>(
    app: &App,
    request: &Request,
    action: Action<'_>,
    work: impl Future<Output = Result<(T, ActionOutcome), Problem>>,
) -> Result<T, Problem> {
    let id = number(random::uuid().map_err(unavailable)?.as_bytes());
    begin(&app.env, id, &action, request.now_ms).await.map_err(unreadable)?;
    let done = work.await;
    let outcome = match &done {
        Ok((_, outcome)) => outcome.clone(),
        Err(problem) => refused(problem),
    };
    end(&app.env, id, &action, &outcome).await.map_err(unreadable)?;
    done.map(|(answer, _)| answer)
}

fn refused(problem: &Problem) -> ActionOutcome {
    match (problem.kind, problem.errors.first()) {
        (Kind::Unreadable | Kind::Unavailable, _) => {
            ActionOutcome::failed("it may be done in part; it can be done again")
        }
        (_, Some(first)) => {
            ActionOutcome::refused(format!("{} errors, the first: {}", problem.errors.len(), first.message))
        }
        (_, None) => ActionOutcome::refused(&problem.detail),
    }
}
