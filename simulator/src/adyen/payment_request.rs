//! The bodies of `POST /payments` and `POST /payments/details`, read and checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::adyen::body::{self, Amount};
use crate::adyen::cards::{self, Card};
use crate::adyen::errors::{self, Fallible, Problem};
use crate::adyen::payment::CaptureMode;

/// Four weeks: as long as an authorisation.
const MAX_CAPTURE_DELAY_HOURS: i64 = 672;
/// Characters of a reference.
const MAX_REFERENCE_CHARS: usize = 80;
/// Characters of a return address.
const MAX_RETURN_URL_CHARS: usize = 8_000;
/// Metadata: pairs, characters of a key, characters of a value.
const MAX_METADATA: (usize, usize, usize) = (20, 20, 80);

/// The body of `POST /payments`, checked.
#[derive(Debug, Clone)]
pub struct PaymentRequest {
    pub(super) amount: Amount,
    pub(super) merchant_account: String,
    pub(super) reference: String,
    pub(super) card: &'static Card,
    pub(super) capture: CaptureMode,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) return_url: String,
    pub(super) never_authenticates: bool,
    pub(super) shopper_present: bool,
}

/// Read here.
const FIELDS: &[&str] = &[
    "additionalData",
    "amount",
    "authenticationData",
    "captureDelayHours",
    "merchantAccount",
    "metadata",
    "paymentMethod",
    "recurringProcessingModel",
    "reference",
    "returnUrl",
    "shopperInteraction",
];

/// Known to Adyen and taken without any effect here.
const UNMODELLED: &[&str] = &[
    "accountInfo",
    "additionalAmount",
    "applicationInfo",
    "billingAddress",
    "browserInfo",
    "channel",
    "checkoutAttemptId",
    "company",
    "conversionId",
    "countryCode",
    "dateOfBirth",
    "dccQuote",
    "deliverAt",
    "deliveryAddress",
    "deliveryDate",
    "deviceFingerprint",
    "enableOneClick",
    "enablePayOut",
    "enableRecurring",
    "entityType",
    "fraudOffset",
    "fundOrigin",
    "fundRecipient",
    "industryUsage",
    "installments",
    "lineItems",
    "localizedShopperStatement",
    "mandate",
    "mcc",
    "merchantOrderReference",
    "merchantRiskIndicator",
    "mpiData",
    "order",
    "orderReference",
    "origin",
    "platformChargebackLogic",
    "recurringExpiry",
    "recurringFrequency",
    "redirectFromIssuerMethod",
    "redirectToIssuerMethod",
    "riskData",
    "sessionValidity",
    "shopperEmail",
    "shopperIP",
    "shopperLocale",
    "shopperName",
    "shopperReference",
    "shopperStatement",
    "socialSecurityNumber",
    "splits",
    "store",
    "storePaymentMethod",
    "subMerchants",
    "surcharge",
    "telephoneNumber",
    "threeDS2RequestData",
    "threeDSAuthenticationOnly",
    "trustedShopper",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPayment {
    #[serde(default)]
    additional_data: BTreeMap<String, String>,
    amount: Option<Amount>,
    authentication_data: Option<RawAuthentication>,
    capture_delay_hours: Option<i64>,
    merchant_account: Option<String>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    payment_method: Option<Value>,
    recurring_processing_model: Option<String>,
    reference: Option<String>,
    return_url: Option<String>,
    shopper_interaction: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAuthentication {
    attempt_authentication: Option<String>,
}

impl PaymentRequest {
    /// Reads and checks a body.
    pub fn parse(body: &Value) -> Fallible<Self> {
        let raw: RawPayment = body::read(body, "PaymentRequest", &[FIELDS, UNMODELLED])?;
        let merchant_account = body::merchant_account(raw.merchant_account)?;
        let amount = body::amount(raw.amount)?;
        let reference = raw.reference.filter(|reference| !reference.is_empty());
        let reference = reference.ok_or_else(|| Problem::validation("130", "Reference Missing"))?;
        if reference.chars().count() > MAX_REFERENCE_CHARS {
            return Err(Problem::malformed("The reference has more than 80 characters").into());
        }
        // Whatever the payment method, and whether or not the shopper is there.
        let return_url =
            raw.return_url.filter(|url| !url.is_empty()).ok_or_else(errors::return_url_missing)?;
        if return_url.chars().count() > MAX_RETURN_URL_CHARS {
            return Err(Problem::malformed("The returnUrl has more than 8000 characters").into());
        }
        check_metadata(&raw.metadata)?;
        let interaction = raw.shopper_interaction.as_deref();
        body::choice("shopperInteraction", interaction, &["ContAuth", "Ecommerce", "Moto", "POS"])?;
        let model = raw.recurring_processing_model.as_deref();
        let models = ["CardOnFile", "Subscription", "UnscheduledCardOnFile"];
        body::choice("recurringProcessingModel", model, &models)?;
        let attempt = raw.authentication_data.and_then(|data| data.attempt_authentication);
        body::choice("attemptAuthentication", attempt.as_deref(), &["always", "never"])?;
        Ok(PaymentRequest {
            amount,
            merchant_account,
            reference,
            card: card_of(raw.payment_method.as_ref())?,
            capture: capture_mode(&raw.additional_data, raw.capture_delay_hours)?,
            metadata: raw.metadata,
            return_url,
            // With a card on file the shopper may be there; with the other models only the merchant is.
            never_authenticates: attempt.as_deref() == Some("never"),
            shopper_present: interaction != Some("ContAuth") || model == Some("CardOnFile"),
        })
    }
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Fallible<()> {
    let (pairs, key_chars, value_chars) = MAX_METADATA;
    let fits = metadata.len() <= pairs
        && metadata
            .iter()
            .all(|(key, value)| key.chars().count() <= key_chars && value.chars().count() <= value_chars);
    if fits { Ok(()) } else { Err(Problem::validation("177", "Metadata size exceeds limit").into()) }
}

fn card_of(payment_method: Option<&Value>) -> Fallible<&'static Card> {
    let text = |name: &str| payment_method?.get(name)?.as_str().filter(|text| !text.is_empty());
    match text("type") {
        Some("scheme") => {}
        None => return Err(Problem::validation("14_004", "Missing payment method details").into()),
        // No acquirer takes anything but cards here.
        Some(_) => return Err(errors::misconfigured().into()),
    }
    // No card number is ever looked at, encrypted or not.
    let Some(id) = text("storedPaymentMethodId") else {
        let message = "Missing payment method details: the simulator knows only a storedPaymentMethodId";
        return Err(Problem::validation("14_004", message).into());
    };
    Ok(cards::find(id).ok_or_else(|| Problem::validation("803", "PaymentDetail not found"))?)
}

fn capture_mode(
    additional_data: &BTreeMap<String, String>,
    delay_hours: Option<i64>,
) -> Fallible<CaptureMode> {
    let manual = additional_data.get("manualCapture").map(String::as_str);
    body::choice("additionalData.manualCapture", manual, &["true", "false"])?;
    match (manual, delay_hours) {
        (Some("true"), _) => Ok(CaptureMode::Manual),
        (_, None | Some(0)) => Ok(CaptureMode::Immediate),
        (_, Some(hours)) if (1..=MAX_CAPTURE_DELAY_HOURS).contains(&hours) => {
            Ok(CaptureMode::AfterHours(hours))
        }
        _ => Err(Problem::malformed("captureDelayHours must be 0 to 672").into()),
    }
}

/// The body of `POST /payments/details`.
#[derive(Debug, Clone)]
pub struct DetailsRequest {
    pub(super) redirect_result: String,
}

#[derive(Debug, Deserialize)]
struct RawDetails {
    details: Option<RawRedirect>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawRedirect {
    redirect_result: String,
}

impl DetailsRequest {
    /// Reads a body.
    pub fn parse(body: &Value) -> Fallible<Self> {
        let known = ["authenticationData", "details", "paymentData", "threeDSAuthenticationOnly"];
        let raw: RawDetails = body::read(body, "PaymentDetailsRequest", &[&known])?;
        let details =
            raw.details.ok_or_else(|| Problem::malformed("Required field 'details' is not provided."))?;
        Ok(DetailsRequest { redirect_result: details.redirect_result })
    }
}
