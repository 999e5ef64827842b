//! Accounts with keys of their own at a provider: where a payment names the merchant's account in which it was made, one of these has a name as
//! below. So it is frozen with the payment and with each of its requests, and goes wherever the name of a connected account goes: to the
//! questions, the read model, the books that are compared.
//!
//! ```text
//! keys:shop-a                      at Stripe, with the key of the account shop-a
//! keys:shop-a/ShopECOM             at Adyen, in the merchant account ShopECOM, with the key of shop-a; a test
//! keys:shop-a/ShopECOM/1797-Shop   the same at Adyen's live endpoint with this prefix
//! ```
//!
//! At Adyen the endpoint is part of it: another one does not know the idempotency keys of the first.
//!
//! No provider has an account of such a name. A release that does not know it sends it as it is and is refused: nothing is charged with another
//! key.

use once::account::Credential;

/// How the names begin. An account at Stripe begins with `acct_`, and a merchant account at Adyen has no colon.
const PREFIX: &str = "keys:";
/// Between the parts. None of them has it.
const SEPARATOR: char = '/';

/// Stands for keys that nobody has: an id is never empty.
pub const OF_NOBODY: &str = PREFIX;

/// What stands for the keys of an API account.
pub fn name_of(account: &str) -> String {
    format!("{PREFIX}{account}")
}

/// The API account whose keys this stands for. `None` if it is the name of a connected account, or of the deployment's merchant account.
pub fn account_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    rest.split(SEPARATOR).next()
}

/// A merchant account at Adyen, and the endpoint at which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merchant<'a> {
    /// Its name there.
    pub account: &'a str,
    /// The prefix of the live endpoint; `None` for a test.
    pub live_prefix: Option<&'a str>,
}

impl<'a> Merchant<'a> {
    /// That of a name. `None` if it stands for no keys at Adyen.
    pub fn of(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split(SEPARATOR).skip(1);
        Some(Self { account: parts.next()?, live_prefix: parts.next() })
    }

    /// What stands for it, and for the keys of an API account, of which `keys` is the [name](name_of).
    pub fn name(&self, keys: &str) -> String {
        let parts = [Some(keys), Some(self.account), self.live_prefix].into_iter().flatten();
        parts.collect::<Vec<_>>().join("/")
    }

    /// What stands for the merchant account as a key of Adyen's has it: whatever key it is, and whichever the endpoint.
    pub fn credential(&self) -> Credential {
        credential_at(self.account, self.live_prefix.is_some())
    }
}

/// What stands for a merchant account at Adyen: a test, or live.
pub fn credential_at(merchant_account: &str, live: bool) -> Credential {
    Credential::of("", &[merchant_account], live)
}

/// Whether what happened in the account `told` happened where a request for `sent` went. A provider tells of no endpoint.
pub fn is_in(told: Option<&str>, sent: Option<&str>) -> bool {
    let place = |name: &str| Some((account_of(name)?.to_owned(), Merchant::of(name)?.account.to_owned()));
    match (told, sent) {
        (Some(told), Some(sent)) => told == sent || place(told).is_some_and(|it| Some(it) == place(sent)),
        (told, sent) => told == sent,
    }
}

/// The account as Adyen knows it: the merchant account of a name, or what is none of these names.
pub fn at_adyen(name: &str) -> &str {
    Merchant::of(name).map_or(name, |merchant| merchant.account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connected_account_is_taken_for_one_with_keys() {
        assert_eq!(account_of(&name_of("shop-a")), Some("shop-a"));
        assert_eq!(account_of("acct_keys"), None);
        assert_eq!(account_of("acct_1"), None);
        assert_eq!(account_of("ShopECOM"), None);
    }

    #[test]
    fn a_name_at_adyen_is_read_as_it_was_written() {
        for (live_prefix, written) in
            [(None, "keys:shop-a/ShopECOM"), (Some("1797-Shop"), "keys:shop-a/ShopECOM/1797-Shop")]
        {
            let merchant = Merchant { account: "ShopECOM", live_prefix };
            let name = merchant.name(&name_of("shop-a"));
            assert_eq!(name, written);
            assert_eq!((Merchant::of(&name), account_of(&name)), (Some(merchant), Some("shop-a")));
            assert_eq!(at_adyen(&name), "ShopECOM");
        }
        for other in ["keys:shop-a", "keys:", "acct_1", "ShopECOM", "Shop/ECOM"] {
            assert_eq!(Merchant::of(other), None, "{other}");
            assert_eq!(at_adyen(other), other);
        }
        let nobody = Merchant { account: "ShopECOM", live_prefix: None }.name(OF_NOBODY);
        assert_eq!(account_of(&nobody), Some(""), "which no account is called");
    }

    #[test]
    fn what_happened_elsewhere_did_not_happen_here() {
        let live = Some("keys:a/Shop/1797-Shop");
        for (told, sent, expected) in [
            (None, None, true),
            (Some("acct_1"), Some("acct_1"), true),
            (Some("keys:a"), Some("keys:a"), true),
            (Some("keys:a/Shop"), Some("keys:a/Shop"), true),
            (Some("keys:a/Shop"), live, true),
            (Some("keys:b/Shop"), live, false),
            (Some("keys:a/Other"), live, false),
            (Some("keys:a"), live, false),
            (Some("keys:a"), Some("keys:b"), false),
            (None, live, false),
            (Some("keys:a/Shop"), None, false),
            (Some("keys:a/Shop"), Some("acct_1"), false),
            (Some("acct_2"), Some("acct_1"), false),
        ] {
            assert_eq!(is_in(told, sent), expected, "{told:?} {sent:?}");
        }
    }
}
