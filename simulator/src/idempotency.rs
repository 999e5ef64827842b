//! Idempotency keys, as the providers have them: <https://docs.stripe.com/api/idempotent_requests>,
//! <https://docs.adyen.com/development-resources/api-idempotency> and <https://resend.com/docs/dashboard/emails/idempotency-keys>.
//!
//! - unknown key → the operation runs; its result is stored if execution began, a 402 or a 500 too;
//! - known key, same method, path and parameters → the stored response, byte for byte;
//! - known key, anything else → [`Lookup::Mismatch`];
//! - key of a request that still runs → [`Lookup::InUse`];
//! - a key older than its provider keeps it is forgotten, and **runs anew**.
//!
//! Keys belong to the whole account at one provider: at Stripe, whichever of its secret keys is used. Running keys are held in memory: if the
//! object dies, the operation has died with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::http::{Reply, Request};
use crate::store::{Store, Stored, StoredKey};

/// How a provider treats idempotency keys.
#[derive(Debug)]
pub struct KeyRules {
    /// The provider's name.
    pub provider: &'static str,
    /// The longest key, in characters.
    pub max_chars: usize,
    /// How long a key is kept at least at the provider, and here exactly.
    pub kept_for_ms: i64,
}

/// A key together with what it is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundKey {
    /// The name of the provider whose key it is.
    pub provider: String,
    /// The account at Stripe; empty at the others, which have one here.
    pub account: String,
    /// As the caller sent it.
    pub key: String,
    /// The method.
    pub method: String,
    /// The endpoint.
    pub path: String,
    /// Over the parameters.
    pub fingerprint: String,
}

/// An empty key, or one that is longer than its provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLength;

/// What a known key was first used for instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// This endpoint.
    OtherEndpoint(String),
    /// The same endpoint, with other parameters.
    OtherParameters,
}

impl BoundKey {
    /// The key of a POST. Other methods are idempotent by themselves: the providers ignore the header there.
    pub fn of(request: &Request, rules: &KeyRules, fingerprint: String) -> Result<Option<Self>, BadLength> {
        let Some(key) = request.header("idempotency-key").filter(|_| request.method == "POST") else {
            return Ok(None);
        };
        if key.is_empty() || key.chars().count() > rules.max_chars {
            return Err(BadLength);
        }
        Ok(Some(BoundKey {
            provider: rules.provider.to_owned(),
            account: String::new(),
            key: key.to_owned(),
            method: request.method.clone(),
            path: request.path.clone(),
            fingerprint,
        }))
    }

    fn name(&self) -> KeyName {
        (self.provider.clone(), self.account.clone(), self.key.clone())
    }

    fn mismatch(&self, method: &str, path: &str, fingerprint: &str) -> Option<Mismatch> {
        if self.path != path || self.method != method {
            Some(Mismatch::OtherEndpoint(self.path.clone()))
        } else if self.fingerprint != fingerprint {
            Some(Mismatch::OtherParameters)
        } else {
            None
        }
    }
}

/// What is known about a key.
#[derive(Debug)]
pub enum Lookup {
    /// Nothing: run.
    New,
    /// The answer, given before.
    Replay(StoredKey),
    /// It was used for something else.
    Mismatch(Mismatch),
    /// Its first request still runs.
    InUse,
}

/// The keys whose requests are running right now.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Rc<RefCell<BTreeMap<KeyName, BoundKey>>>);

/// A key's provider, account and text.
type KeyName = (String, String, String);

impl InFlight {
    /// Claims a key until the claim is dropped, however the request ends.
    pub fn claim(&self, key: &BoundKey) -> Claim {
        let name = key.name();
        self.0.borrow_mut().insert(name.clone(), key.clone());
        Claim { in_flight: self.clone(), name }
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
    name: KeyName,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.in_flight.0.borrow_mut().remove(&self.name);
    }
}

/// Looks a key up. A mismatch is told even while the first request runs.
pub fn look_up(store: &dyn Store, in_flight: &InFlight, key: &BoundKey) -> Stored<Lookup> {
    if let Some(running) = in_flight.0.borrow().get(&key.name()) {
        let mismatch = running.mismatch(&key.method, &key.path, &key.fingerprint);
        return Ok(mismatch.map_or(Lookup::InUse, Lookup::Mismatch));
    }
    let Some(stored) = store.stored_key(&key.provider, &key.account, &key.key)? else {
        return Ok(Lookup::New);
    };
    let first = BoundKey {
        provider: stored.provider.clone(),
        account: stored.account.clone(),
        key: stored.key.clone(),
        method: stored.method.clone(),
        path: stored.path.clone(),
        fingerprint: stored.fingerprint.clone(),
    };
    let mismatch = first.mismatch(&key.method, &key.path, &key.fingerprint);
    Ok(mismatch.map_or(Lookup::Replay(stored), Lookup::Mismatch))
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
        provider: key.provider.clone(),
        account: key.account.clone(),
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

/// Forgets the keys that are older than their provider keeps them.
pub fn prune(store: &mut dyn Store, rules: &KeyRules, now_ms: i64) -> Stored<()> {
    store.prune_keys(rules.provider, now_ms - rules.kept_for_ms)
}
