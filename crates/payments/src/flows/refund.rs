//! Giving money back, whole or in part: `reserved → finished`, with one call in between.
//!
//! Outcomes: 201 and the refund, succeeded or pending at the provider; 402 if the provider refuses it. The amount is
//! reserved from the first phase on, so that ten refunds at once never give back more than was captured.

use super::capture::{must_be_free, must_be_payable};
use serde_json::json;

use super::phase::PhaseExt;
use crate::engine::{CallSpec, End, Payments, Phase, Settlement};
use crate::flows::phase::{not_executed_reason, respond};
use crate::payment::id::RefundId;
use crate::payment::locale::Locale;
use crate::payment::money::AmountMinor;
use crate::payment::money::for_people;
use crate::payment::operation::{Point, RefundRequest, Refusal};
use crate::payment::refund::{Refund, RefundState};
use crate::payment::result::{CallKind, ProviderResult};
use crate::payment::{Payment, PaymentState};
use crate::transitions::{polling, receipt, refunds};
use once::call::RetryPolicy;
use once::context::Bug;
use once::flow::Admission;

pub(crate) const REFUND: &str = "refund";

/// Whether it is captured and no bank may take it back: what that takes would be paid back twice.
pub(crate) fn is_refundable(payment: &Payment) -> bool {
    matches!(payment.state, PaymentState::Captured { .. }) && !payment.forbids_refunds()
}

/// The reservation: a row of its own.
pub(crate) fn admit(request: &RefundRequest, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    let key_id = phase.key_id;
    let Some(payment) = &phase.object_state.resource.payment else {
        return Ok(Err(Refusal::NoPayment));
    };
    if let Some(refusal) = must_be_free(payment, "refunded", |_| is_refundable(payment)) {
        return Ok(Err(refusal));
    }
    let available_minor = payment
        .refundable_minor(&phase.object_state.resource.refunds)
        .saturating_sub(payment.disputed_minor());
    let amount = request.amount.or_else(|| AmountMinor::new(available_minor));
    let Some(amount) = amount.filter(|amount| amount.get() <= available_minor) else {
        let detail = match available_minor {
            0 => "Everything that was captured is refunded already, or is being refunded.".to_owned(),
            left => {
                format!("Only {} can be refunded.", for_people(Locale::En, left, payment.currency))
            }
        };
        return Ok(Err(Refusal::TooMuch { available_minor, detail }));
    };
    if let Err(refusal) = must_be_payable(amount, payment) {
        return Ok(Err(refusal));
    }
    let data = json!({
        "payment": payment.id, "amount": amount.get(), "currency": payment.currency, "reason": request.reason,
    });
    let id = RefundId::of(phase.object_state.object, &phase.key()?.key_hash.0);
    phase.object_state.resource.refunds.push(Refund {
        id: id.clone(),
        key_id,
        amount,
        reason: request.reason,
        state: RefundState::Requested,
        provider_refund: None,
        told_at_ms: None,
        undone: None,
        created_at_ms: phase.ctx.now_ms,
        version: 0,
    });
    phase.audit("refund.requested", id.to_string(), data)?;
    Ok(Ok(Some(Point::Reserved)))
}

/// The flow.
pub(crate) fn run(_: &RefundRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let Some(settlement) = phase.settlement(REFUND)? else {
        return call(phase);
    };
    let (provider_refund, state) = match settlement {
        Settlement::Answered(reply) => match reply.result {
            ProviderResult::Refunded { refund, settled: true } => (Some(refund), RefundState::Succeeded),
            ProviderResult::Refunded { refund, settled: false } => (Some(refund), RefundState::Pending),
            ProviderResult::Rejected { code, message, .. }
            | ProviderResult::Declined { code, message, .. } => (None, RefundState::Failed { code, message }),
            other => return Err(Bug(format!("a refund was answered by {}", other.name()))),
        },
        Settlement::NotExecuted => {
            let (code, message) = not_executed_reason(phase, REFUND);
            (None, RefundState::Failed { code, message })
        }
        Settlement::NeedsReview => return Err(Bug("a refund is idempotent by key".into())),
    };
    let refund = mine(phase)?;
    refund.provider_refund = provider_refund;
    refund.state = state;
    refunds::is_named(phase.object_state, phase.key_id, phase.ctx);
    let refund = mine(phase)?.clone();
    // Others may have given it back, or a bank may have taken it: a refusal says that something is otherwise than it is known here.
    if matches!(refund.state, RefundState::Failed { .. }) {
        polling::doubt_all(phase.object_state, "refund", phase.ctx);
    }
    polling::schedule(phase.object_state, phase.ctx);
    answer(&refund, phase)
}

fn mine<'a>(phase: &'a mut Phase<'_>) -> Result<&'a mut Refund, Bug> {
    let key_id = phase.key_id;
    let mut refunds = phase.object_state.resource.refunds.iter_mut();
    refunds
        .find(|refund| refund.key_id == key_id)
        .ok_or_else(|| Bug("a refund without its reservation".into()))
}

fn call(phase: &mut Phase<'_>) -> Result<End, Bug> {
    let refund = mine(phase)?.clone();
    let payment = phase.payment()?;
    let provider_key = payment.provider.provider_key(&format!("{}_refund_{}", payment.id, refund.id));
    Ok(End::Call(CallSpec {
        name: REFUND.to_owned(),
        kind: CallKind::Refund,
        provider: payment.provider,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: payment.provider.refund(payment, &refund, &provider_key)?,
        provider_key,
    }))
}

fn answer(refund: &Refund, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let payment = phase.payment()?.clone();
    let shown = refund.to_json(&payment);
    let location = payment.id.refunds_path();
    let data = json!({ "payment": payment.id, "amount": refund.amount.get(), "provider_refund": refund.provider_refund });
    let RefundState::Failed { code, message } = &refund.state else {
        let action = if refund.state == RefundState::Pending { "refund.pending" } else { "refund.succeeded" };
        phase.audit(action, refund.id.to_string(), data)?;
        if refund.state == RefundState::Succeeded {
            receipt::of_refund(phase.object_state, refund, phase.ctx);
        }
        let location = format!("{location}/{}", refund.id.0);
        return respond(phase, 201, &location, None, &shown);
    };
    phase.audit("refund.failed", refund.id.to_string(), json!({ "payment": payment.id, "code": code }))?;
    let body = json!({
        "type": "/problems/operation-refused",
        "title": "The provider refused the operation",
        "status": 402,
        "detail": format!("The refund was refused and moved nothing. {message}").trim_end(),
        "instance": location,
        "code": code,
        "refund": shown,
    });
    respond(phase, 402, &location, None, &body)
}
