//! Closing what an order's earlier tries have left at their provider, before another one is sent.
//!
//! A PaymentIntent that was declined can be confirmed again, days later, by whoever may: two tries of one order would be paid. So
//! it is canceled first, with one call of the new try's own operation, and the new try is sent only once it was seen canceled.
//! An order that is not tried again leaves it as it is: nobody outside has its client secret but a person who was at the bank's page, to whose way
//! back Stripe adds it. If it is paid all the same, that is told of or found by asking (`transitions::polling`), and the money is given back (`give_back`).
//!
//! Outcomes: nothing is left (`Earlier::Closed`); a call comes first (`Earlier::Close`); the earlier try was confirmed
//! meanwhile, and pays the order (`Earlier::Lives`); or it cannot be closed, and nothing is sent (`Earlier::Open`).

use serde_json::json;

use super::phase::PhaseExt;
use crate::engine::{CallSpec, Phase, Settlement};
use crate::payment::operation::PaymentRequest;
use crate::payment::provider_event::Ingested;
use crate::payment::result::{CallKind, ProviderResult, RemoteState};
use crate::payment::tries::{Try, not_given_back};
use crate::payment::{Failure, PaymentState};
use crate::transitions::audit::alert;
use crate::transitions::{late_money, left_open, polling, try_rows};
use once::call::RetryPolicy;
use once::context::Bug;

const PAID_AFTER_ALL: &str = "try.paid_after_all";

/// How the earlier tries stand.
pub(crate) enum Earlier {
    /// None of them can be paid any more.
    Closed,
    /// This is to be sent first.
    Close(CallSpec),
    /// This one was confirmed after all.
    Lives(u32, RemoteState),
    /// One could not be closed, or has money that is not given back.
    Open,
}

/// How the tries before the newest stand, as far as this key has asked.
pub(crate) fn earlier(phase: &Phase<'_>) -> Result<Earlier, Bug> {
    // It was told of since this try was admitted.
    if not_given_back(&phase.object_state.resource.tries).is_some() {
        return Ok(Earlier::Open);
    }
    let newest = phase.object_state.resource.payment.as_ref().map_or(0, |payment| payment.attempt);
    let mut earlier = left_open::left_open(phase.object_state).filter(|row| row.attempt < newest);
    let Some(row) = earlier.next() else { return Ok(Earlier::Closed) };
    let settlement = phase.settlement(&left_open::call_name(row))?;
    Ok(match settlement {
        None => Earlier::Close(close(row, phase)?),
        Some(Settlement::Answered(reply)) => match reply.result {
            ProviderResult::Rejected { found: Some(found), .. } if lives(&found) => {
                Earlier::Lives(row.attempt, found)
            }
            _ => Earlier::Open,
        },
        Some(Settlement::NotExecuted | Settlement::NeedsReview) => Earlier::Open,
    })
}

const fn lives(found: &RemoteState) -> bool {
    match found {
        RemoteState::Authorized
        | RemoteState::Captured { .. }
        | RemoteState::RequiresAction { .. }
        | RemoteState::Processing => true,
        RemoteState::Voided | RemoteState::Expired | RemoteState::Failed(_) => false,
    }
}

fn close(row: &Try, phase: &Phase<'_>) -> Result<CallSpec, Bug> {
    let payment = phase.object_state.resource.payment.as_ref().ok_or_else(|| Bug("no payment".into()))?;
    // Each key that wants to begin another try asks anew.
    let provider_key =
        row.provider.provider_key(&format!("{}_close_{}_{}", payment.id, row.attempt, phase.key_id));
    Ok(CallSpec {
        name: left_open::call_name(row),
        kind: CallKind::Void,
        provider: row.provider,
        retry_policy: RetryPolicy::IdempotentByKey,
        request: row.provider.void(&row.stand_in(payment), &provider_key)?,
        provider_key,
    })
}

/// An earlier try was confirmed after all: that is the order's payment, if it is what is asked for now. Else its money is given
/// back.
pub(crate) fn adopt(
    request: &PaymentRequest,
    attempt: u32,
    found: RemoteState,
    phase: &mut Phase<'_>,
) -> Result<(), Bug> {
    let row = try_rows::of_mut(phase.object_state, attempt);
    let row = row.ok_or_else(|| Bug(format!("no try {attempt}")))?;
    let is_asked_for =
        row.amount == request.amount && row.currency == request.currency && row.capture == request.capture;
    if !is_asked_for {
        if let RemoteState::Captured { amount_minor } = found {
            let provider = row.provider;
            let found = late_money::found(phase.object_state, attempt, amount_minor, true, phase.ctx)?;
            if let Ingested::Alert { detail } = found {
                alert(phase.object_state, provider, None, &detail, phase.ctx);
            }
        }
        return open(phase);
    }
    // It is asked for as the payment's newest from now on.
    row.asked_for = None;
    let row = row.clone();
    let payment = phase.payment()?;
    if payment.provider != row.provider {
        payment.customer = request.route.customer.clone().filter(|_| request.route.provider == row.provider);
    }
    payment.attempt = row.attempt;
    payment.provider = row.provider;
    payment.merchant_account = row.merchant_account;
    payment.provider_payment = row.provider_payment;
    // That try's card was not asked for.
    payment.card = None;
    payment.apply(found);
    let is_captured = polling::is_captured(payment);
    let (id, data) = (payment.id.to_string(), json!({ "attempt": attempt, "status": payment.status() }));
    phase.audit(PAID_AFTER_ALL, id, data)?;
    // Stripe says that it has succeeded also once all of it was refunded, or a bank has taken it back.
    if is_captured {
        polling::doubt_all(phase.object_state, PAID_AFTER_ALL, phase.ctx);
    }
    Ok(())
}

/// Nothing is sent while an earlier try can still be paid.
pub(crate) fn open(phase: &mut Phase<'_>) -> Result<(), Bug> {
    phase.payment()?.state = PaymentState::Failed(Failure {
        declined: false,
        code: "earlier_try_open".to_owned(),
        decline_code: None,
        message:
            "An earlier attempt to pay is still being canceled at the payment provider, so no other was begun. \
                  Nothing was charged for this one. Try again in a few minutes, with another key."
                .to_owned(),
    });
    Ok(())
}
