//! Which language a browser gets: the best of its `Accept-Language` that there is
//! ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#name-accept-language), with the lookup of
//! [RFC 4647](https://www.rfc-editor.org/rfc/rfc4647#section-3.4)).

use payments::payment::locale::Locale;

/// The most ranges of a header that are looked at.
const RANGES_MAX: usize = 50;

/// The language for this header; English without one, and where none of it is spoken here.
pub fn negotiate(accept_language: Option<&str>) -> Locale {
    let mut best = (0, Locale::default());
    let ranges = accept_language.unwrap_or_default().split(',').take(RANGES_MAX);
    for (range, weight) in ranges.filter_map(weighted) {
        // Of two that weigh the same the first one counts.
        if let Some(locale) = lookup(range)
            && weight > best.0
        {
            best = (weight, locale);
        }
    }
    best.1
}

/// `de-CH;q=0.9` as its range and its weight in thousandths.
fn weighted(entry: &str) -> Option<(&str, u16)> {
    let mut parts = entry.split(';').map(str::trim);
    let range = parts.next()?;
    let weight = match parts.next() {
        None => 1000,
        Some(parameter) => {
            let (name, value) = parameter.split_once('=')?;
            if !name.trim().eq_ignore_ascii_case("q") {
                return None;
            }
            thousandths(value.trim())?
        }
    };
    Some((range, weight))
}

/// A weight: 0 to 1 with at most three decimals.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = format!("{decimals:0<3}").parse::<u16>().ok()?;
    match (whole, part) {
        ("0", _) => Some(part),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

/// The language of a range: what stands behind its first parts is left off until one fits. `*` is whatever is the default.
fn lookup(range: &str) -> Option<Locale> {
    if range == "*" {
        return Some(Locale::default());
    }
    let primary = range.split('-').next().unwrap_or_default();
    let is_range = range.split('-').all(|part| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'*')
    });
    Locale::parse(primary).filter(|_| is_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_is_spoken_wins() {
        for (header, locale) in [
            ("de", Locale::De),
            ("de-CH, de;q=0.9, en;q=0.8", Locale::De),
            ("DE-at", Locale::De),
            ("zh-Hant-TW, ja;q=0.5, en;q=0.4", Locale::Ja),
            ("en;q=0.3, fr-CA;q=0.7", Locale::Fr),
            ("es-419,es;q=0.9", Locale::Es),
            ("fr;q=0.5, es;q=0.5", Locale::Fr),
            ("it, *;q=0.5", Locale::En),
            ("it", Locale::En),
            ("de;q=0, fr;q=0.1", Locale::Fr),
            ("de;q=0", Locale::En),
            ("fr ; q=0.999 , de ; Q=1.000", Locale::De),
        ] {
            assert_eq!(negotiate(Some(header)), locale, "{header}");
        }
        assert_eq!(negotiate(None), Locale::En);
    }

    #[test]
    fn what_is_no_range_or_no_weight_is_passed_over() {
        for header in [
            "",
            ",",
            "de_DE",
            "de-",
            "de;q=1.1",
            "de;q=0.1234",
            "de;q=-1",
            "de;q",
            "de;v=1",
            "deutsch",
            "de-überall",
        ] {
            assert_eq!(negotiate(Some(header)), Locale::En, "{header}");
            assert_eq!(negotiate(Some(&format!("{header},fr;q=0.1"))), Locale::Fr, "{header}");
        }
        let long = format!("{}ja", "xx,".repeat(10_000));
        assert_eq!(negotiate(Some(&long)), Locale::En, "it is not read for ever");
    }
}
