//! Rate limiting bindings.

use std::time::Duration;

use worker::Env;

use crate::http_client::within;
use crate::log::log;

/// How long a rate limiter may take.
const LIMITER_WITHIN: Duration = Duration::from_secs(2);

/// Counts once in the bucket of a rate limiting binding. Without the binding, or its answer, nobody is held up.
pub async fn has_room(env: &Env, binding: &str, key: String) -> bool {
    let Ok(limiter) = env.rate_limiter(binding) else {
        return true;
    };
    match within(LIMITER_WITHIN, "the rate limiter", limiter.limit(key)).await {
        Ok(outcome) => outcome.success,
        Err(error) => {
            log("warn", &[("event", "rate_limiter_failed".into()), ("error", error.to_string().into())]);
            true
        }
    }
}
