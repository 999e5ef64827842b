//! How a batch leaves, step by step. Whatever breaks off, and however many runs there are at once, each row is in exactly one file:
//!
//! 1. **Claim**, in one transaction: the batch and which payments it has, at which version. Only one batch is written at a time.
//! 2. **Write** its files. Their bytes follow from the rows alone, a name is written once, and what is there is read back and compared. Whoever
//!    comes by later, or at the same time, makes the same.
//! 3. **Leave**, in one transaction: if all that was read is still so, the list of files and what the payments are found by is written, and the
//!    rows go. The batch is written, or it is not: there is no state in which a row is in both, or in neither.
//!
//! Where a payment has changed between 1 and 3, or a file holds something else, the batch is void: its files are deleted, for a day, since a
//! run that was delayed may still write one, and its payments leave later with another number.
//!
//! Each place of the read model does so by itself: what left from it, and what finds it there, stands in it. While payments of D1 are moved to
//! shards:
//!
//! - From D1 none of them leaves any more. That a move was begun is looked at in 3, in the transaction; the mover begins minutes later.
//! - A shard asks D1 of what has left from there before (`KNOWN`), and remembers it (`REMEMBER`): no row is in a file twice. D1's answer does
//!   not change any more, since nothing of it leaves there.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use worker::{Error, Result};

use super::batch::{Candidate, Chosen, File, KINDS, Named, Read, choose};
use super::statements as sql;
use runtime::db::Value;

/// How many payments one look goes through.
const LOOK_MAX: u32 = 3_000;
/// How long the files of a void batch are deleted again, in ms: much longer than a run lasts.
pub(super) const VOID_MS: u64 = 86_400_000;

/// The read model, as far as it is needed here.
pub(super) trait Tables {
    async fn rows<T: serde::de::DeserializeOwned>(&self, sql: &str, values: Vec<Value>) -> Result<Vec<T>>;
    /// All of them, or none. Gives how many rows each has changed.
    async fn batch(&self, statements: Vec<(&str, Vec<Value>)>) -> Result<Vec<usize>>;
}

/// The bucket.
pub(super) trait Files {
    /// Writes it where nothing is.
    async fn put_new(&self, name: &str, body: Vec<u8>) -> Result<()>;
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Deletes it, if it was written then or later, in ms since the epoch.
    async fn delete_since(&self, name: &str, since_ms: u64) -> Result<()>;
}

/// A place from which payments leave.
#[derive(Clone, Copy)]
pub(super) struct Place<'a, T> {
    pub(super) tables: &'a T,
    /// `None` for D1.
    pub(super) shard: Option<OfShard<'a, T>>,
}

/// What a shard has beside its tables.
#[derive(Clone, Copy)]
pub(super) struct OfShard<'a, T> {
    pub(super) name: &'a str,
    pub(super) d1: &'a T,
    /// Its payments that were made before, in ms since the epoch, were made in D1.
    pub(super) from_ms: u64,
}

impl<'a, T> Place<'a, T> {
    /// `None` for D1.
    pub(super) fn name(&self) -> Option<&'a str> {
        self.shard.as_ref().map(|shard| shard.name)
    }

    fn files_of<'b>(&self, batch: &'b Batch) -> Named<'b>
    where
        'a: 'b,
    {
        Named { shard: self.name(), month: &batch.month, batch: batch.batch }
    }
}

/// Until when something must have happened, in ms since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) made_before_ms: u64,
    pub(super) unchanged_since_ms: u64,
    pub(super) now_ms: u64,
}

/// What a step has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) left: usize,
    pub(super) files: usize,
    pub(super) void: usize,
    pub(super) incomplete: usize,
    /// There is nothing more to do for now.
    pub(super) is_through: bool,
    /// And nothing was found to look at.
    pub(super) is_empty: bool,
}

impl Done {
    /// Adds what another step has done.
    pub(super) fn add(&mut self, other: &Self) {
        self.left += other.left;
        self.files += other.files;
        self.void += other.void;
        self.incomplete += other.incomplete;
    }
}

#[derive(Debug, Deserialize)]
struct Batch {
    batch: u64,
    state: String,
    month: String,
    began_at_ms: u64,
    changed_at_ms: u64,
}

/// Goes on with the batch that is being written, or begins one.
pub(super) async fn step<T: Tables>(
    place: &Place<'_, T>,
    files: &impl Files,
    bounds: Bounds,
) -> Result<Done> {
    let unwritten: Vec<Batch> = place.tables.rows(sql::UNWRITTEN, vec![]).await?;
    for void in unwritten.iter().filter(|batch| batch.state == "void") {
        if void.changed_at_ms.saturating_add(VOID_MS) > bounds.now_ms {
            delete(files, place, void).await?;
        }
    }
    match unwritten.into_iter().find(|batch| batch.state == "writing") {
        Some(batch) => write(place, files, &batch, bounds).await,
        None => claim(place, bounds).await,
    }
}

/// Looks through the next payments, and claims those of them that may leave.
async fn claim<T: Tables>(place: &Place<'_, T>, bounds: Bounds) -> Result<Done> {
    #[derive(Default, Deserialize)]
    struct Pass {
        after_ms: u64,
        after_row: u64,
    }
    #[derive(Deserialize)]
    struct Next {
        batch: u64,
    }
    let tables = place.tables;
    let pass = tables.rows::<Pass>(sql::PASS, vec![]).await?.into_iter().next().unwrap_or_default();
    let values = vec![
        pass.after_ms.into(),
        pass.after_row.into(),
        LOOK_MAX.into(),
        bounds.made_before_ms.into(),
        bounds.unchanged_since_ms.into(),
        bounds.now_ms.into(),
    ];
    let mut looked_at: Vec<Candidate> = tables.rows(sql::LOOK_THROUGH, values).await?;
    if let Some(shard) = &place.shard {
        if remember(tables, shard, &looked_at).await? {
            // The next look knows it.
            return Ok(Done::default());
        }
        keep_with_breaks(shard, &mut looked_at).await?;
    }
    let is_last = looked_at.len() < usize::try_from(LOOK_MAX).unwrap_or(usize::MAX);
    let Chosen { leaving, month, last, incomplete } = choose(&looked_at, is_last);
    let (after_ms, after_row) = last.map_or((0, 0), |last| (last.created_at_ms, last.place));
    let mut statements = vec![(sql::GO_ON, vec![after_ms.into(), after_row.into()])];
    if !leaving.is_empty() {
        let now_s = bounds.now_ms / 1_000;
        let next = tables.rows::<Next>(sql::NEXT_BATCH, vec![now_s.into()]).await?.into_iter().next();
        let batch = next.map_or(now_s, |next| next.batch);
        let claimed: Vec<Json> = leaving
            .iter()
            .map(|it| json!({ "payment_id": it.payment_id, "object": it.object, "version": it.version }))
            .collect();
        statements.push((sql::BEGIN, vec![batch.into(), month.into(), bounds.now_ms.into()]));
        statements.push((sql::CLAIM, vec![batch.into(), serde_json::to_string(&claimed)?.into()]));
    }
    let is_through = leaving.is_empty() && last.is_none();
    let is_empty = looked_at.is_empty() && pass.after_ms == 0;
    tables.batch(statements).await?;
    Ok(Done { incomplete, is_through, is_empty, ..Done::default() })
}

/// Brings what D1 knows of payments that were made there. Gives whether there was anything.
async fn remember<T: Tables>(tables: &T, shard: &OfShard<'_, T>, looked_at: &[Candidate]) -> Result<bool> {
    #[derive(Deserialize)]
    struct Known {
        known: String,
    }
    let may_have_left = |it: &&Candidate| it.is_known == 0 && it.created_at_ms < shard.from_ms;
    let objects: Vec<&str> = looked_at.iter().filter(may_have_left).map(|it| it.object.as_str()).collect();
    if objects.is_empty() {
        return Ok(false);
    }
    let known: Vec<Known> = shard.d1.rows(sql::KNOWN, vec![serde_json::to_string(&objects)?.into()]).await?;
    if known.is_empty() {
        return Ok(false);
    }
    let known: Vec<String> = known.into_iter().map(|row| row.known).collect();
    let known = format!("[{}]", known.join(","));
    let statements =
        vec![(sql::REMEMBER_BATCHES, vec![known.as_str().into()]), (sql::REMEMBER, vec![known.into()])];
    tables.batch(statements).await?;
    Ok(true)
}

/// Those of a shard of which D1 has an open break stay.
async fn keep_with_breaks<T: Tables>(shard: &OfShard<'_, T>, looked_at: &mut [Candidate]) -> Result<()> {
    #[derive(Deserialize)]
    struct Open {
        id: String,
    }
    let ids: Vec<&str> = looked_at
        .iter()
        .filter(|it| it.may_leave == 1)
        .flat_map(|it| [Some(&it.payment_id), Some(&it.object), it.provider_payment.as_ref()])
        .flatten()
        .map(String::as_str)
        .collect();
    if ids.is_empty() {
        return Ok(());
    }
    let open: Vec<Open> = shard.d1.rows(sql::OPEN_BREAKS, vec![serde_json::to_string(&ids)?.into()]).await?;
    let open: BTreeSet<String> = open.into_iter().map(|open| open.id).collect();
    for it in looked_at {
        let ids = [Some(&it.payment_id), Some(&it.object), it.provider_payment.as_ref()];
        it.may_leave &= u8::from(!ids.into_iter().flatten().any(|id| open.contains(id)));
    }
    Ok(())
}

/// Writes a claimed batch's files, and lets its rows leave.
async fn write<T: Tables>(
    place: &Place<'_, T>,
    files: &impl Files,
    batch: &Batch,
    bounds: Bounds,
) -> Result<Done> {
    let tables = place.tables;
    let of_batch = || vec![batch.batch.into()];
    let read = Read {
        payments: tables.rows(sql::PAYMENTS, of_batch()).await?,
        refunds: tables.rows(sql::REFUNDS, of_batch()).await?,
        keys: tables.rows(sql::KEYS, of_batch()).await?,
        audit: tables.rows(sql::AUDIT, of_batch()).await?,
    };
    if !read.is_as_claimed() {
        return void(place, files, batch, bounds).await;
    }
    let count = |number: usize| Value::Number(u64::try_from(number).unwrap_or(u64::MAX));
    let all_as_read = vec![
        batch.batch.into(),
        count(read.refunds.len()),
        count(read.keys.len()),
        count(read.audit.len()),
        count(read.jobs_length()),
        read.summary().to_string().into(),
        bounds.now_ms.into(),
    ];
    let left = read.payments.len();
    let names = serde_json::to_string(&read.names())?;
    let made = read.files(place.files_of(batch));
    for file in &made {
        if !is_kept(files, file).await? {
            return void(place, files, batch, bounds).await;
        }
    }
    let with = |text: String| vec![batch.batch.into(), text.into()];
    let statements = vec![
        (sql::WRITTEN, all_as_read),
        (sql::LIST_FILES, with(serde_json::to_string(&made)?)),
        (sql::KEEP_NAMES, with(names)),
        (sql::KEEP_PAYMENTS, of_batch()),
        (sql::DROP_AUDIT, of_batch()),
        (sql::DROP_KEYS, of_batch()),
        (sql::DROP_REFUNDS, of_batch()),
        (sql::DROP_PAYMENTS, of_batch()),
        (sql::DROP_CLAIMS, of_batch()),
    ];
    let changed = tables.batch(statements).await?;
    if changed.first().is_some_and(|rows| *rows > 0) {
        return Ok(Done { left, files: made.len(), ..Done::default() });
    }
    // Another run was faster, or something has changed.
    #[derive(Deserialize)]
    struct State {
        state: String,
    }
    let state = tables.rows::<State>(sql::STATE, of_batch()).await?.into_iter().next();
    match state.map(|state| state.state).as_deref() {
        Some("writing" | "void") => void(place, files, batch, bounds).await,
        _ => Ok(Done::default()),
    }
}

/// Writes a file unless it is there, and looks whether it is this one.
async fn is_kept(files: &impl Files, file: &File) -> Result<bool> {
    files.put_new(&file.name, file.body.clone()).await?;
    match files.get(&file.name).await? {
        Some(body) => Ok(body == file.body),
        None => Err(Error::RustError(format!("{} was written and is not there", file.name))),
    }
}

async fn void<T: Tables>(
    place: &Place<'_, T>,
    files: &impl Files,
    batch: &Batch,
    bounds: Bounds,
) -> Result<Done> {
    let statements = vec![
        (sql::VOID, vec![batch.batch.into(), bounds.now_ms.into()]),
        (sql::DROP_CLAIMS, vec![batch.batch.into()]),
    ];
    let changed = place.tables.batch(statements).await?;
    // If it was written meanwhile by another run, its files stay.
    let is_void = changed.first().is_some_and(|rows| *rows > 0);
    if is_void {
        delete(files, place, batch).await?;
    }
    Ok(Done { void: usize::from(is_void), ..Done::default() })
}

/// What has a name of the batch's and was there before it began is somebody else's, and stays.
async fn delete<T>(files: &impl Files, place: &Place<'_, T>, batch: &Batch) -> Result<()> {
    for kind in KINDS {
        files.delete_since(&place.files_of(batch).file(kind), batch.began_at_ms).await?;
    }
    Ok(())
}
