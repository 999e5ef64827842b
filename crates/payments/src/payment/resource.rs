//! What the flows keep in an object, beside its keys and calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::payment::Payment;
use crate::payment::customer::Customer;
use crate::payment::order_link::OrderLinks;
use crate::payment::records::Unpurged;
use crate::payment::refund::Refund;
use crate::payment::tries::Try;

/// The flows' half of an object's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// The ride, as a release before has left it: nothing reads it, and it goes with the personal data.
    #[serde(rename = "ride", skip_serializing_if = "Option::is_none")]
    pub retired: Option<Value>,
    /// The payment, if it is a payment's object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment: Option<Payment>,
    /// Its refunds, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refunds: Vec<Refund>,
    /// What is known of the links to the order, if it is an order's object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<OrderLinks>,
    /// The customer, if it is a customer's object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer: Option<Customer>,
    /// Its tries, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<Try>,
    /// What was erased here and may still stand in the read model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpurged: Option<Unpurged>,
    /// Counts the changes that the read model must learn of.
    pub version: u64,
    /// The newest audit record that the read model is known to have.
    pub audit_through: u64,
    /// The newest audit record there is.
    pub audit_newest: u64,
}
