//! Closes the days that are due and writes their settlement files to R2, a bounded piece of that in each run.
//!
//! What a file holds is fixed by the closing ([`settlement_closing`]) before it is written ([`settlement_write`]): whoever writes it, however
//! often, writes the same bytes. Days go one after the other: the next one is closed once all before it are written.

use serde::Deserialize;
use serde_json::{Value, json};
use worker::{Date, Env, Error, Result};

use super::settlement_closing::{self, Closing, Probed};
use super::settlement_file::{self, Day, PROGRESS, Progress};
use super::settlement_pace::Width;
use super::settlement_run::Run;
use super::settlement_write::{self, Unwritten};
use crate::config::Config;
use payments::timestamp;
use runtime::db::{Db, Statement};

/// Closes and writes what is due. The result names the files that were finished, and says how far the others are.
pub(super) async fn write_due_files(env: &Env) -> Result<Value> {
    let Ok(bucket) = env.bucket("SETTLEMENT") else {
        return Ok(json!({ "off": "there is no binding SETTLEMENT" }));
    };
    let config = Config::of(env).map_err(Error::RustError)?;
    let mut run = Run::begin(Db::of(env)?, bucket, config.settlement_part_lines);
    let mut written = Vec::new();
    let mut result = json!({});
    loop {
        let progress = progress(&mut run).await?;
        if !run.may_go_on() {
            // The next run goes on.
            set(&mut result, "behind_ms", progress.behind_ms(run.began_at_ms).into());
            break;
        }
        if progress.unwritten.is_some() {
            let Some(file) = settlement_write::unwritten(&mut run).await? else { continue };
            written.extend(write(&mut run, &file, &mut result).await?);
        } else if let Some(day) =
            settlement_file::days_due(progress.newest.as_deref(), run.began_at_ms).first()
        {
            close(&mut run, day, &mut result).await?;
        } else {
            break;
        }
    }
    set(&mut result, "written", json!(written));
    Ok(result)
}

fn set(result: &mut Value, name: &str, value: Value) {
    if let Some(result) = result.as_object_mut() {
        result.insert(name.to_owned(), value);
    }
}

fn unset(result: &mut Value, name: &str) {
    if let Some(result) = result.as_object_mut() {
        result.shift_remove(name);
    }
}

async fn progress(run: &mut Run) -> Result<Progress> {
    Ok(run.first(Statement::new(PROGRESS, Vec::new())).await?.unwrap_or_default())
}

/// Closes a day, as far as this run goes.
async fn close(run: &mut Run, day: &Day, result: &mut Value) -> Result<()> {
    let name = day.file_name();
    run.batch([settlement_closing::open(day, run.part_lines)]).await?;
    let mut width = Width::default();
    let mut known: Option<Closing> = None;
    while run.may_go_on() {
        // Another run may make slices, too: then it is read again.
        let closing = match known.take() {
            Some(closing) => closing,
            None => match run.first(settlement_closing::find(&name)).await? {
                Some(closing) => closing,
                None => break,
            },
        };
        let began_at_ms = Date::now().as_millis();
        if closing.is_through() {
            run.batch(closing.late(width.rows(), began_at_ms)).await?;
            if is_closed(run, &name).await? {
                unset(result, "closing");
                return Ok(());
            }
        } else {
            let probed = run.first(closing.probe(width.rows())).await?;
            let (next, slice) = closing.slice(probed.unwrap_or(Probed { until_ms: None }));
            let is_ours = run.batch(slice).await?;
            known = is_ours.then_some(next);
        }
        width = width.next(Date::now().as_millis().saturating_sub(began_at_ms));
        let through = known.as_ref().map_or(closing.through_ms, |next| next.through_ms);
        set(result, "closing", json!({ "day": closing.day, "through": timestamp(through) }));
    }
    Ok(())
}

async fn is_closed(run: &mut Run, name: &str) -> Result<bool> {
    #[derive(Deserialize)]
    struct Is {}
    let sql = "SELECT 1 AS is_closed FROM settlement_files WHERE name = ?1";
    Ok(run.first::<Is>(Statement::new(sql, vec![name.into()])).await?.is_some())
}

/// Writes a file, as far as this run goes. Gives its name if that was all of it.
async fn write(run: &mut Run, file: &Unwritten, result: &mut Value) -> Result<Option<String>> {
    while run.may_go_on() {
        match settlement_write::write_next(run, file).await? {
            settlement_write::Next::All(name) => {
                unset(result, "part");
                return Ok(Some(name));
            }
            settlement_write::Next::Part(name) => set(result, "part", name.into()),
        }
    }
    Ok(None)
}
