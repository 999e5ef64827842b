//! The rows of a payment's tries follow what becomes of it.

use crate::engine::{CallState, ObjectState, ProviderCall, Settlement};
use crate::payment::PaymentState;
use crate::payment::result::{CallKind, ProviderResult};
use crate::payment::tries::Try;
use once::sorted;

/// The try of this number.
pub(crate) fn of(state: &ObjectState, attempt: u32) -> Option<&Try> {
    state.resource.tries.iter().find(|row| row.attempt == attempt)
}

/// The same, to be changed.
pub(crate) fn of_mut(state: &mut ObjectState, attempt: u32) -> Option<&mut Try> {
    state.resource.tries.iter_mut().find(|row| row.attempt == attempt)
}

/// A try begins: its call is frozen under this key.
pub fn begin(state: &mut ObjectState, provider_key: &str) {
    let Some(payment) = &state.resource.payment else { return };
    let row = Try {
        attempt: payment.attempt,
        provider: payment.provider,
        merchant_account: payment.merchant_account.clone(),
        provider_payment: None,
        provider_key: provider_key.to_owned(),
        amount: payment.amount,
        currency: payment.currency,
        capture: payment.capture,
        status: payment.status().to_owned(),
        definitive: None,
        was_authorized: false,
        ended_at_ms: None,
        asked_for: None,
        late: None,
        dispute: None,
    };
    state.resource.tries.retain(|known| known.attempt != row.attempt);
    state.resource.tries.push(row);
}

/// The newest try is as the payment is now.
pub fn follow(state: &mut ObjectState) {
    let Some(payment) = &state.resource.payment else { return };
    let Some(row) = state.resource.tries.iter_mut().find(|row| row.attempt == payment.attempt) else {
        return;
    };
    row.provider_payment.clone_from(&payment.provider_payment);
    payment.status().clone_into(&mut row.status);
    row.ended_at_ms = payment.ended_at_ms;
    row.was_authorized |= payment.is_paid();
    row.definitive = match &payment.state {
        PaymentState::Authorizing | PaymentState::Processing | PaymentState::RequiresAction { .. } => None,
        _ => Some(!is_inferred(&state.calls, &row.provider_key)),
    };
}

/// It did not answer, and its list does not have it; or an operator has settled it.
fn is_inferred(calls: &[ProviderCall], provider_key: &str) -> bool {
    let call = calls.iter().find(|call| call.provider_key == provider_key);
    call.is_some_and(|call| {
        call.evidence.by_hand.is_some() || matches!(call.state, CallState::Settled(Settlement::NotExecuted))
    })
}

/// Adds the tries of a payment that was made before they had rows: from its calls, and as what they ended.
pub fn complete(state: &mut ObjectState) {
    let Some(payment) = state.resource.payment.clone() else { return };
    let made: Vec<(u32, ProviderCall)> = state
        .calls
        .iter()
        .filter(|call| call.kind == CallKind::Authorize)
        .filter_map(|call| Some((call.name.strip_prefix("authorize_")?.parse().ok()?, call.clone())))
        .collect();
    for (attempt, call) in made {
        if state.resource.tries.iter().any(|row| row.attempt == attempt) {
            continue;
        }
        let (provider_payment, status, was_authorized) = match &call.state {
            CallState::Settled(Settlement::Answered(reply)) => match &reply.result {
                ProviderResult::Charged { payment, .. } => (Some(payment.clone()), "canceled", true),
                ProviderResult::Authorized { payment, .. } | ProviderResult::Moved { payment, .. } => {
                    (Some(payment.clone()), "canceled", true)
                }
                ProviderResult::RequiresAction { payment, .. } | ProviderResult::Processing { payment } => {
                    (Some(payment.clone()), "canceled", false)
                }
                ProviderResult::Declined { payment, .. } => (payment.clone(), "declined", false),
                ProviderResult::Rejected { payment, .. } => (payment.clone(), "failed", false),
                _ => (None, "failed", false),
            },
            _ => (None, "failed", false),
        };
        let is_settled = call.is_settled();
        state.resource.tries.push(Try {
            attempt,
            provider: call.provider,
            merchant_account: payment.merchant_account.clone().filter(|_| call.provider == payment.provider),
            provider_payment,
            provider_key: call.provider_key.clone(),
            amount: payment.amount,
            currency: payment.currency,
            capture: payment.capture,
            status: status.to_owned(),
            definitive: is_settled.then(|| !is_inferred(&state.calls, &call.provider_key)),
            was_authorized,
            ended_at_ms: None,
            asked_for: None,
            late: None,
            dispute: None,
        });
    }
    sorted::by_key(&mut state.resource.tries, |row| row.attempt);
    follow(state);
}
