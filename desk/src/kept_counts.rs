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
use crate::tasks::{self, HEARD_WITHIN_MS};
use runtime::places::ReadModel;

/// Of all places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) counts: Counts,
    /// What is kept, if that was read.
    kept: Option<Kept>,
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
    let add = |all: Vec<Counts>| all.into_iter().fold(Counts::default(), Counts::and);
    if !tasks::have_objects(env) || !model.are_too_many().await? {
        let all = model.rows(&counts::sql(scope, now_ms), Vec::new()).await?;
        return Ok(Waiting { counts: add(all), kept: None });
    }
    let d1 = model.d1()?;
    let kept: Option<Kept> =
        d1.first(&freshness(), vec![now_ms.saturating_sub(HEARD_WITHIN_MS).into()]).await?;
    let sums: Vec<Sum> = d1.rows(&sums(), Vec::new()).await?;
    let of_shards = added(sums)?;
    Ok(Waiting { counts: add(vec![counts::of_place(&d1, now_ms).await?, of_shards]), kept })
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
                AND (result ->> '$.counts.error' IS NOT NULL OR json_remove(result, '$.error') = '{{}}')) AS failing
         FROM shard_counts WHERE id = 1"
    )
}
