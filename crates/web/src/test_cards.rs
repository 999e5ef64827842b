//! The cards that the demo offers, in the place of real ones.

use crate::locale::Messages;

/// A card of the demo.
#[derive(Clone, Copy, Debug)]
pub struct TestCard {
    /// Stripe's test payment method, the field's value.
    pub payment_method: &'static str,
    /// How it is shown: `Visa ···· 4242`.
    pub label: &'static str,
    effect: fn(&Messages) -> &'static str,
}

impl TestCard {
    /// The payment's result: `Succeeds`.
    pub fn effect(&self, t: &Messages) -> &'static str {
        (self.effect)(t)
    }
}

/// The cards that the demo offers.
pub const TEST_CARDS: [TestCard; 5] = [
    TestCard { payment_method: "pm_card_visa", label: "Visa ···· 4242", effect: |t| t.card_succeeds },
    TestCard {
        payment_method: "pm_card_mastercard",
        label: "Mastercard ···· 4444",
        effect: |t| t.card_succeeds,
    },
    TestCard {
        payment_method: "pm_card_visa_chargeDeclined",
        label: "Visa ···· 0002",
        effect: |t| t.card_declined,
    },
    TestCard {
        payment_method: "pm_card_visa_chargeDeclinedInsufficientFunds",
        label: "Visa ···· 9995",
        effect: |t| t.card_lacks_funds,
    },
    TestCard {
        payment_method: "pm_card_chargeDeclinedExpiredCard",
        label: "Visa ···· 0069",
        effect: |t| t.card_expired,
    },
];

/// The card of the checkout alone: a ride is charged at once or not at all, and cannot wait for a bank's page.
const BANK_CARD: TestCard = TestCard {
    payment_method: "pm_card_authenticationRequired",
    label: "Visa ···· 3184",
    effect: |t| t.card_needs_bank,
};

/// The cards that the demo's checkout offers.
pub fn checkout_cards() -> impl Iterator<Item = TestCard> {
    let (good, bad) = TEST_CARDS.split_at(2);
    good.iter().copied().chain([BANK_CARD]).chain(bad.iter().copied())
}
