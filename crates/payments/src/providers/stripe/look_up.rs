//! Finding out at Stripe whether a call was executed, page by page, and closing what it has left open.

use super::answers::{
    Asked, Meaning, Named, asked, classify, found, payment_of, plain_id, read_customer, read_intent,
    read_refund, read_success, reply,
};
use super::customers::{email_of, read_changed};
use super::objects::{
    CustomerObject, ErrorEnvelope, List, Metadata, PAGE_SIZE, PaymentIntent, RefundObject, RefundedIntent,
    is_key,
};
use super::requests::{encode, void};
use crate::engine::{LookUp, Outcome, ProviderCall, ProviderReply};
use crate::payment::own_keys;
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::providers::codec::HttpAnswer;
use once::account::Identity;
use once::call::{FrozenRequest, Unconfirmed};
use serde::de::DeserializeOwned;

/// Clocks differ: a look-up begins this many seconds before the first send. It has no end: what Stripe failed at it may complete hours later,
/// in objects that are created only then. <https://docs.stripe.com/error-low-level>
const CLOCK_SKEW_S: u64 = 300;

/// What to ask about a call: the next page of the list in which its payment or its refund must stand, if it exists; for a
/// capture or a void, the payment itself.
///
/// The list, not the search: search results appear up to a minute late, in outages an hour.
pub fn look_up(call: &ProviderCall) -> FrozenRequest {
    if let Some(path) = own_path(call) {
        return FrozenRequest::new(path, String::new()).for_account(call.request.account.as_deref());
    }
    let limit = PAGE_SIZE.to_string();
    let after = call.look_up.as_ref().map(|read| ("starting_after", read.after.as_str()));
    let path = match call.kind {
        CallKind::Authorize | CallKind::CreateCustomer => {
            let from = from_s(call).to_string();
            let mut fields = vec![("created[gte]", from.as_str()), ("limit", &limit)];
            let email = email_of(&call.request);
            let is_customer = call.kind == CallKind::CreateCustomer;
            fields.extend(is_customer.then_some(("email", email.as_str())));
            fields.extend(after);
            let list = if is_customer { "customers" } else { "payment_intents" };
            format!("/v1/{list}?{}", encode(&fields))
        }
        CallKind::UpdateCustomer => call.request.path.clone(),
        CallKind::Capture | CallKind::Void => {
            call.request.path.rsplit_once('/').map_or("", |(intent, _)| intent).to_owned()
        }
        CallKind::Refund => {
            let asked: RefundedIntent = serde_urlencoded::from_str(&call.request.body).unwrap_or_default();
            let mut fields = vec![("payment_intent", asked.payment_intent.as_str()), ("limit", &limit)];
            fields.extend(after);
            format!("/v1/refunds?{}", encode(&fields))
        }
    };
    FrozenRequest::new(path, String::new()).for_account(call.request.account.as_deref())
}

/// Since when what the call has made can be there, in s since the epoch.
pub(super) fn from_s(call: &ProviderCall) -> u64 {
    (call.first_sent_at_ms.unwrap_or(0) / 1000).saturating_sub(CLOCK_SKEW_S)
}

/// The address of what the call has made, where its id is known.
fn own_path(call: &ProviderCall) -> Option<String> {
    let id = call.evidence.provider_id.as_deref()?;
    match call.kind {
        CallKind::Authorize => Some(format!("/v1/payment_intents/{id}")),
        CallKind::Refund => Some(format!("/v1/refunds/{id}")),
        CallKind::CreateCustomer => Some(format!("/v1/customers/{id}")),
        CallKind::Capture | CallKind::Void | CallKind::UpdateCustomer => None,
    }
}

/// The PaymentIntent, or the customer, that a call is about, where it is known. Only with a key of its account and mode it is seen.
pub fn known_payment(kind: CallKind, request: &FrozenRequest, made: Option<&str>) -> Option<String> {
    match kind {
        CallKind::Authorize | CallKind::CreateCustomer => made.map(str::to_owned),
        _ => payment_of(kind, request),
    }
}

fn known_payment_of(call: &ProviderCall) -> Option<String> {
    known_payment(call.kind, &call.request, call.evidence.provider_id.as_deref())
}

/// What to ask to find out of which account the configured key is.
/// <https://docs.stripe.com/api/accounts/retrieve>
pub fn identity(call: &ProviderCall) -> FrozenRequest {
    let is_customer = matches!(call.kind, CallKind::CreateCustomer | CallKind::UpdateCustomer);
    let list = if is_customer { "customers" } else { "payment_intents" };
    match known_payment_of(call) {
        Some(id) => FrozenRequest::new(format!("/v1/{list}/{id}"), String::new())
            .for_account(call.request.account.as_deref()),
        // Of the key's own: the connected account is part of the call, and several platforms can be connected to it.
        None => {
            let own = call.request.account.as_deref().filter(|name| own_keys::account_of(name).is_some());
            FrozenRequest::new("/v1/account".to_owned(), String::new()).for_account(own)
        }
    }
}

/// What the answer to that says. A change that was never sent, of a customer that is not there, is told what sending it would be told: nothing has to
/// wait for a key of that account, as the flow makes another one.
pub fn read_whose(call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
    let identity = read_identity(call, answer);
    let is_unsent_change = call.kind == CallKind::UpdateCustomer && call.sends == 0;
    match classify(call, answer) {
        Outcome::Definitive(reply) if is_unsent_change && identity == Identity::SeesNothing => {
            LookUp::Found(reply)
        }
        _ => LookUp::Identity(identity),
    }
}

/// What it says of the account.
pub fn read_identity(call: &ProviderCall, answer: &HttpAnswer) -> Identity {
    read_proof(known_payment_of(call).as_deref(), answer)
}

/// Whether this payment was seen; without one, of which account the key is.
pub(super) fn read_proof(known: Option<&str>, answer: &HttpAnswer) -> Identity {
    let named = json_text::from_str::<Named>(&answer.body).ok().and_then(|named| plain_id(&named.id));
    match (answer.status, known, named) {
        (200, None, Some(id)) => Identity::Account(id),
        (200, Some(known), Some(id)) if known == id => Identity::SeesIt,
        (404, Some(_), _) if is_missing(answer) => Identity::SeesNothing,
        (401 | 403, _, _) => Identity::Refused { status: answer.status },
        _ => Identity::Silent,
    }
}

fn is_missing(answer: &HttpAnswer) -> bool {
    let error = json_text::from_str::<ErrorEnvelope>(&answer.body).ok().map(|envelope| envelope.error);
    error.and_then(|error| error.code).as_deref() == Some("resource_missing")
}

/// What cancels the payment that a call has left open.
pub fn close(call: &ProviderCall) -> Option<FrozenRequest> {
    call.evidence.closing.as_ref()?;
    let id = call.evidence.provider_id.as_deref()?;
    Some(void(id).for_account(call.request.account.as_deref()))
}

/// What an answer to that says.
pub fn read_page(call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
    if let Some(closing) = &call.evidence.closing {
        return read_closed(call, closing, answer);
    }
    match answer.status {
        200 => {}
        // It does not know the entry that the page was to begin after.
        400 | 404 if own_path(call).is_none() => return inconclusive(answer, true, "the page was refused"),
        404 => return LookUp::Absent,
        _ => return inconclusive(answer, false, "the list was refused"),
    }
    match call.kind {
        CallKind::Capture | CallKind::Void => read_moved(call, answer),
        CallKind::UpdateCustomer => read_changed(call, answer)
            .unwrap_or_else(|| inconclusive(answer, false, "a customer that cannot be read")),
        _ if own_path(call).is_some() => match read_success(call, &answer.body) {
            Ok(meaning) => seen(answer, meaning),
            Err(_) => inconclusive(answer, false, "an answer that cannot be read"),
        },
        CallKind::Authorize => {
            let asked = asked(call);
            let is_alike = |intent: &PaymentIntent| is_alike(&asked, intent);
            let read = |intent| read_intent(call, intent);
            read_list(call, answer, |intent| (&intent.id, &intent.metadata), is_alike, read)
        }
        CallKind::CreateCustomer => {
            let read = |customer: CustomerObject| read_customer(call, customer);
            read_list(call, answer, |customer| (&customer.id, &customer.metadata), |_| false, read)
        }
        CallKind::Refund => {
            let (amount, from_s) = (asked(call).amount, from_s(call));
            // Not one from before.
            let is_alike = |refund: &RefundObject| {
                refund.amount == amount && refund.created.is_some_and(|at_s| at_s >= from_s)
            };
            let read = |refund| read_refund(call, refund);
            read_list(call, answer, |refund| (&refund.id, &refund.metadata), is_alike, read)
        }
    }
}

/// What a look-up has found.
fn seen(answer: &HttpAnswer, meaning: Meaning) -> LookUp {
    match meaning {
        Meaning::Is(result) => LookUp::Found(reply(answer, result)),
        Meaning::LeftOpen(result) => LookUp::LeftOpen(reply(answer, result)),
        Meaning::Unconfirmed(unconfirmed) => LookUp::Unconfirmed(unconfirmed),
    }
}

/// Whether what was left open is canceled: the answer shows the payment, also where it can't be canceled any more.
fn read_closed(call: &ProviderCall, closing: &ProviderReply, answer: &HttpAnswer) -> LookUp {
    let intent = match answer.status {
        200 => json_text::from_str::<PaymentIntent>(&answer.body).ok(),
        400..=499 => json_text::from_str::<ErrorEnvelope>(&answer.body)
            .ok()
            .and_then(|envelope| envelope.error.payment_intent.map(|intent| *intent)),
        _ => None,
    };
    match intent {
        Some(intent) if Some(&intent.id) != call.evidence.provider_id.as_ref() => {
            inconclusive(answer, false, "another payment than the one that was canceled")
        }
        Some(intent) if intent.status == "canceled" => LookUp::Found(closing.clone()),
        Some(intent) => match read_intent(call, intent) {
            Meaning::Is(result) if result.is_done() => LookUp::Found(reply(answer, result)),
            Meaning::Unconfirmed(unconfirmed) => LookUp::Unconfirmed(unconfirmed),
            Meaning::Is(_) | Meaning::LeftOpen(_) => inconclusive(answer, false, "it is not canceled yet"),
        },
        None => inconclusive(answer, false, "the cancellation was refused"),
    }
}

fn inconclusive(answer: &HttpAnswer, from_the_start: bool, reason: &str) -> LookUp {
    LookUp::Inconclusive { from_the_start, reason: format!("{reason} ({})", answer.status) }
}

/// Whether a payment is what was asked for, by all but its key: it is named so, or was to be paid with the same payment method.
fn is_alike(asked: &Asked, intent: &PaymentIntent) -> bool {
    intent.amount == asked.amount
        && asked.is_of(intent.currency.as_deref())
        && match &intent.metadata.resource {
            Some(resource) => asked.resource.as_ref() == Some(resource),
            None => intent.payment_method.is_some() && intent.payment_method == asked.payment_method,
        }
}

/// Finds what this call has made, by its key. What has lost its key may be that, if it is like it: metadata can be changed by whoever has a key of the
/// account.
fn read_list<T: DeserializeOwned>(
    call: &ProviderCall,
    answer: &HttpAnswer,
    parts: impl Fn(&T) -> (&String, &Metadata),
    is_alike: impl Fn(&T) -> bool,
    read: impl FnOnce(T) -> Meaning,
) -> LookUp {
    let Ok(mut page) = json_text::from_str::<List<T>>(&answer.body) else {
        return inconclusive(answer, false, "a list that cannot be read");
    };
    let last = page.data.last().map(|entry| parts(entry).0.clone());
    let has_more = page.has_more();
    if let Some(at) = page.data.iter().position(|entry| is_key(parts(entry).1, call)) {
        return seen(answer, read(page.data.swap_remove(at)));
    }
    let has_no_key = |entry: &T| parts(entry).1.idempotency_key.is_none();
    if let Some(alike) = page.data.iter().find(|entry| has_no_key(entry) && is_alike(entry)) {
        let id = parts(alike).0;
        return LookUp::Unconfirmed(Unconfirmed {
            provider_id: None,
            needs_review: true,
            reason: format!("{id} is what was asked for, and has no key: it may be this one"),
        });
    }
    match last.filter(|last| call.look_up.as_ref().is_none_or(|read| read.after != *last)) {
        _ if !has_more => LookUp::Absent,
        Some(after) => LookUp::More { after },
        None => inconclusive(answer, true, "a list that does not go on"),
    }
}

/// Whether a capture or a void was executed, from the payment as it is now. A payment is captured once, so one that was
/// captured or canceled otherwise was not by this call, and never will be.
pub(super) fn read_moved(call: &ProviderCall, answer: &HttpAnswer) -> LookUp {
    let Ok(intent) = json_text::from_str::<PaymentIntent>(&answer.body) else {
        return inconclusive(answer, false, "a payment that cannot be read");
    };
    let now = found(&intent);
    let is_held = intent.status == "requires_capture";
    let is_capture = call.kind == CallKind::Capture;
    let is_gone = matches!(now, Some(RemoteState::Failed(_) | RemoteState::Voided | RemoteState::Expired))
        && is_capture;
    match read_intent(call, intent) {
        Meaning::Is(result) => LookUp::Found(reply(answer, result)),
        // Stripe has said that it executed this call: it was not "moved otherwise". But what it was still capturing can have failed.
        Meaning::Unconfirmed(unconfirmed) if call.evidence.is_executed && !is_gone => {
            LookUp::Unconfirmed(unconfirmed)
        }
        Meaning::LeftOpen(_) | Meaning::Unconfirmed(_) => match now {
            None => inconclusive(answer, false, "a payment in a state that is not known"),
            // A capture is under way, and nothing says whose it is.
            Some(RemoteState::Processing) if is_capture => {
                inconclusive(answer, false, "a payment that is being captured")
            }
            Some(RemoteState::Authorized | RemoteState::RequiresAction { .. } | RemoteState::Processing) => {
                LookUp::Absent
            }
            Some(now) => {
                // What failed can still be canceled, and what is held captured, by a send that is on its way.
                let is_final =
                    call.evidence.is_executed || (!is_held && !matches!(now, RemoteState::Failed(_)));
                let (code, message) = match &now {
                    RemoteState::Failed(failure) if call.evidence.is_executed => {
                        (failure.code.clone(), failure.message.clone())
                    }
                    _ => (
                        "payment_intent_unexpected_state".to_owned(),
                        "The payment was moved otherwise.".to_owned(),
                    ),
                };
                let found = Some(now);
                let refused = reply(answer, ProviderResult::Rejected { payment: None, code, message, found });
                if is_final { LookUp::Found(refused) } else { LookUp::Tentative(refused) }
            }
        },
    }
}
