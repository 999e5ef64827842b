//! Writes the file of a closed day to R2: one object, or parts and then their manifest. An object that is there is never written over.

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use worker::{Date, Error, Object, Result};

use super::settlement_file::{File, Line, TooLarge, Writer};
use super::settlement_parts::{Manifest, PartRow, manifest_name, part_name};
use super::settlement_run::Run;
use crate::tasks::bucket::only_new;
use runtime::db::Statement;

/// How many lines are read at once.
const LINES_MAX: usize = 5_000;

/// A closed day whose file is not whole yet.
#[derive(Debug, Deserialize)]
pub(super) struct Unwritten {
    name: String,
    day: String,
    /// As it was set when the day was closed in slices.
    part_lines: Option<u64>,
}

/// What was written.
pub(super) enum Next {
    /// All of it is there: by this object one knows.
    All(String),
    /// A part; others may follow.
    Part(String),
}

/// The oldest of them.
pub(super) async fn unwritten(run: &mut Run) -> Result<Option<Unwritten>> {
    let sql = "SELECT name, day, (SELECT part_lines FROM settlement_closings WHERE settlement_closings.name = settlement_files.name) AS part_lines
         FROM settlement_files WHERE written_at_ms IS NULL ORDER BY day LIMIT 1";
    run.first(Statement::new(sql, Vec::new())).await
}

/// Writes the next part of a file, or the file if it has but one. What a run that broke off has written is known again by its bytes.
pub(super) async fn write_next(run: &mut Run, file: &Unwritten) -> Result<Next> {
    #[derive(Deserialize)]
    struct Last {
        part: u32,
        last_line_id: String,
    }
    let sql = "SELECT part, last_line_id FROM settlement_parts WHERE file = ?1 ORDER BY part DESC LIMIT 1";
    let last: Option<Last> = run.first(Statement::new(sql, vec![file.name.as_str().into()])).await?;
    let part = last.as_ref().map_or(1, |last| last.part.saturating_add(1));
    let after = last.map(|last| last.last_line_id).unwrap_or_default();
    let read = read_part(run, file, after).await?;
    if part == 1 && !read.has_more {
        return write_whole(run, file, read.file).await.map(Next::All);
    }
    if read.file.lines > 0 {
        let name = write_part(run, file, part, &read).await?;
        if read.has_more {
            return Ok(Next::Part(name));
        }
    }
    write_manifest(run, file).await.map(Next::All)
}

/// The lines of a part.
struct Read {
    file: File,
    last_line_id: String,
    has_more: bool,
}

async fn read_part(run: &mut Run, file: &Unwritten, mut after: String) -> Result<Read> {
    let most = usize::try_from(file.part_lines.unwrap_or(run.part_lines)).unwrap_or(usize::MAX);
    let mut writer = Writer::default();
    loop {
        let left = most.saturating_sub(writer.lines());
        // One more says whether another part follows.
        let limit = LINES_MAX.min(left.saturating_add(1));
        let sql = "SELECT line_id, kind, provider, provider_reference, amount_minor, currency, at_ms FROM settlement_lines
             WHERE file = ?1 AND line_id > ?2 ORDER BY line_id LIMIT ?3";
        let values = vec![
            file.name.as_str().into(),
            after.as_str().into(),
            u32::try_from(limit).unwrap_or(u32::MAX).into(),
        ];
        let page: Vec<Line> = run.rows(Statement::new(sql, values)).await?;
        let (is_last, has_more) = (page.len() < limit, page.len() > left);
        for line in page.into_iter().take(left) {
            writer.push(&line).map_err(too_large)?;
            after = line.line_id;
        }
        if is_last || has_more {
            run.wrote(u64::try_from(writer.lines()).unwrap_or(u64::MAX));
            return Ok(Read { file: writer.finish(), last_line_id: after, has_more });
        }
    }
}

fn too_large(error: TooLarge) -> Error {
    Error::RustError(error.to_string())
}

/// A day whose lines fit into one object.
async fn write_whole(run: &mut Run, file: &Unwritten, whole: File) -> Result<String> {
    let File { text, lines, totals, sha256 } = whole;
    put_once(run, &file.name, text).await?;
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    written(run, &file.name, lines.into(), serde_json::to_string(&totals)?, sha256).await?;
    Ok(file.name.clone())
}

async fn write_part(run: &mut Run, file: &Unwritten, part: u32, read: &Read) -> Result<String> {
    let name = part_name(&file.name, part);
    let sha256 = put_once(run, &name, read.file.text.clone()).await?;
    let sql =
        "INSERT INTO settlement_parts (file, part, name, last_line_id, lines, totals, sha256, written_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
    let values = vec![
        file.name.as_str().into(),
        part.into(),
        name.as_str().into(),
        read.last_line_id.as_str().into(),
        u32::try_from(read.file.lines).unwrap_or(u32::MAX).into(),
        serde_json::to_string(&read.file.totals)?.into(),
        sha256.into(),
        Date::now().as_millis().into(),
    ];
    run.run(sql, values).await?;
    Ok(name)
}

/// All parts are there.
async fn write_manifest(run: &mut Run, file: &Unwritten) -> Result<String> {
    let sql = "SELECT name, lines, totals, sha256 FROM settlement_parts WHERE file = ?1 ORDER BY part";
    let rows: Vec<PartRow> = run.rows(Statement::new(sql, vec![file.name.as_str().into()])).await?;
    let parts = rows.into_iter().map(PartRow::read).collect::<serde_json::Result<_>>()?;
    let manifest = Manifest::of(&file.day, parts).map_err(too_large)?;
    let name = manifest_name(&file.name);
    let sha256 = put_once(run, &name, manifest.text()?).await?;
    written(run, &file.name, manifest.lines, serde_json::to_string(&manifest.totals)?, sha256).await?;
    Ok(name)
}

async fn written(run: &mut Run, name: &str, lines: u64, totals: String, sha256: String) -> Result<()> {
    let sql = "UPDATE settlement_files SET lines = ?2, totals = ?3, sha256 = ?4, written_at_ms = ?5
         WHERE name = ?1 AND written_at_ms IS NULL";
    let values =
        vec![name.into(), lines.into(), totals.into(), sha256.into(), Date::now().as_millis().into()];
    run.run(sql, values).await
}

/// Writes an object. If it exists already, it must be the same. Gives the SHA-256 of its bytes, in hexadecimal.
async fn put_once(run: &Run, name: &str, text: String) -> Result<String> {
    let own = Sha256::digest(text.as_bytes());
    let made = run.bucket.put(name, text).only_if(only_new()).execute().await?;
    if made.is_none() && stored_sha256(run, name).await? != Some(own) {
        return Err(Error::RustError(format!("{name} is there already, and is another one")));
    }
    Ok(HEXLOWER.encode(&own))
}

async fn stored_sha256(run: &Run, name: &str) -> Result<Option<sha2::digest::Output<Sha256>>> {
    match run.bucket.get(name).execute().await?.as_ref().and_then(Object::body) {
        Some(body) => Ok(Some(Sha256::digest(body.bytes().await?))),
        None => Ok(None),
    }
}
