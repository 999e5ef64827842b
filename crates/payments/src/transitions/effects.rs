//! What a new state of a payment or of a refund brings with it, whoever brought it about.

use serde_json::json;

use crate::engine::{Context, ObjectState};
use crate::payment::PaymentState;
use crate::payment::refund::{Refund, RefundState};
use crate::transitions::audit::{record, record_for_owner};
use crate::transitions::receipt::About;
use crate::transitions::{polling, receipt, try_rows};
use once::context::Bug;

/// What every new state of a payment brings with it, whoever brought it about: the audit record, the receipt once money was
/// taken, and whether the provider is to be asked how it goes on.
pub(crate) fn on_transition(state: &mut ObjectState, ctx: &Context) -> Result<(), Bug> {
    try_rows::follow(state);
    polling::schedule(state, ctx);
    let payment = state.resource.payment.as_ref().ok_or_else(|| Bug("no payment".into()))?;
    let actor = state.keys.first().map(|key| key.owner.clone()).ok_or_else(|| Bug("no key".into()))?;
    let action = match &payment.state {
        PaymentState::Authorizing => return Ok(()),
        PaymentState::RequiresAction { .. } => "payment.requires_action",
        PaymentState::Processing => "payment.processing",
        PaymentState::Authorized => "payment.authorized",
        PaymentState::Captured { .. } => "payment.captured",
        PaymentState::CaptureFailed { .. } => "payment.capture_failed",
        PaymentState::Canceled => "payment.canceled",
        PaymentState::Expired => "payment.expired",
        PaymentState::Failed(_) => "payment.failed",
    };
    let code = match &payment.state {
        PaymentState::Failed(failure) => Some(failure.code.clone()),
        _ => None,
    };
    let subject = payment.id.to_string();
    let data = json!({
        "provider": payment.provider, "provider_payment": payment.provider_payment, "attempt": payment.attempt,
        "amount_captured": payment.captured_minor(), "currency": payment.currency, "code": code,
    });
    let payment = payment.clone();
    record(state, actor, action, subject, data, ctx);
    match payment.state {
        PaymentState::Authorized => {
            if let Some(payment) = &mut state.resource.payment {
                payment.paid_at_ms.get_or_insert(ctx.now_ms);
            }
        }
        PaymentState::Captured { .. } if payment.receipted => {}
        PaymentState::Captured { .. } => {
            receipt::of_payment(state, &payment, About::Paid, ctx);
            if let Some(payment) = &mut state.resource.payment {
                payment.receipted = true;
                payment.paid_at_ms = Some(ctx.now_ms);
            }
        }
        PaymentState::Canceled => receipt::of_payment(state, &payment, About::Voided, ctx),
        _ => {}
    }
    Ok(())
}

/// What a refund's new state brings with it: the audit record, and the email once it is done.
pub(crate) fn refund_moved(state: &mut ObjectState, refund: &Refund, ctx: &Context) {
    let is_done = refund.state == RefundState::Succeeded;
    let action = if is_done { "refund.succeeded" } else { "refund.failed" };
    let data = json!({ "amount": refund.amount.get(), "provider_refund": refund.provider_refund });
    record_for_owner(state, action, refund.id.to_string(), data, ctx);
    if is_done {
        receipt::of_refund(state, refund, ctx);
    }
}
