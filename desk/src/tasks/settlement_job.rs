//! Closes the days that are due and writes their settlement files to R2, a bounded piece of that in each run.
//!
//! What a file holds is fixed by the closing ([`settlement_closing`]) before it is written ([`settlement_write`]): whoever writes it, however
//! often, writes the same bytes. Days go one after the other: the next one is closed once all before it are written.
//!
//! Where payments are in shards each place does that by itself, in runs of its own where tasks have objects ([`settlement_shards`]), and a manifest joins what all places have of a day. The
//! manifests follow the days, too: one that waits for a place holds up no part of any other.

use serde_json::{Value, json};
use worker::{Env, Error, Result};

use super::settlement_closing;
use super::settlement_file::{self, PROGRESS, Progress};
use super::settlement_place::{close, set, unset};
use super::settlement_run::{Bound, D1, Run, Stores};
use super::settlement_shards;
use super::settlement_write::{self, Next, Unwritten};
use crate::config::Config;
use messages::placement::ShardName;
use runtime::db::{Db, Statement};

/// Closes and writes what is due. The result names the files that were finished, and says how far the others are.
pub(super) async fn write_due_files(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    let config = Config::of(env).map_err(Error::RustError)?;
    run(&Bound { env, d1: Db::of(env)?, bucket }, config.settlement_part_lines).await
}

/// The same for one place, which has the run for itself: D1 without a name. D1's also joins what all places have written.
pub(super) async fn write_part(env: &Env, place: Option<&ShardName>) -> Result<Option<Value>> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else { return Ok(None) };
    let config = Config::of(env).map_err(Error::RustError)?;
    let place = place.map(ShardName::to_string).unwrap_or_default();
    run_in(&Bound { env, d1: Db::of(env)?, bucket }, config.settlement_part_lines, &place).await.map(Some)
}

/// One run for all places.
pub(super) async fn run(stores: &impl Stores, part_lines: u64) -> Result<Value> {
    let mut run = Run::begin(stores, part_lines);
    let mut written = Vec::new();
    let mut result = json!({});
    // What is wrong in D1 holds up no shard.
    let of_d1 = of_d1(&mut run, &mut written, &mut result).await;
    settlement_shards::go_on(&mut run, &mut result).await?;
    ends(run, of_d1, written, result).await
}

/// One run of a place's own.
pub(super) async fn run_in(stores: &impl Stores, part_lines: u64, place: &str) -> Result<Value> {
    let mut run = Run::begin(stores, part_lines);
    let mut result = json!({});
    if place != D1 {
        settlement_shards::go_on_in(&mut run, place, &mut result).await?;
        if run.lines() > 0 {
            set(&mut result, "lines", run.lines().into());
        }
        return Ok(result);
    }
    let mut written = Vec::new();
    let of_d1 = of_d1(&mut run, &mut written, &mut result).await;
    ends(run, of_d1, written, result).await
}

/// Joins what all places have written, and says how far behind the oldest day is.
async fn ends(
    mut run: Run<'_, impl Stores>,
    of_d1: Result<()>,
    mut written: Vec<String>,
    mut result: Value,
) -> Result<Value> {
    while run.may_go_on() {
        let Some(manifest) = settlement_write::join(&mut run).await? else { break };
        written.push(manifest);
    }
    of_d1?;
    let behind_ms = progress(&mut run).await?.behind_ms(run.began_at_ms);
    if behind_ms > 0 {
        // The next run goes on.
        set(&mut result, "behind_ms", behind_ms.into());
    }
    set(&mut result, "written", json!(written));
    Ok(result)
}

/// What D1 has: where it is the only place, the files.
async fn of_d1(run: &mut Run<'_, impl Stores>, written: &mut Vec<String>, result: &mut Value) -> Result<()> {
    run.enter(D1, u64::MAX);
    while run.may_go_on() {
        let progress = progress(run).await?;
        let unwritten = match progress.unwritten {
            Some(_) => settlement_write::unwritten(run).await?,
            None => None,
        };
        if let Some(file) = unwritten {
            written.extend(write(run, &file, result).await?);
            continue;
        }
        // Where no day is closed yet the database may be a new one beside an old bucket.
        let stored = match progress.newest {
            Some(_) => None,
            None => settlement_file::newest_stored(run.names().await?.iter().map(String::as_str)),
        };
        let newest = progress.newest.as_deref().or(stored.as_deref());
        let due = settlement_file::days_due(newest, run.began_at_ms);
        let Some(day) = due.first() else { break };
        let open = match stored {
            Some(_) => settlement_closing::open_behind(day, run.part_lines),
            None => settlement_closing::open(day, run.part_lines),
        };
        run.batch([settlement_closing::places(day), open]).await?;
        close(run, &day.file_name(), result).await?;
    }
    Ok(())
}

async fn progress(run: &mut Run<'_, impl Stores>) -> Result<Progress> {
    Ok(run.first(Statement::new(PROGRESS, Vec::new())).await?.unwrap_or_default())
}

/// Writes a file of D1, as far as this run goes. Gives its name if that was all of it.
async fn write(
    run: &mut Run<'_, impl Stores>,
    file: &Unwritten,
    result: &mut Value,
) -> Result<Option<String>> {
    while run.may_go_on() {
        match settlement_write::write_next(run, file).await? {
            Next::All(name) => {
                unset(result, "part");
                return Ok(Some(name));
            }
            Next::Place => {
                unset(result, "part");
                return Ok(None);
            }
            Next::Part(name) => set(result, "part", name.into()),
        }
    }
    Ok(None)
}
