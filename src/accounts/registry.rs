//! The way to the tables of accounts: D1, or objects that read it for all isolates.
//!
//! The time for which something counts is one for both: an object gives what it has read less than half of `ACCOUNTS_CACHE_MS` ago, and says how old it is;
//! an isolate keeps it for the rest. So it is never older than `ACCOUNTS_CACHE_MS`, and an isolate need not ask before half of that is over.

use serde::de::DeserializeOwned;
use worker::{Env, Result};

use crate::config::Config;
use runtime::row_cache::RowCache;

/// The binding of the objects. Without it each isolate reads D1.
const BINDING: &str = "ACCOUNTS_CACHE";

/// The rows of a statement with one value, and when they were read, in ms since the epoch. `now_ms` is a moment before it is asked. They count for
/// `fresh_ms`, and for no longer than `ACCOUNTS_CACHE_MS`.
pub(crate) async fn read<T: DeserializeOwned>(
    env: &Env,
    config: &Config,
    (sql, value): (&str, &str),
    fresh_ms: u64,
    now_ms: u64,
) -> Result<(Vec<T>, u64)> {
    let cache = RowCache {
        binding: BINDING,
        objects: config.accounts_cache_shards,
        lasts_ms: config.accounts_cache_ms.min(fresh_ms) / 2,
    };
    let found = cache.rows(env, sql, value).await?;
    Ok((found.rows, now_ms.saturating_sub(found.age_ms)))
}
