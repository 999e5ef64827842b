//! What an isolate knows of the accounts' own keys.

use std::cell::RefCell;
use std::rc::Rc;

use worker::Env;

use super::rows::{self, Row};
use crate::accounts::known::{Entry, Freshness, Known};
use crate::config::{Config, CredentialsKeys, is_live};
use messages::credentials::{CredentialKind, Mode};
use once::account::Credential;
use payments::providers::Provider;
use runtime::log::log;

thread_local! {
    static KNOWN: RefCell<Known<Rc<OwnKeys>>> = const { RefCell::new(Known::new()) };
}

/// The keys of an account, as an isolate knows them.
#[derive(Debug)]
pub(crate) struct OwnKeys {
    pub(crate) account: String,
    keys: CredentialsKeys,
    pub(crate) rows: Vec<Row>,
    /// What stands for the secret key, and for the address to which it goes; or why it cannot be used.
    credential: Result<Credential, String>,
    /// What stands for the merchant account of the key at Adyen; or why it cannot be used.
    pub(super) adyen: Result<Credential, String>,
    /// What a browser uses: no secret.
    publishable_key: Option<String>,
}

impl OwnKeys {
    /// What stands for the secret key. `None` if it cannot be used.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.credential.as_ref().ok().copied()
    }

    /// Whether the secret key moves real money; `None` if there is none.
    pub(crate) fn is_live(&self) -> Option<bool> {
        self.row(CredentialKind::StripeSecretKey).map(|row| row.mode == Some(Mode::Live))
    }

    /// The account at Stripe that the secret key is of; `None` if there is none, or it may not say it.
    pub(crate) fn stripe_account(&self) -> Option<&str> {
        self.row(CredentialKind::StripeSecretKey)?.stripe_account.as_deref()
    }

    /// When the secret key was set, in ms since the epoch; `None` if there is none.
    pub(crate) fn set_at_ms(&self) -> Option<u64> {
        self.row(CredentialKind::StripeSecretKey).map(|row| row.changed_at_ms)
    }

    /// For the checkout.
    pub(crate) fn publishable_key(&self) -> Option<&str> {
        self.publishable_key.as_deref()
    }

    /// Whether they are this account's.
    pub(crate) fn is_of(&self, account: &str) -> bool {
        self.account == account
    }

    /// The secret key, for one call.
    pub(crate) async fn secret(&self) -> Result<String, String> {
        self.credential.as_ref().map_err(Clone::clone)?;
        self.open(CredentialKind::StripeSecretKey).await
    }

    /// With which Stripe signs this account's events. Those that cannot be opened are left out.
    pub(crate) async fn webhook_secrets(&self) -> Vec<String> {
        self.opened(CredentialKind::StripeWebhookSecret).await
    }

    /// One that another can replace, and the one that it has replaced.
    pub(super) async fn opened(&self, kind: CredentialKind) -> Vec<String> {
        let mut secrets = Vec::new();
        for kind in [Some(kind), kind.before()].into_iter().flatten().filter(|kind| self.has(*kind)) {
            secrets.extend(self.open(kind).await.ok());
        }
        secrets
    }

    pub(super) fn row(&self, kind: CredentialKind) -> Option<&Row> {
        self.rows.iter().find(|row| row.is(kind))
    }

    pub(super) fn has(&self, kind: CredentialKind) -> bool {
        self.row(kind).is_some()
    }

    pub(crate) async fn open(&self, kind: CredentialKind) -> Result<String, String> {
        let row =
            self.row(kind).ok_or_else(|| format!("the {} of {} is not set", kind.as_str(), self.account))?;
        self.keys.open(&self.account, kind, &row.sealed).await.ok_or_else(|| {
            format!("the {} of {} cannot be opened with CREDENTIALS_KEY", kind.as_str(), self.account)
        })
    }

    /// None at all.
    fn none(account: &str) -> Self {
        let not_set = |kind: CredentialKind| Err(format!("the {} of {account} is not set", kind.as_str()));
        Self {
            account: account.to_owned(),
            keys: CredentialsKeys::default(),
            rows: Vec::new(),
            credential: not_set(CredentialKind::StripeSecretKey),
            adyen: not_set(CredentialKind::AdyenApiKey),
            publishable_key: None,
        }
    }

    /// Opens what has to be known of them.
    pub(crate) async fn read(config: &Config, account: &str, rows: Vec<Row>) -> Self {
        let keys = config.credentials_keys.clone();
        let mut own = Self { keys, rows, ..Self::none(account) };
        own.credential = match own.open(CredentialKind::StripeSecretKey).await {
            Ok(secret) if config.demo && is_live(&secret) => {
                Err(format!("the stripe_secret_key of {account} is a live one, and this is the demo"))
            }
            Ok(secret) => Ok(credential(config, &secret)),
            Err(why) => Err(why),
        };
        own.adyen = own.read_adyen().await;
        if own.has(CredentialKind::StripePublishableKey) {
            own.publishable_key = own.open(CredentialKind::StripePublishableKey).await.ok();
        }
        own
    }
}

/// What stands for a secret key and the address to which it goes.
pub(crate) fn credential(config: &Config, secret: &str) -> Credential {
    Credential::of(secret, &[&config.stripe_base], is_live(secret))
}

/// Drops what this isolate knows of an account's keys: they were changed.
pub(crate) fn forget(account: &str) {
    KNOWN.with_borrow_mut(|known| known.forget(account));
}

/// They cannot be read now, and were not before.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// Whether this isolate has read the keys of an account not long ago: D1 is not asked for what somebody has made up, or rarely.
pub(crate) fn is_known(config: &Config, account: &str) -> bool {
    let now_ms = runtime::now_ms();
    let known = KNOWN.with_borrow(|known| known.freshness(account, now_ms, config.accounts_cache_ms));
    !matches!(known, Freshness::Unknown)
}

/// The keys of an account, from this isolate's memory or from D1. Also says whether D1 was asked.
pub(crate) async fn of(env: &Env, config: &Config, account: &str) -> (Result<Rc<OwnKeys>, Unreadable>, bool) {
    let now_ms = runtime::now_ms();
    let known = KNOWN.with_borrow(|known| known.freshness(account, now_ms, config.accounts_cache_ms));
    match known {
        Freshness::Fresh(Entry { found: Some(own), .. }) => return (Ok(own), false),
        Freshness::Fresh(Entry { found: None, .. }) => return (Ok(Rc::new(OwnKeys::none(account))), false),
        _ => {}
    }
    match rows::recent(env, config, account, now_ms).await {
        Ok((rows, read_at_ms)) => (Ok(keep(config, account, rows, read_at_ms).await), true),
        Err(error) => {
            log_unreadable(&error);
            match known {
                Freshness::Stale(Entry { found: Some(own), .. }) => (Ok(own), true),
                _ => (Err(Unreadable), true),
            }
        }
    }
}

/// The keys of an account as they stand in D1 now: one that was entered a moment ago counts. While they cannot be read this isolate goes on by what it
/// knows, in all else.
pub(crate) async fn newest(env: &Env, config: &Config, account: &str) -> Result<Rc<OwnKeys>, Unreadable> {
    let now_ms = runtime::now_ms();
    match rows::of(env, account).await {
        Ok(rows) => Ok(keep(config, account, rows, now_ms).await),
        Err(error) => {
            log_unreadable(&error);
            Err(Unreadable)
        }
    }
}

fn log_unreadable(error: &worker::Error) {
    log("error", &[("event", "own_keys_unreadable".into()), ("error", error.to_string().into())]);
}

/// Opens what was read, and remembers it.
async fn keep(config: &Config, account: &str, rows: Vec<Row>, read_at_ms: u64) -> Rc<OwnKeys> {
    let own = if rows.is_empty() {
        OwnKeys::none(account)
    } else {
        let own = OwnKeys::read(config, account, rows).await;
        let has_any = |provider| own.rows.iter().any(|row| row.is_at(provider));
        let found = [(Provider::Stripe, &own.credential), (Provider::Adyen, &own.adyen)];
        let of_those = found.into_iter().filter(|(provider, _)| has_any(*provider));
        for why in of_those.filter_map(|(_, found)| found.as_ref().err()) {
            log("error", &[("event", "own_keys_unusable".into()), ("error", why.as_str().into())]);
        }
        own
    };
    let own = Rc::new(own);
    // Whoever makes accounts up drives out none that has keys.
    let found = (!own.rows.is_empty()).then(|| Rc::clone(&own));
    KNOWN.with_borrow_mut(|known| known.keep(account.to_owned(), Entry::of(found, None), read_at_ms));
    own
}
