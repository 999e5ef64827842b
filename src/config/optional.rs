//! What a deployment can do without: the second provider, receipts, cards at the checkout.

use payments::payment::own_keys::account_of;

/// The way to Adyen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdyenConfig {
    /// `ADYEN_API_BASE`: the Checkout API with its version, without a slash at the end.
    pub base: String,
    /// `ADYEN_API_KEY`.
    pub key: String,
    /// `ADYEN_MERCHANT_ACCOUNT`.
    pub merchant_account: String,
}

/// The way to the email service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailConfig {
    /// `RESEND_API_BASE`; Resend's own if it is not set.
    pub base: String,
    /// `RESEND_API_KEY`.
    pub key: String,
    /// `RECEIPT_FROM`: who sends receipts, such as `Shop <receipts@shop.example>`.
    pub from: String,
}

/// What can be done without, with what each needs beside it.
pub(super) const OPTIONAL: [(&str, &[&str]); 5] = [
    ("ADYEN_API_BASE", &["ADYEN_API_KEY", "ADYEN_MERCHANT_ACCOUNT"]),
    ("ADYEN_API_KEY", &["ADYEN_API_BASE", "ADYEN_MERCHANT_ACCOUNT"]),
    ("ADYEN_MERCHANT_ACCOUNT", &["ADYEN_API_BASE", "ADYEN_API_KEY"]),
    ("RESEND_API_KEY", &["RECEIPT_FROM"]),
    ("OTLP_HEADERS", &["OTLP_ENDPOINT"]),
];

pub(super) fn adyen(
    setting: impl Fn(&str) -> Option<String>,
    demo: bool,
) -> Result<Option<AdyenConfig>, String> {
    let names = ["ADYEN_API_BASE", "ADYEN_API_KEY", "ADYEN_MERCHANT_ACCOUNT"];
    let [base, key, merchant_account] = names.map(setting);
    match (base, key, merchant_account) {
        (Some(_), Some(_), Some(merchant)) if account_of(&merchant).is_some() => {
            Err("ADYEN_MERCHANT_ACCOUNT is no merchant account’s name.".to_owned())
        }
        (Some(base), Some(_), Some(_)) if demo && base.contains("-live.") => {
            Err("DEMO is on with a live ADYEN_API_BASE: remove one of them.".to_owned())
        }
        (Some(base), Some(key), Some(merchant_account)) => {
            Ok(Some(AdyenConfig { base: self::base(names[0], base, demo)?, key, merchant_account }))
        }
        _ => Ok(None),
    }
}

pub(super) fn email(
    setting: impl Fn(&str) -> Option<String>,
    demo: bool,
) -> Result<Option<EmailConfig>, String> {
    match (setting("RESEND_API_KEY"), setting("RECEIPT_FROM")) {
        (None, _) | (_, None) => Ok(None),
        (Some(key), Some(from)) => {
            let base = setting("RESEND_API_BASE").unwrap_or_else(|| "https://api.resend.com".to_owned());
            Ok(Some(EmailConfig { base: self::base("RESEND_API_BASE", base, demo)?, key, from }))
        }
    }
}

/// What is said of two keys of which only one moves real money.
pub(super) const OTHER_MODE: &str = "STRIPE_PUBLISHABLE_KEY and STRIPE_SECRET_KEY must both be live keys, or both test keys: the first \
     counts as not set until then.";

/// The key that stands in a page for everyone to see: never a secret one.
pub(super) fn publishable_key(key: Option<String>) -> Result<Option<String>, String> {
    let Some(key) = key else {
        return Ok(None);
    };
    let well_formed = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !key.starts_with("pk_") || !well_formed {
        return Err("STRIPE_PUBLISHABLE_KEY must begin with pk_: everybody who pays can read it.".to_owned());
    }
    Ok(Some(key))
}

/// The address of a provider, without a slash at the end.
pub(super) fn base(name: &str, base: String, demo: bool) -> Result<String, String> {
    if !demo && !base.starts_with("https://") {
        return Err(format!("{name} must begin with https://: it gets the secret key."));
    }
    Ok(base.trim_end_matches('/').to_owned())
}
