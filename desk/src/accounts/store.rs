//! The tables of the registry: all SQL over them, but for what the payments Worker reads by.

use serde::Deserialize;
use worker::{Env, Result};

use crate::queries::{PAGE, Where, page};
use messages::account::{Account, is_token_hash};
use runtime::db::Db;

/// How many tokens of an account are shown.
pub(crate) const TOKENS_SHOWN: usize = 100;

/// An account of the registry.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AccountRow {
    pub(crate) id: String,
    settings: String,
    pub(crate) state: String,
    pub(crate) version: u64,
    pub(crate) created_at_ms: u64,
    pub(crate) changed_at_ms: u64,
}

impl AccountRow {
    /// What it is set to. An error is one of a newer release.
    pub(crate) fn account(&self) -> Result<Account> {
        Ok(serde_json::from_str(&self.settings)?)
    }
}

/// A token, without the token.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TokenRow {
    pub(crate) token_sha256: String,
    pub(crate) account: String,
    pub(crate) name: String,
    pub(crate) created_at_ms: u64,
    pub(crate) ends_at_ms: Option<u64>,
}

impl TokenRow {
    pub(crate) fn has_ended(&self, now_ms: u64) -> bool {
        self.ends_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }
}

/// The tokens of an account that are shown.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) rows: Vec<TokenRow>,
    /// There are more of them.
    pub(crate) has_more: bool,
}

/// The columns of an [`AccountRow`].
const ACCOUNT: &str = "id, settings, state, version, created_at_ms, changed_at_ms";
/// The columns of a [`TokenRow`].
const TOKEN: &str = "token_sha256, account, name, created_at_ms, ends_at_ms";

pub(crate) async fn find(env: &Env, id: &str) -> Result<Option<AccountRow>> {
    Db::of(env)?.first(&format!("SELECT {ACCOUNT} FROM accounts WHERE id = ?1"), vec![id.into()]).await
}

/// A page of those whose ids begin with `prefix`.
pub(crate) async fn list(env: &Env, prefix: &str, number: usize) -> Result<Vec<AccountRow>> {
    let mut conditions = Where::default();
    if !prefix.is_empty() {
        // `~` comes after all that an id has.
        conditions.and_value("id >= ?", prefix);
        conditions.and_value("id < ?", format!("{prefix}~"));
    }
    page(env, &format!("SELECT {ACCOUNT} FROM accounts"), conditions, "id", number).await
}

/// Those after an id.
pub(crate) async fn after(env: &Env, id: &str, limit: usize) -> Result<Vec<AccountRow>> {
    let sql = format!("SELECT {ACCOUNT} FROM accounts WHERE id > ?1 ORDER BY id LIMIT ?2");
    Db::of(env)?.rows(&sql, vec![id.into(), (limit as u64).into()]).await
}

/// Ids, for what has no other way to find an account: no more than a page of them.
pub(crate) async fn some_ids(env: &Env) -> Result<Vec<String>> {
    let rows = list(env, "", 0).await?;
    Ok(rows.into_iter().take(PAGE).map(|row| row.id).collect())
}

/// Makes an account; `false` if there is one of this id.
pub(crate) async fn create(env: &Env, id: &str, account: &Account, now_ms: u64) -> Result<bool> {
    let sql = "INSERT INTO accounts (id, settings, state, version, created_at_ms, changed_at_ms)
         VALUES (?1, ?2, 'active', 1, ?3, ?3) ON CONFLICT (id) DO NOTHING";
    let values = vec![id.into(), serde_json::to_string(account)?.into(), now_ms.into()];
    Ok(Db::of(env)?.run(sql, values).await? > 0)
}

/// Changes what an account is set to, if nobody has since `version`.
pub(crate) async fn change(
    env: &Env,
    id: &str,
    account: &Account,
    version: u64,
    now_ms: u64,
) -> Result<bool> {
    let sql = "UPDATE accounts SET settings = ?2, version = version + 1, changed_at_ms = ?3 WHERE id = ?1 AND version = ?4";
    let values = vec![id.into(), serde_json::to_string(account)?.into(), now_ms.into(), version.into()];
    Ok(Db::of(env)?.run(sql, values).await? > 0)
}

/// Makes an account, or changes it, to be just this; without a state it stays in its own. The same again changes nothing.
pub(crate) async fn put(
    env: &Env,
    id: &str,
    account: &Account,
    state: Option<&str>,
    now_ms: u64,
) -> Result<bool> {
    let sql = "INSERT INTO accounts (id, settings, state, version, created_at_ms, changed_at_ms)
         VALUES (?1, ?2, coalesce(?3, 'active'), 1, ?4, ?4)
         ON CONFLICT (id) DO UPDATE SET settings = excluded.settings, state = coalesce(?3, state), version = version + 1,
           changed_at_ms = excluded.changed_at_ms
         WHERE settings != excluded.settings OR state != coalesce(?3, state)";
    let values = vec![id.into(), serde_json::to_string(account)?.into(), state.into(), now_ms.into()];
    Ok(Db::of(env)?.run(sql, values).await? > 0)
}

/// Closes an account, or opens it again.
pub(crate) async fn set_state(env: &Env, id: &str, state: &str, now_ms: u64) -> Result<bool> {
    let sql = "UPDATE accounts SET state = ?2, version = version + 1, changed_at_ms = ?3 WHERE id = ?1 AND state != ?2";
    Ok(Db::of(env)?.run(sql, vec![id.into(), state.into(), now_ms.into()]).await? > 0)
}

/// The tokens of an account: those that are good, then those that have ended, the newest first. No more than [`TOKENS_SHOWN`].
pub(crate) async fn tokens(env: &Env, id: &str, now_ms: u64) -> Result<Tokens> {
    let sql = format!(
        "SELECT {TOKEN} FROM account_tokens WHERE account = ?1
         ORDER BY (ends_at_ms IS NULL OR ends_at_ms > ?2) DESC, created_at_ms DESC LIMIT {}",
        TOKENS_SHOWN + 1
    );
    let mut rows: Vec<TokenRow> = Db::of(env)?.rows(&sql, vec![id.into(), now_ms.into()]).await?;
    let has_more = rows.len() > TOKENS_SHOWN;
    rows.truncate(TOKENS_SHOWN);
    Ok(Tokens { rows, has_more })
}

/// A token of an account.
pub(crate) async fn token(env: &Env, id: &str, token_sha256: &str) -> Result<Option<TokenRow>> {
    if !is_token_hash(token_sha256) {
        return Ok(None);
    }
    let sql = format!("SELECT {TOKEN} FROM account_tokens WHERE token_sha256 = ?1");
    let found: Option<TokenRow> = Db::of(env)?.first(&sql, vec![token_sha256.into()]).await?;
    Ok(found.filter(|row| row.account == id))
}

/// Makes a token good for an account, or changes its name and, if it `sets_end`, its end. `false` if it has ended, or is another account's: what has ended stays so.
pub(crate) async fn put_token(env: &Env, row: &TokenRow, sets_end: bool) -> Result<bool> {
    let sql = "INSERT INTO account_tokens (token_sha256, account, name, created_at_ms, ends_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (token_sha256) DO UPDATE SET name = excluded.name, ends_at_ms = iif(?6, excluded.ends_at_ms, ends_at_ms)
         WHERE account = excluded.account AND (ends_at_ms IS NULL OR ends_at_ms > ?4)";
    let values = vec![
        row.token_sha256.as_str().into(),
        row.account.as_str().into(),
        row.name.as_str().into(),
        row.created_at_ms.into(),
        row.ends_at_ms.into(),
        u64::from(sets_end).into(),
    ];
    Ok(Db::of(env)?.run(sql, values).await? > 0)
}

/// Ends a token, not later than it ends already. Gives how many that changed.
pub(crate) async fn end(env: &Env, id: &str, token_sha256: &str, at_ms: u64) -> Result<usize> {
    let sql = "UPDATE account_tokens SET ends_at_ms = ?3
         WHERE token_sha256 = ?2 AND account = ?1 AND (ends_at_ms IS NULL OR ends_at_ms > ?3)";
    Db::of(env)?.run(sql, vec![id.into(), token_sha256.into(), at_ms.into()]).await
}

/// The same of all others of an account.
pub(crate) async fn end_others(env: &Env, id: &str, token_sha256: &str, at_ms: u64) -> Result<usize> {
    let sql = "UPDATE account_tokens SET ends_at_ms = ?3
         WHERE account = ?1 AND token_sha256 != ?2 AND (ends_at_ms IS NULL OR ends_at_ms > ?3)";
    Db::of(env)?.run(sql, vec![id.into(), token_sha256.into(), at_ms.into()]).await
}
