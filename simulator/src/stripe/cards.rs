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
    /// Whether Radar blocked it, and the issuer was never asked.
    pub blocked: bool,
}

/// What a payment with the card does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Succeeds.
    Approve,
    /// Is declined.
    Decline(Decline),
    /// Succeeds, with an elevated risk.
    ApproveAtRisk,
    /// Asks for 3-D Secure, and then does what is said here.
    Authenticate(Option<Decline>),
    /// Asks for 3-D Secure while the card holder is there; without them it succeeds, as one that was set up for that.
    AuthenticateOnSession,
    /// Asks for 3-D Secure only where the merchant does (`request_three_d_secure`), and succeeds; or is declined because it was asked for.
    AuthenticateOnRequest(Option<Decline>),
    /// Succeeds; what is captured of a reserved amount is decided a while later: it is taken, or ends as is said here.
    CaptureLater(Option<Decline>),
    /// Is accepted first and decided a while later, as bank debits are: it succeeds, or ends as is said here.
    Process(Option<Decline>),
    /// Succeeds; a refund stays pending for a while.
    PendingRefund,
    /// Succeeds; a refund waits until the merchant's balance covers it.
    UnfundedRefund,
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
    /// The local network of a card that has two brands.
    pub local_network: Option<&'static str>,
    /// `card.country`, of its issuer.
    pub country: &'static str,
    /// `card.funding`.
    pub funding: &'static str,
    /// `card.last4`.
    pub last4: &'static str,
    /// What a payment with it does.
    pub behaviour: Behaviour,
}

impl Behaviour {
    /// What the issuer says once it is asked.
    pub fn decline(&self) -> Option<&Decline> {
        match self {
            Self::Decline(decline) => Some(decline),
            Self::Authenticate(decline) | Self::Process(decline) => decline.as_ref(),
            Self::Approve
            | Self::ApproveAtRisk
            | Self::AuthenticateOnSession
            | Self::AuthenticateOnRequest(_)
            | Self::CaptureLater(_)
            | Self::PendingRefund
            | Self::UnfundedRefund
            | Self::FailingRefund => None,
        }
    }
}

impl Card {
    /// `card.display_brand`.
    pub fn display_brand(&self) -> &'static str {
        match self.local_network.unwrap_or(self.brand) {
            "amex" => "american_express",
            "diners" => "diners_club",
            "eftpos_au" => "eftpos_australia",
            "unionpay" => "union_pay",
            other => other,
        }
    }

    /// Whether what Stripe has for larger merchants, such as several captures, can be had with it.
    pub fn is_enterprise(&self) -> bool {
        self.name != NOT_ENTERPRISE
    }

    const fn of(self, country: &'static str) -> Self {
        Card { country, ..self }
    }

    const fn funded(self, funding: &'static str) -> Self {
        Card { funding, ..self }
    }

    const fn and(self, local_network: &'static str) -> Self {
        Card { local_network: Some(local_network), ..self }
    }
}

const NOT_ENTERPRISE: &str = "pm_card_credit_disableEnterpriseCardFeatures";

const fn card(name: &'static str, brand: &'static str, last4: &'static str, behaviour: Behaviour) -> Card {
    Card { name, brand, local_network: None, country: "US", funding: "credit", last4, behaviour }
}

const fn visa(name: &'static str, last4: &'static str, behaviour: Behaviour) -> Card {
    card(name, "visa", last4, behaviour)
}

const fn good(name: &'static str, brand: &'static str, last4: &'static str) -> Card {
    card(name, brand, last4, Behaviour::Approve)
}

/// A Visa card of a country.
const fn from(country: &'static str, name: &'static str, last4: &'static str) -> Card {
    good(name, "visa", last4).of(country)
}

const fn decline(
    code: &'static str,
    decline_code: Option<&'static str>,
    param: Option<&'static str>,
    message: &'static str,
) -> Decline {
    Decline { code, decline_code, param, message, blocked: false }
}

const fn declined(decline_code: &'static str, message: &'static str) -> Behaviour {
    Behaviour::Decline(decline("card_declined", Some(decline_code), None, message))
}

const DECLINED: &str = "Your card was declined.";
const GENERIC_DECLINE: Decline = decline("card_declined", Some("generic_decline"), None, DECLINED);
const GENERIC: Behaviour = Behaviour::Decline(GENERIC_DECLINE);
const INSUFFICIENT_FUNDS: Decline =
    decline("card_declined", Some("insufficient_funds"), None, "Your card has insufficient funds.");
const INSUFFICIENT: Behaviour = Behaviour::Decline(INSUFFICIENT_FUNDS);
const LOST: Behaviour = declined("lost_card", DECLINED);
const STOLEN: Behaviour = declined("stolen_card", DECLINED);
const FRAUDULENT: Decline = decline("card_declined", Some("fraudulent"), None, DECLINED);
const VELOCITY: Behaviour = declined(
    "card_velocity_exceeded",
    "Your card was declined for making repeated attempts too frequently or exceeding its amount limit.",
);
const EXPIRED: Behaviour =
    Behaviour::Decline(decline("expired_card", None, Some("exp_month"), "Your card has expired."));
const WRONG_CVC: Behaviour = Behaviour::Decline(decline(
    "incorrect_cvc",
    None,
    Some("cvc"),
    "Your card's security code is incorrect.",
));
const PROCESSING_ERROR: Decline = decline(
    "processing_error",
    None,
    None,
    "An error occurred while processing your card. Try again in a little bit.",
);
const PROCESSING: Behaviour = Behaviour::Decline(PROCESSING_ERROR);
/// What Radar blocks unless its rules are changed.
const BLOCKED: Behaviour = Behaviour::Decline(Decline { blocked: true, ..FRAUDULENT });

/// The issuer wants the card holder, who is not there (`off_session`).
pub const AUTHENTICATION_REQUIRED: Decline = decline(
    "authentication_required",
    Some("authentication_required"),
    None,
    "Your card was declined. This transaction requires authentication.",
);

/// `error_on_requires_action` turned a need for 3-D Secure into an error.
pub const ACTION_REFUSED: Decline = decline(
    "authentication_required",
    Some("authentication_not_handled"),
    None,
    "This payment required an authentication action to complete, but `error_on_requires_action` was set. When you're ready, you can \
     upgrade your integration to handle actions at https://stripe.com/docs/payments/payment-intents/upgrade-to-handle-actions.",
);

/// The card holder failed or left 3-D Secure.
pub const AUTHENTICATION_FAILED: Decline = decline(
    "payment_intent_authentication_failure",
    None,
    None,
    "The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt to \
     fulfill this PaymentIntent again.",
);

/// Every test payment method. Some stand under two names, because Stripe documents both.
pub const CARDS: &[Card] = &[
    // By brand.
    good("pm_card_visa", "visa", "4242"),
    good("pm_card_visa_debit", "visa", "5556").funded("debit"),
    good("pm_card_mastercard", "mastercard", "4444"),
    good("pm_card_mastercard_debit", "mastercard", "8210").funded("debit"),
    good("pm_card_mastercard_prepaid", "mastercard", "5100").funded("prepaid"),
    good("pm_card_amex", "amex", "0005"),
    good("pm_card_discover", "discover", "1117"),
    good("pm_card_diners", "diners", "0004"),
    good("pm_card_jcb", "jcb", "0505").of("JP"),
    good("pm_card_unionpay", "unionpay", "0005").of("CN"),
    good("pm_card_visa_cartesBancaires", "visa", "1001").of("FR").and("cartes_bancaires"),
    good("pm_card_mastercard_cartesBancaires", "mastercard", "1001").of("FR").and("cartes_bancaires"),
    good("pm_card_visa_debit_eftposAuCoBranded", "visa", "0001").of("AU").funded("debit").and("eftpos_au"),
    good("pm_card_mastercard_debit_eftposAuCoBranded", "mastercard", "0080")
        .of("AU")
        .funded("debit")
        .and("eftpos_au"),
    good("pm_card_debit_visaFsaProductCode", "visa", "0072").funded("debit"),
    good("pm_card_debit_visaHsaProductCode", "visa", "0072").funded("debit"),
    good("pm_card_mastercard_debit_mastercardFsaProductCode", "mastercard", "8897").funded("debit"),
    good(NOT_ENTERPRISE, "visa", "0076"),
    visa("pm_card_bypassPending", "0077", Behaviour::Approve),
    from("IE", "pm_card_bypassPendingInternational", "0278"),
    // By country.
    from("US", "pm_card_us", "4242"),
    from("AR", "pm_card_ar", "0021"),
    from("BR", "pm_card_br", "0002"),
    from("CA", "pm_card_ca", "0000"),
    from("CL", "pm_card_cl", "0001"),
    from("CO", "pm_card_co", "0003"),
    from("CR", "pm_card_cr", "0005"),
    from("EC", "pm_card_ec", "0000"),
    from("MX", "pm_card_mx", "8001"),
    from("PA", "pm_card_pa", "0000"),
    from("PY", "pm_card_py", "0066"),
    from("PE", "pm_card_pe", "0068"),
    from("UY", "pm_card_uy", "0003"),
    from("AE", "pm_card_ae", "0001"),
    from("AT", "pm_card_at", "0008"),
    from("BE", "pm_card_be", "0004"),
    from("BG", "pm_card_bg", "0000"),
    from("BY", "pm_card_by", "0005"),
    from("HR", "pm_card_hr", "0009"),
    from("CY", "pm_card_cy", "0008"),
    from("CZ", "pm_card_cz", "0002"),
    from("DK", "pm_card_dk", "0001"),
    from("EE", "pm_card_ee", "0009"),
    from("FI", "pm_card_fi", "0001"),
    from("FR", "pm_card_fr", "0003"),
    from("DE", "pm_card_de", "0016"),
    from("GI", "pm_card_gi", "0005"),
    from("GR", "pm_card_gr", "0030"),
    from("HU", "pm_card_hu", "0005"),
    from("IE", "pm_card_ie", "0005"),
    from("IT", "pm_card_it", "0008"),
    from("LV", "pm_card_lv", "0005"),
    from("LI", "pm_card_li", "0004"),
    from("LT", "pm_card_lt", "0000"),
    from("LU", "pm_card_lu", "0006"),
    from("MT", "pm_card_mt", "0007"),
    from("NL", "pm_card_nl", "0002"),
    from("NO", "pm_card_no", "0007"),
    from("PL", "pm_card_pl", "0005"),
    from("PT", "pm_card_pt", "0007"),
    from("RO", "pm_card_ro", "0001"),
    from("SI", "pm_card_si", "0006"),
    from("SK", "pm_card_sk", "0001"),
    from("ES", "pm_card_es", "0007"),
    from("SE", "pm_card_se", "0008"),
    from("CH", "pm_card_ch", "0009"),
    from("GB", "pm_card_gb", "0000"),
    from("AU", "pm_card_au", "0006"),
    from("CN", "pm_card_cn", "0002"),
    from("HK", "pm_card_hk", "0004"),
    from("IN", "pm_card_in", "0008"),
    from("JP", "pm_card_jp", "0003"),
    from("MY", "pm_card_my", "0002"),
    from("NZ", "pm_card_nz", "0008"),
    from("SG", "pm_card_sg", "0003"),
    from("TW", "pm_card_tw", "0008"),
    good("pm_card_ae_mastercard", "mastercard", "0022").of("AE"),
    from("GB", "pm_card_gb_debit", "0005").funded("debit"),
    good("pm_card_gb_mastercard", "mastercard", "4449").of("GB"),
    from("TH", "pm_card_th_credit", "0003"),
    from("TH", "pm_card_th_debit", "0008").funded("debit"),
    // Declines.
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
    visa("pm_card_chargeDeclinedFraudulent", "0019", Behaviour::Decline(FRAUDULENT)),
    visa("pm_card_chargeDeclinedExpiredCard", "0069", EXPIRED),
    visa("pm_card_chargeDeclinedIncorrectCvc", "0127", WRONG_CVC),
    visa("pm_card_chargeDeclinedProcessingError", "0119", PROCESSING),
    // Radar, with the rules that an account begins with.
    visa("pm_card_radarBlock", "0019", BLOCKED),
    visa("pm_card_riskLevelHighest", "4954", BLOCKED),
    visa("pm_card_riskLevelElevated", "9235", Behaviour::ApproveAtRisk),
    visa("pm_card_avsLine1Fail", "0028", Behaviour::Approve),
    visa("pm_card_avsUnchecked", "0044", Behaviour::Approve),
    // 3-D Secure.
    visa("pm_card_authenticationRequired", "3184", Behaviour::Authenticate(None)).of("DE"),
    visa("pm_card_authenticationRequiredOnSetup", "3155", Behaviour::Authenticate(None)).of("FR"),
    visa("pm_card_authenticationRequiredSetupForOffSession", "0446", Behaviour::AuthenticateOnSession)
        .of("IT"),
    visa(
        "pm_card_authenticationRequiredChargeDeclinedInsufficientFunds",
        "3178",
        Behaviour::Authenticate(Some(INSUFFICIENT_FUNDS)),
    )
    .of("GB"),
    visa("pm_card_threeDSecure2Required", "3220", Behaviour::Authenticate(None)).of("IE"),
    visa("pm_card_threeDSecureRequired", "3063", Behaviour::Authenticate(None)),
    visa(
        "pm_card_threeDSecureRequiredChargeDeclined",
        "1629",
        Behaviour::Authenticate(Some(GENERIC_DECLINE)),
    ),
    visa("pm_card_threeDSecureRequiredProcessingError", "1280", GENERIC),
    visa("pm_card_threeDSecureOptional", "3055", Behaviour::AuthenticateOnRequest(None)),
    visa(
        "pm_card_threeDSecureOptionalProcessingError",
        "3097",
        Behaviour::AuthenticateOnRequest(Some(PROCESSING_ERROR)),
    ),
    good("pm_card_amex_threeDSecureNotSupported", "amex", "0005"),
    // Ours: at Stripe no card does this, only bank debits do.
    visa("pm_card_processing", "4242", Behaviour::Process(None)),
    visa("pm_card_processingDeclined", "9995", Behaviour::Process(Some(INSUFFICIENT_FUNDS))),
    // Ours: at Stripe it depends on the network.
    visa("pm_card_captureProcessing", "4242", Behaviour::CaptureLater(None)),
    visa("pm_card_captureProcessingDeclined", "9995", Behaviour::CaptureLater(Some(INSUFFICIENT_FUNDS))),
    visa("pm_card_pendingRefund", "7726", Behaviour::PendingRefund),
    // Ours: at Stripe it depends on the balance.
    visa("pm_card_unfundedRefund", "4242", Behaviour::UnfundedRefund),
    visa("pm_card_refundFail", "5126", Behaviour::FailingRefund),
];

/// A test payment method by its name.
pub fn find(name: &str) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.name == name)
}

/// A test payment method by the name of its token: `tok_visa` is `pm_card_visa`.
pub fn of_token(token: &str) -> Option<&'static Card> {
    let name = token.strip_prefix("tok_")?;
    CARDS.iter().find(|card| card.name.strip_prefix("pm_card_") == Some(name))
}

const DISPUTES: &str = "a dispute is made at /_sim/payments/{id}/disputes";
const RADAR: &str = "what it does depends on the rules of the account's Radar";
const BANK_DEBITS: &str = "it has cards only";

/// What Stripe documents and is not played here, by what the name begins with after `pm_`, with the reason.
const UNPLAYED: &[(&str, &str)] = &[
    ("card_createDispute", DISPUTES),
    ("card_createMultipleDisputes", DISPUTES),
    ("card_createComplianceDispute", DISPUTES),
    ("card_createIssuerFraudRecord", "it has no early fraud warnings"),
    ("card_cvcCheckFail", RADAR),
    ("card_avsFail", RADAR),
    ("card_avsZipFail", RADAR),
    ("card_highFraudDisputeScore", RADAR),
    ("card_highEfwScore", RADAR),
    ("card_radarDynamicRiskThreshold", RADAR),
    ("card_freeTrialAbuseBlock", RADAR),
    ("card_adaptive3dsChallenge", RADAR),
    ("usBankAccount", BANK_DEBITS),
    ("us_bank_account", BANK_DEBITS),
];

/// Why a documented test payment method is not played here.
pub fn unplayed(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix("pm_")?;
    UNPLAYED.iter().find(|(prefix, _)| rest.starts_with(prefix)).map(|(_, reason)| *reason)
}
