//! The public ids of what lives in an object.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde::{Deserialize, Serialize};

use once::id::{ObjectId, digest};

once::resource_id!(
    /// The public id of a payment.
    PaymentId,
    "pay_",
    "payments"
);

impl PaymentId {
    /// The address of its refunds.
    pub fn refunds_path(self) -> String {
        format!("{}/refunds", self.path())
    }
}

once::resource_id!(
    /// Our id of a customer: what marks it at the provider, and names it to an operator. Clients know it by its address.
    CustomerId,
    "cust_",
    "customers"
);

/// The object of a payment's id, or of a customer's; `None` for anything else.
pub fn object_of(id: &str) -> Option<ObjectId> {
    let customer = || CustomerId::parse(id).map(CustomerId::object);
    PaymentId::parse(id).map(PaymentId::object).or_else(customer)
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
        Self(format!("re_{}", Base64UrlUnpadded::encode_string(hash.get(..12).unwrap_or_default())))
    }
}

impl fmt::Display for RefundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Crockford's base32: none of its characters is read as another one.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// So many characters has a reference, without its hyphen.
const REFERENCE_LEN: usize = 8;
/// So many characters of an id, with its prefix, are in a reference as a whole.
const ID_PREFIX_LEN: usize = 10;

/// What people call a payment by, on a receipt and on the telephone: the first 40 bits of its id, such as `7K3M-9QXD`.
pub fn reference(payment: PaymentId) -> String {
    let object = payment.object();
    let bits = object.as_bytes().iter().take(5).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    let character = |at: usize| {
        let index = (bits >> (5 * (REFERENCE_LEN - 1 - at))) & 31;
        ALPHABET.get(usize::try_from(index).unwrap_or_default()).map_or('0', |byte| char::from(*byte))
    };
    let (first, second): (String, String) =
        ((0..4).map(character).collect(), (4..8).map(character).collect());
    format!("{first}-{second}")
}

/// How the ids of a reference begin; `None` for anything else. Read as people write it: in lower case, without the hyphen, with O for 0.
pub fn id_prefix(reference: &str) -> Option<String> {
    let characters: Vec<char> =
        reference.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_uppercase()).collect();
    if characters.len() != REFERENCE_LEN {
        return None;
    }
    let bits = characters.into_iter().try_fold(0_u64, |bits, character| {
        let character = match character {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        };
        let index = ALPHABET.iter().position(|byte| char::from(*byte) == character)?;
        Some((bits << 5) | u64::try_from(index).ok()?)
    })?;
    let bytes = bits.to_be_bytes();
    let id = format!("pay_{}", Base64UrlUnpadded::encode_string(bytes.get(3..)?));
    id.get(..ID_PREFIX_LEN).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_leads_back_to_its_payment_as_people_write_it() {
        for seed in 0_u8..=255 {
            let bytes: [u8; 32] = digest(&[b"object", &[seed]]);
            let payment = PaymentId::in_object(ObjectId::from_bytes(bytes));
            let reference = reference(payment);
            assert_eq!(reference.len(), 9, "{reference}");
            let prefix = id_prefix(&reference).unwrap();
            assert!(payment.to_string().starts_with(&prefix), "{payment} {prefix}");
            let spoken = reference.to_lowercase().replace('-', "").replace('0', "o").replace('1', "l");
            assert_eq!(id_prefix(&spoken), Some(prefix));
        }
        for other in ["", "pay_1", "7K3M-9QX", "7K3M-9QXDA", "UUUU-UUUU", "order-12"] {
            assert_eq!(id_prefix(other), None, "{other}");
        }
    }
}
