//! What is asked of Analytics Engine's SQL API, and what it answers. Pure.
//!
//! Only what its reference has is used: one table, `sum`, `max`, `toDateTime`, `GROUP BY`, `LIMIT`, `FORMAT`.
//! <https://developers.cloudflare.com/analytics/analytics-engine/sql-reference/statements/>

use serde_json::{Map, Value};

use runtime::metrics::counters::{Counters, Row};
use runtime::metrics::points::{SERIES_MAX, VERSION, rows};

/// How many sets of series an answer may have. With so many it may not be all: then half of the window is asked for.
pub const SETS_MAX: usize = 2_000;

/// What of a dataset was logged from one moment up to another, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first second.
    pub from_s: u64,
    /// The first second after it.
    pub to_s: u64,
}

impl Window {
    /// Its first half; `None` if it is a single second.
    pub fn half(self) -> Option<Self> {
        let half_s = self.to_s.saturating_sub(self.from_s) / 2;
        (half_s > 0).then(|| Self { to_s: self.from_s.saturating_add(half_s), ..self })
    }
}

/// The query. Each number counts for as many points as its own stands for.
pub fn sql(dataset: &str, window: Window) -> String {
    let sums: String = (1..=SERIES_MAX)
        .map(|column| format!(", sum(_sample_interval * double{column}) AS sum{column}"))
        .collect();
    let Window { from_s, to_s } = window;
    format!(
        "SELECT blob2 AS series, max(_sample_interval) AS sample_interval{sums} FROM {dataset} \
         WHERE blob1 = '{VERSION}' AND timestamp >= toDateTime({from_s}) AND timestamp < toDateTime({to_s}) \
         GROUP BY series LIMIT {SETS_MAX} FORMAT JSON"
    )
}

/// What was counted in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The weighted sums, as rows of counters.
    pub rows: Vec<Row>,
    /// For how many points one stood at most; 0 if there are none.
    pub sample_interval_max: u64,
    /// Whether there may be more than was answered.
    pub is_cut: bool,
}

/// Reads an answer, whole or not at all: half of the numbers would be wrong numbers.
pub fn read(answer: &str) -> Result<Counted, String> {
    let wrong = |what: &str| format!("its answer {what}");
    let answer: Map<String, Value> =
        serde_json::from_str(answer).map_err(|_| wrong("is no object of JSON"))?;
    let data = answer.get("data").and_then(Value::as_array).ok_or_else(|| wrong("has no list `data`"))?;
    if answer.get("rows").and_then(whole).is_some_and(|rows| usize::try_from(rows) != Ok(data.len())) {
        return Err(wrong("says of another number of rows than it has"));
    }
    let mut counted = Counted { is_cut: data.len() >= SETS_MAX, ..Counted::default() };
    let mut all = Vec::new();
    for row in data {
        let number = |name: &str| {
            row.get(name)
                .and_then(whole)
                .ok_or_else(|| wrong(&format!("has a row without the number {name}")))
        };
        let interval = number("sample_interval")?;
        let interval = u64::try_from(interval).map_err(|_| wrong("has a sample interval below 0"))?;
        counted.sample_interval_max = counted.sample_interval_max.max(interval);
        let sums: Vec<i64> =
            (1..=SERIES_MAX).map(|column| number(&format!("sum{column}"))).collect::<Result<_, _>>()?;
        let series = row.get("series").and_then(Value::as_str);
        let read = series.and_then(|series| rows(series, &sums));
        all.extend(read.ok_or_else(|| wrong("has a row whose series cannot be read"))?);
    }
    // What several sets have in common is one row.
    counted.rows = Counters::from_rows(all).rows();
    Ok(counted)
}

/// A number, which the API writes as a number or, for some types, as a text. Sums of doubles are of whole numbers.
fn whole(value: &Value) -> Option<i64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    // Beyond 2^53 a double has no odd numbers any more: no count is so large.
    (number.is_finite() && number.abs() < 9_007_199_254_740_992.0).then(|| number.round() as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(series: &str, interval: impl Into<Value>, sums: &[i64]) -> Value {
        let mut row = json!({ "series": series, "sample_interval": interval.into() });
        for column in 1..=SERIES_MAX {
            row[format!("sum{column}")] = sums.get(column - 1).copied().unwrap_or(0).into();
        }
        row
    }

    const HITS: &str = "paid_once_idempotency_cache_hits_total\t";
    const WAITS: &str = "paid_once_concurrent_request_waits_total\t";

    #[test]
    fn sums_of_the_same_series_are_added_up() {
        let both = format!("{HITS}\n{WAITS}");
        let answer = json!({ "data": [row(HITS, 1, &[5]), row(&both, "20", &[2, 3])], "rows": 2 });
        let counted = read(&answer.to_string()).unwrap();
        let of = |name: &str, number| Row(name.trim_end().to_owned(), Vec::new(), String::new(), number);
        assert_eq!(counted.rows, [of(HITS, 7), of(WAITS, 3)]);
        assert_eq!(counted.sample_interval_max, 20);
        assert!(!counted.is_cut);
        assert_eq!(read(r#"{"data":[],"rows":0}"#).unwrap(), Counted::default());
    }

    #[test]
    fn numbers_may_be_texts() {
        let mut one = row(HITS, "10", &[]);
        one["sum1"] = "30".into();
        one["sum2"] = json!(0.0);
        let counted = read(&json!({ "data": [one], "rows": "1" }).to_string()).unwrap();
        assert_eq!(counted.rows[0].3, 30);
    }

    #[test]
    fn nothing_of_an_answer_counts_that_is_not_whole() {
        let mut lacks = row(HITS, 1, &[1]);
        lacks.as_object_mut().unwrap().remove("sum20");
        let answers = [
            String::new(),
            "Unauthorized".to_owned(),
            "[]".to_owned(),
            json!({ "success": false, "errors": [{ "code": 10_000 }] }).to_string(),
            json!({ "data": [row(HITS, 1, &[1])], "rows": 2 }).to_string(),
            json!({ "data": [lacks] }).to_string(),
            json!({ "data": [row(HITS, -1, &[1])] }).to_string(),
            json!({ "data": [row(HITS, Value::Null, &[1])] }).to_string(),
            json!({ "data": [row("no-series", 1, &[1])] }).to_string(),
            json!({ "data": [row(&[HITS; 21].join("\n"), 1, &[1; 20])] }).to_string(),
            json!({ "data": [row(HITS, 1, &[i64::MAX])] }).to_string(),
            json!({ "data": [row(HITS, 1, &[1])] }).to_string().replace("}]}", ""),
        ];
        for answer in answers {
            assert!(read(&answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn a_window_is_halved_down_to_a_second() {
        let mut window = Window { from_s: 100, to_s: 107 };
        let mut to_s = Vec::new();
        while let Some(half) = window.half() {
            to_s.push(half.to_s);
            window = half;
        }
        assert_eq!(to_s, [103, 101]);
        let full: Vec<Value> = (0..SETS_MAX).map(|_| row(HITS, 1, &[1])).collect();
        assert!(read(&json!({ "data": full }).to_string()).unwrap().is_cut);
    }
}
