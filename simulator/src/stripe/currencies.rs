//! Currencies and the limits of an amount: <https://docs.stripe.com/currencies>.

use crate::money::format_minor;
use crate::stripe::errors::{ApiError, Outcome, at_least_one};
use crate::text::excerpt;

/// The largest amount, in the smallest unit: eight digits, of some currencies more.
/// <https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts>
pub fn maximum_minor(currency: &str) -> i64 {
    match currency {
        "idr" => 999_999_999_999,
        "inr" => 999_999_999,
        _ => 99_999_999,
    }
}

const SUPPORTED: &str = "usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf clp \
     cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl hrk htg huf idr ils inr isk jmd jod jpy kes \
     kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mro mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab \
     pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sll sos srd std svc szl thb tjs tnd top try ttd twd tzs uah ugx \
     usdc uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw";

const ZERO_DECIMAL: &[&str] = &[
    "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv", "xaf", "xof",
    "xpf",
];

const THREE_DECIMAL: &[&str] = &["bhd", "jod", "kwd", "omr", "tnd"];

/// Of two decimals, which must be 00: <https://docs.stripe.com/currencies#special-cases>. UGX stands among the zero-decimal ones too; here
/// it is what the table of special cases says.
const WHOLE_UNITS: &[&str] = &["isk", "ugx"];

/// How many decimals the smallest unit has.
pub fn decimals(currency: &str) -> u32 {
    match currency {
        _ if WHOLE_UNITS.contains(&currency) => 2,
        _ if ZERO_DECIMAL.contains(&currency) => 0,
        _ if THREE_DECIMAL.contains(&currency) => 3,
        _ => 2,
    }
}

/// What card networks cannot settle is refused, of a part of a payment too.
pub fn check_rounding(name: &str, amount_minor: i64, currency: &str) -> Outcome<()> {
    let unit = match currency {
        _ if WHOLE_UNITS.contains(&currency) => 100,
        _ if THREE_DECIMAL.contains(&currency) => 10,
        _ => return Ok(()),
    };
    if amount_minor % unit == 0 {
        return Ok(());
    }
    let message = format!("Invalid {currency} amount: it must be divisible by {unit}");
    Err(ApiError::invalid(message).param(name).refused())
}

/// Parses a currency; Stripe answers in lower case.
pub fn parse(text: &str) -> Outcome<String> {
    let currency = text.to_ascii_lowercase();
    if SUPPORTED.split_ascii_whitespace().any(|known| known == currency) {
        return Ok(currency);
    }
    let known: Vec<&str> = SUPPORTED.split_ascii_whitespace().collect();
    Err(ApiError::invalid(format!(
        "Invalid currency: {}. Stripe currently supports these currencies: {}",
        excerpt(&currency),
        known.join(", ")
    ))
    .param("currency")
    .refused())
}

/// The least that can be charged.
pub fn minimum_minor(currency: &str) -> i64 {
    match currency {
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

/// Checks the amount of a new payment.
pub fn check_amount(amount_minor: i64, currency: &str) -> Outcome<()> {
    if amount_minor < 1 {
        return Err(at_least_one("amount").refused());
    }
    let maximum = maximum_minor(currency);
    if amount_minor > maximum {
        return Err(ApiError::invalid(format!(
            "Amount must be no more than {}",
            format_amount(maximum, currency)
        ))
        .code("amount_too_large")
        .param("amount")
        .refused());
    }
    let minimum = minimum_minor(currency);
    if amount_minor < minimum {
        return Err(ApiError::invalid(format!(
            "Amount must be at least {}",
            format_amount(minimum, currency)
        ))
        .code("amount_too_small")
        .param("amount")
        .refused());
    }
    check_rounding("amount", amount_minor, currency)
}

/// An amount for a person: `$12.50 usd`, `¥500 jpy`.
pub fn format_amount(amount_minor: i64, currency: &str) -> String {
    format_minor(amount_minor, currency, decimals(currency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_a_person_writes_them() {
        assert_eq!(format_amount(99_999_999, "usd"), "$999,999.99 usd");
        assert_eq!(format_amount(50, "usd"), "$0.50 usd");
        assert_eq!(format_amount(1_500, "jpy"), "¥1,500 jpy");
        assert_eq!(format_amount(12_500, "kwd"), "12.500 kwd");
    }

    #[test]
    fn limits_and_unknown_currencies_are_refused() {
        assert!(check_amount(50, "usd").is_ok());
        assert!(check_amount(49, "usd").is_err());
        assert!(check_amount(500, "isk").is_ok() && check_amount(501, "isk").is_err());
        assert!(check_amount(1_000, "kwd").is_ok() && check_amount(1_001, "kwd").is_err());
        assert!(check_amount(50_050, "ugx").is_err());
        assert!(check_amount(0, "usd").is_err());
        for (currency, digits) in [("usd", 8), ("jpy", 8), ("inr", 9), ("idr", 12)] {
            let beyond = 10_i64.pow(digits);
            assert!(check_amount(beyond - 1, currency).is_ok(), "{currency}");
            assert!(check_amount(beyond, currency).is_err(), "{currency}");
        }
        assert_eq!(parse("USD"), Ok("usd".to_owned()));
        assert!(parse("xyz").is_err());
    }
}
