//! What waits in all places of the read model: dead letters, open breaks, open keys, reservations that end.
//!
//! Up to as many places as one reader asks are asked. Of more, where each [has runs of its own](crate::tasks), D1 has what each shard has counted in
//! its newest run, if that was anything: so however many shards are quiet, they cost nothing. What may be missing or old there is told of.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Env, Result};

use crate::tasks::counts::{self, Counts, Scope};
use crate::tasks::names::{FAILING_PLACES, TELLING_PLACES};
use crate::tasks::place_runs::BYTES;
use crate::tasks::{self, HEARD_WITHIN_MS};
use runtime::db::Db;
use runtime::places::ReadModel;

/// Of all places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) counts: Counts,
    /// How large the places are that have said so.
    pub(crate) sizes: Sizes,
    /// What is kept, if that was read.
    kept: Option<Kept>,
}

/// How large places are, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// D1.
    pub(crate) d1: Option<u64>,
    /// The largest shard. Of many it is not known while none is large.
    pub(crate) largest_shard: Option<u64>,
}

impl Sizes {
    /// With that of a place: of a shard, or D1.
    const fn with(mut self, is_shard: bool, bytes: Option<u64>) -> Self {
        let Some(bytes) = bytes else { return self };
        match (is_shard, self.largest_shard) {
            (false, _) => self.d1 = Some(bytes),
            (true, Some(known)) if known >= bytes => {}
            (true, _) => self.largest_shard = Some(bytes),
        }
        self
    }
}

/// How the shards have counted.
#[derive(Clone, Debug, Default, Deserialize)]
struct Kept {
    shards: u64,
    /// When the first of them has counted, in ms since the epoch.
    oldest_ms: Option<u64>,
    /// Of how many nothing was heard for so long that something is wrong; of a new one since it was made.
    unheard: u64,
    /// How many could not count in their newest run.
    failing: u64,
    /// How large the largest of them is, if one is large.
    largest_bytes: Option<u64>,
}

impl Waiting {
    /// By when all have counted, in ms since the epoch: before that a count may have been another one.
    pub(crate) fn as_of_ms(&self) -> Option<u64> {
        self.kept.as_ref()?.oldest_ms
    }

    /// What a person is told of what is missing here.
    pub(crate) fn missing(&self) -> Option<String> {
        let Kept { shards, unheard, failing, .. } = self.kept.as_ref()?;
        let missing = unheard.saturating_add(*failing);
        (missing > 0).then(|| {
            format!(
                "{missing} of {shards} shards have not counted for {} minutes, or not yet, or failed to: what waits there is missing here, or as it was.",
                HEARD_WITHIN_MS / 60_000
            )
        })
    }
}

/// What waits in all places; what the places that are asked for it do not answer the model tells of.
pub(crate) async fn waiting(env: &Env, model: &ReadModel, scope: Scope, now_ms: u64) -> Result<Waiting> {
    if !tasks::have_objects(env) || !model.are_too_many().await? {
        let places = model.places().await?;
        let all = model.each(places, async |db: Db| counts::of_place(&db, scope, now_ms).await).await?;
        let mut waiting = Waiting::default();
        for (db, (counts, bytes)) in all {
            waiting.counts = waiting.counts.and(counts);
            waiting.sizes = waiting.sizes.with(db.name().is_some(), bytes);
        }
        return Ok(waiting);
    }
    let d1 = model.d1()?;
    let kept: Option<Kept> =
        d1.first(&freshness(), vec![now_ms.saturating_sub(HEARD_WITHIN_MS).into()]).await?;
    let sums: Vec<Sum> = d1.rows(&sums(), Vec::new()).await?;
    let of_shards = added(sums)?;
    let (counts, bytes) = counts::of_place(&d1, Scope::All, now_ms).await?;
    let largest = kept.as_ref().and_then(|kept| kept.largest_bytes);
    let sizes = Sizes::default().with(false, bytes).with(true, largest);
    Ok(Waiting { counts: counts.and(of_shards), sizes, kept })
}

/// The sums of what the shards have counted. A kind has its prefix, and so a colon.
fn added(sums: Vec<Sum>) -> Result<Counts> {
    let (kinds, sums): (Vec<Sum>, Vec<Sum>) = sums.into_iter().partition(|sum| sum.name.contains(':'));
    let sums: BTreeMap<String, Value> =
        sums.into_iter().map(|Sum { name, sum }| (name, sum.into())).collect();
    let counts: Counts = serde_json::from_value(json!(sums))?;
    Ok(Counts { kinds: kinds.into_iter().map(|Sum { name, sum }| (name, sum)).collect(), ..counts })
}

#[derive(Deserialize)]
struct Sum {
    name: String,
    sum: u64,
}

/// What the newest runs of shards have counted, under the name that [`tasks`] give it, also by kinds.
fn sums() -> String {
    format!(
        "SELECT number.key AS name, sum(number.value) AS sum
         FROM runs INDEXED BY runs_telling CROSS JOIN json_tree(result, '$.counts') AS number
         WHERE {TELLING_PLACES} AND number.type = 'integer' GROUP BY number.key"
    )
}

fn freshness() -> String {
    format!(
        "SELECT awake AS shards,
            (SELECT heard_at_ms FROM shards INDEXED BY shards_awake_by_heard WHERE rests_since_ms IS NULL AND heard_at_ms > 0
                ORDER BY heard_at_ms LIMIT 1) AS oldest_ms,
            (SELECT count(*) FROM shards INDEXED BY shards_awake_by_heard WHERE rests_since_ms IS NULL AND heard_at_ms < ?1
                AND made_at_ms < ?1) AS unheard,
            (SELECT count(*) FROM runs INDEXED BY runs_failing_places WHERE {FAILING_PLACES}
                AND (result ->> '$.counts.error' IS NOT NULL OR json_remove(result, '$.error') = '{{}}')) AS failing,
            (SELECT max(result ->> '$.{BYTES}') FROM runs INDEXED BY runs_telling WHERE {TELLING_PLACES}) AS largest_bytes
         FROM shard_counts WHERE id = 1"
    )
}

#[cfg(test)]
mod tests {
    use super::Sizes;

    #[test]
    fn of_shards_the_largest_counts_and_d1_is_none_of_them() {
        let sizes =
            Sizes::default().with(false, Some(9)).with(true, Some(3)).with(true, Some(7)).with(true, Some(5));
        assert_eq!(sizes, Sizes { d1: Some(9), largest_shard: Some(7) });
        assert_eq!(
            sizes.with(true, None).with(false, None),
            sizes,
            "one of a release before does not say it"
        );
    }
}
