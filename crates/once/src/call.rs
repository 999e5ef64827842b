//! Foreign calls as data: frozen before the first send, settled once, and in between never called a failure.
//!
//! ```text
//!          mark_sending          record: definitive
//!  Frozen ──────────► InFlight ─────────────────────► Settled(Answered)
//!    ▲                 │  │ ▲
//!    │  not executed   │  │ └─ mark_sending: the same bytes, the same derived key, inside the provider's window
//!    └─────────────────┘  │
//!          no answer, or the run died
//!                         ▼
//!                      Unknown ── past the window, or the answer can't change ──► look-up, page by page
//!                         │                                          found ► Settled(Answered)
//!                         │                        absent after a quiet time ► Settled(NotExecuted)
//!                         └── at most once ────────────────────────────────► Settled(NeedsReview)
//! ```
//!
//! A provider tells by its refusals, too: past the window a call is not executed if every send was [refused](RefusalScope) with certainty.
//! With credentials that are refused nothing could be looked up, and others may be another account's.
//!
//! Else it is looked up past the window from any state in which a send has begun: also in flight, with a run that died. A refusal of the request
//! settles nothing while an earlier send may have been executed.

mod looking_up;
mod sending;

use super::account::{Identity, SentTo};
use super::context::Context;
use super::domain::{Answer, CallKind, Domain};
pub use super::request::FrozenRequest;
use super::skip::{is_false, is_zero};
use serde::{Deserialize, Serialize};

/// Whether a call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPolicy {
    /// The provider executes it once per derived key: retry freely inside its [window](super::domain::Provider::window_ms), and look up what became of
    /// it afterwards, if it can be asked.
    IdempotentByKey,
    /// Nothing protects a second send: it is tried once. An outcome that is not known settles it at once as [`Settlement::NeedsReview`], also where the
    /// provider could be asked: the flow goes on, and to tell somebody is the flow's part, by a job for example. So does a refusal of one copy, such as a
    /// rate limit's: another copy may have come through. What was refused with all of its copies, or never left ([`RefusalScope::Send`],
    /// [`RefusalScope::NoClient`]), is sent again for as long as that goes on; what was left open is canceled first. What the provider says to have
    /// ([`Outcome::Unconfirmed`], a 202) is no unknown outcome: it is never sent again, and waits for the provider's word, by a look-up or
    /// [told](super::object_state::ObjectState::settle_by_provider).
    ///
    /// A provider that keeps no keys and can be asked is none for this: it is [`IdempotentByKey`](Self::IdempotentByKey) with a
    /// [window](super::domain::Provider::window_ms) of 0 ms. A call is sent once, looked up, and settled as not executed where it is nowhere.
    AtMostOnce,
}

/// What a flow wants done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallSpec<F: Domain> {
    /// Its name within the operation: all that says later that it was made. It is the same in each run and in each release, and nothing random or
    /// counted is in it.
    pub name: String,
    /// What it does.
    pub kind: CallKind<F>,
    /// Where it goes, now and at every retry.
    pub provider: F::Provider,
    /// Whether it may be sent again.
    pub retry_policy: RetryPolicy,
    /// The idempotency key for the provider, made from our own ids: the object's, the key's, the call's name. All objects share the provider's account,
    /// so it must be no other object's.
    pub provider_key: String,
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
    /// The provider's last word on this send.
    Definitive(ProviderReply<A>),
    /// Its last word under this key: it has stored it and gives it again, whatever other send of the key is still to come.
    Stored(ProviderReply<A>),
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
    /// This send, which never left us: a client alone has what it takes, and none was there. One that comes again need not wait.
    NoClient,
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
            Self::Definitive(reply) | Self::Stored(reply) => reply.result.name(),
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
    /// It says no, and a send that is still on its way could change that. No word of a provider that [cannot be asked](super::domain::Provider::answers_questions).
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
    /// This was the last page, and it was on none. No word of a provider that [cannot be asked](super::domain::Provider::answers_questions).
    Absent,
    /// Which account the configured credential is of: asked for in the place of a look-up.
    Identity(Identity),
    /// It was not asked: a client alone has what it takes, and none was there. One that comes again need not wait.
    NoClient {
        /// For the log.
        reason: String,
    },
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
            Self::NoClient { .. } => "no_client",
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
    /// When the newest send began that was not refused for certain, in ms since the epoch.
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
    /// The last try came to nothing because no client was there. The pause since then is for tries without one.
    #[serde(skip_serializing_if = "is_false")]
    pub needs_client: bool,
    /// At which account the provider got it, or must get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<SentTo>,
    /// The provider has told by itself how it ended: an answer that comes after that says nothing new.
    #[serde(skip_serializing_if = "is_false")]
    pub is_told: bool,
    /// An operator has settled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
    /// What a send was refused with while an earlier one was in doubt, by a provider that can be asked: the reason why nothing was done, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<ProviderReply<A>>,
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
            needs_client: false,
            sent_to: None,
            is_told: false,
            by_hand: None,
            refusal: None,
        }
    }
}

/// Who has settled a call, and why: its settlement is inferred, not the provider's word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByHand {
    /// The operator.
    pub by: String,
    /// Why, in their words. Empty once it was erased.
    pub reason: String,
    /// In ms since the epoch.
    pub at_ms: u64,
    /// The button's number: pressed twice it settles once.
    pub button: u64,
    /// What the provider has told since contradicts it, and a person was told so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_contradicted: bool,
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
    #[serde(rename = "derived_key")]
    pub provider_key: String,
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
    /// A send that has ended, or died, may have been executed. Stays true until the call is settled.
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
    /// Drops what was sent and what the provider said of it in its own words, once that is settled: what came of it stays.
    pub fn forget_content(&mut self) {
        let CallState::Settled(settlement) = &mut self.state else { return };
        self.request.body.clear();
        let answered = match settlement {
            Settlement::Answered(reply) => Some(reply),
            Settlement::NotExecuted | Settlement::NeedsReview => None,
        };
        let replies = answered.into_iter().chain(self.evidence.closing.as_mut());
        replies.for_each(|reply| reply.result.forget_text());
    }

    /// Whether it has its end.
    pub const fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Settled(_))
    }

    /// Whether some send may have been executed.
    pub fn in_doubt(&self) -> bool {
        matches!(self.state, CallState::InFlight | CallState::Unknown)
    }

    /// Until when nobody believes that it was not executed, in ms since the epoch: the provider has failed while it executed,
    /// or may have.
    pub fn quarantined_until_ms(&self, ctx: &Context<F::Settings>) -> Option<u64> {
        let is_open = !self.is_settled();
        let at_ms = self.evidence.failed_at_ms.max(self.evidence.unheard_at_ms).filter(|_| is_open)?;
        Some(at_ms.saturating_add(ctx.times.quarantine_ms))
    }

    /// Why a person must look: while it is not settled, or where what it has made can't be asked for.
    pub fn needs_review(&self) -> Option<&str> {
        let is_open = !self.is_settled();
        let away = self.evidence.sent_to.as_ref().and_then(|sent_to| sent_to.away.as_ref());
        away.or(self.evidence.needs_review.as_ref().filter(|_| is_open)).map(String::as_str)
    }
}
