//! Requests as they came, and what was read in them.
//!
//! The same bytes are read alike, so what was read once needs not be read again: under which key, by whom, what it stands for, and which object has
//! it. Nothing of the request itself is kept but its digest, and nothing of what it was answered. How things stand now is for others to say: the
//! copies, or the object.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use once::fingerprint::Fingerprint;
use once::id::{ObjectId, Owner};
use once::key::KeyHash;
use sha2::{Digest, Sha256};

/// How many are remembered at most is twice this: one takes about a kilobyte.
pub const REQUESTS_MAX: usize = 1_000;

/// Under which key a request runs, and where: what its bytes and its owner's settings alone decide.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Whose key it is.
    pub owner: Owner,
    /// Which key.
    pub key_hash: KeyHash,
    /// What it stands for.
    pub fingerprint: Fingerprint,
    /// Where it runs.
    pub object: ObjectId,
}

type Remembered<T> = HashMap<u64, ([u8; 32], T)>;

/// What was read in the requests that came or were found last; `T` is that. One of a head: its address, and all of its headers that its answer
/// depends on.
pub struct Requests<T> {
    hasher: RandomState,
    newest: Remembered<T>,
    /// Those that were not found since there were too many.
    older: Remembered<T>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), newest: HashMap::new(), older: HashMap::new() }
    }
}

impl<T: Clone> Requests<T> {
    /// Remembers what was read in a request.
    pub fn remember(&mut self, head: &str, body: &[u8], read: T) {
        let name = self.name(head);
        self.older.remove(&name);
        self.insert(name, (digest(head, body), read));
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Whether a request with this head may be remembered: its body is worth to be read.
    pub fn knows(&self, head: &str) -> bool {
        let name = self.name(head);
        self.newest.contains_key(&name) || self.older.contains_key(&name)
    }

    /// What was read in the request that came last with this head.
    pub fn last_of(&self, head: &str) -> Option<T> {
        let name = self.name(head);
        self.newest.get(&name).or_else(|| self.older.get(&name)).map(|(_, read)| read.clone())
    }

    /// What was read in this very request.
    pub fn recall(&mut self, head: &str, body: &[u8]) -> Option<T> {
        let name = self.name(head);
        if let Some(used) = self.older.remove(&name) {
            self.insert(name, used);
        }
        let (of, read) = self.newest.get(&name)?;
        (*of == digest(head, body)).then(|| read.clone())
    }

    fn insert(&mut self, name: u64, request: ([u8; 32], T)) {
        if self.newest.len() >= REQUESTS_MAX {
            self.older = std::mem::take(&mut self.newest);
        }
        self.newest.insert(name, request);
    }

    fn name(&self, head: &str) -> u64 {
        self.hasher.hash_one(head)
    }
}

/// No head has a zero in it.
fn digest(head: &str, body: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(head).chain_update([0]).chain_update(body).finalize().into()
}
