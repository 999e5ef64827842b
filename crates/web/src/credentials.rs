//! The token of an API client, as a request brings it.

use crate::http::Request;
use crate::problem::{Kind, Problem};

/// How to authenticate ([RFC 6750, 3](https://www.rfc-editor.org/rfc/rfc6750#section-3)).
pub const BEARER: &str = "Bearer realm=\"paid-once\"";
/// The same to whoever has sent a token.
const BEARER_INVALID: &str = "Bearer realm=\"paid-once\", error=\"invalid_token\"";

/// The token in `Authorization: Bearer <token>`; `None` without that header. `takes_bare`: the token alone will do, as the clients of the
/// article send it.
pub fn token(request: &Request, takes_bare: bool) -> Result<Option<&str>, Problem> {
    let Some(credentials) = request.header("authorization").map(str::trim) else {
        return Ok(None);
    };
    match credentials.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        None if takes_bare => Ok(Some(credentials)),
        _ => Err(Problem::because(Kind::Unauthorized, "Send the token as `Authorization: Bearer <token>`.")),
    }
}

/// What to say of a token that no account has.
pub fn unknown_token() -> Problem {
    let detail = "No account has this token. Check it for typing errors.";
    Problem { challenge: Some(BEARER_INVALID), ..Problem::because(Kind::Unauthorized, detail) }
}
