//! Adyen's side of [`crate::api`]: Checkout API v71, as far as card payments need it. <https://docs.adyen.com/api-explorer/Checkout/71>
//!
//! - A payment is answered at once: 200 with a `resultCode`, refusals too.
//! - A capture, a cancel or a refund is only *received* (201). Whether it succeeds is told later by a webhook; here [`notifications`] and
//!   the ledger say it at once.
//! - There is nothing to read a payment with, so a caller that lost an answer has to ask again under the same key.
//!
//! Reports of payouts are there for whoever has a key ([`reports`]).
//!
//! What is answered 200 or 201 is kept under the key; a problem is not, for nothing had begun. `transient-error: true` stands on what may be
//! tried again under the same key: <https://docs.adyen.com/development-resources/api-idempotency>

pub mod body;
pub mod cards;
pub mod currencies;
pub mod errors;
pub mod happenings;
pub mod modifications;
pub mod notifications;
pub mod payments;
pub mod reports;

use serde_json::Value;

use crate::adyen::errors::{Failure, Fallible, Problem};
use crate::adyen::modifications::ModificationKind;
use crate::api::{self, Admitted, MAX_BODY_BYTES};
use crate::call::Call;
use crate::clock;
use crate::faults::{AdyensOwn, Common, Refusal};
use crate::http::{Reply, Request};
use crate::idempotency::{self, BadLength, BoundKey, InFlight, Lookup, Mismatch};
use crate::provider::Provider;
use crate::store::Store;

/// As Adyen writes it.
const JSON: &str = "application/json;charset=UTF-8";

/// What a request asks for, with its body read and checked.
#[derive(Debug)]
pub enum Order {
    /// `POST /payments`
    Pay(payments::PaymentRequest),
    /// `POST /payments/details`
    Details(payments::DetailsRequest),
    /// `POST /payments/{pspReference}/captures`, `/cancels` and `/refunds`
    Modify {
        /// The payment's `pspReference`.
        payment: String,
        /// Which.
        kind: ModificationKind,
        /// The body.
        request: modifications::ModificationRequest,
    },
    /// `GET /reports/{file}`
    Report(String),
    /// `POST /cancels`
    CancelByReference(modifications::TechnicalCancelRequest),
}

impl Order {
    /// Finds the endpoint, whatever base address stands before it, and reads the body.
    fn of(request: &Request, body: &Value) -> Fallible<Self> {
        let segments: Vec<&str> = request.path.split('/').collect();
        if let ("GET", [.., "reports", file]) = (request.method.as_str(), segments.as_slice()) {
            return Ok(Order::Report((*file).to_owned()));
        }
        let begins = |name: &str| segments.iter().position(|segment| *segment == name);
        let base = begins("payments").or_else(|| begins("cancels")).unwrap_or(segments.len());
        let endpoint = segments.get(base..).unwrap_or_default();
        let (payment, kind) = match (request.method.as_str(), endpoint) {
            ("POST", ["payments"]) => return Ok(Order::Pay(payments::PaymentRequest::parse(body)?)),
            ("POST", ["payments", "details"]) => {
                return Ok(Order::Details(payments::DetailsRequest::parse(body)?));
            }
            ("POST", ["cancels"]) => {
                return Ok(Order::CancelByReference(modifications::TechnicalCancelRequest::parse(body)?));
            }
            ("POST", ["payments", payment, "captures"]) => (payment, ModificationKind::Capture),
            ("POST", ["payments", payment, "cancels"]) => (payment, ModificationKind::Cancel),
            ("POST", ["payments", payment, "refunds"]) => (payment, ModificationKind::Refund),
            _ => return Err(errors::no_endpoint().into()),
        };
        let request = modifications::ModificationRequest::parse(kind, body)?;
        Ok(Order::Modify { payment: (*payment).to_owned(), kind, request })
    }

    fn run(&self, call: &mut Call) -> Fallible<(u16, Value)> {
        clock::settle(call)?;
        Ok(match self {
            Order::Pay(request) => (200, payments::create(call, request)?),
            Order::Details(request) => (200, payments::details(call, request)?),
            Order::Modify { payment, kind, request } => {
                (201, modifications::create(call, payment, *kind, request)?)
            }
            Order::Report(_) => return Err(errors::no_endpoint().into()),
            Order::CancelByReference(request) => (201, modifications::cancel_by_reference(call, request)?),
        })
    }
}

/// See [`api::admit`].
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
    request_id: &str,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |failure: Failure| Box::new(failed(request, request_id, &failure));
    check_api_key(request).map_err(refuse)?;
    let body = read(request).map_err(refuse)?;
    let order = Order::of(request, &body).map_err(refuse)?;
    let key = BoundKey::of(request, Provider::Adyen, body::fingerprint(&body))
        .map_err(|BadLength| refuse(errors::bad_key_length().into()))?;
    let admitted = Admitted { order: api::Order::Adyen(Box::new(order)), key };
    let Some(bound) = &admitted.key else {
        return Ok(admitted);
    };
    idempotency::prune(store, now_ms).map_err(|error| refuse(error.into()))?;
    match idempotency::look_up(store, in_flight, bound).map_err(|error| refuse(error.into()))? {
        Lookup::New => Ok(admitted),
        Lookup::InUse => Err(refuse(errors::in_progress().into())),
        Lookup::Mismatch(Mismatch::OtherEndpoint(_) | Mismatch::OtherParameters) => {
            Err(refuse(errors::other_request().into()))
        }
        Lookup::Replay(stored) => {
            let mut reply = Reply::new(stored.status, JSON, stored.body);
            reply.replayed = true;
            Err(Box::new(reply.with("pspReference", stored.request_id).with("Idempotency-Key", stored.key)))
        }
    }
}

/// See [`api::execute`].
pub fn execute(
    call: &mut Call,
    order: &Order,
    key: Option<&BoundKey>,
    then_fail: bool,
) -> Result<Reply, Box<Reply>> {
    let request_id = call.request_id;
    let undone = |failure: Failure| Box::new(errors::reply_of(&failure, request_id));
    if let Order::Report(file) = order {
        let text = reports::file(call, file).map_err(undone)?;
        return Ok(Reply::new(200, "text/csv;charset=UTF-8", text));
    }
    let (status, answer) = order.run(call).map_err(undone)?;
    // Whether this 500 may be tried again is not said: the payment is made, and the key replays the 500.
    let reply = if then_fail {
        errors::server_error(false).reply(request_id)
    } else {
        Reply::new(status, JSON, answer.to_string()).with("pspReference", request_id)
    };
    let Some(key) = key else {
        return Ok(reply);
    };
    let reply = reply.with("Idempotency-Key", key.key.clone());
    idempotency::keep(call.store, key, &reply, request_id, call.now_ms)
        .map_err(|error| undone(error.into()))?;
    Ok(reply)
}

/// See [`api::refuse`].
pub fn refuse(request: &Request, request_id: &str, refusal: Refusal) -> Reply {
    let problem = match refusal {
        Refusal::Adyen(AdyensOwn::KeyStoreDown) => errors::key_store_down(),
        Refusal::Adyen(AdyensOwn::RateLimitedAs500) => errors::too_many_requests(),
        Refusal::Adyen(AdyensOwn::Configuration) => errors::misconfigured(),
        Refusal::Adyen(AdyensOwn::ProblemJson) => {
            return errors::return_url_missing().by_rfc_7807(request_id);
        }
        _ => match refusal.common() {
            Common::ServerError => errors::server_error(true),
            Common::RateLimited => errors::rate_limited(),
            Common::LockTimeout => errors::in_progress(),
        },
    };
    failed(request, request_id, &problem.into())
}

/// See [`api::broken`].
pub fn broken(request: &Request, request_id: &str, message: &str) -> Reply {
    failed(request, request_id, &Failure::Broken(message.to_owned()))
}

/// Any key is taken, and none is stored: the header is looked at and forgotten.
fn check_api_key(request: &Request) -> Fallible<()> {
    match request.header("x-api-key") {
        Some(key) if !key.trim().is_empty() => Ok(()),
        _ => Err(errors::unauthorised().into()),
    }
}

fn read(request: &Request) -> Fallible<Value> {
    if request.method != "POST" {
        return Ok(Value::Null);
    }
    if request.body.len() > MAX_BODY_BYTES {
        return Err(Problem::malformed("The request body is too large.").into());
    }
    let json = request.header("content-type").is_some_and(|content_type| {
        content_type
            .split(';')
            .next()
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    if !json {
        return Err(errors::unsupported_media_type().into());
    }
    body::parse(&request.body)
}

fn failed(request: &Request, request_id: &str, failure: &Failure) -> Reply {
    let reply = errors::reply_of(failure, request_id);
    match request.header("idempotency-key") {
        Some(key) if request.method == "POST" => {
            let most = Provider::Adyen.max_key_chars();
            reply.with("Idempotency-Key", key.chars().take(most).collect::<String>())
        }
        _ => reply,
    }
}
