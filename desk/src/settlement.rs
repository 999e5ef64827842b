//! The settlement files: each day's, and the parts of a large one.

use super::context::Desk;
use super::format;
use super::settlement_queries::{self as queries, ClosingDay, SettlementFile, SettlementPart};
use super::view_models::{Cell, List, Row};
use crate::tasks::settlement_file::Totals;
use crate::tasks::settlement_parts::manifest_name;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;

/// Where the list is.
const PATH: &str = "/admin/settlement";
/// How many days are shown, and how many parts of one.
const DAYS: u32 = 60;
const PARTS: u32 = 500;

/// `GET /admin/settlement`
pub(crate) async fn files(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let env = &desk.app.env;
    let files = queries::settlement_files(env, DAYS).await.map_err(unreadable)?;
    let closing = queries::closing_day(env).await.map_err(unreadable)?;
    let mut rows: Vec<Row> = closing.iter().map(closing_row).collect();
    rows.extend(files.iter().map(|file| file_row(desk, file)));
    let page = List {
        title: "Settlement",
        intro: "One file a day for the bank, with each movement of money. A day is closed two hours after its end, in UTC. A file that is written never changes; a large day’s, and each where payments are in shards, comes in parts, and is complete with its manifest.",
        columns: &["Day", "State", "Lines", "Totals", "Object", "Written (UTC)"],
        rows,
        empty_text: "No files yet. The first is written two hours after the first day has ended, if a bucket is bound.",
        ..empty(desk).await?
    };
    Ok(reply::html(200, &page, "desk"))
}

/// `GET /admin/settlement/{day}`
pub(crate) async fn parts(desk: &Desk<'_>, day: &str) -> Result<Answer, Problem> {
    let env = &desk.app.env;
    let file = queries::settlement_file(env, day).await.map_err(unreadable)?;
    let file =
        file.filter(|file| file.parts > 0 || file.places > 0).ok_or_else(|| Problem::new(Kind::NotFound))?;
    let parts = queries::settlement_parts(env, &file.name, PARTS).await.map_err(unreadable)?;
    let mut rows = vec![file_row(desk, &file)];
    rows.extend(parts.iter().map(|part| part_row(desk, part)));
    let page = List {
        title: "Settlement of a day in parts",
        intro: "Each part is a whole file, with its own totals and trailer. The manifest names all of them, with the sums of the day: whoever sees it has the whole day.",
        columns: &["Part", "State", "Lines", "Totals", "SHA-256", "Written (UTC)"],
        rows,
        ..empty(desk).await?
    };
    Ok(reply::html(200, &page, "desk"))
}

async fn empty(desk: &Desk<'_>) -> Result<List, Problem> {
    Ok(List {
        title: "",
        intro: "",
        search: None,
        day: None,
        hint: "",
        selects: Vec::new(),
        columns: &[],
        rows: Vec::new(),
        empty_text: "",
        buttons: Vec::new(),
        legend: Vec::new(),
        download: String::new(),
        upload: None,
        newer: String::new(),
        older: String::new(),
        site: desk.site(),
        chrome: desk.chrome(PATH).await?,
    })
}

fn closing_row(closing: &ClosingDay) -> Row {
    let through = format!("through {} UTC", format::moment(closing.through_ms));
    let cells = vec![
        Cell { class: "id", ..Cell::text(&*closing.day) },
        Cell::chip("closing", "plain").with(through),
        Cell::number(""),
        Cell::text(""),
        Cell::text(""),
        Cell::text(""),
    ];
    Row { cells, buttons: Vec::new() }
}

fn file_row(desk: &Desk<'_>, file: &SettlementFile) -> Row {
    let in_parts = file.parts > 0 || file.places > 0;
    let parts = || format!("{} parts", format::count(file.parts));
    let state = match (file.written_at_ms, in_parts) {
        (Some(_), false) => Cell::chip("written", "good"),
        (Some(_), true) => Cell::chip("written", "good").with(parts()),
        (None, true) if file.missing > 0 => {
            let waits_for = file.waits_for.as_deref().unwrap_or_default();
            let said = format!("{} of {} places are left, such as {waits_for}", file.missing, file.places);
            Cell::chip("waits", "warn").with(said)
        }
        (None, false) => Cell::chip("closed", "plain"),
        (None, true) => Cell::chip("being written", "warn").with(format!("{} so far", parts())),
    };
    let object = if in_parts { manifest_name(&file.name) } else { file.name.clone() };
    let day = if in_parts {
        Cell::link(&*file.day, format!("{PATH}/{}", file.day))
    } else {
        Cell { class: "id", ..Cell::text(&*file.day) }
    };
    let cells = vec![
        day,
        state,
        Cell::number(file.lines.map(format::count).unwrap_or_default()),
        Cell::text(file.totals.as_deref().map(totals).unwrap_or_default()),
        match (&file.sha256, file.written_at_ms) {
            (Some(sha256), Some(_)) => Cell { class: "id", ..Cell::text(object) }.with(format::short(sha256)),
            _ => Cell::text("").with(format!("closed {} UTC", format::moment(file.closed_at_ms))),
        },
        moment(desk, file.written_at_ms),
    ];
    Row { cells, buttons: Vec::new() }
}

fn part_row(desk: &Desk<'_>, part: &SettlementPart) -> Row {
    let cells = vec![
        Cell { class: "id", ..Cell::text(&*part.name) },
        Cell::chip("written", "good"),
        Cell::number(format::count(part.lines)),
        Cell::text(totals(&part.totals)),
        Cell { class: "id", ..Cell::text(format::short(&part.sha256)) },
        moment(desk, Some(part.written_at_ms)),
    ];
    Row { cells, buttons: Vec::new() }
}

fn moment(desk: &Desk<'_>, at_ms: Option<u64>) -> Cell {
    let shown = |at_ms| Cell::moment(at_ms).with(format::from_now(at_ms, desk.request.now_ms));
    at_ms.map_or_else(|| Cell::text(""), shown)
}

/// Such as `capture $35.00, refund €7.00`.
fn totals(json: &str) -> String {
    let totals: Totals = serde_json::from_str(json).unwrap_or_default();
    let each = totals.iter().flat_map(|(kind, sums)| sums.iter().map(move |sum| (kind, sum)));
    let each = each.map(|(kind, (currency, minor))| {
        format!("{} {}", kind.replace('_', " "), format::money(*minor, currency))
    });
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_shown_as_money() {
        let json = r#"{"capture":{"eur":700,"usd":3500},"capture_failed":{"usd":100}}"#;
        assert_eq!(totals(json), "capture €7.00, capture $35.00, capture failed $1.00");
        assert_eq!(totals("{}"), "");
    }
}
