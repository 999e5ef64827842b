//! The settlement of shards: each closes its own part of a day and writes it, and D1 notes what it has written. Where each shard has runs of its
//! own they do so beside each other; else one run goes on with one after the other.
//!
//! - A shard that does not answer is named, is asked last by the next run for all, and holds up no other.
//! - A shard closes nothing while D1 has payments that are to be moved there: what happened to a payment before says which line it has now, so
//!   all of its records must be in one place. A move begins [`LEAD_MS`] after it was written down; a turn in a shard is shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Error, Result};

use super::settlement_file::{Day, file_of};
use super::settlement_parts::shard_file;
use super::settlement_place::{set, settle_place};
use super::settlement_run::{D1, Run, Stores};
use messages::placement::{self, LEAD_MS, Layout, STRAGGLE_MS, ShardName};
use runtime::db::Statement;

/// For how long it is gone by what is known of moves, in ms, and how long a turn in one shard is: together less than [`LEAD_MS`].
const TURN_MS: u64 = LEAD_MS / 3;
/// How many shards are looked at in one pass.
const SHARDS_MAX: u32 = 500;
/// Of how many shards the result says why they are behind.
const TOLD_MAX: usize = 10;
/// How many payments are looked at, to know which shards still get some.
const LEFT_MAX: u32 = 500;
const MOVING: &str =
    "its payments are still being moved from D1: it goes on after that (npm run shards -- move)";

/// The oldest day of which a shard has not written its part.
#[derive(Debug, Deserialize)]
struct Open {
    place: String,
    day: String,
}

/// Goes on with all shards, as far as this run goes. The result names those that are in the way.
pub(super) async fn go_on(run: &mut Run<'_, impl Stores>, result: &mut Value) -> Result<()> {
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    let mut known = None;
    let mut left = 0;
    loop {
        run.enter(D1, u64::MAX);
        let sql =
            "SELECT place, min(day) AS day FROM settlement_places WHERE written_at_ms IS NULL AND place != ''
             GROUP BY place ORDER BY max(failed_at_ms) IS NOT NULL, max(failed_at_ms), day, place LIMIT ?1";
        let mut open: Vec<Open> = run.rows(Statement::new(sql, vec![SHARDS_MAX.into()])).await?;
        left = left.max(open.len());
        open.retain(|open| !failed.contains_key(&open.place));
        if open.is_empty() || !run.may_go_on() {
            left = open.len() + failed.len();
            break;
        }
        for Open { place, day } in open {
            run.enter(D1, u64::MAX);
            if !run.may_go_on() {
                break;
            }
            if let Err(behind) = turn(run, &mut known, &place, &day, result).await? {
                failed.insert(place, behind.to_string());
            }
        }
    }
    run.enter(D1, u64::MAX);
    if left > 0 {
        set(result, "places_left", left.into());
    }
    if !failed.is_empty() {
        let told: BTreeMap<String, String> = failed.into_iter().take(TOLD_MAX).collect();
        set(result, "waits_for", json!(told));
    }
    Ok(())
}

/// Goes on with one shard, as far as this run goes: it has the run for itself. What is wrong there is noted in D1, too, where the manifest waits
/// for it.
pub(super) async fn go_on_in(run: &mut Run<'_, impl Stores>, place: &str, result: &mut Value) -> Result<()> {
    #[derive(Deserialize)]
    struct Oldest {
        day: Option<String>,
    }
    let mut known = None;
    loop {
        run.enter(D1, u64::MAX);
        let sql = "SELECT min(day) AS day FROM settlement_places WHERE written_at_ms IS NULL AND place = ?1";
        let oldest: Option<Oldest> = run.first(Statement::new(sql, vec![place.into()])).await?;
        let Some(day) = oldest.and_then(|oldest| oldest.day) else { return Ok(()) };
        if !run.may_go_on() {
            set(result, "day", day.into());
            return Ok(());
        }
        match turn(run, &mut known, place, &day, result).await? {
            Ok(()) => {}
            Err(Behind::Moving) => {
                set(result, "waits_for", MOVING.into());
                return Ok(());
            }
            Err(Behind::Failed(error)) => return Err(error),
        }
    }
}

/// Why a shard is behind.
enum Behind {
    Moving,
    Failed(Error),
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moving => f.write_str(MOVING),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// One shard's day, for a turn, unless payments are still moved there. It is gone by what is `known` of the moves for as long as that may be. What
/// is in the way is noted in D1.
async fn turn(
    run: &mut Run<'_, impl Stores>,
    known: &mut Option<(u64, Moves)>,
    place: &str,
    date: &str,
    result: &mut Value,
) -> Result<std::result::Result<(), Behind>> {
    let now_ms = run.now_ms();
    let moves = match known.take() {
        Some((read_at_ms, moves)) if now_ms.saturating_sub(read_at_ms) < TURN_MS => (read_at_ms, moves),
        _ => (now_ms, Moves::read(run, now_ms).await?),
    };
    let behind = match known.insert(moves).1.may_bring(place) {
        true => Some(Behind::Moving),
        false => settle(run, place, date, result).await.err().map(Behind::Failed),
    };
    let Some(behind) = behind else { return Ok(Ok(())) };
    let sql = "UPDATE settlement_places SET failed_at_ms = ?3, error = ?4
         WHERE file = ?1 AND place = ?2 AND written_at_ms IS NULL";
    let values = vec![file_of(date).into(), place.into(), now_ms.into(), behind.to_string().into()];
    run.run_in_d1(sql, values).await?;
    Ok(Err(behind))
}

async fn settle(run: &mut Run<'_, impl Stores>, place: &str, date: &str, result: &mut Value) -> Result<()> {
    let day = Day::of(date).ok_or_else(|| Error::RustError(format!("{date} is not a day")))?;
    run.enter(place, run.now_ms().saturating_add(TURN_MS));
    settle_place(run, &shard_file(date, place), &day, result).await.map(drop)
}

/// What the moves from D1 that are not over may still bring.
struct Moves {
    /// The layouts of which any shard may get some.
    layouts: BTreeSet<u64>,
    shards: BTreeSet<ShardName>,
}

impl Moves {
    async fn read(run: &mut Run<'_, impl Stores>, now_ms: u64) -> Result<Self> {
        #[derive(Deserialize)]
        struct Row {
            layout: String,
            is_over: u32,
        }
        #[derive(Deserialize)]
        struct Left {
            object: String,
            owner: String,
            created_at_ms: u64,
        }
        let sql = "SELECT json_object('layout_id', layout_id, 'from_ms', from_ms, 'slots', slots, 'period', period, 'spread', json(spread),
                'moved_since_ms', moved_since_ms, 'moved_at_ms', moved_at_ms) AS layout,
                moved_at_ms IS NULL OR done_at_ms IS NOT NULL AS is_over FROM shard_layouts ORDER BY layout_id";
        let mut moves = Self { layouts: BTreeSet::new(), shards: BTreeSet::new() };
        let rows: Vec<Row> = run.rows(Statement::new(sql, Vec::new())).await?;
        let mut layouts: Vec<(Layout, bool)> = Vec::new();
        for row in rows {
            layouts.push((serde_json::from_str(&row.layout)?, row.is_over != 0));
        }
        let all: Vec<Layout> = layouts.iter().map(|(layout, _)| layout.clone()).collect();
        for (layout, _) in layouts.iter().filter(|(layout, is_over)| layout.slots > 0 && !is_over) {
            let begins_at_ms = layout.moved_at_ms.unwrap_or(u64::MAX).saturating_add(STRAGGLE_MS);
            let sql = "SELECT object, owner, created_at_ms FROM payments INDEXED BY payments_by_time
                 WHERE created_at_ms >= ?1 AND created_at_ms < ?2 LIMIT ?3";
            let since_ms = layout.moved_since_ms.unwrap_or(layout.from_ms);
            let values = vec![since_ms.into(), layout.from_ms.into(), LEFT_MAX.into()];
            let left: Vec<Left> = run.rows(Statement::new(sql, values)).await?;
            let homes = left.iter().filter_map(|left| {
                placement::home(&all, &left.owner, left.created_at_ms, &left.object, now_ms).shard
            });
            moves.shards.extend(homes);
            // Until then messages may still be on their way to D1.
            if now_ms < begins_at_ms || left.len() >= usize::try_from(LEFT_MAX).unwrap_or(usize::MAX) {
                moves.layouts.insert(layout.layout_id);
            }
        }
        Ok(moves)
    }

    fn may_bring(&self, place: &str) -> bool {
        ShardName::parse(place)
            .is_none_or(|shard| self.layouts.contains(&shard.layout_id) || self.shards.contains(&shard))
    }
}
