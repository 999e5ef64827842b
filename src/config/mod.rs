//! The configuration, read once by each isolate. A missing or impossible
//! setting is an error that names it: nothing falls back silently, least of all to the simulator.

mod accounts;
mod convention;
mod optional;
mod sealing;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base64ct::{Base64, Encoding as _};

pub(crate) use accounts::token_hash;
use accounts::{ANONYMOUS, DEMO_USER};
pub use convention::Convention;
pub use optional::{AdyenConfig, EmailConfig};
pub use sealing::CredentialsKeys;
pub(crate) use sealing::Sealed;

use crate::replay_cache::LASTS_MAX_MS;
use messages::account::Account;
use once::account::Credential;
use once::context::Times;
use optional::{OPTIONAL, OTHER_MODE, adyen, base, email, publishable_key};
use payments::engine::{Credentials, Limits};
use payments::providers::Provider;
use runtime::log::Level;
use runtime::settings::{self, Incomplete};
use web::origin::is_origin;
use web::signing::{SigningKeys, is_same_secret};
use web::trace::Collector;

/// What [`/.well-known/security.txt`](https://www.rfc-editor.org/rfc/rfc9116) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityConfig {
    /// `SECURITY_CONTACT`: where a weakness is reported, `mailto:` or `https://`.
    pub contact: String,
    /// `SECURITY_EXPIRES`: until when that holds, by RFC 3339.
    pub expires: String,
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// `DEMO = "true"`: test cards, the article's accounts, faults on request. Never in production.
    pub demo: bool,
    /// `UNPROTECTED = "true"`, demo only: no derived keys reach the provider. It shows what they are good for.
    pub unprotected: bool,
    /// `SIGNING_KEY`: one or more secrets, separated by white space; the first signs, all verify (rotation).
    pub signing_keys: SigningKeys,
    /// `STRIPE_SECRET_KEY`.
    pub stripe_key: String,
    /// `STRIPE_API_BASE`, without a slash at the end.
    pub stripe_base: String,
    /// `ADYEN_API_BASE`, `ADYEN_API_KEY`, `ADYEN_MERCHANT_ACCOUNT`: all three, or none.
    pub adyen: Option<AdyenConfig>,
    /// `PROVIDER`: who takes the money where a request does not say; Stripe by default.
    pub provider: Provider,
    /// `KEY_POLICY`: `required` (the default), or `optional`: a POST without a key is run, warned of and counted.
    pub key_is_required: bool,
    /// `REPLAY_MARKER`: `header` (the default), or `body`: JSON answers also carry `"cached"`.
    pub marks_body: bool,
    /// `MISMATCH_STATUS`: 422 (the default, as the draft has it) or 409.
    pub mismatch_status: u16,
    /// `CORS_ORIGINS`: the origins whose scripts may call the API, separated by commas.
    pub cors_origins: Vec<String>,
    /// `RATE_LIMIT_PER_MINUTE`: what the binding RATE_LIMITER allows, to tell clients.
    pub rate_limit_per_minute: Option<u32>,
    /// `STRIPE_PUBLISHABLE_KEY`: with it the checkout takes real cards, in Stripe's Payment Element.
    pub publishable_key: Option<String>,
    /// `LAB = "true"`, demo only: a request without credentials is the account `anonymous`.
    pub lab: bool,
    /// `CREATED_STATUS`, `KEY_ECHO`, `ERROR_MEMBER`, `DEFAULT_CURRENCY`, demo only.
    pub convention: Convention,
    /// `SECURITY_CONTACT`, `SECURITY_EXPIRES`: both, or none.
    pub security: Option<SecurityConfig>,
    /// `RESEND_API_KEY` and `RECEIPT_FROM`: without them no receipts are sent.
    pub email: Option<EmailConfig>,
    /// `STRIPE_WEBHOOK_SECRET`: one or more, separated by white space (rotation). Without it webhooks of Stripe are refused.
    pub stripe_webhook_secrets: Vec<String>,
    /// `ADYEN_HMAC_KEY`: one or more, in hexadecimal, separated by white space (rotation).
    pub adyen_hmac_keys: Vec<Vec<u8>>,
    /// `ADYEN_WEBHOOK_AUTH`: `user:password` of the webhook, as Adyen's Customer Area has them. With it a stranger's body is
    /// not even read.
    pub adyen_webhook_auth: Option<String>,
    /// `ADYEN_REPORT_KEY`: of the user that may download reports at Adyen. Without it a person sends them.
    pub adyen_report_key: Option<String>,
    /// What stands for the addresses and the secrets of the providers.
    pub credentials: Credentials,
    /// `CREDENTIALS_KEY`: one or two, separated by white space: what seals the keys that accounts have of their own.
    pub credentials_keys: CredentialsKeys,
    /// `API_ACCOUNTS`: account id → [`Account`], as JSON.
    pub accounts: BTreeMap<String, Rc<Account>>,
    /// `ACCOUNTS_CACHE_MS`: how long an isolate may go by what it has read of the registry of accounts, in ms.
    pub accounts_cache_ms: u64,
    /// `ACCOUNTS_CACHE_SHARDS`: over how many objects of the binding `ACCOUNTS_CACHE` the registry of accounts is spread, where it is bound.
    pub accounts_cache_shards: u32,
    /// How long a request's body may take to come, in ms.
    pub body_timeout_ms: u64,
    /// `REPLAY_CACHE_MS`: how long an isolate may answer replays from its own copy of a response, in ms; 0 for never.
    pub replay_cache_ms: u64,
    /// How long a form may be sent, in ms.
    pub form_ttl_ms: u64,
    /// How long an order's link may be paid, in ms.
    pub checkout_ttl_ms: u64,
    /// `CHECKOUT_ACCOUNT`, demo only: the account that sells the carts of the demo.
    pub checkout_account: String,
    /// `LOG_LEVEL`: `info` (the default), `warn` or `error`; what is less grave is not written.
    pub log_level: Level,
    /// `OTLP_ENDPOINT`, `OTLP_HEADERS`, `OTLP_SAMPLE_RATIO`: where traces are sent; nowhere by default.
    pub collector: Option<Collector>,
    /// The machine's times.
    pub times: Times,
    /// `ORDER_TRIES_MAX`, `ORDER_TRY_PAUSE_MS`, `KEYS_MAX`.
    pub limits: Limits,
    /// What counts as not set, because something is missing that it needs: a sentence each, for the log.
    pub incomplete: Vec<String>,
}

/// How long an isolate answers replays from its own copy, in ms: while a client that has lost an answer tries again.
const REPLAY_CACHE_MS: u64 = 10_000;
/// The most keys, or tries, that a setting can allow in one object: it is read as a whole for each request.
const LIMIT_MAX: u32 = 1000;

/// How long an isolate goes by what it has read of the registry of accounts, in ms.
const ACCOUNTS_CACHE_MS: u64 = 10_000;
/// The longest of it, in ms: for so long a token that was revoked may still be good.
const ACCOUNTS_CACHE_MAX_MS: u64 = 60_000;

/// The most objects that read the registry for all isolates.
const ACCOUNTS_CACHE_SHARDS_MAX: u32 = 64;

fn accounts_cache_ms(ms: u64) -> Result<u64, String> {
    match ms {
        0..=ACCOUNTS_CACHE_MAX_MS => Ok(ms),
        _ => Err(format!(
            "ACCOUNTS_CACHE_MS must be at most {ACCOUNTS_CACHE_MAX_MS}: for so long a token that was revoked may still be good."
        )),
    }
}

fn accounts_cache_shards(configured: Option<String>) -> Result<u32, String> {
    let shards = configured.map_or(Some(1), |text| text.trim().parse().ok());
    shards.filter(|shards| (1..=ACCOUNTS_CACHE_SHARDS_MAX).contains(shards)).ok_or_else(|| {
        format!(
            "ACCOUNTS_CACHE_SHARDS must be a whole number from 1 to {ACCOUNTS_CACHE_SHARDS_MAX}, or left out."
        )
    })
}

fn replay_cache_ms(ms: u64) -> Result<u64, String> {
    match ms {
        0..=LASTS_MAX_MS => Ok(ms),
        _ => Err(format!(
            "REPLAY_CACHE_MS must be at most {LASTS_MAX_MS}: what is erased may be in a copy for so long. 0 keeps none."
        )),
    }
}

impl Config {
    /// Whether the body of an answer is the stored response as it is.
    pub(crate) fn answers_as_stored(&self) -> bool {
        !self.marks_body && self.convention == Convention::default()
    }

    /// The settings of the Worker. The log and the traces keep to their own from here on.
    pub fn of(env: &worker::Env) -> Result<Rc<Self>, String> {
        thread_local! {
            /// The bindings that were read last, and what they say: all requests and objects of an isolate are given the same ones.
            static READ: RefCell<Option<(worker::Env, Rc<Config>)>> = const { RefCell::new(None) };
        }
        let known = READ.with_borrow(|read| {
            let (of, config) = read.as_ref()?;
            js_sys::Object::is(of, env).then(|| Rc::clone(config))
        });
        if let Some(config) = known {
            return Ok(config);
        }
        let config = Rc::new(Self::read_bound(env)?);
        READ.set(Some((env.clone(), Rc::clone(&config))));
        Ok(config)
    }

    fn read_bound(env: &worker::Env) -> Result<Self, String> {
        let config = Self::read(|name| runtime::setting(env, name))?;
        // A binding takes the place of the provider's address: whatever is behind it would get the secrets, and take no money.
        let bound = PROVIDER_BINDINGS.into_iter().find(|name| env.service(name).is_ok());
        if let Some(name) = bound.filter(|_| !config.demo) {
            return Err(format!(
                "The service binding {name} stands for a provider in the demo only: remove it."
            ));
        }
        runtime::log::set_least(config.log_level);
        runtime::trace::send_to(config.collector.clone());
        settings::log_incomplete(&config.incomplete);
        Ok(config)
    }

    /// Reads all settings through `read`. The error is one sentence that says what to set.
    pub fn read(read: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| read(name).filter(|value| !value.trim().is_empty());
        let incomplete = Incomplete::among(set, &OPTIONAL);
        let setting = |name: &str| set(name).filter(|_| !incomplete.has(name));
        let flag = |name: &str| setting(name).as_deref() == Some("true");
        let demo = flag("DEMO");
        if let Some(name) = ["UNPROTECTED", "LAB"].into_iter().find(|name| flag(name) && !demo) {
            return Err(format!("{name} is for the demo only: remove it."));
        }
        if !demo {
            refuse_demo_secrets(set)?;
        }
        let signing_keys = settings::signing_keys(setting)?;
        runtime::metrics::shards::read(setting("METRICS_SHARDS"))?;
        runtime::metrics::flush_throttle::interval_ms(setting)?;
        settings::shards_cache_ms(setting)?;
        let stripe_key = settings::secret(setting, "STRIPE_SECRET_KEY")?;
        if demo && is_live(&stripe_key) {
            return Err("DEMO is on with a live STRIPE_SECRET_KEY: remove one of them.".to_owned());
        }
        let publishable_key = publishable_key(setting("STRIPE_PUBLISHABLE_KEY"))?;
        let is_of_other_mode =
            publishable_key.as_ref().is_some_and(|key| is_live(key) != is_live(&stripe_key));
        let stripe_base = setting("STRIPE_API_BASE")
            .ok_or("STRIPE_API_BASE is not set: https://api.stripe.com in production.")?;
        let stripe_base = base("STRIPE_API_BASE", stripe_base, demo)?;
        let adyen = adyen(setting, demo)?;
        let credentials = Credentials {
            stripe: Credential::of(&stripe_key, &[&stripe_base], is_live(&stripe_key)),
            own_stripe: None,
            own_adyen: None,
            adyen: adyen
                .as_ref()
                .map(|adyen| Credential::of("", &[&adyen.base], !adyen.base.contains("-test."))),
        };
        let one_of = |name: &str, words: [&str; 2]| match setting(name) {
            None => Ok(true),
            Some(word) if word == words[0] => Ok(true),
            Some(word) if word == words[1] => Ok(false),
            Some(_) => Err(format!("{name} must be {} or {}.", words[0], words[1])),
        };
        let provider = match setting("PROVIDER").as_deref().map(Provider::parse) {
            None => Provider::Stripe,
            Some(Some(Provider::Adyen)) if adyen.is_none() => {
                return Err("PROVIDER is adyen, but ADYEN_API_BASE is not set.".to_owned());
            }
            Some(Some(provider)) => provider,
            Some(None) => return Err("PROVIDER must be stripe or adyen.".to_owned()),
        };
        let ms = |name: &str, default: u64| settings::ms(setting, name, default);
        let count = |name: &str, default: u32| match setting(name).map(|text| text.parse()) {
            None => Ok(default),
            Some(Ok(count)) if (1..=LIMIT_MAX).contains(&count) => Ok(count),
            Some(_) => Err(format!("{name} must be a whole number from 1 to {LIMIT_MAX}.")),
        };
        let (times, limits) = (Times::default(), Limits::default());
        let accounts = accounts::read(demo, flag("LAB"), setting("API_ACCOUNTS"))?;
        let checkout_account = setting("CHECKOUT_ACCOUNT").unwrap_or_else(|| DEMO_USER.to_owned());
        if demo && !accounts.contains_key(&checkout_account) {
            return Err("CHECKOUT_ACCOUNT is not one of the API accounts.".to_owned());
        }
        Ok(Self {
            demo,
            unprotected: flag("UNPROTECTED"),
            signing_keys,
            stripe_key,
            stripe_base,
            adyen,
            provider,
            key_is_required: one_of("KEY_POLICY", ["required", "optional"])?,
            marks_body: !one_of("REPLAY_MARKER", ["header", "body"])?,
            mismatch_status: if one_of("MISMATCH_STATUS", ["422", "409"])? { 422 } else { 409 },
            cors_origins: cors_origins(setting("CORS_ORIGINS"))?,
            rate_limit_per_minute: setting("RATE_LIMIT_PER_MINUTE")
                .map(|limit| limit.parse().map_err(|_| "RATE_LIMIT_PER_MINUTE must be a whole number."))
                .transpose()?,
            publishable_key: publishable_key.filter(|_| !is_of_other_mode),
            lab: flag("LAB"),
            convention: convention::read(setting, demo)?,
            security: security(setting)?,
            email: email(setting, demo)?,
            stripe_webhook_secrets: words(setting("STRIPE_WEBHOOK_SECRET")),
            adyen_hmac_keys: adyen_hmac_keys(setting("ADYEN_HMAC_KEY"))?,
            adyen_webhook_auth: adyen_webhook_auth(setting("ADYEN_WEBHOOK_AUTH"))?,
            adyen_report_key: setting("ADYEN_REPORT_KEY").map(|key| key.trim().to_owned()),
            credentials,
            credentials_keys: CredentialsKeys::read(setting("CREDENTIALS_KEY").as_deref())?,
            accounts,
            accounts_cache_ms: accounts_cache_ms(ms("ACCOUNTS_CACHE_MS", ACCOUNTS_CACHE_MS)?)?,
            accounts_cache_shards: accounts_cache_shards(setting("ACCOUNTS_CACHE_SHARDS"))?,
            body_timeout_ms: settings::body_timeout_ms(setting)?,
            replay_cache_ms: replay_cache_ms(ms("REPLAY_CACHE_MS", REPLAY_CACHE_MS)?)?,
            form_ttl_ms: ms("FORM_TTL_MS", 24 * 3_600_000)?,
            checkout_ttl_ms: ms("CHECKOUT_TTL_MS", 24 * 3_600_000)?,
            checkout_account,
            log_level: settings::log_level(setting)?,
            collector: Collector::read(setting, demo)?,
            times: Times {
                lease_ms: ms("LEASE_MS", times.lease_ms)?,
                wait_ms: ms("WAIT_MS", times.wait_ms)?,
                completer_ms: ms("COMPLETER_MS", times.completer_ms)?,
                retention_ms: ms("RETENTION_MS", times.retention_ms)?,
                provider_window_ms: ms("PROVIDER_WINDOW_MS", times.provider_window_ms)?,
                provider_timeout_ms: ms("PROVIDER_TIMEOUT_MS", times.provider_timeout_ms)?,
                quiet_ms: ms("QUIET_MS", times.quiet_ms)?,
                quarantine_ms: ms("QUARANTINE_MS", times.quarantine_ms)?,
                outbox_ms: ms("OUTBOX_MS", times.outbox_ms)?,
                confirm_ms: ms("CONFIRM_MS", times.confirm_ms)?,
                personal_retention_ms: ms("PERSONAL_RETENTION_MS", times.personal_retention_ms)?,
            }
            .validate()
            .map_err(|error| format!("{error}."))?,
            limits: Limits {
                order_tries_max: count("ORDER_TRIES_MAX", limits.order_tries_max)?,
                try_pause_ms: ms("ORDER_TRY_PAUSE_MS", limits.try_pause_ms)?,
                keys_max: count("KEYS_MAX", limits.keys_max)?,
            },
            incomplete: incomplete
                .into_sentences()
                .into_iter()
                .chain(is_of_other_mode.then(|| OTHER_MODE.to_owned()))
                .collect(),
        })
    }

    /// Whether an `Authorization` header is that of Adyen's webhook; any is where none is set.
    pub fn is_adyen(&self, authorization: &str) -> bool {
        self.adyen_webhook_auth.as_ref().is_none_or(|expected| is_basic_auth(authorization, expected))
    }

    /// The account of `API_ACCOUNTS` to which a bearer token belongs, by its hash.
    pub fn account(&self, token_sha256: &str) -> Option<(&str, &Rc<Account>)> {
        self.accounts
            .iter()
            .find(|(_, account)| account.token_sha256.as_deref() == Some(token_sha256))
            .map(|(id, account)| (id.as_str(), account))
    }

    /// The account of a request without credentials: there is one in the lab only.
    pub fn anonymous(&self) -> Option<(&str, &Rc<Account>)> {
        let (id, account) = self.accounts.get_key_value(ANONYMOUS)?;
        self.lab.then_some((id, account))
    }
}

/// The service bindings that take the place of a provider's address in the demo.
const PROVIDER_BINDINGS: [&str; 3] = ["STRIPE", "ADYEN", "RESEND"];

/// The secrets of the demo, as wrangler.toml has them for everybody to read.
const DEMO_SECRETS: [(&str, &str); 7] = [
    ("STRIPE_SECRET_KEY", "sk_test_demo"),
    ("ADYEN_API_KEY", "test_demo"),
    ("ADYEN_REPORT_KEY", "report_demo"),
    ("RESEND_API_KEY", "re_demo"),
    ("STRIPE_WEBHOOK_SECRET", "whsec_demo_0123456789abcdef0123456789abcdef"),
    ("CREDENTIALS_KEY", "ZGVtby1vbmx5LWNyZWRlbnRpYWxzLWtleS0wMTIzNDU="),
    ("ADYEN_HMAC_KEY", "44782def547aaa06c910c43932b1eb0c71fc68d9d0c057550c48ec2acf6ba056"),
];

fn refuse_demo_secrets(setting: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let is_set = |(name, value): &(&str, &str)| {
        words(setting(name)).iter().any(|word| word.eq_ignore_ascii_case(value))
    };
    match DEMO_SECRETS.iter().find(|secret| is_set(secret)) {
        Some((name, _)) => Err(format!("{name} has the demo's value, which everybody knows: set your own.")),
        None => Ok(()),
    }
}

fn security(setting: impl Fn(&str) -> Option<String>) -> Result<Option<SecurityConfig>, String> {
    let (contact, expires) = match (setting("SECURITY_CONTACT"), setting("SECURITY_EXPIRES")) {
        (None, None) => return Ok(None),
        (Some(contact), Some(expires)) => (contact.trim().to_owned(), expires.trim().to_owned()),
        _ => return Err("SECURITY_CONTACT and SECURITY_EXPIRES go together: set both, or none.".to_owned()),
    };
    let is_address = ["mailto:", "https://"].iter().any(|scheme| contact.starts_with(scheme));
    if !is_address || !contact.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("SECURITY_CONTACT must begin with mailto: or https://.".to_owned());
    }
    if chrono::DateTime::parse_from_rfc3339(&expires).is_err() {
        return Err("SECURITY_EXPIRES must be a time such as 2027-11-01T00:00:00Z.".to_owned());
    }
    Ok(Some(SecurityConfig { contact, expires }))
}

fn adyen_webhook_auth(setting: Option<String>) -> Result<Option<String>, String> {
    match setting {
        Some(auth) if !auth.contains(':') => {
            Err("ADYEN_WEBHOOK_AUTH must be user:password, as they are set with Adyen's webhook.".to_owned())
        }
        auth => Ok(auth),
    }
}

fn words(setting: Option<String>) -> Vec<String> {
    setting.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
}

fn adyen_hmac_keys(setting: Option<String>) -> Result<Vec<Vec<u8>>, String> {
    let decode = |hex: String| base16ct::mixed::decode_vec(hex).map_err(drop);
    words(setting).into_iter().map(decode).collect::<Result<_, _>>().map_err(|()| {
        "ADYEN_HMAC_KEY must be hexadecimal digits, as Adyen's Customer Area shows them.".to_owned()
    })
}

fn cors_origins(setting: Option<String>) -> Result<Vec<String>, String> {
    let origins: Vec<String> =
        setting.iter().flat_map(|list| list.split(',')).map(|origin| origin.trim().to_owned()).collect();
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(_) => Err(
            "CORS_ORIGINS must be a list such as https://shop.example,https://www.shop.example: scheme and \
                        host only, in small letters and without :443 or :80, as browsers send them, separated by commas."
                .to_owned(),
        ),
        None => Ok(origins),
    }
}

/// Whether an `Authorization` header has this user and password (`user:password`).
pub(crate) fn is_basic_auth(authorization: &str, expected: &str) -> bool {
    let credentials = authorization.trim().split_once(' ').unwrap_or_default();
    let is_basic = credentials.0.eq_ignore_ascii_case("basic");
    is_basic && is_same_secret(credentials.1.trim(), &Base64::encode_string(expected.as_bytes()))
}

/// Whether a key of Stripe's moves real money.
pub(crate) fn is_live(key: &str) -> bool {
    key.contains("_live_")
}
