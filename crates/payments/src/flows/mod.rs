//! The flows: what each operation does, from its first phase to its response. Pure, one file each, top to bottom.
//!
//! A new key's flow is first asked whether the state of things [admits](once::flow::Flow::admit) it; what it needs is reserved in the same
//! transaction. Then it is called again and again with the rows as they are; it looks at its recovery point, does one
//! phase, and says how the phase ended ([`End`]). What it changed in the rows is committed together with that end, or not
//! at all.

pub mod capture;
pub mod close;
pub mod customer;
pub mod give_back;
pub mod order_link;
pub mod payment;
pub mod phase;
pub mod refund;
pub mod tries;
pub mod void;

use crate::engine::{
    CallState, Context, End, ObjectState, Payments, Phase, ProviderCall, Settlement, are_keys_usable,
};
use crate::payment::operation::{Operation, Refusal};
use crate::payment::provider::Provider;
use crate::payment::refund::refunded_minor;
use crate::payment::tries::not_given_back;
use crate::transitions::{audit, late_money, pii, polling, projection, refunds};
use once::context::Bug;
use once::flow::Admission;
use once::flow::{Flow, ObjectLimit};
use once::key::KeyHash;

impl Flow for Payments {
    fn name(operation: &Operation) -> &'static str {
        operation.name()
    }

    fn admit(operation: &Operation, phase: &mut Phase<'_>) -> Result<Admission<Self>, Bug> {
        let written = phase.object_state.appended.facts.audit.len();
        let admission = admit(operation, phase)?;
        for record in phase.object_state.appended.facts.audit.iter_mut().skip(written) {
            record.asked_by(phase.by);
        }
        Ok(admission)
    }

    fn run(operation: &Operation, phase: &mut Phase<'_>) -> Result<End, Bug> {
        run(operation, phase)
    }

    fn is_retired(operation: &Operation) -> bool {
        matches!(operation, Operation::Retired(_))
    }

    fn limit_reached(limit: ObjectLimit) -> Refusal {
        let detail = match limit {
            ObjectLimit::Keys(max) => format!(
                "{max} operations were begun here, and that is as many as there may be. Nothing was executed. What still has to be \
                 done for a payment can be done at the provider; a customer can be changed again when the first response expires.",
            ),
            ObjectLimit::Bytes => "The operations of this payment and their metadata fill its record. Nothing was executed. There \
                                   is room again when the first of their responses expires: send the same request with the \
                                   same key then."
                .to_owned(),
            ObjectLimit::Unreadable => {
                "What was sent could not be read again once it was kept. Nothing was executed.".to_owned()
            }
        };
        Refusal::LimitReached { detail }
    }

    fn is_overtaken(call: &ProviderCall, state: &ObjectState) -> bool {
        is_overtaken(call, state)
    }

    fn due_at_ms(state: &ObjectState, ctx: &Context) -> Option<u64> {
        let check = state.resource.payment.as_ref().and_then(polling::due_at_ms);
        let others = [
            pii::due_at_ms(state, ctx),
            pii::purge_at_ms(state),
            late_money::due_at_ms(state),
            refunds::due_at_ms(state),
        ];
        check.into_iter().chain(others.into_iter().flatten()).min()
    }

    fn on_commit(before: &ObjectState, after: &mut ObjectState, ctx: &Context) {
        pii::forget_late_words(after);
        projection::stage_projection(before, after, ctx);
        audit::number(after);
    }

    fn verify(state: &ObjectState) -> Result<(), Bug> {
        let Some(payment) = &state.resource.payment else { return Ok(()) };
        let (amount, captured) = (payment.amount.get(), payment.captured_minor());
        let taken = payment.may_be_taken_minor();
        let is_of_key = |key_id| state.key(key_id).is_some();
        if amount == 0 || captured > amount || refunded_minor(&state.resource.refunds) > taken {
            return Err(Bug(
                "a payment that cannot be: more was given back than taken, or taken than it is of".into(),
            ));
        }
        if state.resource.refunds.iter().any(|refund| refund.amount.get() == 0 || !is_of_key(refund.key_id)) {
            return Err(Bug("a refund that cannot be: of nothing, or of no key".into()));
        }
        Ok(())
    }

    fn is_awaiting(state: &ObjectState) -> bool {
        state.resource.payment.as_ref().is_some_and(|payment| payment.check.is_some())
    }

    /// Drops personal data whose time is over, and leaves to a person what no provider tells of.
    fn on_alarm(state: &mut ObjectState, ctx: &Context) {
        pii::erase_due(state, ctx);
        pii::begin_purge(state, ctx);
        customer::forget_expired(state);
        late_money::give_up_untold(state, ctx);
        refunds::give_up_undone(state, ctx);
        // Objects of before anything was watched begin with it here.
        polling::schedule(state, ctx);
    }
}

/// Whether a new key may begin its operation. Reserves what the operation needs; on a refusal, or an error, nothing may be
/// committed.
fn admit(operation: &Operation, phase: &mut Phase<'_>) -> Result<Admission<Payments>, Bug> {
    if let Some(refusal) = keys_unusable(operation, phase).or_else(|| changed_since_seen(operation, phase)) {
        return Ok(Err(refusal));
    }
    match operation {
        Operation::Retired(_) => Err(retired()),
        Operation::GiveBack(_) => Ok(Ok(None)),
        Operation::Payment(request) => payment::admit(request, phase),
        Operation::Capture(request) => capture::admit(request, phase),
        Operation::Void(request) => void::admit(request, phase),
        Operation::Refund(request) => refund::admit(request, phase),
        Operation::Customer(request) => customer::admit(request, phase),
    }
}

/// Whether it was confirmed against figures that the payment has no more: what it asks for may be done already.
fn changed_since_seen(operation: &Operation, phase: &Phase<'_>) -> Option<Refusal> {
    let resource = &phase.object_state.resource;
    let (seen, payment) = (operation.seen()?, resource.payment.as_ref()?);
    (payment.figures(&resource.refunds) != seen).then(|| Refusal::State {
        state: payment.status().to_owned(),
        detail: "It has changed since the page was loaded: look again. Nothing was executed.".to_owned(),
    })
}

/// Whether it goes to its provider with keys of the account's own that cannot be used: then nothing begins, least of all with others.
fn keys_unusable(operation: &Operation, phase: &Phase<'_>) -> Option<Refusal> {
    let (provider, account) = match operation {
        Operation::Payment(request) => (request.route.provider, request.route.merchant_account.as_deref()),
        Operation::Customer(request) => (Provider::Stripe, request.merchant_account.as_deref()),
        Operation::Capture(_) | Operation::Void(_) | Operation::Refund(_) => {
            let payment = phase.object_state.resource.payment.as_ref()?;
            (payment.provider, payment.merchant_account.as_deref())
        }
        Operation::GiveBack(_) | Operation::Retired(_) => return None,
    };
    (!are_keys_usable(provider, account, phase.ctx)).then_some(Refusal::KeysUnusable)
}

/// Whether a call has lost its point before its first send: the payment has moved since it was admitted. A send could only be
/// refused, or move money twice.
fn is_overtaken(call: &ProviderCall, state: &ObjectState) -> bool {
    let Some(payment) = &state.resource.payment else { return false };
    match call.name.as_str() {
        capture::CAPTURE => !capture::is_capturable(&payment.state),
        refund::REFUND => !refund::is_refundable(payment),
        name if name.starts_with(payment::CALL) => not_given_back(&state.resource.tries).is_some(),
        _ => false,
    }
}

fn retired() -> Bug {
    Bug("an operation that is retired".into())
}

/// Runs the next phase of an operation.
fn run(operation: &Operation, phase: &mut Phase<'_>) -> Result<End, Bug> {
    match operation {
        Operation::Retired(_) => Err(retired()),
        Operation::Payment(request) => payment::run(request, phase),
        Operation::Capture(request) => capture::run(request, phase),
        Operation::Void(request) => void::run(request, phase),
        Operation::Refund(request) => refund::run(request, phase),
        Operation::Customer(request) => customer::run(request, phase),
        Operation::GiveBack(request) => give_back::run(request, phase),
    }
}

/// Whether a key's operation took money. Then each duplicate of it is a charge that did not happen.
pub fn took_money(state: &ObjectState, key_hash: &KeyHash) -> bool {
    let Some(key) = state.keys.iter().find(|key| key.key_hash == *key_hash) else {
        return false;
    };
    let mut calls = state.calls.iter().filter(|call| call.key_id == key.key_id);
    calls.any(|call| matches!(&call.state, CallState::Settled(Settlement::Answered(reply)) if reply.result.took_money()))
}
