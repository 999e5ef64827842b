//! The SQL of the list of breaks.

use std::cmp::Reverse;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use worker::Result;

use super::break_kinds::BreakKind;
use super::queries::{Where, found, looked_through, page_of_all};
use once::id::{ObjectId, digest};
use payments::payment::id::object_of;
use runtime::lists::Listed;
use runtime::places::ReadModel;

/// How many of the newest breaks that are not open are looked through for those of a kind, in all places together.
const BREAKS_LOOKED_THROUGH: usize = 10_000;

/// A break.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BreakRow {
    pub(super) break_id: String,
    pub(super) kind: String,
    pub(super) provider: String,
    pub(super) provider_payment: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) object: Option<String>,
    pub(super) ours: Option<String>,
    pub(super) theirs: Option<String>,
    pub(super) state: String,
    pub(super) note: Option<String>,
    pub(super) first_seen_at_ms: u64,
    pub(super) last_seen_at_ms: u64,
    /// Where it was found; `None` is D1.
    #[serde(skip)]
    pub(super) shard: Option<String>,
}

impl BreakRow {
    /// Stands for what both sides say. Who accepts a break accepts that, and nothing that is found later.
    pub(super) fn seen(&self) -> String {
        let said = serde_json::json!([self.ours, self.theirs]).to_string();
        HEXLOWER.encode(&digest(&[b"break", said.as_bytes()]))
    }

    /// The object that can be asked about it.
    pub(super) fn asked_object(&self) -> Option<ObjectId> {
        let known = self.object.as_deref().and_then(ObjectId::from_hex);
        known.or_else(|| self.resource.as_deref().and_then(object_of))
    }

    /// Whether its note ends with this one, with which it was accepted.
    pub(super) fn is_accepted_with(&self, note: &str) -> bool {
        let kept = self.note.as_deref().and_then(|kept| kept.strip_suffix(note));
        kept.is_some_and(|found| found.is_empty() || found.ends_with(ACCEPTED))
    }
}

/// In the note of an accepted break, between what was found and why that is right.
pub(super) const ACCEPTED: &str = "; accepted: ";

const BREAKS: &str =
    "SELECT break_id, kind, provider, provider_payment, resource, object, ours, theirs, state, note,
    first_seen_at_ms, last_seen_at_ms FROM breaks";
const BREAKS_ORDER: &str = "last_seen_at_ms DESC, break_id";

/// Those in a state, or in all, and of a kind, or of all.
pub(super) async fn breaks(
    model: &ReadModel,
    state: Option<&str>,
    kind: Option<BreakKind>,
    number: usize,
) -> Result<Vec<BreakRow>> {
    let mut conditions = Where::default();
    let is_in = state.map(|state| format!("state = {}", conditions.place(state)));
    let mut select = BREAKS.to_owned();
    match (is_in, kind) {
        // Open ones are few. Of all others those of a kind have no index: they are found among the newest.
        (is_in, Some(_)) if state != Some("open") => {
            let most = looked_through(model, BREAKS_LOOKED_THROUGH).await?;
            let of_state = is_in.map(|is_in| format!("WHERE {is_in}")).unwrap_or_default();
            select = BREAKS.replace(
                "FROM breaks",
                &format!("FROM (SELECT * FROM breaks {of_state} ORDER BY {BREAKS_ORDER} LIMIT {most})"),
            );
        }
        (Some(is_in), _) => conditions.and(&is_in),
        (None, _) => {}
    }
    if let Some(kind) = kind {
        conditions.and_value("kind = ?", kind.as_str());
    }
    page_of_all(model, &select, conditions, BREAKS_ORDER, number).await
}

/// `shard` is where it was seen; empty if that is D1, or not known.
pub(super) async fn find_break(model: &ReadModel, break_id: &str, shard: &str) -> Result<Option<BreakRow>> {
    found(model, &format!("{BREAKS} WHERE break_id = ?1"), break_id, shard).await
}

impl Listed for BreakRow {
    type Order = (Reverse<u64>, String);

    fn order(&self) -> Self::Order {
        (Reverse(self.last_seen_at_ms), self.break_id.clone())
    }

    fn id(&self) -> String {
        self.break_id.clone()
    }

    fn version(&self) -> u64 {
        self.last_seen_at_ms
    }

    fn found_in(self, shard: Option<&str>) -> Self {
        Self { shard: shard.map(str::to_owned), ..self }
    }
}
