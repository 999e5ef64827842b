//! Adyen's payments: <https://docs.adyen.com/api-explorer/Checkout/71/post/payments>
//!
//! ```text
//! POST /payments → Authorised | Refused | Error | Pending | RedirectShopper
//! Pending ─a minute→ Authorised | Refused        RedirectShopper ─3-D Secure, POST /payments/details→ Authorised | Refused
//! RedirectShopper ─12 hours→ cancelled (OFFER_CLOSED)
//! Authorised ─captured at once, after captureDelayHours, or by /captures→ (money taken)
//! Authorised and not captured ─/cancels→ cancelled          ─28 days→ expired
//! ```

use serde_json::{Value, json};

use crate::adyen::cards::{
    self, ACQUIRER_ERROR, AUTHENTICATION_REQUIRED, Behaviour, NOT_AUTHENTICATED, Refusal,
};
use crate::adyen::errors::{Failure, Fallible, Problem};
use crate::adyen::kinds::Kind;
use crate::adyen::notifications::{self, Event};
use crate::adyen::payment::{CaptureMode, Payment, PaymentStatus, Refused, find, save};
use crate::adyen::payment_request::{DetailsRequest, PaymentRequest};
use crate::provider::{Call, Links};
use crate::three_d_secure;

/// How long a payment is `Pending`.
const DECIDED_AFTER_MS: i64 = 60_000;
/// How long an authorisation lasts that nobody captures.
const AUTHORISATION_LASTS_MS: i64 = 28 * 24 * HOUR_MS;
const HOUR_MS: i64 = 60 * 60 * 1000;
/// How long a shopper who was redirected can come back.
const OFFERED_FOR_MS: i64 = 12 * HOUR_MS;

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
        last4: request.card.last4.to_owned(),
        metadata: request.metadata.clone(),
        capture: request.capture,
        status: PaymentStatus::Pending,
        authorised: false,
        asked_issuer: false,
        refusal: None,
        answered: None,
        return_url: Some(request.return_url.clone()),
        redirect: None,
        due_ms: None,
    };
    call.insert(Kind::Payment, &payment.psp_reference, &payment, Links::default())?;
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
        Behaviour::Authenticate(_) | Behaviour::AuthenticateNamed if !request.shopper_present => {
            answered(call, &mut payment, Some(NOT_AUTHENTICATED))?;
        }
        // The shopper is there, and may not be asked.
        Behaviour::Authenticate(_) | Behaviour::AuthenticateNamed if request.never_authenticates => {
            answered(call, &mut payment, Some(AUTHENTICATION_REQUIRED))?;
        }
        Behaviour::Authenticate(_) | Behaviour::AuthenticateNamed => {
            payment.status = PaymentStatus::AwaitingShopper;
            payment.due_ms = Some(call.now_ms + OFFERED_FOR_MS);
        }
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
        payment.status = PaymentStatus::Refused;
        payment.refusal = Some(Refused {
            result_code: refusal.result_code.to_owned(),
            code: refusal.code.to_owned(),
            reason: refusal.reason.to_owned(),
        });
    } else {
        payment.status = PaymentStatus::Authorised;
        payment.authorised = true;
        match payment.capture {
            CaptureMode::Immediate => payment.amount_captured = payment.amount.value,
            CaptureMode::AfterHours(hours) => payment.due_ms = Some(call.now_ms + hours * HOUR_MS),
            CaptureMode::Manual => payment.due_ms = Some(call.now_ms + AUTHORISATION_LASTS_MS),
        }
    }
    let reason = format!("123456:{}:12/2034", payment.last4);
    notify(call, payment, "AUTHORISATION", refusal.map(|refusal| refusal.reason), Some(&reason))
}

/// Of an authorisation that succeeded the reason is the issuer's code, the card's last four digits and its expiry.
/// <https://docs.adyen.com/development-resources/webhooks/webhook-types>
fn notify(
    call: &mut Call,
    payment: &Payment,
    code: &'static str,
    failure: Option<&str>,
    reason: Option<&str>,
) -> Fallible<()> {
    notifications::record(
        call,
        payment,
        &Event { code, modification: None, reference: None, amount: None, failure, reason, action: None },
    )
}

/// What time does to a payment.
pub fn settle(call: &mut Call, mut payment: Payment) -> Fallible<()> {
    match payment.status {
        PaymentStatus::Pending => {
            let refusal = match cards::find(&payment.stored_payment_method).map(|card| card.behaviour) {
                Some(Behaviour::Pend(refusal)) => refusal,
                _ => None,
            };
            answered(call, &mut payment, refusal)?;
        }
        PaymentStatus::Authorised if matches!(payment.capture, CaptureMode::AfterHours(_)) => {
            payment.amount_captured = payment.amount.value;
            payment.due_ms = None;
        }
        PaymentStatus::Authorised => {
            payment.status = PaymentStatus::Expired;
            payment.due_ms = None;
            return expired(call, &payment);
        }
        PaymentStatus::AwaitingShopper => {
            payment.status = PaymentStatus::Cancelled;
            payment.due_ms = None;
            notify(call, &payment, "OFFER_CLOSED", None, None)?;
        }
        PaymentStatus::Refused | PaymentStatus::Cancelled | PaymentStatus::Expired => {
            payment.due_ms = None;
        }
    }
    save(call, &payment)
}

/// Tells that a payment has expired.
pub fn expired(call: &mut Call, payment: &Payment) -> Fallible<()> {
    notify(call, payment, "EXPIRE", None, None)?;
    save(call, payment)
}

/// The issuer's yes, after the answer was no or none. What was answered stays what it was.
pub fn authorised_late(call: &mut Call, mut payment: Payment) -> Fallible<()> {
    let answered_before = payment.refusal.take().map(|refusal| refusal.result_code);
    payment.answered = payment.answered.or(answered_before);
    answered(call, &mut payment, None)?;
    save(call, &payment)
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
    if payment.status == PaymentStatus::AwaitingShopper {
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

/// `PaymentResponse`.
fn shown(call: &Call, payment: &Payment) -> Value {
    let result_code = match (payment.status, &payment.refusal) {
        _ if payment.answered.is_some() => payment.answered.as_deref().unwrap_or_default(),
        (_, Some(refusal)) => refusal.result_code.as_str(),
        (PaymentStatus::AwaitingShopper, None) => "RedirectShopper",
        (PaymentStatus::Pending, None) => "Pending",
        (PaymentStatus::Cancelled, None) if !payment.authorised => "Cancelled",
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
        // An action comes without it in most of Adyen's examples.
        let card = cards::find(&payment.stored_payment_method).map(|card| card.behaviour);
        if matches!(result_code, "RedirectShopper" | "IdentifyShopper")
            && card != Some(Behaviour::AuthenticateNamed)
        {
            fields.remove("pspReference");
        }
        if let Some(digits) = payment.card_summary() {
            let data = json!({ "cardSummary": digits, "paymentMethod": payment.brand });
            fields.insert("additionalData".into(), data);
        }
        if let Some(refusal) = &payment.refusal {
            fields.insert("refusalReason".into(), json!(refusal.reason));
            fields.insert("refusalReasonCode".into(), json!(refusal.code));
        }
        if payment.status == PaymentStatus::AwaitingShopper {
            let url =
                three_d_secure::address(call.request, &payment.psp_reference, payment.return_url.as_deref());
            fields.insert(
                "action".into(),
                json!({ "method": "GET", "paymentMethodType": "scheme", "type": "redirect", "url": url }),
            );
        }
    }
    answer
}
