//! The public ids of what lives in an object.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use once::id::{ObjectId, digest};

/// A public id that encodes the id of the object in which its resource lives, so that the resource is found without an
/// index: a prefix and 43 characters of base64url.
macro_rules! resource_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $collection:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(ObjectId);

        impl $name {
            /// The one that lives in the object.
            pub const fn in_object(object: ObjectId) -> Self {
                Self(object)
            }

            /// Parses the public form; `None` for anything else.
            pub fn parse(text: &str) -> Option<Self> {
                let bytes = BASE64URL_NOPAD.decode(text.strip_prefix($prefix)?.as_bytes()).ok()?;
                Some(Self(ObjectId::from_bytes(bytes.try_into().ok()?)))
            }

            /// The object that holds it.
            pub const fn object(self) -> ObjectId {
                self.0
            }

            /// Its address on this site.
            pub fn path(self) -> String {
                format!("/{}/{self}", $collection)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = &'static str;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text).ok_or(concat!("not an id that begins with ", $prefix))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, BASE64URL_NOPAD.encode(self.0.as_bytes()))
            }
        }
    };
}

resource_id!(
    /// The public id of a ride.
    RideId,
    "ride_",
    "rides"
);
resource_id!(
    /// The public id of a payment.
    PaymentId,
    "pay_",
    "payments"
);

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
