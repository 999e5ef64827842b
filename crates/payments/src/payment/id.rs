//! The public ids of what lives in an object.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use once::id::{ObjectId, digest};

once::resource_id!(
    /// The public id of a payment.
    PaymentId,
    "pay_",
    "payments"
);

/// The object of a payment's id; `None` for anything else.
pub fn object_of(payment: &str) -> Option<ObjectId> {
    PaymentId::parse(payment).map(PaymentId::object)
}

/// The public id of a refund, `re_` and 16 characters: made from the object and the key under which it is asked for, so
/// that it is the same at every try.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RefundId(pub String);

impl RefundId {
    /// The refund that this key of this object makes.
    pub fn of(object: ObjectId, key_hash: &str) -> Self {
        let hash = digest(&[b"refund", object.as_bytes(), key_hash.as_bytes()]);
        Self(format!("re_{}", BASE64URL_NOPAD.encode(hash.get(..12).unwrap_or_default())))
    }
}

impl fmt::Display for RefundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
