//! What an isolate knows of endpoints, as it does of accounts ([`crate::accounts`]): also that there is none, for a moment. What happens in it is told to
//! nobody, however soon the account's endpoint is made.

use std::cell::RefCell;
use std::rc::Rc;

use worker::{Env, Result};

use super::endpoint::{Endpoint, OF_ACCOUNT, Row};
use crate::accounts::known::{Entry, Freshness, Known};
use crate::accounts::read;
use crate::config::Config;
use runtime::log::log;

/// For how long it counts that an account has none, in ms, if `ACCOUNTS_CACHE_MS` is not less.
const NONE_LASTS_MS: u64 = 1_000;

thread_local! {
    static KNOWN: RefCell<Known<Rc<Endpoint>>> = const { RefCell::new(Known::new()) };
}

/// The endpoint of an account. An error means that it is not known whether there is one.
pub(crate) async fn of(
    env: &Env,
    config: &Config,
    account: &str,
    now_ms: u64,
) -> Result<Option<Rc<Endpoint>>> {
    let old = match KNOWN.with_borrow(|known| freshness(known, account, now_ms, config.accounts_cache_ms)) {
        Freshness::Fresh(entry) => return Ok(entry.found),
        Freshness::Stale(entry) => Some(entry),
        Freshness::Unknown => None,
    };
    match read::<Row>(env, config, (OF_ACCOUNT, account), NONE_LASTS_MS, now_ms).await {
        Ok((rows, read_at_ms)) => {
            let found = rows.into_iter().next().and_then(Row::endpoint).map(Rc::new);
            let entry = Entry::of(found.clone(), None);
            KNOWN.with_borrow_mut(|known| known.keep(account.to_owned(), entry, read_at_ms));
            Ok(found)
        }
        Err(error) => {
            log("error", &[("event", "endpoints_unreadable".into()), ("error", error.to_string().into())]);
            old.map(|entry| entry.found).ok_or(error)
        }
    }
}

/// It was changed here.
pub(crate) fn forget(account: &str) {
    KNOWN.with_borrow_mut(|known| known.forget(account));
}

/// What is there counts for so long, in ms; that nothing is there for a moment.
fn freshness<T: Clone>(known: &Known<T>, account: &str, now_ms: u64, lasts_ms: u64) -> Freshness<T> {
    match known.freshness(account, now_ms, lasts_ms) {
        Freshness::Fresh(entry) if entry.found.is_none() => {
            known.freshness(account, now_ms, lasts_ms.min(NONE_LASTS_MS))
        }
        freshness => freshness,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_there_is_none_counts_for_a_moment_and_what_there_is_for_longer() {
        let mut known = Known::new();
        known.keep("with".to_owned(), Entry::of(Some(1), None), 1_000);
        known.keep("without".to_owned(), Entry::of(None, None), 1_000);
        let of = |account, age_ms, lasts_ms| freshness(&known, account, 1_000 + age_ms, lasts_ms);
        let is_fresh =
            |account, age_ms, lasts_ms| matches!(of(account, age_ms, lasts_ms), Freshness::Fresh(_));
        assert!(is_fresh("with", 9_999, 10_000) && !is_fresh("with", 10_000, 10_000));
        assert!(is_fresh("without", NONE_LASTS_MS - 1, 10_000));
        assert_eq!(of("without", NONE_LASTS_MS, 10_000), Freshness::Unknown);
        assert_eq!(of("without", 0, 0), Freshness::Unknown, "where nothing is cached");
    }
}
