//! A customer at Stripe: what an object keeps of one, and what can be asked for.
//!
//! The address is part of the object's name and of nothing that is kept: whoever asks for a customer brings it along.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::payment::id::CustomerId;
use crate::timestamp;
use once::id::{Owner, digest};

/// What a client says of a customer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomerContent {
    /// The person's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For the merchant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The provider's token of what is attached to the customer as it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_method: Option<String>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CustomerRequest {
    /// Whose it is.
    pub email: String,
    /// How the customer is to be.
    pub content: CustomerContent,
    /// The account at Stripe that is connected to ours, in which it is made; or one with [keys of its own](super::own_keys).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_account: Option<String>,
    /// How its id must begin. Without it Stripe chooses the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// The revisions of which one must hold, for anything to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<IfMatch>,
    /// Its number among all that were begun for the address. The object gives it.
    #[serde(default)]
    pub number: u32,
}

/// What must hold before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfMatch {
    /// There is a customer.
    Any,
    /// It is of one of these revisions.
    Revisions(Vec<u32>),
}

impl IfMatch {
    /// Whether it holds. Revision 0 is no customer.
    pub fn holds(&self, revision: u32) -> bool {
        match self {
            Self::Any => revision > 0,
            Self::Revisions(known) => revision > 0 && known.contains(&revision),
        }
    }
}

/// The customer of an account and an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Customer {
    /// Stripe's id of it, once it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_customer: Option<String>,
    /// How it is there, as far as it was said here.
    pub content: CustomerContent,
    /// Counts the changes that were made, of one that was deleted since, too.
    pub revision: u32,
    /// How many requests were begun.
    pub begun: u32,
    /// When it was made, in ms since the epoch.
    pub created_at_ms: u64,
    /// Name and description were erased: the next request writes them anew.
    pub is_erased: bool,
}

impl Customer {
    /// Whether it is made, as far as is known here.
    pub const fn is_there(&self) -> bool {
        self.provider_customer.is_some()
    }

    /// Its revision; 0 while there is none.
    pub const fn present_revision(&self) -> u32 {
        if self.is_there() { self.revision } else { 0 }
    }

    /// Whether nothing is left to do for this.
    pub fn is_as_asked(&self, asked: &CustomerContent) -> bool {
        let keeps = |method: &String| self.content.payment_method.as_ref() == Some(method);
        self.is_there()
            && !self.is_erased
            && (&self.content.name, &self.content.description) == (&asked.name, &asked.description)
            && asked.payment_method.as_ref().is_none_or(keeps)
    }

    /// As the API shows it. `None` while there is none.
    pub fn to_json(&self, email: &str) -> Option<Value> {
        let id = self.provider_customer.as_ref()?;
        Some(json!({
            "id": id,
            "object": "customer",
            "email": email,
            "name": self.content.name,
            "description": self.content.description,
            "payment_method": self.content.payment_method,
            "revision": self.revision,
            "created_at": timestamp(self.created_at_ms),
        }))
    }
}

/// The name of the Durable Object that has the customer of an address. Each account at Stripe has customers of its own.
pub fn customer_object_name(owner: &Owner, merchant_account: Option<&str>, email: &str) -> String {
    let (owner, account) = (owner.to_text(), merchant_account.unwrap_or_default());
    let hash = digest(&[b"customer", owner.as_bytes(), account.as_bytes(), email.as_bytes()]);
    format!("customer:{}", base16ct::lower::encode_string(&hash))
}

/// The id of a customer at Stripe that must begin so. Another one for each time that it is made.
pub(crate) fn id_with(prefix: &str, customer: CustomerId, number: u32) -> String {
    let hash = digest(&[b"customer id", customer.object().as_bytes(), &number.to_be_bytes()]);
    format!("{prefix}{}", base16ct::lower::encode_string(hash.get(..12).unwrap_or_default()))
}
