//! Voiding a payment that was not captured: `reserved → finished`, with one call in between. The merchant does it, or a
//! person who was sent to the bank's page and wants to pay with another card.
//!
//! Outcomes: 200 and the payment, canceled; 202 if the provider has only received it, and tells later how it ended; 402 if the provider refuses, with the payment as it then is: a person may have
//! come back from the bank's page in the meantime.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::capture::{move_key, must_be_free, settle_move};
use super::engine::{CallSpec, End, Payments, Phase};
use super::{PhaseExt, Point, Refusal, order_link};
use crate::payment::{PaymentState, Pending};
use crate::providers::result::CallKind;
use once::call::RetryPolicy;
use once::context::Bug;
use once::flow::Admission;

/// What is asked for. The merchant has nothing to say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoidRequest {
    /// The page to which a form leads.
    pub page: Option<String>,
    /// The try that a person gives up: that one and no other, and only while it waits at the bank's page.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// The revision of the link through which it is given up. One that was replaced or ended gives up nothing but its own.
    #[serde(default)]
    pub link_revision: Option<u32>,
}

const VOID: &str = "void";

/// Whether a payment in this state may be voided, while nothing else moves it.
pub const fn is_voidable(state: &PaymentState) -> bool {
    use PaymentState::{Authorized, Processing, RequiresAction};
    matches!(state, Authorized | RequiresAction { .. } | Processing)
}

/// The reservation: while the void is under way nothing else moves the payment.
pub(super) fn admit(request: &VoidRequest, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    let key_id = phase.key_id;
    let Some(payment) = &mut phase.rows.resource.payment else {
        return Ok(Err(Refusal::NoPayment));
    };
    if let Some(refusal) = must_be_free(payment, "voided", is_voidable) {
        return Ok(Err(refusal));
    }
    if let Some(refusal) = order_link::refusal(phase.rows.resource.links.as_ref(), request.link_revision)
        && request.link_revision.is_some_and(|revision| !order_link::is_through(payment, revision))
    {
        return Ok(Err(refusal));
    }
    let is_at_the_bank = matches!(payment.state, PaymentState::RequiresAction { .. });
    if request.attempt.is_some_and(|attempt| attempt != payment.attempt || !is_at_the_bank) {
        let detail = "This try does not wait for the bank any more. Nothing was run.".to_owned();
        return Ok(Err(Refusal::State { state: payment.status().to_owned(), detail }));
    }
    payment.moves = payment.moves.saturating_add(1);
    payment.failed_operation = None;
    payment.pending = Some(Pending::Void { key_id, received: false });
    let id = payment.id.to_string();
    phase.audit("void.requested", id, json!({}))?;
    Ok(Ok(Some(Point::Reserved)))
}

/// The flow.
pub(super) fn run(request: &VoidRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let payment = phase.payment()?.clone();
    if !matches!(payment.pending, Some(Pending::Void { .. })) {
        return Err(Bug("a void without its reservation".into()));
    }
    let Some(settlement) = phase.settlement(VOID)? else {
        let derived_key = payment.provider.derived_key(&move_key(&payment, VOID));
        return Ok(End::Call(CallSpec {
            name: VOID.to_owned(),
            kind: CallKind::Void,
            provider: payment.provider,
            retry_policy: RetryPolicy::IdempotentByKey,
            request: payment.provider.void(&payment, &derived_key)?,
            derived_key,
        }));
    };
    settle_move(phase, settlement, "The void", request.page.as_deref())
}
