//! One API request from arrival to reply. The object calls these three in order, and may wait in between:
//!
//! 1. [`arrive`] notes the request and takes the fault that is armed for it;
//! 2. [`admit`] checks authentication, endpoint, parameters and key, in that order: [`Admitted`], or a reply at once (401, 404, 400, 409, a
//!    stored response);
//! 3. [`execute`] runs the operation and stores its result under the key.
//!
//! What the object owes: each call is one transaction; an `Err` rolls it back and is the reply all the same; and a key stays claimed
//! ([`InFlight::claim`]) over every wait between 2 and 3.

use serde_json::Value;

use crate::call::Call;
use crate::clock;
use crate::errors::{ApiError, ErrorType, Failure, Outcome};
use crate::expand;
use crate::faults::{self, PendingFault};
use crate::http::{Reply, Request, render};
use crate::idempotency::{self, BoundKey, InFlight, Lookup};
use crate::ids::{self, Ids};
use crate::params::{Params, sha256_hex};
use crate::routes::Operation;
use crate::store::{LoggedRequest, Store, Stored};

/// The API version that is spoken unless `Stripe-Version` says otherwise.
pub const DEFAULT_API_VERSION: &str = "2026-10-28.endive";
/// No body is larger: no endpoint here takes more than a few kilobytes.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// A request that may run.
#[derive(Debug)]
pub struct Admitted {
    operation: Operation,
    params: Params,
    /// Its key, to be claimed.
    pub key: Option<BoundKey>,
}

/// Notes a request; the id that it is given goes into `Request-Id`.
pub fn arrive(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    now_ms: i64,
    request: &Request,
) -> Stored<(String, Option<PendingFault>)> {
    let request_id = format!("req_{}", ids::word(ids, 14));
    let fault = faults::take(store, request)?;
    let fault_name = fault.as_ref().and_then(|fault| match serde_json::to_value(fault.fault) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    });
    store.log_request(LoggedRequest {
        request_id: request_id.clone(),
        at_ms: now_ms,
        method: request.method.clone(),
        path: request.path.clone(),
        idempotency_key: request.header("idempotency-key").map(str::to_owned),
        status: None,
        replayed: false,
        fault: fault_name,
        body_sha256: sha256_hex(&request.body),
    })?;
    Ok((request_id, fault))
}

/// Checks whether a request may run, without running it.
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
    request_id: &str,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |failure: Failure| Box::new(failed(request, request_id, now_ms, &failure));
    crate::auth::check(request).map_err(refuse)?;
    let operation = Operation::of(request).map_err(refuse)?;
    let params = parse(request).map_err(refuse)?;
    let key = BoundKey::of(request, params.fingerprint()).map_err(refuse)?;
    let Some(bound) = &key else {
        return Ok(Admitted { operation, params, key });
    };
    idempotency::prune(store, now_ms).map_err(|error| refuse(error.into()))?;
    match idempotency::look_up(store, in_flight, bound).map_err(|error| refuse(error.into()))? {
        Lookup::New => Ok(Admitted { operation, params, key }),
        Lookup::Refused(failure) => Err(refuse(failure)),
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

/// Runs a request. `Err` is a reply as well, of a request whose writes must all be undone.
pub fn execute(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    now_ms: i64,
    request: &Request,
    request_id: &str,
    admitted: &Admitted,
    then_fail: bool,
) -> Result<Reply, Box<Reply>> {
    let undone = |failure: &Failure| Box::new(failed(request, request_id, now_ms, failure));
    let mut call = Call {
        store,
        ids,
        now_ms,
        origin: request.origin.as_deref(),
        api_version: api_version(request),
        request_id,
        idempotency_key: admitted.key.as_ref().map(|key| key.key.as_str()),
    };
    let mut result = run(&mut call, admitted);
    if then_fail && !matches!(result, Err(Failure::Refused(_) | Failure::Broken(_))) {
        result = Err(faults::server_error().outcome());
    }
    let reply = match result {
        Ok(value) => Reply::new(200, "application/json", render(&value)),
        Err(Failure::Outcome(error)) => body_of(&error, request_id, now_ms),
        Err(failure @ (Failure::Refused(_) | Failure::Broken(_))) => return Err(undone(&failure)),
    };
    let mut reply = with_headers(reply, request, request_id);
    if let Some(key) = &admitted.key {
        // The result is kept: trying again can only replay it.
        reply = reply
            .with("Idempotency-Key", key.key.clone())
            .with("Original-Request", request_id)
            .with("Stripe-Should-Retry", "false");
        idempotency::keep(store, key, &reply, request_id, now_ms)
            .map_err(|error| undone(&Failure::from(error)))?;
    }
    Ok(reply)
}

/// An error that is not kept under any key.
pub fn refusal(request: &Request, request_id: &str, now_ms: i64, error: &ApiError) -> Reply {
    let mut reply = with_headers(body_of(error, request_id, now_ms), request, request_id);
    if error.status == 401 {
        return reply.with("WWW-Authenticate", "Bearer realm=\"Stripe\"");
    }
    if let Some(should_retry) = error.should_retry {
        reply = reply.with("Stripe-Should-Retry", should_retry.to_string());
    }
    match request.header("idempotency-key") {
        Some(key) if request.method == "POST" => reply
            .with("Idempotency-Key", key.chars().take(255).collect::<String>())
            .with("Original-Request", request_id),
        _ => reply,
    }
}

/// The reply of a simulator that is broken itself.
pub fn broken(request: &Request, request_id: &str, now_ms: i64, message: &str) -> Reply {
    failed(request, request_id, now_ms, &Failure::Broken(message.to_owned()))
}

fn run(call: &mut Call, admitted: &Admitted) -> Outcome<Value> {
    clock::settle(call)?;
    let value = admitted.operation.run(call, &admitted.params)?;
    expand::apply(call, &admitted.params, value)
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
        Failure::Refused(error) | Failure::Outcome(error) => refusal(request, request_id, now_ms, error),
        Failure::Broken(message) => {
            let error = ApiError::new(500, ErrorType::Api, format!("The simulator is broken: {message}"));
            refusal(request, request_id, now_ms, &error)
        }
    }
}

fn body_of(error: &ApiError, request_id: &str, now_ms: i64) -> Reply {
    Reply::json(error.status, &error.body(request_id, now_ms.div_euclid(1000)))
}

fn with_headers(reply: Reply, request: &Request, request_id: &str) -> Reply {
    reply.with("Request-Id", request_id).with("Stripe-Version", api_version(request))
}

fn api_version(request: &Request) -> &str {
    request.header("stripe-version").filter(|version| version.len() <= 60).unwrap_or(DEFAULT_API_VERSION)
}
