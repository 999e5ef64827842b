//! The copies of this isolate.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::Array;
use messages::account::Account;
use once::fingerprint::Fingerprint;
use once::id::Owner;
use once::key::KeyHash;
use payments::engine::{Lifecycle, ObjectState};

use super::{Final, LASTS_MAX_MS, ReplayCache, Verbatim};

/// What a request is answered with that is the same as one before.
pub(crate) struct Prepared {
    /// For `src/verbatim.mjs`: status, headers, body, the end of `Server-Timing`, and the beginning of the line for the log if there is one.
    pub(crate) answer: Array,
    pub(crate) status: u16,
    /// The pattern that the request is of.
    pub(crate) route: &'static str,
    /// What stands for its token.
    pub(crate) token_hash: String,
    /// Whose token that is, as it was read.
    pub(crate) account: Rc<Account>,
}

thread_local! {
    static COPIES: RefCell<ReplayCache<Prepared>> = RefCell::default();
}

pub(crate) fn keep(key_hash: &KeyHash, copy: Final, until_ms: u64) {
    COPIES.with_borrow_mut(|copies| copies.keep(key_hash, copy, until_ms, runtime::now_ms()));
}

pub(crate) fn find(owner: &Owner, key_hash: &KeyHash, fingerprint: &Fingerprint) -> Option<Final> {
    COPIES.with_borrow_mut(|copies| copies.find(owner, key_hash, fingerprint, runtime::now_ms()).cloned())
}

/// See [`ReplayCache::remember`].
pub(crate) fn remember(key_hash: &KeyHash, verbatim: Verbatim<Prepared>) {
    COPIES.with_borrow_mut(|copies| copies.remember(key_hash, verbatim));
}

/// See [`ReplayCache::is_any_remembered`].
pub(crate) fn is_any_remembered() -> bool {
    COPIES.with_borrow(ReplayCache::is_any_remembered)
}

/// See [`ReplayCache::knows`].
pub(crate) fn knows(head: &str) -> bool {
    COPIES.with_borrow(|copies| copies.knows(head))
}

/// See [`ReplayCache::recall`]. `take` says what is wanted of it.
pub(crate) fn recall<R>(
    head: &str,
    body: &[u8],
    take: impl FnOnce(&Prepared, &Final) -> Option<R>,
) -> Option<R> {
    COPIES.with_borrow_mut(|copies| {
        let (prepared, copy) = copies.recall(head, body, runtime::now_ms())?;
        take(prepared, copy)
    })
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
