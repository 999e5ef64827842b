//! Where an account is told of its payments, for its page. Its secret stands in no table.

use serde::Deserialize;
use worker::Env;

use crate::detail_tables::fact;
use crate::view_models::{Cell, Fact};
use runtime::db::Db;

/// The endpoint of the account `?1`.
const OF_ACCOUNT: &str = "SELECT url FROM webhook_endpoints WHERE account = ?1 AND url IS NOT NULL";

#[derive(Deserialize)]
struct Row {
    url: String,
}

/// The address of an account's endpoint, if it has one.
pub(super) async fn endpoint(env: &Env, id: &str) -> worker::Result<Option<Fact>> {
    let row: Option<Row> = Db::of(env)?.first(OF_ACCOUNT, vec![id.into()]).await?;
    Ok(row.map(|Row { url }| fact("Webhooks go to", Cell { class: "id", ..Cell::text(url) })))
}
