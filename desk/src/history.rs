//! History: the payments that have left the read model, and the files in R2 that have them. An object keeps its payment for good, so a
//! payment's page is what it was: it is found by its id, or by what the index of what has left knows of it.

use std::cmp::Reverse;

use serde::Deserialize;
use worker::{Env, Object, Result};

use super::action_outcome::ActionOutcome;
use super::context::Desk;
use super::format;
use super::operator_log::{Action, logged};
use super::queries::PAGE;
use super::view_models::{Cell, List, Row};
use crate::tasks::history::{BUCKET, batch};
use messages::job::JobPayment;
use messages::placement::{ShardName, is_period};
use messages::snapshot::Snapshot;
use once::id::ObjectId;
use payments::payment::id::{PaymentId, id_prefix, reference};
use runtime::db::{Db, Value};
use runtime::lists::Listed;
use runtime::places::{self, ReadModel};
use runtime::serve::unreadable;
use web::http::Answer;
use web::problem::{Kind, Problem};
use web::reply;
use web::route::Parameter;

/// Where the files are listed.
const PATH: &str = "/admin/history";
/// How many payments a search finds at most.
const FOUND_MAX: u32 = 50;

/// How many parts of the shards one search looks through, each as large as a list's.
const PARTS: usize = 4;

/// The payments that have left and are called so: by the provider's id, an order, a refund's id, or a reference. Of all places, or of those that
/// have payments of a day (`2026-11-24`): those of the newest periods first, until something is found. How far it has looked the list says.
pub(super) async fn found(model: &ReadModel, text: &str, day: &str) -> Result<Vec<PaymentId>> {
    let (of_list, until_ms) = (model.looked_to_ms(), model.until_ms());
    let (mut all, mut looked_to_ms): (Vec<PaymentId>, _) = (Vec::new(), None);
    for _ in 0..PARTS {
        let places;
        (places, looked_to_ms) = part(model, day).await?;
        for (_, found) in model.each(places, async |db: Db| found_in(&db, text).await).await? {
            all.extend(found.into_iter().filter(|id| !all.contains(id)).collect::<Vec<_>>());
        }
        match looked_to_ms.filter(|_| all.is_empty()) {
            Some(at_ms) => model.look_on(at_ms),
            None => break,
        }
    }
    model.look_on(until_ms);
    // What one of the two has not looked through is looked through next.
    model.looked_to(of_list.max(looked_to_ms));
    all.truncate(usize::try_from(FOUND_MAX).unwrap_or(usize::MAX));
    Ok(all)
}

/// The next places from which payments of a month or a day may have left, or of any time, where it is none.
async fn part(model: &ReadModel, time: &str) -> Result<(Vec<Db>, Option<u64>)> {
    let of = ShardName { period: time.to_owned(), layout_id: 0, slot: 0 };
    model.history(of.begins_ms(), of.ends_ms()).await
}

async fn found_in(db: &Db, text: &str) -> Result<Vec<PaymentId>> {
    #[derive(Deserialize)]
    struct Found {
        object: String,
    }
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

/// How a payment has left from a place.
#[derive(Clone, Debug, Deserialize)]
struct Left {
    batch: Option<u64>,
    version: Option<u64>,
    changed_at_ms: Option<u64>,
    is_listed: u8,
}

/// What the page of a payment says of its having left; `None` if it never has. It may have left from D1, and later from the shard to which it was
/// moved: the newer one counts.
pub(super) async fn of_payment(
    desk: &Desk<'_>,
    object: ObjectId,
    id: &str,
    payment: &Snapshot,
) -> Result<Option<Cell>> {
    let (env, model) = (&desk.app.env, &desk.app.model);
    let sql = "SELECT EXISTS (SELECT 1 FROM payments WHERE payment_id = ?2) AS is_listed, h.batch, h.version, b.changed_at_ms
         FROM (SELECT 1) LEFT JOIN history_payments h ON h.object = unhex(?1) AND h.batch > 0
            LEFT JOIN history_batches b ON b.batch = h.batch";
    let home = places::home(env, JobPayment::of_snapshot(payment).as_ref(), &object.to_hex()).await?;
    let mut places = vec![model.d1()?];
    places.extend(home.db.name().is_some().then_some(home.db));
    let values = || vec![object.to_hex().into(), id.into()];
    let found = model.each(places, async |db: Db| db.first::<Left>(sql, values()).await).await?;
    let is_listed = found.iter().any(|(_, left)| left.as_ref().is_some_and(|left| left.is_listed == 1));
    let left = found.iter().filter_map(|(db, left)| {
        let left = left.as_ref()?;
        Some((left.version?, left.batch?, left.changed_at_ms?, db.name()))
    });
    Ok(left.max_by_key(|(version, ..)| *version).map(|(version, batch, changed_at_ms, shard)| {
        let what = match is_listed {
            false => "from history: the lists no longer show it",
            true => "changed since, so the lists show it again",
        };
        let when = format::from_now(changed_at_ms, desk.request.now_ms);
        let of_shard = shard.map(|shard| format!("&shard={shard}")).unwrap_or_default();
        Cell::link(batch_name(shard, batch), format!("{PATH}?batch={batch}{of_shard}"))
            .with(format!("{what}; left {when}, at version {version}"))
    }))
}

/// What a batch is called: each place counts its own.
fn batch_name(shard: Option<&str>, batch: u64) -> String {
    shard.map_or_else(|| format!("batch {batch}"), |shard| format!("batch {batch} of {shard}"))
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

impl FileRow {
    /// The shard from which its payments have left: its name says it.
    fn shard(&self) -> Option<&str> {
        let (shard, _) = self.name.rsplit('/').next()?.rsplit_once('-')?;
        Some(shard)
    }
}

impl Listed for FileRow {
    type Order = (Reverse<u64>, Option<String>, Reverse<u64>, Reverse<String>);

    /// A place writes one batch after the other, so this is also its order by batches.
    fn order(&self) -> Self::Order {
        let shard = self.shard().map(str::to_owned);
        (Reverse(self.changed_at_ms), shard, Reverse(self.batch), Reverse(self.kind.clone()))
    }

    fn id(&self) -> String {
        self.name.clone()
    }

    fn version(&self) -> u64 {
        0
    }
}

/// `GET /admin/history`
pub(crate) async fn list(desk: &Desk<'_>) -> std::result::Result<Answer, Problem> {
    let batch: Option<u64> = desk.query("batch").parse().ok();
    let month = desk.query("q");
    let is_wrong = !month.is_empty() && !is_period(&month);
    let files = match batch {
        Some(batch) => of_batch(&desk.app.model, &desk.query("shard"), batch).await,
        None if is_wrong => Ok(Vec::new()),
        None => newest(&desk.app.model, &month, desk.page_number()).await,
    };
    let mut files = files.map_err(unreadable)?;
    let (newer, older) = desk.around(&mut files);
    let rows = files.into_iter().map(|file| {
        let day =
            |at_ms: Option<u64>| at_ms.map(|at_ms| payments::timestamp(at_ms).chars().take(10).collect());
        let [first, last]: [String; 2] =
            [day(file.first_at_ms), day(file.last_at_ms)].map(Option::unwrap_or_default);
        let place = file.shard().map(|shard| format!("/{shard}")).unwrap_or_default();
        let named = batch_name(file.shard(), file.batch);
        let cells = vec![
            Cell::link(file.name, format!("{PATH}{place}/{}/{}", file.batch, file.kind)),
            Cell::text(file.kind).with(named),
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
        search: Some(month),
        day: None,
        hint: "Month or day of the payments, as 2025-10",
        selects: Vec::new(),
        columns: &["File", "Kind", "Rows", "Payments of (UTC)", "Bytes", "SHA-256", "Written (UTC)"],
        rows: rows.collect(),
        empty_text: if is_wrong {
            "That is no month and no day. Enter one as 2025-10, or as 2025-10-31."
        } else {
            "No files. They are written where a bucket is bound as HISTORY, once payments are older than HISTORY_AFTER_DAYS."
        },
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

const FILES: &str = "SELECT f.batch, kind, name, rows, bytes, sha256, first_at_ms, last_at_ms, changed_at_ms
     FROM history_files f CROSS JOIN history_batches b ON b.batch = f.batch";

/// The files of a batch of this shard; of D1, where it is empty.
async fn of_batch(model: &ReadModel, shard: &str, batch: u64) -> Result<Vec<FileRow>> {
    let db = if shard.is_empty() { Some(model.d1()?) } else { model.shard(shard).await? };
    let sql = format!("{FILES} WHERE f.batch = ?1 ORDER BY kind");
    match db {
        Some(db) => db.rows(&sql, vec![batch.into()]).await,
        None => Ok(Vec::new()),
    }
}

/// The newest files of all places, or of the payments of a month, or of those of the shards of a day: of the newest periods first. How far it has looked
/// the list says.
async fn newest(model: &ReadModel, time: &str, page: usize) -> Result<Vec<FileRow>> {
    let (of_month, values): (_, Vec<Value>) = match time.get(..7).unwrap_or(time) {
        "" => ("", Vec::new()),
        month => ("WHERE b.month = ?1 ", vec![month.into()]),
    };
    let sql = |limit, offset| {
        format!("{FILES} {of_month}ORDER BY f.batch DESC, kind DESC LIMIT {limit} OFFSET {offset}")
    };
    let (places, looked_to_ms) = part(model, time).await?;
    let limit = PAGE + 1;
    let rows = model.page_in(places, sql, values, (limit, PAGE * page)).await?;
    model.looked_to(looked_to_ms.filter(|_| rows.len() < limit));
    Ok(rows)
}

/// `GET /admin/history/{batch}/{kind}`: the file itself, of payments that have left from D1.
pub(crate) async fn file(
    desk: &Desk<'_>,
    batch: &Parameter<'_, u32>,
    kind: &str,
) -> std::result::Result<Answer, Problem> {
    given_out(desk, desk.app.model.d1().map_err(unreadable)?, batch, kind).await
}

/// `GET /admin/history/{shard}/{batch}/{kind}`: the same of a shard.
pub(crate) async fn file_of_shard(
    desk: &Desk<'_>,
    shard: &str,
    batch: &Parameter<'_, u32>,
    kind: &str,
) -> std::result::Result<Answer, Problem> {
    let db = desk.app.model.shard(shard).await.map_err(unreadable)?;
    given_out(desk, db.ok_or_else(|| Problem::new(Kind::NotFound))?, batch, kind).await
}

async fn given_out(
    desk: &Desk<'_>,
    db: Db,
    batch: &Parameter<'_, u32>,
    kind: &str,
) -> std::result::Result<Answer, Problem> {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let env = &desk.app.env;
    let sql = "SELECT name FROM history_files WHERE batch = ?1 AND kind = ?2";
    let found: Option<Name> =
        db.first(sql, vec![batch.read()?.into(), kind.into()]).await.map_err(unreadable)?;
    let name = found.ok_or_else(|| Problem::new(Kind::NotFound))?.name;
    let action = Action { operator: &desk.operator, what: "download", subject: &name };
    logged(desk.app, desk.request, action, of_bucket(env, &name)).await
}

/// The file out of the bucket, and how long it is.
async fn of_bucket(env: &Env, name: &str) -> std::result::Result<(Answer, ActionOutcome), Problem> {
    let Ok(bucket) = env.bucket(BUCKET) else {
        return Err(Problem::of_setting(Kind::Misconfigured, "There is no bucket: bind one as HISTORY."));
    };
    let object = bucket.get(name).execute().await.map_err(unreadable)?;
    let Some(body) = object.as_ref().and_then(Object::body) else {
        return Err(Problem::because(
            Kind::NotFound,
            "The file is listed, and is not in the bucket any more.",
        ));
    };
    let bytes = body.bytes().await.map_err(unreadable)?;
    let (file_name, outcome) =
        (name.trim_start_matches("history/").replace('/', "-"), format!("{} bytes", bytes.len()));
    let answer = Answer::new(200, "application/vnd.apache.parquet", bytes, "desk")
        .with("content-disposition", format!("attachment; filename=\"{file_name}\""));
    Ok((answer, ActionOutcome::done(outcome)))
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
