//! The cards that the demo offers, in the place of real ones.

/// A card of the demo.
#[derive(Clone, Copy, Debug)]
pub struct TestCard {
    /// Stripe's test payment method, the field's value.
    pub payment_method: &'static str,
    /// How it is shown: `Visa ···· 4242`.
    pub label: &'static str,
    /// The payment's result: `Succeeds`.
    pub effect: &'static str,
}

/// The cards that the demo offers.
pub const TEST_CARDS: [TestCard; 5] = [
    TestCard { payment_method: "pm_card_visa", label: "Visa ···· 4242", effect: "Succeeds" },
    TestCard { payment_method: "pm_card_mastercard", label: "Mastercard ···· 4444", effect: "Succeeds" },
    TestCard {
        payment_method: "pm_card_visa_chargeDeclined", label: "Visa ···· 0002", effect: "Declined"
    },
    TestCard {
        payment_method: "pm_card_visa_chargeDeclinedInsufficientFunds",
        label: "Visa ···· 9995",
        effect: "Insufficient funds",
    },
    TestCard {
        payment_method: "pm_card_chargeDeclinedExpiredCard",
        label: "Visa ···· 0069",
        effect: "Expired card",
    },
];

/// The card of the checkout alone: a ride is charged at once or not at all, and cannot wait for a bank's page.
const BANK_CARD: TestCard = TestCard {
    payment_method: "pm_card_authenticationRequired",
    label: "Visa ···· 3184",
    effect: "Needs 3-D Secure",
};

/// The cards that the demo's checkout offers.
pub fn checkout_cards() -> impl Iterator<Item = TestCard> {
    let (good, bad) = TEST_CARDS.split_at(2);
    good.iter().copied().chain([BANK_CARD]).chain(bad.iter().copied())
}
