//! The key of a form: minted by the server, signed, and bound to a session, a purpose and a time.
//!
//! ```text
//! base64url( version 1 · purpose 1 · expires_at_ms 8 · object id 32 · HMAC-SHA256 of all that and the owner 32 )
//! ```
//!
//! It is 99 characters long and so a valid `Idempotency-Key`. Random by nature: the object id is a fresh unique id.
//! Whoever has not the signing key cannot make one, and nobody can use another session's.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::machine::id::{ObjectId, Owner};

const VERSION: u8 = 1;
const SIGNED_LEN: usize = 42;
const TOKEN_LEN: usize = SIGNED_LEN + 32;

/// What a form is for: a token of one form is no good in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// `POST /rides`
    Ride = 1,
    /// An operator's session
    DeskSession = 16,
    /// A button of the operator's desk
    DeskAction = 17,
}

/// A token that this server made for this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormToken {
    /// The object that is the key.
    pub object: ObjectId,
    /// Until when it may start something, in ms since the epoch.
    pub expires_at_ms: u64,
}

/// Why a token is refused. All of these look the same to whoever sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not a token at all.
    Malformed,
    /// Not signed by us, or for another session or purpose.
    Forged,
}

impl FormToken {
    /// The token as text, signed with the first key.
    pub fn seal(&self, purpose: Purpose, owner: &Owner, signing_keys: &[String]) -> String {
        let mut bytes = Vec::with_capacity(TOKEN_LEN);
        bytes.extend([VERSION, purpose as u8]);
        bytes.extend(self.expires_at_ms.to_be_bytes());
        bytes.extend(self.object.as_bytes());
        let signature = signing_keys.first().and_then(|key| sign(key, &bytes, owner));
        bytes.extend(signature.map(|mac| mac.finalize().into_bytes()).unwrap_or_default());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Opens a token: version, signature (in constant time), session, purpose. Whether it has expired is for the
    /// caller to say, with [`expires_at_ms`](Self::expires_at_ms).
    pub fn open(
        text: &str,
        purpose: Purpose,
        owner: &Owner,
        signing_keys: &[String],
    ) -> Result<Self, TokenError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| TokenError::Malformed)?;
        if bytes.len() != TOKEN_LEN {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = bytes.split_at(SIGNED_LEN);
        let genuine =
            |key: &String| sign(key, signed, owner).is_some_and(|mac| mac.verify_slice(signature).is_ok());
        if !signing_keys.iter().any(genuine) || !signed.starts_with(&[VERSION, purpose as u8]) {
            return Err(TokenError::Forged);
        }
        let part = |from: usize, to: usize| signed.get(from..to).unwrap_or_default();
        Ok(Self {
            expires_at_ms: u64::from_be_bytes(part(2, 10).try_into().map_err(|_| TokenError::Malformed)?),
            object: ObjectId::from_bytes(part(10, 42).try_into().map_err(|_| TokenError::Malformed)?),
        })
    }
}

fn sign(key: &str, signed: &[u8], owner: &Owner) -> Option<Hmac<Sha256>> {
    mac(key, b"paid-once form token\0", &[signed, owner.to_text().as_bytes()])
}

/// HMAC-SHA256 for one purpose: its name comes first, so that what is signed for one never passes for another. All parts
/// but the last must have a fixed length.
pub(super) fn mac(key: &str, domain: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length; the configuration refuses short ones.
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(domain);
    for part in parts {
        mac.update(part);
    }
    Some(mac)
}
