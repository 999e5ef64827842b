//! What is sent to Adyen: a payment with a stored card, its modifications, and what closes a call, each as bytes.

use super::amount::AmountBody;
use crate::payment::{Payment, Refund, RefundReason, own_keys};
use crate::providers::codec::{Authorization, UnsupportedMoney};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use once::call::FrozenRequest;
use once::id::digest;
use serde::{Deserialize, Serialize};

/// How long after the first send, in ms, the same key may be sent again. Adyen keeps keys for at least seven days and may
/// execute anew after that: six leave a day for late copies and clocks that differ.
pub const WINDOW_MS: u64 = 6 * 24 * 3_600_000;

/// The longest `reference`, in characters.
const REFERENCE_MAX_LEN: usize = 80;

/// The version of the Checkout API.
const API_VERSION: &str = "v71";

/// The address of the Checkout API: the live one of the merchant that has this prefix, or the one for tests.
/// <https://docs.adyen.com/development-resources/live-endpoints>
pub fn base(live_prefix: Option<&str>) -> String {
    match live_prefix {
        Some(prefix) => {
            format!("https://{prefix}-checkout-live.adyenpayments.com/checkout/{API_VERSION}")
        }
        None => format!("https://checkout-test.adyen.com/{API_VERSION}"),
    }
}

/// What can be paid with in a merchant account: it changes nothing, and is answered only to a key that is good for it.
/// <https://docs.adyen.com/api-explorer/Checkout/71/post/paymentMethods>
pub fn payment_methods(merchant_account: &str) -> FrozenRequest {
    let body = serde_json::json!({ "merchantAccount": merchant_account }).to_string();
    FrozenRequest::new("/paymentMethods".to_owned(), body)
}

/// The idempotency key for Adyen, which takes 64 characters: `po_` and 144 bits of the digest of our readable key, so short
/// that it fits into the `reference` too.
pub fn provider_key(text: &str) -> String {
    let hash = digest(&[b"adyen", text.as_bytes()]);
    format!("po_{}", Base64UrlUnpadded::encode_string(hash.get(..18).unwrap_or_default()))
}

/// The order of the members is the order of the bytes: a frozen request is the same at every try.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentBody<'a> {
    amount: AmountBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_account: Option<&'a str>,
    reference: String,
    payment_method: StoredCard<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shopper_reference: Option<&'a str>,
    shopper_interaction: &'static str,
    recurring_processing_model: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture_delay_hours: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_data: Option<AdditionalData>,
    authentication_data: AuthenticationData,
    return_url: &'a str,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredCard<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    stored_payment_method_id: &'a str,
}

/// Adyen's values here are strings, whatever they mean.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdditionalData {
    pub(super) manual_capture: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationData {
    attempt_authentication: &'static str,
}

/// Ours alone. Adyen takes 20 pairs of 20 and 80 characters, fewer and shorter than the merchant may give us: a part of the
/// merchant's would be worse than none, so all of it stays with us, where the id leads.
#[derive(Serialize)]
struct Metadata<'a> {
    resource: &'a str,
}

/// A payment with a stored card, captured at once or later. The description is not sent: the only text that Adyen takes is
/// the one on the bank's statement.
pub fn authorize(authorization: &Authorization<'_>) -> Result<FrozenRequest, UnsupportedMoney> {
    let manual = || AdditionalData { manual_capture: "true".to_owned() };
    let body = PaymentBody {
        amount: AmountBody::new(authorization.amount_minor, authorization.currency)?,
        merchant_account: authorization.merchant_account.map(own_keys::at_adyen),
        reference: reference(authorization.resource, authorization.provider_key),
        payment_method: StoredCard { kind: "scheme", stored_payment_method_id: authorization.payment_method },
        shopper_reference: authorization.customer,
        shopper_interaction: "ContAuth",
        // With a card on file the person is said to be there; else only the merchant is. As nobody is asked to authenticate, what is said to be the
        // person's is declined where authentication is required, and what is said to be the merchant's is not.
        recurring_processing_model: match authorization.return_url {
            Some(_) => "CardOnFile",
            None => "UnscheduledCardOnFile",
        },
        // Both are said: what the merchant's account has as its default must not decide.
        capture_delay_hours: authorization.capture.then_some(0),
        additional_data: (!authorization.capture).then(manual),
        authentication_data: AuthenticationData { attempt_authentication: "never" },
        // The schema wants one, also where nobody is there to come back.
        return_url: authorization.return_url.unwrap_or(authorization.payment_url),
        metadata: Metadata { resource: authorization.resource },
    };
    Ok(frozen("/payments".to_owned(), encode(&body), authorization.merchant_account))
}

/// A request, and whose key it is sent with: the deployment's, or that of an account with [keys of its own](own_keys).
pub(super) fn frozen(path: String, body: String, merchant_account: Option<&str>) -> FrozenRequest {
    let own = merchant_account.filter(|name| own_keys::account_of(name).is_some());
    FrozenRequest::new(path, body).for_account(own)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModificationBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_account: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<AmountBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    merchant_refund_reason: Option<&'static str>,
    reference: String,
}

/// Takes what was reserved, or a part of it. `id` is Adyen's `pspReference` of the payment.
pub fn capture(
    id: &str,
    payment: &Payment,
    amount_minor: u64,
    provider_key: &str,
) -> Result<FrozenRequest, UnsupportedMoney> {
    let amount = AmountBody::new(amount_minor, payment.currency)?;
    Ok(modification(id, "captures", payment, Some(amount), None, provider_key))
}

/// Gives up what was reserved.
pub fn void(id: &str, payment: &Payment, provider_key: &str) -> FrozenRequest {
    modification(id, "cancels", payment, None, None, provider_key)
}

/// Gives money back.
pub fn refund(
    id: &str,
    payment: &Payment,
    refund: &Refund,
    provider_key: &str,
) -> Result<FrozenRequest, UnsupportedMoney> {
    let amount = AmountBody::new(refund.amount.get(), payment.currency)?;
    let reason = match refund.reason {
        RefundReason::RequestedByCustomer => "CUSTOMER REQUEST",
        RefundReason::Duplicate => "DUPLICATE",
        RefundReason::Fraudulent => "FRAUD",
    };
    Ok(modification(id, "refunds", payment, Some(amount), Some(reason), provider_key))
}

pub(super) fn modification(
    id: &str,
    kind: &str,
    payment: &Payment,
    amount: Option<AmountBody>,
    merchant_refund_reason: Option<&'static str>,
    provider_key: &str,
) -> FrozenRequest {
    let body = ModificationBody {
        merchant_account: payment.merchant_account.as_deref().map(own_keys::at_adyen),
        amount,
        merchant_refund_reason,
        reference: reference(&payment.id.to_string(), provider_key),
    };
    frozen(format!("/payments/{id}/{kind}"), encode(&body), payment.merchant_account.as_deref())
}

/// By which a person finds our resource, and a webhook the call: `{resource}.{derived key}`, 76 characters at most.
fn reference(resource: &str, provider_key: &str) -> String {
    let both = format!("{resource}.{provider_key}");
    if both.len() <= REFERENCE_MAX_LEN { both } else { resource.to_owned() }
}

/// Structs of strings and numbers always have a JSON form.
pub(super) fn encode(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}
