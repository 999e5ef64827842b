//! One running operation: the store, the clock, the ids and the request that it works for.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::errors::{Outcome, no_such};
use crate::ids::{self, Ids};
use crate::store::{Kind, Query, Row, Store, Stored};

/// What an operation works with. Whatever it writes commits or rolls back as a whole.
pub struct Call<'a> {
    /// All state.
    pub store: &'a mut dyn Store,
    /// New ids.
    pub ids: &'a mut dyn Ids,
    /// Now, by the simulator's clock.
    pub now_ms: i64,
    /// The account at Stripe that it works for: it sees nothing of any other. The other providers' rows have none.
    pub account: String,
    /// See [`crate::http::Request::origin`].
    pub origin: Option<&'a str>,
    /// The API version that the caller asked for.
    pub api_version: &'a str,
    /// The request that is being answered.
    pub request_id: &'a str,
    /// Its key.
    pub idempotency_key: Option<&'a str>,
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

impl Call<'_> {
    /// Now, in Stripe's unit.
    pub fn now_s(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }

    /// A new id of a kind.
    pub fn new_id(&mut self, kind: Kind) -> String {
        ids::with_prefix(self.ids, kind.prefix())
    }

    /// Adds an object.
    pub fn insert<T: Serialize>(&mut self, kind: Kind, id: &str, object: &T, links: Links) -> Outcome<()> {
        let row = Row {
            seq: 0,
            kind,
            account: self.account.clone(),
            id: id.to_owned(),
            created_ms: self.now_ms,
            customer: links.customer,
            parent: links.parent,
            label: links.label,
            due_ms: links.due_ms,
            idempotency_key: self.idempotency_key.map(str::to_owned),
            request_id: self.request_id.to_owned(),
            body: serde_json::to_string(object)?,
        };
        Ok(self.store.insert(row)?)
    }

    /// One object of this account.
    pub fn find(&self, kind: Kind, id: &str) -> Stored<Option<Row>> {
        Ok(self.store.find(kind, id)?.filter(|row| row.account == self.account))
    }

    /// The objects of this account that a query matches.
    pub fn list(&self, query: Query) -> Stored<Vec<Row>> {
        self.store.list(&Query { account: Some(self.account.clone()), ..query })
    }

    /// Writes a changed object back.
    pub fn save<T: Serialize>(
        &mut self,
        kind: Kind,
        id: &str,
        object: &T,
        due_ms: Option<i64>,
    ) -> Outcome<()> {
        Ok(self.store.replace(kind, id, serde_json::to_string(object)?, due_ms)?)
    }

    /// The object of the path: 404 where there is none.
    pub fn of_path<T: DeserializeOwned>(&self, kind: Kind, id: &str, param: &str) -> Outcome<T> {
        self.lookup(kind, id, 404, param)
    }

    /// The object that a parameter names: 400 where there is none.
    pub fn of_param<T: DeserializeOwned>(&self, kind: Kind, id: &str, param: &str) -> Outcome<T> {
        self.lookup(kind, id, 400, param)
    }

    fn lookup<T: DeserializeOwned>(&self, kind: Kind, id: &str, status: u16, param: &str) -> Outcome<T> {
        match self.find(kind, id)? {
            Some(row) => Ok(serde_json::from_str(&row.body)?),
            None => Err(no_such(kind, id, status, param).outcome()),
        }
    }
}

/// An object as its answer shows it.
pub fn shown<T: Serialize>(object: &T) -> Outcome<Value> {
    Ok(serde_json::to_value(object)?)
}
