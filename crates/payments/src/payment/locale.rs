//! The languages in which a customer is spoken to.

use serde::{Deserialize, Serialize};

/// A language of the customer's pages and emails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", from = "String")]
pub enum Locale {
    /// English, where nothing else is known.
    #[default]
    En,
    /// German.
    De,
    /// French.
    Fr,
    /// Spanish.
    Es,
    /// Japanese.
    Ja,
}

impl Locale {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::En, Self::De, Self::Fr, Self::Es, Self::Ja];

    /// Its tag by [BCP 47](https://www.rfc-editor.org/info/bcp47).
    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::De => "de",
            Self::Fr => "fr",
            Self::Es => "es",
            Self::Ja => "ja",
        }
    }

    /// Whether it is the one that is meant where none is said.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like that")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The language of this tag, in either case.
    pub fn parse(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|locale| locale.tag().eq_ignore_ascii_case(tag))
    }
}

impl From<Locale> for &'static str {
    fn from(locale: Locale) -> Self {
        locale.tag()
    }
}

impl From<String> for Locale {
    /// What a newer release has written in a language that this one does not speak is English here.
    fn from(tag: String) -> Self {
        Self::parse(&tag).unwrap_or_default()
    }
}
