//! Tokens and accounts that do not exist, counted by the network that they come from: whoever makes them up must not flood D1. What exists is not
//! counted: behind one address of a cloud, or of a provider that tells of its events, there may be thousands of shops.

use std::cell::RefCell;

use worker::Env;

use super::known::{Entry, Freshness, Known};
use runtime::limiter::has_room;

/// The binding that counts them.
const LIMITER: &str = "TOKEN_LIMITER";
/// For how long nothing new is looked up for a network from which too many came, in ms: the limiter can be asked only by counting.
const HELD_MS: u64 = 10_000;

thread_local! {
    static HELD: RefCell<Known<()>> = const { RefCell::new(Known::new()) };
}

/// Whether too many came from there a moment ago.
pub(crate) fn too_many(from: &str, now_ms: u64) -> bool {
    HELD.with_borrow(|held| matches!(held.freshness(from, now_ms, HELD_MS), Freshness::Fresh(_)))
}

/// Counts one that was looked up in vain.
pub(crate) async fn count(env: &Env, from: &str, now_ms: u64) {
    if !has_room(env, LIMITER, from.to_owned()).await {
        HELD.with_borrow_mut(|held| held.keep(from.to_owned(), Entry::of(Some(()), None), now_ms));
    }
}
