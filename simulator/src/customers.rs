//! Customers, as far as payments need them: <https://docs.stripe.com/api/customers>

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{Call, Links, shown};
use crate::errors::Outcome;
use crate::events;
use crate::lists::{self, Page};
use crate::metadata::{self, Metadata};
use crate::params::Params;
use crate::payment_intents::set;
use crate::store::{Kind, Query};

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
    livemode: bool,
    metadata: Metadata,
    name: Option<String>,
    phone: Option<String>,
}

const FIELDS: &[&str] = &["description", "email", "metadata", "name", "phone"];

/// `POST /v1/customers`
pub fn create(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(FIELDS)?;
    let mut customer = Customer {
        id: call.new_id(Kind::Customer),
        object: "customer".to_owned(),
        balance: 0,
        created: call.now_s(),
        default_source: None,
        delinquent: false,
        description: None,
        email: None,
        livemode: false,
        metadata: Metadata::new(),
        name: None,
        phone: None,
    };
    apply(&mut customer, params)?;
    call.insert(Kind::Customer, &customer.id, &customer, Links::default())?;
    events::record(call, "customer.created", &customer)?;
    shown(&customer)
}

/// `POST /v1/customers/{id}`
pub fn update(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(FIELDS)?;
    let mut customer: Customer = call.of_path(Kind::Customer, id, "id")?;
    apply(&mut customer, params)?;
    call.save(Kind::Customer, id, &customer, None)?;
    events::record(call, "customer.updated", &customer)?;
    shown(&customer)
}

/// `GET /v1/customers/{id}`
pub fn retrieve(call: &mut Call, id: &str, params: &Params) -> Outcome<Value> {
    params.allow(&[])?;
    shown(&call.of_path::<Customer>(Kind::Customer, id, "id")?)
}

/// `GET /v1/customers`
pub fn list(call: &mut Call, params: &Params) -> Outcome<Value> {
    params.allow(&["created", "ending_before", "limit", "starting_after"])?;
    lists::page(call, params, Page { query: Query::all(Kind::Customer), url: "/v1/customers" })
}

fn apply(customer: &mut Customer, params: &Params) -> Outcome<()> {
    customer.metadata = metadata::merge(&customer.metadata, params)?;
    set(params, "description", &mut customer.description)?;
    set(params, "email", &mut customer.email)?;
    set(params, "name", &mut customer.name)?;
    set(params, "phone", &mut customer.phone)
}
