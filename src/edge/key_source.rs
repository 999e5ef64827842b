//! Where a request's key stands, how long it will wait, and who sent the form.

use super::http::Request;
use super::problem::{Kind, Problem};
use crate::machine::fingerprint::{Field, Parameters};
use crate::machine::key::IdempotencyKey;

/// The longest wait that a client can ask for, in ms.
const WAIT_MAX_MS: u64 = 30_000;

/// The key of a request, from its header lines and its hidden field; they must agree.
pub fn key(request: &Request, parameters: Option<&Parameters>) -> Result<Option<IdempotencyKey>, Problem> {
    let field = match parameters.map(|parameters| parameters.text("idempotency_key")) {
        Some(Field::Text(text)) => Some(text),
        Some(Field::NotText) => return Err(Problem::new(Kind::KeyInvalid)),
        Some(Field::Missing) | None => None,
    };
    // The runtime joins repeated lines with a comma and a space, and no key has a space in it.
    let lines = request.headers.iter().filter(|(name, _)| name == "idempotency-key");
    let sources = lines.flat_map(|(_, value)| value.split(", ")).chain(field.as_deref());
    IdempotencyKey::from_sources(sources)
        .map_err(|error| Problem::because(Kind::KeyInvalid, error.to_string()))
}

/// How long a duplicate waits, in ms: `Prefer: wait=N` in seconds
/// ([RFC 7240](https://www.rfc-editor.org/rfc/rfc7240#section-4.3)), else the default.
pub fn wait_ms(request: &Request, default_ms: u64) -> u64 {
    let prefer = request
        .headers
        .iter()
        .filter(|(name, _)| name == "prefer")
        .flat_map(|(_, value)| value.split([',', ';']));
    let asked = prefer
        .filter_map(|part| part.trim().strip_prefix("wait=")?.trim_matches('"').parse::<u64>().ok())
        .next();
    asked.map_or(default_ms, |seconds| seconds.saturating_mul(1000).min(WAIT_MAX_MS))
}

/// Whether a form comes from our own pages. Browsers say so in `Origin`, or at least in `Sec-Fetch-Site`; what is no
/// browser sends neither, and is held by the cookie and the signed token alone.
pub fn from_our_pages(request: &Request) -> bool {
    match (request.header("origin"), request.header("sec-fetch-site")) {
        (Some(origin), _) => origin == request.origin(),
        (None, Some(site)) => matches!(site, "same-origin" | "none"),
        (None, None) => true,
    }
}
