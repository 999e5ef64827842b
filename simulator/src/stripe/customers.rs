//! Customers, as far as payments need them: <https://docs.stripe.com/api/customers>

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::Metadata;
use crate::provider::{Call, Links};
use crate::store::Query;
use crate::stripe::errors::{ApiError, Outcome, no_such};
use crate::stripe::events;
use crate::stripe::kinds::Kind;
use crate::stripe::lists::{self, Page};
use crate::stripe::metadata;
use crate::stripe::objects::{Objects, shown};
use crate::stripe::params::Params;
use crate::stripe::payment_methods;

/// A customer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Customer {
    id: String,
    object: String,
    balance: i64,
    created: i64,
    default_source: Option<String>,
    delinquent: bool,
    description: Option<String>,
    email: Option<String>,
    #[serde(default)]
    invoice_settings: Value,
    livemode: bool,
    metadata: Metadata,
    name: Option<String>,
    phone: Option<String>,
    shipping: Option<Value>,
}

const FIELDS: &[&str] = &["description", "email", "metadata", "name", "phone"];

/// `POST /v1/customers`
pub fn create(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&[FIELDS, &["id", "payment_method"]].concat())?;
    let mut customer = Customer {
        id: new_id(call, params)?,
        object: "customer".to_owned(),
        balance: 0,
        created: call.now_s(),
        default_source: None,
        delinquent: false,
        description: None,
        email: None,
        invoice_settings: json!({
            "custom_fields": null, "default_payment_method": null, "footer": null, "rendering_options": null,
        }),
        livemode: false,
        metadata: Metadata::new(),
        name: None,
        phone: None,
        shipping: None,
    };
    apply(&mut customer, params)?;
    // A card that cannot be attached makes no customer either.
    if let Some(payment_method) = params.text("payment_method")? {
        payment_methods::attach(call, payment_method, &customer.id)?;
    }
    call.insert(Kind::Customer, &customer.id, &customer, Links::default())?;
    events::record(call, "customer.created", &customer)?;
    shown(&customer)
}

/// The id that was asked for, if it is free; else a new one. Stripe takes one though its documentation does not list it.
fn new_id(call: &mut Call, params: &Params) -> Outcome<String> {
    let Some(id) = params.text("id")?.map(str::to_owned) else { return Ok(call.new_id(Kind::Customer)) };
    if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        return Err(ApiError::invalid("A customer's id has letters, digits, - and _ only.")
            .param("id")
            .refused());
    }
    // Also of one that is deleted: its id does not come free.
    if call.find(Kind::Customer, &id)?.is_some() {
        return Err(ApiError::invalid("Customer already exists.")
            .code("resource_already_exists")
            .param("id")
            .outcome());
    }
    Ok(id)
}

/// `POST /v1/customers/{id}`
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(FIELDS)?;
    let before: Customer = serde_json::from_value(find(call, id, 404, "id")?)?;
    let mut customer = before.clone();
    apply(&mut customer, params)?;
    call.save(Kind::Customer, id, &customer, None)?;
    events::record_change(call, "customer.updated", &before, &customer)?;
    shown(&customer)
}

/// `GET /v1/customers/{id}`; of a deleted one its id, and that it is deleted.
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    call.of_path(Kind::Customer, id, "id")
}

/// `DELETE /v1/customers/{id}`, for good: nothing can be paid for it any more.
pub fn delete(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    let customer = find(call, id, 404, "id")?;
    let deleted = json!({ "id": id, "object": "customer", "deleted": true });
    call.save(Kind::Customer, id, &deleted, None)?;
    events::record(call, "customer.deleted", &customer)?;
    Ok(deleted)
}

/// The customer that a parameter names, if it is not deleted.
pub fn of_param(call: &Call, id: &str) -> Outcome<()> {
    find(call, id, 400, "customer").map(|_| ())
}

fn find(call: &Call, id: &str, status: u16, param: &str) -> Outcome<Value> {
    let missing = || no_such(Kind::Customer, id, status, param).outcome();
    let row = call.find(Kind::Customer, id)?.ok_or_else(missing)?;
    let customer = serde_json::from_str(&row.body)?;
    if lists::is_deleted(&customer) { Err(missing()) } else { Ok(customer) }
}

/// `GET /v1/customers`; `email` must be the same in every letter.
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["created", "email", "ending_before", "limit", "starting_after"])?;
    let email = params.text("email")?.map(str::to_owned);
    let page = Page { kind: Kind::Customer, query: Query::all(Kind::Customer), url: "/v1/customers" };
    lists::page_of(call, params, page, |customer| {
        let same = |email: &String| customer.get("email").and_then(Value::as_str) == Some(email);
        !lists::is_deleted(customer) && email.as_ref().is_none_or(same)
    })
}

fn apply(customer: &mut Customer, params: &Params) -> Outcome<()> {
    customer.metadata = metadata::merge(&customer.metadata, params)?;
    params.update("description", &mut customer.description)?;
    params.update("email", &mut customer.email)?;
    params.update("name", &mut customer.name)?;
    params.update("phone", &mut customer.phone)
}
