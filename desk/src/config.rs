//! The desk's settings. A missing or impossible one is an error that names it.

use crate::analytics::config::AnalyticsConfig;
use once::context::Times;
use runtime::log::Level;
use runtime::settings::{self, Incomplete};
use web::signing::{SECRET_MIN_LEN, SigningKeys, is_same_secret};

/// How many lines a part of a settlement file has at most, where it is not set.
pub const PART_LINES: u64 = 50_000;
/// The most that can be set: the text of a part is held in memory as a whole, twice, some 130 bytes a line.
const PART_LINES_MAX: u64 = 200_000;

/// The operator's desk behind Cloudflare Access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// `ACCESS_TEAM_DOMAIN`: `https://<team>.cloudflareaccess.com`, without a slash at the end.
    pub team_domain: String,
    /// `ACCESS_AUD`: the application's audience tag.
    pub audience: String,
}

/// The default: as long as personal data is kept, which the objects then have erased.
const HISTORY_AFTER_DAYS: u32 = 400;

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// `DEMO = "true"`: beside the embedded simulator. Never in production.
    pub demo: bool,
    /// `SIGNING_KEY`: one or more secrets, separated by white space; the first signs, all verify (rotation).
    pub signing_keys: SigningKeys,
    /// `ACCESS_TEAM_DOMAIN`, `ACCESS_AUD`: with them only Cloudflare Access lets an operator in.
    pub access: Option<AccessConfig>,
    /// `ADMIN_TOKEN`: the operator's secret, where there is no Access. With neither, all that is an operator's is closed.
    pub admin_token: Option<String>,
    /// `METRICS_TOKEN`: a secret with which the counts can be read, and nothing else, also where there is Access.
    pub metrics_token: Option<String>,
    /// How long a request's body may take to come, in ms.
    pub body_timeout_ms: u64,
    /// How long an object may wait for an operation that a button begins, in ms.
    pub wait_ms: u64,
    /// How long an object may wait for its provider, in ms.
    pub provider_timeout_ms: u64,
    /// `RECONCILE_WINDOW_MS`: how far back each reconciliation compares, in ms.
    pub reconcile_window_ms: u64,
    /// `RECONCILE_QUIET_MS`: what has changed within the last so many ms is left to the next reconciliation.
    pub reconcile_quiet_ms: u64,
    /// `ANALYTICS_ACCOUNT_ID`, `ANALYTICS_API_TOKEN`: with them the counts are read from Analytics Engine.
    pub analytics: Option<AnalyticsConfig>,
    /// `HISTORY_AFTER_DAYS`: how long a payment is kept in the read model at least, in days since it was made.
    pub history_after_days: u32,
    /// `SETTLEMENT_PART_LINES`: how many lines a settlement file has at most; a day that has more is written in parts.
    pub settlement_part_lines: u64,
    /// `LOG_LEVEL`: `info` (the default), `warn` or `error`; what is less grave is not written.
    pub log_level: Level,
    /// What counts as not set, because something is missing that it needs: a sentence each, for the log.
    pub incomplete: Vec<String>,
}

/// What can be done without, with what each needs beside it.
const OPTIONAL: [(&str, &[&str]); 2] =
    [("ANALYTICS_ACCOUNT_ID", &["ANALYTICS_API_TOKEN"]), ("ANALYTICS_API_TOKEN", &["ANALYTICS_ACCOUNT_ID"])];

impl Config {
    /// The settings of the Worker. The log keeps to its own from here on.
    pub fn of(env: &worker::Env) -> Result<Self, String> {
        let config = Self::read(|name| runtime::setting(env, name))?;
        runtime::log::set_least(config.log_level);
        settings::log_incomplete(&config.incomplete);
        Ok(config)
    }

    /// Reads all settings through `read`. The error is one sentence that says what to set.
    pub fn read(read: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| read(name).filter(|value| !value.trim().is_empty());
        let incomplete = Incomplete::among(set, &OPTIONAL);
        let setting = |name: &str| set(name).filter(|_| !incomplete.has(name));
        let demo = setting("DEMO").as_deref() == Some("true");
        let signing_keys = settings::signing_keys(setting)?;
        let admin_token = token("ADMIN_TOKEN", setting)?;
        let metrics_token = token("METRICS_TOKEN", setting)?;
        if metrics_token.is_some() && metrics_token == admin_token {
            return Err(
                "METRICS_TOKEN must differ from ADMIN_TOKEN: whoever can read the metrics could do everything at the desk."
                    .to_owned(),
            );
        }
        runtime::metrics::shards::read(setting("METRICS_SHARDS"))?;
        settings::shards_cache_ms(setting)?;
        runtime::metrics::flush_throttle::interval_ms(setting)?;
        let ms = |name: &str, default: u64| settings::ms(setting, name, default);
        let times = Times::default();
        Ok(Self {
            demo,
            signing_keys,
            access: access(setting, demo)?,
            admin_token,
            metrics_token,
            body_timeout_ms: settings::body_timeout_ms(setting)?,
            wait_ms: ms("WAIT_MS", times.wait_ms)?,
            provider_timeout_ms: ms("PROVIDER_TIMEOUT_MS", times.provider_timeout_ms)?,
            reconcile_window_ms: ms("RECONCILE_WINDOW_MS", 3 * 3_600_000)?,
            reconcile_quiet_ms: ms("RECONCILE_QUIET_MS", 120_000)?,
            analytics: AnalyticsConfig::read(setting, demo)?,
            history_after_days: history_after_days(setting("HISTORY_AFTER_DAYS"))?,
            settlement_part_lines: part_lines(setting("SETTLEMENT_PART_LINES"))?,
            log_level: settings::log_level(setting)?,
            incomplete: incomplete.into_sentences(),
        })
    }

    /// Whether this is the operator's token.
    pub fn is_admin(&self, token: &str) -> bool {
        self.admin_token.as_deref().is_some_and(|admin| is_same_secret(token, admin))
    }

    /// Whether this is the token for the counts alone.
    pub fn is_for_metrics(&self, token: &str) -> bool {
        self.metrics_token.as_deref().is_some_and(|metrics| is_same_secret(token, metrics))
    }
}

/// Reads a bearer token.
fn token(name: &str, setting: impl Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let token = setting(name).map(|token| token.trim().to_owned());
    if token.as_ref().is_some_and(|token| token.len() < SECRET_MIN_LEN) {
        return Err(format!(
            "{name} is too short: it needs at least {SECRET_MIN_LEN} random characters, such as `openssl rand -base64 32`."
        ));
    }
    Ok(token)
}

fn history_after_days(setting: Option<String>) -> Result<u32, String> {
    let Some(text) = setting else { return Ok(HISTORY_AFTER_DAYS) };
    let days = text.trim().parse().ok().filter(|days| (1..=36_500).contains(days));
    days.ok_or_else(|| {
        "HISTORY_AFTER_DAYS must be a whole number of days from 1 to 36500, such as 400.".to_owned()
    })
}

/// Reads the setting `SETTLEMENT_PART_LINES`.
fn part_lines(setting: Option<String>) -> Result<u64, String> {
    let Some(text) = setting else { return Ok(PART_LINES) };
    let lines = text.trim().parse().ok().filter(|lines| (1..=PART_LINES_MAX).contains(lines));
    lines.ok_or_else(|| format!("SETTLEMENT_PART_LINES must be a whole number from 1 to {PART_LINES_MAX}."))
}

fn access(setting: impl Fn(&str) -> Option<String>, demo: bool) -> Result<Option<AccessConfig>, String> {
    match (setting("ACCESS_TEAM_DOMAIN"), setting("ACCESS_AUD")) {
        (None, None) => Ok(None),
        (Some(domain), Some(audience)) => {
            let team_domain = domain.trim().trim_end_matches('/').to_owned();
            if !demo && !team_domain.starts_with("https://") {
                return Err(
                    "ACCESS_TEAM_DOMAIN must begin with https://, such as https://team.cloudflareaccess.com."
                        .to_owned(),
                );
            }
            Ok(Some(AccessConfig { team_domain, audience: audience.trim().to_owned() }))
        }
        // With one of them alone the desk would silently be open to whoever has the other secret.
        _ => Err("ACCESS_TEAM_DOMAIN and ACCESS_AUD go together: set both, or none.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<Config, String> {
        let signing_key = "k".repeat(SECRET_MIN_LEN);
        Config::read(|name| {
            let set = settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            set.or_else(|| (name == "SIGNING_KEY").then(|| signing_key.clone()))
        })
    }

    #[test]
    fn a_wrong_setting_is_named_and_never_quoted() {
        let long = format!("{}hush-token{0}", " ".repeat(20));
        let cases = [
            ("SIGNING_KEY", "hush-token"),
            ("ADMIN_TOKEN", "hush-token"),
            ("ADMIN_TOKEN", long.as_str()),
            ("METRICS_TOKEN", "hush-token"),
            ("METRICS_TOKEN", long.as_str()),
            ("ACCESS_AUD", "hush-token"), // without the team's domain
            ("ACCESS_TEAM_DOMAIN", "https://hush-token.cloudflareaccess.com"), // without the audience
            ("METRICS_SHARDS", "33"),
            ("HISTORY_AFTER_DAYS", "0"),
            ("HISTORY_AFTER_DAYS", "a year"),
            ("LOG_LEVEL", "loud"),
            ("BODY_TIMEOUT_MS", "0"),
            ("WAIT_MS", "long"),
            ("SETTLEMENT_PART_LINES", "0"),
        ];
        for (name, value) in cases {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name), "{name}={value}: {error}");
            assert!(!error.contains("hush-token"), "{error}");
        }
        assert!(Config::read(|_| None).unwrap_err().contains("SIGNING_KEY"));
    }

    #[test]
    fn half_of_what_can_be_done_without_counts_as_not_set() {
        for (name, other) in
            [("ANALYTICS_API_TOKEN", "ANALYTICS_ACCOUNT_ID"), ("ANALYTICS_ACCOUNT_ID", "ANALYTICS_API_TOKEN")]
        {
            let config = read(&[(name, "hush-token")]).unwrap();
            assert!(config.analytics.is_none());
            let [sentence] = config.incomplete.as_slice() else { panic!("{:?}", config.incomplete) };
            assert!(sentence.starts_with(name) && sentence.contains(other), "{sentence}");
            assert!(!sentence.contains("hush-token"), "{sentence}");
        }
        assert!(read(&[]).unwrap().incomplete.is_empty());
    }

    #[test]
    fn the_size_of_a_part_has_a_default_and_limits() {
        let read = |text: &str| part_lines(Some(text.to_owned()));
        assert_eq!(part_lines(None), Ok(PART_LINES));
        assert_eq!(read(" 3 "), Ok(3));
        for wrong in ["0", "200001", "many", "-1", "1.5"] {
            assert!(read(wrong).unwrap_err().contains("SETTLEMENT_PART_LINES"), "{wrong}");
        }
    }

    #[test]
    fn the_operator_is_known_by_the_whole_token() {
        let token = "0123456789abcdef0123456789abcdef";
        let config = read(&[("ADMIN_TOKEN", &format!("{token}\n"))]).unwrap();
        assert!(config.is_admin(token));
        for wrong in ["", "test", &token[1..], &token.to_uppercase(), &format!("{token}0")] {
            assert!(!config.is_admin(wrong), "{wrong}");
        }
        assert!(!read(&[]).unwrap().is_admin(""), "without a token nobody is the operator");
    }

    #[test]
    fn the_token_for_the_counts_is_another_one_than_the_operator_s() {
        let (admin, metrics) = ("a".repeat(SECRET_MIN_LEN), "m".repeat(SECRET_MIN_LEN));
        let config = read(&[("ADMIN_TOKEN", &admin), ("METRICS_TOKEN", &metrics)]).unwrap();
        let of = |token: &str| (config.is_admin(token), config.is_for_metrics(token));
        assert_eq!((of(&admin), of(&metrics), of("")), ((true, false), (false, true), (false, false)));
        assert!(!read(&[("ADMIN_TOKEN", &admin)]).unwrap().is_for_metrics(""), "without it nobody has it");
        let error = read(&[("ADMIN_TOKEN", &admin), ("METRICS_TOKEN", &format!("{admin}\n"))]).unwrap_err();
        assert!(error.contains("METRICS_TOKEN") && !error.contains(&admin), "{error}");
    }

    #[test]
    fn a_wrong_setting_of_analytics_engine_is_named_and_never_quoted() {
        let both = [("ANALYTICS_ACCOUNT_ID", "0123abcd"), ("ANALYTICS_API_TOKEN", "hush-token")];
        let analytics = read(&both).unwrap().analytics.unwrap();
        let address = "https://api.cloudflare.com/client/v4/accounts/0123abcd/analytics_engine/sql";
        assert_eq!((analytics.address.as_str(), analytics.dataset.as_str()), (address, "paid_once"));
        assert!(!format!("{analytics:?}").contains("hush-token"));
        let cases = [
            ("ANALYTICS_ACCOUNT_ID", "../hush-token"),
            ("ANALYTICS_DATASET", "hush-token; SHOW TABLES"),
            ("ANALYTICS_DATASET", "1hush"),
            ("ANALYTICS_API_BASE", "http://hush-token.example"),
            ("ANALYTICS_SETTLE_MS", "hush-token"),
            ("ANALYTICS_TIMEOUT_MS", "0"),
        ];
        for (name, value) in cases {
            let error = read(&[&[(name, value)], &both[..]].concat()).unwrap_err();
            assert!(error.contains(name) && !error.contains("hush"), "{name}={value}: {error}");
        }
    }

    #[test]
    fn access_needs_both_of_its_settings_and_https() {
        let read = |domain: &str| {
            read(&[("ACCESS_TEAM_DOMAIN", domain), ("ACCESS_AUD", "tag")])
                .map(|config| config.access.unwrap())
        };
        let access = read("https://team.cloudflareaccess.com/").unwrap();
        assert_eq!(access.team_domain, "https://team.cloudflareaccess.com");
        assert_eq!(access.audience, "tag");
        assert!(read("http://team.cloudflareaccess.com").unwrap_err().contains("https://"));
    }
}
