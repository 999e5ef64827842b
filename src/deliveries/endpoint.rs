//! An account's endpoint: all SQL over the table `webhook_endpoints`, and its secret.
//!
//! No secret is kept. It is derived from `SIGNING_KEY`, of the account, when its endpoint was made, and the number of the secret's version, which stand in
//! the row. So an endpoint that is made anew has another secret, also where the table was lost.

use serde::Deserialize;
use worker::{Env, Result};

use payments::timestamp;
use runtime::db::Db;
use serde_json::{Value, json};
use web::signing::{Purpose, SigningKeys};
use web::standard_webhooks::WebhookSecret;

/// For how long the secret before the newest signs, too, in ms.
pub const ROTATION_MS: u64 = 24 * 3_600_000;
/// How much earlier than its endpoint's row an event may be, in ms: clocks differ.
const CLOCKS_DIFFER_MS: u64 = 60_000;

/// What finds an account's endpoint, also one that was removed.
pub(super) const OF_ACCOUNT: &str = "SELECT url, secret_version, rotated_at_ms, created_at_ms, updated_at_ms FROM webhook_endpoints WHERE account = ?1";

/// Makes or changes the endpoint of the account `?1`: its address is `?2`, and its secret of version `?3`, or as it is. The next version makes a new
/// secret, and the same one changes nothing: so a retry rotates nothing twice. Nothing is written for any other version.
pub const PUT: &str =
    "INSERT INTO webhook_endpoints (account, url, secret_version, rotated_at_ms, created_at_ms, updated_at_ms)
     SELECT ?1, ?2, 1, NULL, ?4, ?4
     WHERE ?3 IS NULL OR ?3 = 1 OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE account = ?1)
     ON CONFLICT (account) DO UPDATE SET
        rotated_at_ms = CASE WHEN url IS NULL THEN NULL WHEN ?3 = secret_version + 1 THEN ?4 ELSE rotated_at_ms END,
        secret_version = secret_version + (url IS NULL OR ?3 IS secret_version + 1),
        created_at_ms = iif(url IS NULL, ?4, created_at_ms),
        updated_at_ms = iif(url IS excluded.url AND ?3 IS NOT secret_version + 1, updated_at_ms, ?4),
        url = excluded.url
     WHERE ?3 IS NULL OR ?3 = secret_version + 1 OR ?3 = secret_version AND url IS NOT NULL
     RETURNING url, secret_version, rotated_at_ms, created_at_ms, updated_at_ms";

/// Removes the endpoint of the account `?1`.
pub const REMOVE: &str = "UPDATE webhook_endpoints SET url = NULL, rotated_at_ms = NULL, updated_at_ms = ?2 WHERE account = ?1 AND url IS NOT NULL";

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Row {
    url: Option<String>,
    pub(crate) secret_version: u32,
    rotated_at_ms: Option<u64>,
    created_at_ms: u64,
    updated_at_ms: u64,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    secret_version: u32,
    /// When the newest secret took the place of another one, in ms since the epoch.
    rotated_at_ms: Option<u64>,
    pub(crate) created_at_ms: u64,
    updated_at_ms: u64,
}

impl Row {
    /// The endpoint; `None` if it was removed.
    pub(crate) fn endpoint(self) -> Option<Endpoint> {
        let Self { url, secret_version, rotated_at_ms, created_at_ms, updated_at_ms } = self;
        Some(Endpoint { url: url?, secret_version, rotated_at_ms, created_at_ms, updated_at_ms })
    }
}

impl Endpoint {
    /// Until when the secret before signs, too, in ms since the epoch.
    fn rotated_until_ms(&self, now_ms: u64) -> Option<u64> {
        let until_ms = self.rotated_at_ms?.saturating_add(ROTATION_MS);
        (until_ms > now_ms).then_some(until_ms)
    }

    /// The secrets that sign at `now_ms` (since the epoch), the newest first: of each key of `SIGNING_KEY`, and while it is rotated of both versions.
    pub(crate) fn secrets(&self, keys: &SigningKeys, account: &str, now_ms: u64) -> Vec<WebhookSecret> {
        let before = self.rotated_until_ms(now_ms).map(|_| self.secret_version.saturating_sub(1));
        let versions = [Some(self.secret_version), before].into_iter().flatten();
        let of = |version: u32| {
            let made = self.created_at_ms.to_be_bytes();
            let parts = [&version.to_be_bytes()[..], &made, account.as_bytes()];
            keys.secrets(Purpose::ShopEvent, &parts, now_ms)
        };
        versions.flat_map(of).map(WebhookSecret::from).collect()
    }

    /// Whether it is told of what happened then, in ms since the epoch: not of what was before it, nor of what an earlier endpoint was to be told.
    pub(crate) const fn is_told_of(&self, at_ms: u64) -> bool {
        at_ms.saturating_add(CLOCKS_DIFFER_MS) >= self.created_at_ms
    }

    /// From when on what was staged is told to it, in ms since the epoch.
    pub(crate) const fn told_since_ms(&self) -> u64 {
        self.created_at_ms.saturating_sub(CLOCKS_DIFFER_MS)
    }

    /// Until when what signed before the newest secret does so, too, in ms since the epoch, as far as it is known: a version before it, or an older key of
    /// `SIGNING_KEY`. Of several the first that ends.
    fn previous_until_ms(&self, keys: &SigningKeys, now_ms: u64) -> Option<u64> {
        [self.rotated_until_ms(now_ms), keys.next_end_ms(now_ms)].into_iter().flatten().min()
    }

    /// Whether it was made just then, in ms since the epoch.
    pub(crate) const fn is_made_at(&self, now_ms: u64) -> bool {
        self.created_at_ms == now_ms
    }

    /// As the API shows it.
    pub(crate) fn to_json(&self, keys: &SigningKeys, account: &str, now_ms: u64) -> Value {
        let secret = self.secrets(keys, account, now_ms).first().map(WebhookSecret::to_text);
        json!({
            "object": "webhook_endpoint",
            "url": self.url,
            "secret": secret,
            "secret_version": self.secret_version,
            "previous_secret_expires_at": self.previous_until_ms(keys, now_ms).map(timestamp),
            "created_at": timestamp(self.created_at_ms),
            "updated_at": timestamp(self.updated_at_ms),
        })
    }
}

/// The row of an account, as it stands in D1 now.
pub(crate) async fn row(env: &Env, account: &str) -> Result<Option<Row>> {
    Db::of(env)?.first(OF_ACCOUNT, vec![account.into()]).await
}

/// See [`PUT`]. `None` if the version is neither the one that there is nor the next.
pub(crate) async fn put(
    env: &Env,
    account: &str,
    url: &str,
    version: Option<u32>,
    now_ms: u64,
) -> Result<Option<Row>> {
    let values = vec![account.into(), url.into(), version.into(), now_ms.into()];
    Db::of(env)?.first(PUT, values).await
}

/// See [`REMOVE`].
pub(crate) async fn remove(env: &Env, account: &str, now_ms: u64) -> Result<()> {
    Db::of(env)?.run(REMOVE, vec![account.into(), now_ms.into()]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readmodel::for_tests::read_model;
    use rusqlite::Connection;

    const URL: &str = "https://shop.example/hook";

    fn put(model: &Connection, url: &str, version: Option<u32>, now_ms: u64) -> Option<Row> {
        let ms = |ms: i64| u64::try_from(ms).unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            Ok(Row {
                url: row.get(0)?,
                secret_version: row.get(1)?,
                rotated_at_ms: row.get::<_, Option<i64>>(2)?.map(ms),
                created_at_ms: ms(row.get(3)?),
                updated_at_ms: ms(row.get(4)?),
            })
        };
        model.query_row(PUT, ("ada", url, version, now_ms.cast_signed()), row).ok()
    }

    fn keys(setting: &str) -> SigningKeys {
        SigningKeys::parse(setting).unwrap()
    }

    #[test]
    fn to_send_the_same_again_changes_nothing_and_the_next_version_rotates_once() {
        let model = read_model();
        let made = put(&model, URL, None, 10).unwrap();
        assert_eq!((made.secret_version, made.created_at_ms, made.updated_at_ms), (1, 10, 10));
        assert_eq!(put(&model, URL, None, 20), Some(made.clone()));
        assert_eq!(put(&model, URL, Some(1), 21), Some(made.clone()));
        let rotated = put(&model, URL, Some(2), 30).unwrap();
        assert_eq!((rotated.secret_version, rotated.rotated_at_ms, rotated.updated_at_ms), (2, Some(30), 30));
        assert_eq!(put(&model, URL, Some(2), 40), Some(rotated.clone()), "a retry");
        for wrong in [0, 1, 4] {
            assert_eq!(put(&model, URL, Some(wrong), 50), None, "{wrong}");
        }
        let moved = put(&model, "https://shop.example/other", None, 60).unwrap();
        assert_eq!((moved.secret_version, moved.rotated_at_ms, moved.updated_at_ms), (2, Some(30), 60));
        assert_eq!(moved.created_at_ms, 10);
    }

    #[test]
    fn one_that_is_made_anew_has_another_secret() {
        let model = read_model();
        assert_eq!(put(&model, URL, Some(2), 5), None, "there is none whose secret could be the next");
        put(&model, URL, Some(1), 10).unwrap();
        assert_eq!(model.execute(REMOVE, ("ada", 20)).unwrap(), 1);
        assert_eq!(model.execute(REMOVE, ("ada", 21)).unwrap(), 0);
        assert_eq!(put(&model, URL, Some(1), 25), None, "a late retry does not make it again");
        let anew = put(&model, URL, None, 30).unwrap();
        assert_eq!((anew.secret_version, anew.rotated_at_ms, anew.created_at_ms), (2, None, 30));
    }

    #[test]
    fn secrets_are_of_an_account_a_version_and_a_key() {
        let (old, new) = ("an-old-key-0123456789-0123456789ab", "a-new-key-0123456789-0123456789-ab");
        let endpoint = Endpoint {
            url: URL.to_owned(),
            secret_version: 2,
            rotated_at_ms: Some(1_000),
            created_at_ms: 1,
            updated_at_ms: 1,
        };
        let later_ms = 1_000 + ROTATION_MS;
        let of = |setting: &str, account: &str, now_ms| {
            let secrets = endpoint.secrets(&keys(setting), account, now_ms);
            secrets.iter().map(WebhookSecret::to_text).collect::<Vec<_>>()
        };
        let both = of(old, "ada", later_ms - 1);
        let [newest] = &of(old, "ada", later_ms)[..] else { panic!("the one before has ended") };
        assert_eq!((both.len(), &both[0]), (2, newest));
        assert_ne!(both[0], both[1]);
        assert_ne!(&of(old, "bob", later_ms)[0], newest);
        let anew = Endpoint { created_at_ms: 2, ..endpoint.clone() };
        assert_ne!(
            &anew.secrets(&keys(old), "ada", later_ms)[0].to_text(),
            newest,
            "of one that is made anew"
        );
        // While SIGNING_KEY is rolled both sign, and the shop is shown the new one.
        let rolled = of(&format!("{new} {old}"), "ada", later_ms);
        assert_eq!((rolled.len(), &rolled[1]), (2, newest));
        assert_eq!(of(new, "ada", later_ms), rolled[..1]);
        let ended = of(&format!("{new} {old}@1970-01-01"), "ada", later_ms);
        assert_eq!(ended, rolled[..1], "it signs nothing any more");
        let shown = endpoint.to_json(&keys(old), "ada", 2_000);
        assert_eq!(shown["secret"], both[0]);
        assert_eq!(shown["previous_secret_expires_at"], timestamp(later_ms));
        let until = |setting: &str, now_ms| {
            endpoint.to_json(&keys(setting), "ada", now_ms)["previous_secret_expires_at"].clone()
        };
        assert!(until(old, later_ms).is_null());
        // While SIGNING_KEY is rolled a shop has until the older key's end, if that is known, or until the end of its own rotation.
        assert!(until(&format!("{new} {old}"), later_ms).is_null());
        let rolled = format!("{new} {old}@1970-01-09");
        assert_eq!(until(&rolled, 2_000), timestamp(later_ms), "the first to end");
        assert_eq!(until(&rolled, later_ms), "1970-01-09T00:00:00.000Z");
        assert!(until(&rolled, 8 * 86_400_000).is_null());
    }

    #[test]
    fn one_is_told_of_what_happened_since_it_was_made_by_clocks_that_differ() {
        let endpoint = Endpoint {
            url: URL.to_owned(),
            secret_version: 1,
            rotated_at_ms: None,
            created_at_ms: 1_000_000,
            updated_at_ms: 1_000_000,
        };
        assert!(endpoint.is_told_of(1_000_000 - CLOCKS_DIFFER_MS));
        assert!(!endpoint.is_told_of(1_000_000 - CLOCKS_DIFFER_MS - 1));
    }
}
