//! The simulator's clock: the wall clock plus an offset that tests move. What time alone changes, `Call::settle` does.

use serde_json::{Value, json};

use crate::http::Reply;
use crate::store::{Store, Stored};

/// A test never needs to go further: ten years.
const MAX_OFFSET_MS: i64 = 10 * 366 * 24 * 60 * 60 * 1000;

/// `GET /_sim/clock`
pub fn show(now_ms: i64, offset_ms: i64) -> Reply {
    Reply::json(200, &json!({ "now_ms": now_ms, "offset_ms": offset_ms }))
}

/// `POST /_sim/clock` with `{"advance_ms": n}`: forwards only, as time goes.
pub fn advance(store: &mut dyn Store, wall_ms: i64, body: &Value) -> Stored<Reply> {
    let offset_ms = store.clock_offset_ms()?;
    let advanced = body
        .get("advance_ms")
        .and_then(Value::as_i64)
        .filter(|ms| *ms >= 0)
        .and_then(|ms| offset_ms.checked_add(ms));
    match advanced.filter(|offset| *offset <= MAX_OFFSET_MS) {
        Some(offset_ms) => {
            store.set_clock_offset_ms(offset_ms)?;
            Ok(show(wall_ms + offset_ms, offset_ms))
        }
        None => Ok(Reply::json(
            400,
            &json!({ "error": "advance_ms must be a whole number, 0 or more, and at most ten years in all" }),
        )),
    }
}

/// Seconds since 1970 as `2026-11-21T15:04:05+00:00`.
pub fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil from days, in eras of 400 years that begin on the first of March.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(date(0), "1970-01-01T00:00:00+00:00");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59+00:00");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00+00:00");
        assert_eq!(date(1_795_273_445), "2026-11-21T15:04:05+00:00");
    }
}
