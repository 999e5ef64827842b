//! Whose books are read: the deployment's, those of a connected account, or those of the key that an account has of its own. A payment is compared with
//! the books of the account at Stripe that it was made in, by the [periods](super::periods) of the keys, and with no others.
//!
//! - Several names may have had payments in the same books: none of them is unknown there. A name whose key for them is gone has no run of its own
//!   for them: who reads these books compares its payments, too.
//! - Books that nobody has a key for any more end with a break of kind `ended`. It is closed once they were compared again.

use std::collections::BTreeSet;

use serde::Deserialize;
use worker::{Error, Result};

use super::periods::{self, Books, OpenBooks, Period, Span, has_ended_with, later_label};
use super::session::{Findings, Reconciliation};
use crate::tasks::breaks::{HOLDS_MONEY, MARK_GONE};
use crate::tasks::compare::{Break, Kind};
use crate::tasks::cursor::Source;
use messages::credentials::{CredentialKind, Mode};
use once::call::FrozenRequest;
use payments::payment::own_keys::{account_of, name_of};
use payments::providers::Provider;
use payments::timestamp;

/// How long it is believed how many payments of ended books there are, in ms.
const COUNTED_MS: u64 = 3_600_000;
/// How many of them are counted at most.
const COUNTED_MAX: u64 = 10_000;
/// How many accounts without a key are looked at in one run of the cron.
const ENDED_MAX: u32 = 20;

#[derive(Deserialize)]
struct Key {
    mode: Option<String>,
    changed_at_ms: u64,
}

impl Reconciliation {
    /// Finds out whose the books of the current account are. `false` if it has no key any more: they cannot be read.
    pub(super) async fn find_books(&mut self, of_deployment: Option<Books>) -> Result<bool> {
        self.books = OpenBooks { label: self.account.clone(), ..OpenBooks::default() };
        let account = self.account.clone();
        let own = account.as_deref().and_then(account_of);
        let books = match (&account, own) {
            (None, _) => of_deployment,
            (Some(connected), None) => {
                Some(Books { stripe_account: connected.clone(), mode: self.mode().to_owned() })
            }
            (Some(name), Some(own)) => {
                let Some(key) = self.key_of(own).await? else {
                    self.flag_ended(name).await?;
                    return Ok(false);
                };
                self.books.key_set_at_ms = Some(key.changed_at_ms);
                let stripe_account = self.whose_key(own).await?;
                let mode =
                    key.mode.ok_or_else(|| Error::RustError(format!("the key of {own} has no mode")))?;
                let books = Books { stripe_account, mode };
                self.note_period(name, &books, key.changed_at_ms).await?;
                Some(books)
            }
        };
        let Some(books) = books else {
            self.books.spans = vec![Span::always(None)];
            return Ok(true);
        };
        let periods = self.periods_of(&books).await?;
        let mut spans = periods::spans(&periods, &books);
        let is_held = own.is_none() && periods.iter().any(|period| period.is_held == 1);
        match (&account, own) {
            (Some(name), Some(_)) => {
                self.books.label = Some(periods::label(&periods, name, &books));
                if periods.iter().any(|period| period.name == *name && period.books != books) {
                    self.end_lists(name, self.books.label.clone()).await?;
                }
            }
            _ => {
                // What the holder of a key compares is not compared twice.
                spans.retain(|_| !is_held);
                spans.push(Span::always(account.clone()));
            }
        }
        self.books.spans = spans;
        self.books.names = periods::names(&periods, &books);
        if !is_held {
            let others = self.books.names.iter().filter(|name| Some(*name) != account.as_ref());
            self.books.left = others.map(|name| periods::label(&periods, name, &books)).collect();
        }
        if books.mode == self.mode() {
            self.books.names.insert(books.stripe_account.clone());
        }
        self.books.of = Some(books);
        Ok(true)
    }

    /// The mode of the deployment's key, with which connected accounts are read, too: the other mode has other books.
    const fn mode(&self) -> &'static str {
        if self.live { Mode::Live.as_str() } else { Mode::Test.as_str() }
    }

    async fn key_of(&mut self, account: &str) -> Result<Option<Key>> {
        let sql = "SELECT mode, changed_at_ms FROM account_credentials WHERE account = ?1 AND kind = ?2";
        let kind = CredentialKind::StripeSecretKey.as_str();
        Ok(self.rows::<Key>(sql, vec![account.into(), kind.into()]).await?.into_iter().next())
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

    /// Writes down whose the key is, where the payments Worker could not: it did not say so when it was set.
    async fn note_period(&mut self, name: &str, books: &Books, set_at_ms: u64) -> Result<()> {
        #[derive(Deserialize)]
        struct Known {}
        let values = || vec![name.into(), books.stripe_account.as_str().into(), books.mode.as_str().into()];
        let known = "SELECT 1 FROM own_key_periods WHERE name = ?1 AND stripe_account = ?2 AND mode = ?3 AND until_ms IS NULL";
        if !self.rows::<Known>(known, values()).await?.is_empty() {
            return Ok(());
        }
        let ends = "UPDATE own_key_periods SET until_ms = ?2 WHERE name = ?1 AND until_ms IS NULL";
        let begins = "INSERT INTO own_key_periods (name, from_ms, stripe_account, mode)
             SELECT ?1, CASE WHEN EXISTS (SELECT 1 FROM own_key_periods WHERE name = ?1) THEN ?4 ELSE 0 END, ?2, ?3 WHERE true
             ON CONFLICT (name, from_ms) DO UPDATE SET stripe_account = excluded.stripe_account, mode = excluded.mode, until_ms = NULL";
        self.run(ends, vec![name.into(), set_at_ms.into()]).await?;
        let mut values = values();
        values.push(set_at_ms.into());
        self.run(begins, values).await.map(drop)
    }

    /// All periods of the names that have had payments in these books.
    async fn periods_of(&mut self, books: &Books) -> Result<Vec<Period>> {
        let sql = "SELECT name, from_ms, stripe_account, mode,
                EXISTS (SELECT 1 FROM account_credentials c WHERE c.stripe_account = ?1 AND c.mode = ?2) AS is_held
            FROM own_key_periods WHERE name IN (SELECT name FROM own_key_periods WHERE stripe_account = ?1 AND mode = ?2) ORDER BY name, from_ms";
        self.rows(sql, vec![books.stripe_account.as_str().into(), books.mode.as_str().into()]).await
    }

    /// The names of the accounts whose key is of books that another name has left: they are read, whether or not they have payments.
    pub(super) async fn readers(&mut self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Reader {
            account: String,
        }
        let sql = "SELECT DISTINCT c.account FROM own_key_periods CROSS JOIN account_credentials c
                ON c.stripe_account = own_key_periods.stripe_account AND c.mode = own_key_periods.mode
            WHERE own_key_periods.until_ms IS NOT NULL AND c.kind = 'stripe_secret_key'";
        let readers: Vec<Reader> = self.rows(sql, Vec::new()).await?;
        Ok(readers.iter().map(|reader| name_of(&reader.account)).collect())
    }

    /// The lists of a name do not count as behind any more, but for those of a label. Should they be read again, that goes on from there.
    pub(super) async fn end_lists(&mut self, name: &str, but: Option<String>) -> Result<()> {
        let sql = "UPDATE cursors SET ended_at_ms = ?4 WHERE ended_at_ms IS NULL AND name IS NOT ?3
            AND (name = ?1 OR name > ?2 AND name < ?2 || '~')";
        for source in Source::ALL {
            let later = later_label(&source.cursor_of(Some(name)));
            let but = but.as_deref().map(|label| source.cursor_of(Some(label)));
            let values =
                vec![source.cursor_of(Some(name)).into(), later.into(), but.into(), self.now_ms.into()];
            self.run(sql, values).await?;
        }
        Ok(())
    }

    /// Makes a break of each of the books of a name that nobody reads any more, or tells what has come to be of it.
    pub(super) async fn flag_ended(&mut self, name: &str) -> Result<()> {
        let sql = "SELECT name, from_ms, stripe_account, mode FROM own_key_periods WHERE name = ?1 ORDER BY from_ms";
        let periods: Vec<Period> = self.rows(sql, vec![name.into()]).await?;
        let current = self.books.of.clone();
        let all: BTreeSet<Books> = periods.iter().map(|period| period.books.clone()).collect();
        for books in all.into_iter().filter(|books| Some(books) != current.as_ref()) {
            let spans = periods::spans(&periods, &books);
            if let Some(found) = self.ended(name, &books, &spans).await? {
                self.write(&Findings { breaks: vec![found], ..Findings::default() }).await?;
            }
        }
        Ok(())
    }

    /// The break of books that nobody reads, unless it is there and new, or nothing was paid there.
    async fn ended(&mut self, name: &str, books: &Books, spans: &[Span]) -> Result<Option<Break>> {
        #[derive(Deserialize)]
        struct Known {
            is_read: u8,
            is_new: u8,
        }
        #[derive(Deserialize)]
        struct Paid {
            number: u64,
            first_ms: Option<u64>,
            last_ms: Option<u64>,
        }
        let of = format!("{name} of {books}");
        let sql = "SELECT EXISTS (SELECT 1 FROM account_credentials WHERE stripe_account = ?1 AND mode = ?2)
                OR ?3 AND EXISTS (SELECT 1 FROM cursors WHERE name = ?4 AND ended_at_ms IS NULL) AS is_read,
            EXISTS (SELECT 1 FROM breaks WHERE break_id = ?5 AND state IN ('open', 'accepted') AND last_seen_at_ms > ?6) AS is_new";
        let values = vec![
            books.stripe_account.as_str().into(),
            books.mode.as_str().into(),
            u64::from(books.mode == self.mode()).into(),
            Source::Payments.cursor_of(Some(&books.stripe_account)).into(),
            ended_id(&of).into(),
            self.now_ms.saturating_sub(COUNTED_MS).into(),
        ];
        let known = self.rows::<Known>(sql, values).await?.into_iter().next();
        if known.is_none_or(|known| known.is_read == 1 || known.is_new == 1) {
            return Ok(None);
        }
        let sql = format!(
            "SELECT count(*) AS number, min(created_at_ms) AS first_ms, max(created_at_ms) AS last_ms FROM (
                SELECT created_at_ms FROM payments WHERE stripe_account = ?1 AND provider = 'stripe' AND {HOLDS_MONEY} AND {}
                LIMIT {COUNTED_MAX})",
            has_ended_with("?2")
        );
        let values = vec![name.into(), serde_json::to_string(spans)?.into()];
        let (paid, are_all) = self.rows_of_newest::<Paid>(&sql, values).await?;
        let number: u64 = paid.iter().map(|paid| paid.number).sum();
        let first_ms = paid.iter().filter_map(|paid| paid.first_ms).min();
        let last_ms = paid.iter().filter_map(|paid| paid.last_ms).max();
        let (first_ms, last_ms) = match (first_ms, last_ms) {
            (Some(first_ms), Some(last_ms)) if are_all => (first_ms, last_ms),
            (None, _) | (_, None) if are_all => return Ok(None),
            // Others may be where nobody has looked: the key was there for so long.
            _ => periods::from_until(spans, self.now_ms),
        };
        let number = match number {
            0 => "an unknown number of payments".to_owned(),
            1 if are_all => "1 payment".to_owned(),
            number if number < COUNTED_MAX && are_all => format!("{number} payments"),
            number => format!("{number} payments or more"),
        };
        let (id, from, until) = (&books.stripe_account, timestamp(first_ms), timestamp(last_ms));
        Ok(Some(Break {
            kind: Kind::Ended,
            provider_payment: of,
            resource: None,
            object: None,
            ours: Some(format!("{number} in {books}, made from {from} to {until}")),
            theirs: Some(format!(
                "cannot be read any more: no account has a key of {id}. Enter a restricted key of {id} that may read: here, or, where another key \
                 is set here, at an account made for that"
            )),
        }))
    }

    /// Makes a break of ended books of these names, of some in a run, where there is none yet.
    pub(super) async fn flag_all_ended(&mut self, names: &[String]) -> Result<()> {
        #[derive(Deserialize)]
        struct Left {
            name: String,
        }
        let sql = format!(
            "SELECT DISTINCT name FROM own_key_periods p WHERE name IN (SELECT value FROM json_each(?1)) AND NOT EXISTS (SELECT 1 FROM breaks
                WHERE break_id = 'ended:stripe:' || p.name || ' of ' || p.stripe_account || ' (' || p.mode || ')'
                    AND state IN ('open', 'accepted') AND last_seen_at_ms > ?2)
             ORDER BY random() LIMIT {ENDED_MAX}"
        );
        let counted_since_ms = self.now_ms.saturating_sub(COUNTED_MS);
        let left: Vec<Left> =
            self.rows(&sql, vec![serde_json::to_string(names)?.into(), counted_since_ms.into()]).await?;
        for Left { name } in left {
            self.books = OpenBooks { label: Some(name.clone()), ..OpenBooks::default() };
            self.flag_ended(&name).await?;
            self.end_lists(&name, None).await?;
        }
        Ok(())
    }

    /// Tells of the books of this account that have ended, and of none any more that were compared.
    pub(super) async fn settle_ended(&mut self, is_compared: bool) -> Result<()> {
        if is_compared {
            self.close_ended().await?;
        }
        match self.account.clone().filter(|name| account_of(name).is_some()) {
            Some(name) => self.flag_ended(&name).await,
            None => Ok(()),
        }
    }

    /// These books were compared as far as they go: nothing of them is left to be told of as ended.
    async fn close_ended(&mut self) -> Result<()> {
        let Some(books) = &self.books.of else { return Ok(()) };
        let own = self.account.clone().filter(|name| account_of(name).is_some());
        let left = self.books.left.iter().filter_map(|label| label.split(" of ").next().map(str::to_owned));
        let ended: Vec<String> =
            own.into_iter().chain(left).map(|name| ended_id(&format!("{name} of {books}"))).collect();
        let sql = format!(
            "UPDATE breaks SET {MARK_GONE} WHERE state IN ('open', 'accepted') AND break_id IN (SELECT value FROM json_each(?1))"
        );
        self.resolved +=
            self.run(&sql, vec![serde_json::to_string(&ended)?.into(), self.now_ms.into()]).await?;
        Ok(())
    }
}

/// The id of the break of ended books.
fn ended_id(of: &str) -> String {
    format!("{}:{}:{of}", Kind::Ended.as_str(), Provider::Stripe.as_str())
}
