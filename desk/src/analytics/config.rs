//! The settings with which Analytics Engine is read.

use runtime::settings;

/// How long after it was logged a point is asked for, in ms: it is not there at once, and each is asked for once.
const SETTLE_MS: u64 = 120_000;
/// How long an answer may take, in ms. Prometheus itself waits for ten seconds.
const TIMEOUT_MS: u64 = 5_000;

/// How Analytics Engine is read.
#[derive(Clone, PartialEq, Eq)]
pub struct AnalyticsConfig {
    /// Where its SQL API is, of this account.
    pub address: String,
    /// `ANALYTICS_API_TOKEN`: a token that may read the account's analytics, and nothing else.
    pub token: String,
    /// `ANALYTICS_DATASET`: the dataset that all Workers write to.
    pub dataset: String,
    /// `ANALYTICS_SETTLE_MS`: how long after it was logged a point is asked for.
    pub settle_ms: u64,
    /// `ANALYTICS_TIMEOUT_MS`: how long an answer may take.
    pub timeout_ms: u64,
}

impl std::fmt::Debug for AnalyticsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnalyticsConfig").field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

impl AnalyticsConfig {
    /// Reads the settings; `None` if there are none.
    pub fn read(setting: impl Fn(&str) -> Option<String>, demo: bool) -> Result<Option<Self>, String> {
        let (account, token) = match (setting("ANALYTICS_ACCOUNT_ID"), setting("ANALYTICS_API_TOKEN")) {
            (Some(account), Some(token)) => (account.trim().to_owned(), token.trim().to_owned()),
            _ => return Ok(None),
        };
        if !account.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(
                "ANALYTICS_ACCOUNT_ID must be the id of the account at Cloudflare: 32 letters and digits."
                    .to_owned(),
            );
        }
        let dataset = setting("ANALYTICS_DATASET").unwrap_or_else(|| "paid_once".to_owned());
        // It stands in a query.
        let is_name = dataset.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || dataset.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(
                "ANALYTICS_DATASET must be letters, digits and _, and not begin with a digit.".to_owned()
            );
        }
        let base = setting("ANALYTICS_API_BASE")
            .unwrap_or_else(|| "https://api.cloudflare.com/client/v4".to_owned());
        if !demo && !base.starts_with("https://") {
            return Err("ANALYTICS_API_BASE must begin with https://: it gets the token.".to_owned());
        }
        let base = base.trim().trim_end_matches('/');
        let timeout_ms = settings::ms(&setting, "ANALYTICS_TIMEOUT_MS", TIMEOUT_MS)?;
        if timeout_ms == 0 {
            return Err("ANALYTICS_TIMEOUT_MS must be at least 1: with 0 no answer could come.".to_owned());
        }
        Ok(Some(Self {
            address: format!("{base}/accounts/{account}/analytics_engine/sql"),
            token,
            dataset,
            settle_ms: settings::ms(&setting, "ANALYTICS_SETTLE_MS", SETTLE_MS)?,
            timeout_ms,
        }))
    }
}
