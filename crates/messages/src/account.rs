//! An API account: what it pays with, who sells, and what it may charge. Those of `API_ACCOUNTS` and those of the registry in D1 are the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use once::skip::is_false;
use payments::payment::money::{AmountMinor, Currency};
use payments::payment::own_keys::{self, Merchant};
use web::entries::email as address;
use web::image_url::{IMAGE_URL_MAX, ImageUrl};

/// The longest id of an account at Stripe, after its prefix.
const STRIPE_ACCOUNT_MAX: usize = 64;
/// The longest id of an account in the registry, in characters.
pub const ID_MAX: usize = 64;
/// The longest name of a merchant account at Adyen, in characters.
const MERCHANT_ACCOUNT_MAX: usize = 80;
/// The longest prefix of a live endpoint at Adyen, in characters: it is the beginning of a name in the DNS, which has 63.
const LIVE_PREFIX_MAX: usize = 49;
/// The longest token or id of a provider's, in characters.
const TOKEN_MAX: usize = 255;

/// What an API account pays with.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// SHA-256 of the bearer token, in lower-case hexadecimal: the token itself is never configured. In `API_ACCOUNTS` only; the registry
    /// keeps the tokens of an account beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_sha256: Option<String>,
    /// The provider's token of what pays.
    pub payment_method: String,
    /// The provider's customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    /// How the ids of its customers begin, where accounts do not trust each other: a request may name no other customer, and
    /// uses no payment method without one. At Adyen the ids are ours (`shopperReference`), at Stripe they can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer_prefix: Option<String>,
    /// The account at Stripe that is connected to ours, and whose customers, payment methods and money these are (`acct_…`).
    /// Without it they are in the account of `STRIPE_SECRET_KEY` itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_account: Option<String>,
    /// It has keys of its own at Stripe: without one that can be used nothing is charged, also not with `STRIPE_SECRET_KEY`. In the registry only.
    /// A release that does not know of it cannot read the account, and refuses it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_stripe_keys: bool,
    /// It has a key of its own at Adyen, for its [own merchant account](Self::adyen_account): without one that can be used nothing is charged there,
    /// also not with `ADYEN_API_KEY`. In the registry only, as above.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_adyen_keys: bool,
    /// Its own merchant account at Adyen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adyen_account: Option<AdyenAccount>,
    /// [What stands for its keys](own_keys), where it has any.
    #[serde(skip)]
    pub own_keys_name: Option<String>,
    /// To whom receipts go, where a request does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// What pays at Adyen, if the account may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adyen: Option<AdyenWallet>,
    /// Who sells, as people see it at the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shop: Option<Shop>,
    /// The currencies in which it may charge; without them, in all that are offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currencies: Option<BTreeMap<Currency, CurrencyTerms>>,
}

/// What holds for an account's payments in one currency.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CurrencyTerms {
    /// The most that one payment may be, in minor units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_max: Option<AmountMinor>,
}

/// Why an account does not charge an amount. Each says what to send instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCharged {
    /// None in this currency.
    Currency(String),
    /// Not so much of it.
    Amount(String),
}

impl Account {
    /// What is wrong with it, as a clause that follows its id; `Ok` if nothing is.
    pub fn check(&self) -> Result<(), String> {
        let is_token =
            |text: &str| (1..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        let adyen = self.adyen.iter().flat_map(|wallet| {
            [("adyen.payment_method", &wallet.payment_method), ("adyen.customer", &wallet.customer)]
        });
        let own = [
            ("payment_method", Some(&self.payment_method)),
            ("customer", self.customer.as_ref()),
            ("customer_prefix", self.customer_prefix.as_ref()),
        ];
        let given = own.into_iter().filter_map(|(name, text)| Some((name, text?)));
        if let Some((name, _)) = given.chain(adyen).find(|(_, text)| !is_token(text)) {
            return Err(format!("needs a {name} of 1 to {TOKEN_MAX} visible ASCII characters"));
        }
        let prefix = self.customer_prefix.as_deref().unwrap_or_default();
        let mut customers = self.customer.iter().chain(self.adyen.as_ref().map(|wallet| &wallet.customer));
        if customers.any(|customer| !customer.starts_with(prefix)) {
            return Err("has a customer that does not begin with its customer_prefix".to_owned());
        }
        if self.stripe_account.as_deref().is_some_and(|connected| !is_stripe_account(connected)) {
            return Err(
                "needs a stripe_account of acct_ and letters and digits, as Stripe's dashboard shows it"
                    .to_owned(),
            );
        }
        if self.own_stripe_keys && self.stripe_account.is_some() {
            return Err(
                "has own_stripe_keys and a stripe_account: a connected account is reached with the deployment's key. Leave one of them out"
                    .to_owned(),
            );
        }
        if self.own_adyen_keys && self.adyen_account.is_none() {
            return Err("has own_adyen_keys and no adyen_account: name its merchant account".to_owned());
        }
        if let Some(merchant) = &self.adyen_account {
            merchant.check()?;
        }
        if self.email.as_deref().is_some_and(|email| address(email).as_deref() != Ok(email)) {
            return Err("needs an email that is one address, such as ada@example.com".to_owned());
        }
        if self.shop.as_ref().is_some_and(|shop| !shop.is_valid()) {
            return Err(format!(
                "needs a shop with a name of 1 to 80 characters; its support is an address for email, or https://…; its logo is https://… of at most {IMAGE_URL_MAX} characters"
            ));
        }
        match &self.currencies {
            Some(currencies) if currencies.is_empty() => {
                Err("may charge in no currency: leave currencies out for all".to_owned())
            }
            Some(currencies) => currencies.iter().try_for_each(|(currency, terms)| {
                Currency::parse_offered(currency.as_str())
                    .map_err(|message| format!("has a currency that {message}"))?;
                match terms.amount_max {
                    Some(most) => most
                        .check(*currency)
                        .map(drop)
                        .map_err(|message| format!("has an amount_max in {currency} that {message}")),
                    None => Ok(()),
                }
            }),
            None => Ok(()),
        }
    }

    /// The same account, as it is known by this id.
    #[must_use]
    pub fn named(mut self, id: &str) -> Self {
        let has_own = self.own_stripe_keys || self.own_adyen_keys;
        self.own_keys_name = has_own.then(|| own_keys::name_of(id));
        self
    }

    /// What stands for its keys. Without its name it has keys that nobody has, and not the deployment's.
    fn own_keys(&self) -> &str {
        self.own_keys_name.as_deref().unwrap_or(own_keys::OF_NOBODY)
    }

    /// Where its payments at Stripe are made, as a payment names it: a connected account, or [its own keys](own_keys). `None` for the account of
    /// `STRIPE_SECRET_KEY`.
    pub fn at_stripe(&self) -> Option<&str> {
        if self.own_stripe_keys {
            return Some(self.own_keys());
        }
        self.stripe_account.as_deref()
    }

    /// Where its payments at Adyen are made, as a payment names it: in its own merchant account, with [its own key](own_keys). `None` for
    /// `ADYEN_MERCHANT_ACCOUNT`.
    pub fn at_adyen(&self) -> Option<String> {
        self.own_adyen_keys.then(|| match &self.adyen_account {
            Some(merchant) => merchant.named().name(self.own_keys()),
            None => own_keys::OF_NOBODY.to_owned(),
        })
    }

    /// Whether one payment of it may be so much.
    pub fn may_charge(&self, amount: AmountMinor, currency: Currency) -> Result<(), NotCharged> {
        let Some(currencies) = &self.currencies else { return Ok(()) };
        let Some(terms) = currencies.get(&currency) else {
            let known: Vec<&str> = currencies.keys().map(Currency::as_str).collect();
            return Err(NotCharged::Currency(format!(
                "must be one that this account charges: {}",
                known.join(", ")
            )));
        };
        match terms.amount_max {
            Some(most) if amount > most => Err(NotCharged::Amount(format!(
                "must be at most {} in {currency}: more is not charged for this account at once",
                most.get()
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether an account of the registry can be called so: it stands in addresses and in logs.
pub fn is_id(text: &str) -> bool {
    (1..=ID_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@' | b'+'))
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
}

/// Whether this has the form of a token's SHA-256.
pub fn is_token_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// What finds the account of a token that may be used, by the token's SHA-256. `settings` is NULL for an account that is not in the
/// registry: then it is one of `API_ACCOUNTS`.
pub const ACCOUNT_OF_TOKEN: &str = "SELECT t.account AS id, t.ends_at_ms, a.settings, a.state
     FROM account_tokens AS t LEFT JOIN accounts AS a ON a.id = t.account WHERE t.token_sha256 = ?1";
/// What finds an account of the registry.
pub const ACCOUNT_OF_ID: &str = "SELECT id, settings, state FROM accounts WHERE id = ?1";

/// A row of the registry, as [`ACCOUNT_OF_TOKEN`] and [`ACCOUNT_OF_ID`] find it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct AccountRow {
    /// The account's id.
    pub id: String,
    /// [`Account`] as JSON.
    pub settings: Option<String>,
    /// `active`, or `closed`: then no token of it is good, and nothing new is charged.
    pub state: Option<String>,
    /// When the token ends, in ms since the epoch; one that was revoked has ended.
    #[serde(default)]
    pub ends_at_ms: Option<u64>,
}

impl AccountRow {
    /// Whether something new may be charged.
    pub fn is_active(&self) -> bool {
        self.state.as_deref() == Some("active")
    }

    /// The account, if it is in the registry, also a closed one. An error is a row that this release cannot read: it may hold a restriction that is
    /// unknown here, so it is not used.
    pub fn account(&self) -> Result<Option<Account>, serde_json::Error> {
        let Some(settings) = &self.settings else { return Ok(None) };
        json_text::from_str(settings).map(|account: Account| Some(account.named(&self.id)))
    }

    /// The same, unless it is closed.
    pub fn active(&self) -> Result<Option<Account>, serde_json::Error> {
        if self.is_active() { self.account() } else { Ok(None) }
    }
}

/// Who sells.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shop {
    /// As people know it.
    pub name: String,
    /// Where it answers questions: an address for email, or of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support: Option<String>,
    /// Where its logo is. It says the name: whoever does not see it reads that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
}

impl Shop {
    fn is_valid(&self) -> bool {
        let name = self.name.trim();
        let is_name = name == self.name
            && (1..=80).contains(&name.chars().count())
            && !name.chars().any(char::is_control);
        is_name
            && self.support.as_deref().is_none_or(|support| {
                web_page(support) || address(support).is_ok_and(|known| known == support)
            })
            && self.logo.as_deref().is_none_or(|logo| ImageUrl::parse(logo).is_ok())
    }

    /// Its logo.
    pub fn logo(&self) -> Option<ImageUrl> {
        ImageUrl::known(self.logo.as_deref()?)
    }

    /// Where a link to its support leads.
    pub fn support_href(&self) -> Option<String> {
        let support = self.support.as_deref()?;
        Some(if web_page(support) { support.to_owned() } else { format!("mailto:{support}") })
    }
}

fn web_page(text: &str) -> bool {
    text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
        && text.len() <= 200
        && text.bytes().all(|b| b.is_ascii_graphic())
}

/// What an API account pays with at Adyen.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdyenWallet {
    /// `storedPaymentMethodId`.
    pub payment_method: String,
    /// `shopperReference`: whose it is.
    pub customer: String,
}

/// A merchant account at Adyen.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdyenAccount {
    /// Its name there.
    pub merchant_account: String,
    /// How the address of its live endpoint begins; without it, it is one for tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_prefix: Option<String>,
}

impl AdyenAccount {
    /// The same, as payments name it.
    pub fn named(&self) -> Merchant<'_> {
        Merchant { account: &self.merchant_account, live_prefix: self.live_prefix.as_deref() }
    }

    fn check(&self) -> Result<(), String> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let name = &self.merchant_account;
        if !(1..=MERCHANT_ACCOUNT_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(format!(
                "needs an adyen_account with a merchant_account of 1 to {MERCHANT_ACCOUNT_MAX} letters, digits, underscores, hyphens or dots"
            ));
        }
        let is_label = |prefix: &String| {
            (1..=LIVE_PREFIX_MAX).contains(&prefix.len())
                && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !prefix.starts_with('-')
                && !prefix.ends_with('-')
        };
        if !self.live_prefix.as_ref().is_none_or(is_label) {
            return Err(
                "needs a live_prefix of letters, digits and hyphens, such as 1797a841fbb37ca7-AdyenDemo: the Customer Area shows it under API URLs, and it is no whole address"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Whether it has the form of an account's id at Stripe.
fn is_stripe_account(id: &str) -> bool {
    let name = id.strip_prefix("acct_").unwrap_or_default();
    (1..=STRIPE_ACCOUNT_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(settings: &str) -> AccountRow {
        AccountRow {
            id: "shop-a".to_owned(),
            settings: Some(settings.to_owned()),
            state: Some("active".to_owned()),
            ends_at_ms: None,
        }
    }

    #[test]
    fn an_account_with_keys_of_its_own_is_never_at_the_deployments() {
        let own = row(r#"{"payment_method":"pm_1","own_stripe_keys":true}"#).active().unwrap().unwrap();
        assert_eq!(own.at_stripe(), Some("keys:shop-a"));
        let unnamed: Account =
            json_text::from_str(r#"{"payment_method":"pm_1","own_stripe_keys":true}"#).unwrap();
        assert_eq!(unnamed.at_stripe(), Some("keys:"), "and not that of STRIPE_SECRET_KEY");
        let connected =
            row(r#"{"payment_method":"pm_1","stripe_account":"acct_1"}"#).active().unwrap().unwrap();
        assert_eq!(connected.at_stripe(), Some("acct_1"));
    }

    #[test]
    fn settings_of_before_are_read_and_written_as_they_were() {
        let text = r#"{"payment_method":"pm_1"}"#;
        let account = row(text).active().unwrap().unwrap();
        assert_eq!(account.at_stripe(), None);
        assert_eq!(serde_json::to_string(&account).unwrap(), text);
    }

    #[test]
    fn an_account_with_a_merchant_account_of_its_own_is_never_in_the_deployments() {
        let settings = |more: &str| format!(r#"{{"payment_method":"pm_1"{more}}}"#);
        let at = |more: &str| row(&settings(more)).active().unwrap().unwrap().at_adyen();
        let own = r#","own_adyen_keys":true,"adyen_account":{"merchant_account":"Shop_A"}"#;
        assert_eq!(at(own).as_deref(), Some("keys:shop-a/Shop_A"));
        let live =
            r#","own_adyen_keys":true,"adyen_account":{"merchant_account":"Shop_A","live_prefix":"17-A"}"#;
        assert_eq!(at(live).as_deref(), Some("keys:shop-a/Shop_A/17-A"));
        assert_eq!(at(r#","adyen_account":{"merchant_account":"Shop_A"}"#), None, "it is not used yet");
        let unnamed: Account = json_text::from_str(&settings(own)).unwrap();
        assert_eq!(unnamed.at_adyen().as_deref(), Some("keys:/Shop_A"), "and not ADYEN_MERCHANT_ACCOUNT");
        assert_eq!(unnamed.at_stripe(), None);
    }

    #[test]
    fn a_merchant_account_is_a_name_and_no_address() {
        let check = |merchant_account: &str, live_prefix: Option<&str>| {
            let (merchant_account, live_prefix) =
                (merchant_account.to_owned(), live_prefix.map(str::to_owned));
            AdyenAccount { merchant_account, live_prefix }.check()
        };
        assert_eq!(check("Shop_A-ECOM", None), Ok(()));
        assert_eq!(check("Shop", Some("1797a841fbb37ca7-AdyenDemo")), Ok(()));
        for (name, prefix) in [
            ("", None),
            ("Shop/ECOM", None),
            ("keys:a", None),
            ("Shop A", None),
            ("Shop", Some("")),
            ("Shop", Some("-a")),
            ("Shop", Some("https://1797-checkout-live.adyenpayments.com")),
            ("Shop", Some("evil.example/")),
            ("Shop", Some("1797_a")),
        ] {
            assert!(check(name, prefix).is_err(), "{name} {prefix:?}");
        }
        let alone: Account =
            json_text::from_str(r#"{"payment_method":"pm_1","own_adyen_keys":true}"#).unwrap();
        assert!(alone.check().unwrap_err().contains("no adyen_account"));
    }

    #[test]
    fn keys_of_its_own_and_a_connected_account_do_not_go_together() {
        let settings = r#"{"payment_method":"pm_1","own_stripe_keys":true,"stripe_account":"acct_1"}"#;
        let account: Account = json_text::from_str(settings).unwrap();
        assert!(account.check().unwrap_err().contains("Leave one of them out"));
    }
}
