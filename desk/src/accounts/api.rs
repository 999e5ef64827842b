//! The registry for programs of the operator. A PUT says how something is to be: sent again it changes nothing. What can be ended at the desk, too,
//! stays as it is where a PUT leaves it out. Tokens are made by whoever uses them: only their SHA-256 comes here.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::credentials::Wanted as WantedKey;
use super::store::{self, AccountRow, TokenRow};
use super::{configured, credentials, tokens};
use crate::action_outcome::ActionOutcome;
use crate::app::App;
use crate::operator::admit;
use crate::operator_log::{Action, logged};
use crate::route::Target;
use messages::account::{Account, is_id, is_token_hash};
use messages::credentials::{CredentialKind, hint};
use once::fingerprint::{FieldError, Parameters};
use payments::timestamp;
use runtime::serve::unreadable;
use web::http::{Answer, Request};
use web::problem::{Kind, Problem, invalid_parameters};
use web::query;
use web::route::{Decoded, Parameter};

/// How many accounts a page has, if the request does not say.
const PAGE_DEFAULT: u32 = 50;
/// The most that it can say.
const PAGE_MAX: u32 = 200;

/// What an account is to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    settings: Account,
    /// Left out, it stays as it is.
    #[serde(default)]
    state: Option<State>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Active,
    Closed,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Closed => "closed",
        }
    }
}

/// What a token is to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedToken {
    name: String,
    /// Left out, it stays as it is; `null` is no end.
    #[serde(default, deserialize_with = "given")]
    ends_at: Option<Option<String>>,
}

/// What is there, also if it is `null`.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn wrong(field: &str, message: impl Into<String>) -> Problem {
    invalid_parameters(vec![FieldError { field: field.to_owned(), message: message.into() }])
}

/// The body, as JSON. What is wrong is said by the reader: a setting is no secret.
fn body<T: for<'a> Deserialize<'a>>(request: &Request) -> Result<T, Problem> {
    let Parameters::Json(members) = request.parameters()? else {
        return Err(Problem::json_alone("Send the account as application/json."));
    };
    serde_json::from_value(Value::Object(members))
        .map_err(|error| wrong("body", format!("is not valid: {error}")))
}

fn shown(row: &AccountRow) -> Result<Value, Problem> {
    Ok(json!({
        "object": "account",
        "id": row.id,
        "state": row.state,
        "settings": row.account().map_err(unreadable)?,
        "created_at": timestamp(row.created_at_ms),
        "changed_at": timestamp(row.changed_at_ms),
    }))
}

fn shown_token(row: &TokenRow) -> Value {
    json!({
        "token_sha256": row.token_sha256,
        "name": row.name,
        "created_at": timestamp(row.created_at_ms),
        "ends_at": row.ends_at_ms.map(timestamp),
    })
}

fn answer(status: u16, body: &Value, outcome: &'static str) -> Answer {
    Answer::new(status, "application/json", body.to_string(), outcome)
}

/// `GET /admin/api/accounts`
pub(crate) async fn list(app: &App, request: &Request) -> Result<Answer, Problem> {
    admit(app, request).await?;
    let (mut limit, mut after) = (PAGE_DEFAULT, String::new());
    let read = query::read(&request.query, |name, value| {
        match name {
            "limit" => limit = query::limit(value, PAGE_MAX)?,
            "after" => value.clone_into(&mut after),
            _ => return Err("is not a parameter of this list: it takes after and limit".to_owned()),
        }
        Ok(())
    });
    read.map_err(invalid_parameters)?;
    let limit = limit as usize;
    let mut rows = store::after(&app.env, &after, limit + 1).await.map_err(unreadable)?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let data = rows.iter().map(shown).collect::<Result<Vec<_>, _>>()?;
    let body = json!({ "object": "list", "url": "/admin/api/accounts", "has_more": has_more, "data": data });
    Ok(answer(200, &body, "shown"))
}

/// `GET /admin/api/accounts/{id}`: with its tokens.
pub(crate) async fn show(
    app: &App,
    request: &Request,
    id: &Parameter<'_, Decoded>,
) -> Result<Answer, Problem> {
    admit(app, request).await?;
    let Decoded(id) = id.read()?;
    let row = store::find(&app.env, &id).await.map_err(unreadable)?;
    let body = shown(&row.ok_or_else(|| Problem::new(Kind::NotFound))?)?;
    let tokens = store::tokens(&app.env, &id, request.now_ms).await.map_err(unreadable)?;
    let keys = credentials::of(&app.env, &id).await.map_err(unreadable)?;
    let Value::Object(mut members) = body else { return Ok(answer(200, &body, "shown")) };
    members.insert("credentials".to_owned(), keys.iter().map(credentials::json).collect());
    members.insert("tokens".to_owned(), tokens.rows.iter().map(shown_token).collect());
    members.insert("has_more_tokens".to_owned(), tokens.has_more.into());
    Ok(answer(200, &Value::Object(members), "shown"))
}

/// `PUT /admin/api/accounts/{id}`
pub(crate) async fn put(
    app: &App,
    request: &Request,
    id: &Parameter<'_, Decoded>,
) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let Decoded(id) = id.read()?;
    if !is_id(&id) || id == "new" {
        return Err(wrong(
            "id",
            "must be 1 to 64 letters, digits, dots, hyphens, underscores or @, and not `new`",
        ));
    }
    let wanted: Wanted = body(request)?;
    if wanted.settings.token_sha256.is_some() {
        return Err(wrong(
            "settings.token_sha256",
            "is for API_ACCOUNTS only: tokens of the registry have an address of their own",
        ));
    }
    wanted.settings.check().map_err(|what| wrong("settings", what))?;
    if let Some(known) = store::find(&app.env, &id).await.map_err(unreadable)? {
        let keys = credentials::of(&app.env, &id).await.map_err(unreadable)?;
        credentials::keeps_endpoint(&keys, &known.account().map_err(unreadable)?, &wanted.settings)
            .map_err(|what| wrong("settings.adyen_account", what))?;
    }
    let subject = Target::Account(id.clone()).name();
    let action = Action { operator: &operator, what: "put the account", subject: &subject };
    let work = async {
        let state = wanted.state.map(State::as_str);
        let env = &app.env;
        let is_changed =
            store::put(env, &id, &wanted.settings, state, request.now_ms).await.map_err(unreadable)?;
        let row = store::find(env, &id).await.map_err(unreadable)?;
        let row = row.ok_or_else(|| Problem::new(Kind::NotFound))?;
        let outcome = match is_changed {
            true => format!("its settings are as sent; it is {}", row.state),
            false => "nothing was different".to_owned(),
        };
        Ok((answer(200, &shown(&row)?, "put"), ActionOutcome::done(outcome)))
    };
    logged(app, request, action, work).await
}

/// `PUT /admin/api/accounts/{id}/tokens/{token}`: the token by its SHA-256.
pub(crate) async fn put_token(
    app: &App,
    request: &Request,
    id: &Parameter<'_, Decoded>,
    token: &str,
) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let Decoded(id) = id.read()?;
    if !is_token_hash(token) {
        return Err(wrong(
            "token",
            "must be the token's SHA-256, as 64 lower-case hexadecimal digits: `printf %s \"$TOKEN\" | sha256sum`",
        ));
    }
    let wanted: WantedToken = body(request)?;
    if !tokens::is_name(&wanted.name) {
        return Err(wrong(
            "name",
            format!("must be 1 to {} characters that say where it is used", tokens::NAME_MAX),
        ));
    }
    let ends_at_ms = match wanted.ends_at.as_ref().and_then(Option::as_ref) {
        None => None,
        Some(text) => Some(time(text).filter(|at_ms| *at_ms > request.now_ms).ok_or_else(|| {
            wrong(
                "ends_at",
                "must be a time to come, such as 2027-01-31T00:00:00Z; DELETE ends the token now",
            )
        })?),
    };
    let env = &app.env;
    let is_there = store::find(env, &id).await.map_err(unreadable)?.is_some();
    if !is_there && !configured(app).await?.contains(&id) {
        return Err(Problem::new(Kind::NotFound));
    }
    let row = TokenRow {
        token_sha256: token.to_owned(),
        account: id.clone(),
        name: wanted.name,
        created_at_ms: request.now_ms,
        ends_at_ms,
    };
    let subject = Target::Account(id.clone()).name();
    let what = format!("put token: {}", row.name);
    let action = Action { operator: &operator, what: &what, subject: &subject };
    let work = async {
        if !store::put_token(env, &row, wanted.ends_at.is_some()).await.map_err(unreadable)? {
            return Err(wrong("token", "has ended, or is another account's: make a new one"));
        }
        let kept = store::token(env, &id, token).await.map_err(unreadable)?;
        Ok((answer(200, &shown_token(&kept.unwrap_or(row)), "put"), ActionOutcome::done("it is as sent")))
    };
    logged(app, request, action, work).await
}

/// `DELETE /admin/api/accounts/{id}/tokens/{token}`
pub(crate) async fn revoke_token(
    app: &App,
    request: &Request,
    id: &Parameter<'_, Decoded>,
    token: &str,
) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let Decoded(id) = id.read()?;
    let subject = Target::Account(id.clone()).name();
    let what = format!("revoke token: {}", token.get(..12).unwrap_or_default());
    let action = Action { operator: &operator, what: &what, subject: &subject };
    let work = async {
        let number = store::end(&app.env, &id, token, request.now_ms).await.map_err(unreadable)?;
        if number == 0 && store::token(&app.env, &id, token).await.map_err(unreadable)?.is_none() {
            return Err(Problem::new(Kind::NotFound));
        }
        let outcome = if number == 0 { "it had ended" } else { "revoked" };
        Ok((Answer::empty(204, "revoked"), ActionOutcome::done(outcome)))
    };
    logged(app, request, action, work).await
}

/// `PUT /admin/api/accounts/{id}/credentials/{kind}`: a key of the account's own.
pub(crate) async fn put_credential(
    app: &App,
    request: &Request,
    id: &Parameter<'_, Decoded>,
    kind: &str,
) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let Decoded(id) = id.read()?;
    let kind = CredentialKind::parse(kind).filter(|kind| kind.is_entered());
    let kind = kind.ok_or_else(|| Problem::new(Kind::NotFound))?;
    let Parameters::Json(members) = request.parameters()? else {
        return Err(Problem::json_alone("Send the key as application/json."));
    };
    // Its own error would quote what it has found.
    let wanted: WantedKey = serde_json::from_value(Value::Object(members))
        .map_err(|_| wrong("body", "is not valid: it has one member, value, which is text"))?;
    kind.check(&wanted.value).map_err(|what| wrong("value", what))?;
    credentials::must_exist(app, &id).await?;
    let subject = Target::Account(id.clone()).name();
    let what = format!("set keys: {} {}", kind.as_str(), hint(kind, &wanted.value));
    let action = Action { operator: &operator, what: &what, subject: &subject };
    let work = async {
        let outcome = credentials::change(app, &id, kind, Some(wanted.value)).await?;
        let rows = credentials::of(&app.env, &id).await.map_err(unreadable)?;
        let row = rows.iter().find(|row| row.is(kind)).ok_or_else(|| Problem::new(Kind::NotFound))?;
        Ok((answer(200, &credentials::json(row), "put"), ActionOutcome::done(outcome)))
    };
    logged(app, request, action, work).await
}

/// `DELETE /admin/api/accounts/{id}/credentials/{kind}`
pub(crate) async fn remove_credential(
    app: &App,
    request: &Request,
    id: &Parameter<'_, Decoded>,
    kind: &str,
) -> Result<Answer, Problem> {
    let operator = admit(app, request).await?;
    let Decoded(id) = id.read()?;
    let kind = CredentialKind::parse(kind).ok_or_else(|| Problem::new(Kind::NotFound))?;
    credentials::must_exist(app, &id).await?;
    let subject = Target::Account(id.clone()).name();
    let what = format!("remove key: {}", kind.as_str());
    let action = Action { operator: &operator, what: &what, subject: &subject };
    let work = async {
        let outcome = credentials::change(app, &id, kind, None).await?;
        Ok((Answer::empty(204, "removed"), ActionOutcome::done(outcome)))
    };
    logged(app, request, action, work).await
}

fn time(text: &str) -> Option<u64> {
    let at = chrono::DateTime::parse_from_rfc3339(text).ok()?;
    u64::try_from(at.timestamp_millis()).ok()
}
