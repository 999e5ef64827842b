//! What the simulator knows of a provider. Everything that providers share (dispatch, faults, keys, webhooks, ledger, control surface) knows
//! them through [`Provider`] only; the list of them is `registry`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::failure::Outcome;
use crate::fault::{Effect, Refusal};
use crate::http::{Reply, Request};
use crate::idempotency::{self, BoundKey, InFlight, KeyRules};
use crate::ids::{self, Ids};
use crate::ledger::{Filter, Ledger};
use crate::mailbox::Section;
use crate::store::{Kind, Row, Store, StoreError, Stored};
use crate::three_d_secure::Decision;

/// One simulated provider.
pub trait Provider: Sync {
    /// As it stands in the ledger and in the request log.
    fn name(&self) -> &'static str;

    /// What the paths of its API begin with.
    fn path_prefix(&self) -> &'static str;

    /// A new id for a request, which the answer tells.
    fn new_request_id(&self, ids: &mut dyn Ids) -> String {
        format!("req_{}", ids::word(ids, 14))
    }

    /// How it treats idempotency keys; `None` if it knows none.
    fn keys(&self) -> Option<&'static KeyRules> {
        None
    }

    /// Whether it keeps the 500 of an execution that failed half-way under the request's key.
    fn keeps_server_errors(&self) -> bool {
        false
    }

    /// Checks authentication, endpoint, parameters and key, in that order, without executing. `Err` is a reply at once: a refusal, or the
    /// stored response.
    fn admit(
        &self,
        store: &mut dyn Store,
        in_flight: &InFlight,
        now_ms: i64,
        request: &Request,
        request_id: &str,
    ) -> Result<Admitted, Box<Reply>>;

    /// The reply to a request that a fault keeps from beginning. It is not kept under any key.
    fn refuse(&self, request: &Request, request_id: &str, now_ms: i64, refusal: Refusal) -> Reply;

    /// The reply of a simulator that is broken itself.
    fn broken(&self, request: &Request, request_id: &str, now_ms: i64, message: &str) -> Reply;

    /// What time does to a row that has fallen due. Rows of another provider are left alone.
    fn settle(&self, _call: &mut Call, _row: &Row) -> Outcome<()> {
        Ok(())
    }

    /// The events that it sends as webhooks.
    fn events(&self) -> Option<&dyn EventSource> {
        None
    }

    /// Adds its charges, and what was done to them.
    fn add_to_ledger(&self, _store: &dyn Store, _filter: &Filter, _ledger: &mut Ledger) -> Outcome<()> {
        Ok(())
    }

    /// How many decimals it counts a currency with.
    fn decimals(&self, _currency: &str) -> u32 {
        2
    }

    /// What people, banks or time do at the provider itself, by the address below `/_sim/` that plays it.
    fn action<'p>(&self, _path: &[&'p str]) -> Option<Action<'p>> {
        None
    }

    /// What can be read of it below `/_sim/`.
    fn view(&self, _call: &mut Call, _path: &[&str]) -> Outcome<Option<Reply>> {
        Ok(None)
    }

    /// The 3-D Secure page of one of its payments and the page's two buttons; `None` if there is no such payment.
    fn three_d_secure(&self, _call: &mut Call, _id: &str, _decision: Decision) -> Outcome<Option<Reply>> {
        Ok(None)
    }

    /// What it has sent to people.
    fn mailbox(&self, _store: &dyn Store) -> Outcome<Option<Section>> {
        Ok(None)
    }
}

/// Runs with the body of a POST to the control surface. `None`: the object that the address names is not this provider's.
pub type Action<'p> = Box<dyn Fn(&mut Call, &Value) -> Outcome<Option<Reply>> + 'p>;

/// Events that are sent as webhooks.
pub trait EventSource {
    /// The kind of their rows.
    fn kind(&self) -> Kind;

    /// The field of an event that says its type.
    fn type_field(&self) -> &'static str;

    /// The variable of the Worker that holds the secret that they are signed with.
    fn secret_variable(&self) -> &'static str;

    /// Where an event is sent, and with which secret, if that was set up for its merchant apart; else the variable counts.
    fn endpoint(&self, _store: &dyn Store, _event: &Value) -> Outcome<Option<Endpoint>> {
        Ok(None)
    }

    /// The signed request to the merchant.
    fn outgoing(&self, secret: &str, event: Value, at_s: i64) -> Result<Outgoing, String>;
}

/// Where the events of one merchant are sent.
pub struct Endpoint {
    /// Below the merchant's origin.
    pub path: String,
    /// With which they are signed.
    pub secret: String,
    /// A header that shows who comes.
    pub authorization: Option<(&'static str, String)>,
}

/// A request to the merchant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// `/webhooks/` and the provider's name, unless it was set up otherwise.
    pub path: Cow<'static, str>,
    /// Besides `Content-Type`.
    pub signature: Option<(&'static str, String)>,
    /// JSON.
    pub body: String,
}

/// A request whose parameters were read and checked.
pub trait ApiRequest {
    /// Executes it, and keeps the result under its key. `Err` is a reply as well, of a request whose writes must all be undone.
    fn execute(&self, call: &mut Call, key: Option<&BoundKey>, effect: Effect) -> Result<Reply, Box<Reply>>;
}

/// A request that may run.
pub struct Admitted {
    /// What it asks for.
    pub request: Box<dyn ApiRequest>,
    /// Its key, to be claimed.
    pub key: Option<BoundKey>,
}

/// The simulated providers.
#[derive(Clone, Copy)]
pub struct Providers(pub &'static [&'static dyn Provider]);

impl Providers {
    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn Provider> {
        self.0.iter().copied()
    }

    /// The provider whose API a path belongs to; `None` for the control surface.
    pub fn of_path(self, path: &str) -> Option<&'static dyn Provider> {
        self.iter().find(|provider| path.starts_with(provider.path_prefix()))
    }

    /// A provider by its name.
    pub fn named(self, name: &str) -> Option<&'static dyn Provider> {
        self.iter().find(|provider| provider.name() == name)
    }
}

/// What an operation works with. Whatever it writes commits or rolls back as a whole.
pub struct Call<'a> {
    /// All state.
    pub store: &'a mut dyn Store,
    /// New ids.
    pub ids: &'a mut dyn Ids,
    /// Those that time may change something at.
    pub providers: Providers,
    /// Now, by the simulator's clock.
    pub now_ms: i64,
    /// The account at Stripe that it works for: it sees nothing of any other. The other providers' rows have none.
    pub account: String,
    /// The request that is being answered.
    pub request: &'a Request,
    /// Its id.
    pub request_id: &'a str,
    /// Its key.
    pub idempotency_key: Option<&'a str>,
    /// Whether no request asks for what happens: time, a bank or the card holder brings it about, and no event of it names a request.
    pub unasked: bool,
}

/// How a new object is found again.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// Its customer.
    pub customer: Option<String>,
    /// Its PaymentIntent.
    pub parent: Option<String>,
    /// See [`Row::label`].
    pub label: Option<String>,
    /// See [`Row::due_ms`].
    pub due_ms: Option<i64>,
}

impl<'a> Call<'a> {
    /// A call for a request, of no account yet.
    pub fn new(
        store: &'a mut dyn Store,
        ids: &'a mut dyn Ids,
        providers: Providers,
        now_ms: i64,
        request: &'a Request,
        request_id: &'a str,
        idempotency_key: Option<&'a str>,
    ) -> Self {
        Call {
            store,
            ids,
            providers,
            now_ms,
            account: String::new(),
            request,
            request_id,
            idempotency_key,
            unasked: false,
        }
    }

    /// The same call, in the name of another request.
    pub fn as_request<'b>(
        &'b mut self,
        account: String,
        request_id: &'b str,
        idempotency_key: Option<&'b str>,
    ) -> Call<'b> {
        Call {
            store: &mut *self.store,
            ids: &mut *self.ids,
            providers: self.providers,
            now_ms: self.now_ms,
            account,
            request: self.request,
            request_id,
            idempotency_key,
            unasked: self.unasked,
        }
    }

    /// Now, in seconds.
    pub fn now_s(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }

    /// Does what has fallen due, oldest first: keys are forgotten, reservations lapse, refunds settle, banks decide.
    ///
    /// It runs at the start of each request and before webhooks are sent, so a moved clock shows its effects at once.
    pub fn settle(&mut self) -> Outcome<()> {
        for rules in self.providers.iter().filter_map(Provider::keys) {
            idempotency::prune(self.store, rules, self.now_ms)?;
        }
        for row in self.store.due(self.now_ms)? {
            let providers = self.providers;
            let mut call = self.as_request(row.account.clone(), "req_clock", None);
            call.unasked = true;
            for provider in providers.iter() {
                provider.settle(&mut call, &row)?;
            }
        }
        Ok(())
    }

    /// Adds an object.
    pub fn insert<T: Serialize>(
        &mut self,
        kind: impl Into<Kind>,
        id: &str,
        object: &T,
        links: Links,
    ) -> Stored<()> {
        self.store.insert(Row {
            seq: 0,
            kind: kind.into().0.to_owned(),
            account: self.account.clone(),
            id: id.to_owned(),
            created_ms: self.now_ms,
            customer: links.customer,
            parent: links.parent,
            label: links.label,
            due_ms: links.due_ms,
            idempotency_key: self.idempotency_key.map(str::to_owned),
            request_id: self.request_id.to_owned(),
            body: serialized(object)?,
        })
    }

    /// Writes a changed object back.
    pub fn save<T: Serialize>(
        &mut self,
        kind: impl Into<Kind>,
        id: &str,
        object: &T,
        due_ms: Option<i64>,
    ) -> Stored<()> {
        self.store.replace(kind.into(), id, serialized(object)?, due_ms)
    }
}

fn serialized<T: Serialize>(object: &T) -> Stored<String> {
    serde_json::to_string(object).map_err(|error| StoreError(error.to_string()))
}

/// [`Call::settle`] where no request asks for anything.
pub fn tick(store: &mut dyn Store, ids: &mut dyn Ids, providers: Providers, now_ms: i64) -> Outcome<()> {
    Call::new(store, ids, providers, now_ms, &Request::default(), "req_clock", None).settle()
}
