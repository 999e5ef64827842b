//! What the emails about a payment are written from that its provider is not told: it is part of no frozen request, and of no fingerprint.

use serde::{Deserialize, Serialize};

use crate::payment::locale::Locale;

/// See the module. A payment of before there was any, or one that the shop's own server makes, has none: its emails are in English.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiptContent {
    /// The language in which the customer paid.
    #[serde(skip_serializing_if = "Locale::is_default")]
    pub locale: Locale,
    /// What was bought.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<ReceiptLine>,
}

/// So many pieces of one item.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReceiptLine {
    /// What it is, in the merchant's words.
    pub name: String,
    /// How many.
    pub quantity: u32,
    /// The price of all of them, in minor units.
    pub total_minor: u64,
}

impl ReceiptContent {
    /// Whether there is nothing in it: then it is not stored.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
