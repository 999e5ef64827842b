//! Which payments a list shows, as SQL. Each way to find a payment has an index: no list reads more than it shows, and what comes before it in
//! the same list, however many payments there are.

use std::cmp::Reverse;

use serde::Deserialize;
use worker::Result;

use once::id::ObjectId;
use payments::payment::id::{PaymentId, id_prefix};
use payments::payment::money::Currency;
use runtime::db::Value;
use runtime::lists::Listed;
use runtime::places::{ReadModel, Wanted};

use super::status;
use crate::tasks::counts::{CAPTURE_BEFORE_MS, ends_soon};

/// The filter for reservations that end soon.
pub(super) const ENDING: &str = "ending";
/// What is said of a filter that is none. Without what was entered: it stands in the log of operators, too.
const WRONG_DAY: &str = "The day is not a date like 2026-11-24.";
const WRONG_STATUS: &str = "There is no such status.";
/// A day, in ms.
const DAY_MS: u64 = 86_400_000;
/// The newest first.
const NEWEST_FIRST: &str = "ORDER BY created_at_ms DESC, payment_id DESC";
/// The columns of a [`PaymentRow`], but for [`CAPTURE_BEFORE_MS`].
const COLUMNS: &str = "payment_id AS id, owner, status, amount_minor, captured_minor, refunded_minor, currency, provider, provider_payment,
    order_id, failure_code, created_at_ms";
/// All payments, in the order of time: left to itself SQLite sorts them.
const BY_TIME: &str = "payments INDEXED BY payments_by_time";
/// The condition of the index of payments by owner and status, word for word.
const ENDED_UNPAID: &str = "status IN ('disputed', 'canceled', 'expired', 'declined', 'failed')";
/// A payment, in the list.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaymentRow {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) status: String,
    pub(super) amount_minor: u64,
    pub(super) captured_minor: u64,
    pub(super) refunded_minor: u64,
    pub(super) currency: String,
    pub(super) provider: String,
    pub(super) provider_payment: Option<String>,
    pub(super) order_id: Option<String>,
    pub(super) failure_code: Option<String>,
    pub(super) capture_before_ms: Option<u64>,
    pub(super) created_at_ms: u64,
    /// Told where there are several places.
    #[serde(default)]
    version: u64,
}

/// Where a payment stands in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) created_at_ms: u64,
    pub(super) id: String,
}

impl Place {
    pub(super) fn of(row: &PaymentRow) -> Self {
        Self { created_at_ms: row.created_at_ms, id: row.id.clone() }
    }

    /// Before all that were made at a moment, in ms since the epoch.
    pub(super) fn before(at_ms: u64) -> Self {
        Self { created_at_ms: at_ms, id: PaymentId::in_object(ObjectId::from_bytes([0; 32])).to_string() }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (created_at_ms, id) = text.split_once('.')?;
        Some(Self { created_at_ms: created_at_ms.parse().ok()?, id: PaymentId::parse(id)?.to_string() })
    }

    pub(super) fn to_text(&self) -> String {
        format!("{}.{}", self.created_at_ms, self.id)
    }
}

/// A part of the list.
pub(super) async fn payments(
    model: &ReadModel,
    search: &PaymentSearch,
    part: Part<'_>,
    now_ms: u64,
) -> Result<Vec<PaymentRow>> {
    // With what tells the newer of two rows.
    let more = if model.is_many().await? { ", version" } else { "" };
    let sql = |limit, offset| search.sql(Part { limit, offset, ..part }, now_ms, more);
    let (text, values) = sql(part.limit, part.offset);
    if more.is_empty() {
        return model.d1()?.rows(&text, values).await;
    }
    let wanted = search.wanted(part.after);
    let enough = part.limit.saturating_add(part.offset);
    // What a text names is looked for in lists that are cut before they are filtered.
    let is_sliced = search.text.is_empty();
    let made_at_ms = |row: &PaymentRow| row.created_at_ms;
    let found = model.newest(&wanted, |most| sql(most, 0).0, values, enough, is_sliced, made_at_ms).await?;
    model.looked_to(found.looked_to_ms);
    Ok(found.rows.into_iter().skip(part.offset).take(part.limit).collect())
}

impl Listed for PaymentRow {
    type Order = Reverse<(u64, String)>;

    fn order(&self) -> Self::Order {
        Reverse((self.created_at_ms, self.id.clone()))
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// What a person asks a list of payments for.
#[derive(Clone, Debug, Default)]
pub(super) struct PaymentSearch {
    /// An id of the payment or of a refund, here or at the provider; a reference, an order, an account or a failure code; with a day also an
    /// amount.
    pub(super) text: String,
    /// An outcome, a status, [`ENDING`], or empty for all.
    pub(super) status: String,
    /// The day on which it was made (UTC), as `2026-11-24`; empty for all.
    pub(super) day: String,
    /// Only those that were made before then, in ms since the epoch.
    pub(super) until_ms: Option<u64>,
}

/// A part of a list: so many payments after a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// The last one before it.
    pub(super) after: Option<&'a Place>,
    /// How many to leave out.
    pub(super) offset: usize,
    /// How many there are at most.
    pub(super) limit: usize,
}

impl PaymentSearch {
    /// The statement, and its values.
    fn sql(&self, part: Part<'_>, now_ms: u64, more: &str) -> (String, Vec<Value>) {
        let mut values: Vec<Value> = Vec::new();
        let mut place = |value: &str| {
            values.push(value.into());
            format!("?{}", values.len())
        };
        let mut within = String::new();
        if let Some(from_ms) = self.day_ms() {
            let until_ms = from_ms.saturating_add(DAY_MS);
            within.push_str(&format!(" AND created_at_ms >= {from_ms} AND created_at_ms < {until_ms}"));
        }
        if let Some(until_ms) = self.until_ms {
            within.push_str(&format!(" AND created_at_ms < {until_ms}"));
        }
        if let Some(after) = part.after {
            let id = place(&after.id);
            within.push_str(&format!(" AND (created_at_ms, payment_id) < ({}, {id})", after.created_at_ms));
        }
        let list = List { within: &within, most: part.limit.saturating_add(part.offset) };
        let chosen = self.statuses();
        let mut from = "payments";
        let mut conditions = format!("true{within}");
        if self.status == ENDING {
            conditions.push_str(&format!(
                " AND status != 'succeeded' AND {}",
                ends_soon(CAPTURE_BEFORE_MS, now_ms)
            ));
        }
        if self.text.is_empty() {
            match &chosen {
                Some(chosen) => {
                    let each = chosen.iter().map(|status| match *status {
                        // Nearly all are.
                        "succeeded" => list.newest_of(BY_TIME, "status = 'succeeded'"),
                        other => list.newest(&with_status(other)),
                    });
                    conditions.push_str(&format!(" AND payment_id IN ({})", union(each)));
                }
                None if self.status == ENDING => {}
                None => from = BY_TIME,
            }
        } else {
            let found = self.found(&list, chosen.as_deref(), &mut place);
            conditions.push_str(&format!(" AND payment_id IN ({found})"));
            if let Some(chosen) = &chosen {
                let quoted: Vec<String> = chosen.iter().map(|status| format!("'{status}'")).collect();
                // With a plus sign: it is a filter of what was found, and no way to find it.
                conditions.push_str(&format!(" AND +status IN ({})", quoted.join(", ")));
            }
        }
        let sql = format!(
            "SELECT {COLUMNS}, {CAPTURE_BEFORE_MS} AS capture_before_ms{more} FROM {from} WHERE {conditions} {NEWEST_FIRST} LIMIT {} OFFSET {}",
            part.limit, part.offset
        );
        (sql, values)
    }

    /// The ids of those that the text names. SQLite on Workers takes five selects in one `UNION ALL`: so they are in two.
    fn found(
        &self,
        list: &List<'_>,
        chosen: Option<&[&str]>,
        place: &mut impl FnMut(&str) -> String,
    ) -> String {
        let text = place(&self.text);
        let mut by_id = vec![
            format!("SELECT payment_id FROM payments WHERE provider_payment = {text}"),
            format!("SELECT payment_id FROM refunds WHERE refund_id = {text} OR provider_refund = {text}"),
            list.newest(&format!("order_id = {text}")),
        ];
        by_id.push(match id_prefix(&self.text) {
            None => format!("SELECT payment_id FROM payments WHERE payment_id = {text}"),
            Some(prefix) => {
                let prefix = place(&prefix);
                format!("SELECT payment_id FROM payments WHERE payment_id >= {prefix} AND payment_id < {prefix} || '~'")
            }
        });
        if let Some(amount) = self.day_ms().and_then(|_| amount_sql(&self.text)) {
            by_id.push(list.newest(&amount));
        }
        let owner = format!("owner = {}", place(&owner_named(&self.text)));
        let of_owner = match chosen {
            None => list.newest(&owner),
            Some(chosen) => {
                union(chosen.iter().map(|status| list.newest(&format!("{owner} AND {}", of_owner(status)))))
            }
        };
        // As it is stored, or as the list shows it.
        let code = format!("failure_code = {}", place(&self.text.to_ascii_lowercase().replace(' ', "_")));
        let failed = match chosen {
            None => list.newest(&code),
            Some(chosen) => {
                union(chosen.iter().map(|status| list.newest(&format!("{code} AND status = '{status}'"))))
            }
        };
        let each = [union(by_id.into_iter()), of_owner, failed];
        union(each.into_iter().map(|found| format!("SELECT payment_id FROM ({found})")))
    }

    /// Which shards may have them.
    fn wanted(&self, after: Option<&Place>) -> Wanted<'static> {
        let day = self.day_ms().map(|from_ms| (from_ms, from_ms.saturating_add(DAY_MS)));
        let (from_ms, day_ends_ms) = day.unwrap_or((0, u64::MAX));
        let after_ms = after.map_or(u64::MAX, |after| after.created_at_ms.saturating_add(1));
        let until_ms = self.until_ms.unwrap_or(u64::MAX).min(day_ends_ms).min(after_ms);
        Wanted { owner: None, from_ms, until_ms }
    }

    /// What is wrong with the filter, in sentences; `None` if nothing is. A search by a wrong one would find all.
    pub(super) fn wrong_filter(&self) -> Option<String> {
        let is_status = self.status.is_empty() || self.status == ENDING || self.statuses().is_some();
        let wrong: Vec<&str> = [(self.has_no_wrong_day(), WRONG_DAY), (is_status, WRONG_STATUS)]
            .into_iter()
            .filter_map(|(is_good, wrong)| (!is_good).then_some(wrong))
            .collect();
        (!wrong.is_empty()).then(|| wrong.join(" "))
    }

    /// Whether the day can be read, or none is named.
    pub(super) fn has_no_wrong_day(&self) -> bool {
        self.day.is_empty() || self.day_ms().is_some()
    }

    /// The statuses of which the filter asks; `None` for all.
    fn statuses(&self) -> Option<Vec<&'static str>> {
        status::filtered(&self.status)
    }

    /// When the day begins, in ms since the epoch.
    fn day_ms(&self) -> Option<u64> {
        let day = chrono::NaiveDate::parse_from_str(&self.day, "%Y-%m-%d").ok()?;
        day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis().try_into().ok()
    }
}

/// Whose things somebody means who has written this: an account by its name, or as the read model has it.
pub(super) fn owner_named(text: &str) -> String {
    if text.contains(':') { text.to_owned() } else { format!("account:{text}") }
}

/// What each way to find payments keeps to.
struct List<'a> {
    /// The day and the place, as conditions.
    within: &'a str,
    /// How many are enough.
    most: usize,
}

impl List<'_> {
    /// The ids of the newest payments of which a condition holds.
    fn newest(&self, condition: &str) -> String {
        self.newest_of("payments", condition)
    }

    fn newest_of(&self, table: &str, condition: &str) -> String {
        let Self { within, most } = self;
        format!(
            "SELECT * FROM (SELECT payment_id FROM {table} WHERE {condition}{within} {NEWEST_FIRST} LIMIT {most})"
        )
    }
}

fn union(each: impl Iterator<Item = String>) -> String {
    each.collect::<Vec<_>>().join(" UNION ALL ")
}

/// The condition that a payment has this status, so that SQLite sees which index has it.
fn with_status(status: &str) -> String {
    match status {
        "succeeded" => "status = 'succeeded'".to_owned(),
        other => format!("status = '{other}' AND status != 'succeeded'"),
    }
}

/// The same, of one account's payments: those that are open are few, whoever they belong to.
fn of_owner(status: &str) -> String {
    if ENDED_UNPAID.contains(&format!("'{status}'")) {
        format!("status = '{status}' AND {ENDED_UNPAID}")
    } else {
        with_status(status)
    }
}

/// The condition that a payment's amount is what somebody wrote: `12.50`, `€12,50`, `12.50 eur` or `$1,234.50`. `None` if that is no amount.
fn amount_sql(text: &str) -> Option<String> {
    let is_separator = |c: char| c == '.' || c == ',';
    let is_number = |c: char| c.is_ascii_digit() || is_separator(c);
    let (number, unit): (String, String) =
        text.chars().filter(|c| !c.is_whitespace()).partition(|c| is_number(*c));
    let digits: u64 = number.replace(is_separator, "").parse().ok()?;
    let (whole, decimals) = number.rsplit_once(is_separator).unwrap_or((&number, ""));
    let separator = number.chars().rev().find(|c| is_separator(*c));
    let has_decimals = separator.is_none_or(|separator| !whole.contains(separator))
        && (!whole.contains(is_separator) || is_in_thousands(whole));
    let minor = |places: u32| {
        let decimals = u32::try_from(decimals.len()).ok().filter(|_| has_decimals);
        let missing = decimals.and_then(|decimals| places.checked_sub(decimals));
        // `1,234` is no amount of dollars but with its thousands apart.
        let missing = missing.or_else(|| is_in_thousands(&number).then_some(places))?;
        digits.checked_mul(10_u64.checked_pow(missing)?)
    };
    if !unit.is_empty() {
        let currency = Currency::of_sign(&unit).or_else(|| Currency::parse(&unit))?;
        return Some(format!("amount_minor = {} AND currency = '{currency}'", minor(currency.decimals())?));
    }
    let [none, three] = [Currency::ZERO_DECIMAL, Currency::THREE_DECIMAL]
        .map(|codes| format!("'{}'", codes.replace(' ', "', '")));
    let each = [
        minor(2).map(|minor| format!("amount_minor = {minor} AND currency NOT IN ({none}, {three})")),
        minor(0).map(|minor| format!("amount_minor = {minor} AND currency IN ({none})")),
        minor(3).map(|minor| format!("amount_minor = {minor} AND currency IN ({three})")),
    ];
    let each: Vec<String> = each.into_iter().flatten().collect();
    (!each.is_empty()).then(|| format!("({})", each.join(" OR ")))
}

/// Whether it is a whole number whose thousands stand apart, all by the same sign.
fn is_in_thousands(number: &str) -> bool {
    let Some(separator) = number.chars().find(|c| !c.is_ascii_digit()) else { return false };
    let mut groups = number.split(separator);
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len())
        && groups.all(|group| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_filter_is_named() {
        let wrong = |day: &str, status: &str| {
            let (day, status) = (day.to_owned(), status.to_owned());
            PaymentSearch { day, status, ..PaymentSearch::default() }.wrong_filter()
        };
        assert_eq!(wrong("2026-99-99", ""), Some(WRONG_DAY.to_owned()));
        assert_eq!(wrong("2026-11-24", "foo"), Some(WRONG_STATUS.to_owned()));
        assert_eq!(wrong("2026-99-99", "foo"), Some(format!("{WRONG_DAY} {WRONG_STATUS}")));
        for status in ["", "paid", "declined", ENDING] {
            assert_eq!(wrong("2026-11-24", status), None, "{status}");
            assert_eq!(wrong("", status), None, "{status}");
        }
    }

    #[test]
    fn an_amount_is_read_as_people_write_it() {
        for (written, sql) in [
            ("12.50 eur", "amount_minor = 1250 AND currency = 'eur'"),
            ("€12,5", "amount_minor = 1250 AND currency = 'eur'"),
            ("$ 12", "amount_minor = 1200 AND currency = 'usd'"),
            ("JPY 500", "amount_minor = 500 AND currency = 'jpy'"),
            ("1.250 kwd", "amount_minor = 1250 AND currency = 'kwd'"),
            ("$1,234.50", "amount_minor = 123450 AND currency = 'usd'"),
            ("1.234.567,5 eur", "amount_minor = 123456750 AND currency = 'eur'"),
            ("$1,234", "amount_minor = 123400 AND currency = 'usd'"),
            ("¥10,394,401", "amount_minor = 10394401 AND currency = 'jpy'"),
            ("1,250.125 kwd", "amount_minor = 1250125 AND currency = 'kwd'"),
        ] {
            assert_eq!(amount_sql(written).as_deref(), Some(sql), "{written}");
        }
        let both = amount_sql("12").unwrap();
        for part in
            ["amount_minor = 1200 AND currency NOT IN ('bif', ", "amount_minor = 12 AND currency IN ('bif', "]
        {
            assert!(both.contains(part), "{both}");
        }
        let decimals = amount_sql("12.50").unwrap();
        assert!(
            decimals.contains("1250") && decimals.contains("12500") && !decimals.contains("= 12 "),
            "{decimals}"
        );
        for other in [
            "",
            "order-12",
            "12.5.0",
            "12 doubloons",
            "¥1.5",
            "pi_12",
            ".",
            "12,34.5",
            "1,234,56.7",
            "1.2345",
            "1234,567.5",
        ] {
            assert_eq!(amount_sql(other), None, "{other}");
        }
    }
}
