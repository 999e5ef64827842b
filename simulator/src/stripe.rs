//! Stripe's side of [`crate::api`]: its errors and headers around an operation.

use serde_json::Value;

use crate::api::{self, Admitted, MAX_BODY_BYTES};
use crate::call::Call;
use crate::clock;
use crate::errors::{ApiError, ErrorType, Failure, Outcome};
use crate::expand;
use crate::faults::{Common, Does};
use crate::http::{Reply, Request, render};
use crate::idempotency::{self, BadLength, BoundKey, InFlight, Lookup, Mismatch};
use crate::params::Params;
use crate::provider::Provider;
use crate::routes::Operation;
use crate::store::Store;

/// The API version that is spoken unless `Stripe-Version` says otherwise.
pub const DEFAULT_API_VERSION: &str = "2026-10-28.endive";

/// From this API version on, reserved money that is given free is no refund: there is no Refund object, and `amount_refunded`,
/// `refunded` and `charge.refunded` say nothing of it.
/// <https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow>
const RELEASES_ARE_NO_REFUNDS: &str = "2025-03-31";

/// Whether a request of this API version makes a refund of the reserved money that it gives free. Versions begin with their day.
pub fn refunds_releases(api_version: &str) -> bool {
    api_version < RELEASES_ARE_NO_REFUNDS
}

/// An operation with its parameters.
#[derive(Debug)]
pub struct Order {
    account: String,
    operation: Operation,
    params: Params,
}

/// See [`api::admit`].
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
    request_id: &str,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |failure: Failure| Box::new(failed(request, request_id, now_ms, &failure));
    let account = crate::auth::account(request).map_err(refuse)?;
    let operation = Operation::of(request).map_err(refuse)?;
    let params = parse(request).map_err(refuse)?;
    let key = BoundKey::of(request, Provider::Stripe, params.fingerprint())
        .map_err(|BadLength| refuse(bad_length().refused()))?
        .map(|key| BoundKey { account: account.clone(), ..key });
    let admitted = Admitted { order: api::Order::Stripe(Order { account, operation, params }), key };
    let Some(bound) = &admitted.key else {
        return Ok(admitted);
    };
    idempotency::prune(store, now_ms).map_err(|error| refuse(error.into()))?;
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

/// See [`api::execute`].
pub fn execute(
    call: &mut Call,
    request: &Request,
    order: &Order,
    key: Option<&BoundKey>,
    does: Does,
) -> Result<Reply, Box<Reply>> {
    let (request_id, now_ms) = (call.request_id, call.now_ms);
    let undone = |failure: &Failure| Box::new(failed(request, request_id, now_ms, failure));
    let mut result = match does {
        Does::FailMidway => Err(refusal(Common::ServerError).outcome()),
        _ => run(call, order),
    };
    if does == Does::ExecuteThenFail && !matches!(result, Err(Failure::Refused(_) | Failure::Broken(_))) {
        result = Err(refusal(Common::ServerError).outcome());
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
            .with("Idempotency-Key", key.chars().take(Provider::Stripe.max_key_chars()).collect::<String>())
            .with("Original-Request", request_id),
        _ => reply,
    }
}

/// See [`api::refuse`].
pub fn refuse(request: &Request, request_id: &str, now_ms: i64, fault: Common) -> Reply {
    not_kept(request, request_id, now_ms, &refusal(fault))
}

/// See [`api::broken`].
pub fn broken(request: &Request, request_id: &str, now_ms: i64, message: &str) -> Reply {
    failed(request, request_id, now_ms, &Failure::Broken(message.to_owned()))
}

fn run(call: &mut Call, order: &Order) -> Outcome<Value> {
    call.account.clone_from(&order.account);
    clock::settle(call)?;
    let value = order.operation.run(call, &order.params)?;
    expand::apply(call, &order.params, value)
}

fn bad_length() -> ApiError {
    let most = Provider::Stripe.max_key_chars();
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
fn refusal(fault: Common) -> ApiError {
    match fault {
        Common::ServerError => ApiError::new(500, ErrorType::Api, "An unknown error occurred."),
        Common::RateLimited => {
            ApiError::new(429, ErrorType::InvalidRequest, "Request rate limit exceeded.").code("rate_limit")
        }
        Common::LockTimeout => {
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
    reply.with("Request-Id", request_id).with("Stripe-Version", api_version(request))
}

/// The version that the caller asked for.
pub fn api_version(request: &Request) -> &str {
    request.header("stripe-version").filter(|version| version.len() <= 60).unwrap_or(DEFAULT_API_VERSION)
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_API_VERSION, refunds_releases};

    #[test]
    fn releases_are_refunds_until_basil() {
        for (version, expected) in [
            ("2019-05-16", true),
            ("2025-02-24.acacia", true),
            ("2025-03-31.basil", false),
            (DEFAULT_API_VERSION, false),
        ] {
            assert_eq!(refunds_releases(version), expected, "{version}");
        }
    }
}
