//! The API accounts: who they are, and what they pay with.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use web::entries::email as address;
use web::image_url::{IMAGE_URL_MAX, ImageUrl};

/// Whose the lab's requests without credentials are.
pub(super) const ANONYMOUS: &str = "anonymous";
/// What the demo's own Worker pays with, for the lab and for Rocket Rides: its customers say to whom receipts go.
const DEMO_SITE: &str = "demo-site";
/// The first user of the article.
pub(super) const DEMO_USER: &str = "user@example.com";
/// The longest id of an account at Stripe, after its prefix.
const STRIPE_ACCOUNT_MAX: usize = 64;

/// What an API account pays with.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// SHA-256 of the bearer token, in lower-case hexadecimal: the token itself is never configured.
    pub token_sha256: String,
    /// The provider's token of what pays.
    pub payment_method: String,
    /// The provider's customer.
    #[serde(default)]
    pub customer: Option<String>,
    /// How the ids of its customers begin, where accounts do not trust each other: a request may name no other customer, and
    /// uses no payment method without one. At Adyen the ids are ours (`shopperReference`), at Stripe they can be.
    #[serde(default)]
    pub customer_prefix: Option<String>,
    /// The account at Stripe that is connected to ours, and whose customers, payment methods and money these are (`acct_…`).
    /// Without it they are in the account of `STRIPE_SECRET_KEY` itself.
    #[serde(default)]
    pub stripe_account: Option<String>,
    /// To whom receipts go, where a request does not say.
    #[serde(default)]
    pub email: Option<String>,
    /// What pays at Adyen, if the account may use it.
    #[serde(default)]
    pub adyen: Option<AdyenWallet>,
    /// Who sells, as people see it at the checkout.
    #[serde(default)]
    pub shop: Option<Shop>,
}

/// Who sells.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Shop {
    /// As people know it.
    pub name: String,
    /// Where it answers questions: an address for email, or of a page.
    #[serde(default)]
    pub support: Option<String>,
    /// Where its logo is. It says the name: whoever does not see it reads that.
    #[serde(default)]
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
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AdyenWallet {
    /// `storedPaymentMethodId`.
    pub payment_method: String,
    /// `shopperReference`: whose it is.
    pub customer: String,
}

/// Whether it has the form of an account's id at Stripe.
fn is_stripe_account(id: &str) -> bool {
    let name = id.strip_prefix("acct_").unwrap_or_default();
    (1..=STRIPE_ACCOUNT_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

pub(super) fn token_hash(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token.as_bytes()))
}

/// Those of `API_ACCOUNTS`, and the demo's own. The error is one sentence that says what to set.
pub(super) fn read(
    demo: bool,
    lab: bool,
    configured: Option<String>,
) -> Result<BTreeMap<String, Account>, String> {
    let mut accounts: BTreeMap<String, Account> = match configured {
        // The error's own text quotes what it found, and that is a secret.
        Some(json) => serde_json::from_str(&json).map_err(|error| {
            format!(
                "API_ACCOUNTS is not valid (line {}, column {}): it is a JSON object of account id to \
                 {{\"token_sha256\", \"payment_method\", \"customer\"?}}.",
                error.line(),
                error.column()
            )
        })?,
        None if demo => BTreeMap::new(),
        None => {
            return Err("The secret API_ACCOUNTS is not set: `npx wrangler secret put API_ACCOUNTS` \
                        ({} if there are no API clients)."
                .to_owned());
        }
    };
    for (id, account) in &accounts {
        let is_hash = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if account.token_sha256.len() != 64 || !account.token_sha256.bytes().all(is_hash) {
            return Err(format!(
                "API_ACCOUNTS: token_sha256 of {id} is not 64 lower-case hexadecimal digits (printf %s TOKEN | sha256sum)."
            ));
        }
        let prefix = account.customer_prefix.as_deref().unwrap_or_default();
        let own = account.customer.iter().chain(account.adyen.as_ref().map(|wallet| &wallet.customer));
        if own.into_iter().any(|customer| !customer.starts_with(prefix)) {
            return Err(format!("API_ACCOUNTS: a customer of {id} does not begin with its customer_prefix."));
        }
        if account.stripe_account.as_deref().is_some_and(|connected| !is_stripe_account(connected)) {
            return Err(format!(
                "API_ACCOUNTS: stripe_account of {id} is not acct_ and letters and digits, as Stripe's dashboard shows it."
            ));
        }
        if account.shop.as_ref().is_some_and(|shop| !shop.is_valid()) {
            return Err(format!(
                "API_ACCOUNTS: the shop of {id} needs a name of 1 to 80 characters; its support is an address for email, or https://…; its logo is https://… of at most {IMAGE_URL_MAX} characters"
            ));
        }
        if accounts.iter().any(|(other, a)| other != id && a.token_sha256 == account.token_sha256) {
            return Err(format!("API_ACCOUNTS: {id} has the same token as another account."));
        }
    }
    // The users of the article, whose token is their address: the second one's card is declined. And the demo's own site.
    let article = [
        (DEMO_USER, "pm_card_visa", "adyen_card_visa"),
        ("user-bad-source@example.com", "pm_card_visa_chargeDeclined", "adyen_card_refused"),
        (DEMO_SITE, "pm_card_visa", "adyen_card_visa"),
    ];
    let users = article.into_iter().filter(|_| demo);
    let nobody = lab.then_some((ANONYMOUS, "pm_card_visa", "adyen_card_visa"));
    for (user, payment_method, adyen_method) in users.chain(nobody) {
        accounts.insert(
            user.to_owned(),
            Account {
                token_sha256: token_hash(user),
                payment_method: payment_method.to_owned(),
                customer: None,
                customer_prefix: None,
                stripe_account: None,
                email: user.contains('@').then(|| user.to_owned()),
                shop: (user == DEMO_USER).then(|| Shop {
                    name: "Lift-off Supplies".to_owned(),
                    support: Some("help@lift-off.example".to_owned()),
                    logo: Some("/assets/lift-off.svg".to_owned()),
                }),
                adyen: Some(AdyenWallet {
                    payment_method: adyen_method.to_owned(),
                    customer: user.to_owned(),
                }),
            },
        );
    }
    Ok(accounts)
}
