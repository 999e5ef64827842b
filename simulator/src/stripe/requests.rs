//! What is Stripe's around an operation: keys, errors and headers.

use serde_json::Value;

use crate::fault::{CommonRefusal, Effect, Refusal};
use crate::http::{MAX_BODY_BYTES, Reply, Request, render};
use crate::idempotency::{self, BadLength, BoundKey, InFlight, KeyRules, Lookup, Mismatch};
use crate::provider::{Admitted, ApiRequest, Call};
use crate::store::Store;
use crate::stripe::errors::{self, ApiError, ErrorType, Failure, Outcome};
use crate::stripe::params::Params;
use crate::stripe::routes::Operation;
use crate::stripe::{auth, expand, version};

/// Its keys: <https://docs.stripe.com/api/idempotent_requests>
pub const KEYS: KeyRules = KeyRules { provider: "stripe", max_chars: 255, kept_for_ms: 24 * 60 * 60 * 1000 };

/// An operation with its parameters.
struct StripeRequest {
    account: String,
    operation: Operation,
    params: Params,
}

/// See [`crate::provider::Provider::admit`].
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
    request_id: &str,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |failure: Failure| Box::new(failed(request, request_id, now_ms, &failure));
    let account = auth::account(request).map_err(refuse)?;
    version::check(request).map_err(refuse)?;
    let operation = Operation::of(request).map_err(refuse)?;
    let params = parse(request).map_err(refuse)?;
    let key = BoundKey::of(request, &KEYS, params.fingerprint())
        .map_err(|BadLength| refuse(bad_length().refused()))?
        .map(|key| BoundKey { account: account.clone(), ..key });
    let admitted = Admitted { request: Box::new(StripeRequest { account, operation, params }), key };
    let Some(bound) = &admitted.key else {
        return Ok(admitted);
    };
    idempotency::prune(store, &KEYS, now_ms).map_err(|error| refuse(error.into()))?;
    match idempotency::look_up(store, in_flight, bound).map_err(|error| refuse(error.into()))? {
        Lookup::New => Ok(admitted),
        Lookup::Mismatch(mismatch) => Err(refuse(mismatched(bound, &mismatch).refused())),
        Lookup::InUse => Err(refuse(in_use(bound).refused())),
        Lookup::Replay(stored) => {
            let mut reply = Reply::new(stored.status, "application/json", stored.body);
            reply.replayed = true;
            Err(Box::new(
                with_headers(reply, request, request_id)
                    .with("Idempotency-Key", stored.key)
                    .with("Original-Request", stored.request_id)
                    .with("Idempotent-Replayed", "true")
                    .with("Stripe-Should-Retry", "false"),
            ))
        }
    }
}

impl ApiRequest for StripeRequest {
    fn execute(&self, call: &mut Call, key: Option<&BoundKey>, effect: Effect) -> Result<Reply, Box<Reply>> {
        let (request, request_id, now_ms) = (call.request, call.request_id, call.now_ms);
        let undone = |failure: &Failure| Box::new(failed(request, request_id, now_ms, failure));
        let mut result = match effect {
            Effect::FailMidway => Err(refusal(CommonRefusal::ServerError).outcome()),
            _ => self.run(call),
        };
        if effect == Effect::ExecuteThenFail
            && !matches!(result, Err(Failure::Refused(_) | Failure::Broken(_)))
        {
            result = Err(refusal(CommonRefusal::ServerError).outcome());
        }
        let reply = match result {
            Ok(value) => Reply::new(200, "application/json", render(&value)),
            Err(Failure::Outcome(error)) => body_of(&error, request_id, now_ms),
            Err(failure @ (Failure::Refused(_) | Failure::Broken(_))) => return Err(undone(&failure)),
        };
        let mut reply = with_headers(reply, request, request_id);
        if let Some(key) = key {
            // The result is kept: trying again can only replay it.
            reply = reply
                .with("Idempotency-Key", key.key.clone())
                .with("Original-Request", request_id)
                .with("Stripe-Should-Retry", "false");
            idempotency::keep(call.store, key, &reply, request_id, now_ms)
                .map_err(|error| undone(&Failure::from(error)))?;
        }
        Ok(reply)
    }
}

impl StripeRequest {
    fn run(&self, call: &mut Call) -> Outcome<Value> {
        call.account.clone_from(&self.account);
        call.settle()?;
        let value = self.operation.run(call, &self.params)?;
        let value = expand::apply(call, &self.params, value)?;
        Ok(version::worded(value, version::of(call.request)))
    }
}

/// An error that is not kept under any key.
fn not_kept(request: &Request, request_id: &str, now_ms: i64, error: &ApiError) -> Reply {
    let mut reply = with_headers(body_of(error, request_id, now_ms), request, request_id);
    if error.status == 401 {
        return reply.with("WWW-Authenticate", "Bearer realm=\"Stripe\"");
    }
    if let Some(should_retry) = error.should_retry {
        reply = reply.with("Stripe-Should-Retry", should_retry.to_string());
    }
    match request.header("idempotency-key") {
        Some(key) if request.method == "POST" => reply
            .with("Idempotency-Key", key.chars().take(KEYS.max_chars).collect::<String>())
            .with("Original-Request", request_id),
        _ => reply,
    }
}

/// See [`crate::provider::Provider::refuse`].
pub fn refuse(request: &Request, request_id: &str, now_ms: i64, fault: Refusal) -> Reply {
    let error = match fault {
        Refusal::Forbidden => errors::forbidden(),
        fault => refusal(fault.common()),
    };
    not_kept(request, request_id, now_ms, &error)
}

/// See [`crate::provider::Provider::broken`].
pub fn broken(request: &Request, request_id: &str, now_ms: i64, message: &str) -> Reply {
    failed(request, request_id, now_ms, &Failure::Broken(message.to_owned()))
}

fn bad_length() -> ApiError {
    let most = KEYS.max_chars;
    ApiError::invalid(format!("Idempotency-Key must have 1 to {most} characters."))
}

fn mismatched(key: &BoundKey, mismatch: &Mismatch) -> ApiError {
    let message = match mismatch {
        Mismatch::OtherEndpoint(first) => format!(
            "Keys for idempotent requests can only be used for the same endpoint they were first used for ('{first}' vs '{}'). Try using a \
             key other than '{}' if you meant to execute a different request.",
            key.path, key.key
        ),
        Mismatch::OtherParameters => format!(
            "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than \
             '{}' if you meant to execute a different request.",
            key.key
        ),
    };
    ApiError::new(400, ErrorType::Idempotency, message)
}

fn in_use(key: &BoundKey) -> ApiError {
    let message = format!(
        "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other \
         request is still going through): {}. Please try again later.",
        key.key
    );
    ApiError::new(409, ErrorType::InvalidRequest, message).code("idempotency_key_in_use")
}

/// <https://docs.stripe.com/rate-limits>
fn refusal(fault: CommonRefusal) -> ApiError {
    match fault {
        CommonRefusal::ServerError => ApiError::new(500, ErrorType::Api, "An unknown error occurred."),
        CommonRefusal::RateLimited => {
            ApiError::new(429, ErrorType::InvalidRequest, "Request rate limit exceeded.").code("rate_limit")
        }
        CommonRefusal::LockTimeout => {
            let message = "This object cannot be accessed right now because another API request or Stripe process is currently accessing \
                           it. If you see this error intermittently, retry the request.";
            let mut error = ApiError::new(429, ErrorType::InvalidRequest, message).code("lock_timeout");
            error.should_retry = Some(true);
            error
        }
    }
}

fn parse(request: &Request) -> Outcome<Params> {
    if request.body.len() > MAX_BODY_BYTES {
        return Err(ApiError::invalid("The request body is too large.").refused());
    }
    let form = request
        .header("content-type")
        .is_none_or(|content_type| content_type.starts_with("application/x-www-form-urlencoded"));
    if !request.body.is_empty() && !form {
        let message = "Invalid request (check that your POST content type is application/x-www-form-urlencoded). If you have any questions, \
                       we can help at https://support.stripe.com/.";
        return Err(ApiError::invalid(message).refused());
    }
    let params = Params::parse(request.query.as_bytes(), &request.body)?;
    params.list("expand")?;
    Ok(params)
}

fn failed(request: &Request, request_id: &str, now_ms: i64, failure: &Failure) -> Reply {
    match failure {
        Failure::Refused(error) | Failure::Outcome(error) => not_kept(request, request_id, now_ms, error),
        Failure::Broken(message) => {
            let error = ApiError::new(500, ErrorType::Api, format!("The simulator is broken: {message}"));
            not_kept(request, request_id, now_ms, &error)
        }
    }
}

fn body_of(error: &ApiError, request_id: &str, now_ms: i64) -> Reply {
    Reply::json(error.status, &error.body(request_id, now_ms.div_euclid(1000)))
}

fn with_headers(reply: Reply, request: &Request, request_id: &str) -> Reply {
    reply.with("Request-Id", request_id).with("Stripe-Version", version::of(request))
}
