//! The key of a checkout form: fresh each time the form is shown, and of no use but with that order's link.
//!
//! ```text
//! base64url( version 1 · expires_at_ms 8 · UUID 16 · signature of all that, the order's object and its link 36 )
//! ```
//!
//! 82 characters, a valid `Idempotency-Key`. A second form of the same order has another key: both meet in the order's
//! object, which is paid once.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use uuid::Uuid;

use super::order_token::link_hash;
use once::id::ObjectId;
use web::signing::{Purpose, SIGNATURE_LEN, SigningKeys};
use web::token::TokenError;

const VERSION: u8 = 1;
const SIGNED_LEN: usize = 25;
const KEY_LEN: usize = SIGNED_LEN + SIGNATURE_LEN;

/// Which order's form it is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The order's object.
    pub object: ObjectId,
    /// The link under which the form stands.
    pub link: &'a str,
}

/// A key that this server made for a form of this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormKey {
    /// Random: no two forms have the same. Older keys have any 16 bytes here.
    pub nonce: Uuid,
    /// Until when it may start something, in ms since the epoch.
    pub expires_at_ms: u64,
}

impl FormKey {
    /// The key as text, signed with the first signing key.
    pub fn seal(&self, place: Place<'_>, signing_keys: &SigningKeys) -> String {
        let mut bytes = Vec::with_capacity(KEY_LEN);
        bytes.push(VERSION);
        bytes.extend(self.expires_at_ms.to_be_bytes());
        bytes.extend(self.nonce.as_bytes());
        bytes.extend(
            signing_keys.sign(Purpose::OrderForm, &[&bytes, place.object.as_bytes(), &link_hash(place.link)]),
        );
        Base64UrlUnpadded::encode_string(&bytes)
    }

    /// Opens a key: version, signature (in constant time), order, link. Whether it has expired is for the caller to say.
    pub fn open(text: &str, place: Place<'_>, signing_keys: &SigningKeys) -> Result<Self, TokenError> {
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| TokenError::Malformed)?;
        let (signed, signature) = bytes.split_at_checked(SIGNED_LEN).ok_or(TokenError::Malformed)?;
        let genuine = signing_keys
            .verify(Purpose::OrderForm, &[signed, place.object.as_bytes(), &link_hash(place.link)], signature)
            .filter(|_| signed.starts_with(&[VERSION]))
            .ok_or(TokenError::Forged)?;
        let part = |from: usize, to: usize| signed.get(from..to).unwrap_or_default();
        let expires_at_ms = u64::from_be_bytes(part(1, 9).try_into().map_err(|_| TokenError::Malformed)?);
        Ok(Self {
            expires_at_ms: expires_at_ms.min(genuine.ends_at_ms),
            nonce: Uuid::from_slice(part(9, 25)).map_err(|_| TokenError::Malformed)?,
        })
    }
}
