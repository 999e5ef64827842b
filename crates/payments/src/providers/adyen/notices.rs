//! What Adyen's webhooks answer: a call of ours that was sent and has no answer yet.

use super::answers::{DECLINED, NO_CUSTOMERS, asked, partially_authorized};
use crate::engine::{ProviderCall, ProviderReply};
use crate::payment::provider_event::OperationNotice;
use crate::payment::result::{CallKind, ProviderResult};

/// The answer that a call would have had, from what a webhook tells of it. An error says why that cannot be its answer.
pub fn told(call: &ProviderCall, told: &OperationNotice) -> Result<ProviderResult, String> {
    let payment = told.payment.clone();
    if !told.success {
        let reason = Some(told.reason.clone()).filter(|reason| !reason.is_empty());
        return Ok(match call.kind {
            CallKind::Authorize => ProviderResult::Declined {
                payment: Some(payment),
                code: "card_declined".to_owned(),
                decline_code: reason,
                message: DECLINED.to_owned(),
            },
            _ => ProviderResult::Rejected {
                payment: None,
                code: reason.unwrap_or_else(|| "provider_rejected".to_owned()),
                message: String::new(),
                found: None,
            },
        });
    }
    if call.kind == CallKind::Void {
        return Ok(ProviderResult::Voided);
    }
    let asked = asked(call, None)?;
    let is_asked = asked.amount.minor() == Some(told.amount_minor)
        && asked.amount.currency.eq_ignore_ascii_case(&told.currency);
    if !is_asked {
        return Err("the provider took another amount".to_owned());
    }
    let manual = asked.additional_data.is_some_and(|data| data.manual_capture == "true");
    Ok(match call.kind {
        CallKind::Authorize if manual => {
            ProviderResult::Authorized { payment, capture_before_ms: None, card: told.card }
        }
        CallKind::Authorize => ProviderResult::Charged { payment, card: told.card },
        CallKind::Capture => ProviderResult::Captured { amount_minor: told.amount_minor },
        CallKind::Refund => ProviderResult::Refunded { refund: told.id.clone(), settled: true },
        CallKind::Void => ProviderResult::Voided,
        CallKind::CreateCustomer | CallKind::UpdateCustomer => return Err(NO_CUSTOMERS.to_owned()),
    })
}

/// The answer of a payment of which a notification tells that a part only is held.
pub fn told_of_a_part(call: &ProviderCall, told: &OperationNotice) -> Option<ProviderReply> {
    let asked = asked(call, None).ok()?.amount;
    let is_part = call.kind == CallKind::Authorize
        && told.success
        && asked.currency.eq_ignore_ascii_case(&told.currency)
        && (1..asked.minor()?).contains(&told.amount_minor);
    let result = partially_authorized(told.payment.clone());
    is_part.then(|| ProviderReply { status: 200, result, request_id: Some(told.id.clone()) })
}
