//! Copies of stored responses in the memory of an isolate: a replay that finds one is answered at the edge, without the key's object.
//!
//! A copy is only what its object has called final: the response of a key that has ended. It is found by the hash of owner and key, and given
//! only to the same owner for a request of the same fingerprint; whatever else comes under the key is the object's to judge. It lasts
//! no longer than the response itself, and no longer than `REPLAY_CACHE_MS`.
//!
//! When an object of this isolate drops a response (it expires, is forgotten, or the personal data goes) its copy goes with it, and none is
//! kept for as long as a copy lasts: an answer may be on its way. Other isolates keep theirs for at most `REPLAY_CACHE_MS`.
//! Nothing depends on a copy: without one the object answers the same.
//!
//! What was read in a request is remembered beside the copies ([`requests`]): one that is the same byte for byte needs not be read again.

pub(crate) mod isolate;
pub mod requests;

use std::collections::{BTreeMap, HashMap};

use once::fingerprint::Fingerprint;
use once::id::{ObjectId, Owner, RequestId};
use once::key::KeyHash;
use once::record::StoredResponse;

/// The longest time that `REPLAY_CACHE_MS` can set, in ms: after it erased data is in no copy any more.
pub const LASTS_MAX_MS: u64 = 60_000;
/// The most that an isolate keeps, in bytes: it has 128 MB for all that it does.
const BYTES_MAX: usize = 4 << 20;
/// The longest response that is kept, in bytes.
const BODY_MAX_BYTES: usize = 64 << 10;
/// What a copy takes beside its texts, in bytes.
const COPY_BYTES: usize = 512;

/// A response that is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// Whose key it is.
    pub owner: Owner,
    /// What the key stands for.
    pub fingerprint: Fingerprint,
    /// Where it ran.
    pub object: ObjectId,
    /// The response.
    pub response: StoredResponse,
    /// The request that first used the key.
    pub original_request: RequestId,
    /// Without the key a duplicate would have been a second charge.
    pub took_money: bool,
}

impl Final {
    fn bytes(&self) -> usize {
        let headers = self.response.headers.iter().map(|(name, value)| name.len() + value.len());
        self.response.body.len() + headers.sum::<usize>() + COPY_BYTES
    }
}

struct Kept {
    /// `None` where the response was dropped.
    copy: Option<Final>,
    until_ms: u64,
    bytes: usize,
    used: u64,
}

/// The copies of an isolate: those that were used last, up to a size.
#[derive(Default)]
pub struct ReplayCache {
    kept: HashMap<KeyHash, Kept>,
    /// The keys, in the order of their last use.
    by_use: BTreeMap<u64, KeyHash>,
    uses: u64,
    bytes: usize,
}

impl ReplayCache {
    /// Keeps a copy, in ms since the epoch. Not of a response that was dropped a moment ago.
    pub fn keep(&mut self, key_hash: &KeyHash, copy: Final, until_ms: u64, now_ms: u64) {
        let is_dropped =
            self.kept.get(key_hash).is_some_and(|kept| kept.copy.is_none() && now_ms < kept.until_ms);
        if now_ms < until_ms && !is_dropped && copy.response.body.len() <= BODY_MAX_BYTES {
            self.insert(key_hash, Some(copy), until_ms);
        }
    }

    /// The response to this request, if there is a copy of it.
    pub fn find(
        &mut self,
        owner: &Owner,
        key_hash: &KeyHash,
        fingerprint: &Fingerprint,
        now_ms: u64,
    ) -> Option<&Final> {
        let kept = self.used(key_hash, now_ms)?;
        kept.copy.as_ref().filter(|copy| copy.owner == *owner && copy.fingerprint == *fingerprint)
    }

    /// What is kept under a key, used once more; unless its time is over.
    fn used(&mut self, key_hash: &KeyHash, now_ms: u64) -> Option<&Kept> {
        if self.kept.get(key_hash)?.until_ms <= now_ms {
            self.remove(key_hash);
        }
        let kept = self.kept.get_mut(key_hash)?;
        self.uses = self.uses.saturating_add(1);
        if let Some(key) = self.by_use.remove(&kept.used) {
            kept.used = self.uses;
            self.by_use.insert(self.uses, key);
        }
        Some(kept)
    }

    /// The response is dropped: there is no copy of it any more, and none is kept before then.
    pub fn forget(&mut self, key_hash: &KeyHash, until_ms: u64) {
        self.insert(key_hash, None, until_ms);
    }

    fn insert(&mut self, key_hash: &KeyHash, copy: Option<Final>, until_ms: u64) {
        self.remove(key_hash);
        let bytes = copy.as_ref().map_or(COPY_BYTES, Final::bytes);
        self.uses = self.uses.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.by_use.insert(self.uses, key_hash.clone());
        self.kept.insert(key_hash.clone(), Kept { copy, until_ms, bytes, used: self.uses });
        self.bound();
    }

    fn bound(&mut self) {
        while self.bytes > BYTES_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key_hash: &KeyHash) {
        if let Some(kept) = self.kept.remove(key_hash) {
            self.by_use.remove(&kept.used);
            self.bytes = self.bytes.saturating_sub(kept.bytes);
        }
    }
}
