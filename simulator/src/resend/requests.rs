//! What is Resend's around an operation: endpoints and keys.

use serde_json::Value;

use crate::digest::json_fingerprint;
use crate::failure::Failure;
use crate::fault::{CommonRefusal, Effect};
use crate::http::{MAX_BODY_BYTES, Reply, Request};
use crate::idempotency::{self, BadLength, BoundKey, InFlight, KeyRules, Lookup, Mismatch};
use crate::provider::{Admitted, ApiRequest, Call};
use crate::resend::email::{Draft, find, send};
use crate::resend::errors::{Problem, in_use, server_error};
use crate::store::Store;

/// Its keys: <https://resend.com/docs/dashboard/emails/idempotency-keys>
pub const KEYS: KeyRules = KeyRules { provider: "resend", max_chars: 256, kept_for_ms: 24 * 60 * 60 * 1000 };

/// What a request asks for.
#[derive(Debug)]
enum ResendRequest {
    /// `POST /resend/emails`
    Send(Box<Draft>),
    /// `GET /resend/emails/{id}`
    Retrieve(String),
}

/// See [`crate::provider::Provider::admit`].
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |problem: Problem| Box::new(problem.reply());
    check_api_key(request).map_err(refuse)?;
    let (asked, fingerprint) = ResendRequest::of(request).map_err(refuse)?;
    let key = BoundKey::of(request, &KEYS, fingerprint).map_err(|BadLength| {
        refuse(Problem::new(400, "invalid_idempotency_key", "The key must be between 1-256 chars."))
    })?;
    let admitted = Admitted { request: Box::new(asked), key };
    let Some(bound) = &admitted.key else {
        return Ok(admitted);
    };
    let known =
        idempotency::prune(store, &KEYS, now_ms).and_then(|()| idempotency::look_up(store, in_flight, bound));
    match known.map_err(|error| refuse(Problem::broken(&error.0)))? {
        Lookup::New => Ok(admitted),
        Lookup::InUse => Err(refuse(in_use())),
        Lookup::Mismatch(Mismatch::OtherEndpoint(_) | Mismatch::OtherParameters) => {
            let message = "Same idempotency key used with a different request payload.";
            Err(refuse(Problem::new(409, "invalid_idempotent_request", message)))
        }
        Lookup::Replay(stored) => {
            let mut reply = Reply::new(stored.status, "application/json", stored.body);
            reply.replayed = true;
            Err(Box::new(reply))
        }
    }
}

impl ApiRequest for ResendRequest {
    fn execute(&self, call: &mut Call, key: Option<&BoundKey>, effect: Effect) -> Result<Reply, Box<Reply>> {
        let undone = |failure: Failure| Box::new(Problem::broken(&failure.message).reply());
        call.settle().map_err(undone)?;
        let answer = match self {
            ResendRequest::Send(draft) => send(call, draft).map_err(undone)?,
            ResendRequest::Retrieve(id) => match find(call.store, id).map_err(undone)? {
                Some(email) => serde_json::to_value(email).map_err(|error| undone(error.into()))?,
                None => return Ok(Problem::new(404, "not_found", "Email not found").reply()),
            },
        };
        let reply = Reply::new(200, "application/json", answer.to_string());
        if let Some(key) = key {
            idempotency::keep(call.store, key, &reply, call.request_id, call.now_ms)
                .map_err(|error| undone(error.into()))?;
        }
        Ok(if effect == Effect::ExecuteThenFail { server_error().reply() } else { reply })
    }
}

/// See [`crate::provider::Provider::refuse`].
pub fn refuse(refusal: CommonRefusal) -> Reply {
    match refusal {
        CommonRefusal::ServerError => server_error(),
        CommonRefusal::RateLimited => Problem::new(
            429,
            "rate_limit_exceeded",
            "Too many requests. Please limit the number of requests per second. Or contact support to increase rate limit.",
        ),
        CommonRefusal::LockTimeout => in_use(),
    }
    .reply()
}

/// See [`crate::provider::Provider::broken`].
pub fn broken(message: &str) -> Reply {
    Problem::broken(message).reply()
}

impl ResendRequest {
    /// Finds the endpoint and reads the body; with the fingerprint of that.
    fn of(request: &Request) -> Result<(Self, String), Problem> {
        let path = request.path.strip_prefix("/resend/").unwrap_or_default();
        let segments: Vec<&str> = path.split('/').collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("POST", ["emails"]) => {
                let body = read(request)?;
                Ok((ResendRequest::Send(Box::new(Draft::parse(&body)?)), json_fingerprint(&body)))
            }
            ("GET", ["emails", id]) => Ok((ResendRequest::Retrieve((*id).to_owned()), String::new())),
            (_, ["emails"] | ["emails", _]) => {
                Err(Problem::new(405, "method_not_allowed", "Method is not allowed for the requested path."))
            }
            _ => Err(Problem::new(404, "not_found", "The requested endpoint does not exist.")),
        }
    }
}

fn read(request: &Request) -> Result<Value, Problem> {
    let unreadable = |message: String| Problem::new(400, "validation_error", message);
    if request.body.len() > MAX_BODY_BYTES {
        return Err(unreadable("The request body is too large.".to_owned()));
    }
    match serde_json::from_slice(&request.body) {
        Ok(body @ Value::Object(_)) => Ok(body),
        Ok(_) => Err(unreadable("The request body must be a JSON object.".to_owned())),
        Err(error) => Err(unreadable(format!("The request body is no JSON: {error}"))),
    }
}

/// Any key that begins with `re_` is taken, and none is stored: the header is looked at and forgotten.
fn check_api_key(request: &Request) -> Result<(), Problem> {
    let key = request.bearer().ok_or_else(|| {
        let message = "Missing API key in the authorization header. Include the following header in the request: `Authorization: Bearer \
                       YOUR_API_KEY`.";
        Problem::new(401, "missing_api_key", message)
    })?;
    if key.starts_with("re_") {
        Ok(())
    } else {
        Err(Problem::new(403, "invalid_api_key", "API key is invalid"))
    }
}
