//! Adyen counts some currencies in other minor units than Stripe, whose units are the product's: 1,000 pesos are 1000 at
//! Stripe and 100000 at Adyen. What is sent is converted here, and what is answered or told is converted back.
//!
//! Source: <https://docs.adyen.com/development-resources/currency-codes>, read on 2026-11-22. This table leads, not ISO 4217:
//! CLP, CVE, IDR and ISK differ from it. A currency that is not in it (AFN, ANG, BGN, BIF, CDF, LBP, LRD, LSL, MGA, STD, TJS)
//! is not sent to Adyen: a guessed factor would take 100 times the money.

use crate::payment::money::{AMOUNT_MAX_MINOR, Currency};
use crate::providers::codec::UnsupportedMoney;

const ZERO_DECIMALS: &str = "cve djf gnf idr jpy kmf krw pyg rwf ugx vnd vuv xaf xof xpf";

const TWO_DECIMALS: &str = "aed all amd aoa ars aud awg azn bam bbd bdt bmd bnd bob brl bsd bwp byn bzd cad chf clp cnh cny cop crc cup \
     czk dkk dop dzd egp etb eur fjd fkp gbp gel ghs gip gmd gtq gyd hkd hnl htg huf ils inr isk jmd kes kgs khr kyd kzt lak \
     lkr mad mdl mkd mmk mnt mop mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd pab pen pgk php pkr pln qar ron rsd rub \
     sar sbd scr sek sgd shp sle sos srd stn svc szl thb top try ttd twd tzs uah usd uyu uzs vef wst xcd xcg yer zar zmw";

const THREE_DECIMALS: &str = "bhd iqd jod kwd lyd omr tnd";

/// How many decimals Adyen's minor unit has; `None` if Adyen does not take the currency.
fn decimals(currency: Currency) -> Option<u32> {
    [(ZERO_DECIMALS, 0), (TWO_DECIMALS, 2), (THREE_DECIMALS, 3)].into_iter().find_map(|(codes, decimals)| {
        codes.split_ascii_whitespace().any(|code| code == currency.as_str()).then_some(decimals)
    })
}

/// Whether Adyen's minor unit of a currency is ours.
pub fn is_ours(currency: Currency) -> bool {
    decimals(currency) == Some(currency.decimals())
}

/// Adyen's minor units for an amount in ours. What they cannot express is refused, never rounded.
pub fn to_adyen(amount_minor: u64, currency: Currency) -> Result<i64, UnsupportedMoney> {
    let theirs = decimals(currency).ok_or_else(|| {
        UnsupportedMoney::Currency(format!("must be one that adyen takes: {currency} is not"))
    })?;
    let ours = currency.decimals();
    let amount_minor = i64::try_from(amount_minor)
        .map_err(|_| UnsupportedMoney::Amount("must be a smaller amount".to_owned()))?;
    let factor = 10i64.pow(theirs.abs_diff(ours));
    if theirs >= ours {
        // Twelve digits times at most a thousand.
        return Ok(amount_minor.saturating_mul(factor));
    }
    if amount_minor % factor != 0 {
        return Err(UnsupportedMoney::Amount(format!(
            "must be a multiple of {factor} in {currency}: adyen takes it in whole units only"
        )));
    }
    Ok(amount_minor / factor)
}

/// Our minor units for an amount of Adyen's; `None` if no amount of ours is that.
pub fn from_adyen(value: i64, currency: &str) -> Option<u64> {
    let currency = Currency::parse(currency)?;
    let (theirs, ours) = (decimals(currency)?, currency.decimals());
    let factor = 10i64.pow(theirs.abs_diff(ours));
    let minor = if ours >= theirs {
        value.checked_mul(factor)?
    } else if value % factor == 0 {
        value / factor
    } else {
        return None;
    };
    u64::try_from(minor).ok().filter(|minor| *minor <= AMOUNT_MAX_MINOR)
}

/// Our minor units for a decimal in major units, as reports have it; `None` if no amount of ours is that.
pub fn from_major(text: &str, currency: &str) -> Option<u64> {
    let decimals = decimals(Currency::parse(currency)?)?;
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let width = usize::try_from(decimals).ok()?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > width {
        return None;
    }
    from_adyen(format!("{whole}{fraction:0<width$}").parse().ok()?, currency)
}
