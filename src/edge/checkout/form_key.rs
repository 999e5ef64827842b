//! The key of a checkout form: fresh each time the form is shown, and of no use but with that order's link.
//!
//! ```text
//! base64url( version 1 · expires_at_ms 8 · nonce 16 · HMAC-SHA256 of all that, the order's object and its link 32 )
//! ```
//!
//! 76 characters, a valid `Idempotency-Key`. A second form of the same order has another key: both meet in the order's
//! object, which is paid once.

use data_encoding::BASE64URL_NOPAD;
use hmac::Mac;

use super::order_token::link_hash;
use crate::edge::token::{TokenError, mac};
use crate::machine::id::ObjectId;

const VERSION: u8 = 1;
const DOMAIN: &[u8] = b"paid-once checkout form\0";
const SIGNED_LEN: usize = 25;
const KEY_LEN: usize = SIGNED_LEN + 32;

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
    /// Random: no two forms have the same.
    pub nonce: [u8; 16],
    /// Until when it may start something, in ms since the epoch.
    pub expires_at_ms: u64,
}

impl FormKey {
    /// The key as text, signed with the first signing key.
    pub fn seal(&self, place: Place<'_>, signing_keys: &[String]) -> String {
        let mut bytes = Vec::with_capacity(KEY_LEN);
        bytes.push(VERSION);
        bytes.extend(self.expires_at_ms.to_be_bytes());
        bytes.extend(self.nonce);
        let signature = signing_keys.first().and_then(|key| sign(key, &bytes, place));
        bytes.extend(signature.map(|mac| mac.finalize().into_bytes()).unwrap_or_default());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Opens a key: version, signature (in constant time), order, link. Whether it has expired is for the caller to say.
    pub fn open(text: &str, place: Place<'_>, signing_keys: &[String]) -> Result<Self, TokenError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| TokenError::Malformed)?;
        if bytes.len() != KEY_LEN {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = bytes.split_at(SIGNED_LEN);
        let genuine =
            |key: &String| sign(key, signed, place).is_some_and(|mac| mac.verify_slice(signature).is_ok());
        if !signing_keys.iter().any(genuine) || !signed.starts_with(&[VERSION]) {
            return Err(TokenError::Forged);
        }
        let part = |from: usize, to: usize| signed.get(from..to).unwrap_or_default();
        Ok(Self {
            expires_at_ms: u64::from_be_bytes(part(1, 9).try_into().map_err(|_| TokenError::Malformed)?),
            nonce: part(9, 25).try_into().map_err(|_| TokenError::Malformed)?,
        })
    }
}

fn sign(key: &str, signed: &[u8], place: Place<'_>) -> Option<hmac::Hmac<sha2::Sha256>> {
    mac(key, DOMAIN, &[signed, place.object.as_bytes(), &link_hash(place.link)])
}
