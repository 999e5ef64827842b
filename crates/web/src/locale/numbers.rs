//! Amounts and times as people write them in their language: by [CLDR](https://cldr.unicode.org), of which a library would bring
//! more than all of our pages weigh.

use chrono::{Datelike as _, Timelike as _};

use super::messages::Messages;
use payments::payment::locale::Locale;
use payments::payment::money::Currency;
use payments::payment::money::for_people;
use payments::utc;

const MONTHS: [(Locale, &str); 4] = [
    (Locale::En, "January February March April May June July August September October November December"),
    (Locale::De, "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
    (Locale::Fr, "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    (Locale::Es, "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
];

impl Messages {
    /// An amount: `$1,234.50`, `1.234,50 €`.
    pub fn money(&self, minor: u64, currency: Currency) -> String {
        for_people(self.locale, minor, currency)
    }

    /// A time in ms since the epoch, in UTC: `21 November 2026, 09:30 UTC`.
    pub fn date(&self, ms: u64) -> String {
        let Some(at) = utc(ms) else { return String::new() };
        let month = usize::try_from(at.month0()).unwrap_or_default();
        let names = MONTHS.iter().find(|(locale, _)| *locale == self.locale);
        let month = names.and_then(|(_, names)| names.split(' ').nth(month)).unwrap_or_default();
        let (year, day, hour, minute) = (at.year(), at.day(), at.hour(), at.minute());
        match self.locale {
            Locale::En => format!("{day} {month} {year}, {hour:02}:{minute:02} UTC"),
            Locale::De => format!("{day}. {month} {year}, {hour:02}:{minute:02} UTC"),
            Locale::Fr => format!("{day} {month} {year} à {hour:02}:{minute:02} UTC"),
            Locale::Es => format!("{day} de {month} de {year}, {hour}:{minute:02} UTC"),
            Locale::Ja => format!("{year}年{}月{day}日 {hour}:{minute:02} UTC", at.month()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_the_language_does_and_in_utc() {
        let date = |locale, ms| Messages::of(locale).date(ms);
        let march = 1_772_355_900_000; // 2026-03-01T09:05:00Z
        assert_eq!(date(Locale::En, march), "1 March 2026, 09:05 UTC");
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
