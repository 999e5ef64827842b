//! Whose books are read for an account with keys of its own, and for a connected one. A key of another account at Stripe has none of the payments, so
//! all of them would seem to be missing: nothing is compared with it.

use serde::Deserialize;
use worker::{Error, Result};

use super::session::Reconciliation;
use messages::credentials::{CredentialKind, Mode};
use once::call::FrozenRequest;
use payments::payment::own_keys::{account_of, name_of};

impl Reconciliation {
    /// Finds out whose the books of the current account are. `false` if it has no key any more: they cannot be read.
    ///
    /// An account that was connected can get keys of its own: then both names have payments in the same books.
    pub(super) async fn find_books(&mut self) -> Result<bool> {
        self.same_books = None;
        let Some(name) = self.account.clone() else { return Ok(true) };
        let Some(account) = account_of(&name) else {
            self.same_books = self.own_keys_of(&name).await?;
            return Ok(true);
        };
        let Some(mode) = self.mode_of(account).await? else { return Ok(false) };
        let id = self.whose_key(account).await?;
        let books = format!("{id} ({mode})");
        if let Some(known) = self.compared(&name).await?
            && known != books
        {
            return Err(Error::RustError(format!(
                "the key of {account} is of {books}; its payments of {known} are not compared"
            )));
        }
        let sql =
            "INSERT INTO compared_own_keys (name, account) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
        self.run(sql, vec![name.into(), books.into()]).await?;
        self.same_books = Some(id);
        Ok(true)
    }

    /// The account with a key of its own of a connected account, in the mode in which that is read: the other mode has other books.
    async fn own_keys_of(&mut self, stripe_account: &str) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Own {
            account: String,
        }
        let sql = "SELECT account FROM account_credentials WHERE stripe_account = ?1 AND mode = ?2";
        let mode = if self.live { Mode::Live } else { Mode::Test };
        let own: Vec<Own> = self.rows(sql, vec![stripe_account.into(), mode.as_str().into()]).await?;
        Ok(own.into_iter().next().map(|own| name_of(&own.account)))
    }

    async fn mode_of(&mut self, account: &str) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Key {
            mode: Option<String>,
        }
        let sql = "SELECT mode FROM account_credentials WHERE account = ?1 AND kind = ?2";
        let kind = CredentialKind::StripeSecretKey.as_str();
        let key: Vec<Key> = self.rows(sql, vec![account.into(), kind.into()]).await?;
        Ok(key.into_iter().next().and_then(|key| key.mode))
    }

    async fn whose_key(&mut self, account: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let answer = self.get(&FrozenRequest::new("/v1/account".to_owned(), String::new())).await?;
        let named = serde_json::from_str::<Named>(&answer.body).ok().filter(|_| answer.status == 200);
        named.map(|named| named.id).ok_or_else(|| {
            Error::RustError(format!(
                "of which account the key of {account} is was answered {}: allow it to read the account. Its payments are not compared until \
                 then",
                answer.status
            ))
        })
    }

    async fn compared(&mut self, name: &str) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Known {
            account: String,
        }
        let sql = "SELECT account FROM compared_own_keys WHERE name = ?1";
        let known: Vec<Known> = self.rows(sql, vec![name.into()]).await?;
        Ok(known.into_iter().next().map(|known| known.account))
    }
}
