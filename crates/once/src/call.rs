//! Foreign calls as data: frozen before the first send, settled once, and in between never called a failure.
//!
//! ```text
//!             arm               record: definitive
//!  Frozen ──────────► InFlight ─────────────────────► Settled(Answered)
//!    ▲                 │  │ ▲
//!    │  not executed   │  │ └─ arm: the same bytes, the same derived key, inside the provider's window
//!    └─────────────────┘  │
//!          no answer, or the run died
//!                         ▼
//!                      Unknown ── past the window, or the answer can't change ──► look-up, page by page
//!                         │                                          found ► Settled(Answered)
//!                         │                        absent after a quiet time ► Settled(NotExecuted)
//!                         └── at most once ────────────────────────────────► Settled(NeedsReview)
//! ```
//!
//! A provider that has nothing to ask tells by its refusals, too: past the window a call is not executed if every
//! send was [refused](RefusalScope) with certainty.
//!
//! Past the window a call is looked up from any state in which a send has begun: also in flight, with a run that died, and
//! frozen, because every send was refused. A refusal of the request settles nothing while an earlier send may have been
//! executed.

use serde::{Deserialize, Serialize};

use super::account::{Identity, SentTo};
use super::context::Context;
use super::domain::{Answer, CallKind, Domain, Provider};
pub use super::request::FrozenRequest;

/// The longest pause that a provider can ask for, in ms.
const RETRY_AFTER_MAX_MS: u64 = 3_600_000;
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

/// Whether a call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPolicy {
    /// The provider executes it once per derived key: retry freely inside its window.
    IdempotentByKey,
    /// Nothing protects a second send: it is tried once, and an unknown outcome is for a person.
    AtMostOnce,
}

/// What a flow wants done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallSpec<F: Domain> {
    /// Its name within the operation.
    pub name: String,
    /// What it does.
    pub kind: CallKind<F>,
    /// Where it goes, now and at every retry.
    pub provider: F::Provider,
    /// Whether it may be sent again.
    pub retry_policy: RetryPolicy,
    /// The idempotency key for the provider, made from our own ids.
    pub derived_key: String,
    /// The bytes.
    pub request: FrozenRequest,
}

/// The provider's definitive answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "A: Answer")]
pub struct ProviderReply<A> {
    /// The HTTP status.
    pub status: u16,
    /// What we keep of the body.
    pub result: A,
    /// The provider's id of the request, for its support and our log.
    pub request_id: Option<String>,
}

/// What came of one send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<A> {
    /// The provider's last word under this key.
    Definitive(ProviderReply<A>),
    /// It was certainly not executed: the same key may be sent again.
    NotExecuted {
        /// How long the provider wants to be left alone, in ms.
        retry_after_ms: Option<u64>,
        /// Of what it says so.
        scope: RefusalScope,
        /// For the log: a status or an error, without any value from the body.
        reason: String,
    },
    /// It may or may not have been executed.
    Unknown {
        /// The answer is stored under the key: sending again brings nothing new, only a look-up helps.
        answer_is_stored: bool,
        /// For the log.
        reason: String,
    },
    /// The provider failed while it executed. It may complete the work hours later, and until then shows nothing of it.
    Indeterminate {
        /// As in [`Unknown`](Self::Unknown).
        answer_is_stored: bool,
        /// For the log.
        reason: String,
    },
    /// The provider has executed it; what came of it is not decided, or not to be believed.
    Unconfirmed(Unconfirmed),
    /// The provider has made something and left it open, though nobody is there to complete it. It can be completed until it is
    /// canceled; then this is the answer.
    LeftOpen(ProviderReply<A>),
}

/// What was certainly not executed, when a provider refuses a send. The network can deliver a send twice, and refused is one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalScope {
    /// This copy alone: another one may have come through a rate limit.
    Copy,
    /// Every copy of this send: its credentials were refused, or it never left us.
    Send,
    /// All that has arrived under the key until now: the provider says that the key is unused.
    Key,
}

/// What the provider has executed, and what is wrong with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unconfirmed {
    /// The provider's id of what it made, if it could be read.
    pub provider_id: Option<String>,
    /// The answer contradicts what was asked for, or itself: a person must look. Else it is only not decided yet.
    pub needs_review: bool,
    /// For the log.
    pub reason: String,
}

impl<A: Answer> Outcome<A> {
    /// One word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Definitive(reply) => reply.result.name(),
            Self::NotExecuted { .. } => "not_executed",
            Self::Unknown { .. } => "unknown",
            Self::Indeterminate { .. } => "indeterminate",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::LeftOpen(_) => "left_open",
        }
    }
}

/// What came of one page of a look-up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LookUp<A> {
    /// It is there, and this is how it ended: no send under its key can bring another result.
    Found(ProviderReply<A>),
    /// It says no, and a send that is still on its way could change that.
    Tentative(ProviderReply<A>),
    /// It is there, not decided or not to be believed: from now on it is asked for by its id.
    Unconfirmed(Unconfirmed),
    /// It is there and open, though nobody completes it: it is canceled, and then this is the answer.
    LeftOpen(ProviderReply<A>),
    /// Not on this page, and there are more.
    More {
        /// The provider's id of the last entry that was read: the next page begins after it.
        after: String,
    },
    /// This was the last page, and it was on none.
    Absent,
    /// Which account the configured credential is of: asked for in the place of a look-up.
    Identity(Identity),
    /// The provider could not say.
    Inconclusive {
        /// The place in the list is lost: the next look-up begins with the first page.
        from_the_start: bool,
        /// For the log.
        reason: String,
    },
}

impl<A: Answer> LookUp<A> {
    /// One word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::Tentative(_) => "tentative",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::LeftOpen(_) => "left_open",
            Self::More { .. } => "more",
            Self::Absent => "absent",
            Self::Identity(_) => "identity",
            Self::Inconclusive { .. } => "inconclusive",
        }
    }
}

/// How far a look-up has read. Written down page by page: a busy shop has many, and a crash starts none of them over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookUpProgress {
    /// The provider's id of the last entry that was read.
    pub after: String,
    /// When the first page was asked for, in ms since the epoch. New entries appear before it, so "on no page" is as
    /// old as this.
    pub asked_at_ms: u64,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound = "A: Answer")]
pub enum CallState<A> {
    /// Written down, or every send was refused.
    Frozen,
    /// A send has begun and its outcome is not written.
    InFlight,
    /// A send ended without a definitive answer.
    Unknown,
    /// The end.
    Settled(Settlement<A>),
}

impl<A: Answer> CallState<A> {
    /// Its name, as stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::InFlight => "in_flight",
            Self::Unknown => "unknown",
            Self::Settled(_) => "settled",
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound = "A: Answer")]
pub enum Settlement<A> {
    /// The provider answered, or the look-up found it.
    Answered(ProviderReply<A>),
    /// No send was executed, and none can be any more.
    NotExecuted,
    /// At most once, and nobody knows: a person must look.
    #[serde(rename = "flagged")]
    NeedsReview,
}

/// What is known of a call beyond its state: why it is not settled yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, bound = "A: Answer")]
pub struct Evidence<A> {
    /// The provider's id of what it made, although its answer settles nothing: it is asked for by this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The provider has said that it executed the call: that it is in no list proves nothing.
    #[serde(skip_serializing_if = "is_false")]
    pub is_executed: bool,
    /// Why a person must look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_review: Option<String>,
    /// When the provider last failed while it executed, in ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at_ms: Option<u64>,
    /// When the last send began of which nobody has heard since, in ms since the epoch: its answer may have been such a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unheard_at_ms: Option<u64>,
    /// How many sends were refused for certain, all of their copies: once these are all sends, nothing was executed.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused_sends: u32,
    /// When the last send began that was not, in ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubted_at_ms: Option<u64>,
    /// When the first look was begun that found nothing and counts, in ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_at_ms: Option<u64>,
    /// The answer, once what was left open is canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closing: Option<ProviderReply<A>>,
    /// Nobody has heard of it for long: it is called off where the provider can do that without its own id of what was made.
    #[serde(skip_serializing_if = "is_false")]
    pub is_given_up: bool,
    /// At which account the provider got it, or must get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<SentTo>,
    /// An operator has settled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
}

impl<A> Default for Evidence<A> {
    fn default() -> Self {
        Self {
            provider_id: None,
            is_executed: false,
            needs_review: None,
            failed_at_ms: None,
            unheard_at_ms: None,
            refused_sends: 0,
            doubted_at_ms: None,
            absent_at_ms: None,
            closing: None,
            is_given_up: false,
            sent_to: None,
            by_hand: None,
        }
    }
}

/// Who has settled a call, and why: its settlement is inferred, not the provider's word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByHand {
    /// The operator.
    pub by: String,
    /// Why, in their words.
    pub reason: String,
    /// In ms since the epoch.
    pub at_ms: u64,
    /// The button's number: pressed twice it settles once.
    pub button: u64,
    /// What the provider has told since contradicts it, and a person was told so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_contradicted: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A foreign call of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ProviderCall<F: Domain> {
    /// Its number within the object, from 1.
    pub call_id: u32,
    /// The key whose operation makes it.
    pub key_id: u32,
    /// Its name within the operation.
    pub name: String,
    /// What it does.
    pub kind: CallKind<F>,
    /// Where it goes.
    pub provider: F::Provider,
    /// Whether it may be sent again.
    pub retry_policy: RetryPolicy,
    /// The provider's idempotency key.
    pub derived_key: String,
    /// The bytes. The body is dropped when the key expires.
    pub request: FrozenRequest,
    /// Where it stands.
    pub state: CallState<F::Answer>,
    /// How many sends have begun.
    pub sends: u32,
    /// How often the provider gave no answer that settles it; our own crashes are not its failures. Sets the pauses.
    pub failures: u32,
    /// When the first send began, in ms since the epoch: the provider's window counts from here, even if that send was
    /// refused. The network may have brought a copy of it that was executed.
    pub first_sent_at_ms: Option<u64>,
    /// When the last send began, in ms since the epoch.
    pub last_sent_at_ms: Option<u64>,
    /// Not before this is anything tried again, in ms since the epoch.
    pub next_try_at_ms: u64,
    /// A send that has ended, or died, may have been executed. Never unsaid before the end.
    pub maybe_executed: bool,
    /// The provider has stored its answer under the key: sending again brings nothing new.
    pub answer_is_stored: bool,
    /// The look-up that is between two pages.
    pub look_up: Option<LookUpProgress>,
    /// What else is known.
    pub evidence: Evidence<F::Answer>,
}

/// What may be done about an unsettled call now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan<A> {
    Send,
    LookUp,
    /// Ask which account the configured credential is of.
    Identify,
    WaitUntil(u64),
    Settle(Settlement<A>),
}

impl<F: Domain> ProviderCall<F> {
    /// Whether some send may have been executed.
    pub fn in_doubt(&self) -> bool {
        matches!(self.state, CallState::InFlight | CallState::Unknown)
    }

    /// Until when nobody believes that it was not executed, in ms since the epoch: the provider has failed while it executed,
    /// or may have.
    pub fn quarantined_until_ms(&self, ctx: &Context<F::Settings>) -> Option<u64> {
        let is_open = !matches!(self.state, CallState::Settled(_));
        let at_ms = self.evidence.failed_at_ms.max(self.evidence.unheard_at_ms).filter(|_| is_open)?;
        Some(at_ms.saturating_add(ctx.times.quarantine_ms))
    }

    /// Why a person must look: while it is not settled, or where what it has made can't be asked for.
    pub fn needs_review(&self) -> Option<&str> {
        let is_open = !matches!(self.state, CallState::Settled(_));
        let away = self.evidence.sent_to.as_ref().and_then(|sent_to| sent_to.away.as_ref());
        away.or(self.evidence.needs_review.as_ref().filter(|_| is_open)).map(String::as_str)
    }

    /// Whether the configured credential is not the one with which it was sent: it may be another account's.
    fn may_be_away(&self, ctx: &Context<F::Settings>) -> bool {
        let sent_to = self.evidence.sent_to.as_ref();
        let has_changed = sent_to.is_some_and(|sent_to| sent_to.has_changed(ctx.credential(self.provider)));
        // What can have been executed nowhere may begin anywhere; what moves something must go where that is.
        let is_free =
            self.was_refused_everywhere() && self.provider.moves(self.kind, &self.request).is_none();
        has_changed && !is_free
    }

    /// Whether every send was refused with all of its copies: with a wrong key, for example.
    fn was_refused_everywhere(&self) -> bool {
        self.sends > 0 && self.evidence.refused_sends >= self.sends && self.state == CallState::Frozen
    }

    /// Whether the account is to be learned while the credential is there with which it was sent: once after each send that did
    /// not end it. Also one that was refused, unless with all of its copies: another one may have been executed. What can be found
    /// by the provider's id needs no more.
    fn must_learn_account(&self, ctx: &Context<F::Settings>) -> bool {
        let is_asked_now = |sent_to: &SentTo| sent_to.account.is_none() && sent_to.asked_after < self.sends;
        self.evidence.sent_to.as_ref().is_some_and(is_asked_now)
            && !self.was_refused_everywhere()
            && ctx.credential(self.provider).is_some()
            && self.tells_account()
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

    pub(crate) fn plan(&self, ctx: &Context<F::Settings>) -> Plan<F::Answer> {
        let may_be_away = self.may_be_away(ctx);
        let was_away = self.evidence.sent_to.as_ref().is_some_and(|sent_to| sent_to.away.is_some());
        // With the right credential back there is nothing to wait for.
        let waits = ctx.now_ms < self.next_try_at_ms && (may_be_away || !was_away);
        let Some(first_sent_at_ms) = self.first_sent_at_ms else {
            return if waits {
                Plan::WaitUntil(self.next_try_at_ms)
            } else if may_be_away {
                Plan::Identify
            } else {
                Plan::Send
            };
        };
        if self.retry_policy == RetryPolicy::AtMostOnce && self.in_doubt() {
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
        if self.retry_policy == RetryPolicy::AtMostOnce {
            return Plan::Send;
        }
        // A clock that went back must not open the window again: a time before the first send is outside it too.
        let in_window = ctx.now_ms >= first_sent_at_ms
            && ctx.now_ms - first_sent_at_ms < self.provider.window_ms(&ctx.times);
        let is_looked_up = self.answer_is_stored || self.evidence.closing.is_some();
        if in_window && !is_looked_up {
            Plan::Send
        } else if !self.provider.answers_questions() && self.is_refused_for_certain() {
            // No copy of the last send is on its way any more.
            let quiet_at_ms = self.last_sent_at_ms.unwrap_or(0).saturating_add(ctx.times.quiet_ms);
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

    /// Takes in how far the refusal of the send reaches that has just ended.
    fn is_refused(&mut self, scope: RefusalScope, ctx: &Context<F::Settings>) {
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
            RefusalScope::Send | RefusalScope::Key => {
                evidence.refused_sends = evidence.refused_sends.saturating_add(1);
            }
        }
    }

    /// Marks a send as begun.
    pub(crate) fn begin_send(&mut self, ctx: &Context<F::Settings>) {
        // One that is still in flight died with its run.
        if self.state == CallState::InFlight {
            self.is_unheard();
        }
        self.state = CallState::InFlight;
        self.goes_to(ctx);
        self.first_sent_at_ms.get_or_insert(ctx.now_ms);
        self.look_up = None;
        self.evidence.absent_at_ms = None;
        self.last_sent_at_ms = Some(self.last_sent_at_ms.unwrap_or(0).max(ctx.now_ms));
        self.sends = self.sends.saturating_add(1);
    }

    /// Notes with which credential it is sent.
    fn goes_to(&mut self, ctx: &Context<F::Settings>) {
        let Some(now) = ctx.credential(self.provider) else { return };
        match &mut self.evidence.sent_to {
            Some(sent_to) if sent_to.credential == now => (sent_to.asking, sent_to.away) = (false, None),
            sent_to => *sent_to = Some(SentTo::new(now)),
        }
    }

    /// Takes in what came of a send.
    pub(crate) fn take(&mut self, outcome: Outcome<F::Answer>, ctx: &Context<F::Settings>) {
        self.failures = self.failures.saturating_add(1);
        match outcome {
            // There is nothing to ask: the key says whether an earlier send was executed, once that has arrived or never will.
            Outcome::Definitive(reply)
                if self.maybe_executed && reply.result.is_refusal() && !self.provider.answers_questions() =>
            {
                self.is_refused(RefusalScope::Key, ctx);
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
            Outcome::Definitive(reply) if self.maybe_executed && reply.result.is_refusal() => {
                self.state = CallState::Unknown;
                self.answer_is_stored = true;
                // A used key would have said what is stored under it: until now nothing was executed.
                self.evidence.unheard_at_ms = None;
                self.try_again_after(ctx.backoff_ms(self.failures), ctx);
            }
            Outcome::Definitive(reply) => self.state = CallState::Settled(Settlement::Answered(reply)),
            Outcome::NotExecuted { retry_after_ms, scope, .. } => {
                self.is_refused(scope, ctx);
                // Only this send is known to have done nothing: an earlier doubt stays.
                self.state = if self.maybe_executed { CallState::Unknown } else { CallState::Frozen };
                self.try_again_after(
                    ctx.backoff_ms(self.failures).max(retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MAX_MS)),
                    ctx,
                );
            }
            Outcome::Unknown { answer_is_stored, .. } => {
                self.is_unheard();
                self.is_unknown(answer_is_stored, ctx);
            }
            Outcome::Indeterminate { answer_is_stored, .. } => {
                self.evidence.failed_at_ms = Some(ctx.now_ms);
                self.is_unknown(answer_is_stored, ctx);
            }
            Outcome::Unconfirmed(unconfirmed) => {
                self.keep(unconfirmed);
                self.is_unknown(true, ctx);
            }
            Outcome::LeftOpen(reply) => {
                self.is_unknown(true, ctx);
                self.close(reply, ctx);
            }
        }
    }

    /// The last send may have been executed, and how is not heard.
    fn is_unheard(&mut self) {
        self.maybe_executed = true;
        self.evidence.unheard_at_ms = self.last_sent_at_ms;
        self.evidence.doubted_at_ms = self.last_sent_at_ms;
    }

    /// A send ended without a definitive answer.
    fn is_unknown(&mut self, answer_is_stored: bool, ctx: &Context<F::Settings>) {
        self.state = CallState::Unknown;
        self.maybe_executed = true;
        self.evidence.doubted_at_ms = self.last_sent_at_ms;
        self.answer_is_stored |= answer_is_stored;
        self.try_again_after(ctx.backoff_ms(self.failures), ctx);
    }

    /// Keeps what the provider says that it has made.
    fn keep(&mut self, unconfirmed: Unconfirmed) {
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
                _ => Identity::Silent,
            };
            return self.take_identity(identity, ctx);
        }
        if let Some(sent_to) = &mut self.evidence.sent_to {
            sent_to.away = None;
        }
        // One that was still in flight died with its run.
        if self.state == CallState::InFlight {
            self.is_unheard();
        }
        self.state = CallState::Unknown;
        self.maybe_executed = true;
        let progress = self.look_up.take();
        let asked_at_ms = progress.as_ref().map_or(asked_at_ms, |first| first.asked_at_ms);
        let quiet_at_ms = self.last_sent_at_ms.unwrap_or(0).saturating_add(ctx.times.quiet_ms);
        let is_quiet = asked_at_ms >= quiet_at_ms;
        match look_up {
            LookUp::Found(reply) => self.state = CallState::Settled(Settlement::Answered(reply)),
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
        let (Some(now), Some(sent_to)) = (ctx.credential(self.provider), &mut self.evidence.sent_to) else {
            return;
        };
        (sent_to.asking, sent_to.asked_after) = (false, self.sends);
        let was_changed = sent_to.credential != now;
        match sent_to.take(identity, now) {
            Some(true) if was_changed => self.next_try_at_ms = ctx.now_ms,
            Some(true) => {}
            Some(false) | None => {
                self.failures = self.failures.saturating_add(1);
                let age_ms = ctx.now_ms.saturating_sub(self.last_sent_at_ms.unwrap_or(ctx.now_ms));
                let pause_ms = ctx.backoff_ms(self.failures.max(6)).max(age_ms / 8);
                self.try_again_after(pause_ms.min(AWAY_PAUSE_MAX_MS), ctx);
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

    fn look_again_later(&mut self, ctx: &Context<F::Settings>) {
        self.failures = self.failures.saturating_add(1);
        // What was made can stay open at the provider for hours: the longer it does, the rarer it is asked for.
        let age_ms = ctx.now_ms.saturating_sub(self.last_sent_at_ms.unwrap_or(0));
        let delay_ms = ctx.backoff_ms(self.failures.max(6)).max(age_ms / 8);
        let most_ms = match self.provider.answers_questions() {
            true => LOOK_UP_PAUSE_MAX_MS,
            false => CLOSE_PAUSE_MAX_MS,
        };
        self.try_again_after(delay_ms.min(most_ms), ctx);
    }

    fn try_again_after(&mut self, delay_ms: u64, ctx: &Context<F::Settings>) {
        self.next_try_at_ms = ctx.now_ms.saturating_add(delay_ms.max(1));
    }
}
