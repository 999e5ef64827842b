//! The key of a form: minted by the server, signed, and bound to a session, a purpose and a time.
//!
//! ```text
//! base64url( version 1 · purpose 1 · expires_at_ms 8 · object id 32 · signature of all that and the owner 36 )
//! ```
//!
//! It is 104 characters long and so a valid `Idempotency-Key`. Random by nature: the object id is a fresh unique id.
//! Unforgeable without the signing key, and useless in another session.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use uuid::Uuid;

use crate::signing::{Purpose, SIGNATURE_LEN, SigningKeys};
use once::id::{ObjectId, Owner};

const VERSION: u8 = 1;
const SIGNED_LEN: usize = 42;
const TOKEN_LEN: usize = SIGNED_LEN + SIGNATURE_LEN;

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
    /// One of the desk, where no object is the key: a UUID takes its place, and zeros follow. Older ones have any 32 bytes there.
    pub fn of_desk(id: Uuid, expires_at_ms: u64) -> Self {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
        Self { object: ObjectId::from_bytes(bytes), expires_at_ms }
    }

    /// The token as text, signed with the first key.
    pub fn seal(&self, purpose: Purpose, owner: &Owner, signing_keys: &SigningKeys) -> String {
        let mut bytes = Vec::with_capacity(TOKEN_LEN);
        bytes.extend([VERSION, purpose as u8]);
        bytes.extend(self.expires_at_ms.to_be_bytes());
        bytes.extend(self.object.as_bytes());
        bytes.extend(signing_keys.sign(purpose, &[&bytes, owner.to_text().as_bytes()]));
        Base64UrlUnpadded::encode_string(&bytes)
    }

    /// Opens a token: version, signature (in constant time), session, purpose. Whether it has expired is for the
    /// caller to say, with [`expires_at_ms`](Self::expires_at_ms).
    pub fn open(
        text: &str,
        purpose: Purpose,
        owner: &Owner,
        signing_keys: &SigningKeys,
    ) -> Result<Self, TokenError> {
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| TokenError::Malformed)?;
        let (signed, signature) = bytes.split_at_checked(SIGNED_LEN).ok_or(TokenError::Malformed)?;
        let genuine = signing_keys
            .verify(purpose, &[signed, owner.to_text().as_bytes()], signature)
            .filter(|_| signed.starts_with(&[VERSION, purpose as u8]))
            .ok_or(TokenError::Forged)?;
        let part = |from: usize, to: usize| signed.get(from..to).unwrap_or_default();
        let expires_at_ms = u64::from_be_bytes(part(2, 10).try_into().map_err(|_| TokenError::Malformed)?);
        Ok(Self {
            expires_at_ms: expires_at_ms.min(genuine.ends_at_ms),
            object: ObjectId::from_bytes(part(10, 42).try_into().map_err(|_| TokenError::Malformed)?),
        })
    }
}
