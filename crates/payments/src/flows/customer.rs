//! A customer of an account, by address: `reserved → finished`, with one call in between.
//!
//! Outcomes: 201 and the customer, made; 200, changed; 402 if the provider refuses it, and nothing was made or changed. Whoever asks for
//! what is there already is answered 200 without any of this ([`route`]).
//!
//! The address is the key: all requests about it meet in one object, and each that has something to do gets the next number. One is
//! begun only when the one before has ended, so changes never overtake each other on their way to the provider.

use serde_json::{Value, json};

use super::phase::PhaseExt;
use crate::engine::{
    CallSpec, Command, Context, End, KeyRecord, Lifecycle, ObjectState, Payments, Phase, RecoveryPoint,
    Settlement,
};
use crate::flows::phase::not_executed_reason;
use crate::payment::customer::{Customer, CustomerContent, CustomerRequest};
use crate::payment::id::CustomerId;
use crate::payment::natural_key::NaturalKey;
use crate::payment::operation::{Operation, Point, Refusal};
use crate::payment::result::{CallKind, ProviderResult};
use crate::providers::Provider;
use crate::providers::stripe;
use once::call::RetryPolicy;
use once::context::Bug;
use once::fingerprint::Fingerprint;
use once::flow::Admission;
use once::id::RequestId;
use once::key::KeyHash;
use once::record::StoredResponse;

const CREATE: &str = "create_customer";
const UPDATE: &str = "update_customer";
/// What Stripe says of a customer that somebody has deleted.
const MISSING: &str = "resource_missing";

/// What becomes of a request, as the object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// It is so already.
    Stands {
        /// The customer.
        response: StoredResponse,
        /// The request that made it so.
        original_request: RequestId,
    },
    /// It runs under this key: as the next one, or together with the one that wants the same.
    Run {
        /// The key.
        key_hash: KeyHash,
        /// The number that goes with it.
        number: u32,
    },
    /// Another one is under way. It is brought to its end first.
    After(Box<Command>),
    /// The state of things forbids it.
    Refused(Refusal),
}

/// Finds out what becomes of a request. Its fingerprint says what it wants.
pub fn route(
    state: &ObjectState,
    command: &Command,
    request: &CustomerRequest,
    ctx: &Context,
) -> Result<Route, Bug> {
    let none = Customer::default();
    let customer = state.resource.customer.as_ref().unwrap_or(&none);
    if let Some((key, under_way)) = under_way(state) {
        if key.fingerprint == command.fingerprint {
            return Ok(Route::Run { key_hash: key.key_hash.clone(), number: under_way.number });
        }
        return Ok(Route::After(Box::new(Command {
            key_hash: key.key_hash.clone(),
            fingerprint: key.fingerprint.clone(),
            operation: Operation::Customer(Box::new(under_way.clone())),
            ..command.clone()
        })));
    }
    if let Some(made) = newest_that_was_made(state).filter(|made| made.owner == command.owner)
        && customer.is_as_asked(&request.content)
        && !may_be_elsewhere(state, request, ctx)
    {
        let original_request = made.original_request.clone();
        let response = match &made.lifecycle {
            // The answer to it was lost on its way.
            Lifecycle::Finished(finished) if original_request == command.request_id => {
                finished.response.clone()
            }
            _ => {
                let shown = customer.to_json(&request.email);
                let shown = shown.ok_or_else(|| Bug("a customer without an id".into()))?;
                response(200, request, customer.revision, &shown)
            }
        };
        return Ok(Route::Stands { response, original_request });
    }
    if let Some(refusal) = refusal(customer, request, may_be_elsewhere(state, request, ctx)) {
        return Ok(Route::Refused(refusal));
    }
    let number = customer.begun.saturating_add(1);
    Ok(Route::Run { key_hash: NaturalKey::customer(number).hash(&command.owner), number })
}

/// The newest request that has made the customer as it is; the newest of all where that is forgotten.
fn newest_that_was_made(state: &ObjectState) -> Option<&KeyRecord> {
    let was_made = |key: &&KeyRecord| match &key.lifecycle {
        Lifecycle::Open(_) => false,
        Lifecycle::Finished(finished) => finished.response.status < 400,
        Lifecycle::Expired(tombstone) => tombstone.status < 400,
    };
    state.keys.iter().rfind(was_made).or(state.keys.last())
}

/// The request that is not ended.
fn under_way(state: &ObjectState) -> Option<(&KeyRecord, &CustomerRequest)> {
    state.keys.iter().find_map(|key| match &key.lifecycle {
        Lifecycle::Open(open) => match &open.operation {
            Operation::Customer(request) => Some((key, &**request)),
            _ => None,
        },
        Lifecycle::Finished(_) | Lifecycle::Expired(_) => None,
    })
}

/// Whether the configured key is not the one with which the customer was last made or changed: it may be of another account, where there is no
/// such customer. The change of it asks Stripe, and makes another one there.
fn may_be_elsewhere(state: &ObjectState, request: &CustomerRequest, ctx: &Context) -> bool {
    let known = state.resource.customer.as_ref().and_then(|customer| customer.provider_customer.as_deref());
    let sent_to = known.and_then(|known| state.account_of(Provider::Stripe, known));
    let now = ctx.credential(Provider::Stripe, request.merchant_account.as_deref());
    sent_to.is_some_and(|sent_to| sent_to.has_changed(now))
}

fn refusal(customer: &Customer, request: &CustomerRequest, may_be_elsewhere: bool) -> Option<Refusal> {
    let revision = customer.present_revision();
    if request.if_match.as_ref().is_some_and(|if_match| !if_match.holds(revision)) {
        return Some(Refusal::Revision { revision });
    }
    let (known, asked) = (&customer.content.payment_method, &request.content.payment_method);
    // Another account has other payment methods.
    if customer.is_there() && !may_be_elsewhere && asked.is_some() && asked != known {
        return Some(Refusal::Field {
            field: "payment_method".into(),
            message:
                "is attached as the customer is made: attach another one at Stripe, to the customer's id"
                    .to_owned(),
        });
    }
    None
}

/// A place in the order of requests, if this is the next one.
pub(crate) fn admit(request: &CustomerRequest, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    let others = phase.object_state.keys.iter().filter(|key| key.key_id != phase.key_id);
    let is_free = others.clone().all(|key| !matches!(key.lifecycle, Lifecycle::Open(_)));
    if phase.object_state.resource.payment.is_some() {
        return Err(Bug("a customer in a payment's object".into()));
    }
    let may_be_elsewhere = may_be_elsewhere(phase.object_state, request, phase.ctx);
    let customer = phase.object_state.resource.customer.get_or_insert_default();
    if !is_free || request.number != customer.begun.saturating_add(1) {
        return Ok(Err(Refusal::Overtaken));
    }
    if let Some(refusal) = refusal(customer, request, may_be_elsewhere) {
        return Ok(Err(refusal));
    }
    customer.begun = request.number;
    Ok(Ok(Some(Point::Reserved)))
}

/// The flow.
pub(crate) fn run(request: &CustomerRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let point = phase.key()?.recovery_point();
    if point != RecoveryPoint::At(Point::Reserved) {
        return Err(Bug(format!("a customer at {}", point.as_str())));
    }
    if let Some(settlement) = phase.settlement(CREATE)? {
        return ended(request, settlement, CREATE, phase);
    }
    let known = customer(phase)?.provider_customer.clone();
    match (known, phase.settlement(UPDATE)?) {
        (None, _) => create(request, phase),
        (Some(known), None) => update(request, &known, phase),
        (Some(_), Some(Settlement::Answered(reply))) if is_missing(&reply.result) => {
            // Somebody has deleted it at the provider, or it is in another account: the address gets another one.
            let customer = customer(phase)?;
            (customer.provider_customer, customer.content) = (None, CustomerContent::default());
            create(request, phase)
        }
        (Some(_), Some(settlement)) => ended(request, settlement, UPDATE, phase),
    }
}

fn is_missing(result: &ProviderResult) -> bool {
    matches!(result, ProviderResult::Rejected { code, .. } if code == MISSING)
}

fn customer<'a>(phase: &'a mut Phase<'_>) -> Result<&'a mut Customer, Bug> {
    phase.object_state.resource.customer.as_mut().ok_or_else(|| Bug("no customer".into()))
}

fn create(request: &CustomerRequest, phase: &Phase<'_>) -> Result<End, Bug> {
    let id = CustomerId::in_object(phase.object_state.object);
    let provider_key = format!("{id}_create_{}", request.number);
    let frozen = stripe::create_customer(request, id, &provider_key);
    Ok(call(CREATE, CallKind::CreateCustomer, frozen, provider_key, request))
}

fn update(request: &CustomerRequest, known: &str, phase: &Phase<'_>) -> Result<End, Bug> {
    let id = CustomerId::in_object(phase.object_state.object);
    let provider_key = format!("{id}_update_{}", request.number);
    let frozen = stripe::update_customer(known, request, &provider_key);
    Ok(call(UPDATE, CallKind::UpdateCustomer, frozen, provider_key, request))
}

fn call(
    name: &str,
    kind: CallKind,
    frozen: once::call::FrozenRequest,
    provider_key: String,
    request: &CustomerRequest,
) -> End {
    End::Call(CallSpec {
        name: name.to_owned(),
        kind,
        provider: Provider::Stripe,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: frozen.for_account(request.merchant_account.as_deref()),
        provider_key,
    })
}

/// The provider's last word.
fn ended(
    request: &CustomerRequest,
    settlement: Settlement,
    name: &str,
    phase: &mut Phase<'_>,
) -> Result<End, Bug> {
    let (code, decline_code, message) = match settlement {
        Settlement::Answered(reply) => match reply.result {
            ProviderResult::Customer { customer } => return written(request, customer, phase),
            ProviderResult::Declined { code, decline_code, message, .. } => (code, decline_code, message),
            ProviderResult::Rejected { code, message, .. } => (code, None, message),
            other => return Err(Bug(format!("{name} was answered by {}", other.name()))),
        },
        Settlement::NotExecuted => {
            let (code, message) = not_executed_reason(phase, name);
            (code, None, message)
        }
        Settlement::NeedsReview => return Err(Bug(format!("{name} is idempotent by key"))),
    };
    phase.audit("customer.refused", subject(phase), json!({ "code": code }))?;
    let customer = customer(phase)?;
    let revision = customer.revision;
    let body = json!({
        "type": "/problems/operation-refused",
        "title": "The provider refused the operation",
        "status": 402,
        "detail": format!("The customer was refused: nothing was made or changed. {message}").trim_end(),
        "instance": path(&request.email),
        "code": code,
        "decline_code": decline_code,
        "customer": customer.to_json(&request.email),
    });
    Ok(End::Response(response(402, request, revision, &body)))
}

/// The customer is at the provider as it was asked for.
fn written(request: &CustomerRequest, id: String, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let now_ms = phase.ctx.now_ms;
    let customer = customer(phase)?;
    let is_new = !customer.is_there();
    if !customer.is_as_asked(&request.content) {
        customer.revision = customer.revision.saturating_add(1);
    }
    let attached = customer.content.payment_method.take();
    customer.content.clone_from(&request.content);
    if !is_new {
        customer.content.payment_method = attached;
    }
    customer.is_erased = false;
    if is_new {
        customer.provider_customer = Some(id);
        customer.created_at_ms = now_ms;
    }
    let revision = customer.revision;
    let shown = customer.to_json(&request.email).ok_or_else(|| Bug("a customer without an id".into()))?;
    let (status, action) = if is_new { (201, "customer.created") } else { (200, "customer.updated") };
    phase.audit(action, subject(phase), json!({ "revision": revision }))?;
    Ok(End::Response(response(status, request, revision, &shown)))
}

fn subject(phase: &Phase<'_>) -> String {
    CustomerId::in_object(phase.object_state.object).to_string()
}

/// The address of a customer on this site.
pub fn path(email: &str) -> String {
    format!("/customers/{}", encoded(email))
}

/// An address may have characters that have a meaning in a path.
fn encoded(email: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@+!$&'*=".contains(&byte);
    email.bytes().fold(String::new(), |mut text, byte| {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

fn response(status: u16, request: &CustomerRequest, revision: u32, body: &Value) -> StoredResponse {
    let media_type = if status < 400 { "application/json" } else { "application/problem+json" };
    let mut headers = vec![
        ("content-type".to_owned(), media_type.to_owned()),
        ("location".to_owned(), path(&request.email)),
    ];
    if status < 400 {
        headers.push(("etag".to_owned(), etag(revision)));
    }
    StoredResponse { status, headers, body: body.to_string().into_bytes() }
}

/// The revision as `ETag` has it.
pub fn etag(revision: u32) -> String {
    format!("\"{revision}\"")
}

/// Forgets the requests whose responses have expired, but for the newest one, and of that one what it asked for. No client can send them again: the
/// object numbers them.
pub fn forget_expired(state: &mut ObjectState) {
    let Some(newest) = state.keys.iter().map(|key| key.key_id).max() else { return };
    if state.resource.customer.is_none() {
        return;
    }
    let is_expired = |key: &KeyRecord| matches!(key.lifecycle, Lifecycle::Expired(_));
    state.keys.retain(|key| key.key_id == newest || !is_expired(key));
    state
        .keys
        .iter_mut()
        .filter(|key| is_expired(key))
        .for_each(|key| key.fingerprint = Fingerprint::erased());
    let ObjectState { keys, calls, .. } = state;
    calls.retain(|call| keys.iter().any(|key| key.key_id == call.key_id));
}
