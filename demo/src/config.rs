//! The demo's settings. A missing or impossible one is an error that names it.

use once::times::Times;
use runtime::log::Level;
use runtime::settings;
use web::signing::SigningKeys;

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// `STRIPE_SECRET_KEY`: what the shop without protection sends to the bank. The simulator takes any key for tests.
    pub stripe_key: String,
    /// `API_TOKEN`: with it the lab and the rides pay by the payments API.
    pub api_token: String,
    /// `SIGNING_KEY`: signs the keys of rides' forms.
    pub signing_keys: SigningKeys,
    /// `LAB = "true"`: a request without credentials is the account `anonymous`.
    pub lab: bool,
    /// How long a ride's form may be sent, in ms.
    pub form_ttl_ms: u64,
    /// The times of the rides.
    pub times: Times,
    /// How long a request's body may take to come, in ms.
    pub body_timeout_ms: u64,
    /// `LOG_LEVEL`: `info` (the default), `warn` or `error`; what is less grave is not written.
    pub log_level: Level,
}

impl Config {
    /// The settings of the Worker. The log keeps to its own from here on.
    pub fn of(env: &worker::Env) -> Result<Self, String> {
        let config = Self::read(|name| runtime::setting(env, name))?;
        runtime::log::set_least(config.log_level);
        Ok(config)
    }

    /// Reads all settings through `read`. The error is one sentence that says what to set.
    pub fn read(read: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let setting = |name: &str| read(name).filter(|value| !value.trim().is_empty());
        let needed = |name: &str| setting(name).ok_or_else(|| format!("{name} is not set."));
        let stripe_key = needed("STRIPE_SECRET_KEY")?;
        if stripe_key.contains("_live_") {
            return Err("STRIPE_SECRET_KEY is a live key: the demo's shop has no protection.".to_owned());
        }
        runtime::metrics::shards::read(setting("METRICS_SHARDS"))?;
        Ok(Self {
            stripe_key,
            api_token: needed("API_TOKEN")?,
            signing_keys: settings::signing_keys(setting)?,
            lab: setting("LAB").as_deref() == Some("true"),
            form_ttl_ms: settings::ms(setting, "FORM_TTL_MS", 24 * 3_600_000)?,
            times: times(setting)?,
            body_timeout_ms: settings::body_timeout_ms(setting)?,
            log_level: settings::log_level(setting)?,
        })
    }
}

/// The times of the payments Worker, as far as they are set alike for both; but a call takes longer here, as it waits there for the
/// provider.
fn times(setting: impl Fn(&str) -> Option<String>) -> Result<Times, String> {
    let ms = |name: &str, default: u64| settings::ms(&setting, name, default);
    let times = Times::default();
    let provider_timeout_ms = ms("PROVIDER_TIMEOUT_MS", times.provider_timeout_ms)?;
    Times {
        lease_ms: ms("LEASE_MS", times.lease_ms)?.saturating_add(provider_timeout_ms),
        wait_ms: ms("WAIT_MS", times.wait_ms)?,
        completer_ms: ms("COMPLETER_MS", times.completer_ms)?,
        quiet_ms: ms("QUIET_MS", times.quiet_ms)?.saturating_add(provider_timeout_ms),
        provider_timeout_ms: provider_timeout_ms.saturating_mul(2),
        ..times
    }
    .validate()
    .map_err(|error| format!("{error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<Config, String> {
        let all = [
            ("STRIPE_SECRET_KEY", "sk_test_x"),
            ("API_TOKEN", "token"),
            ("SIGNING_KEY", "0123456789abcdef0123456789abcdef"),
        ];
        Config::read(|name| {
            let set = settings.iter().chain(&all).find(|(known, _)| *known == name);
            set.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_wrong_setting_is_named_and_never_quoted() {
        for (name, value) in [
            ("STRIPE_SECRET_KEY", ""),
            ("STRIPE_SECRET_KEY", "sk_live_hush"),
            ("API_TOKEN", " "),
            ("METRICS_SHARDS", "33"),
            ("LOG_LEVEL", "hush"),
            ("BODY_TIMEOUT_MS", "0"),
            ("SIGNING_KEY", "hush"),
            ("FORM_TTL_MS", "hush"),
            ("PROVIDER_TIMEOUT_MS", "90000"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name), "{name}={value}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
        assert_eq!(read(&[]).unwrap().api_token, "token");
    }
}
