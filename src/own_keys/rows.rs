//! The table of the accounts' own keys: all SQL over it, but for what the desk shows of it.

use serde::{Deserialize, Serialize};
use worker::{Env, Result};

use crate::accounts::read;
use crate::config::{Config, Sealed};
use messages::account::{ACCOUNT_OF_ID, AccountRow};
use messages::credentials::{CredentialKind, Mode};
use once::sorted;
use payments::providers::Provider;
use runtime::db::{Db, Statement, Value};

/// One of an account's keys.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    kind: String,
    pub(crate) sealed: String,
    pub(crate) mode: Option<Mode>,
    pub(crate) stripe_account: Option<String>,
    pub(crate) merchant_account: Option<String>,
    pub(crate) changed_at_ms: u64,
}

impl Row {
    pub(crate) fn is(&self, kind: CredentialKind) -> bool {
        self.kind == kind.as_str()
    }

    /// Whether it is a key at this provider.
    pub(crate) fn is_at(&self, provider: Provider) -> bool {
        CredentialKind::parse(&self.kind).is_some_and(|kind| kind.provider() == provider)
    }
}

/// What is written of one.
#[derive(Serialize)]
pub(crate) struct NewRow {
    pub(crate) kind: CredentialKind,
    #[serde(flatten)]
    pub(crate) sealed: Sealed,
    pub(crate) hint: String,
    pub(crate) mode: Option<Mode>,
    #[serde(flatten)]
    pub(crate) of: Of,
}

/// Of which account of the provider's a key is.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Of {
    pub(crate) stripe_account: Option<String>,
    pub(crate) merchant_account: Option<String>,
}

const OF_ACCOUNT: &str = "SELECT kind, sealed, mode, stripe_account, merchant_account, changed_at_ms FROM account_credentials WHERE account = ?1";

/// Those of an account, as they stand in D1 now.
pub(crate) async fn of(env: &Env, account: &str) -> Result<Vec<Row>> {
    Db::of(env)?.rows(OF_ACCOUNT, vec![account.into()]).await
}

/// Those of an account, as they stood in D1 a moment ago, and when, in ms since the epoch: see [`read`].
pub(super) async fn recent(
    env: &Env,
    config: &Config,
    account: &str,
    now_ms: u64,
) -> Result<(Vec<Row>, u64)> {
    read(env, config, (OF_ACCOUNT, account), config.accounts_cache_ms, now_ms).await
}

/// An account of the registry, active or closed, as it stands in D1 now.
pub(crate) async fn registered(env: &Env, account: &str) -> Result<Option<AccountRow>> {
    Db::of(env)?.first(ACCOUNT_OF_ID, vec![account.into()]).await
}

#[derive(Deserialize)]
struct Owner {
    account: String,
}

/// The account that has a key of an account at Stripe in this mode.
pub(crate) async fn owner_of(env: &Env, of: &str, mode: Option<Mode>) -> Result<Option<String>> {
    let sql = "SELECT account FROM account_credentials WHERE stripe_account = ?1 AND mode = ?2";
    let values = vec![of.into(), mode.map(Mode::as_str).map(str::to_owned).into()];
    Ok(Db::of(env)?.first::<Owner>(sql, values).await?.map(|found| found.account))
}

/// Another account that has a key of a merchant account at Adyen, for tests or live.
pub(crate) async fn merchant_owner(env: &Env, of: &str, but: &str) -> Result<Option<String>> {
    let sql = "SELECT account FROM account_credentials WHERE merchant_account = ?1 AND account != ?2";
    let found: Option<Owner> = Db::of(env)?.first(sql, vec![of.into(), but.into()]).await?;
    Ok(found.map(|found| found.account))
}

/// Writes these, all of them or none: none if the account's keys are not those any more that were `seen`, or if another account has a key of the same
/// merchant account. Gives how many were written.
pub(crate) async fn put(
    env: &Env,
    account: &str,
    seen: &[Row],
    new: &[NewRow],
    now_ms: u64,
) -> Result<usize> {
    let sql = "INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, stripe_account, merchant_account,
            changed_at_ms)
         SELECT ?1, value ->> 'kind', value ->> 'sealed', value ->> 'sealed_with', value ->> 'hint', value ->> 'mode',
            value ->> 'stripe_account', value ->> 'merchant_account', ?3
         FROM json_each(?2)
         WHERE (SELECT coalesce(group_concat(kind || ':' || sealed, ' '), '')
            FROM (SELECT kind, sealed FROM account_credentials WHERE account = ?1 ORDER BY kind)) = ?4
            AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS new CROSS JOIN account_credentials AS other
                ON other.merchant_account = new.value ->> 'merchant_account' WHERE other.account != ?1)
         ON CONFLICT (account, kind) DO UPDATE SET sealed = excluded.sealed, sealed_with = excluded.sealed_with, hint = excluded.hint,
            mode = excluded.mode, stripe_account = excluded.stripe_account, merchant_account = excluded.merchant_account,
            changed_at_ms = excluded.changed_at_ms";
    let mut seen: Vec<String> = seen.iter().map(|row| format!("{}:{}", row.kind, row.sealed)).collect();
    sorted::by_key(&mut seen, String::clone);
    let new = serde_json::to_string(new)?;
    let put = Statement::new(sql, vec![account.into(), new.into(), now_ms.into(), seen.join(" ").into()]);
    with_periods(env, put, account, now_ms).await
}

/// Changes an account's keys, and with them when which account at Stripe has its payments. Gives how many keys were changed.
///
/// A key that did not say whose it is neither ends a period nor begins one: reconciliation asks it again.
async fn with_periods(env: &Env, change: Statement, account: &str, now_ms: u64) -> Result<usize> {
    let ends = "UPDATE own_key_periods SET until_ms = ?2 WHERE name = 'keys:' || ?1 AND until_ms IS NULL AND NOT EXISTS (
            SELECT 1 FROM account_credentials c WHERE c.account = ?1 AND c.kind = 'stripe_secret_key'
                AND coalesce(c.stripe_account, own_key_periods.stripe_account) = own_key_periods.stripe_account
                AND c.mode = own_key_periods.mode)";
    // The first key counts for all that was made before: then nobody had noted whose it was.
    let begins = "INSERT INTO own_key_periods (name, from_ms, stripe_account, mode)
         SELECT 'keys:' || ?1, CASE WHEN EXISTS (SELECT 1 FROM own_key_periods WHERE name = 'keys:' || ?1) THEN ?2 ELSE 0 END,
            c.stripe_account, c.mode
         FROM account_credentials c WHERE c.account = ?1 AND c.kind = 'stripe_secret_key' AND c.stripe_account IS NOT NULL
            AND c.mode IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM own_key_periods WHERE name = 'keys:' || ?1 AND until_ms IS NULL)
         ON CONFLICT (name, from_ms) DO UPDATE SET stripe_account = excluded.stripe_account, mode = excluded.mode, until_ms = NULL";
    let periods = [ends, begins].map(|sql| Statement::new(sql, vec![account.into(), now_ms.into()]));
    let changed = Db::of(env)?.batch_changes([change].into_iter().chain(periods).collect()).await?;
    Ok(changed.first().copied().unwrap_or(0))
}

/// Removes one, and with it the one that is nothing without it, if there is any. Gives how many there were.
pub(crate) async fn remove(
    env: &Env,
    account: &str,
    kind: CredentialKind,
    with: Option<CredentialKind>,
    now_ms: u64,
) -> Result<usize> {
    let sql = "DELETE FROM account_credentials WHERE account = ?1 AND kind IN (?2, ?3)";
    let with = with.unwrap_or(kind);
    let remove = Statement::new(sql, vec![account.into(), kind.as_str().into(), with.as_str().into()]);
    with_periods(env, remove, account, now_ms).await
}

/// One that is sealed with a key that is replaced.
#[derive(Debug, Deserialize)]
pub(crate) struct Old {
    pub(crate) account: String,
    pub(crate) kind: String,
    pub(crate) sealed: String,
}

/// Where keys are that were sealed anew last: an account, and the kind of its key. They are gone through in this order.
pub(crate) type Place = (String, String);

/// The cursor over what is sealed anew.
const RESEALED: &str = "resealed";

/// Where the last run has ended; `None` if it came to the end, or there was none.
pub(crate) async fn resealed_through(env: &Env) -> Result<Option<Place>> {
    #[derive(Deserialize)]
    struct Cursor {
        after: Option<String>,
    }
    let sql = "SELECT after FROM cursors WHERE name = ?1";
    let cursor: Option<Cursor> = Db::of(env)?.first(sql, vec![RESEALED.into()]).await?;
    Ok(cursor.and_then(|cursor| cursor.after).and_then(|after| json_text::from_str(&after).ok()))
}

/// Keeps where a run has ended.
pub(crate) async fn keep_resealed_through(env: &Env, place: Option<&Place>, now_ms: u64) -> Result<()> {
    let sql = "INSERT INTO cursors (name, through_ms, after) VALUES (?1, ?2, ?3)
        ON CONFLICT (name) DO UPDATE SET through_ms = excluded.through_ms, after = excluded.after";
    let after = place.map(serde_json::to_string).transpose()?;
    Db::of(env)?.run(sql, vec![RESEALED.into(), now_ms.into(), after.into()]).await.map(drop)
}

/// Some that are sealed with this key, in the order of their accounts and kinds: those after one.
pub(crate) async fn sealed_with(
    env: &Env,
    key: &str,
    after: Option<&Place>,
    limit: usize,
) -> Result<Vec<Old>> {
    let sql = "SELECT account, kind, sealed FROM account_credentials WHERE sealed_with = ?1 AND (account, kind) > (?2, ?3)
         ORDER BY account, kind LIMIT ?4";
    let (account, kind) = after.map_or(("", ""), |(account, kind)| (account.as_str(), kind.as_str()));
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    Db::of(env)?.rows(sql, vec![key.into(), account.into(), kind.into(), limit.into()]).await
}

#[derive(Deserialize)]
struct Counted {
    number: usize,
}

/// How many are sealed with this key.
pub(crate) async fn number_sealed_with(env: &Env, key: &str) -> Result<usize> {
    let sql = "SELECT count(*) AS number FROM account_credentials WHERE sealed_with = ?1";
    number(env, sql, vec![key.into()]).await
}

/// How many are sealed with neither of these keys.
pub(crate) async fn sealed_otherwise(env: &Env, one: &str, other: &str) -> Result<usize> {
    let sql = "SELECT (SELECT count(*) FROM account_credentials WHERE sealed_with < ?1)
            + (SELECT count(*) FROM account_credentials WHERE sealed_with > ?1 AND sealed_with < ?2)
            + (SELECT count(*) FROM account_credentials WHERE sealed_with > ?2) AS number";
    number(env, sql, vec![one.min(other).into(), one.max(other).into()]).await
}

async fn number(env: &Env, sql: &str, values: Vec<Value>) -> Result<usize> {
    Ok(Db::of(env)?.first::<Counted>(sql, values).await?.map_or(0, |counted| counted.number))
}

/// Replaces what is sealed, if it is still this.
pub(crate) async fn resealed(env: &Env, old: &Old, sealed: Sealed) -> Result<usize> {
    let sql = "UPDATE account_credentials SET sealed = ?4, sealed_with = ?5 WHERE account = ?1 AND kind = ?2 AND sealed = ?3";
    let values = vec![
        old.account.as_str().into(),
        old.kind.as_str().into(),
        old.sealed.as_str().into(),
        sealed.text.into(),
        sealed.with.into(),
    ];
    Db::of(env)?.run(sql, values).await
}
