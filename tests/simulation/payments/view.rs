//! What can be seen of an object's rows from outside, as the plain words and numbers that the auditor is told.

use payments::engine::{Lifecycle, ObjectState, StagedJob};
use payments::payment::customer::Customer;
use payments::payment::records::JobKind;
use payments::payment::tries::{Stage, Try};
use payments::payment::{InFlight, Payment, PaymentState, Refund, RefundState};

use super::auditor::{Commit, CustomerView, PaymentView, RefundView, thousandths};
use crate::invariants::Writer;
use crate::store::{IsRefused, Kept, key_view};

/// A committed transaction. `now_ms` is the world's time, `object_now_ms` the object's.
pub(crate) fn commit(
    object: usize,
    kept: &Kept,
    object_state: &ObjectState,
    alarm_at_ms: Option<u64>,
    writer: Writer,
    (object_now_ms, now_ms): (u64, u64),
    is_refused: IsRefused<'_>,
) -> Commit {
    let Kept { before, appended, .. } = kept;
    let added =
        !(appended.facts.audit.is_empty() && appended.jobs.is_empty() && appended.timeline.is_empty());
    let finished = object_state.keys.iter().filter_map(|key| {
        let Lifecycle::Finished(finished) = &key.lifecycle else { return None };
        let Some(Lifecycle::Open(open)) = before.key(key.key_id).map(|key| &key.lifecycle) else {
            return None;
        };
        let response = finished.response.clone();
        Some((key.key_id, open.operation.name(), (response.status, response.headers, response.body)))
    });
    Commit {
        object,
        now_ms: object_now_ms,
        writer,
        changed: before != object_state || added,
        keys: object_state.keys.iter().map(|key| key_view(object_state, key, now_ms, is_refused)).collect(),
        payment: object_state.resource.payment.as_ref().map(|payment| PaymentView {
            late: late(&object_state.resource.tries),
            ..payment_view(payment, &object_state.resource.refunds)
        }),
        customer: object_state.resource.customer.as_ref().map(customer_view),
        refunds: object_state
            .resource
            .refunds
            .iter()
            .filter_map(|refund| Some(refund_view(refund, object_state.resource.payment.as_ref()?)))
            .collect(),
        finished: finished.collect(),
        audit: appended.facts.audit.iter().map(|record| record.action).collect(),
        events: appended
            .facts
            .events
            .iter()
            .map(|event| format!("{}:{}", event.provider.as_str(), event.event_id))
            .collect(),
        jobs: appended.jobs.iter().filter(is_of_capture).map(|job| job.job_id.clone()).collect(),
        staged_until_ms: object_state.jobs.iter().map(|job| job.next_at_ms).min(),
        alarm_at_ms,
    }
}

fn customer_view(customer: &Customer) -> CustomerView {
    CustomerView {
        id: customer.provider_customer.clone(),
        revision: customer.revision,
        name: customer.content.name.clone().unwrap_or_default(),
    }
}

fn payment_view(payment: &Payment, refunds: &[Refund]) -> PaymentView {
    let state = match &payment.state {
        PaymentState::Authorizing => "authorizing",
        PaymentState::RequiresAction { .. } => "requires_action",
        PaymentState::Processing => "processing",
        PaymentState::Authorized => "requires_capture",
        PaymentState::Captured { .. } => "succeeded",
        PaymentState::CaptureFailed { .. } => "capture_failed",
        PaymentState::Canceled => "canceled",
        PaymentState::Expired => "expired",
        PaymentState::Failed(_) => "failed",
    };
    let amount = |minor: u64| thousandths(minor, payment.currency.as_str(), "clients");
    PaymentView {
        id: payment.id.to_string(),
        state,
        amount: amount(payment.amount.get()),
        captured: amount(payment.captured_minor()),
        refunded_elsewhere: amount(payment.refunded_elsewhere_minor),
        attempt: payment.attempt,
        provider: payment.provider.as_str(),
        provider_payment: payment.provider_payment.clone(),
        late: Vec::new(),
        pending: payment.pending.map(|pending| match pending {
            InFlight::Capture { .. } => "capture",
            InFlight::Void { .. } => "void",
        }),
        is_received: payment.pending.is_some_and(|pending| match pending {
            InFlight::Capture { received, .. } | InFlight::Void { received, .. } => received,
        }),
        has_check: payment.check.is_some(),
        is_personal: payment.receipt_email.is_some()
            || payment.customer.is_some()
            || !payment.metadata.is_empty(),
        has_words: matches!(&payment.state, PaymentState::Failed(failure) if !failure.message.is_empty())
            || refunds.iter().any(
                |refund| matches!(&refund.state, RefundState::Failed { message, .. } if !message.is_empty()),
            ),
        dispute: payment.dispute.as_ref().map(|dispute| dispute.status.as_str()),
        is_withdrawn: payment.dispute.as_ref().is_some_and(|dispute| dispute.withdrawn),
    }
}

fn late(tries: &[Try]) -> Vec<String> {
    let is_left = |row: &&Try| row.late.as_ref().is_some_and(|late| late.stage() != Stage::GivenBack);
    tries.iter().filter(is_left).filter_map(|row| row.provider_payment.clone()).collect()
}

fn refund_view(refund: &Refund, payment: &Payment) -> RefundView {
    let state = match refund.state {
        RefundState::Requested => "requested",
        RefundState::Pending => "pending",
        RefundState::Succeeded => "succeeded",
        RefundState::Failed { .. } => "failed",
    };
    RefundView {
        id: refund.id.to_string(),
        state,
        amount: thousandths(refund.amount.get(), payment.currency.as_str(), "clients"),
        provider_refund: refund.provider_refund.clone(),
    }
}

/// The receipt of money that was taken; those of refunds and voids are told apart by what they say.
fn is_of_capture(job: &&StagedJob) -> bool {
    job.kind == JobKind::SendReceipt && job.payload["about"] == "paid"
}
