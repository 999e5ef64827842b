//! Which API account a token or an id names: one of `API_ACCOUNTS`, or one of the registry in D1, which the desk writes.
//!
//! An isolate goes by what it has read for `ACCOUNTS_CACHE_MS`, so most requests ask nothing. Where `ACCOUNTS_CACHE` is bound its objects read D1, for all
//! isolates ([`read`]). While D1 does not answer it goes by it for
//! ten minutes: payments do not stop with the read model. What was never read then is refused for the moment.
//!
//! An account whose settings were read and mean nothing to this release is refused at once: they may say that it may do less by now, or that its money
//! goes elsewhere.

pub(crate) mod guesses;
pub(crate) mod known;
mod registry;

use std::cell::RefCell;
use std::rc::Rc;

use worker::Env;

use crate::config::{Config, token_hash};
use known::{Entry, Freshness, Known};
use messages::account::{ACCOUNT_OF_ID, ACCOUNT_OF_TOKEN, Account, AccountRow};
pub(crate) use registry::read;
use runtime::log::log;

thread_local! {
    static TOKENS: RefCell<Known<(String, Rc<Account>)>> = const { RefCell::new(Known::new()) };
    static IDS: RefCell<Known<Seller>> = const { RefCell::new(Known::new()) };
}

/// Who sells.
#[derive(Clone, Debug)]
pub(crate) struct Seller {
    /// What the account is set to.
    pub(crate) account: Rc<Account>,
    /// Nothing new is charged for it; what it has charged stays its own.
    pub(crate) is_closed: bool,
}

/// What was found of a token.
pub(crate) enum Found {
    /// Whose it is.
    Account(String, Rc<Account>),
    /// Nobody's.
    Nobody,
    /// Whose it is was not read yet in this isolate, and is not now: too many that no account has came from there.
    TooMany,
}

/// Why it is not known which account is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The registry cannot be read.
    Registry,
    /// The account is there, and its settings cannot be read by this release.
    Settings,
}

/// Whose token it is. Those that no account has are counted by the network that they come from ([`guesses`]).
pub(crate) async fn of_token(
    env: &Env,
    config: &Config,
    token: &str,
    network: &str,
    now_ms: u64,
) -> Result<Found, Unreadable> {
    let hash = token_hash(token);
    if let Some((id, account)) = config.account(&hash) {
        return Ok(Found::Account(id.to_owned(), Rc::clone(account)));
    }
    let known = TOKENS.with_borrow(|tokens| tokens.freshness(&hash, now_ms, config.accounts_cache_ms));
    let entry = match known {
        Freshness::Fresh(entry) => entry,
        old => {
            let is_new = matches!(old, Freshness::Unknown);
            if is_new && guesses::too_many(network, now_ms) {
                return Ok(Found::TooMany);
            }
            match read_token(env, config, &hash, now_ms).await {
                Ok((entry, read_at_ms)) => {
                    if is_new && entry.found.is_none() && !entry.is_unusable {
                        guesses::count(env, network, now_ms).await;
                    }
                    TOKENS.with_borrow_mut(|tokens| tokens.keep(hash, entry.clone(), read_at_ms));
                    entry
                }
                Err(error) => old.instead(&error)?,
            }
        }
    };
    if entry.is_unusable {
        return Err(Unreadable::Settings);
    }
    Ok(match entry.good_at(now_ms) {
        Some((id, account)) => Found::Account(id, account),
        None => Found::Nobody,
    })
}

/// Whose token it is, as far as this isolate may say without asking D1. `hash` is the token's.
pub(crate) fn known(config: &Config, hash: &str, now_ms: u64) -> Option<(String, Rc<Account>)> {
    if let Some((id, account)) = config.account(hash) {
        return Some((id.to_owned(), Rc::clone(account)));
    }
    match TOKENS.with_borrow(|tokens| tokens.freshness(hash, now_ms, config.accounts_cache_ms)) {
        Freshness::Fresh(entry) => entry.good_at(now_ms),
        Freshness::Stale(_) | Freshness::Unknown => None,
    }
}

/// What the registry has of a token, and when it was read, in ms since the epoch.
async fn read_token(
    env: &Env,
    config: &Config,
    hash: &str,
    now_ms: u64,
) -> worker::Result<(Entry<(String, Rc<Account>)>, u64)> {
    let (row, read_at_ms) = first(env, config, ACCOUNT_OF_TOKEN, hash, now_ms).await?;
    let Some(row) = row else { return Ok((Entry::none(), read_at_ms)) };
    let account = match config.accounts.get(&row.id) {
        Some(configured) => Ok(Some(Rc::clone(configured))),
        None => readable(&row, row.active()),
    };
    let ends_at_ms = row.ends_at_ms;
    let entry = account.map_or_else(
        |Unusable| Entry::unusable(),
        |account| Entry::of(account.map(|account| (row.id, account)), ends_at_ms),
    );
    Ok((entry, read_at_ms))
}

/// The account of an id, also a closed one: of an order's link, or of a payment's.
pub(crate) async fn of_id(
    env: &Env,
    config: &Config,
    id: &str,
    now_ms: u64,
) -> Result<Option<Seller>, Unreadable> {
    if let Some(configured) = config.accounts.get(id) {
        return Ok(Some(Seller { account: Rc::clone(configured), is_closed: false }));
    }
    let entry = match IDS.with_borrow(|ids| ids.freshness(id, now_ms, config.accounts_cache_ms)) {
        Freshness::Fresh(entry) => entry,
        old => match read_id(env, config, id, now_ms).await {
            Ok((entry, read_at_ms)) => {
                IDS.with_borrow_mut(|ids| ids.keep(id.to_owned(), entry.clone(), read_at_ms));
                entry
            }
            Err(error) => old.instead(&error)?,
        },
    };
    if entry.is_unusable { Err(Unreadable::Settings) } else { Ok(entry.good_at(now_ms)) }
}

/// What the registry has of an id, and when it was read, in ms since the epoch.
async fn read_id(env: &Env, config: &Config, id: &str, now_ms: u64) -> worker::Result<(Entry<Seller>, u64)> {
    let (row, read_at_ms) = first(env, config, ACCOUNT_OF_ID, id, now_ms).await?;
    let found = row.map_or(Ok(None), |row| {
        let account = readable(&row, row.account())?;
        Ok(account.map(|account| Seller { account, is_closed: !row.is_active() }))
    });
    let entry = found.map_or_else(|Unusable| Entry::unusable(), |found| Entry::of(found, None));
    Ok((entry, read_at_ms))
}

async fn first(
    env: &Env,
    config: &Config,
    sql: &str,
    value: &str,
    now_ms: u64,
) -> worker::Result<(Option<AccountRow>, u64)> {
    let (rows, read_at_ms) = read(env, config, (sql, value), config.accounts_cache_ms, now_ms).await?;
    Ok((rows.into_iter().next(), read_at_ms))
}

/// Its settings cannot be read by this release.
struct Unusable;

fn readable(
    row: &AccountRow,
    account: Result<Option<Account>, serde_json::Error>,
) -> Result<Option<Rc<Account>>, Unusable> {
    account.map(|account| account.map(Rc::new)).map_err(|error| {
        let fields = [
            ("event", "account_unusable".into()),
            ("account", row.id.as_str().into()),
            ("error", json_text::unquoted(&error).into()),
        ];
        log("error", &fields);
        Unusable
    })
}

impl<T: Clone> Freshness<T> {
    /// What was read before, if D1 does not answer and it is not too old.
    fn instead(self, error: &worker::Error) -> Result<Entry<T>, Unreadable> {
        log("error", &[("event", "accounts_unreadable".into()), ("error", error.to_string().into())]);
        match self {
            Self::Fresh(entry) | Self::Stale(entry) => Ok(entry),
            Self::Unknown => Err(Unreadable::Registry),
        }
    }
}
