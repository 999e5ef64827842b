//! Personal data of a payment or a customer: which it is, and how it goes.
//!
//! Of a payment: description, customer, email, what was bought and in which language, return address, metadata, the card's brand and last four
//! digits, the address of the bank's page, and the provider's own words about it and its refunds, where they failed; and, as long as they are kept, parameters, stored responses, bodies that were sent, what the provider answered in its own words, and emails that have not left.
//! Of both: why an operator has settled a call, in their words.
//! Of a customer: name and description, and as long what was sent and answered, where alone its address stands. What stays is what the books need:
//! ids, amounts, states and times. Audit records and timelines never hold any.

use once::alarm;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::engine::{Context, Lifecycle, ObjectState, ProviderCall};
use crate::payment::id::CustomerId;
use crate::payment::operation::Operation;
use crate::payment::receipt_content::ReceiptContent;
use crate::payment::records::{JobKind, Unpurged, UnpurgedJob};
use crate::payment::resource::Resource;
use crate::payment::{PaymentState, Refund, RefundState};
use crate::transitions::audit::record_for_owner;
use crate::transitions::projection;

/// The pause between two tries to drop what jobs have kept, in ms.
const PURGE_PAUSE_MS: u64 = 60_000;

/// What came of erasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Erased {
    /// There is none any more.
    Gone,
    /// An operation is not finished, or the provider has not decided: the data is needed, and nothing was erased.
    Unfinished,
    /// Nothing was ever written here.
    Nothing,
}

/// When it goes by itself, in ms since the epoch: so long after the newest operation. Not while one is unfinished; but whatever is still open at
/// the provider by then, where it may be for good.
pub(crate) fn due_at_ms(state: &ObjectState, ctx: &Context) -> Option<u64> {
    if !is_held(state) || is_unfinished(state) {
        return None;
    }
    let newest_ms = state.keys.iter().map(|key| key.created_at_ms).max()?;
    newest_ms.checked_add(ctx.times.personal_retention_ms).filter(|at_ms| *at_ms < u64::MAX)
}

/// What would come of erasing it now.
pub fn may_erase(state: &ObjectState) -> Erased {
    if state.keys.is_empty() {
        Erased::Nothing
    } else if is_unfinished(state) || is_open_at_provider(&state.resource) {
        Erased::Unfinished
    } else {
        Erased::Gone
    }
}

/// Erases it now, if it may be.
pub fn erase(state: &mut ObjectState, ctx: &Context) -> Erased {
    let may = may_erase(state);
    if may == Erased::Gone {
        erase_all(state, ctx);
    }
    may
}

/// Erases it now, if it may be, and has the read model follow: with a snapshot, also of what an earlier one may have shown, and by dropping
/// what jobs have kept of it.
pub fn erase_everywhere(state: &mut ObjectState, ctx: &Context) -> Erased {
    let staged = state.jobs.iter().map(|job| UnpurgedJob {
        job_id: job.job_id.clone(),
        kind: job.kind,
        staged_at_ms: job.staged_at_ms,
    });
    let staged: Vec<UnpurgedJob> = staged.collect();
    let erased = erase(state, ctx);
    if erased == Erased::Gone {
        projection::stage_anew(state, ctx);
        let before = state.resource.unpurged.take();
        let jobs = before.into_iter().flat_map(|before| before.jobs).chain(staged).collect();
        let (version, next_at_ms) = (state.resource.version, ctx.now_ms.saturating_add(PURGE_PAUSE_MS));
        state.resource.unpurged = Some(Unpurged { version, jobs, next_at_ms });
    }
    erased
}

/// When the alarm drops what jobs have kept of what was erased, in ms since the epoch.
pub(crate) fn purge_at_ms(state: &ObjectState) -> Option<u64> {
    state.resource.unpurged.as_ref().map(|unpurged| unpurged.next_at_ms)
}

/// The alarm tries to drop that: should it fail, it is tried again.
pub(crate) fn begin_purge(state: &mut ObjectState, ctx: &Context) {
    if let Some(unpurged) = &mut state.resource.unpurged
        && unpurged.next_at_ms <= ctx.now_ms
    {
        unpurged.next_at_ms = ctx.now_ms.saturating_add(PURGE_PAUSE_MS);
    }
}

/// That was dropped, unless something was erased again since.
pub fn purged(state: &mut ObjectState, done: &Unpurged) {
    if state.resource.unpurged.as_ref().is_some_and(|unpurged| unpurged.version == done.version) {
        state.resource.unpurged = None;
    }
}

/// Erases it once its time has come.
pub(crate) fn erase_due(state: &mut ObjectState, ctx: &Context) {
    if due_at_ms(state, ctx).is_some_and(|at_ms| at_ms <= ctx.now_ms) {
        erase_all(state, ctx);
    }
}

fn erase_all(state: &mut ObjectState, ctx: &Context) {
    let finished: Vec<u32> = state.keys.iter().map(|key| key.key_id).collect();
    finished.into_iter().for_each(|key_id| alarm::erase(state, key_id, ctx));
    // Also of keys that a release before has let expire, which left the provider's words.
    state.calls.iter_mut().for_each(ProviderCall::forget_content);
    state.bindings.iter_mut().for_each(|binding| binding.parameters = None);
    state.jobs.retain(|job| job.kind == JobKind::Project);
    if is_held(state) {
        drop_it(state, ctx);
    }
    if let Some(payment) = &mut state.resource.payment {
        payment.is_erased = true;
    }
}

/// What a provider has said of what was erased goes with the transaction that takes it in.
pub(crate) fn forget_late_words(state: &mut ObjectState) {
    if state.resource.payment.as_ref().is_some_and(|payment| payment.is_erased) {
        words(&mut state.resource).for_each(String::clear);
    }
}

fn drop_it(state: &mut ObjectState, ctx: &Context) {
    let mut subject = String::new();
    let by_hand = state.calls.iter_mut().filter_map(|call| call.evidence.by_hand.as_mut());
    by_hand.for_each(|by_hand| by_hand.reason.clear());
    if let Some(payment) = &mut state.resource.payment {
        payment.description = None;
        payment.customer = None;
        payment.receipt_email = None;
        payment.receipt_content = ReceiptContent::default();
        payment.return_url = None;
        payment.metadata.clear();
        payment.card = None;
        subject = payment.id.to_string();
    }
    words(&mut state.resource).for_each(String::clear);
    if let Some(customer) = &mut state.resource.customer {
        (customer.content.name, customer.content.description) = (None, None);
        customer.is_erased = true;
        subject = CustomerId::in_object(state.object).to_string();
    }
    if let Some(id) = drop_retired(state) {
        subject = id;
    }
    record_for_owner(state, "personal_data.erased", subject, json!({}), ctx);
}

/// What the provider has said of what failed, in its own words, and the address of the bank's page.
fn words(resource: &mut Resource) -> impl Iterator<Item = &mut String> {
    let of_payment = resource.payment.iter_mut().filter_map(|payment| match &mut payment.state {
        PaymentState::Failed(failure) => Some(&mut failure.message),
        PaymentState::RequiresAction { url } => Some(url),
        _ => None,
    });
    let of_refunds = resource.refunds.iter_mut().filter_map(|refund| match &mut refund.state {
        RefundState::Failed { message, .. } => Some(message),
        _ => None,
    });
    of_payment.chain(of_refunds)
}

/// What releases before have left of rides. Gives the ride's id.
fn drop_retired(state: &mut ObjectState) -> Option<String> {
    for key in &mut state.keys {
        let Lifecycle::Open(open) = &mut key.lifecycle else { continue };
        let Operation::Retired(parameters) = &mut open.operation else { continue };
        parameters.clear();
        key.parameters = None;
        let calls = state.calls.iter_mut().filter(|call| call.key_id == key.key_id);
        calls.for_each(|call| call.request.body.clear());
    }
    let ride = state.resource.retired.take()?;
    ride.get("id")?.as_str().map(str::to_owned)
}

fn is_held(state: &ObjectState) -> bool {
    let of_payment = state.resource.payment.as_ref().is_some_and(|payment| {
        let texts = [&payment.description, &payment.customer, &payment.receipt_email, &payment.return_url];
        texts.into_iter().any(Option::is_some)
            || !payment.metadata.is_empty()
            || !payment.receipt_content.is_empty()
            || payment.card.is_some()
            || matches!(&payment.state, PaymentState::Failed(failure) if !failure.message.is_empty())
            || matches!(&payment.state, PaymentState::RequiresAction { url } if !url.is_empty())
    });
    let has_failed =
        |refund: &Refund| matches!(&refund.state, RefundState::Failed { message, .. } if !message.is_empty());
    let of_customer =
        state.resource.customer.as_ref().is_some_and(|customer| {
            customer.content.name.is_some() || customer.content.description.is_some()
        });
    let is_explained = |call: &ProviderCall| {
        call.evidence.by_hand.as_ref().is_some_and(|by_hand| !by_hand.reason.is_empty())
    };
    of_payment
        || state.resource.refunds.iter().any(has_failed)
        || of_customer
        || state.calls.iter().any(is_explained)
        || state.resource.retired.is_some()
        || open(state).any(|operation| matches!(operation, Operation::Retired(left) if !left.is_empty()))
}

/// Whether the provider has something to decide, or to tell: a receipt may be due then.
fn is_open_at_provider(resource: &Resource) -> bool {
    let is_pending = |refund: &Refund| matches!(refund.state, RefundState::Requested | RefundState::Pending);
    resource
        .payment
        .as_ref()
        .is_some_and(|payment| payment.is_open_at_provider() || payment.pending.is_some())
        || resource.refunds.iter().any(is_pending)
}

/// One that is retired is never finished.
fn is_unfinished(state: &ObjectState) -> bool {
    open(state).any(|operation| !matches!(operation, Operation::Retired(_)))
}

fn open(state: &ObjectState) -> impl Iterator<Item = &Operation> {
    state.keys.iter().filter_map(|key| match &key.lifecycle {
        Lifecycle::Open(open) => Some(&open.operation),
        _ => None,
    })
}
