//! Compares Stripe's books with ours and records where they differ. It reads Stripe's events, balance transactions and payments. A run
//! that does not finish is continued by the next one, and nothing that was found is dropped.
//!
//! Reconciliation never moves money. It asks the object that a break is about to find out what is true and to update the read
//! model, even when the read model does not know the object: this also finds objects that lost their alarm and all their
//! projections. What the object cannot repair stays on the admin pages for a person.
//!
//! - [`session`]: one run's state, its reads and writes;
//! - [`books`]: whose books an account's are;
//! - [`lists`]: reads Stripe's lists in rounds of pages and compares them;
//! - [`recheck`]: looks again at what was too recent, was in no list, or is an open break;
//! - [`overdue`]: flags payments whose money or whose webhook is late.

mod books;
mod lists;
mod overdue;
mod recheck;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Error, Result};

use self::session::Reconciliation;
use super::breaks;
use super::cursor::Source;
use super::pace::Used;
use crate::config::Config;
use crate::operations;
use messages::operations::{PaymentsSettings, SETTINGS_PATH};
use once::account::Credential;
use once::call::FrozenRequest;
use payments::providers::Provider;
use runtime::db::Db;
use runtime::places::ReadModel;

/// How many connected accounts are compared in one run.
const CONNECTED_MAX: usize = 4;

/// Runs one reconciliation. The result says how much was compared and what came of it.
pub(super) async fn reconcile(env: &Env) -> Result<Value> {
    let config = Config::of(env).map_err(Error::RustError)?;
    let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
    let now_ms = Date::now().as_millis();
    let mut run = Reconciliation {
        db: Db::of(env)?,
        model: ReadModel::of(env),
        env: env.clone(),
        window_ms: config.reconcile_window_ms,
        quiet_since_ms: now_ms.saturating_sub(config.reconcile_quiet_ms),
        now_ms,
        account: None,
        live: settings.stripe.live,
        same_books: None,
        share: 1,
        used: Used::default(),
        used_before: Used::default(),
        next_read_at_ms: 0,
        movements: 0,
        compared: BTreeSet::new(),
        breaks: BTreeSet::new(),
        resolved: 0,
    };
    let silent = run.flag_silent_adyen().await;
    run.identify(settings.stripe).await?;
    // An account or list that cannot be read does not stop the others.
    let mut errors: Vec<Error> =
        silent.as_ref().err().map(|error| Error::RustError(error.to_string())).into_iter().collect();
    let accounts = run.accounts(settings.stripe_accounts).await?;
    run.share = u32::try_from(accounts.len()).unwrap_or(u32::MAX).max(1);
    let mut read = Lists::default();
    let (mut unmoved, mut without_keys) = (0, 0);
    for account in &accounts {
        run.account.clone_from(account);
        match run.find_books().await {
            Ok(true) => {}
            Ok(false) => {
                without_keys += 1;
                continue;
            }
            Err(error) => {
                errors.push(error);
                continue;
            }
        }
        run.used.ran_ms = Date::now().as_millis().saturating_sub(now_ms);
        run.used_before = run.used;
        let (found, failed) = run.compare_account(&mut read).await;
        unmoved += found;
        errors.extend(failed);
    }
    let asked = breaks::ask_objects(env, &run.db, Provider::Stripe, now_ms).await?;
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let mut result = json!({ "accounts": accounts.len(), "complete": read.is_complete });
    for (source, through_ms) in &read.through_ms {
        if let Some(result) = result.as_object_mut() {
            result.insert(format!("{source}_lag_ms"), now_ms.saturating_sub(*through_ms).into());
        }
    }
    if let Some(result) = result.as_object_mut() {
        if without_keys > 0 {
            result.insert("without_keys".to_owned(), without_keys.into());
        }
        result.insert("compared".to_owned(), run.compared.len().into());
        result.insert("movements".to_owned(), run.movements.into());
        result.insert("breaks".to_owned(), run.breaks.len().into());
        result.insert("resolved".to_owned(), run.resolved.into());
        result.insert("unmoved".to_owned(), unmoved.into());
        result.insert("asked".to_owned(), asked.into());
        result.insert("silent".to_owned(), silent?.into());
        if let Some(missing) = run.model.missing() {
            result.insert("missing".to_owned(), missing.into());
        }
    }
    Ok(result)
}

/// How far the lists were read in all accounts.
#[derive(Default)]
struct Lists {
    /// Until when each was read in every account, in ms since the epoch.
    through_ms: BTreeMap<&'static str, u64>,
    /// Whether the newest payments of each account were reached.
    is_complete: bool,
    /// Whether one account's list of payments was not read to the end.
    is_left_off: bool,
}

impl Reconciliation {
    /// Checks that the configured key belongs to the account whose payments are compared. Another account has none of our payments, so
    /// all of them would seem to be missing.
    async fn identify(&mut self, credential: Credential) -> Result<()> {
        #[derive(Deserialize)]
        struct Known {
            account: String,
            credential: String,
        }
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let credential_name = credential.to_string();
        let known: Vec<Known> =
            self.rows("SELECT account, credential FROM compared_account", Vec::new()).await?;
        let known = known.into_iter().next();
        if known.as_ref().is_some_and(|known| known.credential == credential_name) {
            return Ok(());
        }
        let answer = self.get(&FrozenRequest::new("/v1/account".to_owned(), String::new())).await?;
        let named = serde_json::from_str::<Named>(&answer.body).ok().filter(|_| answer.status == 200);
        let Some(Named { id }) = named else {
            return Err(Error::RustError(format!(
                "of which account the configured key is was answered {}: allow it to read the account. Nothing is compared until then",
                answer.status
            )));
        };
        let account = format!("{id} ({})", if credential.live { "live" } else { "test" });
        if let Some(known) = known.filter(|known| known.account != account) {
            return Err(Error::RustError(format!(
                "the configured key is of {account}; payments of {} are not compared",
                known.account
            )));
        }
        let sql = "INSERT INTO compared_account (id, account, credential) VALUES (1, ?1, ?2)
            ON CONFLICT (id) DO UPDATE SET credential = excluded.credential";
        self.run(sql, vec![account.into(), credential_name.into()]).await.map(drop)
    }

    /// The key's own account, and the connected accounts, or ones with keys of their own, with payments. If these are more than one run reads, each run begins with
    /// others.
    async fn accounts(&mut self, configured: Vec<String>) -> Result<Vec<Option<String>>> {
        #[derive(Deserialize)]
        struct Used {
            stripe_account: String,
        }
        // From one to the next in the index: `DISTINCT` reads every payment of each.
        let sql = "WITH RECURSIVE used (stripe_account) AS (
                SELECT min(stripe_account) FROM payments WHERE stripe_account IS NOT NULL
                UNION ALL SELECT (SELECT min(p.stripe_account) FROM payments p WHERE p.stripe_account > used.stripe_account)
                FROM used WHERE used.stripe_account IS NOT NULL)
             SELECT stripe_account FROM used WHERE stripe_account IS NOT NULL";
        let used: Vec<Used> = self.rows_of_all(sql, Vec::new()).await?;
        let connected: BTreeSet<String> =
            used.into_iter().map(|used| used.stripe_account).chain(configured).collect();
        let count = u64::try_from(connected.len()).unwrap_or(u64::MAX).max(1);
        let first = usize::try_from(self.now_ms % count).unwrap_or(0);
        let turn = connected.iter().cycle().skip(first).take(connected.len().min(CONNECTED_MAX));
        Ok(std::iter::once(None).chain(turn.cloned().map(Some)).collect())
    }

    /// Compares one account. Returns how many of our movements of money are not in its balance, and what failed.
    async fn compare_account(&mut self, lists: &mut Lists) -> (usize, Vec<Error>) {
        let mut errors: Vec<Error> = self.recheck_recent().await.err().into_iter().collect();
        for source in Source::ALL {
            match self.read_list(source).await {
                Ok((through_ms, is_over)) => {
                    let least = lists.through_ms.entry(source.as_str()).or_insert(through_ms);
                    *least = through_ms.min(*least);
                    if source == Source::Payments {
                        lists.is_left_off |= !is_over;
                    }
                }
                Err(error) => {
                    lists.is_left_off |= source == Source::Payments;
                    errors.push(error);
                }
            }
        }
        lists.is_complete = !lists.is_left_off;
        errors.extend(self.check_unlisted().await.err());
        errors.extend(self.recheck_open_breaks().await.err());
        let unmoved = self.flag_unmoved().await;
        let found = unmoved.as_ref().copied().unwrap_or(0);
        errors.extend(unmoved.err());
        let name = |error: Error| match &self.account {
            Some(account) => Error::RustError(format!("{account}: {error}")),
            None => error,
        };
        (found, errors.into_iter().map(name).collect())
    }
}
