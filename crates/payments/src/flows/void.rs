//! Voiding a payment that was not captured: `reserved → finished`, with one call in between. The merchant does it, or a
//! person who was sent to the bank's page and wants to pay with another card.
//!
//! Outcomes: 200 and the payment, canceled; 202 if the provider has only received it, and tells later how it ended; 402 if the provider refuses, with the payment as it then is: a person may have
//! come back from the bank's page in the meantime.

use super::capture::{move_key, must_be_attempt, must_be_free, settle_move};
use super::order_link;
use crate::payment::order_link::is_through;
use serde_json::json;

use super::phase::PhaseExt;
use crate::engine::{CallSpec, End, Payments, Phase};
use crate::payment::operation::{Point, Refusal, VoidRequest};
use crate::payment::result::CallKind;
use crate::payment::{InFlight, PaymentState};
use once::call::RetryPolicy;
use once::context::Bug;
use once::flow::Admission;

const VOID: &str = "void";

/// Whether a payment in this state may be voided, while nothing else moves it.
pub const fn is_voidable(state: &PaymentState) -> bool {
    use PaymentState::{Authorized, Processing, RequiresAction};
    matches!(state, Authorized | RequiresAction { .. } | Processing)
}

/// The reservation: while the void is under way nothing else moves the payment.
pub(crate) fn admit(request: &VoidRequest, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    let key_id = phase.key_id;
    let Some(payment) = &mut phase.object_state.resource.payment else {
        return Ok(Err(Refusal::NoPayment));
    };
    if let Some(refusal) =
        must_be_attempt(payment, request.attempt).or_else(|| must_be_free(payment, "voided", is_voidable))
    {
        return Ok(Err(refusal));
    }
    if let Some(refusal) =
        order_link::refusal(phase.object_state.resource.links.as_ref(), request.link_revision)
        && request.link_revision.is_some_and(|revision| !is_through(payment, revision))
    {
        return Ok(Err(refusal));
    }
    let is_at_the_bank = matches!(payment.state, PaymentState::RequiresAction { .. });
    if request.link_revision.is_some() && !is_at_the_bank {
        let detail = "This try does not wait for the bank any more. Nothing was executed.".to_owned();
        return Ok(Err(Refusal::State { state: payment.status().to_owned(), detail }));
    }
    payment.moves = payment.moves.saturating_add(1);
    payment.failed_operation = None;
    payment.pending = Some(InFlight::Void { key_id, received: false });
    let id = payment.id.to_string();
    phase.audit("void.requested", id, json!({}))?;
    Ok(Ok(Some(Point::Reserved)))
}

/// The flow.
pub(crate) fn run(request: &VoidRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let payment = phase.payment()?.clone();
    if !matches!(payment.pending, Some(InFlight::Void { .. })) {
        return Err(Bug("a void without its reservation".into()));
    }
    let Some(settlement) = phase.settlement(VOID)? else {
        let provider_key = payment.provider.provider_key(&move_key(&payment, VOID));
        return Ok(End::Call(CallSpec {
            name: VOID.to_owned(),
            kind: CallKind::Void,
            provider: payment.provider,
            retry_policy: RetryPolicy::IdempotentByKey,
            request: payment.provider.void(&payment, &provider_key)?,
            provider_key,
        }));
    };
    settle_move(phase, settlement, VOID, request.page.as_deref())
}
