//! What is Adyen's around an operation: endpoints, keys, errors and headers.

use serde_json::{Value, json};

use crate::adyen::errors::{self, Failure, Fallible, Problem};
use crate::adyen::modification::{ModificationKind, ModificationRequest, TechnicalCancelRequest};
use crate::adyen::payment_request::{DetailsRequest, PaymentRequest};
use crate::adyen::{body, companies, modifications, payments, reports};
use crate::digest::json_fingerprint;
use crate::fault::{CommonRefusal, Effect, Refusal};
use crate::http::{MAX_BODY_BYTES, Reply, Request};
use crate::idempotency::{self, BadLength, BoundKey, InFlight, KeyRules, Lookup, Mismatch};
use crate::provider::{Admitted, ApiRequest, Call};
use crate::store::Store;

/// Its keys: <https://docs.adyen.com/development-resources/api-idempotency>
pub const KEYS: KeyRules =
    KeyRules { provider: "adyen", max_chars: 64, kept_for_ms: 7 * 24 * 60 * 60 * 1000 };

/// What a request asks for, with its body read and checked.
#[derive(Debug)]
enum AdyenRequest {
    /// `POST /payments`
    Pay(PaymentRequest),
    /// `POST /payments/details`
    Details(DetailsRequest),
    /// `POST /payments/{pspReference}/captures`, `/cancels`, `/refunds` and `/reversals`
    Modify {
        /// The payment's `pspReference`.
        payment: String,
        /// Which.
        kind: ModificationKind,
        /// The body.
        request: ModificationRequest,
    },
    /// `GET /reports/{file}`, or `GET /reports/MerchantAccount/{merchant account}/{file}`
    Report {
        /// The merchant account that is named.
        named: Option<String>,
        /// What it is called.
        file: String,
    },
    /// `POST /cancels`
    CancelByReference(TechnicalCancelRequest),
    /// `POST /paymentMethods`
    PaymentMethods,
}

impl AdyenRequest {
    /// Finds the endpoint, whatever base address stands before it, and reads the body.
    fn of(request: &Request, body: &Value) -> Fallible<Self> {
        let segments: Vec<&str> = request.path.split('/').collect();
        if let ("GET", [.., "reports", file]) = (request.method.as_str(), segments.as_slice()) {
            return Ok(AdyenRequest::Report { named: None, file: (*file).to_owned() });
        }
        if let ("GET", [.., "reports", "MerchantAccount", named, file]) =
            (request.method.as_str(), segments.as_slice())
        {
            companies::check_roles(request, named)?;
            return Ok(AdyenRequest::Report { named: Some((*named).to_owned()), file: (*file).to_owned() });
        }
        if let ("POST", [.., "paymentMethods"]) = (request.method.as_str(), segments.as_slice()) {
            let named = body.get("merchantAccount").and_then(Value::as_str).map(str::to_owned);
            body::merchant_account(named)?;
            return Ok(AdyenRequest::PaymentMethods);
        }
        let begins = |name: &str| segments.iter().position(|segment| *segment == name);
        let base = begins("payments").or_else(|| begins("cancels")).unwrap_or(segments.len());
        let endpoint = segments.get(base..).unwrap_or_default();
        let (payment, kind) = match (request.method.as_str(), endpoint) {
            ("POST", ["payments"]) => return Ok(AdyenRequest::Pay(PaymentRequest::parse(body)?)),
            ("POST", ["payments", "details"]) => {
                return Ok(AdyenRequest::Details(DetailsRequest::parse(body)?));
            }
            ("POST", ["cancels"]) => {
                return Ok(AdyenRequest::CancelByReference(TechnicalCancelRequest::parse(body)?));
            }
            ("POST", ["payments", payment, "captures"]) => (payment, ModificationKind::Capture),
            ("POST", ["payments", payment, "cancels"]) => (payment, ModificationKind::Cancel),
            ("POST", ["payments", payment, "refunds"]) => (payment, ModificationKind::Refund),
            ("POST", ["payments", payment, "reversals"]) => (payment, ModificationKind::Reversal),
            _ => return Err(errors::no_endpoint().into()),
        };
        let request = ModificationRequest::parse(kind, body)?;
        Ok(AdyenRequest::Modify { payment: (*payment).to_owned(), kind, request })
    }

    fn run(&self, call: &mut Call) -> Fallible<(u16, Value)> {
        call.settle()?;
        Ok(match self {
            AdyenRequest::Pay(request) => (200, payments::create(call, request)?),
            AdyenRequest::Details(request) => (200, payments::details(call, request)?),
            AdyenRequest::Modify { payment, kind, request } => {
                (201, modifications::create(call, payment, *kind, request)?)
            }
            AdyenRequest::PaymentMethods => {
                (200, json!({ "paymentMethods": [{ "name": "Cards", "type": "scheme" }] }))
            }
            AdyenRequest::Report { .. } => return Err(errors::no_endpoint().into()),
            AdyenRequest::CancelByReference(request) => {
                (201, modifications::cancel_by_reference(call, request)?)
            }
        })
    }
}

/// See [`crate::provider::Provider::admit`].
pub fn admit(
    store: &mut dyn Store,
    in_flight: &InFlight,
    now_ms: i64,
    request: &Request,
    request_id: &str,
) -> Result<Admitted, Box<Reply>> {
    let refuse = |failure: Failure| Box::new(failed(request, request_id, &failure));
    companies::check_api_key(request).map_err(refuse)?;
    let body = read(request).map_err(refuse)?;
    companies::check_merchant_account(request, &body).map_err(refuse)?;
    let asked = AdyenRequest::of(request, &body).map_err(refuse)?;
    let mut key = BoundKey::of(request, &KEYS, json_fingerprint(&body))
        .map_err(|BadLength| refuse(errors::bad_key_length().into()))?;
    if let Some(key) = &mut key {
        let merchant_account = body.get("merchantAccount").and_then(Value::as_str).unwrap_or_default();
        companies::company(merchant_account).clone_into(&mut key.account);
    }
    let admitted = Admitted { request: Box::new(asked), key };
    let Some(bound) = &admitted.key else {
        return Ok(admitted);
    };
    idempotency::prune(store, &KEYS, now_ms).map_err(|error| refuse(error.into()))?;
    match idempotency::look_up(store, in_flight, bound).map_err(|error| refuse(error.into()))? {
        Lookup::New => Ok(admitted),
        Lookup::InUse => Err(refuse(errors::in_progress().into())),
        Lookup::Mismatch(Mismatch::OtherEndpoint(_) | Mismatch::OtherParameters) => {
            Err(refuse(errors::other_request().into()))
        }
        Lookup::Replay(stored) => {
            let mut reply = Reply::new(stored.status, errors::JSON, stored.body);
            reply.replayed = true;
            Err(Box::new(reply.with("pspReference", stored.request_id).with("Idempotency-Key", stored.key)))
        }
    }
}

impl ApiRequest for AdyenRequest {
    fn execute(&self, call: &mut Call, key: Option<&BoundKey>, effect: Effect) -> Result<Reply, Box<Reply>> {
        let request_id = call.request_id;
        let undone = |failure: Failure| Box::new(errors::reply_of(&failure, request_id));
        if let AdyenRequest::Report { named, file } = self {
            let text = reports::file(call, named.as_deref(), file).map_err(undone)?;
            return Ok(Reply::new(200, "text/csv;charset=UTF-8", text));
        }
        let (status, answer) = self.run(call).map_err(undone)?;
        // Whether this 500 may be tried again is not said: the payment is made, and the key replays the 500.
        let reply = if effect == Effect::ExecuteThenFail {
            errors::server_error(false).reply(request_id)
        } else {
            Reply::new(status, errors::JSON, answer.to_string()).with("pspReference", request_id)
        };
        let Some(key) = key else {
            return Ok(reply);
        };
        let reply = reply.with("Idempotency-Key", key.key.clone());
        idempotency::keep(call.store, key, &reply, request_id, call.now_ms)
            .map_err(|error| undone(error.into()))?;
        Ok(reply)
    }
}

/// See [`crate::provider::Provider::refuse`].
pub fn refuse(request: &Request, request_id: &str, refusal: Refusal) -> Reply {
    let problem = match refusal {
        Refusal::KeyStoreDown => errors::key_store_down(),
        Refusal::RateLimitedAs500 => errors::too_many_requests(),
        Refusal::Configuration => errors::misconfigured(),
        Refusal::ProblemJson => {
            return errors::return_url_missing().by_rfc_7807(request_id);
        }
        Refusal::ServerError
        | Refusal::RateLimited
        | Refusal::LockTimeout
        | Refusal::Gateway
        | Refusal::Forbidden => match refusal.common() {
            CommonRefusal::ServerError => errors::server_error(true),
            CommonRefusal::RateLimited => errors::rate_limited(),
            CommonRefusal::LockTimeout => errors::in_progress(),
        },
    };
    failed(request, request_id, &problem.into())
}

/// See [`crate::provider::Provider::broken`].
pub fn broken(request: &Request, request_id: &str, message: &str) -> Reply {
    failed(request, request_id, &Failure::Broken(message.to_owned()))
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
            let most = KEYS.max_chars;
            reply.with("Idempotency-Key", key.chars().take(most).collect::<String>())
        }
        _ => reply,
    }
}
