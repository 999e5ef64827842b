//! Idempotency keys as Stripe's v1 API has them: <https://docs.stripe.com/api/idempotent_requests>.
//!
//! - unknown key → the operation runs; its result is stored if execution began, a 402 or a 500 too;
//! - known key, same method, path and parameters → the stored response, byte for byte, `Idempotent-Replayed: true`;
//! - known key, anything else → 400 `idempotency_error`;
//! - key of a request that still runs → 409 `idempotency_key_in_use`;
//! - a key older than 24 hours is forgotten, and **runs anew**.
//!
//! Keys belong to the whole account. Running keys are held in memory: should the object die, the operation has died with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::errors::{ApiError, ErrorType, Failure, Outcome};
use crate::http::{Reply, Request};
use crate::store::{Store, Stored, StoredKey};

/// The longest key.
const MAX_KEY_CHARS: usize = 255;
/// How long a key is kept.
pub const KEPT_FOR_MS: i64 = 24 * 60 * 60 * 1000;

/// A key together with what it is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundKey {
    /// As the caller sent it.
    pub key: String,
    /// The method.
    pub method: String,
    /// The endpoint.
    pub path: String,
    /// Over the parameters.
    pub fingerprint: String,
}

impl BoundKey {
    /// The key of a POST. Other methods are idempotent by themselves: Stripe ignores the header there.
    pub fn of(request: &Request, fingerprint: String) -> Outcome<Option<Self>> {
        let Some(key) = request.header("idempotency-key").filter(|_| request.method == "POST") else {
            return Ok(None);
        };
        if key.is_empty() || key.chars().count() > MAX_KEY_CHARS {
            return Err(ApiError::new(
                400,
                ErrorType::InvalidRequest,
                format!("Idempotency-Key must have 1 to {MAX_KEY_CHARS} characters."),
            )
            .refused());
        }
        Ok(Some(BoundKey {
            key: key.to_owned(),
            method: request.method.clone(),
            path: request.path.clone(),
            fingerprint,
        }))
    }

    fn check(&self, method: &str, path: &str, fingerprint: &str) -> Outcome<()> {
        if self.path != path || self.method != method {
            return Err(ApiError::new(
                400,
                ErrorType::Idempotency,
                format!(
                    "Keys for idempotent requests can only be used for the same endpoint they were first used for ('{}' vs '{path}'). Try \
                     using a key other than '{}' if you meant to execute a different request.",
                    self.path, self.key
                ),
            )
            .refused());
        }
        if self.fingerprint != fingerprint {
            return Err(ApiError::new(
                400,
                ErrorType::Idempotency,
                format!(
                    "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key \
                     other than '{}' if you meant to execute a different request.",
                    self.key
                ),
            )
            .refused());
        }
        Ok(())
    }
}

/// What is known about a key.
#[derive(Debug)]
pub enum Lookup {
    /// Nothing: run.
    New,
    /// The answer, given before.
    Replay(StoredKey),
    /// A mismatch, or still running.
    Refused(Failure),
}

/// The keys whose requests are running right now.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Rc<RefCell<BTreeMap<String, BoundKey>>>);

impl InFlight {
    /// Claims a key until the claim is dropped, however the request ends.
    pub fn claim(&self, key: &BoundKey) -> Claim {
        self.0.borrow_mut().insert(key.key.clone(), key.clone());
        Claim { in_flight: self.clone(), key: key.key.clone() }
    }

    /// Forgets all claims.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// A key in use.
#[derive(Debug)]
pub struct Claim {
    in_flight: InFlight,
    key: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.in_flight.0.borrow_mut().remove(&self.key);
    }
}

/// Looks a key up. A mismatch is told even while the first request runs.
pub fn look_up(store: &dyn Store, in_flight: &InFlight, key: &BoundKey) -> Stored<Lookup> {
    if let Some(running) = in_flight.0.borrow().get(&key.key) {
        return Ok(Lookup::Refused(match running.check(&key.method, &key.path, &key.fingerprint) {
            Err(mismatch) => mismatch,
            Ok(()) => ApiError::new(
                409,
                ErrorType::InvalidRequest,
                format!(
                    "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and \
                     the other request is still going through): {}. Please try again later.",
                    key.key
                ),
            )
            .code("idempotency_key_in_use")
            .refused(),
        }));
    }
    let Some(stored) = store.stored_key(&key.key)? else {
        return Ok(Lookup::New);
    };
    let bound = BoundKey {
        key: stored.key.clone(),
        method: stored.method.clone(),
        path: stored.path.clone(),
        fingerprint: stored.fingerprint.clone(),
    };
    Ok(match bound.check(&key.method, &key.path, &key.fingerprint) {
        Ok(()) => Lookup::Replay(stored),
        Err(mismatch) => Lookup::Refused(mismatch),
    })
}

/// Stores the result of an operation that ran.
pub fn keep(
    store: &mut dyn Store,
    key: &BoundKey,
    reply: &Reply,
    request_id: &str,
    now_ms: i64,
) -> Stored<()> {
    store.store_key(StoredKey {
        key: key.key.clone(),
        method: key.method.clone(),
        path: key.path.clone(),
        fingerprint: key.fingerprint.clone(),
        created_ms: now_ms,
        request_id: request_id.to_owned(),
        status: reply.status,
        body: reply.body.clone(),
    })
}

/// Forgets what is older than 24 hours.
pub fn prune(store: &mut dyn Store, now_ms: i64) -> Stored<()> {
    store.prune_keys(now_ms - KEPT_FOR_MS)
}
