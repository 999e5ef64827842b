//! The saboteur stands between a harness and the core. It changes what goes in or comes out so that a [`Mutant`] has the effect
//! that it would have if a protection were missing in the core. Without a mutant it hands everything on as it is.
//!
//! Its functions are those of the core that it comes between, with the same arguments. What it only shows to the core, it
//! puts back before the harness sees the rows.

mod mutant;
mod shown;

pub(crate) use mutant::Mutant;

use std::borrow::Cow;

use once::begin::{self};
use once::context::Bug;
use once::id::InstanceId;
use once::run::RunEnd;
use once::step::StepError;
use paid_once::object::events::{self, Remembered};
use paid_once::webhooks::{Event as Notice, Ingested};
use payments::engine::{
    Action, Begin, Command, Context, Event as Input, Lifecycle, LookUp, ObjectState, Outcome, ProviderCall,
    ProviderReply, Run,
};
use payments::payment::InFlight;
use payments::payment::result::{CallKind, ProviderResult};
use payments::payment::status_query::{StatusQuery, StatusReply};
use payments::providers::Provider;
use payments::providers::adyen::minor_units;
use payments::transitions::answers::{self, Ended};
use payments::transitions::by_hand::{self, Word};
use payments::transitions::contradictions;

/// Plays a mutant, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saboteur(pub(crate) Option<Mutant>);

impl Saboteur {
    pub(crate) fn plays(self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }

    /// What the core is told of the configuration.
    pub(crate) fn context(self, mut ctx: Context) -> Context {
        match self.0 {
            Some(Mutant::NoQuietPeriod) => (ctx.times.quiet_ms, ctx.times.quarantine_ms) = (0, 0),
            Some(Mutant::AbsenceIsFinal) => ctx.times.quarantine_ms = 0,
            _ => {}
        }
        ctx
    }

    /// A request.
    pub(crate) fn begin(
        self,
        state: &mut ObjectState,
        command: &Command,
        me: &InstanceId,
        ctx: &Context,
    ) -> Result<Begin, Bug> {
        let judge = |state: &mut ObjectState| begin::begin(state, command, me, ctx);
        let key =
            state.keys.iter().find(|key| key.key_hash == command.key_hash && key.owner == command.owner);
        match self.0 {
            Some(Mutant::NoFingerprint) => {
                let fingerprint = key.map_or(&command.fingerprint, |key| &key.fingerprint).clone();
                begin::begin(state, &Command { fingerprint, ..command.clone() }, me, ctx)
            }
            Some(Mutant::ForgetTombstone) => {
                let is_over = |key: &_| matches!(key, Lifecycle::Expired(_));
                let same = key.filter(|key| key.fingerprint == command.fingerprint);
                if let Some(key_id) = same.filter(|key| is_over(&key.lifecycle)).map(|key| key.key_id) {
                    state.calls.retain(|call| call.key_id != key_id);
                    state.keys.retain(|key| key.key_id != key_id);
                    forget_payment(state);
                }
                judge(state)
            }
            Some(Mutant::NoRefundReservation) => shown::without_requested_refunds(state, command, judge),
            Some(Mutant::MovesOverlap) => shown::without_move_under_way(state, command, judge),
            Some(Mutant::RefundWhileDisputed) => shown::without_dispute(state, command, judge),
            Some(Mutant::OrderPaidAgain) => shown::with_failed_try(state, command, judge),
            Some(Mutant::BesideLateMoney) => shown::without_late_money(state, judge),
            _ => judge(state),
        }
    }

    /// One step of a run.
    pub(crate) fn step(
        self,
        run: &mut Run,
        state: &mut ObjectState,
        input: Input,
        ctx: &Context,
    ) -> Result<Action, StepError> {
        let Some(mutant) = self.0 else { return run.step(state, input, ctx) };
        let heard = match &input {
            Input::Outcome(call_id, _) | Input::LookedUp(call_id, _) => Some(*call_id),
            Input::Go => None,
        };
        let input = misheard(mutant, input, state);
        let key_id = run.token.key_id;
        if mutant == Mutant::NoLeaseCheck {
            return shown::with_forged_claim(run, state, input, ctx).map(|action| as_kept(action, state));
        }
        let is_unconfirmed = matches!(
            input,
            Input::Outcome(_, Outcome::Unconfirmed(_)) | Input::LookedUp(_, LookUp::Unconfirmed(_))
        );
        let step = |state: &mut ObjectState| run.step(state, input, ctx);
        let action = match mutant {
            Mutant::IgnoreWindow => shown::with_first_send_now(state, key_id, ctx, step),
            Mutant::DisbelievedIsAbsent if is_unconfirmed => {
                shown::without_keeping_what_was_made(state, heard, step)
            }
            Mutant::TentativeIsFinal => shown::with_sends_long_ago(state, heard, step),
            Mutant::HeldIsRefused => shown::without_executed(state, key_id, step),
            Mutant::OvertakenIsSent => shown::as_when_admitted(state, key_id, step),
            Mutant::NoCloseBeforeTry => shown::without_earlier_tries(state, key_id, step),
            Mutant::BesideLateMoney if shown::pays(state, key_id) => shown::without_late_money(state, step),
            _ => step(state),
        }?;
        if mutant == Mutant::ReleaseKeyOnError {
            forget_claim(state, key_id, &action);
        }
        Ok(as_kept(action, state))
    }

    /// The end of a run after an error.
    pub(crate) fn abandon(
        self,
        run: &Run,
        state: &mut ObjectState,
        reason: &str,
        ctx: &Context,
    ) -> Result<Action, StepError> {
        if self.plays(Mutant::NoLeaseCheck) {
            let mut run = run.clone();
            return shown::with_claim(&mut run, state, |run, state| run.abandon(state, reason, ctx));
        }
        let action = run.abandon(state, reason, ctx)?;
        if self.plays(Mutant::ReleaseKeyOnError) {
            forget_claim(state, run.token.key_id, &action);
        }
        Ok(action)
    }

    /// The idempotency key of a send at the wire. No two sends have the same `number`.
    pub(crate) fn wire_key(self, call: &ProviderCall, number: u64) -> String {
        match self.0 {
            Some(Mutant::FreshProviderKey) => format!("{}_{number}", call.provider_key),
            _ => call.provider_key.clone(),
        }
    }

    /// What the alarm is set by.
    pub(crate) fn due(self, state: &ObjectState) -> Cow<'_, ObjectState> {
        match self.0 {
            Some(Mutant::NoAlarm) => Cow::Owned(shown::without_open_keys(state)),
            _ => Cow::Borrowed(state),
        }
    }

    /// What is about to be committed.
    pub(crate) fn commits(self, before: &ObjectState, state: &mut ObjectState) {
        match self.0 {
            Some(Mutant::DecidedIsFinal) => {
                if let Some(payment) = &mut state.resource.payment {
                    payment.watch = None;
                }
            }
            Some(Mutant::OwnMinorUnits) => {
                let is_new = |call: &&mut ProviderCall| {
                    !before.calls.iter().any(|known| known.call_id == call.call_id)
                };
                state.calls.iter_mut().filter(is_new).for_each(in_own_units);
            }
            _ => {}
        }
    }

    /// An answer about a payment.
    pub(crate) fn take(
        self,
        state: &mut ObjectState,
        question: &StatusQuery,
        before: Ended,
        status_reply: StatusReply,
        ctx: &Context,
    ) -> Result<Option<StatusQuery>, Bug> {
        match self.0 {
            Some(Mutant::ByHandBelieved) => {
                let take =
                    |state: &mut _| answers::take_unless_moved(state, question, before, status_reply, ctx);
                shown::as_if_contradicted(state, take)
            }
            _ => answers::take_unless_moved(state, question, before, status_reply, ctx),
        }
    }

    /// An event.
    pub(crate) fn take_in(
        self,
        state: &mut ObjectState,
        notice: &Notice,
        remembered: &Remembered,
        ctx: &Context,
    ) -> Result<Ingested, Bug> {
        let is_dropped = match self.0 {
            Some(Mutant::ByHandBelieved) => contradictions::of_news(state, &notice.news).is_some(),
            Some(Mutant::LateNewsDropped) => shown::is_late(state, &notice.news),
            _ => false,
        };
        if is_dropped {
            events::remember(state, notice, ctx);
            return Ok(Ingested::Applied);
        }
        events::take_in(state, notice, remembered, ctx)
    }

    /// An operator's word.
    pub(crate) fn settle(
        self,
        state: &mut ObjectState,
        word: &Word,
        me: &InstanceId,
        ctx: &Context,
    ) -> Result<Result<(), by_hand::Refusal>, Bug> {
        match self.0 {
            Some(Mutant::ByHandInFlight) => {
                let mut ctx = *ctx;
                ctx.times.quiet_ms = 0;
                shown::without_lease(state, word.call_id, |state| by_hand::settle(state, word, me, &ctx))
            }
            _ => by_hand::settle(state, word, me, ctx),
        }
    }
}

/// What the core hears in the place of what the provider has said.
fn misheard(mutant: Mutant, input: Input, state: &mut ObjectState) -> Input {
    let (Input::Outcome(call_id, _) | Input::LookedUp(call_id, _)) = input else { return input };
    let pending = state.resource.payment.as_ref().and_then(|payment| payment.pending);
    let Some(call) = state.calls.iter_mut().find(|call| call.call_id == call_id) else { return input };
    match (mutant, input) {
        (_, Input::Outcome(id, outcome)) => Input::Outcome(id, other_outcome(mutant, outcome, call, pending)),
        (Mutant::AbsenceIsFinal | Mutant::OneLook, input) => {
            if let Input::LookedUp(_, LookUp::Absent | LookUp::Tentative(_)) = input {
                // As if this were the second look.
                call.evidence.absent_at_ms.get_or_insert(0);
            }
            input
        }
        (Mutant::TentativeIsFinal, Input::LookedUp(id, LookUp::LeftOpen(reply))) => {
            Input::LookedUp(id, LookUp::Found(reply))
        }
        (Mutant::MovedIsOther, Input::LookedUp(id, LookUp::Found(reply))) => {
            Input::LookedUp(id, of_another_amount(reply))
        }
        (_, input) => input,
    }
}

fn other_outcome(
    mutant: Mutant,
    outcome: Outcome,
    call: &mut ProviderCall,
    pending: Option<InFlight>,
) -> Outcome {
    use once::call::RefusalScope::{Copy, Key, Send};
    let is_asked = call.provider == Provider::Stripe;
    match (mutant, outcome) {
        (_, Outcome::Unknown { .. } | Outcome::Indeterminate { .. }) if fails_unknown(mutant, call.kind) => {
            Outcome::Definitive(declined())
        }
        (Mutant::OpenIsDeclined, Outcome::LeftOpen(reply)) => Outcome::Definitive(reply),
        (Mutant::CopyIsSend, Outcome::NotExecuted { scope: Copy, retry_after_ms, reason }) => {
            Outcome::NotExecuted { scope: Send, retry_after_ms, reason }
        }
        (Mutant::RefusedIsUnknown, Outcome::NotExecuted { retry_after_ms, reason, .. }) if !is_asked => {
            Outcome::NotExecuted { scope: Copy, retry_after_ms, reason }
        }
        (Mutant::RefusedIsUnknown, Outcome::Definitive(reply))
            if !is_asked && call.maybe_executed && is_rejection(&reply) =>
        {
            Outcome::Unknown { answer_is_stored: false, reason: "refused".to_owned() }
        }
        (Mutant::UnusedIsFinal, outcome) => {
            let is_unused = match &outcome {
                Outcome::NotExecuted { scope, .. } => *scope == Key,
                Outcome::Definitive(reply) => is_rejection(reply),
                _ => false,
            };
            if is_unused {
                // As if every earlier send had arrived long ago.
                call.evidence.doubted_at_ms = call.evidence.doubted_at_ms.map(|_| 0);
            }
            outcome
        }
        (Mutant::ReceivedIsDone, Outcome::Definitive(reply)) => {
            Outcome::Definitive(done(reply, call, pending))
        }
        (_, outcome) => outcome,
    }
}

/// Whether a mutant takes the unknown outcome of such a call for a failure.
fn fails_unknown(mutant: Mutant, kind: CallKind) -> bool {
    match mutant {
        Mutant::FailAfterTimeout => true,
        Mutant::FallbackAfterUnknown => kind == CallKind::Authorize,
        Mutant::ForgetUnknownMove => matches!(kind, CallKind::Capture | CallKind::Void | CallKind::Refund),
        _ => false,
    }
}

fn declined() -> ProviderReply {
    let result = ProviderResult::Declined {
        payment: None,
        code: "not_executed".to_owned(),
        decline_code: None,
        message: "The provider has not executed it.".to_owned(),
    };
    ProviderReply { status: 402, result, request_id: None }
}

const fn is_rejection(reply: &ProviderReply) -> bool {
    matches!(reply.result, ProviderResult::Rejected { .. })
}

/// What was asked for, in the place of "received".
fn done(reply: ProviderReply, call: &ProviderCall, pending: Option<InFlight>) -> ProviderReply {
    let result = match (reply.result, call.name.as_str(), pending) {
        (ProviderResult::Received { .. }, "capture", Some(InFlight::Capture { amount_minor, .. })) => {
            ProviderResult::Captured { amount_minor }
        }
        (ProviderResult::Received { .. }, "void", _) => ProviderResult::Voided,
        (result, ..) => result,
    };
    ProviderReply { result, ..reply }
}

fn of_another_amount(reply: ProviderReply) -> LookUp {
    match reply.result {
        ProviderResult::Moved { payment, .. } => {
            let reason = "the provider charged another amount".to_owned();
            let provider_id = Some(payment);
            LookUp::Unconfirmed(once::call::Unconfirmed { provider_id, needs_review: true, reason })
        }
        result => LookUp::Found(ProviderReply { result, ..reply }),
    }
}

/// What is sent or looked up is what the rows keep, not what was shown.
fn as_kept(action: Action, state: &ObjectState) -> Action {
    let kept = |shown: ProviderCall| {
        state.calls.iter().find(|call| call.call_id == shown.call_id).cloned().unwrap_or(shown)
    };
    match action {
        Action::Send(call) => Action::Send(kept(call)),
        Action::LookUp(call) => Action::LookUp(kept(call)),
        other => other,
    }
}

/// The key goes with the run that ends without a result.
fn forget_claim(state: &mut ObjectState, key_id: u32, action: &Action) {
    if let Action::End(RunEnd::Pending { .. } | RunEnd::Interrupted { .. }) = action {
        state.keys.retain(|key| key.key_id != key_id);
        state.calls.retain(|call| call.key_id != key_id);
        forget_payment(state);
    }
}

/// What nobody has a key for any more was never made.
fn forget_payment(state: &mut ObjectState) {
    if state.keys.is_empty() {
        state.resource.payment = None;
        state.resource.tries.clear();
    }
}

/// The amount of what was just frozen, as if every provider counted as we do.
fn in_own_units(call: &mut ProviderCall) {
    if call.provider != Provider::Adyen {
        return;
    }
    let Ok(mut body) = serde_json::from_str::<serde_json::Value>(&call.request.body) else { return };
    let Some(amount) = body.get_mut("amount") else { return };
    let ours = amount["currency"]
        .as_str()
        .zip(amount["value"].as_i64())
        .and_then(|(currency, value)| minor_units::from_adyen(value, currency));
    if let Some(ours) = ours {
        amount["value"] = ours.into();
        call.request.body = body.to_string();
    }
}
