//! Finding out what became of a call whose answer nobody knows: what a look-up does to it, and whose account is asked.

use super::{CallState, LookUp, LookUpProgress, ProviderCall, Settlement};
use crate::account::{Credential, Identity, SentTo};
use crate::context::Context;
use crate::domain::{Domain, Provider};

/// The longest pause between two look-ups that did not decide, in ms.
const LOOK_UP_PAUSE_MAX_MS: u64 = 300_000;
/// The same where nothing can be asked, and a cancel at most is asked for again.
const CLOSE_PAUSE_MAX_MS: u64 = 3_600_000;
/// How long after a look that found nothing the next one is asked for that may settle it, in ms: lists lag behind.
const SECOND_LOOK_MS: u64 = 300_000;
/// How long after the last send, in ms, a call is called off of which a provider that cannot be asked has told nothing.
const GIVEN_UP_AFTER_MS: u64 = 3_600_000;
/// The longest pause between two look-ups in quarantine, in ms.
const QUARANTINE_PAUSE_MS: u64 = 3_600_000;
/// The longest pause before the configured credential is asked again of which account it is, in ms.
const AWAY_PAUSE_MAX_MS: u64 = 900_000;
/// Why a person is shown a call in quarantine.
const QUARANTINED: &str =
    "the provider failed while it executed this and shows nothing of it: it may complete it later";

impl<F: Domain> ProviderCall<F> {
    /// Whether the account is to be learned while the credential is there with which it was sent: once after each send that did
    /// not end it. Also one that was refused, unless with all of its copies: another one may have been executed. What can be found
    /// by the provider's id needs no more.
    pub(super) fn must_learn_account(&self, ctx: &Context<F::Settings>) -> bool {
        let is_asked_now = |sent_to: &SentTo| sent_to.account.is_none() && sent_to.asked_after < self.sends;
        self.evidence.sent_to.as_ref().is_some_and(is_asked_now)
            && !self.was_refused_everywhere()
            && self.credential(ctx).is_some()
            && self.tells_account()
    }

    /// The credential with which it is sent now.
    pub fn credential(&self, ctx: &Context<F::Settings>) -> Option<Credential> {
        ctx.credential(self.provider, self.request.account.as_deref())
    }

    fn tells_account(&self) -> bool {
        self.provider.tells_account(self.kind, &self.request, self.evidence.provider_id.as_deref())
    }

    /// The configured credential is asked of which account it is, not how the call stands.
    pub fn asks_identity(&self) -> bool {
        self.evidence.sent_to.as_ref().is_some_and(|sent_to| sent_to.asking)
    }

    /// What the next look-up asks.
    pub(crate) fn ask_identity(&mut self, asks: bool) {
        if let Some(sent_to) = &mut self.evidence.sent_to {
            sent_to.asking = asks;
        }
    }

    /// Whether the configured credential is not the one with which it was sent: it may be another account's.
    pub(super) fn may_be_away(&self, ctx: &Context<F::Settings>) -> bool {
        let sent_to = self.evidence.sent_to.as_ref();
        let has_changed = sent_to.is_some_and(|sent_to| sent_to.has_changed(self.credential(ctx)));
        // What can have been executed nowhere may begin anywhere; what moves something must go where that is.
        let is_free =
            self.was_refused_everywhere() && self.provider.moves(self.kind, &self.request).is_none();
        has_changed && !is_free
    }

    /// Takes in what came of a page that was asked for at `asked_at_ms`: what the list said then may be long past now.
    pub(crate) fn take_look_up(
        &mut self,
        look_up: LookUp<F::Answer>,
        asked_at_ms: u64,
        ctx: &Context<F::Settings>,
    ) {
        if self.asks_identity() {
            let identity = match look_up {
                LookUp::Identity(identity) => identity,
                // What it is about is not there, and the flow can do without.
                LookUp::Found(reply) if self.sends == 0 => {
                    if let Some(sent_to) = &mut self.evidence.sent_to {
                        (sent_to.asking, sent_to.away) = (false, None);
                    }
                    self.state = CallState::Settled(Settlement::Answered(reply));
                    return;
                }
                _ => Identity::Silent,
            };
            return self.take_identity(identity, ctx);
        }
        if let Some(sent_to) = &mut self.evidence.sent_to {
            sent_to.away = None;
        }
        // One that was still in flight died with its run.
        if self.state == CallState::InFlight {
            self.record_unheard();
        }
        self.state = CallState::Unknown;
        self.maybe_executed = true;
        self.evidence.needs_client = matches!(look_up, LookUp::NoClient { .. });
        let look_up = match look_up {
            // Whoever cannot be asked does not know that it is not there.
            LookUp::Absent | LookUp::Tentative(_) if !self.provider.answers_questions() => {
                LookUp::Inconclusive { from_the_start: false, reason: String::new() }
            }
            look_up => look_up,
        };
        let progress = self.look_up.take();
        let asked_at_ms = progress.as_ref().map_or(asked_at_ms, |first| first.asked_at_ms);
        let quiet_at_ms = self.may_arrive_until_ms(ctx);
        let is_quiet = asked_at_ms >= quiet_at_ms;
        match look_up {
            LookUp::Found(reply) => {
                self.evidence.refusal = None;
                self.state = CallState::Settled(Settlement::Answered(reply));
            }
            LookUp::Tentative(_) | LookUp::LeftOpen(_) | LookUp::Absent if !is_quiet => {
                self.next_try_at_ms = quiet_at_ms;
            }
            LookUp::LeftOpen(reply) => self.close(reply, ctx),
            LookUp::Tentative(reply) => {
                if self.absence_counts(asked_at_ms, ctx) {
                    self.state = CallState::Settled(Settlement::Answered(reply));
                }
            }
            LookUp::Absent if self.evidence.is_executed => {
                self.evidence.needs_review =
                    Some("the provider does not show what it said it had made".to_owned());
                self.look_again_later(ctx);
            }
            LookUp::Absent => {
                if self.absence_counts(asked_at_ms, ctx) {
                    self.state = CallState::Settled(Settlement::NotExecuted);
                }
            }
            // Nobody has asked for it.
            LookUp::Identity(_) => self.look_again_later(ctx),
            LookUp::NoClient { .. } => {
                self.look_up = progress;
                self.wait_for_client(ctx);
            }
            LookUp::More { after } => self.look_up = Some(LookUpProgress { after, asked_at_ms }),
            LookUp::Unconfirmed(unconfirmed) => {
                self.keep(unconfirmed);
                self.look_again_later(ctx);
            }
            LookUp::Inconclusive { from_the_start, .. } => {
                let silent_ms = ctx.now_ms.saturating_sub(self.last_sent_at_ms.unwrap_or(ctx.now_ms));
                self.evidence.is_given_up |=
                    !self.provider.answers_questions() && silent_ms >= GIVEN_UP_AFTER_MS;
                self.look_up = progress.filter(|_| !from_the_start);
                self.look_again_later(ctx);
            }
        }
    }

    /// Takes in which account the configured credential is of: goes on, or waits until another credential is set.
    pub(crate) fn take_identity(&mut self, identity: Identity, ctx: &Context<F::Settings>) {
        let (Some(now), Some(sent_to)) = (self.credential(ctx), &mut self.evidence.sent_to) else {
            return;
        };
        (sent_to.asking, sent_to.asked_after) = (false, self.sends);
        self.evidence.needs_client = false;
        let was_changed = sent_to.credential != now;
        match sent_to.take(identity, now) {
            Some(true) if was_changed => self.next_try_at_ms = ctx.now_ms,
            Some(true) => {}
            Some(false) | None => {
                self.failures = self.failures.saturating_add(1);
                self.try_rarely(self.last_sent_at_ms.unwrap_or(ctx.now_ms), AWAY_PAUSE_MAX_MS, ctx);
            }
        }
    }

    /// Whether a look that was begun after the quiet time ends the waiting; else it sets when to look again.
    fn absence_counts(&mut self, asked_at_ms: u64, ctx: &Context<F::Settings>) -> bool {
        let first_at_ms = *self.evidence.absent_at_ms.get_or_insert(asked_at_ms);
        if let Some(until_ms) = self.quarantined_until_ms(ctx).filter(|until_ms| asked_at_ms < *until_ms) {
            self.evidence.needs_review = Some(QUARANTINED.to_owned());
            let pause_ms = (until_ms - asked_at_ms).min(QUARANTINE_PAUSE_MS);
            self.try_again_after(pause_ms, ctx);
            return false;
        }
        let second_at_ms = first_at_ms.saturating_add(ctx.times.quiet_ms.min(SECOND_LOOK_MS));
        let counts = asked_at_ms >= second_at_ms;
        if !counts {
            self.next_try_at_ms = second_at_ms;
        }
        counts
    }

    /// Waits for a client. That none was there is no failure of the provider's.
    pub(super) fn wait_for_client(&mut self, ctx: &Context<F::Settings>) {
        // A try without one is written down as a send, too: the first one says how old it is.
        self.try_rarely(self.first_sent_at_ms.unwrap_or(ctx.now_ms), LOOK_UP_PAUSE_MAX_MS, ctx);
    }

    fn look_again_later(&mut self, ctx: &Context<F::Settings>) {
        self.failures = self.failures.saturating_add(1);
        // What was made can stay open at the provider for hours.
        let most_ms = match self.provider.answers_questions() {
            true => LOOK_UP_PAUSE_MAX_MS,
            false => CLOSE_PAUSE_MAX_MS,
        };
        self.try_rarely(self.last_sent_at_ms.unwrap_or(0), most_ms, ctx);
    }

    /// Tries again after a pause: the longer the longer this has lasted, since a time in ms since the epoch; at most `most_ms`.
    fn try_rarely(&mut self, since_ms: u64, most_ms: u64, ctx: &Context<F::Settings>) {
        let age_ms = ctx.now_ms.saturating_sub(since_ms);
        let pause_ms = ctx.backoff_ms(self.failures.max(6)).max(age_ms / 8);
        self.try_again_after(pause_ms.min(most_ms), ctx);
    }
}
