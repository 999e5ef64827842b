//! What the desk asks of this Worker itself. Only the desk reaches it, by a service binding to the entrypoint `Operations`.

use messages::operations::{ACCOUNTS_PATH, ACKS_PATH, COUNTS_PATH, LAB_PATH, REPORTS_PATH};
use serde::Deserialize;
use worker::{Env, Request, Response, Result};

use crate::config::Config;
use crate::tasks::{adyen_import, bank_acks};

/// Answers the desk, which has let the operator in.
pub(crate) async fn answer(mut request: Request, env: Env) -> Result<Response> {
    #[derive(Deserialize)]
    struct Query {
        name: String,
    }
    let config = Config::of(&env).map_err(worker::Error::RustError)?;
    match request.path().as_str() {
        ACCOUNTS_PATH => Response::from_json(&config.accounts.keys().collect::<Vec<_>>()),
        COUNTS_PATH => Response::from_json(&runtime::metrics::read(&env).await?.rows()),
        LAB_PATH => Response::from_json(&config.lab),
        ACKS_PATH => Response::from_json(&bank_acks::upload(&env, request.bytes().await?).await?),
        REPORTS_PATH => {
            let Query { name } = request.query()?;
            let report = request.bytes().await?;
            Response::from_json(&adyen_import::upload(&env, &config, &name, report).await?)
        }
        _ => Response::error("", 404),
    }
}
