//! Identifiers. Each is parsed once, at the edge; past it nothing that means something is a bare string.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Builder;

/// SHA-256 over the parts, each preceded by its length, so that no two lists of parts collide.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The id of a Durable Object: 32 bytes, written by the runtime as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId([u8; 32]);

impl ObjectId {
    /// From its bytes, as a form token carries them.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// From 64 hexadecimal digits; `None` for anything else.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let bytes = base16ct::mixed::decode_vec(hex).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// That of no object.
    pub(crate) const fn nil() -> Self {
        Self([0; 32])
    }

    /// As 64 lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        base16ct::lower::encode_string(&self.0)
    }

    /// From 43 characters of base64url; `None` for anything else.
    pub fn from_base64url(text: &str) -> Option<Self> {
        let bytes = Base64UrlUnpadded::decode_vec(text).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// As 43 characters of base64url, as public ids have it.
    pub fn to_base64url(self) -> String {
        Base64UrlUnpadded::encode_string(&self.0)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        Self::from_hex(&hex).ok_or_else(|| D::Error::custom("not an object's id"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// Whose key it is: an API account or a browser's session. Only the owner sees a key or what it made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// An API account, by its id in the configuration.
    Account(String),
    /// A browser's session, by the hash of its cookie: the cookie itself is never stored.
    Session(String),
}

impl Owner {
    /// The owner that a session cookie stands for.
    pub fn session(cookie: &str) -> Self {
        let hash = digest(&[b"session", cookie.as_bytes()]);
        Self::Session(base16ct::lower::encode_string(hash.get(..16).unwrap_or_default()))
    }

    /// As it is stored: `account:…` or `session:…`.
    pub fn to_text(&self) -> String {
        match self {
            Self::Account(id) => format!("account:{id}"),
            Self::Session(hash) => format!("session:{hash}"),
        }
    }

    /// From the stored form.
    pub fn from_text(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        match kind {
            "account" => Some(Self::Account(id.into())),
            "session" => Some(Self::Session(id.into())),
            _ => None,
        }
    }
}

/// One incarnation of an object in memory. A lease names its holder, so that a new incarnation knows at once that the
/// holder is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub String);

/// The id of one HTTP request, sent back as `Request-Id`: `req_` and a UUID of version 7, so that ids sort by time. Older
/// rows have another one, of 16 characters: it is kept and shown as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub String);

impl RequestId {
    /// That of a request that came at this time.
    pub fn new(now_ms: u64, random: [u8; 10]) -> Self {
        Self(format!("req_{}", Builder::from_unix_timestamp_millis(now_ms, &random).into_uuid()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
