//! Amounts and currencies: <https://docs.stripe.com/currencies>. An amount's minor units are Stripe's; a provider that counts
//! otherwise converts them when it encodes a request (see `providers::adyen::minor_units`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest amount of one payment, in minor units: eight digits.
pub const AMOUNT_MAX_MINOR: u32 = 99_999_999;

/// The presentment currencies, ISO 4217 in lower case.
const CURRENCIES: &str = "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf \
     clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk \
     jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad \
     ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sos srd std szl thb \
     tjs tnd top try ttd twd tzs uah ugx usd uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw";

/// Currencies without minor units: an amount of 500 is ¥500.
const ZERO_DECIMAL: &str = "bif clp djf gnf jpy kmf krw mga pyg rwf ugx vnd vuv xaf xof xpf";

/// Currencies of which the providers' own pages say two things: Stripe's list UGX as a currency without decimals and, one table
/// on, as one of two that end in 00. They can be read, for payments of before, and not be offered.
const CONTRADICTORY: &str = "ugx";

/// Currencies of three decimals; the last one must be 0, as card networks round it.
const THREE_DECIMAL: &str = "bhd jod kwd omr tnd";

/// A currency, ISO 4217 in lower case, as Stripe writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Currency([u8; 3]);

impl Currency {
    /// US dollars.
    pub const USD: Self = Self(*b"usd");

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
            _ if is_in(ZERO_DECIMAL, self) => 0,
            _ if is_in(THREE_DECIMAL, self) => 3,
            _ => 2,
        }
    }

    /// The sign that people write before an amount, where no other currency here has the same.
    pub fn sign(self) -> Option<char> {
        match self.as_str() {
            "usd" => Some('$'),
            "eur" => Some('€'),
            "gbp" => Some('£'),
            "jpy" => Some('¥'),
            _ => None,
        }
    }

    /// The least that can be charged, in minor units: about 0.50 US dollars, where the provider has fixed a sum.
    pub fn minimum_minor(self) -> u32 {
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
pub struct AmountMinor(u32);

impl AmountMinor {
    /// From a number; `None` if it is 0 or too large.
    pub const fn new(minor: u32) -> Option<Self> {
        if minor == 0 || minor > AMOUNT_MAX_MINOR { None } else { Some(Self(minor)) }
    }

    /// Parses what a request says: a whole number of minor units, in digits alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits {
            return Err("must be a whole number of minor units, such as 2500 for $25.00".to_owned());
        }
        let minor = text.parse::<u32>().unwrap_or(u32::MAX);
        Self::new(minor).ok_or_else(|| format!("must be from 1 to {AMOUNT_MAX_MINOR} minor units"))
    }

    /// In minor units.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Checks what a currency asks of the amount of a payment; the error says what to send.
    pub fn check(self, currency: Currency) -> Result<Self, String> {
        let minimum = currency.minimum_minor();
        if self.0 < minimum {
            return Err(format!(
                "must be at least {minimum} in {currency} ({})",
                for_people(minimum, currency)
            ));
        }
        self.check_rounding(currency)
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

/// An amount as people write it: `$1,234.50`, `€12.50`, `¥10,399,401`, `12.500 KWD`.
pub fn for_people(minor: u32, currency: Currency) -> String {
    let decimals = currency.decimals();
    let unit = 10u32.pow(decimals);
    let number = match decimals {
        0 => grouped(minor),
        _ => format!("{}.{:0width$}", grouped(minor / unit), minor % unit, width = decimals as usize),
    };
    match currency.sign() {
        Some(sign) => format!("{sign}{number}"),
        None => format!("{number} {}", currency.as_str().to_ascii_uppercase()),
    }
}

/// A whole number with a comma before every three digits.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let comma_before = |place: usize| place > 0 && (digits.len() - place).is_multiple_of(3);
    let written = |(place, digit)| [comma_before(place).then_some(','), Some(digit)];
    digits.chars().enumerate().flat_map(written).flatten().collect()
}
