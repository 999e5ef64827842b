//! What a customer reads, in their language: [which one](negotiate), [what is said](messages), and how
//! [amounts and times](numbers) are written in it. What programs, shops and operators read stays English.

pub mod messages;
pub mod negotiate;
pub mod numbers;
mod problems;

mod de;
mod en;
mod es;
mod fr;
mod ja;

pub use en::EN;
pub use messages::Messages;
pub use payments::payment::locale::Locale;

impl Messages {
    /// Those of a language.
    pub const fn of(locale: Locale) -> &'static Self {
        match locale {
            Locale::En => &EN,
            Locale::De => &de::DE,
            Locale::Fr => &fr::FR,
            Locale::Es => &es::ES,
            Locale::Ja => &ja::JA,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: [&str; 2] = ["refund_on", "refund_pending"];

    /// The names in braces of a message, in the order in which they stand there.
    fn placeholders(text: &str) -> Vec<&str> {
        text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect()
    }

    #[test]
    fn every_language_has_every_message_with_its_placeholders() {
        for locale in Locale::ALL {
            for (name, text, values) in Messages::of(locale).all() {
                let mut found = placeholders(text);
                let mut values = values.to_vec();
                found.sort_unstable();
                values.sort_unstable();
                assert_eq!(found, values, "{locale:?} {name}: {text}");
                assert!(!text.trim().is_empty(), "{locale:?} {name}");
                if !PREFIX.contains(&name) {
                    assert_eq!(text.trim(), text, "{locale:?} {name}");
                }
                assert!(!text.contains('\''), "an apostrophe is ’: {locale:?} {name}: {text}");
            }
        }
    }

    #[test]
    fn no_language_has_a_message_of_another() {
        // Words that are the same in both.
        let same = |locale: Locale, name: &str| match name {
            "demo" | "support" => true,
            "fact" => locale != Locale::Fr,
            "optional" => locale == Locale::De,
            "total" | "receipt_total" => matches!(locale, Locale::Fr | Locale::Es),
            _ => false,
        };
        for locale in Locale::ALL.into_iter().filter(|locale| *locale != Locale::En) {
            for ((name, text, _), (_, english, _)) in Messages::of(locale).all().iter().zip(EN.all()) {
                assert!(*text != english || same(locale, name), "{locale:?} {name}: {text}");
            }
        }
    }

    #[test]
    fn what_has_a_value_shows_it_and_nothing_of_the_value_is_filled_in() {
        assert_eq!(EN.pay("{total}"), "Pay {total}");
        assert_eq!(EN.refunded_in_part("$1", "{on}", "."), "Partly refunded: $1{on}..");
        assert_eq!(Messages::of(Locale::Ja).pay("￥500"), "￥500 を支払う");
    }

    #[test]
    fn no_french_colon_is_parted_from_its_word() {
        for (name, text, _) in Messages::of(Locale::Fr).all() {
            assert_eq!(text.matches(": ").count(), text.matches("\u{a0}: ").count(), "{name}: {text}");
        }
        assert_eq!(Messages::of(Locale::Fr).fact("Total", "5 €"), "Total\u{a0}: 5 €");
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        for locale in Locale::ALL {
            let t = Messages::of(locale);
            // Another form, or another link, may have charged something.
            for text in [t.link_broken, t.unreadable_form_text, t.cannot_show_text] {
                assert!(!text.contains(t.nothing_charged), "{locale:?}: {text}");
            }
            // What is reserved is charged later: only of what is charged is that never done again.
            let again = t.charged_once.split_inclusive([':', '。']).next_back().unwrap_or_default().trim();
            assert!(!t.reserved_once.contains(again), "{locale:?}: {}", t.reserved_once);
            // Where there is no button for another card, nobody is told to press it.
            for text in [t.nothing_before, t.card_not_used_text] {
                assert!(!text.contains(t.another_card), "{locale:?}: {text}");
            }
        }
    }

    #[test]
    fn a_button_fits_on_a_narrow_phone() {
        for locale in Locale::ALL {
            let t = Messages::of(locale);
            let most = if locale == Locale::Ja { 16 } else { 34 };
            for text in [t.continue_to_bank, t.another_card, t.check_now, t.back_to_shop, t.try_again] {
                assert!(text.chars().count() <= most, "{locale:?}: {text}");
            }
        }
    }
}
