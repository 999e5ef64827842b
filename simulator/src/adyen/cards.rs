//! The stored payment methods of the simulator's shopper. Adyen has no names for its test cards; these are ours.
//! <https://docs.adyen.com/development-resources/refusal-reasons>

/// How an issuer says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// `resultCode`: `Refused` or `Error`.
    pub result_code: &'static str,
    /// `refusalReasonCode`.
    pub code: &'static str,
    /// `refusalReason`.
    pub reason: &'static str,
}

/// What a payment with the card does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// `Authorised`.
    Approve,
    /// `Refused` or `Error`.
    Refuse(Refusal),
    /// `Pending`, and a minute later what is said here.
    Pend(Option<Refusal>),
    /// `RedirectShopper`, and after 3-D Secure what is said here.
    Authenticate(Option<Refusal>),
    /// `RedirectShopper` that says the `pspReference`, too, and after 3-D Secure `Authorised`.
    AuthenticateNamed,
    /// `Authorised`; a capture is received and fails.
    FailingCapture,
    /// `Authorised`; a cancel is received and fails: the money stays reserved.
    FailingCancel,
    /// `Authorised`; a refund is received and fails.
    FailingRefund,
    /// `Error`, although the issuer holds the money: told a minute later.
    ErrorButHeld,
    /// `PartiallyAuthorised`: half of it.
    Half,
    /// A result code that settles nothing, and nothing comes after it.
    Says(&'static str),
}

/// A stored payment method.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    /// `storedPaymentMethodId`.
    pub name: &'static str,
    /// `paymentMethod.brand`.
    pub brand: &'static str,
    /// `additionalData.cardSummary`.
    pub last4: &'static str,
    /// What a payment with it does.
    pub behaviour: Behaviour,
}

const fn refused(code: &'static str, reason: &'static str) -> Refusal {
    Refusal { result_code: "Refused", code, reason }
}

const REFUSED: Refusal = refused("2", "Refused");
/// The acquirer could not be reached, or its answer was not heard.
pub const ACQUIRER_ERROR: Refusal = Refusal { result_code: "Error", code: "4", reason: "Acquirer Error" };

/// The shopper failed 3-D Secure, or was not there for it.
pub const NOT_AUTHENTICATED: Refusal = refused("11", "3D Not Authenticated");

/// The issuer wants the shopper to be authenticated, and no authentication was attempted.
pub const AUTHENTICATION_REQUIRED: Refusal = refused("38", "Authentication required");

const fn visa(name: &'static str, behaviour: Behaviour) -> Card {
    Card { name, brand: "visa", last4: "1111", behaviour }
}

/// Every stored payment method.
pub const CARDS: &[Card] = &[
    visa("adyen_card_visa", Behaviour::Approve),
    Card { name: "adyen_card_mastercard", brand: "mc", last4: "4444", behaviour: Behaviour::Approve },
    visa("adyen_card_refused", Behaviour::Refuse(REFUSED)),
    visa("adyen_card_not_enough_balance", Behaviour::Refuse(refused("12", "Not enough balance"))),
    visa("adyen_card_blocked", Behaviour::Refuse(refused("5", "Blocked Card"))),
    visa("adyen_card_expired", Behaviour::Refuse(refused("6", "Expired Card"))),
    visa("adyen_card_error", Behaviour::Refuse(ACQUIRER_ERROR)),
    visa("adyen_card_pending", Behaviour::Pend(None)),
    visa("adyen_card_pending_refused", Behaviour::Pend(Some(REFUSED))),
    visa("adyen_card_3ds", Behaviour::Authenticate(None)),
    visa("adyen_card_3ds_refused", Behaviour::Authenticate(Some(REFUSED))),
    visa("adyen_card_3ds_named", Behaviour::AuthenticateNamed),
    visa("adyen_card_capture_fails", Behaviour::FailingCapture),
    visa("adyen_card_cancel_fails", Behaviour::FailingCancel),
    visa("adyen_card_refund_fails", Behaviour::FailingRefund),
    visa("adyen_card_error_but_held", Behaviour::ErrorButHeld),
    visa("adyen_card_half", Behaviour::Half),
    visa("adyen_card_authentication_finished", Behaviour::Says("AuthenticationFinished")),
    visa("adyen_card_identify", Behaviour::Says("IdentifyShopper")),
    visa("adyen_card_present", Behaviour::Says("PresentToShopper")),
];

/// A stored payment method by its id.
pub fn find(name: &str) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.name == name)
}
