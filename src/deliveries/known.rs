//! What an isolate knows of endpoints, as it does of accounts ([`crate::accounts`]): also that there is none. So an account without one costs one
//! look in `ACCOUNTS_CACHE_MS`.

use std::cell::RefCell;
use std::rc::Rc;

use worker::{Env, Result};

use super::endpoint::{Endpoint, OF_ACCOUNT, Row};
use crate::accounts::known::{Entry, Freshness, Known};
use crate::accounts::read;
use crate::config::Config;
use runtime::log::log;

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
    let known = KNOWN.with_borrow(|known| known.freshness(account, now_ms, config.accounts_cache_ms));
    let old = match known {
        Freshness::Fresh(entry) => return Ok(entry.found),
        Freshness::Stale(entry) => Some(entry),
        Freshness::Unknown => None,
    };
    match read::<Row>(env, config, OF_ACCOUNT, account, now_ms).await {
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
