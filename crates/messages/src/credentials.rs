//! The keys that an account of the registry can have of its own, at Stripe and at Adyen. The desk passes on what an operator enters, the payments
//! Worker alone seals and opens it: see migrations 0021, 0035 and 0041.

use std::fmt;
use std::ops::RangeInclusive;

use payments::payment::provider::Provider;
use serde::{Deserialize, Serialize};

/// The shortest key of Stripe's, in characters, with its prefix.
const KEY_MIN: usize = 32;
/// The shortest secret of a webhook.
const WEBHOOK_SECRET_MIN: usize = 24;
/// The longest of any of them.
const VALUE_MAX: usize = 255;
/// The shortest key of Adyen's, and how long that of a webhook's HMAC is, in characters.
const ADYEN_KEY_MIN: usize = 20;
const HMAC_KEY_LENGTH: usize = 64;

/// Which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// With which it is charged.
    StripeSecretKey,
    /// With which a browser turns a card into a payment method.
    StripePublishableKey,
    /// With which Stripe signs its events.
    StripeWebhookSecret,
    /// The one before it, which is believed, too.
    StripeWebhookSecretBefore,
    /// With which it is charged at Adyen.
    AdyenApiKey,
    /// With which Adyen signs what it tells.
    AdyenHmacKey,
    /// The one before it, which is believed, too.
    AdyenHmacKeyBefore,
    /// The user and the password with which Adyen comes.
    AdyenWebhookAuth,
    /// With which its settlement reports are downloaded.
    AdyenReportKey,
}

impl CredentialKind {
    /// All of them, as they are shown.
    pub const ALL: [Self; 9] = [
        Self::StripeSecretKey,
        Self::StripePublishableKey,
        Self::StripeWebhookSecret,
        Self::StripeWebhookSecretBefore,
        Self::AdyenApiKey,
        Self::AdyenHmacKey,
        Self::AdyenHmacKeyBefore,
        Self::AdyenWebhookAuth,
        Self::AdyenReportKey,
    ];

    /// As it is stored, and stands in addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StripeSecretKey => "stripe_secret_key",
            Self::StripePublishableKey => "stripe_publishable_key",
            Self::StripeWebhookSecret => "stripe_webhook_secret",
            Self::StripeWebhookSecretBefore => "stripe_webhook_secret_before",
            Self::AdyenApiKey => "adyen_api_key",
            Self::AdyenHmacKey => "adyen_hmac_key",
            Self::AdyenHmacKeyBefore => "adyen_hmac_key_before",
            Self::AdyenWebhookAuth => "adyen_webhook_auth",
            Self::AdyenReportKey => "adyen_report_key",
        }
    }

    /// From its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// At which provider.
    pub const fn provider(self) -> Provider {
        match self {
            Self::StripeSecretKey
            | Self::StripePublishableKey
            | Self::StripeWebhookSecret
            | Self::StripeWebhookSecretBefore => Provider::Stripe,
            Self::AdyenApiKey
            | Self::AdyenHmacKey
            | Self::AdyenHmacKeyBefore
            | Self::AdyenWebhookAuth
            | Self::AdyenReportKey => Provider::Adyen,
        }
    }

    /// What keeps the one that another replaces, where that is believed, too.
    pub const fn before(self) -> Option<Self> {
        match self {
            Self::StripeWebhookSecret => Some(Self::StripeWebhookSecretBefore),
            Self::AdyenHmacKey => Some(Self::AdyenHmacKeyBefore),
            _ => None,
        }
    }

    /// Whether one can be entered: the secret before is the one that another replaces.
    pub const fn is_entered(self) -> bool {
        !matches!(self, Self::StripeWebhookSecretBefore | Self::AdyenHmacKeyBefore)
    }

    /// Reads what was entered. The error says what to enter, as a clause that follows the key's name, and repeats nothing of it.
    pub fn check(self, value: &str) -> Result<Option<Mode>, String> {
        match self.provider() {
            Provider::Stripe => self.check_stripes(value),
            Provider::Adyen => self.check_adyens(value).map(|()| None),
        }
    }

    /// Its mode is that of the merchant account: it does not say it.
    fn check_adyens(self, value: &str) -> Result<(), String> {
        if self == Self::AdyenWebhookAuth {
            let is_pair =
                value.split_once(':').is_some_and(|(user, secret)| !user.is_empty() && secret.len() >= 8);
            if !is_pair || !value.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(
                    "must be user:password of visible ASCII characters, as they are set with Adyen’s webhook, with a password of at \
                     least 8"
                        .to_owned(),
                );
            }
            return within(value, 10..=VALUE_MAX);
        }
        if matches!(self, Self::AdyenHmacKey | Self::AdyenHmacKeyBefore) {
            if value.len() != HMAC_KEY_LENGTH || !value.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!(
                    "must be {HMAC_KEY_LENGTH} hexadecimal digits, as the Customer Area shows them once when the webhook’s HMAC key is made"
                ));
            }
            return Ok(());
        }
        if ["sk_", "rk_", "pk_", "whsec_"].iter().any(|prefix| value.starts_with(prefix)) {
            return Err("is a key of Stripe’s: Adyen’s API key is shown once in the Customer Area, under API credentials".to_owned());
        }
        if value.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("is the HMAC key of a webhook, or no key: Adyen’s API key is under API credentials"
                .to_owned());
        }
        if !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("has characters that no key of Adyen’s has: copy it alone, without spaces".to_owned());
        }
        within(value, ADYEN_KEY_MIN..=VALUE_MAX)
    }

    fn check_stripes(self, value: &str) -> Result<Option<Mode>, String> {
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| value.starts_with(prefix));
        match self {
            Self::StripeSecretKey if begins(&["pk_"]) => {
                return Err("is a publishable key: the secret key begins with sk_ or rk_".to_owned());
            }
            Self::StripeSecretKey if !begins(&["sk_", "rk_"]) => {
                return Err("must begin with sk_, or rk_ for a restricted key".to_owned());
            }
            Self::StripePublishableKey if begins(&["sk_", "rk_"]) => {
                return Err("is a secret key: everybody who pays could read it. Enter the one that begins with pk_; if it was sent \
                            to anybody else, roll it at Stripe"
                    .to_owned());
            }
            Self::StripePublishableKey if !begins(&["pk_"]) => return Err("must begin with pk_".to_owned()),
            Self::StripeWebhookSecret | Self::StripeWebhookSecretBefore if !begins(&["whsec_"]) => {
                return Err(
                    "must begin with whsec_, as Stripe’s dashboard shows it at the endpoint".to_owned()
                );
            }
            _ => {}
        }
        within(value, if begins(&["whsec_"]) { WEBHOOK_SECRET_MIN } else { KEY_MIN }..=VALUE_MAX)?;
        // Base64 in a webhook's secret, letters and digits in a key.
        let is_webhooks = begins(&["whsec_"]);
        let is_allowed = |b: u8| {
            b.is_ascii_alphanumeric() || b == b'_' || is_webhooks && matches!(b, b'+' | b'/' | b'=' | b'-')
        };
        if !value.bytes().all(is_allowed) {
            return Err(
                "has characters that no key of Stripe’s has: copy it alone, without spaces".to_owned()
            );
        }
        if is_webhooks {
            return Ok(None);
        }
        let mode = value.split('_').nth(1).and_then(Mode::parse);
        mode.map(Some)
            .ok_or_else(|| "must say live or test after its first letters, such as sk_live_".to_owned())
    }
}

fn within(value: &str, length: RangeInclusive<usize>) -> Result<(), String> {
    if length.contains(&value.len()) {
        return Ok(());
    }
    let (number, min, most) = (value.chars().count(), length.start(), length.end());
    Err(format!("has {number} characters, and needs {min} to {most}: copy all of it"))
}

/// Whether what is done with a key is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It moves money.
    Live,
    /// It moves none.
    Test,
}

impl Mode {
    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }

    /// From what is stored, or stands in a key.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Live, Self::Test].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// All that is ever shown of one: how it begins, where its kind does, and its last four characters. Of a user and a password, the user.
pub fn hint(kind: CredentialKind, value: &str) -> String {
    if kind == CredentialKind::AdyenWebhookAuth {
        return format!("{}:…", value.split(':').next().unwrap_or_default());
    }
    let secret_from = match kind.provider() {
        Provider::Adyen => 0,
        Provider::Stripe if value.starts_with("whsec_") => "whsec_".len(),
        Provider::Stripe => value.match_indices('_').nth(1).map_or(0, |(at, _)| at + 1),
    };
    let start = value.get(..secret_from).unwrap_or_default();
    let end = value.get(value.len().saturating_sub(4).max(secret_from)..).unwrap_or_default();
    format!("{start}…{end}")
}

/// What an operator wants of an account's key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialChange {
    /// The account of the registry.
    pub account: String,
    /// Which.
    pub kind: CredentialKind,
    /// What it is to be; `None` if it is to be removed.
    pub value: Option<String>,
}

impl fmt::Debug for CredentialChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialChange({}, {}, …)", self.account, self.kind.as_str())
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialOutcome {
    /// It is as it was asked for. The sentence is for the log: it has the hint and no more.
    Done(String),
    /// Nothing was changed: a sentence that says why, and what to do.
    Refused(String),
    /// Nothing was changed, and it can be tried again: what is needed for it did not answer.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use CredentialKind::{
        AdyenApiKey, AdyenHmacKey, AdyenReportKey, AdyenWebhookAuth, StripePublishableKey, StripeSecretKey,
        StripeWebhookSecret,
    };

    const SECRET: &str = "sk_live_0123456789abcdefghijklmn";
    const HMAC: &str = "abababababababababababababababababababababababababababababababab";

    #[test]
    fn what_is_shown_says_nothing_but_how_it_begins_and_ends() {
        assert_eq!(hint(StripeSecretKey, SECRET), "sk_live_…klmn");
        assert_eq!(hint(StripeSecretKey, "rk_test_0123456789abcdefghijklmn"), "rk_test_…klmn");
        assert_eq!(hint(StripeWebhookSecret, "whsec_0123456789abcdefgh_jklmn"), "whsec_…klmn");
        assert_eq!(hint(StripeSecretKey, "sk_live_a"), "sk_live_…a");
        assert_eq!(hint(StripeSecretKey, ""), "…");
        assert_eq!(hint(AdyenApiKey, "AQE_secret_0123456789_klmn"), "…klmn", "whatever stands in it");
        assert_eq!(hint(AdyenHmacKey, HMAC), "…abab");
        assert_eq!(hint(AdyenWebhookAuth, "hook:a_secret_0123"), "hook:…");
        assert_eq!(hint(AdyenWebhookAuth, ""), ":…");
        let change = CredentialChange {
            account: "a".to_owned(),
            kind: StripeSecretKey,
            value: Some(SECRET.to_owned()),
        };
        assert!(!format!("{change:?}").contains("0123"));
    }

    #[test]
    fn each_key_has_its_place() {
        assert_eq!(StripeSecretKey.check(SECRET), Ok(Some(Mode::Live)));
        assert_eq!(StripeSecretKey.check(&SECRET.replace("sk_live", "rk_test")), Ok(Some(Mode::Test)));
        assert_eq!(StripePublishableKey.check(&SECRET.replace("sk_live", "pk_test")), Ok(Some(Mode::Test)));
        assert_eq!(StripeWebhookSecret.check("whsec_0123456789abcdefgh+/klmn="), Ok(None));
        assert_eq!(AdyenApiKey.check("AQEyhmfxK4nNYhFFw0m/n3Q5qf3V=-x/2j=-5$}[;Y&<"), Ok(None));
        assert_eq!(AdyenReportKey.check("AQEyhmfxK4nNYhFFw0m/n3Q5qf3V=-x/2j=-5$}[;Y&<"), Ok(None));
        assert_eq!(AdyenHmacKey.check(HMAC), Ok(None));
        assert_eq!(AdyenWebhookAuth.check("hook:0123456789:"), Ok(None));
        for (kind, value, said) in [
            (StripeSecretKey, SECRET.replace("sk_", "pk_"), "publishable key"),
            (StripePublishableKey, SECRET.to_owned(), "is a secret key"),
            (StripeSecretKey, "whsec_0123456789abcdefghijklmn".to_owned(), "begin with sk_"),
            (StripeWebhookSecret, SECRET.to_owned(), "begin with whsec_"),
            (StripeSecretKey, "sk_live_0123".to_owned(), "has 12 characters, and needs 32"),
            (StripeSecretKey, format!("sk_live_{}", "a".repeat(300)), "needs 32 to 255"),
            (StripeSecretKey, SECRET.replace("0123", "01 3"), "without spaces"),
            (StripeSecretKey, SECRET.replace("live", "prod"), "live or test"),
            (StripeWebhookSecret, "whsec_".to_owned(), "needs 24"),
            (AdyenApiKey, SECRET.to_owned(), "is a key of Stripe"),
            (AdyenApiKey, HMAC.to_owned(), "is the HMAC key"),
            (AdyenApiKey, "AQE short 0123456789x".to_owned(), "without spaces"),
            (AdyenApiKey, "AQE0123".to_owned(), "needs 20 to 255"),
            (AdyenReportKey, HMAC.to_owned(), "is the HMAC key"),
            (AdyenHmacKey, HMAC.replace("ab", "0123"), "64 hexadecimal digits"),
            (AdyenHmacKey, "AQEyhmfxK-0123".to_owned(), "64 hexadecimal digits"),
            (AdyenWebhookAuth, "hook-0123456".to_owned(), "user:password"),
            (AdyenWebhookAuth, "hook:0123".to_owned(), "at least 8"),
            (AdyenWebhookAuth, ":0123456789".to_owned(), "user:password"),
        ] {
            let error = kind.check(&value).unwrap_err();
            assert!(error.contains(said), "{error}");
            assert!(!error.contains("0123"), "{error}");
        }
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for kind in CredentialKind::ALL {
            assert_eq!(CredentialKind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(CredentialKind::parse("adyen_client_key"), None);
    }
}
