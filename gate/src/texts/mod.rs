//! What a person reads of the gate, in their language.

use web::locale::Locale;

mod de;
mod en;
mod es;
mod fr;
mod ja;
mod page_texts;

pub use page_texts::Texts;

impl Texts {
    /// Those of a language.
    pub const fn of(locale: Locale) -> &'static Self {
        match locale {
            Locale::En => &en::EN,
            Locale::De => &de::DE,
            Locale::Fr => &fr::FR,
            Locale::Es => &es::ES,
            Locale::Ja => &ja::JA,
        }
    }

    /// That so long, in ms, the site may still be at work on it; empty once it is over.
    pub fn within(&self, quiet_ms: u64) -> String {
        let (when, number) = match (quiet_ms.div_ceil(1_000), quiet_ms.div_ceil(60_000)) {
            (0, _) => return String::new(),
            (1, _) => (self.in_a_second, 1),
            (seconds @ ..=90, _) => (self.in_seconds, seconds),
            (_, minutes) => (self.in_minutes, minutes),
        };
        self.quiet.replace("{when}", &when.replace("{n}", &number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::say::Say;

    /// What only clients of an API are told.
    const TO_CLIENTS: [Say; 4] = [Say::KeyExpired, Say::KeySpent, Say::KeyInvalid, Say::Unidentified];

    fn all(t: &Texts) -> Vec<&'static str> {
        let pages = Say::ALL.iter().filter(|say| !TO_CLIENTS.contains(say)).map(|say| (t.page)(*say));
        let more = [t.closing, t.reference, t.see_answer, t.quiet, t.in_a_second, t.in_seconds, t.in_minutes];
        let buttons = [t.look_again, t.send_as_new, t.send_not_arrived, t.send];
        pages.flat_map(|(title, text)| [title, text]).chain(more).chain(buttons).collect()
    }

    #[test]
    fn every_language_says_it_in_its_own_words() {
        let english = all(Texts::of(Locale::En));
        for locale in Locale::ALL {
            for (text, english) in all(Texts::of(locale)).into_iter().zip(&english) {
                assert!(!text.is_empty() && text.trim() == text, "{locale:?}: {text}");
                assert!(!text.contains('\''), "an apostrophe is ’: {locale:?}: {text}");
                assert!(locale == Locale::En || text != *english, "{locale:?}: {text}");
            }
        }
    }

    #[test]
    fn it_is_said_when_it_is_over() {
        for (ms, when) in
            [(1, "in a second"), (1_001, "in 2 seconds"), (90_000, "in 90 seconds"), (90_001, "in 2 minutes")]
        {
            let text = Texts::of(Locale::En).within(ms);
            assert!(text.contains(when), "{ms}: {text}");
        }
        for locale in Locale::ALL {
            let t = Texts::of(locale);
            assert_eq!(t.within(0), "");
            for (ms, number) in [(1, ""), (30_000, "30"), (600_000, "10")] {
                let text = t.within(ms);
                assert!(text.contains(number) && !text.contains(['{', '}']), "{locale:?}: {text}");
            }
        }
    }
}
