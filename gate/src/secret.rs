//! What only whoever holds a key can make of it. Nothing of it is in the rows: who reads those finds neither what was sent nor what was answered.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use once::id::digest;
use sha2::Sha256;

/// A MAC under a part of the secret, to which any number of fields is added.
pub struct Digest(Option<Hmac<Sha256>>);

impl Digest {
    /// Adds a field, preceded by its length: no two lists of fields are alike.
    pub fn add(&mut self, field: &[u8]) {
        if let Some(mac) = &mut self.0 {
            mac.update(&(field.len() as u64).to_be_bytes());
            mac.update(field);
        }
    }

    /// Its 32 bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0.map_or([0; 32], |mac| mac.finalize().into_bytes().into())
    }

    /// In hexadecimal digits.
    pub fn hex(self) -> String {
        HEXLOWER.encode(&self.bytes())
    }
}

/// Of one key of one owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// `owner` is what only the owner sends: the cookie of a visitor, the credentials of a client.
    pub fn new(owner: &str, key: &str) -> Self {
        Self(digest(&[b"gate", owner.as_bytes(), key.as_bytes()]))
    }

    /// The same for all that a visitor sends to one address, whatever its key.
    pub fn of_address(owner: &str, address: &str) -> Self {
        Self(digest(&[b"gate address", owner.as_bytes(), address.as_bytes()]))
    }

    /// As it comes from the edge to the object, in memory.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// As it goes from the edge to the object, in memory.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// For one purpose.
    pub fn digest(&self, purpose: &str) -> Digest {
        // HMAC takes keys of any length.
        let mut digest = Digest(Hmac::<Sha256>::new_from_slice(&self.0).ok());
        digest.add(purpose.as_bytes());
        digest
    }

    /// What stands for owner and key in rows and names.
    pub fn name(&self) -> String {
        self.digest("name").hex()
    }

    /// The key under which the origin gets it.
    pub fn origin_key(&self, number: u32) -> String {
        let mut digest = self.digest("origin");
        digest.add(&number.to_be_bytes());
        let mut hex = digest.hex();
        hex.truncate(40);
        format!("gate_{hex}")
    }

    /// What a person can read out to whoever runs the shop.
    pub fn reference(&self) -> String {
        messages::gate::reference(&self.name())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
