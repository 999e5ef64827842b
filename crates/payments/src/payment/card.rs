//! The card that paid, as far as a person recognises it: its brand and its last four digits. The number itself never comes here. Both are
//! personal, so they stand in the payment alone and go with its other [personal data](crate::transitions::pii).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A card.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Card {
    /// Whose it is.
    pub brand: Brand,
    /// The last four digits of its number.
    pub last4: Last4,
}

impl Card {
    /// Of what Stripe says. `None` without the last four digits: a brand alone is no card that a person recognises.
    pub fn of_stripe(brand: &str, last4: &str) -> Option<Self> {
        Some(Self { brand: Brand::parse(brand), last4: Last4::parse(last4)? })
    }

    /// Of what Adyen says.
    pub fn of_adyen(brand: &str, summary: &str) -> Option<Self> {
        Some(Self { brand: Brand::of_adyen(brand), last4: Last4::parse(summary)? })
    }
}

/// What is written for debugging, such as a log line, never has the digits.
impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Card(…)")
    }
}

/// For people, in any language: `Visa ···· 4242`. Without a brand that is known the digits alone.
impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.brand.name() {
            "" => write!(f, "···· {}", self.last4.as_str()),
            name => write!(f, "{name} ···· {}", self.last4.as_str()),
        }
    }
}

/// The last four digits of a card's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Last4([u8; 4]);

impl Last4 {
    /// Parses four digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: [u8; 4] = text.as_bytes().try_into().ok()?;
        digits.iter().all(u8::is_ascii_digit).then_some(Self(digits))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<Last4> for String {
    fn from(last4: Last4) -> Self {
        last4.as_str().to_owned()
    }
}

impl TryFrom<String> for Last4 {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not four digits")
    }
}

/// Whose card it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "brands")]
pub enum Brand {
    Amex,
    Bancontact,
    CartesBancaires,
    Diners,
    Discover,
    EftposAu,
    Jcb,
    Maestro,
    Mastercard,
    #[serde(rename = "unionpay")]
    UnionPay,
    Visa,
    /// Another one, or none that the provider names.
    #[serde(other)]
    Unknown,
}

/// Each brand: as the API and Stripe write it, as people do, and as Adyen writes it.
/// <https://docs.stripe.com/api/charges/object#charge_object-payment_method_details-card-brand>,
/// <https://docs.adyen.com/payment-methods/cards/>
const BRANDS: [(Brand, &str, &str, &str); 11] = [
    (Brand::Amex, "amex", "American Express", "amex"),
    (Brand::Bancontact, "bancontact", "Bancontact", "bcmc"),
    (Brand::CartesBancaires, "cartes_bancaires", "Cartes Bancaires", "cartebancaire"),
    (Brand::Diners, "diners", "Diners Club", "diners"),
    (Brand::Discover, "discover", "Discover", "discover"),
    (Brand::EftposAu, "eftpos_au", "eftpos", "eftpos_australia"),
    (Brand::Jcb, "jcb", "JCB", "jcb"),
    (Brand::Maestro, "maestro", "Maestro", "maestro"),
    (Brand::Mastercard, "mastercard", "Mastercard", "mc"),
    (Brand::UnionPay, "unionpay", "UnionPay", "cup"),
    (Brand::Visa, "visa", "Visa", "visa"),
];

impl Brand {
    /// Every word that the API has for one.
    pub fn words() -> impl Iterator<Item = &'static str> {
        BRANDS.into_iter().map(|(_, word, ..)| word).chain([Self::Unknown.as_str()])
    }

    fn parse(word: &str) -> Self {
        let known = BRANDS.into_iter().find(|(_, known, ..)| *known == word);
        known.map_or(Self::Unknown, |(brand, ..)| brand)
    }

    /// Adyen adds the wallet through which the card came: `visa_applepay`.
    fn of_adyen(word: &str) -> Self {
        let is_it = |known: &str| {
            word.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let known = BRANDS.into_iter().find(|(.., known)| is_it(known));
        known.map_or(Self::Unknown, |(brand, ..)| brand)
    }

    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        let known = BRANDS.into_iter().find(|(brand, ..)| *brand == self);
        known.map_or("unknown", |(_, word, ..)| word)
    }

    /// As people write it; empty for one that is not known.
    pub fn name(self) -> &'static str {
        let known = BRANDS.into_iter().find(|(brand, ..)| *brand == self);
        known.map_or("", |(_, _, name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_providers_words_for_a_brand_are_one_and_are_written_as_they_are_read() {
        for (brand, word, name, adyens) in BRANDS {
            let card = Card::of_stripe(word, "4242").unwrap();
            assert_eq!((card, card.brand), (Card::of_adyen(adyens, "4242").unwrap(), brand));
            assert_eq!(card.to_string(), format!("{name} ···· 4242"));
            let written = serde_json::json!({ "brand": word, "last4": "4242" });
            assert_eq!(serde_json::to_value(card).unwrap(), written);
            assert_eq!(serde_json::from_value::<Card>(written).unwrap(), card);
        }
        assert_eq!(Card::of_adyen("visa_applepay", "0000").unwrap().brand, Brand::Visa);
    }

    #[test]
    fn another_brand_is_a_card_and_what_is_not_four_digits_is_none() {
        let card = Card::of_stripe("store_card", "0005").unwrap();
        assert_eq!((card.brand.as_str(), card.to_string().as_str()), ("unknown", "···· 0005"));
        assert_eq!(Card::of_adyen("mcx", "0005").unwrap().brand, Brand::Unknown);
        let stored = serde_json::json!({ "brand": "of a later release", "last4": "0005" });
        assert_eq!(serde_json::from_value::<Card>(stored).unwrap(), card);
        for wrong in ["", "424", "42424", "424x", "４２", "4242 "] {
            assert_eq!((Card::of_stripe("visa", wrong), Card::of_adyen("visa", wrong)), (None, None));
        }
        assert!(
            serde_json::from_value::<Card>(serde_json::json!({ "brand": "visa", "last4": "4111111" }))
                .is_err()
        );
    }

    #[test]
    fn nothing_written_for_debugging_has_the_digits() {
        let card = Card::of_stripe("visa", "4242").unwrap();
        assert!(!format!("{card:?}{:?}", Some(card)).contains("4242"));
    }
}
