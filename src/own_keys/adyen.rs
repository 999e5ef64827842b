//! What is different at Adyen: a key is of a merchant account, which is named in the account's settings, and of an endpoint.

use super::known::OwnKeys;
use crate::config::{Config, is_basic_auth};
use messages::credentials::{CredentialKind, Mode};
use once::account::Credential;
use payments::payment::own_keys::{Merchant, credential_at};
use payments::providers::adyen;

/// The address to which requests go: of the live endpoint, or of the one for tests, which in the demo is the simulator.
pub(crate) fn base_of(config: &Config, merchant: &Merchant<'_>) -> Result<String, String> {
    match (merchant.live_prefix, &config.adyen) {
        (Some(_), _) if config.demo => Err("it is a live merchant account, and this is the demo".to_owned()),
        (None, None) if config.demo => Err("ADYEN_API_BASE is not set".to_owned()),
        (None, Some(adyen)) if config.demo => Ok(adyen.base.clone()),
        (prefix, _) => Ok(adyen::base(prefix)),
    }
}

impl OwnKeys {
    /// What stands for the merchant account of the API key. `None` if there is no key, or it cannot be used.
    pub(crate) fn adyen_credential(&self) -> Option<Credential> {
        self.adyen.as_ref().ok().copied()
    }

    /// The merchant account that the API key is of, and its mode; `None` if there is none.
    pub(crate) fn merchant_account(&self) -> Option<(&str, Option<Mode>)> {
        let row = self.row(CredentialKind::AdyenApiKey)?;
        Some((row.merchant_account.as_deref()?, row.mode))
    }

    /// The API key, for one call in a merchant account.
    pub(crate) async fn adyen_key(&self, merchant: &Merchant<'_>) -> Result<String, String> {
        if *self.adyen.as_ref().map_err(Clone::clone)? != merchant.credential() {
            let (known, _) = self.merchant_account().unwrap_or_default();
            return Err(format!(
                "the adyen_api_key of {} is of the merchant account {known}, and not of {}",
                self.account, merchant.account
            ));
        }
        self.open(CredentialKind::AdyenApiKey).await
    }

    /// Finds out whether the API key can be used, and for which merchant account.
    pub(super) async fn read_adyen(&self) -> Result<Credential, String> {
        self.open(CredentialKind::AdyenApiKey).await?;
        let of_none = || format!("the adyen_api_key of {} is of no merchant account", self.account);
        let (merchant_account, mode) = self.merchant_account().ok_or_else(of_none)?;
        Ok(credential_at(merchant_account, mode == Some(Mode::Live)))
    }

    /// With which Adyen signs what it tells of this account. Those that cannot be opened are left out.
    pub(crate) async fn hmac_keys(&self) -> Vec<Vec<u8>> {
        let keys = self.opened(CredentialKind::AdyenHmacKey).await;
        keys.iter().filter_map(|key| base16ct::mixed::decode_vec(key).ok()).collect()
    }

    /// Whether an `Authorization` header is that of its webhook; none is where none is set.
    pub(crate) async fn is_adyen(&self, authorization: &str) -> bool {
        let expected = self.open(CredentialKind::AdyenWebhookAuth).await;
        expected.is_ok_and(|expected| is_basic_auth(authorization, &expected))
    }
}
