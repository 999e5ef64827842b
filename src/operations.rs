//! What the desk asks of this Worker itself. Only the desk reaches it, by a service binding to the entrypoint `Operations`.

use std::rc::Rc;
use std::time::Duration;

use messages::credentials::CredentialKind;
use messages::operations::{
    ACCOUNTS_PATH, COUNTS_PATH, CREDENTIAL_PATH, INBOX_PATH, LAB_PATH, PaymentsSettings, ProviderAnswer,
    ProviderRead, READ_PATH, REPORT_PATH, REPORT_REFUSED, RESEAL_PATH, ReportRead, SETTINGS_PATH,
};
use messages::settlement::REPORT_MAX_BYTES;
use payments::payment::own_keys::account_of;
use payments::providers::adyen::report::is_adyens;
use runtime::http_client::{OutboundRequest, download};
use serde::de::DeserializeOwned;
use worker::{Env, Request, Response, Result};

use crate::config::Config;
use crate::key_entry;
use crate::own_keys;
use crate::transport::Transport;
use crate::webhooks::work;

/// How long a report may take to come.
const REPORT_TAKES: Duration = Duration::from_secs(60);

/// Answers the desk, which has let the operator in, or whose clock has struck.
pub(crate) async fn answer(mut request: Request, env: Env) -> Result<Response> {
    let config = Config::of(&env).map_err(worker::Error::RustError)?;
    match request.path().as_str() {
        ACCOUNTS_PATH => Response::from_json(&config.accounts.keys().collect::<Vec<_>>()),
        COUNTS_PATH => Response::from_json(&runtime::metrics::read(&env).await?.rows()),
        LAB_PATH => Response::from_json(&config.lab),
        SETTINGS_PATH => Response::from_json(&settings(&config)),
        CREDENTIAL_PATH => {
            Response::from_json(&key_entry::change(&env, &config, &asked(&mut request).await?).await)
        }
        RESEAL_PATH => Response::from_json(&key_entry::reseal(&env, &config).await?),
        READ_PATH => Response::from_json(&read(&env, &config, &asked(&mut request).await?).await),
        REPORT_PATH => report(&env, &config, asked(&mut request).await?).await,
        INBOX_PATH => Response::from_json(&work::work_due(&env).await?),
        _ => Response::error("", 404),
    }
}

async fn asked<T: DeserializeOwned>(request: &mut Request) -> Result<T> {
    Ok(json_text::from_str(&request.text().await?)?)
}

fn settings(config: &Config) -> PaymentsSettings {
    PaymentsSettings {
        stripe: config.credentials.stripe,
        stripe_accounts: config
            .accounts
            .values()
            .filter_map(|account| account.stripe_account.clone())
            .collect(),
        adyen_merchant_account: config.adyen.as_ref().map(|adyen| adyen.merchant_account.clone()),
        personal_retention_ms: config.times.personal_retention_ms,
    }
}

async fn read(env: &Env, config: &Rc<Config>, read: &ProviderRead) -> ProviderAnswer {
    if !read.is_allowed() {
        return Err(format!("{} is not read for the desk", read.request.path));
    }
    let transport = Transport::new(env, config);
    if let Some(account) = read.request.account.as_deref().and_then(account_of) {
        transport.prepare(config, account).await;
        if read.key_set_at_ms.is_some() && transport.own_key_set_at_ms() != read.key_set_at_ms {
            // What this isolate knows may be older. Where it cannot be read, it stays.
            let _ = own_keys::newest(env, config, account).await;
            transport.prepare(config, account).await;
            if transport.own_key_set_at_ms() != read.key_set_at_ms {
                return Err(format!(
                    "the key of {account} was changed at this moment: nothing is read with it until the next run"
                ));
            }
        }
    }
    transport.get(read.provider, &read.request, &mut None).await
}

/// Downloads a report of Adyen's. Its address is not signed, so the key goes to a host of Adyen's only, no redirect is followed, and what is
/// read has a limit.
async fn report(env: &Env, config: &Config, ReportRead { address, account }: ReportRead) -> Result<Response> {
    let key = match &account {
        None if config.adyen.is_none() => Err("Adyen is not configured".to_owned()),
        None => config.adyen_report_key.clone().ok_or_else(|| "ADYEN_REPORT_KEY is not set".to_owned()),
        Some(account) => match own_keys::newest(env, config, account).await {
            Ok(own) => own.open(CredentialKind::AdyenReportKey).await,
            Err(own_keys::Unreadable) => {
                return Response::error("the registry of accounts could not be read", 502);
            }
        },
    };
    let key = match key {
        Ok(key) => key,
        Err(why) => return Response::error(why, REPORT_REFUSED),
    };
    let simulators = config.adyen.as_ref().filter(|_| config.demo).map(|adyen| adyen.base.as_str());
    if !is_adyens(&address, simulators) {
        return Response::error("its address is none of Adyen's, and nothing was sent there", REPORT_REFUSED);
    }
    let headers = vec![("x-api-key", key)];
    let sent = OutboundRequest { method: "GET", url: address, headers, body: None };
    match download(env, Some("ADYEN"), &sent, REPORT_TAKES, REPORT_MAX_BYTES).await {
        Ok((200, bytes)) => Response::from_bytes(bytes),
        Ok((status, _)) => Response::error(format!("it was answered {status}"), 502),
        Err(error) => Response::error(error, 502),
    }
}
