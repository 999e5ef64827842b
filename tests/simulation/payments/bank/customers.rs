//! Customers in Stripe's books. Nothing there keeps two of one address apart.

use super::{Done, Ledger, nameless_until_ms};
use crate::faults::Oddity;

/// A customer.
#[derive(Clone, Debug)]
pub(crate) struct Customer {
    pub(crate) id: String,
    pub(crate) created_s: u64,
    pub(crate) email: String,
    pub(crate) name: String,
    /// The idempotency keys of all that was written, oldest first.
    pub(crate) writes: Vec<String>,
    /// Nobody is shown our metadata before.
    pub(crate) nameless_until_ms: u64,
    /// Lists do not show it at all before.
    pub(crate) listed_from_ms: u64,
}

impl Customer {
    pub(crate) fn to_json(&self, now_ms: u64) -> String {
        let Self { id, created_s, email, name, writes, .. } = self;
        let by = writes.last().filter(|_| now_ms >= self.nameless_until_ms).cloned().unwrap_or_default();
        format!(
            r#"{{"id":"{id}","object":"customer","created":{created_s},"email":"{email}","name":"{name}","metadata":{{"idempotency_key":"{by}"}}}}"#
        )
    }
}

impl Ledger {
    pub(crate) fn customer(&self, id: &str) -> Option<&Customer> {
        self.customers.iter().find(|customer| customer.id == id)
    }

    /// Makes a customer, or changes the one of this id.
    pub(super) fn write_customer(
        &mut self,
        now_ms: u64,
        by: &str,
        (id, email, name): (Option<String>, String, String),
        odd: Option<Oddity>,
    ) -> Done {
        if odd == Some(Oddity::Declined) {
            return Done::Declined(None);
        }
        let nameless_until_ms = nameless_until_ms(now_ms, odd);
        let Some(id) = id else {
            let customer = Customer {
                id: format!("cus_{}{}", self.prefix, 1 + self.customers.len()),
                created_s: now_ms / 1000,
                email,
                name,
                writes: vec![by.to_owned()],
                nameless_until_ms,
                listed_from_ms: now_ms + self.lists_lag_ms,
            };
            self.customers.push(customer.clone());
            return Done::Customer(customer);
        };
        let Some(customer) = self.customers.iter_mut().find(|customer| customer.id == id) else {
            return Done::Missing;
        };
        customer.name = name;
        customer.writes.push(by.to_owned());
        customer.nameless_until_ms = nameless_until_ms;
        Done::Customer(customer.clone())
    }
}
