//! The registry of API accounts: its pages, its forms, and the operator's API. The payments Worker reads what is written here, each isolate
//! within seconds (its `src/accounts`).

pub(crate) mod api;
pub(crate) mod credentials;
mod entries;
pub(crate) mod pages;
pub(crate) mod store;
pub(crate) mod tokens;
mod view;
mod webhook;

use super::app::App;
use messages::operations::ACCOUNTS_PATH;
use runtime::serve::unreadable;
use web::problem::Problem;

/// Where the list is.
pub(crate) const PATH: &str = "/admin/accounts";

/// Whose a key may be that somebody looks for: the accounts that are configured, and as many of the registry as fit on a page.
pub(crate) async fn ids(app: &App) -> Result<Vec<String>, Problem> {
    let mut ids = configured(app).await?;
    ids.extend(store::some_ids(&app.env).await.map_err(unreadable)?);
    Ok(ids)
}

/// The ids of the accounts of the secret `API_ACCOUNTS`, and the demo's own.
async fn configured(app: &App) -> Result<Vec<String>, Problem> {
    app.operation::<Vec<String>>(ACCOUNTS_PATH).await.map_err(unreadable)
}
