//! What an order's earlier tries have left open at their provider: one that was declined there can be confirmed again.

use crate::engine::{CallState, ObjectState, ProviderCall, Settlement};
use crate::payment::result::{ProviderResult, RemoteState};
use crate::payment::tries::Try;

/// What the name of its call begins with; the number of the try follows.
const CALL: &str = "close_";

/// Whether a call closes an earlier try: then it is no void of the payment, although it is sent like one.
pub fn is_closing(call: &ProviderCall) -> bool {
    call.name.starts_with(CALL)
}

pub(crate) fn call_name(row: &Try) -> String {
    format!("{CALL}{}", row.attempt)
}

/// The tries that are over, and can be confirmed again. One on which money was found is given back already.
pub(crate) fn left_open(state: &ObjectState) -> impl Iterator<Item = &Try> {
    let present =
        state.resource.payment.as_ref().filter(|payment| !payment.is_over()).map(|payment| payment.attempt);
    state.resource.tries.iter().filter(move |row| {
        Some(row.attempt) != present
            && row.provider.declined_stays_open()
            && row.provider_payment.is_some()
            && !matches!(row.status.as_str(), "canceled" | "expired")
            && row.late.is_none()
            && !is_seen_canceled(state, row)
    })
}

fn is_seen_canceled(state: &ObjectState, row: &Try) -> bool {
    let name = call_name(row);
    let is_closed = |call: &ProviderCall| match &call.state {
        CallState::Settled(Settlement::Answered(reply)) if call.name == name => {
            let is_voided = matches!(
                reply.result,
                ProviderResult::Voided
                    | ProviderResult::Rejected {
                        found: Some(RemoteState::Voided | RemoteState::Expired),
                        ..
                    }
            );
            is_voided && row.provider == call.provider
        }
        // Its own call was answered only once what it had left open was canceled.
        CallState::Settled(Settlement::Answered(reply)) => {
            call.provider_key == row.provider_key && call.evidence.closing.as_ref() == Some(reply)
        }
        _ => false,
    };
    state.calls.iter().any(is_closed)
}
