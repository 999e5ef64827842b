//! The formats of the settlement file and of the bank's acknowledgement of it. Pure.
//!
//! Both are CSV with `\n` at the end of each line. The settlement file has a head, one line a movement of money sorted by its
//! id, one total a kind and currency, and a trailer with the count of lines and the SHA-256 of them:
//!
//! ```text
//! line_id,kind,provider,provider_reference,amount_minor,currency,at
//! pay_x:capture,capture,stripe,pi_1,2500,usd,2026-11-20T09:30:00.000Z
//! total,capture,usd,1,2500
//! trailer,1,9f86d0…
//! ```
//!
//! A line that a shard has written names it behind its id, `pay_x:capture.g1-2026-11-003`: so the shard is known that has it when the bank acknowledges it.
//!
//! A day with more lines than one file may have is written in parts (`settlement_parts`), each of this form.
//!
//! The acknowledgement has a head, one line for each of our lines, and a trailer with the count: an incomplete file is refused.
//!
//! ```text
//! line_id,outcome,amount_minor,currency
//! pay_x:capture,settled,2500,usd
//! trailer,1
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use payments::payment::money::Currency;
use payments::{timestamp, utc};

use super::csv::quoted;
use messages::placement::ShardName;

/// How long after its end a day is closed, in ms: until then its last projections arrive.
const CLOSED_AFTER_MS: u64 = 2 * 3_600_000;
const DAY_MS: u64 = 86_400_000;
/// How many days that were missed are written in one run.
const DAYS_MAX: usize = 31;

/// A line of a settlement file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What moved, and how: unique for ever.
    pub line_id: String,
    /// `capture`, `refund`; what was taken back: `capture_failed`, `refund_failed`, `dispute_withdrawn`; and what came back from
    /// there: `dispute_reinstated`.
    pub kind: String,
    /// Who moved it.
    pub provider: String,
    /// The provider's id of it.
    pub provider_reference: Option<String>,
    /// In minor units.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
    /// When it moved, in ms since the epoch.
    pub at_ms: u64,
}

/// Kind → currency → how much, in minor units.
pub type Totals = BTreeMap<String, BTreeMap<String, u64>>;

/// A sum of amounts is larger than any number here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the sum of the amounts of a kind and currency is too large for a settlement file")
    }
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its bytes.
    pub text: String,
    /// How many lines it has.
    pub lines: usize,
    /// The control totals.
    pub totals: Totals,
    /// Of its lines, in hexadecimal.
    pub sha256: String,
}

/// Between a line's id and the name of the shard that has written it.
const PLACE: char = '.';

const HEAD: &str = "line_id,kind,provider,provider_reference,amount_minor,currency,at\n";

/// A file that is being written, line by line: of a large day only its text is held.
#[derive(Debug)]
pub struct Writer {
    text: String,
    /// Behind the id of each line.
    named: String,
    lines: usize,
    sums: BTreeMap<(String, String), (u64, u64)>,
}

impl Writer {
    /// Of the lines of a shard, or of D1, which has no name.
    pub fn of(place: &str) -> Self {
        let named = if place.is_empty() { String::new() } else { format!("{PLACE}{place}") };
        Self { text: HEAD.to_owned(), named, lines: 0, sums: BTreeMap::new() }
    }

    /// The next line. They come sorted by their ids. A sum that is too large is an error: no file may have a wrong one.
    pub fn push(&mut self, line: &Line) -> Result<(), TooLarge> {
        let (count, sum) = self.sums.entry((line.kind.clone(), line.currency.clone())).or_default();
        *sum = sum.checked_add(line.amount_minor).ok_or(TooLarge)?;
        *count = count.saturating_add(1);
        let (amount, at) = (line.amount_minor.to_string(), timestamp(line.at_ms));
        let reference = line.provider_reference.as_deref().unwrap_or_default();
        let line_id = format!("{}{}", line.line_id, self.named);
        let cells: [&str; 7] =
            [&line_id, &line.kind, &line.provider, reference, &amount, &line.currency, &at];
        self.text.push_str(&cells.map(quoted).join(","));
        self.text.push('\n');
        self.lines = self.lines.saturating_add(1);
        Ok(())
    }

    /// How many lines it has.
    pub const fn lines(&self) -> usize {
        self.lines
    }

    /// The file, with its totals and its trailer.
    pub fn finish(self) -> File {
        let Self { mut text, lines, sums, .. } = self;
        let body = text.strip_prefix(HEAD).unwrap_or_default();
        let sha256 = HEXLOWER.encode(&Sha256::digest(body.as_bytes()));
        let mut totals = Totals::new();
        for ((kind, currency), (count, sum)) in sums {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "total,{kind},{currency},{count},{sum}");
            totals.entry(kind).or_default().insert(currency, sum);
        }
        let _ = writeln!(text, "trailer,{lines},{sha256}");
        File { text, lines, totals, sha256 }
    }
}

/// Where the files are in the bucket.
pub const FOLDER: &str = "settlement/";

/// The name of a day's file.
pub fn file_of(date: &str) -> String {
    format!("{FOLDER}{date}.csv")
}

/// The newest day that is complete by the names of a bucket's objects: by its file, or the manifest of its parts.
pub fn newest_stored<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let day = |name: &'a str| {
        let (date, form) = name.strip_prefix(FOLDER)?.split_once('.')?;
        (matches!(form, "csv" | "json") && day_number(date).is_some()).then_some(date)
    };
    names.filter_map(day).max().map(str::to_owned)
}

/// A day in UTC, whose movements one file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// Such as `2026-11-20`.
    pub date: String,
    /// When it ends, in ms since the epoch.
    pub ends_at_ms: u64,
}

impl Day {
    /// The file's name.
    pub fn file_name(&self) -> String {
        file_of(&self.date)
    }

    /// When it begins, in ms since the epoch.
    pub const fn begins_at_ms(&self) -> u64 {
        self.ends_at_ms.saturating_sub(DAY_MS)
    }

    /// The day of this date.
    pub fn of(date: &str) -> Option<Self> {
        day_number(date).and_then(Self::number)
    }

    fn number(number: u64) -> Option<Self> {
        let begins_at_ms = number.checked_mul(DAY_MS)?;
        let date = utc(begins_at_ms)?.format("%Y-%m-%d").to_string();
        Some(Self { date, ends_at_ms: begins_at_ms.checked_add(DAY_MS)? })
    }
}

/// The days that can be closed at `now_ms` (since the epoch) and come after the newest one that was: all of them, oldest
/// first, so that an outage leaves no gap. Before the first file there is only the last day.
pub fn days_due(newest: Option<&str>, now_ms: u64) -> Vec<Day> {
    let Some(last) = (now_ms.saturating_sub(CLOSED_AFTER_MS) / DAY_MS).checked_sub(1) else {
        return Vec::new();
    };
    let after = newest.and_then(day_number).map_or(last, |newest| newest.saturating_add(1));
    (after..=last).take(DAYS_MAX).filter_map(Day::number).collect()
}

/// When a day begins (UTC), in ms since the epoch.
pub fn day_starts_at_ms(date: &str) -> Option<u64> {
    day_number(date)?.checked_mul(DAY_MS)
}

/// How far the settlement is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Progress {
    /// The newest day that is closed.
    pub newest: Option<String>,
    /// The oldest that is closed and not written.
    pub unwritten: Option<String>,
    /// The oldest whose closing was begun, as long as none was ever closed.
    #[serde(default)]
    pub closing: Option<String>,
}

/// Asks how far it is.
pub const PROGRESS: &str = "SELECT max(day) AS newest, min(CASE WHEN written_at_ms IS NULL THEN day END) AS unwritten,
    (SELECT min(day) FROM settlement_closings WHERE NOT EXISTS (SELECT 1 FROM settlement_files)) AS closing FROM settlement_files";

impl Progress {
    /// For how long, at `now_ms`, the oldest day that is due has had no whole file, in ms.
    pub fn behind_ms(&self, now_ms: u64) -> u64 {
        let after = |day: u64| day.saturating_add(1);
        let unwritten = self.unwritten.as_deref().and_then(day_number);
        let next = || self.newest.as_deref().and_then(day_number).map(after);
        let oldest = unwritten.or_else(next).or_else(|| self.closing.as_deref().and_then(day_number));
        let due_ms = oldest.map(|day| after(day).saturating_mul(DAY_MS).saturating_add(CLOSED_AFTER_MS));
        due_ms.map_or(0, |due_ms| now_ms.saturating_sub(due_ms))
    }
}

fn day_number(date: &str) -> Option<u64> {
    let midnight = chrono::DateTime::parse_from_rfc3339(&format!("{date}T00:00:00Z")).ok()?;
    u64::try_from(midnight.timestamp_millis()).ok().map(|ms| ms / DAY_MS)
}

/// A line of the bank's acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acknowledgement {
    /// Where it stands: 1 is the head.
    pub line_number: u32,
    /// Which of our lines it acknowledges.
    pub reference: String,
    /// The shard that has written our line, if it says so.
    #[serde(skip)]
    pub place: Option<ShardName>,
    /// `settled` or `rejected`.
    pub outcome: String,
    /// In minor units.
    pub amount_minor: u64,
    /// In lower case.
    pub currency: String,
}

const ACK_HEAD: &str = "line_id,outcome,amount_minor,currency";
/// How many errors are reported of one file.
const ERRORS_MAX: usize = 20;

/// Reads a whole acknowledgement, or gives the errors with their line numbers.
pub fn read_acknowledgement(text: &str) -> Result<Vec<Acknowledgement>, Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = (1_u32..).zip(text.lines());
    let mut errors = Vec::new();
    let mut answered = Vec::new();
    match lines.next() {
        Some((_, ACK_HEAD)) => {}
        _ => errors.push(format!("line 1: must be {ACK_HEAD}")),
    }
    let mut trailer = None;
    for (number, line) in lines {
        if trailer.is_some() {
            errors.push(format!("line {number}: nothing may come after the trailer"));
        } else if let Some(count) = line.strip_prefix("trailer,") {
            trailer = Some(count.parse::<usize>().ok());
            if trailer != Some(Some(answered.len())) && errors.is_empty() {
                errors.push(format!("line {number}: it counts {count} lines, there are {}", answered.len()));
            }
        } else {
            match read_line(number, line) {
                Ok(line) => answered.push(line),
                Err(error) => errors.push(format!("line {number}: {error}")),
            }
        }
        if errors.len() == ERRORS_MAX {
            break;
        }
    }
    if trailer.is_none() && errors.len() < ERRORS_MAX {
        errors.push("the trailer is missing: the file broke off".to_owned());
    }
    if errors.is_empty() { Ok(answered) } else { Err(errors) }
}

fn read_line(line_number: u32, line: &str) -> Result<Acknowledgement, &'static str> {
    let cells: Vec<&str> = line.split(',').collect();
    let [reference, outcome, amount, currency] = cells.as_slice() else {
        return Err("must have 4 cells");
    };
    let is_reference = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':' | b'.');
    if reference.is_empty() || reference.len() > 128 || !reference.bytes().all(is_reference) {
        return Err("line_id must be a line's id");
    }
    if !matches!(*outcome, "settled" | "rejected") {
        return Err("outcome must be settled or rejected");
    }
    let is_number = !amount.is_empty() && amount.len() <= 12 && amount.bytes().all(|b| b.is_ascii_digit());
    let amount_minor = amount.parse().ok().filter(|_| is_number);
    let amount_minor = amount_minor.ok_or("amount_minor must be a whole number of minor units")?;
    let currency = Currency::parse(currency).filter(|parsed| parsed.as_str() == *currency);
    let currency = currency.ok_or("currency must be an ISO 4217 code in lower case")?;
    let named = reference.rsplit_once(PLACE).and_then(|(line, place)| Some((line, ShardName::parse(place)?)));
    let (reference, place) = named.map_or((*reference, None), |(line, place)| (line, Some(place)));
    Ok(Acknowledgement {
        line_number,
        reference: reference.to_owned(),
        place,
        outcome: (*outcome).to_owned(),
        amount_minor,
        currency: currency.as_str().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::late::tests::read_model;

    fn line(line_id: &str, kind: &str, amount_minor: u64, currency: &str) -> Line {
        Line {
            line_id: line_id.to_owned(),
            kind: kind.to_owned(),
            provider: "stripe".to_owned(),
            provider_reference: Some("pi_1".to_owned()),
            amount_minor,
            currency: currency.to_owned(),
            at_ms: 1_795_251_600_000,
        }
    }

    fn file(lines: &[Line]) -> File {
        let mut writer = Writer::of("");
        lines.iter().for_each(|line| writer.push(line).unwrap());
        writer.finish()
    }

    #[test]
    fn a_file_has_its_lines_and_the_totals_of_each_kind() {
        let file = file(&[
            line("pay_a:capture", "capture", 250, "usd"),
            line("pay_b:capture", "capture", 100, "usd"),
            line("pay_c:capture", "capture", 7, "eur"),
            line("re_a:refund", "refund", 50, "usd"),
        ]);
        let rows: Vec<&str> = file.text.lines().collect();
        assert_eq!(rows[1], "pay_a:capture,capture,stripe,pi_1,250,usd,2026-11-21T09:00:00.000Z");
        assert_eq!(
            rows[5..],
            [
                "total,capture,eur,1,7".to_owned(),
                "total,capture,usd,2,350".to_owned(),
                "total,refund,usd,1,50".to_owned(),
                format!("trailer,4,{}", file.sha256),
            ]
        );
        let body = format!("{}\n", rows[1..5].join("\n"));
        assert_eq!(file.sha256, HEXLOWER.encode(&Sha256::digest(body.as_bytes())));
        assert_eq!((file.lines, file.totals["capture"]["usd"]), (4, 350));
    }

    #[test]
    fn a_line_of_a_shard_names_it_and_so_does_its_acknowledgement() {
        let mut writer = Writer::of("g1-2026-11-003");
        writer.push(&line("pay_a:capture", "capture", 250, "usd")).unwrap();
        let text = writer.finish().text;
        assert!(text.contains("\npay_a:capture.g1-2026-11-003,capture,"), "{text}");
        let read = |reference: &str| {
            let text = format!("{ACK_HEAD}\n{reference},settled,250,usd\ntrailer,1\n");
            let line = read_acknowledgement(&text).unwrap().remove(0);
            (line.reference, line.place.map(|place| place.to_string()))
        };
        let named = |name: &str| ("pay_a:capture".to_owned(), Some(name.to_owned()));
        assert_eq!(read("pay_a:capture.g1-2026-11-003"), named("g1-2026-11-003"));
        assert_eq!(read("pay_a:capture.g2-2026-11-25T07-042"), named("g2-2026-11-25T07-042"));
        for unnamed in ["pay_a:capture", "pay_a:capture.g1", "pay_a:capture.g1-2026-13-003"] {
            assert_eq!(read(unnamed), (unnamed.to_owned(), None));
        }
    }

    #[test]
    fn an_empty_day_has_a_file_too_and_a_cell_cannot_break_out() {
        let empty = file(&[]);
        assert!(empty.text.ends_with(&format!("trailer,0,{}\n", empty.sha256)));
        let odd = Line { provider_reference: Some("a,\"b\"\n".to_owned()), ..line("x", "refund", 1, "usd") };
        assert!(file(&[odd]).text.contains(",\"a,\"\"b\"\"\n\","));
    }

    #[test]
    fn no_file_has_a_sum_that_is_cut_off() {
        let mut writer = Writer::of("");
        writer.push(&line("a", "capture", u64::MAX, "usd")).unwrap();
        writer.push(&line("b", "capture", 1, "eur")).unwrap();
        assert_eq!(writer.push(&line("c", "capture", 1, "usd")), Err(TooLarge));
    }

    #[test]
    fn the_oldest_day_without_a_file_says_how_far_behind_it_is() {
        let now = |text: &str| {
            u64::try_from(chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()).unwrap()
        };
        let hour_ms = 3_600_000;
        let five = now("2026-11-22T05:00:00Z");
        let model = read_model();
        let behind_ms = || {
            let progress = |row: &rusqlite::Row<'_>| {
                Ok(Progress { newest: row.get(0)?, unwritten: row.get(1)?, closing: row.get(2)? })
            };
            model.query_row(PROGRESS, (), progress).unwrap().behind_ms(five)
        };
        assert_eq!(behind_ms(), 0, "nothing is known to be due before the first closing");
        for day in ["2026-11-18", "2026-11-19"] {
            let sql = "INSERT INTO settlement_closings VALUES (?1, ?1, 0, 0, 0, 0, 1)";
            model.execute(sql, [day]).unwrap();
        }
        assert_eq!(behind_ms(), 75 * hour_ms, "no file was ever closed");
        let close = |day: &str, written_at_ms: Option<i64>| {
            let sql = "INSERT INTO settlement_files (name, day, closed_at_ms, written_at_ms) VALUES (?1, ?1, 1, ?2)";
            model.execute(sql, (day, written_at_ms)).unwrap();
        };
        close("2026-11-20", Some(1));
        assert_eq!(behind_ms(), 3 * hour_ms);
        close("2026-11-21", Some(1));
        assert_eq!(behind_ms(), 0);
        close("2026-11-19", None);
        assert_eq!(behind_ms(), 51 * hour_ms);
    }

    fn dates(newest: Option<&str>, now: &str) -> Vec<String> {
        let now_ms = chrono::DateTime::parse_from_rfc3339(now).unwrap().timestamp_millis();
        days_due(newest, u64::try_from(now_ms).unwrap()).into_iter().map(|day| day.date).collect()
    }

    #[test]
    fn a_day_is_due_two_hours_after_its_end() {
        assert_eq!(dates(Some("2026-11-19"), "2026-11-21T01:59:59Z"), Vec::<String>::new());
        assert_eq!(dates(Some("2026-11-19"), "2026-11-21T02:00:00Z"), ["2026-11-20"]);
        assert_eq!(dates(Some("2026-11-20"), "2026-11-21T09:00:00Z"), Vec::<String>::new());
        assert_eq!(dates(None, "2026-11-21T09:00:00Z"), ["2026-11-20"]);
        assert_eq!(
            dates(Some("2026-02-26"), "2026-03-02T03:00:00Z"),
            ["2026-02-27", "2026-02-28", "2026-03-01"]
        );
        assert_eq!(dates(Some("2020-01-01"), "2026-11-21T09:00:00Z").len(), DAYS_MAX);
        assert_eq!(dates(None, "1970-01-01T03:00:00Z"), Vec::<String>::new());
        assert_eq!(days_due(None, u64::MAX), []);
    }

    #[test]
    fn an_answer_is_read() {
        let text = "line_id,outcome,amount_minor,currency\r\npay_a:capture,settled,250,usd\nre_a:refund,rejected,50,eur\ntrailer,2\n";
        let read = read_acknowledgement(text).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].line_number, read[0].reference.as_str()), (2, "pay_a:capture"));
        assert_eq!((read[1].outcome.as_str(), read[1].amount_minor), ("rejected", 50));
        assert_eq!(read_acknowledgement("line_id,outcome,amount_minor,currency\ntrailer,0").unwrap(), []);
    }

    #[test]
    fn an_answer_with_an_error_is_refused_whole_and_says_where() {
        let errors =
            |lines: &str| read_acknowledgement(&format!("{ACK_HEAD}\n{lines}")).unwrap_err().join("; ");
        assert_eq!(errors("a,settled,1,usd"), "the trailer is missing: the file broke off");
        assert_eq!(errors("a,settled,1,usd\ntrailer,2"), "line 3: it counts 2 lines, there are 1");
        assert_eq!(errors("trailer,0\na,settled,1,usd"), "line 3: nothing may come after the trailer");
        for (line, error) in [
            ("a,settled,1", "must have 4 cells"),
            ("a,settled,1,usd,", "must have 4 cells"),
            (",settled,1,usd", "line_id must be a line's id"),
            ("=cmd(),settled,1,usd", "line_id must be a line's id"),
            ("a,paid,1,usd", "outcome must be settled or rejected"),
            ("a,settled,1.5,usd", "amount_minor must be a whole number of minor units"),
            ("a,settled,-1,usd", "amount_minor must be a whole number of minor units"),
            ("a,settled,+1,usd", "amount_minor must be a whole number of minor units"),
            ("a,settled,1,USD", "currency must be an ISO 4217 code in lower case"),
            ("", "must have 4 cells"),
        ] {
            assert_eq!(errors(&format!("{line}\ntrailer,1")), format!("line 2: {error}"), "{line}");
        }
        assert!(read_acknowledgement("").unwrap_err()[0].starts_with("line 1: must be"));
        assert_eq!(
            read_acknowledgement(&format!("{ACK_HEAD}\n{}", "x\n".repeat(99))).unwrap_err().len(),
            ERRORS_MAX
        );
    }
}
