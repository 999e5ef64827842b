//! Counters as data points of Workers Analytics Engine, and back. Pure: the same for whoever writes and whoever reads.
//!
//! A point has the numbers of up to 20 series: `blob1` is the version of this form, `blob2` names the series, a line each, and `double1`
//! to `double20` are their numbers in that order. What an invocation has counted fits into one point almost always. Points with the same
//! series add up column by column, so one query with one sum a column reads them all, and a series that a version does not know is
//! left out by its name, as everywhere. A sum weighs each number by its point's `_sample_interval`.
//!
//! The index decides what is sampled together: Analytics Engine keeps about as many points of each index. It is the series that says
//! what the invocation was about (`index`), without any number. So a flood of one answer is sampled, and a rare one, such as a 5xx or
//! an outcome that is unknown, stays whole beside it. There are some hundreds of them, because labels are a closed list: an index of its own for
//! each point would make every query read them all, and read them coarsely.
//!
//! The limits are Cloudflare's: <https://developers.cloudflare.com/analytics/analytics-engine/limits/>. Blobs may have 16 KB; twenty names have some two.

use serde::Serialize;

use super::catalog::Family;
use super::counters::{Counters, Row};

/// The form of a point. A reader takes no other one.
pub const VERSION: &str = "1";
/// How many numbers a point has.
pub const SERIES_MAX: usize = 20;
/// How many points are written at the end of an invocation. Cloudflare takes 250 for a client's request, and the edge and two objects may
/// each end one for it.
pub const POINTS_MAX: usize = 8;
/// How long an index may be, in bytes.
pub const INDEX_MAX_BYTES: usize = 96;

/// A point, as `writeDataPoint` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// What is sampled together.
    pub indexes: [String; 1],
    /// The version, and the series.
    pub blobs: [String; 2],
    /// Their numbers.
    pub doubles: Vec<i64>,
}

/// The points of what was counted, and what is left for the next invocation because there would be too many.
pub fn points(counters: &Counters) -> (Vec<Point>, Counters) {
    let rows = counters.rows();
    let (now, later) = rows.split_at(rows.len().min(POINTS_MAX * SERIES_MAX));
    (now.chunks(SERIES_MAX).map(point).collect(), Counters::from_rows(later.iter().cloned()))
}

fn point(rows: &[Row]) -> Point {
    let series: Vec<String> = rows.iter().map(name).collect();
    Point {
        indexes: [index(rows)],
        blobs: [VERSION.to_owned(), series.join("\n")],
        doubles: rows.iter().map(|Row(.., number)| *number).collect(),
    }
}

/// A series in one line: family, sample, labels. They are words of the program, without a tab.
fn name(Row(family, labels, sample, _): &Row) -> String {
    let mut name = format!("{family}\t{sample}");
    for label in labels {
        name.push('\t');
        name.push_str(label);
    }
    name
}

/// The series that says what the invocation was about: its answer, else its call to a provider, else its job, else the first.
fn index(rows: &[Row]) -> String {
    let of = |wanted: Family| rows.iter().find(|Row(family, ..)| family == wanted.name());
    let telling = [Family::Requests, Family::ProviderCalls, Family::Jobs].into_iter().find_map(of);
    let mut index = telling.or(rows.first()).map(name).unwrap_or_default();
    let end = (0..=INDEX_MAX_BYTES.min(index.len())).rev().find(|end| index.is_char_boundary(*end));
    index.truncate(end.unwrap_or(0));
    index
}

/// The rows of points with these series, from their weighted sums. `None` if it is no such text, or there are not as many sums.
pub fn rows(series: &str, sums: &[i64]) -> Option<Vec<Row>> {
    let names: Vec<&str> = series.split('\n').collect();
    let known = sums.get(..names.len())?;
    let row = |(name, sum): (&&str, &i64)| {
        let mut parts = name.split('\t').map(str::to_owned);
        let (family, sample) = (parts.next()?, parts.next()?);
        Some(Row(family, parts.collect(), sample, *sum))
    };
    names.iter().zip(known).map(row).collect()
}
