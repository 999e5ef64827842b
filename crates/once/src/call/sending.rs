//! Sending a call: when it may be sent again, and what its answers do to it.

use super::{
    CallState, Outcome, Plan, ProviderCall, ProviderReply, RefusalScope, RetryPolicy, Settlement, Unconfirmed,
};
use crate::account::SentTo;
use crate::context::Context;
use crate::domain::{Answer, Domain, Provider};

/// The longest pause that a provider can ask for, in ms.
const RETRY_AFTER_MAX_MS: u64 = 3_600_000;
/// After how long a person is told that every send was refused, in ms.
const REFUSED_TOO_LONG_MS: u64 = 3_600_000;
/// What they are told.
const REFUSED: &str = "the credentials are refused, or there are none: the provider has taken in nothing yet";

impl<F: Domain> ProviderCall<F> {
    /// Whether every send was refused with all of its copies: with a wrong key, for example.
    pub(super) fn was_refused_everywhere(&self) -> bool {
        self.sends > 0 && self.evidence.refused_sends >= self.sends && self.state == CallState::Frozen
    }

    pub(crate) fn plan(&self, ctx: &Context<F::Settings>) -> Plan<F::Answer> {
        let may_be_away = self.may_be_away(ctx);
        let was_away = self.evidence.sent_to.as_ref().is_some_and(|sent_to| sent_to.away.is_some());
        // With the right credential back there is nothing to wait for; with none there is.
        let is_back = was_away && !may_be_away && self.credential(ctx).is_some();
        let waits = ctx.now_ms < self.next_try_at_ms && !is_back;
        let Some(first_sent_at_ms) = self.first_sent_at_ms else {
            return if waits {
                Plan::WaitUntil(self.next_try_at_ms)
            } else if may_be_away {
                Plan::Identify
            } else {
                Plan::Send
            };
        };
        // What was left open is canceled first, however it is sent; and what the provider has is not doubted: how it ends is asked for, or told.
        let is_known = self.evidence.closing.is_some() || self.evidence.is_executed;
        let is_sent_once = self.retry_policy == RetryPolicy::AtMostOnce && !is_known;
        if is_sent_once && self.in_doubt() {
            return Plan::Settle(Settlement::NeedsReview);
        }
        if !may_be_away && self.must_learn_account(ctx) {
            return Plan::Identify;
        }
        if waits {
            return Plan::WaitUntil(self.next_try_at_ms);
        }
        if may_be_away {
            return Plan::Identify;
        }
        if is_sent_once {
            return Plan::Send;
        }
        // A clock that went back must not open the window again: a time before the first send is outside it too.
        let in_window = ctx.now_ms >= first_sent_at_ms
            && ctx.now_ms - first_sent_at_ms < self.provider.window_ms(&ctx.times);
        let is_looked_up = self.answer_is_stored
            || self.evidence.closing.is_some()
            || self.retry_policy == RetryPolicy::AtMostOnce;
        if in_window && !is_looked_up {
            Plan::Send
        } else if (self.was_refused_everywhere() && !self.evidence.is_executed)
            || (!self.provider.answers_questions() && self.is_refused_for_certain())
        {
            // No copy of the last send is on its way any more.
            let quiet_at_ms = self.may_arrive_until_ms(ctx);
            if ctx.now_ms < quiet_at_ms {
                Plan::WaitUntil(quiet_at_ms)
            } else {
                Plan::Settle(Settlement::NotExecuted)
            }
        } else {
            Plan::LookUp
        }
    }

    /// Whether nothing of what has arrived at the provider was executed, by its own refusals.
    const fn is_refused_for_certain(&self) -> bool {
        self.sends > 0 && self.evidence.refused_sends >= self.sends
    }

    /// Whether a copy of a send before the last one may have been executed, or may be yet: one that was on its way while another was refused, too.
    fn has_earlier_doubt(&self, ctx: &Context<F::Settings>) -> bool {
        let is_on_its_way =
            |at_ms: u64| self.last_sent_at_ms.unwrap_or(0) < at_ms.saturating_add(ctx.times.quiet_ms);
        self.maybe_executed || self.evidence.doubted_at_ms.is_some_and(is_on_its_way)
    }

    /// Takes in how far the refusal of the send reaches that has just ended.
    fn record_refusal(&mut self, scope: RefusalScope, ctx: &Context<F::Settings>) {
        let evidence = &mut self.evidence;
        let has_no_doubt = evidence.refused_sends.saturating_add(1) >= self.sends;
        // What began earlier than that has arrived, or never will.
        let has_arrived = evidence.doubted_at_ms.is_some_and(|at_ms| {
            self.last_sent_at_ms.unwrap_or(0) >= at_ms.saturating_add(ctx.times.quiet_ms)
        });
        match scope {
            RefusalScope::Copy => evidence.doubted_at_ms = self.last_sent_at_ms,
            RefusalScope::Key if has_arrived || has_no_doubt => {
                evidence.refused_sends = self.sends;
                evidence.doubted_at_ms = None;
            }
            RefusalScope::Send | RefusalScope::Key | RefusalScope::NoClient => {
                evidence.refused_sends = evidence.refused_sends.saturating_add(1);
            }
        }
    }

    /// Marks a send as begun.
    pub(crate) fn begin_send(&mut self, ctx: &Context<F::Settings>) {
        // One that is still in flight died with its run.
        if self.state == CallState::InFlight {
            self.record_unheard();
        }
        self.state = CallState::InFlight;
        self.note_credential(ctx);
        self.first_sent_at_ms.get_or_insert(ctx.now_ms);
        self.look_up = None;
        self.evidence.absent_at_ms = None;
        self.last_sent_at_ms = Some(self.last_sent_at_ms.unwrap_or(0).max(ctx.now_ms));
        self.sends = self.sends.saturating_add(1);
    }

    /// Notes with which credential it is sent.
    fn note_credential(&mut self, ctx: &Context<F::Settings>) {
        let Some(now) = self.credential(ctx) else { return };
        match &mut self.evidence.sent_to {
            Some(sent_to) if sent_to.credential == now => (sent_to.asking, sent_to.away) = (false, None),
            sent_to => *sent_to = Some(SentTo::new(now)),
        }
    }

    /// Takes in what came of a send.
    pub(crate) fn take(&mut self, outcome: Outcome<F::Answer>, ctx: &Context<F::Settings>) {
        let needs_client = matches!(outcome, Outcome::NotExecuted { scope: RefusalScope::NoClient, .. });
        self.evidence.needs_client = needs_client;
        self.evidence.needs_review.take_if(|why| why == REFUSED);
        self.failures = self.failures.saturating_add(u32::from(!needs_client));
        match outcome {
            // There is nothing to ask: the key says whether an earlier send was executed, once that has arrived or never will.
            Outcome::Definitive(reply)
                if self.has_earlier_doubt(ctx)
                    && reply.result.is_refusal()
                    && !self.provider.answers_questions() =>
            {
                self.record_refusal(RefusalScope::Key, ctx);
                if self.is_refused_for_certain() {
                    self.state = CallState::Settled(Settlement::Answered(reply));
                    return;
                }
                self.state = CallState::Unknown;
                let arrived_at_ms =
                    self.evidence.doubted_at_ms.unwrap_or(0).saturating_add(ctx.times.quiet_ms);
                let wait_ms = arrived_at_ms.saturating_sub(ctx.now_ms).min(ctx.times.quiet_ms);
                self.try_again_after(ctx.backoff_ms(self.failures).max(wait_ms), ctx);
            }
            // The provider does not store every refusal: an earlier send that is still on its way would be executed.
            Outcome::Definitive(reply) if self.has_earlier_doubt(ctx) && reply.result.is_refusal() => {
                self.state = CallState::Unknown;
                self.evidence.refusal = Some(reply);
                self.answer_is_stored = true;
                // A used key would have said what is stored under it: until now nothing was executed.
                self.evidence.unheard_at_ms = None;
                self.try_again_after(ctx.backoff_ms(self.failures), ctx);
            }
            Outcome::Definitive(reply) | Outcome::Stored(reply) => {
                self.state = CallState::Settled(Settlement::Answered(reply));
            }
            Outcome::NotExecuted { retry_after_ms, scope, .. } => {
                self.record_refusal(scope, ctx);
                // Nothing protects from a copy that has come through, or comes later.
                self.maybe_executed |= self.retry_policy == RetryPolicy::AtMostOnce
                    && matches!(scope, RefusalScope::Copy | RefusalScope::Key);
                // Only this send is known to have done nothing: an earlier doubt stays.
                self.state = if self.maybe_executed { CallState::Unknown } else { CallState::Frozen };
                if needs_client {
                    return self.wait_for_client(ctx);
                }
                let refused_ms = ctx.now_ms.saturating_sub(self.first_sent_at_ms.unwrap_or(ctx.now_ms));
                if scope == RefusalScope::Send
                    && self.was_refused_everywhere()
                    && refused_ms >= REFUSED_TOO_LONG_MS
                {
                    self.evidence.needs_review.get_or_insert_with(|| REFUSED.to_owned());
                }
                self.try_again_after(
                    ctx.backoff_ms(self.failures).max(retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MAX_MS)),
                    ctx,
                );
            }
            Outcome::Unknown { answer_is_stored, .. } => {
                self.record_unheard();
                self.record_unknown(answer_is_stored, ctx);
            }
            Outcome::Indeterminate { answer_is_stored, .. } => {
                self.evidence.failed_at_ms = Some(ctx.now_ms);
                self.record_unknown(answer_is_stored, ctx);
            }
            Outcome::Unconfirmed(unconfirmed) => {
                self.keep(unconfirmed);
                self.record_unknown(true, ctx);
            }
            Outcome::LeftOpen(reply) => {
                self.record_unknown(true, ctx);
                self.close(reply, ctx);
            }
        }
    }

    /// The last send may have been executed, and how is not heard.
    pub(super) fn record_unheard(&mut self) {
        self.maybe_executed = true;
        self.evidence.unheard_at_ms = self.last_sent_at_ms;
        self.evidence.doubted_at_ms = self.last_sent_at_ms;
    }

    /// A send ended without a definitive answer.
    fn record_unknown(&mut self, answer_is_stored: bool, ctx: &Context<F::Settings>) {
        self.state = CallState::Unknown;
        self.maybe_executed = true;
        self.evidence.doubted_at_ms = self.last_sent_at_ms;
        self.answer_is_stored |= answer_is_stored;
        self.try_again_after(ctx.backoff_ms(self.failures), ctx);
    }

    /// The provider has told by itself that it has made this: from now on it is asked for by its id, whatever lists say. Nothing, where the call
    /// has ended, was never sent, or has made something that is known.
    pub fn record_made(&mut self, provider_id: &str) {
        if self.is_settled() || self.sends == 0 || self.evidence.provider_id.is_some() {
            return;
        }
        self.keep(Unconfirmed {
            provider_id: Some(provider_id.to_owned()),
            needs_review: false,
            reason: String::new(),
        });
    }

    /// Keeps what the provider says that it has made.
    pub(super) fn keep(&mut self, unconfirmed: Unconfirmed) {
        let Unconfirmed { provider_id, needs_review, reason } = unconfirmed;
        self.evidence.is_executed = true;
        self.evidence.needs_review = needs_review.then_some(reason);
        if provider_id.is_some() {
            self.evidence.provider_id = provider_id;
        }
    }

    /// Cancels what was left open, and looks at it until it is canceled.
    pub fn close(&mut self, reply: ProviderReply<F::Answer>, ctx: &Context<F::Settings>) {
        self.evidence.provider_id = reply.result.made().map(str::to_owned);
        self.evidence.is_executed = true;
        self.evidence.closing = Some(reply);
        self.next_try_at_ms = ctx.now_ms;
    }

    /// A client has come: what waited for one goes on now.
    pub(crate) const fn client_arrived(&mut self, now_ms: u64) {
        if self.evidence.needs_client {
            self.evidence.needs_client = false;
            self.next_try_at_ms = now_ms;
        }
    }

    pub(super) fn try_again_after(&mut self, delay_ms: u64, ctx: &Context<F::Settings>) {
        self.next_try_at_ms = ctx.now_ms.saturating_add(delay_ms.max(1));
    }
}
