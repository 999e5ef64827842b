//! What the plots of the overview show, summed once for each slice of time that is over, and kept: how that is read, and how it is counted anew.
//!
//! Each place of the read model keeps the sums of its own rows ([`tasks::plots`](crate::tasks::plots) makes them): of each minute, and of each half hour
//! and three hours of minutes. One row says from when until when all minutes are summed (`plot_summed`), and the database itself notes in which of
//! these something has changed since (`plot_changes`). So a place answers with the largest slices that a window is made of and in which nothing has
//! changed; with smaller ones around a change, and where the summed time begins and ends; and with what it counts anew: the minutes that have changed,
//! and what is not summed yet. Of that it counts a bounded number of payments, the newest, and says if that was not all.

use serde::Deserialize;

use crate::time_window::TimeWindow;

/// How long the slices are, in ms. Each is made of the ones before it, and each bucket of a window is one.
pub(crate) const SLICES_MS: [u64; 3] = [MINUTE_MS, 30 * MINUTE_MS, 180 * MINUTE_MS];
pub(crate) const MINUTE_MS: u64 = 60_000;
/// Later than all payments, in ms since the epoch.
const NEVER_MS: u64 = 9_000_000_000_000_000;

/// How much a page counts anew in one place.
pub(crate) const PAGE_BOUND: Bound = Bound { minutes: 300, payments: 20_000 };

/// How much is counted at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Minutes that have changed.
    pub(crate) minutes: u32,
    /// Payments of these minutes, or of one time that is not summed. A minute is counted as a whole.
    pub(crate) payments: u32,
}

/// How often there was something: what, as which, in which currency, how often, and how much that was.
///
/// - `ended`: payments that were begun then, by status and currency; what was taken of them.
/// - `key`: keys of which the first request came then, by how many ms about it took to their response.
/// - `job`: jobs of payments that were begun then, and jobs with a row of their own that have ended then, by how many ms about it took to their end.
pub(crate) type Sum = (String, String, String, u64, u64);

/// What a place answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Found {
    /// By bucket of the window. One may come more than once.
    kept: Vec<(usize, Vec<Sum>)>,
    counted: Vec<(usize, Vec<Sum>)>,
    /// How many times of the window are neither summed nor counted.
    left: u64,
}

impl Found {
    /// Whether that is all that there is.
    pub(crate) const fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// Each sum, with its bucket.
    pub(crate) fn sums(self) -> impl Iterator<Item = (usize, Sum)> {
        let all = self.kept.into_iter().chain(self.counted);
        all.flat_map(|(bucket, sums)| sums.into_iter().map(move |sum| (bucket, sum)))
    }
}

/// What a place has of a window: one row with one text, a [`Found`].
pub(crate) fn window_sql(window: &TimeWindow, bound: Bound) -> String {
    let (start_ms, bucket_ms) = (window.start_ms, window.bucket_ms);
    let counted = counted(bound, &format!("WHERE minute_ms >= {start_ms}"));
    let (kept, fresh) = (kept(window), fresh(start_ms, bucket_ms));
    let payments = bound.payments;
    format!(
        "WITH summed (from_ms, until_ms) AS MATERIALIZED (
            SELECT max(from_ms, {start_ms}), max(until_ms, {start_ms}) FROM plot_summed
            UNION ALL SELECT {start_ms}, {start_ms} WHERE NOT EXISTS (SELECT 1 FROM plot_summed)),
         ends (from_ms, until_ms, oldest_ms, newest_ms) AS MATERIALIZED (
            SELECT from_ms, until_ms,
                coalesce((SELECT (created_at_ms / {MINUTE_MS} + 1) * {MINUTE_MS} FROM payments INDEXED BY payments_by_time
                    WHERE created_at_ms >= {start_ms} AND created_at_ms < from_ms ORDER BY created_at_ms DESC LIMIT 1 OFFSET {payments}), {start_ms}),
                coalesce((SELECT (created_at_ms / {MINUTE_MS} + 1) * {MINUTE_MS} FROM payments INDEXED BY payments_by_time
                    WHERE created_at_ms >= until_ms AND created_at_ms < {NEVER_MS} ORDER BY created_at_ms DESC LIMIT 1 OFFSET {payments}), until_ms)
            FROM summed),
         counted (minute_ms) AS MATERIALIZED ({counted}),
         spans (since_ms, before_ms) AS MATERIALIZED (
            SELECT newest_ms, {NEVER_MS} FROM ends
            UNION ALL SELECT minute_ms, minute_ms + {MINUTE_MS} FROM counted
            UNION ALL SELECT min(oldest_ms, from_ms), from_ms FROM ends WHERE from_ms > {start_ms})
         SELECT json_object(
            'kept', json((SELECT json_group_array(json_array((from_ms - {start_ms}) / {bucket_ms}, json(sums))) FROM ({kept}))),
            'counted', json((SELECT json_group_array(json_array(slice, json_array(json_array(what, name, currency, number, minor)))) FROM ({fresh}))),
            'left', (SELECT (newest_ms > until_ms) + (oldest_ms > {start_ms}) FROM ends)
                + (SELECT count(*) FROM plot_changes WHERE minute_ms >= {start_ms}) - (SELECT count(*) FROM counted)) AS found"
    )
}

/// The slices of which the sums are right: `from_ms` and `sums`. Of what a window is made of, and where one of these has changed or is not summed as
/// a whole the smaller ones in it.
fn kept(window: &TimeWindow) -> String {
    let TimeWindow { start_ms, bucket_ms, .. } = window;
    let is_right = |slice_ms: u64| {
        format!(
            "s.from_ms >= summed.from_ms AND s.from_ms + {slice_ms} <= summed.until_ms AND NOT EXISTS (
                SELECT 1 FROM plot_changes WHERE minute_ms >= s.from_ms AND minute_ms < s.from_ms + {slice_ms})"
        )
    };
    let largest = format!(
        "SELECT s.from_ms, s.sums FROM summed CROSS JOIN plot_sums AS s ON s.slice_ms = {bucket_ms} AND s.from_ms >= {start_ms}
         WHERE {}",
        is_right(*bucket_ms)
    );
    let smaller = SLICES_MS.iter().zip(SLICES_MS.iter().skip(1)).filter(|(_, around)| *around <= bucket_ms);
    let smaller = smaller.map(|(slice_ms, around_ms)| {
        format!(
            "SELECT s.from_ms, s.sums FROM (
                SELECT minute_ms / {around_ms} * {around_ms} AS broken_ms FROM plot_changes WHERE minute_ms >= {start_ms}
                UNION SELECT until_ms / {around_ms} * {around_ms} FROM summed
                UNION SELECT from_ms / {around_ms} * {around_ms} FROM summed WHERE from_ms % {around_ms} > 0)
             CROSS JOIN summed
             CROSS JOIN plot_sums AS s ON s.slice_ms = {slice_ms} AND s.from_ms >= broken_ms AND s.from_ms < broken_ms + {around_ms}
             WHERE {}",
            is_right(*slice_ms)
        )
    });
    std::iter::once(largest).chain(smaller).collect::<Vec<_>>().join(" UNION ALL ")
}

/// The newest minutes that have changed, as many as are counted at once.
pub(crate) fn counted(bound: Bound, condition: &str) -> String {
    let Bound { minutes, payments } = bound;
    format!(
        "SELECT minute_ms FROM (
            SELECT minute_ms, number, sum(number) OVER (ORDER BY minute_ms DESC) AS up_to FROM (
                SELECT minute_ms, (SELECT count(*) FROM payments INDEXED BY payments_by_time
                    WHERE created_at_ms >= minute_ms AND created_at_ms < minute_ms + {MINUTE_MS}) AS number
                FROM (SELECT minute_ms FROM plot_changes {condition} ORDER BY minute_ms DESC LIMIT {minutes})))
         WHERE up_to - number < {payments}"
    )
}

/// Counts what there is in the `spans`, which have `since_ms` and `before_ms`: by slices of this length, of which the first one begins at `start_ms`.
pub(crate) fn fresh(start_ms: u64, slice_ms: u64) -> String {
    let slice = |at_ms: &str| format!("({at_ms} - {start_ms}) / {slice_ms}");
    let within = |table: &str, index: &str, at_ms: &str| {
        format!("spans CROSS JOIN {table} INDEXED BY {index} ON {at_ms} >= since_ms AND {at_ms} < before_ms")
    };
    let payments = within("payments", "payments_by_time", "created_at_ms");
    let (keys, jobs) =
        (within("keys", "keys_by_time", "created_at_ms"), within("jobs", "jobs_by_time", "updated_at_ms"));
    let (by_begin, by_time, about_ms) = (slice("created_at_ms"), slice("at_ms"), about_ms());
    format!(
        "SELECT {by_begin} AS slice, 'ended' AS what, status AS name, currency, count(*) AS number, sum(captured_minor) AS minor
         FROM {payments} GROUP BY slice, status, currency
         UNION ALL SELECT {by_time} AS slice, 'key', {about_ms} AS about, '', count(*), 0 FROM (
            SELECT created_at_ms AS at_ms, key_finished_at_ms - created_at_ms AS ms FROM {payments}
            WHERE key_hash IS NOT NULL AND key_finished_at_ms IS NOT NULL
            UNION ALL SELECT created_at_ms, finished_at_ms - created_at_ms FROM {keys} WHERE finished_at_ms IS NOT NULL)
         GROUP BY slice, about
         UNION ALL SELECT {by_time} AS slice, 'job', {about_ms} AS about, '', count(*), 0 FROM (
            SELECT created_at_ms AS at_ms, (done.value ->> 3) - (done.value ->> 2) AS ms
            FROM {payments} CROSS JOIN json_each(payments.done_jobs) AS done WHERE done_jobs IS NOT NULL
            UNION ALL SELECT updated_at_ms, updated_at_ms - staged_at_ms FROM {jobs} WHERE state = 'done')
         GROUP BY slice, about"
    )
}

/// How many ms, to two digits: so what comes of it is right to within a tenth.
fn about_ms() -> String {
    let digits: String = (1..12)
        .map(|power| {
            let (below, step) = (10_u64.pow(power + 1), 10_u64.pow(power - 1));
            format!("WHEN ms < {below} THEN ms / {step} * {step} ")
        })
        .collect();
    format!("CAST(CASE WHEN ms < 0 THEN 0 {digits}ELSE ms END AS TEXT)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_window::Range;

    #[test]
    fn each_slice_is_made_of_smaller_ones_and_each_bucket_is_a_slice() {
        assert!(SLICES_MS.windows(2).all(|pair| pair[1] > pair[0] && pair[1].is_multiple_of(pair[0])));
        for range in Range::ALL {
            assert!(SLICES_MS.contains(&range.buckets().0), "{range:?}");
        }
    }
}
