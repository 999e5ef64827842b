//! The list of payments as a file for spreadsheets and programs: CSV by [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180).

use std::borrow::Cow;

use payments::timestamp;
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};

use super::action_outcome::ActionOutcome;
use super::context::Desk;
use super::lists;
use super::operator_log::{Action, logged};
use super::payment_search::{self, Part, PaymentRow, Place};
use super::tasks::csv::{in_quotes, quoted};

/// How many payments one file has at most, as its button says, too (`list.html`). The next file's address is in its header `Link`, by
/// [RFC 8288](https://www.rfc-editor.org/rfc/rfc8288).
const FILE_MAX: usize = 5_000;

const COLUMNS: [&str; 12] = [
    "payment",
    "order_id",
    "status",
    "currency",
    "amount_minor",
    "captured_minor",
    "refunded_minor",
    "account",
    "provider",
    "provider_payment",
    "failure_code",
    "created_at",
];

/// `GET /admin/payments.csv`: what the list shows for the same search and filter, the newest first, without its pages. `before` names the
/// payment before which this file begins. A file that more payments follow is named so. One that would lack some for another reason is none.
pub(crate) async fn file(desk: &Desk<'_>) -> Result<Answer, Problem> {
    let action = Action { operator: &desk.operator, what: "export", subject: "payments.csv" };
    logged(desk.app, desk.request, action, made(desk)).await
}

/// The file, and how many payments it has.
async fn made(desk: &Desk<'_>) -> Result<(Answer, ActionOutcome), Problem> {
    let search = lists::of_payments(desk);
    if let Some(wrong) = search.wrong_filter() {
        return Err(Problem::because(Kind::BadRequest, format!("{wrong} No file was made.")));
    }
    let before = match desk.query("before").as_str() {
        "" => None,
        text => Some(Place::parse(text).ok_or_else(|| {
            let detail = "`before` is not from the header Link of a file. Leave it out to begin with the newest payment.";
            Problem::because(Kind::BadRequest, detail)
        })?),
    };
    let part = Part { after: before.as_ref(), offset: 0, limit: FILE_MAX + 1 };
    let mut rows = payment_search::payments(&desk.app.model, &search, part, desk.request.now_ms)
        .await
        .map_err(unreadable)?;
    if let Some(missing) = desk.app.model.missing() {
        let is_silent = desk.app.model.is_silent();
        let next = if is_silent { ": ask again in a moment" } else { "" };
        let detail = format!("{missing} A file without it would be wrong{next}.");
        return Err(Problem::because(Kind::Unreadable, detail).retry_after_s(is_silent.then_some(1)));
    }
    let has_more = rows.len() > FILE_MAX;
    rows.truncate(FILE_MAX);
    let mut text = record(COLUMNS.map(str::to_owned));
    for row in &rows {
        text.push_str(&record(cells(row)));
    }
    let looked_to = desk.app.model.looked_to_ms().map(Place::before);
    let last = rows.last().filter(|_| has_more).map(Place::of).or(looked_to);
    let day = timestamp(desk.request.now_ms).chars().take(10).collect::<String>();
    let more = if last.is_some() { "-more-follow" } else { "" };
    let answer = Answer::new(200, "text/csv; charset=utf-8; header=present", text, "desk")
        .with("content-disposition", format!("attachment; filename=\"payments-{day}{more}.csv\""));
    let answer = match last {
        Some(last) => {
            let next = desk.address_with(lists::CSV_PATH, "before", &last.to_text());
            answer.with("link", format!("<{next}>; rel=\"next\""))
        }
        None => answer,
    };
    Ok((answer, ActionOutcome::done(format!("{} payments", rows.len()))))
}

fn cells(row: &PaymentRow) -> [String; COLUMNS.len()] {
    [
        row.id.clone(),
        row.order_id.clone().unwrap_or_default(),
        row.status.clone(),
        row.currency.clone(),
        row.amount_minor.to_string(),
        row.captured_minor.to_string(),
        row.refunded_minor.to_string(),
        row.owner.clone(),
        row.provider.clone(),
        row.provider_payment.clone().unwrap_or_default(),
        row.failure_code.clone().unwrap_or_default(),
        timestamp(row.created_at_ms),
    ]
}

fn record(cells: [String; COLUMNS.len()]) -> String {
    format!("{}\r\n", cells.each_ref().map(|cell| escaped(cell)).join(","))
}

/// A cell. What a shop has sent may begin as a formula does: an apostrophe keeps a spreadsheet from running it
/// ([OWASP](https://owasp.org/www-community/attacks/CSV_Injection)).
fn escaped(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { in_quotes(&format!("'{cell}")).into() } else { quoted(cell) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_what_it_was_and_never_a_formula() {
        for (cell, written) in [
            ("order-1", "order-1"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\r\nlines", "\"two\r\nlines\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@x", "\"'@x\""),
            ("\tx", "\"'\tx\""),
            ("1-2", "1-2"),
        ] {
            assert_eq!(escaped(cell), written);
        }
    }
}
