//! The table of the accounts' own keys: all SQL over it, but for what the desk shows of it.

use serde::Deserialize;
use worker::{Env, Result};

use crate::config::Sealed;
use messages::credentials::{CredentialKind, Mode};
use runtime::db::{Db, Statement, Value};

/// One of an account's keys.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    kind: String,
    pub(crate) sealed: String,
    pub(crate) mode: Option<Mode>,
    pub(crate) stripe_account: Option<String>,
}

impl Row {
    pub(crate) fn is(&self, kind: CredentialKind) -> bool {
        self.kind == kind.as_str()
    }
}

/// What is written of one.
pub(crate) struct NewRow<'a> {
    pub(crate) account: &'a str,
    pub(crate) kind: CredentialKind,
    pub(crate) sealed: Sealed,
    pub(crate) hint: String,
    pub(crate) mode: Option<Mode>,
    pub(crate) stripe_account: Option<String>,
}

/// Those of an account.
pub(crate) async fn of(env: &Env, account: &str) -> Result<Vec<Row>> {
    let sql = "SELECT kind, sealed, mode, stripe_account FROM account_credentials WHERE account = ?1";
    Db::of(env)?.rows(sql, vec![account.into()]).await
}

/// Whether an account is in the registry.
pub(crate) async fn is_registered(env: &Env, account: &str) -> Result<bool> {
    #[derive(Deserialize)]
    struct Found {}
    let found: Option<Found> =
        Db::of(env)?.first("SELECT id FROM accounts WHERE id = ?1", vec![account.into()]).await?;
    Ok(found.is_some())
}

/// The account that has a key of an account at Stripe in this mode.
pub(crate) async fn owner_of(env: &Env, stripe_account: &str, mode: Option<Mode>) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Found {
        account: String,
    }
    let sql = "SELECT account FROM account_credentials WHERE stripe_account = ?1 AND mode = ?2";
    let values = vec![stripe_account.into(), mode.map(Mode::as_str).map(str::to_owned).into()];
    Ok(Db::of(env)?.first::<Found>(sql, values).await?.map(|found| found.account))
}

/// Writes these, all of them or none.
pub(crate) async fn put(env: &Env, rows: Vec<NewRow<'_>>, now_ms: u64) -> Result<()> {
    let db = Db::of(env)?;
    let sql = "INSERT INTO account_credentials (account, kind, sealed, sealed_with, hint, mode, stripe_account, changed_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (account, kind) DO UPDATE SET sealed = excluded.sealed, sealed_with = excluded.sealed_with, hint = excluded.hint,
            mode = excluded.mode, stripe_account = excluded.stripe_account, changed_at_ms = excluded.changed_at_ms";
    let statements = rows
        .into_iter()
        .map(|row| {
            let values: Vec<Value> = vec![
                row.account.into(),
                row.kind.as_str().into(),
                row.sealed.text.into(),
                row.sealed.with.into(),
                row.hint.into(),
                row.mode.map(Mode::as_str).map(str::to_owned).into(),
                row.stripe_account.into(),
                now_ms.into(),
            ];
            Statement::new(sql, values)
        })
        .collect();
    db.batch(statements).await.map(drop)
}

/// Removes one, and with it another one that is nothing without it. Gives how many there were.
pub(crate) async fn remove(
    env: &Env,
    account: &str,
    kind: CredentialKind,
    with: CredentialKind,
) -> Result<usize> {
    let sql = "DELETE FROM account_credentials WHERE account = ?1 AND kind IN (?2, ?3)";
    Db::of(env)?.run(sql, vec![account.into(), kind.as_str().into(), with.as_str().into()]).await
}

/// One that is sealed with another key than this.
#[derive(Debug, Deserialize)]
pub(crate) struct Old {
    pub(crate) account: String,
    pub(crate) kind: String,
    pub(crate) sealed: String,
}

/// Some that are sealed with another key than this.
pub(crate) async fn not_sealed_with(env: &Env, key: &str, limit: u64) -> Result<Vec<Old>> {
    let sql = "SELECT account, kind, sealed FROM account_credentials WHERE sealed_with < ?1
         UNION ALL SELECT account, kind, sealed FROM account_credentials WHERE sealed_with > ?1 LIMIT ?2";
    Db::of(env)?.rows(sql, vec![key.into(), limit.into()]).await
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
