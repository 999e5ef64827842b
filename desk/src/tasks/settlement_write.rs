//! Writes the file of a closed day to R2: one object, or parts and then their manifest. An object that is there is never written over.
//!
//! Where the day consists of several places, each writes parts, and the manifest follows once all of them are noted in D1.

use serde::Deserialize;
use worker::{Error, Result};

use super::settlement_file::{File, Line, TooLarge, Writer, file_of};
use super::settlement_parts::{Manifest, Part, PartRow, manifest_name, part_name};
use super::settlement_run::{D1, Run, Stores};
use runtime::db::Statement;

/// How many lines are read at once.
const LINES_MAX: usize = 5_000;
/// Of how many places the parts are read at once.
const PLACES_AT_ONCE: usize = 500;

/// A closed day whose file is not whole yet.
#[derive(Debug, Deserialize)]
pub(super) struct Unwritten {
    name: String,
    day: String,
    /// As it was set when the day was closed in slices.
    part_lines: Option<u64>,
    /// Not 0: it is one place's, and its parts are of the manifest of all.
    is_joined: u32,
}

/// What was written.
pub(super) enum Next {
    /// All of it is there: by this object one knows.
    All(String),
    /// A part; others may follow.
    Part(String),
    /// All that this place has of the day: the manifest waits for the others.
    Place,
}

/// The oldest of D1's.
pub(super) async fn unwritten(run: &mut Run<'_, impl Stores>) -> Result<Option<Unwritten>> {
    let sql = "SELECT name, day, (SELECT part_lines FROM settlement_closings WHERE settlement_closings.name = settlement_files.name) AS part_lines,
            EXISTS (SELECT 1 FROM settlement_places WHERE file = name) AS is_joined
         FROM settlement_files WHERE written_at_ms IS NULL
            AND NOT EXISTS (SELECT 1 FROM settlement_places WHERE file = name AND place = '' AND written_at_ms IS NOT NULL)
         ORDER BY day LIMIT 1";
    run.first(Statement::new(sql, Vec::new())).await
}

/// A shard's file, once it is closed.
pub(super) async fn closed(run: &mut Run<'_, impl Stores>, name: &str) -> Result<Option<Unwritten>> {
    let sql = "SELECT name, day, (SELECT part_lines FROM settlement_closings WHERE settlement_closings.name = settlement_files.name) AS part_lines,
            1 AS is_joined FROM settlement_files WHERE name = ?1";
    run.first(Statement::new(sql, vec![name.into()])).await
}

/// Writes the next part of a file, or the file if it has but one. What a run that broke off has written is known again by its bytes.
pub(super) async fn write_next(run: &mut Run<'_, impl Stores>, file: &Unwritten) -> Result<Next> {
    #[derive(Deserialize)]
    struct Last {
        part: u32,
        last_line_id: String,
    }
    let sql = "SELECT part, last_line_id FROM settlement_parts WHERE file = ?1 ORDER BY part DESC LIMIT 1";
    let last: Option<Last> = run.first(Statement::new(sql, vec![file.name.as_str().into()])).await?;
    let part = last.as_ref().map_or(1, |last| last.part.saturating_add(1));
    let after = last.map(|last| last.last_line_id).unwrap_or_default();
    let place = run.place().to_owned();
    let read = read_part(run, file, after.clone(), &place).await?;
    if part == 1 && !read.has_more && file.is_joined == 0 {
        return write_whole(run, file, read.file).await.map(Next::All);
    }
    if read.file.lines > 0 {
        let name = write_part(run, file, (part, after), &read).await?;
        if read.has_more {
            return Ok(Next::Part(name));
        }
    }
    if file.is_joined != 0 {
        return place_is_written(run, file).await.map(|()| Next::Place);
    }
    write_manifest(run, file).await.map(Next::All)
}

/// The lines of a part.
struct Read {
    file: File,
    last_line_id: String,
    has_more: bool,
}

/// The lines after one, with the place whose name each has behind its id.
async fn read_part(
    run: &mut Run<'_, impl Stores>,
    file: &Unwritten,
    mut after: String,
    place: &str,
) -> Result<Read> {
    let most = usize::try_from(file.part_lines.unwrap_or(run.part_lines)).unwrap_or(usize::MAX);
    let mut writer = Writer::of(place);
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
async fn write_whole(run: &mut Run<'_, impl Stores>, file: &Unwritten, whole: File) -> Result<String> {
    let File { text, lines, totals, sha256 } = whole;
    run.put_once(&file.name, text).await?;
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    written(run, &file.name, lines.into(), serde_json::to_string(&totals)?, sha256).await?;
    Ok(file.name.clone())
}

async fn write_part(
    run: &mut Run<'_, impl Stores>,
    file: &Unwritten,
    (part, after): (u32, String),
    read: &Read,
) -> Result<String> {
    let name = part_name(&file.name, part);
    let sha256 = match run.put_new(&name, read.file.text.clone()).await? {
        Some(sha256) => sha256,
        // The release before named no shard behind its lines: what it has begun stays as it is.
        None => {
            let unnamed = read_part(run, file, after, D1).await?;
            run.put_once(&name, unnamed.file.text).await?
        }
    };
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
        run.now_ms().into(),
    ];
    run.run(sql, values).await?;
    Ok(name)
}

async fn parts(run: &mut Run<'_, impl Stores>, file: &Unwritten) -> Result<Vec<Part>> {
    let sql = "SELECT name, lines, totals, sha256 FROM settlement_parts WHERE file = ?1 ORDER BY part";
    let rows: Vec<PartRow> = run.rows(Statement::new(sql, vec![file.name.as_str().into()])).await?;
    Ok(rows.into_iter().map(PartRow::read).collect::<serde_json::Result<_>>()?)
}

/// All parts are there.
async fn write_manifest(run: &mut Run<'_, impl Stores>, file: &Unwritten) -> Result<String> {
    let parts = parts(run, file).await?;
    put_manifest(run, &file.name, &file.day, parts).await
}

async fn put_manifest(
    run: &mut Run<'_, impl Stores>,
    file: &str,
    day: &str,
    parts: Vec<Part>,
) -> Result<String> {
    let manifest = Manifest::of(day, parts).map_err(too_large)?;
    let name = manifest_name(file);
    let sha256 = run.put_once(&name, manifest.text()?).await?;
    written(run, file, manifest.lines, serde_json::to_string(&manifest.totals)?, sha256).await?;
    Ok(name)
}

/// All parts of this place are there. First it is noted where they are, then in D1: what a run has left in between the next one does.
async fn place_is_written(run: &mut Run<'_, impl Stores>, file: &Unwritten) -> Result<()> {
    let parts = parts(run, file).await?;
    let noted = serde_json::to_string(&parts)?;
    let now_ms = run.now_ms();
    if !run.is_in_d1() {
        let all = Manifest::of(&file.day, parts).map_err(too_large)?;
        let sql = "UPDATE settlement_files SET lines = ?2, totals = ?3, written_at_ms = ?4
             WHERE name = ?1 AND written_at_ms IS NULL";
        let totals = serde_json::to_string(&all.totals)?;
        let values = vec![file.name.as_str().into(), all.lines.into(), totals.into(), now_ms.into()];
        run.run(sql, values).await?;
    }
    let sql = "UPDATE settlement_places SET parts = ?3, written_at_ms = ?4, failed_at_ms = NULL, error = NULL
         WHERE file = ?1 AND place = ?2 AND written_at_ms IS NULL";
    let place = run.place().to_owned();
    let values = vec![file_of(&file.day).into(), place.into(), noted.into(), now_ms.into()];
    run.run_in_d1(sql, values).await
}

/// What a manifest of several places needs.
#[derive(Deserialize)]
struct Joined {
    name: String,
    day: String,
    places: u64,
    missing: u64,
}

/// Writes the manifest of the oldest day that has none, if it consists of several places and all of them have written theirs. Whoever does so, after
/// whatever was broken off, writes the same bytes.
pub(super) async fn join(run: &mut Run<'_, impl Stores>) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Row {
        parts: String,
    }
    run.enter(D1, u64::MAX);
    let sql = "SELECT name, day, (SELECT count(*) FROM settlement_places WHERE file = name) AS places,
            (SELECT count(*) FROM settlement_places WHERE file = name AND written_at_ms IS NULL) AS missing
         FROM settlement_files WHERE written_at_ms IS NULL ORDER BY day LIMIT 1";
    let Some(day) = run.first::<Joined>(Statement::new(sql, Vec::new())).await? else { return Ok(None) };
    if day.places == 0 || day.missing > 0 {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for from in (0..day.places).step_by(PLACES_AT_ONCE) {
        let sql = "SELECT parts FROM settlement_places WHERE file = ?1 ORDER BY place LIMIT ?2 OFFSET ?3";
        let at_once = u64::try_from(PLACES_AT_ONCE).unwrap_or(u64::MAX);
        let values = vec![day.name.as_str().into(), at_once.into(), from.into()];
        for Row { parts: of_place } in run.rows::<Row>(Statement::new(sql, values)).await? {
            parts.extend(serde_json::from_str::<Vec<Part>>(&of_place)?);
        }
    }
    put_manifest(run, &day.name, &day.day, parts).await.map(Some)
}

async fn written(
    run: &mut Run<'_, impl Stores>,
    name: &str,
    lines: u64,
    totals: String,
    sha256: String,
) -> Result<()> {
    let sql = "UPDATE settlement_files SET lines = ?2, totals = ?3, sha256 = ?4, written_at_ms = ?5
         WHERE name = ?1 AND written_at_ms IS NULL";
    let values = vec![name.into(), lines.into(), totals.into(), sha256.into(), run.now_ms().into()];
    run.run(sql, values).await
}
