//! Giving back the money of a try that was over: canceled where it is only held, else refunded, with one call. Nobody asks
//! for it: the news of the money begins it, under a key of its own, and the alarm drives it.
//!
//! Outcomes: 200 and the try. A provider that only receives it tells later how it ended.

use super::phase::PhaseExt;
use crate::engine::{CallSpec, End, Phase, Settlement};
use crate::flows::phase::respond;
use crate::payment::id::RefundId;
use crate::payment::money::AmountMinor;
use crate::payment::operation::GiveBackRequest;
use crate::payment::refund::{Refund, RefundReason, RefundState};
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::tries::{Stage, Try};
use crate::providers::stripe::ALREADY_REFUNDED;
use crate::transitions::audit::record_for_payment;
use crate::transitions::{give_back, late_money, polling, try_rows};
use once::call::RetryPolicy;
use once::context::Bug;

/// The flow.
pub(crate) fn run(request: &GiveBackRequest, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let attempt = request.attempt;
    let kind = if request.refund { CallKind::Refund } else { CallKind::Void };
    let Some(settlement) = phase.settlement(give_back::CALL)? else {
        return call(request, kind, phase);
    };
    let stage = match settlement {
        Settlement::Answered(reply) => match reply.result {
            ProviderResult::Voided | ProviderResult::Refunded { settled: true, .. } => Some(Stage::GivenBack),
            ProviderResult::Received { .. } | ProviderResult::Refunded { .. } => Some(Stage::Received),
            ProviderResult::Rejected { found: Some(RemoteState::Voided | RemoteState::Expired), .. } => {
                Some(Stage::GivenBack)
            }
            // By somebody else, before.
            ProviderResult::Rejected { code, .. } if code == ALREADY_REFUNDED => Some(Stage::GivenBack),
            ProviderResult::Rejected { code, .. } | ProviderResult::Declined { code, .. } => {
                late_money::not_done(phase.object_state, attempt, kind, &code, phase.ctx)?;
                None
            }
            other => return Err(Bug(format!("giving back was answered by {}", other.name()))),
        },
        Settlement::NotExecuted => {
            late_money::not_done(phase.object_state, attempt, CallKind::Refund, "not_executed", phase.ctx)?;
            None
        }
        Settlement::NeedsReview => return Err(Bug("giving back is idempotent by key".into())),
    };
    // What is held no more, whoever canceled it, needs no end of ours.
    let late = give_back::late_mut(phase.object_state, attempt).filter(|late| late.own != Stage::GivenBack);
    if let Some((stage, late)) = stage.zip(late) {
        late.own = stage;
        // What could only be refunded had been taken.
        late.captured |= kind == CallKind::Refund;
        late.received_at_ms = (stage == Stage::Received).then_some(phase.ctx.now_ms);
        if stage == Stage::GivenBack {
            let data = serde_json::json!({ "attempt": attempt });
            record_for_payment(phase.object_state, "try.given_back", data, phase.ctx);
        }
    }
    polling::schedule(phase.object_state, phase.ctx);
    let location = phase.payment()?.id.path();
    let shown = row(phase, attempt)?.to_json();
    respond(phase, 200, &location, None, &shown)
}

fn row(phase: &Phase<'_>, attempt: u32) -> Result<Try, Bug> {
    let row = try_rows::of(phase.object_state, attempt);
    row.cloned().ok_or_else(|| Bug(format!("no try {attempt}")))
}

fn call(request: &GiveBackRequest, kind: CallKind, phase: &mut Phase<'_>) -> Result<End, Bug> {
    let row = row(phase, request.attempt)?;
    let payment = row.stand_in(phase.payment()?);
    let provider_key = give_back::derived(&row, &payment.id.to_string(), request.refund);
    let amount_minor = row.late.as_ref().map_or(0, |late| late.amount_minor);
    let frozen = match kind {
        CallKind::Refund => {
            let refund = Refund {
                id: RefundId::of(phase.object_state.object, &phase.key()?.key_hash.0),
                key_id: phase.key_id,
                amount: AmountMinor::new(amount_minor).unwrap_or(row.amount),
                reason: RefundReason::Duplicate,
                state: RefundState::Requested,
                provider_refund: None,
                told_at_ms: None,
                undone: None,
                created_at_ms: phase.ctx.now_ms,
                version: 0,
            };
            row.provider.refund(&payment, &refund, &provider_key)?
        }
        _ => row.provider.void(&payment, &provider_key)?,
    };
    Ok(End::Call(CallSpec {
        name: give_back::CALL.to_owned(),
        kind,
        provider: row.provider,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: frozen,
        provider_key,
    }))
}
