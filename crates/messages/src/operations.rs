//! What the desk asks of the payments Worker itself, by a service binding to its entrypoint `Operations`. Each is a POST. The desk has no key
//! of a provider: what it wants to know of one is asked here, and nothing can be changed at a provider by this way. Keys go this way in one direction.

use once::account::Credential;
use once::call::FrozenRequest;
use payments::providers::{HttpAnswer, Provider};
use serde::{Deserialize, Serialize};

/// Whether this is the lab, in which everybody may read the counts: true or false.
pub const LAB_PATH: &str = "/lab";
/// The counts, after what its isolate has counted was sent: rows of counters.
pub const COUNTS_PATH: &str = "/counts";
/// The ids of the API accounts: a list of texts.
pub const ACCOUNTS_PATH: &str = "/accounts";
/// What the scheduled tasks must know of its settings: [`PaymentsSettings`].
pub const SETTINGS_PATH: &str = "/settings";
/// Read at a provider: a [`ProviderRead`] is answered with [`ProviderAnswer`].
pub const READ_PATH: &str = "/read";
/// Download one of Adyen's reports: a [`ReportRead`] is answered with its bytes. What went wrong is told with another status, as text:
/// [`REPORT_REFUSED`] where it is for a person, 502 where it may be tried again.
pub const REPORT_PATH: &str = "/report";
/// Work on the webhooks that are due. The answer says how many there were.
pub const INBOX_PATH: &str = "/inbox";

/// Set or remove a key of an account's own: a [`CredentialChange`](crate::credentials::CredentialChange) is answered with a
/// [`CredentialOutcome`](crate::credentials::CredentialOutcome).
pub const CREDENTIAL_PATH: &str = "/credential";
/// Seal under the newest `CREDENTIALS_KEY` what is sealed under the one before. The answer says how many there were, and, while there
/// are two, how many are left under the one before.
pub const RESEAL_PATH: &str = "/reseal";

/// The status of a report that cannot be downloaded with these settings.
pub const REPORT_REFUSED: u16 = 409;

/// Settings of the payments Worker that the scheduled tasks keep to. There is no secret among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentsSettings {
    /// Stands for the way to Stripe.
    pub stripe: Credential,
    /// The connected accounts in which API accounts take their money.
    pub stripe_accounts: Vec<String>,
    /// `ADYEN_MERCHANT_ACCOUNT`, if Adyen is used.
    pub adyen_merchant_account: Option<String>,
    /// `PERSONAL_RETENTION_MS`: how long personal data is kept, in ms.
    pub personal_retention_ms: u64,
}

/// A report of Adyen's that is to be downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRead {
    /// Where Adyen said that it is.
    pub address: String,
    /// The account with whose own key; `None` with `ADYEN_REPORT_KEY`.
    pub account: Option<String>,
}

/// What is to be read at a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderRead {
    /// Where.
    pub provider: Provider,
    /// Its path and its account; it has no body.
    pub request: FrozenRequest,
    /// With an account's own key: when that was set, in ms since the epoch. With another key nothing is read: it may be of other books.
    #[serde(default)]
    pub key_set_at_ms: Option<u64>,
}

/// What the provider has answered, or why there is no answer.
pub type ProviderAnswer = Result<HttpAnswer, String>;

/// The lists and accounts that reconciliation reads: nothing else is read for the desk.
const READABLE: [&str; 5] =
    ["/v1/account", "/v1/events", "/v1/balance_transactions", "/v1/payment_intents", "/v1/disputes"];

impl ProviderRead {
    /// Whether this may be read.
    pub fn is_allowed(&self) -> bool {
        let path = self.request.path.split('?').next().unwrap_or_default();
        let is_below =
            |list: &str| path.strip_prefix(list).is_some_and(|rest| rest.is_empty() || is_id(rest));
        self.provider == Provider::Stripe
            && self.request.body.is_empty()
            && READABLE.into_iter().any(is_below)
    }
}

/// `/` and one of the provider's ids.
fn is_id(rest: &str) -> bool {
    rest.strip_prefix('/')
        .is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reconciliation_reads_is_read() {
        let read = |path: &str| ProviderRead {
            provider: Provider::Stripe,
            request: FrozenRequest::new(path.to_owned(), String::new()),
            key_set_at_ms: None,
        };
        for path in
            ["/v1/account", "/v1/events?limit=100", "/v1/payment_intents/pi_1?expand%5B%5D=latest_charge"]
        {
            assert!(read(path).is_allowed(), "{path}");
        }
        for path in [
            "/v1/accounts",
            "/v1/customers",
            "/v1/account/../customers",
            "/v1/payment_intents/pi_1/capture",
            "/v1/payment_intents/",
            "//v1/account",
            "",
        ] {
            assert!(!read(path).is_allowed(), "{path}");
        }
        assert!(!ProviderRead { provider: Provider::Adyen, ..read("/v1/account") }.is_allowed());
        let mut posted = read("/v1/account");
        posted.request.body = "a=b".to_owned();
        assert!(!posted.is_allowed());
    }
}
