//! The test payment methods and what each does: <https://docs.stripe.com/testing>.
//!
//! No card number is known here, only the last four digits that Stripe shows for each.

/// How an issuer says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decline {
    /// `error.code`.
    pub code: &'static str,
    /// `error.decline_code`, where the issuer gives one.
    pub decline_code: Option<&'static str>,
    /// `error.param`, where one field of the card is to blame.
    pub param: Option<&'static str>,
    /// For the card holder.
    pub message: &'static str,
}

/// What a payment with the card does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Succeeds.
    Approve,
    /// Is declined.
    Decline(Decline),
    /// Asks for 3-D Secure, and then does what is said here.
    Authenticate(Option<Decline>),
    /// Is accepted first and decided a while later, as bank debits are: it succeeds, or ends as is said here.
    Process(Option<Decline>),
    /// Succeeds; a refund stays pending for a while.
    PendingRefund,
    /// Succeeds; a refund succeeds and fails later.
    FailingRefund,
}

/// A test payment method.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    /// `pm_card_…`
    pub name: &'static str,
    /// `card.brand`.
    pub brand: &'static str,
    /// `card.last4`.
    pub last4: &'static str,
    /// What a payment with it does.
    pub behaviour: Behaviour,
}

const fn declined(decline_code: &'static str, message: &'static str) -> Behaviour {
    Behaviour::Decline(Decline {
        code: "card_declined",
        decline_code: Some(decline_code),
        param: None,
        message,
    })
}

const fn visa(name: &'static str, last4: &'static str, behaviour: Behaviour) -> Card {
    Card { name, brand: "visa", last4, behaviour }
}

const DECLINED: &str = "Your card was declined.";
const GENERIC: Behaviour = declined("generic_decline", DECLINED);
const INSUFFICIENT_FUNDS: Decline = Decline {
    code: "card_declined",
    decline_code: Some("insufficient_funds"),
    param: None,
    message: "Your card has insufficient funds.",
};
const INSUFFICIENT: Behaviour = Behaviour::Decline(INSUFFICIENT_FUNDS);
const LOST: Behaviour = declined("lost_card", DECLINED);
const STOLEN: Behaviour = declined("stolen_card", DECLINED);
const VELOCITY: Behaviour = declined(
    "card_velocity_exceeded",
    "Your card was declined for making repeated attempts too frequently or exceeding its amount limit.",
);
const EXPIRED: Behaviour = Behaviour::Decline(Decline {
    code: "expired_card",
    decline_code: None,
    param: Some("exp_month"),
    message: "Your card has expired.",
});
const WRONG_CVC: Behaviour = Behaviour::Decline(Decline {
    code: "incorrect_cvc",
    decline_code: None,
    param: Some("cvc"),
    message: "Your card's security code is incorrect.",
});
const PROCESSING: Behaviour = Behaviour::Decline(Decline {
    code: "processing_error",
    decline_code: None,
    param: None,
    message: "An error occurred while processing your card. Try again in a little bit.",
});

/// The issuer wants the card holder, who is not there (`off_session`).
pub const AUTHENTICATION_REQUIRED: Decline = Decline {
    code: "authentication_required",
    decline_code: Some("authentication_required"),
    param: None,
    message: "Your card was declined. This transaction requires authentication.",
};

/// `error_on_requires_action` turned a need for 3-D Secure into an error.
pub const ACTION_REFUSED: Decline = Decline {
    code: "authentication_required",
    decline_code: Some("authentication_not_handled"),
    param: None,
    message: "This payment required an authentication action to complete, but `error_on_requires_action` was set. When you're ready, you \
              can upgrade your integration to handle actions at https://stripe.com/docs/payments/payment-intents/upgrade-to-handle-actions.",
};

/// The card holder failed or left 3-D Secure.
pub const AUTHENTICATION_FAILED: Decline = Decline {
    code: "payment_intent_authentication_failure",
    decline_code: None,
    param: None,
    message: "The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt \
              to fulfill this PaymentIntent again.",
};

const GENERIC_DECLINE: Decline =
    Decline { code: "card_declined", decline_code: Some("generic_decline"), param: None, message: DECLINED };

/// Every test payment method. Some stand under two names, because Stripe documents both.
pub const CARDS: &[Card] = &[
    visa("pm_card_visa", "4242", Behaviour::Approve),
    visa("pm_card_visa_debit", "5556", Behaviour::Approve),
    Card { name: "pm_card_mastercard", brand: "mastercard", last4: "4444", behaviour: Behaviour::Approve },
    Card { name: "pm_card_amex", brand: "amex", last4: "0005", behaviour: Behaviour::Approve },
    Card { name: "pm_card_discover", brand: "discover", last4: "1117", behaviour: Behaviour::Approve },
    visa("pm_card_bypassPending", "0077", Behaviour::Approve),
    visa("pm_card_visa_chargeDeclined", "0002", GENERIC),
    visa("pm_card_chargeDeclined", "0002", GENERIC),
    visa("pm_card_chargeCustomerFail", "0341", GENERIC),
    visa("pm_card_visa_chargeDeclinedInsufficientFunds", "9995", INSUFFICIENT),
    visa("pm_card_chargeDeclinedInsufficientFunds", "9995", INSUFFICIENT),
    visa("pm_card_visa_chargeDeclinedLostCard", "9987", LOST),
    visa("pm_card_chargeDeclinedLostCard", "9987", LOST),
    visa("pm_card_visa_chargeDeclinedStolenCard", "9979", STOLEN),
    visa("pm_card_chargeDeclinedStolenCard", "9979", STOLEN),
    visa("pm_card_visa_chargeDeclinedVelocityLimitExceeded", "6975", VELOCITY),
    visa("pm_card_chargeDeclinedVelocityLimitExceeded", "6975", VELOCITY),
    visa("pm_card_chargeDeclinedExpiredCard", "0069", EXPIRED),
    visa("pm_card_chargeDeclinedIncorrectCvc", "0127", WRONG_CVC),
    visa("pm_card_chargeDeclinedProcessingError", "0119", PROCESSING),
    visa("pm_card_authenticationRequired", "3184", Behaviour::Authenticate(None)),
    visa("pm_card_threeDSecure2Required", "3220", Behaviour::Authenticate(None)),
    visa("pm_card_threeDSecureRequired", "3063", Behaviour::Authenticate(None)),
    visa(
        "pm_card_threeDSecureRequiredChargeDeclined",
        "1629",
        Behaviour::Authenticate(Some(GENERIC_DECLINE)),
    ),
    // Ours: at Stripe no card does this, only bank debits do.
    visa("pm_card_processing", "4242", Behaviour::Process(None)),
    visa("pm_card_processingDeclined", "9995", Behaviour::Process(Some(INSUFFICIENT_FUNDS))),
    visa("pm_card_pendingRefund", "7726", Behaviour::PendingRefund),
    visa("pm_card_refundFail", "5126", Behaviour::FailingRefund),
];

/// A test payment method by its name.
pub fn find(name: &str) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.name == name)
}
