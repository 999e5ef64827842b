//! Where a request's key stands, and how long it will wait.

use crate::http::Request;
use crate::problem::{Kind, Problem};
use once::fingerprint::{Field, Parameters};
use once::key::{IdempotencyKey, KeyError};
use serde_json::Value;

/// The body's field that names the key.
pub const FIELD: &str = "idempotency_key";

/// The longest wait that a client can ask for, in ms.
pub const WAIT_MAX_MS: u64 = 30_000;

/// The key of an API client's request, from its header lines and its body's field; they must agree. Who sends no header, and the field with
/// nothing in it, has lost their key: what the request asks for must not stand for it.
pub fn key(request: &Request, parameters: Option<&Parameters>) -> Result<Option<IdempotencyKey>, Problem> {
    let field = field(parameters)?;
    let header = lines(request).filter(|line| !is_browsers_own(request, line));
    let key = IdempotencyKey::from_sources(header.chain(field.as_deref())).map_err(invalid)?;
    let is_empty = |parameters: &Parameters| parameters.empty_names().iter().any(|empty| empty == FIELD);
    if key.is_none() && parameters.is_some_and(is_empty) {
        return Err(invalid(KeyError::Empty));
    }
    Ok(key)
}

/// The key of a form: its hidden field alone. A header beside it is the browser's, who knows nothing of the form's key.
pub fn form_key(parameters: &Parameters) -> Result<Option<IdempotencyKey>, Problem> {
    IdempotencyKey::from_sources(field(Some(parameters))?.as_deref()).map_err(invalid)
}

/// What to say where a key is missing.
pub fn missing(request: &Request) -> Problem {
    if lines(request).any(|line| is_browsers_own(request, line)) {
        return Problem::because(
            Kind::KeyMissing,
            "The Idempotency-Key is a number that the browser may have made by itself, another one for each click. Send a \
             key of your own: make a UUID for the payment, and use the same one for each try.",
        );
    }
    Problem::new(Kind::KeyMissing)
}

fn field(parameters: Option<&Parameters>) -> Result<Option<String>, Problem> {
    if let Some(Parameters::Json(members)) = parameters
        && matches!(members.get(FIELD), Some(Value::Bool(_)))
    {
        return Err(Problem::because(
            Kind::KeyInvalid,
            "The key is `true` or `false`: send a text. Nothing was executed.",
        ));
    }
    match parameters.map(|parameters| parameters.text(FIELD)) {
        Some(Field::Text(text)) => Ok(Some(text)),
        Some(Field::NotText) => Err(Problem::new(Kind::KeyInvalid)),
        Some(Field::Missing) | None => Ok(None),
    }
}

fn lines(request: &Request) -> impl Iterator<Item = &str> {
    let headers = request.headers.iter().filter(|(name, _)| name == "idempotency-key");
    headers.flat_map(|(_, value)| IdempotencyKey::lines(value))
}

/// Whether a key in the header may be one that a browser has made by itself, as Firefox does where the page's script sends
/// none (`network.http.idempotencyKey.enabled`): a number of 64 bits, the same when a connection is tried again and another
/// one for each click. Taken for a client's key it would make two refunds of two clicks.
///
/// Browsers alone send `Sec-Fetch-Site`, and no script can. (Node's `fetch` sends `Sec-Fetch-Mode`.)
pub fn is_browsers_own(request: &Request, line: &str) -> bool {
    request.header("sec-fetch-site").is_some()
        && IdempotencyKey::parse(line).is_ok_and(|key| key.is_64_bit_number())
}

fn invalid(error: KeyError) -> Problem {
    Problem::because(Kind::KeyInvalid, error.to_string())
}

/// How long a duplicate waits, in ms: `Prefer: wait=N` in seconds
/// ([RFC 7240](https://www.rfc-editor.org/rfc/rfc7240#section-4.3)), else the default.
pub fn wait_ms(request: &Request, default_ms: u64) -> u64 {
    let prefer = request.headers.iter().filter(|(name, _)| name == "prefer");
    // What follows a semicolon is a parameter of the preference before it.
    let preferences = prefer
        .flat_map(|(_, value)| value.split(','))
        .filter_map(|one| one.split(';').next()?.split_once('='));
    let asked = preferences
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .find_map(|(_, value)| value.trim().trim_matches('"').parse::<u64>().ok());
    asked.map_or(default_ms, |seconds| seconds.saturating_mul(1000).min(WAIT_MAX_MS))
}
