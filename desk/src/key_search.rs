//! Which keys a list shows, as SQL.

use std::cmp::Reverse;

use serde::Deserialize;
use worker::Result;

use super::queries::{PAGE, Where, looked_through, page_of_all};
use crate::tasks::counts::late_or_flagged;
use messages::snapshot::key_status_sql;
use runtime::lists::Listed;
use runtime::places::ReadModel;

/// How many of the newest payments of an account are looked through for keys in a state.
const PAYMENTS_LOOKED_THROUGH: usize = 1_000;
/// How many of the newest keys that are in no payment’s row, in all places together.
const KEYS_LOOKED_THROUGH: usize = 1_000;

/// A key, in the list.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct KeyRow {
    pub(super) object: String,
    pub(super) key_id: u32,
    pub(super) key_hash: String,
    pub(super) owner: String,
    pub(super) operation: Option<String>,
    pub(super) status: String,
    pub(super) recovery_point: String,
    pub(super) attempts: u32,
    pub(super) in_doubt: u8,
    pub(super) flagged: u8,
    pub(super) response_status: Option<u16>,
    pub(super) wake_at_ms: Option<u64>,
    pub(super) created_at_ms: u64,
    pub(super) finished_at_ms: Option<u64>,
    /// Told where there are several places.
    #[serde(default)]
    version: u64,
}

/// What a search of the keys names. The lists are of any length: D1 takes a hundred values, and a list is one.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySearch {
    /// Objects, and payments that live in them.
    pub(super) places: Vec<String>,
    /// Hashes of keys.
    pub(super) hashes: Vec<String>,
    /// Whose they are.
    pub(super) owner: String,
}

pub(super) async fn keys(
    model: &ReadModel,
    search: Option<&KeySearch>,
    state: &str,
    number: usize,
    now_ms: u64,
) -> Result<Vec<KeyRow>> {
    let mut conditions = Where::default();
    let named = match search {
        Some(search) => {
            let places = conditions.place(serde_json::to_string(&search.places)?);
            let hashes = conditions.place(serde_json::to_string(&search.hashes)?);
            let owner = conditions.place(search.owner.as_str());
            Some((
                format!("place IN (SELECT value FROM json_each({places}))"),
                format!("key_hash IN (SELECT value FROM json_each({hashes}))"),
                format!("owner = {owner}"),
            ))
        }
        None => None,
    };
    let open = match state {
        "open" => Some("status = 'open'".to_owned()),
        "unknown" => Some("status = 'open' AND in_doubt = 1".to_owned()),
        "late" => Some(format!("status = 'open' AND {}", late_or_flagged(now_ms))),
        _ => None,
    };
    let status = key_status_sql(now_ms);
    let more = if model.is_many().await? { ", version" } else { "" };
    if matches!(state, "finished" | "expired") {
        conditions.and(&format!("{status} = '{state}'"));
    }
    let source = match (open, named) {
        // These are few, whichever are asked for.
        (Some(open), named) => {
            if let Some((place, hash, owner)) = named {
                conditions.and(&format!("({place} OR {hash} OR {owner})"));
            }
            format!("(SELECT *, object AS place FROM keys WHERE {open})")
        }
        (None, Some((place, hash, owner))) => {
            // Those of an account are found with its payments, which have an index; what has none among the newest.
            let payments =
                if state.is_empty() { PAGE * number.saturating_add(1) + 1 } else { PAYMENTS_LOOKED_THROUGH };
            let newest = format!(
                "SELECT payment_id, object FROM payments WHERE {owner} ORDER BY created_at_ms DESC, payment_id DESC LIMIT {payments}"
            );
            format!(
                "(SELECT * FROM key_list WHERE {place} UNION SELECT *, object FROM keys WHERE {hash}
              UNION SELECT * FROM key_list WHERE +{owner} AND place IN (SELECT payment_id FROM ({newest}) UNION ALL SELECT object FROM ({newest}))
              UNION SELECT *, object FROM (SELECT * FROM keys ORDER BY created_at_ms DESC LIMIT {}) WHERE {owner})",
                looked_through(model, KEYS_LOOKED_THROUGH).await?
            )
        }
        (None, None) => "key_list".to_owned(),
    };
    let select = format!(
        "SELECT object, key_id, key_hash, owner, operation, {status} AS status, recovery_point, attempts, in_doubt, flagged,
            response_status, wake_at_ms, created_at_ms, finished_at_ms{more} FROM {source}"
    );
    page_of_all(model, &select, conditions, "created_at_ms DESC, object, key_id DESC", number).await
}

impl Listed for KeyRow {
    type Order = (Reverse<u64>, String, Reverse<u32>);

    fn order(&self) -> Self::Order {
        (Reverse(self.created_at_ms), self.object.clone(), Reverse(self.key_id))
    }

    fn id(&self) -> String {
        format!("{}/{}", self.object, self.key_id)
    }

    fn version(&self) -> u64 {
        self.version
    }
}
