//! One API request from arrival to reply, whichever provider's. The object calls these in order, and may wait in between:
//!
//! 1. [`arrive`] notes the request and takes the fault that is armed for it;
//! 2. [`Incoming::admit`] checks authentication, endpoint, parameters and key, in that order: [`Admitted`], or a reply at once (401, 404,
//!    400, in use, a stored response);
//! 3. [`Incoming::execute`] runs the operation and stores its result under the key.
//!
//! What the object owes: each call is one transaction; an `Err` rolls it back and is the reply all the same; and a key stays claimed
//! ([`InFlight::claim`]) over every wait between 2 and 3.

use crate::digest::sha256_hex;
use crate::fault::{Effect, PendingFault, Refusal};
use crate::faults;
use crate::http::{Reply, Request};
use crate::idempotency::InFlight;
use crate::ids::Ids;
use crate::provider::{Admitted, Call, Provider, Providers};
use crate::store::{LoggedRequest, Store, Stored};

/// Notes a request; the id that it is given goes into Stripe's `Request-Id`, and is Adyen's `pspReference`.
pub fn arrive(
    provider: &dyn Provider,
    store: &mut dyn Store,
    ids: &mut dyn Ids,
    now_ms: i64,
    request: &Request,
) -> Stored<(String, Option<PendingFault>)> {
    let request_id = provider.new_request_id(ids);
    let fault = faults::take(store, request)?;
    store.log_request(LoggedRequest {
        request_id: request_id.clone(),
        at_ms: now_ms,
        method: request.method.clone(),
        path: request.path.clone(),
        idempotency_key: request.header("idempotency-key").map(str::to_owned),
        status: None,
        replayed: false,
        fault: fault.as_ref().map(|pending| <&str>::from(pending.fault).to_owned()),
        body_sha256: sha256_hex(&request.body),
        traceparent: request.header("traceparent").map(str::to_owned),
    })?;
    Ok((request_id, fault))
}

/// A request that has arrived.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    /// All of them.
    pub providers: Providers,
    /// The one whose API it speaks.
    pub provider: &'a dyn Provider,
    /// The request.
    pub request: &'a Request,
    /// Its id.
    pub id: &'a str,
}

impl Incoming<'_> {
    /// Checks whether the request may run, without running it.
    pub fn admit(
        &self,
        store: &mut dyn Store,
        in_flight: &InFlight,
        now_ms: i64,
    ) -> Result<Admitted, Box<Reply>> {
        self.provider.admit(store, in_flight, now_ms, self.request, self.id)
    }

    /// Runs the request. `Err` is a reply as well, of a request whose writes must all be undone.
    pub fn execute(
        &self,
        store: &mut dyn Store,
        ids: &mut dyn Ids,
        now_ms: i64,
        admitted: &Admitted,
        effect: Effect,
    ) -> Result<Reply, Box<Reply>> {
        if effect == Effect::FailMidway && !self.provider.keeps_server_errors() {
            return Err(Box::new(self.refuse(now_ms, Refusal::ServerError)));
        }
        let key = admitted.key.as_ref();
        let text = key.map(|key| key.key.as_str());
        let mut call = Call::new(store, ids, self.providers, now_ms, self.request, self.id, text);
        admitted.request.execute(&mut call, key, effect)
    }

    /// The reply to a request that a fault keeps from beginning. It is not kept under any key.
    pub fn refuse(&self, now_ms: i64, refusal: Refusal) -> Reply {
        if refusal == Refusal::Gateway {
            return Reply::html(502, "<html><body><h1>502 Bad Gateway</h1></body></html>".to_owned());
        }
        self.provider.refuse(self.request, self.id, now_ms, refusal)
    }

    /// The reply of a simulator that is broken itself.
    pub fn broken(&self, now_ms: i64, message: &str) -> Reply {
        self.provider.broken(self.request, self.id, now_ms, message)
    }
}
