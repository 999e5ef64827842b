//! What the desk shows of the settlement.

use serde::Deserialize;
use worker::{Env, Result};

use crate::tasks::settlement_file::{PROGRESS, Progress};
use runtime::db::Db;

/// A day's settlement file.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SettlementFile {
    pub(super) name: String,
    pub(super) day: String,
    pub(super) closed_at_ms: u64,
    pub(super) lines: Option<u64>,
    /// JSON: kind → currency → how much, in minor units.
    pub(super) totals: Option<String>,
    /// Of the lines of one file, or of the manifest of one in parts.
    pub(super) sha256: Option<String>,
    pub(super) written_at_ms: Option<u64>,
    /// How many parts are written; 0 for a file without parts.
    pub(super) parts: u64,
    /// Of how many places the day consists, where the read model is in shards.
    pub(super) places: u64,
    /// How many of them have not written their part.
    pub(super) missing: u64,
    /// One of these, and what is in its way.
    pub(super) waits_for: Option<String>,
}

const SETTLEMENT_FILE: &str = "SELECT name, day, closed_at_ms, lines, totals, sha256, written_at_ms,
        (SELECT count(*) FROM settlement_parts WHERE settlement_parts.file = settlement_files.name)
            + coalesce((SELECT sum(json_array_length(parts)) FROM settlement_places WHERE file = settlement_files.name AND place != ''), 0) AS parts,
        (SELECT count(*) FROM settlement_places WHERE file = settlement_files.name) AS places,
        (SELECT count(*) FROM settlement_places WHERE file = settlement_files.name AND written_at_ms IS NULL) AS missing,
        (SELECT CASE place WHEN '' THEN 'D1' ELSE place END || coalesce(': ' || error, '') FROM settlement_places
            WHERE file = settlement_files.name AND written_at_ms IS NULL ORDER BY failed_at_ms IS NULL, place LIMIT 1) AS waits_for
     FROM settlement_files";

/// The newest settlement files.
pub(super) async fn settlement_files(env: &Env, number: u32) -> Result<Vec<SettlementFile>> {
    let sql = format!("{SETTLEMENT_FILE} ORDER BY day DESC LIMIT ?1");
    Db::of(env)?.rows(&sql, vec![number.into()]).await
}

/// The settlement file of a day.
pub(super) async fn settlement_file(env: &Env, day: &str) -> Result<Option<SettlementFile>> {
    Db::of(env)?.first(&format!("{SETTLEMENT_FILE} WHERE day = ?1"), vec![day.into()]).await
}

/// A part of a settlement file.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SettlementPart {
    pub(super) name: String,
    pub(super) lines: u64,
    pub(super) totals: String,
    pub(super) sha256: String,
    pub(super) written_at_ms: u64,
}

/// The parts of a file that are written, the first ones.
pub(super) async fn settlement_parts(env: &Env, file: &str, number: u32) -> Result<Vec<SettlementPart>> {
    let sql = "SELECT name, lines, totals, sha256, written_at_ms FROM settlement_parts WHERE file = ?1
         UNION ALL SELECT part.value ->> 'name', part.value ->> 'lines', part.value -> 'totals', part.value ->> 'sha256', written_at_ms
            FROM settlement_places CROSS JOIN json_each(parts) AS part WHERE file = ?1 AND place != ''
         ORDER BY name LIMIT ?2";
    Db::of(env)?.rows(sql, vec![file.into(), number.into()]).await
}

/// The day that is being closed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ClosingDay {
    pub(super) day: String,
    pub(super) through_ms: u64,
}

/// The newest day whose closing has begun and is not over.
pub(super) async fn closing_day(env: &Env) -> Result<Option<ClosingDay>> {
    let sql = "SELECT day, through_ms FROM settlement_closings
         WHERE NOT EXISTS (SELECT 1 FROM settlement_files WHERE settlement_files.name = settlement_closings.name)
         ORDER BY day DESC LIMIT 1";
    Db::of(env)?.first(sql, Vec::new()).await
}

/// For how long the oldest day that is due has had no whole settlement file, in ms.
pub(super) async fn settlement_behind_ms(env: &Env, now_ms: u64) -> Result<u64> {
    let progress: Option<Progress> = Db::of(env)?.first(PROGRESS, Vec::new()).await?;
    Ok(progress.unwrap_or_default().behind_ms(now_ms))
}
