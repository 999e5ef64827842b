//! Compares Stripe's books with ours and records where they differ. It reads Stripe's events, balance transactions and payments. A run
//! that does not finish is continued by the next one, and nothing that was found is dropped.
//!
//! Reconciliation never moves money. It asks the object that a break is about to find out what is true and to update the read
//! model, even when the read model does not know the object: this also finds objects that lost their alarm and all their
//! projections. What the object cannot repair stays on the admin pages for a person.
//!
//! - [`session`]: one run's state, its reads and writes;
//! - [`books`]: whose books an account's are, and which payments belong to them;
//! - [`periods`]: when which account at Stripe had the payments of an account with keys of its own;
//! - [`lists`]: reads Stripe's lists in rounds of pages and compares them;
//! - [`places`]: finds our payments, of which the lists tell, in whichever place they stand;
//! - [`ours`] and [`known`]: what we have of them there, and [`marks`] what is noted there of what Stripe has;
//! - [`searches`]: looks in all places for what was not found, a part in each run, and [`searching`] does what comes of it;
//! - [`recheck`]: looks again at what was too recent, was in no list, or is an open break;
//! - [`rounds`]: goes round all shards for that, a part of them in each run;
//! - [`overdue`]: flags payments whose money is late;
//! - [`turns`]: whose books have their turn, where the cron compares them, and who has an object that does;
//! - [`unused`]: whether they have anything to compare.
//!
//! There is one code for both ways: which books a run compares is an argument, and they share the limits of its invocation.

mod known;
mod ledgers;
mod lists;
mod marks;
mod ours;
mod overdue;
mod periods;
mod places;
mod recheck;
mod rounds;
mod searches;
mod searching;
mod session;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_places;
#[cfg(test)]
mod simulated_shop;
mod turns;
mod unused;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use worker::{Env, Error, Result};

use self::known::BoundObjects;
use self::periods::{Books, OpenBooks};
use self::places::Finder;
use self::recheck::{UNLISTED_MAX, UNLISTED_OF_A_SHARD_MAX};
use self::rounds::Wanted;
use self::session::Reconciliation;
use super::cursor::Source;
use super::place_stores::BoundPlaces;
use super::run_limits::Used;
use super::{alarms, breaks};
use crate::config::Config;
use crate::operations;
use messages::operations::{PaymentsSettings, SETTINGS_PATH};
use once::account::Credential;
use once::call::FrozenRequest;
use payments::payment::own_keys::account_of;
use payments::providers::Provider;
use runtime::db::Db;
use runtime::places::ReadModel;

/// How many accounts beside the deployment's own are compared in one run of the cron.
const CONNECTED_MAX: usize = 4;
/// How many have their alarms looked after in one run, where they have objects: each is a request.
const ALARMS_MAX: usize = 1_000;

/// The cron's part: compares the books that have their turn; where tasks have objects of their own it sees to it that these do. The result says how
/// much was compared and what came of it.
pub(super) async fn reconcile(env: &Env, is_now: bool) -> Result<Value> {
    let mut run = Reconciliation::begin(env)?;
    let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
    let has_objects = alarms::is_bound(env);
    let most = if has_objects { ALARMS_MAX } else { CONNECTED_MAX };
    run.live = settings.stripe.live;
    // Also where nothing was paid: those that are configured, and those whose key is of books that others have left.
    let configured: Vec<String> = settings.stripe_accounts.into_iter().chain(run.readers().await?).collect();
    let books = run.next_books(most, &configured).await?;
    let result = match has_objects {
        true => run.keep_alarms(books, is_now).await,
        false => {
            let books = run.still_used(books, &configured).await?;
            run.compare_all(&books, settings.stripe).await
        }
    };
    result.map(Value::Object)
}

/// Compares the books of one account, with all that an invocation may use. `None` if they are not compared any more: the account has left, or its key.
pub(super) async fn reconcile_one(env: &Env, account: Option<&str>) -> Result<Option<Value>> {
    let mut run = Reconciliation::begin(env)?;
    let settings: PaymentsSettings = operations::ask(env, SETTINGS_PATH, &()).await?;
    run.account = account.map(str::to_owned);
    let mut is_used = run.is_used(&settings.stripe_accounts).await?;
    if !is_used {
        is_used = run.readers().await?.iter().any(|name| Some(name.as_str()) == account);
    }
    if !is_used {
        run.end_books().await?;
        return Ok(None);
    }
    let books = [run.account.clone()];
    let result = run.compare_all(&books, settings.stripe).await?;
    Ok((!result.contains_key(WITHOUT_KEYS)).then_some(Value::Object(result)))
}

/// In the result: how many accounts have no key any more with which their books could be read.
const WITHOUT_KEYS: &str = "without_keys";

/// How far the lists were read in all accounts.
#[derive(Default)]
struct Lists {
    /// Until when each was read in every account, in ms since the epoch.
    through_ms: BTreeMap<&'static str, u64>,
    /// Whether the newest payments of each account were reached.
    is_complete: bool,
    /// Whether one account's list of payments was not read to the end.
    is_left_off: bool,
    /// How many shards were asked.
    shards: usize,
    /// How long ago the last round of all shards began, in ms.
    shards_lag_ms: u64,
}

impl Reconciliation {
    /// A run of these books that has used nothing yet.
    fn begin(env: &Env) -> Result<Self> {
        let config = Config::of(env).map_err(Error::RustError)?;
        let now_ms = runtime::now_ms();
        Ok(Self {
            db: Db::of(env)?,
            model: ReadModel::of(env),
            finder: Finder::new(BoundPlaces::of(env)?, BoundObjects(env.clone())),
            env: env.clone(),
            window_ms: config.reconcile_window_ms,
            quiet_since_ms: now_ms.saturating_sub(config.reconcile_quiet_ms),
            now_ms,
            account: None,
            live: false,
            books: OpenBooks::default(),
            share: 1,
            used: Used::default(),
            used_before: Used::default(),
            next_read_at_ms: 0,
            movements: 0,
            searching: 0,
            search_missing: None,
            unanswered: 0,
            compared: BTreeSet::new(),
            breaks: BTreeSet::new(),
            resolved: 0,
        })
    }

    /// Compares these books, one after the other, within the limits of one invocation, which they share. One that cannot be read does not
    /// stop the others.
    async fn compare_all(
        &mut self,
        books: &[Option<String>],
        credential: Credential,
    ) -> Result<Map<String, Value>> {
        self.share = u32::try_from(books.len()).unwrap_or(u32::MAX).max(1);
        self.live = credential.live;
        let mut errors = Vec::new();
        let mut read = Lists::default();
        let (mut unmoved, mut asked, mut without_keys) = (0, 0, 0);
        for account in books {
            self.account.clone_from(account);
            match self.open_books(credential).await {
                Ok(true) => self.finder.open(self.account.as_deref(), &self.books.names)?,
                Ok(false) => {
                    without_keys += 1;
                    errors.extend(self.end_books().await.err());
                    continue;
                }
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            }
            self.used.ran_ms = runtime::now_ms().saturating_sub(self.now_ms);
            self.used_before = self.used;
            let (found, failed) = self.compare_account(&mut read).await;
            unmoved += found;
            errors.extend(failed);
            let label = self.books.label.clone();
            let whose = (Provider::Stripe, label.as_deref());
            let most = self.share_of(breaks::ASKED_MAX);
            match breaks::ask_objects(&self.env, &self.db, whose, most, self.now_ms).await {
                Ok(number) => asked += number,
                Err(error) => errors.push(error),
            }
        }
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let mut result = Map::new();
        let mut add = |name: &str, value: Value| drop(result.insert(name.to_owned(), value));
        add("accounts", books.len().into());
        add("complete", read.is_complete.into());
        for (source, through_ms) in &read.through_ms {
            add(&format!("{source}_lag_ms"), self.now_ms.saturating_sub(*through_ms).into());
        }
        if read.shards > 0 {
            add("shards", read.shards.into());
            add("shards_lag_ms", read.shards_lag_ms.into());
        }
        if without_keys > 0 {
            add(WITHOUT_KEYS, without_keys.into());
        }
        add("compared", self.compared.len().into());
        add("movements", self.movements.into());
        add("breaks", self.breaks.len().into());
        add("resolved", self.resolved.into());
        add("unmoved", unmoved.into());
        add("asked", asked.into());
        if self.used.places > 0 {
            add("places", self.used.places.into());
            add("searching", self.searching.into());
        }
        if self.unanswered > 0 {
            add("unanswered", self.unanswered.into());
        }
        if let Some(missing) = self.search_missing.take().or_else(|| self.model.missing()) {
            add("missing", missing.into());
        }
        Ok(result)
    }

    /// Finds out whose the books of the current account are, before anything in them is compared. `false` if there is no key for them any more.
    async fn open_books(&mut self, credential: Credential) -> Result<bool> {
        // Those of an account with keys of its own are not read with the deployment's.
        let mut of_deployment = None;
        if self.account.as_deref().and_then(account_of).is_none() {
            self.books = OpenBooks::default();
            of_deployment = Books::parse(&self.identify(credential).await?);
        }
        self.find_books(of_deployment).await
    }

    /// Checks that the configured key belongs to the account whose payments are compared. Another account has none of our payments, so
    /// all of them would seem to be missing. Gives whose it is.
    async fn identify(&mut self, credential: Credential) -> Result<String> {
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
        if let Some(known) = known.as_ref().filter(|known| known.credential == credential_name) {
            return Ok(known.account.clone());
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
        self.run(sql, vec![account.as_str().into(), credential_name.into()]).await?;
        Ok(account)
    }

    /// Compares one account. Returns how many of our movements of money are not in its balance, and what failed.
    async fn compare_account(&mut self, lists: &mut Lists) -> (usize, Vec<Error>) {
        let mut errors: Vec<Error> = self.recheck_recent().await.err().into_iter().collect();
        let mut is_read = true;
        for source in Source::ALL {
            match self.read_list(source).await {
                Ok((through_ms, is_over)) => {
                    is_read &= is_over;
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
        let (is_all, unmoved) = self.check_overdue(lists, &mut errors).await;
        is_read &= is_all;
        errors.extend(self.search().await.err());
        errors.extend(self.recheck_open_breaks().await.err());
        errors.extend(self.settle_ended(is_read && errors.is_empty()).await.err());
        let name = |error: Error| match &self.account {
            Some(account) => Error::RustError(format!("{account}: {error}")),
            None => error,
        };
        (unmoved, errors.into_iter().map(name).collect())
    }

    /// Looks for our payments that were in no list, and for our movements that are not in the balance: in D1, and in its part of the shards. Returns
    /// whether nothing that is in no list is left, and how many movements there are.
    async fn check_overdue(&mut self, lists: &mut Lists, errors: &mut Vec<Error>) -> (bool, usize) {
        let (mut is_all, mut unmoved) = (false, 0);
        let mut wanted = Wanted { unlisted: None, unmoved: None };
        let most = self.share_of(UNLISTED_MAX);
        let mut note = |error: Error| errors.push(error);
        match self.span_read(Source::Payments).await {
            Ok(Some(span)) => {
                is_all = self.check_unlisted(span, most).await.map_err(&mut note).unwrap_or(false);
                wanted.unlisted =
                    self.unlisted_statement(span, UNLISTED_OF_A_SHARD_MAX).map_err(&mut note).ok();
            }
            Ok(None) => {}
            Err(error) => note(error),
        }
        match self.span_read(Source::Movements).await {
            Ok(Some(span)) => match self.unmoved_statements(span) {
                Ok(statements) => {
                    wanted.unmoved = Some(statements.clone());
                    unmoved = self.flag_unmoved(statements).await.map_err(&mut note).unwrap_or(0);
                }
                Err(error) => note(error),
            },
            Ok(None) => {}
            Err(error) => note(error),
        }
        let (walked, found, failed) = self.walk_shards(wanted, most).await;
        errors.extend(failed);
        lists.shards += walked.shards;
        lists.shards_lag_ms = lists.shards_lag_ms.max(walked.lag_ms);
        (is_all && walked.is_whole, unmoved + found)
    }
}
