//! History: the payments that have left the read model, and the files in R2 that have them. An object keeps its payment for good, so a
//! payment's page is what it was: it is found by its id, or by what the index of what has left knows of it.

use serde::Deserialize;
use worker::{Env, Object, Result};

use super::context::Desk;
use super::format;
use super::queries::PAGE;
use super::view_models::{Cell, List, Row};
use crate::tasks::history::{BUCKET, batch};
use once::id::ObjectId;
use payments::payment::id::{PaymentId, id_prefix, reference};
use runtime::db::{Db, Value};
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

/// Where the files are listed.
const PATH: &str = "/admin/history";
/// How many payments a search finds at most.
const FOUND_MAX: u32 = 50;

/// The payments that have left and are called so: by the provider's id, an order, a refund's id, or a reference.
pub(super) async fn found(env: &Env, text: &str) -> Result<Vec<PaymentId>> {
    #[derive(Deserialize)]
    struct Found {
        object: String,
    }
    let db = Db::of(env)?;
    let by_name = "SELECT hex(p.object) AS object FROM history_names n CROSS JOIN history_payments p
            ON p.object >= n.place AND p.object <= unhex(hex(n.place) || ?3) WHERE n.name = ?1 LIMIT ?2";
    let mut found: Vec<Found> =
        db.rows(by_name, vec![batch::name(text).into(), FOUND_MAX.into(), "f".repeat(48).into()]).await?;
    if let Some((from, until)) = id_prefix(text).and_then(|prefix| objects_between(&prefix)) {
        let by_reference = "SELECT hex(object) AS object FROM history_payments
             WHERE object >= unhex(?1) AND object <= unhex(?2) LIMIT ?3";
        found
            .extend(db.rows::<Found>(by_reference, vec![from.into(), until.into(), FOUND_MAX.into()]).await?);
    }
    let objects = found.iter().filter_map(|found| ObjectId::from_hex(&found.object));
    Ok(objects.map(PaymentId::in_object).collect())
}

/// A payment that has left, in the list of payments: two accounts may have called an order alike.
pub(super) fn row(id: PaymentId) -> Row {
    let link = Cell {
        reference: reference(id),
        ..Cell::link(format::short(&id.to_string()), format!("/admin/payments/{id}"))
    };
    let empty = std::iter::repeat_n(Cell::default(), 4);
    Row { cells: [link, Cell::text("from history")].into_iter().chain(empty).collect(), buttons: Vec::new() }
}

/// Between which objects the ids of payments lie that begin so, as hexadecimal digits.
fn objects_between(id_prefix: &str) -> Option<(String, String)> {
    let end = |fill: &str| {
        let id = format!("{id_prefix}{}", fill.repeat(47_usize.checked_sub(id_prefix.len())?));
        PaymentId::parse(&id).map(|id| id.object().to_hex())
    };
    // The last character of an id has four bits of it: `8` is the greatest.
    let last = format!("{id_prefix}{}8", "_".repeat(46_usize.checked_sub(id_prefix.len())?));
    Some((end("A")?, PaymentId::parse(&last)?.object().to_hex()))
}

/// How a payment has left.
#[derive(Clone, Debug, Deserialize)]
struct Left {
    batch: u64,
    version: u64,
    changed_at_ms: u64,
    is_listed: u8,
}

/// What the page of a payment says of its having left; `None` if it never has.
pub(super) async fn of_payment(desk: &Desk<'_>, object: ObjectId, id: &str) -> Result<Option<Cell>> {
    let sql = "SELECT h.batch, h.version, b.changed_at_ms,
            EXISTS (SELECT 1 FROM payments WHERE payment_id = ?2) AS is_listed
         FROM history_payments h JOIN history_batches b ON b.batch = h.batch WHERE h.object = unhex(?1)";
    let values = vec![object.to_hex().into(), id.into()];
    let left: Option<Left> = Db::of(&desk.app.env)?.first(sql, values).await?;
    Ok(left.map(|left| {
        let what = match left.is_listed {
            0 => "from history: the lists no longer show it",
            _ => "changed since, so the lists show it again",
        };
        let when = format::from_now(left.changed_at_ms, desk.request.now_ms);
        Cell::link(format!("batch {}", left.batch), format!("{PATH}?batch={}", left.batch))
            .with(format!("{what}; left {when}, at version {}", left.version))
    }))
}

/// A file.
#[derive(Debug, Deserialize)]
struct FileRow {
    batch: u64,
    kind: String,
    name: String,
    rows: u64,
    bytes: u64,
    sha256: String,
    first_at_ms: Option<u64>,
    last_at_ms: Option<u64>,
    changed_at_ms: u64,
}

/// `GET /admin/history`
pub(crate) async fn list(desk: &Desk<'_>) -> std::result::Result<Answer, Problem> {
    let batch: Option<u64> = desk.query("batch").parse().ok();
    let mut files = files(&desk.app.env, batch, desk.page_number()).await.map_err(unreadable)?;
    let (newer, older) = desk.around(&mut files);
    let rows = files.into_iter().map(|file| {
        let day =
            |at_ms: Option<u64>| at_ms.map(|at_ms| payments::timestamp(at_ms).chars().take(10).collect());
        let [first, last]: [String; 2] =
            [day(file.first_at_ms), day(file.last_at_ms)].map(Option::unwrap_or_default);
        let cells = vec![
            Cell::link(file.name, format!("{PATH}/{}/{}", file.batch, file.kind)),
            Cell::text(file.kind).with(format!("batch {}", file.batch)),
            Cell::number(format::count(file.rows)),
            Cell::text(first).with(format!("to {last}")),
            Cell::number(format::count(file.bytes)),
            Cell { class: "id", ..Cell::text(file.sha256) },
            Cell::moment(file.changed_at_ms),
        ];
        Row { cells, buttons: Vec::new() }
    });
    let page = List {
        title: "History",
        intro: "Payments that are over and old are in these files, and no longer in the lists. Their pages are found as before.",
        search: None,
        day: None,
        hint: "",
        selects: Vec::new(),
        columns: &["File", "Kind", "Rows", "Payments of (UTC)", "Bytes", "SHA-256", "Written (UTC)"],
        rows: rows.collect(),
        empty_text: "No files. They are written where a bucket is bound as HISTORY, once payments are older than HISTORY_AFTER_DAYS.",
        buttons: Vec::new(),
        legend: Vec::new(),
        download: String::new(),
        upload: None,
        newer,
        older,
        site: desk.site(),
        chrome: desk.chrome(PATH).await?,
    };
    Ok(reply::html(200, &page, "desk"))
}

async fn files(env: &Env, batch: Option<u64>, page: usize) -> Result<Vec<FileRow>> {
    let count = |number: usize| Value::Number(u64::try_from(number).unwrap_or(u64::MAX));
    let (most, left_out) = (count(PAGE + 1), count(PAGE * page));
    let db = Db::of(env)?;
    match batch {
        Some(batch) => {
            let sql = "SELECT f.batch, kind, name, rows, bytes, sha256, first_at_ms, last_at_ms, changed_at_ms
                 FROM history_files f CROSS JOIN history_batches b ON b.batch = f.batch WHERE f.batch = ?1 ORDER BY kind";
            db.rows(sql, vec![batch.into()]).await
        }
        None => {
            let sql =
                "SELECT f.batch, kind, name, rows, bytes, sha256, first_at_ms, last_at_ms, changed_at_ms
                 FROM history_files f CROSS JOIN history_batches b ON b.batch = f.batch
                 ORDER BY f.batch DESC, kind DESC LIMIT ?1 OFFSET ?2";
            db.rows(sql, vec![most, left_out]).await
        }
    }
}

/// `GET /admin/history/{batch}/{kind}`: the file itself.
pub(crate) async fn file(
    desk: &Desk<'_>,
    batch: &Parameter<'_, u32>,
    kind: &str,
) -> std::result::Result<Answer, Problem> {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let env = &desk.app.env;
    let sql = "SELECT name FROM history_files WHERE batch = ?1 AND kind = ?2";
    let db = Db::of(env).map_err(unreadable)?;
    let found: Option<Name> =
        db.first(sql, vec![batch.read()?.into(), kind.into()]).await.map_err(unreadable)?;
    let name = found.ok_or_else(|| Problem::new(Kind::NotFound))?.name;
    let Ok(bucket) = env.bucket(BUCKET) else {
        return Err(Problem::of_setting(Kind::Misconfigured, "There is no bucket: bind one as HISTORY."));
    };
    let object = bucket.get(&name).execute().await.map_err(unreadable)?;
    let Some(body) = object.as_ref().and_then(Object::body) else {
        return Err(Problem::because(
            Kind::NotFound,
            "The file is listed, and is not in the bucket any more.",
        ));
    };
    let bytes = body.bytes().await.map_err(unreadable)?;
    let file_name = name.trim_start_matches("history/").replace('/', "-");
    Ok(Answer::new(200, "application/vnd.apache.parquet", bytes, "desk")
        .with("content-disposition", format!("attachment; filename=\"{file_name}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER_PERMISSIVE;

    #[test]
    fn a_reference_spans_the_objects_of_its_payments() {
        for seed in 0_u8..=255 {
            let object = ObjectId::from_bytes(
                [seed ^ 0x5a, seed, 255 - seed, seed.rotate_left(3), seed, 9]
                    .iter()
                    .copied()
                    .cycle()
                    .take(32)
                    .collect::<Vec<_>>()
                    .try_into()
                    .unwrap(),
            );
            let prefix = id_prefix(&reference(PaymentId::in_object(object))).unwrap();
            let (from, until) = objects_between(&prefix).unwrap();
            assert!(from <= object.to_hex() && object.to_hex() <= until, "{from} {object:?} {until}");
            assert_eq!(from[..9], until[..9], "36 bits are common");
            assert!(HEXLOWER_PERMISSIVE.decode(until.as_bytes()).is_ok());
        }
    }
}
