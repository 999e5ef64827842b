//! Formats numbers, times and money for people.

use std::borrow::Cow;

use payments::payment::locale::Locale;
use payments::payment::money::{AmountMinor, Currency, USUAL_MAX_MINOR};
use payments::payment::money::{for_people, sign};
use payments::payment::records::OPERATOR;
use payments::utc;

/// A duration: `120 ms`, `1.4 s`, `3 min`, `2 h`, `5 d`.
pub fn duration(ms: u64) -> String {
    let tenths = |unit_ms: u64, name: &str| {
        let tenths = ms.saturating_mul(10) / unit_ms;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => format!("{whole} {name}"),
            (whole, _) if whole >= 10 => format!("{whole} {name}"),
            (whole, tenth) => format!("{whole}.{tenth} {name}"),
        }
    };
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => tenths(1_000, "s"),
        60_000..3_600_000 => tenths(60_000, "min"),
        3_600_000..172_800_000 => tenths(3_600_000, "h"),
        _ => tenths(86_400_000, "d"),
    }
}

/// How long ago, or in how long.
pub fn from_now(at_ms: u64, now_ms: u64) -> String {
    if at_ms > now_ms {
        format!("in {}", duration(at_ms - now_ms))
    } else {
        format!("{} ago", duration(now_ms - at_ms))
    }
}

/// How often a key was replayed, as far as it is counted.
pub fn replays(count: u32) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// A moment, to the second: `21 Nov 2026 09:30:12`.
pub fn moment(at_ms: u64) -> String {
    utc(at_ms).map(|at| at.format("%-d %b %Y %H:%M:%S").to_string()).unwrap_or_default()
}

/// An amount of a currency by its code. One that is not known is shown in minor units.
pub fn money(minor: u64, currency: &str) -> String {
    match Currency::parse(currency) {
        Some(currency) => for_people(Locale::En, minor, currency),
        None => format!("{minor} {}", currency.to_ascii_uppercase()),
    }
}

/// Reads an amount as people write it, such as `12.50`, or `€12.50` for euros, or as [`money`] does, into minor units; `None` if it is left empty.
pub fn parse_money(text: &str, currency: &str) -> Result<Option<AmountMinor>, String> {
    let known = Currency::parse(currency);
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    // Another currency's sign is an error: the operator means another amount.
    let code = currency.to_ascii_uppercase();
    let own = known.and_then(|known| sign(Locale::En, known)).into_iter().chain([code.as_str()]);
    let text = own.into_iter().find_map(|own| text.strip_prefix(own)).unwrap_or(text);
    let text = text.strip_suffix(&code).unwrap_or(text).trim();
    if text.starts_with(|first: char| !first.is_ascii() || first == '$' || first.is_ascii_uppercase()) {
        return Err(format!("must be in the payment's currency, {code}"));
    }
    let decimals = known.map_or(2, Currency::decimals) as usize;
    let text = with_point(text, decimals);
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    // Thousands may be set apart, as they are shown.
    let mut groups = whole.split(',');
    let is_apart = !groups.next().unwrap_or_default().is_empty() && groups.all(|group| group.len() == 3);
    let is_apart = is_apart && !is_ambiguous(&text, decimals);
    let whole = whole.replace(',', "");
    let is_good = is_apart && whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit());
    if !is_good || part.len() > decimals {
        let form = if decimals == 0 {
            "12".to_owned()
        } else {
            format!("12.{}", "50".repeat(2).get(..decimals).unwrap_or("50"))
        };
        return Err(format!("must be written like {form}"));
    }
    let maximum = known.map_or(USUAL_MAX_MINOR, Currency::maximum_minor);
    let amount = AmountMinor::parse(&format!("{whole}{part:0<decimals$}")).ok();
    amount
        .filter(|amount| amount.get() <= maximum)
        .map(Some)
        .ok_or_else(|| format!("must be from {} to {}", money(1, currency), money(maximum, currency)))
}

/// With a point where the only separator is a comma before exactly the currency's decimals: `12,50`. Before three digits it may set thousands apart.
fn with_point(text: &str, decimals: usize) -> Cow<'_, str> {
    match text.split_once(',') {
        Some((whole, part)) if matches!(decimals, 1 | 2) && part.len() == decimals && !text.contains('.') => {
            format!("{whole}.{part}").into()
        }
        _ => text.into(),
    }
}

/// Whether the only separator is a comma before three digits, in a currency with decimals: some read `1,250` as 1250, others as 1.25.
fn is_ambiguous(text: &str, decimals: usize) -> bool {
    decimals > 0 && !text.contains('.') && text.split_once(',').is_some_and(|(_, part)| part.len() == 3)
}

/// A whole number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, in the words for one of them or for several.
pub fn number_of(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { several })
}

/// The beginning of a long id, enough to tell it from others.
pub fn short(id: &str) -> String {
    match id.char_indices().nth(14) {
        Some((end, _)) if id.len() > end + 2 => format!("{}…", id.get(..end).unwrap_or(id)),
        _ => id.to_owned(),
    }
}

/// An owner: an account by its id, a browser by the beginning of its hash.
pub fn owner(text: &str) -> String {
    match text.split_once(':') {
        Some(("account", id)) => id.to_owned(),
        Some(("session", hash)) => format!("browser {}", hash.get(..8).unwrap_or(hash)),
        _ => text.to_owned(),
    }
}

/// Who caused an audit record: the owner, or an operator on the owner's behalf.
pub fn doer(actor: &str, data: &str) -> String {
    let data: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
    match data.get(OPERATOR).and_then(serde_json::Value::as_str) {
        Some(operator) => format!("operator {operator} for {}", owner(actor)),
        None => owner(actor),
    }
}

/// What audit records call an amount, in minor units.
const AMOUNTS: [&str; 3] = ["amount", "amount_captured", "before"];

/// The members of a JSON object, for a person: of an audit record, with the beginnings of long ids, and amounts as people write them. The operator stands
/// beside whom it was for.
pub fn facts(data: &str) -> String {
    let Ok(mut data) = serde_json::from_str::<serde_json::Value>(data) else { return data.to_owned() };
    let currency = data.as_object_mut().and_then(|members| members.shift_remove("currency"));
    with_money(&mut data, currency.as_ref().and_then(serde_json::Value::as_str));
    members(
        &data.to_string(),
        |name, text| if AMOUNTS.contains(&name) { text.to_owned() } else { short(text) },
    )
}

/// Writes the amounts as money of this currency, also those within a list. A record that names none of its own says that they are minor units.
fn with_money(data: &mut serde_json::Value, currency: Option<&str>) {
    match data {
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                match value.as_u64().filter(|_| AMOUNTS.contains(&name.as_str())) {
                    Some(minor) => {
                        let unit = || format!("{minor} in minor units");
                        *value = currency.map_or_else(unit, |currency| money(minor, currency)).into();
                    }
                    None => with_money(value, currency),
                }
            }
        }
        serde_json::Value::Array(all) => all.iter_mut().for_each(|one| with_money(one, currency)),
        _ => {}
    }
}

/// The same of what a task has done, with all of each text: the end of an error may be what matters.
pub fn facts_in_full(data: &str) -> String {
    members(data, |_, text| text.to_owned())
}

fn members(data: &str, shown_as: impl Fn(&str, &str) -> String) -> String {
    let Ok(serde_json::Value::Object(members)) = serde_json::from_str(data) else { return data.to_owned() };
    let shown = members.iter().filter(|(name, value)| !value.is_null() && *name != OPERATOR);
    let facts = shown.map(|(name, value)| match value {
        serde_json::Value::String(text) => format!("{name} {}", shown_as(name, text)),
        other => format!("{name} {other}"),
    });
    facts.collect::<Vec<_>>().join(", ")
}

/// An email address, masked: `a…@example.com`.
pub fn masked(text: &str) -> String {
    match text.split_once('@') {
        Some((name, domain)) if !name.contains(' ') => {
            format!("{}…@{domain}", name.chars().next().unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

/// With a capital first letter.
pub fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        let shown = [0, 999, 1_400, 12_345, 90_000, 7_200_000, 432_000_000].map(duration);
        assert_eq!(shown, ["0 ms", "999 ms", "1.4 s", "12 s", "1.5 min", "2 h", "5 d"]);
        assert_eq!(from_now(1_000, 3_000), "2 s ago");
        assert_eq!(from_now(3_000, 1_000), "in 2 s");
    }

    #[test]
    fn money_and_counts_are_readable() {
        assert_eq!(money(2_000, "usd"), "$20.00");
        assert_eq!(money(500, "jpy"), "¥500");
        assert_eq!(money(500_000_000_000, "usd"), "$5,000,000,000.00");
        assert_eq!(money(5, "xxx"), "5 XXX");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
    }

    #[test]
    fn an_amount_is_read_as_it_is_written() {
        let minor = |text: &str, currency: &str| {
            parse_money(text, currency).map(|amount| amount.map(AmountMinor::get))
        };
        assert_eq!(minor("12.5", "usd"), Ok(Some(1250)));
        assert_eq!(minor(" $12 ", "usd"), Ok(Some(1200)));
        assert_eq!(minor("12", "jpy"), Ok(Some(12)));
        assert_eq!(minor("1.250", "kwd"), Ok(Some(1250)));
        assert_eq!(minor("$1,234.50", "usd"), Ok(Some(123_450)));
        assert_eq!(minor("12.500 KWD", "kwd"), Ok(Some(12_500)));
        assert_eq!(minor("KWD 12.500", "kwd"), Ok(Some(12_500)));
        assert_eq!(minor("CA$12", "cad"), Ok(Some(1200)));
        for (shown, currency) in
            [(123_450, "usd"), (10_399_401, "jpy"), (12_500, "kwd"), (5, "chf"), (700, "xof"), (50, "aud")]
        {
            assert_eq!(minor(&money(shown, currency), currency), Ok(Some(shown)), "{currency}");
        }
        assert_eq!(minor("", "usd"), Ok(None));
        for wrong in ["12.505", "-1", ".5", "0", "1e3", "12.", "x"] {
            let read = minor(wrong, "usd");
            assert!(read.is_err() || wrong == "12.", "{wrong}: {read:?}");
        }
        assert!(minor("1.5", "jpy").is_err());
    }

    #[test]
    fn a_comma_is_a_decimal_point_only_where_it_can_be_nothing_else() {
        let minor = |text: &str, currency: &str| {
            parse_money(text, currency).map(|amount| amount.map(AmountMinor::get))
        };
        for (text, currency, read) in [
            ("12,50", "usd", 1250),
            ("0,05", "usd", 5),
            ("€12,50", "eur", 1250),
            ("12,50 EUR", "eur", 1250),
            ("1250,00", "usd", 125_000),
            ("1,250.00", "usd", 125_000),
            ("1,234,567", "jpy", 1_234_567),
            ("1,250", "jpy", 1250),
            ("1,250.000", "kwd", 1_250_000),
        ] {
            assert_eq!(minor(text, currency), Ok(Some(read)), "{text} {currency}");
        }
        for (text, currency) in [
            ("1,250", "usd"),
            ("$1,250", "usd"),
            ("1,250", "kwd"),
            ("12,500", "kwd"),
            ("12,5", "usd"),
            ("12,5000", "usd"),
            ("1.250,00", "eur"),
            ("1,2,50", "usd"),
            (",50", "usd"),
            ("12,", "usd"),
            ("12,", "jpy"),
            ("12,50", "jpy"),
            ("12,50", "kwd"),
            ("-1,50", "usd"),
            ("1 250,00", "eur"),
        ] {
            let read = minor(text, currency);
            assert!(read.is_err_and(|wrong| wrong.starts_with("must be written like")), "{text} {currency}");
        }
    }

    #[test]
    fn another_currency_s_sign_is_not_dropped() {
        for (text, currency) in [
            ("€12.50", "usd"),
            ("¥500", "usd"),
            ("$ 12", "eur"),
            ("$12", "kwd"),
            ("$$12", "usd"),
            ("CA$12", "usd"),
            ("KWD 12", "usd"),
        ] {
            let read = parse_money(text, currency);
            let wrong = format!("must be in the payment's currency, {}", currency.to_ascii_uppercase());
            assert_eq!(read, Err(wrong), "{text}");
        }
        let minor = |text: &str, currency: &str| {
            parse_money(text, currency).map(|amount| amount.map(AmountMinor::get))
        };
        assert_eq!(minor("€12.50", "eur"), Ok(Some(1250)));
        assert_eq!(minor("¥500", "jpy"), Ok(Some(500)));
        assert_eq!(minor("$", "usd"), Err("must be written like 12.50".to_owned()));
    }

    #[test]
    fn who_asked_on_whose_behalf_is_named() {
        assert_eq!(doer("account:shop", r#"{"amount":5}"#), "shop");
        assert_eq!(
            doer("account:shop", r#"{"operator":"ada@example.com"}"#),
            "operator ada@example.com for shop"
        );
        assert_eq!(doer("account:shop", "not JSON"), "shop");
    }

    #[test]
    fn amounts_of_an_audit_record_are_money() {
        let shown = [
            r#"{"amount":2000,"currency":"usd","provider":"stripe"}"#,
            r#"{"amount_captured":500,"currency":"jpy","code":null}"#,
            r#"{"disputes":[{"amount":900,"id":"du_1"}],"currency":"eur"}"#,
            r#"{"amount":2000,"before":100}"#,
            r#"{"attempt":2}"#,
        ]
        .map(facts);
        let expected = [
            "amount $20.00, provider stripe",
            "amount_captured ¥500",
            r#"disputes [{"amount":"€9.00","id":"du_1"}]"#,
            "amount 2000 in minor units, before 100 in minor units",
            "attempt 2",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_personal_or_long_is_cut() {
        assert_eq!(masked("ada@example.com"), "a…@example.com");
        assert_eq!(masked("Your order"), "Your order");
        assert_eq!(short("pay_abcdefghijklmnop"), "pay_abcdefghij…");
        assert_eq!(short("pi_123"), "pi_123");
        let result = r#"{"error":"D1_ERROR: no such column: captured_minor"}"#;
        assert_eq!(facts(result), "error D1_ERROR: no s…");
        assert_eq!(facts_in_full(result), "error D1_ERROR: no such column: captured_minor");
    }
}
