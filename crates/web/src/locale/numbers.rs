//! Amounts and times as people write them in their language: by [CLDR](https://cldr.unicode.org), of which a library would bring
//! more than all of our pages weigh. `tests/worker/checkout-language.test.mjs` compares every currency with `Intl`.

use super::messages::Messages;
use payments::payment::locale::Locale;
use payments::payment::money::Currency;
use payments::utc;

/// A space at which no line breaks.
const NO_BREAK: char = '\u{a0}';
/// The same, narrow.
const NARROW: char = '\u{202f}';

/// Signs that are the same in every language that has one for the currency, but for [`sign`]'s own.
const SHARED: &[(&str, &str)] = &[
    ("brl", "R$"),
    ("eur", "€"),
    ("gbp", "£"),
    ("ils", "₪"),
    ("inr", "₹"),
    ("krw", "₩"),
    ("usd", "$"),
    ("vnd", "₫"),
    ("xaf", "FCFA"),
    ("xof", "F\u{202f}CFA"),
    ("xpf", "CFPF"),
];
const ENGLISH: &[(&str, &str)] = &[
    ("aud", "A$"),
    ("cad", "CA$"),
    ("cny", "CN¥"),
    ("hkd", "HK$"),
    ("jpy", "¥"),
    ("mxn", "MX$"),
    ("nzd", "NZ$"),
    ("php", "₱"),
    ("twd", "NT$"),
    ("xcd", "EC$"),
];
const GERMAN: &[(&str, &str)] = &[
    ("aud", "AU$"),
    ("cad", "CA$"),
    ("cny", "CN¥"),
    ("hkd", "HK$"),
    ("jpy", "¥"),
    ("mxn", "MX$"),
    ("nzd", "NZ$"),
    ("thb", "฿"),
    ("twd", "NT$"),
    ("xcd", "EC$"),
];
const FRENCH: &[(&str, &str)] = &[
    ("ars", "$AR"),
    ("aud", "$AU"),
    ("bmd", "$BM"),
    ("bnd", "$BN"),
    ("bzd", "$BZ"),
    ("cad", "$CA"),
    ("clp", "$CL"),
    ("cop", "$CO"),
    ("fjd", "$FJ"),
    ("fkp", "£FK"),
    ("gbp", "£GB"),
    ("gip", "£GI"),
    ("lbp", "£LB"),
    ("mxn", "$MX"),
    ("nad", "$NA"),
    ("nzd", "$NZ"),
    ("sbd", "$SB"),
    ("sgd", "$SG"),
    ("srd", "$SR"),
    ("ttd", "$TT"),
    ("usd", "$US"),
    ("uyu", "$UY"),
    ("wst", "$WS"),
    ("xpf", "FCFP"),
];
/// Spanish shares hardly any.
const SPANISH: &[(&str, &str)] = &[("eur", "€"), ("thb", "฿"), ("usd", "US$"), ("vnd", "₫"), ("xpf", "CFPF")];
const JAPANESE: &[(&str, &str)] = &[
    ("aud", "A$"),
    ("cad", "CA$"),
    ("cny", "元"),
    ("hkd", "HK$"),
    ("jpy", "￥"),
    ("mxn", "MX$"),
    ("nzd", "NZ$"),
    ("twd", "NT$"),
    ("xcd", "EC$"),
];

const MONTHS: [(Locale, &str); 4] = [
    (Locale::En, "January February March April May June July August September October November December"),
    (Locale::De, "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
    (Locale::Fr, "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    (Locale::Es, "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
];

impl Messages {
    /// An amount: `$1,234.50`, `1.234,50 €`.
    pub fn money(&self, minor: u32, currency: Currency) -> String {
        let number = number(self.locale, minor, currency.decimals());
        let sign = sign(self.locale, currency);
        let sign = sign.map_or_else(|| currency.as_str().to_ascii_uppercase(), str::to_owned);
        match self.locale {
            Locale::En | Locale::Ja if sign.ends_with(char::is_alphabetic) => {
                format!("{sign}{NO_BREAK}{number}")
            }
            Locale::En | Locale::Ja => format!("{sign}{number}"),
            Locale::De | Locale::Fr | Locale::Es => format!("{number}{NO_BREAK}{sign}"),
        }
    }

    /// A time in ms since the epoch, in UTC: `21 November 2026, 09:30 UTC`.
    pub fn date(&self, ms: u64) -> String {
        let Some(at) = utc(ms) else { return String::new() };
        let month = usize::try_from(chrono::Datelike::month0(&at)).unwrap_or_default();
        let names = MONTHS.iter().find(|(locale, _)| *locale == self.locale);
        let month = names.and_then(|(_, names)| names.split(' ').nth(month)).unwrap_or_default();
        let with = |pattern: &str| at.format(pattern).to_string();
        match self.locale {
            Locale::En => with(&format!("%-d {month} %Y, %H:%M UTC")),
            Locale::De => with(&format!("%-d. {month} %Y, %H:%M UTC")),
            Locale::Fr => with(&format!("%-d {month} %Y à %H:%M UTC")),
            Locale::Es => with(&format!("%-d de {month} de %Y, %-H:%M UTC")),
            Locale::Ja => with("%Y年%-m月%-d日 %-H:%M UTC"),
        }
    }
}

fn sign(locale: Locale, currency: Currency) -> Option<&'static str> {
    let (own, shared) = match locale {
        Locale::En => (ENGLISH, SHARED),
        Locale::De => (GERMAN, SHARED),
        Locale::Fr => (FRENCH, SHARED),
        Locale::Es => (SPANISH, [].as_slice()),
        Locale::Ja => (JAPANESE, SHARED),
    };
    let known = own.iter().chain(shared).find(|(code, _)| *code == currency.as_str());
    known.map(|(_, sign)| *sign)
}

/// A number with this many decimals.
fn number(locale: Locale, minor: u32, decimals: u32) -> String {
    let (group, point) = match locale {
        Locale::En | Locale::Ja => (',', '.'),
        Locale::De | Locale::Es => ('.', ','),
        Locale::Fr => (NARROW, ','),
    };
    let unit = 10u32.pow(decimals);
    let digits = (minor / unit).to_string();
    // Spanish leaves four digits together.
    let is_grouped = digits.len() > if locale == Locale::Es { 4 } else { 3 };
    let mut number = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if is_grouped && place > 0 && (digits.len() - place).is_multiple_of(3) {
            number.push(group);
        }
        number.push(digit);
    }
    if decimals > 0 {
        number.push(point);
        number.push_str(&format!("{:0width$}", minor % unit, width = decimals as usize));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_written_as_the_language_does() {
        let money = |locale, minor, code| {
            let text = Messages::of(locale).money(minor, Currency::parse(code).unwrap());
            text.replace(NO_BREAK, "~").replace(NARROW, "^")
        };
        for (locale, minor, code, text) in [
            (Locale::En, 123_456, "usd", "$1,234.56"),
            (Locale::En, 12_500, "kwd", "KWD~12.500"),
            (Locale::De, 123_456, "eur", "1.234,56~€"),
            (Locale::De, 5, "eur", "0,05~€"),
            (Locale::Fr, 123_456, "eur", "1^234,56~€"),
            (Locale::Fr, 123_456, "usd", "1^234,56~$US"),
            (Locale::Es, 123_456, "eur", "1234,56~€"),
            (Locale::Es, 1_234_567, "eur", "12.345,67~€"),
            (Locale::Ja, 1_235, "jpy", "￥1,235"),
            (Locale::Ja, 123_456, "cny", "元~1,234.56"),
            (Locale::En, 99_999_999, "jpy", "¥99,999,999"),
        ] {
            assert_eq!(money(locale, minor, code), text);
        }
    }

    #[test]
    fn a_time_is_written_as_the_language_does_and_in_utc() {
        let date = |locale, ms| Messages::of(locale).date(ms);
        let march = 1_772_355_900_000; // 2026-03-01T09:05:00Z
        assert_eq!(date(Locale::En, march), "1 March 2026, 09:05 UTC");
        assert_eq!(date(Locale::En, march), payments::date_for_people(march), "as operators read it");
        assert_eq!(date(Locale::De, march), "1. März 2026, 09:05 UTC");
        assert_eq!(date(Locale::Fr, march), "1 mars 2026 à 09:05 UTC");
        assert_eq!(date(Locale::Es, march), "1 de marzo de 2026, 9:05 UTC");
        assert_eq!(date(Locale::Ja, march), "2026年3月1日 9:05 UTC");
        assert_eq!(date(Locale::De, u64::MAX), "");
    }

    #[test]
    fn every_language_has_twelve_months() {
        for (locale, names) in MONTHS {
            assert_eq!(names.split(' ').count(), 12, "{locale:?}");
        }
    }
}
