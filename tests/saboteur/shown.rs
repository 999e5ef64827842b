//! What the core is shown in the place of what is. Each function shows something else to a body, and puts back what it hid.

use once::record::Lease;
use once::step::StepError;
use paid_once::webhooks::EventKind;
use payments::engine::{
    Action, CallState, Command, Context, Event as Input, Lifecycle, ObjectState, Open, ProviderCall,
    RecoveryPoint, Run,
};
use payments::payment::operation::{CaptureRequest, Operation};
use payments::payment::result::CallKind;
use payments::payment::tries::{Stage, Try};
use payments::payment::{Failure, PaymentState, RefundState};
use payments::providers::Provider;

/// The state without the keys that are not finished.
pub(super) fn without_open_keys(state: &ObjectState) -> ObjectState {
    let mut shown = state.clone();
    shown.keys.retain(|key| !matches!(key.lifecycle, Lifecycle::Open(_)));
    shown
}

/// Whoever runs, the key is theirs.
pub(super) fn with_claim<T>(
    run: &mut Run,
    state: &mut ObjectState,
    body: impl FnOnce(&mut Run, &mut ObjectState) -> T,
) -> T {
    let token = run.token.clone();
    if let Some(key) = state.keys.iter_mut().find(|key| key.key_id == token.key_id) {
        run.token.attempt = key.attempt;
        if let Lifecycle::Open(open) = &mut key.lifecycle {
            open.lease = Some(Lease { holder: token.holder.clone(), until_ms: 0 });
        }
    }
    let result = body(run, state);
    run.token = token;
    result
}

/// The same for a step, and nothing keeps it from a send that it had planned.
pub(super) fn with_forged_claim(
    run: &mut Run,
    state: &mut ObjectState,
    input: Input,
    ctx: &Context,
) -> Result<Action, StepError> {
    if input == Input::Go
        && let Some(action) = planned_send(run, state, ctx)
    {
        return Ok(action);
    }
    with_claim(run, state, |run, state| run.step(state, input, ctx))
}

/// The send that this step makes if nothing has changed since it was planned. `None` if it is no such step.
fn planned_send(run: &mut Run, state: &mut ObjectState, ctx: &Context) -> Option<Action> {
    let (mut sender, mut shown) = (run.clone(), state.clone());
    let key_id = run.token.key_id;
    let key = shown.keys.iter_mut().find(|key| key.key_id == key_id)?;
    let lifecycle = key.lifecycle.clone();
    if !matches!(lifecycle, Lifecycle::Open(_)) {
        key.lifecycle = Lifecycle::Open(never_ended());
    }
    let of_key = |call: &&mut ProviderCall| call.key_id == key_id;
    let call = shown.calls.iter_mut().filter(of_key).max_by_key(|call| call.call_id)?;
    let before = call.clone();
    if matches!(call.state, CallState::Settled(_)) {
        call.state = CallState::Unknown;
    }
    call.first_sent_at_ms = call.first_sent_at_ms.map(|_| ctx.now_ms);
    call.next_try_at_ms = 0;
    call.answer_is_stored = false;
    call.evidence.closing = None;
    let step = |run: &mut Run, state: &mut ObjectState| run.step(state, Input::Go, ctx);
    let action = with_claim(&mut sender, &mut shown, step).ok()?;
    if !matches!(action, Action::Send(_)) {
        return None;
    }
    let call = shown.calls.iter_mut().find(|call| call.call_id == before.call_id)?;
    call.first_sent_at_ms = before.first_sent_at_ms.or(call.first_sent_at_ms);
    call.next_try_at_ms = before.next_try_at_ms;
    call.answer_is_stored = before.answer_is_stored;
    call.evidence.closing = before.evidence.closing;
    let key = shown.keys.iter_mut().find(|key| key.key_id == key_id)?;
    if !matches!(lifecycle, Lifecycle::Open(_)) {
        key.lifecycle = lifecycle;
    }
    (*run, *state) = (sender, shown);
    Some(action)
}

/// A key that is open. Nothing but that is looked at right before a send.
const fn never_ended() -> Open {
    Open {
        operation: Operation::Capture(CaptureRequest { amount: None, attempt: None, seen: None }),
        recovery_point: RecoveryPoint::Started,
        lease: None,
        resume_at_ms: 0,
        last_run_at_ms: 0,
        failures: 0,
        broken_off: 0,
    }
}

/// The provider's window begins anew with every step.
pub(super) fn with_first_send_now<T>(
    state: &mut ObjectState,
    key_id: u32,
    ctx: &Context,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let sent: Vec<_> =
        state.calls.iter().filter_map(|call| Some((call.call_id, call.first_sent_at_ms?))).collect();
    let is_open = |call: &ProviderCall| !matches!(call.state, CallState::Settled(_));
    for call in state.calls.iter_mut().filter(|call| call.key_id == key_id && is_open(call)) {
        call.first_sent_at_ms = call.first_sent_at_ms.map(|_| ctx.now_ms);
    }
    let result = body(state);
    for (call_id, at_ms) in sent {
        if let Some(call) = state.calls.iter_mut().find(|call| call.call_id == call_id) {
            call.first_sent_at_ms = Some(at_ms);
        }
    }
    result
}

/// What the provider says that it has made is not kept.
pub(super) fn without_keeping_what_was_made<T>(
    state: &mut ObjectState,
    call_id: Option<u32>,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let is_it = |call: &ProviderCall| Some(call.call_id) == call_id;
    let before = state.calls.iter().find(|call| is_it(call)).map(|call| call.evidence.clone());
    let result = body(state);
    if let Some((call, before)) = state.calls.iter_mut().find(|call| is_it(call)).zip(before) {
        call.evidence.is_executed = before.is_executed;
        call.evidence.needs_review = before.needs_review;
        call.evidence.provider_id = before.provider_id;
    }
    result
}

/// Whatever was sent has arrived long ago when a look-up is judged.
pub(super) fn with_sends_long_ago<T>(
    state: &mut ObjectState,
    looked_up: Option<u32>,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let is_it = |call: &ProviderCall| Some(call.call_id) == looked_up && call.state == CallState::Unknown;
    let call = state.calls.iter_mut().find(|call| is_it(call));
    let Some((call_id, sent)) = call.map(|call| (call.call_id, call.last_sent_at_ms.replace(0))) else {
        return body(state);
    };
    let result = body(state);
    if let Some(call) = state.calls.iter_mut().find(|call| call.call_id == call_id) {
        call.last_sent_at_ms = sent;
    }
    result
}

/// Nothing that was authorised was ever executed without an answer.
pub(super) fn without_executed<T>(
    state: &mut ObjectState,
    key_id: u32,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let is_held = |call: &ProviderCall| {
        call.key_id == key_id
            && call.kind == CallKind::Authorize
            && call.evidence.is_executed
            && matches!(call.state, CallState::Settled(_))
    };
    let held: Vec<u32> = state.calls.iter().filter(|call| is_held(call)).map(|call| call.call_id).collect();
    let mark = |state: &mut ObjectState, is_executed| {
        for call in state.calls.iter_mut().filter(|call| held.contains(&call.call_id)) {
            call.evidence.is_executed = is_executed;
        }
    };
    mark(state, false);
    let result = body(state);
    mark(state, true);
    result
}

/// Before the first send of a capture or a refund the payment is as it was when that was admitted.
pub(super) fn as_when_admitted<T>(
    state: &mut ObjectState,
    key_id: u32,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let first = state.unsettled_call(key_id).filter(|call| call.sends == 0).map(|call| call.name.clone());
    let Some((payment, name)) = state.resource.payment.as_mut().zip(first) else { return body(state) };
    let before = (payment.state.clone(), payment.dispute.clone());
    match name.as_str() {
        "capture" => payment.state = PaymentState::Authorized,
        "refund" => {
            payment.state = PaymentState::Captured { amount_minor: payment.amount.get() };
            payment.dispute = None;
        }
        _ => {}
    }
    let result = body(state);
    if let Some(payment) = &mut state.resource.payment {
        (payment.state, payment.dispute) = before;
    }
    result
}

/// A try that is not frozen yet is the first one of its order.
pub(super) fn without_earlier_tries<T>(
    state: &mut ObjectState,
    key_id: u32,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let pays = pays(state, key_id);
    let Some(attempt) = state.resource.payment.as_ref().filter(|_| pays).map(|payment| payment.attempt)
    else {
        return body(state);
    };
    let name = format!("authorize_{attempt}");
    if state.calls.iter().any(|call| call.name == name) {
        return body(state);
    }
    let mut tries: Vec<Try> = state.resource.tries.extract_if(.., |row| row.attempt < attempt).collect();
    let result = body(state);
    tries.append(&mut state.resource.tries);
    state.resource.tries = tries;
    result
}

/// Whether it is the key of a try to pay.
pub(super) fn pays(state: &ObjectState, key_id: u32) -> bool {
    let is_payment =
        |lifecycle: &_| matches!(lifecycle, Lifecycle::Open(Open { operation: Operation::Payment(_), .. }));
    state.key(key_id).is_some_and(|key| is_payment(&key.lifecycle))
}

/// The money of tries that were over seems to be given back.
pub(super) fn without_late_money<T>(state: &mut ObjectState, body: impl FnOnce(&mut ObjectState) -> T) -> T {
    let mut hidden = Vec::new();
    for row in &mut state.resource.tries {
        if let Some(late) = row.late.as_mut().filter(|late| late.stage() != Stage::GivenBack) {
            hidden.push((row.attempt, std::mem::replace(&mut late.own, Stage::GivenBack)));
        }
    }
    let result = body(state);
    for (attempt, stage) in hidden {
        let row = state.resource.tries.iter_mut().find(|row| row.attempt == attempt);
        if let Some(late) = row.and_then(|row| row.late.as_mut()) {
            late.own = stage;
        }
    }
    result
}

/// A refund that the provider has not answered is not there while another one is judged.
pub(super) fn without_requested_refunds<T>(
    state: &mut ObjectState,
    command: &Command,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    if !matches!(command.operation, Operation::Refund(_)) {
        return body(state);
    }
    let mut before = state.resource.refunds.clone();
    state.resource.refunds.retain(|refund| refund.state != RefundState::Requested);
    let shown = state.resource.refunds.len();
    let result = body(state);
    before.extend(state.resource.refunds.split_off(shown));
    state.resource.refunds = before;
    result
}

/// Nothing moves the payment while another move is judged.
pub(super) fn without_move_under_way<T>(
    state: &mut ObjectState,
    command: &Command,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let is_move =
        matches!(command.operation, Operation::Capture(_) | Operation::Void(_) | Operation::Refund(_));
    let pending =
        state.resource.payment.as_mut().filter(|_| is_move).and_then(|payment| payment.pending.take());
    let result = body(state);
    if let Some(payment) = &mut state.resource.payment {
        payment.pending = payment.pending.or(pending);
    }
    result
}

/// No bank wants anything back while a refund is judged.
pub(super) fn without_dispute<T>(
    state: &mut ObjectState,
    command: &Command,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let is_refund = matches!(command.operation, Operation::Refund(_));
    let payment = state.resource.payment.as_mut().filter(|_| is_refund);
    let known = payment.map(|payment| (payment.dispute.take(), std::mem::take(&mut payment.disputes)));
    let result = body(state);
    let payment = state.resource.payment.as_mut().filter(|payment| payment.dispute.is_none());
    if let Some((payment, known)) = payment.zip(known) {
        (payment.dispute, payment.disputes) = known;
    }
    result
}

/// The last try of an order has failed while another one is judged.
pub(super) fn with_failed_try<T>(
    state: &mut ObjectState,
    command: &Command,
    body: impl FnOnce(&mut ObjectState) -> T,
) -> T {
    let is_new = !state.keys.iter().any(|key| key.key_hash == command.key_hash);
    let is_try = is_new && matches!(command.operation, Operation::Payment(_));
    let Some(before) = state.resource.payment.clone().filter(|_| is_try) else { return body(state) };
    let mut shown = before.clone();
    shown.pending = None;
    shown.state = PaymentState::Failed(Failure {
        declined: true,
        code: "card_declined".to_owned(),
        decline_code: None,
        message: String::new(),
    });
    state.resource.payment = Some(shown.clone());
    let result = body(state);
    if state.resource.payment == Some(shown) {
        state.resource.payment = Some(before);
    }
    result
}

/// A person was told already of everything that contradicts an operator.
pub(super) fn as_if_contradicted<T>(state: &mut ObjectState, body: impl FnOnce(&mut ObjectState) -> T) -> T {
    let mark = |state: &mut ObjectState, is_contradicted| {
        for by_hand in state.calls.iter_mut().filter_map(|call| call.evidence.by_hand.as_mut()) {
            by_hand.is_contradicted = is_contradicted;
        }
    };
    mark(state, true);
    let result = body(state);
    mark(state, false);
    result
}

/// No run works on a call that an operator settles.
pub(super) fn without_lease<T, E>(
    state: &mut ObjectState,
    call_id: u32,
    body: impl FnOnce(&mut ObjectState) -> Result<Result<(), T>, E>,
) -> Result<Result<(), T>, E> {
    let mut shown = state.clone();
    let key_id = state.calls.iter().find(|call| call.call_id == call_id).map(|call| call.key_id);
    for key in shown.keys.iter_mut().filter(|key| Some(key.key_id) == key_id) {
        if let Lifecycle::Open(open) = &mut key.lifecycle {
            open.lease = None;
        }
    }
    let settled = body(&mut shown)?;
    if settled.is_ok() {
        *state = shown;
    }
    Ok(settled)
}

/// Whether news is of a try that is over: an earlier one, or the newest of a payment that is over.
pub(super) fn is_late(state: &ObjectState, news: &EventKind) -> bool {
    let (id, key) = match news {
        EventKind::Authorisation(told)
        | EventKind::Capture(told)
        | EventKind::CaptureFailed(told)
        | EventKind::Cancellation(told)
        | EventKind::CancelOrRefund(told)
        | EventKind::Expired(told)
        | EventKind::Refund(told) => (Some(&told.payment), told.provider_key.as_ref()),
        EventKind::Ask { payment, provider_key, .. } => (payment.as_ref(), provider_key.as_ref()),
        EventKind::Dispute { .. } | EventKind::Other => return false,
    };
    let call = state.calls.iter().find(|call| Some(&call.provider_key) == key);
    let is_nearer = |call: &ProviderCall| {
        call.provider == Provider::Adyen
            && (call.name == "give_back" || !matches!(call.state, CallState::Settled(_)))
    };
    let Some(payment) = state.resource.payment.as_ref().filter(|_| !call.is_some_and(is_nearer)) else {
        return false;
    };
    let is_it = |row: &&Try| match &row.provider_payment {
        Some(known) => Some(known) == id,
        None => key == Some(&row.provider_key),
    };
    let is_over = payment.is_over() && payment.pending.is_none();
    state.resource.tries.iter().find(is_it).is_some_and(|row| row.attempt != payment.attempt || is_over)
}
