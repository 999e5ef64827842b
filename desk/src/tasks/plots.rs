//! Sums what the plots of the overview show, once for each minute that is over, in each place of the read model: [`kept_sums`](crate::kept_sums).
//!
//! A run sums the minutes that are over since the last one, the minutes in which something has changed since they were summed, and what is older and
//! not summed yet, the newest first: each up to a bound, and the next run goes on. What it counts, it counts and writes down in one transaction of the
//! place, which also says up to where all is summed: so it may be broken off anywhere, and done by two at once. A place in which there is nothing to
//! sum is written nothing.

use serde::Deserialize;
use serde_json::{Map, Value};
use worker::{Env, Result};

use crate::kept_sums::{Bound, MINUTE_MS, SLICES_MS, counted, fresh};
use crate::time_window::Range;
use runtime::db::{Db, Statement};
use runtime::now_ms;
use runtime::places::ReadModel;

/// How old a minute is when it is summed, in ms: by then nearly all that is written of its payments is written.
const SETTLES_MS: u64 = 2 * MINUTE_MS;
/// How much one run counts in one place: of each time that is not summed so many payments, and so many of what has changed.
const BOUND: Bound = Bound { minutes: 1_000, payments: 20_000 };

/// In all places.
pub(super) async fn sum(env: &Env) -> Result<Value> {
    let model = ReadModel::of(env);
    let each = model.each(model.places().await?, async |db: Db| sum_place(&db).await).await?;
    let all = each.into_iter().fold(Summed::default(), |all, (_, one)| Summed {
        minutes: all.minutes.saturating_add(one.minutes),
        changed: all.changed.saturating_add(one.changed),
        left: all.left.saturating_add(one.left),
    });
    let mut result = all.told();
    if let Some(missing) = model.missing() {
        result.insert("missing".to_owned(), missing.into());
    }
    Ok(Value::Object(result))
}

/// In one place, which has the run for itself.
pub(super) async fn sum_one(db: &Db) -> Result<Value> {
    Ok(Value::Object(sum_place(db).await?.told()))
}

async fn sum_place(db: &Db) -> Result<Summed> {
    let now_ms = now_ms();
    let look: Option<Look> = db.first(&look_sql(BOUND), look_values(now_ms)).await?;
    let Some(plan) = look.map(|look| Plan::of(look, now_ms)).transpose()?.flatten() else {
        return Ok(Summed::default());
    };
    db.batch(plan.statements()?).await?;
    Ok(plan.summed())
}

/// What a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Summed {
    /// Minutes that it has summed for the first time.
    minutes: u64,
    /// Those that it has summed again.
    changed: u64,
    /// In how many places not all is summed.
    left: u64,
}

impl Summed {
    fn told(self) -> Map<String, Value> {
        let left = (self.left > 0).then_some(("left", self.left));
        let numbers = [("minutes", self.minutes), ("changed", self.changed)].into_iter().chain(left);
        numbers.map(|(name, number)| (name.to_owned(), number.into())).collect()
    }
}

/// Until when all is summed, in ms since the epoch.
const fn settled_ms(now_ms: u64) -> u64 {
    minute(now_ms.saturating_sub(SETTLES_MS))
}

/// From when on sums are kept, in ms since the epoch: a slice longer than the longest window.
fn oldest_ms(now_ms: u64) -> u64 {
    let longest_ms = |range: Range| range.window(now_ms).start_ms.saturating_sub(range.buckets().0);
    let [.., largest_ms] = SLICES_MS;
    Range::ALL.map(longest_ms).into_iter().min().unwrap_or(0) / largest_ms * largest_ms
}

const fn minute(at_ms: u64) -> u64 {
    at_ms / MINUTE_MS * MINUTE_MS
}

/// What there is to be done in a place.
#[derive(Debug, Deserialize)]
pub(super) struct Look {
    /// From when on all minutes are summed, and until when, in ms since the epoch: where none are, both are when they are to be.
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    /// What was summed is all too old.
    pub(super) is_stale: u8,
    /// Whether there is something since then that is not summed, and when the first payment was made that is too many for one run.
    pub(super) has_newer: u8,
    pub(super) newer_ms: Option<u64>,
    /// The same of what was before.
    pub(super) has_older: u8,
    pub(super) older_ms: Option<u64>,
    /// The minutes that have changed and are summed again: a JSON array.
    pub(super) changed: String,
    pub(super) changes: u64,
}

pub(super) fn look_values(now_ms: u64) -> Vec<runtime::db::Value> {
    vec![settled_ms(now_ms).into(), oldest_ms(now_ms).into()]
}

/// A [`Look`]. All before `?1` is to be summed, from `?2` on.
pub(super) fn look_sql(bound: Bound) -> String {
    let has = |since: &str, before: &str| {
        format!(
            "EXISTS (SELECT 1 FROM payments INDEXED BY payments_by_time WHERE created_at_ms >= {since} AND created_at_ms < {before})
             OR EXISTS (SELECT 1 FROM keys INDEXED BY keys_by_time WHERE created_at_ms >= {since} AND created_at_ms < {before})
             OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_by_time WHERE updated_at_ms >= {since} AND updated_at_ms < {before} AND state = 'done')"
        )
    };
    let beyond = |since: &str, before: &str, order: &str| {
        format!(
            "(SELECT created_at_ms FROM payments INDEXED BY payments_by_time WHERE created_at_ms >= {since} AND created_at_ms < {before}
              ORDER BY created_at_ms{order} LIMIT 1 OFFSET {})",
            bound.payments
        )
    };
    let (has_newer, newer_ms) = (has("until_ms", "?1"), beyond("until_ms", "?1", ""));
    let (has_older, older_ms) = (has("?2", "from_ms"), beyond("?2", "from_ms", " DESC"));
    let changed = counted(bound, "");
    format!(
        "WITH ends (from_ms, until_ms, is_stale) AS MATERIALIZED (
            SELECT iif(is_stale, ?1, from_ms), iif(is_stale, ?1, until_ms), is_stale
            FROM (SELECT from_ms, until_ms, until_ms <= ?2 AS is_stale FROM plot_summed)
            UNION ALL SELECT ?1, ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM plot_summed))
         SELECT from_ms, until_ms, is_stale, {has_newer} AS has_newer, {newer_ms} AS newer_ms, {has_older} AS has_older, {older_ms} AS older_ms,
            (SELECT json_group_array(minute_ms) FROM ({changed})) AS changed, (SELECT count(*) FROM plot_changes) AS changes
         FROM ends"
    )
}

/// What a run does in a place.
#[derive(Debug)]
pub(super) struct Plan {
    /// As it was read.
    from_ms: u64,
    until_ms: u64,
    is_stale: bool,
    /// As it is then.
    new_from_ms: u64,
    new_until_ms: u64,
    changed: Vec<u64>,
    oldest_ms: u64,
    is_whole: bool,
}

impl Plan {
    /// `None` if there is nothing to do.
    pub(super) fn of(look: Look, now_ms: u64) -> serde_json::Result<Option<Self>> {
        let Look { from_ms, until_ms, newer_ms, older_ms, changes, .. } = look;
        let [is_stale, has_newer, has_older] =
            [look.is_stale, look.has_newer, look.has_older].map(|is| is == 1);
        let (settled_ms, oldest_ms) = (settled_ms(now_ms), oldest_ms(now_ms));
        let changed: Vec<u64> = serde_json::from_str(&look.changed)?;
        let is_trimmed = !is_stale && from_ms < oldest_ms;
        if !(is_stale || is_trimmed || has_newer || has_older || changes > 0) {
            return Ok(None);
        }
        // A minute is summed as a whole, however many payments it has.
        let new_until_ms = match newer_ms {
            _ if !has_newer => until_ms,
            Some(beyond_ms) => minute(beyond_ms).max(until_ms + MINUTE_MS),
            None => settled_ms,
        };
        let new_from_ms = match older_ms {
            _ if !has_older => from_ms,
            Some(beyond_ms) => (minute(beyond_ms) + MINUTE_MS).min(from_ms.saturating_sub(MINUTE_MS)),
            None => oldest_ms,
        };
        let left = changes.saturating_sub(u64::try_from(changed.len()).unwrap_or(u64::MAX));
        let is_cut = |beyond_ms: Option<u64>, has_some: bool| has_some && beyond_ms.is_some();
        let is_whole =
            (is_stale || left == 0) && !is_cut(newer_ms, has_newer) && !is_cut(older_ms, has_older);
        let changed = if is_stale { Vec::new() } else { changed };
        Ok(Some(Self {
            from_ms,
            until_ms,
            is_stale,
            new_from_ms,
            new_until_ms,
            changed,
            oldest_ms,
            is_whole,
        }))
    }

    fn summed(&self) -> Summed {
        let minutes = |since_ms: u64, before_ms: u64| before_ms.saturating_sub(since_ms) / MINUTE_MS;
        Summed {
            minutes: minutes(self.new_from_ms, self.from_ms) + minutes(self.until_ms, self.new_until_ms),
            changed: u64::try_from(self.changed.len()).unwrap_or(u64::MAX),
            left: u64::from(!self.is_whole),
        }
    }

    /// The times that are summed.
    fn spans(&self) -> Vec<(u64, u64)> {
        let times = [(self.new_from_ms, self.from_ms), (self.until_ms, self.new_until_ms)];
        let minutes = self.changed.iter().map(|minute_ms| (*minute_ms, minute_ms + MINUTE_MS));
        times.into_iter().filter(|(since_ms, before_ms)| since_ms < before_ms).chain(minutes).collect()
    }

    /// All of it, in one transaction.
    pub(super) fn statements(&self) -> serde_json::Result<Vec<Statement>> {
        let mut statements = Vec::new();
        if self.is_stale {
            // Nothing is summed then: what was noted meanwhile by another run's sums would be counted beside the rest.
            statements.push(self.trim()?);
            statements.push(Statement::new("DELETE FROM plot_changes", Vec::new()));
            statements.push(Statement::new("DELETE FROM plot_summed WHERE id = 1", Vec::new()));
        }
        let spans = self.spans();
        if !spans.is_empty() {
            let json = serde_json::to_string(&spans)?;
            statements.push(Statement::new(FORGET, vec![json.as_str().into()]));
            statements.push(Statement::new(minutes_sql(), vec![json.into()]));
            if !self.changed.is_empty() {
                let changed = serde_json::to_string(&self.changed)?;
                statements.push(Statement::new(KNOWN, vec![changed.into()]));
            }
            let ends = [self.from_ms, self.until_ms, self.new_from_ms, self.new_until_ms];
            statements.push(Statement::new(SUMMED, ends.map(Into::into).to_vec()));
            for (parts_ms, slice_ms) in SLICES_MS.iter().zip(SLICES_MS.iter().skip(1)) {
                let slices: std::collections::BTreeSet<u64> = spans
                    .iter()
                    .flat_map(|(since_ms, before_ms)| since_ms / slice_ms..before_ms.div_ceil(*slice_ms))
                    .map(|number| number * slice_ms)
                    .collect();
                let slices = serde_json::to_string(&slices)?;
                statements
                    .push(Statement::new(FORGET_SLICES, vec![slices.as_str().into(), (*slice_ms).into()]));
                let values = vec![slices.into(), (*slice_ms).into(), (*parts_ms).into()];
                statements.push(Statement::new(SUM_SLICES, values));
            }
        }
        if !self.is_stale && self.from_ms < self.oldest_ms {
            statements.push(self.trim()?);
            statements.push(Statement::new(TRIM_CHANGES, vec![self.oldest_ms.into()]));
            statements.push(Statement::new(TRIM_SUMMED, vec![self.oldest_ms.into()]));
        }
        Ok(statements)
    }

    fn trim(&self) -> serde_json::Result<Statement> {
        let slices = serde_json::to_string(&SLICES_MS)?;
        Ok(Statement::new(TRIM, vec![slices.into(), self.oldest_ms.into()]))
    }
}

/// The sums of the minutes of these spans (`?1`) go: there may be nothing in one any more.
const FORGET: &str = "DELETE FROM plot_sums WHERE (slice_ms, from_ms) IN (SELECT s.slice_ms, s.from_ms FROM json_each(?1) AS span
        CROSS JOIN plot_sums AS s ON s.slice_ms = 60000 AND s.from_ms >= span.value ->> 0 AND s.from_ms < span.value ->> 1)";
/// These minutes (`?1`) are as they were summed.
const KNOWN: &str = "DELETE FROM plot_changes WHERE minute_ms IN (SELECT value FROM json_each(?1))";
/// All from `?3` until `?4` is summed, where `?1` and `?2` were the ends of it; if another run has changed these, as far as there is no gap.
const SUMMED: &str =
    "INSERT INTO plot_summed (id, from_ms, until_ms) VALUES (1, ?3, ?4) ON CONFLICT (id) DO UPDATE SET
        from_ms = iif(?1 >= from_ms AND ?1 <= until_ms, min(from_ms, ?3), from_ms),
        until_ms = iif(?2 >= from_ms AND ?2 <= until_ms, max(until_ms, ?4), until_ms)";
/// The sums of these slices (`?1`) of a length (`?2`) go.
const FORGET_SLICES: &str =
    "DELETE FROM plot_sums WHERE slice_ms = ?2 AND from_ms IN (SELECT value FROM json_each(?1))";
/// Sums slices (`?1`) of a length (`?2`) from their parts (`?3`): those that are summed as a whole, and in which nothing has changed.
const SUM_SLICES: &str = "INSERT INTO plot_sums (slice_ms, from_ms, sums)
     SELECT ?2, begins_ms, json_group_array(json_array(what, name, currency, number, minor)) FROM (
        SELECT slice.value AS begins_ms, part.value ->> 0 AS what, part.value ->> 1 AS name, part.value ->> 2 AS currency,
            sum(part.value ->> 3) AS number, sum(part.value ->> 4) AS minor
        FROM json_each(?1) AS slice
            CROSS JOIN plot_summed ON slice.value >= plot_summed.from_ms AND slice.value + ?2 <= until_ms
            CROSS JOIN plot_sums AS s ON s.slice_ms = ?3 AND s.from_ms >= slice.value AND s.from_ms < slice.value + ?2
            CROSS JOIN json_each(s.sums) AS part
        WHERE NOT EXISTS (SELECT 1 FROM plot_changes WHERE minute_ms >= slice.value AND minute_ms < slice.value + ?2)
        GROUP BY begins_ms, what, name, currency)
     GROUP BY begins_ms";
/// What is too old for any window goes.
const TRIM: &str =
    "DELETE FROM plot_sums WHERE slice_ms IN (SELECT value FROM json_each(?1)) AND from_ms < ?2";
const TRIM_CHANGES: &str = "DELETE FROM plot_changes WHERE minute_ms < ?1";
const TRIM_SUMMED: &str = "UPDATE plot_summed SET from_ms = max(from_ms, ?1) WHERE id = 1";

/// Sums the minutes of these spans (`?1`).
fn minutes_sql() -> String {
    let fresh = fresh(0, MINUTE_MS);
    format!(
        "INSERT INTO plot_sums (slice_ms, from_ms, sums)
         WITH spans (since_ms, before_ms) AS MATERIALIZED (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
         SELECT {MINUTE_MS}, slice * {MINUTE_MS}, json_group_array(json_array(what, name, currency, number, minor)) FROM ({fresh}) GROUP BY slice"
    )
}
