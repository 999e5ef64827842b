//! Customers at Stripe: making and changing them, and finding out whether that was executed.
//!
//! Each write marks the customer with its own key, in the metadata: so the customer itself tells which one was the last.

use super::answers::{Meaning, read_customer, reply};
use super::objects::CustomerObject;
use super::requests::encode;
use crate::engine::{LookUp, ProviderCall};
use crate::payment::customer::{CustomerRequest, id_with};
use crate::payment::id::CustomerId;
use crate::payment::result::ProviderResult;
use crate::providers::codec::HttpAnswer;
use once::call::FrozenRequest;
use serde::Deserialize;

/// Makes a customer. `customer` is our id of it.
pub(crate) fn create_customer(
    request: &CustomerRequest,
    customer: CustomerId,
    provider_key: &str,
) -> FrozenRequest {
    let content = &request.content;
    let id = request.id_prefix.as_ref().map(|prefix| id_with(prefix, customer, request.number));
    let resource = customer.to_string();
    let mut fields = vec![("email", request.email.as_str())];
    let optional = [
        ("id", &id),
        ("name", &content.name),
        ("description", &content.description),
        ("payment_method", &content.payment_method),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
    fields.push(("metadata[resource]", &resource));
    fields.push(("metadata[idempotency_key]", provider_key));
    FrozenRequest::new("/v1/customers".to_owned(), encode(&fields))
}

/// Changes a customer. What is not given is emptied.
pub(crate) fn update_customer(id: &str, request: &CustomerRequest, provider_key: &str) -> FrozenRequest {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (name, description) = (text(&request.content.name), text(&request.content.description));
    let fields =
        [("name", name.as_str()), ("description", &description), ("metadata[idempotency_key]", provider_key)];
    FrozenRequest::new(format!("/v1/customers/{id}"), encode(&fields))
}

/// The address with which a call makes a customer.
pub(super) fn email_of(request: &FrozenRequest) -> String {
    #[derive(Default, Deserialize)]
    struct Made {
        email: String,
    }
    serde_urlencoded::from_str::<Made>(&request.body).unwrap_or_default().email
}

/// Whether a change was executed, from the customer as it is now.
pub(super) fn read_changed(call: &ProviderCall, answer: &HttpAnswer) -> Option<LookUp> {
    let customer: CustomerObject = json_text::from_str(&answer.body).ok()?;
    if customer.deleted {
        let (code, message) = ("resource_missing".to_owned(), "The customer was deleted.".to_owned());
        let result = ProviderResult::Rejected { payment: None, code, message, found: None };
        return Some(LookUp::Found(reply(answer, result)));
    }
    Some(match read_customer(call, customer) {
        Meaning::Is(result) => LookUp::Found(reply(answer, result)),
        Meaning::LeftOpen(_) | Meaning::Unconfirmed(_) => LookUp::Absent,
    })
}
