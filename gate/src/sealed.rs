//! What is kept of an answer, sealed under the secret of its key: see [`aes_gcm`].

use runtime::aes_gcm;
use serde::{Deserialize, Serialize};

use crate::cookies::Sent;
use crate::secret::Secret;

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// All but the body.
    pub head: Head,
    /// The body; empty if it was too large to be kept.
    pub body: Vec<u8>,
}

/// All but the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The headers of the answer.
    pub headers: Vec<(String, String)>,
    /// The cookies with which it was sent first.
    pub first: Vec<Sent>,
    /// The body is there.
    pub is_whole: bool,
    /// It lies in the bucket, sealed with this head.
    #[serde(default)]
    pub in_bucket: bool,
}

fn key(secret: &Secret) -> [u8; 32] {
    secret.digest("seal").bytes()
}

/// Seals it: `nonce 12 · encrypted( length of the head 4 · head as JSON · body )`.
///
/// # Errors
/// Where the runtime's cryptography fails.
pub async fn seal(kept: &Kept, secret: &Secret) -> worker::Result<Vec<u8>> {
    let head = serde_json::to_vec(&kept.head)?;
    let length = u32::try_from(head.len()).unwrap_or(u32::MAX).to_be_bytes();
    let plain = [&length[..], &head, &kept.body].concat();
    aes_gcm::seal(&key(secret), &plain, &[]).await
}

/// Opens it; `None` if it is not of this secret.
pub async fn open(sealed: &[u8], secret: &Secret) -> Option<Kept> {
    let plain = aes_gcm::open(&key(secret), sealed, &[]).await?;
    let (length, rest) = plain.split_first_chunk()?;
    let (head, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(Kept { head: serde_json::from_slice(head).ok()?, body: body.to_vec() })
}
