//! Amounts and currencies: <https://docs.stripe.com/currencies>. An amount's minor units are Stripe's; a provider that counts
//! otherwise converts them when it encodes a request (see `providers::adyen::minor_units`).
//!
//! For people they are written by [CLDR](https://cldr.unicode.org), of which a library would bring more than all of our pages weigh.
//! `tests/worker/checkout-language.test.mjs` compares every currency with `Intl`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::locale::Locale;

/// The largest amount of one payment in any currency, in minor units: twelve digits, the most that Stripe takes of a card
/// (<https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts>).
pub const AMOUNT_MAX_MINOR: u64 = 999_999_999_999;

/// The largest amount in most currencies, in minor units: eight digits, which a slip of the keyboard does not exceed by much.
pub const USUAL_MAX_MINOR: u64 = 99_999_999;

/// Currencies of small units, in which eight digits are less than some 12,000 US dollars.
const OF_SMALL_UNITS: &str = "amd aoa ars cdf cop crc dzd huf idr inr isk jmd khr kzt lak lbp lkr mmk mnt ngn npr pkr rsd std tzs uzs \
     vnd yer";

/// The presentment currencies, ISO 4217 in lower case.
const CURRENCIES: &str = "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf \
     clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk \
     jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad \
     ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sos srd std szl thb \
     tjs tnd top try ttd twd tzs uah ugx usd uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw";

/// Currencies of which the providers' own pages say two things: Stripe's list UGX as a currency without decimals and, one table
/// on, as one of two that end in 00. They can be read, for payments of before, and not be offered.
const CONTRADICTORY: &str = "ugx";

/// A currency, ISO 4217 in lower case, as Stripe writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Currency([u8; 3]);

impl Currency {
    /// US dollars.
    pub const USD: Self = Self(*b"usd");
    /// Those without minor units, with spaces between them: an amount of 500 is ¥500.
    pub const ZERO_DECIMAL: &str = "bif clp djf gnf jpy kmf krw mga pyg rwf ugx vnd vuv xaf xof xpf";
    /// Those of three decimals; the last one must be 0, as card networks round it.
    pub const THREE_DECIMAL: &str = "bhd jod kwd omr tnd";

    /// Parses three letters in either case; `None` if it is not one that can be charged.
    pub fn parse(text: &str) -> Option<Self> {
        let code: [u8; 3] = text.to_ascii_lowercase().into_bytes().try_into().ok()?;
        let currency = Self(code);
        is_in(CURRENCIES, currency).then_some(currency)
    }

    /// Parses the currency of a new payment; the error says what to send.
    pub fn parse_offered(text: &str) -> Result<Self, String> {
        let currency = Self::parse(text)
            .ok_or_else(|| "must be a currency by ISO 4217 that can be charged, such as usd".to_owned())?;
        if !currency.is_offered() {
            return Err(format!(
                "must be another one: {currency} is not offered, because the payment providers contradict themselves about its \
                 minor unit"
            ));
        }
        Ok(currency)
    }

    /// Whether a new payment may be in it.
    pub fn is_offered(self) -> bool {
        !is_in(CONTRADICTORY, self)
    }

    /// In lower case.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// How many decimals an amount has for people: 0, 2 or 3.
    pub fn decimals(self) -> u32 {
        match self {
            _ if is_in(Self::ZERO_DECIMAL, self) => 0,
            _ if is_in(Self::THREE_DECIMAL, self) => 3,
            _ => 2,
        }
    }

    /// The currency of a sign in English, where no other one here has the same.
    pub fn of_sign(text: &str) -> Option<Self> {
        let known = |(_, sign): &&(&str, &str)| *sign == text && text.chars().count() == 1;
        let (code, _) = ENGLISH.iter().chain(SHARED).find(known)?;
        Self::parse(code)
    }

    /// The most that can be charged, in minor units.
    pub fn maximum_minor(self) -> u64 {
        if is_in(OF_SMALL_UNITS, self) { AMOUNT_MAX_MINOR } else { USUAL_MAX_MINOR }
    }

    /// The least that can be charged, in minor units: about 0.50 US dollars, where the provider has fixed a sum.
    pub fn minimum_minor(self) -> u64 {
        match self.as_str() {
            "gbp" => 30,
            "aed" | "myr" | "pln" | "ron" => 200,
            "bgn" => 100,
            "dkk" => 250,
            "nok" | "sek" => 300,
            "hkd" => 400,
            "mxn" | "thb" => 1_000,
            "czk" => 1_500,
            "huf" => 17_500,
            _ => 50,
        }
    }
}

fn is_in(list: &str, currency: Currency) -> bool {
    list.split_ascii_whitespace().any(|code| code == currency.as_str())
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.as_str().to_owned()
    }
}

impl TryFrom<String> for Currency {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a currency")
    }
}

/// An amount of money in minor units of its currency: 1 to [`AMOUNT_MAX_MINOR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AmountMinor(u64);

impl AmountMinor {
    /// From a number; `None` if it is 0 or too large.
    pub const fn new(minor: u64) -> Option<Self> {
        if minor == 0 || minor > AMOUNT_MAX_MINOR { None } else { Some(Self(minor)) }
    }

    /// Parses what a request says: a whole number of minor units, in digits alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits {
            return Err("must be a whole number of minor units, such as 2500 for $25.00".to_owned());
        }
        let minor = text.parse::<u64>().unwrap_or(u64::MAX);
        Self::new(minor).ok_or_else(|| format!("must be from 1 to {AMOUNT_MAX_MINOR} minor units"))
    }

    /// In minor units.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Checks what a currency asks of the amount of a payment at Stripe; the error says what to send.
    pub fn check(self, currency: Currency) -> Result<Self, String> {
        self.check_minimum(currency)?.check_maximum(currency)?.check_rounding(currency)
    }

    /// Checks the most that is taken in a currency.
    pub fn check_maximum(self, currency: Currency) -> Result<Self, String> {
        let maximum = currency.maximum_minor();
        if self.0 > maximum {
            return Err(format!(
                "must be at most {maximum} in {currency} ({})",
                for_people(Locale::En, maximum, currency)
            ));
        }
        Ok(self)
    }

    /// Checks the least that Stripe takes: Adyen names none.
    pub fn check_minimum(self, currency: Currency) -> Result<Self, String> {
        let minimum = currency.minimum_minor();
        if self.0 < minimum {
            return Err(format!(
                "must be at least {minimum} in {currency} ({})",
                for_people(Locale::En, minimum, currency)
            ));
        }
        Ok(self)
    }

    /// The rule that holds for a part of a payment too: three decimals end in 0, and so do the two of a currency that has
    /// decimals at the providers only.
    pub fn check_rounding(self, currency: Currency) -> Result<Self, String> {
        if currency.decimals() == 3 && !self.0.is_multiple_of(10) {
            return Err(format!(
                "must be a multiple of 10 in {currency}: its third decimal cannot be charged"
            ));
        }
        if currency.as_str() == "isk" && !self.0.is_multiple_of(100) {
            return Err(
                "must be a multiple of 100 in isk: it has no fractions, such as 50000 for 500 kr".to_owned()
            );
        }
        Ok(self)
    }
}

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

/// An amount in minor units, as people of this language write it: `$1,234.50`, `KWD 12.500`, `1.234,50 €`.
pub fn for_people(locale: Locale, minor: u64, currency: Currency) -> String {
    let number = number(locale, minor, currency.decimals());
    let sign = sign(locale, currency).map_or_else(|| currency.as_str().to_ascii_uppercase(), str::to_owned);
    match locale {
        Locale::En | Locale::Ja if sign.ends_with(char::is_alphabetic) => format!("{sign}{NO_BREAK}{number}"),
        Locale::En | Locale::Ja => format!("{sign}{number}"),
        Locale::De | Locale::Fr | Locale::Es => format!("{number}{NO_BREAK}{sign}"),
    }
}

/// The sign that people of this language write for a currency; `None` where they write its code.
pub fn sign(locale: Locale, currency: Currency) -> Option<&'static str> {
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
fn number(locale: Locale, minor: u64, decimals: u32) -> String {
    let (group, point) = match locale {
        Locale::En | Locale::Ja => (',', '.'),
        Locale::De | Locale::Es => ('.', ','),
        Locale::Fr => (NARROW, ','),
    };
    let unit = 10u64.pow(decimals);
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
            let text = for_people(locale, minor, Currency::parse(code).unwrap());
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
}
