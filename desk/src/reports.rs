//! Adyen's reports: those that came, and the form that sends one.

use super::action_outcome::{ActionOutcome, Status};
use super::context::Desk;
use super::format;
use super::multipart::{self, Part};
use super::queries;
use super::status::Entity;
use super::view_models::{Cell, List, Row};
use crate::operator::{form_key, is_form_key};
use crate::operator_log::{self, Begun};
use crate::tasks::adyen_import;
use messages::settlement::{self, Counts, Report, Uploaded};
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;

/// Where the form is, and where it is sent.
const PATH: &str = "/admin/reports";
/// How many are shown.
const SHOWN: u32 = 50;

/// `GET /admin/reports`
pub(crate) async fn page(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let reports = queries::reports(&desk.app.env, SHOWN).await.map_err(unreadable)?;
    let key = form_key(desk.app, &desk.operator, PATH, desk.request.now_ms)?;
    let page = List {
        title: "Reports",
        intro: "Adyen’s settlement details reports, by payout batch. Each line is compared with the payments of its merchant account, the deployment’s or an account’s own, and what differs is a break. The same report again changes nothing.",
        search: None,
        day: None,
        hint: "",
        selects: Vec::new(),
        columns: &["Report", "State", "Lines", "Not counted", "Came (UTC)"],
        rows: reports.iter().map(|report| row(desk, report)).collect(),
        empty_text: "No reports yet. Adyen makes one for each payout, in the Customer Area under Reports.",
        buttons: Vec::new(),
        legend: Entity::Report.legend(),
        download: String::new(),
        upload: Some(key),
        newer: String::new(),
        older: String::new(),
        site: desk.site(),
        chrome: desk.chrome(PATH).await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

fn row(desk: &Desk<'_>, report: &Report) -> Row {
    let Counts { types, unknown, own, of_others, unreadable } = report.counted();
    let listed = |counts: std::collections::BTreeMap<String, u64>| {
        counts.iter().map(|(kind, number)| format!("{number} {kind}")).collect::<Vec<_>>().join(", ")
    };
    let note = match report.state.as_str() {
        "done" => String::new(),
        "refused" => report.error.clone().unwrap_or_default(),
        _ => format!("{} of {} bytes", report.bytes_done, report.bytes),
    };
    let of_own = match own.is_empty() {
        true => String::new(),
        false => format!("of accounts’ own merchant accounts: {}", listed(own)),
    };
    let mut left_out = listed(unknown);
    for (number, what) in
        [(of_others, "of merchant accounts that are not known here"), (unreadable, "that cannot be read")]
    {
        if number > 0 {
            let comma = if left_out.is_empty() { "" } else { ", " };
            left_out.push_str(&format!("{comma}{number} {what}"));
        }
    }
    let id = format::short(&report.report_id);
    let of = match &report.merchant_account {
        Some(merchant) => format!("{id}, of {merchant}"),
        None => id,
    };
    let cells = vec![
        Cell { class: "id", ..Cell::text(&*report.name) }.with(of),
        Entity::Report.chip(&report.state).with(note),
        Cell::text(listed(types)).with(of_own),
        Cell::text(left_out),
        Cell::moment(report.received_at_ms)
            .with(format::from_now(report.received_at_ms, desk.request.now_ms)),
    ];
    Row { cells, buttons: Vec::new() }
}

/// How the import of a report has ended so far.
pub(super) fn ended(report: &Report) -> ActionOutcome {
    let status = match (&report.error, report.state.as_str()) {
        (Some(_), _) => Status::Failed,
        (None, "done") => Status::Done,
        (None, _) => Status::Begun,
    };
    ActionOutcome { status, text: report.said() }
}

/// `POST /admin/reports`
pub(crate) async fn upload(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let request = desk.request;
    let content_type = request.header("content-type").unwrap_or_default();
    let parts = multipart::parts(content_type, &request.body)
        .ok_or_else(|| Problem::because(Kind::BadRequest, "This is not the form of this page."))?;
    let part = |name: &str| parts.iter().find(|part| part.name == name && !part.body.is_empty());
    let text = |part: &Part<'_>| String::from_utf8_lossy(part.body).into_owned();
    let key = part("form").map(text).unwrap_or_default();
    if !is_form_key(desk.app, &desk.operator, PATH, &key, request.now_ms) {
        return Err(operator_log::stranger());
    }
    let Some(file) = part("file").or_else(|| part("text")) else {
        return Err(Problem::because(
            Kind::InvalidParameters,
            "Choose a file, or paste its text. Nothing was done.",
        ));
    };
    let name = settlement::name(file.file_name.as_deref().unwrap_or_default());
    let what = settlement::action(file.body);
    let action = operator_log::Action { operator: &desk.operator, what: &what, subject: &name };
    let env = &desk.app.env;
    let Begun { id, is_new, is_unfinished } =
        operator_log::begin_once(env, &key, &action, request.now_ms).await?;
    // The same report again changes nothing: what was broken off is done again.
    if is_new || is_unfinished {
        let uploaded = adyen_import::upload(env, &name, file.body.to_vec()).await;
        let outcome = match uploaded {
            Ok(Uploaded::Kept(report)) => ended(&report),
            Ok(Uploaded::NoReport(error)) => ActionOutcome::refused(error),
            Ok(Uploaded::Off(why)) => ActionOutcome::refused(why),
            Err(error) => ActionOutcome::failed(error),
        };
        operator_log::end(env, id, &action, &outcome).await.map_err(unreadable)?;
    }
    Ok(Answer::see_other(&format!("{PATH}?done={id}"), "acted"))
}
