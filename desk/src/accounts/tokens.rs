//! The tokens of an account. A token is shown once, to the operator who makes it: it is derived from the one-time key of the form, so the
//! same form sent again shows the same token, and makes no second one. What is stored is its SHA-256.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use sha2::{Digest, Sha256};

use super::store::{self, TokenRow};
use super::view::{Made, TokenLine};
use crate::action_outcome::ActionOutcome;
use crate::button::Button;
use crate::confirm::Question;
use crate::context::Desk;
use crate::detail_tables::fact;
use crate::format;
use crate::operator::is_form_key;
use crate::operator_log::{self, Action};
use crate::route::{OperatorAction, RevokeAction, Target};
use crate::status::Entity;
use crate::view_models::Cell;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::route::{Decoded, Parameter};
use web::signing::Purpose;

/// How all tokens begin that are made here: whoever finds one knows what it is.
const PREFIX: &str = "paidonce_";
/// The longest name of a token, in characters.
pub(super) const NAME_MAX: usize = 60;
/// How long a token still serves that is replaced, in ms.
const REPLACED_MS: u64 = 24 * 3_600_000;

/// Where the form of a new token is sent.
pub(super) fn path(id: &str) -> String {
    format!("{}/tokens", Target::Account(id.to_owned()).path())
}

/// A name of a token.
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

/// A token, in the list.
pub(super) fn line(desk: &Desk<'_>, row: TokenRow) -> Result<TokenLine, Problem> {
    let now_ms = desk.request.now_ms;
    let subject = Target::Token(row.account.clone(), row.token_sha256.clone());
    let mut buttons = Vec::new();
    let state = match row.ends_at_ms {
        Some(_) if row.has_ended(now_ms) => "ended",
        Some(_) => "ending",
        None => "active",
    };
    if state == "active" {
        buttons.push(desk.button(OperatorAction::Retire, &subject, "End in 24 hours")?);
    }
    if state != "ended" {
        buttons.push(Button::dangerous(OperatorAction::Revoke, &subject, "Revoke now"));
    }
    let ends = row.ends_at_ms.map(|at_ms| format::from_now(at_ms, now_ms)).unwrap_or_default();
    let hash = row.token_sha256.get(..12).unwrap_or_default();
    Ok(TokenLine {
        cells: vec![
            Cell::text(row.name).with(format!("SHA-256 {hash}…")),
            Entity::Token.chip(state).with(ends),
            Cell::moment(row.created_at_ms).with(format::from_now(row.created_at_ms, now_ms)),
        ],
        buttons,
    })
}

/// Makes the token that a form of an account asks for; sent again, the same one.
pub(super) async fn make(desk: &Desk<'_>, id: &str) -> Result<Made, Problem> {
    let (env, request) = (&desk.app.env, desk.request);
    let sent = request.parameters()?;
    let key = sent.text("form").or_empty();
    if !is_form_key(desk.app, &desk.operator, &request.path, &key, request.now_ms) {
        return Err(operator_log::stranger());
    }
    let name = sent.text("name").or_empty().trim().to_owned();
    if !is_name(&name) {
        let detail = format!("Say in up to {NAME_MAX} characters where the token is used. Nothing was made.");
        return Err(Problem::because(Kind::InvalidParameters, detail));
    }
    let replaces = sent.text("replaces").or_empty() == "on";
    let subject = Target::Account(id.to_owned()).name();
    let what = if replaces { format!("replace tokens: {name}") } else { format!("make token: {name}") };
    let action = Action { operator: &desk.operator, what: &what, subject: &subject };
    let begun = operator_log::begin_once(env, &key, &action, request.now_ms).await?;
    let token = token(desk, &key);
    let token_sha256 = HEXLOWER.encode(&Sha256::digest(token.as_bytes()));
    let found = store::token(env, id, &token_sha256).await.map_err(unreadable)?;
    if found.is_none() && !begun.is_new && !begun.is_unfinished {
        return Err(Problem::because(
            Kind::KeyReused,
            "This form has made a token before, and the signing key was changed since: it cannot be shown again. Revoke it, and make another one.",
        ));
    }
    if begun.is_new || begun.is_unfinished {
        let row = TokenRow {
            token_sha256: token_sha256.clone(),
            account: id.to_owned(),
            name,
            created_at_ms: request.now_ms,
            ends_at_ms: None,
        };
        if found.is_none() {
            store::put_token(env, &row, false).await.map_err(unreadable)?;
        }
        let mut outcome = "made".to_owned();
        if replaces {
            let at_ms = request.now_ms.saturating_add(REPLACED_MS);
            let number = store::end_others(env, id, &token_sha256, at_ms).await.map_err(unreadable)?;
            outcome.push_str(&format!("; {number} others end in 24 hours"));
        }
        operator_log::end(env, begun.id, &action, &ActionOutcome::done(outcome)).await.map_err(unreadable)?;
    }
    let others = if replaces { "The others end in 24 hours.".to_owned() } else { String::new() };
    Ok(Made { token, others })
}

/// The token that a form makes.
fn token(desk: &Desk<'_>, key: &str) -> String {
    let secret = desk.app.config.signing_keys.sign(Purpose::ApiToken, &[key.as_bytes()]);
    format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&secret))
}

/// `GET /admin/accounts/{id}/tokens/{token}/{action}`
pub(crate) async fn revoke(
    desk: &Desk<'_>,
    id: &Parameter<'_, Decoded>,
    token_sha256: &str,
    action: &Parameter<'_, RevokeAction>,
) -> Result<Answer, Problem> {
    let (RevokeAction(act), Decoded(id)) = (action.read()?, id.read()?);
    let found = store::token(&desk.app.env, &id, token_sha256).await.map_err(unreadable)?;
    let row = found.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let (subject, now_ms) = (Target::Token(id, row.token_sha256.clone()), desk.request.now_ms);
    if row.has_ended(now_ms) {
        return Ok(Answer::see_other(&subject.path(), "found"));
    }
    let ends =
        row.ends_at_ms.map_or_else(|| "not set to end".to_owned(), |at_ms| format::from_now(at_ms, now_ms));
    let hash = row.token_sha256.get(..12).unwrap_or_default();
    let question = Question {
        act,
        subject: &subject,
        title: format!("Revoke the token “{}” now?", row.name),
        sentence: "Whoever still uses it is refused within a minute.".to_owned(),
        risk: "It cannot be taken back. If it has not leaked, make another one first that replaces it in 24 hours.".to_owned(),
        facts: vec![
            fact("Account", Cell { class: "id", ..Cell::text(row.account.clone()) }),
            fact("Token", Cell::text(row.name.clone()).with(format!("SHA-256 {hash}…"))),
            fact("Made", Cell::moment(row.created_at_ms).with(format::from_now(row.created_at_ms, now_ms))),
            fact("Ends", Cell::text(ends)),
        ],
        label: "Revoke now".to_owned(),
        entries: Vec::new(),
        here: super::PATH,
    };
    question.page(desk).await
}

/// Ends a token: at once, or in a day.
pub(crate) async fn end(
    desk: &Desk<'_>,
    id: &str,
    token_sha256: &str,
    is_now: bool,
) -> worker::Result<ActionOutcome> {
    let (env, now_ms) = (&desk.app.env, desk.request.now_ms);
    let at_ms = if is_now { now_ms } else { now_ms.saturating_add(REPLACED_MS) };
    Ok(ActionOutcome::done(match (store::end(env, id, token_sha256, at_ms).await?, is_now) {
        (0, _) if store::token(env, id, token_sha256).await?.is_none() => {
            return Ok(ActionOutcome::refused("there is no such token"));
        }
        (0, true) => "it has ended already",
        (0, false) => "it ends earlier already",
        (_, true) => "revoked: it is refused everywhere within a minute",
        (_, false) => "it ends in 24 hours",
    }))
}
