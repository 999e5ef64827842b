//! One API request from arrival to reply, whichever provider's. The object calls these in order, and may wait in between:
//!
//! 1. [`arrive`] notes the request and takes the fault that is armed for it;
//! 2. [`admit`] checks authentication, endpoint, parameters and key, in that order: [`Admitted`], or a reply at once (401, 404, 400, in
//!    use, a stored response);
//! 3. [`execute`] runs the operation and stores its result under the key.
//!
//! What the object owes: each call is one transaction; an `Err` rolls it back and is the reply all the same; and a key stays claimed
//! ([`InFlight::claim`]) over every wait between 2 and 3.

use serde_json::Value;

use crate::faults::{self, Does, PendingFault, Refusal};
use crate::http::{Reply, Request};
use crate::idempotency::{BoundKey, InFlight};
use crate::ids::{self, Ids};
use crate::params::sha256_hex;
use crate::provider::Provider;
use crate::store::{LoggedRequest, Store, Stored};
use crate::{adyen, resend, sms, stripe};

/// No body is larger: no endpoint here takes more than a few kilobytes.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// A request that may run.
#[derive(Debug)]
pub struct Admitted {
    /// What it asks for.
    pub order: Order,
    /// Its key, to be claimed.
    pub key: Option<BoundKey>,
}

/// What a request asks for, by provider.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is the provider of its name")]
pub enum Order {
    Stripe(stripe::Order),
    Adyen(Box<adyen::Order>),
    Resend(resend::Order),
    Sms(sms::Draft),
}

/// Notes a request; the id that it is given goes into Stripe's `Request-Id`, and is Adyen's `pspReference`.
pub fn arrive(
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    now_ms: i64,
    request: &Request,
) -> Stored<(String, Option<PendingFault>)> {
    let request_id = match provider_of(request) {
        Provider::Stripe | Provider::Resend | Provider::Sms => format!("req_{}", ids::word(ids, 14)),
        Provider::Adyen => ids::word(ids, 16).to_ascii_uppercase(),
    };
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
    match provider_of(request) {
        Provider::Stripe => stripe::admit(store, in_flight, now_ms, request, request_id),
        Provider::Adyen => adyen::admit(store, in_flight, now_ms, request, request_id),
        Provider::Resend => resend::admit(store, in_flight, now_ms, request),
        Provider::Sms => sms::admit(request),
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
    does: Does,
) -> Result<Reply, Box<Reply>> {
    let mut call = crate::call::Call {
        store,
        ids,
        now_ms,
        account: String::new(),
        origin: request.origin.as_deref(),
        api_version: stripe::api_version(request),
        request_id,
        idempotency_key: admitted.key.as_ref().map(|key| key.key.as_str()),
    };
    let then_fail = does == Does::ExecuteThenFail;
    match &admitted.order {
        Order::Stripe(order) => stripe::execute(&mut call, request, order, admitted.key.as_ref(), does),
        _ if does == Does::FailMidway => {
            Err(Box::new(refuse(request, request_id, now_ms, Refusal::ServerError)))
        }
        Order::Adyen(order) => adyen::execute(&mut call, order, admitted.key.as_ref(), then_fail),
        Order::Resend(order) => resend::execute(&mut call, order, admitted.key.as_ref(), then_fail),
        Order::Sms(draft) => sms::execute(&mut call, draft, then_fail),
    }
}

/// The reply of a request that a fault keeps from beginning. It is not kept under any key.
pub fn refuse(request: &Request, request_id: &str, now_ms: i64, refusal: Refusal) -> Reply {
    if refusal == Refusal::Gateway {
        return Reply::html(502, "<html><body><h1>502 Bad Gateway</h1></body></html>".to_owned());
    }
    match provider_of(request) {
        Provider::Stripe => stripe::refuse(request, request_id, now_ms, refusal.common()),
        Provider::Adyen => adyen::refuse(request, request_id, refusal),
        Provider::Resend => resend::refuse(refusal.common()),
        Provider::Sms => sms::refuse(refusal.common()),
    }
}

/// The reply of a simulator that is broken itself.
pub fn broken(request: &Request, request_id: &str, now_ms: i64, message: &str) -> Reply {
    match provider_of(request) {
        Provider::Stripe => stripe::broken(request, request_id, now_ms, message),
        Provider::Adyen => adyen::broken(request, request_id, message),
        Provider::Resend => resend::broken(message),
        Provider::Sms => sms::broken(message),
    }
}

/// What is no provider's never comes here: the object sends it to the control surface.
fn provider_of(request: &Request) -> Provider {
    Provider::of_path(&request.path).unwrap_or(Provider::Stripe)
}
