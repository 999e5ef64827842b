//! One place's part of the settlement: closes a day there, and writes what it has.

use serde::Deserialize;
use serde_json::{Value, json};
use worker::Result;

use super::settlement_closing::{self, Closing, Probed};
use super::settlement_file::Day;
use super::settlement_limits::Width;
use super::settlement_run::{Run, Stores};
use super::settlement_write::{self, Next};
use payments::timestamp;
use runtime::db::Statement;

pub(super) fn set(result: &mut Value, name: &str, value: Value) {
    if let Some(result) = result.as_object_mut() {
        result.insert(name.to_owned(), value);
    }
}

pub(super) fn unset(result: &mut Value, name: &str) {
    if let Some(result) = result.as_object_mut() {
        result.shift_remove(name);
    }
}

/// Closes the day of a shard, and writes its parts, as far as this run goes. Gives whether that was all.
pub(super) async fn settle_place(
    run: &mut Run<'_, impl Stores>,
    name: &str,
    day: &Day,
    result: &mut Value,
) -> Result<bool> {
    let mut file = settlement_write::closed(run, name).await?;
    if file.is_none() {
        run.batch([settlement_closing::open_as(name, day, run.part_lines)]).await?;
        close(run, name, result).await?;
        file = settlement_write::closed(run, name).await?;
    }
    let Some(file) = file else { return Ok(false) };
    while run.may_go_on() {
        if matches!(settlement_write::write_next(run, &file).await?, Next::Place) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Closes a day, as far as this run goes.
pub(super) async fn close(run: &mut Run<'_, impl Stores>, name: &str, result: &mut Value) -> Result<()> {
    let mut width = Width::default();
    let mut known: Option<Closing> = None;
    while run.may_go_on() {
        // Another run may make slices, too: then it is read again.
        let closing = match known.take() {
            Some(closing) => closing,
            None => match run.first(settlement_closing::find(name)).await? {
                Some(closing) => closing,
                None => break,
            },
        };
        let began_at_ms = run.now_ms();
        if closing.is_through() {
            run.batch(closing.late(width.rows(), began_at_ms)).await?;
            if is_closed(run, name).await? {
                unset(result, "closing");
                return Ok(());
            }
        } else {
            let probed = run.first(closing.probe(width.rows())).await?;
            let (next, slice) = closing.slice(probed.unwrap_or(Probed { until_ms: None }));
            let is_ours = run.batch(slice).await?;
            known = is_ours.then_some(next);
        }
        width = width.next(run.now_ms().saturating_sub(began_at_ms));
        let through = known.as_ref().map_or(closing.through_ms, |next| next.through_ms);
        let mut progress = json!({ "day": closing.day, "through": timestamp(through) });
        if !run.is_in_d1() {
            set(&mut progress, "place", run.place().into());
        }
        set(result, "closing", progress);
    }
    Ok(())
}

async fn is_closed(run: &mut Run<'_, impl Stores>, name: &str) -> Result<bool> {
    #[derive(Deserialize)]
    struct Is {}
    let sql = "SELECT 1 AS is_closed FROM settlement_files WHERE name = ?1";
    Ok(run.first::<Is>(Statement::new(sql, vec![name.into()])).await?.is_some())
}
