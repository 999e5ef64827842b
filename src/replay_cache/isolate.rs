//! The copies of this isolate.

use std::cell::RefCell;

use once::fingerprint::Fingerprint;
use once::id::Owner;
use once::key::KeyHash;
use payments::engine::{Lifecycle, ObjectState};

use super::{Final, LASTS_MAX_MS, ReplayCache};

thread_local! {
    static COPIES: RefCell<ReplayCache> = RefCell::default();
}

pub(crate) fn keep(key_hash: &KeyHash, copy: Final, until_ms: u64) {
    COPIES.with_borrow_mut(|copies| copies.keep(key_hash, copy, until_ms, runtime::now_ms()));
}

pub(crate) fn find(owner: &Owner, key_hash: &KeyHash, fingerprint: &Fingerprint) -> Option<Final> {
    with(owner, key_hash, fingerprint, Clone::clone)
}

/// Reads in the copy of a response, if there is one.
pub(crate) fn with<R>(
    owner: &Owner,
    key_hash: &KeyHash,
    fingerprint: &Fingerprint,
    read: impl FnOnce(&Final) -> R,
) -> Option<R> {
    let now_ms = runtime::now_ms();
    COPIES.with_borrow_mut(|copies| copies.find(owner, key_hash, fingerprint, now_ms).map(read))
}

pub(crate) fn forget(key_hash: &KeyHash) {
    let until_ms = runtime::now_ms().saturating_add(LASTS_MAX_MS);
    COPIES.with_borrow_mut(|copies| copies.forget(key_hash, until_ms));
}

/// An object has committed: what it does not answer any more is not answered from a copy either.
pub(crate) fn committed(before: &ObjectState, after: &ObjectState) {
    let is_expired = |state: &ObjectState, hash: &KeyHash| {
        state.key_of(hash).is_some_and(|key| matches!(key.lifecycle, Lifecycle::Expired(_)))
    };
    let hashes = after.keys.iter().map(|key| &key.key_hash);
    hashes.filter(|hash| is_expired(after, hash) && !is_expired(before, hash)).for_each(forget);
}
