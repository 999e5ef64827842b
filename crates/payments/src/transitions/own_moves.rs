//! Which call of ours a notification of Adyen's tells of, where its reference is the payment's: "Your reference to uniquely identify the payment. For
//! modifications, this field corresponds to the payment request assigned to the original payment",
//! <https://docs.adyen.com/api-explorer/Webhooks/1/post/CANCELLATION>. Its live system mostly repeats the modification's own reference.

use crate::engine::{CallState, ObjectState, ProviderCall, Settlement};
use crate::payment::provider_event::{EventKind, OperationNotice};
use crate::payment::result::{CallKind, ProviderResult};
use crate::providers::adyen;
use crate::transitions::give_back;

/// Names the call of ours that a notification tells of, if one has made what it tells of. `false` where that is not known yet: it was sent, and its
/// answer, which has Adyen's id of the modification, is still to come.
pub(crate) fn name(object_state: &ObjectState, news: &mut EventKind) -> bool {
    let kind = match news {
        EventKind::Capture(_) | EventKind::CaptureFailed(_) => CallKind::Capture,
        EventKind::Cancellation(_) => CallKind::Void,
        EventKind::Refund(_) => CallKind::Refund,
        _ => return true,
    };
    let Some(notice) = news.told_mut() else { return true };
    let calls = || object_state.calls.iter().filter(|call| call.kind == kind);
    if calls().any(|call| notice.provider_key.as_ref() == Some(&call.provider_key)) {
        return true;
    }
    let named = calls().find(|call| adyens_id(call) == Some(&notice.id));
    let Some(call) = named.or_else(|| calls().rfind(|call| is_unanswered(call, notice))) else {
        return true;
    };
    if !call.is_settled() && !call.answer_is_stored {
        // A refund of the payment is counted as another one's until its answer names it.
        return kind == CallKind::Refund && call.name != give_back::CALL;
    }
    // Its answer will never be heard. A move that was made as it was asked for is taken for it, as no other one can be under way; a refusal may be of
    // another one, and so may a refund.
    let is_made = || notice.success && kind != CallKind::Refund && adyen::told(call, notice).is_ok();
    let is_its = call.is_settled() || is_made();
    if is_its {
        notice.provider_key = Some(call.provider_key.clone());
    }
    true
}

/// Adyen's id of what a call has made.
pub(crate) fn adyens_id(call: &ProviderCall) -> Option<&String> {
    let CallState::Settled(Settlement::Answered(reply)) = &call.state else { return None };
    match &reply.result {
        ProviderResult::Received { modification } => Some(modification),
        ProviderResult::Refunded { refund, .. } => Some(refund),
        _ => None,
    }
}

/// Whether it was sent to modify the payment of the notification, and nobody has heard how that ended.
fn is_unanswered(call: &ProviderCall, notice: &OperationNotice) -> bool {
    // Its address is `/payments/{id}/…`.
    call.sends > 0 && !call.is_settled() && call.request.path.split('/').nth(2) == Some(&notice.payment)
}
