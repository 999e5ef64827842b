//! Customers: at most one of each address, each change executed once, and everybody told what is there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AGREES, Asked, Auditor, Seen};
use crate::invariants::{Bytes, TRUE_VERDICT};

pub(crate) const ONE_CUSTOMER: &str = "1: at most one customer per account and address";
pub(crate) const ONE_CHANGE: &str = "1: each change of a customer is executed once";
const REVISIONS: &str = "3: a revision of a customer never says two things";

/// A customer as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomerView {
    /// The provider's id of it.
    pub(crate) id: Option<String>,
    pub(crate) revision: u32,
    pub(crate) name: String,
}

/// A customer in the provider's books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BookedCustomer {
    pub(crate) id: String,
    pub(crate) email: String,
    pub(crate) name: String,
    /// The derived keys of all that was written.
    pub(crate) writes: Vec<String>,
}

/// All that is known of customers.
#[derive(Default)]
pub(super) struct Customers {
    books: BTreeMap<String, BookedCustomer>,
    /// What each revision of each object's customer was said to be.
    told: BTreeMap<(usize, u64), (String, String)>,
}

impl Auditor {
    /// The books have this customer.
    pub(crate) fn booked_customer(&mut self, customer: BookedCustomer) {
        let before = self.customers.books.insert(customer.id.clone(), customer.clone());
        if before.as_ref() == Some(&customer) {
            return;
        }
        let of_it = self.customers.books.values().filter(|other| other.email == customer.email);
        let all: Vec<&String> = of_it.map(|other| &other.id).collect();
        if all.len() > 1 {
            let seen = format!("{all:?} of {}", customer.email);
            self.violated(ONE_CUSTOMER, seen);
        }
        let newest = customer.writes.last();
        if customer.writes.iter().filter(|by| Some(*by) == newest).count() > 1 {
            self.violated(ONE_CHANGE, format!("{customer:?}"));
        }
        if newest.is_some_and(|by| self.told_nothing(by)) {
            self.violated(TRUE_VERDICT, format!("after the verdict that nothing was written: {customer:?}"));
        }
    }

    /// Whether the stored answer of an operation is true as the books stand.
    pub(super) fn is_true_of_customer(
        &self,
        (status, body): (u16, &Value),
        is_mine: impl Fn(&String) -> bool,
    ) -> bool {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        match status {
            200 | 201 => self.customers.books.get(text("id")).is_some_and(|booked| {
                booked.name == text("name") && booked.writes.last().is_some_and(&is_mine)
            }),
            402 => !self.customers.books.values().any(|booked| booked.writes.iter().any(&is_mine)),
            _ => false,
        }
    }

    /// What a commit makes of a customer brings audit records with it.
    pub(super) fn judge_customer(
        &mut self,
        before: &Seen,
        after: Option<&CustomerView>,
        expected: &mut Vec<&'static str>,
    ) {
        let revision = before.customer.as_ref().map_or(0, |customer| customer.revision);
        let Some(after) = after else {
            if revision > 0 {
                self.violated(AGREES, "the customer vanished");
            }
            return;
        };
        match after.revision {
            same if same == revision => {}
            1 if revision == 0 => expected.push("customer.created"),
            next if next == revision + 1 => expected.push("customer.updated"),
            other => self.violated(REVISIONS, format!("{other} after {revision}")),
        }
        let had_name = before.customer.as_ref().is_some_and(|customer| !customer.name.is_empty());
        if had_name && after.name.is_empty() && after.revision == revision {
            expected.push("personal_data.erased");
        }
        let known = before.customer.as_ref().and_then(|customer| customer.id.clone());
        if known.is_some() && known != after.id {
            self.violated(ONE_CUSTOMER, format!("{known:?} became {after:?}"));
        }
    }

    /// A client got an answer to its PUT. `name` is what it has asked for.
    pub(crate) fn answered_of_customer(&mut self, asked: &Asked, name: &str, bytes: Option<&Bytes>) {
        let Some((status @ (200 | 201), _, body)) = bytes else { return };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        if text("name") != name {
            self.violated(TRUE_VERDICT, format!("{name} was asked for: {status} {body}"));
        }
        let revision = body["revision"].as_u64().unwrap_or_default();
        let says = (text("id"), text("name"));
        let first = self.customers.told.entry((asked.object, revision)).or_insert_with(|| says.clone());
        if *first != says {
            let seen = format!("revision {revision}: {first:?}, {says:?}");
            self.violated(REVISIONS, seen);
        }
    }

    /// At the end the books have what the object says.
    pub(super) fn close_customer(&mut self, seen: &Seen) {
        let Some(customer) = seen.customer.as_ref().filter(|customer| customer.revision > 0) else { return };
        let booked = customer.id.as_ref().and_then(|id| self.customers.books.get(id));
        if booked.is_none_or(|booked| booked.name != customer.name && !customer.name.is_empty()) {
            self.violated(AGREES, format!("at the end {customer:?}, {booked:?}"));
        }
    }
}
