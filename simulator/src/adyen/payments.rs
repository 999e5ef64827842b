//! Adyen's payments: <https://docs.adyen.com/api-explorer/Checkout/71/post/payments>
//!
//! ```text
//! POST /payments → Authorised | Refused | Error | Pending | RedirectShopper
//! Pending ─a minute→ Authorised | Refused        RedirectShopper ─3-D Secure, POST /payments/details→ Authorised | Refused
//! Authorised ─captured at once, after captureDelayHours, or by /captures→ (money taken)
//! Authorised and not captured ─/cancels→ cancelled          ─28 days→ expired
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adyen::body::{self, Amount};
use crate::adyen::cards::{self, ACQUIRER_ERROR, Behaviour, Card, NOT_AUTHENTICATED, Refusal};
use crate::adyen::errors::{self, Failure, Fallible, Problem};
use crate::adyen::notifications::{self, Event};
use crate::call::{Call, Links};
use crate::http::Reply;
use crate::ids;
use crate::pages::{self, Waiting};
use crate::store::Kind;
use crate::three_d_secure::{self, Decision};

/// How long a payment is `Pending`.
const DECIDED_AFTER_MS: i64 = 60_000;
/// How long an authorisation lasts that nobody captures.
const AUTHORISATION_LASTS_MS: i64 = 28 * 24 * HOUR_MS;
const HOUR_MS: i64 = 60 * 60 * 1000;
/// Four weeks: as long as an authorisation.
const MAX_CAPTURE_DELAY_HOURS: i64 = 672;
/// Characters of a reference.
const MAX_REFERENCE_CHARS: usize = 80;
/// Characters of a return address.
const MAX_RETURN_URL_CHARS: usize = 8_000;
/// Metadata: pairs, characters of a key, characters of a value.
const MAX_METADATA: (usize, usize, usize) = (20, 20, 80);

/// When the money of an authorised payment is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// At once.
    Immediate,
    /// After this many hours.
    AfterHours(i64),
    /// By `/captures`.
    Manual,
}

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The shopper has to visit the 3-D Secure page, and then the caller `/payments/details`.
    AwaitingShopper,
    /// The issuer has not decided.
    Pending,
    /// The issuer said yes.
    Authorised,
    /// The issuer, or 3-D Secure, said no.
    Refused,
    /// Given up before anything was taken.
    Cancelled,
    /// Authorised once, and not captured in time.
    Expired,
}

/// A refusal as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// `resultCode`: `Refused` or `Error`.
    pub result_code: String,
    /// `refusalReasonCode`.
    pub code: String,
    /// `refusalReason`.
    pub reason: String,
}

/// A payment. It is the simulator's own record: Adyen has no such object to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payment {
    /// Sixteen letters and digits.
    pub psp_reference: String,
    /// Whose it is.
    pub merchant_account: String,
    /// The caller's own name for it.
    pub reference: String,
    /// What was asked for.
    pub amount: Amount,
    /// What was taken, in the smallest unit.
    pub amount_captured: i64,
    /// What was given back.
    pub amount_refunded: i64,
    /// What a bank has taken back.
    #[serde(default)]
    pub amount_charged_back: i64,
    /// The `pspReference` of its dispute, and what that is about.
    #[serde(default)]
    pub dispute: Option<(String, i64)>,
    /// The stored payment method.
    pub stored_payment_method: String,
    /// Its brand.
    pub brand: String,
    /// The caller's own data.
    pub metadata: BTreeMap<String, String>,
    /// When the money is taken.
    pub capture: CaptureMode,
    /// Where it stands.
    pub standing: Standing,
    /// Whether the issuer said yes, whatever became of it.
    pub authorised: bool,
    /// Whether the issuer was asked at all.
    pub asked_issuer: bool,
    /// Why not.
    pub refusal: Option<Refused>,
    /// The result code of the answer, where it is another one than follows from where the payment stands.
    #[serde(default)]
    answered: Option<String>,
    return_url: Option<String>,
    /// What the shopper brings back from the 3-D Secure page, and whether it was passed.
    redirect: Option<(String, bool)>,
    /// When time alone changes it.
    pub due_ms: Option<i64>,
}

/// The body of `POST /payments`, checked.
#[derive(Debug, Clone)]
pub struct PaymentRequest {
    amount: Amount,
    merchant_account: String,
    reference: String,
    card: &'static Card,
    capture: CaptureMode,
    metadata: BTreeMap<String, String>,
    return_url: String,
    shopper_present: bool,
}

/// Read here.
const FIELDS: &[&str] = &[
    "additionalData",
    "amount",
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
    "authenticationData",
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
    capture_delay_hours: Option<i64>,
    merchant_account: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    payment_method: Option<Value>,
    recurring_processing_model: Option<String>,
    reference: Option<String>,
    return_url: Option<String>,
    shopper_interaction: Option<String>,
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
        Ok(PaymentRequest {
            amount,
            merchant_account,
            reference,
            card: card_of(raw.payment_method.as_ref())?,
            capture: capture_mode(&raw.additional_data, raw.capture_delay_hours)?,
            metadata: raw.metadata,
            return_url,
            // With a card on file the shopper may be there; with the other models only the merchant is.
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
        Some(_) => {
            let message = "Could not find an acquirer account for the provided txvariant: the simulator knows only scheme";
            return Err(Problem::validation("905_1", message).into());
        }
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

/// `POST /payments`
pub fn create(call: &mut Call, request: &PaymentRequest) -> Fallible<Value> {
    let mut payment = Payment {
        psp_reference: call.request_id.to_owned(),
        merchant_account: request.merchant_account.clone(),
        reference: request.reference.clone(),
        amount: request.amount.clone(),
        amount_captured: 0,
        amount_refunded: 0,
        amount_charged_back: 0,
        dispute: None,
        stored_payment_method: request.card.name.to_owned(),
        brand: request.card.brand.to_owned(),
        metadata: request.metadata.clone(),
        capture: request.capture,
        standing: Standing::Pending,
        authorised: false,
        asked_issuer: false,
        refusal: None,
        answered: None,
        return_url: Some(request.return_url.clone()),
        redirect: None,
        due_ms: None,
    };
    call.insert(Kind::AdyenPayment, &payment.psp_reference, &payment, Links::default())?;
    match request.card.behaviour {
        Behaviour::Approve
        | Behaviour::FailingCapture
        | Behaviour::FailingCancel
        | Behaviour::FailingRefund => answered(call, &mut payment, None)?,
        Behaviour::Refuse(refusal) => answered(call, &mut payment, Some(refusal))?,
        Behaviour::Pend(_) => {
            payment.asked_issuer = true;
            payment.due_ms = Some(call.now_ms + DECIDED_AFTER_MS);
        }
        Behaviour::Authenticate(_) if !request.shopper_present => {
            answered(call, &mut payment, Some(NOT_AUTHENTICATED))?;
        }
        Behaviour::Authenticate(_) => payment.standing = Standing::AwaitingShopper,
        Behaviour::ErrorButHeld => {
            payment.asked_issuer = true;
            payment.answered = Some(ACQUIRER_ERROR.result_code.to_owned());
            payment.due_ms = Some(call.now_ms + DECIDED_AFTER_MS);
        }
        Behaviour::Half => {
            payment.amount.value /= 2;
            payment.answered = Some("PartiallyAuthorised".to_owned());
            answered(call, &mut payment, None)?;
        }
        Behaviour::Says(result_code) => payment.answered = Some(result_code.to_owned()),
    }
    save(call, &payment)?;
    Ok(shown(call, &payment))
}

/// What the issuer's answer makes of a payment.
fn answered(call: &mut Call, payment: &mut Payment, refusal: Option<Refusal>) -> Fallible<()> {
    payment.asked_issuer = true;
    concluded(call, payment, refusal)
}

fn concluded(call: &mut Call, payment: &mut Payment, refusal: Option<Refusal>) -> Fallible<()> {
    payment.due_ms = None;
    if let Some(refusal) = refusal {
        payment.standing = Standing::Refused;
        payment.refusal = Some(Refused {
            result_code: refusal.result_code.to_owned(),
            code: refusal.code.to_owned(),
            reason: refusal.reason.to_owned(),
        });
    } else {
        payment.standing = Standing::Authorised;
        payment.authorised = true;
        match payment.capture {
            CaptureMode::Immediate => payment.amount_captured = payment.amount.value,
            CaptureMode::AfterHours(hours) => payment.due_ms = Some(call.now_ms + hours * HOUR_MS),
            CaptureMode::Manual => payment.due_ms = Some(call.now_ms + AUTHORISATION_LASTS_MS),
        }
    }
    tell(call, payment, "AUTHORISATION", refusal.map(|refusal| refusal.reason))
}

fn tell(call: &mut Call, payment: &Payment, code: &'static str, failure: Option<&str>) -> Fallible<()> {
    notifications::record(
        call,
        payment,
        &Event { code, modification: None, reference: None, amount: None, failure, reason: None },
    )
}

/// What time does to a payment.
pub fn settle(call: &mut Call, mut payment: Payment) -> Fallible<()> {
    match payment.standing {
        Standing::Pending => {
            let refusal = match cards::find(&payment.stored_payment_method).map(|card| card.behaviour) {
                Some(Behaviour::Pend(refusal)) => refusal,
                _ => None,
            };
            answered(call, &mut payment, refusal)?;
        }
        Standing::Authorised if matches!(payment.capture, CaptureMode::AfterHours(_)) => {
            payment.amount_captured = payment.amount.value;
            payment.due_ms = None;
        }
        Standing::Authorised => {
            payment.standing = Standing::Expired;
            payment.due_ms = None;
            return expired(call, &payment);
        }
        Standing::AwaitingShopper | Standing::Refused | Standing::Cancelled | Standing::Expired => {
            payment.due_ms = None;
        }
    }
    save(call, &payment)
}

/// Tells that a payment has expired.
pub fn expired(call: &mut Call, payment: &Payment) -> Fallible<()> {
    tell(call, payment, "EXPIRE", None)?;
    save(call, payment)
}

/// The issuer's yes, after the answer was no or none. What was answered stays what it was.
pub fn authorised_late(call: &mut Call, mut payment: Payment) -> Fallible<()> {
    let answered_before = payment.refusal.take().map(|refusal| refusal.result_code);
    payment.answered = payment.answered.or(answered_before);
    answered(call, &mut payment, None)?;
    save(call, &payment)
}

/// The body of `POST /payments/details`.
#[derive(Debug, Clone)]
pub struct DetailsRequest {
    redirect_result: String,
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

/// `POST /payments/details`: goes on after the 3-D Secure page. Asked again, it tells what has become of the payment.
pub fn details(call: &mut Call, request: &DetailsRequest) -> Fallible<Value> {
    let unknown = || Failure::from(Problem::validation("702", "Invalid redirectResult"));
    let id = request.redirect_result.split('!').next().unwrap_or_default();
    let mut payment = find(call, id)?.ok_or_else(unknown)?;
    let Some((result, passed)) = payment.redirect.clone() else {
        return Err(unknown());
    };
    if result != request.redirect_result {
        return Err(unknown());
    }
    if payment.standing == Standing::AwaitingShopper {
        let card = cards::find(&payment.stored_payment_method);
        match card.map(|card| card.behaviour) {
            _ if !passed => concluded(call, &mut payment, Some(NOT_AUTHENTICATED))?,
            Some(Behaviour::Authenticate(refusal)) => answered(call, &mut payment, refusal)?,
            _ => answered(call, &mut payment, None)?,
        }
        save(call, &payment)?;
    }
    Ok(shown(call, &payment))
}

/// The 3-D Secure page of a payment and its two buttons; `None` if there is no such payment.
pub fn shopper(call: &mut Call, id: &str, decision: Decision) -> Fallible<Option<Reply>> {
    let Some(mut payment) = find(call, id)? else {
        return Ok(None);
    };
    if payment.standing != Standing::AwaitingShopper || payment.redirect.is_some() {
        return Ok(Some(Reply::html(200, pages::message("Nothing to do: this payment has been decided."))));
    }
    if decision == Decision::Look {
        let waiting = Waiting { id, amount: payment.amount.for_people() };
        return Ok(Some(Reply::html(200, pages::three_d_secure(&waiting))));
    }
    let result = format!("{id}!{}", ids::word(call.ids, 24));
    payment.redirect = Some((result.clone(), decision == Decision::Accept));
    save(call, &payment)?;
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair("redirectResult", &result).finish();
    let return_url = payment.return_url.unwrap_or_default();
    Ok(Some(Reply::see_other(three_d_secure::with_query(&return_url, &query))))
}

/// A payment by its `pspReference`.
pub fn find(call: &Call, psp_reference: &str) -> Fallible<Option<Payment>> {
    match call.store.find(Kind::AdyenPayment, psp_reference)? {
        Some(row) => Ok(Some(serde_json::from_str(&row.body)?)),
        None => Ok(None),
    }
}

/// Writes one back.
pub fn save(call: &mut Call, payment: &Payment) -> Fallible<()> {
    Ok(call.save(Kind::AdyenPayment, &payment.psp_reference, payment, payment.due_ms)?)
}

/// `PaymentResponse`.
fn shown(call: &Call, payment: &Payment) -> Value {
    let result_code = match (payment.standing, &payment.refusal) {
        _ if payment.answered.is_some() => payment.answered.as_deref().unwrap_or_default(),
        (_, Some(refusal)) => refusal.result_code.as_str(),
        (Standing::AwaitingShopper, None) => "RedirectShopper",
        (Standing::Pending, None) => "Pending",
        (Standing::Cancelled, None) if !payment.authorised => "Cancelled",
        _ => "Authorised",
    };
    let mut answer = json!({
        "pspReference": payment.psp_reference,
        "resultCode": result_code,
        "amount": payment.amount,
        "merchantReference": payment.reference,
        "paymentMethod": { "brand": payment.brand, "type": "scheme" },
    });
    if let Some(fields) = answer.as_object_mut() {
        if let Some(refusal) = &payment.refusal {
            fields.insert("refusalReason".into(), json!(refusal.reason));
            fields.insert("refusalReasonCode".into(), json!(refusal.code));
        }
        if payment.standing == Standing::AwaitingShopper {
            let url = three_d_secure::address(call, &payment.psp_reference, payment.return_url.as_deref());
            fields.insert(
                "action".into(),
                json!({ "method": "GET", "paymentMethodType": "scheme", "type": "redirect", "url": url }),
            );
        }
    }
    answer
}
