//! What an operator enters about an account, and back: one entry for each setting.

use std::collections::BTreeMap;

use super::view::FormField;
use crate::format;
use messages::account::{Account, AdyenAccount, AdyenWallet, CurrencyTerms, Shop};
use once::fingerprint::Parameters;
use payments::payment::money::{AmountMinor, Currency};
use payments::providers::Provider;

/// Name, label, and what to say below.
type Entry = (&'static str, &'static str, &'static str);

/// The entries that are boxes.
const OWN_KEYS: &str = "own_stripe_keys";
const OWN_ADYEN_KEYS: &str = "own_adyen_keys";

/// How the box is called that turns an account's own keys at a provider on.
pub(super) const fn own_keys_label(provider: Provider) -> &'static str {
    match provider {
        Provider::Stripe => "It has keys of its own at Stripe",
        Provider::Adyen => "It has a key of its own at Adyen",
    }
}

/// The entries, in groups.
const FIELDS: [(&str, &[Entry]); 4] = [
    (
        "What it pays with at Stripe",
        &[
            ("payment_method", "Payment method", "What is charged where a request names none: pm_…"),
            ("customer", "Customer", "Whose it is: cus_… May be empty."),
            (
                "customer_prefix",
                "Customers begin with",
                "Then a request can name no other customer. May be empty.",
            ),
            (
                "stripe_account",
                "Connected account",
                "Where its money goes: acct_… Empty for the account of the secret key.",
            ),
            (
                OWN_KEYS,
                own_keys_label(Provider::Stripe),
                "They are entered at the account’s page. Without them nothing is charged.",
            ),
        ],
    ),
    (
        "At Adyen, if it may use it",
        &[
            ("adyen_payment_method", "Stored payment method", "storedPaymentMethodId"),
            ("adyen_customer", "Shopper", "shopperReference: whose it is."),
            (
                "adyen_merchant_account",
                "Own merchant account",
                "In which it is charged with a key of its own. Empty for the deployment’s.",
            ),
            (
                "adyen_live_prefix",
                "Live prefix",
                "Of its live endpoint, as the Customer Area shows it under API URLs. Empty for tests.",
            ),
            (
                OWN_ADYEN_KEYS,
                own_keys_label(Provider::Adyen),
                "It is entered at the account’s page. Without it nothing is charged at Adyen.",
            ),
        ],
    ),
    (
        "Who sells",
        &[
            (
                "shop_name",
                "Name",
                "As people read it at the checkout, on receipts and in emails. May be empty.",
            ),
            ("shop_support", "Support", "An address for email, or a page: https://…"),
            ("shop_logo", "Logo", "https://… It stands in the place of the name, 40 pixels high."),
            ("email", "Receipts go to", "Where a request names nobody. May be empty."),
        ],
    ),
    (
        "What it may charge",
        &[(
            "currencies",
            "Currencies",
            "With the most that one payment may be: usd 5000.00, eur. Empty for all, without limit.",
        )],
    ),
];

/// The form's groups, with what was entered.
pub(super) fn fields(value: impl Fn(&str) -> String) -> Vec<(&'static str, Vec<FormField>)> {
    let field = |(name, label, hint): &Entry| FormField {
        name,
        label,
        hint,
        value: value(name),
        is_required: *name == "payment_method",
        is_check: [OWN_KEYS, OWN_ADYEN_KEYS].contains(name),
    };
    FIELDS.iter().map(|(group, fields)| (*group, fields.iter().map(field).collect())).collect()
}

/// An account as its entries.
pub(super) fn of(account: &Account, name: &str) -> String {
    let shop = account.shop.as_ref();
    let adyen = account.adyen.as_ref();
    let merchant = account.adyen_account.as_ref();
    match name {
        "payment_method" => Some(account.payment_method.clone()),
        "customer" => account.customer.clone(),
        "customer_prefix" => account.customer_prefix.clone(),
        "stripe_account" => account.stripe_account.clone(),
        OWN_KEYS => account.own_stripe_keys.then(|| "on".to_owned()),
        OWN_ADYEN_KEYS => account.own_adyen_keys.then(|| "on".to_owned()),
        "adyen_merchant_account" => merchant.map(|merchant| merchant.merchant_account.clone()),
        "adyen_live_prefix" => merchant.and_then(|merchant| merchant.live_prefix.clone()),
        "email" => account.email.clone(),
        "adyen_payment_method" => adyen.map(|wallet| wallet.payment_method.clone()),
        "adyen_customer" => adyen.map(|wallet| wallet.customer.clone()),
        "shop_name" => shop.map(|shop| shop.name.clone()),
        "shop_support" => shop.and_then(|shop| shop.support.clone()),
        "shop_logo" => shop.and_then(|shop| shop.logo.clone()),
        "currencies" => account.currencies.as_ref().map(currencies_text),
        _ => None,
    }
    .unwrap_or_default()
}

/// The currencies with their limits, as they are entered.
pub(super) fn currencies_text(currencies: &BTreeMap<Currency, CurrencyTerms>) -> String {
    let one = |(currency, terms): (&Currency, &CurrencyTerms)| match terms.amount_max {
        None => currency.to_string(),
        Some(most) => format!("{currency} {}", decimal(most, *currency)),
    };
    currencies.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The same for who reads it: `EUR, USD up to 5000.00 a payment`.
pub(super) fn may_charge(currencies: &BTreeMap<Currency, CurrencyTerms>) -> String {
    let one = |(currency, terms): (&Currency, &CurrencyTerms)| {
        let name = currency.as_str().to_uppercase();
        match terms.amount_max {
            None => name,
            Some(most) => format!("{name} up to {} a payment", decimal(most, *currency)),
        }
    };
    currencies.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// `12.50`, as [`format::parse_money`] reads it.
fn decimal(amount: AmountMinor, currency: Currency) -> String {
    let (minor, decimals) = (amount.get(), currency.decimals());
    match 10_u64.checked_pow(decimals) {
        Some(unit) if unit > 1 => {
            format!("{}.{:0width$}", minor / unit, minor % unit, width = decimals as usize)
        }
        _ => minor.to_string(),
    }
}

/// Why a form is not saved.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The entry that it is about; empty if it is none.
    pub(super) entry: &'static str,
    /// A sentence that says what to enter.
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn at(entry: &'static str, message: impl Into<String>) -> Self {
        Self { entry, message: message.into() }
    }

    /// A form of another session is shown once more: whoever had to log in again meanwhile has not written it for nothing.
    pub(super) fn session() -> Self {
        Self::at(
            "",
            "This form was opened before you logged in, or too long ago. Check it, and save it once more.",
        )
    }
}

/// How settings are called in [`Account::check`] whose entries have other names.
const SETTINGS: [(&str, &str); 8] = [
    ("adyen.payment_method", "adyen_payment_method"),
    ("adyen.customer", "adyen_customer"),
    ("adyen_account", "adyen_merchant_account"),
    ("live_prefix", "adyen_live_prefix"),
    ("shop", "shop_name"),
    ("currency", "currencies"),
    ("amount_max", "currencies"),
    ("currencies", "currencies"),
];

/// The entry of the setting that a sentence of [`Account::check`] names first.
fn entry_of(sentence: &str) -> &'static str {
    let names = FIELDS.iter().flat_map(|(_, fields)| *fields).map(|(name, ..)| (*name, *name));
    let known: Vec<_> = SETTINGS.into_iter().chain(names).collect();
    let entry = |word: &str| known.iter().find(|(setting, _)| *setting == word).map(|(_, entry)| *entry);
    sentence.split([' ', ':', ',']).find_map(entry).unwrap_or_default()
}

/// Reads them.
pub(super) fn read(entries: &Parameters) -> Result<Account, Wrong> {
    let text =
        |name: &str| Some(entries.text(name).or_empty().trim().to_owned()).filter(|text| !text.is_empty());
    let adyen = match (text("adyen_payment_method"), text("adyen_customer")) {
        (None, None) => None,
        (Some(payment_method), Some(customer)) => Some(AdyenWallet { payment_method, customer }),
        (stored, _) => {
            return Err(Wrong::at(
                if stored.is_some() { "adyen_customer" } else { "adyen_payment_method" },
                "At Adyen a stored payment method and its shopper go together: enter both, or none.",
            ));
        }
    };
    let adyen_account = match (text("adyen_merchant_account"), text("adyen_live_prefix")) {
        (None, None) => None,
        (Some(merchant_account), live_prefix) => Some(AdyenAccount { merchant_account, live_prefix }),
        (None, Some(_)) => {
            return Err(Wrong::at(
                "adyen_merchant_account",
                "A live URL prefix needs a merchant account. Enter it, too.",
            ));
        }
    };
    let shop = match (text("shop_name"), text("shop_support"), text("shop_logo")) {
        (None, None, None) => None,
        (Some(name), support, logo) => Some(Shop { name, support, logo }),
        _ => {
            let message = "Enter the shop’s name if you enter its support or its logo.";
            return Err(Wrong::at("shop_name", message));
        }
    };
    let account = Account {
        token_sha256: None,
        payment_method: text("payment_method").ok_or_else(|| {
            let message =
                "The payment method is missing: what is charged where a request names none, pm_… at Stripe.";
            Wrong::at("payment_method", message)
        })?,
        customer: text("customer"),
        customer_prefix: text("customer_prefix"),
        stripe_account: text("stripe_account"),
        own_stripe_keys: text(OWN_KEYS).is_some(),
        own_adyen_keys: text(OWN_ADYEN_KEYS).is_some(),
        adyen_account,
        own_keys_name: None,
        email: text("email"),
        adyen,
        shop,
        currencies: text("currencies")
            .map(|text| currencies(&text))
            .transpose()
            .map_err(|message| Wrong::at("currencies", message))?,
    };
    account.check().map_err(|wrong| Wrong::at(entry_of(&wrong), format!("The account {wrong}.")))?;
    Ok(account)
}

fn currencies(text: &str) -> Result<BTreeMap<Currency, CurrencyTerms>, String> {
    let mut currencies = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (code, most) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        let currency =
            Currency::parse_offered(code).map_err(|message| format!("The currency {code} {message}."))?;
        let amount_max = format::parse_money(most, currency.as_str())
            .map_err(|message| format!("The most in {currency} {message}."))?;
        if currencies.insert(currency, CurrencyTerms { amount_max }).is_some() {
            return Err(format!("The currency {currency} stands there twice."));
        }
    }
    Ok(currencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error with the name of its entry before it.
    fn entered(pairs: &[(&str, &str)]) -> Result<Account, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(&Parameters::Form(pairs.collect()))
            .map_err(|wrong| format!("{}: {}", wrong.entry, wrong.message))
    }

    fn full() -> Account {
        serde_json::from_str(
            r#"{"payment_method":"pm_1","customer":"ada-1","customer_prefix":"ada-","stripe_account":"acct_1","email":"ada@example.com",
                "adyen":{"payment_method":"stored","customer":"ada-shopper"},
                "shop":{"name":"Ada’s shop","support":"help@shop.example","logo":"https://shop.example/logo.png"},
                "currencies":{"usd":{"amount_max":500050},"jpy":{"amount_max":9000},"eur":{}}}"#,
        )
        .unwrap()
    }

    #[test]
    fn what_is_shown_is_read_again_as_it_was() {
        let own = Account { stripe_account: None, own_stripe_keys: true, ..full() };
        let merchant = |live_prefix: Option<&str>| {
            let (merchant_account, live_prefix) = ("Shop_A".to_owned(), live_prefix.map(str::to_owned));
            Some(AdyenAccount { merchant_account, live_prefix })
        };
        let at_adyen = Account { own_adyen_keys: true, adyen_account: merchant(Some("17-Shop")), ..full() };
        let named = Account { adyen_account: merchant(None), ..full() };
        for account in
            [full(), own, at_adyen, named, Account { shop: None, currencies: None, adyen: None, ..full() }]
        {
            let shown = fields(|name| of(&account, name));
            let pairs: Vec<_> = shown
                .iter()
                .flat_map(|(_, fields)| fields)
                .map(|field| (field.name, field.value.as_str()))
                .collect();
            assert_eq!(entered(&pairs).unwrap(), account);
        }
        assert_eq!(of(&full(), "currencies"), "eur, jpy 9000, usd 5000.50");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |name, value| entered(&[("payment_method", "pm_1"), (name, value)]).unwrap_err();
        assert!(entered(&[]).unwrap_err().contains("payment method is missing"));
        assert!(with("adyen_customer", "a").contains("go together"));
        assert!(with("shop_logo", "https://shop.example/a.png").contains("shop’s name"));
        assert!(with("stripe_account", "acct").contains("acct_"));
        let both = [("payment_method", "pm_1"), ("stripe_account", "acct_1"), (OWN_KEYS, "on")];
        assert!(entered(&both).unwrap_err().contains("Leave one of them out"));
        assert!(with(OWN_ADYEN_KEYS, "on").contains("name its merchant account"));
        assert!(with("adyen_live_prefix", "17-Shop").contains("Enter it, too"));
        assert!(with("adyen_merchant_account", "a/b").contains("letters, digits"));
        assert!(with("currencies", "xyz").contains("xyz"));
        assert!(with("currencies", "usd many").contains("usd"));
        assert!(with("currencies", "usd, usd 5.00").contains("twice"));
        assert!(with("currencies", ",").contains("no currency"));
        assert!(with("email", "ada").contains("address"));
    }

    #[test]
    fn what_is_wrong_is_said_of_its_entry() {
        let at = |name, value| {
            let wrong = entered(&[("payment_method", "pm_1"), (name, value)]).unwrap_err();
            wrong.split(':').next().unwrap().to_owned()
        };
        assert!(entered(&[]).unwrap_err().starts_with("payment_method: "));
        for (name, value) in [
            ("customer", "no token"),
            ("stripe_account", "acct"),
            ("adyen_merchant_account", "a/b"),
            ("currencies", "xyz"),
            ("currencies", ","),
            ("currencies", "usd 0.01"),
            ("email", "ada"),
            (OWN_ADYEN_KEYS, "on"),
        ] {
            assert_eq!(at(name, value), name, "{value}");
        }
        assert_eq!(at("adyen_payment_method", "stored"), "adyen_customer");
        assert_eq!(at("adyen_customer", "ada"), "adyen_payment_method");
        assert_eq!(at("adyen_live_prefix", "17-Shop"), "adyen_merchant_account");
        assert_eq!(at("shop_support", "help@shop.example"), "shop_name");
        assert_eq!(at("shop_name", &"x".repeat(81)), "shop_name");
        let merchant =
            [("payment_method", "pm_1"), ("adyen_merchant_account", "Shop"), ("adyen_live_prefix", "-")];
        assert!(entered(&merchant).unwrap_err().starts_with("adyen_live_prefix: "));
    }
}
