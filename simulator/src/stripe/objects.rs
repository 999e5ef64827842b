//! How Stripe's endpoints find their objects: each sees those of its own account only, and says so in Stripe's words.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ids;
use crate::provider::Call;
use crate::store::{Query, Row, Stored};
use crate::stripe::errors::{Outcome, no_such};
use crate::stripe::kinds::Kind;

/// The objects of the account that a call works for.
pub trait Objects {
    /// A new id of a kind.
    fn new_id(&mut self, kind: Kind) -> String;

    /// One object of this account.
    fn find(&self, kind: Kind, id: &str) -> Stored<Option<Row>>;

    /// The objects of this account that a query matches.
    fn list(&self, query: Query) -> Stored<Vec<Row>>;

    /// The object that the path names: 404 where there is none.
    fn of_path<T: DeserializeOwned>(&self, kind: Kind, id: &str, param: &str) -> Outcome<T> {
        self.load(kind, id, 404, param)
    }

    /// The object that a parameter names: 400 where there is none.
    fn of_param<T: DeserializeOwned>(&self, kind: Kind, id: &str, param: &str) -> Outcome<T> {
        self.load(kind, id, 400, param)
    }

    /// An object, or an error with a status.
    fn load<T: DeserializeOwned>(&self, kind: Kind, id: &str, status: u16, param: &str) -> Outcome<T> {
        match self.find(kind, id)? {
            Some(row) => Ok(serde_json::from_str(&row.body)?),
            None => Err(no_such(kind, id, status, param).outcome()),
        }
    }
}

impl Objects for Call<'_> {
    fn new_id(&mut self, kind: Kind) -> String {
        ids::with_prefix(self.ids, kind.prefix())
    }

    fn find(&self, kind: Kind, id: &str) -> Stored<Option<Row>> {
        Ok(self.store.find(kind.into(), id)?.filter(|row| row.account == self.account))
    }

    fn list(&self, query: Query) -> Stored<Vec<Row>> {
        self.store.list(&Query { account: Some(self.account.clone()), ..query })
    }
}

/// An object as its answer shows it.
pub fn shown<T: Serialize>(object: &T) -> Outcome<Value> {
    Ok(serde_json::to_value(object)?)
}
