//! The audit log: what operators did, and what every request has effected.

use super::context::Desk;
use super::format;
use super::queries::{self, Where};
use super::route::{ACCOUNT, Target};
use super::view_models::{Cell, List, Row};
use payments::payment::id::PaymentId;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::Problem;
use web::reply;

pub(crate) async fn audit(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let search = desk.query("q");
    let is_effects = desk.query("of") == "effects";
    let (rows, (newer, older)) =
        if is_effects { effects(desk, &search).await? } else { acts(desk, &search).await? };
    let page = List {
        title: "Audit",
        intro: "What operators did, or what every request changed, and when.",
        search: Some(search),
        day: None,
        hint: "A subject’s id, an action, a name",
        selects: vec![desk.select("of", "Of", &[("", "operators"), ("effects", "requests")])],
        columns: if is_effects {
            &["When (UTC)", "Who", "Action", "Subject", "Facts"]
        } else {
            &["When (UTC)", "Who", "Action", "Subject", "Outcome"]
        },
        rows,
        empty_text: if is_effects { "No records match." } else { "No operator actions yet." },
        buttons: Vec::new(),
        legend: Vec::new(),
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        chrome: desk.chrome("/admin/audit").await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

async fn acts(desk: &Desk<'_>, search: &str) -> Result<(Vec<Row>, (String, String)), Problem> {
    let (env, number) = (&desk.app.env, desk.page_number());
    let rows = match search {
        "" => queries::actions(env, Where::default(), number).await,
        search => queries::actions_named(env, search, number).await,
    };
    let mut rows = rows.map_err(unreadable)?;
    let around = desk.around(&mut rows);
    let rows = rows.into_iter().map(|row| {
        let cells = vec![
            Cell::moment(row.at_ms),
            Cell::text(row.operator),
            Cell::text(row.action),
            subject_cell(&row.subject),
            Cell::text(row.outcome),
        ];
        Row { cells, buttons: Vec::new() }
    });
    Ok((rows.collect(), around))
}

async fn effects(desk: &Desk<'_>, search: &str) -> Result<(Vec<Row>, (String, String)), Problem> {
    let mut rows = queries::effects(&desk.app.model, search, desk.page_number()).await.map_err(unreadable)?;
    let around = desk.around(&mut rows);
    let rows = rows.into_iter().map(|row| {
        let subject = match subject_cell(&row.subject) {
            cell if cell.href.is_empty() => Cell::link(cell.text, format!("/admin/keys/{}/1", row.object)),
            cell => cell,
        };
        let cells = vec![
            Cell::moment(row.at_ms),
            Cell::text(format::doer(&row.actor, &row.data)),
            Cell::text(row.action),
            subject,
            Cell { class: "id", ..Cell::text(format::facts(&row.data)) },
        ];
        Row { cells, buttons: Vec::new() }
    });
    Ok((rows.collect(), around))
}

/// What something was done to, with the way there if it has a page.
fn subject_cell(subject: &str) -> Cell {
    let is_payment = PaymentId::parse(subject).is_some();
    if let Some(id) = subject.strip_prefix(ACCOUNT) {
        return Cell::link(subject, Target::Account(id.to_owned()).path());
    }
    match subject.split_once('/') {
        _ if is_payment => Cell::link(format::short(subject), format!("/admin/payments/{subject}")),
        Some((object, key_id)) if object.len() == 64 && key_id.parse::<u32>().is_ok() => {
            Cell::link(format::short(object), format!("/admin/keys/{subject}"))
        }
        _ => Cell { class: "id", ..Cell::text(format::short(subject)) },
    }
}
